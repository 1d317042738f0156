"""NAIS: the frame with its varint length; payloads stay bytes, for us and for the peers."""

from __future__ import annotations

import struct
from typing import Any

from construct import Byte, Bytes, Const, Rebuild, Struct, VarInt, len_, this
from kaitaistruct import BytesIO, KaitaiStream, KaitaiStruct

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.wire import varint

MESSAGES = tuple(
    b"\x1e\x05\x00\x03\x00" + varint(size) + b"\x08\x05" + bytes(size - 2) + b"\x17"
    for size in (8, 60, 300)
)

FRAME = Struct(
    Const(b"\x1e"),
    "type" / Byte,
    "sline" / Byte,
    "dline" / Byte,
    "rsv" / Byte,
    "length" / Rebuild(VarInt, len_(this.payload)),
    "payload" / Bytes(this.length),
    Const(b"\x17"),
)


class KaitaiVarint(KaitaiStruct):
    def __init__(self, _io: Any, _parent: Any = None, _root: Any = None) -> None:
        super().__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self) -> None:
        self.groups = []
        while True:
            group = self._io.read_u1()
            self.groups.append(group)
            if not group & 0x80:
                break

    @property
    def value(self) -> int:
        return sum((group & 0x7F) << 7 * i for i, group in enumerate(self.groups))


class KaitaiFrame(KaitaiVarint):
    def _read(self) -> None:
        self.start = self._io.read_bytes(1)
        if not self.start == b"\x1e":
            raise ValueError("not the expected bytes")
        self.type = self._io.read_u1()
        self.sline = self._io.read_u1()
        self.dline = self._io.read_u1()
        self.rsv = self._io.read_u1()
        self.length = KaitaiVarint(self._io, self, self._root)
        self.payload = self._io.read_bytes(self.length.value)
        self.end = self._io.read_bytes(1)
        if not self.end == b"\x17":
            raise ValueError("not the expected bytes")


HEADER = struct.Struct("5B")


def decode_struct(data: bytes) -> list[Any]:
    start, kind, sline, dline, rsv = HEADER.unpack_from(data)
    size = shift = 0
    at = 5
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if start != 0x1E or data[at + size] != 0x17:
        raise ValueError("no frame")
    return [kind, sline, dline, rsv, data[at : at + size]]


def encode_struct(made: list[Any]) -> bytes:
    return HEADER.pack(0x1E, *made[:4]) + varint(len(made[4])) + made[4] + b"\x17"


def view(made: Any) -> list[Any]:
    return [made.type, made.sline, made.dline, made.rsv, made.payload]


CASE = Case(
    "nais",
    "frames with payloads of 8, 60 and 300 bytes",
    MESSAGES,
    Codec(lambda data: wireloom.decode(data, "nais"), view, wireloom.encode),
    {
        "construct": Codec(FRAME.parse, view, FRAME.build),
        "kaitai": Codec(lambda data: KaitaiFrame(KaitaiStream(BytesIO(data))), view),
        "struct": Codec(decode_struct, lambda made: made, encode_struct),
    },
)
