"""What is particular to TibrvMsg vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from wireloom.errors import DecodeError
from wireloom.formats import get
from wireloom.formats._tib.scalars import put_text
from wireloom.formats.tibrv import FORMAT, Field, FieldType
from wireloom.formats.tibrv import Message as TibrvMsg
from wireloom.formats.tibrv.jsonform import field_to_dict
from wireloom.messages import Json, Message
from wireloom.testing.vectors import Case
from wireloom.testing.vectors.tib import Family, family_of, need, without
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["FAMILY", "TibrvFamily"]


class TibrvFamily(Family):
    """TibrvMsg cases, read in the standard dialect."""

    format: ClassVar[str] = "tibrv"

    def options(self, case: Case) -> dict[str, Any]:
        """The standard dialect: some malformed cases are good in the document's."""
        return {"dialect": "standard"}

    def framer(self) -> Any:
        """A framer for the standard dialect."""
        return FORMAT.framer(limits=DEFAULT_LIMITS, strict=False, dialect="standard")

    def fields(self, message: Message) -> Sequence[Any]:
        """The fields of a decoded message."""
        assert isinstance(message, TibrvMsg)
        need(message.dialect == "standard", f"read in the {message.dialect} dialect")
        return message.fields

    def view(self, field: Any) -> Json:
        """A field with all the keys that a case may have."""
        assert isinstance(field, Field)
        out = field_to_dict(field)
        out["size"] = field.size
        if field.type == FieldType.MESSAGE:
            out["fields"] = field.fields
        elif field.type == FieldType.ARRAY_MSG:
            out["messages"] = [message.fields for message in field.messages]
        elif field.type not in (FieldType.OPAQUE, FieldType.ENCRYPTED):
            out["raw"] = field.data.hex()
        if field.type == FieldType.XML:
            put_text(out, "value", field.document())
        return out

    def read_all(self, message: Message) -> None:
        """Unpack every xml field, which decoding alone does not."""
        for index, field in enumerate(self.fields(message)):
            if field.type == FieldType.XML:
                try:
                    field.document()
                except DecodeError as error:
                    error.within(f"fields[{index}]")
                    raise

    def build(self, case: Case) -> Message:
        """The message made from the case's fields, by value wherever that says it all."""
        return FORMAT.from_dict({"format": "tibrv", "fields": [_plain(f) for f in case["fields"]]})

    def is_single(self, expected: Json) -> bool:
        """Whether the reals of a field have four bytes, so that JSON has fewer digits."""
        return expected["type"] == "array_f32" or super().is_single(expected)

    def check_unwrapped(self, case: Case, message: Message) -> None:
        """Compare the message that the first field carries."""
        assert isinstance(message, TibrvMsg)
        carried = message.carried()
        if carried is None:
            need("unwrapped" not in case, "nothing is carried")
            return
        need("unwrapped" in case, f"a {carried.format} is carried")
        inner = case["unwrapped"]
        need(carried.format == inner["format"], f"a {carried.format} is carried")
        family = family_of(inner["format"])
        family.check({**inner, "hex": carried.data.hex()})
        seen: list[str] = []

        def unwrap(name: str, data: bytes) -> Message:
            seen.append(name)
            return family.decode(inner, data)

        by_option = get("tibrv").decode(
            message.encode(), limits=DEFAULT_LIMITS, strict=False, unwrap=unwrap
        )
        need(seen == [carried.format], "unwrapping asks for another format")
        need(by_option.format == family.format, f"unwrapping gives a {by_option.format}")
        need([data for _, data in message.payloads()][:1] == [carried.data], "no such payload")


def _plain(expected: Json) -> Json:
    """A field's object without the hex that the value already states."""
    if "fields" in expected:
        nested = [_plain(inner) for inner in expected["fields"]]
        return without({**expected, "fields": nested}, ("size",))
    if "messages" in expected:
        messages = [[_plain(inner) for inner in fields] for fields in expected["messages"]]
        return without({**expected, "messages": messages}, ("size",))
    text = expected.get("value")
    if expected["type"] == "string" and isinstance(text, str):
        hidden = expected["size"] != len(text.encode()) + 1
        return expected if hidden else without(expected, ("raw", "size"))
    return without(expected, ("raw",))


FAMILY = TibrvFamily()
