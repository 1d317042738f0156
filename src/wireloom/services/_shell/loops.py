"""Event loops, and running until somebody says stop; light to import, for clients too."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from wireloom.services._shell.logs import get_log

__all__ = ["new_loop", "run_until_stopped"]

log = get_log("program")


def new_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's event loop where that is installed, else the standard library's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run_until_stopped(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main` as this process; the event it gets is set by SIGTERM and SIGINT.

    A second signal ends it at once.

    Raises:
        SystemExit: it was ended at once.
    """

    async def run() -> None:
        loop = asyncio.get_running_loop()
        stop, current = asyncio.Event(), asyncio.current_task()

        def stopped() -> None:
            if stop.is_set() and current is not None:
                current.cancel()
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped)
        await main(stop)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(run())
        except asyncio.CancelledError:
            log.warning("stopped_at_once")
            raise SystemExit(1) from None
