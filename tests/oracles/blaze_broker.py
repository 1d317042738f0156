"""A small real Blaze server for tests of clients: sessions, a dictionary as store, and faults.

It listens on loopback and does what the protocol says. Its faults are there on request: refused
connections, answers that are late or never come, connections that are cut at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, cast

from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    Encoding,
    Model,
    NClassValue,
    RefusalCode,
    apply_delta,
    from_blz,
    get_dialect,
    trimmed,
)
from wireloom.formats.blaze.session import (
    Change,
    ConnectionRequested,
    DownloadWanted,
    EventIds,
    ServerSession,
    ServerSettings,
    SessionEvent,
    Stamp,
    SubscriptionRequested,
    TransactionRequested,
)

FLEET = """
@model_name "fleet"
@model_version "1.0.0"
@define NAMELEN 12
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low "low"
    GAUGE_High = 9
    GAUGE_Neg = -3
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label "short label"
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[NAMELEN+4] name
    GAUGE gauge
    int_32[4] temps
    POINT home
    POINT[3] stops
    float_64 speed
    bool on
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}
nclass PING
{
    @id 303
    uint_32 number
    @key primary
    @id 1
    @fldset {number}
    @key_end
}
"""
MODEL = from_blz(FLEET)


class Store:
    """Objects by class and key, with their stamps; it outlives brokers."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[Hashable, Change]] = {}
        self.done: list[TransactionRequested] = []
        """Transactions in the order they were carried out."""
        self._last: dict[int, Stamp] = {}
        self.seconds: Callable[[], int] = lambda: int(time.time())

    def stamp(self, nclsid: int) -> Stamp:
        now, (seconds, number) = self.seconds(), self._last.get(nclsid, (0, 0))
        made = (seconds, number + 1) if now <= seconds else (now, 0)
        self._last[nclsid] = made
        return made

    def apply(
        self, action: Any, value: NClassValue, dialect: str = "document"
    ) -> tuple[BlazeCode, Change | None]:
        """Carry out a change; the code says why it failed."""
        nclsid, key = value.nclass.id, value.key()
        rows = self.rows.setdefault(nclsid, {})
        old = rows.get(key)
        is_there = old is not None and old.action is not Action.DEL
        delta, image = None, value
        name = action.name
        if name == "INS" and is_there:
            return BlazeCode.APPLICATION_ERROR, None
        if name in ("DLT", "DEL", "REMOVE") and not is_there:
            return BlazeCode.APPLICATION_ERROR, None
        if name == "DLT":
            assert old is not None
            assert old.image is not None
            delta, image = value, trimmed(apply_delta(old.image, value))
        first = get_dialect(dialect).first_index_of(value.model)
        told = {"REMOVE": Action.DEL, "RESET": Action.RST}.get(name) or Action[name]
        change = Change.of(told, image, self.stamp(nclsid), delta=delta, first_index=first)
        if value.nclass.persistent:
            rows[key] = change
        return BlazeCode.NO_ERROR, change

    def after(self, wanted: DownloadWanted) -> tuple[list[Change], bool]:
        """Rows by their stamps, and whether these are the last."""
        rows = self.rows.get(wanted.nclsid, {}).values()
        newer = sorted((row for row in rows if row.stamp > wanted.after), key=lambda r: r.stamp)
        found = [self._stored(row) for row in newer[: wanted.count]]
        return found, len(newer) <= wanted.count

    def _stored(self, row: Change) -> Change:
        action = row.action if row.action in (Action.DEL, Action.RST) else Action.INS
        bodies = dict(row.bodies)
        bodies.pop(Encoding.INDEXDELTA, None)
        return Change(row.nclsid, action, row.stamp, row.key, bodies, 0, row.image, row.first_index)


