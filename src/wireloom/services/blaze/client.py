"""The Blaze client: transactions and subscriptions that outlive a lost connection.

::

    fleet = load_classes("fleet.blz")
    async with Client.connect("127.0.0.1", 12345, model=fleet.model) as client:
        await client.insert(fleet.TRUCK(truck_id=7, name="seven"))
        async for event in client.subscribe(fleet.TRUCK):
            print(event.action, event.object)

A connection that is lost is made again, after pauses that grow, and subscriptions go on where they
were. A transaction that was under way is *not* sent again: what became of it is not known, and
`OutcomeUnknown` says so.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from itertools import groupby, islice
from typing import Any, Self, TypeVar, overload

from wireloom.errors import ConnectionClosed, EncodeError, OptionError, WireloomError
from wireloom.formats.blaze.body import encode_nclass, encode_plain, make_delta
from wireloom.formats.blaze.classes import ModelObject, classes_of
from wireloom.formats.blaze.codes import (
    Action,
    Encoding,
    FlowType,
    SubscriptionMode,
    SubscriptionType,
    TransactionType,
)
from wireloom.formats.blaze.dialects import DOCUMENT, get_dialect
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import ClassLayout, NClassValue
from wireloom.formats.blaze.session import (
    ClientSettings,
    ClientState,
    Stamp,
    TransactionFinished,
    TransactionsFinished,
    TxId,
    behaviour_of,
)
from wireloom.services.blaze.backoff import Backoff
from wireloom.services.blaze.connection import Connection, Flight
from wireloom.services.blaze.events import Reader, Result
from wireloom.services.blaze.link import Address, Link
from wireloom.services.blaze.subscription import Feed, Subscription, Wanted
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["Client", "Sendable"]

_NCLASS = TransactionType.NCLASS
_PORTION = 256
"""Of many transactions, so many are written at once."""

T = TypeVar("T", bound=ModelObject)
E = TypeVar("E", bound=IntEnum)

Sendable = ModelObject | NClassValue
"""What a transaction can carry."""


class Client(Link):
    """A client of a Blaze broker; see `connect`."""

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        *,
        model: Model | None = None,
        dialect: str = DOCUMENT,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        heartbeat: int = 30,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        test_after: float | None = None,
        max_flying: int = 1024,
        reconnect: Backoff | None = Backoff(),  # noqa: B008 - it cannot change
        others: Sequence[Address] = (),
        limits: Limits = DEFAULT_LIMITS,
        platform: int = 1,
        service: int = 1,
        cumulative_acks: bool = False,
    ) -> Self:
        """A client that connects when it is entered: ``async with Client.connect(...) as client``.

        Args:
            host: of the broker.
            port: of the broker.
            model: reads the objects of classes that are named and not given as Python classes.
            dialect: whose numbering the broker speaks.
            tls: with it, the connection is encrypted.
            server_name: the name in the broker's certificate, if it is not `host`.
            heartbeat: seconds of silence that the client promises not to exceed, 0..255; the
                broker may change it.
            timeout: seconds for the answer to a transaction or a subscription.
            connect_timeout: seconds for TCP, TLS and the answer to CONREQ, each.
            test_after: seconds of silence of the broker after which it is asked for a heartbeat;
                None: as many as the client promises; 0: never. 2017 and 2019 never answer.
            max_flying: transactions without an answer; whoever wants to send more waits.
            reconnect: the pauses before attempts to connect again; None: a lost connection is
                the end. The first connection is tried once.
            others: brokers with the same data, tried in turn when the connection was lost.
            limits: of what is received.
            platform: TXPLID of the transactions.
            service: TXSVID of the transactions.
            cumulative_acks: acknowledge several events at once; the broker must know that
                (``--cumulative-acks``), or it would wait for the others.

        Raises:
            OptionError: a value is out of range, or there is no such dialect.
        """
        if not 0 <= heartbeat <= 255:
            raise OptionError(f"heartbeat must be from 0 to 255, not {heartbeat}")
        if max_flying < 1:
            raise OptionError("max_flying must be at least 1")
        settings = ClientSettings(
            dialect=get_dialect(dialect).name,
            limits=limits,
            heartbeat=heartbeat,
            connect_timeout=connect_timeout,
            request_timeout=timeout,
            test_after=float(heartbeat) if test_after is None else test_after,
            test_timeout=connect_timeout,
            disconnect_timeout=timeout,
            max_flying=max_flying,
            platform=platform,
            service=service,
            is_auto_ack=False,
            has_cumulative_acks=cumulative_acks,
            gathers_answers=True,
        )
        return cls([(host, port), *others], settings, model, tls, server_name, reconnect)

    # -- transactions

    async def insert(self, obj: Sendable, **options: Any) -> Result:
        """Create an object; see `transact` for the options and what is raised."""
        return await self.transact(Action.INS, obj, **options)

    async def update(self, obj: Sendable, **options: Any) -> Result:
        """Replace an object by this one; see `transact`."""
        return await self.transact(Action.UPD, obj, **options)

    async def merge(
        self,
        obj: Sendable,
        *,
        fields: Iterable[str] | None = None,
        base: Sendable | None = None,
        **options: Any,
    ) -> Result:
        """Change some fields of an object; see `transact`.

        Args:
            obj: the object; of a value in the encoding INDEXDELTA, what is present is sent.
            fields: names of the fields that are sent, besides the primary key.
            base: the object as the broker has it: what differs is sent.
            options: those of `transact`.

        Raises:
            OptionError: nothing says which fields are to be sent.
        """
        return await self.transact(
            Action.DLT, _delta(obj, fields, base), encoding=Encoding.INDEXDELTA, **options
        )

    async def delete(self, obj: Sendable, **options: Any) -> Result:
        """Delete the object that has this one's primary key; see `transact`."""
        return await self.transact(Action.DEL, obj, **options)

    async def reset(self, obj: Sendable, **options: Any) -> Result:
        """RST, which the broker's policy gives a meaning; see `transact`."""
        return await self.transact(Action.RST, obj, **options)

    async def transact(
        self,
        action: Action | IntEnum,
        obj: Sendable | None = None,
        *,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - it is a part of the protocol
    ) -> Result:
        """Send a transaction and wait for its outcome.

        When the task is cancelled, the wait ends (CLIENT_ABORTED), the broker may do it all the
        same, and its answer is dropped.

        Args:
            action: what to do; dialects may have others than the document.
            obj: what to do it with; None only for types other than NCLASS.
            encoding: of the object.
            type: NCLASS, or what the broker's application knows.
            wants_result: whether the answer is to carry an object.
            timeout: seconds for the answer; by default the client's. Without a connection as many
                seconds are waited for one.

        Raises:
            TransactionRefused: the broker says no, and why.
            OutcomeUnknown: no answer has come in time, or the connection was lost.
            ConnectionClosed: there is no connection, and it was not sent.
            EncodeError: the object cannot be written.
            TypeError: it is no object of a model's class.
            StateError: the dialect has no such request.
        """
        if obj is None and type is TransactionType.NCLASS:
            raise EncodeError("an object of a model's class is needed, not None")
        nclsid, body = self._encoded(obj, encoding)
        connection = await self._ready(timeout)
        landed: asyncio.Future[TransactionFinished] = asyncio.get_running_loop().create_future()
        txid = self._send(
            connection,
            action,
            nclsid,
            body,
            encoding,
            type,
            wants_result,
            timeout,
            _Single(landed),
        )
        try:
            finished = await landed
        except asyncio.CancelledError:
            connection.cancel(txid)
            raise
        return self._result(finished).check()

    async def insert_many(
        self, objects: Iterable[Sendable] | AsyncIterable[Sendable], **options: Any
    ) -> list[Result]:
        """Create many objects, `max_flying` at a time; see `transact_many`."""
        return await self.transact_many(Action.INS, objects, **options)

    async def transact_many(
        self,
        action: Action | IntEnum,
        objects: Iterable[Sendable] | AsyncIterable[Sendable],
        *,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        wants_result: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - it is a part of the protocol
    ) -> list[Result]:
        """Send many transactions without waiting for each; gives their results in order.

        What fails does not raise: look at `Result.is_ok`, or call `Result.check`. When the
        connection is lost for good, or for `timeout`, the results of what was not sent say so.

        Raises:
            EncodeError: an object cannot be written; those before it were sent.
        """
        batch = _Batch(self._result)
        send = partial(self._send_some, batch, action, encoding, wants_result, timeout)
        is_gone = False
        try:
            if isinstance(objects, AsyncIterable):
                async for obj in objects:
                    connection = await self._room(timeout, is_gone)
                    is_gone = connection is None
                    send(connection, (obj,))
            else:
                waiting = iter(objects)
                while True:
                    connection = await self._room(timeout, is_gone)
                    is_gone = connection is None
                    room = 1 if connection is None else min(connection.room, _PORTION)
                    if not (some := list(islice(waiting, room))):
                        break
                    send(connection, some)
            await batch.wait()
        finally:
            batch.cancel()
        return batch.results

    async def _room(self, limit: float | None, is_gone: bool) -> Connection | None:
        """The connection, when it has room for a transaction; None when there will be none.

        Args:
            limit: how long to wait for it.
            is_gone: that there was none in time for the last object; the next does not wait again.
        """
        if is_gone and self._connection is None:
            return None
        try:
            return await self._ready(limit)
        except ConnectionClosed:
            return None

    def _send_some(
        self,
        batch: _Batch,
        action: Action | IntEnum,
        encoding: Encoding,
        wants_result: bool,
        limit: float | None,
        connection: Connection | None,
        objects: Sequence[Sendable],
    ) -> None:
        """Send some of many transactions, for which there is room; without connection they fail."""
        if connection is None:
            batch.results += [_UNSENT] * len(objects)
            return
        session, now = connection.session, connection.time()
        try:
            for layout, some in groupby(objects, _layout_of):
                nclsid, model = layout.nclass.id, layout.model
                first = self._dialect.first_index_of(model)
                self._remember(nclsid, model)
                bodies: list[bytes] = []
                try:
                    _encode(some, encoding, first, bodies)
                finally:
                    numbers = session.transact_bodies(
                        action, nclsid, bodies, now, encoding, _NCLASS, wants_result, limit
                    )
                    batch.add(connection, numbers)
        finally:
            connection.flush()  # the broker has something to do in the meantime

    def _encoded(self, obj: Sendable | None, encoding: Encoding) -> tuple[int | None, bytes | None]:
        if obj is None:
            return None, None
        layout = _layout_of(obj)
        self._remember(layout.nclass.id, layout.model)
        return layout.nclass.id, _body(obj, encoding, self._dialect.first_index_of(layout.model))

    def _send(
        self,
        connection: Connection,
        action: Action | IntEnum,
        nclsid: int | None,
        body: bytes | None,
        encoding: Encoding,
        type: TransactionType,
        wants_result: bool,
        limit: float | None,
        flight: Flight,
    ) -> TxId:
        txid = connection.session.transact_body(
            action, nclsid, body, connection.time(), encoding, type, wants_result, limit
        )
        connection.flights[txid[3]] = flight
        connection.wake()
        return txid

    def _result(self, finished: TransactionFinished | None) -> Result:
        reader = None
        if finished is not None and finished.nclsid is not None:
            reader = self._reader(finished.nclsid)
        return Result(finished, reader)

    # -- subscriptions

    @overload
    def subscribe(
        self,
        nclass: type[T],
        *,
        mode: SubscriptionMode | str = ...,
        flow: FlowType | str = ...,
        kind: SubscriptionType | str = ...,
        resume: Stamp | None = ...,
        encoding: Encoding | None = ...,
        queue: int = ...,
    ) -> Subscription[T]: ...

    @overload
    def subscribe(
        self,
        nclass: str | int,
        *,
        mode: SubscriptionMode | str = ...,
        flow: FlowType | str = ...,
        kind: SubscriptionType | str = ...,
        resume: Stamp | None = ...,
        encoding: Encoding | None = ...,
        queue: int = ...,
    ) -> Subscription[ModelObject]: ...

    def subscribe(
        self,
        nclass: type[ModelObject] | str | int,
        *,
        mode: SubscriptionMode | str = SubscriptionMode.ALL,
        flow: FlowType | str = FlowType.ALL,
        kind: SubscriptionType | str = SubscriptionType.SNAPSHOT,
        resume: Stamp | None = None,
        encoding: Encoding | None = None,
        queue: int = 4096,
    ) -> Subscription[Any]:
        """The objects of a class: ``async for event in client.subscribe(Truck)``.

        A broker grants one subscription for each class and connection.

        Args:
            nclass: a Python class of the model, or the name or id of a class.
            mode: what is stored, what changes, or the first and then the second; also by its
                name, as `flow` and `kind`: ``mode="PAST"``.
            flow: every change, or only the last one of each object that waits in the broker.
            kind: whole objects; or INCREMENTAL, where the broker may send what has changed, which
                is put into the objects that this client then keeps.
            resume: only what is newer: the `position` of an earlier subscription.
            encoding: of the objects; by default the one that suits `kind`.
            queue: events that may wait to be taken. When there are so many, nothing is read from
                the connection, answers to transactions included; a broker that waits for
                acknowledgements sends no more than its window anyway.

        Raises:
            OptionError: there is no such class or option, or the queue has no room. What else may
                be wrong is raised by who reads.
            TypeError: that is no class.
        """
        if queue < 1:
            raise OptionError("the queue must have room for an event")
        mode, flow = _member(SubscriptionMode, mode), _member(FlowType, flow)
        kind = _member(SubscriptionType, kind)
        resume = None if resume is None else _stamp(resume)
        behaviour = behaviour_of(self._dialect.name)
        if encoding is None:
            is_delta = kind is SubscriptionType.INCREMENTAL
            is_delta = is_delta and Encoding.INDEXDELTA in behaviour.encodings
            encoding = Encoding.INDEXDELTA if is_delta else Encoding.INDEXNOTZERO
        reader = self._reader_of(nclass)
        wanted = Wanted(kind, mode, flow, encoding, resume, queue)

        def make() -> Feed:
            self._check_entered()
            feed = Feed(wanted, reader, behaviour, lambda ended: self._feeds.pop(ended, None))
            if self._ending is not None:
                feed.finish(ConnectionClosed(str(self._ending)))
                return feed
            self._feeds[feed] = None
            connection = self._connection
            if connection is not None and connection.session.state is ClientState.CONNECTED:
                try:
                    feed.attach(connection)
                except WireloomError as error:
                    feed.finish(error)
            return feed

        return Subscription(make, resume)

    def _reader_of(self, nclass: type[ModelObject] | str | int) -> Reader:
        if isinstance(nclass, type) and issubclass(nclass, ModelObject):
            layout = nclass.layout
            self._remember(layout.nclass.id, layout.model)
            return self._reader(layout.nclass.id)
        if not isinstance(nclass, (str, int)):
            raise TypeError(f"{nclass!r} is no class of a model")
        if self.model is not None:
            found = self.model.nclass(nclass)
            if found is None:
                raise OptionError(f"the model has no class {nclass!r}")
            return self._reader(found.id)
        if isinstance(nclass, str):
            raise OptionError(f"without a model nothing is known of {nclass!r}; its id would do")
        return self._reader(nclass)

    def _remember(self, nclsid: int, model: Model) -> None:
        """Results and events of this class are read with the model that its objects have."""
        if nclsid not in self._readers:
            self._readers[nclsid] = Reader(model, nclsid, self._dialect.first_index_of(model))

    def _reader(self, nclsid: int) -> Reader:
        if nclsid not in self._readers:
            model = self.model
            first = None if model is None else self._dialect.first_index_of(model)
            self._readers[nclsid] = Reader(model, nclsid, first)
        return self._readers[nclsid]


