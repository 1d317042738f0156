"""Being woken by other brokers: LISTEN on a connection of its own.

A notice only says that there is something to read. One that is lost costs time, up to the interval
of polling, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import psycopg

from wireloom.services.blaze.store.api import StoreSettings
from wireloom.services.blaze.store.database import Database, PostgresDatabase
from wireloom.services.blaze.store.statements import CHANNEL

__all__ = ["Listener"]

_LOG = logging.getLogger(__name__)


class Listener:
    """Calls back for every notice that is not one's own, and after every reconnect."""

    def __init__(
        self,
        database: Database,
        sender: str,
        on_notice: Callable[[], None],
        settings: StoreSettings,
    ) -> None:
        assert isinstance(database, PostgresDatabase)
        self._arguments = database.connect_arguments()
        self._sender = sender
        self._on_notice = on_notice
        self._retry = settings.retry_interval
        # Kept here, and ended by `close` alone.
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="blaze notices")

    async def _listen(self) -> None:
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    **self._arguments, autocommit=True
                )
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self._on_notice()  # for what came while nobody listened
                    async for notice in connection.notifies():
                        if notice.payload != self._sender:
                            self._on_notice()
            except (psycopg.Error, OSError) as error:
                _LOG.info("no notices of other brokers: %s", error)
            await asyncio.sleep(self._retry)

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
