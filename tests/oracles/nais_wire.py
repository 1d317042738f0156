"""NAIS peers on blocking sockets, written from the byte tables without our codec.

Frames, the messages in them, WebSocket messages and MQTT packets are laid out by hand, so that a
fault which the junction shares with our own clients shows here.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Self

__all__ = [
    "ACK",
    "COMMAND",
    "CONFIG",
    "EVENT",
    "PROFILE",
    "SECRET",
    "MqttPeer",
    "TcpPeer",
    "WsPeer",
    "ack",
    "command",
    "config",
    "event",
    "frame",
    "number",
    "stamp",
    "text",
    "varint",
]

PROFILE, CONFIG, ACK, SECRET, COMMAND, EVENT = 1, 2, 3, 4, 5, 6

WITHIN_S = 20.0
"""Seconds to wait for what must come."""
SETTLE_S = 0.15
"""Seconds in which what must not come would have come."""


# -- bytes


def varint(value: int) -> bytes:
    """LEN, and the numbers of messages: the least significant seven bits first."""
    made = b""
    while value > 0x7F:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def number(field: int, value: int) -> bytes:
    """An int32 of a message; a negative one takes ten bytes."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def text(field: int, value: str) -> bytes:
    """A string of a message."""
    data = value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def frame(
    type: int, payload: bytes = b"", *, sline: int = 0, dline: int = 0, rsv: int = 0
) -> bytes:
    """A frame."""
    return bytes([0x1E, type, sline, dline, rsv]) + varint(len(payload)) + payload + bytes([0x17])


def stamp(data: bytes, sline: int) -> bytes:
    """The same frame as the junction must hand it on."""
    return data[:2] + bytes([sline]) + data[3:]


def ack(id: int, status: int | None = None, seq: int | None = None) -> bytes:
    """The payload of an Ack."""
    made = number(1, id)
    made += b"" if seq is None else number(2, seq)
    return made + (b"" if status is None else number(3, status))


def command(id: int, *ivals: int, seq: int | None = None) -> bytes:
    """The payload of a Command."""
    made = number(1, id) + (b"" if seq is None else number(2, seq))
    return made + b"".join(number(4, each) for each in ivals)


def event(id: int, *, svals: tuple[str, ...] = (), ivals: tuple[int, ...] = ()) -> bytes:
    """The payload of an Event; its ivals are zigzag."""
    made = number(1, id) + b"".join(text(2, each) for each in svals)
    return made + b"".join(number(4, each << 1 ^ each >> 31) for each in ivals)


def config(network: str, board: str, host: str) -> bytes:
    """The payload of a Config."""
    return text(1, network) + text(2, board) + text(3, host)


def _frame_size(data: bytes) -> int | None:
    """Bytes of the frame at the start; None: not all of LEN is there."""
    length = shift = 0
    for at in range(5, len(data)):
        length |= (data[at] & 0x7F) << shift
        shift += 7
        if data[at] < 0x80:
            return at + 1 + length + 1
    return None


# -- peers


class _Peer:
    """What all peers have in common: bytes that have come, and a clock."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host.strip("[]"), int(port)), WITHIN_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname=host)
        self.came = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.sock.sendall(data)

    def _more(self, deadline: float) -> bool:
        """Wait for more bytes; False: none came in time.

        Raises:
            ConnectionError: the other end has closed.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 16)
        except TimeoutError:
            return False
        finally:
            self.sock.settimeout(WITHIN_S)
        if not data:
            raise ConnectionError("the other end has closed")
        self.came += data
        return True

    def _take(self, size: int) -> bytes:
        taken, self.came = self.came[:size], self.came[size:]
        return taken

    def _until(self, cut: Callable[[bytes], int | None]) -> bytes:
        deadline = time.monotonic() + WITHIN_S
        while (size := cut(self.came)) is None or size > len(self.came):
            assert self._more(deadline), f"nothing came behind {self.came!r}"
        return self._take(size)

    def is_silent(self, seconds: float = SETTLE_S) -> bool:
        """Whether nothing has come, and nothing comes for that long."""
        return not self.came and not self._more(time.monotonic() + seconds)

    def is_closed(self, seconds: float = WITHIN_S) -> bool:
        """Whether the other end closes, and sends nothing more."""
        deadline = time.monotonic() + seconds
        try:
            while self._more(deadline):
                pass
        except (ConnectionError, ssl.SSLError):
            return not self.came
        return False


