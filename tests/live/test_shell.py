"""What all services share, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from wireloom.captures import Capture, Gap, StreamData
from wireloom.cli._serving import service_options
from wireloom.errors import OptionError, SourceError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.connections import Hub, Peer, TokenBucket
from wireloom.services._shell.logs import get_log, set_up_logs
from wireloom.services._shell.program import run_service
from wireloom.services._shell.sections import (
    LimitSettings,
    ProgramSettings,
    TapSettings,
    TlsSettings,
)
from wireloom.services._shell.settings import build, parse_config, section, setting
from wireloom.services._shell.tap import Tap
from wireloom.services._shell.tasks import Tasks

LOCAL = Address("127.0.0.1", 0)


class Echo(Peer):
    def received(self, data: bytes) -> None:
        self.write(data)


class EchoService:
    """The smallest service."""

    routes: Sequence[BaseRoute] = ()

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.drained = False
        self.failing: Awaitable[None] | None = None

    @property
    def registry(self) -> CollectorRegistry:
        return self.hub.registry

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        if self.failing is not None:
            tasks.start(self.failing, "failing")  # type: ignore[arg-type]
        return {"listen": str(await self.hub.listen(lambda: Echo(self.hub), LOCAL))}

    async def drain(self) -> None:
        self.hub.stop_listening()
        self.drained = True

    async def close(self) -> None:
        await self.hub.close(within_s=1)

    def status(self) -> dict[str, Any]:
        return {"connections": len(self.hub.peers)}


def with_service(service: EchoService, use: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    async def main() -> None:
        stop, said = asyncio.Event(), asyncio.get_running_loop().create_future()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(
                run_service(
                    service, ProgramSettings(metrics=LOCAL), stop=stop, ready=said.set_result
                )
            )
            try:
                await use(await said)
            finally:
                stop.set()

    asyncio.run(main())


async def dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    at = Address.parse(address)
    return await asyncio.open_connection(at.host, at.port)


def test_a_service_serves_counts_and_drains() -> None:
    service = EchoService(Hub("echo"))

    async def use(said: dict[str, Any]) -> None:
        reader, writer = await dial(said["listen"])
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        async with httpx.AsyncClient(base_url=f"http://{said['metrics']}") as http:
            metrics = (await http.get("/metrics")).text
            assert "wireloom_echo_received_bytes_total 5.0" in metrics
            assert "wireloom_echo_connections 1.0" in metrics
            assert (await http.get("/healthz")).json() == {"status": "alive"}
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.get("/status")).json() == {"connections": 1}
        writer.close()

    with_service(service, use)
    assert service.drained
    assert not service.hub.peers


def test_small_packets_are_sent_at_once_whatever_the_event_loop() -> None:
    service = EchoService(Hub("echo"))

    async def use(said: dict[str, Any]) -> None:
        _, writer = await dial(said["listen"])
        async with asyncio.timeout(10):
            while not service.hub.peers:  # noqa: ASYNC110 - as from outside
                await asyncio.sleep(0)
        (peer,) = service.hub.peers
        assert peer.transport is not None
        accepted = peer.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()

    with_service(service, use)


def test_a_side_port_with_a_connection_that_stays_ends_all_the_same() -> None:
    service = EchoService(Hub("echo"))
    with socket.socket() as stays:  # nobody closes it before the service ends

        async def use(said: dict[str, Any]) -> None:
            loop, at = asyncio.get_running_loop(), Address.parse(said["metrics"])
            stays.setblocking(False)
            await loop.sock_connect(stays, (at.host, at.port))
            await loop.sock_sendall(stays, b"GET /healthz HTTP/1.1\r\nHost: side\r\n\r\n")
            assert b"200 OK" in await loop.sock_recv(stays, 4096)

        with_service(service, use)
        stays.settimeout(10)
        while stays.recv(4096):
            pass


def test_a_task_that_fails_ends_the_service() -> None:
    async def fail() -> None:
        raise ValueError("broken part")

    service = EchoService(Hub("echo"))
    service.failing = fail()

    async def main() -> None:
        await run_service(service)

    with pytest.raises(ValueError, match="broken part"):
        asyncio.run(main())


def test_connections_beyond_the_limit_are_refused() -> None:
    service = EchoService(Hub("echo", LimitSettings(max_connections=2)))

    async def use(said: dict[str, Any]) -> None:
        streams = [await dial(said["listen"]) for _ in range(2)]
        for reader, writer in streams:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        reader, writer = await dial(said["listen"])
        assert await reader.read() == b""
        for _, each in [*streams, (reader, writer)]:
            each.close()

    with_service(service, use)
    refused = service.hub.metrics.refused.labels("max_connections")
    assert refused._value.get() == 1


def test_who_sends_more_than_its_quota_is_slowed_down_and_loses_nothing() -> None:
    service = EchoService(Hub("echo", LimitSettings(max_bytes_per_s=200_000)))

    async def use(said: dict[str, Any]) -> None:
        reader, writer = await dial(said["listen"])
        data = bytes(range(256)) * 1200
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.close()

    with_service(service, use)
    assert service.hub.metrics.slowed._value.get() >= 1


def test_tokens_come_back_with_time() -> None:
    bucket = TokenBucket(rate=10, now=0.0)
    assert bucket.take(10, now=0.0) == 0
    assert bucket.take(5, now=0.0) == pytest.approx(0.5)
    assert bucket.take(5, now=1.0) == 0
    assert bucket.take(10, now=100.0) == 0
    assert bucket.take(1, now=100.0) > 0  # no more than one second's worth is saved up


def test_a_tap_is_a_capture_of_what_crossed_in_rotated_files(tmp_path: Path) -> None:
    tap = Tap(TapSettings(tmp_path / "tap", file_bytes=20_000), "echo")
    service = EchoService(Hub("echo", tap=tap))
    data = bytes(range(256)) * 300

    async def use(said: dict[str, Any]) -> None:
        reader, writer = await dial(said["listen"])
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.close()

    with_service(service, use)
    files = sorted((tmp_path / "tap").iterdir())
    assert len(files) > 1
    streams: dict[Any, bytearray] = {}
    for event in Capture(files):
        if isinstance(event, StreamData):
            streams.setdefault(event.stream, bytearray()).extend(event.data)
        assert not isinstance(event, Gap)
    assert list(streams.values()) == [data, data]


def test_a_disk_that_is_full_ends_the_tap_and_not_the_service(tmp_path: Path) -> None:
    tap = Tap(TapSettings(tmp_path), "echo")
    assert tap._file is not None
    tap._file.close()
    tap._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - closed by the tap
    service = EchoService(Hub("echo", tap=tap))

    async def use(said: dict[str, Any]) -> None:
        reader, writer = await dial(said["listen"])
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()

    with_service(service, use)
    assert not tap.is_open


def test_logs_are_one_line_of_json_per_event_with_texts_escaped() -> None:
    file = io.StringIO()
    set_up_logs("info", "json", file)
    get_log("x").info("connected", peer="a\nb", size=3)
    get_log("x").debug("not shown")
    line = json.loads(file.getvalue())
    assert (line["event"], line["part"], line["peer"], line["size"]) == (
        "connected",
        "x",
        "a\nb",
        3,
    )
    assert file.getvalue().count("\n") == 1
    set_up_logs("info", "text", file)
    get_log("x").info("connected", peer="a\x1b[2J")
    assert "\x1b" not in file.getvalue()


def test_an_address_is_read_as_it_is_written() -> None:
    assert str(Address.parse("[::1]:80")) == "[::1]:80"
    assert Address.parse("db.example", default_port=5).port == 5
    for text in ("nothing", ":80", "a:b", "a:65536", "::1:80"):
        with pytest.raises(OptionError):
            Address.parse(text)


@dataclass(frozen=True, slots=True)
class Inner:
    size: int = setting(1, "A size.")
    kind: str = setting("", "A kind.", flag="")


@dataclass(frozen=True, slots=True)
class Outer:
    listen: Address = setting(LOCAL, "Where.")
    is_loud: bool = setting(False, "Noise.", flag="--loud")
    names: tuple[str, ...] = setting((), "Names.", flag="--name")
    inner: Inner = section(Inner)
    parts: dict[str, Inner] = setting({}, "", flag="")
    doors: list[Inner] = setting([], "", flag="")


CONFIG = """\
listen = "127.0.0.1:5"
is-loud = true
[inner]
size = "4 KB"
[parts.left]
size = 3
"""


def test_settings_come_from_a_file_and_the_command_line_wins() -> None:
    given = parse_config(CONFIG, Outer)
    assert build(Outer, given, {}) == Outer(
        Address("127.0.0.1", 5), True, (), Inner(4000), {"left": Inner(3)}
    )
    assert build(Outer, given, {"inner.size": 7}).inner.size == 7


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('listen = "127.0.0.1:5"', "listen = 5", 1, "is not a text"),
        ("is-loud = true", "is-load = true", 2, "did you mean is_loud"),
        ('size = "4 KB"', "size = -1", 4, "whole number"),
        ("size = 3", 'size = "x"', 6, "whole number"),
        ("size = 3", "sizes = 3", 6, "did you mean size"),
        ("[inner]", "[inner", 3, "line 3"),
        ("size = 3", "size = 3\n[[doors]]\nsize = 1\n[[doors]]\nsize = -1", 10, "whole number"),
        ("size = 3", "size = 3\n[[doors]]\nsize = 1\n\n[[doors]]\nsizes = 1", 11, "did you mean"),
    ],
)
def test_a_file_that_is_wrong_is_wrong_at_a_line(old: str, new: str, line: int, text: str) -> None:
    with pytest.raises(SourceError, match=text) as caught:
        parse_config(CONFIG.replace(old, new), Outer)
    assert caught.value.line == line


def test_the_command_line_is_made_of_the_settings(tmp_path: Path) -> None:
    got: list[Outer] = []
    command = click.command()(service_options(Outer)(got.append))
    path = tmp_path / "x.toml"
    path.write_text(CONFIG)
    run = CliRunner().invoke
    args = ["--config", str(path), "--no-loud", "--name", "a", "--name", "b", "--inner-size", "9"]
    assert run(command, args).exit_code == 0
    assert got[0] == Outer(Address("127.0.0.1", 5), False, ("a", "b"), Inner(9), {"left": Inner(3)})
    assert run(command, ["--inner-size", "x"]).exit_code == 2
    done = run(command, ["--config", str(path), "--check-config"])
    assert (done.exit_code, len(got)) == (0, 1)
    path.write_text("listen = 5")
    assert isinstance(run(command, ["--config", str(path)]).exception, SourceError)


def test_tls_settings_that_lack_a_certificate_are_refused(tmp_path: Path) -> None:
    assert TlsSettings().context() is None
    with pytest.raises(OptionError):
        TlsSettings(key=tmp_path / "key.pem").context()
    with pytest.raises(SourceError):
        TlsSettings(cert=tmp_path / "none.pem").context()


def test_an_address_in_use_is_an_error_that_closes_what_was_open() -> None:
    taken = socket.create_server(("127.0.0.1", 0))

    async def main() -> None:
        hub = Hub("echo")
        try:
            await hub.listen(lambda: Echo(hub), Address(*taken.getsockname()))
        finally:
            await hub.close()

    with taken, pytest.raises(OSError, match="in use"):
        asyncio.run(main())
