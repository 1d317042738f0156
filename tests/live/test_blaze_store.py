"""The broker's store, the same on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracles.stores import (
    FLEET,
    ODD,
    PULSE,
    TRUCK,
    all_rows,
    codes,
    image,
    images,
    on_store,
    pulse,
    select,
    truck,
    write,
)
from sqlalchemy import Connection, text

from wireloom.errors import OptionError, SourceError, StateError, StoreError
from wireloom.formats.blaze import from_blz, new_value
from wireloom.formats.blaze.body import decode_nclass, encode_nclass
from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding
from wireloom.formats.blaze.dialects import Action2017
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store import (
    Outcome,
    Policy,
    SqlStore,
    StoreSettings,
    Write,
    open_store,
)
from wireloom.services.blaze.store.flat import MAX_COLUMNS
from wireloom.services.blaze.store.group import next_stamp
from wireloom.services.blaze.store.numbers import SEVTID_BLOCK, id_of

INS, UPD, DLT, DEL, RST = Action.INS, Action.UPD, Action.DLT, Action.DEL, Action.RST


class Feed:
    """What a broker is told."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.gaps: list[int] = []

    async def start(self, store: SqlStore) -> None:
        await store.start(self.changes.extend, self.gaps.append)

    def told(self) -> list[tuple[str, str | None]]:
        return [(change.action.name, str(change.key)) for change in self.changes]


