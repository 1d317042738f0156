"""The Blaze client without ``await``: the same names, iterators instead of async iterators.

It runs a `Client` in an event loop of its own, in a thread of its own, so that it works where
another loop runs already, as in notebooks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import IntEnum
from typing import Any, Generic, Self, TypeVar, overload

from wireloom.errors import StateError
from wireloom.formats.blaze.classes import ModelObject
from wireloom.formats.blaze.codes import Action
from wireloom.formats.blaze.session import Stamp
from wireloom.services.blaze.client import Client, Sendable
from wireloom.services.blaze.events import Event, Result
from wireloom.services.blaze.subscription import Subscription

__all__ = ["SyncClient", "SyncSubscription"]

T = TypeVar("T", bound=ModelObject)
R = TypeVar("R")


class SyncClient:
    """A `Client` for code without ``await``; its methods take and raise the same.

    ::

        with SyncClient.connect("127.0.0.1", 12345) as client:
            client.insert(fleet.TRUCK(truck_id=7))
            for event in client.subscribe(fleet.TRUCK, mode=SubscriptionMode.PAST):
                print(event.object)

    It may be used by several threads.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        """For `connect`."""
        self._make = make
        self._client: Client | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="blaze", daemon=True)

    @classmethod
    def connect(cls, host: str, port: int, **options: Any) -> Self:
        """A client that connects when it is entered; see `Client.connect` for the options."""
        return cls(lambda: Client.connect(host, port, **options))

    def open(self) -> Self:
        """Connect, where ``with`` does not fit: in the cells of a notebook. `close` ends it.

        Raises:
            ConnectionRefused: the broker does not want this client.
            ConnectionClosed: it has not answered, or not in Blaze.
            OSError: there is nobody.
        """
        if self._thread.ident is not None:
            raise StateError("a client can be entered once")
        self._thread.start()
        try:
            client = self._make()
            self.run(client.__aenter__())
            self._client = client
        except BaseException:
            self._stop()
            raise
        return self

    __enter__ = open

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._close(at_once=kind is not None)

    def close(self) -> None:
        """Leave; a second time: no effect."""
        self._close(at_once=False)

    def _close(self, at_once: bool) -> None:
        client, self._client = self._client, None
        if client is not None:
            try:
                self.run(client.close(at_once=at_once))
            finally:
                self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """What a coroutine gives; it runs in the client's loop.

        Raises:
            StateError: the client is not open.
        """
        if not self._thread.is_alive():
            work.close()
            raise StateError("the client is not open")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, or what the coroutine has raised
            future.cancel()
            raise

    @property
    def client(self) -> Client:
        """The client in the other thread.

        Raises:
            StateError: it is not open.
        """
        if self._client is None:
            raise StateError("the client is not open")
        return self._client

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at the moment."""
        return self._client is not None and self._client.is_connected

    def insert(self, obj: Sendable, **options: Any) -> Result:
        """Create an object."""
        return self.run(self.client.insert(obj, **options))

    def update(self, obj: Sendable, **options: Any) -> Result:
        """Replace an object by this one."""
        return self.run(self.client.update(obj, **options))

    def merge(self, obj: Sendable, **options: Any) -> Result:
        """Change some fields of an object."""
        return self.run(self.client.merge(obj, **options))

    def delete(self, obj: Sendable, **options: Any) -> Result:
        """Delete the object that has this one's primary key."""
        return self.run(self.client.delete(obj, **options))

    def reset(self, obj: Sendable, **options: Any) -> Result:
        """RST, which the broker's policy gives a meaning."""
        return self.run(self.client.reset(obj, **options))

    def transact(
        self, action: Action | IntEnum, obj: Sendable | None = None, **options: Any
    ) -> Result:
        """Send a transaction and wait for its outcome."""
        return self.run(self.client.transact(action, obj, **options))

    def transact_many(
        self, action: Action | IntEnum, objects: Iterable[Sendable], **options: Any
    ) -> list[Result]:
        """Send many transactions without waiting for each; gives their results in order."""
        return self.run(self.client.transact_many(action, objects, **options))

    def insert_many(self, objects: Iterable[Sendable], **options: Any) -> list[Result]:
        """Create many objects; gives their results in order."""
        return self.transact_many(Action.INS, objects, **options)

    @overload
    def subscribe(self, nclass: type[T], **options: Any) -> SyncSubscription[T]: ...

    @overload
    def subscribe(self, nclass: str | int, **options: Any) -> SyncSubscription[ModelObject]: ...

    def subscribe(
        self, nclass: type[ModelObject] | str | int, **options: Any
    ) -> SyncSubscription[Any]:
        """The objects of a class; see `Client.subscribe` for the options."""

        async def make() -> Subscription[Any]:
            return self.client.subscribe(nclass, **options)

        return SyncSubscription(self, self.run(make()))


class SyncSubscription(Generic[T]):
    """The events of a subscription, one after the other.

    They are fetched, and acknowledged, as many at a time as are there, 256 at most.
    """

    def __init__(self, client: SyncClient, subscription: Subscription[T]) -> None:
        self._client = client
        self._subscription = subscription
        self._events: deque[tuple[Event[T], Stamp]] = deque()
        self._position = subscription.position

    @property
    def position(self) -> Stamp:
        """Up to where the events have been taken: `resume` with it, and nothing is lost."""
        return self._position

    def start(self) -> Self:
        """Wait until the server has granted it.

        Raises:
            SubscriptionRefused: it does not.
            ConnectionClosed: there is no connection any more.
        """
        self._client.run(self._subscription.start())
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event[T]:
        """The next event.

        Raises:
            StopIteration: there are no more.
            SubscriptionRefused: the server does not grant it.
            SubscriptionStopped: the server has ended it.
            ConnectionClosed: the connection is lost for good.
        """
        if not self._events:
            self._events += self._client.run(self._subscription.placed(256))
        if not self._events:
            raise StopIteration
        event, self._position = self._events.popleft()
        return event

    __enter__ = start

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it."""

        async def stop() -> None:
            self._subscription.close()

        self._events.clear()
        self._client.run(stop())
