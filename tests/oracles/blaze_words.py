"""A Blaze client made of words alone: a blocking socket and `struct`, no codec of the project.

What it sends and what it expects is written down from the document and its errata, so a fault that
codec and broker share shows here.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import NamedTuple, Self

__all__ = [
    "MODEL",
    "Closed",
    "Packet",
    "Words",
    "array",
    "field",
    "i32",
    "nclass",
    "text",
    "truck",
    "u32",
]

TIMEOUT_S = 20.0
"""Seconds to wait for what must come."""

MODEL = """
@model_name "words"
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    int_32 speed
    int_32[4] temps
    POINT home
    POINT[3] stops
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}
nclass PING
{
    @id 303
    uint_32 n
    @key primary
    @id 1
    @fldset {n}
    @key_end
}
"""

_WITH_LENGTH = {(6, 9), (7, 8), (10, 7)}


class Closed(Exception):
    """The broker has closed the connection."""


class Packet(NamedTuple):
    """A packet: its type, the words behind the first, the body."""

    type: int
    words: tuple[int, ...]
    body: bytes | None


def u32(value: int) -> bytes:
    """A number of a body."""
    return struct.pack("<I", value)


def i32(value: int) -> bytes:
    """A number of a body."""
    return struct.pack("<i", value)


def text(value: bytes) -> bytes:
    """A string of a body."""
    return struct.pack("<I", len(value)) + value


def field(index: int, value: bytes) -> bytes:
    """A field, or an element of an array."""
    return struct.pack("<H", index) + value


def nclass(*fields: bytes) -> bytes:
    """An object; arrays look the same."""
    return text(b"".join(fields))


array = nclass


def truck(number: int, *fields: bytes, first: int = 1) -> bytes:
    """A TRUCK."""
    return nclass(field(first, u32(number)), *fields)


class Words:
    """One connection."""

    def __init__(self, address: str, *, timeout: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.connid = 0
        self.events: list[Packet] = []
        self._data = b""
        self._prid = 0

    @classmethod
    def connect(cls, address: str, hbtsec: int = 0) -> Self:
        """Open a connection, and have it accepted."""
        made = cls(address)
        made.conreq(hbtsec)
        kind, words, _ = made.packet()
        assert kind == 4, (kind, words)
        assert words[0] >> 29 in (1, 2), hex(words[0])
        made.connid = words[1]
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    # -- out

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def put(
        self, kind: int, *words: int, body: bytes = b"", prover: int = 1, hdrlen: int = 0
    ) -> None:
        """Send a packet of words."""
        size = hdrlen or 1 + len(words)
        head = prover << 26 | size << 22 | kind << 16
        self.send(struct.pack(f">{1 + len(words)}I", head, *words) + body)

    def conreq(self, hbtsec: int = 0, prover: int = 1) -> None:
        """Ask to be let in."""
        self.put(3, hbtsec << 24, prover=prover)

    def tx(
        self,
        action: int,
        body: bytes,
        *,
        nclsid: int = 302,
        enctyp: int = 2,
        wants: int = 0,
        kind: int = 4,
        ids: tuple[int, int, int, int] | None = None,
        connid: int | None = None,
    ) -> tuple[int, int, int, int]:
        """Send a transaction; gives its id."""
        self._prid += 1
        ids = ids or (1, 1, self.connid, self._prid)
        word = kind << 28 | action << 25 | wants << 24
        connid = self.connid if connid is None else connid
        length = 36 + len(body)
        self.put(6, word, *ids, length, enctyp << 28 | nclsid, connid, body=body)
        return ids

    def ask(self, action: int, body: bytes, **given: int) -> Packet:
        """Send a transaction, and wait for its answer; events that come are kept."""
        ids = self.tx(action, body, **given)  # type: ignore[arg-type]
        while True:
            packet = self.packet()
            if packet.type == 7:
                assert packet.words[1:5] == ids
                return packet
            self.events.append(packet)

    def code(self, action: int, body: bytes, **given: int) -> int:
        """The code of a transaction's answer; 0: TXOK."""
        word = self.ask(action, body, **given).words[0]
        assert word >> 29 == (2 if word & 0xFFFF else 1), hex(word)
        return word & 0xFFFF

    def subscribe(
        self,
        *,
        rqstid: int = 1,
        nclsid: int = 302,
        enctyp: int = 2,
        kind: int = 1,
        mode: int = 1,
        flow: int = 1,
        since: tuple[int, int] | None = None,
        connid: int | None = None,
    ) -> None:
        """Send a subscription."""
        download = 1 if since is None else 2
        word = kind << 28 | mode << 24 | flow << 20 | download << 16
        connid = self.connid if connid is None else connid
        self.put(8, word, enctyp << 28 | nclsid, connid, rqstid, *(since or ()))

    def subscribed(self, **given: int | tuple[int, int] | None) -> int:
        """Subscribe, and give the id."""
        self.subscribe(**given)  # type: ignore[arg-type]
        kind, words, _ = self.packet()
        assert kind == 9, (kind, words)
        assert words[0] >> 29 in (1, 2), hex(words[0])
        return words[2]

    def ack(self, event: Packet) -> None:
        """Acknowledge an event."""
        self.put(11, event.words[0], event.words[2])

    # -- in

    def packet(self) -> Packet:
        """The next packet.

        Raises:
            Closed: there is none.
        """
        head = self._exactly(4)
        (word,) = struct.unpack(">I", head)
        assert word >> 26 == 1, hex(word)
        size, kind = word >> 22 & 15, word >> 16 & 63
        assert not word & 0xFFFF, hex(word)
        words = struct.unpack(f">{size - 1}I", self._exactly(4 * size - 4))
        body = None
        if (kind, size) in _WITH_LENGTH:
            body = self._exactly(words[5] - 4 * size)
        return Packet(kind, words, body)

    def event(self, *, acks: bool = True) -> Packet:
        """The next event; by default it is acknowledged."""
        packet = self.events.pop(0) if self.events else self.packet()
        assert packet.type == 10, packet
        if acks and packet.words[1] >> 28 != 4:
            self.ack(packet)
        return packet

    def told(self, count: int, *, acks: bool = True) -> list[tuple[int, int]]:
        """Kind and action of the next events."""
        return [kind_of(self.event(acks=acks)) for _ in range(count)]

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                data = b""
            if not data:
                raise Closed
            self._data += data
        found, self._data = self._data[:size], self._data[size:]
        return found

    def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes, for that long."""
        if self._data:
            return False
        self.socket.settimeout(seconds)
        try:
            self._data = self.socket.recv(65_536)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return False

    def is_closed(self) -> bool:
        """Whether the broker closes the connection, and says nothing more."""
        try:
            self.packet()
        except Closed:
            return True
        return False

    def disconnected(self) -> int:
        """The reason of the DSCOND that must come now, with the end behind it."""
        kind, words, _ = self.packet()
        assert kind == 5, (kind, words)
        assert len(words) == 1  # a server has no CONNID to say
        assert self.is_closed()
        return words[0] >> 28

    def refused(self) -> tuple[int, int]:
        """CONRES and ERRCOD of the refusal that must come now, with the end behind it."""
        kind, words, _ = self.packet()
        assert kind == 4, (kind, words)
        assert len(words) == 1
        assert self.is_closed()
        return words[0] >> 29, words[0] >> 25 & 15


def kind_of(event: Packet) -> tuple[int, int]:
    """SEVTTP and SBEACT of an event."""
    return event.words[1] >> 28, event.words[1] >> 25 & 7


def stamp_of(event: Packet) -> tuple[int, int]:
    """Its stamp."""
    return event.words[3], event.words[4]


def until_closed(words: Words, seconds: float = TIMEOUT_S) -> float:
    """Seconds until the broker closes the connection; what it says is dropped."""
    started = time.monotonic()
    words.socket.settimeout(seconds)
    with contextlib.suppress(Closed):
        while True:
            words.packet()
    return time.monotonic() - started
