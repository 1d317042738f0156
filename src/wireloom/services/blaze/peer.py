"""One client's connection: bytes ↔ session ↔ hooks and store.

No task runs for an idle connection, and none for a message without hooks. Writes are gathered: what
a turn of the event loop makes for a connection is one write. What waits for a socket that takes no
more stays in the session, which bounds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from wireloom.errors import StoreError
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    DisconnectReason,
    Encoding,
    RefusalCode,
)
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import (
    Connected,
    ConnectionRequested,
    DownloadWanted,
    RequestRejected,
    SessionClosed,
    SessionEvent,
    SubscriptionEnded,
    SubscriptionRequested,
    TransactionAborted,
    TransactionRequested,
)
from wireloom.formats.blaze.session.server import ServerSession
from wireloom.formats.blaze.session.states import ServerState, Service
from wireloom.formats.blaze.session.subscriptions import Batch, Change
from wireloom.services._shell.buckets import TokenBucket
from wireloom.services._shell.connections import Peer
from wireloom.services._shell.logs import get_log
from wireloom.services.blaze.hooks import Caller, Done, Intent, Refused, Transaction, call
from wireloom.services.blaze.store.api import Outcome, StoredChange, Write

if TYPE_CHECKING:
    from wireloom.services.blaze.broker import Broker

__all__ = ["BlazePeer"]

log = get_log("blaze")

LINGER_S = 2.0
"""For a client to read the last words and close: closing while it still sends would reset the
connection, and with it what it has not read."""

_TIMER_SLACK_S = 0.005
"""A timer that is this much late is not set anew."""


_LOGGED_REJECTIONS = 32
"""Requests of a connection whose flaws are in the log: more say nothing new, and may be a flood."""

_action_of = attrgetter("action")
_end_of = attrgetter("is_ok", "code")


@dataclass(slots=True)
class _Pending:
    """A transaction on its way through the hooks, or behind one that is."""

    request: TransactionRequested
    started: float
    write: Write | None
    is_ready: bool = False
    is_dead: bool = False
    code: BlazeCode = BlazeCode.NO_ERROR
    result: NClassValue | None = None
    task: asyncio.Task[None] | None = None


class BlazePeer(Peer):
    """One client."""

    session: ServerSession

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.hub)
        self.broker = broker
        self.caller = Caller(0, self.remote)
        self._loop = broker.loop
        self._is_waking = False
        self._is_ending = False
        self._is_held = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._stall: asyncio.TimerHandle | None = None
        self._pending: deque[_Pending] = deque()
        rate = broker.settings.transactions.max_per_s
        self._rate = TokenBucket(rate, self._loop.time()) if rate else None
        self._rejections = 0
        self._classes: dict[int, int] = {}
        """Class of each subscription, by SBSRID."""

    # -- the shell's hooks

    def opened(self) -> None:
        """The connection is there."""
        assert self.transport is not None
        now = self._loop.time()
        self.session = ServerSession(
            self.broker.session_settings, now, event_ids=self.broker.fanout.event_ids
        )
        self.caller = Caller(0, self.remote, self.transport.get_extra_info("peercert") or None)
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.broker.sessions[self] = None
        self._arm(now)

    def received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._is_ending:
            return
        now = self._loop.time()
        events = self.session.receive(data, now)
        if events:
            self._react(events, now)
            if self._rate is not None:
                self._slow_down(events, self._rate, now)
        self.wake()

    def _slow_down(self, events: Sequence[SessionEvent], rate: TokenBucket, now: float) -> None:
        """Do not read from a client that sends more transactions than it may."""
        count = sum(type(event) is TransactionRequested for event in events)
        wait = rate.take(count, now) if count else 0.0
        if wait:
            self.broker.metrics.held_reads["rate"] += 1
            self.hold_reading()
            self._loop.call_later(wait, self.resume_reading)

    def eof(self) -> bool:
        """The client sends no more: it is gone."""
        now = self._loop.time()
        self._react(self.session.receive(b"", now), now)
        return False

    def writable(self) -> None:
        """The socket takes bytes again."""
        self.wake()

    def lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        now = self._loop.time()
        self._react(self.session.receive(b"", now), now)
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        self.broker.forget(self)

    def pause_writing(self) -> None:
        """Called by the event loop: read nothing from who does not read."""
        super().pause_writing()
        self.broker.metrics.held_reads["unread answers"] += 1
        self.hold_reading()
        self._watch()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self.resume_reading()
        super().resume_writing()

    def _watch(self) -> None:
        """Cut the client off when it takes nothing for a while."""
        assert self.transport is not None
        size = self.transport.get_write_buffer_size()
        after = self.broker.settings.protocol.stall_s

        def check() -> None:
            if self.transport is None:
                return
            if self.transport.get_write_buffer_size() < size:
                self._watch()
            else:
                self.broker.metrics.slow_consumers["cut off"] += 1
                self.abort("it takes nothing")

        self._stall = self._loop.call_later(after, check)

    # -- what goes out

    def wake(self) -> None:
        """Have `flush` called at the end of this turn of the event loop."""
        if not self._is_waking:
            self._is_waking = True
            self.broker.wake(self)

    def flush(self) -> None:
        """Write what is to be sent, in one piece."""
        self._is_waking = False
        session = self.session
        if session.is_closed:
            self._finish()
            return
        if self.is_writable:
            data = session.data_to_send()
            if data:
                self.write(data)
                if len(data) >= session.settings.high_water:
                    self.wake()  # there may be more, which others should not have to wait for
        if self._classes:
            for wanted in session.downloads_wanted():
                self.broker.run(self._download(wanted), "download")
        self._arm(self._loop.time())

    def _finish(self) -> None:
        """Say the last words, and close when they were read."""
        if self._is_ending:
            return
        self._is_ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.is_open:
            return
        assert self.transport is not None
        self.write(self.session.data_to_send())
        self._timer = self._loop.call_later(LINGER_S, self._let_go)
        if not self.transport.can_write_eof():
            self.close()
        else:
            with contextlib.suppress(OSError):  # it is gone already
                self.transport.write_eof()

    def _let_go(self) -> None:
        self._timer = None
        if self.transport is not None:
            self.transport.abort()

    # -- time

    def _arm(self, now: float) -> None:
        """Have the session's next timer ring; a timer that rings too early is cheap."""
        delay = self.session.next_timeout(now)
        if delay is None or self._is_ending:
            return
        at = now + delay
        if self._timer is not None:
            if at >= self._timer_at - _TIMER_SLACK_S:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._unread:  # what it says is not read: its silence is ours
            self.session.excuse(now)
        self._react(self.session.handle_timeout(now), now)
        self.wake()

    # -- what comes in

    def _react(self, events: Sequence[SessionEvent], now: float) -> None:
        for kind, some in groupby(events, type):
            if kind is TransactionRequested:
                self._transact(list(some), now)  # type: ignore[arg-type]
            else:
                for event in some:
                    self._others[kind](self, event, now)
        if (
            not self._is_held
            and self.session.flying > self.broker.settings.transactions.held_flying
        ):
            self._is_held = True
            self.broker.metrics.held_reads["flying"] += 1
            self.hold_reading()
        if self.broker.store.pending * 2 > self.broker.store.settings.max_pending:
            self.broker.hold(self)

    def _connection_requested(self, event: ConnectionRequested, now: float) -> None:
        if self.session.is_closed:  # by what came behind the request, in the same segment
            return
        refusal = self.broker.refusal(self)
        if refusal is not None:
            self._react(self.session.refuse(refusal, now), now)
        else:
            self.broker.run(self._admit(), "admit")

    async def _admit(self) -> None:
        broker, session = self.broker, self.session
        verdict, connid = True, 0
        try:
            if broker.hooks.connect is not None:
                verdict = await call(broker.threads, broker.hooks.connect, self.caller) is not False
            if verdict:
                connid = await broker.store.next_connid()
        except StoreError as error:
            log.error("no_connid", peer=str(self.remote), error=str(error))
        except Exception as error:
            broker.failed_hook("connection", error)
        now = self._loop.time()
        if session.state is not ServerState.DECIDING:
            return  # it did not wait
        if not verdict:
            events = session.veto(now)
        elif connid:
            self.caller = Caller(connid, self.caller.remote, self.caller.certificate)
            events = session.accept(connid, now)
        else:
            events = session.refuse(RefusalCode.SERVER_ERROR, now)
        self._react(events, now)
        self.wake()

    def _connected(self, event: Connected, now: float) -> None:
        log.info("connected", peer=str(self.remote), connid=event.connid, heartbeat=event.heartbeat)

    def _rejected(self, event: RequestRejected, now: float) -> None:
        self._rejections += 1
        if self._rejections <= _LOGGED_REJECTIONS:
            log.info(
                "rejected",
                connid=self.session.connid,
                packet=event.packet,
                id=event.id,
                code=event.code.name,
                detail=event.reason,
            )

    def _closed(self, event: SessionClosed, now: float) -> None:
        reason = getattr(event.reason, "name", event.reason)
        log.info(
            "closed",
            peer=str(self.remote),
            connid=self.session.connid,
            by=event.by,
            reason=reason,
            detail=event.detail,
        )
        self.broker.leave(self)
        self.wake()

    # -- transactions

    def _transact(self, requests: Sequence[TransactionRequested], now: float) -> None:
        broker = self.broker
        not_zero = Encoding.INDEXNOTZERO if broker.has_stored_index else None
        writes = [
            Write(
                request.action,
                request.nclass,  # type: ignore[arg-type]  # there is a model
                request.txid,
                request.body if request.is_canonical and request.encoding is not_zero else None,
            )
            for request in requests
        ]
        if not (broker.hooks.may or broker.handlers or self._pending):
            broker.store.submit_all(writes, partial(self._done, now))
            return
        for request, write in zip(requests, writes, strict=True):
            pending = _Pending(request, now, write)
            self._pending.append(pending)
            if broker.hooks.may is not None or request.nclsid in broker.handlers:
                pending.task = broker.run(self._decide(pending), "transaction")
            else:
                pending.is_ready = True
        self._advance()

    async def _decide(self, pending: _Pending) -> None:
        """Ask the application. Whatever it does, the transaction is answered."""
        request, broker = pending.request, self.broker
        value = request.nclass
        assert value is not None
        try:
            may = broker.hooks.may
            if may is not None:
                intent = Intent(request.action.name, value.nclass.name, value)
                code = _code_of(await call(broker.threads, may, self.caller, intent))
                if code is not None:
                    raise Refused(code)
            handler = broker.handlers.get(value.nclass.id)
            if handler is not None:
                given = (self.caller, request.txid, request.action, value, request.wants_result)
                answer = await call(broker.threads, handler, Transaction(*given))
                if isinstance(answer, Done):
                    pending.write, pending.result = None, answer.result
                elif isinstance(answer, NClassValue):
                    pending.write = Write(request.action, answer, request.txid)
                elif answer is not None:
                    raise TypeError(f"a handler gave {type(answer).__name__}")
        except Refused as refused:
            pending.write, pending.code, pending.result = None, refused.code, refused.result
        except Exception as error:
            broker.failed_hook("transaction", error)
            pending.write, pending.code = None, BlazeCode.APPLICATION_ERROR
        pending.is_ready = True
        self._advance()

    def _advance(self) -> None:
        """Transactions go to the store in the order in which they came."""
        while self._pending and self._pending[0].is_ready:
            pending = self._pending.popleft()
            if pending.is_dead:
                continue
            if pending.write is not None:
                done = partial(self._done, pending.started)
                self.broker.store.submit_all((pending.write,), done)
            else:
                is_ok = pending.code is BlazeCode.NO_ERROR
                outcome = Outcome(is_ok, pending.code, result=pending.result)
                self._done(pending.started, (pending.request,), (outcome,))

    def _done(
        self,
        started: float,
        given: Sequence[Write | TransactionRequested],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Transactions have their outcomes; good ones are durable."""
        session, now = self.session, self._loop.time()
        answered = self.broker.metrics.answered
        actions, ends = list(map(_action_of, given)), list(map(_end_of, outcomes))
        if len(set(actions)) == len(set(ends)) == 1:  # nearly always
            counts = {(actions[0], ends[0]): len(ends)}
        else:
            counts = Counter(zip(actions, ends, strict=True))
        for (action, (is_ok, code)), count in counts.items():
            answered(action, "ok" if is_ok else str(int(code)), now - started, count)
        txids = [each.txid for each in given]
        # What the application has given may not fit; it is done, though.
        failed = partial(self.broker.failed_hook, "transaction")
        events = session.respond_all(txids, outcomes, now, failed)  # type: ignore[arg-type]
        if events:
            self._react(events, now)
        if self._is_held and session.flying * 2 < self.broker.settings.transactions.held_flying:
            self._is_held = False
            self.resume_reading()
        self.wake()

    def _aborted(self, event: TransactionAborted, now: float) -> None:
        """Nobody waits for it any more: what has not reached the store does not."""
        for pending in self._pending:
            if pending.request.txid == event.txid:
                self.broker.metrics.answered(
                    pending.request.action, str(int(event.code)), now - pending.started
                )
                pending.is_dead = pending.is_ready = True
                if pending.task is not None:
                    pending.task.cancel()
                break
        self._advance()

    # -- subscriptions

    def _subscription_requested(self, event: SubscriptionRequested, now: float) -> None:
        if self.session.is_closed:  # by what came behind the request, in the same segment
            return
        if self.broker.hooks.may is None:
            self._subscribe(event)
        else:
            self.broker.run(self._authorise(event), "authorise")

    async def _authorise(self, event: SubscriptionRequested) -> None:
        broker = self.broker
        code: BlazeCode | None
        try:
            assert broker.hooks.may is not None
            intent = Intent("SUBSCRIBE", broker.class_name(event.nclsid))
            code = _code_of(await call(broker.threads, broker.hooks.may, self.caller, intent))
        except Exception as error:
            broker.failed_hook("authorise", error)
            code = BlazeCode.APPLICATION_ERROR
        if self.session.is_closed:
            return
        if code is None:
            self._subscribe(event)
        else:
            self.session.refuse_subscription(event.rqstid, code)
        self.wake()

    def _subscribe(self, event: SubscriptionRequested) -> None:
        sbsrid = self.session.start_subscription(
            event.rqstid,
            self._loop.time(),
            is_stored=self.broker.store.is_stored(event.nclsid),
            accepts=self._filter(event.nclsid),
        )
        self._classes[sbsrid] = event.nclsid
        self.broker.fanout.add(event.nclsid, self)

    def _filter(self, nclsid: int) -> Callable[[Change], bool] | None:
        function = self.broker.filters.get(nclsid)
        if function is None:
            return None

        def accepts(change: Change) -> bool:
            if change.action is Action.RST:
                return True  # no object is left, whoever saw which
            value = change.value() if isinstance(change, StoredChange) else change.image
            try:
                return value is not None and bool(function(self.caller, change.action, value))
            except BaseException as error:  # who sees what is unknown, so nobody sees it
                self.broker.failed_hook("events", error)
                return False

        return accepts

    async def _download(self, wanted: DownloadWanted) -> None:
        try:
            found = await self.broker.store.portion(
                wanted.nclsid, wanted.after, wanted.count, wanted.deleted_after
            )
        except StoreError as error:
            log.error("download", nclass=wanted.nclsid, error=str(error))
            self.stop_subscription(wanted.nclsid, BlazeCode.SERVER_ERROR)
            return
        is_last = len(found.rows) < wanted.count
        if self.session.download(
            wanted.sbsrid, found.rows, is_last, last=found.last, forgotten=found.forgotten
        ):
            self.wake()

    def _subscription_ended(self, event: SubscriptionEnded, now: float) -> None:
        nclsid = self._classes.pop(event.id, None)
        # The next subscription to the class may be there before the end of this one is told.
        if nclsid is not None and nclsid not in self._classes.values():
            self.broker.fanout.remove(nclsid, self)

    def fail(self, error: Exception) -> None:
        """Something in here is broken: end this connection, and no other."""
        log.error("connection_failed", connid=self.session.connid, exc_info=error)
        self.abort("internal error")

    def publish(self, batch: Batch) -> None:
        """Objects of a class that the client has subscribed to have changed."""
        session, now = self.session, self._loop.time()
        before = session.counts["overflows"]
        events = session.publish_all(batch, now)
        if session.counts["overflows"] != before:
            overflow = "stop" if events else "conflate"
            self.broker.metrics.slow_consumers[overflow] += 1
            log.warning("slow_consumer", connid=session.connid, action=overflow)
        if events:
            self._react(events, now)
        self.wake()

    def stop_subscription(self, nclsid: int, code: BlazeCode) -> None:
        """End the subscription to a class, if there is one."""
        now = self._loop.time()
        for sbsrid, subscription in list(self.session.subscriptions.items()):
            if subscription.request.nclsid == nclsid and subscription.state is not Service.ENDED:
                self._react(self.session.stop_subscription(sbsrid, code, now), now)
        self.wake()

    # -- the end

    def drain(self) -> None:
        """The broker goes down: what flies may end, nothing new is taken."""
        now = self._loop.time()
        if not self.session.is_closed and self.session.state is not ServerState.DRAINING:
            self._react(self.session.drain(now), now)
            self.wake()

    def end(self) -> None:
        """The broker is gone now."""
        now = self._loop.time()
        events = self.session.disconnect(DisconnectReason.SERVER_IS_GOING_DOWN, now)
        self._react(events, now)
        self._finish()

    _others: ClassVar[dict[type[SessionEvent], Callable[..., None]]] = {
        ConnectionRequested: _connection_requested,
        Connected: _connected,
        RequestRejected: _rejected,
        SessionClosed: _closed,
        TransactionAborted: _aborted,
        SubscriptionRequested: _subscription_requested,
        SubscriptionEnded: _subscription_ended,
    }


def _code_of(verdict: object) -> BlazeCode | None:
    """Why something is refused; None: it is not."""
    if verdict is False:
        return BlazeCode.UNAUTHORIZED
    if verdict is None or verdict is True:
        return None
    return BlazeCode(verdict)  # type: ignore[arg-type]  # one that is none raises
