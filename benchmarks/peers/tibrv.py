"""TibrvMsg: twenty fields of the common types. Every value is read."""

from __future__ import annotations

from typing import Any

from construct import (
    Byte,
    Bytes,
    BytesInteger,
    Computed,
    Const,
    FixedSized,
    Float64b,
    GreedyRange,
    Int16ub,
    Int32ub,
    Struct,
    Switch,
    this,
)

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.formats.tibrv import build

VALUES: dict[str, Any] = {
    **{f"TEXT_{i}": f"value {i}" for i in range(6)},
    **{f"INT_{i}": 70_000 + i for i in range(6)},
    **{f"REAL_{i}": 141.25 + i for i in range(6)},
    "LONG": "x" * 200,
    "RAW": b"\x01\x02\x03",
}

FIELD = Struct(
    "name_size" / Byte,
    "name" / Bytes(this.name_size),
    "type" / Byte,
    "first" / Byte,
    "wide" / Switch(this.first, {0x79: Int16ub, 0x7A: Int32ub}),
    "size"
    / Computed(lambda c: c.first if c.wide is None else c.wide - (2 if c.first == 0x79 else 4)),
    "data"
    / Switch(
        this.type,
        {11: BytesInteger(this.size, signed=True), 13: Float64b},
        default=Bytes(this.size),
    ),
)
PACKET = Struct(
    "size" / Int32ub,
    Const(b"\x99\x55\xee\xaa"),
    "fields" / FixedSized(this.size - 8, GreedyRange(FIELD)),
)


def text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii")


def view_construct(made: Any) -> list[Any]:
    return [(text(f.name), text(f.data) if f.type == 8 else f.data) for f in made.fields]


def view_ours(made: Any) -> list[Any]:
    return [(field.name, field.value) for field in made.fields]


CASE = Case(
    "tibrv",
    "a message of 20 fields, every value read",
    (build(VALUES).encode(),),
    Codec(lambda data: view_ours(wireloom.decode(data, "tibrv")), lambda made: made),
    {"construct": Codec(PACKET.parse, view_construct)},
)

WRITING = Case(
    "tibrv fields",
    "the same message as objects: read, and written again",
    CASE.messages,
    Codec(lambda data: wireloom.decode(data, "tibrv"), view_ours, wireloom.encode),
    {"construct": Codec(PACKET.parse, view_construct, PACKET.build)},
)
