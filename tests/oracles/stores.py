"""A model for stores, and what tests of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import text

from wireloom.formats.blaze import Model, NClassValue, from_blz, new_value
from wireloom.formats.blaze.codes import Action, Encoding
from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store import Outcome, SqlStore, StoredChange, Write, open_store

__all__ = [
    "FLEET",
    "FLEET_BLZ",
    "ODD",
    "POINT",
    "PULSE",
    "TRUCK",
    "all_rows",
    "codes",
    "image",
    "images",
    "on_store",
    "pulse",
    "select",
    "truck",
    "write",
]

TRUCK, ODD, PULSE, POINT = 302, 303, 304, 301

FLEET_BLZ: Final = """
@model_name "fleet"
enum GAUGE
{
    GAUGE_Off
    GAUGE_High = 9
    GAUGE_Neg = -3
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    bool active
    int_16 i16
    uint_64 u64
    float_32 f32
    float_64 f64
    ascii grade
    byte flags
    GAUGE gauge
    int_32[4] temps
    bool[3] doors
    byte[8] raw
    POINT home
    POINT[2] stops
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
    @key
    @id 2
    @fldset {name, home}
    @key_end
}
nclass ODD
{
    @id 303
    uint_64 big
    ascii[8] word
    bool flag
    float_32 real
    byte[4] code
    POINT place
    int_32 ts0
    int_32 xmin
    int_32 place_x
    @persistent
    @key primary
    @id 1
    @fldset {big, word, flag, real, code, place}
    @key_end
}
nclass PULSE
{
    @id 304
    uint_32 number
    @key primary
    @id 1
    @fldset {number}
    @key_end
}
"""
FLEET: Final[Model] = from_blz(FLEET_BLZ)


def truck(number: int, model: Model = FLEET, /, **values: Any) -> NClassValue:
    return new_value(model, "TRUCK", {"truck_id": number, **values})


def pulse(number: int) -> NClassValue:
    return new_value(FLEET, "PULSE", {"number": number})


def write(
    action: Action, number: int, tx: int | None = None, /, *, connid: int = 7, **values: Any
) -> Write:
    """A write to a truck."""
    encoding = Encoding.INDEXDELTA if action is Action.DLT else Encoding.INDEXNOTZERO
    value = new_value(FLEET, "TRUCK", {"truck_id": number, **values}, encoding)
    return Write(action, value, None if tx is None else (0, 0, connid, tx))


def image(change: Change) -> NClassValue:
    """The object of a change, whoever made the change."""
    if isinstance(change, StoredChange):
        return change.value()
    assert change.image is not None
    return change.image


async def all_rows(
    store: SqlStore, nclsid: int = TRUCK, after: Stamp = (0, 0), at_once: int = 7
) -> list[Change]:
    """A download, as a session asks for it."""
    found: list[Change] = []
    while True:
        rows = await store.rows(nclsid, after, at_once)
        found += rows
        if len(rows) < at_once:
            return found
        after = rows[-1].stamp


async def images(store: SqlStore, nclsid: int = TRUCK) -> Mapping[Any, Mapping[str, Any]]:
    """What is stored, by key."""
    rows = [row for row in await all_rows(store, nclsid) if row.action is not Action.DEL]
    return {str(row.key): image(row).to_values() for row in rows}


def on_store(test: Callable[[SqlStore], Awaitable[None]], url: str, /, **options: Any) -> None:
    """Run a test on an open store."""

    async def run() -> None:
        async with asyncio.timeout(60):
            store = await open_store(url, options.pop("model", FLEET), **options)
            try:
                await test(store)
                assert await store.verify() == []
            finally:
                await store.close()

    asyncio.run(run())


async def select(store: SqlStore, sql: str) -> list[tuple[Any, ...]]:
    return await store.database.read(
        lambda connection: [tuple(row) for row in connection.execute(text(sql))]
    )


def codes(outcomes: Sequence[Outcome]) -> list[int]:
    return [int(outcome.code) for outcome in outcomes]
