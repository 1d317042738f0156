"""Listening sockets whose connections count from the moment they are accepted.

An event loop's own server tells of a TLS connection when its handshake is done; until then nobody
knows how many there are. Here the owner admits each connection before its handshake.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar

from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks

__all__ = ["TLS_HANDSHAKE_S", "Listener", "bind"]

log = get_log("connections")

TLS_HANDSHAKE_S = 10.0
"""For a TLS handshake: many round trips of a slow line, and little for who never answers."""

_BACKLOG = 1024
_BATCH = 64
"""Connections that are accepted before others have their turn."""
_RETRY_S = 1.0
"""Until the next attempt, when no more files can be opened."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def bind(address: Address) -> list[socket.socket]:
    """Listening sockets of an address; ``[::]`` is for IPv4 as well.

    Raises:
        OSError: it cannot be listened on.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    try:
        for family, at in dict.fromkeys((each[0], each[4]) for each in found):
            is_both = at[0] == "::" and socket.has_dualstack_ipv6()
            sock = socket.create_server(at, family=family, backlog=_BACKLOG, dualstack_ipv6=is_both)
            made.append(sock)
            sock.setblocking(False)
            # Accepted sockets inherit it. asyncio sets it only where the protocol is said to be
            # TCP; without it, every second small packet waits 40 ms for an acknowledgement.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        for sock in made:
            sock.close()
        raise
    return made


class Listener(Generic[P]):
    """Accepts connections until it is closed.

    Args:
        sockets: what `bind` gave.
        admit: makes the protocol of a connection from there; None: it is closed at once.
        entered: told when its handshake is over, however it ended.
        tls: with it, connections begin with a handshake.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        admit: Callable[[Address], P | None],
        entered: Callable[[P, OSError | None], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.sockets = sockets
        self._admit, self._entered, self._tls = admit, entered, tls
        self._loop = asyncio.get_running_loop()
        self._entering = Tasks()
        for sock in sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        """Accept no more; handshakes under way go on."""
        sockets, self.sockets = self.sockets, []
        for sock in sockets:
            self._loop.remove_reader(sock)
            sock.close()

    async def cancel(self) -> None:
        """End handshakes under way."""
        await self._entering.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                sock, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files
                log.error("not_accepted", error=str(error))
                self._loop.remove_reader(listening)
                self._loop.call_later(_RETRY_S, self._accept_again, listening)
                return
            protocol = self._admit(Address.of_socket(name))
            if protocol is None:
                sock.close()
                continue
            sock.setblocking(False)
            self._entering.start(self._enter(sock, protocol), "new connection")

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _enter(self, sock: socket.socket, protocol: P) -> None:
        timeout = TLS_HANDSHAKE_S if self._tls is not None else None
        failure: OSError | None = None
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, sock, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:  # those of TLS are, too
            failure = error
        finally:
            self._entered(protocol, failure)
            # It holds this frame by its traceback: a flood of them would wait for the collector.
            del failure
