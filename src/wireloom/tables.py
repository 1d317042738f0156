"""Messages → rows: each table's columns, declared once.

From these declarations come the Arrow schemas, the Spark schemas and the docs. Every table starts
with the same key, which depends on the captured bytes alone: the same capture gives the same rows
however the work is divided, so that a replay is a no-op on any sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from wireloom.arrow.types import DECIMAL_SCALE, arrow_type, decimal_places, schema_of, spark_type
from wireloom.columns import FIXED_TABLES, Column, Table, declared_columns
from wireloom.errors import OptionError
from wireloom.format import Format
from wireloom.formats import get, names
from wireloom.spelling import missing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DECIMAL_SCALE",
    "KEY",
    "LAYERS",
    "WIDE_TYPES",
    "Column",
    "Table",
    "arrow_schema",
    "arrow_type",
    "docs_rows",
    "spark_ddl",
    "spark_type",
    "table",
    "table_names",
    "wide_column",
    "wide_table",
]

LAYERS: Final = ("capture", "stream", "frame", "packet", "message")
"""Where in the flow a row of `errors` comes from."""


# --- tables ---------------------------------------------------------------------------------------

SOURCE: Final = Column("source", "name", "the capture: its path or name")
STREAM: Final = Column(
    "stream", "name", "one direction of one connection; the capture itself for raw ones"
)
KEY: Final = (
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


FRAMES: Final = _table(
    "frames",
    "one frame of any format",
    Column("format", "kind", "name of the format"),
    Column("type_code", "i32", "type code on the wire; null for self-describing messages"),
    Column("type_name", "name", "the document's name of that type"),
    Column(
        "is_suspect",
        "bool",
        "a part of it came in a packet whose checksum is bad, where those of others are good; "
        "of a stream's first packet only `errors` tells, since that is known too late",
    ),
    Column("raw", "binary", "the bytes"),
)
MESSAGES: Final = _table(
    "messages",
    "one TibMsg, TibrvMsg or QForm message, also those found inside a transport's payload",
    Column("format", "kind", "name of the format"),
    Column("dialect", "kind", "the reading that fitted; null for formats with one"),
    Column("field_count", "i32", "fields on the first level"),
    Column("depth", "i32", "levels of messages inside, of the same format"),
)
FIELDS: Final = _table(
    "fields",
    "one field of a TibMsg, TibrvMsg or QForm message, those of nested messages included",
    Column("position", "i32", "index of the field in its message"),
    Column(
        "name", "name", "the field's name; null if it has none. Bytes that are not UTF-8: \\xNN"
    ),
    Column("fid", "i32", "field id: QForm, and TibrvMsg names with a suffix"),
    Column("type", "kind", "type on the wire; of a TibMsg array with its elements: array_int"),
    Column("size", "i32", "data bytes on the wire"),
    Column("value_int", "i64", "integers that fit, booleans (0, 1), ports, enum numbers"),
    Column("value_real", "f64", "reals, as on the wire"),
    Column(
        "value_decimal",
        "decimal",
        "reals whose hint gives their places, exactly, and integers over 63 bits; null if out of "
        "range",
    ),
    Column("value_text", "text", "strings, subjects, addresses, partials, xml; null if not UTF-8"),
    Column(
        "value_binary",
        "binary",
        "opaque data, arrays, text that is not UTF-8, and data of a size that its type does not "
        "have",
    ),
    Column("value_date", "date", "dates"),
    Column("value_time", "time", "times of day; null for 24:00 and leap seconds, which text has"),
    Column("value_ts_ns", "i64", "date-times, nanoseconds since 1970 UTC"),
    Column("is_blank", "bool", "the sender says: no value (blank decimals, null dates and times)"),
    Column("hint", "i64", "hint number; of a TibMsg array the bytes of an element"),
    Column("partial_offset", "i64", "where a partial value belongs in the whole"),
)
ERRORS: Final = _table(
    "errors",
    "one frame or message that could not be read; never dropped",
    Column("layer", "kind", f"where it was met: {', '.join(LAYERS)}"),
    Column("format", "kind", "name of the format; null if none was recognised"),
    Column("code", "name", "short machine-readable cause"),
    Column("reason", "text", "the cause in words"),
    Column(
        "failed_at", "i64", "stream offset of the byte where reading failed; null inside a payload"
    ),
    Column("field", "text", "the field where reading failed, from the outside in"),
    Column("raw", "binary", "the bytes; of a nested message its own"),
)
GAPS: Final = Table(
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
ACCOUNTING: Final = Table(
    "accounting",
    "one stream, or what of a capture is in none: where every captured byte went",
    (
        SOURCE,
        STREAM,
        Column("format", "kind", "name of the format; null if none was recognised"),
        Column(
            "captured",
            "i64",
            "payload bytes of a stream, or all bytes of packets in none; the sum of the next five",
        ),
        Column("decoded", "i64", "bytes of frames (and NAIS text)"),
        Column("quarantined", "i64", "bytes of the errors table's frame rows"),
        Column("gap", "i64", "bytes of frames that a hole cut"),
        Column("duplicate", "i64", "bytes captured again: retransmissions and overlaps"),
        Column(
            "left_out",
            "i64",
            "bytes of packets that are in no stream; `stream` says why: `no stream: ` and "
            "`not_ip`, `other_protocol` or `encapsulated` (`damaged` ones are quarantined)",
        ),
        Column("missing", "i64", "bytes of holes; not part of the sum, they were not captured"),
        Column("frames", "i64", "number of frames"),
        Column("packets", "i64", "number of packets with payload, or of packets in no stream"),
        Column(
            "conflict", "i64", "quarantined bytes that are a better copy of some that were read"
        ),
        Column(
            "bad_checksums",
            "i64",
            "number of packets whose checksum is bad, where those of others are good",
        ),
    ),
)


@cache
def _packet_table(format: Format) -> Table:
    """A transport's table: every attribute of its packets, in wire order, from the declarations."""
    head = (
        Column("type_code", "i32", "type code on the wire"),
        Column("type_name", "name", "the document's name of the packet"),
    )
    declared, extra = declared_columns(format.packets()), format.columns().extra
    return _table(format.name, f"one {format.title} packet", *head, *declared, *extra)