def _layout_of(obj: object) -> ClassLayout:
    if type(obj) is NClassValue:
        return obj.layout
    if not isinstance(obj, (ModelObject, NClassValue)):
        what = f"the class {obj.__name__}" if isinstance(obj, type) else type(obj).__name__
        raise TypeError(f"an object of a model's class is needed, not {what}")
    return obj.layout


def _member(enum: type[E], given: E | str) -> E:
    """A member of an enum, also by its name."""
    if isinstance(given, str) and given.upper() in enum.__members__:
        return enum[given.upper()]
    if given in list(enum):
        return enum(given)
    raise OptionError(f"{given!r} is not one of {', '.join(enum.__members__)}")


def _stamp(given: Stamp) -> Stamp:
    match given:
        case (int() as seconds, int() as number) if 0 <= min(given) <= max(given) < 1 << 32:
            return seconds, number
    raise OptionError(f"{given!r} is not the position of a subscription: seconds and a counter")


def _body(obj: Sendable, encoding: Encoding, first: int) -> bytes:
    if isinstance(obj, ModelObject):
        return obj.encode(encoding, first)
    return encode_nclass(obj, encoding, first_index=first)


def _encode(
    objects: Iterable[Sendable], encoding: Encoding, first: int, bodies: list[bytes]
) -> None:
    """Add the bodies of objects of one class, up to one that cannot be written.

    Raises:
        EncodeError: there is one.
    """
    given = list(objects)
    if encoding is Encoding.INDEXNOTZERO and set(map(type, given)) == {NClassValue}:
        plain = encode_plain(given, first)  # type: ignore[arg-type]
        if plain is not None:
            bodies += plain
            return
    for obj in given:
        bodies.append(_body(obj, encoding, first))


