"""A database that runs functions of a connection, whichever of the two it is.

What reads and writes is written once, as plain functions of a SQLAlchemy connection, and runs in
threads: one for all writing, one or a few for reading. The event loop never waits for a database,
and while a commit waits for the disk, the next group is collected.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import unquote

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from wireloom.errors import OptionError, StoreError

__all__ = [
    "Database",
    "Failure",
    "PostgresDatabase",
    "SqliteDatabase",
    "open_database",
    "store_errors",
]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[Connection], T]

# Classes of SQLSTATE: connection, resources, operator's intervention, system, locks.
_AWAY = ("08", "53", "57", "58", "55")
_AGAIN = ("40",)
_READERS = 4
"""Downloads from PostgreSQL at one time."""
_CONNECT_TIMEOUT = 10
"""Seconds for PostgreSQL to answer at all."""


class Failure(Enum):
    """What a failed piece of work calls for."""

    AWAY = "away"
    """The database is gone for now; whether the work was done is not known."""
    AGAIN = "again"
    """It was in another's way, and was not done."""
    FULL = "full"
    """The database takes nothing at the moment, and it was not done."""
    WRONG = "wrong"
    """The work itself is at fault, and was not done."""


class Database(ABC):
    """Runs work in transactions."""

    is_sqlite: bool
    is_shared: bool
    """Whether other brokers may use it at the same time."""

    def __init__(self, url: URL, engine: Engine, readers: int) -> None:
        self.url = url
        self._engine = engine
        self._writer = ThreadPoolExecutor(1, "blaze-store")
        self._readers = ThreadPoolExecutor(readers, "blaze-read") if readers else self._writer

    def run(self, work: Work[T]) -> asyncio.Future[T]:
        """Do it in a transaction that may write; when it is done, it is durable."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._writer, self._write, work)

    def commit(self, work: Work[T]) -> asyncio.Future[T]:
        """As `run`, for work that finds all its rows by their keys."""
        return self.run(work)

    def read(self, work: Work[T]) -> asyncio.Future[T]:
        """Do it in a transaction that only reads."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._readers, self._read, work)

    @abstractmethod
    def _write(self, work: Work[T]) -> T:
        """`run`, in its thread."""

    @abstractmethod
    def _read(self, work: Work[T]) -> T:
        """`read`, in its thread."""

    async def close(self) -> None:
        """Let go of it."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._finish)
        self._writer.shutdown()

    def _finish(self) -> None:
        if self._readers is not self._writer:
            self._readers.shutdown()  # what is being read is read to its end
        self._disconnect()

    def _disconnect(self) -> None:
        self._engine.dispose()

    @abstractmethod
    def failure(self, error: Exception) -> Failure:
        """What an error of `run` means."""

    def __str__(self) -> str:
        # As it was given, without the driver and what it is told besides.
        url = self.url.set(drivername=self.url.get_backend_name())
        url = url.difference_update_query(["client_encoding", "connect_timeout"])
        return url.render_as_string(hide_password=True)


def open_database(url: str) -> Database:
    """The database behind ``sqlite:///file``, ``sqlite://`` (memory) or ``postgresql://…``.

    Raises:
        OptionError: the address is none of these.
        StoreError: another process uses the file.
    """
    parsed, is_file = check_address(url)
    return SqliteDatabase(parsed) if is_file else PostgresDatabase(parsed)


def check_address(url: str) -> tuple[URL, bool]:
    """The address of a database, and whether it is a file.

    Raises:
        OptionError: it is none of those that `open_database` takes.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise OptionError(f"{url!r} is not the address of a database") from None
    name = parsed.drivername
    if name in ("sqlite", "sqlite+pysqlite"):
        return parsed, True
    if name in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed, False
    raise OptionError(f"a store is sqlite:// or postgresql://, not {name}://")