class TcpPeer(_Peer):
    """A board or a program on a TCP line."""

    def frame(self) -> bytes:
        """The next record, which must be a frame."""
        data = self._until(_frame_size)
        assert data[:1] == b"\x1e", data
        assert data[-1:] == b"\x17", data
        return data

    def frames(self, count: int) -> list[bytes]:
        """The next frames."""
        return [self.frame() for _ in range(count)]

    def exactly(self, size: int) -> bytes:
        """The next bytes."""
        return self._until(lambda _: size)

    def line(self) -> bytes:
        """The next record, which must be a line of text."""
        return self._until(lambda data: data.find(b"\n") + 1 or None)

    def ask(self, data: bytes) -> bytes:
        """Send a frame, and give the next one that comes."""
        self.send(data)
        return self.frame()


class WsPeer(_Peer):
    """A page on a WebSocket line."""

    def __init__(self, address: str, *headers: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(address, context)
        key = base64.b64encode(os.urandom(16)).decode()
        request = [
            "GET / HTTP/1.1",
            f"Host: {address}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            *headers,
        ]
        self.send("\r\n".join([*request, "", ""]).encode())
        answer = self._until(
            lambda data: data.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else None
        )
        self.status = int(answer.split()[1])

    def put(self, opcode: int, data: bytes) -> None:
        """Send a message, masked as a browser does it."""
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += b"\xfe" + struct.pack(">H", size)
        else:
            head += b"\xff" + struct.pack(">Q", size)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at & 3] for at, byte in enumerate(data))
        self.send(head + mask + masked)

    def binary(self, data: bytes) -> None:
        """Send a binary message."""
        self.put(2, data)

    def text(self, data: str) -> None:
        """Send a text message."""
        self.put(1, data.encode())

    def message(self) -> tuple[int, bytes]:
        """The next message: its opcode, and what is in it."""

        def size(data: bytes) -> int | None:
            if len(data) < 2:
                return None
            size, more = data[1] & 0x7F, 0
            if size >= 126:
                more = 2 if size == 126 else 8
                if len(data) < 2 + more:
                    return None
                size = int.from_bytes(data[2 : 2 + more], "big")
            assert not data[1] & 0x80, "a server does not mask"
            self._head = 2 + more
            return 2 + more + size

        whole = self._until(size)
        assert whole[0] & 0x80, "a message in pieces"
        return whole[0] & 15, whole[self._head :]

    def frame(self) -> bytes:
        """The next message, which must be one frame in binary."""
        opcode, data = self.message()
        assert (opcode, data[:1], data[-1:]) == (2, b"\x1e", b"\x17"), (opcode, data)
        return data

    def closed_with(self) -> int:
        """The code of the close that must come now."""
        opcode, data = self.message()
        assert opcode == 8, (opcode, data)
        return int.from_bytes(data[:2], "big")


class MqttPeer(_Peer):
    """A client of an MQTT 3.1.1 broker that speaks for a board, or to one."""

    def __init__(self, address: str, *topics: str) -> None:
        super().__init__(address)
        name = f"wire{os.urandom(4).hex()}".encode()
        self._packet(0x10, _mqtt_text(b"MQTT") + b"\x04\x02\x00\x3c" + _mqtt_text(name))
        assert self._next() == (0x20, b"\x00\x00")
        for at, topic in enumerate(topics, 1):
            wanted = struct.pack(">H", at) + _mqtt_text(topic.encode()) + b"\x01"
            self._packet(0x82, wanted)
            kind, answer = self._next()
            assert (kind, answer[:2]) == (0x90, struct.pack(">H", at))

    def _packet(self, kind: int, content: bytes) -> None:
        self.send(bytes([kind]) + varint(len(content)) + content)

    def _next(self) -> tuple[int, bytes]:
        def size(data: bytes) -> int | None:
            length = shift = 0
            for at, byte in enumerate(data[1:5], 2):
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    self._head = at
                    return at + length
            return None

        whole = self._until(size)
        return whole[0], whole[self._head :]

    def publish(self, topic: str, data: bytes) -> None:
        """Publish with quality of service 0."""
        self._packet(0x30, _mqtt_text(topic.encode()) + data)

    def message(self) -> tuple[str, bytes, int]:
        """The next message: topic, payload, and the bits that were set with it."""
        kind, content = self._next()
        assert kind >> 4 == 3, hex(kind)
        size = int.from_bytes(content[:2], "big")
        topic, rest = content[2 : 2 + size].decode(), content[2 + size :]
        if kind >> 1 & 3:
            self._packet(0x40, rest[:2])
            rest = rest[2:]
        return topic, rest, kind & 15


def _mqtt_text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
