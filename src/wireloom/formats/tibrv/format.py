"""TibrvMsg as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wireloom.columns import Columns
from wireloom.errors import DecodeError
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats._tib.headers import HeaderRules
from wireloom.formats.tibrv import codec, jsonform, show
from wireloom.formats.tibrv.message import Message
from wireloom.formats.tibrv.samples import samples
from wireloom.formats.tibrv.types import FieldType
from wireloom.formats.tibrv.walk import HEADER, HEADER_LEN, MAGIC, MAX_DEPTH, walk
from wireloom.framing import Scanner
from wireloom.messages import Json
from wireloom.messages import Message as BaseMessage
from wireloom.outline import Node
from wireloom.wire import Limits

__all__ = ["FORMAT", "TibrvFormat", "TibrvRules"]

_SUMMARIES = {
    FieldType.MESSAGE: "nested message, with its own length and magic",
    FieldType.SUBJECT: "segments of a dotted subject",
    FieldType.DATETIME: "seconds since 1970 UTC and microseconds",
    FieldType.OPAQUE: "any bytes; may carry a TibMsg or QForm",
    FieldType.STRING: "text with a NUL",
    FieldType.BOOLEAN: "one byte 0 or 1; any integer that is not zero is true",
    FieldType.IPDATA: "IPv4 address of 4 bytes or port of 2, in network order",
    FieldType.INT: "signed, of 1, 2, 4 or 8 bytes",
    FieldType.UINT: "unsigned, of 1, 2, 4 or 8 bytes",
    FieldType.REAL: "IEEE 754 of 4 or 8 bytes",
    FieldType.ENCRYPTED: "any bytes, encrypted by the sender",
    FieldType.XML: "the length of a text and its zlib stream",
    FieldType.ARRAY_STR: "a count and as many strings, each with a NUL",
    FieldType.ARRAY_MSG: "a count and as many whole messages",
}


class TibrvRules(HeaderRules):
    """How a stream of messages is cut."""

    header = HEADER

    def __init__(self, dialect: codec.DialectOption = "auto") -> None:
        self._readings = {"auto": (False, True), "standard": (False,), "document": (True,)}[dialect]

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the fields fill the frame exactly, nested ones too; no fields prove nothing.

        A frame in which only the content of a field is broken may be whole: what follows decides.
        """
        problem: DecodeError | None = None
        for deep in (True, False):
            for document in self._readings:
                try:
                    return _fits(data, pos, end, steps, document, deep)
                except DecodeError as error:
                    problem = problem or error
        assert problem is not None  # there is at least one reading
        raise problem


def _fits(
    data: bytes | bytearray, pos: int, end: int, steps: int | None, document: bool, deep: bool
) -> bool:
    count = 0
    every = Limits(max_fields=end - pos + 1, max_depth=MAX_DEPTH)
    for _ in walk(data, pos + HEADER_LEN, end, every, document=document, deep=deep):
        if count == steps:
            return False
        count += 1
    return deep and count > 0


class TibrvFormat(Format):
    """TibrvMsg: TIBCO Rendezvous' self-describing message."""

    name = "tibrv"
    title = "TibrvMsg"
    kind = "message"
    rank = 60
    magic = MAGIC
    summary = "TIBCO Rendezvous' self-describing message; often the envelope of a TibMsg or QForm."
    options = (
        Option(
            "dialect",
            "how one-byte sizes are read: as the wire has them, or as the document prints them",
            choices=codec.DIALECTS,
            default="auto",
        ),
        Option(
            "unwrap",
            "give the TibMsg or QForm that the first field carries, instead of the envelope",
            default=False,
            is_for_tables=False,
        ),
    )

    def decode(
        self,
        data: bytes,
        *,
        limits: Limits,
        strict: bool,
        dialect: codec.DialectOption = "auto",
        unwrap: bool | codec.Unwrap = False,
        **options: Any,
    ) -> BaseMessage:
        """The message at the start of `data`; bytes after it are ignored unless `strict`.

        `unwrap` may be a function that decodes a carried message, given its format's name and its
        bytes; True takes the format's own decoder, without options.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        message = codec.decode(data, limits, strict=strict, dialect=dialect)
        if not unwrap:
            return message

        def by_name(name: str, carried: bytes) -> BaseMessage:
            # A format does not import another one; the registry finds it when it occurs.
            from wireloom.formats import get

            return get(name).decode(carried, limits=limits, strict=strict)

        return codec.unwrapped(message, unwrap if callable(unwrap) else by_name)

    def framer(
        self,
        *,
        limits: Limits,
        strict: bool,
        offset: int = 0,
        dialect: codec.DialectOption = "auto",
        **options: Any,
    ) -> Scanner:
        """A new framer for one stream."""
        return Scanner(self.name, TibrvRules(dialect), limits, offset)

    def detect(self, data: bytes) -> int:
        """Sure if the magic is there and the length fits, less so if bytes are missing."""
        return HEADER.detect(data)

    def from_dict(self, d: Json) -> Message:
        """The message that `to_dict` described.

        Raises:
            EncodeError: the object is not such a message.
        """
        return jsonform.message_from_dict(d)

    def outline(
        self,
        data: bytes,
        *,
        limits: Limits,
        strict: bool,
        dialect: codec.DialectOption = "auto",
        **options: Any,
    ) -> Node:
        """The field tree, up to the point where it cannot be read."""
        return show.outline(data, limits, strict=strict, dialect=dialect)

    def types(self) -> Sequence[TypeInfo]:
        """The field types."""
        return [TypeInfo(code, code.name, _SUMMARIES.get(code, _array(code))) for code in FieldType]

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.tibrv.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """One canonical message per type, and some with several fields."""
        return samples()


def _array(code: FieldType) -> str:
    return f"{code.name.removeprefix('ARRAY_').lower()} numbers back to back"


FORMAT = TibrvFormat()
