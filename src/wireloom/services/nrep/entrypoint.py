"""The entry point: the table of `wireloom.formats.nrep` on an event loop.

Back-pressure. What is to be sent to a connection is bounded. A client that knows windows sends no
more on a socket than the far end, or its connection, has taken; so a slow socket stops nobody else.
One that does not is not read while somebody it sends to takes no more. Who takes nothing at all for
too long is cut off, and so is whoever has too much waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from wireloom.errors import StateError
from wireloom.formats.nrep.events import (
    Happening,
    InstancePublished,
    InstanceRemoved,
    PeerFailed,
    SocketEnded,
    SocketRequested,
)
from wireloom.formats.nrep.extensions import ALL_FEATURES, Feature, reason_name
from wireloom.formats.nrep.records import Peer as Session
from wireloom.formats.nrep.table import Table
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.connections import Hub, Peer
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tap import Tap
from wireloom.services._shell.tasks import Tasks
from wireloom.services._shell.tls import server_context
from wireloom.services.nrep.discovery import Responder, udp_socket
from wireloom.services.nrep.identity import Identity, given_identity, kept_identity
from wireloom.services.nrep.metrics import EntryPointMetrics
from wireloom.services.nrep.settings import EntryPointSettings, state_folder

__all__ = ["EntryPoint"]

log = get_log("nrep")

_TICK_S = 0.25
"""How often times are looked at: well under the shortest that is sensible."""
_CLOSE_S = 5.0
"""For the last bytes of a connection that is closed, to one that may not read them."""
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A machine that is gone without a word is noticed after two minutes."""
_MAX_SHOWN = 1000
"""Connections and apps in the status: for people."""


class _Connection(Peer):
    """One client."""

    def __init__(self, service: EntryPoint) -> None:
        super().__init__(service.hub)
        self._service = service
        self.session: Session | None = None
        self.waiting: set[_Connection] = set()
        """Those that are not read until this one takes bytes again."""
        self.congested_at: float | None = None
        self._least_unsent = 0
        self.closing_at: float | None = None
        self.heard_at = time.monotonic()
        self._begun = (-1, 0.0)

    def opened(self) -> None:
        assert self.transport is not None
        sock: socket.socket | None = self.transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):  # it may be gone already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _KEEPALIVE.items():
                    if hasattr(socket, name):
                        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        try:
            self.session = self._service.table.connect(self.heard_at)
        except StateError as error:  # the hub's limit is the same, so this is a drain
            log.info("refused", peer=str(self.remote), reason=error.reason)
            self.close()
            return
        self._service.connections[self.session.number] = self
        self._service.flush_soon()

    def received(self, data: bytes) -> None:
        session, service = self.session, self._service
        if session is None:
            return
        self.heard_at = time.monotonic()
        happened = session.receive(data, self.heard_at)
        if happened:
            service.tell(happened)
        # At once: what came together goes on together, and waiting for more would cost time.
        service.flush()
        if session.is_closed:
            self.end()
            return
        for other in session.destinations:
            if other.is_congested:
                self._wait_for(service.connections.get(other.number))

    def _wait_for(self, other: _Connection | None) -> None:
        if other is None or self in other.waiting:
            return
        assert self.session is not None
        if (
            self.session.features & Feature.WINDOW
            and other is not self
            and other.unsent_bytes < self._service.soft_backlog
        ):
            return  # its windows bound what it sends
        other.waiting.add(self)
        self.hold_reading()

    def end(self) -> None:
        """Send what is left, and close; see `EntryPoint._look_at`."""
        self._service.flush()
        self.closing_at = time.monotonic()
        self.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.congested_at = time.monotonic()
        self._least_unsent = self.unsent_bytes
        if self.session is not None:
            self.session.set_congested(True)

    def writable(self) -> None:
        self.congested_at = None
        if self.session is not None:
            self.session.set_congested(False)
            self._service.flush_soon()
        self._release()

    def lost(self, error: Exception | None) -> None:
        if self.session is not None:
            self._service.connections.pop(self.session.number, None)
            self._service.tell(self.session.receive(b"", time.monotonic()))
            self._service.flush_soon()
        self._release()

    def _release(self) -> None:
        for each in self.waiting:
            each.resume_reading()
        self.waiting.clear()

    def too_long(self, now: float) -> str | None:
        """What has lasted too long, if anything has."""
        session, times = self.session, self._service.settings.times
        if session is None:
            return None
        if self.closing_at is not None:
            return "closing" if now - self.closing_at > _CLOSE_S else None
        if self.congested_at is not None:
            unsent = self.unsent_bytes
            if unsent < self._least_unsent:  # slow, but it reads
                self._least_unsent, self.congested_at = unsent, now
            knows = session.features & Feature.WINDOW
            if now - self.congested_at > (times.stall_s if knows else times.legacy_stall_s):
                return "stalled"
        begun, since = self._begun
        if not session.has_begun_packet or not self.is_read:
            self._begun = (-1, now)
        elif begun != session.packet_offset:
            self._begun = (session.packet_offset, now)
        elif now - since > times.packet_s:
            return "packet"
        is_idle = not (session.instances or session.sockets or session.watches)
        return "idle" if is_idle and now - self.heard_at > times.idle_s else None


