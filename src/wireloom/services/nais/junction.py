"""A junction on real connections: the router of `wireloom.formats.nais` in the service shell.

Back-pressure: bytes wait in the router's bounded queues while a connection cannot take them, so
that a slow one loses its oldest records and holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from wireloom.formats.nais.router import Dropped, Router
from wireloom.services._shell.connections import Hub
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tap import FLUSH_S, Tap
from wireloom.services._shell.tasks import Tasks
from wireloom.services.nais.collector import LineCollector
from wireloom.services.nais.peers import SessionPeer
from wireloom.services.nais.settings import JunctionSettings, RouteSettings
from wireloom.services.nais.wiring import Line

if TYPE_CHECKING:
    from wireloom.services.nais.settings import LineSettings

__all__ = ["Junction"]

log = get_log("nais")

_TICK_S = 0.25
"""Longest sleep while anything waits for time: an idle limit may be that short."""
_GRACE_S = 0.001
_POLL_S = 0.02


class Junction:
    """Lines and routes on the running event loop; a `Service`.

    Args:
        settings: what it is to be.

    Raises:
        OptionError: lines or routes contradict one another.
        SourceError: a file that they name cannot be used.
        OSError: the folder of the tap cannot be written to.
    """

    routes: Sequence[BaseRoute] = ()

    def __init__(self, settings: JunctionSettings) -> None:
        self.settings = settings
        self._types = settings.registry()
        self.router = Router(types=self._types)
        self.sessions: dict[int, SessionPeer] = {}
        settings.check()
        tap = Tap(settings.tap, "nais") if settings.tap.folder is not None else None
        self.hub = Hub("nais", settings.limits, tap)
        self.lines: dict[str, Line] = {}
        self._routes: list[RouteSettings] = []
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._reload_lock = asyncio.Lock()
        for name, line in settings.all_lines().items():
            self._add(name, line)
        self._connect(settings.all_routes())
        self.hub.registry.register(LineCollector(self))

    # -- the service

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics."""
        return self.hub.registry

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        """Open all lines; gives ``{"lines": {NAME: ADDRESS}}``.

        Raises:
            OSError: an address cannot be listened on.
        """
        self._tasks = tasks
        # Those that listen first: one that connects may be meant for one of them.
        for line in sorted(self.lines.values(), key=lambda line: not line.listens):
            await line.start(tasks)
        if self.hub.tap is not None:
            tasks.start(self._flush_tap(), "tap")
        return {"lines": self.addresses}

    async def drain(self) -> None:
        """Take no more connections, and send what waits."""
        self.hub.stop_listening()
        for line in self.lines.values():
            line.stop_listening()
        # Not worth an event that every write would have to look after.
        while any(  # noqa: ASYNC110
            peer.is_sending or self.router.pending(session)
            for session, peer in self.sessions.items()
        ):
            await asyncio.sleep(_POLL_S)

    async def close(self) -> None:
        """End all lines and connections."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.gather(*(line.stop() for line in self.lines.values()))
        await self.hub.close()
        if self._timer is not None:
            self._timer.cancel()
        log.info("counters", **self.router.counters.to_dict())

    def status(self) -> dict[str, Any]:
        """Lines, routes, sessions and counters; no payloads, no tokens."""
        now = self.now()
        return {
            "lines": {
                name: {
                    "url": str(line.url),
                    "address": line.address,
                    "state": line.state,
                    "error": line.error,
                    "sessions": len(line.peers),
                    "counters": self.router.line_counters(name).to_dict(),
                }
                for name, line in self.lines.items()
            },
            "routes": [[route.a, route.b] for route in self._routes],
            "sessions": [
                {
                    "id": each.id,
                    "line": each.line,
                    "peer": self._peer_name(each.via or each.id),
                    "age_s": round(now - each.since, 3),
                    "queued_bytes": each.queued,
                    "via": each.via,
                    "remote": each.remote,
                }
                for each in self.router.sessions()
            ],
            "counters": self.router.counters.to_dict(),
        }

    @property
    def addresses(self) -> dict[str, str]:
        """Line → where it is, the real address of those that listen."""
        return {name: line.address for name, line in self.lines.items()}

    def _peer_name(self, session: int) -> str:
        peer = self.sessions.get(session)
        return str(peer.remote) if peer is not None else ""

    # -- what lines and routes there are

    def _add(self, name: str, settings: LineSettings) -> Line:
        line = Line(self, name, settings, self._types)
        self.router.add_line(name, line.options)
        self.lines[name] = line
        return line

    def _connect(self, routes: list[RouteSettings]) -> None:
        self.router.clear_routes()
        for route in routes:
            forward = route.forward.direction(self._types)
            self.router.add_route(route.a, route.b, forward, route.backward.direction(self._types))
        self._routes = routes

    async def reload(self, settings: JunctionSettings) -> None:
        """Become what other settings say; lines that stay the same keep their connections.

        Certificates and tokens in files are read anew for all. Limits, tap, schemas and the
        program's own settings stay as they were at the start.

        Raises:
            OptionError: lines or routes contradict one another; nothing has changed then.
            SourceError: a file that they name cannot be used; nothing has changed then.
        """
        async with self._reload_lock:
            settings.check()
            lines, routes = settings.all_lines(), settings.all_routes()
            for name in ("limits", "tap", "program", "proto", "bind"):
                if getattr(settings, name) != getattr(self.settings, name):
                    log.warning("reload_ignored", setting=name, reason="it needs a restart")
            gone = [line for name, line in self.lines.items() if lines.get(name) != line.settings]
            await asyncio.gather(*(line.stop() for line in gone))
            for line in gone:
                self.router.remove_line(line.name)
                del self.lines[line.name]
            for line in self.lines.values():
                line.renew()
            fresh = [self._add(name, lines[name]) for name in lines if name not in self.lines]
            self._connect(routes)
            for line in fresh:
                try:
                    await line.start(self._tasks)
                except OSError as error:
                    log.error("line_down", line=line.name, error=str(error))
                    line.start_later(self._tasks)
            self.settings = settings
            kept = [name for name in lines if name not in {line.name for line in fresh}]
            log.info("reloaded", lines=self.addresses, kept=kept)

    # -- what connections call

    def now(self) -> float:
        """The clock of the event loop."""
        return asyncio.get_running_loop().time()

    def enter(self, line: Line, peer: SessionPeer) -> int:
        """A connection came up: the id of its session.

        Raises:
            StateError: there is no id for it.
        """
        session = self.router.connect(line.name, self.now())
        self.sessions[session] = peer
        line.connects += 1
        log.info("session", line=line.name, session=session, peer=str(peer.remote))
        # It learns its id when this returns; what waited for it is sent then.
        asyncio.get_running_loop().call_soon(self.flush)
        return session

    def leave(self, session: int) -> None:
        """It has gone."""
        del self.sessions[session]
        self._note(self.router.disconnect(session, self.now()))
        log.info("session_ended", session=session)
        self.flush()

    def receive(self, session: int, data: bytes) -> None:
        """It has sent something; `flush` is to follow."""
        if dropped := self.router.receive(session, data, self.now(), checks_idle=False):
            self._note(dropped)

    def lost(self, line: Line, records: int) -> None:
        """Records were under way when a connection ended."""
        self.router.line_counters(line.name).lost_on_close += records

    def flush(self) -> None:
        """Write what is new to whom it is for, and look after the time."""
        for session in self.router.ready():
            if (peer := self.sessions.get(session)) is not None:
                peer.wake()
        if self._timer is None and not self._is_closed:
            delay = self.router.next_timeout(self.now())
            if delay is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(min(delay, _TICK_S), self._tick)

    def _tick(self) -> None:
        # It may have been the junction that was busy, not the line that was idle. So sockets are
        # read once more before anything is given up.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_GRACE_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._note(self.router.handle_timeout(self.now()))
        self.flush()

    def _note(self, dropped: list[Dropped]) -> None:
        for each in dropped if log.is_debug else ():
            log.debug(
                "dropped",
                reason=each.reason,
                session=each.session,
                line=each.line,
                type=each.type,
                detail=each.detail,
            )

    async def _flush_tap(self) -> None:
        while self.hub.tap is not None and self.hub.tap.is_open:
            await asyncio.sleep(FLUSH_S)
            self.hub.tap.flush()
