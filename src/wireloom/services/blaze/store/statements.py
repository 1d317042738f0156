"""The statements of a commit, as quick as each driver can be: prepared once for each class.

SQLite is asked row by row, which costs it no round trip. PostgreSQL gets the columns of a whole
group as arrays, one statement for all its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from wireloom.formats.blaze.session.events import Stamp
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
    "ClassState",
    "Logged",
    "PostgresStatements",
    "SqliteStatements",
    "Statements",
]

CHANNEL = "blaze_changes"
"""Where brokers on one PostgreSQL wake each other."""

_PORTION = 500
"""Values in one statement; old versions of SQLite take no more than 999."""


class ClassState(NamedTuple):
    """A row of `CLASSES`."""

    generation: int
    stamp: Stamp
    low: Stamp


class Logged(NamedTuple):
    """A row of `CHANGES`."""

    nclsid: int
    ts0: int
    ts1: int
    action: int
    key: str | None
    body: bytes
    delta: bytes | None


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

    def __init__(self, classes: Iterable[StoredClass]) -> None:
        self._sql = {
            stored.nclass.id: _ClassSql(stored, self.dialect)
            for stored in classes
            if stored.table is not None
        }
        self._set_stamp = (
            update(CLASSES)
            .where(CLASSES.c.nclsid == bindparam("id"))
            .values(ts0=bindparam("new0"), ts1=bindparam("new1"))
        )

    def lock(self, connection: Connection, nclsids: Sequence[int]) -> dict[int, ClassState]:
        """The state of classes, which nobody else changes until the transaction ends.

        All take the locks in one order, so that no two wait for each other.
        """
        found = connection.execute(
            select(CLASSES)
            .where(CLASSES.c.nclsid.in_(nclsids))
            .order_by(CLASSES.c.nclsid)
            .with_for_update()
        )
        return {
            row.nclsid: ClassState(row.generation, (row.ts0, row.ts1), (row.low0, row.low1))
            for row in found
        }

    def set_stamps(self, connection: Connection, stamps: dict[int, Stamp]) -> None:
        """Note the last stamps of classes."""
        if stamps:
            connection.execute(
                self._set_stamp,
                [
                    {"id": nclsid, "new0": stamp[0], "new1": stamp[1]}
                    for nclsid, stamp in sorted(stamps.items())
                ],
            )

    def clear(self, connection: Connection, nclsid: int, first: Stamp) -> int:
        """Delete all objects of a class logically, with stamps from `first` on; how many."""
        return connection.exec_driver_sql(self._sql[nclsid].clear, first).rowcount

    @abstractmethod
    def take_ids(self, connection: Connection, ids: Sequence[bytes], at: int) -> set[bytes]:
        """Remember ids of transactions; gives those that were there already."""

    @abstractmethod
    def has_id(self, connection: Connection, id: bytes) -> bool:
        """Whether an id is remembered."""

    @abstractmethod
    def fetch(
        self, connection: Connection, nclsid: int, keys: Sequence[Key]
    ) -> dict[Key, tuple[int, bytes]]:
        """The mark of deletion and the encoded object of each key that has a row."""

    @abstractmethod
    def upsert(self, connection: Connection, nclsid: int, rows: Sequence[Key]) -> None:
        """Write rows, new ones or in place of those with the same key."""

    @abstractmethod
    def remove(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> None:
        """Delete rows physically."""

    @abstractmethod
    def log(self, connection: Connection, changes: Sequence[Logged], sender: str) -> None:
        """Tell other brokers, when the transaction is committed."""


class SqliteStatements(Statements):
    """On the driver's own connection, which is quickest."""

    dialect = sqlite.dialect()

    def __init__(self, classes: Iterable[StoredClass]) -> None:
        super().__init__(classes)
        self._fetch = {
            nclsid: f"SELECT del, {BODY} FROM {sql.table} WHERE "
            + " AND ".join(f"{key} = ?" for key in sql.keys)
            for nclsid, sql in self._sql.items()
        }
        self._upsert = {
            nclsid: f"{sql.into} VALUES ({', '.join('?' * len(sql.columns))}) {sql.upsert}"
            for nclsid, sql in self._sql.items()
        }
        self._remove = {
            nclsid: f"DELETE FROM {sql.table} WHERE "
            + " AND ".join(f"{key} = ?" for key in sql.keys)
            for nclsid, sql in self._sql.items()
        }
        table = self.dialect.identifier_preparer.quote(TRANSACTIONS.name)
        self._take = f"INSERT INTO {table} (id, at) VALUES (?, ?)"
        self._known = f"SELECT id FROM {table} WHERE id IN "

    def take_ids(self, connection: Connection, ids: Sequence[bytes], at: int) -> set[bytes]:
        """Remember ids of transactions; gives those that were there already."""
        raw: Any = connection.connection.dbapi_connection
        known: set[bytes] = set()
        for start in range(0, len(ids), _PORTION):
            some = ids[start : start + _PORTION]
            marks = f"({', '.join('?' * len(some))})"
            known.update(row[0] for row in raw.execute(self._known + marks, some))
        raw.executemany(self._take, [(id, at) for id in ids if id not in known])
        return known

    def has_id(self, connection: Connection, id: bytes) -> bool:
        """Whether an id is remembered."""
        raw: Any = connection.connection.dbapi_connection
        return raw.execute(self._known + "(?)", (id,)).fetchone() is not None

    def fetch(
        self, connection: Connection, nclsid: int, keys: Sequence[Key]
    ) -> dict[Key, tuple[int, bytes]]:
        """The mark of deletion and the encoded object of each key that has a row."""
        raw: Any = connection.connection.dbapi_connection
        cursor = raw.cursor()
        sql = self._fetch[nclsid]
        found = {}
        for key in keys:
            row = cursor.execute(sql, key).fetchone()
            if row is not None:
                found[key] = row
        return found

    def upsert(self, connection: Connection, nclsid: int, rows: Sequence[Key]) -> None:
        """Write rows, new ones or in place of those with the same key."""
        raw: Any = connection.connection.dbapi_connection
        raw.executemany(self._upsert[nclsid], rows)

    def remove(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> None:
        """Delete rows physically."""
        raw: Any = connection.connection.dbapi_connection
        raw.executemany(self._remove[nclsid], keys)

    def log(self, connection: Connection, changes: Sequence[Logged], sender: str) -> None:
        """Nothing: a file has one broker."""


class PostgresStatements(Statements):
    """With arrays of columns."""

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

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
        quote = self.dialect.identifier_preparer.quote
        # In one order, so that no two wait for each other.
        self._take = (
            f"INSERT INTO {quote(TRANSACTIONS.name)} (id, at)"
            " SELECT id, %s FROM unnest(%s::bytea[]) AS given (id) ORDER BY id"
            " ON CONFLICT DO NOTHING RETURNING id"
        )
        self._known = f"SELECT 1 FROM {quote(TRANSACTIONS.name)} WHERE id = %s"
        names = ", ".join(quote(name) for name in Logged._fields)
        types = ["integer", "bigint", "bigint", "smallint", "text", "bytea", "bytea"]
        self._log = (
            f"INSERT INTO {quote(CHANGES.name)} ({names}) SELECT * FROM unnest({_arrays(types)})"
        )

    def take_ids(self, connection: Connection, ids: Sequence[bytes], at: int) -> set[bytes]:
        """Remember ids of transactions; gives those that were there already."""
        taken = connection.exec_driver_sql(self._take, (at, list(ids))).scalars()
        return set(ids).difference(map(bytes, taken))

    def has_id(self, connection: Connection, id: bytes) -> bool:
        """Whether an id is remembered."""
        return connection.exec_driver_sql(self._known, (id,)).first() is not None

    def fetch(
        self, connection: Connection, nclsid: int, keys: Sequence[Key]
    ) -> dict[Key, tuple[int, bytes]]:
        """The mark of deletion and the encoded object of each key that has a row."""
        found = connection.exec_driver_sql(self._fetch[nclsid], _turned(keys))
        return {tuple(row[2:]): (row[0], bytes(row[1])) for row in found}

    def upsert(self, connection: Connection, nclsid: int, rows: Sequence[Key]) -> None:
        """Write rows, new ones or in place of those with the same key."""
        connection.exec_driver_sql(self._upsert[nclsid], _turned(rows))

    def remove(self, connection: Connection, nclsid: int, keys: Sequence[Key]) -> None:
        """Delete rows physically."""
        connection.exec_driver_sql(self._remove[nclsid], _turned(keys))

    def log(self, connection: Connection, changes: Sequence[Logged], sender: str) -> None:
        """Tell other brokers, when the transaction is committed."""
        connection.exec_driver_sql(self._log, _turned(changes))
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, sender))


def _arrays(types: Sequence[str]) -> str:
    return ", ".join(f"%s::{type_}[]" for type_ in types)


def _turned(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    """Columns of rows."""
    return tuple(map(list, zip(*rows, strict=True)))
