"""Connections of a junction's lines, each one session of its router."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import TYPE_CHECKING, Protocol

from wireloom.errors import ConnectionClosed, StateError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.connections import Peer, TokenBucket
from wireloom.services._shell.logs import get_log
from wireloom.services.nais.links import TOKEN_WORD, Link
from wireloom.services.nais.urls import is_number

if TYPE_CHECKING:
    from wireloom.services.nais.junction import Junction
    from wireloom.services.nais.wiring import Line

__all__ = ["LinkPeer", "SessionPeer", "TcpPeer", "is_token"]

log = get_log("nais")

WRITE_BYTES = 1 << 16
"""Bytes handed to a transport at once; the rest waits where it is bounded and gets old."""
TOKEN_S = 5.0
"""Seconds within which a TCP peer must have said its token."""
_MAX_TOKEN_LINE = 1024
_TAP_PORTS = 40_000
"""Ports made up for what has none begin here."""
_SLICE_BYTES = 1 << 11
"""Bytes routed before one looks at the clock: 2,048 records at worst."""
_TURN_S = 0.02
"""How long one connection may keep all others waiting."""


def is_token(said: str, token: str) -> bool:
    """Whether it is the token; takes as long whatever was said."""
    return hmac.compare_digest(said.encode(), token.encode())


class SessionPeer(Protocol):
    """A connection that has a session."""

    remote: Address
    session: int
    is_sending: bool

    def wake(self) -> None:
        """There is something to send."""
        ...

    def close(self) -> None:
        """Send what was written, then close."""
        ...


class TcpPeer(Peer):
    """A TCP connection; bytes go from the event loop to the router and back without a task."""

    def __init__(self, junction: Junction, line: Line, is_incoming: bool) -> None:
        super().__init__(junction.hub)
        self._junction, self._line = junction, line
        self._incoming = is_incoming
        self._said: bytearray | None = None
        """What a peer that has not proved itself has said so far."""
        self.is_sending = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unrouted = b""
        self._is_held = False
        self._behind: Peer | None = None
        """A connection that was there before what has come, and has no session yet."""
        self.session = 0

    def _is_incoming(self) -> bool:
        return self._incoming

    def opened(self) -> None:
        """Wait for the token where one is needed, else begin."""
        assert self.transport is not None
        most = min(WRITE_BYTES, self.hub.limits.max_queue_bytes)
        self.transport.set_write_buffer_limits(high=most)
        self._line.peers.add(self)
        if not self._line.token:
            self._enter()
        elif self._incoming:
            self._said = bytearray()
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(TOKEN_S, self.abort, "no token")
        else:
            # Past the tap: a token is for nobody else's eyes.
            self.transport.write(f"{TOKEN_WORD}{self._line.token}\n".encode())
            self._enter()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._said is None:
            super().data_received(data)
            return
        self._said += data
        line, newline, rest = self._said.partition(b"\n")
        if not newline:
            if len(self._said) > _MAX_TOKEN_LINE:
                self._refuse()
            return
        self._said = None
        text = line.decode("utf-8", "replace").rstrip("\r")
        if not text.startswith(TOKEN_WORD) or not is_token(
            text.removeprefix(TOKEN_WORD), self._line.token
        ):
            self._refuse()
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._enter()
        if rest and self.session:
            super().data_received(bytes(rest))

    def _refuse(self) -> None:
        self._said = bytearray()
        self.hub.metrics.refused.labels("token").inc()
        self.abort("wrong token")

    def _enter(self) -> None:
        try:
            self.session = self._junction.enter(self._line, self)
        except StateError as error:
            log.warning("refused", line=self._line.name, peer=str(self.remote), reason=str(error))
            self.close()

    def received(self, data: bytes) -> None:
        """Route it."""
        self._line.received_bytes += len(data)
        self._unrouted = data
        self._behind = self.hub.newest
        self._route()

    def _route(self) -> None:
        """Route what has come, but not for long: a flood of small records is for others, too.

        What is left then waits, and the peer with it, until they had their turn. So does what came
        behind a new connection: that one is to have it, too.
        """
        if self._behind is not None:
            if self.hub.is_entering(self._behind):
                self._wait()
                return
            self._behind = None
        junction, data, pos = self._junction, self._unrouted, 0
        until = time.monotonic() + _TURN_S
        while self.session and pos < len(data):
            junction.receive(self.session, data[pos : pos + _SLICE_BYTES])
            pos += _SLICE_BYTES
            if time.monotonic() > until and pos < len(data):
                self._unrouted = data[pos:]
                self._wait()
                break
        else:
            self._unrouted = b""
            if self._is_held:
                self._is_held = False
                self.resume_reading()
        junction.flush()

    def _wait(self) -> None:
        """Go on with `_route` when others had their turn."""
        if not self._is_held:
            self._is_held = True
            self.hold_reading()
        asyncio.get_running_loop().call_soon(self._route)

    def writable(self) -> None:
        """Go on where the transport had enough."""
        self.wake()

    def wake(self) -> None:
        """Hand over what waits, as far as the transport takes it."""
        junction = self._junction
        while self.session and self.is_writable:
            data = junction.router.data_to_send(self.session, junction.now(), WRITE_BYTES)
            if not data:
                return
            self._line.sent_bytes += len(data)
            self.write(data)

    def lost(self, error: Exception | None) -> None:
        """The session is over."""
        self._line.peers.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self.session:
            if self._unrouted:
                self._junction.receive(self.session, self._unrouted)
                self._unrouted = b""
            session, self.session = self.session, 0
            self._junction.leave(session)


class LinkPeer(Peer):
    """A connection over a `Link`: WebSocket, MQTT, serial."""

    def __init__(self, junction: Junction, line: Line, link: Link, is_incoming: bool) -> None:
        super().__init__(junction.hub)
        self._junction, self._line, self._link = junction, line, link
        self._incoming = is_incoming
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self.session = 0
        self.is_sending = False
        """Whether records are under way that the router no longer has."""
        self.remote, self.local = link.remote, link.local

    def _is_incoming(self) -> bool:
        return self._incoming

    @property
    def is_open(self) -> bool:
        """Whether records can still be sent."""
        return not self._closing.is_set()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def close(self) -> None:
        """End the session; `run` does the rest."""
        self._closing.set()

    def abort(self, reason: str) -> None:
        """The same, and say why."""
        log.info("aborted", line=self._line.name, peer=str(self.remote), reason=reason)
        self._closing.set()

    async def run(self) -> None:
        """Be a session until one end closes.

        Raises:
            StateError: there is no id for it.
        """
        hub = self.hub
        self.session = self._junction.enter(self._line, self)
        hub.add(self)
        self._line.peers.add(self)
        try:
            if hub.tap is not None:
                remote, local = self._tapped()
                self._tap = hub.tap.connect_peer(remote, local, self._incoming)
            if hub.limits.max_bytes_per_s:
                self._bucket = TokenBucket(hub.limits.max_bytes_per_s, time.monotonic())
            tasks = [
                asyncio.get_running_loop().create_task(work, name=name)
                for work, name in (
                    (self._read(), "read"),
                    (self._write(), "write"),
                    (self._closing.wait(), "closing"),
                )
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception):
                    raise result
        finally:
            self._closing.set()
            self._line.peers.discard(self)
            session, self.session = self.session, 0
            self._junction.leave(session)
            hub.remove(self)
            if self._tap is not None:
                self._tap.close()
            await self._link.close()
            if not self.gone.done():
                self.gone.set_result(None)

    def _tapped(self) -> tuple[Address, Address]:
        """Ends for the tap: numbers, and no two sessions of serial lines or brokers the same."""
        ends = [
            end if is_number(end.host) else Address("127.0.0.1", end.port)
            for end in (self.remote, self.local)
        ]
        if not ends[1].port:
            ends[1] = Address(ends[1].host, _TAP_PORTS + self.session)
        return ends[0], ends[1]

    async def _read(self) -> None:
        while data := await self._link.receive():
            self.hub.metrics.received.inc(len(data))
            self._line.received_bytes += len(data)
            if self._tap is not None:
                self._tap.received(data)
            self._junction.receive(self.session, data)
            self._junction.flush()
            if self._bucket is not None and (
                wait := self._bucket.take(len(data), time.monotonic())
            ):
                self.hub.metrics.slowed.inc()
                await asyncio.sleep(wait)

    async def _write(self) -> None:
        junction = self._junction
        while True:
            await self._wake.wait()
            self._wake.clear()
            while records := junction.router.messages_to_send(
                self.session, junction.now(), WRITE_BYTES
            ):
                if not self._link.is_message:
                    records = [b"".join(records)]
                if not await self._send(records):
                    return

    async def _send(self, records: list[bytes]) -> bool:
        sent = 0
        self.is_sending = True
        try:
            for record in records:
                await self._link.send(record)
                sent += 1
                self._line.sent_bytes += len(record)
                self.hub.metrics.sent.inc(len(record))
                if self._tap is not None:
                    self._tap.sent(record)
        except ConnectionClosed as error:
            log.info("lost", line=self._line.name, peer=str(self.remote), reason=error.reason)
            return False
        finally:
            self.is_sending = False
            # The router has let go of them, so they are counted here.
            self._junction.lost(self._line, len(records) - sent)
        return True
