"""The NREP entry point as a relay, compared with a direct connection, stunnel and socat.

Two comparisons. *Relay*: peers that speak TLS themselves, with the entry point between them; or
with an stunnel between them that ends TLS; or with a second stunnel after it that starts TLS again,
as the entry point does. *Chain*: plain TCP at both ends, with ``nrep connect``, the entry point and
``nrep publish`` between them; or a pair of stunnels; or a pair of socats.

All take turns, so that a change in the machine's speed affects them alike; medians count. Besides
wall-clock time, the CPU time per megabyte of the processes in the middle is shown: it is the same
on a busy machine.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from oracles.nrep_live import Program

from wireloom.formats.nrep import DiscoverInstances, OpenSocket, Publish, SocketFlags, app_id
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.tls import server_context
from wireloom.services.nrep.identity import kept_identity

GOALS = {"bulk_to_stunnel": 0.5, "added_latency_to_stunnel": 2.0}
"""Relay, relative to stunnel: the least throughput, and the most added latency."""

CHUNK = 65_536 - 24
"""Payload of one packet, as our own client sends it."""
HEAD = struct.Struct("<BBII10sI")
FORK = multiprocessing.get_context("fork")


# --- the servers that are reached ---------------------------------------------------------------


def _serve_one(sock: socket.socket, tls: ssl.SSLContext | None) -> None:
    """Echo short input; count the bytes of long input and answer with one byte."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = bytearray(1 << 18)
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        sock = tls.wrap_socket(sock, server_side=True) if tls is not None else sock
        stack.enter_context(sock)
        while True:
            size = _exactly(sock, 8)
            wanted = int.from_bytes(size, "big")
            if wanted <= 1024:
                data = _exactly(sock, wanted)
                sock.sendall(data)
                continue
            while wanted:
                wanted -= sock.recv_into(room, min(wanted, len(room))) or _gone()
            sock.sendall(b"!")


def _gone() -> int:
    raise ConnectionError("the peer is gone")


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            _gone()
        data += more
    return data


