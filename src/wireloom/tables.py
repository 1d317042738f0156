"""Messages → rows: each table's columns, declared once.

From these declarations come the Arrow schemas, the Spark schemas and the docs. Every table starts
with the same key, which depends on the captured bytes alone: the same capture gives the same rows
however the work is divided, so that a replay is a no-op on any sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from wireloom.errors import OptionError
from wireloom.formats import get
from wireloom.layout import Bits, Blob, Items, Packet, attributes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DECIMAL_SCALE", "KEY", "TABLES", "Column", "Table", "arrow_schema", "spark_ddl", "table"]

DECIMAL_SCALE = 15
"""Decimal places of decimal columns: hints go up to 15, and 23 digits are left before the point."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    """A key of `_ARROW` and `_SPARK`."""
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    doc: str
    """What one row is."""
    columns: tuple[Column, ...]

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


_SPARK = {
    "binary": "BINARY",
    "bool": "BOOLEAN",
    "date": "DATE",
    "decimal": f"DECIMAL(38,{DECIMAL_SCALE})",
    "f64": "DOUBLE",
    "i32": "INT",
    "i64": "BIGINT",
    "ids": "ARRAY<STRING>",
    "name": "STRING",
    "text": "STRING",
    "time": "BIGINT",
    "timestamp": "TIMESTAMP",
}
"""Column types in Spark SQL. Spark has had no TIME before 4.1, so times are nanoseconds of the day."""


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "binary": pa.binary(),
        "bool": pa.bool_(),
        "date": pa.date32(),
        "decimal": pa.decimal128(38, DECIMAL_SCALE),
        "f64": pa.float64(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "ids": pa.list_(pa.string()),
        "name": pa.dictionary(pa.int32(), pa.string()),
        "text": pa.string(),
        "time": pa.time64("ns"),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }


SOURCE = Column("source", "name", "the capture: its path or name")
STREAM = Column("stream", "name", "one direction of one connection; the capture itself for raw ones")
KEY = (
    SOURCE,
    STREAM,
    Column("frame_offset", "i64", "where the frame starts, in bytes from the start of the stream"),
    Column("frame_length", "i32", "bytes of the frame"),
    Column("ts_ns", "i64", "capture time of the frame's first byte, nanoseconds since 1970 UTC"),
    Column("ts", "timestamp", "the same time as a timestamp, in microseconds"),
    Column("path", "name", "where a nested message lies in the frame's own; empty for the frame"),
)
"""The first columns of every table of frames and messages."""


def _table(name: str, doc: str, *columns: Column) -> Table:
    return Table(name, doc, KEY + columns)


FRAMES = _table(
    "frames",
    "one frame of any format",
    Column("format", "name", "name of the format"),
    Column("type_code", "i32", "type code on the wire; null for self-describing messages"),
    Column("type_name", "name", "the document's name of that type"),
    Column("raw", "binary", "the bytes, if asked for"),
)
MESSAGES = _table(
    "messages",
    "one TibMsg, TibrvMsg or QForm message, also those found inside a transport's payload",
    Column("format", "name", "name of the format"),
    Column("dialect", "name", "the reading that fitted"),
    Column("field_count", "i32", "fields on the first level"),
    Column("depth", "i32", "levels of nesting inside"),
)
FIELDS = _table(
    "fields",
    "one field of a TibMsg, TibrvMsg or QForm message",
    Column("position", "i32", "index of the field in its message"),
    Column("name", "name", "the field's name; null if it has none"),
    Column("fid", "i32", "field id: QForm, and TibrvMsg names with a suffix"),
    Column("type", "name", "type on the wire"),
    Column("size", "i32", "data bytes on the wire"),
    Column("value_int", "i64", "integers, booleans, ports, enum numbers"),
    Column("value_real", "f64", "reals, as on the wire"),
    Column("value_decimal", "decimal", "reals whose hint gives their places, and 64-bit unsigned"),
    Column("value_text", "text", "strings, subjects, addresses; null if not UTF-8"),
    Column("value_binary", "binary", "opaque data, arrays, and strings that are not UTF-8"),
    Column("value_date", "date", "dates"),
    Column("value_time", "time", "times of day"),
    Column("value_ts_ns", "i64", "date-times, nanoseconds since 1970 UTC"),
    Column("is_blank", "bool", "the sender says: no value (blank decimals, null dates and times)"),
    Column("hint", "i64", "hint number"),
    Column("partial_offset", "i32", "where a partial value belongs in the whole"),
)
ERRORS = _table(
    "errors",
    "one frame or message that could not be read; never dropped",
    Column("layer", "name", "capture, stream, frame, packet or message"),
    Column("format", "name", "name of the format"),
    Column("code", "name", "short machine-readable cause"),
    Column("reason", "text", "the cause in words"),
    Column("at", "i64", "stream offset of the byte where reading failed"),
    Column("field", "text", "path of the field where reading failed"),
    Column("raw", "binary", "the bytes"),
)
GAPS = Table(
    "gaps",
    "one hole in a stream: bytes that were never captured",
    (
        SOURCE,
        STREAM,
        Column("offset", "i64", "where the hole starts in the stream"),
        Column("length", "i64", "missing bytes"),
        Column("ts_before_ns", "i64", "capture time of the last packet before it"),
        Column("ts_after_ns", "i64", "capture time of the first packet behind it"),
    ),
)
ACCOUNTING = Table(
    "accounting",
    "one stream: where every captured payload byte went",
    (
        SOURCE,
        STREAM,
        Column("format", "name", "name of the format; null if none was recognised"),
        Column("captured", "i64", "payload bytes in the capture; the sum of the next four"),
        Column("decoded", "i64", "bytes of frames (and NAIS text)"),
        Column("quarantined", "i64", "bytes of the errors table's frame rows"),
        Column("gap", "i64", "bytes of frames that a hole cut"),
        Column("duplicate", "i64", "bytes captured again: retransmissions and overlaps"),
        Column("missing", "i64", "bytes of holes; not part of the sum, they were not captured"),
        Column("frames", "i64", "number of frames"),
        Column("packets", "i64", "number of packets with payload"),
    ),
)


def _packet_column(name: str, part: Bits | Blob | Items | Any) -> Column:
    if isinstance(part, Bits):
        return Column(name, "name" if part.enum is not None else "i64", part.doc)
    if isinstance(part, Items):
        return Column(name, "ids", part.doc)
    if isinstance(part, Blob):
        is_id = isinstance(part.length, int)
        return Column(name, "text" if part.text or is_id else "binary", part.doc)
    return Column(name, "binary", part.doc)


def _packet_table(name: str) -> Table:
    """A transport's table: every attribute of its packets, in wire order, from the declarations."""
    columns: dict[str, Column] = {}
    for packet in packets(name):
        for field, part in attributes(packet.parts):
            columns.setdefault(field, _packet_column(field, part))
    head = (
        Column("type_code", "i32", "type code on the wire"),
        Column("type_name", "name", "the document's name of the packet"),
    )
    title = get(name).title
    return _table(name, f"one {title} packet", *head, *columns.values())


def packets(name: str) -> tuple[type[Packet], ...]:
    """The packet classes of a transport format, by type code."""
    raise NotImplementedError
