"""A program's own traffic → a capture: byte streams as the packets that might have carried them.

Services record what crossed their sockets without seeing packets. `Recorder` makes up the headers,
with correct lengths, sequence numbers and checksums, so that every tool reads the result.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import BinaryIO

from wireloom.captures.pcapng import PcapngWriter
from wireloom.errors import EncodeError

__all__ = ["Endpoint", "Recorder", "TcpRecording"]

Endpoint = tuple[str, int]
"""Address and port."""

RAW_IP = 101
"""Link type of packets without a link header."""
_SEGMENT = 16_384
"""Largest payload of one made-up segment: a packet's length has 16 bits."""
_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16


def _checksum(data: bytes) -> int:
    # 2**16 is 1 modulo 65535, so the remainder is the sum of all words with the carries added in.
    rest = int.from_bytes(data + bytes(len(data) % 2), "big") % 0xFFFF
    return 0xFFFF - rest


def _packed(address: str) -> bytes:
    try:
        return ip_address(address.partition("%")[0]).packed
    except ValueError as error:
        raise EncodeError(f"{address!r} is not an IP address") from error


def _pair(src: str, dst: str) -> tuple[bytes, bytes]:
    """Both addresses in the same version of IP."""
    a, b = _packed(src), _packed(dst)
    if len(a) != len(b):
        # An IPv4 peer of an IPv6 socket.
        a, b = (x if len(x) == 16 else bytes(10) + b"\xff\xff" + x for x in (a, b))
    return a, b


def _ip(src: bytes, dst: bytes, protocol: int, payload: bytes) -> bytes:
    if len(src) == 16:
        return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + src + dst + payload
    head = struct.pack(">BBHIBBH", 0x45, 0, 20 + len(payload), 0x4000, 64, protocol, 0) + src + dst
    return head[:10] + struct.pack(">H", _checksum(head)) + head[12:] + payload


def _with_checksum(src: bytes, dst: bytes, protocol: int, data: bytes, at: int) -> bytes:
    pseudo = src + dst + struct.pack(">II", len(data), protocol)
    return data[:at] + struct.pack(">H", _checksum(pseudo + data) or 0xFFFF) + data[at + 2 :]


@dataclass(slots=True)
class _Side:
    address: bytes
    port: int
    seq: int = 0


class TcpRecording:
    """One connection in a capture."""

    def __init__(self, recorder: Recorder, client: Endpoint, server: Endpoint, ts_ns: int) -> None:
        self._recorder = recorder
        addresses = _pair(client[0], server[0])
        self._client = _Side(addresses[0], client[1])
        self._server = _Side(addresses[1], server[1])
        self._segment(self._client, self._server, b"", _SYN, ts_ns)
        self._segment(self._server, self._client, b"", _SYN | _ACK, ts_ns)
        self._segment(self._client, self._server, b"", _ACK, ts_ns)

    def from_client(self, data: bytes, ts_ns: int) -> None:
        """Record bytes that the client sent."""
        self._data(self._client, self._server, data, ts_ns)

    def from_server(self, data: bytes, ts_ns: int) -> None:
        """Record bytes that the server sent."""
        self._data(self._server, self._client, data, ts_ns)

    def close(self, ts_ns: int) -> None:
        """Record the end of the connection."""
        self._segment(self._client, self._server, b"", _FIN | _ACK, ts_ns)
        self._segment(self._server, self._client, b"", _FIN | _ACK, ts_ns)

    def _data(self, src: _Side, dst: _Side, data: bytes, ts_ns: int) -> None:
        for at in range(0, len(data), _SEGMENT):
            self._segment(src, dst, data[at : at + _SEGMENT], _PSH | _ACK, ts_ns)

    def _segment(self, src: _Side, dst: _Side, data: bytes, flags: int, ts_ns: int) -> None:
        ack = dst.seq if flags & _ACK else 0
        words = (src.port, dst.port, src.seq, ack, 0x50, flags, 0xFFFF, 0, 0)
        segment = struct.pack(">HHIIBBHHH", *words) + data
        segment = _with_checksum(src.address, dst.address, 6, segment, 16)
        self._recorder.packet(_ip(src.address, dst.address, 6, segment), ts_ns)
        src.seq = (src.seq + len(data) + bool(flags & (_SYN | _FIN))) & 0xFFFFFFFF


class Recorder:
    """Writes streams and datagrams to a pcapng capture."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = PcapngWriter(file, RAW_IP)

    def connect(self, client: Endpoint, server: Endpoint, ts_ns: int) -> TcpRecording:
        """Record a connection from its start.

        Raises:
            EncodeError: an address is not an IP address, or the time does not fit.
        """
        return TcpRecording(self, client, server, ts_ns)

    def datagram(self, src: Endpoint, dst: Endpoint, data: bytes, ts_ns: int) -> None:
        """Record one UDP datagram.

        Raises:
            EncodeError: an address is not an IP address, or the data is too long.
        """
        if len(data) > 0xFFFF - 28:
            raise EncodeError(f"a datagram cannot have {len(data)} bytes")
        a, b = _pair(src[0], dst[0])
        head = struct.pack(">HHHH", src[1], dst[1], 8 + len(data), 0)
        self.packet(_ip(a, b, 17, _with_checksum(a, b, 17, head + data, 6)), ts_ns)

    def packet(self, packet: bytes, ts_ns: int) -> None:
        """Record one whole IP packet.

        Raises:
            EncodeError: the time does not fit.
        """
        self._writer.write(ts_ns, packet)