def _server(listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
    while True:
        sock, _ = listening.accept()
        threading.Thread(target=_serve_one, args=(sock, tls), daemon=True).start()


# --- peers that speak NREP in TLS, as short as can be -------------------------------------------


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Raw:
    """A legacy peer on a blocking socket."""

    def __init__(self, address: Address) -> None:
        plain = socket.create_connection((address.host, address.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = _tls().wrap_socket(plain)
        self.packet()

    def packet(self) -> tuple[int, bytes]:
        head = _exactly(self.sock, 10)
        return head[1], _exactly(self.sock, int.from_bytes(head[6:10], "little"))


def _publisher(address: Address, ready: Any) -> None:
    """Publish ``bench``; serve one socket at a time as `_serve_one` does."""
    peer = Raw(address)
    peer.sock.sendall(Publish(nonce=1, description="bench").encode())
    peer.packet()
    ready.set()
    room = bytearray(1 << 18)
    with contextlib.suppress(OSError):
        while True:
            kind, content = peer.packet()
            if kind == 9:
                if content[10] & SocketFlags.OPEN_REQUEST:
                    peer.sock.sendall(HEAD.pack(0, 9, 0, 11, content[:10], 0)[:20] + b"\x20")
                continue
            size = int.from_bytes(content[14:22], "big")
            if size <= 1024:
                data = content[22:]
                peer.sock.sendall(
                    HEAD.pack(0, 10, 0, 14 + len(data), content[:10], len(data)) + data
                )
                continue
            # Whole packets follow; parsing their headers is the peer's part of the work.
            left = size // CHUNK * (CHUNK + HEAD.size)
            while left:
                left -= peer.sock.recv_into(room, min(left, len(room))) or _gone()
            peer.sock.sendall(HEAD.pack(0, 10, 0, 15, content[:10], 1) + b"!")


class NrepSocket:
    """A requester's socket."""

    def __init__(self, address: Address) -> None:
        self.peer = Raw(address)
        self.peer.sock.sendall(DiscoverInstances(nonce=1, app_id=app_id("bench")).encode())
        _, reply = self.peer.packet()
        self.peer.sock.sendall(OpenSocket(nonce=2, instance_id=reply[1:11]).encode())
        _, ack = self.peer.packet()
        self.id = ack[:10]
        self.peer.packet()
        self._chunk = HEAD.pack(0, 10, 0, 14 + CHUNK, self.id, CHUNK) + bytes(CHUNK)

    def ask(self, data: bytes) -> None:
        data = len(data).to_bytes(8, "big") + data
        self.peer.sock.sendall(HEAD.pack(0, 10, 0, 14 + len(data), self.id, len(data)) + data)
        self.peer.packet()

    def pour(self, size: int) -> None:
        self.peer.sock.sendall(HEAD.pack(0, 10, 0, 22, self.id, 8) + size.to_bytes(8, "big"))
        for _ in range(size // CHUNK):
            self.peer.sock.sendall(self._chunk)
        self.peer.packet()

    def close(self) -> None:
        self.peer.sock.close()


class TcpSocket:
    """The same on a stream."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self.sock = socket.create_connection((address.host, address.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock)
        self._chunk = bytes(CHUNK)

    def ask(self, data: bytes) -> None:
        self.sock.sendall(len(data).to_bytes(8, "big") + data)
        _exactly(self.sock, len(data))

    def pour(self, size: int) -> None:
        self.sock.sendall(size.to_bytes(8, "big"))
        for _ in range(size // CHUNK):
            self.sock.sendall(self._chunk)
        _exactly(self.sock, 1)

    def close(self) -> None:
        self.sock.close()


Way = Callable[[], NrepSocket | TcpSocket]


# --- the relays ---------------------------------------------------------------------------------


def _free() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address.of_socket(probe.getsockname())


@contextlib.contextmanager
def _process(words: list[str], listens: Address, log: Path) -> Iterator[int]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((listens.host, listens.port)).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{words[0]} does not start: {log.read_text()}") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # socat has children of its own
        process.wait()


@contextlib.contextmanager
def _stunnel(folder: Path, name: str, accept: Address, connect: Address, how: str) -> Iterator[int]:
    config = folder / f"{name}.conf"
    config.write_text(
        f"foreground = yes\npid =\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
        f"[{name}]\naccept = {accept}\nconnect = {connect}\n{how}\n"
    )
    with _process(["stunnel4", str(config)], accept, folder / f"{name}.log") as pid:
        yield pid


@contextlib.contextmanager
def ways(folder: Path) -> Iterator[tuple[dict[str, Way], dict[str, list[int]]]]:
    """Every route to the server, started, and the processes in the middle of it."""
    between: dict[str, list[int]] = {}
    identity = kept_identity(folder / "state")
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        target = Address.of_socket(listening.getsockname())
        server = FORK.Process(target=_server, args=(listening,), daemon=True)
        server.start()
        stack.callback(server.kill)
        found: dict[str, Way] = {"direct": lambda: TcpSocket(target)}

        entry = stack.enter_context(
            Program(
                folder,
                "serve",
                "nrep",
                "--listen",
                "127.0.0.1:0",
                "--no-announce",
                "--state",
                str(folder / "state"),
                "--log-level",
                "warning",
            )
        ).wait_ready()
        at = Address.parse(entry.ready["listen"])
        ready = FORK.Event()
        publisher = FORK.Process(target=_publisher, args=(at, ready), daemon=True)
        publisher.start()
        stack.callback(publisher.kill)
        assert ready.wait(20)
        found["relay: nrep"] = lambda: NrepSocket(at)
        between["relay: nrep"] = [entry.process.pid]

        to = ["--entry", str(at), "--pin", identity.fingerprint, "--log-level", "warning"]
        words = ["nrep", "publish", "--app", "chain", "--to", str(target), *to]
        forwarder = stack.enter_context(Program(folder, *words)).wait_ready()
        words = ["nrep", "connect", "--app", "chain", "--listen", "127.0.0.1:0", *to]
        connector = stack.enter_context(Program(folder, *words)).wait_ready()
        here = Address.parse(connector.ready["listen"])
        found["chain: nrep"] = lambda: TcpSocket(here)
        pids = [each.process.pid for each in (forwarder, entry, connector)]
        between["chain: nrep"] = pids

        if shutil.which("stunnel4"):
            ends, begins = _free(), _free()
            how = f"cert = {identity.cert}"
            a = stack.enter_context(_stunnel(folder, "ends", ends, target, how))
            b = stack.enter_context(_stunnel(folder, "begins", begins, ends, "client = yes"))
            between["relay: stunnel"], between["chain: stunnel"] = [a], [a, b]
            context = _tls()
            found["relay: stunnel"] = lambda: TcpSocket(ends, context)
            behind = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
            tls = server_context(identity.cert)
            server = FORK.Process(target=_server, args=(behind, tls), daemon=True)
            server.start()
            stack.callback(server.kill)
            second, first = _free(), _free()
            to_it = Address.of_socket(behind.getsockname())
            a = stack.enter_context(_stunnel(folder, "second", second, to_it, "client = yes"))
            b = stack.enter_context(_stunnel(folder, "first", first, second, how))
            between["relay: stunnel2"] = [a, b]
            found["relay: stunnel2"] = lambda: TcpSocket(first, context)
            found["chain: stunnel"] = lambda: TcpSocket(begins)
        if shutil.which("socat"):
            ends2, begins2 = _free(), _free()
            listen = f"OPENSSL-LISTEN:{ends2.port},bind=127.0.0.1,fork,nodelay,verify=0"
            listen += f",cert={identity.cert}"
            words = ["socat", "-b65536", listen, f"TCP:{target},nodelay"]
            stack.enter_context(_process(words, ends2, folder / "ends2.log"))
            listen = f"TCP-LISTEN:{begins2.port},bind=127.0.0.1,fork,nodelay"
            words = ["socat", "-b65536", listen, f"OPENSSL:{ends2},verify=0,nodelay"]
            stack.enter_context(_process(words, begins2, folder / "begins2.log"))
            found["chain: socat"] = lambda: TcpSocket(begins2)
        yield found, between


# --- measuring ----------------------------------------------------------------------------------


def _processor_s(pids: list[int]) -> float:
    """CPU time that processes have used so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _bulk(way: Way, size: int, pids: list[int]) -> tuple[float, float]:
    """Bytes per second, and the CPU time of the processes in between."""
    opened = way()
    opened.pour(CHUNK * 16)
    used, start = _processor_s(pids), time.perf_counter()
    opened.pour(size)
    took, used = time.perf_counter() - start, _processor_s(pids) - used
    opened.close()
    return size / took, used


def _latency(way: Way, count: int) -> float:
    """The median round-trip time in seconds."""
    opened = way()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        opened.ask(bytes(64))
        times.append(time.perf_counter() - start)
    opened.close()
    return median(times)


def main(quick: bool) -> dict[str, Any]:
    rounds, size, count = (3, 256 * CHUNK, 300) if quick else (5, 1024 * CHUNK, 1000)
    bulk: dict[str, list[float]] = {}
    latency: dict[str, list[float]] = {}
    processor: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, ways(Path(folder)) as (found, between):
        for _ in range(rounds):
            for name, way in found.items():
                speed, used = _bulk(way, size, between.get(name, []))
                bulk.setdefault(name, []).append(speed)
                processor[name] = processor.get(name, 0.0) + used * 1e3 / (size * rounds / 1e6)
                latency.setdefault(name, []).append(_latency(way, count))
    speeds = {name: median(values) for name, values in bulk.items()}
    times = {name: median(values) for name, values in latency.items()}
    print(f"{'':16} {'MB/s':>8} {'of direct':>10} {'p50 µs':>8} {'added µs':>9} {'CPU ms/MB':>10}")
    for name, speed in speeds.items():
        added = (times[name] - times["direct"]) * 1e6
        part = speed / speeds["direct"]
        line = f"{name:16} {speed / 1e6:8.0f} {part:10.2f} {times[name] * 1e6:8.0f} {added:9.0f}"
        print(line + (f" {processor[name]:10.2f}" if name in between else ""))
    ratios: dict[str, float] = {}
    for kind in ("relay", "chain"):
        for other in ("stunnel", "stunnel2", "socat"):
            theirs, ours = f"{kind}: {other}", f"{kind}: nrep"
            if theirs not in speeds:
                continue
            # Round by round: what slows the machine down slows both.
            ratios[f"{kind}_bulk_to_{other}"] = median(
                a / b for a, b in zip(bulk[ours], bulk[theirs], strict=True)
            )
            if theirs in between:
                used = processor[theirs] / max(processor[ours], 1e-9)
                ratios[f"{kind}_bulk_per_processor_to_{other}"] = used
            ratios[f"{kind}_added_latency_to_{other}"] = median(
                (a - d) / max(b - d, 1e-6)
                for a, b, d in zip(latency[ours], latency[theirs], latency["direct"], strict=True)
            )
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}")
    print(f"goals (relay): bulk >= {GOALS['bulk_to_stunnel']} of stunnel's, added latency <= "
          f"{GOALS['added_latency_to_stunnel']} of stunnel's")  # fmt: skip
    return {
        "mb_per_second": {name: speed / 1e6 for name, speed in speeds.items()},
        "p50_us": {name: each * 1e6 for name, each in times.items()},
        "processor_ms_per_mb": {name: processor[name] for name in between},
        "ratios": ratios,
        "goals": GOALS,
        "processors": os.cpu_count(),
        "interpreter": sys.implementation.name,
    }
