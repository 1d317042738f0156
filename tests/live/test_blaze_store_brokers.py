"""Several brokers on one PostgreSQL: each is told of every change once, in the same order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from oracles.postgres import Server
from oracles.stores import FLEET, FLEET_BLZ, PULSE, TRUCK, all_rows, image, pulse, write
from sqlalchemy import text

from wireloom.errors import SourceError, StoreError
from wireloom.formats.blaze import from_blz
from wireloom.formats.blaze.body import trimmed
from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store import Outcome, SqlStore, StoreSettings, Write, open_store

WRITER = Path(__file__).parents[1] / "oracles" / "store_writer.py"
QUICK = StoreSettings(poll_interval=0.2, retry_interval=0.05)
SILENT = StoreSettings(poll_interval=0.1, has_notices=False)


class Broker:
    """A store, and what it was told."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.changes: list[Change] = []
        self.gaps: list[int] = []

    def told(self) -> dict[int, list[tuple[object, ...]]]:
        """By class: stamp, action, object's key and bytes."""
        found = defaultdict(list)
        for change in self.changes:
            body = change.full(Encoding.INDEXNOTZERO)
            delta = change.bodies.get(Encoding.INDEXDELTA)
            found[change.nclsid].append((change.stamp, change.action, change.key, body, delta))
        return dict(found)


@contextlib.asynccontextmanager
async def brokers(
    url: str, count: int, settings: StoreSettings = QUICK
) -> AsyncIterator[list[Broker]]:
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(60):
        found = []
        for _ in range(count):
            broker = Broker(await open_store(url, FLEET, settings=settings))
            stack.push_async_callback(broker.store.close)
            await broker.store.start(broker.changes.extend, broker.gaps.append)
            found.append(broker)
        yield found


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is waited for is in another object's state
        await asyncio.sleep(0.01)


async def write_at_random(broker: Broker, seed: int, count: int) -> list[Outcome]:
    """Writes to few objects, so that brokers get in each other's way."""
    random = Random(seed)
    connid = await broker.store.next_connid()
    flying: list[Awaitable[Outcome]] = []
    for number in range(1, count + 1):
        if random.random() < 0.2:
            flying.append(broker.store.apply(Write(Action.UPD, pulse(random.randrange(3)))))
        else:
            action = random.choice([Action.INS, Action.UPD, Action.DLT, Action.DLT, Action.DEL])
            key = random.randrange(6)
            each = write(action, key, number, connid=connid, name=f"{seed}.{number}")
            flying.append(broker.store.apply(each))
        if random.random() < 0.3:
            await asyncio.sleep(random.random() * 0.005)
    return list(await asyncio.gather(*flying))


def check_same(found: list[Broker], outcomes: list[Outcome]) -> None:
    first = found[0].told()
    for broker in found:
        assert broker.gaps == []
        assert broker.told() == first
    for told in first.values():
        stamps = [change[0] for change in told]
        assert stamps == sorted(set(stamps))
    own = sorted(o.change.stamp for o in outcomes if o.change and o.change.nclsid == TRUCK)
    assert own == [change[0] for change in first[TRUCK]]


async def check_replay(broker: Broker) -> None:
    """The changes, one after the other, lead to what is stored."""
    held = {}
    for change in broker.changes:
        if change.nclsid == TRUCK:
            held[change.key] = (change.action is Action.DEL, trimmed(image(change)))
    stored = {
        row.key: (row.action is Action.DEL, trimmed(image(row)))
        for row in await all_rows(broker.store, after=(0, 1))
    }
    assert held == stored


@pytest.mark.parametrize("settings", [QUICK, SILENT], ids=["woken", "without notices"])
def test_three_brokers_are_told_the_same(postgres_url: str, settings: StoreSettings) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 3, settings) as found:
            parts = await asyncio.gather(
                *(write_at_random(broker, seed, 120) for seed, broker in enumerate(found))
            )
            outcomes = [outcome for part in parts for outcome in part]
            assert sum(o.is_ok for o in outcomes) > 100
            assert sum(not o.is_ok for o in outcomes) > 10
            count = sum(outcome.change is not None for outcome in outcomes)
            await until(lambda: all(len(broker.changes) >= count for broker in found))
            check_same(found, outcomes)
            await check_replay(found[0])
            assert await found[1].store.verify() == []

    asyncio.run(run())


def test_a_notice_that_is_lost_loses_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as (a, b):
            await b.store.apply(write(Action.INS, 1))
            await until(lambda: len(a.changes) == 1)
            monkeypatch.setattr(type(a.store), "_notice", lambda self: None)
            for number in range(2, 12):
                await b.store.apply(write(Action.INS, number))
            await until(lambda: len(a.changes) == 11)
            assert a.told() == b.told()

    asyncio.run(run())


def test_notices_wake_at_once(postgres_url: str) -> None:
    async def run() -> None:
        slow = StoreSettings(poll_interval=1000)
        async with brokers(postgres_url, 2, slow) as (a, b):
            for number in range(5):
                await b.store.apply(write(Action.INS, number))
                await until(lambda n=number: len(a.changes) == n + 1)  # type: ignore[misc]
            assert a.told() == b.told()

    asyncio.run(run())


