"""TibMsg as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wireloom.columns import Columns
from wireloom.errors import DecodeError
from wireloom.format import Format, TypeInfo
from wireloom.formats._tib.headers import HeaderRules
from wireloom.formats.tibmsg import jsonform, message, show
from wireloom.formats.tibmsg.samples import samples
from wireloom.formats.tibmsg.types import FieldType
from wireloom.formats.tibmsg.walk import HEADER, HEADER_LEN, MAGIC, MAX_DEPTH, walk
from wireloom.framing import Scanner
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import Limits

__all__ = ["FORMAT", "TibMsgFormat", "TibMsgRules"]

_SUMMARIES = {
    FieldType.MESSAGE: "nested message: fields only, without the header",
    FieldType.STRING: "text with a NUL; a hint makes it a date, a time or an enum's text",
    FieldType.OPAQUE: "any bytes",
    FieldType.BOOLEAN: "one byte 0 or 1; any integer that is not zero is true",
    FieldType.INT: "signed, of 1, 2, 4 or 8 bytes",
    FieldType.UINT: "unsigned, of 1, 2, 4 or 8 bytes",
    FieldType.REAL: "IEEE 754 of 4 or 8 bytes; a hint makes it a decimal or a blank",
    FieldType.ARRAY: "scalars of one type and size, which the hint states",
    FieldType.PARTIAL: "a patch; the hint's size is the offset where it goes",
    FieldType.IPDATA: "IPv4 address of 4 bytes or port of 2, in network order",
}


class TibMsgRules(HeaderRules):
    """How a stream of messages is cut."""

    header = HEADER

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the fields fill the frame exactly, nested ones too; an empty body proves nothing.

        A frame in which only a nested message is broken may be whole: what follows it decides.
        """
        every = Limits(max_fields=end - pos + 1, max_depth=MAX_DEPTH)
        count = 0
        try:
            for _ in walk(data, pos + HEADER_LEN, end, every):
                if count == steps:
                    return False
                count += 1
        except DecodeError:
            for _ in walk(data, pos + HEADER_LEN, end, every, deep=False):
                pass
            return False
        return count > 0


class TibMsgFormat(Format):
    """TibMsg: a self-describing market-data message."""

    name = "tibmsg"
    title = "TibMsg"
    kind = "message"
    rank = 70
    magic = MAGIC
    summary = "Self-describing market-data message with hints, partial updates and arrays."

    def decode(
        self, data: bytes, *, limits: Limits, strict: bool, **options: Any
    ) -> message.Message:
        """The message at the start of `data`; bytes after it are ignored unless `strict`.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        return message.decode(data, limits, strict=strict)

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Scanner:
        """A new framer for one stream."""
        return Scanner(self.name, TibMsgRules(), limits, offset)

    def detect(self, data: bytes) -> int:
        """Sure if the magic is there and the length fits, less so if bytes are missing."""
        return HEADER.detect(data)

    def from_dict(self, d: Json) -> message.Message:
        """The message that `to_dict` described.

        Raises:
            EncodeError: the object is not such a message.
        """
        return jsonform.message_from_dict(d)

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        """The field tree, up to the point where it cannot be read."""
        return show.outline(data, limits, strict=strict)

    def types(self) -> Sequence[TypeInfo]:
        """The field types."""
        return [TypeInfo(code, code.name, _SUMMARIES[code]) for code in FieldType]

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.tibmsg.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """One canonical message per type, and some with several fields."""
        return samples()


FORMAT = TibMsgFormat()
