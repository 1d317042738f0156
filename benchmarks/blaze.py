"""The Blaze broker compared with nats-server and with plain inserts: ``./run bench blaze``.

Whole conversations over loopback, publisher, broker and readers each a process, from the first
message that is sent until the last reader has the last one. The class of the fan-out is not stored:
neither broker keeps anything. Both publishers have at most so many messages under way: nats-py asks
for a sign of life after every 512, the Blaze client has 1,024 transactions without an answer. NATS
answers none, Blaze each. An object of 128 bytes is encoded by the publisher and checked by
the broker; NATS carries 128 bytes that are there already. Readers get objects that nobody decodes.

Durable transactions are compared with inserts into the same table: see `plain_inserts`. The inserts
are one process that has its rows ready. The transactions take two: the client encodes objects and
pairs answers; the broker checks ids, decodes, looks whether the object is there, stores it and the
id, and answers. PostgreSQL is run in: see `running`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from oracles.blaze_program import Program
from oracles.postgres import find_binaries, running

from benchmarks.peers.live_load import MODEL, objects
from wireloom.formats.blaze import ConnectionRequest
from wireloom.formats.blaze.body import encode_nclass
from wireloom.services.blaze.store.database import open_database
from wireloom.services.blaze.store.flat import BODY
from wireloom.services.blaze.store.migration import prepare
from wireloom.services.blaze.store.tables import stored_classes

LOAD = Path(__file__).parent / "peers" / "live_load.py"
SIZE = 128
"""Bytes of a message's body."""
WINDOW = (
    "--window",
    "4096",
    "--cumulative-acks",
    "--max-queue",
    "1000000",
    "--log-level",
    "warning",
)
IDLE = 2000


class Load:
    """A process of `live_load`."""

    def __init__(self, role: str, address: str, **given: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(LOAD), role, address, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._next()

    def _next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} has failed")
        found: dict[str, Any] = json.loads(line)
        return found

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        found = self._next()
        self.process.communicate(timeout=60)
        return found


