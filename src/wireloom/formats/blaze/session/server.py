"""The server's side of a Blaze connection (SPEC §8).

It validates and enforces the rules; what is stored, who may do what, and what a transaction does
are up to its owner: an event asks, a method answers. It holds no socket and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

from wireloom.errors import DecodeError, StateError
from wireloom.formats.blaze.body import decode_nclass, encode_nclass
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    DisconnectReason,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    RefusalCode,
    SubscriptionMode,
    SubscriptionResult,
    SubscriptionType,
)
from wireloom.formats.blaze.packets import (
    VERSION,
    Disconnected,
    Heartbeat,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStopResponse,
)
from wireloom.formats.blaze.session.events import (
    ConnectionRequested,
    DownloadWanted,
    RequestRejected,
    SessionEvent,
    Stamp,
    SubscriptionEnded,
    SubscriptionRequested,
)
from wireloom.formats.blaze.session.quick import ACK_HEAD, REQUEST_HEAD
from wireloom.formats.blaze.session.runs import Run
from wireloom.formats.blaze.session.serverbase import OPEN, ServerSettings
from wireloom.formats.blaze.session.servertx import ServerTransactions
from wireloom.formats.blaze.session.states import (
    Act,
    ServerState,
    Service,
)
from wireloom.formats.blaze.session.subscriptions import (
    Batch,
    Change,
    Outgoing,
    ServerSubscription,
)

__all__ = ["ServerSession", "ServerSettings"]

_WITH_CONNID = {"TSTREQ", "HRTBET", "DSCOND", "TXRQST", "SBSREQ"}


class ServerSession(ServerTransactions):
    """The server's side of one connection.

    Args:
        settings: what is granted.
        now: the time at which the connection was accepted.
        event_ids: the broker's counters of SEVTID; its own if there is only one session.
    """

    # -- packets

    def _take_run(self, run: Run, now: float, events: list[SessionEvent]) -> int:
        # Nearly all packets are acknowledgements and good transactions.
        if self._state is not ServerState.CONNECTED:
            return 0
        words, columns, _, count = run
        if words[0] == REQUEST_HEAD:
            taken = self._good_requests(run, now, events)
        elif words[0] == ACK_HEAD and words[1] and 0 not in columns[0]:
            self._sbsack(words[1], columns[0])
            taken = count
        else:
            return 0
        if taken:
            self._alive(now)
        return taken

    def _react(
        self, name: str, fields: dict[str, int], packet: Any, reason: str, now: float
    ) -> list[SessionEvent]:
        if name == "CONREQ":
            return self._conreq(fields, packet, now)
        invalid = DisconnectReason.INVALID_CONNECTION_STATUS
        if self.state not in OPEN:
            if name == "DSCOND" and packet is not None:
                return self._dscond(packet, now)
            return self._violation(f"{name} before the connection is agreed", now, invalid)
        if fields["prover"] != VERSION:
            return self._violation(f"{name} in version {fields['prover']}", now, invalid)
        if name in _WITH_CONNID and fields.get("connid") != self.connid:
            given = fields.get("connid", "none")
            return self._violation(f"{name} with CONNID {given}", now, invalid)
        if name == "TXRQST":
            return self._txrqst(fields, packet, reason, now)
        if name == "SBSREQ":
            return self._sbsreq(fields, packet, reason, now)
        if name == "SBSACK":
            self._sbsack(fields["sbsrid"], (fields["sevtid"],))
        elif name == "SBSTOP":
            return self._sbstop(fields["sbsrid"])
        elif packet is None:
            return self._violation(f"{name}: {reason}", now)
        elif name == "TSTREQ":
            self._write(Heartbeat(tmstmp=self._tmstmp(now)))
        elif name == "DSCOND":
            return self._dscond(packet, now)
        elif name != "HRTBET":
            return self._violation(f"{name} is for clients", now, invalid)
        return []

    def _unreadable(self, error: DecodeError, now: float) -> list[SessionEvent]:
        # No packet has version 0, but who begins with it is told what is wrong.
        if self.state is ServerState.ACCEPTED and error.code == "prover":
            return self._refuse(RefusalCode.PROTOCOL_VERSION_TOO_OLD, now)
        return super()._unreadable(error, now)

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
        sbsrid, request = self._take_request(rqstid)
        if is_stored is None:
            found = None if self.model is None else self.model.nclass(request.nclsid)
            is_stored = found is None or found.persistent
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
        if sbsrid in self._unwanted:
            self._unwanted.remove(sbsrid)
            self._ended += self._sbstop(sbsrid)
            self._timers.set(Act.STOP, now)  # reported at once
        return sbsrid

    def refuse_subscription(self, rqstid: int, code: BlazeCode) -> None:
        """Refuse a subscription.

        Raises:
            StateError: there is no such request.
        """
        sbsrid, _ = self._take_request(rqstid)
        self._sbsko(rqstid, code)
        if sbsrid in self._unwanted:
            self._unwanted.remove(sbsrid)
            self._sbstop(sbsrid)

    def _take_request(self, rqstid: int) -> tuple[int, SubscriptionRequested]:
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

    def download(
        self,
        sbsrid: int,
        rows: Iterable[Change],
        is_last: bool,
        *,
        last: Stamp | None = None,
        forgotten: Stamp = (0, 0),
    ) -> bool:
        """Rows that were asked for, in stamp order; False if the subscription has ended.

        Where deletions that the client has not been told of are forgotten, everything is sent
        anew, behind an RST.

        Args:
            sbsrid: the subscription.
            rows: its rows.
            is_last: whether there are no more.
            last: the newest stamp of the class before they were read.
            forgotten: up to here, the store does not know any more what was deleted.

        Raises:
            StateError: none were asked for, or they are not newer than those before.
        """
        subscription = self.subscriptions.get(sbsrid)
        if subscription is None:
            return False
        if not subscription.add_rows(rows, is_last, last=last, forgotten=forgotten):
            self.counts["downloads_anew"] += 1
            subscription.start_over(self._forget_all(subscription.request.nclsid))
        return True

    def _forget_all(self, nclsid: int) -> Change:
        """A change that tells a subscriber to forget every object; no position to resume from."""
        empty = b"\0\0\0\0"
        bodies = {Encoding.INDEXNOTZERO: empty}
        if self.model is not None:
            value = decode_nclass(self.model, nclsid, empty, first_index=self._first_index)
            bodies[Encoding.ALL] = encode_nclass(value, Encoding.ALL, first_index=self._first_index)
        return Change(nclsid, Action.RST, (0, 0), None, bodies)

    def publish(self, change: Change, now: float) -> list[SessionEvent]:
        """An object has changed: notify the subscription to its class, if there is one.

        Changes of a class come in stamp order; one that is not newer was already sent.
        """
        for subscription in self.subscriptions.values():
            if subscription.request.nclsid == change.nclsid:  # there is one for each class
                return self._enqueue(subscription, (change,), now)
        return []

    def publish_all(self, batch: Batch, now: float) -> list[SessionEvent]:
        """The same for several changes of one class; those that need not wait are written."""
        for subscription in self.subscriptions.values():
            if subscription.request.nclsid == batch.nclsid:
                done = self._publish_at_once(subscription, batch) if subscription.is_plain else 0
                rest = batch.changes[done:] if done else batch.changes
                return self._enqueue(subscription, rest, now) if rest else []
        return []

    def _publish_at_once(self, subscription: ServerSubscription, batch: Batch) -> int:
        """Write changes that can be sent at once; returns how many."""
        outstanding, settings = subscription.outstanding, self.settings
        has_acks, count = self.behaviour.has_acks, len(batch.ids)
        if has_acks:
            count = min(count, settings.window - len(outstanding))
        if count <= 0 or self._at_once >= settings.high_water:
            return 0
        data = batch.packets(self._numbers, subscription, count)
        if len(data) > settings.high_water or not subscription.pass_on(batch.changes[:count]):
            return 0
        self._send(data)
        self._at_once += len(data)
        self.events_sent += count
        if has_acks:
            outstanding.add(batch.ids[:count])
        return count

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
        self, fields: dict[str, int], packet: SubscriptionRequest | None, reason: str, now: float
    ) -> list[SessionEvent]:
        rqstid = fields["rqstid"]
        if not rqstid:
            return self._violation("SBSREQ with RQSTID 0", now)
        sbsrid = next(self._sbsrids)  # refused requests use one up, as in the implementations
        code = self._flaw_of_request(rqstid, packet)
        if packet is None or code is not None:
            self.counts["rejected"] += 1
            code = code or BlazeCode.REQUEST_MALFORMED
            self._sbsko(rqstid, code)
            return [RequestRejected("SBSREQ", rqstid, code, reason)]
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
        self._requested[rqstid] = sbsrid, request
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
        requests = [subscription.request for subscription in self.subscriptions.values()]
        requests += [request for _, request in self._requested.values()]
        if any(request.nclsid == packet.nclsid for request in requests):
            return BlazeCode.SBS_ALREADY_STARTED
        if len(requests) >= self.settings.max_subscriptions:
            return BlazeCode.SERVER_ERROR
        return None

    def _sbsack(self, sbsrid: int, sevtids: Sequence[int]) -> None:
        subscription = self.subscriptions.get(sbsrid)
        is_cumulative = self.settings.has_cumulative_acks
        for sevtid in sevtids:
            if subscription is None or not subscription.outstanding.acknowledge(
                sevtid, is_cumulative
            ):
                self.counts["unknown_acks"] += 1

    def _sbstop(self, sbsrid: int) -> list[SessionEvent]:
        if any(sbsrid == given for given, _ in self._requested.values()):
            self._unwanted.add(sbsrid)  # it is answered behind the request
            return []
        subscription = self.subscriptions.pop(sbsrid, None)
        if subscription is None:
            self._write(
                SubscriptionStopResponse(
                    sbresl=SubscriptionResult.SBSKO,
                    blzcod=BlazeCode.SBS_NOT_FOUND,
                    sbsrid=sbsrid or 1,
                )
            )
            if not sbsrid:  # it is repeated, and the codec does not write a zero
                self._send(self._unsent.pop()[:-4] + bytes(4))
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
        stamp = event.stamp
        if event.kind is EventType.STOP:
            stamp = self._tmstmp(self._last_received), 0  # erratum E30
        elif self.behaviour.has_acks:
            subscription.outstanding.add(range(sevtid, sevtid + 1))
        self._send_packets(
            self._numbers.event(
                subscription.sbsrid, event.kind, event.action, sevtid, stamp, event.body
            )
        )
        return len(self._unsent[-1])
