"""Subscriptions of a client: bounded queues, acknowledged as they are read, over connections.

`Feed` is what the client holds, `Subscription` what its user holds: when nobody holds the second
one any more, the first one is stopped.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from wireloom.formats.blaze.body import apply_delta
from wireloom.formats.blaze.classes import ModelObject
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    Encoding,
    EventType,
    FlowType,
    SubscriptionMode,
    SubscriptionType,
)
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session import ObjectReceived, Stamp
from wireloom.formats.blaze.session.behaviour import Behaviour
from wireloom.services.blaze.errors import SubscriptionRefused, SubscriptionStopped
from wireloom.services.blaze.events import Event, Reader

if TYPE_CHECKING:
    from wireloom.services.blaze.connection import Connection

__all__ = ["Feed", "Subscription", "Wanted"]

T = TypeVar("T", bound=ModelObject)

MAX_SEEN = 500_000
"""Objects of an unordered download (2017, 2019) that are remembered, in case it is interrupted and
begins anew; of a larger one, the others may come twice then. About 50 MB."""

_STAMP = struct.Struct(">2I")

_TURN = 64
"""Events that are taken in a row before others get their turn in the event loop."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is subscribed to, and how."""

    kind: SubscriptionType
    mode: SubscriptionMode
    flow: FlowType
    encoding: Encoding
    since: Stamp | None
    queue: int
    """Events that may wait to be taken."""


_DOWNLOADED = EventType.DATADWNL


def _is_reset(event: Event[Any]) -> bool:
    """Whether no object of the class is left; the dialects have two names for it."""
    return getattr(event.action, "name", "") in ("RST", "RESET")


class _Marker(Event[Any]):
    """Something in the queue that only the cursor sees: a download begins (kind None), or ends."""

    __slots__ = ()


class _Cursor:
    """Where a subscription could be resumed: what is not newer than `position` has been there.

    Servers that do not sort what they download leave it where it was until the download has ended.
    """

    __slots__ = ("is_downloading", "is_ordered", "newest", "position")

    def __init__(self, position: Stamp, is_ordered: bool) -> None:
        self.position = self.newest = position
        self.is_ordered = is_ordered
        self.is_downloading = True

    def note(self, event: Event[Any]) -> None:
        kind = event.kind
        if kind is None:
            if isinstance(event, _Marker):
                self.is_downloading = True
            return
        if kind is not _DOWNLOADED:
            self.is_downloading = False
        if event.stamp > self.newest:
            self.newest = event.stamp
        if self.is_ordered or not self.is_downloading:
            self.position = self.newest

    def copy(self) -> _Cursor:
        made = _Cursor(self.position, self.is_ordered)
        made.newest, made.is_downloading = self.newest, self.is_downloading
        return made


