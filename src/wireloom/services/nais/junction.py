"""A junction with TCP lines: the router of `wireloom.formats.nais` on an event loop.

Back-pressure: bytes wait in the router's bounded queues while a connection cannot take them, so
that a slow one loses its oldest records and holds up nobody else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from wireloom.errors import OptionError, StateError
from wireloom.formats.nais.lines import LineOptions, board_line
from wireloom.formats.nais.router import Router

__all__ = ["Junction", "LineAddress", "parse_line", "parse_route"]

_WRITE_BYTES = 1 << 16
"""Bytes handed to a transport at once; the rest waits where it is bounded and gets old."""
_RECONNECT_S = 2.0
_TICK_S = 0.25
"""Longest sleep while anything waits for time: an idle limit may be that short."""
_DRAIN_S = 5.0
_NAME = re.compile(r"\w+")
_FLAGS = ("board", "trunk")


@dataclass(frozen=True, slots=True)
class LineAddress:
    """Where a line is."""

    name: str
    kind: Literal["tcp", "tcp-client"]
    host: str
    port: int
    options: LineOptions


def parse_line(text: str) -> LineAddress:
    """A line as on the command line: ``NAME=tcp://HOST:PORT``.

    ``tcp-client://`` connects instead of listening; ``?board`` and ``?trunk`` say what is at the
    other end.

    Raises:
        OptionError: it is not such a text.
    """
    name, _, url = text.partition("=")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise OptionError(f"line {text!r}: {error}") from None
    if not _NAME.fullmatch(name):
        raise OptionError(f"line {text!r}: a name is made of letters, digits and _")
    if parts.scheme not in ("tcp", "tcp-client"):
        raise OptionError(f"line {text!r}: tcp:// or tcp-client://, not {parts.scheme!r}")
    if not parts.hostname or port is None or parts.path:
        raise OptionError(f"line {text!r}: HOST:PORT is needed, and nothing behind it")
    flags = [flag for flag, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if unknown := [flag for flag in flags if flag not in _FLAGS]:
        raise OptionError(f"line {text!r}: {unknown[0]!r} is not one of {', '.join(_FLAGS)}")
    options = board_line("tcp") if "board" in flags else LineOptions()
    options = replace(options, is_trunk="trunk" in flags)
    kind: Literal["tcp", "tcp-client"] = "tcp" if parts.scheme == "tcp" else "tcp-client"
    return LineAddress(name, kind, parts.hostname, port, options)


def parse_route(text: str) -> tuple[str, str]:
    """A route as on the command line: ``A-B``.

    Raises:
        OptionError: it is not such a text.
    """
    a, dash, b = text.partition("-")
    if not (dash and _NAME.fullmatch(a) and _NAME.fullmatch(b)):
        raise OptionError(f"route {text!r}: two names of lines with - between them are needed")
    return a, b


class _Connection(asyncio.Protocol):
    """One session of the router."""

    def __init__(self, junction: Junction, line: str) -> None:
        self._junction = junction
        self._line = line
        self.transport: asyncio.Transport | None = None
        self.session = 0
        self.is_paused = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        try:
            self.session = self._junction.router.connect(self._line, self._junction.now())
        except StateError:
            transport.close()  # refused; the router has counted it
            return
        self._junction.connections[self.session] = self
        self._junction.flush()

    def data_received(self, data: bytes) -> None:
        if self.session:
            self._junction.router.receive(self.session, data, self._junction.now())
            self._junction.flush()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.session:
            del self._junction.connections[self.session]
            self._junction.router.disconnect(self.session, self._junction.now())
            self._junction.flush()
            self.session = 0
        if not self.gone.done():
            self.gone.set_result(None)

    def write(self) -> None:
        """Hand over what waits, as far as the transport takes it."""
        router, now = self._junction.router, self._junction.now()
        while self.session and self.transport is not None and not self.is_paused:
            data = router.data_to_send(self.session, now, _WRITE_BYTES)
            if not data:
                return
            self.transport.write(data)


class Junction:
    """Lines and routes on the running event loop.

    Args:
        lines: where the lines are.
        routes: pairs of their names.

    Raises:
        OptionError: lines or routes contradict one another.
    """

    def __init__(self, lines: Iterable[LineAddress], routes: Iterable[tuple[str, str]]) -> None:
        self.router = Router()
        self.connections: dict[int, _Connection] = {}
        self.addresses: dict[str, str] = {}
        """Line → ``HOST:PORT``, the real one once it listens."""
        self._lines = list(lines)
        self._timer: asyncio.TimerHandle | None = None
        self._servers: list[asyncio.Server] = []
        for line in self._lines:
            self.router.add_line(line.name, line.options)
        for a, b in routes:
            self.router.add_route(a, b)

    def now(self) -> float:
        """The clock of the event loop."""
        return asyncio.get_running_loop().time()

    async def start(self) -> None:
        """Listen on all lines that do.

        Raises:
            OSError: an address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        for line in self._lines:
            host, port = line.host, line.port
            if line.kind == "tcp":
                try:
                    server = await loop.create_server(
                        partial(_Connection, self, line.name), host, port
                    )
                except OSError:
                    await self._close()
                    raise
                self._servers.append(server)
                host, port = server.sockets[0].getsockname()[:2]
            self.addresses[line.name] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; then send what waits, for some seconds at most, and close."""
        try:
            async with asyncio.TaskGroup() as group:
                clients = [
                    group.create_task(self._keep_connected(line))
                    for line in self._lines
                    if line.kind == "tcp-client"
                ]
                await stop.wait()
                for server in self._servers:
                    server.close()
                await self._drain()
                for client in clients:
                    client.cancel()
        finally:
            await self._close()

    async def _keep_connected(self, line: LineAddress) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_connection(
                    partial(_Connection, self, line.name), line.host, line.port
                )
                await connection.gone
            except OSError:
                pass  # not there yet, or no such name yet: both may change
            await asyncio.sleep(_RECONNECT_S)

    async def _drain(self) -> None:
        until = self.now() + _DRAIN_S
        # Not worth an event that every write would have to look after.
        while self.now() < until and any(map(self.router.pending, self.connections)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        open_now = list(self.connections.values())
        for connection in open_now:
            if connection.transport is not None:
                connection.transport.close()
        if open_now:
            _, late = await asyncio.wait([each.gone for each in open_now], timeout=_DRAIN_S)
            if late:
                for connection in list(self.connections.values()):
                    if connection.transport is not None:
                        connection.transport.abort()
        if self._timer is not None:  # set again by what the connections left
            self._timer.cancel()

    # --- what the connections call

    def flush(self) -> None:
        """Write what is new to whom it is for, and look after the time."""
        for session in self.router.ready():
            if (connection := self.connections.get(session)) is not None:
                connection.write()
        if self._timer is None:
            delay = self.router.next_timeout(self.now())
            if delay is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(min(delay, _TICK_S), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.router.handle_timeout(self.now())
        self.flush()
