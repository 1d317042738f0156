"""Connections of a service: admitted, counted, tapped, held to their quotas.

`Hub` is what the connections of one service share. `Peer` is one connection: an asyncio protocol
that a service derives from, with four hooks. A peer that sends more than its quota is not read from
until its tokens are back, so that TCP slows it down and nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter as Multiset
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Gauge

from wireloom.services._shell.addresses import Address
from wireloom.services._shell.buckets import TokenBucket
from wireloom.services._shell.declared import CONNECTION_METRICS
from wireloom.services._shell.listening import Listener, bind
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.sections import LimitSettings
from wireloom.services._shell.tap import Tap, TapSession

__all__ = ["Hub", "Peer", "TokenBucket"]

log = get_log("connections")

_JOINED_BYTES = 64 * 1024
"""Pieces that are no more than this together are copied into one: a write costs more."""


@dataclass(slots=True)
class _Metrics:
    registry: CollectorRegistry
    prefix: str
    open: Gauge = field(init=False)
    accepted: Counter = field(init=False)
    refused: Counter = field(init=False)
    received: Counter = field(init=False)
    sent: Counter = field(init=False)
    slowed: Counter = field(init=False)

    def __post_init__(self) -> None:
        made: dict[str, Any] = {}
        for info in CONNECTION_METRICS:
            kind = Counter if info.kind == "counter" else Gauge
            name = f"{self.prefix}_{info.name}"
            made[info.name] = kind(name, info.help, info.labels, registry=self.registry)
        self.open = made["connections"]
        self.accepted = made["connections_opened"]
        self.refused = made["connections_refused"]
        self.received = made["received_bytes"]
        self.sent = made["sent_bytes"]
        self.slowed = made["slowed_reads"]


class Hub:
    """What all connections of a service share.

    Args:
        name: of the service; metrics are called ``wireloom_NAME_…``.
        limits: what is granted.
        tap: records what crosses the connections.
        registry: where metrics are kept; a new one by default, so that services in one process
            do not meet.
    """

    def __init__(
        self,
        name: str,
        limits: LimitSettings | None = None,
        tap: Tap | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.name = name
        self.limits = limits or LimitSettings()
        self.tap = tap
        self.registry = registry or CollectorRegistry()
        self.metrics = _Metrics(self.registry, f"wireloom_{name}")
        self.peers: set[Peer] = set()
        self.is_draining = False
        self._listeners: list[Listener[Peer]] = []
        self._entering: set[Peer] = set()
        """Connections whose TLS handshake is under way; they count, too."""
        self.newest: Peer | None = None
        """The last connection without TLS that was accepted, until it is open: some turns of the
        loop. What others say in them was said after it had connected."""
        self._by_host: Multiset[str] = Multiset()

    async def listen(
        self,
        make: Callable[[], Peer],
        address: Address,
        tls: ssl.SSLContext | None = None,
    ) -> Address:
        """Accept connections; give the real address.

        Raises:
            OSError: the address cannot be listened on.
        """
        listener = await self.open_server(make, address, tls)
        return Address.of_socket(listener.sockets[0].getsockname())

    async def open_server(
        self,
        make: Callable[[], Peer],
        address: Address,
        tls: ssl.SSLContext | None = None,
    ) -> Listener[Peer]:
        """Accept connections; who closes before the hub does, calls the listener's `close`.

        Raises:
            OSError: the address cannot be listened on.
        """

        def admit(remote: Address) -> Peer | None:
            # Without TLS a peer can be told why; see `Peer.refused`.
            if tls is not None and (reason := self.refusal_of(remote)):
                self.count_refused(remote, reason)
                return None
            peer = make()
            peer.remote = remote
            self._entering.add(peer)
            self._by_host[remote.host] += 1
            if tls is None:
                self.newest = peer
            return peer

        def entered(peer: Peer, error: OSError | None) -> None:
            self._leave(peer)
            if error is not None:
                self.count_refused(peer.remote, "handshake")

        listener = Listener(await bind(address), admit, entered, tls)
        # A service may open and close them as it runs.
        self._listeners = [*(each for each in self._listeners if each.sockets), listener]
        return listener

    def is_entering(self, peer: Peer) -> bool:
        """Whether it was accepted and is not open yet."""
        return peer in self._entering

    def count_refused(self, remote: Address, reason: str) -> None:
        """A connection was not let in."""
        self.metrics.refused.labels(reason).inc()
        log.warning("refused", service=self.name, peer=str(remote), reason=reason)

    def _leave(self, peer: Peer) -> None:
        if peer is self.newest:
            self.newest = None
        if peer in self._entering:
            self._entering.remove(peer)
            self._forget(peer.remote.host)

    def _forget(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def refusal(self, peer: Peer) -> str | None:
        """Why a new connection is not let in; None: it is."""
        self._leave(peer)  # from here on it is one, or none
        return self.refusal_of(peer.remote)

    def refusal_of(self, remote: Address) -> str | None:
        """The same by its address, for connections that are no peers yet."""
        if self.is_draining:
            return "draining"
        if len(self.peers) + len(self._entering) >= self.limits.max_connections:
            return "max_connections"
        if self._by_host[remote.host] >= self.limits.max_connections_per_address:
            return "max_connections_per_address"
        return None

    def add(self, peer: Peer) -> None:
        """A connection is open."""
        self.peers.add(peer)
        self._by_host[peer.remote.host] += 1
        self.metrics.accepted.inc()
        self.metrics.open.set(len(self.peers))

    def remove(self, peer: Peer) -> None:
        """It has ended."""
        self.peers.discard(peer)
        self._forget(peer.remote.host)
        self.metrics.open.set(len(self.peers))

    def stop_listening(self) -> None:
        """Accept no more."""
        self.is_draining = True
        for listener in self._listeners:
            listener.close()

    async def close(self, within_s: float = 5.0) -> None:
        """Close every connection: what was written is sent, for some seconds; then no more."""
        self.stop_listening()
        for listener in self._listeners:
            await listener.cancel()
        for peer in list(self.peers):
            peer.close()
        waiting = [peer.gone for peer in self.peers]
        if waiting:
            await asyncio.wait(waiting, timeout=within_s)
        for peer in list(self.peers):
            peer.abort("closing")
        if waiting := [peer.gone for peer in self.peers]:
            await asyncio.wait(waiting, timeout=1.0)
        if self.tap is not None:
            self.tap.close()


class Peer(asyncio.Protocol):
    """One connection.

    A subclass overrides `opened`, `received`, `writable` and `lost`, and calls `write`, `close`
    and `abort`.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.transport: asyncio.Transport | None = None
        self.remote = Address("", 0)
        self.local = Address("", 0)
        self.is_writable = True
        """False while the socket takes no more; hold back what can wait until `writable`."""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended."""
        self._bucket: TokenBucket | None = None
        self._tap: TapSession | None = None
        self._is_admitted = False
        self._unread = 0
        """How many reasons there are not to read."""

    # -- hooks

    def opened(self) -> None:
        """The connection is there, and was let in."""

    def refused(self, reason: str) -> None:
        """The hub does not let it in; it is closed behind this. Say why, where there is a way."""

    def received(self, data: bytes) -> None:
        """Bytes have come."""

    def writable(self) -> None:
        """The socket takes bytes again."""

    def lost(self, error: Exception | None) -> None:
        """The connection has ended; not called when it was never let in."""

    def eof(self) -> bool:
        """The peer sends no more; True keeps this side open."""
        return False

    # -- what a subclass calls

    @property
    def is_open(self) -> bool:
        """Whether bytes can still be written."""
        return self.transport is not None and not self.transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send bytes; ignored when the connection is closing."""
        if not data or not self.is_open:
            return
        assert self.transport is not None
        self.transport.write(data)
        self.hub.metrics.sent.inc(len(data))
        if self._tap is not None:
            self._tap.sent(data)

    def write_parts(self, parts: list[bytes]) -> None:
        """Send several pieces; large ones are not copied together."""
        size = sum(map(len, parts))
        if len(parts) == 1 or size <= _JOINED_BYTES:
            self.write(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        if not self.is_open:
            return
        assert self.transport is not None
        self.transport.writelines(parts)
        self.hub.metrics.sent.inc(size)
        if self._tap is not None:
            for part in parts:
                self._tap.sent(part)

    @property
    def is_read(self) -> bool:
        """Whether nothing holds its reading."""
        return not self._unread

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were written and wait in the socket's buffer."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def close(self) -> None:
        """Send what was written, then close."""
        if self.transport is not None:
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Close at once; what was written and not sent is lost."""
        if self.transport is not None:
            log.info("aborted", service=self.hub.name, peer=str(self.remote), reason=reason)
            self.transport.abort()

    def hold_reading(self) -> None:
        """Read no more until `resume_reading`, called as often: the peer feels it through TCP."""
        self._unread += 1
        if self._unread == 1 and self.is_open:
            assert self.transport is not None
            with contextlib.suppress(RuntimeError):  # at the end of the stream there is nothing
                self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take one reason back."""
        self._unread -= 1
        if self._unread == 0 and self.is_open:
            assert self.transport is not None
            with contextlib.suppress(RuntimeError):
                self.transport.resume_reading()

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # Not checked: uvloop's are transports without being derived from asyncio's.
        self.transport = transport = cast("asyncio.Transport", transport)
        # A peer that is gone already has no name.
        if name := transport.get_extra_info("peername"):
            self.remote = Address.of_socket(name) if isinstance(name, tuple) else self.remote
        if name := transport.get_extra_info("sockname"):
            self.local = Address.of_socket(name) if isinstance(name, tuple) else self.local
        if reason := self.hub.refusal(self):
            self.hub.count_refused(self.remote, reason)
            self.refused(reason)
            transport.close()
            return
        limits = self.hub.limits
        transport.set_write_buffer_limits(high=limits.max_queue_bytes)
        if limits.max_bytes_per_s:
            self._bucket = TokenBucket(limits.max_bytes_per_s, time.monotonic())
        self._is_admitted = True
        self.hub.add(self)
        if self.hub.tap is not None:
            self._tap = self.hub.tap.connect_peer(self.remote, self.local, self._is_incoming())
        self.opened()

    def _is_incoming(self) -> bool:
        return True

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if not self._is_admitted:
            return
        self.hub.metrics.received.inc(len(data))
        if self._tap is not None:
            self._tap.received(data)
        if self._bucket is not None and (wait := self._bucket.take(len(data), time.monotonic())):
            self.hub.metrics.slowed.inc()
            self.hold_reading()
            asyncio.get_running_loop().call_later(wait, self.resume_reading)
        self.received(data)

    def eof_received(self) -> bool:
        """Called by the event loop."""
        return self._is_admitted and self.eof()

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self.is_writable = True
        self.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._is_admitted:
            self._is_admitted = False
            self.hub.remove(self)
            if self._tap is not None:
                self._tap.close()
            self.lost(exc)
        if not self.gone.done():
            self.gone.set_result(None)
