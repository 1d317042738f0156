"""The client's side of a Blaze connection (SPEC §8).

It connects, keeps the heartbeat, sends transactions and subscriptions, and acknowledges events. One
session is one connection: whoever connects again gives `position` to the next one as `since`.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
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
    SubscriptionMode,
    SubscriptionResult,
    SubscriptionType,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.dialects import DOCUMENT, enum_of, translate
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import (
    VERSION,
    BlazePacket,
    ConnectionRequest,
    ConnectionResponse,
    Disconnected,
    Heartbeat,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStop,
    SubscriptionStopResponse,
    TestRequest,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.session.base import BlazeSession
from wireloom.formats.blaze.session.events import (
    Connected,
    ConnectionRefused,
    DownloadEnded,
    ObjectReceived,
    SessionClosed,
    SessionEvent,
    Stamp,
    SubscriptionEnded,
    SubscriptionRefused,
    SubscriptionStarted,
    TransactionFinished,
    TxId,
)
from wireloom.formats.blaze.session.states import (
    CLIENT,
    CLIENT_SUBSCRIPTION,
    CLIENT_TRANSACTION,
    Act,
    ClientState,
    Feed,
    Flight,
)
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["ClientSession", "ClientSettings"]

_HEARTBEAT_SHARE = 0.6
"""Part of the agreed interval after which silence is filled (SPEC §8.2)."""

_WORD = struct.Struct(">I")
_EVENT = struct.Struct(">7I")
_ANSWER = struct.Struct(">6I")
_REQUEST = struct.Struct(">9I")
_ACK = struct.Struct(">3I")
_EVENT_HEAD = VERSION << 26 | 7 << 22 | SubscriptionEvent.code << 16
_ANSWER_HEAD = VERSION << 26 | 6 << 22 | TransactionResponse.code << 16
_ACK_HEAD = VERSION << 26 | 3 << 22 | SubscriptionAck.code << 16
_KINDS = {int(kind): kind for kind in EventType}
_EVENT_UNUSED = 0x01FF0000
_ANSWER_UNUSED = 0x1FFF0000
"""RESCLS among them: an answer with a result is read in the general way."""

_OPEN = (ClientState.CONNECTED, ClientState.DISCONNECTING)
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
    """With it, objects are decoded."""
    limits: Limits = DEFAULT_LIMITS
    heartbeat: int = 30
    """Interval that is proposed, 0..255; 0: no duty."""
    connect_timeout: float = 10.0
    """For CONRES to come."""
    request_timeout: float = 30.0
    """For answers to transactions, subscriptions and stops."""
    test_after: float = 0.0
    """Silence of the server after which it is asked for a heartbeat; 0: never."""
    test_timeout: float = 5.0
    """For its answer."""
    disconnect_timeout: float = 10.0
    """For flying transactions to end before leaving."""
    max_flying: int = 1024
    """Transactions without an answer."""
    platform: int = 1
    """TXPLID of the transactions."""
    service: int = 1
    """TXSVID of the transactions."""
    is_auto_ack: bool = True
    """Whether events are acknowledged when they arrive, or by `acknowledge`."""
    has_cumulative_acks: bool = False
    """Whether the server takes an acknowledgement for all events before it, too: then one is sent
    for all that were handled meanwhile."""
    clock_offset: float = 0.0
    """Unix time minus `now`, for the stamps of heartbeats."""


@dataclass(slots=True)
class _Flying:
    state: Flight = Flight.FLYING


@dataclass(slots=True)
class _Feed:
    nclsid: int
    encoding: Encoding
    position: Stamp
    newest: Stamp
    state: Feed = Feed.REQUESTED
    sbsrid: int = 0
    is_downloading: bool = True


def _members(enum: type[IntEnum] | None) -> dict[int, IntEnum]:
    """The members of an enum by their numbers."""
    return {} if enum is None else {int(member): member for member in enum}


class ClientSession(BlazeSession):
    """The client's side of one connection: make it when TCP is there, then `connect`."""

    transitions: ClassVar = CLIENT

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self.settings = given = settings or ClientSettings()
        super().__init__(given.dialect, given.model, given.limits, given.clock_offset)
        self._flying: dict[TxId, _Flying] = {}
        self._feeds: dict[int, _Feed] = {}
        self._by_sbsrid: dict[int, int] = {}
        self._stops: deque[int] = deque()
        """RQSTIDs whose SBSTOP is not answered, oldest first."""
        self._unacked: dict[int, dict[int, None]] = {}
        self._acks: dict[int, int] = {}
        """By SBSRID: the last event that was handled, when one acknowledgement does for all."""
        self.is_held = False
        """Whether the owner does not read at the moment, so that the server's silence is none."""
        self._txprid = 0
        self._rqstids = count(1)
        self._test_sent = False
        self._heard_at = self._sent_at = -1.0
        self._test_after = given.test_after if self.behaviour.has_heartbeat else 0.0
        self._actions = _members(enum_of(self.dialect, "sbeact"))
        self._codes = _members(enum_of(self.dialect, "blzcod"))
        self._request_words: dict[Any, tuple[int, ...]] = {}
        self._deadlines: dict[tuple[str, Any], float] = {}
        self._rings_at = 0.0

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
        """Leave when all that flies has ended, with DSCOND 7.

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
        """Say DSCOND 7 and end. Nothing is told of what was under way: see `disconnect`."""
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
        for txid, flying in self._flying.items():
            flying.state = CLIENT_TRANSACTION.after(flying.state, Act.LOST)
            code = BlazeCode.TRANSACTION_LOST
            events.append(TransactionFinished(txid, False, code, is_local=True))
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
        if is_ours and self.state in _OPEN:
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
        """Write a packet; the heartbeat's window starts anew."""
        self._write(packet)
        self._has_sent(now)

    def _has_sent(self, now: float) -> None:
        if self.heartbeat and now != self._sent_at and self._state in _OPEN:
            self._sent_at = now
            self._timers.set(Act.ACCEPT, now + _HEARTBEAT_SHARE * self.heartbeat)

    def test(self, now: float) -> None:
        """Ask the server for a heartbeat; when none comes in time, the connection ends.

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
            if self._test_after and self._state in _OPEN:
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
        deadline = self._deadlines[kind, id] = now + seconds
        # It may ring too early, when what it was set for has ended: that costs less than a search
        # for the earliest at every request.
        if len(self._deadlines) == 1 or deadline < self._rings_at:
            self._rings_at = deadline
            self._timers.set(Act.TIMEOUT, deadline)

    def _expire(self, now: float) -> list[SessionEvent]:
        """Give up what has not been answered in time."""
        due = [key for key, at in self._deadlines.items() if at <= now + 1e-6]
        events: list[SessionEvent] = []
        for kind, id in sorted(due, key=self._deadlines.__getitem__):
            del self._deadlines[kind, id]
            if kind == "tx":
                flying = self._flying.pop(id)
                flying.state = CLIENT_TRANSACTION.after(flying.state, Act.TIMEOUT)
                code = BlazeCode.TRANSACTION_TIMEOUT
                events.append(TransactionFinished(id, False, code, is_local=True))
            elif kind == "sub":
                feed = self._feeds[id]
                feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.TIMEOUT)
                events.append(SubscriptionRefused(id, BlazeCode.UNKNOWN_ERROR, is_local=True))
            else:
                events += self._stopped(id, Act.TIMEOUT)
        if self._deadlines:
            self._rings_at = min(self._deadlines.values())
            self._timers.set(Act.TIMEOUT, self._rings_at)
        return events + self._done(now)

    def _must_be_open(self, *, is_new: bool = False) -> None:
        allowed = (ClientState.CONNECTED,) if is_new else _OPEN
        if self.state not in allowed:
            raise StateError(f"not allowed in state {self.state.name}")

    # -- packets

    def _handle(self, frame: bytes, now: float) -> list[SessionEvent]:
        # Events and plain answers are nearly all that comes. They are read here, when nothing about
        # them is unusual; whatever is, is left to the general way, with the same outcome.
        if self._state in _OPEN:
            head = _WORD.unpack_from(frame)[0]
            if head == _EVENT_HEAD:
                _, sbsrid, word, sevtid, seconds, number, _ = _EVENT.unpack_from(frame)
                action = word >> 25 & 7
                is_plain = word >> 28 in (1, 2) and action and not word & _EVENT_UNUSED
                if is_plain and sbsrid and sevtid:
                    self._alive(now)
                    kind, named = _KINDS[word >> 28], self._actions.get(action, action)
                    stamp = (seconds, number)
                    body = frame[_EVENT.size :]
                    return self._object_event(sbsrid, kind, named, sevtid, stamp, body, now)
            elif head == _ANSWER_HEAD:
                _, word, *txid = _ANSWER.unpack_from(frame)
                if word >> 29 in (1, 2) and not word & _ANSWER_UNUSED and txid[2] and txid[3]:
                    self._alive(now)
                    code = self._codes.get(word & 0xFFFF, word & 0xFFFF)
                    return self._answered((*txid,), word >> 29 == 1, code, now)
        return super()._handle(frame, now)

    def _react(
        self, name: str, fields: dict[str, int], packet: Any, reason: str, now: float
    ) -> list[SessionEvent]:
        if packet is None:
            return self._violation(f"{name}: {reason}", now)
        if fields["prover"] != VERSION:
            return self._violation(f"{name} in version {fields['prover']}", now)
        if name == "CONRES":
            return self._conres(packet, now)
        if name == "DSCOND" and self.state is not ClientState.ESTABLISHED:
            return self._end(Act.DSCOND, now, reason=packet.disres)
        if self.state not in _OPEN:
            return self._violation(f"{name} before the connection is agreed", now)
        if name == "TSTREQ":
            self._put(Heartbeat(tmstmp=self._tmstmp(now), connid=self.connid), now)
        elif name == "TXRESP":
            return self._txresp(packet, now)
        elif name == "SBSRES":
            return self._sbsres(packet, now)
        elif name == "SBSEVT":
            return self._sbsevt(packet, now)
        elif name == "SBSSPR":
            return self._sbsspr(packet)
        elif name != "HRTBET":
            return self._violation(f"{name} is for servers", now)
        return []

    def _conres(self, packet: ConnectionResponse, now: float) -> list[SessionEvent]:
        is_waiting = self.state is ClientState.WAIT_CONRES
        if packet.conres == ConnectionResult.REFUSED:
            if self.state in _OPEN:
                return self._end(Act.REFUSED, now, detail=f"refused: {packet.errcod!r}")
            if is_waiting:
                self._move(Act.REFUSED)
                return [ConnectionRefused(packet.errcod)]
        if not is_waiting or packet.connid is None or packet.conres not in (1, 2):
            return self._violation("an answer to a connection that was not asked for", now)
        self._move(Act.ACCEPTED)
        self._timers.cancel(Act.CONNECT)
        self.connid, self.heartbeat = packet.connid, packet.agrhbt
        if self.heartbeat:
            self._timers.set(Act.ACCEPT, now + _HEARTBEAT_SHARE * self.heartbeat)
        self._alive(now)
        is_reserved = packet.conres == ConnectionResult.ACCEPTED_WITH_RESERVE
        return [Connected(self.connid, self.heartbeat, is_reserved)]

    # -- transactions (SPEC §8.3)

    @property
    def flying(self) -> int:
        """Transactions that have no answer yet."""
        return len(self._flying)

    def transact(
        self,
        action: Action,
        value: NClassValue | None,
        now: float,
        *,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,
    ) -> TxId:
        """Send a transaction; gives its id, and `TransactionFinished` comes in any case.

        Raises:
            StateError: there is no connection, too many fly, or the dialect has no such request.
            EncodeError: the object or the action cannot be written.
        """
        nclsid = body = None
        if value is not None:
            first = self.dialect.first_index_of(value.model)
            nclsid, body = value.nclass.id, encode_nclass(value, encoding, first_index=first)
        return self.transact_body(
            action,
            nclsid,
            body,
            now,
            encoding=encoding,
            type=type,
            wants_result=wants_result,
            timeout=timeout,
        )

    def transact_body(
        self,
        action: Action | IntEnum,
        nclsid: int | None,
        body: bytes | None,
        now: float,
        *,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,
    ) -> TxId:
        """Like `transact`, for an object that is already encoded, or for none.

        Raises:
            StateError: there is no connection, too many fly, or the dialect has no such request.
            EncodeError: the action cannot be written.
        """
        self._must_be_open(is_new=True)
        if len(self._flying) >= self.settings.max_flying:
            raise StateError(f"{len(self._flying)} transactions fly already")
        shape = (type, action, wants_result, encoding, nclsid)
        words = self._request_words.get(shape)
        if words is None:
            words = self._request_words[shape] = self._words_of(*shape)
        given = self.settings
        made = self._next_txid()
        while made in self._flying:  # one that has been under way since the numbers began anew
            made = self._next_txid()
        if body is None:
            self._send(struct.pack(">7I", *words, *made, self.connid))
        else:
            size = _REQUEST.size + len(body)
            self._send(_REQUEST.pack(*words[:2], *made, size, words[2], self.connid) + body)
        self._has_sent(now)
        limit = given.request_timeout if timeout is None else timeout
        self._flying[made] = _Flying()
        self._await("tx", made, limit, now)
        return made

    def _next_txid(self) -> TxId:
        self._txprid = self._txprid % 0xFFFFFFFF + 1
        return self.settings.platform, self.settings.service, self.connid, self._txprid

    def _words_of(
        self,
        type: TransactionType,
        action: Action | IntEnum,
        wants_result: bool,
        encoding: Encoding,
        nclsid: int | None,
    ) -> tuple[int, ...]:
        """The words of a TXRQST that do not change: PKTHDR, TXREQW and, for an object, CLSENC."""
        parts: dict[str, Any] = {}
        if nclsid is not None:
            if encoding not in self.behaviour.encodings:
                raise StateError(f"dialect {self.dialect.name} does not work in {encoding.name}")
            parts = {"enctyp": encoding, "nclsid": nclsid, "body": b""}
        elif not self.behaviour.has_short_requests:
            raise StateError(f"dialect {self.dialect.name} has no request without an object")
        parts |= dict.fromkeys(("txplid", "txsvid", "txcnid", "txprid", "connid"), 1)
        packet = TransactionRequest(txtype=type, txactn=action, rsclrq=int(wants_result), **parts)
        raw = translate(packet, self.dialect).encode()
        words = struct.unpack(f">{len(raw) // 4}I", raw)
        return words[:2] if nclsid is None else (*words[:2], words[7])

    def cancel(self, txid: TxId, now: float) -> list[SessionEvent]:
        """Wait no longer for a transaction. The server may do it all the same.

        Raises:
            StateError: it does not fly.
        """
        if txid not in self._flying:
            raise StateError(f"transaction {txid} does not fly")
        self._land(txid, Act.CANCEL)
        finished = TransactionFinished(txid, False, BlazeCode.CLIENT_ABORTED, is_local=True)
        return [finished, *self._done(now)]

    def _land(self, txid: TxId, act: Act) -> None:
        flying = self._flying.pop(txid)
        flying.state = CLIENT_TRANSACTION.after(flying.state, act)
        del self._deadlines["tx", txid]

    def _answered(self, txid: TxId, is_ok: bool, code: Any, now: float) -> list[SessionEvent]:
        """An answer without a result."""
        if txid not in self._flying:
            self.counts["unknown_answers"] += 1
            return []
        self._land(txid, Act.TXRESP)
        finished = TransactionFinished(txid, is_ok, code)
        if self._state is ClientState.CONNECTED:
            return [finished]
        return [finished, *self._done(now)]

    def _txresp(self, packet: TransactionResponse, now: float) -> list[SessionEvent]:
        if packet.txid not in self._flying:
            self.counts["unknown_answers"] += 1
            return []
        value = encoding = None
        if packet.nclsid is not None and packet.enctyp is not None:
            encoding = self.dialect.encoding(packet.enctyp)
            if encoding is None:
                return self._violation(f"a result in the encoding {packet.enctyp}", now)
            try:
                value = self._object(packet.nclsid, encoding, packet.body)
            except DecodeError as error:
                return self._violation(f"a result that cannot be read: {error}", now)
        self._land(packet.txid, Act.TXRESP)
        finished = TransactionFinished(
            packet.txid,
            packet.txresl == TransactionResult.TXOK,
            packet.blzcod,
            False,
            packet.nclsid,
            encoding,
            packet.body,
            value,
        )
        return [finished, *self._done(now)]

    # -- subscriptions (SPEC §8.4)

    def subscribe(
        self,
        nclsid: int,
        now: float,
        *,
        kind: SubscriptionType = SubscriptionType.SNAPSHOT,
        mode: SubscriptionMode = SubscriptionMode.ALL,
        flow: FlowType = FlowType.ALL,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        since: Stamp | None = None,
    ) -> int:
        """Ask for a class's objects; gives the RQSTID that events will have.

        Args:
            nclsid: the class.
            now: the time.
            kind: whole objects, or deltas where they do.
            mode: what is stored, what changes, or both.
            flow: every change, or the last of each object.
            encoding: of the objects.
            since: only what is newer is downloaded: `position` of an earlier subscription.

        Raises:
            StateError: there is no connection.
            EncodeError: the dialect lacks something of this.
        """
        self._must_be_open(is_new=True)
        rqstid = next(self._rqstids)
        partial = DownloadType.ALL if since is None else DownloadType.PARTIAL
        self._put(
            SubscriptionRequest(
                sbstyp=kind,
                sbsmod=mode,
                flotyp=flow,
                dwltyp=partial,
                enctyp=encoding,
                nclsid=nclsid,
                connid=self.connid,
                rqstid=rqstid,
                tmstmp0=None if since is None else since[0],
                tmstmp1=None if since is None else since[1],
            ),
            now,
        )
        start = since or (0, 0)
        self._feeds[rqstid] = _Feed(nclsid, encoding, start, start)
        self._await("sub", rqstid, self.settings.request_timeout, now)
        return rqstid

    def position(self, rqstid: int) -> Stamp:
        """Up to where a subscription has come: resume with it, and nothing is lost or doubled.

        Servers of 2017 and 2019 do not sort what they download, so that it stays where it was
        until the download has ended.

        Raises:
            StateError: there is no such subscription; ask before the session ends.
        """
        return self._feed(rqstid).position

    def _feed(self, rqstid: int) -> _Feed:
        if rqstid not in self._feeds:
            raise StateError(f"there is no subscription {rqstid}")
        return self._feeds[rqstid]

    def unsubscribe(self, rqstid: int, now: float) -> None:
        """Stop a subscription; `SubscriptionEnded` comes, or nothing if it had not started.

        Raises:
            StateError: there is no such subscription, or it is being stopped.
        """
        feed = self._feed(rqstid)
        feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.CANCEL)
        if feed.state is Feed.CANCELLED:
            del self._deadlines["sub", rqstid]
        else:
            self._send_stop(rqstid, feed, now)

    def _send_stop(self, rqstid: int, feed: _Feed, now: float) -> None:
        self._unacked.pop(rqstid, None)
        self._stops.append(rqstid)
        self._put(SubscriptionStop(sbsrid=feed.sbsrid), now)
        self._await("stop", rqstid, self.settings.request_timeout, now)

    def acknowledge(self, rqstid: int, sevtid: int, now: float) -> None:
        """Tell the server that an event was handled; only without `is_auto_ack`.

        Raises:
            StateError: the event does not wait for it.
        """
        waiting = self._unacked.get(rqstid, {})
        if sevtid not in waiting:
            raise StateError(f"event {sevtid} of subscription {rqstid} waits for nothing")
        del waiting[sevtid]
        self._put_ack(self._feeds[rqstid].sbsrid, sevtid, now)

    def _put_ack(self, sbsrid: int, sevtid: int, now: float) -> None:
        if self.settings.has_cumulative_acks:
            self._acks[sbsrid] = sevtid
        else:
            self._send(_ACK.pack(_ACK_HEAD, sbsrid, sevtid))
        self._has_sent(now)

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once."""
        if self._acks:
            for sbsrid, sevtid in self._acks.items():
                self._send(_ACK.pack(_ACK_HEAD, sbsrid, sevtid))
            self._acks.clear()
        return super().data_to_send()

    def _sbsres(self, packet: SubscriptionResponse, now: float) -> list[SessionEvent]:
        rqstid = packet.rqstid
        feed = self._feeds.get(rqstid)
        if feed is None or feed.state not in (Feed.REQUESTED, Feed.CANCELLED):
            self.counts["unknown_answers"] += 1
            return []
        is_wanted = feed.state is Feed.REQUESTED
        self._deadlines.pop(("sub", rqstid), None)
        if packet.sbsrid is None or packet.sbresl not in (1, 2):
            feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.REFUSED)
            del self._feeds[rqstid]
            return [SubscriptionRefused(rqstid, packet.blzcod)] if is_wanted else []
        feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.ACCEPTED)
        feed.sbsrid = packet.sbsrid
        if not is_wanted:
            self._send_stop(rqstid, feed, now)
            return []
        self._by_sbsrid[packet.sbsrid] = rqstid
        is_partial = packet.sbresl == SubscriptionResult.SBSPART
        return [SubscriptionStarted(rqstid, packet.sbsrid, is_partial)]

    def _sbsevt(self, packet: SubscriptionEvent, now: float) -> list[SessionEvent]:
        if packet.sevttp in (1, 2) and packet.body is not None:
            kind, stamp = EventType(packet.sevttp), (packet.tmstmp0, packet.tmstmp1)
            return self._object_event(
                packet.sbsrid, kind, packet.sbeact, packet.sevtid, stamp, packet.body, now
            )
        rqstid, feed = self._fed(packet.sbsrid)
        if feed is None:
            return []
        if packet.sevttp == EventType.STOP:
            feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.STOP)
            self._forget(rqstid)
            return [SubscriptionEnded(rqstid, "server", packet.blzcod)]
        if packet.sevttp != EventType.DWNLEND:
            return self._violation(f"an event of type {packet.sevttp}", now)
        feed.is_downloading = False
        feed.position = feed.newest
        self._note(rqstid, packet.sbsrid, packet.sevtid, now)
        return [DownloadEnded(rqstid, packet.sevtid)]

    def _fed(self, sbsrid: int) -> tuple[int, _Feed | None]:
        """RQSTID and subscription of an event; no subscription if the event is to be dropped."""
        rqstid = self._by_sbsrid.get(sbsrid, 0)
        feed = self._feeds.get(rqstid)
        if feed is None or feed.state is not Feed.ACTIVE:
            self.counts["dropped_events"] += 1
            return rqstid, None
        return rqstid, feed

    def _note(self, rqstid: int, sbsrid: int, sevtid: int, now: float) -> None:
        """Acknowledge an event, or note that it waits for that."""
        if self.behaviour.has_acks:
            if self.settings.is_auto_ack:
                self._put_ack(sbsrid, sevtid, now)
            else:
                self._unacked.setdefault(rqstid, {})[sevtid] = None

    def _object_event(
        self,
        sbsrid: int,
        kind: EventType,
        action: IntEnum | int,
        sevtid: int,
        stamp: Stamp,
        body: bytes,
        now: float,
    ) -> list[SessionEvent]:
        rqstid, feed = self._fed(sbsrid)
        if feed is None:
            return []
        value = None
        if self.model is not None:
            encoding = feed.encoding
            if encoding is Encoding.INDEXDELTA and action != Action.DLT:
                encoding = Encoding.INDEXNOTZERO  # a whole object: what is absent is zero
            try:
                value = self._object(feed.nclsid, encoding, body)
            except DecodeError as error:
                return self._violation(f"an event that cannot be read: {error}", now)
        if kind is EventType.DATALIVE:
            feed.is_downloading = False
        if stamp > feed.newest:
            feed.newest = stamp
        if self.behaviour.is_ordered or not feed.is_downloading:
            feed.position = feed.newest
        self._note(rqstid, sbsrid, sevtid, now)
        return [ObjectReceived(rqstid, sevtid, kind, action, stamp, body, value)]

    def _forget(self, rqstid: int) -> None:
        feed = self._feeds.pop(rqstid)
        self._by_sbsrid.pop(feed.sbsrid, None)
        self._unacked.pop(rqstid, None)
        self._acks.pop(feed.sbsrid, None)

    def _sbsspr(self, packet: SubscriptionStopResponse) -> list[SessionEvent]:
        # Without an id it answers the oldest stop (erratum E14).
        found = next(
            (r for r in self._stops if packet.sbsrid in (None, self._feeds[r].sbsrid)), None
        )
        if found is None:
            self.counts["unknown_answers"] += 1
            return []
        del self._deadlines["stop", found]
        return self._stopped(found, Act.SBSSPR)

    def _stopped(self, rqstid: int, act: Act) -> list[SessionEvent]:
        feed = self._feeds[rqstid]
        feed.state = CLIENT_SUBSCRIPTION.after(feed.state, act)
        self._stops.remove(rqstid)
        self._forget(rqstid)
        return [SubscriptionEnded(rqstid, "client")]
