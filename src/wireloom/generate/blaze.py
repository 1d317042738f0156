"""Blaze: connections with transactions on orders, and a subscription that sees them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

from wireloom.formats.blaze import codes
from wireloom.formats.blaze import packets as blaze
from wireloom.formats.blaze.blz import from_blz
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import new_value
from wireloom.generate.market import ENCODERS, Encoder, Feed, Spec, clock_text, steps
from wireloom.generate.schemas import MODEL
from wireloom.generate.templates import Slot, template
from wireloom.generate.wire import CLIENT, SERVER, Burst, Channel, Kind, Stage

__all__ = ["blaze_session", "quote_encoder", "quote_session"]

_ORDER, _REJECT, _QUOTE = 401, 402, 403
_DOWNLOAD = 20
"""Stored objects that a new subscriber downloads."""
_KINDS = {packet: Kind("blaze", packet.name) for packet in blaze.PACKETS.values()}
_NESTED = Kind("blaze", "SBSEVT", "qform")
_SYMBOLS = ("IBM.N", "GE.N", "T.N", "XOM.N", "KO.N", "MSFT.O", "AAPL.O", "CSCO.O")
_MARK = 0x5A3C7B01


@cache
def _model() -> Model:
    return from_blz(MODEL, file="orders.blz")


def _body(nclass: int, values: dict[str, Any]) -> bytes:
    return encode_nclass(new_value(_model(), nclass, values))


def _word(number: int) -> Slot:
    return struct.pack(">I", number), "I"


def _header(packet: blaze.BlazePacket, body: bytes, **words: int) -> Callable[..., bytes]:
    """A packet with slots for some of its words, given in wire order, and for its body."""
    slots = [_word(number) for number in words.values()]
    if body:
        slots.append((body, f"{len(body)}s"))
    return template(packet.encode(), slots)


class _Orders:
    """Orders, and the packets about them, for several symbols."""

    def __init__(self, random: Random, connid: int, sbsrid: int) -> None:
        self._random = random
        self._prices = steps(lambda: random.randint(100, 90_000) / 100, 1021)
        self._quantities = steps(lambda: 100 * random.randint(1, 90), 509)
        self._bodies = []
        self._packets = []
        for symbol in _SYMBOLS:
            # Bodies are little-endian, headers are not: two templates.
            body = _body(
                _ORDER,
                {
                    "order_id": 0x0102030405060708,
                    "symbol": symbol,
                    "side": random.choice(("BUY", "SELL")),
                    "quantity": _MARK,
                    "price": 7654.25,
                    "filled": _MARK + 0x0101,
                    "state": "LIVE",
                    "account": random.choice(("HOUSE-1", "CLIENT-2207")),
                },
            )
            marks = [(0x0102030405060708, "Q"), (_MARK, "I"), (7654.25, "d"), (_MARK + 0x0101, "I")]
            slots = [(struct.pack("<" + code, value), code) for value, code in marks]
            self._bodies.append(template(body, slots, "<"))
            self._packets.append((*self._transaction(body, connid), self._event(body, sbsrid)))

    def _transaction(
        self, body: bytes, connid: int
    ) -> tuple[Callable[..., bytes], Callable[..., bytes], Callable[..., bytes]]:
        ids: dict[str, Any] = {"txplid": 1, "txsvid": 7, "txcnid": connid, "txprid": _MARK}
        requests = [
            _header(
                blaze.TransactionRequest(
                    txtype=codes.TransactionType.NCLASS,
                    txactn=action,
                    rsclrq=1,
                    enctyp=codes.Encoding.INDEXNOTZERO,
                    nclsid=_ORDER,
                    connid=connid,
                    body=body,
                    **ids,
                ),
                body,
                txprid=_MARK,
            )
            for action in (codes.Action.INS, codes.Action.UPD)
        ]
        done = blaze.TransactionResponse(txresl=codes.TransactionResult.TXOK, **ids)
        return requests[0], requests[1], _header(done, b"", txprid=_MARK)

    def _event(self, body: bytes, sbsrid: int) -> Callable[..., bytes]:
        packet = blaze.SubscriptionEvent(
            sbsrid=sbsrid,
            sevttp=codes.EventType.DATALIVE,
            sbeact=codes.Action.INS,
            sevtid=_MARK,
            tmstmp0=_MARK + 0x1111,
            tmstmp1=_MARK + 0x2222,
            body=body,
        )
        words = {"sevtid": _MARK, "tmstmp0": _MARK + 0x1111, "tmstmp1": _MARK + 0x2222}
        return _header(packet, body, **words)

    def order(self, number: int, order_id: int) -> tuple[tuple[Callable[..., bytes], ...], bytes]:
        """The packets for an order, and its body."""
        index = number % len(self._bodies)
        quantity = next(self._quantities)
        filled = 1 + quantity // 3
        return self._packets[index], self._bodies[index](
            order_id, quantity, next(self._prices), filled
        )


def _subscribe(nclsid: int, connid: int, rqstid: int) -> blaze.SubscriptionRequest:
    return blaze.SubscriptionRequest(
        sbstyp=codes.SubscriptionType.INCREMENTAL,
        sbsmod=codes.SubscriptionMode.ALL,
        flotyp=codes.FlowType.ALL,
        dwltyp=codes.DownloadType.ALL,
        enctyp=codes.Encoding.INDEXNOTZERO,
        nclsid=nclsid,
        connid=connid,
        rqstid=rqstid,
    )


def _opening(channel: Channel, connid: int, nclsid: int, now: int) -> Iterator[Burst]:
    """Connect and subscribe; the connection's number is also that of request and subscription."""
    yield _send(now, channel, CLIENT, blaze.ConnectionRequest(hbtsec=30))
    accepted = blaze.ConnectionResponse(
        conres=codes.ConnectionResult.ACCEPTED, agrhbt=30, connid=connid
    )
    yield _send(now + 400_000, channel, SERVER, accepted)
    yield _send(now + 900_000, channel, CLIENT, _subscribe(nclsid, connid, connid))
    answer = blaze.SubscriptionResponse(
        sbresl=codes.SubscriptionResult.SBSOK, rqstid=connid, sbsrid=connid
    )
    yield _send(now + 1_300_000, channel, SERVER, answer)


