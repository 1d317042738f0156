"""A client's side of a connection to an entry point, without I/O (see `wireloom.sessions`).

It publishes, finds and opens; any number of sockets share the connection. Requests give a nonce,
and the event that answers carries it. Nothing is sent before the entry point's Hello.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from wireloom.errors import DecodeError, StateError
from wireloom.formats.nrep.extensions import (
    NO_FEATURES,
    Extension,
    Feature,
    Reason,
    Tag,
    features_in,
    number,
    packet,
    read_tags,
    reason_in,
    write_tags,
)
from wireloom.formats.nrep.packets import (
    HEADER_LEN,
    PACKETS,
    DiscoverInstances,
    Hello,
    InstanceReply,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
)
from wireloom.formats.nrep.rules import DEFAULT_MAX_CONTENT, Rules
from wireloom.framing import Splitter
from wireloom.sessions import CLOCK_SLACK, BaseSession, Transitions
from wireloom.wire import Limits

__all__ = [
    "MAX_DATA",
    "Act",
    "ClientSession",
    "ClientState",
    "Connected",
    "DataReceived",
    "Disconnected",
    "Event",
    "InstancesFound",
    "OpenFailed",
    "PublishAnswered",
    "RequestTimedOut",
    "SocketEnded",
    "SocketOffered",
    "SocketOpened",
]

MAX_DATA = 65_536
"""Bytes in one Socket Data that is sent: small enough for sockets to take turns."""

_FEATURES = Feature.CLOSE_REASON
"""What this client uses."""


class ClientState(Enum):
    """Where the connection is."""

    WAITING = "waiting for Hello"
    READY = "ready"
    CLOSED = "closed"


class Act(Enum):
    """What changes the state."""

    HELLO = "Hello arrived"
    LOST = "the connection ended, or the entry point broke the protocol"
    CLOSE = "closed from this side"


@dataclass(frozen=True, slots=True)
class Connected:
    """The entry point has said Hello; `features` are those that both sides have."""

    features: Feature


@dataclass(frozen=True, slots=True)
class PublishAnswered:
    """The answer to `publish`; without an instance id it was refused."""

    nonce: int
    instance_id: bytes | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class InstancesFound:
    """The answer to `find`."""

    nonce: int
    instance_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SocketOpened:
    """The answer to `open`: data may flow."""

    nonce: int
    socket_id: bytes


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The answer to `open`: there will be no socket. The reason is known if it was negotiated."""

    nonce: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class SocketOffered:
    """Somebody wants to connect to an instance: `accept` or `refuse`."""

    socket_id: bytes
    instance_id: bytes


@dataclass(frozen=True, slots=True)
class DataReceived:
    """Bytes of a socket."""

    socket_id: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class SocketEnded:
    """The other side closed a socket; all of its data was given before."""

    socket_id: bytes
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class RequestTimedOut:
    """No answer to `publish` or `find`."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is over, and all sockets with it."""

    why: str


Event = (
    Connected
    | PublishAnswered
    | InstancesFound
    | SocketOpened
    | OpenFailed
    | SocketOffered
    | DataReceived
    | SocketEnded
    | RequestTimedOut
    | Disconnected
)
"""One of them."""


@dataclass(slots=True)
class _Request:
    answer: int
    deadline: float
    socket_id: bytes | None = None
    """Of an open that was acknowledged."""


