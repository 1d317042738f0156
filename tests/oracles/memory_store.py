"""A Blaze store in memory: the plainest form of the rules, to test brokers without a database."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from wireloom.formats.blaze import Model, NClassValue, apply_delta
from wireloom.formats.blaze.codes import Action, BlazeCode
from wireloom.formats.blaze.session import Change, EventIds, Stamp, TxId
from wireloom.services.blaze.store.api import (
    Done,
    Outcome,
    Policy,
    Portion,
    Store,
    StoreSettings,
    StoreStatus,
    Write,
)

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """Objects by class and key; a commit is the next turn of the event loop, unless `is_held`."""

    def __init__(
        self, model: Model, first_index: int | None = 1, settings: StoreSettings | None = None
    ) -> None:
        self.model = model
        self.settings = settings or StoreSettings()
        self.policy = Policy()
        self.is_held = False
        """Nothing is committed until `release`."""
        self.is_up = True
        self.images: dict[int, dict[Any, tuple[Stamp, bool, NClassValue]]] = {}
        self._first_index = first_index
        self._waiting: deque[tuple[Write, Done]] = deque()
        self._stamps: dict[int, Stamp] = {}
        self._seen: set[TxId] = set()
        self._connid = 0
        self._writes = 0
        self._on_changes: Callable[[Sequence[Change]], None] = lambda changes: None
        self.on_gap: Callable[[int], None] = lambda nclsid: None
        self._room = asyncio.Event()
        self._is_closed = False
        self._is_scheduled = False

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def is_stored(self, nclsid: int) -> bool:
        found = self.model.nclass(nclsid)
        return found is not None and found.persistent

    def submit_all(self, writes: Sequence[Write], done: Done) -> None:
        for write in writes:
            if self._is_closed:
                done((write,), (Outcome(False, BlazeCode.SERVER_ABORTED),))
            elif self.is_full:
                done((write,), (Outcome(False, BlazeCode.SERVER_ERROR),))
            else:
                self._waiting.append((write, done))
                self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self.is_held:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._commit)

    def release(self) -> None:
        self.is_held = False
        self._schedule()

    def _commit(self) -> None:
        self._is_scheduled = False
        if self.is_held:
            return
        group = list(self._waiting)
        self._waiting.clear()
        changes: list[Change] = []
        for write, done in group:
            outcome = self._apply(write)
            self._writes += 1
            if outcome.change is not None:
                changes.append(outcome.change)
            done((write,), (outcome,))
        if changes:
            self._on_changes(changes)
        self._room.set()

    def _stamp(self, nclsid: int) -> Stamp:
        seconds, counter = self._stamps.get(nclsid, (0, 0))
        now = int(time.time())
        made = (now, 0) if now > seconds else (seconds, counter + 1)
        self._stamps[nclsid] = made
        return made

    def _apply(self, write: Write) -> Outcome:
        if write.txid is not None:
            if write.txid in self._seen:
                return Outcome(False, BlazeCode.DUPLICATED_TRANSACTION_ID)
            self._seen.add(write.txid)
        value, name = write.object, write.action.name
        nclsid, key = value.nclass.id, value.key()
        if not self.is_stored(nclsid):
            if name in ("DLT", "RST", "RESET"):
                return Outcome(False, BlazeCode.REQUEST_UNSUPPORTED)
            return self._changed(Action[name], value, key, value)
        table = self.images.setdefault(nclsid, {})
        found = table.get(key)
        old = None if found is None or found[1] else found[2]
        if name in ("RST", "RESET"):
            for each, (_, is_deleted, image) in list(table.items()):
                if not is_deleted:
                    table[each] = (self._stamp(nclsid), True, image)
            return self._changed(Action.RST, value, None, None)
        if (old is None) != (name == "INS"):
            return Outcome(False, BlazeCode.APPLICATION_ERROR)
        delta = None
        if name == "DLT":
            assert old is not None
            delta, value = value, apply_delta(old, value)
        is_deleted = name in ("DEL", "REMOVE")
        if is_deleted:
            assert old is not None
            value = old
        action = Action.DEL if is_deleted else Action[name]
        outcome = self._changed(action, value, key, None if is_deleted else value, delta)
        assert outcome.change is not None
        table[key] = (outcome.change.stamp, is_deleted, value)
        return outcome

    def _changed(
        self,
        action: Action,
        value: NClassValue,
        key: Any,
        result: NClassValue | None,
        delta: NClassValue | None = None,
    ) -> Outcome:
        stamp = self._stamp(value.nclass.id)
        change = Change.of(action, value, stamp, delta=delta, first_index=self._first_index)
        return Outcome(True, change=change, result=result)

    async def apply(self, write: Write) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.submit(write, future.set_result)
        return await future

    async def room(self) -> None:
        while self.pending * 2 >= self.settings.max_pending:
            self._room.clear()
            await self._room.wait()

    async def portion(
        self, nclsid: int, after: Stamp, count: int, deleted_after: Stamp | None
    ) -> Portion:
        last = self._stamps.get(nclsid, (0, 0))
        rows = sorted(
            (
                (stamp, is_deleted, value)
                for stamp, is_deleted, value in self.images.get(nclsid, {}).values()
                if stamp > after
                and not (is_deleted and (deleted_after is None or stamp <= deleted_after))
            ),
            key=lambda row: row[0],
        )
        await asyncio.sleep(0)
        made = [
            Change.of(
                Action.DEL if is_deleted else Action.INS,
                value,
                stamp,
                first_index=self._first_index,
            )
            for stamp, is_deleted, value in rows[:count]
        ]
        return Portion(made, last)

    async def get(self, nclsid: int, key: NClassValue) -> NClassValue | None:
        found = self.images.get(nclsid, {}).get(key.key())
        return None if found is None or found[1] else found[2]

    async def start(
        self, on_changes: Callable[[Sequence[Change]], None], on_gap: Callable[[int], None]
    ) -> None:
        self._on_changes, self.on_gap = on_changes, on_gap

    async def next_connid(self) -> int:
        self._connid += 1
        return self._connid

    async def event_ids(self) -> EventIds:
        return EventIds()

    async def status(self) -> StoreStatus:
        rows: Counter[str] = Counter()
        deleted: Counter[str] = Counter()
        for nclsid, table in self.images.items():
            nclass = self.model.nclass(nclsid)
            assert nclass is not None
            for _, is_deleted, _value in table.values():
                (deleted if is_deleted else rows)[nclass.name] += 1
        return StoreStatus(
            self.is_up, "", rows, deleted, self.pending, 0, self._writes, 0, 0.0, 0, 0.0, 0.0, 0, 0
        )

    async def close(self) -> None:
        self.is_held = False
        self._commit()
        self._is_closed = True