class SqliteDatabase(Database):
    """A file, or memory. One broker at a time; others may read the file with their own tools."""

    is_sqlite = True
    is_shared = False

    def __init__(self, url: URL) -> None:
        path = url.database
        self._is_memory = not path or path == ":memory:"
        self._lock = None if self._is_memory else _locked(Path(f"{path}.lock"))
        super().__init__(url, _sqlite_engine(url), readers=0 if self._is_memory else 1)
        self._to_write: Connection | None = None
        self._to_read: Connection | None = None
        self._log = None if self._is_memory else _Log(self._engine, Path(str(path)))

    def _write(self, work: Work[T]) -> T:
        if self._to_write is None:
            self._to_write = self._engine.connect()
        if self._log is not None:
            self._log.keep_short(self._to_write)
        with self._to_write.begin():
            return work(self._to_write)

    def _read(self, work: Work[T]) -> T:
        if self._is_memory:
            return self._write(work)
        if self._to_read is None:
            self._to_read = self._engine.connect().execution_options(is_reader=True)
        with self._to_read.begin():
            return work(self._to_read)

    def _disconnect(self) -> None:
        if self._log is not None:
            self._log.close()
        for connection in (self._to_read, self._to_write):
            if connection is not None:
                connection.close()
        super()._disconnect()
        if self._log is not None:
            self._log.close_file()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def failure(self, error: Exception) -> Failure:
        """FULL for what no single write is guilty of: disk full, damaged, locked."""
        name = type(getattr(error, "orig", None)).__name__
        return Failure.FULL if name in ("OperationalError", "DatabaseError") else Failure.WRONG


class _Log:
    """SQLite's log of writes, whose content is carried over into the file beside the commits.

    Within a commit, as SQLite does it by itself, one of many would take many times as long.
    """

    interval = 0.02
    """Seconds between the beginnings of two such transfers, while there are commits. The more is
    carried over at once, the longer takes a commit beside it."""
    max_pages = 16_384
    """Pages in the log, 64 MiB, at which a commit waits until all is carried over: only when
    nobody writes meanwhile does SQLite begin the log anew."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._file: int | None = None
        self._thread = ThreadPoolExecutor(1, "blaze-log")
        self._connection: Connection | None = None
        self._transfer: Future[int] | None = None
        self._next = 0.0

    def keep_short(self, writer: Connection) -> None:
        """Begin a transfer if it is time; called by the thread that writes, before it does."""
        if self._transfer is not None:
            if not self._transfer.done():
                return
            pages, self._transfer = self._pages(self._transfer), None
            if pages > self.max_pages:
                _checkpoint(writer)  # at once, while there is little new in the log
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.interval
            self._transfer = self._thread.submit(self._carry_over)

    def _carry_over(self) -> int:
        if self._connection is None:
            self._connection = self._engine.connect()
        pages = _checkpoint(self._connection)
        if hasattr(os, "fdatasync"):
            # SQLite syncs the file only when the log is carried over to its end, which is while a
            # commit waits: what is on the disk by then is not waited for.
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY)
            os.fdatasync(self._file)
        return pages

    def _pages(self, transfer: Future[int]) -> int:
        try:
            return transfer.result()
        except Exception as error:  # whoever writes will see what is wrong, if it stays so
            _LOG.warning("the log is not carried over: %s", error)
            return 0

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def close_file(self) -> None:
        """Called when no connection is open: closing it takes SQLite's locks on the file away."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _checkpoint(connection: Connection) -> int:
    """Carry the log over, as far as nobody reads what is older; gives the pages in the log."""
    raw: Any = connection.connection.dbapi_connection
    _, pages, _ = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)


def _locked(path: Path) -> IO[bytes] | None:
    """Hold a lock beside the file; the system gives it back when the process dies, however."""
    try:
        file = path.open("a+b")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not POSIX: there, SQLite's own locks must do
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreError(
            f"another broker uses {path.with_suffix('')}; several need PostgreSQL"
        ) from None
    return file


