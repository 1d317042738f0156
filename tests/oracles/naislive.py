"""Live NAIS for tests, benchmarks and soak runs: junctions, brokers and raw peers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Self

from wireloom.formats.nais import NaisPacket
from wireloom.services._shell.program import run_service
from wireloom.services._shell.sections import ProgramSettings
from wireloom.services.nais import Junction, JunctionSettings

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def frame(type: int = 10, *, sline: int = 0, dline: int = 0, payload: bytes = b"\x08\x01") -> bytes:
    return NaisPacket(type=type, sline=sline, dline=dline, payload=payload).encode()


@contextlib.asynccontextmanager
async def serving(
    settings: JunctionSettings, within_s: float = 30, program: ProgramSettings | None = None
) -> AsyncIterator[Junction]:
    """A junction that serves, in this event loop."""
    junction = Junction(settings)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
        task = group.create_task(run_service(junction, program, stop=stop, ready=ready.set_result))
        done, _ = await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
        try:
            yield junction
        finally:
            stop.set()
    assert not junction.sessions


def junction_of(*lines: str, routes: tuple[str, ...] = ("a-b",)) -> JunctionSettings:
    return JunctionSettings(line=lines, route=routes)


async def dial(address: str) -> Streams:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def until(is_true: Callable[[], bool], within_s: float = 20) -> None:
    async with asyncio.timeout(within_s):
        while not is_true():  # noqa: ASYNC110 - what is waited for is in another object's state
            await asyncio.sleep(0.01)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


class Mosquitto:
    """A real broker on a port of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        assert MOSQUITTO is not None
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
            "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\nlog_type none\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "mosquitto does not start"
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def mosquitto(folder: Path) -> Iterator[Mosquitto]:
    broker = Mosquitto(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own authority, and its key."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "junction")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_path, key_path


class Program:
    """A command of ours as a process of its own, ready when this returns."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wireloom.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # asyncio's warnings about slow callbacks are not lines of the program's log.
            env={**os.environ, "PYTHONASYNCIODEBUG": ""},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, err = self._process.communicate(timeout=20)
            raise AssertionError(f"it does not start: {err}")
        self.said: dict[str, Any] = json.loads(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ended(self, within_s: float) -> int:
        """Its exit status, without reading what it says."""
        return self._process.wait(within_s)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=20)

    def stop(self) -> tuple[int, list[dict[str, Any]]]:
        """End it with SIGTERM; returns exit status and log."""
        if self._process.poll() is None:
            self._process.terminate()
        out, err = self._process.communicate(timeout=30)
        assert out == ""
        try:
            log = [json.loads(line) for line in err.splitlines()]
        except ValueError:
            raise AssertionError(f"not lines of a log: {err[-10_000:]}") from None
        return self._process.returncode, log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            self._process.communicate(timeout=20)
