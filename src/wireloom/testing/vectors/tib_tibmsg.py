"""What is particular to TibMsg vectors."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

from wireloom.formats.tibmsg import BLANK, FORMAT, Date, EnumNumber, Field, FieldType, Time
from wireloom.formats.tibmsg import Message as TibMsg
from wireloom.formats.tibmsg.jsonform import field_to_dict
from wireloom.messages import Json, Message
from wireloom.testing.vectors import Case
from wireloom.testing.vectors.tib import Family, Mismatch, need, without

__all__ = ["FAMILY", "TibMsgFamily"]

_LITERAL = ("string", "boolean", "real")
"""Types whose JSON value may stand for several byte strings."""


class TibMsgFamily(Family):
    """TibMsg cases."""

    format: ClassVar[str] = "tibmsg"

    def fields(self, message: Message) -> Sequence[Any]:
        """The fields of a decoded message."""
        assert isinstance(message, TibMsg)
        return message.fields

    def view(self, field: Any) -> Json:
        """A field with all the keys that a case may have."""
        assert isinstance(field, Field)
        out = field_to_dict(field)
        out["size"] = field.size
        if field.type == FieldType.MESSAGE:
            out["fields"] = field.fields
        elif field.type != FieldType.OPAQUE:
            out["raw"] = field.data.hex()
        if "md" in out:
            _check_typed(field, out["md"])
        return out

    def build(self, case: Case) -> Message:
        """The message made from the case's fields, by value wherever that says it all."""
        return FORMAT.from_dict({"format": "tibmsg", "fields": [_plain(f) for f in case["fields"]]})


def _plain(expected: Json) -> Json:
    """A field's object without the hex that the value already states."""
    if "fields" in expected:
        nested = [_plain(inner) for inner in expected["fields"]]
        return without({**expected, "fields": nested}, ("size",))
    text = expected.get("value")
    if expected["type"] == "string" and isinstance(text, str):
        hidden = expected["size"] != len(text.encode()) + 1
        return expected if hidden else without(expected, ("raw", "size"))
    return without(expected, ("raw",))


def _check_typed(field: Field, md: Json) -> None:
    """See that the Python value is what the typed view says."""
    value = field.value
    kind = md["type"]
    if kind == "decimal":
        scaled = field.scaled
        need(scaled is not None and [*scaled] == [md["ival"], md["dec"]], f"scaled as {scaled}")
        text = "" if value is BLANK else format(value, "f") if isinstance(value, Decimal) else None
        plain = {"Inf": "Infinity", "-Inf": "-Infinity"}.get(md["text"], md["text"])
        need(text == plain, f"the decimal is {value!r}")
    elif kind in ("date", "time"):
        need(isinstance(value, Date if kind == "date" else Time), f"the {kind} is {value!r}")
        need(value.text == md["text"], f"the {kind} is {value!r}")
    elif kind == "enum":
        need(isinstance(value, EnumNumber) and value == md["val"], f"the enum is {value!r}")
    elif kind == "string":
        need(isinstance(value, str) and field.is_unparsed, f"the text is {value!r}")
    else:
        raise Mismatch(f"unknown typed view {kind!r}")


FAMILY = TibMsgFamily()
