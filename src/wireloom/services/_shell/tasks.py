"""Background tasks of a service: held, named, and never failing in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from wireloom.services._shell.logs import get_log

__all__ = ["Tasks"]

log = get_log("tasks")


class Tasks:
    """Tasks that run beside a service. The event loop holds tasks weakly, so these are held here.

    Args:
        failed: called with the exception of a task that ends by one; a service that goes on
            without one of its parts would be half dead, so it usually stops.
    """

    def __init__(self, failed: Callable[[BaseException], None] | None = None) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` in the background."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed", task=task.get_name(), error=repr(error), exc_info=error)
            if self._failed is not None:
                self._failed(error)

    def __len__(self) -> int:
        return len(self._tasks)

    async def cancel(self) -> None:
        """Cancel all, and wait until they have ended."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
