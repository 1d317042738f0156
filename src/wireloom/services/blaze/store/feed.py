"""The changes of all brokers, handed on once and in each class by their stamps."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store.group import Committed
from wireloom.services.blaze.store.log import Reader
from wireloom.services.blaze.store.statements import ClassState

__all__ = ["Feed"]

_LOG = logging.getLogger(__name__)

_READ_AT_ONCE: Final = 1000
"""Changes of other brokers that are read at once."""


class Feed:
    """Knows how far each class was handed on; one task at a time uses it.

    Args:
        reader: makes changes of the log.
        read: runs a function of a connection; None when the store is being closed.
        cursors: the last stamp of each class that is not to be handed on; empty when no other
            broker can write.
        on_changes: gets the changes.
        on_gap: gets a class whose changes are lost.
    """

    def __init__(
        self,
        reader: Reader,
        read: Callable[[Callable[..., Any]], Awaitable[Any]],
        cursors: Mapping[int, Stamp],
        on_changes: Callable[[Sequence[Change]], None],
        on_gap: Callable[[int], None],
    ) -> None:
        self.foreign = 0
        """Changes of other brokers that were handed on."""
        self.gaps = 0
        self._reader = reader
        self._read = read
        self._cursors = dict(cursors)
        self._on_changes = on_changes
        self._on_gap = on_gap

    async def hand_on(self, part: Committed) -> None:
        """Give own changes to the broker, behind those of others with lower stamps."""
        for nclsid, stamp in part.after.items():
            if nclsid in self._cursors:
                await self._read_until(nclsid, part.before[nclsid])
                self._cursors[nclsid] = max(stamp, self._cursors[nclsid])
        self._give(part.changes)

    async def catch_up(self, states: Mapping[int, ClassState]) -> None:
        """Give what all brokers have committed up to these states."""
        for nclsid in self._cursors:
            if nclsid in states:
                await self._read_until(nclsid, states[nclsid].stamp)

    def _give(self, changes: Sequence[Change]) -> None:
        if changes:
            try:
                self._on_changes(changes)
            except Exception:
                _LOG.exception("the receiver of changes failed")

    async def _read_until(self, nclsid: int, until: Stamp) -> None:
        """Give the changes of a class up to a stamp, all of which are in the log."""
        while self._cursors[nclsid] < until:
            after = self._cursors[nclsid]
            found = await self._read(
                partial(
                    self._reader.logged,
                    nclsid=nclsid,
                    after=after,
                    until=until,
                    count=_READ_AT_ONCE,
                )
            )
            if found is None:
                return
            changes, low = found
            if low > after:
                self._lose(nclsid, min(low, until))
                continue
            self.foreign += len(changes)
            is_last = len(changes) < _READ_AT_ONCE
            self._cursors[nclsid] = until if is_last else changes[-1].stamp
            self._give(changes)

    def _lose(self, nclsid: int, until: Stamp) -> None:
        self.gaps += 1
        self._cursors[nclsid] = until
        _LOG.error("changes of class %s are lost: they were removed too soon", nclsid)
        try:
            self._on_gap(nclsid)
        except Exception:
            _LOG.exception("the receiver of gaps failed")
