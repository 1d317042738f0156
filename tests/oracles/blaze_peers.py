"""Blaze spoken by hand: packets over a real socket, for testing brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from wireloom.formats.blaze import (
    FORMAT,
    RULES,
    Action,
    BlazePacket,
    ConnectionRequest,
    ConnectionResponse,
    Encoding,
    Model,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    TransactionRequest,
    TransactionResponse,
    encode_nclass,
    from_blz,
    new_value,
)
from wireloom.framing import Splitter
from wireloom.services._shell.addresses import Address
from wireloom.services.blaze import Broker, BrokerSettings, Hooks
from wireloom.services.blaze.store.api import Store

__all__ = ["FLEET", "MODEL", "Raw", "live", "ping", "serving", "settings", "truck", "until"]

FLEET = """
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    int_32 x
    int_32[4] temps
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}

nclass PING
{
    @id 303
    uint_32 n
    ascii[2000] text
    @key primary
    @id 1
    @fldset {n}
    @key_end
}
"""
MODEL = from_blz(FLEET)
"""TRUCK is stored, PING is not."""

_P = TypeVar("_P", bound=BlazePacket)
_Args = ParamSpec("_Args")


def truck(number: int, model: Model = MODEL, **fields: Any) -> Any:
    """An object of the class that is stored."""
    return new_value(model, "TRUCK", {"truck_id": number, **fields})


def ping(number: int, text: str = "") -> Any:
    """An object of the class that is not stored."""
    return new_value(MODEL, "PING", {"n": number, "text": text})


def settings(**sections: Any) -> BrokerSettings:
    """Settings of a broker; each section is a dict of what differs from the defaults."""
    made = BrokerSettings(Path("fleet.blz"), "sqlite://", Address("127.0.0.1", 0))
    for name, given in sections.items():
        value = replace(getattr(made, name), **given) if isinstance(given, dict) else given
        made = replace(made, **{name: value})
    return made


@asynccontextmanager
async def serving(
    given: BrokerSettings | None = None,
    *,
    hooks: Hooks | None = None,
    store: Store | None = None,
    model: Model = MODEL,
) -> AsyncIterator[Broker]:
    """A broker in this event loop."""
    broker = Broker(
        given or settings(program={"drain_s": 2.0}),
        hooks=hooks,
        model=model,
        store=store,
    )
    async with broker:
        yield broker


def live(test: Callable[_Args, Coroutine[Any, Any, None]]) -> Callable[_Args, None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args: _Args.args, **kwargs: _Args.kwargs) -> None:
        async def main() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)
            await asyncio.sleep(0.01)  # for sockets that were closed to be gone

        asyncio.run(main())

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that is not announced."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Raw:
    """One connection; whatever is awaited arrives within seconds, or the test fails."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.connid = 0
        self.dialect = "document"
        self._splitter = Splitter(RULES)
        self._prids = count(1)
        self._rqstids = count(1)

    @classmethod
    async def open(cls, broker: Broker | str, **options: Any) -> Self:
        """A connection on which nothing has been sent."""
        text = broker if isinstance(broker, str) else str(broker.address)
        at = Address.parse(text)
        return cls(*await asyncio.open_connection(at.host, at.port, **options))

    @classmethod
    async def connect(
        cls, broker: Broker | str, hbtsec: int = 0, dialect: str = "document", **options: Any
    ) -> Self:
        """A connection after its handshake."""
        made = await cls.open(broker, **options)
        made.dialect = dialect
        try:
            made.send(ConnectionRequest(hbtsec=hbtsec))
            answer = await made.expect(ConnectionResponse)
            assert answer.connid, answer
        except BaseException:
            made.close()
            raise
        made.connid = answer.connid
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.writer.transport.abort()

    def send(self, *packets: BlazePacket | bytes) -> None:
        """Write packets, or plain bytes."""
        self.writer.write(
            b"".join(
                packet if isinstance(packet, bytes) else packet.in_dialect(self.dialect).encode()
                for packet in packets
            )
        )

    async def packet(self, within_s: float = 5.0) -> BlazePacket | None:
        """The next packet; None at the end of the stream."""
        frame = await self.frame(within_s)
        return None if frame is None else FORMAT.decode(frame, dialect=self.dialect)

    async def frame(self, within_s: float = 5.0) -> bytes | None:
        """The same, not decoded."""
        async with asyncio.timeout(within_s):
            while True:
                for frame in self._splitter:
                    return frame
                try:
                    data = await self.reader.read(1 << 16)
                except ConnectionResetError:
                    return None
                if not data:
                    return None
                self._splitter.feed(data)

    async def expect(self, kind: type[_P], within_s: float = 5.0, **fields: Any) -> _P:
        """The next packet, which must be of that kind and have these fields."""
        found = await self.packet(within_s)
        assert isinstance(found, kind), f"expected {kind.__name__}, got {found}"
        for name, value in fields.items():
            assert getattr(found, name) == value, f"{name}: {found}"
        return found

    async def ended(self, within_s: float = 5.0) -> None:
        """The peer has closed, and said nothing more."""
        found = await self.packet(within_s)
        assert found is None, found

    async def silent(self, seconds: float = 0.1) -> None:
        """Nothing comes for a while."""
        try:
            found = await self.packet(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"expected nothing, got {found}")

    # -- transactions

    def request(
        self, action: Any = Action.INS, value: Any = None, prid: int = 0, **fields: Any
    ) -> TransactionRequest:
        """A transaction."""
        value = truck(1) if value is None else value
        given: dict[str, Any] = {
            "txtype": 4,
            "txactn": action,
            "txplid": 1,
            "txsvid": 1,
            "txcnid": self.connid,
            "txprid": prid or next(self._prids),
            "enctyp": Encoding.INDEXNOTZERO,
            "nclsid": value.nclass.id,
            "connid": self.connid,
            "body": encode_nclass(value, Encoding.INDEXNOTZERO, first_index=self.first_index),
        }
        return TransactionRequest(**{**given, **fields})

    @property
    def first_index(self) -> int:
        return 2 if self.dialect == "2017" else 1

    async def ask(
        self, action: Any = Action.INS, value: Any = None, **fields: Any
    ) -> TransactionResponse:
        """A transaction, and its answer."""
        request = self.request(action, value, **fields)
        self.send(request)
        return await self.expect(TransactionResponse, txprid=request.txprid)

    # -- subscriptions

    def subscription(self, nclsid: int = 302, **fields: Any) -> SubscriptionRequest:
        """A request: SNAPSHOT, ALL, ALL, ALL by default."""
        given: dict[str, Any] = {
            "sbstyp": 1,
            "sbsmod": 1,
            "flotyp": 1,
            "dwltyp": 1,
            "enctyp": Encoding.INDEXNOTZERO,
            "nclsid": nclsid,
            "connid": self.connid,
            "rqstid": next(self._rqstids),
        }
        return SubscriptionRequest(**{**given, **fields})

    async def subscribe(self, nclsid: int = 302, **fields: Any) -> SubscriptionResponse:
        """A subscription, and its answer."""
        request = self.subscription(nclsid, **fields)
        self.send(request)
        return await self.expect(SubscriptionResponse, rqstid=request.rqstid)

    def ack(self, event: SubscriptionEvent) -> None:
        """Acknowledge an event."""
        self.send(SubscriptionAck(sbsrid=event.sbsrid, sevtid=event.sevtid))

    async def event(self, within_s: float = 5.0, **fields: Any) -> SubscriptionEvent:
        """The next event, acknowledged."""
        found = await self.expect(SubscriptionEvent, within_s, **fields)
        if self.dialect != "2019" and found.sevttp != 4:
            self.ack(found)
        return found
