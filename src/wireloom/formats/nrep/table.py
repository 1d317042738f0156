"""The entry point's table: who publishes what, and which peers the sockets connect. No I/O.

A shell makes one `Table` and, for each connection, one `Peer` with `Table.connect`. It feeds the
peer what its connection delivered, and sends what every peer has to send::

    peer.receive(data, now)  →  happenings       table.next_timeout(now)
    peer.data_to_send()      →  bytes            table.handle_timeout(now)

A peer is a `wireloom.sessions.Session`; what it receives may give any other peer something to send.
A leg of a socket is looked up by (connection, socket id), so no peer can touch another's socket.
"""

from __future__ import annotations

import secrets
import struct
from collections import deque
from collections.abc import Callable, Iterable

from wireloom.errors import DecodeError, StateError
from wireloom.formats.nrep.events import (
    Happening,
    InstancePublished,
    InstanceRemoved,
    OpenRejected,
    PacketIgnored,
    PeerFailed,
    PublishRejected,
    SocketEnded,
    SocketReady,
    SocketRequested,
)
from wireloom.formats.nrep.extensions import (
    ALL_FEATURES,
    END,
    NO_FEATURES,
    Extension,
    Feature,
    Reason,
    Tag,
    number,
    packet,
    write_tags,
)
from wireloom.formats.nrep.ids import ID_LEN, ZERO_ID, app_id
from wireloom.formats.nrep.negotiated import INITIAL_WINDOW, Negotiated
from wireloom.formats.nrep.packets import (
    HEADER_LEN,
    PACKETS,
    Hello,
    InstanceReply,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
)
from wireloom.formats.nrep.quotas import Behaviour, Quotas
from wireloom.formats.nrep.records import Instance, Leg, Peer, Socket
from wireloom.formats.nrep.rules import Rules
from wireloom.framing import Splitter
from wireloom.wire import Buffer, Limits

__all__ = ["INITIAL_WINDOW", "Peer", "Table"]

_HEAD = struct.Struct("<BBII10sI")
"""The start of a Socket Data: reserved, type, nonce, content size, socket id, data length."""

_MAX_LISTED = 255
"""The count of an App Instance Reply is one byte."""

_MAX_RETIRED = 65_536
"""Closed ids that are remembered; 80 random bits make the oldest ones safe to forget."""

_DATA_HEAD = HEADER_LEN + ID_LEN + 4
_SOCKET_AT = slice(HEADER_LEN, HEADER_LEN + ID_LEN)

_ACCEPT, _REFUSE, _CLOSE = SocketFlags.ACCEPT, SocketFlags.REFUSE, SocketFlags.CLOSE


def _random_id() -> bytes:
    return secrets.token_bytes(ID_LEN)


