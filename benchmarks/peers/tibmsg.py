"""TibMsg: a quote of twenty fields; text, numbers, prices with hints. Every value is read."""

from __future__ import annotations

import struct
from typing import Any

from construct import (
    BitsInteger,
    BitStruct,
    Byte,
    Bytes,
    BytesInteger,
    Const,
    FixedSized,
    Flag,
    Float32b,
    Float64b,
    GreedyRange,
    If,
    IfThenElse,
    Int32ub,
    Struct,
    Switch,
    this,
)
from kaitaistruct import BytesIO, KaitaiStream, KaitaiStruct

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.formats.tibmsg import Field, FieldType, build

MAGIC = b"\xce\x13\xaa\x1f"

MESSAGE = build(
    [
        Field.of("MSG_TYPE", 8, size=2),
        Field.of("REC_TYPE", 33, size=2),
        Field.of("SEQ_NO", 41_234, type=FieldType.UINT, size=2),
        Field.of("REC_STATUS", 0, size=2),
        Field.of("SYMBOL", "IBM.N"),
        Field.of("CURRENCY", "USD"),
        *(
            Field.of(name, price, size=8, hint=18)
            for name, price in [
                ("BID", 141.25),
                ("ASK", 141.5),
                ("TRDPRC_1", 141.3),
                ("HIGH_1", 142.0),
                ("LOW_1", 139.75),
                ("OPEN_PRC", 140.0),
                ("HST_CLOSE", 140.5),
            ]
        ),
        *(
            Field.of(name, size, type=FieldType.INT, size=4)
            for name, size in [("BIDSIZE", 500), ("ASKSIZE", 700), ("TRDVOL_1", 100)]
        ),
        Field.of("ACVOL_1", 3_250_100, size=8),
        Field.of("TRD_UNITS", 0.5, size=4),
        Field.of("OFF_CLASS", b"\x01\x02\x03\x04"),
        Field.of("DSPLY_NAME", "INTL BUS MACHINES"),
    ]
)

# --- construct ------------------------------------------------------------------------------------

FIELD = Struct(
    "name_size" / Byte,
    "name" / Bytes(this.name_size),
    "key"
    / BitStruct("wide" / Flag, "hinted" / Flag, "spare" / BitsInteger(2), "type" / BitsInteger(4)),
    "size" / IfThenElse(this.key.wide, Int32ub, Byte),
    "data"
    / Switch(
        this.key.type,
        {
            5: BytesInteger(this.size, signed=True),
            6: BytesInteger(this.size),
            7: IfThenElse(this.size == 8, Float64b, Float32b),
        },
        default=Bytes(this.size),
    ),
    "hint" / If(this.key.hinted, Struct("key" / Byte, "size" / Byte, "data" / Bytes(this.size))),
)
PACKET = Struct(
    Const(MAGIC),
    "version" / Byte,
    "size" / Int32ub,
    "fields" / FixedSized(this.size, GreedyRange(FIELD)),
)


def text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii")


def view_construct(made: Any) -> list[Any]:
    return [
        (
            text(field.name),
            text(field.data) if field.key.type == 2 else field.data,
            int.from_bytes(field.hint.data, "big") if field.hint else None,
        )
        for field in made.fields
    ]


# --- kaitai ---------------------------------------------------------------------------------------


class KaitaiMessage(KaitaiStruct):
    def __init__(self, _io: Any, _parent: Any = None, _root: Any = None) -> None:
        super().__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self) -> None:
        self.magic = self._io.read_bytes(4)
        if not self.magic == MAGIC:
            raise ValueError("not the expected bytes")
        self.version = self._io.read_u1()
        self.size = self._io.read_u4be()
        self._raw_body = self._io.read_bytes(self.size)
        _io__raw_body = KaitaiStream(BytesIO(self._raw_body))
        self.fields = []
        while not _io__raw_body.is_eof():
            self.fields.append(KaitaiField(_io__raw_body, self, self._root))


