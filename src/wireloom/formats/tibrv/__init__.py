"""TibrvMsg: TIBCO Rendezvous' self-describing message, often the envelope of a TibMsg or QForm.

>>> from wireloom.formats import tibrv
>>> message = tibrv.build({"data": {"field": "value"}})
>>> tibrv.decode(message.encode())["data"]["field"].value
'value'
"""

from __future__ import annotations

from wireloom.formats.tibrv.build import build
from wireloom.formats.tibrv.codec import decode, unwrapped
from wireloom.formats.tibrv.format import FORMAT
from wireloom.formats.tibrv.message import Carried, Field, Message
from wireloom.formats.tibrv.types import FieldType, Form

__all__ = [
    "FORMAT",
    "Carried",
    "Field",
    "FieldType",
    "Form",
    "Message",
    "build",
    "decode",
    "unwrapped",
]
