"""The lines of a junction: how each kind listens or connects."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from wireloom.errors import ConnectionClosed, StateError, WireloomError
from wireloom.formats.nais import TypeRegistry
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.listening import TLS_HANDSHAKE_S, Listener
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks
from wireloom.services.nais.links import LinkOptions, WsLink, open_link
from wireloom.services.nais.peers import LinkPeer, TcpPeer, is_token
from wireloom.services.nais.urls import is_number

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

    from wireloom.services._shell.connections import Peer
    from wireloom.services.nais.junction import Junction
    from wireloom.services.nais.settings import LineSettings

__all__ = ["Line"]

log = get_log("nais")

_STEADY_S = 5.0
"""A connection that lasted this long was one: the next attempt is made soon."""
_CLOSE_S = 2.0
_TRY_AGAIN_LATER = 1013
_WS_QUEUE = 16
"""Messages of one WebSocket that wait for the router."""


class Line:
    """A line, from its settings to its connections.

    Args:
        junction: what it is a line of.
        name: of the line.
        settings: what it is to be.
        types: the schemas of payloads.

    Raises:
        OptionError: settings contradict one another.
        SourceError: a certificate cannot be used.
    """

    def __init__(
        self, junction: Junction, name: str, settings: LineSettings, types: TypeRegistry
    ) -> None:
        self.name, self.settings = name, settings
        self.url = settings.parsed()
        self.options = settings.options(types)
        self.token = settings.secret()
        self.peers: set[Peer] = set()
        self.address = str(self.url.address) if self.url.address is not None else self.url.path
        """The real one once it listens."""
        self.state = "down"
        """listening, connecting, connected or down."""
        self.error = ""
        """Why it is not connected."""
        self.received_bytes = self.sent_bytes = 0
        self.connects = 0
        """Connections that came up."""
        self._junction = junction
        self._server: Listener[Peer] | Server | None = None
        self._task: asyncio.Task[Any] | None = None
        self._tls = settings.server_tls() if self.listens else settings.client_tls()

    @property
    def listens(self) -> bool:
        """Whether others connect to it."""
        return self.url.scheme in ("tcp", "ws")

    async def start(self, tasks: Tasks) -> None:
        """Listen, or begin to connect.

        Raises:
            OSError: the address cannot be listened on.
        """
        if self.listens:
            await self._listen()
        else:
            self._task = tasks.start(self._keep_connected(), f"line {self.name}")

    def start_later(self, tasks: Tasks) -> None:
        """Listen as soon as the address is free."""
        self._task = tasks.start(self._keep_trying(), f"line {self.name}")

    def renew(self) -> None:
        """Read files of certificates and tokens again; connections stay as they are.

        Raises:
            WireloomError: one cannot be used.
        """
        self.token = self.settings.secret()
        tls = self.settings.server_tls() if self.listens else self.settings.client_tls()
        if self.listens and self._tls is not None:
            assert self.settings.tls_cert is not None
            self._tls.load_cert_chain(self.settings.tls_cert, self.settings.tls_key)
        else:
            self._tls = tls

    def stop_listening(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            if self.url.scheme == "tcp":
                self._server.close()
            else:
                self._server.close(close_connections=False)  # type: ignore[call-arg]

    async def stop(self) -> None:
        """End it and its connections."""
        self.stop_listening()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for peer in list(self.peers):
            peer.close()
        if waiting := [peer.gone for peer in self.peers]:
            await asyncio.wait(waiting, timeout=_CLOSE_S)
        for peer in list(self.peers):
            peer.abort("line is closed")
        if waiting := [peer.gone for peer in self.peers]:
            await asyncio.wait(waiting, timeout=_CLOSE_S)
        self.state = "down"

    # -- listening

    async def _listen(self) -> None:
        assert self.url.address is not None
        if self.url.scheme == "tcp":
            self._server = await self._junction.hub.open_server(
                partial(TcpPeer, self._junction, self, True), self.url.address, self._tls
            )
            name = self._server.sockets[0].getsockname()
        else:
            self._server = await self._serve_ws(self.url.address)
            name = next(iter(self._server.sockets)).getsockname()
        self.address = str(Address.of_socket(name))
        self.state, self.error = "listening", ""

    async def _serve_ws(self, address: Address) -> Server:
        from websockets.asyncio.server import serve

        quiet = logging.getLogger("wireloom.websockets")
        quiet.setLevel(logging.CRITICAL + 1)  # what peers do wrong is counted, not told at length
        return await serve(
            self._ws_session,
            address.host,
            address.port,
            ssl=self._tls,
            process_request=self._ws_request,
            max_size=_max_message(self),
            max_queue=_WS_QUEUE,
            compression=None,
            server_header=None,
            close_timeout=_CLOSE_S,
            logger=quiet,
            ssl_handshake_timeout=None if self._tls is None else TLS_HANDSHAKE_S,
        )

    def _ws_request(self, connection: ServerConnection, request: Request) -> Response | None:
        hub = self._junction.hub
        remote = Address.of_socket(connection.remote_address or ("", 0))
        said = request.headers.get("Authorization", "").removeprefix("Bearer ")
        said = said or next(iter(parse_qs(urlsplit(request.path).query).get("token", [])), "")
        reason, status = hub.refusal_of(remote), HTTPStatus.SERVICE_UNAVAILABLE
        if reason is None and self.token and not is_token(said, self.token):
            reason, status = "token", HTTPStatus.UNAUTHORIZED
        elif reason is None and not self.token and not self._is_welcome(request):
            reason, status = "origin", HTTPStatus.FORBIDDEN
        if reason is None:
            return None
        hub.metrics.refused.labels(reason).inc()
        log.warning("refused", line=self.name, peer=str(remote), reason=reason)
        return connection.respond(status, f"{status.phrase}\n")

    def _is_welcome(self, request: Request) -> bool:
        """Whether no browser was sent here by a page from elsewhere."""
        origin = request.headers.get("Origin")
        if origin is None or origin in self.settings.origins:
            return True
        here = urlsplit(f"//{request.headers.get('Host', '')}").hostname
        # A name could be anybody's who has it point here; a number cannot.
        is_own = here == "localhost" or is_number(here or "")
        return is_own and urlsplit(origin).hostname == here

    async def _ws_session(self, connection: ServerConnection) -> None:
        peer = LinkPeer(self._junction, self, WsLink(connection), True)
        try:
            await peer.run()
        except StateError as error:
            log.warning("refused", line=self.name, peer=str(peer.remote), reason=error.reason)
            await connection.close(_TRY_AGAIN_LATER, "no session id is free")

    async def _keep_trying(self) -> None:
        delay = self.settings.retry_s
        while True:
            try:
                await self._listen()
                return
            except OSError as error:
                self.state, self.error = "down", str(error)
                log.error("line_down", line=self.name, error=str(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.settings.max_retry_s)

    # -- connecting

    async def _keep_connected(self) -> None:
        settings, delay = self.settings, self.settings.retry_s
        loop = asyncio.get_running_loop()
        while True:
            self.state = "connecting"
            began = loop.time()
            try:
                await self._connection()
                self.error = "the connection has ended"
            except (OSError, WireloomError) as error:
                # Not there yet, or no such name yet: both may change.
                self.error = str(error)
            if loop.time() - began > _STEADY_S:
                delay = settings.retry_s
            self.state = "connecting"
            log.info("reconnecting", line=self.name, error=self.error, after_s=delay)
            # Not all at once, when many have lost the same peer.
            await asyncio.sleep(delay * random.uniform(0.8, 1.2))
            delay = min(delay * 2, settings.max_retry_s)

    async def _connection(self) -> None:
        """Connect, and be a session until the connection ends."""
        address = self.url.address
        if self.url.scheme == "tcp-client":
            assert address is not None
            _, peer = await asyncio.get_running_loop().create_connection(
                partial(TcpPeer, self._junction, self, False),
                address.host,
                address.port,
                ssl=self._tls,
            )
            if not peer.session:
                raise ConnectionClosed("there is no session id for it")
            self._connected()
            try:
                await asyncio.shield(peer.gone)
            finally:
                peer.close()
            return
        link = await open_link(self.url, self._link_options())
        self._connected()
        try:
            await LinkPeer(self._junction, self, link, False).run()
        finally:
            await link.close()

    def _connected(self) -> None:
        self.state, self.error = "connected", ""
        log.info("connected", line=self.name, to=str(self.url))

    def _link_options(self) -> LinkOptions:
        settings = self.settings
        return LinkOptions(
            token=self.token,
            tls=self._tls,
            baud=settings.baud,
            is_mqtt_client=settings.role == "client",
            qos=settings.qos,
            max_message=_max_message(self),
        )


def _max_message(line: Line) -> int:
    """Bytes of the largest WebSocket message: a frame, or the JSON of one, with hex in it."""
    frame = line.options.rules.max_payload + 16
    return max(frame if line.settings.form == "frames" else 6 * frame, line.options.max_text)
