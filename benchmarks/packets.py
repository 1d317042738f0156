"""Bytes → frames → packet tables at compiled speed, compared with our object path.

Both read the same stream; first they must agree on every row of a part of it. They take turns, so
that a change in the machine's speed affects both alike, and the median ratio counts. Times are CPU
times of this thread, except for the two workers, which are measured by wall clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from random import Random
from statistics import median
from typing import Any

from oracles.twins import check_packets

import wireloom
from wireloom import kernel
from wireloom.columnar.framing import scan_frames
from wireloom.columnar.packettables import PacketDecoder
from wireloom.columnar.split import map_frames
from wireloom.formats.blaze import (
    ConnectionRequest,
    ConnectionResponse,
    Heartbeat,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.nais import NaisPacket
from wireloom.formats.nrep import PublishReply, SocketControl, SocketData
from wireloom.tables import table

GOALS = {"frames_per_second": 10e6, "ratio": 50.0, "workers": 1.8}
"""Blaze headers: frames per second, and speed relative to the object path; two workers to one."""

_BODY = bytes.fromhex("160000000100050000000200feffffff030004000000646f636b")
_OBJECTS = ("message_name", "message", "message_error", "nclass")
"""Columns that the object path fills here too."""
_PAYLOADS = ("body", "data", "payload", "trailing", "x509")


def blaze(count: int) -> Iterable[bytes]:
    """A feed: mostly events and their acknowledgements, some transactions and heartbeats."""
    random = Random(1)
    yield ConnectionRequest(hbtsec=30).encode()
    yield ConnectionResponse(conres=1, agrhbt=30, connid=7).encode()
    yield SubscriptionRequest(
        sbstyp=2, sbsmod=1, flotyp=1, dwltyp=1, enctyp=2, nclsid=301, connid=7, rqstid=1
    ).encode()
    yield SubscriptionResponse(sbresl=1, rqstid=1, sbsrid=3).encode()
    for number in range(1, count - 3):
        kind = random.random()
        txid = {"txplid": 1, "txsvid": 2, "txcnid": 7, "txprid": number}
        if kind < 0.4:
            yield SubscriptionEvent(
                sbsrid=3, sevttp=1, sbeact=2, sevtid=number, tmstmp0=number, body=_BODY
            ).encode()
        elif kind < 0.8:
            yield SubscriptionAck(sbsrid=3, sevtid=number).encode()
        elif kind < 0.88:
            yield TransactionRequest(
                txtype=4, txactn=1, enctyp=2, nclsid=301, connid=7, body=_BODY, **txid
            ).encode()
        elif kind < 0.96:
            yield TransactionResponse(txresl=1, **txid).encode()
        else:
            yield Heartbeat(tmstmp=number, connid=7).encode()


def nrep(count: int) -> Iterable[bytes]:
    """Sockets: mostly data, some control packets and publications."""
    random = Random(2)
    for _ in range(count):
        kind = random.random()
        socket_id = random.randbytes(10)
        if kind < 0.7:
            yield SocketData(socket_id=socket_id, data=random.randbytes(100)).encode()
        elif kind < 0.95:
            yield SocketControl(socket_id=socket_id, flags=0x20).encode()
        else:
            yield PublishReply(success=1, app_id=socket_id, instance_id=socket_id).encode()


def nais(count: int) -> Iterable[bytes]:
    """A board's line: events, acknowledgements, and now and then a line of text."""
    event = {"id": 12, "fvals": [21.5, -0.25], "ivals": [-1, 1, -64]}
    pieces = [
        NaisPacket.from_message("Event", event).encode(),
        NaisPacket.from_message("Ack", {"id": 10, "seq": 7}).encode(),
    ]
    random = Random(3)
    for _ in range(count):
        yield random.choice(pieces) + (b"temperature ok\n" if random.random() < 0.02 else b"")