class Broker:
    """A server on 127.0.0.1; `port` is known when it has started."""

    def __init__(
        self,
        model: Model | None = MODEL,
        *,
        store: Store | None = None,
        tls: ssl.SSLContext | None = None,
        refusal: RefusalCode | None = None,
        is_veto: bool = False,
        connids: int = 0,
        refuse_from: int | None = None,
        **settings: Any,
    ) -> None:
        self.store = store or Store()
        self.settings = ServerSettings(model=model, **settings)
        self.connections: list[Peer] = []
        self.port = 0
        self.refusal = refusal
        self.is_veto = is_veto
        self.is_silent = False
        """Answers nothing at all."""
        self.delay = 0.0
        """Delay in seconds before a transaction is carried out."""
        self.code: Callable[[TransactionRequested], BlazeCode | None] = lambda request: None
        """Answers with this code, and does nothing."""
        self.after_bytes: Callable[[], int | None] = lambda: None
        """Cuts each new connection after it has sent so many bytes."""
        self.refused_subscriptions: dict[int, BlazeCode] = {}
        self.connids = connids
        """The last id that was assigned."""
        self.requests = 0
        self.refuse_from = refuse_from
        """From this connection request on, TOO_MANY_CONNECTIONS."""
        self._tls = tls
        self._event_ids = EventIds()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Peer(self), "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut everything, as a crash would."""
        if self._server is not None:
            self._server.close()
            self.cut()
            await self._server.wait_closed()
            await asyncio.sleep(0)

    def cut(self) -> None:
        """Abort all connections."""
        for peer in list(self.connections):
            peer.cut()

    def change(self, action: Action, value: NClassValue) -> Change:
        """Change an object from this side, and tell the subscribers."""
        code, change = self.store.apply(action, value, self.settings.dialect)
        assert change is not None, code
        self.publish(change)
        return change

    def publish(self, change: Change) -> None:
        now = asyncio.get_running_loop().time()
        for peer in list(self.connections):
            peer.session.publish(change, now)
            peer.flush()

    def new_session(self) -> ServerSession:
        now = asyncio.get_running_loop().time()
        return ServerSession(self.settings, now, event_ids=self._event_ids)


class Peer(asyncio.Protocol):
    """One connection of the broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.session = broker.new_session()
        self.received = bytearray()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._left = broker.after_bytes()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.broker.connections.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.broker.connections.remove(self)
        self.session.receive(b"", self._loop.time())
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.broker.is_silent:
            self.handle(self.session.receive(data, self._loop.time()))

    def handle(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            if isinstance(event, ConnectionRequested):
                self._connect()
            elif isinstance(event, TransactionRequested):
                if self.broker.delay:
                    self._loop.call_later(self.broker.delay, self._transact, event)
                else:
                    self._transact(event)
            elif isinstance(event, SubscriptionRequested):
                code = self.broker.refused_subscriptions.get(event.nclsid)
                if code is None:
                    self.session.start_subscription(event.rqstid, self._loop.time())
                else:
                    self.session.refuse_subscription(event.rqstid, code)
        self.flush()

    def _connect(self) -> None:
        broker, now = self.broker, self._loop.time()
        broker.requests += 1
        if broker.refuse_from is not None and broker.requests >= broker.refuse_from:
            self.session.refuse(RefusalCode.TOO_MANY_CONNECTIONS, now)
        elif broker.is_veto:
            self.session.veto(now)
        elif broker.refusal is not None:
            self.session.refuse(broker.refusal, now)
        else:
            broker.connids += 1
            self.session.accept(broker.connids, now)

    def _transact(self, event: TransactionRequested) -> None:
        broker, now = self.broker, self._loop.time()
        code = broker.code(event)
        change = None
        if code is None:
            if event.nclass is None:
                code = BlazeCode.REQUEST_UNSUPPORTED
            else:
                code, change = broker.store.apply(
                    event.action, event.nclass, broker.settings.dialect
                )
        if change is not None:
            broker.store.done.append(event)
        result = event.nclass if change is None else change.image
        self.session.respond(event.txid, now, code=code, result=result)
        self.flush()
        if change is not None:
            broker.publish(change)

    def flush(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while True:
            data = self.session.data_to_send()
            wanted = self.session.downloads_wanted()
            for each in wanted:
                rows, is_last = self.broker.store.after(each)
                self.session.download(each.sbsrid, rows, is_last)
            self._write(transport, data)
            if not data and not wanted:
                break
        if self.session.is_closed:
            transport.close()
        else:
            self._set_clock()

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                transport.write(data[: max(0, len(data) + self._left)])
                transport.close()  # what was written goes out: a frame may be cut in two
                return
        transport.write(data)

    def _set_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = self.session.next_timeout(self._loop.time())
        self._timer = None if delay is None else self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self.handle(self.session.handle_timeout(self._loop.time()))

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@contextlib.contextmanager
def broker_in_a_thread(**options: Any) -> Iterator[Broker]:
    """A broker whose loop runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    broker = Broker(**options)
    try:
        asyncio.run_coroutine_threadsafe(broker.start(), loop).result(10)
        yield broker
    finally:
        asyncio.run_coroutine_threadsafe(broker.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
