"""NREP: a publication, an instance list, a socket's control and data packets."""

from __future__ import annotations

import struct
from typing import Any

from construct import Array, Bytes, Const, If, Int8ul, Int32ul, Rebuild, Struct, Switch, len_, this
from kaitaistruct import BytesIO, KaitaiStream, KaitaiStruct

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.formats.nrep import (
    InstanceReply,
    Publish,
    SocketControl,
    SocketData,
    SocketFlags,
    app_id,
)

ID = app_id("echo")

MESSAGES = (
    Publish(nonce=0x01020304, description="echo"),
    InstanceReply(nonce=0x01020304, instance_ids=(ID, ID[::-1])),
    SocketControl(socket_id=ID, flags=SocketFlags.OPEN_REQUEST, instance_id=ID),
    SocketData(socket_id=ID, data=bytes(range(64))),
)

FIELDS = {
    4: ("nonce", "description"),
    7: ("nonce", "instance_ids"),
    9: ("nonce", "socket_id", "flags", "instance_id"),
    10: ("nonce", "socket_id", "data"),
}

# --- construct ------------------------------------------------------------------------------------

PACKET = Struct(
    Const(b"\0"),
    "type" / Int8ul,
    "nonce" / Int32ul,
    "content_size" / Int32ul,
    "content"
    / Switch(
        this.type,
        {
            4: Struct(
                "length" / Rebuild(Int32ul, len_(this.description)),
                "description" / Bytes(this.length),
            ),
            7: Struct(
                "count" / Rebuild(Int8ul, len_(this.instance_ids)),
                "instance_ids" / Array(this.count, Bytes(10)),
            ),
            9: Struct(
                "socket_id" / Bytes(10),
                "flags" / Int8ul,
                "instance_id" / If(this.flags & 0x40, Bytes(10)),
            ),
            10: Struct(
                "socket_id" / Bytes(10),
                "length" / Rebuild(Int32ul, len_(this.data)),
                "data" / Bytes(this.length),
            ),
        },
    ),
)


def plain(value: Any) -> Any:
    """A value as every peer has it: text in bytes, lists."""
    if isinstance(value, str):
        return value.encode()
    return list(value) if isinstance(value, (list, tuple)) else value


def view_construct(made: Any) -> list[Any]:
    flat = {"nonce": made.nonce, **made.content}
    return [plain(flat[name]) for name in FIELDS[made.type]]


# --- kaitai ---------------------------------------------------------------------------------------


class KaitaiPacket(KaitaiStruct):
    def __init__(self, _io: Any, _parent: Any = None, _root: Any = None) -> None:
        super().__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self) -> None:
        self.reserved = self._io.read_bytes(1)
        if not self.reserved == b"\0":
            raise ValueError("not the expected bytes")
        self.type = self._io.read_u1()
        self.nonce = self._io.read_u4le()
        self.content_size = self._io.read_u4le()
        _on = self.type
        if _on == 4:
            self.content: Any = KaitaiPublish(self._io, self, self._root)
        elif _on == 7:
            self.content = KaitaiInstances(self._io, self, self._root)
        elif _on == 9:
            self.content = KaitaiControl(self._io, self, self._root)
        elif _on == 10:
            self.content = KaitaiData(self._io, self, self._root)


class KaitaiPublish(KaitaiPacket):
    def _read(self) -> None:
        self.length = self._io.read_u4le()
        self.description = (self._io.read_bytes(self.length)).decode("UTF-8")


class KaitaiInstances(KaitaiPacket):
    def _read(self) -> None:
        self.count = self._io.read_u1()
        self.instance_ids = [self._io.read_bytes(10) for _ in range(self.count)]


class KaitaiControl(KaitaiPacket):
    def _read(self) -> None:
        self.socket_id = self._io.read_bytes(10)
        self.flags = self._io.read_u1()
        if self.flags & 0x40:
            self.instance_id = self._io.read_bytes(10)


class KaitaiData(KaitaiPacket):
    def _read(self) -> None:
        self.socket_id = self._io.read_bytes(10)
        self.length = self._io.read_u4le()
        self.data = self._io.read_bytes(self.length)


def decode_kaitai(data: bytes) -> KaitaiPacket:
    return KaitaiPacket(KaitaiStream(BytesIO(data)))


def view_kaitai(made: KaitaiPacket) -> list[Any]:
    flat = {"nonce": made.nonce, **vars(made.content)}
    return [plain(flat[name]) for name in FIELDS[made.type]]


# --- struct ---------------------------------------------------------------------------------------

HEADER = struct.Struct("<BBII")
U32 = struct.Struct("<I")


def decode_struct(data: bytes) -> tuple[int, list[Any]]:
    _, kind, nonce, _ = HEADER.unpack_from(data)
    if kind == 4:
        (size,) = U32.unpack_from(data, 10)
        return kind, [nonce, data[14 : 14 + size]]
    if kind == 7:
        return kind, [nonce, [data[i : i + 10] for i in range(11, 11 + 10 * data[10], 10)]]
    if kind == 9:
        flags = data[20]
        return kind, [nonce, data[10:20], flags, data[21:31] if flags & 0x40 else None]
    (size,) = U32.unpack_from(data, 20)
    return kind, [nonce, data[10:20], data[24 : 24 + size]]


def encode_struct(made: tuple[int, list[Any]]) -> bytes:
    kind, (nonce, *rest) = made
    if kind == 4:
        content = U32.pack(len(rest[0])) + rest[0]
    elif kind == 7:
        content = bytes([len(rest[0])]) + b"".join(rest[0])
    elif kind == 9:
        content = rest[0] + bytes([rest[1]]) + (rest[2] or b"")
    else:
        content = rest[0] + U32.pack(len(rest[1])) + rest[1]
    return HEADER.pack(0, kind, nonce, len(content)) + content


CASE = Case(
    "nrep",
    "publish, instance reply, socket control, socket data",
    tuple(message.encode() for message in MESSAGES),
    Codec(
        lambda data: wireloom.decode(data, "nrep"),
        lambda made: [plain(getattr(made, name)) for name in FIELDS[made.code]],
        wireloom.encode,
    ),
    {
        "construct": Codec(PACKET.parse, view_construct, PACKET.build),
        "kaitai": Codec(decode_kaitai, view_kaitai),
        "struct": Codec(decode_struct, lambda made: made[1], encode_struct),
    },
)