def test_own_changes_come_behind_those_of_others_with_lower_stamps(postgres_url: str) -> None:
    async def run() -> None:
        never = StoreSettings(poll_interval=1000, has_notices=False)
        async with brokers(postgres_url, 2, never) as (a, b):
            for number in range(3):
                await b.store.apply(write(Action.INS, number))
                await b.store.apply(Write(Action.INS, pulse(number)))
            assert a.changes == []
            await a.store.apply(write(Action.INS, 9))
            await until(lambda: len(a.changes) == 4)
            assert [change.key for change in a.changes] == ["(0,)", "(1,)", "(2,)", "(9,)"]
            await a.store.apply(Write(Action.INS, pulse(9)))
            await until(lambda: len(a.changes) == 8)
            assert [change.key for change in a.changes if change.nclsid == PULSE] == [
                "(0,)", "(1,)", "(2,)", "(9,)",
            ]  # fmt: skip

    asyncio.run(run())


def test_ids_of_connections_and_events_are_given_once(postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 3) as found:
            stores = [broker.store for broker in found]
            connids = await asyncio.gather(*(s.next_connid() for _ in range(100) for s in stores))
            assert len(set(connids)) == 300
            counters = [await store.event_ids() for store in stores]
            sevtids = [ids.next(TRUCK) for _ in range(100) for ids in counters]
            assert len(set(sevtids)) == 300

    asyncio.run(run())


