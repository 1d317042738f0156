"""Market-data messages → Arrow tables on one core, compared with our object path and `struct`.

All read the same bytes: quotes and trades of about twenty fields, no two messages alike. First they
must agree on every value of a part. They take turns, so that a change in the machine's speed
affects all alike, and the median ratio counts. Times are CPU times of this thread, except for the
two workers, which are measured by wall clock. Two shared cores are less than twice one: the gain of
a computation that needs no memory is measured in the same turns. The two workers are processes that
share a file, as those of Spark do, and threads of one process.
"""

from __future__ import annotations

import calendar
import gc
import hashlib
import multiprocessing
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa
from oracles.tabled import check_messages, plain_rows

import wireloom
from wireloom import kernel
from wireloom.columnar import MessageDecoder, decode_bytes
from wireloom.columnar.split import map_frames
from wireloom.formats import qform, tibmsg, tibrv
from wireloom.formats._tib.values import Date, Time
from wireloom.tables import arrow_type, table
from wireloom.tabulate import Settings, tabulate_range

GOALS = {"object": 50.0, "loop": 20.0, "wide": 1.1, "workers": 1.8, "megabytes": 550.0}
"""Speed relative to the object path, loop, long table and one worker; MB/s of TibMsg, TibrvMsg."""

FORMATS = ("tibmsg", "tibrv", "qform")
MESSAGES = 200_000
PART = 2_000
"""Messages that the slow ones read."""

SEGMENT = 16 << 20
"""Bytes that each worker takes at a time: more than the default, as no rows are kept here."""

PROCESS_RANGE = 20_000_000
"""Bytes of a file that each process reads at a time."""

CFILE = """
MSG_TYPE { CLASS_ID 4001; DATA_TYPE short_int; }
REC_TYPE { CLASS_ID 4002; DATA_TYPE u_short; }
SEQ_NO { CLASS_ID 4003; DATA_TYPE u_int; }
REC_STATUS { CLASS_ID 4005; DATA_TYPE short_int; }
SYMBOL { CLASS_ID 3422; DATA_TYPE string; DATA_SIZE 16; IS_FIXED false; }
CURRENCY { CLASS_ID 15; DATA_TYPE string; DATA_SIZE 4; }
BID { CLASS_ID 22; DATA_TYPE grocery; DATA_SIZE 9; }
ASK { CLASS_ID 25; DATA_TYPE grocery; DATA_SIZE 9; }
TRDPRC_1 { CLASS_ID 6; DATA_TYPE grocery; DATA_SIZE 9; }
NETCHNG_1 { CLASS_ID 11; DATA_TYPE grocery; DATA_SIZE 9; }
HIGH_1 { CLASS_ID 12; DATA_TYPE grocery; DATA_SIZE 9; }
LOW_1 { CLASS_ID 13; DATA_TYPE grocery; DATA_SIZE 9; }
OPEN_PRC { CLASS_ID 19; DATA_TYPE grocery; DATA_SIZE 9; }
HST_CLOSE { CLASS_ID 21; DATA_TYPE grocery; DATA_SIZE 9; }
BIDSIZE { CLASS_ID 30; DATA_TYPE integer; }
ASKSIZE { CLASS_ID 31; DATA_TYPE integer; }
ACVOL_1 { CLASS_ID 32; DATA_TYPE double; }
NUM_MOVES { CLASS_ID 77; DATA_TYPE integer; }
TRADE_DATE { CLASS_ID 16; DATA_TYPE sdate; DATA_SIZE 12; }
TRDTIM_1 { CLASS_ID 18; DATA_TYPE stime; DATA_SIZE 9; }
"""
DICTIONARY = qform.load(CFILE)
OPTIONS: dict[str, dict[str, Any]] = {
    "tibmsg": {},
    "tibrv": {},
    "qform": {"dictionary": DICTIONARY},
}
WIDE = [
    "SYMBOL:text",
    "BID:decimal(18,4)",
    "ASK:decimal(18,4)",
    "BIDSIZE:i64",
    "ASKSIZE:i64",
    "ACVOL_1:f64",
    "TRADE_DATE:date",
    "TRDTIM_1:time",
]
COLUMNS = (
    "frame_offset",
    "position",
    "name",
    "size",
    "value_int",
    "value_real",
    "value_decimal",
    "value_text",
    "value_date",
    "value_time",
    "hint",
)
"""What the loop builds; both are timed with these, so that they do the same work."""


