"""One connection to an entry point: the client session of `wireloom.formats.nrep` on an event loop.

What arrived together is looked at together, and what that gave to send goes out at its end; so do
the bytes of a forwarder. Other writes are gathered for one turn of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, cast

from wireloom.errors import ConnectionClosed, RefusedError, StateError
from wireloom.formats.nrep.events import (
    AppsListed,
    Connected,
    DataReceived,
    Disconnected,
    Event,
    GoingAway,
    InstanceChanged,
    InstancesFound,
    OpenFailed,
    PongReceived,
    PublishAnswered,
    RequestTimedOut,
    SocketEnded,
    SocketFreed,
    SocketHalfEnded,
    SocketOffered,
    SocketOpened,
    Unpublished,
)
from wireloom.formats.nrep.extensions import Reason, reason_name
from wireloom.formats.nrep.session import ClientSession
from wireloom.services.nrep.channels import Channel, Offer

__all__ = ["Connection"]

_READ_BYTES = 256 * 1024
"""Read at once, into memory that is kept: a loop that makes bytes of what TLS may hold has the
system map and unmap as much each time, for a few bytes, too."""
_HIGH_BYTES = 256 * 1024
"""Bytes that may wait in the socket's buffer before channels are full."""
_JOINED_BYTES = 64 * 1024
"""Parts that are no more than this together are copied into one: a write costs more."""


