"""The tables of a store: one for each stored class, and those in which the store keeps its books.

Names of the latter have a ``$``, which no class can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

from wireloom.errors import SourceError
from wireloom.formats.blaze.declarations import NClass
from wireloom.formats.blaze.model import Model
from wireloom.services.blaze.store.flat import BODY, Flat, flatten, table_names
from wireloom.services.blaze.store.flat import Column as FlatColumn

__all__ = [
    "BOOKS",
    "CHANGES",
    "CLASSES",
    "COUNTERS",
    "FORGOTTEN",
    "MODELS",
    "TRANSACTIONS",
    "FieldType",
    "StoredClass",
    "define_table",
    "sql_type",
    "stored_classes",
]

BOOKS: Final = MetaData()

MODELS: Final = Table(
    "blaze$models",
    BOOKS,
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("model", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""Every model that the store had, as ``.blz`` text; the last one is in use."""

CLASSES: Final = Table(
    "blaze$classes",
    BOOKS,
    Column("nclsid", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("ts0", BigInteger, nullable=False),
    Column("ts1", BigInteger, nullable=False),
    Column("low0", BigInteger, nullable=False),
    Column("low1", BigInteger, nullable=False),
)
"""The last stamp of each class, and the last one that is no longer in the log of changes. Whoever
commits holds the row's lock, so that stamps become visible in their order."""

FORGOTTEN: Final = Table(
    "blaze$forgotten",
    BOOKS,
    Column("nclsid", Integer, primary_key=True, autoincrement=False),
    Column("ts0", BigInteger, nullable=False),
    Column("ts1", BigInteger, nullable=False),
)
"""By class: the stamp of the last deleted object that was removed. Who was away since before that
cannot be told what was deleted."""

CHANGES: Final = Table(
    "blaze$changes",
    BOOKS,
    Column("nclsid", Integer, nullable=False),
    Column("ts0", BigInteger, nullable=False),
    Column("ts1", BigInteger, nullable=False),
    Column("action", SmallInteger, nullable=False),
    Column("key", Text),
    Column("body", LargeBinary, nullable=False),
    Column("delta", LargeBinary),
    PrimaryKeyConstraint("nclsid", "ts0", "ts1"),
)
"""The log of changes, for other brokers; empty in SQLite, where there are none."""

TRANSACTIONS: Final = Table(
    "blaze$transactions",
    BOOKS,
    Column("origin", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("origin", "last"),
    # Only for removing the oldest, which come first in the table: the smallest kind will do.
    Index("blaze$transactions$at", "at", postgresql_using="brin"),
    sqlite_with_rowid=False,
)
"""Ids of transactions that were answered, as runs, for a connection counts its transactions: the
three words that are the same, and the first and the last progressive number. Runs do not overlap.
A group of writes leaves one for each of its connections."""

COUNTERS: Final = Table(
    "blaze$counters",
    BOOKS,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""The last number that was given away: ``connid``, and ``sevtid <class>``."""

_TYPES: Final[dict[str, tuple[str, str, str]]] = {
    # In SQLite, in PostgreSQL, zero.
    "bool": ("NUMERIC", "BOOLEAN", "0"),
    "enum": ("NUMERIC", "INTEGER", "0"),
    "int_16": ("INTEGER", "SMALLINT", "0"),
    "uint_16": ("INTEGER", "INTEGER", "0"),
    "int_32": ("INTEGER", "INTEGER", "0"),
    "uint_32": ("INTEGER", "BIGINT", "0"),
    "int_64": ("INTEGER", "BIGINT", "0"),
    # No affinity: with one, SQLite would make a float of what does not fit 63 bits.
    "uint_64": ("BLOB", "NUMERIC(20)", "0"),
    # Also for 32 bits: the text of PostgreSQL's REAL is not the number that was given.
    "float_32": ("REAL", "DOUBLE PRECISION", "0"),
    "float_64": ("REAL", "DOUBLE PRECISION", "0"),
    "byte": ("INTEGER", "SMALLINT", "0"),
    "text": ("TEXT", "TEXT", "''"),
    "bytes": ("BLOB", "BYTEA", "''"),
}

_MAX_INDEX_BYTES: Final = 2600
"""PostgreSQL has 2,704 bytes for an entry of an index."""
_MAX_INDEX_COLUMNS: Final = 32


class FieldType(UserDefinedType[Any]):
    """The type of a field's column, as each database has it."""

    cache_ok = True

    def __init__(self, kind: str) -> None:
        self.kind = kind


@compiles(FieldType, "sqlite")
def _sqlite_type(type_: FieldType, compiler: Any, **options: Any) -> str:
    return _TYPES[type_.kind][0]


@compiles(FieldType, "postgresql")
def _postgresql_type(type_: FieldType, compiler: Any, **options: Any) -> str:
    return _TYPES[type_.kind][1]


def sql_type(column: FlatColumn) -> str:
    """The type of a column in PostgreSQL."""
    return _TYPES[_kind(column)][1]


def _kind(column: FlatColumn) -> str:
    return "enum" if column.is_enum else column.kind


@dataclass(frozen=True, slots=True)
class StoredClass:
    """A class that the store knows."""

    nclass: NClass
    flat: Flat
    table: Table | None
    """None: its objects are not stored."""


def stored_classes(model: Model, is_sqlite: bool) -> dict[int, StoredClass]:
    """The classes of a model with their tables, by their ids.

    Raises:
        SourceError: a class is persistent and has no primary key, or one that no index can hold.
    """
    names = table_names([nclass for nclass in model.nclasses if nclass.persistent])
    metadata = MetaData()
    found: dict[int, StoredClass] = {}
    for nclass in model.nclasses:
        flat = flatten(model, nclass, has_text_uint64=is_sqlite)
        table = None
        if nclass.persistent:
            if not flat.key:
                raise SourceError(f"class {nclass.name} is persistent and has no primary key")
            if not is_sqlite:
                _check_key(model, flat)
            table = define_table(flat, names[nclass.id], metadata, is_sqlite)
        found[nclass.id] = StoredClass(nclass, flat, table)
    return found


def _check_key(model: Model, flat: Flat) -> None:
    name = flat.nclass.name
    if len(flat.key) > _MAX_INDEX_COLUMNS:
        raise SourceError(
            f"the primary key of {name} has {len(flat.key)} values,"
            f" {_MAX_INDEX_COLUMNS} are the most in PostgreSQL"
        )
    if _index_bytes(flat, flat.key) > _MAX_INDEX_BYTES:
        fields = ", ".join(dict.fromkeys(str(column.path[0]) for column in flat.key))
        raise SourceError(f"the primary key of {name} ({fields}) is too long for PostgreSQL")


def _index_bytes(flat: Flat, columns: tuple[FlatColumn, ...]) -> int:
    """The most that the columns may need in an index; text may stand as hex."""
    return sum(
        8 + (2 * flat.sizes[column] + 2 if column.kind in ("text", "bytes") else 8)
        for column in columns
    )


def define_table(flat: Flat, name: str, metadata: MetaData, is_sqlite: bool) -> Table:
    """The table of a class: stamps and mark of deletion, fields, the encoded object."""
    table = Table(
        name,
        metadata,
        Column("ts0", BigInteger, nullable=False),
        Column("ts1", BigInteger, nullable=False),
        Column("del", SmallInteger, nullable=False),
        *(
            Column(
                column.name,
                FieldType(_kind(column)),
                # In SQLite a NaN is NULL.
                nullable=column.kind in ("float_32", "float_64") and column not in flat.key,
                server_default=text(_default(column, is_sqlite)),
            )
            for column in flat.columns
        ),
        Column(BODY, LargeBinary, nullable=False),
        PrimaryKeyConstraint(*(column.name for column in flat.key)),
    )
    Index(f"blaze${flat.nclass.id}$stamps", table.c.ts0, table.c.ts1)
    for id, columns in flat.secondary.items():
        if is_sqlite or (
            len(columns) <= _MAX_INDEX_COLUMNS and _index_bytes(flat, columns) <= _MAX_INDEX_BYTES
        ):
            Index(f"blaze${flat.nclass.id}$key{id}", *(table.c[column.name] for column in columns))
    return table


def _default(column: FlatColumn, is_sqlite: bool) -> str:
    if column.kind == "bool" and not is_sqlite:
        return "FALSE"
    if column.kind == "bytes" and is_sqlite:
        return "x''"
    return _TYPES[_kind(column)][2]