class EntryPoint:
    """An entry point as a service; see `wireloom.services._shell.program`.

    Raises:
        OptionError: settings that contradict each other.
        SourceError: the certificate or its key cannot be used.
        OSError: the state folder or the tap's cannot be written to.
    """

    routes: Sequence[BaseRoute] = ()

    def __init__(self, settings: EntryPointSettings | None = None) -> None:
        self.settings = settings = settings or EntryPointSettings()
        settings.check()
        self.identity = _identity(settings)
        self._tls = None
        if self.identity is not None:
            self._tls = server_context(
                self.identity.cert, self.identity.key, settings.tls.client_ca
            )
        tap = Tap(settings.tap, "nrep") if settings.tap.folder is not None else None
        self.hub = Hub("nrep", settings.limits, tap)
        self.metrics = EntryPointMetrics(self.hub.registry)
        self.table = Table(
            quotas=settings.quotas.quotas(settings.limits.max_connections, settings.times.accept_s),
            reject_with_zero_id=settings.legacy_reject_id,
        )
        self.metrics.watch(self.table)
        self.connections: dict[int, _Connection] = {}
        self.soft_backlog = settings.quotas.backlog_bytes // 2
        self._is_flush_due = False
        self._emptied = asyncio.Event()
        self._listening = Address("", 0)
        self._discovery: asyncio.DatagramTransport | None = None
        self._started = time.monotonic()

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics."""
        return self.hub.registry

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return self._listening

    @property
    def discovery(self) -> Address | None:
        """Where Discover is answered, if it is."""
        if self._discovery is None:
            return None
        return Address.of_socket(self._discovery.get_extra_info("sockname"))

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        """Begin to serve; give what the ready line says.

        Raises:
            OSError: an address cannot be listened on.
        """
        settings = self.settings
        if self.identity is None:
            log.warning(
                "insecure", text="plain TCP: what is relayed can be read and changed on the way"
            )
        self._listening = await self.hub.listen(
            lambda: _Connection(self), settings.listen, self._tls
        )
        said: dict[str, Any] = {"listen": str(self._listening)}
        if settings.discovery.is_on:
            said["discovery"] = str(await self._answer_discover())
        if self.identity is not None:
            said["fingerprint"] = self.identity.fingerprint
        tasks.start(self._watch_times(), "times")
        return said

    async def _answer_discover(self) -> Address:
        settings, tap = self.settings.discovery, self.hub.tap
        sock = udp_socket(settings.listen)
        real = Address.of_socket(sock.getsockname())

        def record(source: Address, data: bytes, is_received: bool) -> None:
            assert tap is not None
            here = real.host
            if here in ("0.0.0.0", "::"):
                here = "::1" if ":" in source.host else "127.0.0.1"
            a, b = (source.host.partition("%")[0], source.port), (here, real.port)
            tap.datagram(*((a, b) if is_received else (b, a)), data, time.time_ns())

        responder = Responder(
            settings,
            self._listening.port,
            self.identity.der if self.identity is not None else b"",
            lambda outcome: self.metrics.count("discovery_datagrams", outcome),
            record if tap is not None else None,
        )
        loop = asyncio.get_running_loop()
        self._discovery, _ = await loop.create_datagram_endpoint(lambda: responder, sock=sock)
        return real

    async def drain(self) -> None:
        """Take nothing new; wait until the last socket has ended."""
        self.table.drain()
        self.flush()
        self.hub.stop_listening()
        if self._discovery is not None:
            self._discovery.close()
        while self.table.sockets:
            self._emptied.clear()
            await self._emptied.wait()

    async def close(self) -> None:
        """End everything."""
        if self._discovery is not None:
            self._discovery.close()
        self.flush()
        await self.hub.close()

    def status(self) -> dict[str, Any]:
        """What it does right now."""
        table = self.table
        shown = list(self.connections.values())[:_MAX_SHOWN]
        return {
            "listen": str(self._listening),
            "discovery": str(self.discovery) if self._discovery is not None else None,
            "fingerprint": self.identity.fingerprint if self.identity is not None else None,
            "features": [feature.name.lower() for feature in ALL_FEATURES if feature.name],
            "is_draining": table.is_draining,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "connections": len(self.connections),
            "instances": table.instances,
            "sockets": table.sockets,
            "relayed_bytes": table.relayed_bytes,
            "apps": [
                {"app": name, "instances": count} for name, count in table.apps()[:_MAX_SHOWN]
            ],
            "peers": [
                {
                    "peer": str(each.remote),
                    "name": each.session.name,
                    "is_extended": each.session.is_extended,
                    "instances": each.session.instances,
                    "sockets": each.session.sockets,
                    "unsent_bytes": each.unsent_bytes,
                }
                for each in shown
                if each.session is not None
            ],
        }

    # -- what connections call

    def flush_soon(self) -> None:
        """Send what everybody is to be sent, when the caller is done."""
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Send it now."""
        self._is_flush_due = False
        most = self.settings.quotas.backlog_bytes
        for session in self.table.take_unsent():
            connection = self.connections.get(session.number)
            parts = session.parts_to_send()
            if connection is None or not parts:
                continue
            connection.write_parts(parts)
            if session.is_congested and connection.unsent_bytes > most:
                self._cut_off(connection, "backlog")

    def tell(self, happened: Iterable[Happening]) -> None:
        """Count and log what the table says."""
        for each in happened:
            self.metrics.happened(each)
            match each:
                case InstancePublished():
                    log.info(
                        "published",
                        peer=self._name(each.peer),
                        app=each.description,
                        instance=each.instance_id.hex(),
                    )
                case InstanceRemoved():
                    log.info("unpublished", instance=each.instance_id.hex())
                case SocketRequested():
                    log.debug(
                        "open",
                        peer=self._name(each.requester),
                        publisher=self._name(each.receiver),
                        socket=each.socket_id.hex(),
                    )
                case SocketEnded():
                    log.debug(
                        "closed",
                        socket=each.socket_id.hex(),
                        reason=reason_name(each.reason),
                        to_receiver=each.to_receiver,
                        to_requester=each.to_requester,
                    )
                    if not self.table.sockets:
                        self._emptied.set()
                case PeerFailed():
                    log.warning("failed", peer=self._name(each.peer), why=each.why)

    def _name(self, number: int) -> str:
        found = self.connections.get(number)
        return str(found.remote) if found is not None else f"#{number}"

    # -- time

    async def _watch_times(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self.tell(self.table.handle_timeout(now))
            self.flush()
            held = 0
            for connection in list(self.connections.values()):
                held += not connection.is_read
                if why := connection.too_long(now):
                    self._cut_off(connection, why)
            self.metrics.set_held(held)
            self.metrics.totals(self.table)
            if self.hub.tap is not None:
                self.hub.tap.flush()

    def _cut_off(self, connection: _Connection, why: str) -> None:
        if why != "closing":
            self.metrics.count("peers_cut_off", why)
        connection.abort(why)


def _identity(settings: EntryPointSettings) -> Identity | None:
    if settings.insecure:
        return None
    if settings.tls.cert is not None:
        return given_identity(settings.tls.cert, settings.tls.key)
    return kept_identity(settings.state or state_folder())
