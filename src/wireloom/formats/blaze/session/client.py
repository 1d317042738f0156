"""The client's side of a Blaze connection (SPEC §8).

It connects, keeps the heartbeat, sends transactions and subscriptions, and acknowledges events. One
session is one connection: to resume on the next one, give it `position` as `since`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import count, repeat
from typing import Any

from wireloom.errors import DecodeError, StateError
from wireloom.formats.blaze.codes import (
    Action,
    ConnectionResult,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    SubscriptionMode,
    SubscriptionResult,
    SubscriptionType,
)
from wireloom.formats.blaze.dialects import enum_of
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import (
    VERSION,
    ConnectionResponse,
    Heartbeat,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStop,
    SubscriptionStopResponse,
    TransactionResponse,
)
from wireloom.formats.blaze.session.clientbase import (
    HEARTBEAT_SHARE,
    OPEN,
    ClientSettings,
    FeedState,
)
from wireloom.formats.blaze.session.clienttx import ClientTransactions
from wireloom.formats.blaze.session.events import (
    Connected,
    ConnectionRefused,
    DownloadEnded,
    ObjectReceived,
    SessionEvent,
    Stamp,
    SubscriptionEnded,
    SubscriptionRefused,
    SubscriptionStarted,
    TransactionsFinished,
)
from wireloom.formats.blaze.session.quick import ACK_HEAD
from wireloom.formats.blaze.session.runs import Run, head_of
from wireloom.formats.blaze.session.states import (
    CLIENT_SUBSCRIPTION,
    Act,
    ClientState,
    Feed,
)

__all__ = ["ClientSession", "ClientSettings"]

_ACK = struct.Struct(">3I")
_EVENT_HEAD = head_of(SubscriptionEvent.code, 7)
_ANSWER_HEAD = head_of(TransactionResponse.code, 6)
_LIVE = EventType.DATALIVE
_DATA_KINDS = {int(kind): kind for kind in (EventType.DATADWNL, EventType.DATALIVE)}
_EVENT_UNUSED = 0x01FF0000
_ANSWER_UNUSED = 0x1FFF0000
"""RESCLS included: an answer with a result is read in the general way."""


def _members(enum: type[IntEnum] | None) -> dict[int, IntEnum]:
    """The members of an enum by their numbers."""
    return {} if enum is None else {int(member): member for member in enum}


class ClientSession(ClientTransactions):
    """The client's side of one connection: create it once TCP is connected, then call `connect`."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        super().__init__(settings)
        self._by_sbsrid: dict[int, int] = {}
        self._acks: dict[int, int] = {}
        """By SBSRID: the last event that was handled, if acknowledgements are cumulative."""
        self._rqstids = count(1)
        self._actions = _members(enum_of(self.dialect, "sbeact"))
        self._codes = _members(enum_of(self.dialect, "blzcod"))

    # -- packets

    def _take_run(self, run: Run, now: float, events: list[SessionEvent]) -> int:
        # Nearly all packets are events and plain answers.
        if self._state not in OPEN:
            return 0
        head = run[0][0]
        if head == _EVENT_HEAD:
            is_taken = self._good_events(run, now, events)
        else:
            is_taken = head == _ANSWER_HEAD and self._good_answers(run, now, events)
        if not is_taken:
            return 0
        self._alive(now)
        return run[3]

    def _good_events(self, run: Run, now: float, events: list[SessionEvent]) -> bool:
        """Take the objects of one subscription; False if one of them may be none."""
        words, (sevtids, numbers), bodies, _ = run
        _, sbsrid, word, _, seconds, _, _ = words
        kind, action = _DATA_KINDS.get(word >> 28), word >> 25 & 7
        if kind is None or not (action and sbsrid) or 0 in sevtids or word & _EVENT_UNUSED:
            return False
        stamps = [(seconds, number) for number in numbers]
        what = self._actions.get(action, action)
        events += self._objects(sbsrid, kind, what, sevtids, stamps, bodies, now)
        return True

    def _good_answers(self, run: Run, now: float, events: list[SessionEvent]) -> bool:
        """Take answers without a result; False if one of them may have one, or be none."""
        words, (numbers,), _, count = run
        _, word, *sender, _ = words
        if word >> 29 not in (1, 2) or word & _ANSWER_UNUSED or not sender[2] or 0 in numbers:
            return False
        if sender != [self.settings.platform, self.settings.service, self.connid]:
            self.counts["unknown_answers"] += count
            return True
        known = list(map(self._flying.pop, numbers, repeat(None)))
        if None in known:
            numbers = [n for n, at in zip(numbers, known, strict=True) if at is not None]
            self.counts["unknown_answers"] += count - len(numbers)
        code = self._codes.get(word & 0xFFFF, word & 0xFFFF)
        ended = TransactionsFinished(self.txid(0)[:3], numbers, word >> 29 == 1, code)
        events += [ended] if self.settings.gathers_answers else ended
        if self._state is not ClientState.CONNECTED:
            events += self._done(now)
        return True

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
        if self.state not in OPEN:
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
            if self.state in OPEN:
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
            self._timers.set(Act.ACCEPT, now + HEARTBEAT_SHARE * self.heartbeat)
        self._alive(now)
        is_reserved = packet.conres == ConnectionResult.ACCEPTED_WITH_RESERVE
        return [Connected(self.connid, self.heartbeat, is_reserved)]

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
        """Ask for a class's objects; returns the RQSTID that events will have.

        Args:
            nclsid: the class.
            now: the time.
            kind: whole objects, or deltas where they suffice.
            mode: stored objects, changes, or both.
            flow: every change, or the last of each object.
            encoding: of the objects.
            since: only newer objects are downloaded: `position` of an earlier subscription.

        Raises:
            StateError: there is no connection.
            EncodeError: the dialect lacks something that is asked for.
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
        self._feeds[rqstid] = FeedState(nclsid, encoding, start, start)
        self._await("sub", rqstid, self.settings.request_timeout, now)
        return rqstid

    def position(self, rqstid: int) -> Stamp:
        """How far a subscription has come: resume from there, and nothing is lost or doubled.

        Servers of 2017 and 2019 do not sort what they download, so it does not advance until the
        download has ended.

        Raises:
            StateError: there is no such subscription; ask before the session ends.
        """
        return self._feed(rqstid).position

    def _feed(self, rqstid: int) -> FeedState:
        if rqstid not in self._feeds:
            raise StateError(f"there is no subscription {rqstid}")
        return self._feeds[rqstid]

    def unsubscribe(self, rqstid: int, now: float) -> None:
        """Stop a subscription; `SubscriptionEnded` follows, or nothing if it had not started.

        Raises:
            StateError: there is no such subscription, or it is being stopped.
        """
        feed = self._feed(rqstid)
        feed.state = CLIENT_SUBSCRIPTION.after(feed.state, Act.CANCEL)
        if feed.state is Feed.CANCELLED:
            del self._deadlines["sub", rqstid]
        else:
            self._send_stop(rqstid, feed, now)

    def _send_stop(self, rqstid: int, feed: FeedState, now: float) -> None:
        feed.unacked.clear()
        self._stops.append(rqstid)
        self._put(SubscriptionStop(sbsrid=feed.sbsrid), now)
        self._await("stop", rqstid, self.settings.request_timeout, now)

    def acknowledge(self, rqstid: int, sevtids: int | Sequence[int], now: float) -> None:
        """Tell the server that events were handled; only without `is_auto_ack`.

        Args:
            rqstid: their subscription.
            sevtids: the event, or several in their order.
            now: the time.

        Raises:
            StateError: an event does not wait for it.
        """
        feed = self._feeds.get(rqstid)
        ids = (sevtids,) if isinstance(sevtids, int) else sevtids
        waiting = {} if feed is None else feed.unacked
        for sevtid in ids:
            if sevtid not in waiting:
                raise StateError(f"event {sevtid} of subscription {rqstid} waits for nothing")
            del waiting[sevtid]
        if feed is not None:
            self._put_acks(feed.sbsrid, ids, now)

    def _put_acks(self, sbsrid: int, sevtids: Sequence[int], now: float) -> None:
        if not sevtids:
            return
        if self.settings.has_cumulative_acks:
            self._acks[sbsrid] = sevtids[-1]
        else:
            self._send_packets((ACK_HEAD, sbsrid, list(sevtids)), len(sevtids))
        self._has_sent(now)

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once."""
        if self._acks:
            # First of all: nothing may follow a DSCOND.
            acks = [_ACK.pack(ACK_HEAD, *ids) for ids in self._acks.items()]
            self._unsent[:0] = acks
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
            return self._objects(
                packet.sbsrid,
                kind,
                packet.sbeact,
                (packet.sevtid,),
                (stamp,),
                (packet.body,),
                now,
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
        self._note(feed, (packet.sevtid,), now)
        return [DownloadEnded(rqstid, packet.sevtid)]

    def _fed(self, sbsrid: int, count: int = 1) -> tuple[int, FeedState | None]:
        """RQSTID and subscription of events; no subscription if they are to be dropped."""
        rqstid = self._by_sbsrid.get(sbsrid, 0)
        feed = self._feeds.get(rqstid)
        if feed is None or feed.state is not Feed.ACTIVE:
            self.counts["dropped_events"] += count
            return rqstid, None
        return rqstid, feed

    def _note(self, feed: FeedState, sevtids: Sequence[int], now: float) -> None:
        """Acknowledge events, or note that they wait to be acknowledged."""
        if self.behaviour.has_acks:
            if self.settings.is_auto_ack:
                self._put_acks(feed.sbsrid, sevtids, now)
            else:
                feed.unacked.update(dict.fromkeys(sevtids))

    def _objects(
        self,
        sbsrid: int,
        kind: EventType,
        action: IntEnum | int,
        sevtids: Sequence[int],
        stamps: Sequence[Stamp],
        bodies: Sequence[bytes],
        now: float,
    ) -> list[SessionEvent]:
        """Objects of one subscription have come."""
        rqstid, feed = self._fed(sbsrid, len(bodies))
        if feed is None:
            return []
        values: Iterable[NClassValue | None] = repeat(None, len(bodies))
        flaw = ""
        if self.model is not None:
            values, flaw = self._values(feed, action, bodies)
        events: list[SessionEvent] = [
            ObjectReceived(rqstid, sevtid, kind, action, stamp, body, value)
            for sevtid, stamp, body, value in zip(sevtids, stamps, bodies, values, strict=False)
        ]
        if events:
            if kind is _LIVE:
                feed.is_downloading = False
            feed.newest = max(feed.newest, *stamps[: len(events)])
            if self.behaviour.is_ordered or not feed.is_downloading:
                feed.position = feed.newest
            self._note(feed, sevtids[: len(events)], now)
        if flaw:
            events += self._violation(f"an event that cannot be read: {flaw}", now)
        return events

    def _values(
        self, feed: FeedState, action: IntEnum | int, bodies: Sequence[bytes]
    ) -> tuple[list[NClassValue | None], str]:
        """The objects in bodies, up to one that cannot be read; and why not."""
        encoding = feed.encoding
        if encoding is Encoding.INDEXDELTA and action != Action.DLT:
            encoding = Encoding.INDEXNOTZERO  # a whole object: absent fields are zero
        values: list[NClassValue | None] = []
        try:
            for body in bodies:
                values.append(self._object(feed.nclsid, encoding, body))  # noqa: PERF401
        except DecodeError as error:
            return values, str(error)
        return values, ""

    def _forget(self, rqstid: int) -> None:
        feed = self._feeds.pop(rqstid)
        self._by_sbsrid.pop(feed.sbsrid, None)
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
