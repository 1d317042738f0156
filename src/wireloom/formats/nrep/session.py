"""A client's side of a connection to an entry point, without I/O (see `wireloom.sessions`).

It publishes, finds and opens; any number of sockets share the connection. Requests return a nonce,
which the answering event carries. Nothing is sent before the entry point's Hello.
"""

from __future__ import annotations

import secrets
import struct
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from wireloom.errors import DecodeError, StateError
from wireloom.formats.nrep.events import (
    AppsListed,
    Connected,
    DataReceived,
    Disconnected,
    Event,
    GoingAway,
    InstanceChanged,
    InstancesFound,
    OpenFailed,
    PongReceived,
    PublishAnswered,
    RequestTimedOut,
    SocketEnded,
    SocketFreed,
    SocketHalfEnded,
    SocketOffered,
    SocketOpened,
    Unpublished,
)
from wireloom.formats.nrep.extensions import (
    ALL_FEATURES,
    END,
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
from wireloom.formats.nrep.ids import ID_LEN
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

__all__ = ["MAX_DATA", "Act", "ClientSession", "ClientState"]

MAX_DATA = 65_536 - 24
"""Bytes in one Socket Data: small enough for sockets to take turns, and with its header exactly
four TLS records."""

_DATA_HEAD = struct.Struct("<BBII10sI")
"""The start of a Socket Data: reserved, type, nonce, content size, socket id, data length."""
_SOCKET_AT = slice(HEADER_LEN, HEADER_LEN + ID_LEN)
_LISTED = struct.Struct("<HH")


class ClientState(Enum):
    """The state of the connection."""

    WAITING = "waiting for Hello"
    READY = "ready"
    CLOSED = "closed"


class Act(Enum):
    """What changes the state."""

    HELLO = "Hello arrived"
    LOST = "the connection ended, or the entry point broke the protocol"
    CLOSE = "closed from this side"


@dataclass(slots=True)
class _Request:
    answer: int
    deadline: float
    socket_id: bytes | None = None
    """The socket of an open that was acknowledged."""


@dataclass(slots=True)
class _Socket:
    """A socket that is offered, being opened, or open."""

    credit: int | None = None
    """Bytes that may be sent before the far end grants more; None: any number."""
    window: int = 0
    """The far end's window in bytes; 0 if windows were not negotiated."""
    allowance: int = 0
    """What is left of that window."""
    consumed: int = 0
    """Bytes that the owner has consumed and that are not granted again yet."""
    can_half_close: bool = False
    has_ended: bool = False
    """Whether the far end has said that it sends no more."""
    is_open: bool = False
    waiting: deque[bytes] = field(default_factory=deque)
    """Data to be sent when the far end grants it."""
    waiting_bytes: int = 0
    then: SocketFlags | None = None
    """What is sent after that: END or CLOSE."""


class ClientSession(BaseSession[ClientState, Act, Event]):
    """One connection to an entry point, legacy or not.

    Args:
        request_seconds: how long an answer may take; a legacy entry point may never give one.
        max_content: largest content that is accepted.
        features: what this side is ready to use.
        name: what it calls itself; shown to whoever runs the entry point.
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
        self,
        *,
        request_seconds: float = 20.0,
        max_content: int = DEFAULT_MAX_CONTENT,
        features: Feature = ALL_FEATURES,
        name: str = "",
    ) -> None:
        super().__init__()
        self.features = NO_FEATURES
        """What both sides have."""
        self._offered_features = features
        self._name = name
        most = HEADER_LEN + max_content
        self._splitter = Splitter(Rules(most, True), Limits(max_frame=most))
        self._request_seconds = request_seconds
        self._requests: dict[int, _Request] = {}
        self._opening: dict[bytes, int] = {}
        """Nonces of acknowledged opens, by socket."""
        self._sockets: dict[bytes, _Socket] = {}

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
            EncodeError: that is not an id.
        """
        nonce = self._request(InstanceReply.code, now)
        self._send(DiscoverInstances(nonce=nonce, app_id=app).encode())
        return nonce

    def open(self, instance: bytes, now: float) -> int:
        """Ask for a socket; `SocketOpened` or `OpenFailed` follows.

        Raises:
            StateError: the connection is not ready.
            EncodeError: that is not an id.
        """
        nonce = self._request(SocketControl.code, now)
        self._send(OpenSocket(nonce=nonce, instance_id=instance).encode())
        return nonce

    def unpublish(self, instance: bytes, now: float) -> int:
        """Withdraw a publication; `Unpublished` follows.

        Raises:
            StateError: the connection is not ready, or this was not negotiated.
        """
        return self._ask(Extension.UNPUBLISH, Feature.UNPUBLISH, instance, now)

    def watch(self, app: bytes) -> None:
        """Watch an app: `InstanceChanged` follows for each of its instances, and for each change.

        Raises:
            StateError: the connection is not ready, or this was not negotiated.
        """
        self._need(Feature.WATCH)
        self._send(packet(Extension.WATCH, app, 1 + secrets.randbelow(0x7FFF_FFFF)))

    def list_apps(self, first: int, now: float) -> int:
        """Ask for the published apps, from the one with that number on; `AppsListed` follows.

        Raises:
            StateError: the connection is not ready, or this was not negotiated.
        """
        return self._ask(Extension.LIST, Feature.LIST, number(first), now)

    def ping(self, now: float) -> int:
        """Check that the entry point is alive; `PongReceived` follows.

        Raises:
            StateError: the connection is not ready, or this was not negotiated.
        """
        self._need(Feature.PING)
        nonce = self._request(Extension.PONG, now)
        self._send(packet(Extension.PING, nonce=nonce))
        return nonce

    def accept(self, socket: bytes) -> None:
        """Accept an offered socket; data may be sent at once.

        Raises:
            StateError: it is not offered (any more).
        """
        self._take_offer(socket).is_open = True
        self._control(socket, SocketFlags.ACCEPT)

    def refuse(self, socket: bytes) -> None:
        """Refuse an offered socket.

        Raises:
            StateError: it is not offered (any more).
        """
        self._take_offer(socket)
        del self._sockets[socket]
        self._control(socket, SocketFlags.REFUSE)

    def send(self, socket: bytes, data: bytes) -> None:
        """Send bytes on an open socket, in packets of `MAX_DATA` at most.

        What the far end has not granted yet waits here; see `waiting_bytes` and `SocketFreed`.

        Raises:
            StateError: it is not open, or `half_close` or `close_socket` was called.
        """
        found = self._sockets.get(socket)
        if self.is_closed or found is None or not found.is_open or found.then is not None:
            raise StateError("the socket is not open")
        if found.waiting or (found.credit is not None and found.credit < len(data)):
            found.waiting.append(data)
            found.waiting_bytes += len(data)
            self._send_granted(socket, found)
        elif data:
            if found.credit is not None:
                found.credit -= len(data)
            self._send_data(socket, data)

    def waiting_bytes(self, socket: bytes) -> int:
        """Bytes of a socket that wait for the far end's grant."""
        found = self._sockets.get(socket)
        return found.waiting_bytes if found is not None else 0

    @property
    def has_waiting(self) -> bool:
        """Whether any socket has bytes that wait for the far end's grant."""
        return any(each.waiting for each in self._sockets.values())

    def consumed(self, socket: bytes, size: int) -> None:
        """The owner has consumed bytes of a socket: the far end may send as many again."""
        found = self._sockets.get(socket)
        if found is None or not found.window or self.is_closed:
            return
        found.consumed += size
        if found.consumed >= found.window // 2:
            found.allowance += found.consumed
            self._send(packet(Extension.WINDOW, socket + number(found.consumed)))
            found.consumed = 0

    def can_half_close(self, socket: bytes) -> bool:
        """Whether both ends negotiated it."""
        found = self._sockets.get(socket)
        return found is not None and found.can_half_close

    def half_close(self, socket: bytes) -> None:
        """Send no more on a socket after what waits; no effect if it is gone.

        Raises:
            StateError: this was not negotiated with the far end.
        """
        found = self._sockets.get(socket)
        if self.is_closed or found is None or found.then is not None:
            return
        if not found.can_half_close:
            raise StateError("the far end knows no half-closed sockets")
        found.then = END
        if not found.waiting:
            self._control(socket, END)

    def close_socket(self, socket: bytes) -> None:
        """End an open socket after what waits to be sent; no effect if it is gone."""
        found = self._sockets.get(socket)
        if self.is_closed or found is None or not found.is_open:
            return
        found.then = SocketFlags.CLOSE
        if not found.waiting:
            del self._sockets[socket]
            self._control(socket, SocketFlags.CLOSE)

    def drop_socket(self, socket: bytes) -> None:
        """End a socket at once; what waits to be sent is lost."""
        if self._sockets.pop(socket, None) is not None and not self.is_closed:
            self._control(socket, SocketFlags.CLOSE)

    def close(self) -> None:
        """End the connection, its sockets and its publications; a second call does nothing."""
        if not self.is_closed:
            self._move(Act.CLOSE)

    # --- time -----------------------------------------------------------------------------------

    def next_timeout(self, now: float) -> float | None:
        """Seconds until the first request times out; None without requests."""
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
                del self._sockets[request.socket_id]
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
        code = frame[1]
        if code == SocketData.code:
            if self.state is ClientState.READY:
                self._data(frame, events)
            return
        cls = PACKETS.get(code)
        if cls is None:
            self._extension(code, frame, events)
            return
        try:
            found = cls.codec.decode(frame, 0, len(frame), False)
        except DecodeError:
            return  # its frame was whole: what follows can be read, and whoever waits times out
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

    def _data(self, frame: bytes, events: list[Event]) -> None:
        # Parsed by hand: nearly all packets are of this type.
        socket = frame[_SOCKET_AT]
        found = self._sockets.get(socket)
        if found is None or not found.is_open:
            return
        if len(frame) < _DATA_HEAD.size:
            return
        size = int.from_bytes(frame[_DATA_HEAD.size - 4 : _DATA_HEAD.size], "little")
        if found.window:
            found.allowance -= size
        # More than was granted would have to be buffered in memory.
        is_short = size > len(frame) - _DATA_HEAD.size
        if is_short or found.allowance < 0 or found.has_ended:
            self.drop_socket(socket)
            events.append(SocketEnded(socket, Reason.BAD_DATA))
            return
        if size:
            data = frame[_DATA_HEAD.size : _DATA_HEAD.size + size]
            events.append(DataReceived(socket, data))

    def _extension(self, code: int, frame: bytes, events: list[Event]) -> None:
        nonce = int.from_bytes(frame[2:6], "little")
        content = frame[HEADER_LEN:]
        match code:
            case Extension.PONG if self._answered(nonce, code):
                events.append(PongReceived(nonce))
            case Extension.UNPUBLISH if self._answered(nonce, code):
                events.append(Unpublished(nonce, content[:1] == b"\1"))
            case Extension.LIST if self._answered(nonce, code):
                total, apps = _listed(content)
                events.append(AppsListed(nonce, total, apps))
            case Extension.EVENT if len(content) >= 2 * ID_LEN + 1:
                app, instance = content[:ID_LEN], content[ID_LEN + 1 : 2 * ID_LEN + 1]
                events.append(InstanceChanged(app, instance, content[ID_LEN] == 1))
            case Extension.WINDOW if len(content) >= ID_LEN + 4:
                self._granted(
                    content[:ID_LEN], int.from_bytes(content[ID_LEN:][:4], "little"), events
                )
            case Extension.GOAWAY:
                events.append(GoingAway())
        # Anything else comes from a newer entry point.

    def _granted(self, socket: bytes, size: int, events: list[Event]) -> None:
        found = self._sockets.get(socket)
        if found is None or found.credit is None:
            return
        found.credit += size
        if found.waiting:
            self._send_granted(socket, found)
            if not found.waiting and found.then is not SocketFlags.CLOSE:
                events.append(SocketFreed(socket))

    def _hello(self, hello: Hello, events: list[Event]) -> None:
        self._move(Act.HELLO)
        self.features = features_in(read_tags(hello.trailing)) & self._offered_features
        if self.features:
            tags = {Tag.FEATURES: number(self.features)}
            if self._name:
                tags[Tag.NAME] = self._name.encode()[:64]
            self._send(packet(Extension.CLIENT_HELLO, write_tags(tags)))
        events.append(Connected(self.features))

    def _controlled(self, found: SocketControl, events: list[Event]) -> None:
        socket, flags = found.socket_id, found.flags
        if flags & SocketFlags.OPEN_ACK:
            self._acknowledged(found, events)
        elif flags & SocketFlags.CLOSE:
            self._closed(socket, reason_in(found.trailing), events)
        elif flags & SocketFlags.OPEN_REQUEST and found.instance_id is not None:
            if socket not in self._sockets:
                self._sockets[socket] = self._new_socket(found.trailing)
                events.append(SocketOffered(socket, found.instance_id))
        elif flags & SocketFlags.READY and socket in self._opening:
            nonce = self._opening.pop(socket)
            del self._requests[nonce]
            self._sockets[socket].is_open = True
            events.append(SocketOpened(nonce, socket))
        elif flags & END and (known := self._sockets.get(socket)) is not None:
            self._half_ended(socket, known, events)

    def _half_ended(self, socket: bytes, known: _Socket, events: list[Event]) -> None:
        if known.can_half_close and known.is_open and not known.has_ended:
            known.has_ended = True
            events.append(SocketHalfEnded(socket))

    def _acknowledged(self, found: SocketControl, events: list[Event]) -> None:
        request = self._requests.get(found.nonce)
        is_asked = request is not None and request.answer == found.code and not request.socket_id
        if found.flags & SocketFlags.CLOSE:  # whatever its socket id
            if is_asked:
                del self._requests[found.nonce]
                events.append(OpenFailed(found.nonce, reason_in(found.trailing)))
        elif request is None or not is_asked or found.socket_id in self._sockets:
            # Too late: it was given up, and the publisher must not be left with it.
            self._control(found.socket_id, SocketFlags.CLOSE)
        else:
            request.socket_id = found.socket_id
            self._opening[found.socket_id] = found.nonce
            self._sockets[found.socket_id] = self._new_socket(found.trailing)

    def _new_socket(self, trailing: bytes) -> _Socket:
        tags = read_tags(trailing)
        made = _Socket(can_half_close=Tag.HALF_CLOSE in tags)
        if self.features & Feature.WINDOW and Tag.WINDOW in tags:
            # The same both ways: what this end may send, and what it is ready to buffer.
            made.window = int.from_bytes(tags[Tag.WINDOW][:4], "little")
            made.credit = made.allowance = made.window
        return made

    def _closed(self, socket: bytes, reason: Reason | None, events: list[Event]) -> None:
        if self._sockets.pop(socket, None) is None:
            return
        if socket in self._opening:
            nonce = self._opening.pop(socket)
            del self._requests[nonce]
            events.append(OpenFailed(nonce, reason))
        else:
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

    def _need(self, feature: Feature) -> None:
        if self.state is not ClientState.READY:
            raise StateError(f"the connection is {self.state.value}")
        if not self.features & feature:
            raise StateError(f"the entry point does not know {feature.name}")

    def _ask(self, kind: Extension, feature: Feature, content: bytes, now: float) -> int:
        self._need(feature)
        nonce = self._request(kind, now)
        self._send(packet(kind, content, nonce))
        return nonce

    def _take_offer(self, socket: bytes) -> _Socket:
        found = self._sockets.get(socket)
        if self.is_closed or found is None or found.is_open or socket in self._opening:
            raise StateError("the socket is not offered")
        return found

    def _send_granted(self, socket: bytes, found: _Socket) -> None:
        """Send what waits as far as it was granted, and then END or CLOSE if one is due."""
        assert found.credit is not None
        while found.waiting and found.credit:
            data = found.waiting.popleft()
            if len(data) > found.credit:
                found.waiting.appendleft(data[found.credit :])
                data = data[: found.credit]
            found.credit -= len(data)
            found.waiting_bytes -= len(data)
            self._send_data(socket, data)
        if not found.waiting and found.then is not None:
            if found.then is SocketFlags.CLOSE:
                del self._sockets[socket]
            self._control(socket, found.then)

    def _send_data(self, socket: bytes, data: bytes) -> None:
        size = len(data)
        if size <= MAX_DATA:
            self._unsent.append(_DATA_HEAD.pack(0, 10, 0, size + 14, socket, size))
            self._unsent.append(data)
            return
        view = memoryview(data)
        for at in range(0, size, MAX_DATA):
            part = view[at : at + MAX_DATA]
            self._unsent.append(_DATA_HEAD.pack(0, 10, 0, len(part) + 14, socket, len(part)))
            self._unsent.append(part)  # type: ignore[arg-type]  # joined or written, never kept

    def _control(self, socket: bytes, flags: SocketFlags) -> None:
        self._send(SocketControl(socket_id=socket, flags=flags).encode())


def _listed(content: bytes) -> tuple[int, tuple[tuple[str, int], ...]]:
    """The content of an answer to List, up to where it is cut off."""
    apps: list[tuple[str, int]] = []
    at = 4
    while at + _LISTED.size <= len(content):
        count, size = _LISTED.unpack_from(content, at)
        at += _LISTED.size
        if at + size > len(content):
            break
        apps.append((content[at : at + size].decode("utf-8", "replace"), count))
        at += size
    return int.from_bytes(content[:4], "little"), tuple(apps)
