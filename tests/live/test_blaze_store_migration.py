"""Models that grow while their objects are stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from oracles.stores import FLEET, FLEET_BLZ, TRUCK, all_rows, image, on_store, truck, write
from sqlalchemy import inspect, text

from wireloom.errors import SourceError
from wireloom.formats.blaze import Model, from_blz, new_value
from wireloom.formats.blaze.codes import Action, BlazeCode
from wireloom.services.blaze.store import SqlStore, Write, open_store
from wireloom.services.blaze.store.migration import check_growth

VALUES: dict[str, Any] = {
    "name": "one",
    "i16": -5,
    "f32": 0.5,
    "grade": "A",
    "temps": {3: 4},
    "raw": {7: 1},
    "home": {"x": 1, "label": "dock"},
    "stops": {1: {"y": 2}},
}


def changed(*changes: tuple[str, str]) -> Model:
    source = FLEET_BLZ
    for old, new in changes:
        assert old in source
        source = source.replace(old, new, 1)
    return from_blz(source)


GROWN = {
    "field added": [("    @persistent", "    int_32 speed\n    @persistent")],
    "field added in front": [("    uint_32 truck_id", "    int_32 speed\n    uint_32 truck_id")],
    "field added to an object": [("    ascii[6] label", "    ascii[6] label\n    int_32 z")],
    "array larger": [("int_32[4] temps", "int_32[9] temps"), ("POINT[2]", "POINT[3]")],
    "text longer": [("ascii[16] name", "ascii[99] name"), ("ascii grade", "ascii[9] grade")],
    "numbers wider": [
        ("int_16 i16", "int_64 i16"),
        ("float_32 f32", "float_64 f32"),
        ("uint_32 truck_id", "uint_64 truck_id"),
        ("byte flags", "uint_16 flags"),
    ],
    "bytes become numbers": [("byte[8] raw", "int_16[8] raw")],
    "moved": [("    int_16 i16\n", ""), ("    uint_64 u64\n", "    uint_64 u64\n    int_16 i16\n")],
    "another key": [("@fldset {name, home}", "@fldset {i16, u64}")],
    "an enum for a number": [("int_32[4] temps", "GAUGE[4] temps")],
    "stored from now on": [
        ("uint_32 number", "uint_32 number\n    @persistent"),
    ],
    "array too large for columns": [("int_32[4] temps", "int_32[999] temps")],
}


@pytest.mark.parametrize("name", GROWN)
def test_objects_are_kept_when_the_model_grows(store_url: str, name: str) -> None:
    model = changed(*GROWN[name])
    stamps = []

    async def before(store: SqlStore) -> None:
        for number in range(3):
            await store.apply(Write(Action.INS, truck(number, **VALUES)))
        await store.apply(write(Action.DEL, 1, 77))
        stamps.extend([row.stamp for row in await all_rows(store, after=(0, 1))])

    async def after(store: SqlStore) -> None:
        rows = await all_rows(store, after=(0, 1))
        assert [row.stamp for row in rows] == stamps
        assert [row.action.name for row in rows] == ["INS", "INS", "DEL"]
        for row, number in zip(rows, (0, 2, 1), strict=True):
            assert image(row) == new_value(model, "TRUCK", _shown(number))
        grown = new_value(model, "TRUCK", {"truck_id": 9, **VALUES})
        assert (await store.apply(Write(Action.INS, grown, (0, 0, 7, 1)))).is_ok
        assert (await store.apply(Write(Action.UPD, grown, (0, 0, 7, 77)))).code == 201
        assert (await store.apply(Write(Action.UPD, truck(0, model, name="two")))).is_ok

    on_store(before, store_url)
    on_store(after, store_url, model=model)
    # The third start finds nothing to do; and the way back is barred.
    on_store(after_all, store_url, model=model)


def _shown(number: int) -> dict[str, Any]:
    return {"truck_id": number, **VALUES} if number else dict(VALUES)


async def after_all(store: SqlStore) -> None:
    assert len(await all_rows(store, at_once=100)) == 3


REFUSED = {
    "TRUCK.i16 is stored, but the model does not have it": [("    int_16 i16\n", "")],
    "TRUCK.u64 is stored as uint_64, not int_64": [("uint_64 u64", "int_64 u64")],
    "TRUCK.f64 is stored as float_64, not float_32": [("float_64 f64", "float_32 f64")],
    "TRUCK.i16 is stored as int_16, not float_64": [("int_16 i16", "float_64 i16")],
    r"TRUCK.temps is stored as int_32\[4\], not int_32\[3\]": [("int_32[4]", "int_32[3]")],
    r"TRUCK.temps is stored as int_32\[4\], not int_32": [("int_32[4]", "int_32")],
    r"TRUCK.name is stored as ascii\[16\], not ascii\[8\]": [("ascii[16]", "ascii[8]")],
    "TRUCK.home.label is stored, but the model does not have it": [("    ascii[6] label\n", "")],
    "TRUCK.active is stored as bool, not POINT": [("bool active", "POINT active")],
    "class TRUCK is stored with the primary key truck_id": [("{truck_id}", "{truck_id, name}")],
    "class TRUCK is stored with the id 302": [("@id 302", "@id 999")],
    "class TRUCK is stored, but the model does not store it": [("    @persistent\n", "")],
    "class ODD is stored, but the model does not store it": [("nclass ODD", "nclass EVEN")],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_model_that_cannot_hold_what_is_stored_names_the_field(reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        check_growth(FLEET, changed(*REFUSED[reason]))


def test_a_refused_model_leaves_everything_as_it_was(store_url: str) -> None:
    async def before(store: SqlStore) -> None:
        await store.apply(write(Action.INS, 1, name="one"))

    async def after(store: SqlStore) -> None:
        assert len(await all_rows(store)) == 1

    on_store(before, store_url)
    smaller = changed(
        ("    int_16 i16\n", ""), ("    bool active", "    int_32 new\n    bool active")
    )
    with pytest.raises(SourceError, match="i16"):
        asyncio.run(open_store(store_url, smaller))
    on_store(after, store_url)


def test_added_columns_do_not_touch_the_rows(store_url: str) -> None:
    async def before(store: SqlStore) -> None:
        for number in range(3):
            await store.apply(Write(Action.INS, truck(number, **VALUES)))

    async def after(store: SqlStore) -> None:
        found = await store.database.read(
            lambda connection: connection.execute(
                text('SELECT stops_1_y, stops_2_y, speed FROM "TRUCK"')
            ).all()
        )
        assert [tuple(row) for row in found] == [(2, 0, 0.0)] * 3
        names = await store.database.read(
            lambda connection: {
                str(index["name"]) for index in inspect(connection).get_indexes("TRUCK")
            }
        )
        assert names == {"blaze$302$stamps", "blaze$302$key2"}
        # With the object's own column at its old place, the new ones are behind it.
        columns = await store.database.read(
            lambda connection: [c["name"] for c in inspect(connection).get_columns("TRUCK")]
        )
        assert columns[:4] == ["ts0", "ts1", "del", "truck_id"]
        assert columns[-1] == "speed"

    on_store(before, store_url)
    model = changed(
        ("POINT[2]", "POINT[3]"), ("    @persistent", "    float_64 speed\n    @persistent")
    )
    on_store(after, store_url, model=model)


def test_a_description_makes_no_new_model(store_url: str) -> None:
    async def test(store: SqlStore) -> None:
        assert (await store.apply(write(Action.INS, 1))).code in (
            BlazeCode.NO_ERROR,
            BlazeCode.APPLICATION_ERROR,
        )
        assert store._generation == 1
        assert store.is_stored(TRUCK)

    on_store(test, store_url)
    on_store(test, store_url, model=changed(("bool active", 'bool active "on the road"')))