@contextlib.contextmanager
def nats() -> Iterator[str]:
    """A nats-server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["nats-server", "-a", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def broker(store: str | None = None, *options: str) -> Iterator[Program]:
    """A broker."""
    with tempfile.TemporaryDirectory(prefix="wlbench-") as name:
        folder = Path(name)
        url = store or f"sqlite:///{folder / 'bench.db'}"
        with Program.start(folder, url, *WINDOW, *options, model=MODEL) as program:
            yield program


def status_of(program: Program) -> dict[str, Any]:
    """What a broker says of itself."""
    with urllib.request.urlopen(f"http://{program.ready['metrics']}/status") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def fan_out(kind: str, address: str, readers: int, count: int) -> float:
    """Messages that arrive per second, all readers together."""
    sub = Load(f"{kind}_sub", address, count=count, readers=readers)
    extra = {"nclass": "TICK"} if kind == "blaze" else {}
    pub = Load(f"{kind}_pub", address, count=count, size=SIZE, **extra)
    sub.begin()
    pub.begin()
    started = pub.end()["started"]
    return count * readers / float(sub.end()["ended"] - started)


def durable(address: str, count: int, first: int = 1) -> float:
    """Transactions per second, each acknowledged when it is on disk."""
    pub = Load("blaze_pub", address, count=count, size=SIZE, nclass="ROW", first=first)
    pub.begin()
    found = pub.end()
    assert found["answered"] == count, found
    return count / float(found["ended"] - found["started"])


def plain_inserts(url: str, count: int, group: int) -> float:
    """Rows per second, in durable commits of so many, by the store's own engine and driver.

    The table is the one that the store makes: the same columns, key and index, and rows with stamps
    and the encoded object; SQLAlchemy's ``execute(table.insert(), rows)`` writes them. The commits
    are made in the store's thread, one after the other, and nothing else is done.
    """
    values = objects("ROW", 1, count, SIZE)
    rows = [
        {"ts0": 1, "ts1": value["n"], "del": 0, BODY: encode_nclass(value), **dict(value)}
        for value in values
    ]

    async def run() -> float:
        database = open_database(url)
        classes = stored_classes(values[0].model, database.is_sqlite)
        await database.run(partial(prepare, model=values[0].model, classes=classes))
        table = classes[values[0].nclass.id].table
        assert table is not None
        insert = table.insert()
        gc.collect()
        gc.freeze()
        started = time.monotonic()
        for at in range(0, count, group):
            some = rows[at : at + group]
            await database.run(lambda connection: connection.execute(insert, some))  # noqa: B023
        rate = count / (time.monotonic() - started)
        await database.close()
        return rate

    return asyncio.run(run())


def half_load(address: str, rate: float, seconds: float) -> dict[str, float]:
    """Latency of transactions at half the maximum rate."""
    load = Load("latency", address, rate=rate / 2, seconds=seconds, size=SIZE, first=10_000_000)
    load.begin()
    return load.end()


def idle_memory(program: Program, count: int) -> float:
    """Memory in MB of a broker with so many idle connections."""
    host, _, port = program.address.rpartition(":")
    sockets = []
    for _ in range(count):
        sock = socket.create_connection((host, int(port)))
        sock.sendall(ConnectionRequest(hbtsec=0).encode())
        sockets.append(sock)
    for sock in sockets:
        assert len(sock.recv(12)) == 12
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    for sock in sockets:
        sock.close()
    return used / 1024


def beside_a_slow_one(readers: int, count: int) -> tuple[float, float]:
    """Fan-out without and with an extra subscriber that reads nothing, whose events wait."""
    from wireloom.formats.blaze import SubscriptionRequest

    with broker() as program:
        without = fan_out("blaze", program.address, readers, count)
        host, _, port = program.address.rpartition(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(ConnectionRequest(hbtsec=0).encode())
            connid = int.from_bytes(slow.recv(12)[8:], "big")
            slow.sendall(
                SubscriptionRequest(
                    sbstyp=1, sbsmod=3, flotyp=1, dwltyp=1, enctyp=2, nclsid=401,
                    connid=connid, rqstid=1,
                ).encode()
            )  # fmt: skip
            slow.recv(16)
            return without, fan_out("blaze", program.address, readers, count)


def rounds(count: int, *measures: Callable[[], float]) -> list[float]:
    """The medians of measurements taken in turns, so that other load affects all of them alike."""
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(count):
        for place, measure in enumerate(measures):
            found[place].append(measure())
    return [median(each) for each in found]


def main(quick: bool) -> dict[str, Any]:
    """Measure, print and return the figures."""
    times, scale = (1, 1) if quick else (3, 4)
    result: dict[str, Any] = {"size": SIZE, "fan_out": {}, "durable": {}}
    if shutil.which("nats-server") is None:
        print("nats-server is not installed: no figures beside it")
    else:
        with nats() as address, broker() as program:
            for readers, count in ((1, 10_000), (10, 4_000), (100, 800)):
                count *= scale
                ours, theirs = rounds(
                    times,
                    lambda n=readers, c=count: fan_out("blaze", program.address, n, c),  # type: ignore[misc]
                    lambda n=readers, c=count: fan_out("nats", address, n, c),  # type: ignore[misc]
                )
                row = {
                    "blaze": round(ours),
                    "nats": round(theirs),
                    "ratio": round(ours / theirs, 2),
                }
                result["fan_out"][f"1 to {readers}"] = row
                print(f"fan-out 1 to {readers:>3}: {ours:>9,.0f}/s, NATS {theirs:>9,.0f}/s, "
                      f"{ours / theirs:.2f}x")  # fmt: skip
    count = 10_000 * scale
    result["durable"]["sqlite"] = _durable("SQLite", None, times, count, quick)
    binaries = find_binaries()
    if binaries is None:
        print("PostgreSQL is not installed: no figures of it")
    else:
        with running(binaries, is_durable=True) as server:
            result["durable"]["postgresql"] = _durable(
                "PostgreSQL", server.new_database, times, count, quick
            )
    with broker() as program:
        before = idle_memory(program, 1)
        after = idle_memory(program, IDLE)
    result["idle"] = {"connections": IDLE, "megabytes": round(after), "empty": round(before)}
    print(f"{IDLE} idle connections: {after:.0f} MB, {before:.0f} MB without")
    without, beside = beside_a_slow_one(10, 4_000 * scale)
    result["slow"] = {"without": round(without), "with": round(beside)}
    print(f"fan-out 1 to 10: {without:,.0f}/s, beside one that reads nothing {beside:,.0f}/s")
    return result


def _durable(
    name: str, new: Callable[[], str] | None, times: int, count: int, quick: bool
) -> dict[str, Any]:
    groups: list[float] = []

    def ours() -> float:
        with broker(None if new is None else new()) as program:
            rate = durable(program.address, count)
            store = status_of(program)["store"]
            groups.append(store["writes"] / store["commits"])
            return rate

    def plain() -> float:
        group = max(1, round(groups[-1]))
        if new is not None:
            return plain_inserts(new(), count, group)
        with tempfile.TemporaryDirectory(prefix="wlbench-") as folder:
            return plain_inserts(f"sqlite:///{folder}/plain.db", count, group)

    mine, raw = rounds(times, ours, plain)
    with broker(None if new is None else new()) as program:
        load = half_load(program.address, mine, 2.0 if quick else 10.0)
    row = {
        "transactions": round(mine),
        "inserts": round(raw),
        "ratio": round(mine / raw, 2),
        "rows_per_commit": round(median(groups)),
        "p50_ms": round(load["p50"] * 1e3, 2),
        "p99_ms": round(load["p99"] * 1e3, 2),
    }
    print(
        f"durable, {name}: {mine:,.0f}/s, plain inserts {raw:,.0f}/s, {mine / raw:.2f}x, "
        f"{median(groups):.0f} rows per commit; "
        f"at half load p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms"
    )
    return row