class _Single:
    """One transaction, which somebody waits for."""

    def __init__(self, future: asyncio.Future[TransactionFinished]) -> None:
        self._future = future

    def landed(self, finished: TransactionFinished) -> None:
        """It has ended."""
        if not self._future.done():  # its task may have been cancelled a moment ago
            self._future.set_result(finished)

    def landed_alike(self, finished: TransactionsFinished, numbers: Sequence[int]) -> None:
        """It has ended, as others have."""
        for number in numbers:
            self.landed(finished.of(number))


_UNSENT = Result(None)


class _Batch:
    """Results of many transactions, without a task or a future for each."""

    def __init__(self, make: Callable[[TransactionFinished], Result]) -> None:
        self.results: list[Result] = []
        """How each has ended, once it has."""
        self.make = make
        self.flying = 0
        self._parts: list[_Part] = []
        self._done: asyncio.Future[None] | None = None

    def add(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Transactions fly; these are the last parts of their ids."""
        part = _Part(self, connection, numbers)
        self.results += [_UNSENT] * len(numbers)
        self.flying += len(numbers)
        self._parts.append(part)
        connection.flights.update(dict.fromkeys(numbers, part))

    def note(self, place: int, ended: Sequence[Result]) -> None:
        """Transactions have ended, from this place on."""
        self.results[place : place + len(ended)] = ended
        self.flying -= len(ended)
        if not self.flying and self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def wait(self) -> None:
        """Wait until all have landed."""
        if self.flying:
            self._done = asyncio.get_running_loop().create_future()
            await self._done

    def cancel(self) -> None:
        """Wait no longer for those that fly."""
        if self.flying:
            for part in self._parts:
                part.cancel()


class _Part:
    """Transactions of a batch that were sent together."""

    def __init__(self, batch: _Batch, connection: Connection, numbers: Sequence[int]) -> None:
        self._batch = batch
        self._connection = connection
        self._numbers = numbers
        self._start = len(batch.results)

    def landed(self, finished: TransactionFinished) -> None:
        """One has ended."""
        place = self._start + self._numbers.index(finished.txid[3])
        self._batch.note(place, (self._batch.make(finished),))

    def landed_alike(self, finished: TransactionsFinished, numbers: Sequence[int]) -> None:
        """Some have ended alike."""
        if isinstance(numbers, range) and isinstance(self._numbers, range):
            place = self._start + self._numbers.index(numbers[0])
            self._batch.note(place, [Result(finished, None, number) for number in numbers])
        else:
            for number in numbers:
                self.landed(finished.of(number))

    def cancel(self) -> None:
        """Wait no longer for those that fly."""
        session, flights = self._connection.session, self._connection.flights
        for number in self._numbers:
            if flights.get(number) is self:  # else it has landed
                self._connection.cancel(session.txid(number))


def _delta(obj: Sendable, fields: Iterable[str] | None, base: Sendable | None) -> NClassValue:
    """What a DLT carries."""
    if base is not None:
        return make_delta(_value(base), _value(obj))
    if isinstance(obj, NClassValue):
        if fields is None and obj.encoding is Encoding.INDEXDELTA:
            return obj
        obj = classes_of(obj.model).object_class(obj.nclass).from_value(obj)
    if fields is None:
        raise OptionError("name the fields that change, or give the object as it was")
    return obj.to_value(Encoding.INDEXDELTA, fields)


def _value(obj: Sendable) -> NClassValue:
    return obj.to_value() if isinstance(obj, ModelObject) else obj
