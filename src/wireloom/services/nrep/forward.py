"""Forwarders: a local TCP or Unix socket at one end, a socket of the entry point at the other.

`publish` makes a server here reachable as an app; `connect` makes an app reachable here. Bytes are
handed on as they come, held back when the other end is full, and the end of one direction is passed
on where both ends know half-closed sockets. A connection that breaks is broken (reset) at the other
end, too: it does not look like a good end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from wireloom.errors import ConnectionClosed, OptionError, StateError, WireloomError
from wireloom.formats.nrep.extensions import Reason
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks
from wireloom.services.nrep.channels import Channel, Offer
from wireloom.services.nrep.client import Client, Publication

__all__ = ["ConnectForwarder", "ForwardCounts", "PublishForwarder", "parse_local"]

log = get_log("nrep.forward")

Local = Address | Path
"""A TCP address, or the path of a Unix socket."""

_HIGH_BYTES = 256 * 1024
"""Bytes that may wait for a local socket before the far end is granted no more."""
_CONNECT_S = 10.0
_MAX_SOCKETS = 1024
_BACKLOG = 1024


def parse_local(text: str) -> Local:
    """A local end: ``HOST:PORT`` or ``unix:PATH``.

    Raises:
        OptionError: it is neither.

    >>> parse_local("unix:/run/db.sock")
    PosixPath('/run/db.sock')
    """
    kind, colon, path = text.partition(":")
    if colon and kind == "unix":
        if not path:
            raise OptionError("unix: needs a path behind it")
        return Path(path)
    return Address.parse(text)


@dataclass(slots=True)
class ForwardCounts:
    """What has gone through a forwarder."""

    opened: int = 0
    """Connections that were joined with a socket."""
    ended: int = 0
    """Those that have ended well."""
    broken: int = 0
    """Those that were lost: bytes under way are gone."""
    refused: int = 0
    """Connections or sockets with nothing at the other end, or one too many."""
    to_local: int = 0
    """Bytes that came from the entry point."""
    from_local: int = 0
    """Bytes that went to it."""

    def to_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


class _Piped(Channel):
    """The entry point's end."""

    def __init__(self, local: _Local) -> None:
        super().__init__()
        self._local = local

    def opened(self) -> None:
        self._local.join(self)

    def received(self, data: bytes) -> None:
        self._local.send(data)

    def half_ended(self) -> None:
        self._local.send_eof()

    def writable(self) -> None:
        self._local.resume()

    def ended(self, reason: Reason | None) -> None:
        self._local.finish(is_good=reason in (None, Reason.CLOSED))


