"""Numbers that are given away once, over restarts and brokers: CONNID and SEVTID.

They are reserved in blocks, so that the database is asked seldom; a block that was not used up is
lost when the broker ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Connection, select, update

from wireloom.formats.blaze.session.subscriptions import EventIds
from wireloom.services.blaze.store.tables import COUNTERS

__all__ = [
    "CONNID",
    "CONNID_BLOCK",
    "SEVTID_BLOCK",
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

    def add_block(self, nclsid: int, last: int) -> None:
        """A block behind `last` is reserved, to be used after the one in use."""
        self._next[nclsid] = last
