"""A client's connection without its purpose: the handshake, the timers, the end (SPEC §8)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from operator import itemgetter
from typing import Any, ClassVar, Literal

from wireloom.errors import StateError
from wireloom.formats.blaze.codes import BlazeCode, DisconnectReason, Encoding
from wireloom.formats.blaze.dialects import DOCUMENT
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.packets import (
    BlazePacket,
    ConnectionRequest,
    Disconnected,
    Heartbeat,
    TestRequest,
)
from wireloom.formats.blaze.session.base import BlazeSession
from wireloom.formats.blaze.session.events import (
    SessionClosed,
    SessionEvent,
    Stamp,
    SubscriptionEnded,
    SubscriptionRefused,
    TransactionFinished,
    TxId,
)
from wireloom.formats.blaze.session.states import (
    CLIENT,
    CLIENT_SUBSCRIPTION,
    Act,
    ClientState,
    Feed,
)
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["HEARTBEAT_SHARE", "OPEN", "ClientBase", "ClientSettings", "FeedState"]

HEARTBEAT_SHARE = 0.6
"""Share of the agreed interval after which a heartbeat breaks this side's silence (SPEC §8.2)."""

OPEN = (ClientState.CONNECTED, ClientState.DISCONNECTING)
"""States in which there is a connection."""
_REASONS = {
    Act.VIOLATION: DisconnectReason.UNSPECIFIED_REASON,
    Act.INACTIVITY: DisconnectReason.PEER_INACTIVITY,
    Act.CLOSE: DisconnectReason.APPLICATION_REQUEST,
    Act.DONE: DisconnectReason.APPLICATION_REQUEST,
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client wants and how long it waits; times are in seconds."""

    dialect: str = DOCUMENT
    model: Model | None = None
    """If given, objects are decoded."""
    limits: Limits = DEFAULT_LIMITS
    heartbeat: int = 30
    """Proposed heartbeat interval, 0..255; 0: no duty."""
    connect_timeout: float = 10.0
    """How long to wait for CONRES."""
    request_timeout: float = 30.0
    """How long to wait for answers to transactions, subscriptions and stops."""
    test_after: float = 0.0
    """Silence of the server after which it is asked for a heartbeat; 0: never."""
    test_timeout: float = 5.0
    """How long to wait for that heartbeat."""
    disconnect_timeout: float = 10.0
    """How long to wait for pending transactions before leaving."""
    max_flying: int = 1024
    """Most transactions without an answer."""
    platform: int = 1
    """TXPLID of the transactions."""
    service: int = 1
    """TXSVID of the transactions."""
    is_auto_ack: bool = True
    """Whether events are acknowledged when they arrive, or by `acknowledge`."""
    has_cumulative_acks: bool = False
    """Whether the server treats an acknowledgement as cumulative: then one is sent for all events
    handled in the meantime."""
    gathers_answers: bool = False
    """Whether answers without results that say the same are told of together, by a
    `TransactionsFinished` instead of a `TransactionFinished` each."""
    clock_offset: float = 0.0
    """Unix time minus `now`, for the stamps of heartbeats."""


@dataclass(slots=True)
class FeedState:
    """A subscription."""

    nclsid: int
    encoding: Encoding
    position: Stamp
    newest: Stamp
    state: Feed = Feed.REQUESTED
    sbsrid: int = 0
    is_downloading: bool = True
    unacked: dict[int, None] = field(default_factory=dict)
    """Ids of events that wait to be acknowledged by the owner, in their order."""


class ClientBase(BlazeSession):
    """What transactions and subscriptions of a client rely on."""

    transitions: ClassVar = CLIENT

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self.settings = given = settings or ClientSettings()
        super().__init__(given.dialect, given.model, given.limits, given.clock_offset)
        self.is_held = False
        """Whether the owner has stopped reading, so that the server's silence does not count."""
        self._flying: dict[int, float] = {}
        """Transactions without an answer, by the last part of their ids, which is all that differs;
        and until when it is waited for."""
        self._feeds: dict[int, FeedState] = {}
        self._stops: deque[int] = deque()
        """RQSTIDs whose SBSTOP has not been answered, oldest first."""
        self._test_sent = False
        self._heard_at = self._sent_at = -1.0
        self._test_after = given.test_after if self.behaviour.has_heartbeat else 0.0
        self._deadlines: dict[tuple[str, Any], float] = {}
        self._rings_at = inf

    # -- connection (SPEC §8.1)

    def connect(self, now: float) -> None:
        """Send CONREQ.

        Raises:
            StateError: it was sent before.
        """
        self._move(Act.CONNECT)
        self._timers.set(Act.CONNECT, now + self.settings.connect_timeout)
        self._put(ConnectionRequest(hbtsec=self.settings.heartbeat), now)

    def disconnect(self, now: float) -> list[SessionEvent]:
        """Leave with DSCOND 7 once all pending transactions have ended.

        Raises:
            StateError: there is no connection.
        """
        self._move(Act.DISCONNECT)
        self._timers.set(Act.DISCONNECT, now + self.settings.disconnect_timeout)
        return self._done(now)

    def _done(self, now: float) -> list[SessionEvent]:
        if self.state is ClientState.DISCONNECTING and not self._flying:
            return self._end(Act.DONE, now)
        return []

    def close(self) -> None:
        """Send DSCOND 7 and end. What was pending is not reported: see `disconnect`."""
        if not self.is_closed:
            self._end(Act.CLOSE, 0.0)

    def _end(
        self,
        act: Act,
        now: float,
        *,
        detail: str = "",
        reason: IntEnum | int | None = None,
    ) -> list[SessionEvent]:
        events: list[SessionEvent] = []
        for number in self._flying:
            code = BlazeCode.TRANSACTION_LOST
            events.append(TransactionFinished(self.txid(number), False, code, is_local=True))
        self._flying.clear()
        for rqstid, feed in self._feeds.items():
            was = feed.state
            feed.state = CLIENT_SUBSCRIPTION.after(was, Act.LOST)
            if was is Feed.REQUESTED:
                lost = BlazeCode.UNKNOWN_ERROR
                events.append(SubscriptionRefused(rqstid, lost, is_local=True))
            elif was is not Feed.CANCELLED:
                cause: Literal["client", "lost"] = "client" if was is Feed.STOPPING else "lost"
                events.append(SubscriptionEnded(rqstid, cause))
        self._feeds.clear()
        is_ours = act in _REASONS
        if is_ours and self.state in OPEN:
            # Without a CONNID the client's form cannot be written, and there is no session to end.
            reason = _REASONS[act] if reason is None else reason
            self._write(Disconnected(disres=reason, connid=self.connid))
        self._move(act)
        by: Literal["peer", "us", "lost"] = (
            "lost" if act is Act.LOST else "peer" if act in (Act.DSCOND, Act.REFUSED) else "us"
        )
        return [*events, SessionClosed(reason, by, detail)]

    def _violation(self, detail: str, now: float) -> list[SessionEvent]:
        self.counts["violations"] += 1
        return self._end(Act.VIOLATION, now, detail=detail)

    # -- time (SPEC §8.2)

    def _put(self, packet: BlazePacket, now: float) -> None:
        """Write a packet; the heartbeat interval starts anew."""
        self._write(packet)
        self._has_sent(now)

    def _has_sent(self, now: float) -> None:
        if self.heartbeat and now != self._sent_at and self._state in OPEN:
            self._sent_at = now
            self._timers.set(Act.ACCEPT, now + HEARTBEAT_SHARE * self.heartbeat)

    def test(self, now: float) -> None:
        """Ask the server for a heartbeat; if none comes in time, the connection ends.

        Raises:
            StateError: there is no connection.
        """
        self._must_be_open()
        self._put(TestRequest(tmstmp=self._tmstmp(now), connid=self.connid), now)
        if self.behaviour.has_heartbeat:
            self._test_sent = True
            self._timers.set(Act.INACTIVITY, now + self.settings.test_timeout)

    def _alive(self, now: float) -> None:
        if (self._test_after and now != self._heard_at) or self._test_sent:
            self._test_sent = False
            self._timers.cancel(Act.INACTIVITY)
            if self._test_after and self._state in OPEN:
                self._heard_at = now
                self._timers.set(Act.INACTIVITY, now + self._test_after)

    def _timed_out(self, name: Act, now: float) -> list[SessionEvent]:
        if name is Act.CONNECT:
            return self._end(Act.TIMEOUT, now, detail="no answer to the connection request")
        if name is Act.DISCONNECT:
            return self._end(Act.DONE, now)
        if name is Act.INACTIVITY:
            if self.is_held:
                self._timers.set(Act.INACTIVITY, now + self.settings.test_timeout)
                return []
            if not self._test_sent:
                self.test(now)
                return []
            return self._end(Act.INACTIVITY, now, detail="no answer to the test request")
        if name is Act.ACCEPT:
            self._put(Heartbeat(tmstmp=self._tmstmp(now), connid=self.connid), now)
            return []
        return self._expire(now)

    def _await(self, kind: str, id: Any, seconds: float, now: float) -> None:
        self._deadlines[kind, id] = now + seconds
        self._ring_by(now + seconds)

    def _ring_by(self, deadline: float) -> None:
        # It may expire too early, if what it was set for has ended: that costs less than searching
        # for the earliest deadline at every request.
        if deadline < self._rings_at:
            self._rings_at = deadline
            self._timers.set(Act.TIMEOUT, deadline)

    def _expire(self, now: float) -> list[SessionEvent]:
        """Give up what has not been answered in time."""
        waiting = [(at, kind, id) for (kind, id), at in self._deadlines.items()]
        waiting += [(at, "tx", number) for number, at in self._flying.items()]
        due = [each for each in waiting if each[0] <= now + 1e-6]
        events: list[SessionEvent] = []
        for _, kind, id in sorted(due, key=itemgetter(0)):
            if kind == "tx":
                del self._flying[id]
                code = BlazeCode.TRANSACTION_TIMEOUT
                events.append(TransactionFinished(self.txid(id), False, code, is_local=True))
                continue
            del self._deadlines[kind, id]
            if kind == "sub":
                feed = self._feeds[id]
                feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.TIMEOUT)
                events.append(SubscriptionRefused(id, BlazeCode.UNKNOWN_ERROR, is_local=True))
            else:
                events += self._stopped(id, Act.TIMEOUT)
        self._rings_at = inf
        self._ring_by(min([*self._deadlines.values(), *self._flying.values()], default=inf))
        return events + self._done(now)

    def txid(self, number: int) -> TxId:
        """The id of a transaction."""
        return self.settings.platform, self.settings.service, self.connid, number

    def _must_be_open(self, *, is_new: bool = False) -> None:
        allowed = (ClientState.CONNECTED,) if is_new else OPEN
        if self.state not in allowed:
            raise StateError(f"not allowed in state {self.state.name}")

    @abstractmethod
    def _stopped(self, rqstid: int, act: Act) -> list[SessionEvent]:
        """A subscription whose stop was asked for has ended."""