class _Local(asyncio.Protocol):
    """The local end."""

    def __init__(self, counts: ForwardCounts, made: Callable[[_Local], None] | None = None) -> None:
        self._counts = counts
        self._made = made
        self._transport: asyncio.Transport | None = None
        self._channel: _Piped | None = None
        self._early: list[bytes] = []
        self._has_eof = self._sent_eof = self._is_over = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- what the channel calls

    def join(self, channel: _Piped) -> None:
        self._channel = channel
        self._counts.opened += 1
        transport = self._transport
        if transport is None or transport.is_closing():
            self._over(is_good=False)
            channel.abort()
            return
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)
        if self._has_eof:
            self.eof_received()
        elif not channel.is_full:
            transport.resume_reading()

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._counts.to_local += len(data)
            self._transport.write(data)

    def send_eof(self) -> None:
        self._sent_eof = True
        if self._has_eof:
            self._end_both()
        elif self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):  # it may have gone just now
                self._transport.write_eof()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self, is_good: bool) -> None:
        self._over(is_good)
        if is_good:
            self.close()
        else:
            self.reset()

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are no subclasses.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_HIGH_BYTES)
        if self._made is not None:
            self._made(self)

    def data_received(self, data: bytes) -> None:
        channel, transport = self._channel, self._transport
        assert transport is not None
        if channel is None:
            # There is nobody yet to send it to. (Not in connection_made: uvloop reads anyhow.)
            self._early.append(data)
            transport.pause_reading()
            return
        try:
            channel.write_now(data)
        except ConnectionClosed:
            self.reset()
            return
        self._counts.from_local += len(data)
        if channel.is_full:
            transport.pause_reading()

    def eof_received(self) -> bool:
        self._has_eof = True
        channel = self._channel
        if channel is None:
            return True  # until the other end is there, and has had what came before
        if channel.is_ended:
            return False
        if channel.can_half_close and not self._sent_eof:
            channel.half_close()
            return True
        self._end_both()
        return False

    def pause_writing(self) -> None:
        if self._channel is not None:
            self._channel.hold()

    def resume_writing(self) -> None:
        if self._channel is not None:
            self._channel.release()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._channel is not None and not self._channel.is_ended:
            self._over(is_good=exc is None)
            if exc is None:
                self._channel.close()
            else:
                self._channel.abort()
        if not self.gone.done():
            self.gone.set_result(None)

    # -- ends

    def _end_both(self) -> None:
        self._over(is_good=True)
        if self._channel is not None:
            self._channel.close()
        self.close()

    def _over(self, is_good: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        if is_good:
            self._counts.ended += 1
        else:
            self._counts.broken += 1

    def close(self) -> None:
        """Send what was written, then close."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Break the connection, visibly."""
        if self._transport is None or self._transport.is_closing():
            return
        sock: socket.socket | None = self._transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


class PublishForwarder:
    """Publishes a local server as an app.

    Args:
        client: a client that was started.
        app: its name.
        target: where the server listens.
        max_sockets: at the same time; more are refused.
    """

    def __init__(
        self, client: Client, app: str, target: Local, max_sockets: int = _MAX_SOCKETS
    ) -> None:
        self.counts = ForwardCounts()
        self._client, self._app, self._target = client, app, target
        self._max_sockets = max_sockets
        self._tasks = Tasks()
        self._locals: set[_Local] = set()
        self._waiting = 0
        self.publication: Publication | None = None

    async def start(self) -> None:
        """Publish it.

        Raises:
            RefusedError: the entry point does not take it.
            ConnectionClosed: there is no entry point.
        """
        self.publication = await self._client.publish_offers(self._app, self._offered)

    async def close(self) -> None:
        """Take it back, and end what is open."""
        if self.publication is not None:
            with contextlib.suppress(WireloomError):
                await self.publication.unpublish()
        await self._tasks.cancel()
        for local in self._locals:
            local.close()

    def _offered(self, offer: Offer) -> None:
        if len(self._locals) + self._waiting >= self._max_sockets:
            self.counts.refused += 1
            offer.refuse()
            return
        self._waiting += 1
        self._tasks.start(self._join(offer), f"socket of {self._app}")

    async def _join(self, offer: Offer) -> None:
        loop = asyncio.get_running_loop()
        local: _Local
        try:
            async with asyncio.timeout(_CONNECT_S):
                if isinstance(self._target, Path):
                    _, local = await loop.create_unix_connection(
                        lambda: _Local(self.counts), str(self._target)
                    )
                else:
                    _, local = await loop.create_connection(
                        lambda: _Local(self.counts), self._target.host, self._target.port
                    )
        except (OSError, TimeoutError) as error:
            self.counts.refused += 1
            log.warning("no_server", app=self._app, target=str(self._target), error=str(error))
            offer.refuse()
            return
        finally:
            self._waiting -= 1
        self._locals.add(local)
        local.gone.add_done_callback(lambda _: self._locals.discard(local))
        try:
            offer.accept(_Piped(local))
        except StateError:  # the requester has given up
            self.counts.refused += 1
            local.close()


class ConnectForwarder:
    """Listens here for what is to reach an app.

    Args:
        client: a client that was started.
        app: its name.
        listen: where to listen; a Unix socket of that path must not be in use.
        max_sockets: at the same time; more are refused.
    """

    def __init__(
        self, client: Client, app: str, listen: Local, max_sockets: int = _MAX_SOCKETS
    ) -> None:
        self.counts = ForwardCounts()
        self._client, self._app, self._listen = client, app, listen
        self._max_sockets = max_sockets
        self._tasks = Tasks()
        self._locals: set[_Local] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; give the real address.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        if isinstance(self._listen, Path):
            _remove_dead_socket(self._listen)
            self._server = await loop.create_unix_server(
                self._make, str(self._listen), backlog=_BACKLOG
            )
            return f"unix:{self._listen}"
        self._server = await loop.create_server(
            self._make, self._listen.host, self._listen.port, backlog=_BACKLOG
        )
        return str(Address.of_socket(self._server.sockets[0].getsockname()))

    async def close(self) -> None:
        """Listen no more, and end what is open."""
        if self._server is not None:
            self._server.close()
            if isinstance(self._listen, Path):
                with contextlib.suppress(OSError):
                    os.unlink(self._listen)
        await self._tasks.cancel()
        for local in self._locals:
            local.close()

    def _make(self) -> _Local:
        return _Local(self.counts, self._made)

    def _made(self, local: _Local) -> None:
        if len(self._locals) >= self._max_sockets:
            self.counts.refused += 1
            local.reset()
            return
        self._locals.add(local)
        local.gone.add_done_callback(lambda _: self._locals.discard(local))
        self._tasks.start(self._join(local), f"socket to {self._app}")

    async def _join(self, local: _Local) -> None:
        try:
            await self._client.open_channel(self._app, lambda: _Piped(local))
        except WireloomError as error:
            self.counts.refused += 1
            log.warning("not_opened", app=self._app, error=str(error))
            local.reset()


def _remove_dead_socket(path: Path) -> None:
    """Remove the socket that a process left behind which ended without doing so.

    Raises:
        OSError: somebody listens there. (Event loops would take it away from them.)
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.stat().st_mode):
            return  # listening will say that it is in the way
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(path))