class Feed:
    """A subscription, over as many connections as it takes."""

    def __init__(
        self,
        wanted: Wanted,
        reader: Reader,
        behaviour: Behaviour,
        on_end: Callable[[Feed], None],
    ) -> None:
        self.wanted = wanted
        self.reader = reader
        self.cursor = _Cursor(wanted.since or (0, 0), behaviour.is_ordered)
        self.has_started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_partial = False
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._behaviour = behaviour
        self._on_end = on_end
        self._queue: deque[Event[Any]] = deque()
        self._orphans = 0  # of the queue's first ones, whose connection is gone
        self._waiter: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._rqstid = 0
        self._is_held = False
        self._has_download_end = False
        self._is_resumed = False
        self._error: Exception | None = None
        self._seen: set[bytes] = set()
        """Digests of what an unordered download has brought, at most `MAX_SEEN`."""
        self._images: dict[Hashable, NClassValue] = {}
        self._merges = wanted.encoding is Encoding.INDEXDELTA

    # -- connections

    def attach(self, connection: Connection) -> None:
        """Ask for what is missing, on a new connection."""
        wanted = self.wanted
        position = self._received_until()
        mode: SubscriptionMode = wanted.mode
        if position > (0, 0) and mode is SubscriptionMode.LIVE:
            mode = SubscriptionMode.ALL  # what has changed in the meantime, then what changes
        since = position if position > (0, 0) or wanted.since is not None else None
        if mode is SubscriptionMode.LIVE:
            since = None
        self._connection = connection
        self._rqstid = connection.session.subscribe(
            self.reader.nclsid,
            self._loop.time(),
            kind=wanted.kind,
            mode=mode,
            flow=wanted.flow,
            encoding=wanted.encoding,
            since=since,
        )
        connection.feeds[self._rqstid] = self
        connection.wake()

    def detach(self) -> None:
        """The connection is gone; what came over it is still to be taken."""
        self._connection = None
        self._is_held = False
        self._orphans = len(self._queue)
        self._is_resumed = self._is_resumed or self.has_started.done()
        if self.wanted.mode is SubscriptionMode.PAST and self._has_download_end:
            self.finish(None)  # only STOP was missing

    @property
    def is_busy(self) -> bool:
        """Whether its connection is reading at this moment, and must not be disturbed."""
        return self._connection is not None and self._connection.is_busy

    def _received_until(self) -> Stamp:
        cursor = self.cursor.copy()
        for event in self._queue:
            cursor.note(event)
        return cursor.position

    def started(self, is_partial: bool) -> None:
        """The server grants it."""
        self.is_partial = is_partial
        if not self.has_started.done():
            self.has_started.set_result(None)
        if self._is_resumed:
            self._put(_Marker(None))
            # Nothing is stored, or there is nothing to tell from which moment on it was missed.
            is_blind = self.wanted.mode is SubscriptionMode.LIVE and not any(self._received_until())
            if is_partial or is_blind:
                self._put(Event(None))

    def refused(self, code: IntEnum | int, is_local: bool) -> None:
        """The server does not grant it."""
        self.finish(SubscriptionRefused(code, is_local=is_local))

    def stopped(self, code: IntEnum | int) -> None:
        """The server has ended it."""
        is_fine = code == BlazeCode.NO_ERROR
        self.finish(None if is_fine else SubscriptionStopped(code))

    def finish(self, error: Exception | None) -> None:
        """Nothing more will come: whoever reads gets what is in the queue, and then the error."""
        if self.is_over:
            return
        self.is_over = True
        self._error = error
        if not self.has_started.done():
            if error is None:
                self.has_started.set_result(None)
            else:
                self.has_started.set_exception(error)
                self.has_started.exception()  # looked at: the reader gets it, too
        self._on_end(self)
        self._notify()

    def stop(self) -> None:
        """The reader wants no more."""
        self._queue.clear()
        self._orphans = 0
        connection = self._connection
        if connection is not None:
            connection.hold(self, False)
            if not self.is_over:
                connection.forget(self._rqstid)
        self._connection = None
        self.finish(None)

    # -- in

    def received(self, objects: Iterable[ObjectReceived]) -> None:
        """Objects have come."""
        reader = self.reader
        made: list[Event[Any]] = [
            Event(each.kind, each.action, each.stamp, each.body, each.sevtid, reader)
            for each in objects
        ]
        if not self._behaviour.is_ordered:
            new = []
            for event in made:
                if self._is_repeated(event):
                    self._acknowledge((event.sevtid,))
                else:
                    new.append(event)
            made = new
        self._put(*made)

    def _is_repeated(self, event: Event[Any]) -> bool:
        """Whether a download that had to begin anew has brought this already."""
        if event.kind is not EventType.DATADWNL or _is_reset(event):
            self._seen.clear()
            return False
        known = blake2b(_STAMP.pack(*event.stamp) + event.body, digest_size=16).digest()
        if known in self._seen:
            return True
        if len(self._seen) < MAX_SEEN:
            self._seen.add(known)
        return False

    def download_ended(self, sevtid: int) -> None:
        """All that was stored has come."""
        self._seen.clear()
        # When it comes once more, after a connection was lost, it is no news.
        is_news = not self._has_download_end and self.wanted.mode is not SubscriptionMode.LIVE
        self._has_download_end = True
        self._put((Event if is_news else _Marker)(EventType.DWNLEND, sevtid=sevtid))
        if self.wanted.mode is SubscriptionMode.PAST and not self._behaviour.has_stop:
            connection = self._connection
            if connection is not None:
                connection.forget(self._rqstid)
            self._connection = None
            self.finish(None)

    def _put(self, *events: Event[Any]) -> None:
        self._queue.extend(events)
        if len(self._queue) >= self.wanted.queue and not self._is_held:
            self._is_held = True
            if self._connection is not None:
                self._connection.hold(self, True)
        self._notify()

    def _notify(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    # -- out

    def take_some(self, limit: int) -> list[Event[Any]]:
        """Up to `limit` events that wait, which are acknowledged hereby."""
        events: list[Event[Any]] = []
        if self._orphans or self._merges:
            while len(events) < limit and (event := self.take()) is not None:
                events.append(event)
            return events
        queue, note = self._queue, self.cursor.note
        taken = [queue.popleft() for _ in range(min(limit, len(queue)))]
        for event in taken:
            note(event)
            if type(event) is not _Marker:
                events.append(event)
        self._acknowledge([event.sevtid for event in taken if event.kind is not None])
        self._let_go()
        return events

    def take(self) -> Event[Any] | None:
        """The next event, which is acknowledged hereby; None when none waits."""
        while self._queue:
            event = self._queue.popleft()
            self.cursor.note(event)
            if self._orphans:
                self._orphans -= 1
            elif event.kind is not None:
                self._acknowledge((event.sevtid,))
            self._let_go()
            if self._merges and event.body:
                self._merge(event)
            if type(event) is not _Marker:
                return event
        return None

    def _let_go(self) -> None:
        """Read on, if there is room again."""
        if self._is_held and len(self._queue) <= self.wanted.queue // 2:
            self._is_held = False
            if self._connection is not None:
                self._connection.hold(self, False)

    def _acknowledge(self, sevtids: Sequence[int]) -> None:
        connection = self._connection
        if connection is None or not sevtids or not self._behaviour.has_acks or self.is_over:
            return
        connection.session.acknowledge(self._rqstid, sevtids, connection.time())
        connection.wake()

    def _merge(self, event: Event[Any]) -> None:
        """Keep the images that deltas change, and put what has changed into them."""
        is_delta = event.action == Action.DLT
        encoding = Encoding.INDEXDELTA if is_delta else Encoding.INDEXNOTZERO
        value = self.reader.value(event.body, encoding)
        key = value.key()
        if _is_reset(event):
            self._images.clear()
        elif event.action == Action.DEL:
            self._images.pop(key, None)
        elif not is_delta:
            self._images[key] = value
        else:
            base = self._images.get(key)
            whole = None if base is None else apply_delta(base, value)
            if whole is not None:
                self._images[key] = whole
            event.merge(value, whole)
            return
        event.merge(None, value)

    async def wait(self) -> bool:
        """Wait until an event is there; False when none will come.

        Raises:
            WireloomError: what the subscription has ended with.
        """
        while not self._queue:
            if self.is_over:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return False
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True


class Subscription(Generic[T]):
    """The events of a subscription, one after the other, over as many connections as it takes.

    An event is acknowledged when it is taken: a server that waits for that sends no more than its
    window allows to a reader that is slow. It starts with the first event that is awaited, or with
    ``async with``, which also says whether it is granted. Read it in one task only.
    """

    def __init__(self, make: Callable[[], Feed], position: Stamp | None) -> None:
        self._make = make
        self._position = position or (0, 0)
        self._feed: Feed | None = None
        self._turn = 0
        self._loop = asyncio.get_running_loop()

    @property
    def position(self) -> Stamp:
        """Up to where the events have been taken: `resume` with it, and nothing is lost.

        Servers that do not sort what they download (2017, 2019) leave it where it was until the
        download has ended.
        """
        return self._position if self._feed is None else self._feed.cursor.position

    @property
    def is_partial(self) -> bool:
        """Nothing is stored of this class: what changes while there is no connection is lost."""
        return self._feed is not None and self._feed.is_partial

    def _begun(self) -> Feed:
        if self._feed is None:
            self._feed = self._make()
        return self._feed

    async def start(self) -> Self:
        """Wait until the server has granted it.

        Raises:
            SubscriptionRefused: it does not.
            ConnectionClosed: there is no connection any more.
        """
        await asyncio.shield(self._begun().has_started)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[T]:
        """The next event.

        Raises:
            StopAsyncIteration: there are no more: what is stored was asked for and has come, or
                the client was closed.
            SubscriptionRefused: the server does not grant it.
            SubscriptionStopped: the server has ended it.
            ConnectionClosed: the connection is lost for good.
        """
        feed = self._begun()
        self._turn += 1
        if self._turn >= _TURN:
            self._turn = 0
            await asyncio.sleep(0)
        while (event := feed.take()) is None:
            self._turn = 0
            if not await feed.wait():
                raise StopAsyncIteration
        return event

    async def batch(self, limit: int = 256) -> list[Event[T]]:
        """The events that wait, at least one; none when there are no more.

        Raises:
            SubscriptionRefused: the server does not grant it.
            SubscriptionStopped: the server has ended it.
            ConnectionClosed: the connection is lost for good.
        """
        feed = self._begun()
        events: list[Event[T]] = []
        while not events and await feed.wait():
            events = feed.take_some(limit)
        return events

    async def placed(self, limit: int) -> list[tuple[Event[T], Stamp]]:
        """Like `batch`, each event with the `position` behind it."""
        feed = self._begun()
        events: list[tuple[Event[T], Stamp]] = []
        while not events and await feed.wait():
            while len(events) < limit and (event := feed.take()) is not None:
                events.append((event, feed.cursor.position))
        return events

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it: SBSTOP is sent, and what waits is dropped."""
        if self._feed is not None:
            self._feed.stop()

    def __del__(self) -> None:
        # A loop that was left with `break` has nobody who could close it.
        feed = getattr(self, "_feed", None)
        if feed is None or feed.is_over or self._loop.is_closed():
            return
        if asyncio._get_running_loop() is self._loop and not feed.is_busy:
            feed.stop()  # at once: the class may be subscribed to again in the next line
        else:
            self._loop.call_soon_threadsafe(feed.stop)
