"""Random writes to a store, in random groups, with restarts in between, against a plain dict."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.stores import FLEET, TRUCK, all_rows, image
from sqlalchemy import text

from wireloom.formats.blaze import new_value
from wireloom.formats.blaze.body import trimmed
from wireloom.formats.blaze.codes import Action, Encoding
from wireloom.formats.blaze.dialects import Action2017
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store import Policy, SqlStore, Write, open_store

Values = dict[str, Any]

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.binary(max_size=4),
    "u64": st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    "f64": st.sampled_from([0.0, -0.0, 1.5, float("inf")]),
    "temps": st.dictionaries(st.integers(0, 3), st.integers(-1, 1), max_size=2),
    "raw": st.dictionaries(st.integers(0, 7), st.integers(0, 255), max_size=2),
    "home": st.fixed_dictionaries({}, optional={"x": st.integers(-1, 1), "label": st.just("a")}),
    "stops": st.dictionaries(
        st.integers(0, 1), st.fixed_dictionaries({}, optional={"y": st.integers(0, 1)}), max_size=2
    ),
}


@dataclass
class Step:
    action: Any
    key: int
    values: Values
    tx: int | None


STEPS = st.builds(
    Step,
    st.sampled_from(
        [*Action, Action.INS, Action.DLT, Action2017.REMOVE][1:]  # without NONE
    ),
    st.integers(0, 3),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.none() | st.integers(1, 40),
)
GROUPS = st.lists(
    st.tuples(st.lists(STEPS, min_size=1, max_size=8), st.booleans()), min_size=1, max_size=6
)
POLICIES = st.builds(
    Policy,
    st.sampled_from(["refuse", "replace"]),
    st.sampled_from(["refuse", "insert"]),
    st.sampled_from(["refuse", "accept"]),
    st.sampled_from(["class", "object", "refuse"]),
)


def merged(old: Any, new: Any) -> Any:
    """A delta applied, without the code under test."""
    if isinstance(old, dict) and isinstance(new, dict):
        both = dict(old)
        for key, value in new.items():
            both[key] = merged(old.get(key), value)
        return both
    return new


@dataclass
class Twin:
    """What the store must be."""

    policy: Policy
    live: dict[int, Values] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def step(self, step: Step) -> tuple[int, str | None]:
        """The code, and the action that is announced."""
        if step.tx is not None:
            if step.tx in self.used:
                return 201, None
            self.used.add(step.tx)
        name: str = step.action.name
        is_live = step.key in self.live
        policy = self.policy
        if name in ("INS", "UPD"):
            if name == "INS" and is_live and policy.insert_existing == "refuse":
                return 4, None
            if name == "UPD" and not is_live and policy.update_missing == "refuse":
                return 4, None
            self.put(step.key, step.values)
            return 0, "UPD" if is_live else "INS"
        if name == "DLT":
            if not is_live:
                return 4, None
            self.put(step.key, merged(self.live[step.key], step.values))
            return 0, "DLT"
        if name == "RST":
            if policy.reset == "refuse":
                return 6, None
            if policy.reset == "object":
                if not is_live:
                    return 4, None
                self.put(step.key, {})
                return 0, "UPD"
            self.dead.update(self.live)
            self.live.clear()
            return 0, "RST"
        is_there = is_live or (name == "REMOVE" and step.key in self.dead)
        if not is_there:
            return (4 if policy.delete_missing == "refuse" else 0), None
        self.live.pop(step.key, None)
        self.dead.discard(step.key)
        if name == "DEL":
            self.dead.add(step.key)
        return 0, "DEL" if is_live else None

    def put(self, key: int, values: Values) -> None:
        self.live[key] = values
        self.dead.discard(key)


def shown(key: int, values: Values) -> object:
    return trimmed(new_value(FLEET, "TRUCK", {"truck_id": key, **values}))


def write_of(step: Step) -> Write:
    encoding = Encoding.INDEXDELTA if step.action is Action.DLT else Encoding.INDEXNOTZERO
    value = new_value(FLEET, "TRUCK", {"truck_id": step.key, **step.values}, encoding)
    return Write(step.action, value, None if step.tx is None else (1, 2, 3, step.tx))


class Subscriber:
    """Holds images, as a client does that is sent every change."""

    def __init__(self) -> None:
        self.images: dict[Any, object] = {}
        self.position = (0, 0)

    def take(self, changes: list[Change]) -> None:
        for change in changes:
            assert change.stamp > self.position
            self.position = change.stamp
            if change.action is Action.RST:
                self.images.clear()
            elif change.action is Action.DEL:
                self.images.pop(str(change.key), None)
            else:
                self.images[str(change.key)] = trimmed(image(change))


async def check(url: str, groups: list[tuple[list[Step], bool]], policy: Policy) -> None:
    store = await open_store(url, FLEET, policy=policy)
    await empty(store)
    twin = Twin(policy)
    live, resumed = Subscriber(), Subscriber()
    heard: list[Change] = []
    await store.start(heard.extend, lambda nclsid: None)
    try:
        for steps, is_restarted in groups:
            heard.clear()
            outcomes = await asyncio.gather(*(store.apply(write_of(step)) for step in steps))
            expected = [twin.step(step) for step in steps]
            assert [int(o.code) for o in outcomes] == [code for code, _ in expected]
            assert [o.change and o.change.action.name for o in outcomes] == [
                action for _, action in expected
            ]
            assert [o.change for o in outcomes if o.change] == heard
            live.take(heard)
            wanted = {f"({key},)": shown(key, values) for key, values in twin.live.items()}
            assert live.images == wanted
            rows = await all_rows(store, at_once=100)
            assert {str(row.key): trimmed(image(row)) for row in rows} == wanted
            everything = await all_rows(store, after=(0, 1), at_once=2)
            assert sum(row.action is Action.DEL for row in everything) == len(twin.dead)
            if not any(step.action is Action2017.REMOVE for step in steps):
                # One who was away learns all of it from the rows; of removed ones, nobody can.
                resumed.take(await all_rows(store, after=resumed.position, at_once=3))
                assert resumed.images == wanted
            else:
                resumed = Subscriber()
                resumed.take(rows)
            if is_restarted:
                assert await store.verify() == []
                await store.close()
                store = await open_store(url, FLEET, policy=policy)
                await store.start(heard.extend, lambda nclsid: None)
        assert await store.verify() == []
    finally:
        await store.close()


async def empty(store: SqlStore) -> None:
    for table in ("TRUCK", "blaze$transactions"):
        statement = text(f'DELETE FROM "{table}"')
        await store.database.run(lambda connection, s=statement: connection.execute(s))  # type: ignore[misc]
    assert await store.rows(TRUCK, (0, 0), 1) == []


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(groups=GROUPS, policy=POLICIES)
def test_a_store_is_what_its_writes_make_of_it(
    store_url: str, groups: list[tuple[list[Step], bool]], policy: Policy
) -> None:
    asyncio.run(check(store_url, groups, policy))