def _send(now: int, channel: Channel, side: int, *packets: blaze.BlazePacket) -> Burst:
    parts = [packet.encode() for packet in packets]
    return Burst(now, channel, side, parts, [_KINDS[type(packet)] for packet in packets])


def _end_of_download(sbsrid: int, sevtid: int, now: int) -> blaze.SubscriptionEvent:
    return blaze.SubscriptionEvent(
        sbsrid=sbsrid,
        sevttp=codes.EventType.DWNLEND,
        sevtid=sevtid,
        tmstmp0=now // 1_000_000_000,
        tmstmp1=0,
    )


def blaze_session(stage: Stage, channel: Channel, connid: int) -> Iterator[Burst]:
    """A client that enters and changes orders, and receives the events about them."""
    random, start_ns = stage.random, stage.start_ns
    orders = _Orders(random, connid, connid)
    request, response = _KINDS[blaze.TransactionRequest], _KINDS[blaze.TransactionResponse]
    event, ack = _KINDS[blaze.SubscriptionEvent], _KINDS[blaze.SubscriptionAck]
    acknowledge = _header(blaze.SubscriptionAck(sbsrid=connid, sevtid=_MARK), b"", sevtid=_MARK)
    refuse = _refusal(connid)
    yield from _opening(channel, connid, _ORDER, start_ns)
    now = start_ns + 2_000_000
    events, seconds = 0, now // 1_000_000_000
    parts = []
    for number in range(_DOWNLOAD):
        events += 1
        packets, body = orders.order(number, connid << 40 | events)
        stored = bytearray(packets[3](events, seconds - 3600, number, body))
        # DATADWNL instead of DATALIVE, in the upper four bits of the third word.
        stored[8] = stored[8] & 0x0F | codes.EventType.DATADWNL << 4
        parts.append(bytes(stored))
    yield Burst(now, channel, SERVER, parts, [event] * len(parts))
    events += 1
    yield _send(now + 50_000, channel, SERVER, _end_of_download(connid, events, now))
    gaps = steps(lambda: int(random.expovariate(1 / 1_500_000)) + 100_000, 1013)
    delays = steps(lambda: int(random.lognormvariate(12.5, 0.6)), 1021)
    sizes = steps(lambda: random.randint(1, 16), 251)
    beat_ns = now
    txprid = order_id = 0
    order_id = connid << 40 | 1 << 20
    now += 1_000_000
    while not stage.is_over:
        count = next(sizes)
        asked, told = [], []
        told_kinds: list[Kind] = []
        delay = next(delays)
        seconds = (now + delay) // 1_000_000_000
        first = events + 1
        for _ in range(count):
            txprid += 1
            is_change = txprid % 4 == 0
            order_id += not is_change
            packets, body = orders.order(txprid, order_id)
            asked.append(packets[is_change](txprid, body))
            if txprid % 19 == 0:
                told.append(refuse(txprid))
                told_kinds.append(response)
                continue
            events += 1
            told += [packets[2](txprid), packets[3](events, seconds, events & 0xFFFFF, body)]
            told_kinds += [response, event]
        yield Burst(now, channel, CLIENT, asked, [request] * count)
        now += delay
        yield Burst(now, channel, SERVER, told, told_kinds)
        acks = [acknowledge(number) for number in range(first, events + 1)]
        now += 80_000
        if acks:
            yield Burst(now, channel, CLIENT, acks, [ack] * len(acks))
        if now - beat_ns > 30_000_000_000:
            beat_ns = now
            stamp = now // 1_000_000_000
            yield _send(now, channel, CLIENT, blaze.Heartbeat(tmstmp=stamp, connid=connid))
            yield _send(now + 1000, channel, SERVER, blaze.Heartbeat(tmstmp=stamp))
        now += next(gaps)
    yield from _closing(channel, connid, now)


