"""Stamps of classes that are not stored, where no other broker gives any: from memory.

So that stamps rise over restarts, the database has one that is ahead of all that are in use. It is
moved on every few seconds, and set back to the last one in use when the store is closed.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlalchemy import Connection, update

from wireloom.formats.blaze.session.events import Stamp
from wireloom.services.blaze.store.database import Database
from wireloom.services.blaze.store.tables import CLASSES

__all__ = ["Lease"]

LEASE_S: Final = 10
"""How far the database is ahead: so far stamps may be ahead of the clock after a crash."""


class Lease:
    """Keeps the database ahead.

    Args:
        database: has the classes.
        stamps: the last stamp of each class, kept up to date by whoever gives them away.
    """

    def __init__(self, database: Database, stamps: dict[int, Stamp]) -> None:
        self._database = database
        self._stamps = stamps
        self._until = 0

    def covers(self, now: int) -> bool:
        """Whether stamps may be given away at that time."""
        return all(max(now, stamp[0]) < self._until for stamp in self._stamps.values())

    async def renew(self, now: int) -> None:
        """Move the database on."""
        until = max(now, *(stamp[0] for stamp in self._stamps.values())) + LEASE_S
        await self._database.run(partial(_set, stamps=dict.fromkeys(self._stamps, (until, 0))))
        self._until = until

    async def end(self) -> None:
        """Note the last stamps."""
        if self._until:
            self._until = 0
            await self._database.run(partial(_set, stamps=self._stamps))


def _set(connection: Connection, stamps: dict[int, Stamp]) -> None:
    for nclsid, (ts0, ts1) in stamps.items():
        here = CLASSES.c.nclsid == nclsid
        connection.execute(update(CLASSES).where(here).values(ts0=ts0, ts1=ts1))
