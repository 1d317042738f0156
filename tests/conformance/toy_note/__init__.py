"""A format of self-describing messages in one folder: names and values. See `test_toy_format.py`.

A note is a magic of four bytes, the bytes of its fields in two (little-endian), and the fields:
a type, the bytes of the name in one, of the value in two, and both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, ClassVar

from wireloom.errors import DecodeError, EncodeError, FrameTooLargeError, TruncatedError
from wireloom.format import Format, Option, TypeInfo
from wireloom.framing import Framer, Scanner
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import Limits

MAGIC = b"\xf0NOT"
HEADER_LEN = 6


class NoteType(IntEnum):
    WORDS = 1
    NUMBER = 2
    BLOB = 3


@dataclass(frozen=True, slots=True)
class NoteField:
    name: str
    type: NoteType
    value: str | int | bytes

    def data(self) -> bytes:
        if isinstance(self.value, int):
            return self.value.to_bytes(8, "little", signed=True)
        return self.value.encode() if isinstance(self.value, str) else self.value

    def encode(self) -> bytes:
        name, data = self.name.encode(), self.data()
        return bytes([self.type, len(name)]) + len(data).to_bytes(2, "little") + name + data


@dataclass(frozen=True, slots=True)
class Note(Message):
    format: ClassVar[str] = "note"
    fields: tuple[NoteField, ...] = ()

    @property
    def type_name(self) -> str:
        return "NOTE"

    def encode(self) -> bytes:
        body = b"".join(item.encode() for item in self.fields)
        return MAGIC + len(body).to_bytes(2, "little") + body

    def to_dict(self) -> Json:
        fields = [
            {"name": item.name, "type": item.type.name, "data": item.data().hex()}
            for item in self.fields
        ]
        return {"format": self.format, "fields": fields}

    def outline(self) -> Node:
        return FORMAT.outline(self.encode(), limits=Limits(), strict=False)

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        for item in self.fields:
            if isinstance(item.value, bytes):
                yield item.name, item.value


def read_value(kind: int, data: bytes, at: int) -> str | int | bytes:
    try:
        if kind == NoteType.NUMBER and len(data) == 8:
            return int.from_bytes(data, "little", signed=True)
        if kind == NoteType.WORDS:
            return data.decode()
        if kind == NoteType.BLOB:
            return data
    except UnicodeDecodeError:
        pass
    raise DecodeError("no such value", offset=at, code="value")


def read_fields(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int, NoteField]]:
    while pos < end:
        if end - pos < 4:
            raise DecodeError("a field is cut", offset=pos, code="field")
        kind, size = data[pos], data[pos + 1]
        start = pos + 4 + size
        stop = start + int.from_bytes(data[pos + 2 : pos + 4], "little")
        if stop > end:
            raise DecodeError("a field is longer than its message", offset=pos, code="field")
        value = read_value(kind, bytes(data[start:stop]), start)
        try:
            name = bytes(data[pos + 4 : start]).decode()
        except UnicodeDecodeError:
            raise DecodeError("no such name", offset=pos + 4, code="name") from None
        yield pos, stop, NoteField(name, NoteType(kind), value)
        pos = stop


class Rules:
    has_magic = True

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        if data[pos : min(pos + 4, end)] != MAGIC[: end - pos]:
            raise DecodeError("no magic", offset=pos, code="magic")
        if end - pos < HEADER_LEN:
            raise TruncatedError(needed=HEADER_LEN, available=end - pos, offset=pos)
        return HEADER_LEN + int.from_bytes(data[pos + 4 : pos + 6], "little")

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        for count, _ in enumerate(read_fields(bytes(data[:end]), pos + HEADER_LEN, end), 1):
            if steps is not None and count >= steps:
                break
        return True

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        found = data.find(MAGIC, pos, end)
        if found >= 0:
            return found
        for size in (3, 2, 1):
            if end - size >= pos and data[end - size : end] == MAGIC[:size]:
                return end - size
        return end


class NoteFormat(Format):
    name = "note"
    title = "Note"
    kind = "message"
    summary = "Made up for the tests: names and values."
    magic = MAGIC

    options = (
        Option("shout", "show names in capitals", default=False),
        Option("skip", "names of fields to leave out", type="list"),
    )

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        size = Rules().measure(data, 0, len(data))
        if size > limits.max_frame:
            raise FrameTooLargeError(size, limits.max_frame, offset=4)
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        if strict and size < len(data):
            raise DecodeError("bytes after the note", offset=size, code="trailing")
        fields = [item for _, _, item in read_fields(data, HEADER_LEN, size)]
        kept = [item for item in fields if item.name not in options.get("skip", ())]
        if options.get("shout"):
            kept = [replace(item, name=item.name.upper()) for item in kept]
        return Note(tuple(kept))

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        return Scanner(self.name, Rules(), limits, offset)

    def detect(self, data: bytes) -> int:
        return 98 if data.startswith(MAGIC) else 0

    def from_dict(self, d: Json) -> Message:
        try:
            return Note(
                tuple(
                    NoteField(
                        each["name"],
                        NoteType[each["type"]],
                        read_value(NoteType[each["type"]], bytes.fromhex(each["data"]), 0),
                    )
                    for each in d["fields"]
                )
            )
        except (KeyError, TypeError, ValueError, AttributeError, DecodeError) as error:
            raise EncodeError(f"no such note: {error}") from None

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        root = Node("NOTE", 0, len(data))
        try:
            self.decode(data, limits=limits, strict=strict)
            size = Rules().measure(data, 0, len(data))
            root = Node("NOTE", 0, size)
            root.add("magic", 0, 4)
            root.add("length", 4, 2, size - HEADER_LEN)
            for start, stop, item in read_fields(data, HEADER_LEN, size):
                root.add(item.name, start, stop - start, item.value)
        except DecodeError as error:
            root.error = error.reason
        return root

    def types(self) -> Sequence[TypeInfo]:
        return [TypeInfo(each, each.name, "a field") for each in NoteType]

    def samples(self) -> Mapping[str, bytes]:
        fields = (
            NoteField("what", NoteType.WORDS, "tea"),
            NoteField("cups", NoteType.NUMBER, -3),
            NoteField("leaf", NoteType.BLOB, b"\x00\x01"),
        )
        return {"empty": Note().encode(), "tea": Note(fields).encode()}


FORMAT = NoteFormat()
