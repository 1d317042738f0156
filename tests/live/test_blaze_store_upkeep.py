"""The store keeps what it remembers short, and knows how much it has."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracles.stores import TRUCK, codes, on_store, select, write
from sqlalchemy import text

from wireloom.formats.blaze.codes import Action
from wireloom.formats.blaze.dialects import Action2017
from wireloom.services.blaze.store import SqlStore, StoreSettings, database

INS, UPD, DLT, DEL, RST = Action.INS, Action.UPD, Action.DLT, Action.DEL, Action.RST


def test_what_was_deleted_long_ago_is_forgotten_and_the_store_says_up_to_where(
    store_url: str,
) -> None:
    now = 1_000_000.0

    async def test(store: SqlStore) -> None:
        nonlocal now
        await store.status()
        for number in range(1, 6):
            await store.apply(write(INS, number))
        now += 10
        for number in (1, 2):
            await store.apply(write(DEL, number))
        now += 100
        await store._prune()
        # Nothing is newer than the deletions: whoever has all objects would be behind them.
        assert len(await select(store, 'SELECT * FROM "TRUCK"')) == 5
        await store.apply(write(UPD, 3))
        await store.apply(write(DEL, 4))
        store._next_purge = 0.0
        await store._prune()
        assert await select(store, 'SELECT truck_id, del FROM "TRUCK" ORDER BY truck_id') == [
            (3, 0),
            (4, 1),
            (5, 0),
        ]
        if not store.database.is_shared:  # where they are counted every now and then
            status = await store.status()
            assert (status.rows["TRUCK"], status.deleted["TRUCK"]) == (2, 1)
        for after in ((0, 0), (1_000_000, 3), (1_000_010, 1), (1_000_110, 0)):
            found = await store.portion(TRUCK, after, 9, after)
            assert found.forgotten == (1_000_010, 1)
            assert found.last == (1_000_110, 1)
        await store.apply(write(INS, 1))
        assert [row.action for row in await store.rows(TRUCK, (1_000_110, 0), 9)] == [DEL, INS]

    settings = StoreSettings(deleted_seconds=60, prune_interval=3600)
    on_store(test, store_url, settings=settings, clock=lambda: now)
    # It is still known after a restart.

    async def again(store: SqlStore) -> None:
        assert (await store.portion(TRUCK, (0, 0), 9, None)).forgotten == (1_000_010, 1)

    on_store(again, store_url)


def test_ids_of_transactions_are_forgotten_by_age_and_number(store_url: str) -> None:
    now = 1_000_000.0

    async def test(store: SqlStore) -> None:
        nonlocal now
        for number in range(1, 6):
            await store.apply(write(INS, number, number))
            now += 10
        await store._prune()
        assert codes([await store.apply(write(DEL, n, n)) for n in range(1, 6)]) == [
            0,
            0,
            0,
            201,
            201,
        ]
        now += 1000
        await store._prune()
        assert (await store.apply(write(DEL, 5, 5))).is_ok

    # PostgreSQL also remembers one id for each group.
    rows = 2 if store_url.startswith("sqlite") else 4
    settings = StoreSettings(txid_rows=rows, txid_seconds=100)
    on_store(test, store_url, settings=settings, clock=lambda: now)


def test_the_log_of_writes_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fill(name: str, most: int, interval: float = 0.0) -> int:
        monkeypatch.setattr(database._Log, "interval", interval)
        monkeypatch.setattr(database._Log, "max_pages", most)
        found = database.open_database(f"sqlite:///{tmp_path / name}")
        await found.run(lambda c: c.execute(text("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")))
        rows = [(b"x" * 4000,)] * 20
        for _ in range(200):
            await found.run(lambda c: c.exec_driver_sql("INSERT INTO t (b) VALUES (?)", rows))
        size = (tmp_path / f"{name}-wal").stat().st_size
        await found.close()
        assert not (tmp_path / f"{name}-wal").exists()
        return size

    assert asyncio.run(fill("short.db", 100)) < 4_000_000
    assert asyncio.run(fill("long.db", 100, 1000.0)) > 8_000_000

    def broken(connection: object) -> int:
        raise sqlite3.OperationalError("no room")

    monkeypatch.setattr(database, "_checkpoint", broken)
    asyncio.run(fill("broken.db", 100))
    assert "the log is not carried over: no room" in caplog.text


def test_objects_are_counted_as_they_come_and_go(tmp_path: Path) -> None:
    random = Random(5)
    actions = [INS, UPD, DLT, DEL, Action2017.REMOVE]

    async def test(store: SqlStore) -> None:
        await store.apply(write(INS, 1, 1))
        assert dict((await store.status()).rows)["TRUCK"] == 1  # counted in the database
        jobs: list[Any] = []
        for n in range(2, 601):
            jobs.append(store.apply(write(random.choice(actions), random.randrange(40), n)))
            if n % 150 == 0:
                jobs.append(store.apply(write(RST, 1, 10_000 + n)))
            if n % 50 == 0:
                await asyncio.gather(*jobs)
                jobs.clear()
                status = await store.status()
                found = await select(store, "SELECT del, count(*) FROM truck GROUP BY del")
                expected = {mark: count for mark, count in found if count}
                told = {0: status.rows["TRUCK"], 1: status.deleted["TRUCK"]}
                assert {mark: count for mark, count in told.items() if count} == expected

    settings = StoreSettings(max_group=7)
    on_store(test, f"sqlite:///{tmp_path / 'counted.db'}", settings=settings)
