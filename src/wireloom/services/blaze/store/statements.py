"""The statements of a commit, as quick as each driver can be: prepared once for each class.

SQLite is given many rows by one statement: whenever it gets to work the driver lets other threads
run, and waits until they pause. PostgreSQL gets the columns of a whole group as arrays, one
statement for all its rows, and all statements of a step in one round trip.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from wireloom.formats.blaze.session.events import Stamp
from wireloom.services.blaze.store.arrays import as_array
from wireloom.services.blaze.store.flat import BODY, Key
from wireloom.services.blaze.store.tables import (
    CHANGES,
    CLASSES,
    TRANSACTIONS,
    StoredClass,
    sql_type,
)

__all__ = [
    "CHANNEL",
    "Books",
    "ClassState",
    "Found",
    "Logged",
    "PostgresStatements",
    "Rows",
    "Run",
    "SqliteStatements",
    "Statements",
]

CHANNEL = "blaze_changes"
"""Where brokers on one PostgreSQL wake each other."""

Stored = tuple[int, bytes]
"""The mark of deletion, and the encoded object."""

_PORTIONS = (64, 8, 1)
"""Rows in one statement of SQLite: with more, hardly anything is gained."""
_MAX_VALUES = 999
"""Values in one statement; old versions of SQLite take no more."""

Run = tuple[bytes, int, int]
"""Ids of transactions: the first three words, the first and the last of their last words."""


class ClassState(NamedTuple):
    """A row of `CLASSES`."""

    generation: int
    stamp: Stamp
    low: Stamp


class Found(NamedTuple):
    """What a group finds, under the locks of its classes."""

    states: dict[int, ClassState]
    known: list[Run]
    """Transactions that were answered before, among others."""
    rows: dict[int, dict[Key, Stored]]
    """The row of each key that has one, by class."""
    is_done: bool = False
    """Whether the whole group was carried out before."""


class Logged(NamedTuple):
    """A row of `CHANGES`."""

    nclsid: int
    ts0: int
    ts1: int
    action: int
    key: str | None
    body: bytes
    delta: bytes | None


class Rows(NamedTuple):
    """What becomes of rows, by class."""

    written: dict[int, list[Key]]
    removed: dict[int, list[Key]]
    """Their keys."""


class Books(NamedTuple):
    """What a commit notes besides the rows."""

    stamps: Mapping[int, Stamp]
    """The last stamp of each class that has changed."""
    logged: Sequence[Logged]
    answered: Sequence[tuple[bytes, int, int, int]]
    """Transactions that were answered, and when."""
    sender: str
    """Who tells other brokers."""


_RUN = ("bytea", "bigint", "bigint")
_ANSWERED = (*_RUN, "bigint")
_STAMPS = ("integer", "bigint", "bigint")
_LOGGED = ("integer", "bigint", "bigint", "smallint", "text", "bytea", "bytea")
"""Types of columns."""


class _ClassSql:
    """The statements of one class."""

    def __init__(self, stored: StoredClass, dialect: Dialect) -> None:
        assert stored.table is not None
        quote = dialect.identifier_preparer.quote
        flat = stored.flat
        self.table = quote(stored.table.name)
        self.names = ["ts0", "ts1", "del", *(column.name for column in flat.columns), BODY]
        self.columns = [quote(name) for name in self.names]
        self.keys = [quote(column.name) for column in flat.key]
        self.types = [
            "bigint",
            "bigint",
            "smallint",
            *(sql_type(column) for column in flat.columns),
            "bytea",
        ]
        self.key_types = [sql_type(column) for column in flat.key]
        others = [name for name in self.columns if name not in self.keys]
        self.upsert = f"ON CONFLICT ({', '.join(self.keys)}) DO UPDATE SET " + ", ".join(
            f"{name} = excluded.{name}" for name in others
        )
        self.into = f"INSERT INTO {self.table} ({', '.join(self.columns)})"
        rank = f"SELECT {', '.join(self.keys)}, row_number() OVER (ORDER BY ts0, ts1) AS place"
        rank += f" FROM {self.table} WHERE del = 0"
        where = " AND ".join(f"{self.table}.{key} = ranked.{key}" for key in self.keys)
        mark = ("?",) * 2 if dialect.name == "sqlite" else ("%s",) * 2
        self.clear = (
            f"UPDATE {self.table} SET ts0 = {mark[0]}, ts1 = {mark[1]} + ranked.place - 1, del = 1"
            f" FROM ({rank}) AS ranked WHERE {where}"
        )


class Statements(ABC):
    """What a commit does, on a connection in a transaction."""

    dialect: Dialect
    has_log: bool
    """Whether other brokers want to know."""

    def __init__(self, classes: Iterable[StoredClass]) -> None:
        self._sql = {
            stored.nclass.id: _ClassSql(stored, self.dialect)
            for stored in classes
            if stored.table is not None
        }
        quote = self.dialect.identifier_preparer.quote
        self._classes = quote(CLASSES.name)
        self._transactions = quote(TRANSACTIONS.name)
        self._changes = quote(CHANGES.name)

    @abstractmethod
    def begin(
        self,
        connection: Connection,
        nclsids: Sequence[int],
        ids: Sequence[Run],
        keys: Mapping[int, Sequence[Key]],
        marker: bytes = b"",
    ) -> Found:
        """Lock classes, look for ids of transactions, and read rows.

        All brokers take locks in one order, so that no two wait for each other.

        Args:
            connection: in a transaction.
            nclsids: the classes, ascending.
            ids: of the transactions.
            keys: of the rows, by class.
            marker: an origin to look for, which would tell that all of it was done before.
        """

    @abstractmethod
    def write(self, connection: Connection, rows: Rows) -> None:
        """Write rows of some classes, and delete others."""

    @abstractmethod
    def finish(self, connection: Connection, rows: Rows, books: Books) -> None:
        """Do what is left, and tell other brokers.

        Nothing may follow in this transaction: where it saves a round trip, it is committed here.
        """

    def clear(self, connection: Connection, nclsid: int, first: Stamp) -> int:
        """Delete all objects of a class logically, with stamps from `first` on; how many."""
        return connection.exec_driver_sql(self._sql[nclsid].clear, first).rowcount

    @abstractmethod
    def fetch(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> dict[Key, Stored]:
        """The row of each key that has one."""


class SqliteStatements(Statements):
    """On the driver's own connection, which is quickest."""

    dialect = sqlite.dialect()
    has_log = False

    def __init__(self, classes: Iterable[StoredClass]) -> None:
        super().__init__(classes)
        self._fetch, self._upsert, self._remove = {}, {}, {}
        for nclsid, sql in self._sql.items():
            where = " AND ".join(f"{key} = ?" for key in sql.keys)
            self._remove[nclsid] = f"DELETE FROM {sql.table} WHERE {where}"
            self._upsert[nclsid] = _Many(f"{sql.into} VALUES ", len(sql.columns), sql.upsert)
            names = [f"wanted.column{i + 1}" for i in range(len(sql.keys))]
            where = " AND ".join(
                f"{sql.table}.{key} = {name}" for key, name in zip(sql.keys, names, strict=True)
            )
            self._fetch[nclsid] = _Many(
                f"SELECT del, {BODY}, {', '.join(names)} FROM (VALUES ",
                len(names),
                # In this order: it is asked for each key.
                f") AS wanted CROSS JOIN {sql.table} ON {where}",
            )
        self._states = f"SELECT {_STATE} FROM {self._classes}"
        self._set = f"UPDATE {self._classes} SET ts0 = ?, ts1 = ? WHERE nclsid = ?"
        self._answered = f"INSERT INTO {self._transactions} VALUES (?, ?, ?, ?)"
        runs = f"SELECT origin, first, last FROM {self._transactions} WHERE origin = ?1"
        # They do not overlap, so all that end behind the one that is sought begin behind it, too,
        # but perhaps for the first.
        self._known = (
            f"{runs} AND last BETWEEN ?2 AND ?3 UNION ALL"
            f" SELECT * FROM ({runs} AND last > ?3 ORDER BY last LIMIT 1) WHERE first <= ?3"
        )

    def begin(
        self,
        connection: Connection,
        nclsids: Sequence[int],
        ids: Sequence[Run],
        keys: Mapping[int, Sequence[Key]],
        marker: bytes = b"",
    ) -> Found:
        """Look for ids of transactions, and read rows; the whole file is locked already."""
        raw: Any = connection.connection.dbapi_connection
        known = [run for wanted in ids for run in raw.execute(self._known, wanted)]
        states = _states(raw.execute(self._states))
        rows = {nclsid: self._rows(raw, nclsid, wanted) for nclsid, wanted in keys.items()}
        return Found(states, known, rows)

    def _rows(self, raw: Any, nclsid: int, keys: Sequence[Key]) -> dict[Key, Stored]:
        return _rows(chain.from_iterable(self._fetch[nclsid].each(raw, keys)))

    def fetch(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> dict[Key, Stored]:
        """The row of each key that has one."""
        return self._rows(connection.connection.dbapi_connection, nclsid, keys)

    def write(self, connection: Connection, rows: Rows) -> None:
        """Write rows of some classes, and delete others."""
        raw: Any = connection.connection.dbapi_connection
        for nclsid, keys in rows.removed.items():
            raw.executemany(self._remove[nclsid], keys)
        for nclsid, each in rows.written.items():
            for _ in self._upsert[nclsid].each(raw, each):
                pass

    def finish(self, connection: Connection, rows: Rows, books: Books) -> None:
        """Do what is left; there are no other brokers."""
        raw: Any = connection.connection.dbapi_connection
        raw.executemany(self._answered, books.answered)
        self.write(connection, rows)
        raw.executemany(self._set, [(*stamp, nclsid) for nclsid, stamp in books.stamps.items()])


class PostgresStatements(Statements):
    """On the driver's own connection, which can send several statements at once.

    Arrays are sent in the binary form: see `arrays`.
    """

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    has_log = True

    def __init__(self, classes: Iterable[StoredClass]) -> None:
        super().__init__(classes)
        self._fetch, self._upsert, self._remove = {}, {}, {}
        for nclsid, sql in self._sql.items():
            places = [f"k{i}" for i in range(len(sql.keys))]
            wanted = f"unnest({_arrays(sql.key_types)}) AS wanted ({', '.join(places)})"
            where = " AND ".join(
                f"{sql.table}.{key} = wanted.{place}"
                for key, place in zip(sql.keys, places, strict=True)
            )
            keys = ", ".join(f"{sql.table}.{key}" for key in sql.keys)
            self._fetch[nclsid] = (
                f"SELECT del, {BODY}, {keys} FROM {wanted} JOIN {sql.table} ON {where}"
            )
            self._remove[nclsid] = f"DELETE FROM {sql.table} USING {wanted} WHERE {where}"
            self._upsert[nclsid] = (
                f"{sql.into} SELECT * FROM unnest({_arrays(sql.types)}) {sql.upsert}"
            )
        self._lock = (
            f"SELECT {_STATE} FROM {self._classes}"
            " WHERE nclsid = ANY(%s) ORDER BY nclsid FOR UPDATE"
        )
        stamp = (
            f"UPDATE {self._classes} AS old SET ts0 = new.ts0, ts1 = new.ts1"
            f" FROM unnest({_arrays(_STAMPS)}) AS new (nclsid, ts0, ts1)"
            " WHERE old.nclsid = new.nclsid"
        )
        run = _arrays(_RUN)
        self._answered = (
            f"INSERT INTO {self._transactions} SELECT * FROM unnest({_arrays(_ANSWERED)})"
        )
        here = f"FROM {self._transactions} AS old WHERE old.origin = new.origin AND old.last"
        # See SQLite's.
        self._known = (
            f"SELECT found.* FROM unnest({run}) AS new (origin, first, last) CROSS JOIN LATERAL"
            f" (SELECT old.origin, old.first, old.last {here} BETWEEN new.first AND new.last"
            f" UNION ALL (SELECT old.origin, old.first, old.last {here} > new.last"
            " ORDER BY old.last LIMIT 1)) AS found WHERE found.first <= new.last"
        )
        self._marked = f"SELECT 1 FROM {self._transactions} WHERE origin = %s"
        quote = self.dialect.identifier_preparer.quote
        names = ", ".join(quote(name) for name in Logged._fields)
        log = f"INSERT INTO {self._changes} ({names}) SELECT * FROM unnest({_arrays(_LOGGED)})"
        self._changed = (
            f"WITH answered AS ({self._answered}), stamped AS ({stamp}), logged AS ({log})"
            " SELECT pg_notify(%s, %s)"
        )

    def begin(
        self,
        connection: Connection,
        nclsids: Sequence[int],
        ids: Sequence[Run],
        keys: Mapping[int, Sequence[Key]],
        marker: bytes = b"",
    ) -> Found:
        """Lock classes, look for ids of transactions, and read rows: one round trip."""
        raw: Any = connection.connection.driver_connection
        with raw.pipeline():
            states = raw.execute(self._lock, (list(nclsids),))
            done = raw.execute(self._marked, (marker,)) if marker else None
            known = raw.execute(self._known, _turned(ids, _RUN), binary=True) if ids else ()
            rows = {
                nclsid: self._fetch_rows(raw, nclsid, wanted) for nclsid, wanted in keys.items()
            }
        return Found(
            _states(states),
            [(bytes(origin), first, last) for origin, first, last in known],
            {nclsid: _rows(found) for nclsid, found in rows.items()},
            done is not None and done.fetchone() is not None,
        )

    def write(self, connection: Connection, rows: Rows) -> None:
        """Write rows of some classes, and delete others: one round trip."""
        raw: Any = connection.connection.driver_connection
        with raw.pipeline():
            self._write(raw, rows)

    def _write(self, raw: Any, rows: Rows) -> None:
        for nclsid, keys in rows.removed.items():
            raw.execute(self._remove[nclsid], _turned(keys, self._sql[nclsid].key_types))
        for nclsid, each in rows.written.items():
            raw.execute(self._upsert[nclsid], _turned(each, self._sql[nclsid].types))

    def fetch(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> dict[Key, Stored]:
        """The row of each key that has one."""
        return _rows(self._fetch_rows(connection.connection.driver_connection, nclsid, keys))

    def _fetch_rows(self, raw: Any, nclsid: int, keys: Sequence[Key]) -> Any:
        types = self._sql[nclsid].key_types
        return raw.execute(self._fetch[nclsid], _turned(keys, types), binary=True)

    def finish(self, connection: Connection, rows: Rows, books: Books) -> None:
        """Do what is left, wake other brokers, and commit: one round trip."""
        raw: Any = connection.connection.driver_connection
        with raw.pipeline():
            self._write(raw, rows)
            values = _turned(books.answered, _ANSWERED)
            if books.logged:
                stamps = [(nclsid, *stamp) for nclsid, stamp in books.stamps.items()]
                values += [*_turned(stamps, _STAMPS), *_turned(books.logged, _LOGGED)]
                raw.execute(self._changed, [*values, CHANNEL, books.sender])
            else:
                raw.execute(self._answered, values)
            raw.execute("COMMIT")  # `commit` would wait once more


class _Many:
    """A statement of SQLite for many rows of values at once.

    Args:
        before: the statement up to the values.
        width: values in a row.
        behind: what follows.
    """

    def __init__(self, before: str, width: int, behind: str) -> None:
        row = f"({', '.join('?' * width)})"
        sizes = [size for size in _PORTIONS if size * width <= _MAX_VALUES] or [1]
        self._sizes = [(size, f"{before}{', '.join([row] * size)} {behind}") for size in sizes]

    def each(self, raw: Any, rows: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Carry it out, as often as it takes; gives what it gives."""
        start, end = 0, len(rows)
        for size, statement in self._sizes:
            while end - start >= size:
                some = rows[start : start + size]
                yield raw.execute(statement, [*chain.from_iterable(some)])
                start += size


_STATE = "nclsid, generation, ts0, ts1, low0, low1"


def _states(rows: Iterable[tuple[int, ...]]) -> dict[int, ClassState]:
    return {row[0]: ClassState(row[1], (row[2], row[3]), (row[4], row[5])) for row in rows}


def _rows(found: Iterable[tuple[Any, ...]]) -> dict[Key, Stored]:
    return {tuple(row[2:]): (row[0], bytes(row[1])) for row in found}


def _arrays(types: Sequence[str]) -> str:
    return ", ".join(f"%b::{type_}[]" for type_ in types)


def _turned(rows: Sequence[tuple[Any, ...]], types: Sequence[str]) -> list[Any]:
    """Columns of rows, as parameters."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [as_array(*each) for each in zip(types, columns, strict=True)]
