"""What generated traffic is about: a dictionary, a model and a schema, as users have them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from wireloom.formats.nais import TypeRegistry

__all__ = [
    "BINDINGS",
    "DICTIONARY",
    "MODEL",
    "PROTO",
    "descriptor_set",
    "registry",
    "write_schemas",
]

_PRICES = "TRDPRC_1 BID ASK BID_2 ASK_2 BID_3 ASK_3 OPEN_PRC HIGH_1 LOW_1 HST_CLOSE NETCHNG_1"
_COUNTS = "TRDVOL_1 BIDSIZE ASKSIZE BSIZE_2 ASIZE_2 BSIZE_3 ASIZE_3 ACVOL_1 NUM_MOVES QUOTE_CNT"
_TEXTS = {"SYMBOL": 16, "DSPLY_NAME": 24, "RDN_EXCHID": 4, "CURRENCY": 4, "PRCTCK_1": 2}
_TIMES = ("TRDTIM_1", "QUOTIM")


def _dictionary() -> str:
    kinds = {"MSG_TYPE": 4001, "REC_TYPE": 4002, "SEQ_NO": 4003, "REC_STATUS": 4005}
    lines = ["# The fields of generated market data."]

    def add(name: str, fid: int, kind: str, size: int | None = None, more: str = "") -> None:
        width = "" if size is None else f" DATA_SIZE {size};"
        lines.append(f"{name} {{ CLASS_ID {fid}; DATA_TYPE {kind};{width}{more} }}")

    for name, fid in kinds.items():
        add(name, fid, "short_int", 2)
    names = iter(range(5001, 5100))
    for name, size in _TEXTS.items():
        add(name, next(names), "string", size)
    for name in _PRICES.split():
        add(name, next(names), "grocery", 9)
    for name in _COUNTS.split():
        add(name, next(names), "integer", 4)
    for name in _TIMES:
        add(name, next(names), "stime", 10)
    add("ACTIV_DATE", next(names), "sdate", 12)
    add("ROW64_1", next(names), "string", 64, " IS_PARTIAL true;")
    return "\n".join(lines) + "\n"


DICTIONARY = _dictionary()
"""The dictionary of the QForm messages, as a cfile."""

MODEL = """\
# The objects of generated Blaze traffic.
@model_name "orders"
@model_version "1"

enum SIDE
{
    SIDE_NONE
    BUY
    SELL
}

enum ORDER_STATE
{
    STATE_NONE
    LIVE
    PART_FILLED
    FILLED
    CANCELLED
}

nclass ORDER
{
    @id 401
    uint_64 order_id "unique for ever"
    ascii[12] symbol
    SIDE side
    uint_32 quantity
    float_64 price
    uint_32 filled
    ORDER_STATE state
    ascii[16] account
    @persistent
    @key primary @id 1 @fldset { order_id } @key_end
}

nclass REJECT
{
    @id 402
    uint_32 code
    ascii[32] reason
}

nclass QUOTE
{
    @id 403
    ascii[12] symbol
    ascii[400] image "a QForm"
    @persistent
    @key primary @id 1 @fldset { symbol } @key_end
}
"""
"""The model of the Blaze bodies."""

PROTO = """\
// The messages of generated NAIS traffic that are not built in.
syntax = "proto2";

package board;

message Reading {
  required fixed32 sensor = 1;
  required fixed64 taken_us = 2;
  required float value = 3;
  optional string unit = 4;
  repeated float history = 5;
}

message LedCommand {
  required int32 seq = 1;
  required fixed32 rgb = 2;
  optional bool blink = 3;
}
"""
"""The schema of the custom NAIS messages."""

BINDINGS = {10: "board.Reading", 11: "board.LedCommand"}
"""TYPE → message of `PROTO`."""

_KINDS = FieldDescriptorProto
_FIELDS = {
    "Reading": [
        ("sensor", _KINDS.TYPE_FIXED32, _KINDS.LABEL_REQUIRED),
        ("taken_us", _KINDS.TYPE_FIXED64, _KINDS.LABEL_REQUIRED),
        ("value", _KINDS.TYPE_FLOAT, _KINDS.LABEL_REQUIRED),
        ("unit", _KINDS.TYPE_STRING, _KINDS.LABEL_OPTIONAL),
        ("history", _KINDS.TYPE_FLOAT, _KINDS.LABEL_REPEATED),
    ],
    "LedCommand": [
        ("seq", _KINDS.TYPE_INT32, _KINDS.LABEL_REQUIRED),
        ("rgb", _KINDS.TYPE_FIXED32, _KINDS.LABEL_REQUIRED),
        ("blink", _KINDS.TYPE_BOOL, _KINDS.LABEL_OPTIONAL),
    ],
}


def descriptor_set() -> bytes:
    """`PROTO`, compiled: built by hand, because the compiler is not always installed."""
    found = FileDescriptorSet()
    file = found.file.add(name="board.proto", package="board", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, label) in enumerate(fields, 1):
            message.field.add(name=field, number=number, type=kind, label=label)
    return found.SerializeToString(deterministic=True)


@cache
def registry() -> TypeRegistry:
    """The NAIS types of generated traffic."""
    types = TypeRegistry()
    types.load_descriptor_set(descriptor_set(), name="board.binpb")
    for code, name in BINDINGS.items():
        types.bind(code, name)
    return types


def write_schemas(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the texts into a folder, which is created if necessary; returns option → file.

    Raises:
        OSError: a file cannot be written.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    files = {
        "dictionary": place / "tss_fields.cf",
        "model": place / "orders.blz",
        "proto": place / "board.binpb",
    }
    files["dictionary"].write_text(DICTIONARY)
    files["model"].write_text(MODEL)
    files["proto"].write_bytes(descriptor_set())
    (place / "board.proto").write_text(PROTO)
    return files
