"""A simulated board: all types, events, LEDs, acknowledgements, and faults on request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from starlette.routing import BaseRoute

from wireloom.errors import ConnectionClosed, StateError
from wireloom.formats.nais import CommandId, NaisPacket, NaisType, StreamDecoder
from wireloom.formats.nais.board import LEDS_TYPE, BoardSession, Leds
from wireloom.formats.nais.lines import LineOptions
from wireloom.formats.nais.rules import SYNC_START
from wireloom.formats.nais.session import PacketReceived, TextReceived
from wireloom.messages import Json
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks
from wireloom.services._shell.tls import client_context
from wireloom.services.nais.faults import Faults
from wireloom.services.nais.links import Link, LinkOptions, TcpLink, open_link
from wireloom.services.nais.simulator_settings import SCHEMES, BoardSettings
from wireloom.services.nais.urls import Url

__all__ = ["BUTTON_EVENT", "Board", "BoardSettings"]

log = get_log("nais.board")

BUTTON_EVENT = 9001
"""Event of a button press, as the demonstration firmware has it."""
_RETRY_S = 0.2
_MAX_RETRY_S = 5.0
_REMEMBERED = 50
"""Lines of what happened that the page shows."""


class Board:
    """A board that connects, or is connected to; a `Service`.

    Args:
        settings: what it is to be.

    Raises:
        OptionError: settings contradict one another.
    """

    routes: Sequence[BaseRoute] = ()

    def __init__(self, settings: BoardSettings) -> None:
        settings.check()
        self.settings = settings
        self.registry = CollectorRegistry()
        self.leds = Leds()
        self.config: Json | None = {
            "network": settings.network,
            "board": settings.board,
            "host": "127.0.0.1",
        }
        self.happened: deque[str] = deque(maxlen=_REMEMBERED)
        """What the page shows, latest last."""
        self.faults = Faults.of(
            settings.fault, settings.fault_rate, settings.bytes_per_s, settings.seed
        )
        self.page_token = settings.page_token
        self._requests = Counter(
            "wireloom_board_requests", "Requests by TYPE.", ["type"], registry=self.registry
        )
        self._connections = Gauge("wireloom_board_connections", "Open now.", registry=self.registry)
        self._open: dict[BoardSession, tuple[Link, asyncio.Lock]] = {}
        self._server: asyncio.Server | None = None
        self._page: Any = None
        self._serving: set[asyncio.Task[Any]] = set()

    # -- the service

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        """Connect or listen, and serve the page.

        Raises:
            OSError: an address cannot be listened on.
        """
        settings = self.settings
        said: dict[str, Any] = {"board": f"{settings.network}/{settings.board}"}
        if settings.listen is not None:
            host, port = settings.listen.host, settings.listen.port
            self._server = await asyncio.start_server(self._accept, host, port)
            name = self._server.sockets[0].getsockname()
            said["listen"] = str(Address.of_socket(name))
        else:
            said["connect"] = str(Url.parse(settings.connect, SCHEMES))
            tasks.start(self._keep_connected(), "board")
        if settings.event_every_s:
            tasks.start(self._report(), "events")
        if settings.page is not None:
            from wireloom.services._shell.side import HttpPort
            from wireloom.services.nais.page import page_app

            self._page = HttpPort(page_app(self))
            address = await self._page.start(settings.page, tasks)
            said["page"] = f"http://{address}/"
        return said

    async def drain(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
        for link, _ in list(self._open.values()):
            await link.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=2.0)
        if self._page is not None:
            await self._page.stop()

    def status(self) -> dict[str, Any]:
        """What it does."""
        return {
            "board": f"{self.settings.network}/{self.settings.board}",
            "connections": len(self._open),
            "leds": self.leds.lit,
            "faults": self.faults.counted,
        }

    # -- what a board does by itself

    async def send_event(self, id: int, **values: Any) -> None:
        """Report something on all connections.

        Raises:
            EncodeError: a value does not fit.
        """
        self.note(f"event {id}")
        for session in list(self._open):
            with contextlib.suppress(ConnectionClosed, StateError):
                session.send_event(id, **values)
                await self._flush(session)

    async def print(self, text: str) -> None:
        """Print a line on all connections.

        Raises:
            EncodeError: it holds the byte that starts a frame.
        """
        for session in list(self._open):
            with contextlib.suppress(ConnectionClosed, StateError):
                session.send_text(text)
                await self._flush(session)

    def note(self, text: str) -> None:
        """Remember what happened, for the page."""
        self.happened.append(f"{datetime.now(UTC):%H:%M:%S} {text}")

    async def _report(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(self.settings.event_every_s)
            count += 1
            await self.send_event(self.settings.event_id, svals=["simulated"], ivals=[count])

    # -- connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        await self._serve(TcpLink(reader, writer))

    async def _keep_connected(self) -> None:
        settings, delay = self.settings, _RETRY_S
        url = Url.parse(settings.connect, SCHEMES)
        tls = client_context() if url.scheme in ("tls", "wss", "mqtts") else None
        options = LinkOptions(token=settings.token, tls=tls)
        while True:
            try:
                link = await open_link(url, options)
            except (OSError, ConnectionClosed) as error:
                log.info("not_connected", url=str(url), error=str(error), again_s=delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _MAX_RETRY_S)
                continue
            delay = _RETRY_S
            await self._serve(link)
            await asyncio.sleep(delay)

    async def _serve(self, link: Link) -> None:
        """Be a board on one connection until it ends."""
        session = BoardSession({LEDS_TYPE: self.leds}, self.config, LineOptions())
        self._open[session] = link, asyncio.Lock()
        self._connections.set(len(self._open))
        log.info("connected", to=str(link.remote))
        loop = asyncio.get_running_loop()
        try:
            session.send_text(f"{self.settings.network}/{self.settings.board} is ready")
            await self._flush(session)
            while data := await link.receive():
                if link.is_message and data[0] != SYNC_START and not data.endswith(b"\n"):
                    data += b"\n"
                session.handle_timeout(loop.time())
                events = session.receive(data, loop.time())
                await self._flush(session)
                for event in events:
                    if isinstance(event, PacketReceived) and self._is_restart(event.packet):
                        return
                    if isinstance(event, TextReceived):
                        self.note(f"text {event.data.decode('utf-8', 'backslashreplace')}")
                self.config = session.config
        except ConnectionClosed:
            pass
        finally:
            del self._open[session]
            self._connections.set(len(self._open))
            await link.close()
            log.info("disconnected", from_=str(link.remote))

    def _is_restart(self, packet: NaisPacket) -> bool:
        """Take note of a request; whether the board starts again because of it."""
        message = packet.message or {}
        self._requests.labels(packet.type).inc()
        shown = packet.types.redacted(packet.type, message) if packet.message is not None else {}
        self.note(f"{packet.type_name} from {packet.sline}: {json.dumps(shown)}")
        if packet.type == NaisType.SECRET:
            return True
        if packet.type != NaisType.COMMAND:
            return False
        if message["id"] == CommandId.FACTORY_RESET:
            self.config = None
            self.leds.lit = 0
        return message["id"] in (
            CommandId.REBOOT,
            CommandId.TOGGLE_WIFI_MODE,
            CommandId.FACTORY_RESET,
        )

    async def _flush(self, session: BoardSession) -> None:
        """Send what a session has to send, with the faults that were asked for."""
        link, lock = self._open[session]
        async with lock:
            data = session.data_to_send()
            if not data:
                return
            if not self.faults.kinds and not link.is_message:
                await link.send(data)
                return
            decoder = StreamDecoder()
            for record in (*decoder.feed(data), *decoder.close()):
                async for piece in self.faults.spoilt(record.data):
                    await link.send(piece)
