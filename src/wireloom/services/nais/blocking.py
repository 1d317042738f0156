"""The NAIS client for programs without an event loop: the same, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from wireloom.errors import StateError
from wireloom.formats.nais import NaisPacket, NaisType
from wireloom.formats.nais.session import EventReceived
from wireloom.services.nais.client import Answer, Client, Subscription

__all__ = ["SyncClient"]

T = TypeVar("T")


class SyncClient:
    """A `Client` whose methods wait; use it in a ``with`` statement.

    Args:
        url: where to; see `Client`.
        options: see `Client`.

    Raises:
        OptionError: the URL is none.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url, self._options = url, options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="nais", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(self._connected())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._run(self._client.close())
        self._stop()

    async def _connected(self) -> Client:
        client = Client(self._url, **self._options)
        await client.connect()
        return client

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._client = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            raise StateError("use it in a with statement")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def _inner(self) -> Client:
        if self._client is None:
            raise StateError("use it in a with statement")
        return self._client

    def request(
        self, type: int | str, message: Mapping[str, object], **options: Any
    ) -> Answer | None:
        """See `Client.request`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.request(type, message, **options))

    def profile(self, uid: str, pwd: str, *, board: int = 0) -> Answer:
        """See `Client.profile`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.profile(uid, pwd, board=board))

    def config(self, config: Mapping[str, object], *, board: int = 0) -> Answer:
        """See `Client.config`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.config(config, board=board))

    def get_config(self, *, board: int = 0) -> Answer:
        """See `Client.get_config`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.get_config(board=board))

    def secret(self, key: str, *, board: int = 0, expects_answer: bool = False) -> Answer | None:
        """See `Client.secret`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.secret(key, board=board, expects_answer=expects_answer))

    def command(
        self,
        id: int,
        *,
        type: int = NaisType.COMMAND,
        svals: Iterable[str] = (),
        ivals: Iterable[int] = (),
        board: int = 0,
        expects_answer: bool = True,
    ) -> Answer | None:
        """See `Client.command`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(
            self._inner.command(
                id,
                type=type,
                svals=svals,
                ivals=ivals,
                board=board,
                expects_answer=expects_answer,
            )
        )

    def leds(self, mask: int = 0, values: int = 0, *, board: int = 0) -> int:
        """See `Client.leds`.

        Raises:
            WireloomError: it failed.
            TimeoutError: no answer came.
        """
        return self._run(self._inner.leds(mask, values, board=board))

    def send_packet(self, packet: NaisPacket) -> None:
        """See `Client.send_packet`.

        Raises:
            WireloomError: it failed.
            TimeoutError: there is no connection.
        """
        self._run(self._inner.send_packet(packet))

    def send_text(self, text: str) -> None:
        """See `Client.send_text`.

        Raises:
            WireloomError: it failed.
            TimeoutError: there is no connection.
        """
        self._run(self._inner.send_text(text))

    def events(self, *ids: int, timeout_s: float | None = None) -> Iterator[EventReceived]:
        """Events from now on; ends when none came for `timeout_s`."""
        return self._each(self._run(self._subscribed(self._inner.events, *ids)), timeout_s)

    def texts(self, *, timeout_s: float | None = None) -> Iterator[str]:
        """Lines of text from now on; ends when none came for `timeout_s`."""
        return self._each(self._run(self._subscribed(self._inner.texts)), timeout_s)

    async def _subscribed(self, subscribe: Any, *ids: int) -> Any:
        return subscribe(*ids)

    def _each(self, subscription: Subscription[T], timeout_s: float | None) -> Iterator[T]:
        async def following() -> T:
            async with asyncio.timeout(timeout_s):
                return await anext(subscription)

        try:
            while True:
                try:
                    yield self._run(following())
                except (TimeoutError, StopAsyncIteration):
                    return
        finally:
            self._loop_call(subscription)

    def _loop_call(self, subscription: Subscription[Any]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(subscription.close)