def test_an_id_that_was_answered_by_one_is_known_to_all(postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as (a, b):
            assert (await a.store.apply(write(Action.INS, 1, 5))).is_ok
            again = await b.store.apply(write(Action.INS, 2, 5))
            assert again.code == BlazeCode.DUPLICATED_TRANSACTION_ID

    asyncio.run(run())


@pytest.mark.slow
def test_a_broker_that_is_killed_takes_nothing_along(postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as found:
            process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
                [sys.executable, str(WRITER), postgres_url, "0"], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            try:
                await asyncio.to_thread(process.stdout.readline)
                writing = [write_at_random(b, seed, 60) for seed, b in enumerate(found)]
                outcomes = [o for part in await asyncio.gather(*writing) for o in part]
            finally:
                process.send_signal(signal.SIGKILL)
                rest = process.stdout.read()
                process.wait()
                process.stdout.close()
            answered = {int(line) for line in rest.split() if line.isdigit()}
            assert answered
            last = await found[0].store.apply(write(Action.INS, 77))
            assert last.change is not None
            stamp = last.change.stamp
            await until(lambda: all(stamp in [c.stamp for c in b.changes] for b in found))
            await until(lambda: found[0].told() == found[1].told())
            stamps = {change.stamp for change in found[0].changes}
            assert {o.change.stamp for o in outcomes if o.change} <= stamps
            names = {str(image(c).get("name", "")) for c in found[0].changes if c.nclsid == TRUCK}
            assert {f"0/{number}" for number in answered} <= names
            await check_replay(found[1])

    asyncio.run(run())


@pytest.mark.slow
def test_a_server_that_restarts_is_waited_for(postgres: Server, postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as found:
            is_over = False

            async def keep_writing(broker: Broker, seed: int) -> list[Outcome]:
                outcomes = []
                while not is_over:
                    outcomes += await write_at_random(broker, seed, 20)
                    seed += 10
                return outcomes

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(keep_writing(b, n)) for n, b in enumerate(found)]
                for mode in ("fast", "immediate"):
                    await asyncio.sleep(0.2)
                    await asyncio.to_thread(postgres.stop, mode)
                    await asyncio.sleep(0.1)
                    assert not (await found[0].store.status()).is_up
                    await asyncio.to_thread(postgres.start)
                await asyncio.sleep(0.2)
                is_over = True
            outcomes = [outcome for task in tasks for outcome in task.result()]
            assert {int(outcome.code) for outcome in outcomes} <= {0, 4}
            count = sum(outcome.change is not None for outcome in outcomes)
            await until(lambda: all(len(broker.changes) >= count for broker in found))
            check_same(found, outcomes)
            await check_replay(found[0])
            assert (await found[0].store.status()).is_up

    asyncio.run(run())


def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as (a, b):
            real = a.store.database.commit
            lost = 0

            async def lose(work: Callable[..., object]) -> object:
                nonlocal lost
                found = await real(work)
                if lost < 2:
                    lost += 1
                    raise OSError("the answer does not arrive")
                return found

            begin = asyncio.get_running_loop().create_task
            monkeypatch.setattr(a.store.database, "commit", lambda work: begin(lose(work)))
            monkeypatch.setattr(a.store.database, "failure", lambda error: _away())
            outcomes = await asyncio.gather(
                a.store.apply(write(Action.INS, 1, 1)),
                a.store.apply(write(Action.INS, 1, 2)),
                a.store.apply(write(Action.UPD, 1, name="last")),
            )
            assert lost == 2
            assert [int(outcome.code) for outcome in outcomes] == [0, 4, 0]
            await until(lambda: len(b.changes) == 2)
            assert a.told() == b.told()

    asyncio.run(run())


def _away() -> object:
    from wireloom.services.blaze.store.database import Failure

    return Failure.AWAY


def test_a_broker_that_was_away_for_too_long_is_told_of_the_gap(postgres_url: str) -> None:
    now = 1_000_000.0

    async def run() -> None:
        nonlocal now
        settings = StoreSettings(poll_interval=1000, has_notices=False, log_seconds=100)
        a = Broker(await open_store(postgres_url, FLEET, settings=settings, clock=lambda: now))
        b = Broker(await open_store(postgres_url, FLEET, settings=settings, clock=lambda: now))
        await b.store.start(b.changes.extend, b.gaps.append)
        await a.store.apply(write(Action.INS, 1))
        await a.store.apply(Write(Action.INS, pulse(1)))
        now += 1000
        await a.store.apply(write(Action.INS, 2))
        await a.store._prune()
        await b.store._poll()
        assert sorted(b.gaps) == [TRUCK, PULSE]
        assert [change.key for change in b.changes] == ["(2,)"]
        assert (await b.store.status()).gaps == 2
        await a.store.apply(write(Action.INS, 3))
        await b.store._poll()
        assert len(b.gaps) == 2
        assert len(b.changes) == 2
        await a.store.close()
        await b.store.close()

    asyncio.run(run())


def test_the_log_of_changes_is_bounded(postgres_url: str) -> None:
    now = 1000.0

    async def run() -> None:
        nonlocal now
        settings = StoreSettings(log_rows=5, log_seconds=1e6)
        store = await open_store(postgres_url, FLEET, settings=settings, clock=lambda: now)
        for number in range(20):
            await store.apply(write(Action.INS, number))
            now += 1
        await store._prune()
        left = await store.database.read(
            lambda c: c.execute(text('SELECT count(*) FROM "blaze$changes"')).scalar_one()
        )
        assert left == 5
        await store.close()

    asyncio.run(run())


def test_a_broker_with_an_older_model_stops_writing(postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 2) as (a, b):
            await a.store.apply(write(Action.INS, 1))
            grown = from_blz(FLEET_BLZ.replace("bool active", "bool active\n    int_32 extra"))
            newer = await open_store(postgres_url, grown)
            refused = await a.store.apply(write(Action.INS, 2))
            assert refused.code == BlazeCode.SERVER_ERROR
            assert "newer model" in refused.reason
            assert (await a.store.apply(write(Action.INS, 3))).code == BlazeCode.SERVER_ERROR
            # One that does not write notices it, too.
            while (await b.store.status()).is_up:  # noqa: ASYNC110 - as from outside
                await asyncio.sleep(0.01)
            assert "newer model" in (await b.store.status()).error
            assert len(await newer.rows(TRUCK, (0, 0), 9)) == 1
            await newer.close()
        with pytest.raises(SourceError, match=r"TRUCK\.extra is stored"):
            await open_store(postgres_url, FLEET)

    asyncio.run(run())


def test_downloads_go_on_after_a_restart_of_the_server(postgres: Server, postgres_url: str) -> None:
    async def run() -> None:
        async with brokers(postgres_url, 1) as (broker,):
            await broker.store.apply(write(Action.INS, 1))
            wanted = [broker.store.rows(TRUCK, (0, 0), 5) for _ in range(8)]
            assert [len(rows) for rows in await asyncio.gather(*wanted)] == [1] * 8
            await asyncio.to_thread(postgres.stop, "immediate")
            try:
                with pytest.raises(StoreError, match="host"):
                    await broker.store.rows(TRUCK, (0, 0), 5)
            finally:
                await asyncio.to_thread(postgres.start)
            wanted = [broker.store.rows(TRUCK, (0, 0), 5) for _ in range(8)]
            assert [len(rows) for rows in await asyncio.gather(*wanted)] == [1] * 8

    asyncio.run(run())


def test_closing_does_not_wait_for_a_server_that_is_gone(
    postgres: Server, postgres_url: str
) -> None:
    async def run() -> None:
        store = await open_store(postgres_url, FLEET, settings=QUICK)
        await asyncio.to_thread(postgres.stop, "immediate")
        try:
            outcomes: list[Outcome] = []
            store.submit(write(Action.INS, 1), outcomes.append)
            async with asyncio.timeout(20):
                await store.close()
            assert [outcome.code for outcome in outcomes] == [BlazeCode.SERVER_ABORTED]
        finally:
            await asyncio.to_thread(postgres.start)

    asyncio.run(run())


def test_a_database_must_be_able_to_hold_every_text(postgres: Server) -> None:
    with pytest.raises(StoreError, match="encoding is SQL_ASCII, UTF8 is needed"):
        asyncio.run(open_store(postgres.new_database(encoding="SQL_ASCII"), FLEET))


def test_brokers_may_start_at_the_same_time(postgres_url: str) -> None:
    async def run() -> None:
        stores = await asyncio.gather(*(open_store(postgres_url, FLEET) for _ in range(4)))
        for number, store in enumerate(stores):
            assert (await store.apply(write(Action.INS, number))).is_ok
        for store in stores:
            await store.close()

    asyncio.run(run())
