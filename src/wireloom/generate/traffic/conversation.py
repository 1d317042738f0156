"""A TCP connection, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wireloom.generate.traffic.ippackets import (
    ACK,
    FIN,
    LINKS,
    PSH,
    RST,
    START_NS,
    SYN,
    Packet,
    ip,
    tcp,
)

__all__ = ["Conversation"]


@dataclass(slots=True)
class _Side:
    address: str
    port: int
    seq: int


class Conversation:
    """The packets of one TCP connection, in the order they were sent."""

    def __init__(
        self,
        client: str,
        server: str,
        *,
        first_seq: tuple[int, int] = (0, 0),
        start_ns: int = START_NS,
        step_ns: int = 1_000_000,
        mss: int = 1460,
        link: str = "ethernet",
        is_checked: bool = True,
    ) -> None:
        """Endpoints are ``address:port``, IPv6 addresses in brackets."""
        self._sides = tuple(
            _Side(*_endpoint(where), seq)
            for where, seq in zip((client, server), first_seq, strict=True)
        )
        self.now_ns = start_ns
        self._step_ns = step_ns
        self._mss = mss
        self.link_type, self._wrap = LINKS[link]
        self._is_checked = is_checked

    def segment(
        self, side: int, payload: bytes, *, seq: int | None = None, flags: int = ACK
    ) -> Packet:
        """One segment of the client (0) or the server (1); `seq` if not the next in sequence."""
        me, other = self._sides[side], self._sides[1 - side]
        packet = tcp(
            me.address,
            other.address,
            me.port,
            other.port,
            me.seq if seq is None else seq,
            payload,
            flags=flags,
            ack=other.seq,
            is_checked=self._is_checked,
        )
        if seq is None:
            me.seq += len(payload) + bool(flags & (SYN | FIN))
        found = Packet(self.now_ns, self._wrap(ip(me.address, other.address, 6, packet)))
        self.now_ns += self._step_ns
        return found

    def open(self) -> Iterator[Packet]:
        """The handshake."""
        yield self.segment(0, b"", flags=SYN)
        yield self.segment(1, b"", flags=SYN | ACK)
        yield self.segment(0, b"")

    def _send(self, side: int, data: bytes) -> Iterator[Packet]:
        for at in range(0, len(data), self._mss):
            yield self.segment(side, data[at : at + self._mss], flags=ACK | PSH)

    def send(self, data: bytes) -> Iterator[Packet]:
        """Data of the client, in segments."""
        return self._send(0, data)

    def answer(self, data: bytes) -> Iterator[Packet]:
        """Data of the server, in segments."""
        return self._send(1, data)

    def close(self) -> Iterator[Packet]:
        """Both sides end."""
        yield self.segment(0, b"", flags=FIN | ACK)
        yield self.segment(1, b"", flags=FIN | ACK)

    def reset(self) -> Iterator[Packet]:
        """The client resets the connection."""
        yield self.segment(0, b"", flags=RST)


def _endpoint(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)