class KaitaiField(KaitaiMessage):
    def _read(self) -> None:
        self.name_size = self._io.read_u1()
        self.name = (
            KaitaiStream.bytes_terminate(self._io.read_bytes(self.name_size), 0, False)
        ).decode("ASCII")
        self.wide = self._io.read_bits_int_be(1) != 0
        self.hinted = self._io.read_bits_int_be(1) != 0
        self.spare = self._io.read_bits_int_be(2)
        self.type = self._io.read_bits_int_be(4)
        self._io.align_to_byte()
        self.size = self._io.read_u4be() if self.wide else self._io.read_u1()
        _on = (self.type, self.size)
        if _on == (5, 2):
            self.data: Any = self._io.read_s2be()
        elif _on == (5, 4):
            self.data = self._io.read_s4be()
        elif _on == (5, 8):
            self.data = self._io.read_s8be()
        elif _on == (6, 2):
            self.data = self._io.read_u2be()
        elif _on == (7, 8):
            self.data = self._io.read_f8be()
        elif _on == (7, 4):
            self.data = self._io.read_f4be()
        elif self.type == 2:
            raw = self._io.read_bytes(self.size)
            self.data = KaitaiStream.bytes_terminate(raw, 0, False).decode("ASCII")
        else:
            self.data = self._io.read_bytes(self.size)
        self.hint = None
        if self.hinted:
            self.hint = KaitaiHint(self._io, self, self._root)


class KaitaiHint(KaitaiMessage):
    def _read(self) -> None:
        self.key = self._io.read_u1()
        self.hint_size = self._io.read_u1()
        self.data = self._io.read_bytes(self.hint_size)


def view_kaitai(made: KaitaiMessage) -> list[Any]:
    return [
        (f.name, f.data, int.from_bytes(f.hint.data, "big") if f.hint else None)
        for f in made.fields
    ]


# --- struct ---------------------------------------------------------------------------------------

U32 = struct.Struct(">I")
NUMBERS = {
    (5, 2): struct.Struct(">h"),
    (5, 4): struct.Struct(">i"),
    (5, 8): struct.Struct(">q"),
    (6, 2): struct.Struct(">H"),
    (7, 4): struct.Struct(">f"),
    (7, 8): struct.Struct(">d"),
}


def decode_struct(data: bytes) -> list[Any]:
    if data[:4] != MAGIC:
        raise ValueError("no message")
    end = 9 + U32.unpack_from(data, 5)[0]
    at = 9
    fields = []
    while at < end:
        stop = at + 1 + data[at]
        name = data[at + 1 : stop - 1].decode("ascii")
        key = data[stop]
        if key & 0x80:
            (size,) = U32.unpack_from(data, stop + 1)
            at = stop + 5
        else:
            size = data[stop + 1]
            at = stop + 2
        kind = key & 15
        number = NUMBERS.get((kind, size))
        value: Any
        if number is not None:
            (value,) = number.unpack_from(data, at)
        elif kind == 2:
            value = data[at : at + size - 1].decode("ascii")
        else:
            value = data[at : at + size]
        at += size
        hint = None
        if key & 0x40:
            hint = int.from_bytes(data[at + 2 : at + 2 + data[at + 1]], "big")
            at += 2 + data[at + 1]
        fields.append((name, value, hint))
    return fields


def decode_ours(data: bytes) -> list[Any]:
    message = wireloom.decode(data, "tibmsg")
    return [(f.name, f.wire_value, f.hint_number) for f in message.fields]  # type: ignore[attr-defined]


CASE = Case(
    "tibmsg",
    "a quote of 20 fields, every value read",
    (MESSAGE.encode(),),
    Codec(decode_ours, lambda made: made),
    {
        "construct": Codec(PACKET.parse, view_construct),
        "kaitai": Codec(lambda data: KaitaiMessage(KaitaiStream(BytesIO(data))), view_kaitai),
        "struct": Codec(decode_struct, lambda made: made),
    },
)

WRITING = Case(
    "tibmsg fields",
    "the same message as objects: read, and written again",
    CASE.messages,
    Codec(
        lambda data: wireloom.decode(data, "tibmsg"),
        lambda made: [(f.name, f.wire_value, f.hint_number) for f in made.fields],
        wireloom.encode,
    ),
    {"construct": Codec(PACKET.parse, view_construct, PACKET.build)},
)
