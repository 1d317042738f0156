"""The client for programs without an event loop: the same, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

from wireloom.errors import ConnectionClosed
from wireloom.services._shell.loops import new_loop
from wireloom.services.nrep.client import Client, ClientCounts
from wireloom.services.nrep.streams import SocketWriter

__all__ = ["BlockingClient", "BlockingSocket"]

T = TypeVar("T")


class BlockingSocket:
    """A socket of an entry point with calls that wait."""

    def __init__(
        self, client: BlockingClient, reader: asyncio.StreamReader, writer: SocketWriter
    ) -> None:
        self._client, self._reader, self._writer = client, reader, writer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def recv(self, size: int = 65_536) -> bytes:
        """Bytes that have come, at least one; none at the end.

        Raises:
            ConnectionClosed: the client was closed before.
        """
        return self._client.wait(self._reader.read(size))

    def sendall(self, data: bytes) -> None:
        """Send bytes; waits while the far end takes no more.

        Raises:
            ConnectionClosed: the socket has ended.
        """

        async def send() -> None:
            self._writer.write(data)
            await self._writer.drain()

        self._client.wait(send())

    def close(self) -> None:
        """Send what was written, then close."""

        async def close() -> None:
            self._writer.close()

        self._client.wait(close())


class BlockingClient:
    """A `Client` whose calls wait; takes the same arguments.

    Raises:
        TrustError: the entry point is not who was expected.
        WireloomError: it does not speak the protocol, or none was found.
        OSError: it cannot be reached.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._loop = new_loop()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="nrep client", daemon=True)
        self._thread.start()

        async def start() -> Client:
            client = Client(*args, **options)
            await client.start()
            return client

        try:
            self._client = self.wait(start())
        except BaseException:
            self._stop()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _stop(self) -> None:
        async def end() -> None:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        with self._lock:
            self._is_stopped = True
        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the client's event loop, and wait for what it gives.

        Raises:
            ConnectionClosed: the client is closed, maybe by another thread, meanwhile.
        """
        with self._lock:
            if self._is_stopped:
                work.close()
                raise ConnectionClosed("the client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionClosed("the client is closed") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def counts(self) -> ClientCounts:
        """What has happened to it."""
        return self._client.counts

    def publish(self, app: str, serve: Callable[[BlockingSocket], None]) -> None:
        """Offer an app; every socket is served on a thread of its own.

        Raises:
            RefusedError: the entry point does not take it.
            ConnectionClosed: there is no entry point.
        """

        async def run(reader: asyncio.StreamReader, writer: SocketWriter) -> None:
            await asyncio.to_thread(serve, BlockingSocket(self, reader, writer))

        self.wait(self._client.publish(app, run))

    def find(self, app: str) -> tuple[bytes, ...]:
        """The instances of an app."""
        return self.wait(self._client.find(app))

    def list_apps(self) -> list[tuple[str, int]]:
        """What is published: names, and how many instances each has."""
        return self.wait(self._client.list_apps())

    def open(self, app: str, *, within_s: float = 10.0) -> BlockingSocket:
        """Open a socket to an instance of an app.

        Raises:
            RefusedError: there is no instance, or none that accepts.
            ConnectionClosed: there is no entry point within the time.
        """
        reader, writer = self.wait(self._client.open(app, within_s=within_s))
        return BlockingSocket(self, reader, writer)

    def close(self) -> None:
        """End the connection and the thread. A second time: no effect."""
        if self._thread.is_alive():
            self.wait(self._client.close())
            self._stop()
