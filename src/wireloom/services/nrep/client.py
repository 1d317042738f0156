"""A client of entry points: found, trusted, connected again when lost, published again.

::

    async with Client("127.0.0.1:6700") as client:
        await client.publish("echo", serve)
        reader, writer = await client.open("echo")

A socket ends with the connection it is on: what was under way then is lost, and counted in
`Client.counts`. Publications are made anew by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Self

from wireloom.errors import ConnectionClosed, RefusedError, StateError, TrustError, WireloomError
from wireloom.formats.nrep import app_id
from wireloom.formats.nrep.events import InstanceChanged
from wireloom.formats.nrep.extensions import ALL_FEATURES, Feature
from wireloom.formats.nrep.session import ClientSession
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks
from wireloom.services.nrep.balance import Balancer, Policy
from wireloom.services.nrep.channels import Channel, Offer
from wireloom.services.nrep.connection import Connection
from wireloom.services.nrep.discovery import BROADCAST, Found, discover
from wireloom.services.nrep.streams import SocketWriter, StreamChannel
from wireloom.services.nrep.trust import Trust

__all__ = ["Client", "ClientCounts", "Publication", "Serve"]

log = get_log("nrep.client")

Serve = Callable[[asyncio.StreamReader, SocketWriter], Awaitable[None]]
"""Serves one socket of a publication; the socket is closed when it returns."""

_FIRST_WAIT_S = 0.1
_LAST_WAIT_S = 5.0
"""Between attempts to connect: doubled from the first to the last, with some chance."""
_PING_S = 15.0
"""Without a word from the entry point, before it is asked for one."""
_PONG_S = 10.0
"""For its answer, before the connection is given up."""
_CONNECT_S = 10.0
_MAX_SOCKETS = 1024
"""Of one publication: each is a task."""
_TRIES = 3
"""Instances that are tried for one socket."""


@dataclass(slots=True)
class ClientCounts:
    """What has happened to a client."""

    connected: int = 0
    """Connections that were made."""
    lost: int = 0
    """Connections that were lost."""
    failed: int = 0
    """Attempts to connect that failed."""
    opened: int = 0
    """Sockets that were opened from here."""
    accepted: int = 0
    """Sockets that were accepted here."""
    refused: int = 0
    """Sockets that could not be opened, or were not accepted."""
    lost_sockets: int = 0
    """Sockets that were open when their connection was lost: bytes under way are gone."""

    def to_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


class Publication:
    """An app that is offered for as long as its client runs."""

    def __init__(self, client: Client, app: str, take: Callable[[Offer], None]) -> None:
        self.app = app
        self.instance_id: bytes | None = None
        """Of the present connection; None while there is none."""
        self.take = take
        self._client = client

    async def unpublish(self) -> None:
        """Take it back; sockets that are open go on. A second time: no effect.

        A legacy entry point has no way to forget a single publication: sockets are refused there.
        """
        await self._client._unpublish(self)


class Client:
    """A client of one entry point, or of whichever answers.

    Args:
        entry: where it is; without one it is looked for by discovery.
        asked: whom discovery asks; everybody on the local networks by default.
        trust: whom to believe.
        name: what it calls itself; shown to whoever runs the entry point.
        balance: which instance of an app is asked first.
        features: extensions to use; none makes it a legacy client.
    """

    def __init__(
        self,
        entry: Address | str | None = None,
        *,
        asked: Address | str = BROADCAST,
        trust: Trust | None = None,
        name: str = "",
        balance: Policy = "random",
        features: Feature = ALL_FEATURES,
    ) -> None:
        self._entry = Address.parse(entry) if isinstance(entry, str) else entry
        self._asked = Address.parse(asked, BROADCAST.port) if isinstance(asked, str) else asked
        self._trust = trust or Trust()
        self._name = name
        self._balance = balance
        self._features = features
        self._balancers: dict[str, Balancer] = {}
        self.counts = ClientCounts()
        self._tasks = Tasks()
        self._connection: Connection | None = None
        self._ready = asyncio.Event()
        self._is_closing = False
        self._last_error: Exception | None = None
        self._publications: list[Publication] = []
        self._by_instance: dict[bytes, Publication] = {}
        self._watched: dict[bytes, dict[bytes, None]] = {}

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self, *, is_patient: bool = False) -> None:
        """Connect, and stay connected until `close`.

        Args:
            is_patient: whether an entry point that is not there yet is waited for.

        Raises:
            TrustError: the entry point is not who was expected.
            WireloomError: it does not speak the protocol, or no entry point was found.
            OSError: it cannot be reached.
        """
        try:
            connection = await self._connect()
        except TrustError:
            raise
        except (OSError, WireloomError) as error:
            if not is_patient:
                raise
            self._failed(error)
            connection = None
        self._tasks.start(self._stay(connection), "connection")

    async def close(self) -> None:
        """Unpublish all, and end the connection behind what was written."""
        self._is_closing = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.settle()
            connection.close()
            await asyncio.wait([connection.gone], timeout=2.0)
            connection.abort()
        await self._tasks.cancel()

    async def connected(self, within_s: float = _CONNECT_S) -> Connection:
        """The connection, once there is one.

        Raises:
            ConnectionClosed: there is none within that time.
        """
        try:
            async with asyncio.timeout(within_s):
                while self._connection is None:
                    if self._is_closing:
                        raise ConnectionClosed("the client is closed")
                    await self._ready.wait()
        except TimeoutError:
            why = self._last_error or "it takes too long"
            raise ConnectionClosed(f"no entry point: {why}") from None
        return self._connection

    async def _stay(self, connection: Connection | None) -> None:
        wait = _FIRST_WAIT_S
        while True:
            if connection is None:
                await asyncio.sleep(wait * (0.5 + random.random()))
                wait = min(2 * wait, _LAST_WAIT_S)
                try:
                    connection = await self._connect()
                except (OSError, WireloomError) as error:
                    self._failed(error)
                    continue
            try:
                for publication in self._publications:
                    await self._publish_on(connection, publication)
                self._connection = connection
                self._ready.set()
                wait = _FIRST_WAIT_S
                await self._alive(connection)
            except (RefusedError, ConnectionClosed) as error:
                self._failed(error)
                connection.abort()
            why = await connection.gone
            if self._is_closing:
                return
            self._ready.clear()
            self._connection = None
            self._by_instance.clear()
            self._watched.clear()
            for publication in self._publications:
                publication.instance_id = None
            self.counts.lost += 1
            self.counts.lost_sockets += connection.lost_sockets
            log.warning("lost", why=why, sockets=connection.lost_sockets)
            connection = None

    async def _alive(self, connection: Connection) -> None:
        """Return when the connection has ended, or nothing is heard of the entry point."""
        while not connection.gone.done():
            await asyncio.wait([connection.gone], timeout=_PING_S)
            quiet = time.monotonic() - connection.heard_at
            if quiet < _PING_S or not connection.session.features & Feature.PING:
                continue
            try:
                async with asyncio.timeout(_PONG_S):
                    await connection.ping()
            except TimeoutError:
                raise ConnectionClosed("the entry point is silent") from None

    def _failed(self, error: Exception) -> None:
        self.counts.failed += 1
        self._last_error = error
        log.warning("not_connected", error=str(error))

    # -- connecting

    async def _candidates(self) -> list[Found | Address]:
        if self._entry is not None:
            return [self._entry]
        found: list[Found | Address] = []
        found += await discover([self._asked], is_first_enough=self._asked != BROADCAST)
        if not found:
            raise ConnectionClosed(f"no entry point answers at {self._asked}")
        random.shuffle(found)
        return found

    async def _connect(self) -> Connection:
        errors: list[Exception] = []
        for candidate in await self._candidates():
            try:
                connection = await self._connect_to(candidate)
            except (OSError, WireloomError) as error:
                errors.append(error)
                continue
            self.counts.connected += 1
            return connection
        raise errors[0]

    async def _connect_to(self, candidate: Found | Address) -> Connection:
        is_found = isinstance(candidate, Found)
        address = candidate.address if isinstance(candidate, Found) else candidate
        announced = candidate.certificate if isinstance(candidate, Found) else None
        is_plain = self._trust.is_insecure and announced is None
        if is_found and announced is None and not is_plain:
            raise TrustError(f"{address} speaks plain TCP, and that was not allowed")
        if is_plain:
            log.warning(
                "insecure", text="plain TCP: what is relayed can be read and changed on the way"
            )

        def check(transport: asyncio.Transport) -> None:
            tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
            if tls is None:
                return
            presented = tls.getpeercert(binary_form=True)
            if not presented:
                raise TrustError(f"{address} presents no certificate")
            self._trust.check(address, presented, announced)

        loop = asyncio.get_running_loop()
        session = ClientSession(name=self._name, features=self._features)
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(session, check, self._take_offer, self._changed),
                    address.host,
                    address.port,
                    ssl=None if is_plain else self._trust.context(),
                    server_hostname=None if is_plain else address.host.partition("%")[0],
                )
                try:
                    await connection.hello
                except BaseException:
                    connection.abort()
                    raise
        except TimeoutError:
            raise ConnectionClosed(f"{address} does not answer") from None
        except ssl.SSLCertVerificationError as error:
            raise TrustError(f"{address}: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise ConnectionClosed(f"{address}: no TLS: {error.reason or error}") from error
        log.info("connected", address=str(address), is_plain=is_plain)
        return connection

    # -- publishing

    async def publish(
        self, app: str, serve: Serve, *, max_sockets: int = _MAX_SOCKETS
    ) -> Publication:
        """Offer an app; every socket is served by a task of its own.

        Args:
            app: its name.
            serve: called with reader and writer of each socket.
            max_sockets: at the same time; more are refused.

        Raises:
            RefusedError: the entry point does not take it.
            ConnectionClosed: there is no entry point.
            EncodeError: the app's name cannot be written.
        """
        served: set[asyncio.Task[None]] = set()

        def take(offer: Offer) -> None:
            if len(served) >= max_sockets:
                self.counts.refused += 1
                offer.refuse()
                return
            channel = StreamChannel()
            offer.accept(channel)
            self.counts.accepted += 1
            task = self._tasks.start(self._serve(serve, channel), f"socket of {app}")
            served.add(task)
            task.add_done_callback(served.discard)

        return await self.publish_offers(app, take)

    async def publish_offers(self, app: str, take: Callable[[Offer], None]) -> Publication:
        """Offer an app; `take` accepts or refuses each socket, now or later.

        Raises:
            RefusedError: the entry point does not take it.
            ConnectionClosed: there is no entry point.
            EncodeError: the app's name cannot be written.
        """
        connection = await self.connected()
        publication = Publication(self, app, take)
        await self._publish_on(connection, publication)
        self._publications.append(publication)
        return publication

    async def _publish_on(self, connection: Connection, publication: Publication) -> None:
        instance = await connection.publish(publication.app)
        publication.instance_id = instance
        self._by_instance[instance] = publication

    async def _unpublish(self, publication: Publication) -> None:
        if publication not in self._publications:
            return
        self._publications.remove(publication)
        instance, publication.instance_id = publication.instance_id, None
        if instance is None:
            return
        self._by_instance.pop(instance, None)
        if self._connection is not None:
            with contextlib.suppress(ConnectionClosed, StateError):
                await self._connection.unpublish(instance)

    def _take_offer(self, offer: Offer) -> None:
        publication = self._by_instance.get(offer.instance_id)
        if publication is None:
            self.counts.refused += 1
            offer.refuse()
            return
        try:
            publication.take(offer)
        except StateError:  # the requester has given up already
            self.counts.refused += 1
        except Exception as error:  # of whoever publishes: the other sockets go on
            self.counts.refused += 1
            log.error("offer_failed", app=publication.app, error=repr(error), exc_info=error)
            offer.refuse()

    async def _serve(self, serve: Serve, channel: StreamChannel) -> None:
        try:
            await serve(channel.reader, channel.writer)
        except (ConnectionClosed, asyncio.IncompleteReadError):
            pass  # the other side has gone; it is its right
        except Exception as error:
            log.error("serving_failed", error=repr(error), exc_info=error)
        finally:
            channel.writer.close()

    # -- opening

    async def find(self, app: str) -> tuple[bytes, ...]:
        """The instances of an app.

        Raises:
            RefusedError: the entry point does not answer.
            ConnectionClosed: there is no entry point.
        """
        return await (await self.connected()).find(app_id(app))

    async def list_apps(self) -> list[tuple[str, int]]:
        """What is published: names, and how many instances each has.

        Raises:
            StateError: the entry point does not know this.
            ConnectionClosed: there is no entry point.
        """
        return await (await self.connected()).list_apps()

    async def ping(self) -> float:
        """Seconds until the entry point's answer to a ping.

        Raises:
            StateError: the entry point does not know this.
            ConnectionClosed: there is no entry point.
        """
        return await (await self.connected()).ping()

    async def open(
        self, app: str, *, instance: bytes | None = None, within_s: float = _CONNECT_S
    ) -> tuple[asyncio.StreamReader, SocketWriter]:
        """Open a socket to an instance of an app.

        Raises:
            RefusedError: there is no instance, or none that accepts.
            ConnectionClosed: there is no entry point within the time.
        """
        channel = await self.open_channel(app, StreamChannel, instance=instance, within_s=within_s)
        assert isinstance(channel, StreamChannel)
        return channel.reader, channel.writer

    async def open_channel(
        self,
        app: str,
        make: Callable[[], Channel],
        *,
        instance: bytes | None = None,
        within_s: float = _CONNECT_S,
    ) -> Channel:
        """The same for a socket of another kind.

        Raises:
            RefusedError: there is no instance, or none that accepts.
            ConnectionClosed: there is no entry point within the time.
        """
        connection = await self.connected(within_s)
        balancer = self._balancers.setdefault(app, Balancer(self._balance))
        if instance is not None:
            order = [instance]
        else:
            order = balancer.order(await self._instances(connection, app_id(app)))
        refusal = RefusedError(f"nobody publishes {app!r}", code="no_instance")
        for wanted in order[:_TRIES]:
            channel = make()
            try:
                await connection.open(wanted, channel)
            except RefusedError as error:
                refusal = error
                continue
            self.counts.opened += 1
            balancer.opened(wanted)
            channel.left = partial(balancer.closed, wanted)
            if channel.is_ended:  # already: it was not told
                channel.left()
            return channel
        self.counts.refused += 1
        raise refusal

    async def _instances(self, connection: Connection, app: bytes) -> list[bytes]:
        """Those of an app; asked for once where the entry point tells of changes by itself."""
        if (known := self._watched.get(app)) is not None:
            return list(known)
        found = await connection.find(app)
        if connection.session.features & Feature.WATCH and connection is self._connection:
            self._watched[app] = dict.fromkeys(found)
            connection.watch(app)
        return list(found)

    def _changed(self, event: InstanceChanged) -> None:
        known = self._watched.get(event.app_id)
        if known is None:
            return
        if event.is_there:
            known[event.instance_id] = None
        else:
            known.pop(event.instance_id, None)
