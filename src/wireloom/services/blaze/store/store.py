"""The store on a database: one task that commits groups, and hands on what all brokers commit."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection

from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.codes import BlazeCode
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store.api import (
    STORED_FIRST_INDEX,
    Outcome,
    Policy,
    Store,
    StoreSettings,
    StoreStatus,
    Write,
)
from wireloom.services.blaze.store.database import (
    Database,
    Failure,
    T,
    open_database,
    store_errors,
)
from wireloom.services.blaze.store.group import Committed, Committer, ModelChanged
from wireloom.services.blaze.store.log import (
    Reader,
    class_states,
    count_rows,
    prune_changes,
    prune_transactions,
)
from wireloom.services.blaze.store.migration import prepare
from wireloom.services.blaze.store.notices import Listener
from wireloom.services.blaze.store.numbers import (
    CONNID,
    CONNID_BLOCK,
    SEVTID_BLOCK,
    ReservedEventIds,
    id_of,
    reserve,
    sevtid,
)
from wireloom.services.blaze.store.statements import PostgresStatements, SqliteStatements
from wireloom.services.blaze.store.tables import StoredClass, stored_classes
from wireloom.services.blaze.store.verify import verify

__all__ = ["SqlStore", "open_store"]

_LOG = logging.getLogger(__name__)

_READ_AT_ONCE: Final = 1000
"""Changes of other brokers that are read at once."""
_COUNTS_AGE: Final = 30.0
"""Seconds for which the numbers of rows are good: counting reads whole tables."""

_ABORTED = Outcome(False, BlazeCode.SERVER_ABORTED, reason="the store is closed")
_FULL = Outcome(False, BlazeCode.SERVER_ERROR, reason="too many writes wait")

Done = Callable[[Outcome], None]


async def open_store(
    url: str,
    model: Model,
    *,
    policy: Policy | None = None,
    settings: StoreSettings | None = None,
    first_index: int = STORED_FIRST_INDEX,
    clock: Callable[[], float] = time.time,
) -> SqlStore:
    """Open a store, and make or change its tables as the model wants.

    Args:
        url: ``sqlite:///file``, ``sqlite://`` (memory) or ``postgresql://user@host/database``; a
            folder with PostgreSQL's socket is given as ``?host=/folder``.
        model: its ``@persistent`` classes are stored.
        policy: what actions do where the document leaves it open.
        settings: limits and intervals.
        first_index: INDEX of the first field in the dialect that is spoken.
        clock: Unix time.

    Raises:
        OptionError: the address is none of these.
        SourceError: the model cannot hold what is stored, or cannot be stored.
        StoreError: the database cannot be opened, or another broker uses the file.
    """
    database = open_database(url)
    try:
        classes = stored_classes(model, database.is_sqlite)
        with store_errors(database):
            generation = await database.run(partial(prepare, model=model, classes=classes))
    except BaseException:
        await database.close()
        raise
    store = SqlStore(
        database,
        model,
        classes,
        generation,
        policy or Policy(),
        settings or StoreSettings(),
        first_index,
        clock,
    )
    for stored in classes.values():
        if stored.table is not None and stored.flat.unflattened:
            fields = ", ".join(stored.flat.unflattened)
            _LOG.warning("class %s: no columns for %s", stored.nclass.name, fields)
    return store


class SqlStore(Store):
    """A store on SQLite or PostgreSQL; see `open_store`."""

    def __init__(
        self,
        database: Database,
        model: Model,
        classes: dict[int, StoredClass],
        generation: int,
        policy: Policy,
        settings: StoreSettings,
        first_index: int,
        clock: Callable[[], float],
    ) -> None:
        self.database = database
        self.model = model
        self.policy = policy
        self.settings = settings
        self._classes = classes
        self._clock = clock
        self._sender = os.urandom(8).hex()
        statements = SqliteStatements if database.is_sqlite else PostgresStatements
        self._statements = statements(classes.values())
        self._committer = Committer(
            model,
            classes,
            self._statements,
            policy,
            generation=generation,
            first_index=first_index,
            sender=self._sender,
            clock=clock,
        )
        self._reader = Reader(model, classes, first_index)
        self._generation = generation
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Write, Done]] = deque()
        self._flying = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_closing = False
        self._error = ""
        """Why the store takes no more writes."""
        self._on_changes: Callable[[Sequence[Change]], None] | None = None
        self._on_gap: Callable[[int], None] | None = None
        self._cursors: dict[int, Stamp] = {}
        """The last change of each class that was handed on."""
        self._is_notified = False
        self._next_poll = 0.0
        self._next_prune = self._loop.time() + settings.prune_interval
        self._connids = iter(range(0))
        self._connids_lock = asyncio.Lock()
        self._event_ids: ReservedEventIds | None = None
        self._refills: set[int] = set()
        self._counts: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._counted = 0.0
        self._is_up = True
        self._commits = self._writes = self._failures = 0
        self._foreign = self._gaps = 0
        self._last_commit = 0.0
        self._last_group = 0
        self._latency = self._max_latency = 0.0
        self._listener: Listener | None = None
        # Kept here, and ended by `close` alone.
        self._task = self._loop.create_task(self._work(), name="blaze store")

    # -- writing

    @property
    def pending(self) -> int:
        """Writes that were submitted and have no outcome."""
        return len(self._queue) + self._flying

    def is_stored(self, nclsid: int) -> bool:
        """Whether objects of the class are stored."""
        stored = self._classes.get(nclsid)
        return stored is not None and stored.table is not None

    def submit(self, write: Write, done: Done) -> None:
        """Do a write; `done` is called once, in the order of submission, when it is durable."""
        waiting = len(self._queue) + self._flying
        if self._is_closing:
            done(_ABORTED)
        elif self._error:
            done(Outcome(False, BlazeCode.SERVER_ERROR, reason=self._error))
        elif waiting >= self.settings.max_pending:
            done(_FULL)
        else:
            self._queue.append((write, done))
            if waiting + 1 >= self.settings.max_pending // 2:
                self._room.clear()
            if not waiting:
                self._wake.set()

    async def apply(self, write: Write) -> Outcome:
        """Do a write, and wait until it is durable."""
        answer: asyncio.Future[Outcome] = self._loop.create_future()

        def done(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        self.submit(write, done)
        return await answer

    async def room(self) -> None:
        """Wait until less than half of `max_pending` waits."""
        await self._room.wait()

    async def _work(self) -> None:
        """Commit what waits, and now and then do what else there is to do."""
        while self._queue or not self._is_closing:
            if self._queue:
                await self._commit_group()
            else:
                await self._wait()
            try:
                await self._do_chores()
            except Exception as error:
                self._failed(error)
                await asyncio.sleep(self.settings.retry_interval)

    async def _wait(self) -> None:
        self._wake.clear()
        now = self._loop.time()
        until = self._next_prune
        if self._cursors:
            until = now if self._is_notified else min(until, self._next_poll)
        if self._refills or self._queue:
            until = now
        if until > now and not self._is_closing:
            try:
                async with asyncio.timeout(until - now):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _do_chores(self) -> None:
        now = self._loop.time()
        if self._refills:
            await self._refill()
        if self._cursors and (self._is_notified or now >= self._next_poll):
            await self._poll()
        if now >= self._next_prune:
            await self._prune()

    async def _commit_group(self) -> None:
        queue = self._queue
        group = [queue.popleft() for _ in range(min(len(queue), self.settings.max_group))]
        self._flying = len(group)
        started = self._loop.time()
        parts = await self._carry_out([write for write, _ in group])
        self._latency = self._loop.time() - started
        self._max_latency = max(self._max_latency, self._latency)
        self._last_group = len(group)
        self._writes += len(group)
        self._flying = 0
        if len(queue) < self.settings.max_pending // 2:
            self._room.set()
        outcomes = [outcome for part in parts for outcome in part.outcomes]
        for (_, done), outcome in zip(group, outcomes, strict=True):
            try:
                done(outcome)
            except Exception:
                _LOG.exception("the receiver of an outcome failed")
        for part in parts:
            await self._hand_on(part)

    async def _carry_out(self, writes: Sequence[Write]) -> list[Committed]:
        """Commit a group; in parts, when something in it cannot be written at all."""
        marker = os.urandom(17) if self.database.is_shared else b""
        attempts: list[Committed] = []
        is_repeated = False

        def work(connection: Connection) -> None:
            done = self._committer.commit(connection, writes, marker, is_repeated=is_repeated)
            if done is not None:
                attempts.append(done)

        while True:
            try:
                await self.database.run(work)
                break
            except ModelChanged as error:
                self._error = error.reason
                _LOG.error("%s: %s", self.database, error.reason)
                return [_refusal(writes, BlazeCode.SERVER_ERROR, error.reason)]
            except Exception as error:
                self._failures += 1
                is_repeated = True
                kind = self.database.failure(error)
                if kind is Failure.AWAY:
                    # Whether it was done will be seen by its marker, when the database is back.
                    self._failed(error)
                    if self._is_closing:
                        return [_refusal(writes, BlazeCode.SERVER_ABORTED, "the store is closed")]
                    await asyncio.sleep(self.settings.retry_interval)
                elif kind is Failure.FULL:
                    self._failed(error)
                    return [_refusal(writes, BlazeCode.SERVER_ERROR, _said(error))]
                elif kind is Failure.WRONG and len(writes) > 1:
                    half = len(writes) // 2
                    return [
                        *await self._carry_out(writes[:half]),
                        *await self._carry_out(writes[half:]),
                    ]
                elif kind is Failure.WRONG:
                    _LOG.error("a write cannot be stored: %s", _said(error), exc_info=error)
                    return [_refusal(writes, BlazeCode.SERVER_ERROR, _said(error))]
        self._is_up = True
        self._commits += 1
        self._last_commit = time.time()
        # The last attempt is the one that was committed: after that, there are no others.
        return [attempts[-1]]

    def _failed(self, error: Exception) -> None:
        if self._is_up:
            _LOG.warning("%s: %s", self.database, _said(error))
        self._is_up = False

    # -- changes

    async def start(
        self,
        on_changes: Callable[[Sequence[Change]], None],
        on_gap: Callable[[int], None],
    ) -> None:
        """Hand on every change that any broker on this database commits from now on."""
        if self.database.is_shared:
            with store_errors(self.database):
                states = await self.database.read(class_states)
            # What is committed from here on has higher stamps; the log has it if we do not.
            self._cursors = {nclsid: states[nclsid].stamp for nclsid in self._classes}
            if self.settings.has_notices:
                self._listener = Listener(self.database, self._sender, self._notice, self.settings)
        self._on_changes = on_changes
        self._on_gap = on_gap
        self._wake.set()

    def _notice(self) -> None:
        self._is_notified = True
        self._wake.set()

    async def _hand_on(self, part: Committed) -> None:
        """Give own changes to the broker, behind those of others with lower stamps."""
        for nclsid, stamp in part.after.items():
            if nclsid in self._cursors:
                await self._read_until(nclsid, part.before[nclsid])
                self._cursors[nclsid] = stamp
        self._give(part.changes)

    def _give(self, changes: Sequence[Change]) -> None:
        if changes and self._on_changes is not None:
            try:
                self._on_changes(changes)
            except Exception:
                _LOG.exception("the receiver of changes failed")

    async def _poll(self) -> None:
        """Hand on what others have committed."""
        self._is_notified = False
        self._next_poll = self._loop.time() + self.settings.poll_interval
        states = await self._read(class_states)
        if states is None:
            return
        for nclsid, state in states.items():
            if nclsid in self._cursors:
                if state.generation != self._generation:
                    self._error = "another broker has brought a newer model to the database"
                    self._cursors.clear()
                    _LOG.error("%s: %s", self.database, self._error)
                    return
                await self._read_until(nclsid, state.stamp)

    async def _read_until(self, nclsid: int, until: Stamp) -> None:
        """Hand on the changes of a class up to a stamp, all of which are in the log."""
        while self._cursors[nclsid] < until:
            after = self._cursors[nclsid]
            found = await self._read(
                lambda connection, after=after: self._reader.logged(  # type: ignore[misc]
                    connection, nclsid, after, until, _READ_AT_ONCE
                )
            )
            if found is None:
                return
            changes, low = found
            if low > after:
                self._gaps += 1
                _LOG.error("changes of class %s are lost: they were removed too soon", nclsid)
                self._cursors[nclsid] = min(low, until)
                if self._on_gap is not None:
                    self._on_gap(nclsid)
                continue
            self._foreign += len(changes)
            is_last = len(changes) < _READ_AT_ONCE
            self._cursors[nclsid] = until if is_last else changes[-1].stamp
            self._give(changes)

    async def _read(self, work: Callable[[Connection], T]) -> T | None:
        """Read, however long it takes until the database answers; None when closing."""
        while True:
            try:
                found = await self.database.read(work)
            except Exception as error:
                if self.database.failure(error) not in (Failure.AWAY, Failure.AGAIN):
                    raise
                self._failed(error)
                if self._is_closing:
                    return None
                await asyncio.sleep(self.settings.retry_interval)
            else:
                self._is_up = True
                return found

    # -- reading

    async def rows(self, nclsid: int, after: Stamp, count: int) -> list[Change]:
        """Up to `count` rows newer than `after`, by their stamps: INS, and DEL for deleted ones."""
        if not self.is_stored(nclsid) or count < 1:
            return []
        with store_errors(self.database):
            return await self.database.read(
                partial(self._reader.rows, nclsid=nclsid, after=after, count=count)
            )

    async def get(self, nclsid: int, key: NClassValue) -> NClassValue | None:
        """The object with the key of that object; None when there is none or it is deleted."""
        if not self.is_stored(nclsid):
            return None
        wanted = self._classes[nclsid].flat.checked_key(key)
        with store_errors(self.database):
            found = await self.database.read(
                lambda connection: self._statements.fetch(connection, nclsid, [wanted])
            )
        row = found.get(wanted)
        if row is None or row[0]:
            return None
        return decode_nclass(self.model, nclsid, row[1], first_index=STORED_FIRST_INDEX)

    async def verify(self) -> list[str]:
        """Compare every row's columns with its encoded object; gives what does not agree."""
        with store_errors(self.database):
            return await self.database.read(
                partial(verify, model=self.model, classes=self._classes)
            )

    # -- numbers

    async def next_connid(self) -> int:
        """A connection's id that no broker on this database has given before."""
        async with self._connids_lock:
            number = next(self._connids, None)
            if number is None:
                with store_errors(self.database):
                    last = await self.database.run(partial(reserve, counts={CONNID: CONNID_BLOCK}))
                first = last[CONNID] + 1
                self._connids = iter(range(first, first + CONNID_BLOCK))
                number = next(self._connids)
            return id_of(number)

    async def event_ids(self) -> ReservedEventIds:
        """Counters of SEVTID that go on behind those of the last run, and of other brokers."""
        if self._event_ids is None:
            counts = {sevtid(nclsid): SEVTID_BLOCK for nclsid in self._classes}
            with store_errors(self.database):
                last = await self.database.run(partial(reserve, counts=counts))
            self._event_ids = ReservedEventIds(
                {nclsid: last[sevtid(nclsid)] for nclsid in self._classes}, self._want_refill
            )
        return self._event_ids

    def _want_refill(self, nclsid: int) -> None:
        self._refills.add(nclsid)
        self._wake.set()

    async def _refill(self) -> None:
        assert self._event_ids is not None
        wanted = sorted(self._refills)
        counts = {sevtid(nclsid): SEVTID_BLOCK for nclsid in wanted}
        last = await self.database.run(partial(reserve, counts=counts))
        for nclsid in wanted:
            self._refills.discard(nclsid)
            self._event_ids.add_block(nclsid, last[sevtid(nclsid)])

    # -- housekeeping

    async def _prune(self) -> None:
        """Remove what is too old, a portion at a time."""
        settings = self.settings
        now = self._clock()
        is_more = await self.database.run(
            partial(
                prune_transactions, before=int(now - settings.txid_seconds), most=settings.txid_rows
            )
        )
        if self.database.is_shared:
            is_more |= await self.database.run(
                partial(
                    prune_changes, before=int(now - settings.log_seconds), most=settings.log_rows
                )
            )
        self._next_prune = self._loop.time() + (0 if is_more else settings.prune_interval)

    async def status(self) -> StoreStatus:
        """How the store is; it does not fail when the database does."""
        now = self._loop.time()
        if not self._counted or now - self._counted > _COUNTS_AGE:
            try:
                self._counts = await self.database.read(partial(count_rows, classes=self._classes))
                self._counted = now
            except Exception as error:
                self._failed(error)
        return StoreStatus(
            is_up=self._is_up and not self._error and not self._is_closing,
            error=self._error,
            rows=self._counts[0],
            deleted=self._counts[1],
            pending=self.pending,
            commits=self._commits,
            writes=self._writes,
            failures=self._failures,
            last_commit=self._last_commit,
            last_group=self._last_group,
            latency=self._latency,
            max_latency=self._max_latency,
            foreign_changes=self._foreign,
            gaps=self._gaps,
        )

    async def close(self) -> None:
        """Finish what waits, then let go of the database; twice does no harm."""
        if self._is_closing:
            return
        self._is_closing = True
        self._wake.set()
        try:
            await self._task
        finally:
            if self._listener is not None:
                await self._listener.close()
            await self.database.close()


def _refusal(writes: Sequence[Write], code: BlazeCode, reason: str) -> Committed:
    return Committed(outcomes=[Outcome(False, code, reason=reason) for _ in writes])


def _said(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
