"""A service as a program: ready line, signals, drain, side port, logs.

Whatever runs as ``wireloom serve …`` is a `Service` in `run_service`. When it serves, one JSON line
goes to stdout; everything else it says goes to stderr. SIGTERM and SIGINT drain it; a second one
ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from wireloom.errors import WireloomError
from wireloom.services._shell.logs import flush_logs, get_log, set_up_logs
from wireloom.services._shell.loops import run_until_stopped
from wireloom.services._shell.sections import ProgramSettings
from wireloom.services._shell.side import SidePort
from wireloom.services._shell.tasks import Tasks

__all__ = ["Service", "run_program", "run_service"]

log = get_log("program")

_GC = (25_000, 20, 100)
"""A service makes many objects that soon go by themselves; cycles are few."""
_TRIM_S = 20.0
_SWITCH_S = 0.001
"""How long a thread that works on a database may keep the event loop waiting."""


class Service(Protocol):
    """Something that runs until it is told to stop."""

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics."""
        ...

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Pages of its own on the side port."""
        ...

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        """Begin to serve; give what the ready line says, ``{"listen": "127.0.0.1:41234"}``."""
        ...

    async def drain(self) -> None:
        """Take nothing new, and let what is under way end."""
        ...

    async def close(self) -> None:
        """End everything; a second time: no effect."""
        ...

    def status(self) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """What it does right now, for people: counts and states, no payloads."""
        ...


async def run_service(
    service: Service,
    settings: ProgramSettings | None = None,
    *,
    stop: asyncio.Event | None = None,
    ready: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Serve until `stop` is set, drain, and close.

    Args:
        service: what runs.
        settings: side port and times.
        stop: set to end it.
        ready: called with what the ready line says.

    Raises:
        OSError: an address cannot be listened on.
        Exception: whatever a background task of the service failed by.
    """
    settings = settings or ProgramSettings()
    stop = stop or asyncio.Event()
    failures: list[BaseException] = []

    def failed(error: BaseException) -> None:
        failures.append(error)
        stop.set()

    tasks = Tasks(failed)
    is_serving = False
    side = SidePort(
        service.registry,
        service.status,
        lambda: is_serving and getattr(service, "is_ready", True),
        service.routes,
    )
    try:
        said = await service.start(tasks)
        if settings.metrics is not None:
            said["metrics"] = str(await side.start(settings.metrics, tasks))
        is_serving = True
        # One turn, in which the loop begins to watch what listens: who reads the line and connects
        # to several addresses at once is then taken in that order.
        await asyncio.sleep(0)
        log.info("ready", **said)
        if ready is not None:
            ready(said)
        await stop.wait()
        is_serving = False
        log.info("draining")
        try:
            async with asyncio.timeout(settings.drain_s):
                await service.drain()
        except TimeoutError:
            log.warning("drain_timeout", seconds=settings.drain_s)
    finally:
        await service.close()
        await side.stop()
        await tasks.cancel()
        log.info("stopped")
    if failures:
        raise failures[0]


def _tune() -> None:
    """Fewer and shorter pauses than the interpreter makes by default, and all files it may have."""
    if sys.platform != "win32":
        import resource

        # A shell often grants 1,024 at first, far fewer than there may be connections.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What was imported stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC)
    sys.setswitchinterval(_SWITCH_S)


async def _give_back() -> None:
    """Return free memory to the system every now and then.

    What buffers of many sizes leave behind is free and in pieces; the C library keeps all of it.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library
        return
    while True:
        await asyncio.sleep(_TRIM_S)
        trim(0)


def run_program(
    make: Callable[[], Coroutine[Any, Any, Service]],
    settings: ProgramSettings,
    *,
    reload: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Run a service as this process: logs, signals and the ready line on stdout.

    Args:
        make: makes the service, on the event loop.
        settings: side port, logs and times.
        reload: reads the configuration again, on SIGHUP; what is wrong with it is logged, and the
            service goes on as it was.

    Raises:
        OSError: an address cannot be listened on.
        SystemExit: it was ended at once.
    """
    set_up_logs(settings.log_level, settings.log_style)
    _tune()

    def ready(said: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"event": "ready", **said}) + "\n")
        sys.stdout.flush()

    async def reloaded() -> None:
        assert reload is not None
        try:
            await reload()
        except (WireloomError, OSError) as error:
            log.error("reload_failed", error=str(error))

    async def main(stop: asyncio.Event) -> None:
        beside = Tasks()
        beside.start(_give_back(), "memory")
        if reload is not None:
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, lambda: beside.start(reloaded(), "reload")
            )
        try:
            await run_service(await make(), settings, stop=stop, ready=ready)
        finally:
            await beside.cancel()

    try:
        run_until_stopped(main)
    finally:
        flush_logs()
