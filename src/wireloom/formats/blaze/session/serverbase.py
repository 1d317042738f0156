"""What a server grants, and its side of the connection itself (SPEC §8.1, §8.2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import count
from typing import ClassVar, Literal

from wireloom.errors import StateError
from wireloom.formats.blaze.codes import (
    BlazeCode,
    ConnectionResult,
    DisconnectReason,
    RefusalCode,
    TransactionType,
)
from wireloom.formats.blaze.dialects import DOCUMENT, enum_of, get_dialect
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.packets import (
    VERSION,
    ConnectionResponse,
    Disconnected,
    TestRequest,
)
from wireloom.formats.blaze.session.base import BlazeSession
from wireloom.formats.blaze.session.completed import Completed
from wireloom.formats.blaze.session.events import (
    Connected,
    SessionClosed,
    SessionEvent,
    SubscriptionEnded,
    SubscriptionRequested,
    TransactionAborted,
    TransactionRequested,
    TxId,
)
from wireloom.formats.blaze.session.quick import Numbers
from wireloom.formats.blaze.session.states import (
    SERVER,
    Act,
    ServerState,
)
from wireloom.formats.blaze.session.subscriptions import (
    EventIds,
    ServerSubscription,
)
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["OPEN", "ServerBase", "ServerSettings"]

OPEN = (ServerState.CONNECTED, ServerState.DRAINING)
"""States in which packets beyond the handshake are taken."""
_CONREQ_LEN = 8
_GOING_DOWN = (Act.CLOSE, Act.DRAIN, Act.DONE)
_REASONS = {
    Act.VIOLATION: DisconnectReason.UNSPECIFIED_REASON,
    Act.INACTIVITY: DisconnectReason.PEER_INACTIVITY,
    Act.CLOSE: DisconnectReason.SERVER_IS_GOING_DOWN,
    Act.DRAIN: DisconnectReason.SERVER_IS_GOING_DOWN,
    Act.DONE: DisconnectReason.SERVER_IS_GOING_DOWN,
}


@lru_cache
def _numbers(dialect: str) -> Numbers:
    return Numbers(get_dialect(dialect))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server grants and how long it waits; times are in seconds."""

    dialect: str = DOCUMENT
    model: Model | None = None
    """If given, bodies are checked and decoded, and only its classes are accepted; else all are."""
    limits: Limits = DEFAULT_LIMITS
    versions: tuple[int, int] = (VERSION, VERSION)
    """The oldest and the newest PROVER that is served."""
    handshake_timeout: float = 10.0
    """How long to wait for CONREQ; the round trip of a slow line is far shorter."""
    heartbeat_limits: tuple[int, int] = (1, 255)
    """The shortest and the longest interval that is granted; 255 is the most that fits."""
    is_heartbeat_required: bool = False
    """Whether 0, no duty, is answered with the longest interval allowed."""
    transaction_types: frozenset[int] = frozenset({TransactionType.NCLASS})
    """TXTYPEs that the application handles."""
    transaction_timeout: float = 30.0
    """How long the application may take to answer."""
    max_flying: int = 1024
    """Unanswered transactions of one connection; more are refused with 3."""
    max_completed: int = 4096
    """Ids of answered transactions that are remembered, to recognise repeated ones."""
    is_strict: bool = False
    """Refuse transaction ids with zeros (erratum E35)."""
    window: int = 1
    """Events of a subscription that may be without an acknowledgement; 2017 clients need 1."""
    has_cumulative_acks: bool = False
    """Whether an acknowledgement counts for all events that were sent before."""
    max_queue: int = 10_000
    """Changes that may wait in one subscription; `overflow` says what happens beyond that."""
    overflow: Literal["stop", "conflate"] = "stop"
    """End a subscription that is too slow with code 3, or switch it to the last of each object."""
    max_subscriptions: int = 256
    """Subscriptions of one connection; more are refused with 3."""
    download_batch: int = 256
    """Rows that are asked for at once."""
    high_water: int = 1 << 18
    """Unsent bytes at which no further events are written."""
    idle_timeout: float = 0.0
    """Silence after which a client without a heartbeat is asked for one; 0: never."""
    drain_timeout: float = 10.0
    """How long to wait for pending transactions when the broker shuts down."""
    clock_offset: float = 0.0
    """Unix time minus `now`, for the stamps of heartbeats."""


