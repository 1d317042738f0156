"""Sockets of an entry point as asyncio streams."""

from __future__ import annotations

import asyncio
from typing import cast

from wireloom.errors import ConnectionClosed
from wireloom.formats.nrep.extensions import Reason, reason_name
from wireloom.services.nrep.channels import Channel

__all__ = ["SocketWriter", "StreamChannel"]

_READ_BYTES = 64 * 1024
"""Limit of a reader: twice as much waits in it at most before the far end is granted no more."""


class StreamChannel(Channel):
    """A socket with a reader and a writer."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = asyncio.StreamReader(limit=_READ_BYTES)
        self.writer = SocketWriter(self)
        self.free = asyncio.Event()
        """Set while it is not full."""
        self.free.set()
        self.over = asyncio.Event()
        """Set when it has ended, from either side."""

    def opened(self) -> None:
        """The reader can pause it."""
        # A reader only ever pauses and resumes its transport.
        self.reader.set_transport(cast("asyncio.Transport", self))

    def pause_reading(self) -> None:
        """Called by the reader, when much is unread."""
        self.hold()

    def resume_reading(self) -> None:
        """Called by the reader."""
        self.release()

    def received(self, data: bytes) -> None:
        """Give bytes to the reader."""
        self.reader.feed_data(data)

    def half_ended(self) -> None:
        """The reader comes to its end; the writer does not."""
        self.reader.feed_eof()

    def writable(self) -> None:
        """Who drains goes on."""
        self.free.set()

    def ended(self, reason: Reason | None) -> None:
        """Reader and writer come to their end."""
        self.reader.feed_eof()
        self.free.set()
        self.over.set()


class SocketWriter:
    """Writes to a socket, in the way of `asyncio.StreamWriter`."""

    def __init__(self, channel: StreamChannel) -> None:
        self._channel = channel

    @property
    def end_reason(self) -> Reason | None:
        """Why the other side has closed it; None while it has not, or when that is not known."""
        return self._channel.end_reason

    def write(self, data: bytes) -> None:
        """Send bytes; await `drain` now and then.

        Raises:
            ConnectionClosed: the socket has ended.
        """
        self._channel.write(bytes(data))
        if self._channel.is_full:
            self._channel.free.clear()

    async def drain(self) -> None:
        """Wait until the far end and the connection take more.

        Raises:
            ConnectionClosed: the socket has ended.
        """
        await self._channel.free.wait()
        if self._channel.is_ended:
            raise ConnectionClosed("the socket is closed")

    def can_write_eof(self) -> bool:
        """Whether both ends know half-closed sockets."""
        return self._channel.can_half_close

    def write_eof(self) -> None:
        """Send no more; the other side still can.

        Raises:
            StateError: the far end does not know this.
        """
        self._channel.half_close()

    def close(self) -> None:
        """Send what was written, then close."""
        if not self._channel.is_ended:
            self._channel.close()
            self._channel.reader.feed_eof()
            self._channel.free.set()
            self._channel.over.set()

    def is_closing(self) -> bool:
        """Whether either side has closed it."""
        return self._channel.is_ended

    async def wait_closed(self) -> None:
        """Wait until it has ended.

        Raises:
            ConnectionClosed: not by being closed: the publisher or the connection was lost, or a
                limit was reached. What was read may lack its end.
        """
        await self._channel.over.wait()
        reason = self._channel.end_reason
        if reason not in (None, Reason.CLOSED):
            raise ConnectionClosed(f"the socket ended: {reason_name(reason).replace('_', ' ')}")