def test_actions_do_what_the_document_says(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        inserted = await store.apply(write(INS, 1, 1, name="one", temps={2: 5}, home={"x": 3}))
        assert inserted.is_ok
        assert inserted.result == truck(1, name="one", temps={2: 5}, home={"x": 3})
        assert inserted.change is not None
        merged = await store.apply(
            write(DLT, 1, 2, name="", temps={1: 7}, home={"y": 4}, stops={1: {"label": "z"}})
        )
        # A zero in a delta is a new value; arrays and objects merge item by item.
        assert merged.result is not None
        assert merged.result.to_values() == {
            "truck_id": 1,
            "name": "",
            "temps": {"2": 5, "1": 7},
            "home": {"x": 3, "y": 4},
            "stops": {"1": {"label": "z"}},
        }
        rewritten = await store.apply(write(UPD, 1, 3, name="two"))
        assert rewritten.result == truck(1, name="two")
        deleted = await store.apply(write(DEL, 1, 4))
        assert deleted.is_ok
        assert deleted.change is not None
        assert image(deleted.change) == truck(1, name="two")
        again = await store.apply(write(INS, 1, 5, name="three"))
        assert again.is_ok
        assert await images(store) == {"(1,)": {"truck_id": 1, "name": "three"}}
        key = "(1,)"
        assert feed.told() == [(a, key) for a in ("INS", "DLT", "UPD", "DEL", "INS")]
        stamps = [change.stamp for change in feed.changes]
        assert stamps == sorted(set(stamps))

    on_store(test, store_url)


def test_what_cannot_be_done_is_refused_with_its_code(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        await store.apply(write(INS, 1, name="one"))
        refused = [
            await store.apply(each)
            for each in (
                write(INS, 1),
                write(UPD, 2),
                write(DLT, 2),
                write(DEL, 2),
                Write(Action2017.REMOVE, truck(2)),
                Write(Action.UPD, new_value(FLEET, "TRUCK", {"truck_id": 1}, Encoding.INDEXDELTA)),
                Write(Action.INS, new_value(FLEET, "ODD", {"real": "NaN"})),
                Write(Action.NONE, truck(1)),
                Write(Action.DLT, pulse(1)),
                Write(Action.INS, new_value(from_blz("nclass X\n{\n@id 9\n}\n"), "X", {})),
            )
        ]
        assert codes(refused) == [4, 4, 4, 4, 4, 5, 5, 6, 6, 5]
        assert not any(outcome.is_ok or outcome.change for outcome in refused)
        assert all(outcome.reason for outcome in refused)
        assert await images(store) == {"(1,)": {"truck_id": 1, "name": "one"}}

    on_store(test, store_url)


def test_a_policy_lets_more_through(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        assert (await store.apply(write(UPD, 1, name="one"))).is_ok
        assert (await store.apply(write(INS, 1, name="two"))).is_ok
        nothing = await store.apply(write(DEL, 2))
        assert nothing.is_ok
        assert nothing.change is None
        reset = await store.apply(write(RST, 1, name="ignored"))
        assert reset.result == truck(1)
        assert (await store.apply(write(RST, 9))).code == BlazeCode.APPLICATION_ERROR
        assert feed.told() == [("INS", "(1,)"), ("UPD", "(1,)"), ("UPD", "(1,)")]
        assert await images(store) == {"(1,)": {"truck_id": 1}}

    policy = Policy("replace", "insert", "accept", "object")
    on_store(test, store_url, policy=policy)

    async def refuse(store: SqlStore) -> None:
        assert (await store.apply(write(RST, 1))).code == BlazeCode.REQUEST_UNSUPPORTED

    on_store(refuse, store_url, policy=Policy(reset="refuse"))


def test_reset_deletes_every_object_and_tells_it_once(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        for number in range(5):
            await store.apply(write(INS, number))
        await store.apply(write(DEL, 4))
        seen = (await all_rows(store))[-1].stamp
        await feed.start(store)
        # In one group, with writes before and behind it.
        await asyncio.gather(
            store.apply(write(INS, 5)),
            store.apply(write(RST, 0)),
            store.apply(write(INS, 1, name="new")),
            store.apply(Write(Action2017.RESET, truck(0))),
            store.apply(write(INS, 2)),
        )
        assert feed.told() == [
            ("INS", "(5,)"),
            ("RST", "None"),
            ("INS", "(1,)"),
            ("RST", "None"),
            ("INS", "(2,)"),
        ]
        assert list(await images(store)) == ["(2,)"]
        stamps = [change.stamp for change in feed.changes]
        assert stamps == sorted(set(stamps))
        resumed = await all_rows(store, after=seen)
        assert {str(row.key): row.action.name for row in resumed} == {
            "(0,)": "DEL",
            "(1,)": "DEL",
            "(2,)": "INS",
            "(3,)": "DEL",
            "(4,)": "DEL",
            "(5,)": "DEL",
        }
        assert feed.changes[1].full(Encoding.INDEXNOTZERO) == bytes(4)

    on_store(test, store_url)


def test_remove_leaves_no_row(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        for number in (1, 2, 3):
            await store.apply(write(INS, number))
        await store.apply(write(DEL, 2))
        removed = await asyncio.gather(
            store.apply(Write(Action2017.REMOVE, truck(1))),
            store.apply(Write(Action2017.REMOVE, truck(2))),  # deleted logically before
            store.apply(Write(Action2017.REMOVE, truck(3))),
            store.apply(write(INS, 3, name="back")),
            store.apply(write(INS, 4)),
            store.apply(Write(Action2017.REMOVE, truck(4))),
        )
        assert all(outcome.is_ok for outcome in removed)
        assert [outcome.change is not None for outcome in removed] == [True, False, *[True] * 4]
        assert feed.told()[4:] == [
            ("DEL", "(1,)"),
            ("DEL", "(3,)"),
            ("INS", "(3,)"),
            ("INS", "(4,)"),
            ("DEL", "(4,)"),
        ]
        assert await select(store, 'SELECT truck_id, name FROM "TRUCK"') == [(3, "back")]

    on_store(test, store_url)


def test_rows_come_by_stamp_and_tell_of_deletions_only_to_who_was_there(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        await asyncio.gather(*(store.apply(write(INS, number)) for number in range(20)))
        await store.apply(write(UPD, 3, name="late"))
        first = await store.rows(TRUCK, (0, 0), 5)
        assert len(first) == 5
        await store.apply(write(DEL, 0))
        rest = await all_rows(store, after=first[-1].stamp, at_once=4)
        stamps = [row.stamp for row in [*first, *rest]]
        assert stamps == sorted(set(stamps))
        # Truck 0 was in the first part: its deletion is told, whether it came before or after.
        assert [(str(row.key), row.action) for row in rest][-2:] == [("(3,)", INS), ("(0,)", DEL)]
        fresh = await all_rows(store, at_once=100)
        assert [row.action for row in fresh] == [INS] * 19
        assert await store.rows(TRUCK, stamps[-1], 5) == []
        assert await store.rows(PULSE, (0, 0), 5) == []
        assert await store.rows(TRUCK, (0, 0), 0) == []

    on_store(test, store_url)


def test_a_download_from_the_start_has_no_deletions_of_before(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        await asyncio.gather(*(store.apply(write(INS, number)) for number in range(9)))
        for number in (0, 4, 8):
            await store.apply(write(DEL, number))
        first = await store.portion(TRUCK, (0, 0), 3, None)
        assert [str(row.key) for row in first.rows] == ["(1,)", "(2,)", "(3,)"]
        await store.apply(write(DEL, 2))
        rest = await store.portion(TRUCK, first.rows[-1].stamp, 99, first.last)
        told = [(row.action, str(row.key)) for row in rest.rows]
        assert told == [(INS, "(5,)"), (INS, "(6,)"), (INS, "(7,)"), (DEL, "(2,)")]
        assert rest.last > first.last

    on_store(test, store_url)


def test_every_value_survives(store_url: str) -> None:
    values = {
        "name": b"\xff\x00\\xq".decode("utf-8", "surrogateescape"),
        "active": True,
        "i16": -32768,
        "u64": 2**64 - 1,
        "f32": -0.0,
        "f64": math.nan,
        "grade": b"\xe9".decode("utf-8", "surrogateescape"),
        "flags": 255,
        "gauge": -3,
        "temps": {0: -(2**31), 3: 2**31 - 1},
        "doors": {1: True},
        "raw": {1: 7, 6: 255},
        "stops": {1: {"y": -1, "label": "é"}},
    }

    async def test(store: SqlStore) -> None:
        given = truck(2**32 - 1, **values)
        assert (await store.apply(Write(INS, given))).is_ok
        await store.apply(write(INS, 1, name="\\x00", u64=2**63 - 1, f64=math.inf))
        await store.apply(write(INS, 2, name="übersee", u64=2**63))
        row = (await all_rows(store))[0]
        stored = await store.get(TRUCK, given)
        assert stored is not None
        for value in (image(row), stored):
            assert str(value.to_values()) == str(given.to_values())
        assert math.copysign(1, image(row).read("f32")) == -1  # type: ignore[arg-type]
        columns = 'name, u64, doors_1, raw, stops_1_y, f64 FROM "TRUCK" ORDER BY truck_id'
        found = await select(store, f"SELECT {columns}")
        assert [(row[0], int(row[1]), bool(row[2])) for row in found] == [
            ("\\x5c783030", 2**63 - 1, False),
            ("übersee", 2**63, False),
            ("\\xff005c7871", 2**64 - 1, True),
        ]
        assert bytes(found[2][3]) == bytes([0, 7, 0, 0, 0, 0, 255])
        assert found[2][4] == -1
        assert found[0][5] == math.inf
        assert found[2][5] is None or math.isnan(found[2][5])

    on_store(test, store_url)


def test_objects_are_told_apart_by_any_kind_of_key(store_url: str) -> None:
    keys: list[dict[str, Any]] = [
        {},
        {"big": 2**63},
        {"big": 2**63 - 1},
        {"big": 2**64 - 1, "flag": True},
        {"word": "a"},
        {"word": b"\xff"},
        {"word": "\\xff"},
        {"real": 0.1},
        {"code": b"\0\1"},
        {"code": b"\1\0"},
        {"place": {"x": 1}},
        {"place": {"y": 1, "label": "a\0"}},
    ]

    def odd(key: dict[str, Any], number: int, action: Action = INS) -> Write:
        return Write(action, new_value(FLEET, "ODD", {**key, "ts0": number, "place_x": -number}))

    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        for number, key in enumerate(keys):
            assert (await store.apply(odd(key, number))).is_ok
        assert (await store.apply(odd({"real": -0.0}, 99))).code == BlazeCode.APPLICATION_ERROR
        for number, key in enumerate(keys):
            assert (await store.apply(odd(key, number + 100, UPD))).is_ok
        rows = await all_rows(store, ODD)
        assert [image(row)["ts0"] for row in rows] == [100 + i for i in range(len(keys))]
        # However a change is read, its object has the same name.
        assert [row.key for row in rows] == [change.key for change in feed.changes[: len(keys)]]
        names = 'ts0_, xmin_, place_x_, place_x FROM "ODD" WHERE place_x = 1'
        assert await select(store, f"SELECT {names}") == [(110, 0, -110, 1)]

    on_store(test, store_url)


def test_classes_that_are_not_stored_are_passed_on(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        for action in (INS, UPD, UPD, DEL, Action2017.REMOVE):
            assert (await store.apply(Write(action, pulse(4)))).is_ok
        assert feed.told() == [(a, "(4,)") for a in ("INS", "UPD", "UPD", "DEL", "DEL")]
        stamps = [change.stamp for change in feed.changes]
        assert stamps == sorted(set(stamps))
        assert not store.is_stored(PULSE)
        assert store.is_stored(TRUCK)
        assert await store.get(PULSE, pulse(4)) is None

    on_store(test, store_url)


def test_what_is_answered_is_remembered_after_a_restart(store_url: str) -> None:
    last: list[Change] = []

    async def before(store: SqlStore) -> None:
        assert (await store.apply(write(INS, 1, 1, name="one"))).is_ok
        assert (await store.apply(write(INS, 1, 2))).code == BlazeCode.APPLICATION_ERROR
        ids = await store.event_ids()
        assert [ids.next(TRUCK) for _ in range(3)] == [1, 2, 3]
        assert await store.event_ids() is ids
        assert [await store.next_connid() for _ in range(100)] == list(range(1, 101))
        last.extend(await all_rows(store))

    async def after(store: SqlStore) -> None:
        twice = write(DEL, 1, 3)
        outcomes = await asyncio.gather(
            *map(store.apply, (write(DEL, 1, 1), write(DEL, 1, 2), twice, twice, write(DEL, 1)))
        )
        assert codes(outcomes) == [201, 201, 0, 201, 4]
        ids = await store.event_ids()
        assert ids.next(TRUCK) > 3
        assert await store.next_connid() > 100
        changed = outcomes[2].change
        assert changed is not None
        # The clock has been set back, stamps go on.
        assert changed.stamp == (last[-1].stamp[0], last[-1].stamp[1] + 1)

    on_store(before, store_url)
    on_store(after, store_url, clock=lambda: 1000.0)


def test_stamps_rise_whatever_the_clock_does() -> None:
    assert next_stamp((5, 3), 6) == (6, 0)
    assert next_stamp((5, 3), 5) == (5, 4)
    assert next_stamp((5, 3), 1) == (5, 4)
    assert next_stamp((5, 2**32 - 1), 5) == (6, 0)


def test_event_ids_go_on_in_the_next_block(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        ids = await store.event_ids()
        for _ in range(SEVTID_BLOCK // 2 + 1):
            ids.next(TRUCK)
        await store.apply(write(INS, 1))  # the reservation is made between commits
        await store.apply(write(INS, 2))
        found = {ids.next(TRUCK) for _ in range(SEVTID_BLOCK)}
        assert len(found) == SEVTID_BLOCK
        assert max(found) == SEVTID_BLOCK * 3 // 2 + 1

    on_store(test, store_url)
    assert [id_of(number) for number in (1, 2**32 - 1, 2**32)] == [1, 2**32 - 1, 1]


def test_a_group_is_committed_at_once_and_answered_in_order(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        order: list[int] = []
        finished = asyncio.Event()

        def done(number: int, outcome: Outcome) -> None:
            order.append(number)
            # Every third object is there already; that harms no other.
            assert outcome.is_ok == (number % 3 != 2), outcome
            if len(order) == 300:
                finished.set()

        for number in range(300):
            key = number - 1 if number % 3 == 2 else number
            store.submit(write(INS, key, number + 1), lambda o, n=number: done(n, o))  # type: ignore[misc]
        assert store.pending == 300
        await finished.wait()
        assert order == list(range(300))
        assert store.pending == 0
        assert len(feed.changes) == 200
        status = await store.status()
        assert status.commits <= 5
        assert status.rows == {"TRUCK": 200, "ODD": 0}
        assert status.writes == 300
        assert status.is_up
        assert 0 < status.latency <= status.max_latency

    on_store(test, store_url, settings=StoreSettings(max_group=100))


def test_one_who_writes_little_waits_for_one_group_of_one_who_writes_much(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        answered = 0

        def count(outcome: Outcome) -> None:
            nonlocal answered
            answered += 1

        for number in range(150):
            store.submit(write(INS, number), count)
        await store.apply(write(INS, 1000))
        assert answered == 150
        for number in range(150, 1000):
            store.submit(write(INS, number), count)
        before = answered
        await store.apply(write(UPD, 1000))
        # First come, first served: what came before it, and nothing that came later.
        assert answered - before <= 850

    on_store(test, store_url, settings=StoreSettings(max_group=50))


def test_a_full_store_refuses_and_says_when_there_is_room(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        outcomes: list[Outcome] = []
        for number in range(12):
            store.submit(write(INS, number), outcomes.append)
        assert codes(outcomes) == [3, 3]
        assert store.is_full
        await store.room()
        assert not store.is_full
        assert store.pending < 5
        while store.pending:  # noqa: ASYNC110 - its own outcomes are what is tested
            await asyncio.sleep(0.001)
        assert codes(outcomes) == [3, 3, *[0] * 10]

    on_store(test, store_url, settings=StoreSettings(max_pending=10, max_group=2))


def test_a_write_that_the_database_refuses_harms_no_other(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(store: SqlStore) -> None:
        # Nothing that a session lets through is refused; so the table gets a rule of its own.
        await store.database.run(
            lambda connection: connection.execute(
                text('CREATE UNIQUE INDEX only_one ON "TRUCK" (i16) WHERE i16 > 0')
            )
        )
        outcomes = await asyncio.gather(
            *(store.apply(write(INS, n, n + 1, i16=5 if n in (3, 7) else 0)) for n in range(10))
        )
        assert codes(outcomes) == [0] * 7 + [3] + [0] * 2
        assert len(await images(store)) == 9
        # It was not done, so its id is free.
        assert (await store.apply(write(INS, 7, 8))).is_ok

    on_store(test, store_url)
    assert "cannot be stored" in caplog.text


def test_postgresql_finds_the_rows_of_a_group_through_indexes_even_when_there_are_few(
    postgres_url: str,
) -> None:
    async def test(store: SqlStore) -> None:
        for n in range(8):
            await store.apply(write(INS, n, n + 1))
            await store.apply(write(DEL, n, n + 11))

        def plans(connection: Connection) -> list[str]:
            query = "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements"
            query += " WHERE statement <> 'COMMIT'"
            found = []
            for name, count in connection.execute(text(query)).all():
                nulls = ", ".join(["NULL"] * count)
                lines = connection.execute(text(f'EXPLAIN EXECUTE "{name}" ({nulls})')).scalars()
                found.append("\n".join(lines))
            return found

        found = await store.database.commit(plans)
        assert sum('using "TRUCK_pkey"' in plan for plan in found) == 1  # read; an upsert has none
        assert not [plan for plan in found if "Seq Scan" in plan]

    on_store(test, postgres_url)


def test_a_receiver_that_fails_does_not_stop_the_store(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(store: SqlStore) -> None:
        def fail(argument: object) -> None:
            raise ValueError("a bug of the broker")

        await store.start(fail, fail)
        store.submit(write(INS, 1), fail)
        assert (await store.apply(write(INS, 2))).is_ok
        assert (await store.apply(write(INS, 3))).is_ok
        with pytest.raises(StateError):
            await store.start(fail, fail)

    on_store(test, store_url)
    assert caplog.text.count("a bug of the broker") >= 3


def test_closing_finishes_what_waits_and_takes_no_more(store_url: str) -> None:
    async def run() -> None:
        store = await open_store(store_url, FLEET)
        outcomes: list[Outcome] = []
        for number in range(100):
            store.submit(write(INS, number), outcomes.append)
        await store.close()
        await store.close()
        assert codes(outcomes) == [0] * 100
        assert (await store.apply(write(INS, 1))).code == BlazeCode.SERVER_ABORTED
        assert not (await store.status()).is_up

    asyncio.run(run())


def test_an_apply_that_is_given_up_does_no_harm(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await store.apply(write(INS, 1))
        assert (await store.apply(write(INS, 2))).is_ok
        assert len(await images(store)) == 2

    on_store(test, store_url)


def test_bytes_that_are_at_hand_are_stored_as_they_are(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        for value in (truck(1, name="one"), pulse(1)):
            body = encode_nclass(value)
            outcome = await store.apply(Write(INS, value, body=body))
            assert outcome.change is not None
            assert outcome.change.full(Encoding.INDEXNOTZERO) is body
        assert image((await all_rows(store))[0]) == truck(1, name="one")

    on_store(test, store_url)


def test_bodies_are_those_of_the_dialect_that_is_spoken(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        feed = Feed()
        await feed.start(store)
        await store.apply(write(INS, 1, name="one"))
        await store.apply(write(DLT, 1, name="two"))
        await store.apply(write(DEL, 1))
        await store.apply(write(INS, 1))
        changes = [*feed.changes, *await all_rows(store)]
        for change in changes:
            for encoding in (Encoding.INDEXNOTZERO, Encoding.ALL):
                body = change.full(encoding)
                assert change.full(encoding) is body
                assert decode_nclass(FLEET, TRUCK, body, first_index=2)["truck_id"] == 1
        delta = changes[1].bodies[Encoding.INDEXDELTA]
        read = decode_nclass(FLEET, TRUCK, delta, Encoding.INDEXDELTA, first_index=2)
        assert dict(read) == {"truck_id": 1, "name": "two"}

    on_store(test, store_url, first_index=2)


@pytest.mark.parametrize("seed", range(4))
def test_no_id_is_taken_twice_in_whatever_order_ids_come(store_url: str, seed: int) -> None:
    rng = Random(seed)

    async def test(store: SqlStore) -> None:
        taken: set[tuple[int, int]] = set()
        for _ in range(12):
            connid, low = rng.choice((7, 8)), rng.randint(1, 60)
            some = list(range(low, low + rng.randint(1, 20), rng.choice((1, 1, 2))))
            if rng.random() < 0.3:
                rng.shuffle(some)
            some += rng.sample(some, rng.randint(0, 1))  # once more in the same group
            outcomes = await asyncio.gather(
                *(store.apply(write(DEL, 1, number, connid=connid)) for number in some)
            )
            for number, outcome in zip(some, outcomes, strict=True):
                # The object does not exist: what is done has 4.
                assert outcome.code == (201 if (connid, number) in taken else 4)
                taken.add((connid, number))
        found = await select(store, 'SELECT origin, first, last FROM "blaze$transactions"')
        runs = [(bytes(origin), first, last) for origin, first, last in found if last]
        ids = {
            (int.from_bytes(origin[8:], "big"), number)
            for origin, first, last in runs
            for number in range(first, last + 1)
        }
        assert ids == taken
        assert sum(last - first + 1 for _, first, last in runs) == len(taken)

    on_store(test, store_url)


def test_a_group_leaves_one_run_of_ids(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        await asyncio.gather(*(store.apply(write(INS, n, n)) for n in range(1, 101)))
        found = await select(store, 'SELECT first, last FROM "blaze$transactions" WHERE last > 0')
        assert sorted(found) in ([(1, 100)], [(1, 1), (2, 100)])

    on_store(test, store_url)


def test_large_arrays_have_no_columns_but_are_stored(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = from_blz(
        "nclass BIG\n{\n@id 1\nint_32[1000] many\nint_32[300] some\nint_32[100] few\n"
        "byte[60000] blob\nint_64 id\n@persistent\n@key primary\n@id 1\n@fldset {id}\n@key_end\n}\n"
    )

    async def test(store: SqlStore) -> None:
        many = {i: i for i in range(1000)}
        value = new_value(model, "BIG", {"id": 1, "many": many, "some": {299: 1}})
        assert (await store.apply(Write(INS, value))).is_ok
        assert image((await all_rows(store, 1))[0]) == new_value(
            model, "BIG", {"id": 1, "many": {i: i for i in range(1, 1000)}, "some": {299: 1}}
        )
        found = await select(store, 'SELECT * FROM "BIG"')
        assert len(found[0]) <= MAX_COLUMNS + 4
        assert await select(store, 'SELECT some_299 FROM "BIG"') == [(1,)]

    on_store(test, store_url, model=model)
    assert "BIG: no columns for many, few" in caplog.text


def test_models_that_cannot_be_stored_are_refused(store_url: str) -> None:
    async def run(source: str) -> None:
        await open_store(store_url, from_blz(source))

    key = "@key primary\n@id 1\n@fldset {a}\n@key_end\n"
    head = "nclass X\n{\n@id 1\n"
    with pytest.raises(SourceError, match="class X is persistent and has no primary key"):
        asyncio.run(run(f"{head}int_32 a\n@persistent\n}}\n"))
    with pytest.raises(SourceError, match="primary key of X has 500 values"):
        asyncio.run(run(f"{head}int_32[500] a\n@persistent\n{key}}}\n"))
    if store_url.startswith("postgresql"):
        with pytest.raises(SourceError, match=r"X \(a\) is too long"):
            asyncio.run(run(f"{head}ascii[2000] a\n@persistent\n{key}}}\n"))
        with pytest.raises(SourceError, match="40 values, 32 are the most"):
            asyncio.run(run(f"{head}int_32[40] a\n@persistent\n{key}}}\n"))


def test_addresses_of_other_databases_are_refused() -> None:
    for url in ("mysql://x", "nonsense", "file.db"):
        with pytest.raises(OptionError):
            asyncio.run(open_store(url, FLEET))


def test_a_database_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        asyncio.run(open_store(f"sqlite:///{tmp_path}/nowhere/x.db", FLEET))
    (tmp_path / "text.db").write_text("this is no database" * 100)
    with pytest.raises(StoreError, match="not a database"):
        asyncio.run(open_store(f"sqlite:///{tmp_path}/text.db", FLEET))
    with pytest.raises(StoreError, match="nowhere"):
        asyncio.run(open_store(f"postgresql://x@/y?host={tmp_path}/nowhere", FLEET))


def test_a_file_has_one_broker_and_any_number_of_readers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fleet.db'}"

    async def test(store: SqlStore) -> None:
        await store.apply(write(INS, 1, name="one"))
        with pytest.raises(StoreError, match=r"another broker uses .*fleet.db"):
            await open_store(url, FLEET)
        reader = sqlite3.connect(tmp_path / "fleet.db")
        assert reader.execute('SELECT truck_id, name, home_x FROM "TRUCK"').fetchall() == [
            (1, "one", 0)
        ]
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        reader.close()

    on_store(test, url)
    on_store(nothing, url)


async def nothing(store: SqlStore) -> None:
    """The lock was given back."""


def test_memory_is_a_store_for_as_long_as_it_is_open() -> None:
    async def test(store: SqlStore) -> None:
        await store.apply(write(INS, 1))
        assert len(await all_rows(store)) == 1

    on_store(test, "sqlite://")
    on_store(test, "sqlite://")


def test_verify_finds_columns_that_were_edited(store_url: str) -> None:
    async def run() -> None:
        store = await open_store(store_url, FLEET)
        await store.apply(write(INS, 1, name="one"))
        await store.database.run(
            lambda connection: connection.execute(text("""UPDATE "TRUCK" SET name = 'two'"""))
        )
        (complaint,) = await store.verify()
        await store.close()
        assert "name is 'two', the object says 'one'" in complaint

    asyncio.run(run())
