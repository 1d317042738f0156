"""A whole format in one folder: declaration, codec, framing. See `test_toy_format.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    InvalidFieldError,
    TruncatedError,
)
from wireloom.format import Format, TypeInfo
from wireloom.framing import Framer, Scanner
from wireloom.layout import Bits, Blob, Packet, Rest, When, Word, describe, optional, packet
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import Limits

MAGIC = b"\x7e\x5a"
HEADER_LEN = 5

HEADER = (
    Word("magic", size=2, const=0x7E5A, doc="magic"),
    Word("type", size=1, derived="code", doc="packet type"),
    Word("length", size=2, derived="frame", doc="bytes of the packet"),
)


class Colour(IntEnum):
    RED = 1
    GREEN = 2


class Pace(IntEnum):
    SLOW = 1


class ToyPacket(Packet):
    __slots__ = ()
    format = "toy"


@packet(code=1, name="SAY", parts=(*HEADER, Rest("text", doc="what is said")))
class Say(ToyPacket):
    """Says something."""

    text: bytes = b""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """What is said, which may be a message of another format."""
        if self.text:
            yield "text", self.text


@packet(
    code=2,
    name="MOVE",
    parts=(
        *HEADER,
        Word("x", size=2, doc="to the right"),
        Word("style", Bits("colour", 4, 7, Colour, least=1), Bits("speed", 0, 3), size=1),
    ),
)
class Move(ToyPacket):
    """Moves somewhere."""

    x: int
    colour: Colour | int
    speed: int = 0


@packet(
    code=3,
    name="HOP",
    parts=(
        *HEADER,
        Word("flags", size=1, doc="1: a stamp follows; 2: it is a long one"),
        Blob("stamp", 4, when=When("flags", 1), doc="when"),
        optional(Word("since", order="little", doc="from"), Word("until", order="little")),
        Word("size", size=2, order="little", derived="len load"),
        Blob("load", "size", doc="what is carried"),
        Rest("tail", doc="whatever is left"),
    ),
)
class Hop(ToyPacket):
    """Hops, with conditional parts; which form it has is told by a flag, not by its header."""

    flags: int
    stamp: bytes | None = None
    since: int | None = None
    until: int | None = None
    load: bytes = b""
    tail: bytes = b""

    def flaw(self) -> tuple[str, str] | None:
        is_long = self.since is not None
        return None if bool(self.flags & 2) == is_long else ("flags", "says another form")


@packet(
    code=4,
    name="MARK",
    parts=(
        *HEADER,
        Word("source", size=1, doc="who marks, a field with the name of a column"),
        Word("speed", size=1, enum=Pace, doc="how fast, by name"),
        Word("x", size=4, doc="where, in more bytes than elsewhere"),
        Word("colour", Bits("colour", 0, 7, Colour), size=1),
        Word("sum", size=4, order="little", doc="of the bytes between"),
    ),
)
class Mark(ToyPacket):
    """Marks a place, with a sum that only the packet itself can check."""

    source: int
    speed: Pace | int = Pace.SLOW
    x: int
    colour: Colour | int
    sum: int

    def flaw(self) -> tuple[str, str] | None:
        is_right = self.sum == self.source + sum(self.x.to_bytes(4, "big")) + self.colour
        return None if is_right else ("sum", "is wrong")


PACKETS: dict[int, type[ToyPacket]] = {cls.code: cls for cls in (Say, Move, Hop, Mark)}


def read_packet(data: bytes | bytearray, pos: int, end: int, strict: bool) -> Packet:
    codec = PACKETS[data[pos + 2]].codec
    flags = pos + HEADER_LEN
    is_long = codec.has_long_form and flags < end and data[flags] & 2
    words = (max if is_long else min)(codec.forms)
    return codec.decode(data, pos, end, strict, words)  # type: ignore[arg-type]


class Rules:
    has_magic = True

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        if data[pos : min(pos + 2, end)] != MAGIC[: end - pos]:
            raise DecodeError("no magic", offset=pos, code="magic")
        if end - pos < HEADER_LEN:
            raise TruncatedError(needed=HEADER_LEN, available=end - pos, offset=pos)
        size = int.from_bytes(data[pos + 3 : pos + 5], "big")
        if data[pos + 2] not in PACKETS or size < HEADER_LEN:
            raise DecodeError("no such packet", offset=pos + 2, code="type")
        return size

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        read_packet(data, pos, end, False)
        return data[pos + 2] == Move.code  # any bytes can be said: that proves nothing

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        found = data.find(MAGIC, pos, end)
        if found < 0 and end - pos > 0 and data[end - 1] == MAGIC[0]:
            return end - 1
        return end if found < 0 else found


class Toy(Format):
    name = "toy"
    title = "Toy"
    kind = "transport"
    summary = "Made up for the tests."
    magic = MAGIC

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        size = Rules().measure(data, 0, len(data))
        if size > limits.max_frame:
            raise FrameTooLargeError(size, limits.max_frame, offset=3)
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        if strict and size < len(data):
            raise InvalidFieldError("bytes after the packet", offset=size, code="trailing")
        return read_packet(data, 0, size, strict)

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        return Scanner(self.name, Rules(), limits, offset)

    def detect(self, data: bytes) -> int:
        return 99 if data.startswith(MAGIC) else 0

    def from_dict(self, d: Json) -> Message:
        for cls in PACKETS.values():
            if cls.name == d.get("packet"):
                return cls.from_dict(d)
        raise EncodeError("toy has no such packet")

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        size = min(int.from_bytes(data[3:5], "big"), len(data)) if len(data) >= 5 else len(data)
        cls = PACKETS.get(data[2], Say) if len(data) > 2 else Say
        is_long = cls is Hop and len(data) > HEADER_LEN and data[HEADER_LEN] & 2
        root = cls.codec.outline(data, 0, size, (max if is_long else min)(cls.codec.forms))
        try:
            self.decode(data, limits=limits, strict=strict)
        except DecodeError as error:
            root.error = error.reason
        return root

    def types(self) -> Sequence[TypeInfo]:
        return [TypeInfo(c.code, c.name, c.__doc__ or "", describe(c)) for c in PACKETS.values()]

    def packets(self) -> Sequence[type[Packet]]:
        return tuple(PACKETS.values())

    def samples(self) -> Mapping[str, bytes]:
        return {
            "say": Say(text=b"<hello>\x1b").encode(),
            "say nothing": Say().encode(),
            "move": Move(x=300, colour=Colour.RED, speed=3).encode(),
            "move, new colour": Move(x=1, colour=7).encode(),
            "hop": Hop(flags=0, load=b"12345678901", tail=b"0123456789").encode(),
            "hop, stamped": Hop(flags=1, stamp=b"\0\1\2\3", load=b"ab").encode(),
            "mark": Mark(source=200, x=0x01020304, colour=Colour.GREEN, sum=212).encode(),
            "long hop": Hop(flags=2, since=1, until=1 << 31, load=b"ab").encode(),
            "long hop, stamped": Hop(flags=3, stamp=b"abcd", since=4, until=5, tail=b"x").encode(),
        }


FORMAT = Toy()