class ServerBase(BlazeSession):
    """The connection itself: who is let in, how long silence lasts, and how it ends.

    Args:
        settings: what is granted.
        now: the time at which the connection was accepted.
        event_ids: the broker's counters of SEVTID; its own if there is only one session.
    """

    transitions: ClassVar = SERVER

    def __init__(
        self,
        settings: ServerSettings | None = None,
        now: float = 0.0,
        *,
        event_ids: EventIds | None = None,
    ) -> None:
        self.settings = given = settings or ServerSettings()
        super().__init__(given.dialect, given.model, given.limits, given.clock_offset)
        self.subscriptions: dict[int, ServerSubscription] = {}
        """Subscriptions that were started, by SBSRID."""
        self.events_sent = 0
        """Events of all subscriptions so far."""
        self._event_ids = event_ids or EventIds()
        self._requested: dict[int, tuple[int, SubscriptionRequested]] = {}
        """Subscriptions to be decided on, by RQSTID, and the SBSRIDs that they will have."""
        self._unwanted: set[int] = set()
        """Of those, the ones that were stopped already, by SBSRID."""
        self._flying: dict[TxId, tuple[float, TransactionRequested]] = {}
        """Transactions that have no answer yet, and until when the application may take."""
        self._ended: list[SessionEvent] = []
        self._completed = Completed(given.max_completed)
        self._sbsrids = count(1)
        self._numbers = _numbers(self.dialect.name)
        self._at_once = 0  # bytes of events written since `data_to_send`
        self._hbtsec = 0
        self._early = bytearray()
        """What has come behind CONREQ, before it was decided on."""
        self._last_received = now
        self._test_sent: float | None = None
        self._timers.set(Act.TIMEOUT, now + given.handshake_timeout)

    # -- connection (SPEC §8.1)

    def _received(self, data: bytes, now: float) -> list[SessionEvent]:
        if not data or self._state in OPEN:
            return super()._received(data, now)
        events: list[SessionEvent] = []
        if self._state is ServerState.ACCEPTED:
            # Anything but CONREQ ends the connection, so what comes behind that is told apart here.
            rest = max(0, _CONREQ_LEN - self._splitter.pending) or len(data)
            events += super()._received(data[:rest], now)
            data = data[rest:]
        if self._state is ServerState.DECIDING:
            self._early += data
            if len(self._early) > self._limits.max_frame:
                events += self._violation("too much behind a connection request", now)
        elif data and not self._is_closed:
            events += super()._received(data, now)
        return events

    def accept(self, connid: int, now: float) -> list[SessionEvent]:
        """Accept the client, with the heartbeat it wants or the nearest that is allowed.

        Raises:
            StateError: there is no connection request.
        """
        self._move(Act.ACCEPT)
        least, most = self.settings.heartbeat_limits
        wanted = self._hbtsec
        if wanted == 0:
            agreed = most if self.settings.is_heartbeat_required else 0
        else:
            agreed = min(max(wanted, least), most)
        self.connid, self.heartbeat = connid, agreed
        is_reserved = agreed != wanted
        self._write(
            ConnectionResponse(
                conres=ConnectionResult.ACCEPTED_WITH_RESERVE
                if is_reserved
                else ConnectionResult.ACCEPTED,
                errcod=RefusalCode.SERVER_HAS_CHANGED_HEARTBEAT_INTERVAL
                if is_reserved
                else RefusalCode.NO_ERROR,
                agrhbt=agreed,
                connid=connid,
            )
        )
        self._timers.cancel(Act.TIMEOUT)
        self._wind_up(now)
        events: list[SessionEvent] = [Connected(connid, agreed, is_reserved)]
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            events += self._received(early, now)
        return events

    def refuse(self, code: RefusalCode, now: float) -> list[SessionEvent]:
        """Refuse the client, and close.

        Raises:
            StateError: there is no connection request.
        """
        if self.state is not ServerState.DECIDING:
            raise StateError("there is no connection request to refuse")
        return self._refuse(code, now)

    def veto(self, now: float) -> list[SessionEvent]:
        """Refuse the client because the application does not want it.

        Raises:
            StateError: there is no connection request.
        """
        if self.state is not ServerState.DECIDING:
            raise StateError("there is no connection request to refuse")
        errors = enum_of(self.dialect, "errcod")
        if errors is not None and "APPLICATION_REFUSED" in errors.__members__:
            return self._refuse(errors["APPLICATION_REFUSED"], now)
        return self._refuse(RefusalCode.UNSPECIFIED_REASON, now)

    def _refuse(self, code: IntEnum, now: float) -> list[SessionEvent]:
        self._write(ConnectionResponse(conres=ConnectionResult.REFUSED, errcod=code))
        return self._end(Act.REFUSE, now, detail=f"refused: {code.name}")

    def drain(self, now: float) -> list[SessionEvent]:
        """The broker shuts down: let pending transactions end, then send DSCOND 4.

        Raises:
            StateError: it is already shutting down.
        """
        if self.state is ServerState.DECIDING:
            return self._refuse(RefusalCode.SERVER_IS_GOING_DOWN, now)
        if self.state is ServerState.ACCEPTED:
            return self._end(Act.DRAIN, now, detail="the server goes down")
        self._move(Act.DRAIN)
        self._timers.set(Act.DRAIN, now + self.settings.drain_timeout)
        return self._drained(now)

    def _drained(self, now: float) -> list[SessionEvent]:
        if self.state is ServerState.DRAINING and not self._flying:
            return self._end(Act.DONE, now, detail="the server goes down")
        return []

    def disconnect(self, reason: DisconnectReason, now: float) -> list[SessionEvent]:
        """End the connection for a reason that the owner gives."""
        return [] if self.is_closed else self._end(Act.CLOSE, now, reason=reason)

    def close(self) -> None:
        """Send DSCOND 4 and end. What was pending is not reported: see `disconnect`."""
        if not self.is_closed:
            self._end(Act.CLOSE, self._last_received)

    def _end(
        self,
        act: Act,
        now: float,
        *,
        detail: str = "",
        reason: IntEnum | int | None = None,
    ) -> list[SessionEvent]:
        was = self.state
        by: Literal["peer", "us", "lost"] = (
            "lost" if act is Act.LOST else "peer" if act is Act.DSCOND else "us"
        )
        events, self._ended = self._ended, []
        for txid in self._flying:
            if act is Act.DSCOND or act is Act.LOST:
                code = BlazeCode.CLIENT_ABORTED
            else:
                code = BlazeCode.SERVER_ABORTED
                if act in _GOING_DOWN:  # else the owner may be carrying it out: it is lost
                    self._answer(txid, code)
            events.append(TransactionAborted(txid, code))
        self._flying.clear()
        # Before anything else is distributed: an event for a connection that is gone is a bug.
        for sbsrid, subscription in self.subscriptions.items():
            subscription.step(Act.LOST)
            events.append(SubscriptionEnded(sbsrid, "lost"))
        self.subscriptions.clear()
        self._requested.clear()
        self._unwanted.clear()
        self._early.clear()
        if by == "us" and act is not Act.REFUSE:
            if reason is None:
                reason = _REASONS.get(act, DisconnectReason.UNSPECIFIED_REASON)
                if act is Act.VIOLATION and was not in OPEN:
                    reason = DisconnectReason.INVALID_CONNECTION_STATUS
            if act is Act.TIMEOUT:
                reason = None  # no CONREQ has come: there is no session to end
            else:
                self._write(Disconnected(disres=reason))
        self._move(act)
        return [*events, SessionClosed(reason, by, detail)]

    def _violation(
        self, detail: str, now: float, reason: DisconnectReason | None = None
    ) -> list[SessionEvent]:
        self.counts["violations"] += 1
        return self._end(Act.VIOLATION, now, detail=detail, reason=reason)

    # -- time (SPEC §8.2)

    def test(self, now: float) -> None:
        """Ask the client for a heartbeat; if none comes in time, the connection ends.

        Raises:
            StateError: there is no connection.
        """
        if self.state not in OPEN:
            raise StateError(f"no test request in state {self.state.name}")
        self._write(TestRequest(tmstmp=self._tmstmp(now)))
        if self.behaviour.has_heartbeat:
            self._test_sent = now
            self._timers.set(Act.INACTIVITY, now + self._grace)

    def excuse(self, now: float) -> None:
        """Excuse the client's silence so far: the owner was not reading from it."""
        if not self.is_closed:
            self._wind_up(now)

    @property
    def _interval(self) -> float:
        return self.heartbeat or self.settings.idle_timeout

    @property
    def _grace(self) -> float:
        return max(2.0, self._interval / 2)

    def _alive(self, now: float) -> None:
        if now != self._last_received or self._test_sent is not None:  # not from the same chunk
            self._wind_up(now)

    def _wind_up(self, now: float) -> None:
        self._last_received = now
        self._test_sent = None
        interval = self.heartbeat or self.settings.idle_timeout
        if self._state in OPEN and interval and self.behaviour.has_heartbeat:
            self._timers.set(Act.INACTIVITY, now + interval)
        else:
            self._timers.cancel(Act.INACTIVITY)

    def _timed_out(self, name: Act, now: float) -> list[SessionEvent]:
        if name is Act.TIMEOUT:
            return self._end(Act.TIMEOUT, now, detail="no connection request came in time")
        if name is Act.DRAIN:
            return self._end(Act.DONE, now, detail="the server goes down")
        if name is Act.STOP:
            ended, self._ended = self._ended, []
            return ended
        if name is Act.INACTIVITY:
            if self._test_sent is None:
                self.test(now)
                return []
            return self._end(Act.INACTIVITY, now, detail=f"silent since {self._last_received}")
        return self._expire(now)

    @abstractmethod
    def _answer(self, txid: TxId, code: BlazeCode) -> None:
        """Send the outcome of a transaction that has failed."""

    @abstractmethod
    def _expire(self, now: float) -> list[SessionEvent]:
        """Answer transactions that have timed out."""