def _closing(channel: Channel, connid: int, now: int) -> Iterator[Burst]:
    """End the subscription and the connection."""
    yield _send(now, channel, CLIENT, blaze.SubscriptionStop(sbsrid=connid))
    stopped = blaze.SubscriptionStopResponse(sbresl=codes.SubscriptionResult.SBSOK, sbsrid=connid)
    yield _send(now + 300_000, channel, SERVER, stopped)
    bye = blaze.Disconnected(disres=codes.DisconnectReason.APPLICATION_REQUEST, connid=connid)
    yield _send(now + 600_000, channel, CLIENT, bye)


def _refusal(connid: int) -> Callable[..., bytes]:
    packet = blaze.TransactionResponse(
        txresl=codes.TransactionResult.TXKO,
        rescls=1,
        blzcod=codes.BlazeCode.REASON_IN_RESULT_NCLASS,
        enctyp=codes.Encoding.INDEXNOTZERO,
        nclsid=_REJECT,
        txplid=1,
        txsvid=7,
        txcnid=connid,
        txprid=_MARK,
        body=_body(_REJECT, {"code": 17, "reason": "price is out of range"}),
    )
    return template(packet.encode(), [_word(_MARK)])


def quote_encoder(sbsrid: int) -> Encoder:
    """QForm messages in the objects of a subscription's events."""

    def encode(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
        inner, slots = ENCODERS["qform"](fields)
        width = next(value for name, _, value in fields if name == "SYMBOL")
        symbol = "#" * width
        packet = blaze.SubscriptionEvent(
            sbsrid=sbsrid,
            sevttp=codes.EventType.DATALIVE,
            sbeact=codes.Action.UPD,
            sevtid=_MARK,
            tmstmp0=_MARK + 0x1111,
            tmstmp1=_MARK + 0x2222,
            body=_body(_QUOTE, {"symbol": symbol, "image": inner}),
        )
        words = [_word(_MARK + step) for step in (0, 0x1111, 0x2222)]
        words.append((symbol.encode(), f"{width}s"))
        return packet.encode(), [*words, *slots]

    return encode


def quote_session(stage: Stage, feed: Feed, channel: Channel, connid: int) -> Iterator[Burst]:
    """A client that subscribes to quotes, each with a QForm inside."""
    random, start_ns = stage.random, stage.start_ns
    acknowledge = _header(blaze.SubscriptionAck(sbsrid=connid, sevtid=_MARK), b"", sevtid=_MARK)
    ack = _KINDS[blaze.SubscriptionAck]
    yield from _opening(channel, connid, _QUOTE, start_ns)
    now = start_ns + 2_000_000
    yield _send(now, channel, SERVER, _end_of_download(connid, 1, now))
    gaps = steps(lambda: int(random.expovariate(1 / 1_800_000)) + 50_000, 1013)
    sizes = steps(lambda: random.randint(1, 28), 509)
    events = 1
    while not stage.is_over:
        now += next(gaps)
        seconds, clock = now // 1_000_000_000, clock_text(now)
        count = next(sizes)
        numbers = range(events + 1, events + 1 + count)
        events += count
        parts = feed.messages(clock, [(number, seconds, number & 0xFFFFF) for number in numbers])
        yield Burst(now, channel, SERVER, parts, [_NESTED] * count)
        now += 60_000
        yield Burst(now, channel, CLIENT, [acknowledge(events)], [ack])
    yield from _closing(channel, connid, now + 100_000)
