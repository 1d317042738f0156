"""TibMsg: a self-describing market-data message with hints, partial updates and arrays.

>>> from decimal import Decimal
>>> from wireloom.formats import tibmsg
>>> data = tibmsg.build({"BID": Decimal("0.29"), "SYM": "ABC"}).encode()
>>> tibmsg.decode(data)["BID"].value
Decimal('0.29')
"""

from __future__ import annotations

from wireloom.formats._tib.values import (
    BLANK,
    Blank,
    Date,
    EnumNumber,
    EnumText,
    Resolution,
    Time,
)
from wireloom.formats.tibmsg.build import build
from wireloom.formats.tibmsg.fields import Field
from wireloom.formats.tibmsg.format import FORMAT
from wireloom.formats.tibmsg.message import Message, decode
from wireloom.formats.tibmsg.types import FieldType, Form, Hint

__all__ = [
    "BLANK",
    "FORMAT",
    "Blank",
    "Date",
    "EnumNumber",
    "EnumText",
    "Field",
    "FieldType",
    "Form",
    "Hint",
    "Message",
    "Resolution",
    "Time",
    "build",
    "decode",
]
