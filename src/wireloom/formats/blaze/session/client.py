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
            packet = packets[place]
            if packet[0] == _EVENT_HEAD:
                _, sbsrid, word, sevtid, seconds, number, _, body = packet
                kind, action = _DATA_KINDS.get(word >> 28), word >> 25 & 7
                if kind is None or not (action and sbsrid and sevtid) or word & _EVENT_UNUSED:
                    break
                named = self._actions.get(action, action)
                stamp = (seconds, number)
                events += self._object_event(sbsrid, kind, named, sevtid, stamp, body, now)
            elif packet[0] == _ANSWER_HEAD:
                _, word, plid, svid, cnid, prid, _ = packet
                if word >> 29 not in (1, 2) or word & _ANSWER_UNUSED or not (cnid and prid):
                    break
                code = self._codes.get(word & 0xFFFF, word & 0xFFFF)
                txid = (plid, svid, cnid, prid)
                if self._flying.pop(txid, None) is None:
                    self.counts["unknown_answers"] += 1
                else:
                    events.append(TransactionFinished(txid, word >> 29 == 1, code))
                    if self._state is not ClientState.CONNECTED:
                        events += self._done(now)
            else:
                break
            place += 1
        if place > start:
            self._alive(now)
        return place

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
        self._note(feed, packet.sevtid, now)
        return [DownloadEnded(rqstid, packet.sevtid)]

    def _fed(self, sbsrid: int) -> tuple[int, FeedState | None]:
        """RQSTID and subscription of an event; no subscription if the event is to be dropped."""
        rqstid = self._by_sbsrid.get(sbsrid, 0)
        feed = self._feeds.get(rqstid)
        if feed is None or feed.state is not Feed.ACTIVE:
            self.counts["dropped_events"] += 1
            return rqstid, None
        return rqstid, feed

    def _note(self, feed: FeedState, sevtid: int, now: float) -> None:
        """Acknowledge an event, or note that it waits to be acknowledged."""
        if self.behaviour.has_acks:
            if self.settings.is_auto_ack:
                self._put_ack(feed.sbsrid, sevtid, now)
            else:
                feed.unacked[sevtid] = None

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
                encoding = Encoding.INDEXNOTZERO  # a whole object: absent fields are zero
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
        self._note(feed, sevtid, now)
        return [ObjectReceived(rqstid, sevtid, kind, action, stamp, body, value)]

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