def main(quick: bool) -> dict[str, Any]:
    if not kernel.is_compiled():
        print("the kernel is not compiled: nothing to measure")
        return {"passed": False, "rows": []}
    runs = 3 if quick else 9
    rows = []
    for name, make in (("blaze", blaze), ("nrep", nrep), ("nais", nais)):
        some = b"".join(make(4_000))
        data = some * (25 if quick else 250)
        verify(name, some)
        rows += measure(name, data, some, runs)
    show(rows)
    workers = two_workers(b"".join(blaze(4_000)) * (200 if quick else 2000), 3 if quick else 7)
    headers = next(row for row in rows if (row["case"], row["what"]) == ("blaze", "headers"))
    passed = (
        headers["frames_per_second"] >= GOALS["frames_per_second"]
        and headers["ratio"] >= GOALS["ratio"]
    )
    print(
        f"\nblaze headers: {headers['frames_per_second'] / 1e6:.1f} M frames/s and "
        f"{headers['ratio']:.0f}x the object path; the goals are "
        f"{GOALS['frames_per_second'] / 1e6:.0f} M and {GOALS['ratio']:.0f}x"
        f"\ntwo workers: {workers:.2f}x one, by the clock; the goal on two idle cores is "
        f"{GOALS['workers']}x"
    )
    return {"passed": passed, "goals": GOALS, "runs": runs, "two_workers": workers, "rows": rows}


def verify(name: str, data: bytes) -> None:
    """Check that both give the same rows."""
    decoder = PacketDecoder(name)
    for batch in scan_frames(name, data):
        check_packets(name, batch, decoder=decoder)


def columns_of(name: str, left_out: Iterable[str]) -> list[str]:
    return [column for column in table(name).names if column not in left_out]


def measure(name: str, data: bytes, some: bytes, runs: int) -> list[dict[str, Any]]:
    """Rates of framing alone, headers, and all columns; the object path decodes `some`."""
    batches = list(scan_frames(name, data))
    frames = sum(batch.count for batch in batches)
    few = sum(batch.count for batch in scan_frames(name, some))
    headers = PacketDecoder(name, columns=columns_of(name, _OBJECTS + _PAYLOADS))
    whole = PacketDecoder(name, columns=columns_of(name, _OBJECTS))

    def object_path() -> None:
        for record in wireloom.scan(some, name):
            if isinstance(record, wireloom.framing.Frame):
                wireloom.decode(record.data, name)

    def framing() -> None:
        for _ in scan_frames(name, data):
            pass

    def rows_with(decoder: PacketDecoder) -> Callable[[], None]:
        def job() -> None:
            for batch in scan_frames(name, data):
                for _ in decoder.decode(batch):
                    pass

        return job

    jobs = {"frames": framing, "headers": rows_with(headers), "all columns": rows_with(whole)}
    spent: dict[str, list[float]] = {what: [] for what in jobs}
    ratios: dict[str, list[float]] = {what: [] for what in jobs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            each = clock(object_path) / few
            for what, job in jobs.items():
                took = clock(job) / frames
                spent[what].append(took)
                ratios[what].append(each / took)
    finally:
        gc.enable()
    return [
        {
            "case": name,
            "what": what,
            "frames_per_second": round(1 / median(spent[what])),
            "megabytes_per_second": round(len(data) / frames / median(spent[what]) / 1e6, 1),
            "ratio": round(median(ratios[what]), 1),
        }
        for what in jobs
    ]


def clock(job: Callable[[], None], read: Callable[[], float] = time.thread_time) -> float:
    began = read()
    job()
    return read() - began


def two_workers(data: bytes, runs: int) -> float:
    """How much faster two threads are than one, from bytes to rows, by the clock."""

    def make_work() -> Callable[[Any], int]:
        decoder = PacketDecoder("blaze", columns=columns_of("blaze", _OBJECTS))
        return lambda batch: sum(made.rows.num_rows for made in decoder.decode(batch))

    def job(workers: int) -> Callable[[], None]:
        def run() -> None:
            for _ in map_frames("blaze", data, make_work, workers=workers):
                pass

        return run

    ratios = []
    for _ in range(runs):
        one = clock(job(1), time.perf_counter)
        two = clock(job(2), time.perf_counter)
        ratios.append(one / two)
    return round(median(ratios), 2)


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':8} {'':12} {'frames/s':>14} {'MB/s':>9} {'x object path':>14}")
    for row in rows:
        print(
            f"{row['case']:8} {row['what']:12} {row['frames_per_second']:14,} "
            f"{row['megabytes_per_second']:9.1f} {row['ratio']:14.1f}"
        )