class Connection(asyncio.BufferedProtocol):
    """A connection on which the entry point has said, or will say, Hello.

    Args:
        session: its sans-I/O side.
        check: called when the connection is there, before anything is sent or read; what it raises
            ends the connection, and is the error of `hello`.
        offered: called with what somebody wants to open.
        changed: called when an instance of a watched app has come or gone.
    """

    def __init__(
        self,
        session: ClientSession,
        check: Callable[[asyncio.Transport], None],
        offered: Callable[[Offer], None],
        changed: Callable[[InstanceChanged], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.transport: asyncio.Transport | None = None
        self.hello: asyncio.Future[None] = loop.create_future()
        """Done when the entry point has said Hello."""
        self.gone: asyncio.Future[str] = loop.create_future()
        """Done when the connection has ended, with the reason."""
        self.is_full = False
        self.is_going_away = False
        """Whether the entry point drains."""
        self.heard_at = time.monotonic()
        self.lost_sockets = 0
        """Sockets that were open when the connection was lost."""
        self._loop = loop
        self._check, self._offered, self._changed = check, offered, changed
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._opening: dict[int, Channel] = {}
        self._channels: dict[bytes, Channel] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_flush_due = False
        self._settled: asyncio.Future[None] | None = None
        self._unread = 0
        self._room = memoryview(bytearray(_READ_BYTES))

    # -- requests

    async def publish(self, description: str) -> bytes:
        """Offer an app; the id of the new instance.

        Raises:
            RefusedError: the entry point does not take it, or does not answer.
            ConnectionClosed: the connection is lost.
        """
        answer = await self._ask(lambda now: self.session.publish(description, now))
        assert isinstance(answer, PublishAnswered)
        if answer.instance_id is None:
            raise _refused("the publication was refused", answer.reason)
        return answer.instance_id

    async def unpublish(self, instance: bytes) -> bool:
        """Take a publication back; whether there was one.

        Raises:
            RefusedError: the entry point does not answer.
            StateError: the entry point does not know this.
            ConnectionClosed: the connection is lost.
        """
        answer = await self._ask(lambda now: self.session.unpublish(instance, now))
        assert isinstance(answer, Unpublished)
        return answer.is_done

    async def find(self, app: bytes) -> tuple[bytes, ...]:
        """The instances of the app with that id.

        Raises:
            RefusedError: the entry point does not answer.
            ConnectionClosed: the connection is lost.
        """
        answer = await self._ask(lambda now: self.session.find(app, now))
        assert isinstance(answer, InstancesFound)
        return answer.instance_ids

    async def list_apps(self) -> list[tuple[str, int]]:
        """What is published: descriptions, and how many instances each has.

        Raises:
            RefusedError: the entry point does not answer.
            StateError: the entry point does not know this.
            ConnectionClosed: the connection is lost.
        """
        found: list[tuple[str, int]] = []

        def ask(now: float) -> int:
            return self.session.list_apps(len(found), now)

        while True:
            answer = await self._ask(ask)
            assert isinstance(answer, AppsListed)
            found += answer.apps
            if not answer.apps or len(found) >= answer.total:
                return found

    async def ping(self) -> float:
        """Seconds until the entry point's answer to a ping.

        Raises:
            RefusedError: there is none.
            StateError: the entry point does not know this.
            ConnectionClosed: the connection is lost.
        """
        start = time.perf_counter()
        await self._ask(self.session.ping)
        return time.perf_counter() - start

    def watch(self, app: bytes) -> None:
        """Have `changed` called for the instances of an app.

        Raises:
            StateError: the entry point does not know this.
        """
        self.session.watch(app)
        self.flush_soon()

    async def open(self, instance: bytes, channel: Channel) -> None:
        """Open a socket to an instance.

        Raises:
            RefusedError: it was refused; the code says why, if that is known.
            ConnectionClosed: the connection is lost.
        """
        try:
            nonce = self.session.open(instance, time.monotonic())
        except StateError as error:
            raise ConnectionClosed(error.reason) from error
        self._opening[nonce] = channel
        answer = await self._answer(nonce)
        if isinstance(answer, OpenFailed):
            raise _refused("the socket was refused", answer.reason)

    async def _ask(self, ask: Callable[[float], int]) -> Event:
        if self.session.is_closed:
            raise ConnectionClosed("the connection is closed")
        return await self._answer(ask(time.monotonic()))

    async def _answer(self, nonce: int) -> Event:
        future = self._requests[nonce] = self._loop.create_future()
        self.flush_soon()
        self._arm()
        try:
            answer: Event = await future
        finally:
            self._requests.pop(nonce, None)
        if isinstance(answer, RequestTimedOut):
            raise RefusedError("the entry point does not answer", code="timeout")
        return answer

    # -- sockets

    def join(self, channel: Channel, socket_id: bytes) -> None:
        """A socket is open."""
        self._channels[socket_id] = channel
        channel.attach(self, socket_id)

    def forget(self, channel: Channel) -> None:
        """This side has closed it."""
        self._channels.pop(channel.socket_id, None)
        self.flush_soon()

    @property
    def sockets(self) -> int:
        """Sockets that are open."""
        return len(self._channels)

    # -- bytes

    def flush_soon(self) -> None:
        """Send what waits in the next turn of the loop, with what is written until then."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._is_flush_due = False
        self.flush()

    def flush(self) -> None:
        """Send what waits now."""
        parts = self.session.parts_to_send()
        if not parts or self.transport is None or self.transport.is_closing():
            return
        if len(parts) == 1:
            self.transport.write(parts[0])
        elif sum(map(len, parts)) <= _JOINED_BYTES:
            self.transport.write(b"".join(parts))
        else:
            self.transport.writelines(_joined(parts))

    def hold_reading(self) -> None:
        """Read no more until `resume_reading`, called as often."""
        self._unread += 1
        if self._unread == 1 and self.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take one reason back."""
        self._unread -= 1
        if self._unread == 0 and self.transport is not None:
            with contextlib.suppress(RuntimeError):
                self.transport.resume_reading()

    async def settle(self, within_s: float = 2.0) -> None:
        """Wait until what sockets have written was granted and sent, for some seconds."""
        if self.session.has_waiting and not self.gone.done():
            self._settled = self._loop.create_future()
            either: list[asyncio.Future[Any]] = [self._settled, self.gone]
            await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        """End it from this side, behind what was written."""
        self.flush()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # uvloop's TLS transport is one without being a subclass.
        self.transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_HIGH_BYTES)
        try:
            self._check(transport)
        except Exception as error:  # whatever it is: this is not a peer to talk to
            self.hello.set_exception(error)
            self.session.close()
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the event loop, to read into."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        self.heard_at = now = time.monotonic()
        self._dispatch(self.session.receive(self._room[:nbytes], now))
        self.flush()
        if self._settled is not None and not self.session.has_waiting:
            self._settled.set_result(None)
            self._settled = None

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self.is_full = False
        for channel in list(self._channels.values()):
            if self.is_full:
                break
            if not channel.is_full:
                channel.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._dispatch(self.session.receive(b"", time.monotonic()))
        self.session.close()
        self._end(str(exc) if exc is not None else "the connection was closed")

    def _end(self, why: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        error = ConnectionClosed(why)
        for future in (self.hello, *self._requests.values()):
            if not future.done():
                future.set_exception(error)
        if self.hello.done() and not self.hello.cancelled():
            self.hello.exception()  # seen, even where nobody waits for it
        self._opening.clear()
        channels, self._channels = self._channels, {}
        self.lost_sockets += len(channels)
        for channel in channels.values():
            channel.finish(Reason.PEER_LOST)
        if not self.gone.done():
            self.gone.set_result(why)

    # -- events

    def _dispatch(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, DataReceived):
                channel = self._channels.get(event.socket_id)
                if channel is not None:
                    channel.take(event.data)
            else:
                self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case SocketOpened(nonce, socket_id):
                channel = self._opening.pop(nonce, None)
                future = self._requests.get(nonce)
                if channel is None or future is None or future.done():
                    self.session.drop_socket(socket_id)  # whoever asked has given up
                else:
                    self.join(channel, socket_id)
                    future.set_result(event)
            case SocketEnded(socket_id, reason):
                channel = self._channels.pop(socket_id, None)
                if channel is not None:
                    channel.finish(reason)
            case SocketHalfEnded(socket_id):
                if (channel := self._channels.get(socket_id)) is not None:
                    channel.half_ended()
            case SocketFreed(socket_id):
                channel = self._channels.get(socket_id)
                if channel is not None and not channel.is_full:
                    channel.writable()
            case SocketOffered(socket_id, instance_id):
                self._offered(Offer(self, socket_id, instance_id))
            case InstanceChanged():
                if self._changed is not None:
                    self._changed(event)
            case Connected():
                if not self.hello.done():
                    self.hello.set_result(None)
            case GoingAway():
                self.is_going_away = True
            case Disconnected(why):
                self._end(why)
                self.abort()
            case (
                PublishAnswered()
                | InstancesFound()
                | OpenFailed()
                | Unpublished()
                | AppsListed()
                | PongReceived()
                | RequestTimedOut()
            ):
                self._opening.pop(event.nonce, None)
                future = self._requests.get(event.nonce)
                if future is not None and not future.done():
                    future.set_result(event)

    # -- time

    def _arm(self) -> None:
        if self._timer is not None:
            return
        wait = self.session.next_timeout(time.monotonic())
        if wait is not None:
            self._timer = self._loop.call_later(wait, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._dispatch(self.session.handle_timeout(time.monotonic()))
        self.flush_soon()
        self._arm()


def _joined(parts: list[bytes]) -> list[bytes]:
    """Parts for `writelines`: runs of small ones joined, large ones as they are."""
    out: list[bytes] = []
    run: list[bytes] = []
    size = 0
    for part in parts:
        run.append(part)
        size += len(part)
        if size > _JOINED_BYTES:
            out.append(b"".join(run))
            run, size = [], 0
    if run:
        out.append(b"".join(run))
    return out


def _refused(text: str, reason: Reason | None) -> RefusedError:
    code = reason_name(reason)
    return RefusedError(f"{text}: {code.replace('_', ' ')}", code=code)
