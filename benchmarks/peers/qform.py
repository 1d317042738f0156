"""QForm: twenty fixed fields that a dictionary explains. Every value is read.

Prices are plain doubles here. Our codec turns the format's own price type into an exact decimal,
which no peer does.
"""

from __future__ import annotations

from typing import Any

from construct import (
    Bytes,
    Const,
    FixedSized,
    Float64b,
    GreedyRange,
    Int16sb,
    Int16ub,
    Int32sb,
    Int32ub,
    Struct,
    Switch,
    this,
)

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.formats import qform

CFILE = "\n".join(
    [
        *(f"NUM_{i} {{ CLASS_ID {100 + i}; DATA_TYPE integer; }}" for i in range(6)),
        *(f"PRICE_{i} {{ CLASS_ID {200 + i}; DATA_TYPE double; }}" for i in range(6)),
        *(f"TEXT_{i} {{ CLASS_ID {300 + i}; DATA_TYPE string; DATA_SIZE 8; }}" for i in range(6)),
        *(f"SHORT_{i} {{ CLASS_ID {400 + i}; DATA_TYPE short_int; }}" for i in range(2)),
    ]
)
DICTIONARY = qform.load(CFILE)
VALUES: dict[str, Any] = {
    **{f"NUM_{i}": 70_000 + i for i in range(6)},
    **{f"PRICE_{i}": 141.25 + i for i in range(6)},
    **{f"TEXT_{i}": f"text {i}" for i in range(6)},
    **{f"SHORT_{i}": i for i in range(2)},
}

KINDS = {
    **{100 + i: Int32sb for i in range(6)},
    **{200 + i: Float64b for i in range(6)},
    **{300 + i: Bytes(8) for i in range(6)},
    **{400 + i: Int16sb for i in range(2)},
}
FIELD = Struct("wire_fid" / Int16ub, "data" / Switch(lambda c: c.wire_fid & 0x3FFF, KINDS))
PACKET = Struct(
    Const(b"\x11\x11\x11\x12"),
    "size" / Int32ub,
    "fields" / FixedSized(this.size, GreedyRange(FIELD)),
)


def view_construct(made: Any) -> list[Any]:
    return [(field.wire_fid & 0x3FFF, _plain(field.data)) for field in made.fields]


def _plain(value: Any) -> Any:
    return value.rstrip(b"\0").decode("ascii") if isinstance(value, bytes) else value


def decode_ours(data: bytes) -> list[Any]:
    message = wireloom.decode(data, "qform", dictionary=DICTIONARY)
    return [(f.fid, f.value) for f in message.fields]  # type: ignore[attr-defined]


CASE = Case(
    "qform",
    "a message of 20 fields with its dictionary, every value read",
    (qform.build(DICTIONARY, VALUES).encode(),),
    Codec(decode_ours, lambda made: made),
    {"construct": Codec(PACKET.parse, view_construct)},
)


WRITING = Case(
    "qform fields",
    "the same message as objects: read, and written again",
    CASE.messages,
    Codec(
        lambda data: wireloom.decode(data, "qform", dictionary=DICTIONARY),
        lambda made: [(f.fid, f.value) for f in made.fields],
        wireloom.encode,
    ),
    {"construct": Codec(PACKET.parse, view_construct, PACKET.build)},
)
