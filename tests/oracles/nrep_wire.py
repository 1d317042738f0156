"""NREP peers on blocking sockets, written from the protocol's byte tables without our codec."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from typing import Self

import pytest

from wireloom.services._shell.addresses import Address

__all__ = [
    "ACCEPT",
    "CLOSE",
    "OPEN_ACK",
    "OPEN_REQUEST",
    "READY",
    "REFUSE",
    "WirePeer",
    "app",
    "ask_udp",
    "control",
    "data",
    "find",
    "needs_ipv6",
    "open_socket",
    "packet",
    "publish",
]

OPEN_ACK, OPEN_REQUEST, ACCEPT, REFUSE, READY, CLOSE = 0x80, 0x40, 0x20, 0x10, 0x08, 0x04

_HEAD = struct.Struct("<BBII")
_WITHIN_S = 20.0


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this system has no IPv6")


def packet(kind: int, content: bytes = b"", nonce: int = 0) -> bytes:
    return _HEAD.pack(0, kind, nonce, len(content)) + content


def app(name: bytes) -> bytes:
    import hashlib

    return hashlib.sha1(name, usedforsecurity=False).digest()[:10]


def publish(name: bytes, nonce: int) -> bytes:
    return packet(4, struct.pack("<I", len(name)) + name, nonce)


def find(app_id: bytes, nonce: int) -> bytes:
    return packet(6, app_id, nonce)


def open_socket(instance: bytes, nonce: int) -> bytes:
    return packet(8, instance, nonce)


def control(socket_id: bytes, flags: int) -> bytes:
    return packet(9, socket_id + bytes([flags]))


def data(socket_id: bytes, content: bytes) -> bytes:
    return packet(10, socket_id + struct.pack("<I", len(content)) + content)


def ask_udp(at: Address, *datagrams: bytes) -> list[bytes]:
    """Send datagrams, then a good Discover; the answers up to that one's, which is left out."""
    last = 0x7EAD_BEEF
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_WITHIN_S)
        for each in (*datagrams, packet(1, nonce=last)):
            sock.sendto(each, (at.host, at.port))
        answers: list[bytes] = []
        while True:
            answer, source = sock.recvfrom(65_536)
            assert source[1] == at.port
            if answer[2:6] == struct.pack("<I", last):
                return answers
            answers.append(answer)


class WirePeer:
    """One connection, greeted; it never says that it knows extensions."""

    def __init__(self, at: Address, *, is_plain: bool, within_s: float = _WITHIN_S) -> None:
        self.sock = socket.create_connection((at.host, at.port), within_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._barrier = 0x6000_0000
        try:
            if not is_plain:
                self._start_tls()
            assert self.next()[:6] == bytes.fromhex("000300000000")
        except BaseException:
            self.sock.close()
            raise

    def _start_tls(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.sock = context.wrap_socket(self.sock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, *packets: bytes) -> None:
        self.sock.sendall(b"".join(packets))

    def _exactly(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = self.sock.recv(size - len(got))
            if not more:
                raise ConnectionError("the entry point has closed the connection")
            got += more
        return got

    def next(self) -> bytes:
        """The next packet as it came."""
        head = self._exactly(10)
        return head + self._exactly(_HEAD.unpack(head)[3])

    def until_now(self) -> list[bytes]:
        """All that the entry point has sent because of anything before this call.

        A question is asked whose answer can only come behind all that.
        """
        self._barrier += 1
        self.send(find(b"\xfe" * 10, self._barrier))
        last = packet(7, b"\0", self._barrier)
        got: list[bytes] = []
        while (each := self.next()) != last:
            got.append(each)
        return got

    def publish(self, name: bytes) -> bytes:
        """The id of the new instance."""
        self.send(publish(name, 0x7001))
        reply = self.next()
        assert reply[:21] == packet(5, b"\1" + app(name) + bytes(10), 0x7001)[:21]
        assert len(reply) == 31
        return reply[21:]

    def joined(self, other: WirePeer, instance: bytes) -> tuple[bytes, bytes]:
        """An open socket to an instance of `other`: its id here and there."""
        self.send(open_socket(instance, 0x7002))
        ack = self.next()
        mine = ack[10:20]
        assert ack == packet(9, mine + bytes([OPEN_ACK]), 0x7002)
        request = other.next()
        theirs = request[10:20]
        assert request == packet(9, theirs + bytes([OPEN_REQUEST]) + instance)
        other.send(control(theirs, ACCEPT))
        assert self.next() == control(mine, READY)
        return mine, theirs

    def is_shut(self) -> bool:
        """Whether the entry point closes this connection, without a further packet."""
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            return self.sock.recv(1) == b""
        return True
