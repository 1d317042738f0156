"""The side port: ``/metrics``, ``/healthz``, ``/readyz`` and ``/status`` over HTTP.

It runs on the service's own event loop: a service that no longer answers there is stuck, and that
is what a health check is to find out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from wireloom.services._shell.addresses import Address
from wireloom.services._shell.tasks import Tasks

__all__ = ["HttpPort", "SidePort"]

_MAX_REQUESTS = 64
"""At the same time: scrapers and a few people."""
_KEEP_ALIVE_S = 20


class _Server(uvicorn.Server):
    """Ends when it is told, where uvicorn looks ten times a second whether it is to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        """End it soon."""
        self.should_exit = True
        self._told.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are the service's."""
        yield

    async def main_loop(self) -> None:
        """Once a second, the date that it sends is set."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give requests under way a moment, if there are any."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
        else:
            for server in self.servers:
                server.close()


class HttpPort:
    """Serves a web application on the event loop of a service."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._server: _Server | None = None
        self._task: asyncio.Task[Any] | None = None
        self._socket: socket.socket | None = None

    async def start(self, address: Address, tasks: Tasks) -> Address:
        """Serve; give the real address.

        Raises:
            OSError: the address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        sock = socket.create_server((address.host, address.port), family=family)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # see `listening.bind`
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            limit_concurrency=_MAX_REQUESTS,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        real = Address.of_socket(sock.getsockname())
        self._socket = sock
        self._task = tasks.start(self._server.serve(sockets=[sock]), "side port")
        return real

    async def stop(self) -> None:
        """Serve no more; requests under way may end."""
        if self._server is not None and self._task is not None:
            self._server.stop()
            await asyncio.wait([self._task])
        if self._socket is not None:
            self._socket.close()


class SidePort(HttpPort):
    """Serves what a service says about itself.

    Args:
        registry: its metrics.
        status: what it says about itself, for people and ``wireloom … status``.
        is_ready: whether it takes new work; false before it serves and while it drains.
        routes: further pages.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        status: Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]],
        is_ready: Callable[[], bool],
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        async def metrics(_: Request) -> Response:
            return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

        async def health(_: Request) -> Response:
            return JSONResponse({"status": "alive"})

        async def ready(_: Request) -> Response:
            if is_ready():
                return JSONResponse({"status": "ready"})
            return JSONResponse({"status": "not ready"}, status_code=503)

        async def show_status(_: Request) -> Response:
            found = status()
            return JSONResponse(found if isinstance(found, dict) else await found)

        app = Starlette(
            routes=[
                Route("/metrics", metrics),
                Route("/healthz", health),
                Route("/readyz", ready),
                Route("/status", show_status),
                *routes,
            ]
        )
        super().__init__(app)
