"""Sockets of a connection: objects with hooks, for streams and forwarders to build on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from wireloom.errors import ConnectionClosed, StateError
from wireloom.formats.nrep.extensions import Feature, Reason
from wireloom.formats.nrep.session import ClientSession

if TYPE_CHECKING:
    from wireloom.services.nrep.connection import Connection

__all__ = ["Channel", "Offer"]


def _nothing() -> None:
    """Nobody wants to know."""


class Channel:
    """One socket; a subclass overrides the hooks."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        """None before it is open."""
        self.socket_id = b""
        self.is_ended = False
        self.end_reason: Reason | None = None
        """Why it ended, as far as that is known."""
        self.left: Callable[[], None] = _nothing
        """Called once when it has ended, from either side."""
        self._is_held = False
        self._untaken = 0

    # -- hooks

    def opened(self) -> None:
        """Data may flow."""

    def received(self, data: bytes) -> None:
        """Bytes have come."""

    def half_ended(self) -> None:
        """No more bytes will come; they can still be sent."""

    def ended(self, reason: Reason | None) -> None:
        """The other side has closed it, or the connection is lost (``PEER_LOST``)."""

    def writable(self) -> None:
        """It is no longer full."""

    # -- what a subclass calls

    @property
    def is_full(self) -> bool:
        """Whether to write no more until `writable`."""
        connection = self.connection
        if connection is None or self.is_ended:
            return False
        return connection.is_full or connection.session.waiting_bytes(self.socket_id) > 0

    @property
    def can_half_close(self) -> bool:
        """Whether `half_close` works: both ends know it."""
        connection = self.connection
        return connection is not None and connection.session.can_half_close(self.socket_id)

    def write(self, data: bytes) -> None:
        """Send bytes, with what others write in this turn of the loop.

        Raises:
            ConnectionClosed: it has ended.
        """
        self._write(data).flush_soon()

    def write_now(self, data: bytes) -> None:
        """The same at once.

        Raises:
            ConnectionClosed: it has ended.
        """
        self._write(data).flush()

    def _write(self, data: bytes) -> Connection:
        connection = self.connection
        if connection is None or self.is_ended:
            raise ConnectionClosed("the socket is closed")
        try:
            connection.session.send(self.socket_id, data)
        except StateError as error:
            raise ConnectionClosed(error.reason) from error
        return connection

    def half_close(self) -> None:
        """Send no more.

        Raises:
            StateError: the far end does not know half-closed sockets.
        """
        if self.connection is not None and not self.is_ended:
            self.connection.session.half_close(self.socket_id)
            self.connection.flush_soon()

    def close(self) -> None:
        """Send what was written, then close; `ended` is not called."""
        self._leave(ClientSession.close_socket)

    def abort(self) -> None:
        """Close at once; what was written and not sent is lost."""
        self._leave(ClientSession.drop_socket)

    def _leave(self, how: Callable[[ClientSession, bytes], None]) -> None:
        if self.connection is None or self.is_ended:
            return
        self.is_ended = True
        self.release()
        how(self.connection.session, self.socket_id)
        self.connection.forget(self)
        self.left()

    def hold(self) -> None:
        """Take no more until `release`: the far end is granted nothing."""
        connection = self.connection
        if connection is not None and not self._is_held:
            self._is_held = True
            if not connection.session.features & Feature.WINDOW:
                connection.hold_reading()

    def release(self) -> None:
        """Take bytes again."""
        connection = self.connection
        if connection is None or not self._is_held:
            return
        self._is_held = False
        untaken, self._untaken = self._untaken, 0
        if not connection.session.features & Feature.WINDOW:
            connection.resume_reading()
        elif untaken:
            connection.session.consumed(self.socket_id, untaken)
            connection.flush_soon()

    # -- what the connection calls

    def attach(self, connection: Connection, socket_id: bytes) -> None:
        """It is open."""
        self.connection, self.socket_id = connection, socket_id
        self.opened()

    def take(self, data: bytes) -> None:
        """Hand bytes on, and grant as many again unless it is held."""
        assert self.connection is not None
        self.received(data)
        if self._is_held:
            self._untaken += len(data)
        elif not self.is_ended:
            self.connection.session.consumed(self.socket_id, len(data))

    def finish(self, reason: Reason | None) -> None:
        """It has ended at the other side."""
        if not self.is_ended:
            self.is_ended, self.end_reason = True, reason
            self.release()
            self.ended(reason)
            self.left()


class Offer:
    """Somebody wants to connect to an instance: accept or refuse it."""

    def __init__(self, connection: Connection, socket_id: bytes, instance_id: bytes) -> None:
        self._connection, self._socket_id = connection, socket_id
        self.instance_id = instance_id

    def accept(self, channel: Channel) -> None:
        """Take it.

        Raises:
            StateError: the requester has given up.
        """
        self._connection.session.accept(self._socket_id)
        self._connection.join(channel, self._socket_id)
        self._connection.flush_soon()

    def refuse(self) -> None:
        """Do not; no effect when the requester has given up."""
        with contextlib.suppress(StateError):
            self._connection.session.refuse(self._socket_id)
            self._connection.flush_soon()
