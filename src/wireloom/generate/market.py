"""Market data: images and updates of instruments with random-walk prices, in any TIB format."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import cycle
from random import Random
from typing import Any

from wireloom.formats._tib.values import Date, Time
from wireloom.formats.qform.build import Partial
from wireloom.formats.qform.build import build as build_qform
from wireloom.formats.qform.codes import MsgType, RecStatus
from wireloom.formats.qform.dictionary import Dictionary, load
from wireloom.formats.tibmsg.build import build as build_tibmsg
from wireloom.formats.tibmsg.fields import Field as TibmsgField
from wireloom.formats.tibrv.build import build as build_tibrv
from wireloom.generate.schemas import DICTIONARY
from wireloom.generate.templates import Slot, template
from wireloom.generate.wire import SERVER, Burst, Channel, Kind, Stage

__all__ = [
    "ENCODERS",
    "Encoder",
    "Feed",
    "Spec",
    "carrier_encoder",
    "clock_text",
    "market_session",
    "steps",
]

Spec = tuple[str, str, Any]
"""A field: its name, what goes there (``price``, ``count``, …, or ``is``), and a fixed value."""
Encoder = Callable[[Sequence[Spec]], tuple[bytes, list[Slot]]]
"""Fields → a message with markers where values go, and the slots for them."""

REC_TYPE = -29873
_CENTS = 100
_ROW = "  00.00   00.00  00:00:00"
_IMAGE, _QUOTE, _TRADE, _PATCH = range(4)
_WIDTHS = {"name": 13, "exchange": 3, "patch": 16}
"""Lengths of the texts that go into slots; those of symbols vary."""
_NOTHING: list[tuple[Any, ...]] = [()] * 64

_SYSTEM: tuple[Spec, ...] = (
    ("MSG_TYPE", "is", int(MsgType.UPDATE)),
    ("REC_TYPE", "is", REC_TYPE),
    ("SEQ_NO", "seq", None),
    ("REC_STATUS", "is", int(RecStatus.OK)),
)


def _shapes(width: int, day: dt.date) -> dict[int, list[Spec]]:
    """The fields of each kind of message about an instrument with a symbol of that many letters."""
    fixed: list[Spec] = [*_SYSTEM, ("SYMBOL", "symbol", width)]
    image = [("MSG_TYPE", "is", int(MsgType.INITIAL)), *fixed[1:]]
    return {
        _IMAGE: [
            *image,
            ("DSPLY_NAME", "name", None),
            ("RDN_EXCHID", "exchange", None),
            ("CURRENCY", "is", "USD"),
            *_values("TRDPRC_1:price TRDVOL_1:count BID:price ASK:price BIDSIZE:count"),
            *_values("ASKSIZE:count OPEN_PRC:price HIGH_1:price LOW_1:price HST_CLOSE:price"),
            *_values("NETCHNG_1:price ACVOL_1:count NUM_MOVES:count TRDTIM_1:time QUOTIM:time"),
            ("ACTIV_DATE", "is", day),
            ("ROW64_1", "is", _ROW.ljust(64)),
        ],
        _QUOTE: [
            *fixed,
            *_values("BID:price ASK:price BIDSIZE:count ASKSIZE:count BID_2:price ASK_2:price"),
            *_values("BSIZE_2:count ASIZE_2:count BID_3:price ASK_3:price BSIZE_3:count"),
            *_values("ASIZE_3:count QUOTE_CNT:count QUOTIM:time"),
        ],
        _TRADE: [
            *fixed,
            *_values("TRDPRC_1:price TRDVOL_1:count BID:price ASK:price BIDSIZE:count"),
            *_values("ASKSIZE:count HIGH_1:price LOW_1:price NETCHNG_1:price ACVOL_1:count"),
            *_values("NUM_MOVES:count TRDTIM_1:time QUOTIM:time"),
            ("PRCTCK_1", "is", "1"),
        ],
        _PATCH: [*fixed, ("ROW64_1", "patch", None)],
    }


def _values(text: str) -> list[Spec]:
    pairs = (word.partition(":") for word in text.split())
    return [(name, kind, None) for name, _, kind in pairs]


def _marks(fields: Sequence[Spec], seq: str) -> Iterator[tuple[str, str, Any, Slot | None]]:
    """The fields, with a unique placeholder for each value, and the slots that these mark."""
    for number, (name, what, value) in enumerate(fields):
        slot: Slot | None = None
        if what == "price":
            value = Decimal(7_654_321 + 1_010_101 * number).scaleb(-2)
            slot = struct.pack(">d", value), "d"
        elif what == "count":
            value = 0x5A3C_7B01 + number * 0x0001_0101
            slot = struct.pack(">i", value), "i"
        elif what == "seq":
            value = 0x5A3C if seq == "h" else 0x6B4D_5A3C
            slot = struct.pack(">" + seq, value), seq
        elif what == "time":
            value = Time(1 + number % 22, 58, 59)
            slot = value.text.encode(), "8s"
        elif what in _WIDTHS or what == "symbol":
            width = _WIDTHS.get(what, value)
            value = f"{what[0]}{number:<{width}}"[:width].replace(" ", "<")
            slot = value.encode(), f"{width}s"
        yield name, what, value, slot


def _tibmsg(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
    found, slots = [], []
    for name, what, value, slot in _marks(fields, "i"):
        if what == "patch":
            found.append(TibmsgField.partial(name, value.encode(), 8))
        elif isinstance(value, dt.date):
            found.append(TibmsgField.of(name, Date.of(value)))
        else:
            is_short = name in ("MSG_TYPE", "REC_TYPE", "REC_STATUS")
            found.append(TibmsgField.of(name, value, size=2 if is_short else None))
        slots += [slot] if slot else []
    return build_tibmsg(found).encode(), slots


def _tibrv(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
    values: dict[str, Any] = {}
    slots = []
    for name, what, value, slot in _marks(fields, "i"):
        # This format has no partials: the whole row is sent.
        values[name] = value.ljust(64) if what == "patch" else value
        if isinstance(value, dt.date):
            values[name] = Date.of(value)
        slots += [slot] if slot else []
    return build_tibrv(values).encode(), slots


@cache
def _dictionary() -> Dictionary:
    return load(DICTIONARY)


def _qform(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
    values: dict[str, Any] = {}
    slots = []
    for name, what, value, slot in _marks(fields, "h"):
        values[name] = value
        if what == "patch":
            values[name] = Partial(8, value)
        elif name == "ROW64_1":
            values[name] = Partial(0, value)
        elif isinstance(value, dt.date):
            values[name] = Date.of(value)
        slots += [slot] if slot else []
    return build_qform(_dictionary(), values).encode(), slots


ENCODERS: dict[str, Encoder] = {"tibmsg": _tibmsg, "tibrv": _tibrv, "qform": _qform}
"""How a message of each format is made."""


def carrier_encoder(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
    """TibMsgs, each wrapped in a Rendezvous message that carries nothing else."""
    inner, slots = _tibmsg(fields)
    return build_tibrv({"_data_": inner}).encode(), slots


def steps(make: Callable[[], Any], count: int) -> Iterator[Any]:
    """Endless random values, drawn once: lists of different lengths never repeat in step."""
    return cycle([make() for _ in range(count)])


@dataclass(slots=True)
class _Instrument:
    """One instrument of a feed. Prices are in cents."""

    symbol: bytes
    name: bytes
    exchange: bytes
    make: list[Callable[..., bytes]]
    """Templates by kind of message."""
    price: int
    open: int
    high: int
    low: int
    seq: int = 0
    volume: int = 0
    moves: int = 0
    has_image: bool = False


class Feed:
    """What one sender says about its instruments."""

    def __init__(
        self,
        random: Random,
        encode: Encoder,
        symbols: int,
        day: dt.date,
        *,
        front: int = 0,
        has_short_seq: bool = False,
        is_keyed: bool = False,
    ) -> None:
        """Choose the instruments.

        Args:
            random: source of all choices.
            encode: makes messages.
            symbols: number of instruments.
            day: of trading.
            front: number of slots in front of each message.
            has_short_seq: SEQ_NO has 16 bits.
            is_keyed: the last of these slots is for the symbol.
        """
        self._is_keyed = is_keyed
        self._most_seq = 0x7FFF if has_short_seq else 0x7FFF_FFFF
        made: dict[int, list[Callable[..., bytes]]] = {}
        instruments = []
        for number in range(symbols):
            letters = "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4))
            symbol = f"{letters[: random.randint(1, 4)]}{number}.N".encode()
            if len(symbol) not in made:
                shapes = _shapes(len(symbol), day).values()
                made[len(symbol)] = [template(*encode(fields), front=front) for fields in shapes]
            exchange = random.choice((b"NYS", b"NMS", b"ASE"))
            price = random.randint(500, 60_000)
            instruments.append(
                _Instrument(
                    symbol,
                    f"{letters} HOLDINGS".encode(),
                    exchange,
                    made[len(symbol)],
                    price,
                    price,
                    price,
                    price,
                )
            )
        # A few instruments have most of the trades.
        weights = [1 / (rank + 3) for rank in range(symbols)]
        self._chosen = cycle(random.choices(instruments, weights, k=8191))
        # What happens next: a kind of message, cents up or down, and two sizes.
        count = 4093
        kinds = random.choices((_QUOTE, _TRADE, _PATCH, _IMAGE), (70, 26, 3.5, 0.5), k=count)
        moves = random.choices((-2, -1, -1, 0, 0, 0, 1, 1, 2), k=count)
        sizes = (random.choices(range(100, 6001, 100), k=count) for _ in range(2))
        self._changes = cycle(list(zip(kinds, moves, *sizes, strict=True)))

    def messages(self, clock: bytes, fronts: Sequence[tuple[Any, ...]]) -> list[bytes]:
        """The next messages, one for each of `fronts`: the values of the slots in front of it."""
        found = []
        chosen, changes, most_seq = self._chosen, self._changes, self._most_seq
        is_keyed = self._is_keyed
        for front in fronts:
            what = next(chosen)
            kind, move, size, other = next(changes)
            seq = what.seq = what.seq + 1 if what.seq < most_seq else 1
            price = what.price + move
            if price < 100:
                price = 100
            what.price = price
            bid = price / _CENTS
            ask = (price + 1 + (size & 3)) / _CENTS
            if not what.has_image:
                kind = _IMAGE
                what.has_image = True
            make = what.make[kind]
            if is_keyed:
                front = (*front, what.symbol)
            if kind == _QUOTE:
                found.append(
                    make(
                        front, seq, what.symbol, bid, ask, size, other,
                        (price - 2) / _CENTS, (price + 5) / _CENTS, size + 300, other + 500,
                        (price - 3) / _CENTS, (price + 7) / _CENTS, size + 900, other + 700, seq,
                        clock,
                    )
                )  # fmt: skip
            elif kind == _TRADE:
                if price > what.high:
                    what.high = price
                elif price < what.low:
                    what.low = price
                what.volume = (what.volume + size) & 0x7FFF_FFFF
                what.moves += 1
                found.append(
                    make(
                        front, seq, what.symbol, bid, size, bid, ask, size, other,
                        what.high / _CENTS, what.low / _CENTS, (price - what.open) / _CENTS,
                        what.volume, what.moves, clock, clock,
                    )
                )  # fmt: skip
            elif kind == _PATCH:
                found.append(make(front, seq, what.symbol, b"%8.2f%8b" % (bid, clock)))
            else:
                found.append(
                    make(
                        front, seq, what.symbol, what.name, what.exchange, bid, size,
                        bid, ask, size, other, what.open / _CENTS, what.high / _CENTS,
                        what.low / _CENTS, what.open / _CENTS, (price - what.open) / _CENTS,
                        what.volume, what.moves, clock, clock,
                    )
                )  # fmt: skip
        return found


def clock_text(ts_ns: int) -> bytes:
    """The time of day, as market data writes it."""
    seconds = ts_ns // 1_000_000_000 % 86_400
    return b"%02d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


def market_session(stage: Stage, feed: Feed, channel: Channel, kind: Kind) -> Iterator[Burst]:
    """A sender of market data: bursts of messages."""
    random = stage.random
    gaps = steps(lambda: int(random.expovariate(1 / 1_800_000)) + 40_000, 1013)
    sizes = steps(lambda: random.randint(1, 28), 509)
    now = stage.start_ns
    while not stage.is_over:
        clock = clock_text(now)
        count = next(sizes)
        parts = feed.messages(clock, _NOTHING[:count])
        yield Burst(now, channel, SERVER, parts, [kind] * count)
        now += next(gaps)
