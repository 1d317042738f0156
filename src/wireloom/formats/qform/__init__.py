"""SASS QForm: market-data messages of ids and bytes, which a dictionary explains.

>>> import wireloom
>>> from wireloom.formats import qform
>>> cfile = "BID { CLASS_ID 10720; DATA_TYPE grocery; }"
>>> data = bytes.fromhex("11111112 0000000c e9e0 3ff2000000000000 13 00")
>>> message = wireloom.decode(data, "qform", dictionary=cfile)
>>> message["BID"].value, message["BID"].hint
(Decimal('1.125'), 19)
>>> qform.build(qform.load(cfile), {"BID": "1.125"}) == message
True

Without a dictionary only the four system fields are known:

>>> header = bytes.fromhex("11111112 00000004 cfa1 0001")
>>> wireloom.decode(header, "qform")["MSG_TYPE"].meaning
'UPDATE'
"""

from __future__ import annotations

from wireloom.formats._tib.values import BLANK, Blank, Date, Resolution, Time
from wireloom.formats.qform.build import Partial, build
from wireloom.formats.qform.codes import MsgType, RecStatus
from wireloom.formats.qform.dictionary.loading import load
from wireloom.formats.qform.dictionary.model import Dictionary, Entry, TssType
from wireloom.formats.qform.fields import Field
from wireloom.formats.qform.format import FORMAT, Qform
from wireloom.formats.qform.message import Message, decode
from wireloom.formats.qform.options import SYSTEM

__all__ = [
    "BLANK",
    "FORMAT",
    "SYSTEM",
    "Blank",
    "Date",
    "Dictionary",
    "Entry",
    "Field",
    "Message",
    "MsgType",
    "Partial",
    "Qform",
    "RecStatus",
    "Resolution",
    "Time",
    "TssType",
    "build",
    "decode",
    "load",
]
