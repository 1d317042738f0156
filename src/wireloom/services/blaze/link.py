"""A connection that is made again when it is lost, and those who wait for it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from wireloom.errors import ConnectionClosed, StateError, WireloomError
from wireloom.formats.blaze.codes import RefusalCode
from wireloom.formats.blaze.dialects import get_dialect
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.session import ClientSession, ClientSettings, ClientState
from wireloom.services.blaze.backoff import Backoff
from wireloom.services.blaze.connection import Connection
from wireloom.services.blaze.errors import ConnectionRefused
from wireloom.services.blaze.events import Reader
from wireloom.services.blaze.subscription import Feed

__all__ = ["Address", "Link"]

Address = tuple[str, int]
"""Host and port."""

_PASSING = {
    RefusalCode.SERVER_ERROR,
    RefusalCode.SERVER_STATUS_INVALID,
    RefusalCode.SERVER_IS_GOING_DOWN,
    RefusalCode.TOO_MANY_CONNECTIONS,
}
"""Refusals that may not last: a client that was connected before tries again."""


class Link:
    """What a `Client` is made of: one connection after the other, to one broker or several."""

    def __init__(
        self,
        addresses: Sequence[Address],
        settings: ClientSettings,
        model: Model | None,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        reconnect: Backoff | None,
    ) -> None:
        """For `connect`, which has the same as arguments with names."""
        self.model = model
        self.counts: Counter[str] = Counter()
        """How often something happened: ``connections``, ``lost``, ``failed_attempts``."""
        self._addresses = addresses
        self._settings = settings
        self._tls = tls
        self._server_name = server_name
        self._reconnect = reconnect
        self._dialect = get_dialect(settings.dialect)
        self._connection: Connection | None = None
        self._feeds: dict[Feed, None] = {}
        self._readers: dict[int, Reader] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._supervisor: asyncio.Task[None] | None = None
        self._ending: Exception | None = None
        self._next_address = 0

    # -- connections

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionRefused: the broker does not want this client.
            ConnectionClosed: it has not answered, or not in Blaze.
            OSError: there is nobody.
        """
        if self._supervisor is not None:
            raise StateError("a client can be entered once")
        first = await self._open()
        # Kept here, as the loop itself does not; it ends with the client.
        self._supervisor = asyncio.get_running_loop().create_task(self._supervise(first))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self.close(at_once=kind is not None)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at the moment."""
        return self._connection is not None

    @property
    def connid(self) -> int | None:
        """The id that the broker has given to the connection; None when there is none."""
        return None if self._connection is None else self._connection.session.connid

    @property
    def heartbeat(self) -> int | None:
        """The agreed interval in seconds, 0 for no duty; None when there is no connection."""
        return None if self._connection is None else self._connection.session.heartbeat

    async def _open(self) -> Connection:
        """One attempt, at the next address."""
        host, port = self._addresses[self._next_address % len(self._addresses)]
        self._next_address += 1
        loop = asyncio.get_running_loop()
        fields = {name: getattr(self._settings, name) for name in self._settings.__slots__}
        settings = ClientSettings(**fields | {"clock_offset": time.time() - loop.time()})
        session = ClientSession(settings)
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {
                "ssl": self._tls,
                "server_hostname": self._server_name or host,
                "ssl_handshake_timeout": settings.connect_timeout,
            }
        try:
            async with asyncio.timeout(settings.connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(session, self._connected, self._lost, self._release),
                    host,
                    port,
                    **options,
                )
        except TimeoutError:
            raise ConnectionClosed(f"no connection to {host}:{port} in time") from None
        try:
            await connection.agreed
        except BaseException:
            connection.abort()
            raise
        return connection

    def _connected(self, connection: Connection) -> None:
        self.counts["connections"] += 1
        self._connection = connection
        for feed in list(self._feeds):
            try:
                feed.attach(connection)
            except WireloomError as error:  # the dialect has no such request
                feed.finish(error)
        self._release()

    def _lost(self, connection: Connection) -> None:
        """The session is over; its transport may still be closing."""
        if self._connection is connection:
            self._connection = None
            for feed in list(self._feeds):
                feed.detach()

    async def _supervise(self, connection: Connection) -> None:
        """Connect again, whenever the connection is lost; the end is told to all who wait."""
        ending: Exception = ConnectionClosed("the client was closed")
        try:
            while True:
                await connection.closed
                ending = connection.reason()
                if self._ending is not None or self._reconnect is None:
                    return
                by_us = connection.ending is not None and connection.ending.by == "us"
                if by_us and not _is_silence(connection):
                    return  # what breaks the protocol will do so again
                self.counts["lost"] += 1
                connection = await self._again(self._reconnect, ending)
        except (WireloomError, OSError) as error:
            ending = error
        finally:
            self._end(ending)

    async def _again(self, backoff: Backoff, lost: Exception) -> Connection:
        last = lost
        for pause in backoff.pauses():
            await asyncio.sleep(pause)
            try:
                return await self._open()
            except ConnectionRefused as error:
                if error.code not in _PASSING:
                    raise
                last = error
            except (ConnectionClosed, OSError) as error:
                last = error
            self.counts["failed_attempts"] += 1
        raise ConnectionClosed(f"no connection after {backoff.attempts} attempts: {last}")

    def _end(self, ending: Exception) -> None:
        """Nothing goes on from here."""
        is_wanted = self._ending is not None
        if self._ending is None:
            self._ending = ending
        self._connection = None
        for feed in list(self._feeds):
            feed.finish(None if is_wanted else ending)
        self._release()

    async def close(self, *, at_once: bool = False) -> None:
        """Leave: with DSCOND, when the transactions that are under way have ended.

        Args:
            at_once: do not wait for them.
        """
        if self._ending is None:
            self._ending = ConnectionClosed("the client was closed")
        for feed in list(self._feeds):
            feed.stop()
        connection, supervisor = self._connection, self._supervisor
        if connection is not None:
            session = connection.session
            if at_once or session.state is not ClientState.CONNECTED:
                session.close()
                connection.flush()
            else:
                connection.dispatch(session.disconnect(asyncio.get_running_loop().time()))
            if not connection.closed.done():
                limit = self._settings.disconnect_timeout + self._settings.connect_timeout
                done, _ = await asyncio.wait([connection.closed], timeout=limit)
                if not done:
                    connection.abort()
        elif supervisor is not None:
            supervisor.cancel()
        if supervisor is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([supervisor])

    async def _ready(self, limit: float | None) -> Connection:
        """The connection, when it has room for another transaction.

        Raises:
            ConnectionClosed: there was none in time, or will not be one.
            StateError: the client was never entered.
        """
        connection = self._connection
        if connection is not None and connection.room > 0:
            return connection
        self._check_entered()
        seconds = self._settings.request_timeout if limit is None else limit
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if self._ending is not None:
                        raise ConnectionClosed(f"{self._ending}; the transaction was not sent")
                    connection = self._connection
                    if connection is not None and connection.room > 0:
                        return connection
                    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    try:
                        await turn
                    except asyncio.CancelledError:
                        if turn.done() and not turn.cancelled():
                            self._release()  # its turn is somebody else's now
                        raise
        except TimeoutError:
            raise ConnectionClosed(
                f"no connection with room within {seconds} s; the transaction was not sent"
            ) from None

    def _check_entered(self) -> None:
        """Nobody may wait for a connection that nobody makes.

        Raises:
            StateError: the client was never entered.
        """
        if self._supervisor is None and self._ending is None:
            raise StateError("the client is not connected: it is to be entered with `async with`")

    def _release(self) -> None:
        """Let those who wait go on: all at the end, else as many as there is room for."""
        if not self._waiting:
            return
        connection = self._connection
        room = 0 if connection is None else connection.room
        if self._ending is not None:
            room = len(self._waiting)
        while self._waiting and room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1


def _is_silence(connection: Connection) -> bool:
    ending = connection.ending
    return ending is not None and getattr(ending.reason, "name", "") == "PEER_INACTIVITY"