class ClientSession(BaseSession[ClientState, Act, Event]):
    """One connection to an entry point, legacy or not.

    Args:
        request_seconds: how long an answer may take; a legacy entry point may never give one.
        max_content: largest content that is accepted.
    """

    transitions: ClassVar[Transitions[ClientState, Act]] = Transitions(
        ClientState.WAITING,
        [
            (ClientState.WAITING, Act.HELLO, ClientState.READY),
            (ClientState.WAITING, Act.LOST, ClientState.CLOSED),
            (ClientState.WAITING, Act.CLOSE, ClientState.CLOSED),
            (ClientState.READY, Act.LOST, ClientState.CLOSED),
            (ClientState.READY, Act.CLOSE, ClientState.CLOSED),
        ],
        final=[ClientState.CLOSED],
    )

    def __init__(
        self, *, request_seconds: float = 20.0, max_content: int = DEFAULT_MAX_CONTENT
    ) -> None:
        super().__init__()
        self.features = NO_FEATURES
        most = HEADER_LEN + max_content
        self._splitter = Splitter(Rules(most, True), Limits(max_frame=most))
        self._request_seconds = request_seconds
        self._requests: dict[int, _Request] = {}
        self._opening: dict[bytes, int] = {}
        """Nonces of opens that were acknowledged, by socket."""
        self._offered: set[bytes] = set()
        self._open: set[bytes] = set()

    # --- what the owner does --------------------------------------------------------------------

    def publish(self, description: str, now: float) -> int:
        """Offer an app; `PublishAnswered` follows.

        Raises:
            StateError: the connection is not ready.
            EncodeError: the description cannot be written.
        """
        nonce = self._request(PublishReply.code, now)
        self._send(Publish(nonce=nonce, description=description).encode())
        return nonce

    def find(self, app: bytes, now: float) -> int:
        """Ask for the instances of the app with that id; `InstancesFound` follows.

        Raises:
            StateError: the connection is not ready.
            EncodeError: that is no id.
        """
        nonce = self._request(InstanceReply.code, now)
        self._send(DiscoverInstances(nonce=nonce, app_id=app).encode())
        return nonce

    def open(self, instance: bytes, now: float) -> int:
        """Ask for a socket; `SocketOpened` or `OpenFailed` follows.

        Raises:
            StateError: the connection is not ready.
            EncodeError: that is no id.
        """
        nonce = self._request(SocketControl.code, now)
        self._send(OpenSocket(nonce=nonce, instance_id=instance).encode())
        return nonce

    def accept(self, socket: bytes) -> None:
        """Take an offered socket; data may be sent at once.

        Raises:
            StateError: it is not offered (any more).
        """
        self._take_offer(socket)
        self._open.add(socket)
        self._control(socket, SocketFlags.ACCEPT)

    def refuse(self, socket: bytes) -> None:
        """Do not take an offered socket.

        Raises:
            StateError: it is not offered (any more).
        """
        self._take_offer(socket)
        self._control(socket, SocketFlags.REFUSE)

    def send(self, socket: bytes, data: bytes) -> None:
        """Send bytes on an open socket, in packets of `MAX_DATA` at most.

        Raises:
            StateError: it is not open.
        """
        if self.is_closed or socket not in self._open:
            raise StateError("the socket is not open")
        for at in range(0, len(data), MAX_DATA):
            self._send(SocketData(socket_id=socket, data=data[at : at + MAX_DATA]).encode())

    def close_socket(self, socket: bytes) -> None:
        """End an open socket; no effect on one that is gone."""
        if not self.is_closed and socket in self._open:
            self._open.remove(socket)
            self._control(socket, SocketFlags.CLOSE)

    def close(self) -> None:
        """End the connection, which ends its sockets and unpublishes. A second time: no effect."""
        if not self.is_closed:
            self._move(Act.CLOSE)

    # --- time -----------------------------------------------------------------------------------

    def next_timeout(self, now: float) -> float | None:
        """Seconds until the first request has waited long enough; None without requests."""
        if self.is_closed or not self._requests:
            return None
        return max(0.0, min(each.deadline for each in self._requests.values()) - now)

    def handle_timeout(self, now: float) -> list[Event]:
        """The requests that were not answered in time."""
        events: list[Event] = []
        if self.is_closed:
            return events
        for nonce, request in list(self._requests.items()):
            if request.deadline > now + CLOCK_SLACK:
                continue
            del self._requests[nonce]
            if request.answer != SocketControl.code:
                events.append(RequestTimedOut(nonce))
                continue
            if request.socket_id is not None:
                del self._opening[request.socket_id]
                self._control(request.socket_id, SocketFlags.CLOSE)
            events.append(OpenFailed(nonce, Reason.TIMEOUT))
        return events

    # --- packets --------------------------------------------------------------------------------

    def _received(self, data: bytes, now: float) -> list[Event]:
        events: list[Event] = []
        if not data:
            self._move(Act.LOST)
            return [Disconnected("the entry point closed the connection")]
        try:
            self._splitter.feed(data)
            for frame in self._splitter:
                self._packet(frame, events)
        except DecodeError as error:
            self._move(Act.LOST)
            events.append(Disconnected(str(error)))
        return events

    def _packet(self, frame: bytes, events: list[Event]) -> None:
        cls = PACKETS.get(frame[1])
        if cls is None:
            return  # what it does not know of a newer entry point
        found = cls.codec.decode(frame, 0, len(frame), False)
        if self.state is ClientState.WAITING:
            if isinstance(found, Hello):
                self._hello(found, events)
            return
        match found:
            case PublishReply() if self._answered(found.nonce, found.code):
                reason = None if found.is_success else reason_in(found.trailing)
                instance = found.instance_id if found.is_success else None
                events.append(PublishAnswered(found.nonce, instance, reason))
            case InstanceReply() if self._answered(found.nonce, found.code):
                events.append(InstancesFound(found.nonce, found.instance_ids))
            case SocketControl():
                self._controlled(found, events)
            case SocketData() if found.socket_id in self._open and found.data:
                events.append(DataReceived(found.socket_id, found.data))

    def _hello(self, hello: Hello, events: list[Event]) -> None:
        self._move(Act.HELLO)
        self.features = features_in(read_tags(hello.trailing)) & _FEATURES
        if self.features:
            tags = write_tags({Tag.FEATURES: number(self.features)})
            self._send(packet(Extension.CLIENT_HELLO, tags))
        events.append(Connected(self.features))

    def _controlled(self, found: SocketControl, events: list[Event]) -> None:
        socket, flags = found.socket_id, found.flags
        if flags & SocketFlags.OPEN_ACK:
            self._acknowledged(found, events)
        elif flags & SocketFlags.CLOSE:
            self._closed(socket, reason_in(found.trailing), events)
        elif flags & SocketFlags.OPEN_REQUEST and found.instance_id is not None:
            self._offered.add(socket)
            events.append(SocketOffered(socket, found.instance_id))
        elif flags & SocketFlags.READY and socket in self._opening:
            nonce = self._opening.pop(socket)
            del self._requests[nonce]
            self._open.add(socket)
            events.append(SocketOpened(nonce, socket))

    def _acknowledged(self, found: SocketControl, events: list[Event]) -> None:
        request = self._requests.get(found.nonce)
        is_asked = request is not None and request.answer == found.code and not request.socket_id
        if found.flags & SocketFlags.CLOSE:  # whatever its socket id
            if is_asked:
                del self._requests[found.nonce]
                events.append(OpenFailed(found.nonce, reason_in(found.trailing)))
        elif request is None or not is_asked:
            # Too late: it was given up, and the publisher must not be left with it.
            self._control(found.socket_id, SocketFlags.CLOSE)
        else:
            request.socket_id = found.socket_id
            self._opening[found.socket_id] = found.nonce

    def _closed(self, socket: bytes, reason: Reason | None, events: list[Event]) -> None:
        if socket in self._opening:
            nonce = self._opening.pop(socket)
            del self._requests[nonce]
            events.append(OpenFailed(nonce, reason))
        elif socket in self._open or socket in self._offered:
            self._open.discard(socket)
            self._offered.discard(socket)
            events.append(SocketEnded(socket, reason))

    # --- small things ---------------------------------------------------------------------------

    def _request(self, answer: int, now: float) -> int:
        if self.state is not ClientState.READY:
            raise StateError(f"the connection is {self.state.value}")
        while (nonce := 1 + secrets.randbelow(0x7FFF_FFFF)) in self._requests:
            pass
        self._requests[nonce] = _Request(answer, now + self._request_seconds)
        return nonce

    def _answered(self, nonce: int, code: int) -> bool:
        request = self._requests.get(nonce)
        if request is None or request.answer != code:
            return False
        del self._requests[nonce]
        return True

    def _take_offer(self, socket: bytes) -> None:
        if self.is_closed or socket not in self._offered:
            raise StateError("the socket is not offered")
        self._offered.remove(socket)

    def _control(self, socket: bytes, flags: SocketFlags) -> None:
        self._send(SocketControl(socket_id=socket, flags=flags).encode())