def values(count: int) -> Iterator[dict[str, Any]]:
    """The fields of so many messages."""
    random = Random(1)
    symbols = [f"{random.randbytes(2).hex().upper()}.{x}" for x in "NOLA" for _ in range(500)]
    day = Date(2024, 3, 14)
    for number in range(count):
        price = random.randrange(10_000, 5_000_000)
        second = number * 23400 // count + 34200
        yield {
            "MSG_TYPE": 1,
            "REC_TYPE": 257,
            "SEQ_NO": number & 0x7FFF,
            "REC_STATUS": 0,
            "SYMBOL": random.choice(symbols),
            "CURRENCY": "USD",
            "BID": Decimal(price - 1).scaleb(-4),
            "ASK": Decimal(price + 1).scaleb(-4),
            "TRDPRC_1": Decimal(price).scaleb(-4),
            "NETCHNG_1": Decimal(random.randrange(-9999, 9999)).scaleb(-4),
            "HIGH_1": Decimal(price + 5000).scaleb(-4),
            "LOW_1": Decimal(price - 5000).scaleb(-4),
            "OPEN_PRC": Decimal(price + 100).scaleb(-4),
            "HST_CLOSE": Decimal(price - 100).scaleb(-4),
            "BIDSIZE": random.randrange(1, 5000),
            "ASKSIZE": random.randrange(1, 5000),
            "ACVOL_1": float(random.randrange(100_000_000)),
            "NUM_MOVES": number,
            "TRADE_DATE": day,
            "TRDTIM_1": Time(second // 3600, second // 60 % 60, second % 60),
        }


def messages(name: str, count: int) -> list[bytes]:
    if name == "tibmsg":
        return [tibmsg.build(each).encode() for each in values(count)]
    if name == "qform":
        return [qform.build(DICTIONARY, each).encode() for each in values(count)]
    made = []
    for each in values(count):
        plain = {
            key: float(value)
            if isinstance(value, Decimal)
            else str(value)
            if isinstance(value, Date | Time)
            else value
            for key, value in each.items()
        }
        made.append(tibrv.build(plain).encode())
    return made


# --- the loop that somebody would write -----------------------------------------------------------

_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")
_NUMBERS = {
    "int": {1: struct.Struct(">b"), 2: struct.Struct(">h"), 4: struct.Struct(">i")},
    "uint": {1: struct.Struct(">B"), 2: struct.Struct(">H"), 4: struct.Struct(">I")},
    "real": {4: struct.Struct(">f"), 8: struct.Struct(">d")},
}
_TIBMSG = {2: "string", 5: "int", 6: "uint", 7: "real"}
_TIBRV = {8: "string", 11: "int", 12: "uint", 13: "real"}
_MONTHS = dict(zip(calendar.month_abbr, range(13), strict=True))
_UNITS = {16 + places: Decimal(1).scaleb(-places) for places in range(16)}


class Loop:
    """Reads fields with `struct` and appends their values to lists, one per column."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._add = [self.columns[name].append for name in COLUMNS]

    def read(self, name: str, data: bytes) -> list[pa.Array]:
        {"tibmsg": self._tibmsg, "tibrv": self._tibrv, "qform": self._qform}[name](data)
        types = {column.name: arrow_type(column.type) for column in table("fields").columns}
        types["name"] = pa.string()
        return [pa.array(self.columns[name], types[name]) for name in COLUMNS]

    def _row(
        self, start: int, position: int, name: str, kind: str, raw: bytes, hint: int | None
    ) -> None:
        number: int | None = None
        real: float | None = None
        decimal: Decimal | None = None
        text: str | None = None
        day: date | None = None
        nanos: int | None = None
        if kind == "string":
            text = raw.partition(b"\0")[0].decode()
            if hint == 256 or hint == 258:
                day = date(int(text[7:]), _MONTHS[text[3:6].title()], int(text[:2]))
            elif hint is not None and 256 < hint < 261:
                hours, minutes, seconds = text.split(":")
                nanos = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9
        else:
            (value,) = _NUMBERS[kind][len(raw)].unpack(raw)
            if kind == "real":
                real = value
                if hint is not None:
                    decimal = Decimal(round(value * 10 ** (hint - 16))) * _UNITS[hint]
            else:
                number = value
        size = len(raw)
        row = (start, position, name, size, number, real, decimal, text, day, nanos, hint)
        for add, cell in zip(self._add, row, strict=True):
            add(cell)

    def _tibmsg(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            start = at
            if data[at : at + 4] != b"\xce\x13\xaa\x1f":
                raise ValueError("no message")
            end = at + 9 + _U32.unpack_from(data, at + 5)[0]
            at += 9
            position = 0
            while at < end:
                stop = at + 1 + data[at]
                name = data[at + 1 : stop - 1].decode()
                key, size = data[stop], data[stop + 1]
                at = stop + 2
                raw = data[at : at + size]
                at += size
                hint = None
                if key & 0x40:
                    hint = int.from_bytes(data[at + 2 : at + 2 + data[at + 1]], "big")
                    at += 2 + data[at + 1]
                self._row(start, position, name, _TIBMSG[key & 15], raw, hint)
                position += 1

    def _tibrv(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            start = at
            if data[at + 4 : at + 8] != b"\x99\x55\xee\xaa":
                raise ValueError("no message")
            end = at + _U32.unpack_from(data, at)[0]
            at += 8
            position = 0
            while at < end:
                stop = at + 1 + data[at]
                name = data[at + 1 : stop - 1].decode()
                kind, size = data[stop], data[stop + 1]
                at = stop + 2
                self._row(start, position, name, _TIBRV[kind], data[at : at + size], None)
                at += size
                position += 1

    def _qform(self, data: bytes) -> None:
        kinds = {
            "SHORT_INT": "int",
            "INTEGER": "int",
            "U_SHORT": "uint",
            "U_INT": "uint",
            "GROCERY": "decimal",
            "DOUBLE": "real",
        }
        fields = {
            entry.fid: (entry, kinds.get(entry.tss_type.name, "string"))
            for entry in DICTIONARY
            if entry.tss_type is not None
        }
        hints = {"SDATE": 256, "STIME": 260}
        at = 0
        while at < len(data):
            start = at
            if data[at : at + 4] != b"\x11\x11\x11\x12":
                raise ValueError("no message")
            end = at + 8 + _U32.unpack_from(data, at + 4)[0]
            at += 8
            position = 0
            while at < end:
                entry, kind = fields[_U16.unpack_from(data, at)[0] & 0x3FFF]
                at += 2
                size = entry.size
                if not entry.is_fixed:
                    (size,) = _U16.unpack_from(data, at)
                    at += 2
                raw = data[at : at + size]
                if kind == "decimal":
                    self._row(start, position, entry.name, "real", raw[:-1], raw[-1])
                    self.columns["size"][-1] = size
                else:
                    hint = hints.get(entry.tss_type.name) if entry.tss_type else None
                    self._row(start, position, entry.name, kind, raw, hint)
                    self.columns["hint"][-1] = None
                at += size + (size & 1)
                position += 1


# --- measuring ------------------------------------------------------------------------------------


def main(quick: bool) -> dict[str, Any]:
    if not kernel.is_compiled():
        print("the kernel is not compiled: nothing to measure")
        return {"passed": False, "rows": []}
    runs = 3 if quick else 9
    rows, streams = [], {}
    for name in FORMATS:
        made = messages(name, MESSAGES // 10 if quick else MESSAGES)
        verify(name, made[:PART])
        streams[name] = b"".join(made)
        rows += measure(name, streams[name], made[:PART], runs)
    show(rows)
    larger, turns = streams["tibmsg"] * (20 if quick else 5), 5 if quick else 11
    workers = two_processes(larger, turns)
    threads, machine = two_threads(larger, turns)
    grown = memory(streams["tibmsg"])
    long = {row["case"]: row for row in rows if row["what"] == "fields"}
    wide = {row["case"]: row for row in rows if row["what"] == "wide"}
    least = {
        "object": min(row["object"] for row in long.values()),
        "loop": min(row["loop"] for row in long.values()),
        "wide": min(
            wide[name]["megabytes_per_second"] / long[name]["megabytes_per_second"]
            for name in FORMATS
        ),
        "megabytes": min(long[name]["megabytes_per_second"] for name in ("tibmsg", "tibrv")),
        "workers": workers,
    }
    for what, text in (
        ("object", "fields, times the object path"),
        ("loop", "fields, times the struct loop"),
        ("wide", "wide, times long"),
        ("megabytes", "MB/s of tibmsg and tibrv fields"),
        ("workers", "two processes on one file, times one, by the clock"),
    ):
        print(f"{text}: at least {least[what]:.2f}; the goal is {GOALS[what]:g}")
    print(f"two threads of one process, times one: {threads:.2f}")
    print(f"two threads that only compute, times one: {machine:.2f}, the most to be had now")
    print(f"memory: at most {grown:.0f} MB more for 2 GB than for the first chunk")
    from benchmarks import layouts  # which takes its messages from here

    alike = layouts.main(quick)
    passed = alike["passed"] and all(
        least[what] >= GOALS[what] for what in ("object", "loop", "wide")
    )
    return {
        "passed": passed,
        "goals": GOALS,
        "least": {what: round(value, 2) for what, value in least.items()},
        "two_threads": round(threads, 2),
        "two_threads_of_computation": round(machine, 2),
        "memory_growth_mb": round(grown),
        "runs": runs,
        "rows": rows,
        "layouts": alike,
    }


def verify(name: str, made: list[bytes]) -> None:
    """Check that all three read the same."""
    check_messages(name, made, options=OPTIONS[name])
    ours = [row for batch in fields(name, b"".join(made)) for row in plain_rows(batch)]
    arrays = Loop().read(name, b"".join(made))
    at = COLUMNS.index("value_time")
    arrays[at] = arrays[at].view(pa.int64())
    assert ours == pa.table(arrays, list(COLUMNS)).to_pylist()


def fields(name: str, data: bytes) -> Iterator[pa.RecordBatch]:
    """The columns that the loop builds too."""
    given = decode_bytes(data, name, tables=["fields"], select={"fields": COLUMNS}, **OPTIONS[name])
    return (batch for _, batch in given)


def drain(given: Iterator[Any]) -> None:
    for _ in given:
        pass


def measure(name: str, data: bytes, some: list[bytes], runs: int) -> list[dict[str, Any]]:
    """Rates of all tables; the object path and the loop read `some`."""
    options, part = OPTIONS[name], b"".join(some)
    jobs: dict[str, Callable[[], None]] = {
        "fields": lambda: drain(decode_bytes(data, name, tables=["fields"], **options)),
        "loop's columns": lambda: drain(fields(name, data)),
        "all tables": lambda: drain(decode_bytes(data, name, **options)),
        "two columns": lambda: drain(
            decode_bytes(
                data,
                name,
                tables=["fields"],
                select={"fields": ["name", "value_real"]},
                **options,
            )
        ),
        "wide": lambda: drain(decode_bytes(data, name, tables=["wide"], columns=WIDE, **options)),
    }

    def object_path() -> None:
        for message in some:
            for field in wireloom.decode(message, name, **options).fields:  # type: ignore[attr-defined]
                _ = field.name, field.value

    spent: dict[str, list[float]] = {what: [] for what in jobs}
    objects: dict[str, list[float]] = {what: [] for what in jobs}
    loops: dict[str, list[float]] = {what: [] for what in jobs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            each = clock(object_path) / len(part)
            loop = clock(lambda: Loop().read(name, part)) / len(part)
            for what, job in jobs.items():
                took = clock(job) / len(data)
                spent[what].append(took)
                objects[what].append(each / took)
                loops[what].append(loop / took)
    finally:
        gc.enable()
    return [
        {
            "case": name,
            "what": what,
            "megabytes_per_second": round(1 / median(spent[what]) / 1e6, 1),
            "messages_per_second": round(len(some) / len(part) / median(spent[what])),
            "object": round(median(objects[what]), 1),
            "loop": round(median(loops[what]), 1),
        }
        for what in jobs
    ]


def clock(job: Callable[[], object], read: Callable[[], float] = time.thread_time) -> float:
    began = read()
    job()
    return read() - began


def count_rows(path: str, first: int, last: int) -> tuple[int, int, int]:
    """Where a part of a file begins and ends, and how many fields it has."""
    settings = Settings(formats=("tibmsg",), tables=("fields",))
    part = tabulate_range(path, first, last, settings)
    rows = sum(batch.num_rows for _, batch in part.batches())
    return part.start, part.end, rows


def two_processes(data: bytes, runs: int) -> float:
    """How much faster two processes read one file than one does, by the clock."""
    bounds = range(0, len(data) + PROCESS_RANGE, PROCESS_RANGE)

    def count(pool: ProcessPoolExecutor, path: str) -> int:
        parts = list(pool.map(partial(count_rows, path), bounds, bounds[1:]))
        # Each part ends where the next begins, so that together they are one pass.
        assert parts[0][0] == 0
        assert parts[-1][1] == len(data)
        assert all(one[1] == other[0] for one, other in pairwise(parts))
        return sum(rows for _, _, rows in parts)

    context = multiprocessing.get_context("spawn")
    ratios = []
    with (
        NamedTemporaryFile() as file,
        ProcessPoolExecutor(1, context) as one,
        ProcessPoolExecutor(2, context) as two,
    ):
        file.write(data)
        file.flush()
        assert count(one, file.name) == count(two, file.name)
        for _ in range(runs):
            alone = clock(partial(count, one, file.name), time.perf_counter)
            ratios.append(alone / clock(partial(count, two, file.name), time.perf_counter))
    return median(ratios)


def two_threads(data: bytes, runs: int) -> tuple[float, float]:
    """How much faster two threads are than one, by the clock: bytes to all fields, and hashing."""

    def count(workers: int) -> int:
        def make_work() -> Callable[[Any], int]:
            decoder = MessageDecoder("tibmsg", tables=["fields"])

            def work(batch: Any) -> int:
                fed = decoder.feed(batch.data, batch.offsets, batch.lengths, base=batch.base)
                rows = sum(made.num_rows for _, made in fed)
                return rows + sum(made.num_rows for _, made in decoder.flush())

            return work

        found = map_frames("tibmsg", data, make_work, workers=workers, segment=SEGMENT)
        return sum(rows for _, rows in found)

    def compute(workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            for _ in range(16):
                pool.submit(hashlib.pbkdf2_hmac, "sha256", b"", b"", 40_000)

    assert count(1) == count(2)
    decoding, computing = [], []
    for _ in range(runs):
        for job, ratios in ((count, decoding), (compute, computing)):
            one = clock(partial(job, 1), time.perf_counter)
            ratios.append(one / clock(partial(job, 2), time.perf_counter))
    return median(decoding), median(computing)


def memory(data: bytes) -> float:
    """The most MB by which the process grows while it reads 2 GB in chunks; 0 where unknown.

    Current resident memory, not the peak: making the messages took more.
    """
    if sys.platform != "linux":
        return 0.0

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def read(times: int) -> int:
        chunks = (data for _ in range(times))
        return max(resident() for _ in decode_bytes(chunks, "tibmsg", tables=["fields"]))

    before = read(1)
    return (read(max(1, 2_000_000_000 // len(data))) - before) / 1e6


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':8} {'':15} {'MB/s':>9} {'messages/s':>12} {'x object path':>14} {'x loop':>8}")
    for row in rows:
        print(
            f"{row['case']:8} {row['what']:15} {row['megabytes_per_second']:9.1f} "
            f"{row['messages_per_second']:12,} {row['object']:14.1f} {row['loop']:8.1f}"
        )
