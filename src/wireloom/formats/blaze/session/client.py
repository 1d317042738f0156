"""The client's side of a Blaze connection (SPEC §8).

It connects, keeps the heartbeat, sends transactions and subscriptions, and acknowledges events. One
session is one connection: to resume on the next one, give it `position` as `since`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from itertools import count
from typing import Any

from wireloom.errors import DecodeError, StateError
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
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
from wireloom.formats.blaze.packets import (
    VERSION,
    ConnectionResponse,
    Heartbeat,
    SubscriptionAck,
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
    TransactionFinished,
)
from wireloom.formats.blaze.session.states import (
    CLIENT_SUBSCRIPTION,
    Act,
    ClientState,
    Feed,
)

__all__ = ["ClientSession", "ClientSettings"]

_ACK = struct.Struct(">3I")
_EVENT_HEAD = VERSION << 26 | 7 << 22 | SubscriptionEvent.code << 16
_ANSWER_HEAD = VERSION << 26 | 6 << 22 | TransactionResponse.code << 16
_ACK_HEAD = VERSION << 26 | 3 << 22 | SubscriptionAck.code << 16
_LIVE = EventType.DATALIVE
_Object = tuple[EventType, IntEnum | int, int, Stamp, bytes]
"""What an event with an object says: kind, action, SEVTID, stamp and body."""
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

    def _take_plain(
        self, packets: Sequence[list[Any]], start: int, now: float, events: list[SessionEvent]
    ) -> int:
        # Nearly all packets are events and plain answers.
        place, end = start, len(packets)
        while place < end and self._state in OPEN:
            head, before = packets[place][0], place
            if head == _EVENT_HEAD:
                place = self._good_events(packets, place, now, events)
            elif head == _ANSWER_HEAD:
                place = self._good_answers(packets, place, now, events)
            if place == before:
                break
        if place > start:
            self._alive(now)
        return place

    def _good_events(
        self, packets: Sequence[list[Any]], start: int, now: float, events: list[SessionEvent]
    ) -> int:
        """Take the objects of one subscription; gives the place of what is none of them."""
        objects: list[_Object] = []
        actions = self._actions
        wanted: int = packets[start][1]
        place = start
        for place in range(start, len(packets)):
            packet = packets[place]
            if packet[0] != _EVENT_HEAD:
                break
            _, sbsrid, word, sevtid, seconds, number, _, body = packet
            kind, action = _DATA_KINDS.get(word >> 28), word >> 25 & 7
            if sbsrid != wanted or kind is None or not (action and sbsrid and sevtid):
                break
            if word & _EVENT_UNUSED:
                break
            objects.append((kind, actions.get(action, action), sevtid, (seconds, number), body))
        else:
            place += 1
        events += self._objects(wanted, objects, now)
        return place

    def _good_answers(
        self, packets: Sequence[list[Any]], start: int, now: float, events: list[SessionEvent]
    ) -> int:
        """Take answers without a result; gives the place of what is none."""
        take = self._flying.pop
        before = -1
        is_ok, code = False, BlazeCode.NO_ERROR
        for place in range(start, len(packets)):
            packet = packets[place]
            if packet[0] != _ANSWER_HEAD:
                return place
            _, word, plid, svid, cnid, prid, _ = packet
            if word != before:
                if word >> 29 not in (1, 2) or word & _ANSWER_UNUSED:
                    return place
                before, is_ok = word, word >> 29 == 1
                code = self._codes.get(word & 0xFFFF, word & 0xFFFF)
            if not (cnid and prid):
                return place
            txid = (plid, svid, cnid, prid)
            if take(txid, None) is None:
                self.counts["unknown_answers"] += 1
                continue
            events.append(TransactionFinished(txid, is_ok, code))
            if self._state is not ClientState.CONNECTED:
                events += self._done(now)
                if self._is_closed:
                    return place + 1
        return len(packets)

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
        for sevtid in (sevtids,) if isinstance(sevtids, int) else sevtids:
            if feed is None or sevtid not in feed.unacked:
                raise StateError(f"event {sevtid} of subscription {rqstid} waits for nothing")
            del feed.unacked[sevtid]
            self._put_ack(feed.sbsrid, sevtid, now)

    def _put_ack(self, sbsrid: int, sevtid: int, now: float) -> None:
        if self.settings.has_cumulative_acks:
            self._acks[sbsrid] = sevtid
        else:
            self._send(_ACK.pack(_ACK_HEAD, sbsrid, sevtid))
        self._has_sent(now)

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once."""
        if self._acks:
            # First of all: nothing may follow a DSCOND.
            acks = [_ACK.pack(_ACK_HEAD, *ids) for ids in self._acks.items()]
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
            given = (kind, packet.sbeact, packet.sevtid, stamp, packet.body)
            return self._objects(packet.sbsrid, (given,), now)
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
                for sevtid in sevtids:
                    self._put_ack(feed.sbsrid, sevtid, now)
            else:
                feed.unacked.update(dict.fromkeys(sevtids))

    def _objects(self, sbsrid: int, objects: Sequence[_Object], now: float) -> list[SessionEvent]:
        """Objects of one subscription have come."""
        if not objects:
            return []
        rqstid, feed = self._fed(sbsrid, len(objects))
        if feed is None:
            return []
        has_model, is_ordered = self.model is not None, self.behaviour.is_ordered
        events: list[SessionEvent] = []
        value = None
        for kind, action, sevtid, stamp, body in objects:
            if has_model:
                encoding = feed.encoding
                if encoding is Encoding.INDEXDELTA and action != Action.DLT:
                    encoding = Encoding.INDEXNOTZERO  # a whole object: absent fields are zero
                try:
                    value = self._object(feed.nclsid, encoding, body)
                except DecodeError as error:
                    self._note(feed, [each[2] for each in objects[: len(events)]], now)
                    why = f"an event that cannot be read: {error}"
                    return events + self._violation(why, now)
            if kind is _LIVE:
                feed.is_downloading = False
            if stamp > feed.newest:
                feed.newest = stamp
            if is_ordered or not feed.is_downloading:
                feed.position = feed.newest
            events.append(ObjectReceived(rqstid, sevtid, kind, action, stamp, body, value))
        self._note(feed, [each[2] for each in objects], now)
        return events

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
