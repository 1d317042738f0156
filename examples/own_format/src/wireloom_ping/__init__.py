"""A format in a package of its own: two packets, little-endian, behind a magic of four bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wireloom.errors import DecodeError, EncodeError, FrameTooLargeError, TruncatedError
from wireloom.format import Format, TypeInfo
from wireloom.framing import Framer, Scanner
from wireloom.layout import Packet, Rest, Word, describe, packet
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import Limits

MAGIC = b"PING"
HEADER_LEN = 8
HEADER = (
    Word("magic", size=4, const=0x50494E47, doc="magic"),
    Word("type", size=2, order="little", derived="code", doc="packet type"),
    Word("length", size=2, order="little", derived="frame", doc="bytes of the packet"),
)


class PingPacket(Packet):
    """What both have in common."""

    __slots__ = ()
    format = "ping"


@packet(
    code=1,
    name="ASK",
    parts=(*HEADER, Word("number", size=4, order="little", doc="which question")),
)
class Ask(PingPacket):
    """Asks whether somebody is there."""

    number: int


@packet(
    code=2,
    name="ANSWER",
    parts=(
        *HEADER,
        Word("number", size=4, order="little", doc="which question"),
        Rest("text", doc="the answer"),
    ),
)
class Answer(PingPacket):
    """Says that somebody is."""

    number: int
    text: bytes = b""


PACKETS: dict[int, type[PingPacket]] = {cls.code: cls for cls in (Ask, Answer)}


class Rules:
    """How frames are cut."""

    has_magic = True

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        if data[pos : min(pos + 4, end)] != MAGIC[: end - pos]:
            raise DecodeError("no magic", offset=pos, code="magic")
        if end - pos < HEADER_LEN:
            raise TruncatedError(needed=HEADER_LEN, available=end - pos, offset=pos)
        size = int.from_bytes(data[pos + 6 : pos + 8], "little")
        if int.from_bytes(data[pos + 4 : pos + 6], "little") not in PACKETS or size < HEADER_LEN:
            raise DecodeError("no such packet", offset=pos + 4, code="type")
        return size

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        PACKETS[data[pos + 4]].codec.decode(bytes(data[:end]), pos, end)
        return True

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        found = data.find(MAGIC, pos, end)
        starts = (
            end - size for size in (3, 2, 1) if data[max(pos, end - size) : end] == MAGIC[:size]
        )
        return found if found >= 0 else next(starts, end)


class Ping(Format):
    """The format."""

    name = "ping"
    title = "Ping"
    kind = "transport"
    summary = "An example of a format in a package of its own."
    magic = MAGIC

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        size = Rules().measure(data, 0, len(data))
        if size > limits.max_frame:
            raise FrameTooLargeError(size, limits.max_frame, offset=6)
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        if strict and size < len(data):
            raise DecodeError("bytes after the packet", offset=size, code="trailing")
        return PACKETS[data[4]].codec.decode(data, 0, size, strict)

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        return Scanner(self.name, Rules(), limits, offset)

    def detect(self, data: bytes) -> int:
        return 95 if data.startswith(MAGIC) else 0

    def from_dict(self, d: Json) -> Message:
        for cls in PACKETS.values():
            if cls.name == d.get("packet"):
                return cls.from_dict(d)
        raise EncodeError("ping has no such packet")

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        size = min(len(data), int.from_bytes(data[6:8], "little") if len(data) > 7 else 8)
        cls = PACKETS.get(data[4], Answer) if size > 4 else Answer
        root = cls.codec.outline(data, 0, size)
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
        return {"ask": Ask(number=7).encode(), "answer": Answer(number=7, text=b"yes").encode()}


FORMAT = Ping()
