"""Statistics of a capture, from batches of its tables: in bounded memory, by columns."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import int_array, int_scalar, strings
from wireloom.captures.events import STREAM_NAME
from wireloom.cli._accounts import to_json
from wireloom.columns import Exchange
from wireloom.formats import get, names
from wireloom.tabulate.accounting import NO_STREAM, Totals

__all__ = [
    "DURATIONS",
    "SELECT",
    "SIZES",
    "Flow",
    "Histogram",
    "Latencies",
    "Rates",
    "Statistics",
    "exchange_columns",
]

SELECT = {
    "frames": ("stream", "frame_length", "ts_ns", "format", "type_name"),
    "gaps": ("stream", "offset", "length"),
}
"""The columns that are used; of `accounting`, all."""


def exchange_columns() -> dict[str, tuple[str, ...]]:
    """The columns that response times are computed from, for each table with responses."""
    found = {}
    for name in names():
        keys = dict.fromkeys(key for each in get(name).columns().exchanges for key in each.key)
        if keys:
            found[name] = ("stream", "ts_ns", "type_name", *keys)
    return found


SIZES = tuple(1 << power for power in range(31))
"""Edges of a histogram of sizes."""
DURATIONS = tuple(digit * 10**power for power in range(2, 13) for digit in (1, 2, 5))
"""Edges of a histogram of times in nanoseconds: 100 ns to 5000 s."""

_ZERO = int_scalar(0)
_EMPTY = strings([""])[0]
_FEW_ROWS = 20_000
"""Requests and answers that are matched one by one."""

_MAX_FLOWS = 100_000
"""Streams whose times are remembered."""
_MAX_TYPES = 10_000
_MAX_BINS = 4096
_MAX_PENDING = 1 << 18
"""Requests without a response yet, and responses whose request was not seen yet."""
_JOIN_ROWS = 1 << 16
"""How many new ones are collected before matching again."""


class Histogram:
    """How many values are in each range, and their minimum, maximum and mean."""

    def __init__(self, edges: Sequence[int]) -> None:
        self.edges = tuple(edges)
        self.counts = [0] * (len(edges) + 1)
        """Values below the first edge, from each edge to the next, and from the last on."""
        self.number = 0
        self.total = 0
        self.least: int | None = None
        self.greatest: int | None = None

    def add(self, values: pa.Array) -> None:
        """Take numbers, without nulls."""
        number = len(values)
        if not number:
            return
        bounds = pc.min_max(values).as_py()
        self.least = bounds["min"] if self.least is None else min(self.least, bounds["min"])
        most = bounds["max"]
        self.greatest = most if self.greatest is None else max(self.greatest, most)
        # As floats: a sum of hostile times may be larger than 64 bits.
        self.total += int(pc.sum(values.cast(pa.float64(), safe=False)).as_py())
        self.number += number
        before = 0
        for index, edge in enumerate(self.edges):
            below = pc.sum(pc.less(values, int_scalar(edge, values.type))).as_py()
            self.counts[index] += below - before
            before = below
            if below == number:
                return
        self.counts[-1] += number - before

    def most(self, share: float) -> int | None:
        """The edge below which this share of the values lies; None if there is none."""
        if not self.number:
            return None
        wanted = share * self.number
        seen = 0
        for edge, number in zip(self.edges, self.counts, strict=False):
            seen += number
            if seen >= wanted:
                return edge
        return None

    def ranges(self) -> list[tuple[int, int | None, int]]:
        """From, to (not included), and how many; without the empty ones at both ends."""
        bounds: list[tuple[int, int | None]] = [*pairwise((0, *self.edges))]
        bounds.append((self.edges[-1], None))
        filled = [index for index, number in enumerate(self.counts) if number]
        if not filled:
            return []
        return [(*bounds[index], self.counts[index]) for index in range(filled[0], filled[-1] + 1)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "number": self.number,
            "min": self.least,
            "mean": self.total / self.number if self.number else None,
            "max": self.greatest,
            "below": {f"p{share}": self.most(share / 100) for share in (50, 90, 99)},
            "ranges": [
                {"from": first, "to": last, "count": number}
                for first, last, number in self.ranges()
            ],
        }


class Rates:
    """Frames and bytes over time. The bins get wider as the time gets longer."""

    # Each is a multiple of the one before, so that bins can be merged.
    _WIDTHS = (
        *(10**power for power in range(3, 11)),
        *(seconds * 10**9 for seconds in (60, 600, 3600, 86_400, 864_000, 8_640_000, 86_400_000)),
        # For absurd times.
        *(86_400 * 10 ** (9 + power) for power in range(4, 9)),
    )

    def __init__(self) -> None:
        self._widths = iter(self._WIDTHS)
        self.width_ns = next(self._widths)
        self.bins: dict[int, list[int]] = {}
        """Start → frames and bytes."""

    def add(self, ts_ns: pa.Array, sizes: pa.Array) -> None:
        """Take the times and sizes of frames."""
        width = int_scalar(self.width_ns)
        numbers = pc.divide(ts_ns, width)
        for number, frames, size in _sums(numbers, sizes):
            self._put(number * self.width_ns, frames, size)
        while len(self.bins) > _MAX_BINS:
            old, self.bins = self.bins, {}
            self.width_ns = next(self._widths)
            for start, (frames, size) in old.items():
                self._put(start // self.width_ns * self.width_ns, frames, size)

    def _put(self, start: int, frames: int, size: int) -> None:
        found = self.bins.setdefault(start, [0, 0])
        found[0] += frames
        found[1] += size

    def merged(self, most: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Width and bins (start, frames, bytes), at most `most` of them, empty ones included."""
        if not self.bins:
            return self.width_ns, []
        first, last = min(self.bins), max(self.bins)
        width = self.width_ns
        for step in _steps(width):
            width = step
            if last // step - first // step < most:
                break
        merged: dict[int, tuple[int, int]] = {}
        for start, (frames, size) in self.bins.items():
            before = merged.get(start // width, (0, 0))
            merged[start // width] = before[0] + frames, before[1] + size
        return width, [
            (number * width, *merged.get(number, (0, 0)))
            for number in range(first // width, last // width + 1)
        ]


def _steps(width: int) -> list[int]:
    """Widths from this one on that people like to read."""
    seconds = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
    fine = [digit * 10**power for power in range(3, 9) for digit in (1, 2, 5)]
    days = [digit * 10**power * 86_400 for power in range(9) for digit in (2, 5, 10)]
    steps = [*fine, *(each * 10**9 for each in (*seconds, *days))]
    return [step for step in steps if step >= width and step % width == 0]


class Latencies:
    """Response times. The two directions come separately, in batches, in any order."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._width = max(len(each.key) for each in exchanges)
        self._keys = ["connection", "kind", *(f"key_{i}" for i in range(self._width))]
        self.histogram = Histogram(DURATIONS)
        self.lost = 0
        """Requests and responses that were dropped because there were too many."""
        self._requests: list[pa.Table] = []
        self._answers: list[pa.Table] = []
        self._new = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch of packets."""
        packets = pa.Table.from_batches([batch])
        packets = packets.filter(pc.is_valid(packets["ts_ns"]))
        if not packets.num_rows:
            return
        connections = _connections(packets["stream"].combine_chunks())
        packets = packets.append_column("connection", connections)
        names = packets["type_name"].cast(pa.string())
        for kind, each in enumerate(self._exchanges):
            columns = [*each.key, *[None] * (self._width - len(each.key))]
            for wanted, waiting in ((each.request, self._requests), (each.answer, self._answers)):
                found = packets.filter(pc.equal(names, strings([wanted])[0]))
                if not found.num_rows:
                    continue
                key = [
                    found[name].cast(pa.int64()) if name else pa.repeat(_ZERO, found.num_rows)
                    for name in columns
                ]
                kinds = pa.repeat(int_scalar(kind), found.num_rows)
                arrays = [found["connection"], kinds, *key, found["ts_ns"]]
                waiting.append(pa.table(arrays, names=[*self._keys, "ts_ns"]))
                self._new += found.num_rows
        if self._new >= _JOIN_ROWS:
            self.match()

    def match(self) -> None:
        """Find the answers to the requests so far."""
        self._new = 0
        if not self._requests or not self._answers:
            self._requests = self._bounded(self._requests)
            self._answers = self._bounded(self._answers)
            return
        requests, answers = pa.concat_tables(self._requests), pa.concat_tables(self._answers)
        if requests.num_rows + answers.num_rows < _FEW_ROWS:
            self._match_few(requests, answers)
            return
        keys = self._keys
        # The first of each: a reused id would otherwise match every other use.
        firsts = requests.group_by(keys).aggregate([("ts_ns", "min")])
        replies = answers.group_by(keys).aggregate([("ts_ns", "min")])
        both = firsts.rename_columns([*keys, "asked"]).join(
            replies.rename_columns([*keys, "answered"]), keys, join_type="inner"
        )
        taken = pc.subtract(both["answered"], both["asked"])
        taken = taken.combine_chunks()
        taken = taken.filter(pc.greater_equal(taken, _ZERO))
        self.histogram.add(taken)
        self._requests = self._bounded([requests.join(both, keys, join_type="left anti")])
        self._answers = self._bounded([answers.join(both, keys, join_type="left anti")])

    def _match_few(self, requests: pa.Table, answers: pa.Table) -> None:
        """The same for few rows: joining tables imports pandas, which takes longer than this."""
        firsts, replies = _first_times(requests), _first_times(answers)
        both = firsts.keys() & replies.keys()
        taken = [replies[key] - firsts[key] for key in both]
        self.histogram.add(int_array([each for each in taken if each >= 0]))
        self._requests = self._bounded([_without(requests, both)])
        self._answers = self._bounded([_without(answers, both)])

    def _bounded(self, waiting: list[pa.Table]) -> list[pa.Table]:
        """The newest of those that are unmatched."""
        rows = sum(table.num_rows for table in waiting)
        if rows <= _MAX_PENDING:
            return waiting
        self.lost += rows - _MAX_PENDING
        return [pa.concat_tables(waiting).slice(rows - _MAX_PENDING)]


def _latencies() -> dict[str, Latencies]:
    return {name: Latencies(get(name).columns().exchanges) for name in exchange_columns()}


def _keys(table: pa.Table) -> Iterator[tuple[int, ...]]:
    return zip(*(column.to_pylist() for column in table.columns[:-1]), strict=True)


def _first_times(table: pa.Table) -> dict[tuple[int, ...], int]:
    """The first time of each key."""
    found: dict[tuple[int, ...], int] = {}
    for key, ts_ns in zip(_keys(table), table["ts_ns"].to_pylist(), strict=True):
        found[key] = min(found.get(key, ts_ns), ts_ns)
    return found


def _without(table: pa.Table, keys: Set[tuple[int, ...]]) -> pa.Table:
    """The rows with other keys."""
    return table.take(int_array([at for at, key in enumerate(_keys(table)) if key not in keys]))


def _starts(numbers: pa.Array) -> list[int]:
    """Where each run of equal numbers starts."""
    changes = pc.indices_nonzero(pc.not_equal(numbers[1:], numbers[:-1])).to_pylist()
    return [0, *(at + 1 for at in changes)] if len(numbers) else []


def _sums(keys: pa.Array, sizes: pa.Array) -> Iterator[tuple[int, int, int]]:
    """Each key with the number of its rows, and the sum of their sizes.

    Not by `Table.group_by`, which imports pandas.
    """
    if not len(keys):
        return
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    total = pc.cumulative_sum(sizes.take(order).cast(pa.int64()))
    before = 0
    for start, stop in pairwise([*_starts(keys), len(keys)]):
        upto = total[stop - 1].as_py()
        yield keys[start].as_py(), stop - start, upto - before
        before = upto


def _connections(streams: pa.DictionaryArray) -> pa.Array:
    """A number for the connection of each stream, the same for both of its directions."""
    numbers = []
    for name in streams.dictionary.to_pylist():
        found = re.match(STREAM_NAME, name)
        # Hostile captures can have any number of streams: a hash needs no memory.
        key = (found[1], *sorted(found.group(2, 3)), found[4]) if found else name
        numbers.append(hash(key))
    return int_array(numbers).take(streams.indices)


@dataclass(slots=True)
class Flow:
    """A stream among the largest."""

    stream: str
    format: str | None
    captured: int
    frames: int
    missing: int
    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def seconds(self) -> float | None:
        """From its first frame to its last."""
        if self.first_ns is None or self.last_ns is None:
            return None
        return (self.last_ns - self.first_ns) / 1e9


@dataclass(slots=True)
class Statistics:
    """Everything that is known so far."""

    top: int = 10
    """How many flows and gaps are kept."""
    totals: Totals = field(default_factory=Totals)
    """What became of every byte, counted by the source of the batches."""
    types: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Format and type → frames and bytes."""
    sizes: Histogram = field(default_factory=lambda: Histogram(SIZES))
    arrivals: Histogram = field(default_factory=lambda: Histogram(DURATIONS))
    rates: Rates = field(default_factory=Rates)
    latencies: dict[str, Latencies] = field(default_factory=_latencies)
    """Response times, by format."""
    gaps: int = 0
    largest_gaps: list[tuple[int, int, str]] = field(default_factory=list)
    """Length, offset and stream."""
    first_ns: int | None = None
    last_ns: int | None = None
    _flows: list[tuple[int, int, Flow]] = field(default_factory=list)
    _times: dict[str, tuple[int, int]] = field(default_factory=dict)
    _number: int = 0

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Take a batch of any table."""
        if table == "frames":
            self._add_frames(batch)
        elif table in self.latencies:
            self.latencies[table].add(batch)
        elif table == "gaps":
            self._add_gaps(batch)
        elif table == "accounting":
            self._add_flows(batch)

    def close(self) -> None:
        """There are no more batches."""
        for each in self.latencies.values():
            each.match()

    @property
    def flows(self) -> list[Flow]:
        """The largest streams, with their times."""
        found = []
        for _, _, flow in sorted(self._flows, key=lambda item: (-item[0], item[1])):
            if flow.stream in self._times:
                flow.first_ns, flow.last_ns = self._times[flow.stream]
            found.append(flow)
        return found

    def _add_frames(self, batch: pa.RecordBatch) -> None:
        lengths = batch.column("frame_length")
        self.sizes.add(lengths)
        formats = batch.column("format").cast(pa.string()).dictionary_encode()
        types = batch.column("type_name").cast(pa.string()).fill_null(_EMPTY).dictionary_encode()
        each = int_scalar(max(len(types.dictionary), 1))
        kinds = pc.add(
            pc.multiply(formats.indices.cast(pa.int64()), each), types.indices.cast(pa.int64())
        )
        for kind, frames, size in _sums(kinds, lengths):
            format, type = divmod(kind, each.as_py())
            key = (formats.dictionary[format].as_py(), types.dictionary[type].as_py())
            if key in self.types or len(self.types) < _MAX_TYPES:
                found = self.types.setdefault(key, [0, 0])
                found[0] += frames
                found[1] += size
        self._add_times(batch.filter(pc.is_valid(batch.column("ts_ns"))))

    def _add_times(self, timed: pa.RecordBatch) -> None:
        if not timed.num_rows:
            return
        ts_ns = timed.column("ts_ns")
        self.rates.add(ts_ns, timed.column("frame_length"))
        streams = timed.column("stream")
        numbers = streams.indices
        order = pc.sort_indices(numbers)  # stable: the frames of a stream stay in order
        numbers, ts_ns = numbers.take(order), ts_ns.take(order)
        between = pc.subtract(ts_ns[1:], ts_ns[:-1])
        is_same = pc.equal(numbers[1:], numbers[:-1])
        waits = [between.filter(is_same)]
        more = []
        starts = _starts(numbers)
        for start, stop in pairwise([*starts, len(numbers)]):
            bounds = pc.min_max(ts_ns[start:stop]).as_py()
            first, last = bounds["min"], bounds["max"]
            name = streams.dictionary[numbers[start].as_py()].as_py()
            known = self._times.get(name)
            if known is not None:
                more.append(first - known[1])
                self._times[name] = min(known[0], first), max(known[1], last)
            elif len(self._times) < _MAX_FLOWS:
                self._times[name] = first, last
        waits.append(int_array(more))
        for wait in waits:
            # Packets captured out of order: the later one was there already.
            self.arrivals.add(pc.max_element_wise(wait, _ZERO))
        bounds = pc.min_max(ts_ns).as_py()
        first, last = bounds["min"], bounds["max"]
        self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
        self.last_ns = last if self.last_ns is None else max(self.last_ns, last)

    def _add_gaps(self, batch: pa.RecordBatch) -> None:
        self.gaps += batch.num_rows
        found = zip(
            batch.column("length").to_pylist(),
            batch.column("offset").to_pylist(),
            batch.column("stream").to_pylist(),
            strict=True,
        )
        self.largest_gaps = heapq.nlargest(self.top, [*self.largest_gaps, *found])

    def _add_flows(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            if row["stream"].startswith(NO_STREAM):
                continue
            self._number += 1
            flow = Flow(
                row["stream"], row["format"], row["captured"], row["frames"], row["missing"]
            )
            item = (flow.captured, -self._number, flow)
            if len(self._flows) < self.top:
                heapq.heappush(self._flows, item)
            else:
                heapq.heappushpop(self._flows, item)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        width, bins = self.rates.merged(1000)
        return {
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "accounting": to_json(self.totals),
            "types": [
                {"format": format, "type": type, "frames": frames, "bytes": size}
                for (format, type), (frames, size) in sorted(self.types.items())
            ],
            "flows": [
                {
                    "stream": flow.stream,
                    "format": flow.format,
                    "captured": flow.captured,
                    "frames": flow.frames,
                    "missing": flow.missing,
                    "first_ns": flow.first_ns,
                    "last_ns": flow.last_ns,
                }
                for flow in self.flows
            ],
            "rates": {
                "width_ns": width,
                "bins": [
                    {"start_ns": start, "frames": frames, "bytes": size}
                    for start, frames, size in bins
                ],
            },
            "gaps": {
                "number": self.gaps,
                "bytes": self.totals.missing,
                "largest": [
                    {"stream": stream, "offset": offset, "length": length}
                    for length, offset, stream in self.largest_gaps
                ],
            },
            "frame_sizes": self.sizes.to_dict(),
            "inter_arrival_ns": self.arrivals.to_dict(),
            **{
                f"{format}_latency_ns": each.histogram.to_dict()
                for format, each in self.latencies.items()
            },
        }
