"""Numbers that are given away once, over restarts and brokers: CONNID and SEVTID.

They are reserved in blocks, so that the database is asked seldom; a block that was not used up is
lost when the broker ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection, select, update

from wireloom.formats.blaze.session.subscriptions import EventIds
from wireloom.services.blaze.store.database import Database
from wireloom.services.blaze.store.tables import COUNTERS

__all__ = [
    "CONNID",
    "CONNID_BLOCK",
    "SEVTID_BLOCK",
    "Numbers",
    "ReservedEventIds",
    "id_of",
    "reserve",
    "sevtid",
]

CONNID: Final = "connid"
"""The name of the counter of connections."""

CONNID_BLOCK: Final = 64
"""Connections that are accepted without asking the database."""
SEVTID_BLOCK: Final = 1 << 18
"""Events of a class, each subscriber's counted, before the next block must be there; it is asked
for when half of them are used. 2^32 ids are enough for 16,384 restarts before they begin again."""
_IDS: Final = 0xFFFFFFFF


def id_of(number: int) -> int:
    """The id, 1 to 2^32 - 1, that a number from 1 on stands for."""
    return (number - 1) % _IDS + 1


def reserve(connection: Connection, counts: Mapping[str, int]) -> dict[str, int]:
    """Take numbers of counters, which must be there; gives the last ones taken before."""
    found: dict[str, int] = {}
    for name, count in sorted(counts.items()):  # in one order: no two wait for each other
        here = COUNTERS.c.name == name
        query = select(COUNTERS.c.value).where(here).with_for_update()
        found[name] = value = connection.execute(query).scalar_one()
        connection.execute(update(COUNTERS).where(here).values(value=value + count))
    return found


def sevtid(nclsid: int) -> str:
    """The name of a class's counter of event ids."""
    return f"sevtid {nclsid}"


class ReservedEventIds(EventIds):
    """Counters of SEVTID within reserved blocks.

    Should a block end before the next one is there, counting goes on; only after a crash at that
    very moment an id could come again.
    """

    def __init__(self, last: Mapping[int, int], refill: Callable[[int], None]) -> None:
        super().__init__({nclsid: number % _IDS for nclsid, number in last.items()})
        self._left = dict.fromkeys(last, SEVTID_BLOCK)
        self._refill = refill
        self._next: dict[int, int] = {}

    def next(self, nclsid: int) -> int:
        """The next id of a class."""
        left = self._left.get(nclsid, 0)
        if left == SEVTID_BLOCK // 2:
            self._refill(nclsid)
        elif left <= 0 and nclsid in self._next:
            self._last[nclsid] = self._next.pop(nclsid) % _IDS
            left = SEVTID_BLOCK
        self._left[nclsid] = left - 1
        return super().next(nclsid)

    def take(self, nclsid: int, count: int) -> Sequence[int]:
        """The next ids of a class."""
        left, last = self._left.get(nclsid, 0), self._last[nclsid]
        rest = left - count
        is_plain = rest >= 0 and not rest < SEVTID_BLOCK // 2 <= left and last + count <= _IDS
        if not is_plain:
            return [self.next(nclsid) for _ in range(count)]
        self._left[nclsid] = rest
        self._last[nclsid] = last + count
        return range(last + 1, last + count + 1)

    def add_block(self, nclsid: int, last: int) -> None:
        """A block behind `last` is reserved, to be used after the one in use."""
        self._next[nclsid] = last


class Numbers:
    """What a broker gives away.

    Args:
        database: has the counters.
        nclsids: the classes.
        on_wanted: is called when `refill` has something to do.
    """

    def __init__(
        self, database: Database, nclsids: Sequence[int], on_wanted: Callable[[], None]
    ) -> None:
        self.wanted: set[int] = set()
        """Classes whose block of event ids is half used."""
        self._database = database
        self._nclsids = nclsids
        self._on_wanted = on_wanted
        self._connids = iter(range(0))
        self._event_ids: ReservedEventIds | None = None
        self._lock = asyncio.Lock()

    async def next_connid(self) -> int:
        """A connection's id."""
        async with self._lock:
            number = next(self._connids, None)
            if number is None:
                counts = {CONNID: CONNID_BLOCK}
                last = await self._database.run(partial(reserve, counts=counts))
                number = last[CONNID] + 1
                self._connids = iter(range(number + 1, number + CONNID_BLOCK))
            return id_of(number)

    async def event_ids(self) -> ReservedEventIds:
        """The counters of event ids."""
        async with self._lock:
            if self._event_ids is None:
                last = await self._reserve(self._nclsids)
                self._event_ids = ReservedEventIds(last, self._want)
            return self._event_ids

    def _want(self, nclsid: int) -> None:
        self.wanted.add(nclsid)
        self._on_wanted()

    async def refill(self) -> None:
        """Reserve the blocks that are wanted."""
        assert self._event_ids is not None
        for nclsid, last in (await self._reserve(sorted(self.wanted))).items():
            self.wanted.discard(nclsid)
            self._event_ids.add_block(nclsid, last)

    async def _reserve(self, nclsids: Sequence[int]) -> dict[int, int]:
        counts = {sevtid(nclsid): SEVTID_BLOCK for nclsid in nclsids}
        last = await self._database.run(partial(reserve, counts=counts))
        return {nclsid: last[sevtid(nclsid)] for nclsid in nclsids}