def _sqlite_engine(url: URL) -> Engine:
    # Each connection belongs to one thread at a time; the last one closes them all.
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        poolclass=NullPool,
        connect_args={"check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def connected(raw: Any, record: object) -> None:
        raw.isolation_level = None  # the driver begins nothing by itself, see below
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA wal_autocheckpoint = 0")  # see `_Log`
        raw.execute("PRAGMA busy_timeout = 5000")  # for tools that write, which none should
        raw.execute("PRAGMA cache_size = -16384")  # 16 MiB; with 64 nothing was quicker

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # At once, or a transaction that reads first could fail when it comes to write.
        is_reader = connection.get_execution_options().get("is_reader")
        raw: Any = connection.connection.dbapi_connection
        raw.execute("BEGIN" if is_reader else "BEGIN IMMEDIATE")

    return engine


class PostgresDatabase(Database):
    """A server that several brokers may share."""

    is_sqlite = False
    is_shared = True

    def __init__(self, url: URL) -> None:
        if url.host and url.host.lower().startswith("%2f"):
            # A folder with a socket in it, as libpq has it.
            url = url.set(host=None).update_query_dict({"host": unquote(url.host)})
        url = url.set(drivername="postgresql+psycopg")
        url = url.update_query_dict({"client_encoding": "utf8"})
        if "connect_timeout" not in url.query:
            url = url.update_query_dict({"connect_timeout": str(_CONNECT_TIMEOUT)})
        # As many connections as threads, and one thread writes.
        engine = create_engine(url, pool_size=1 + _READERS, max_overflow=0)
        super().__init__(url, engine, _READERS)
        self._by_key = create_engine(url, pool_size=1, max_overflow=0)
        event.listen(self._by_key, "connect", _plan_by_key)
        self._to_commit: Connection | None = None

    def commit(self, work: Work[T]) -> asyncio.Future[T]:
        """As `run`, on a connection where each statement is planned once."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._writer, self._commit, work)

    def _commit(self, work: Work[T]) -> T:
        # Kept: to take one from the pool, and give it back, takes as long as a statement.
        if self._to_commit is None:
            self._to_commit = self._by_key.connect()
        return _begin(self._to_commit, work)

    def _write(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            return _begin(connection, work)

    def _disconnect(self) -> None:
        if self._to_commit is not None:
            self._to_commit.close()
        self._by_key.dispose()
        super()._disconnect()

    def _read(self, work: Work[T]) -> T:
        try:
            return self._read_once(work)
        except (DBAPIError, psycopg.Error) as error:
            if self.failure(error) is not Failure.AWAY:
                raise
        # After a restart of the server all connections are dead: once more, with a new one.
        self._engine.dispose()
        return self._read_once(work)

    def _read_once(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            return work(connection)

    def connect_arguments(self) -> dict[str, Any]:
        """How the driver reaches it, for a connection that only listens."""
        return dict(self._engine.dialect.create_connect_args(self.url)[1])

    def failure(self, error: Exception) -> Failure:
        """What the server's SQLSTATE, or that there is none, calls for."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, psycopg.Error):
            return Failure.WRONG
        state = cause.sqlstate or ""
        if state.startswith(_AGAIN):
            return Failure.AGAIN
        # A server that cannot be reached gives no SQLSTATE.
        if state.startswith(_AWAY) or (not state and isinstance(cause, psycopg.OperationalError)):
            return Failure.AWAY
        return Failure.WRONG


def _begin(connection: Connection, work: Work[T]) -> T:
    """Do it in a transaction."""
    with connection.begin():
        try:
            return work(connection)
        except psycopg.OperationalError:
            # From the driver's own connection: nobody else has seen that it may be broken.
            connection.invalidate()
            raise


def _plan_by_key(raw: Any, record: object) -> None:
    """Have statements planned once, and rows found through an index, on a new connection.

    A plan for each commit takes a good part of its time. One that is kept was made while the table
    had few rows, when reading all of it seems cheaper than an index; it would stay for a minute, in
    which there may be millions.
    """
    raw.execute("SET plan_cache_mode = force_generic_plan")
    for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "material"):
        raw.execute(f"SET enable_{way} = off")
    raw.execute("SET jit = off")  # what has to do without an index seems dear enough to compile
    raw.commit()


@contextlib.contextmanager
def store_errors(database: Database) -> Iterator[None]:
    """Raise what the database says as a StoreError.

    Raises:
        StoreError: it said something.
    """
    try:
        yield
    except (SQLAlchemyError, psycopg.Error, OSError) as error:
        cause = getattr(error, "orig", None) or error
        told = " ".join(str(cause).split())  # PostgreSQL's are of several lines
        raise StoreError(f"{database}: {told or type(cause).__name__}") from error
