"""The server's side of a Blaze connection (SPEC §8).

It validates and enforces the rules; what is stored, who may do what, and what a transaction does
are up to its owner: an event asks, a method answers. It holds no socket and no store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, Literal

from wireloom.errors import DecodeError, StateError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    ConnectionResult,
    DisconnectReason,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    RefusalCode,
    SubscriptionMode,
    SubscriptionResult,
    SubscriptionType,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.dialects import DOCUMENT, enum_of, get_dialect
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import (
    VERSION,
    ConnectionResponse,
    Disconnected,
    Heartbeat,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStopResponse,
    TestRequest,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.session.base import BlazeSession
from wireloom.formats.blaze.session.events import (
    Connected,
    ConnectionRequested,
    DownloadWanted,
    SessionClosed,
    SessionEvent,
    SubscriptionEnded,
    SubscriptionRequested,
    TransactionAborted,
    TransactionRequested,
    TxId,
)
from wireloom.formats.blaze.session.quick import ACK, ACK_HEAD, REQUEST, REQUEST_HEAD, WORD, Numbers
from wireloom.formats.blaze.session.states import (
    SERVER,
    SERVER_TRANSACTION,
    Act,
    ServerState,
    Service,
    Work,
)
from wireloom.formats.blaze.session.subscriptions import (
    Change,
    EventIds,
    Outgoing,
    ServerSubscription,
)
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["ServerSession", "ServerSettings"]

_OPEN = (ServerState.CONNECTED, ServerState.DRAINING)
_WITH_CONNID = {"TSTREQ", "HRTBET", "DSCOND", "TXRQST", "SBSREQ"}
_REASONS = {
    Act.VIOLATION: DisconnectReason.UNSPECIFIED_REASON,
    Act.INACTIVITY: DisconnectReason.PEER_INACTIVITY,
    Act.CLOSE: DisconnectReason.SERVER_IS_GOING_DOWN,
    Act.DRAIN: DisconnectReason.SERVER_IS_GOING_DOWN,
    Act.DONE: DisconnectReason.SERVER_IS_GOING_DOWN,
}
_TXPRID_AT = 20
_ACCEPTED = SERVER_TRANSACTION.after(Work.RECEIVED, Act.ACCEPT)


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


@dataclass(slots=True)
class _Flying:
    state: Work
    deadline: float
    encoding: Encoding | None
    wants_result: bool


class ServerSession(BlazeSession):
    """The server's side of one connection.

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
        self._requested: dict[int, SubscriptionRequested] = {}
        self._flying: OrderedDict[TxId, _Flying] = OrderedDict()
        self._ended: list[SessionEvent] = []
        self._completed: OrderedDict[TxId, None] = OrderedDict()
        self._sbsrids = count(1)
        self._numbers = _numbers(self.dialect.name)
        self._at_once = 0  # bytes of events written since `data_to_send`
        self._hbtsec = 0
        self._last_received = now
        self._test_sent: float | None = None
        self._timers.set(Act.TIMEOUT, now + given.handshake_timeout)

    # -- connection (SPEC §8.1)

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
        return [Connected(connid, agreed, is_reserved)]

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
        for txid, flying in self._flying.items():
            if act is Act.DSCOND or act is Act.LOST:
                code = BlazeCode.CLIENT_ABORTED
            else:
                code = BlazeCode.SERVER_ABORTED
                self._answer(txid, code)
            flying.state = SERVER_TRANSACTION.after(flying.state, Act.LOST)
            events.append(TransactionAborted(txid, code))
        self._flying.clear()
        # Before anything else is distributed: an event for a connection that is gone is a bug.
        for sbsrid, subscription in self.subscriptions.items():
            subscription.step(Act.LOST)
            events.append(SubscriptionEnded(sbsrid, "lost"))
        self.subscriptions.clear()
        self._requested.clear()
        if by == "us" and act is not Act.REFUSE:
            if reason is None:
                reason = _REASONS.get(act, DisconnectReason.UNSPECIFIED_REASON)
                if act is Act.VIOLATION and was not in _OPEN:
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
        if self.state not in _OPEN:
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
        if self._state in _OPEN and interval and self.behaviour.has_heartbeat:
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

    def _expire(self, now: float) -> list[SessionEvent]:
        """Answer transactions that have timed out; they wait in the order of their deadlines."""
        events: list[SessionEvent] = []
        while self._flying:
            txid, flying = next(iter(self._flying.items()))
            if flying.deadline > now + 1e-6:
                self._timers.set(Act.RESPOND, flying.deadline)
                break
            self._finish(txid, Act.TIMEOUT)
            self._answer(txid, BlazeCode.TRANSACTION_TIMEOUT)
            events.append(TransactionAborted(txid, BlazeCode.TRANSACTION_TIMEOUT))
        return events + self._drained(now)

    # -- packets

    def _handle(self, frame: bytes, now: float) -> list[SessionEvent]:
        # Nearly all packets are acknowledgements and good transactions. They are read here if
        # nothing about them is unusual; anything unusual is left to the general way.
        if self._state is ServerState.CONNECTED:
            head = WORD.unpack_from(frame)[0]
            if head == ACK_HEAD:
                _, sbsrid, sevtid = ACK.unpack(frame)
                if sbsrid and sevtid:
                    self._alive(now)
                    self._sbsack(sbsrid, sevtid)
                    return []
            elif head == REQUEST_HEAD:
                request = self._good_request(frame, now)
                if request is not None:
                    self._alive(now)
                    return [request]
        return super()._handle(frame, now)

    def _good_request(self, frame: bytes, now: float) -> TransactionRequested | None:
        """A transaction that is to be carried out; None if it may have to be refused."""
        _, word, plid, svid, cnid, prid, _, clsenc, connid = REQUEST.unpack_from(frame)
        txid = (plid, svid, cnid, prid)
        action = self._numbers.actions.get(word >> 25 & 7)
        encoding = self._numbers.encodings.get(clsenc >> 28)
        nclsid = clsenc & 0xFFFFF
        given = self.settings
        if (
            action is None
            or encoding is None
            or self.model is None
            or not nclsid
            or not prid
            or connid != self.connid
            or cnid != self.connid
            or word >> 28 != TransactionType.NCLASS
            or TransactionType.NCLASS not in given.transaction_types
            or encoding not in self.behaviour.encodings
            or (given.is_strict and not (plid and svid))
            or txid in self._flying
            or txid in self._completed
            or len(self._flying) >= given.max_flying
        ):
            return None
        body = frame[REQUEST.size :]
        is_canonical = True
        try:
            value = self._object(nclsid, encoding, body, strict=True)
        except DecodeError:
            is_canonical = False
            try:
                value = self._object(nclsid, encoding, body)
            except DecodeError:
                return None
        wants_result = bool(word >> 24 & 1)
        deadline = now + given.transaction_timeout
        if not self._flying:
            self._timers.set(Act.RESPOND, deadline)
        self._flying[txid] = _Flying(_ACCEPTED, deadline, encoding, wants_result)
        return TransactionRequested(
            txid,
            TransactionType.NCLASS,
            action,
            wants_result,
            nclsid,
            encoding,
            body,
            value,
            is_canonical,
        )

    def _react(
        self, name: str, fields: dict[str, int], packet: Any, reason: str, now: float
    ) -> list[SessionEvent]:
        if name == "CONREQ":
            return self._conreq(fields, packet, now)
        invalid = DisconnectReason.INVALID_CONNECTION_STATUS
        if self.state not in _OPEN:
            if name == "DSCOND" and packet is not None:
                return self._dscond(packet, now)
            return self._violation(f"{name} before the connection is agreed", now, invalid)
        if fields["prover"] != VERSION:
            return self._violation(f"{name} in version {fields['prover']}", now, invalid)
        if name in _WITH_CONNID and fields.get("connid") != self.connid:
            given = fields.get("connid", "none")
            return self._violation(f"{name} with CONNID {given}", now, invalid)
        if name == "TXRQST":
            return self._txrqst(fields, packet, now)
        if name == "SBSREQ":
            return self._sbsreq(fields, packet, now)
        if packet is None:
            return self._violation(f"{name}: {reason}", now)
        if name == "TSTREQ":
            self._write(Heartbeat(tmstmp=self._tmstmp(now)))
        elif name == "DSCOND":
            return self._dscond(packet, now)
        elif name == "SBSACK":
            self._sbsack(packet.sbsrid, packet.sevtid)
        elif name == "SBSTOP":
            return self._sbstop(packet.sbsrid)
        elif name != "HRTBET":
            return self._violation(f"{name} is for clients", now, invalid)
        return []

    def _dscond(self, packet: Disconnected, now: float) -> list[SessionEvent]:
        return self._end(Act.DSCOND, now, reason=packet.disres)

    def _conreq(self, fields: dict[str, int], packet: Any, now: float) -> list[SessionEvent]:
        oldest, newest = self.settings.versions
        if self.state is ServerState.DRAINING:
            return self._refuse(RefusalCode.INVALID_CONNECTION_STATUS, now)
        if self.state is not ServerState.ACCEPTED:
            return self._refuse(RefusalCode.ALREADY_CONNECTED, now)
        if not oldest <= fields["prover"] <= newest:
            return self._refuse(RefusalCode.PROTOCOL_VERSION_TOO_OLD, now)
        self._move(Act.CONREQ)
        self._hbtsec = packet.hbtsec
        return [ConnectionRequested(packet.hbtsec)]

    # -- transactions (SPEC §8.3)

    @property
    def flying(self) -> int:
        """Transactions that have no answer yet."""
        return len(self._flying)

    def respond(
        self,
        txid: TxId,
        now: float,
        *,
        code: BlazeCode = BlazeCode.NO_ERROR,
        result: NClassValue | None = None,
        is_ok: bool | None = None,
    ) -> list[SessionEvent]:
        """Answer a transaction; an answer that is no longer awaited is dropped and counted.

        Args:
            txid: its id.
            now: the time.
            code: why it failed; NO_ERROR: it did not.
            result: the object that the client may have asked for, or that explains the code 7.
            is_ok: the outcome, where the code does not imply it.

        Raises:
            EncodeError: the result cannot be written.
        """
        flying = self._flying.get(txid)
        if flying is None:
            self.counts["late_answers"] += 1
            return []
        is_good = code is BlazeCode.NO_ERROR if is_ok is None else is_ok
        is_sent = flying.wants_result or code is BlazeCode.REASON_IN_RESULT_NCLASS
        self._answer(txid, code, result if is_sent else None, flying.encoding, is_ok=is_good)
        self._finish(txid, Act.RESPOND)
        return self._drained(now)

    def _finish(self, txid: TxId, act: Act) -> None:
        flying = self._flying.pop(txid)
        flying.state = SERVER_TRANSACTION.after(flying.state, act)
        self._completed[txid] = None
        if len(self._completed) > self.settings.max_completed:
            self._completed.popitem(last=False)
        if not self._flying:
            self._timers.cancel(Act.RESPOND)

    def _answer(
        self,
        txid: TxId,
        code: BlazeCode,
        result: NClassValue | None = None,
        encoding: Encoding | None = None,
        *,
        is_ok: bool = False,
    ) -> None:
        if result is None and txid[2] and txid[3]:
            self._send(self._numbers.response(is_ok, code, txid))
            return
        parts: dict[str, Any] = {}
        if result is not None:
            # The answer is encoded as the request was, except as a delta, which would have no base.
            wanted = Encoding.ALL if encoding is Encoding.ALL else Encoding.INDEXNOTZERO
            first = self.dialect.first_index_of(result.model)
            body = encode_nclass(result, wanted, first_index=first)
            parts = {"rescls": 1, "enctyp": wanted, "nclsid": result.nclass.id, "body": body}
        self._write(
            TransactionResponse(
                txresl=TransactionResult.TXOK if is_ok else TransactionResult.TXKO,
                blzcod=code,
                txplid=txid[0],
                txsvid=txid[1],
                txcnid=txid[2],
                txprid=txid[3],
                **parts,
            )
        )

    def _reject(self, txid: TxId, code: BlazeCode) -> list[SessionEvent]:
        self.counts["rejected"] += 1
        if txid[2] and txid[3]:
            self._answer(txid, code)
            return []
        # An answer repeats the id, and the codec does not write one with zeros.
        self._answer((txid[0], txid[1], 1, 1), code)
        raw = bytearray(self._unsent.pop())
        raw[_TXPRID_AT - 4 : _TXPRID_AT] = txid[2].to_bytes(4, "big")
        raw[_TXPRID_AT : _TXPRID_AT + 4] = txid[3].to_bytes(4, "big")
        self._send(bytes(raw))
        return []

    def _txrqst(
        self, fields: dict[str, int], packet: TransactionRequest | None, now: float
    ) -> list[SessionEvent]:
        txid = (fields["txplid"], fields["txsvid"], fields["txcnid"], fields["txprid"])
        if txid[2] != self.connid or not txid[3]:
            return self._reject(txid, BlazeCode.INVALID_TRANSACTION_ID)
        if self.settings.is_strict and not all(txid):
            return self._reject(txid, BlazeCode.INVALID_TRANSACTION_ID)
        if txid in self._flying:
            return self._reject(txid, BlazeCode.TRANSACTION_ALREADY_FLYING)
        if txid in self._completed:
            return self._reject(txid, BlazeCode.DUPLICATED_TRANSACTION_ID)
        if packet is None or not isinstance(packet.txactn, IntEnum) or not packet.txactn:
            return self._reject(txid, BlazeCode.REQUEST_MALFORMED)
        if packet.txtype not in self.settings.transaction_types:
            return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
        encoding = value = None
        if packet.nclsid is not None and packet.enctyp is not None:
            encoding = self.dialect.encoding(packet.enctyp)
            if encoding not in self.behaviour.encodings:
                return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
            try:
                value = self._object(packet.nclsid, encoding, packet.body)
            except DecodeError:
                return self._reject(txid, BlazeCode.REQUEST_MALFORMED)
        if self.state is ServerState.DRAINING:
            return self._reject(txid, BlazeCode.SERVER_ABORTED)
        if len(self._flying) >= self.settings.max_flying:
            return self._reject(txid, BlazeCode.SERVER_ERROR)
        deadline = now + self.settings.transaction_timeout
        state = SERVER_TRANSACTION.after(Work.RECEIVED, Act.ACCEPT)
        self._flying[txid] = _Flying(state, deadline, encoding, bool(packet.rsclrq))
        if len(self._flying) == 1:
            self._timers.set(Act.RESPOND, deadline)
        return [
            TransactionRequested(
                txid,
                packet.txtype,
                packet.txactn,
                bool(packet.rsclrq),
                packet.nclsid,
                encoding,
                packet.body,
                value,
            )
        ]

    # -- subscriptions (SPEC §8.4)

    def start_subscription(
        self,
        rqstid: int,
        now: float,
        *,
        is_stored: bool | None = None,
        accepts: Callable[[Change], bool] | None = None,
    ) -> int:
        """Grant a subscription; returns its SBSRID. Then see `downloads_wanted`.

        Args:
            rqstid: the request.
            now: the time.
            is_stored: whether objects of the class are stored; None: what the model says.
            accepts: which changes this subscriber may see.

        Raises:
            StateError: there is no such request.
        """
        request = self._take_request(rqstid)
        if is_stored is None:
            found = None if self.model is None else self.model.nclass(request.nclsid)
            is_stored = found is None or found.persistent
        sbsrid = next(self._sbsrids)
        subscription = ServerSubscription(
            sbsrid,
            request,
            is_stored=is_stored,
            has_download_end=self.behaviour.has_download_end,
            has_stop=self.behaviour.has_stop,
            batch=self.settings.download_batch,
            accepts=accepts,
        )
        is_partial = not is_stored and request.mode is not SubscriptionMode.LIVE
        self._write(
            SubscriptionResponse(
                sbresl=SubscriptionResult.SBSPART if is_partial else SubscriptionResult.SBSOK,
                rqstid=rqstid,
                sbsrid=sbsrid,
            )
        )
        subscription.start()
        self.subscriptions[sbsrid] = subscription
        return sbsrid

    def refuse_subscription(self, rqstid: int, code: BlazeCode) -> None:
        """Refuse a subscription.

        Raises:
            StateError: there is no such request.
        """
        self._take_request(rqstid)
        self._sbsko(rqstid, code)

    def _take_request(self, rqstid: int) -> SubscriptionRequested:
        if rqstid not in self._requested:
            raise StateError(f"there is no subscription request {rqstid}")
        return self._requested.pop(rqstid)

    def _sbsko(self, rqstid: int, code: BlazeCode) -> None:
        self._write(
            SubscriptionResponse(sbresl=SubscriptionResult.SBSKO, blzcod=code, rqstid=rqstid)
        )

    def downloads_wanted(self) -> list[DownloadWanted]:
        """The rows that are wanted now; each is asked for once. Ask after everything else."""
        found = []
        for sbsrid, subscription in self.subscriptions.items():
            wanted = subscription.wants
            if wanted is not None:
                found.append(DownloadWanted(sbsrid, subscription.request.nclsid, *wanted))
        return found

    def download(self, sbsrid: int, rows: Iterable[Change], is_last: bool) -> bool:
        """Rows that were asked for, in stamp order; False if the subscription has ended.

        Raises:
            StateError: none were asked for, or they are not newer than those before.
        """
        subscription = self.subscriptions.get(sbsrid)
        if subscription is None:
            return False
        subscription.add_rows(rows, is_last)
        return True

    def publish(self, change: Change, now: float) -> list[SessionEvent]:
        """An object has changed: notify the subscription to its class, if there is one.

        Changes of a class come in stamp order; one that is not newer was already sent.
        """
        for subscription in self.subscriptions.values():
            if subscription.request.nclsid == change.nclsid:  # there is one for each class
                return self._enqueue(subscription, (change,), now)
        return []

    def publish_all(self, changes: Sequence[Change], now: float) -> list[SessionEvent]:
        """The same for several changes of one class; those that need not wait are written."""
        nclsid = changes[0].nclsid
        for subscription in self.subscriptions.values():
            if subscription.request.nclsid == nclsid:
                done = self._publish_at_once(subscription, changes) if subscription.is_plain else 0
                return self._enqueue(subscription, changes[done:], now)
        return []

    def _publish_at_once(self, subscription: ServerSubscription, changes: Sequence[Change]) -> int:
        """Write changes that can be sent at once; returns how many are done."""
        outstanding, unsent = subscription.outstanding, self._unsent
        has_acks, high_water = self.behaviour.has_acks, self.settings.high_water
        room = self.settings.window - len(outstanding) if has_acks else len(changes)
        for place, change in enumerate(changes):
            if room <= 0 or self._at_once >= high_water:
                return place
            if not subscription.pass_on(change):
                continue
            sevtid = change.sevtid or self._event_ids.next(change.nclsid)
            frame = change.frames.get(subscription.frame_key) if change.sevtid else None
            if frame is None:
                frame = self._numbers.event(
                    subscription.sbsrid,
                    EventType.DATALIVE,
                    Action.UPD if change.action is Action.DLT else change.action,
                    sevtid,
                    change.stamp,
                    change.full(subscription.request.encoding),
                )
                change.frames[subscription.frame_key] = frame
            unsent.append(frame)
            self._at_once += len(frame)
            self.events_sent += 1
            if has_acks:
                outstanding[sevtid] = None
                room -= 1
        return len(changes)

    def _enqueue(
        self, subscription: ServerSubscription, changes: Sequence[Change], now: float
    ) -> list[SessionEvent]:
        most = self.settings.max_queue
        for change in changes:
            if not subscription.add_change(change) or len(subscription.live) <= most:
                continue
            self.counts["overflows"] += 1
            if self.settings.overflow == "conflate" and not subscription.live.is_conflated:
                subscription.live.conflate()
            if len(subscription.live) > most:
                return self.stop_subscription(subscription.sbsrid, BlazeCode.SERVER_ERROR, now)
        return []

    def stop_subscription(self, sbsrid: int, code: BlazeCode, now: float) -> list[SessionEvent]:
        """End a subscription from this side; waiting changes are not sent.

        Raises:
            StateError: there is no such subscription.
        """
        subscription = self.subscriptions.pop(sbsrid, None)
        if subscription is None:
            raise StateError(f"there is no subscription {sbsrid}")
        subscription.step(Act.STOP)
        self._stop(subscription, code, self._tmstmp(now))
        return [SubscriptionEnded(sbsrid, "server", code)]

    def _stop(self, subscription: ServerSubscription, code: BlazeCode, seconds: int) -> None:
        self._write(
            SubscriptionEvent(
                sbsrid=subscription.sbsrid,
                sevttp=EventType.STOP,
                blzcod=code,
                sevtid=self._event_ids.next(subscription.request.nclsid),
                tmstmp0=seconds,
            )
        )

    def _sbsreq(
        self, fields: dict[str, int], packet: SubscriptionRequest | None, now: float
    ) -> list[SessionEvent]:
        rqstid = fields["rqstid"]
        if not rqstid:
            return self._violation("SBSREQ with RQSTID 0", now)
        code = self._flaw_of_request(rqstid, packet)
        if packet is None or code is not None:
            self.counts["rejected"] += 1
            next(self._sbsrids)  # refused requests use one up, as in the implementations
            self._sbsko(rqstid, code or BlazeCode.REQUEST_MALFORMED)
            return []
        encoding = self.dialect.encoding(packet.enctyp)
        assert encoding is not None
        request = SubscriptionRequested(
            rqstid,
            packet.nclsid,
            encoding,
            SubscriptionType(packet.sbstyp),
            SubscriptionMode(packet.sbsmod),
            FlowType(packet.flotyp),
            DownloadType(packet.dwltyp),
            (packet.tmstmp0 or 0, packet.tmstmp1 or 0),
        )
        self._requested[rqstid] = request
        return [request]

    def _flaw_of_request(self, rqstid: int, packet: SubscriptionRequest | None) -> BlazeCode | None:
        """Why a subscription is refused without asking the owner."""
        if packet is None or rqstid in self._requested:
            return BlazeCode.REQUEST_MALFORMED
        enums = (packet.sbstyp, packet.sbsmod, packet.flotyp, packet.dwltyp)
        if not all(isinstance(each, IntEnum) for each in enums):
            return BlazeCode.REQUEST_MALFORMED
        encoding = self.dialect.encoding(packet.enctyp)
        if encoding not in self.behaviour.encodings:
            return BlazeCode.REQUEST_UNSUPPORTED
        if encoding is Encoding.INDEXDELTA and packet.sbstyp == SubscriptionType.SNAPSHOT:
            return BlazeCode.REQUEST_UNSUPPORTED
        if self.model is not None and self.model.nclass(packet.nclsid) is None:
            return BlazeCode.REQUEST_UNSUPPORTED
        if self.state is ServerState.DRAINING:
            return BlazeCode.SERVER_ERROR
        started = [subscription.request for subscription in self.subscriptions.values()]
        if any(r.nclsid == packet.nclsid for r in [*started, *self._requested.values()]):
            return BlazeCode.SBS_ALREADY_STARTED
        if len(started) + len(self._requested) >= self.settings.max_subscriptions:
            return BlazeCode.SERVER_ERROR
        return None

    def _sbsack(self, sbsrid: int, sevtid: int) -> None:
        subscription = self.subscriptions.get(sbsrid)
        is_cumulative = self.settings.has_cumulative_acks
        if subscription is None or not subscription.acknowledge(sevtid, is_cumulative):
            self.counts["unknown_acks"] += 1

    def _sbstop(self, sbsrid: int) -> list[SessionEvent]:
        subscription = self.subscriptions.pop(sbsrid, None)
        if subscription is None:
            self._write(
                SubscriptionStopResponse(
                    sbresl=SubscriptionResult.SBSKO, blzcod=BlazeCode.SBS_NOT_FOUND, sbsrid=sbsrid
                )
            )
            return []
        subscription.step(Act.SBSTOP)
        self._write(SubscriptionStopResponse(sbresl=SubscriptionResult.SBSOK, sbsrid=sbsrid))
        return [SubscriptionEnded(sbsrid, "client")]

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once; events only as the windows allow."""
        self._at_once = 0
        size = self.unsent if self.subscriptions else 0
        for sbsrid, subscription in list(self.subscriptions.items()):
            while size < self.settings.high_water and self._has_room(subscription):
                event = subscription.next() if subscription.is_ready else None
                if event is None:
                    break
                size += self._write_event(subscription, event)
            if subscription.state is Service.ENDED:
                del self.subscriptions[sbsrid]
                # Reported at once, by a timer: this method cannot return events.
                self._ended.append(SubscriptionEnded(sbsrid, "server"))
                self._timers.set(Act.STOP, self._last_received)
        return super().data_to_send()

    def _has_room(self, subscription: ServerSubscription) -> bool:
        if not self.behaviour.has_acks:
            return True
        return len(subscription.outstanding) < self.settings.window

    def _write_event(self, subscription: ServerSubscription, event: Outgoing) -> int:
        self.events_sent += 1
        sevtid = event.sevtid or self._event_ids.next(subscription.request.nclsid)
        if self.behaviour.has_acks and event.kind is not EventType.STOP:
            subscription.outstanding[sevtid] = None
        self._send(
            self._numbers.event(
                subscription.sbsrid, event.kind, event.action, sevtid, event.stamp, event.body
            )
        )
        return len(self._unsent[-1])