_FIXED: Final = {
    found.name: found for found in (FRAMES, MESSAGES, FIELDS, ERRORS, GAPS, ACCOUNTING)
}
assert {*_FIXED, "wide"} == FIXED_TABLES


def table(name: str) -> Table:
    """The table of that name; a transport's has the name of its format.

    Raises:
        OptionError: there is none.
    """
    if name in _FIXED:
        return _FIXED[name]
    if name in names() and get(name).kind == "transport":
        return _packet_table(get(name))
    raise OptionError(missing("table", name, table_names()))


def table_names() -> tuple[str, ...]:
    """The names of all tables with a schema of their own; the wide one is made by `wide_table`."""
    transports = tuple(name for name in names() if get(name).kind == "transport")
    first, *others = _FIXED
    return (first, *transports, *others)


# --- wide -----------------------------------------------------------------------------------------

WIDE_TYPES: Final = {
    "bigint": "i64",
    "binary": "binary",
    "bool": "bool",
    "boolean": "bool",
    "date": "date",
    "double": "f64",
    "f64": "f64",
    "i64": "i64",
    "int": "i64",
    "long": "i64",
    "real": "f64",
    "string": "text",
    "text": "text",
    "time": "time",
    "timestamp": "timestamp",
}
"""The type names a chosen field may have, besides ``decimal`` and ``decimal(p,s)``."""


def wide_column(text: str) -> tuple[str, str | None]:
    """Name and column type of a chosen field: ``BID``, ``BID:double``, ``BID:decimal(18,4)``.

    Raises:
        OptionError: there is no such type.
    """
    name, colon, type = text.rpartition(":")
    if not colon:
        return text, None
    type = type.strip().lower().replace(" ", "")
    if decimal_places(type) is not None:
        return name, type
    if type not in WIDE_TYPES:
        known = ", ".join(sorted(WIDE_TYPES))
        raise OptionError(f"{text!r}: no type {type!r}; there are decimal(p,s), {known}")
    return name, WIDE_TYPES[type]


def wide_table(columns: Iterable[tuple[str, str]]) -> Table:
    """The table with one row per message and the named fields as columns.

    Args:
        columns: name and type of each, as `wide_column` gives them.

    Raises:
        OptionError: a name is that of a key column, or is given twice.
    """
    last = Column(
        "misfits", "i32", "chosen fields of the message whose value did not fit their column"
    )
    chosen = [Column(name, type, f"the field {name}") for name, type in columns]
    made = _table("wide", "one message, with chosen fields as columns", last, *chosen)
    seen: set[str] = set()
    for column in made.columns:
        if column.name in seen:
            raise OptionError(f"two columns would be called {column.name!r}")
        seen.add(column.name)
    return made


# --- schemas --------------------------------------------------------------------------------------


def arrow_schema(of: Table | str, *, spark: bool = False) -> pa.Schema:
    """The Arrow schema of a table.

    Args:
        of: the table or its name.
        spark: as Spark takes it: plain text instead of dictionaries, times as whole numbers.

    Raises:
        OptionError: there is no such table.
    """
    return schema_of(table(of) if isinstance(of, str) else of, spark=spark)


def spark_ddl(of: Table | str) -> str:
    """The schema as Spark's DDL text.

    >>> spark_ddl("gaps").split(", ")[2]
    '`offset` BIGINT'

    Raises:
        OptionError: there is no such table.
    """
    chosen = table(of) if isinstance(of, str) else of
    return ", ".join(
        f"`{column.name.replace('`', '``')}` {spark_type(column.type)}" for column in chosen.columns
    )


def docs_rows(of: Table | str) -> list[tuple[str, str, str, str]]:
    """Name, Arrow type, Spark type and meaning of every column, for the docs.

    Raises:
        OptionError: there is no such table.
    """
    chosen = table(of) if isinstance(of, str) else of
    return [
        (column.name, str(arrow_type(column.type)), spark_type(column.type), column.doc)
        for column in chosen.columns
    ]
