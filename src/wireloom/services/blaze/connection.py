"""One TCP connection of a client: bytes in → the session → whom it concerns; bytes out together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, cast

from wireloom.errors import ConnectionClosed, StateError
from wireloom.formats.blaze.codes import BlazeCode
from wireloom.formats.blaze.session import (
    ClientSession,
    ClientState,
    Connected,
    DownloadEnded,
    ObjectReceived,
    SessionClosed,
    SessionEvent,
    SubscriptionEnded,
    SubscriptionStarted,
    TransactionFinished,
    TransactionsFinished,
    TxId,
)
from wireloom.formats.blaze.session import ConnectionRefused as RefusedEvent
from wireloom.formats.blaze.session import SubscriptionRefused as SubscriptionRefusedEvent
from wireloom.services.blaze.errors import ConnectionRefused, code_text

if TYPE_CHECKING:
    from wireloom.services.blaze.subscription import Feed

__all__ = ["Connection", "Flight"]


class Flight(Protocol):
    """Waits for transactions."""

    def landed(self, finished: TransactionFinished) -> None:
        """One has ended."""

    def landed_alike(self, finished: TransactionsFinished, numbers: Sequence[int]) -> None:
        """Some have ended alike; the last parts of their ids are among those of `finished`."""


_rqstid_of = attrgetter("rqstid")

_HIGH_WATER = 1 << 20
"""Bytes that wait to be sent from which on no further transaction is written."""


class Connection(asyncio.Protocol):
    """Drives a session; the client is told when it is agreed, has room, and is over.

    Args:
        session: the protocol.
        on_connected: called when the connection is agreed.
        on_over: called when the session is over.
        on_room: called when there may be room for another transaction.
    """

    def __init__(
        self,
        session: ClientSession,
        on_connected: Callable[[Connection], None],
        on_over: Callable[[Connection], None],
        on_room: Callable[[], None],
    ) -> None:
        self.session = session
        self.flights: dict[int, Flight] = {}
        """Whom to tell how a transaction ended, by the last part of its id."""
        self.feeds: dict[int, Feed] = {}
        """Subscriptions by RQSTID."""
        self.ending: SessionClosed | None = None
        """Why it ended, as the session has said."""
        self.error: Exception | None = None
        """Why the transport has failed."""
        self.is_busy = False
        """Whether the session is at work, and must not be called by what a destructor does."""
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        """The clock of its session."""
        self.agreed: asyncio.Future[Connected] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._on_connected = on_connected
        self._on_over = on_over
        self._on_room = on_room
        self._transport: asyncio.Transport | None = None
        self._can_write = True
        self._is_flushing = False
        self._holding: set[Feed] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._received = 0
        self._sent = 0

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP, and TLS, are there: say CONREQ."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_HIGH_WATER)
        self.session.connect(self._loop.time())
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Bytes from the server."""
        self._received += len(data)
        self.is_busy = True
        events = self.session.receive(data, self._loop.time())
        self.is_busy = False
        self.dispatch(events)

    def connection_lost(self, exc: Exception | None) -> None:
        """There is no connection any more."""
        self.error = exc
        self._dispatch(self.session.receive(b"", self._loop.time()))
        self._on_over(self)
        # A session that was closed at once does not tell what becomes of these.
        for number, flight in list(self.flights.items()):
            txid = self.session.txid(number)
            lost = TransactionFinished(txid, False, BlazeCode.TRANSACTION_LOST, is_local=True)
            flight.landed(lost)
        self.flights.clear()
        if self._timer is not None:
            self._timer.cancel()
        if not self.agreed.done():
            self.agreed.set_exception(self.reason())
            self.agreed.exception()  # looked at: nobody may be waiting for it
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Too much waits to be sent."""
        self._can_write = False

    def resume_writing(self) -> None:
        """There is room again."""
        self._can_write = True
        self._on_room()

    # -- out

    @property
    def room(self) -> int:
        """How many transactions may be sent now."""
        session = self.session
        if not self._can_write or session.state is not ClientState.CONNECTED:
            return 0
        return session.settings.max_flying - session.flying

    def wake(self) -> None:
        """Have what the session wants to send sent, with whatever else comes up until then."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what there is to send, and set the clock."""
        self._is_flushing = False
        transport, session = self._transport, self.session
        if transport is None or transport.is_closing():
            return
        data = session.data_to_send()
        if data:
            self._sent += len(data)
            transport.write(data)
        if session.is_closed:
            transport.close()
        else:
            self._set_clock()

    def _set_clock(self) -> None:
        now = self._loop.time()
        delay = self.session.next_timeout(now)
        if delay is None:
            return
        # A timer that rings too early costs less than one that is set anew at every packet.
        if self._timer is None or now + delay < self._timer_at - 1e-3:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = now + delay
            self._timer = self._loop.call_at(self._timer_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.is_busy = True
        events = self.session.handle_timeout(self._loop.time())
        self.is_busy = False
        self.dispatch(events)

    def abort(self) -> None:
        """End it without a word."""
        if self._transport is not None:
            self._transport.abort()

    # -- in

    def dispatch(self, events: list[SessionEvent]) -> None:
        """Tell everybody whom these events concern, and send what the session wants to send."""
        self._dispatch(events)
        if not self._is_flushing:
            self.flush()

    def _dispatch(self, events: list[SessionEvent]) -> None:
        flights = self.flights
        has_room = False
        for kind, some in groupby(events, type):
            if kind is ObjectReceived:
                for rqstid, objects in groupby(some, _rqstid_of):
                    feed = self.feeds.get(rqstid)
                    if feed is not None:
                        feed.received(objects)  # type: ignore[arg-type]
            elif kind is TransactionsFinished:
                for run in some:
                    self._landed_alike(run)  # type: ignore[arg-type]
                has_room = True
            elif kind is TransactionFinished:
                for event in some:
                    flight = flights.pop(event.txid[3], None)  # type: ignore[attr-defined]
                    if flight is not None:
                        flight.landed(event)  # type: ignore[arg-type]
                has_room = True
            else:
                for event in some:
                    self._rare(event)
        if has_room:
            self._on_room()

    def _landed_alike(self, finished: TransactionsFinished) -> None:
        numbers, at = finished.numbers, 0
        owners = map(self.flights.pop, numbers, repeat(None))
        for flight, some in groupby(owners):
            start, at = at, at + sum(1 for _ in some)
            if flight is not None:
                flight.landed_alike(finished, numbers[start:at])

    def _rare(self, event: SessionEvent) -> None:
        match event:
            case Connected():
                self.agreed.set_result(event)
                self._on_connected(self)
            case RefusedEvent():
                self.agreed.set_exception(ConnectionRefused(event.code))
            case SessionClosed():
                self.ending = event
                self._on_over(self)
            case DownloadEnded():
                if event.rqstid in self.feeds:
                    self.feeds[event.rqstid].download_ended(event.sevtid)
            case SubscriptionStarted():
                if event.rqstid in self.feeds:
                    self.feeds[event.rqstid].started(event.is_partial)
            case SubscriptionRefusedEvent():
                feed = self.feeds.pop(event.rqstid, None)
                if feed is not None and not self.session.is_closed:
                    feed.refused(event.code, event.is_local)
            case SubscriptionEnded():
                feed = self.feeds.pop(event.id, None)
                if feed is not None and event.cause == "server":
                    feed.stopped(event.code)

    # -- subscriptions

    def hold(self, feed: Feed, is_held: bool) -> None:
        """Read no further while a subscription's queue is full; TCP tells the server."""
        was = bool(self._holding)
        (self._holding.add if is_held else self._holding.discard)(feed)
        is_now = bool(self._holding)
        transport = self._transport
        if was != is_now and transport is not None and not transport.is_closing():
            self.session.is_held = is_now
            transport.pause_reading() if is_now else transport.resume_reading()

    def forget(self, rqstid: int) -> None:
        """Stop a subscription; what still comes of it is dropped."""
        feed = self.feeds.pop(rqstid, None)
        if feed is not None:
            self.hold(feed, False)
        try:
            self.session.unsubscribe(rqstid, self._loop.time())
        except StateError:  # it has ended by itself
            return
        self.wake()

    def cancel(self, txid: TxId) -> None:
        """Wait no longer for a transaction; an answer that comes is dropped."""
        if self.flights.pop(txid[3], None) is not None:
            self.dispatch(self.session.cancel(txid, self._loop.time()))

    def reason(self) -> ConnectionClosed:
        """Why it is over."""
        told = "the connection is lost"
        if not self.session.connid:
            told += " before an answer came; a broker with TLS does that to who comes without it,"
            told += " or without a certificate that it wants"
        ending = self.ending
        if ending is not None and ending.reason is not None:
            who = "the server has disconnected" if ending.by == "peer" else "disconnected"
            told = f"{who}: {code_text(ending.reason)}"
        if ending is not None and ending.detail and ending.by != "lost":
            told = f"{told}: {ending.detail}" if ending.reason is not None else ending.detail
        if self.error is not None:
            told = f"{told}: {self.error}"
        return ConnectionClosed(told, sent=self._sent, received=self._received)