class Table(Negotiated):
    """All connections, instances and sockets of one entry point.

    Args:
        rules: `recommended`, or `legacy` for the faults of the first implementation.
        quotas: the limits.
        features: what is offered to clients that understand it; none with `legacy` rules.
        reject_with_zero_id: whether "no such instance" names the zero socket, as the first
            implementation does. Its client stops working at the second such answer; False
            gives each a random id.
        new_instance_id: makes instance ids, random by default.
        new_socket_id: makes socket ids, random by default.
    """

    def __init__(
        self,
        rules: Behaviour = "recommended",
        quotas: Quotas | None = None,
        *,
        features: Feature = ALL_FEATURES,
        reject_with_zero_id: bool = True,
        new_instance_id: Callable[[], bytes] = _random_id,
        new_socket_id: Callable[[], bytes] = _random_id,
    ) -> None:
        self.quotas = quotas or Quotas()
        self.is_draining = False
        self._is_legacy = rules == "legacy"
        self._features = NO_FEATURES if self._is_legacy else features
        self._reject_with_zero_id = reject_with_zero_id
        self._new_instance_id = new_instance_id
        self._new_socket_id = new_socket_id
        self._peers: dict[int, Peer] = {}
        self._last_peer = 0
        self._instances: dict[bytes, Instance] = {}
        self._apps: dict[bytes, list[Instance]] = {}
        self._turns: dict[bytes, int] = {}
        self._watchers: dict[bytes, set[Peer]] = {}
        self._used_ids: dict[bytes, Socket | None] = {}
        """Sockets by each of their ids; None for one that was closed recently."""
        self._retired: deque[tuple[float, bytes]] = deque()
        self._waiting: deque[Socket] = deque()
        """Sockets to be accepted, by deadline, which is also by age: all have the same timeout."""
        self._sockets = 0
        self._unsent: list[Peer] = []
        self.relayed_bytes = 0
        """Bytes of sockets that were relayed so far."""
        self.finds = 0
        """Requests for instances so far."""
        self._now = 0.0
        self._happened: list[Happening] = []

    # --- what a shell asks ----------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """Connections that are not closed."""
        return len(self._peers)

    @property
    def sockets(self) -> int:
        """Sockets that are open or wait to be accepted."""
        return self._sockets

    @property
    def instances(self) -> int:
        """Publications that can be found."""
        return sum(map(len, self._apps.values()))

    def apps(self) -> list[tuple[str, int]]:
        """What is published: descriptions, and the number of instances of each."""
        return [(found[0].description, len(found)) for found in self._apps.values()]

    def take_unsent(self) -> list[Peer]:
        """The connections that have had something to send since the last call."""
        found, self._unsent = self._unsent, []
        return found

    @property
    def is_drained(self) -> bool:
        """Whether `drain` was called and the last socket is gone."""
        return self.is_draining and not self._sockets

    def connect(self, now: float) -> Peer:
        """A new connection, whose first packet is Hello.

        Raises:
            StateError: there are as many as the quota allows, or the entry point is draining.
        """
        if self.is_draining:
            raise StateError("the entry point is draining")
        if len(self._peers) >= self.quotas.connections:
            raise StateError(f"there are {len(self._peers)} connections already")
        self._last_peer += 1
        self._now = now
        most = HEADER_LEN + self.quotas.max_content
        # Extensions are accepted: a client may answer as soon as it has seen Hello.
        rules = Rules(most, bool(self._features))
        peer = Peer(self, self._last_peer, Splitter(rules, Limits(max_frame=most)))
        if self._features:
            tags = {
                Tag.FEATURES: number(self._features),
                Tag.MAX_CONTENT: number(self.quotas.max_content),
            }
            peer._send(Hello(trailing=write_tags(tags)).encode())
        else:
            peer._send(Hello().encode())
        self._peers[peer.number] = peer
        return peer

    def next_timeout(self, now: float) -> float | None:
        """Seconds until `handle_timeout` has something to do; None if nothing waits."""
        self._forget_accepted()
        return max(0.0, self._waiting[0].deadline - now) if self._waiting else None

    def handle_timeout(self, now: float) -> list[Happening]:
        """Close the sockets that were not accepted in time, on both legs."""
        self._forget_accepted()
        while self._waiting and self._waiting[0].deadline <= now:
            socket = self._waiting.popleft()
            self._end(socket, Reason.TIMEOUT, (socket.requester, socket.receiver), now)
            self._forget_accepted()
        return self._take_happened()

    def drain(self) -> None:
        """Refuse new connections, publications and sockets; what is open goes on."""
        self.is_draining = True
        for peer in self._peers.values():
            if peer.features:
                tags = write_tags({Tag.REASON: number(Reason.DRAINING)})
                peer._send(packet(Extension.GOAWAY, tags))

    # --- packets --------------------------------------------------------------------------------

    def _receive(self, peer: Peer, data: Buffer, now: float) -> list[Happening]:
        self._now = now
        peer.destinations.clear()
        if peer.is_closed:
            return self._take_happened()
        if not data:
            self._lose(peer)
        try:
            peer._splitter.feed(data)
            for frame in peer._splitter:
                self._packet(peer, frame, now)
                if peer.number not in self._peers:  # it has failed; the rest means nothing
                    break
        except DecodeError as error:
            # No resynchronisation on a live connection: it is treated as lost.
            self._fail(peer, error.code)
        return self._take_happened()

    def _fail(self, peer: Peer, why: str) -> None:
        self._happened.append(PeerFailed(peer.number, why))
        self._lose(peer)

    def _packet(self, peer: Peer, frame: bytes, now: float) -> None:
        nonce = int.from_bytes(frame[2:6], "little")
        match frame[1]:
            case SocketData.code:
                self._data(peer, frame, now)
            case SocketControl.code:
                self._control(peer, frame, now)
            case Publish.code:
                peer.destinations.add(peer)
                self._publish(peer, frame, nonce, now)
            case 0x06:
                self.finds += 1
                peer.destinations.add(peer)
                self._find(peer, frame[HEADER_LEN : HEADER_LEN + ID_LEN], nonce)
            case 0x08:
                self._open(peer, frame[HEADER_LEN : HEADER_LEN + ID_LEN], nonce, now)
            case code if code in PACKETS:
                self._ignore(peer, "not for an entry point")
            case code:
                self._extension(peer, code, frame[HEADER_LEN:], nonce, now)

    def _publish(self, peer: Peer, frame: bytes, nonce: int, now: float) -> None:
        reason, description = None, ""
        try:
            publish = Publish.codec.decode(frame, 0, len(frame), False)
            assert isinstance(publish, Publish)
            description = publish.description
        except DecodeError:
            if self._is_legacy:
                return
            reason = Reason.BAD_DATA
        if reason is None and not self._is_legacy:
            reason = self._why_no_publication(peer, description)
        if reason is not None:
            peer._send(
                PublishReply(
                    nonce=nonce,
                    success=0,
                    app_id=ZERO_ID,
                    instance_id=ZERO_ID,
                    trailing=self._reason_tags(peer, reason),
                ).encode()
            )
            self._happened.append(PublishRejected(peer.number, reason))
            return
        instance = Instance(peer, app_id(description), self._instance_id(peer), description)
        # The answer first: a legacy client stops at an open for an instance it does not know yet.
        peer._send(
            PublishReply(
                nonce=nonce, success=1, app_id=instance.app_id, instance_id=instance.instance_id
            ).encode()
        )
        self._instances[instance.instance_id] = instance
        self._apps.setdefault(instance.app_id, []).append(instance)
        peer._instances.append(instance)
        self._tell_watchers(instance, is_there=True)
        self._happened.append(
            InstancePublished(peer.number, instance.app_id, instance.instance_id, description)
        )

    def _why_no_publication(self, peer: Peer, description: str) -> Reason | None:
        if self.is_draining:
            return Reason.DRAINING
        if len(peer._instances) >= self.quotas.instances:
            return Reason.QUOTA
        if len(description.encode()) > self.quotas.description_bytes:
            return Reason.BAD_DATA
        return None

    def _instance_id(self, peer: Peer) -> bytes:
        if self._is_legacy and peer._instances:
            return peer._instances[0].instance_id
        while (made := self._new_instance_id()) == ZERO_ID or made in self._instances:
            pass
        return made

    def _find(self, peer: Peer, wanted: bytes, nonce: int) -> None:
        found = [item.instance_id for item in self._apps.get(wanted, ())]
        if len(found) > _MAX_LISTED:
            # A different part of them each time, so that all get their share of the sockets.
            turn = self._turns.get(wanted, 0) % len(found)
            self._turns[wanted] = turn + _MAX_LISTED
            found = (found[turn:] + found[:turn])[:_MAX_LISTED]
        peer._send(InstanceReply(nonce=nonce, instance_ids=tuple(found)).encode())

    def _open(self, peer: Peer, wanted: bytes, nonce: int, now: float) -> None:
        instance = self._instances.get(wanted)
        reason = self._why_no_socket(peer, instance)
        peer.destinations.add(peer)
        if instance is None or reason is not None:
            self._reject_open(peer, reason or Reason.NO_INSTANCE, nonce, now)
            return
        owner = instance.owner
        mine = self._socket_id(now)
        self._used_ids[mine] = None
        # Nothing else would distinguish two ends on one connection.
        theirs = self._socket_id(now) if owner is peer and not self._is_legacy else mine
        socket = Socket(
            Leg(peer, mine, is_receiver=False),
            Leg(owner, theirs, is_receiver=True),
            deadline=now + self.quotas.accept_seconds,
            can_half_close=bool(peer.features & owner.features & Feature.HALF_CLOSE),
        )
        peer.destinations.add(owner)
        peer._requested += 1
        for leg in (socket.requester, socket.receiver):
            if leg.peer.features & Feature.WINDOW:
                leg.credit = INITIAL_WINDOW
            leg.peer._legs[leg.socket_id] = socket, leg
            self._used_ids[leg.socket_id] = socket
        self._sockets += 1
        if not self._is_legacy:
            self._waiting.append(socket)
        trailing = _agreed(socket, socket.requester)
        self._say(socket.requester, SocketFlags.OPEN_ACK, nonce=nonce, trailing=trailing)
        trailing = _agreed(socket, socket.receiver)
        self._say(socket.receiver, SocketFlags.OPEN_REQUEST, instance.instance_id, trailing)
        self._happened.append(SocketRequested(peer.number, owner.number, mine, wanted))

    def _why_no_socket(self, peer: Peer, instance: Instance | None) -> Reason | None:
        if instance is None:
            return Reason.NO_INSTANCE
        if self._is_legacy:
            return None
        if self.is_draining:
            return Reason.DRAINING
        quotas = self.quotas
        most = max(peer.sockets, instance.owner.sockets)
        is_full = most >= quotas.sockets or peer._requested >= quotas.requests
        if is_full or self._sockets >= quotas.all_sockets:
            return Reason.QUOTA
        return None

    def _reject_open(self, peer: Peer, reason: Reason, nonce: int, now: float) -> None:
        named = ZERO_ID if self._reject_with_zero_id else self._socket_id(now)
        peer._send(
            SocketControl(
                nonce=nonce,
                socket_id=named,
                flags=SocketFlags.OPEN_ACK | _CLOSE,
                trailing=self._reason_tags(peer, reason),
            ).encode()
        )
        self._happened.append(OpenRejected(peer.number, reason))

    def _socket_id(self, now: float) -> bytes:
        retired = self._retired
        while retired and (retired[0][0] <= now or len(retired) > _MAX_RETIRED):
            self._used_ids.pop(retired.popleft()[1], None)
        while (made := self._new_socket_id()) == ZERO_ID or made in self._used_ids:
            pass
        return made

    def _control(self, peer: Peer, frame: bytes, now: float) -> None:
        socket_id = frame[_SOCKET_AT]
        if len(frame) <= _SOCKET_AT.stop:
            self._ignore(peer, "short socket control")
            return
        flags = frame[_SOCKET_AT.stop]
        found = peer._legs.get(socket_id)
        if found is None:
            self._control_of_stranger(peer, socket_id, flags, now)
            return
        socket, leg = found
        if self._is_legacy:
            self._legacy_control(socket, leg, flags, now)
        elif flags & _CLOSE:
            reason = Reason.CLOSED
            if leg.is_receiver and not socket.is_open:
                reason = Reason.REFUSED
            self._end(socket, reason, (socket.other(leg),), now)
        elif leg.is_receiver and not socket.is_open and flags & _REFUSE:
            self._end(socket, Reason.REFUSED, (socket.requester,), now)
        elif leg.is_receiver and not socket.is_open and flags & _ACCEPT:
            self._accept(socket)
        elif flags & END and socket.is_open and socket.can_half_close:
            self._say(socket.other(leg), END)
        else:
            self._ignore(peer, "flags without effect")

    def _accept(self, socket: Socket) -> None:
        socket.is_open = True
        self._say(socket.requester, SocketFlags.READY)
        self._happened.append(SocketReady(socket.requester.socket_id))

    def _control_of_stranger(self, peer: Peer, socket_id: bytes, flags: int, now: float) -> None:
        socket = self._used_ids.get(socket_id)
        if self._is_legacy and socket is not None and flags & _CLOSE:
            # The first implementation does not ask whose socket it is.
            self._end(socket, Reason.CLOSED, (socket.receiver,), now)
        else:
            self._ignore(peer, "no such socket")

    def _legacy_control(self, socket: Socket, leg: Leg, flags: int, now: float) -> None:
        """Build the other side's flags, whether they make sense or not."""
        answer = SocketFlags(0)
        if leg.is_receiver and not socket.is_open:
            if flags & _ACCEPT:
                socket.is_open = True
                answer |= SocketFlags.READY
                self._happened.append(SocketReady(socket.requester.socket_id))
            elif flags & _REFUSE:
                answer |= _CLOSE
        if flags & _CLOSE:
            answer |= _CLOSE
        self._say(socket.other(leg), answer)
        if answer & _CLOSE:
            self._end(socket, Reason.CLOSED, (), now)

    def _data(self, peer: Peer, frame: bytes, now: float) -> None:
        found = peer._legs.get(frame[_SOCKET_AT])
        if found is None:
            self._ignore(peer, "no such socket")
            return
        socket, leg = found
        if not socket.is_open:
            self._ignore(peer, "data before ready")
            return
        if len(frame) < _DATA_HEAD:
            self._ignore(peer, "short socket data")
            return
        size = int.from_bytes(frame[_DATA_HEAD - 4 : _DATA_HEAD], "little")
        if size > len(frame) - _DATA_HEAD:
            if not self._is_legacy:
                both = (socket.requester, socket.receiver)
                self._end(socket, Reason.BAD_DATA, both, now)
                return
            size = len(frame) - _DATA_HEAD
        target = socket.other(leg)
        if leg.credit is not None:
            if size > leg.credit:
                self._end(socket, Reason.BAD_DATA, (socket.requester, socket.receiver), now)
                return
            leg.credit -= size
            if target.credit is None:
                # The far end has no windows: bytes are granted once its connection has taken them.
                leg.owed += size
                if leg.owed >= INITIAL_WINDOW // 2 and not target.peer.is_congested:
                    self._repay(leg)
        target.relayed += size
        self.relayed_bytes += size
        most = self.quotas.socket_bytes
        if most is not None and target.relayed + leg.relayed > most:
            self._end(socket, Reason.QUOTA, (socket.requester, socket.receiver), now)
            return
        is_plain = len(frame) == _DATA_HEAD + size and not any(frame[2:6])
        if is_plain and target.socket_id == leg.socket_id:
            out = frame
        else:
            head = _HEAD.pack(0, SocketData.code, 0, ID_LEN + 4 + size, target.socket_id, size)
            out = head + frame[_DATA_HEAD : _DATA_HEAD + size]
        target.peer._send(out)
        peer.destinations.add(target.peer)

    # --- ends -----------------------------------------------------------------------------------

    def _end(self, socket: Socket, reason: Reason, told: Iterable[Leg], now: float) -> None:
        """The socket is gone; each leg is told at most once, because it can no longer be found."""
        if socket.is_gone:
            return
        socket.is_gone = True
        for leg in told:
            self._say(leg, _CLOSE, trailing=self._reason_tags(leg.peer, reason))
        for leg in (socket.requester, socket.receiver):
            if leg.peer._legs.pop(leg.socket_id, None) is not None:
                self._used_ids[leg.socket_id] = None
                self._retired.append((now + self.quotas.retired_seconds, leg.socket_id))
        socket.requester.peer._requested -= 1
        self._sockets -= 1
        self._happened.append(
            SocketEnded(
                socket.requester.socket_id,
                reason,
                socket.receiver.relayed,
                socket.requester.relayed,
            )
        )

    def _lose(self, peer: Peer) -> None:
        if self._peers.pop(peer.number, None) is None:
            return
        peer.is_closed = True
        for socket, leg in list(peer._legs.values()):
            self._end(socket, Reason.PEER_LOST, (socket.other(leg),), self._now)
        for wanted in peer._watched:
            watchers = self._watchers[wanted]
            watchers.discard(peer)
            if not watchers:
                del self._watchers[wanted]
        peer._watched.clear()
        for instance in peer._instances:
            self._remove(instance)
        peer._instances.clear()

    def _remove(self, instance: Instance) -> None:
        self._instances.pop(instance.instance_id, None)
        left = self._apps[instance.app_id]
        left.remove(instance)
        if not left:
            del self._apps[instance.app_id]
            self._turns.pop(instance.app_id, None)
        self._tell_watchers(instance, is_there=False)
        self._happened.append(
            InstanceRemoved(instance.owner.number, instance.app_id, instance.instance_id)
        )

    # --- small things ---------------------------------------------------------------------------

    def _say(
        self,
        leg: Leg,
        flags: SocketFlags,
        instance_id: bytes | None = None,
        trailing: bytes = b"",
        nonce: int = 0,
    ) -> None:
        control = SocketControl(
            nonce=nonce,
            socket_id=leg.socket_id,
            flags=flags,
            instance_id=instance_id,
            trailing=trailing,
        )
        leg.peer._send(control.encode())

    def _reason_tags(self, peer: Peer, reason: Reason) -> bytes:
        if not peer.features & Feature.CLOSE_REASON:
            return b""
        return write_tags({Tag.REASON: number(reason)})

    def _ignore(self, peer: Peer, why: str) -> None:
        self._happened.append(PacketIgnored(peer.number, why))

    def _take_happened(self) -> list[Happening]:
        happened, self._happened = self._happened, []
        return happened

    def _forget_accepted(self) -> None:
        while self._waiting and (self._waiting[0].is_open or self._waiting[0].is_gone):
            self._waiting.popleft()


def _agreed(socket: Socket, leg: Leg) -> bytes:
    """What a leg is told about its socket at the start."""
    tags: dict[Tag, bytes] = {}
    if leg.credit is not None:
        tags[Tag.WINDOW] = number(leg.credit)
    if socket.can_half_close:
        tags[Tag.HALF_CLOSE] = number(1)
    return write_tags(tags) if tags else b""
