"""Durable transactions of a broker's store, compared with plain inserts through the same driver.

Both write the same objects to a table with the same columns, in batches of the same size, each made
durable before the next. The plain side only hands rows to the driver's ``executemany``; the store
also remembers transaction ids, checks keys, gives stamps and makes columns, and on PostgreSQL logs
every change for other brokers. They take turns, and the median ratio counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from oracles.postgres import MISSING, find_binaries, running
from sqlalchemy import make_url

from wireloom.formats.blaze import from_blz, new_value
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import Action
from wireloom.services.blaze.store import Outcome, StoreSettings, Write, open_store
from wireloom.services.blaze.store.tables import stored_classes

GOALS = {"ratio": 0.7}
"""The least ratio of durable transactions to plain inserts."""
BATCHES = (16, 64, 512)
"""Transactions per commit: what a few, some and very many busy connections have in flight."""
MODEL = from_blz(
    """
@model_name "bench"
nclass ORDER
{
    @id 1
    uint_32 number
    ascii[64] name
    int_64 total
    float_64 price
    int_32 amount
    int_32[4] parts
    @persistent
    @key primary
    @id 1
    @fldset {number}
    @key_end
}
"""
)
VALUES = {"name": "n" * 64, "total": 1 << 40, "price": 1.25, "amount": -7, "parts": [1, 2, 3, 4]}
"""With the key, 130 bytes when encoded."""

_used = count(1)


def _objects(number: int) -> list[Any]:
    return [new_value(MODEL, "ORDER", {"number": next(_used), **VALUES}) for _ in range(number)]


def store_writes(url: str, number: int, *, batch: int) -> float:
    """Seconds for so many durable INS transactions, up to `batch` per commit."""

    async def run() -> float:
        store = await open_store(url, MODEL, settings=StoreSettings(max_group=batch))
        await store.start(lambda changes: None, lambda nclsid: None)
        connid = await store.next_connid()
        # As a session has them: decoded, with the bytes received.
        given = [(value, encode_nclass(value)) for value in _objects(number)]
        left = number
        refused = ""
        finished = asyncio.Event()

        def done(outcome: Outcome) -> None:
            nonlocal left, refused
            refused = refused or outcome.reason
            left -= 1
            if not left:
                finished.set()

        start = time.perf_counter()
        for place, (value, body) in enumerate(given, 1):
            if store.is_full:
                await store.room()
            store.submit(Write(Action.INS, value, (1, 1, connid, place), body), done)
        await finished.wait()
        seconds = time.perf_counter() - start
        await store.close()
        if refused:
            raise RuntimeError(refused)
        return seconds

    return asyncio.run(run())


def raw_inserts(url: str, number: int, *, batch: int) -> float:
    """Seconds for so many plain inserts of the same rows, `batch` per commit."""
    parsed = make_url(url)
    is_sqlite = parsed.drivername == "sqlite"
    stored = stored_classes(MODEL, is_sqlite)[1]
    rows = [(1, 2, 0, *stored.flat.row(value), b"b" * 130) for value in _objects(number)]
    names = ["ts0", "ts1", "del", *(column.name for column in stored.flat.columns), "body"]
    mark = "?" if is_sqlite else "%s"
    insert = f"INSERT INTO plain VALUES ({', '.join([mark] * len(names))})"
    with contextlib.closing(_connect(url)) as connection:
        binary = "BLOB" if is_sqlite else "BYTEA"
        types = ["BIGINT", "BIGINT", "INTEGER", "BIGINT PRIMARY KEY", "TEXT", "BIGINT"]
        types += ["DOUBLE PRECISION", *["INTEGER"] * 5, binary]
        columns = ", ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
        connection.execute("DROP TABLE IF EXISTS plain")
        connection.execute(f"CREATE TABLE plain ({columns})")
        connection.execute("CREATE INDEX plain_stamps ON plain (ts0, ts1)")
        connection.commit()
        cursor = connection.cursor()
        start = time.perf_counter()
        for place in range(0, number, batch):
            cursor.executemany(insert, rows[place : place + batch])
            connection.commit()
        return time.perf_counter() - start


def _connect(url: str) -> Any:
    parsed = make_url(url)
    if parsed.drivername == "sqlite":
        connection = sqlite3.connect(str(parsed.database))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection
    return psycopg.connect(
        user=parsed.username, dbname=parsed.database, host=str(parsed.query["host"])
    )


def measure(url: str, number: int, rounds: int, *, batch: int) -> dict[str, float]:
    """Transactions and plain inserts per second, and their ratio."""
    pairs = [
        (raw_inserts(url, number, batch=batch), store_writes(url, number, batch=batch))
        for _ in range(rounds)
    ]
    return {
        "inserts_per_second": number / median(raw for raw, _ in pairs),
        "transactions_per_second": number / median(ours for _, ours in pairs),
        "ratio": median(raw / ours for raw, ours in pairs),
    }


@contextlib.contextmanager
def databases() -> Iterator[dict[str, Callable[[], str]]]:
    """Addresses of new databases, by kind; a PostgreSQL of our own if it is installed."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        numbers = count()
        found: dict[str, Callable[[], str]] = {
            "sqlite": lambda: f"sqlite:///{folder / f'bench{next(numbers)}.db'}"
        }
        binaries = find_binaries()
        if binaries is None:
            print(MISSING)
        else:
            server = stack.enter_context(running(binaries, is_durable=True))
            found["postgresql"] = server.new_database
        yield found


def main(quick: bool) -> dict[str, Any]:
    rounds = 3 if quick else 5
    result: dict[str, Any] = {"goals": GOALS}
    print(f"{'store':12} {'batch':>5} {'inserts/s':>10} {'transactions/s':>15} {'ratio':>7}")
    with databases() as found:
        for name, new in found.items():
            result[name] = {}
            for batch in BATCHES:
                number = batch * (32 if quick else 128)
                result[name][batch] = row = measure(new(), number, rounds, batch=batch)
                plain, ours = row["inserts_per_second"], row["transactions_per_second"]
                figures = f"{plain:10,.0f} {ours:15,.0f} {row['ratio']:7.2f}"
                print(f"{name:12} {batch:5} {figures}  (goal {GOALS['ratio']})")
    return result
