"""The store on a database: one task that commits groups, and hands on what all brokers commit."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Connection

from wireloom.errors import StateError
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.codes import BlazeCode
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store.api import (
    STORED_FIRST_INDEX,
    Done,
    Outcome,
    Policy,
    Portion,
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
from wireloom.services.blaze.store.feed import Feed
from wireloom.services.blaze.store.group import Committed, Committer, ModelChanged
from wireloom.services.blaze.store.lease import Lease
from wireloom.services.blaze.store.log import (
    Reader,
    class_states,
    count_rows,
    prune_changes,
    prune_deleted,
    prune_transactions,
)
from wireloom.services.blaze.store.migration import prepare
from wireloom.services.blaze.store.notices import Listener
from wireloom.services.blaze.store.numbers import Numbers, ReservedEventIds
from wireloom.services.blaze.store.statements import PostgresStatements, SqliteStatements
from wireloom.services.blaze.store.tables import StoredClass, stored_classes
from wireloom.services.blaze.store.verify import verify

__all__ = ["SqlStore", "open_store"]

_LOG = logging.getLogger(__name__)

_COUNTS_AGE: Final = 30.0
_COUNTS_REST: Final = 200
"""Where other brokers change the numbers of rows, they are counted every so many seconds; after a
count that took long, after so many times as long, because it reads whole tables."""

_PASSED_ON_AT_ONCE: Final = 512
"""Writes to classes that are not stored, before others have their turn."""

_PURGE_INTERVAL: Final = 3600.0
"""The most seconds between searches for objects that were deleted long ago: one reads all stamps
before that time."""

_ABORTED = Outcome(False, BlazeCode.SERVER_ABORTED, reason="the store is closed")
_FULL = Outcome(False, BlazeCode.SERVER_ERROR, reason="too many writes wait")


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
            states = {} if database.is_shared else await database.run(class_states)
            await database.commit(lambda connection: None)  # the first write finds it connected
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
    store.pass_on({id: states[id].stamp for id in states if not store.is_stored(id)})
    for stored in classes.values():
        if stored.table is not None and stored.flat.unflattened:
            fields = ", ".join(stored.flat.unflattened)
            _LOG.warning("class %s: no columns for %s", stored.nclass.name, fields)
    return store


@dataclass(slots=True)
class _Group:
    """Writes that are committed together."""

    parts: list[tuple[Sequence[Write], Done]]
    """As they were submitted, and who wants to know of them."""
    writes: list[Write]
    started: float


class _Attempt:
    """The commit of a group, which may take several attempts."""

    def __init__(self, store: SqlStore, writes: Sequence[Write]) -> None:
        self.writes = writes
        self.done = Committed()
        """What it did."""
        self._store = store
        self._marker = os.urandom(17) if store.database.is_shared else b""
        self._is_repeated = False

    def begin(self) -> asyncio.Future[None]:
        """Try it, once more."""
        begun = self._store.database.commit(self._work)
        begun.add_done_callback(self._count)
        return begun

    def _count(self, begun: asyncio.Future[None]) -> None:
        # At once, not when somebody waits for it: then objects may have been counted meanwhile.
        if not begun.cancelled() and begun.exception() is None:
            self._store.count(self.done.objects, self.done.rows)

    def _work(self, connection: Connection) -> None:
        is_repeated, self._is_repeated = self._is_repeated, True
        committer = self._store.committer
        done = committer.commit(connection, self.writes, self._marker, is_repeated=is_repeated)
        if done is not None:  # else the attempt before was the one that was committed
            self.done = done


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
        self.committer = Committer(
            model,
            classes,
            self._statements,
            policy,
            generation=generation,
            first_index=first_index,
            sender=self._sender,
            clock=clock,
        )
        self._lease: Lease | None = None
        self._reader = Reader(model, classes, first_index, has_log=self._statements.has_log)
        self._generation = generation
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Sequence[Write], Done]] = deque()
        self._waiting = self._flying = 0  # writes in the queue, and in the group at work
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_closing = False
        self._error = ""
        """Why the store takes no more writes."""
        self._feed: Feed | None = None
        self._is_notified = False
        self._next_poll = 0.0
        self._next_prune = self._loop.time() + settings.prune_interval
        self._next_purge = 0.0
        self._numbers = Numbers(database, list(classes), self._wake.set)
        self._counts: tuple[Counter[str], Counter[str]] | None = None
        self._next_count = 0.0
        self._is_up = True
        self._is_traced = False
        self._commits = self._writes = self._failures = 0
        self._last_commit = 0.0
        self._last_group = 0
        self._latency = self._max_latency = 0.0
        self._listener: Listener | None = None
        # Kept here, and ended by `close` alone.
        self._task = self._loop.create_task(self._work(), name="blaze store")

    def pass_on(self, stamps: dict[int, Stamp]) -> None:
        """Give stamps of these classes, which are not stored, from memory; the last ones given."""
        if stamps:
            self.committer.passing = stamps
            self._lease = Lease(self.database, stamps)

    # -- writing

    @property
    def pending(self) -> int:
        """Writes that were submitted and have no outcome."""
        return self._waiting + self._flying

    def is_stored(self, nclsid: int) -> bool:
        """Whether objects of the class are stored."""
        stored = self._classes.get(nclsid)
        return stored is not None and stored.table is not None

    def submit_all(self, writes: Sequence[Write], done: Done) -> None:
        """Do writes, in this order; `done` gets them back with their outcomes."""
        pending, most = self.pending, self.settings.max_pending
        if self._is_closing:
            done(writes, [_ABORTED] * len(writes))
            return
        if self._error:
            refusal = Outcome(False, BlazeCode.SERVER_ERROR, reason=self._error)
            done(writes, [refusal] * len(writes))
            return
        taken = writes[: max(0, most - pending)]
        if taken:
            self._queue.append((taken, done))
            self._waiting += len(taken)
            if pending + len(taken) >= most // 2:
                self._room.clear()
            if not pending:
                self._wake.set()
        if len(taken) < len(writes):
            refused = writes[len(taken) :]
            done(refused, [_FULL] * len(refused))

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
            try:
                if self._queue:
                    await self._commit_groups()
                else:
                    await self._wait()
                await self._do_chores()
            except Exception as error:
                # Outcomes were given; changes that were not handed on will be found in the log.
                self._failed(error)
                await asyncio.sleep(self.settings.retry_interval)

    async def _wait(self) -> None:
        self._wake.clear()
        now = self._loop.time()
        until = min(self._next_prune, self._next_poll) if self._is_polling else self._next_prune
        if self._queue or self._has_chores():
            until = now
        if until > now and not self._is_closing:
            try:
                async with asyncio.timeout(until - now):
                    await self._wake.wait()
            except TimeoutError:
                pass

    @property
    def _is_polling(self) -> bool:
        return self._feed is not None and self.database.is_shared and not self._error

    def _has_chores(self) -> bool:
        """Whether there is something to do between two groups."""
        now = self._loop.time()
        is_behind = self._is_polling and (self._is_notified or now >= self._next_poll)
        return bool(self._numbers.wanted) or is_behind or now >= self._next_prune

    async def _do_chores(self) -> None:
        now = self._loop.time()
        if self._numbers.wanted:
            await self._numbers.refill()
        if self._is_polling and (self._is_notified or now >= self._next_poll):
            await self._poll()
        if now >= self._next_prune:
            await self._prune()

    async def _commit_groups(self) -> None:
        """Commit a group, and those that wait behind it until there is something else to do.

        While a group is on its way to the disk, who waits for the one before is told.
        """
        before: tuple[_Group, list[Committed]] | None = None
        while self._queue and (before is None or not self._has_chores()):
            await self._renew_lease()
            group = self._next_group()
            commit = self._begin(group.writes)
            if before is not None:
                await self._tell(*before)
            before = group, await commit
            self._latency = self._loop.time() - group.started
            self._max_latency = max(self._max_latency, self._latency)
            self._last_group = len(group.writes)
        if before is not None:
            await self._tell(*before)

    async def _renew_lease(self) -> None:
        if self._lease is not None and not self._lease.covers(int(self._clock())):
            try:
                await self._lease.renew(int(self._clock()))
            except Exception as error:  # it matters only if the broker dies now
                self._failed(error)

    def _next_group(self) -> _Group:
        queue = self._queue
        most = self.settings.max_group
        # What is passed on has no commit to share: the sooner it is answered, the better.
        if queue[0][0][0].object.layout.nclass.id in self.committer.passing:
            most = min(most, _PASSED_ON_AT_ONCE)
        group = _Group([], [], self._loop.time())
        while queue and len(group.writes) < most:
            some, done = queue.popleft()
            room = most - len(group.writes)
            if len(some) > room:
                queue.appendleft((some[room:], done))
                some = some[:room]
            group.parts.append((some, done))
            group.writes += some
        self._flying += len(group.writes)
        self._waiting -= len(group.writes)
        return group

    async def _tell(self, group: _Group, done: Sequence[Committed]) -> None:
        """Give the outcomes of a group, and hand on its changes."""
        self._writes += len(group.writes)
        self._flying -= len(group.writes)
        if self.pending < self.settings.max_pending // 2:
            self._room.set()
        outcomes = [outcome for part in done for outcome in part.outcomes]
        start = 0
        for some, tell in group.parts:
            try:
                tell(some, outcomes[start : start + len(some)])
            except Exception:
                _LOG.exception("the receiver of outcomes failed")
            start += len(some)
        if self._feed is not None:
            for part in done:
                try:
                    await self._feed.hand_on(part)
                except Exception as error:  # they will be found in the log
                    self._failed(error)

    def _begin(self, writes: Sequence[Write]) -> Awaitable[list[Committed]]:
        """Begin to carry out a group, at once; wait for what it has done before the next."""
        passing = self.committer.passing
        if passing and all(write.object.layout.nclass.id in passing for write in writes):
            return self._pass_on(writes)
        attempt = _Attempt(self, writes)
        return self._carry_out(attempt, attempt.begin())

    async def _pass_on(self, writes: Sequence[Write]) -> list[Committed]:
        done = self.committer.pass_on(writes)
        await asyncio.sleep(0)  # others have their turn, too
        return [done]

    async def _carry_out(self, attempt: _Attempt, begun: asyncio.Future[None]) -> list[Committed]:
        """Have a group committed; in parts, when something in it cannot be written at all."""
        writes = attempt.writes
        while True:
            try:
                await begun
                break
            except ModelChanged as error:
                self._error = error.reason
                _LOG.error("%s: %s", self.database, error.reason)
                return [_refusal(writes, BlazeCode.SERVER_ERROR, error.reason)]
            except Exception as error:
                self._failures += 1
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
                    return [*await self._begin(writes[:half]), *await self._begin(writes[half:])]
                elif kind is Failure.WRONG:
                    # How it came to that is said once: a fault of ours may concern every write.
                    trace, self._is_traced = None if self._is_traced else error, True
                    _LOG.error("a write cannot be stored: %s", _said(error), exc_info=trace)
                    return [_refusal(writes, BlazeCode.SERVER_ERROR, _said(error))]
                begun = attempt.begin()
        self._is_up = True
        self._commits += 1
        self._last_commit = time.time()
        return [attempt.done]

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
        if self._feed is not None:
            raise StateError("the store hands on changes already")
        cursors: dict[int, Stamp] = {}
        if not self.database.is_shared:
            with store_errors(self.database):
                await self._look()  # later, what is written would wait for it
        else:
            with store_errors(self.database):
                states = await self.database.read(class_states)
            # What is committed from here on has higher stamps; the log has it if we do not.
            cursors = {nclsid: states[nclsid].stamp for nclsid in self._classes}
            if self.settings.has_notices:
                self._listener = Listener(self.database, self._sender, self._notice, self.settings)
        self._feed = Feed(self._reader, self._read, cursors, on_changes, on_gap)
        self._wake.set()

    def _notice(self) -> None:
        self._is_notified = True
        self._wake.set()

    async def _poll(self) -> None:
        """Hand on what others have committed."""
        self._is_notified = False
        self._next_poll = self._loop.time() + self.settings.poll_interval
        states = await self._read(class_states)
        if states is None or self._feed is None or self._error:
            return
        if any(states[nclsid].generation != self._generation for nclsid in self._classes):
            self._error = "another broker has brought a newer model to the database"
            _LOG.error("%s: %s", self.database, self._error)
            return
        await self._feed.catch_up(states)

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

    async def portion(
        self, nclsid: int, after: Stamp, count: int, deleted_after: Stamp | None
    ) -> Portion:
        """Up to `count` rows newer than `after`; a class that is not stored has none."""
        if not self.is_stored(nclsid) or count < 1:
            return Portion([])
        with store_errors(self.database):
            return await self.database.read(
                partial(
                    self._reader.portion,
                    nclsid=nclsid,
                    after=after,
                    count=count,
                    deleted_after=deleted_after,
                )
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
        with store_errors(self.database):
            return await self._numbers.next_connid()

    async def event_ids(self) -> ReservedEventIds:
        """Counters of SEVTID that go on behind those of the last run, and of other brokers."""
        with store_errors(self.database):
            return await self._numbers.event_ids()

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
        if settings.deleted_seconds and self._loop.time() >= self._next_purge:
            before = int(now - settings.deleted_seconds)
            removed, is_old = await self.database.run(
                partial(prune_deleted, classes=self._classes, before=before)
            )
            self.count({}, {nclsid: -count for nclsid, count in removed.items()})
            if not is_old:
                pause = min(_PURGE_INTERVAL, settings.deleted_seconds / 10)
                self._next_purge = self._loop.time() + pause
            is_more |= is_old
        self._next_prune = self._loop.time() + (0 if is_more else settings.prune_interval)

    async def _look(self) -> None:
        """Count the objects, if that has to be done: it takes the longer the more there are."""
        began = self._loop.time()
        work = partial(count_rows, classes=self._classes)
        if not self.database.is_shared:
            if self._counts is None:
                # By the thread that writes: each commit is counted in it, or after it.
                self._counts = await self.database.run(work)
        elif began >= self._next_count:
            self._counts = await self.database.read(work)
            now = self._loop.time()
            self._next_count = now + max(_COUNTS_AGE, (now - began) * _COUNTS_REST)

    def count(self, objects: Mapping[int, int], rows: Mapping[int, int]) -> None:
        """There are so many more objects and rows, by class."""
        if self._counts is None or self.database.is_shared:  # where others add to them, too
            return
        live, deleted = self._counts
        for nclsid in {*objects, *rows}:
            name = self._classes[nclsid].nclass.name
            more = objects.get(nclsid, 0)
            live[name] += more
            deleted[name] += rows.get(nclsid, 0) - more

    async def status(self) -> StoreStatus:
        """How the store is; it does not fail when the database does."""
        try:
            await self._look()
        except Exception as error:
            self._failed(error)
        objects, deleted = self._counts or (Counter(), Counter())
        return StoreStatus(
            is_up=self._is_up and not self._error and not self._is_closing,
            error=self._error,
            rows=dict(objects),
            deleted=dict(deleted),
            pending=self.pending,
            commits=self._commits,
            writes=self._writes,
            failures=self._failures,
            last_commit=self._last_commit,
            last_group=self._last_group,
            latency=self._latency,
            max_latency=self._max_latency,
            foreign_changes=0 if self._feed is None else self._feed.foreign,
            gaps=0 if self._feed is None else self._feed.gaps,
        )

    async def close(self) -> None:
        """Finish what waits, then let go of the database; twice does no harm."""
        if self._is_closing:
            return
        self._is_closing = True
        self._wake.set()
        try:
            await self._task
            if self._lease is not None:
                await self._lease.end()
        finally:
            if self._listener is not None:
                await self._listener.close()
            await self.database.close()


def _refusal(writes: Sequence[Write], code: BlazeCode, reason: str) -> Committed:
    return Committed(outcomes=[Outcome(False, code, reason=reason) for _ in writes])


def _said(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
