"""Forwarders: local sockets through the entry point, a real server, and what happens at a crash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from oracles import postgres
from oracles.nrep_live import Program, Served, run, served

from wireloom.errors import OptionError
from wireloom.formats.nrep.extensions import NO_FEATURES, Feature
from wireloom.services._shell.addresses import Address
from wireloom.services.nrep import (
    Client,
    ConnectForwarder,
    PublishForwarder,
    Trust,
    parse_local,
)

LOCAL = Address("127.0.0.1", 0)


@asynccontextmanager
async def forwarded(
    entry: Served, target: str, listen: str, features: Feature | None = None
) -> AsyncIterator[tuple[PublishForwarder, ConnectForwarder, str]]:
    options = {} if features is None else {"features": features}
    async with (
        Client(entry.listen, trust=entry.trust, **options) as a,
        Client(entry.listen, trust=entry.trust, **options) as b,
    ):
        publisher = PublishForwarder(a, "app", parse_local(target))
        await publisher.start()
        connector = ConnectForwarder(b, "app", parse_local(listen))
        where = await connector.start()
        try:
            yield publisher, connector, where
        finally:
            await connector.close()
            await publisher.close()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_bytes_and_their_end_pass_both_ways(tmp_path: Path, kind: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The answer comes when the question has ended: half-closed sockets are passed on.
        data = await reader.read()
        writer.write(hashlib.sha256(data).digest() + data)
        writer.close()

    async def main() -> None:
        async with served(tmp_path) as entry:
            if kind == "unix":
                server = await asyncio.start_unix_server(answer, tmp_path / "server")
                target, listen = f"unix:{tmp_path / 'server'}", f"unix:{tmp_path / 'here'}"
            else:
                server = await asyncio.start_server(answer, "127.0.0.1", 0)
                target = str(Address.of_socket(server.sockets[0].getsockname()))
                listen = "127.0.0.1:0"
            async with server, forwarded(entry, target, listen) as (publisher, connector, where):

                async def talk(size: int) -> None:
                    data = random.Random(size).randbytes(size)
                    if kind == "unix":
                        opened = await asyncio.open_unix_connection(where.removeprefix("unix:"))
                    else:
                        at = Address.parse(where)
                        opened = await asyncio.open_connection(at.host, at.port)
                    reader, writer = opened
                    writer.write(data)
                    writer.write_eof()
                    assert await reader.read() == hashlib.sha256(data).digest() + data
                    writer.close()
                    await writer.wait_closed()

                await asyncio.gather(*(talk(size) for size in (0, 1, 70_000, 3_000_000)))
                assert publisher.counts.opened == connector.counts.opened == 4
                assert connector.counts.ended == 4
                assert connector.counts.from_local == 3_070_001
            if kind == "unix":
                assert not (tmp_path / "here").exists()

    run(main())


def test_legacy_forwarders_carry_bytes_too(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(100_000):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def main() -> None:
        async with served(tmp_path) as entry:
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            target = str(Address.of_socket(server.sockets[0].getsockname()))
            async with (
                server,
                forwarded(entry, target, "127.0.0.1:0", NO_FEATURES) as (_, _, where),
            ):
                at = Address.parse(where)
                reader, writer = await asyncio.open_connection(at.host, at.port)
                data = random.Random(5).randbytes(2_000_000)

                async def send() -> None:
                    writer.write(data)
                    await writer.drain()

                sending = asyncio.gather(send())
                assert await reader.readexactly(len(data)) == data
                await sending
                writer.close()
                await writer.wait_closed()

    run(main())


def test_without_a_server_or_a_publisher_the_connection_is_reset(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                target = f"127.0.0.1:{unused.getsockname()[1]}"
                async with forwarded(entry, target, "127.0.0.1:0") as (publisher, connector, where):
                    at = Address.parse(where)
                    for expected in (1, 2):
                        reader, writer = await asyncio.open_connection(at.host, at.port)
                        with pytest.raises(ConnectionResetError):
                            await reader.read()
                        writer.close()
                        assert connector.counts.refused == expected
                        await publisher.close()
                    assert publisher.counts.refused == 1

    run(main())


def test_a_server_that_breaks_is_broken_for_the_client_too(tmp_path: Path) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def main() -> None:
        async with served(tmp_path) as entry:
            server = await asyncio.start_server(breaks, "127.0.0.1", 0)
            target = str(Address.of_socket(server.sockets[0].getsockname()))
            async with (
                server,
                forwarded(entry, target, "127.0.0.1:0") as (publisher, connector, where),
            ):
                at = Address.parse(where)
                reader, writer = await asyncio.open_connection(at.host, at.port)
                writer.write(b"x")
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
                assert publisher.counts.broken == 1
                assert connector.counts.opened == 1

    run(main())


def test_a_local_end_is_an_address_or_a_path() -> None:
    assert parse_local("127.0.0.1:80") == Address("127.0.0.1", 80)
    assert parse_local("unix:/run/x") == Path("/run/x")
    for text in ("unix:", "nothing"):
        with pytest.raises(OptionError):
            parse_local(text)


def test_a_socket_left_behind_is_taken_over_and_a_live_one_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "here"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        async with served(tmp_path) as entry, Client(entry.listen, trust=entry.trust) as client:
            first = ConnectForwarder(client, "x", path)
            await first.start()
            second = ConnectForwarder(client, "x", path)
            with pytest.raises(OSError, match="in use"):
                await second.start()
            await first.close()

    run(main())


# --- as programs --------------------------------------------------------------------------------


REDIS = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(
    REDIS is None or shutil.which("redis-benchmark") is None,
    reason="redis-server and redis-benchmark are not installed (Debian: apt install redis-server)",
)


@contextmanager
def redis(folder: Path) -> Iterator[Path]:
    """A Redis server on a Unix socket."""
    path = folder / "redis.sock"
    words = [str(REDIS), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", folder]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while not path.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield path
    finally:
        process.terminate()
        process.wait()


def start_entry(folder: Path, listen: str = "127.0.0.1:0") -> Program:
    return Program(
        folder,
        *("serve", "nrep", "--listen", listen, "--discovery", "127.0.0.1:0"),
        *("--state", str(folder / "state"), "--drain-s", "0.2"),
    )


def forwarders(folder: Path, entry: str, server: Path) -> tuple[Program, Program]:
    known = ("--entry", entry, "--known", str(folder / "known"))
    publisher = Program(folder, "nrep", "publish", "--app", "db", "--to", f"unix:{server}", *known)
    publisher.wait_ready()
    connector = Program(folder, "nrep", "connect", "--app", "db", "--listen", "127.0.0.1:0", *known)
    return publisher, connector.wait_ready()


@needs_redis
@pytest.mark.slow
def test_redis_is_reached_over_tls_without_an_error(tmp_path: Path) -> None:
    with redis(tmp_path) as server, start_entry(tmp_path) as entry:
        listen = entry.wait_ready().ready["listen"]
        publisher, connector = forwarders(tmp_path, listen, server)
        with publisher, connector:
            port = str(Address.parse(connector.ready["listen"]).port)
            for words in (["-c", "20", "-n", "2000"], ["-c", "4", "-n", "200", "-d", "100000"]):
                done = subprocess.run(
                    ["redis-benchmark", "-p", port, "-t", "set,get", "--csv", *words],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=True,
                )
                rows = done.stdout.strip().splitlines()
                assert [row.split(",")[0] for row in rows] == ['"test"', '"SET"', '"GET"']
                assert "rror" not in done.stdout + done.stderr
            assert connector.terminate() == publisher.terminate() == 0
            said = json.loads(connector.log.read_text().splitlines()[-1])
            assert (said["broken"], said["refused"]) == (0, 0)
            assert said["opened"] >= 24


@pytest.mark.slow
@pytest.mark.skipif(
    postgres.find_binaries() is None or shutil.which("pgbench") is None, reason=postgres.MISSING
)
def test_postgresql_is_reached_over_tls_without_an_error(tmp_path: Path) -> None:
    def pgbench(port: str, *words: str) -> str:
        words = ("-h", "127.0.0.1", "-p", port, "-U", "wireloom", *words, "postgres")
        done = subprocess.run(
            ["pgbench", *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    binaries = postgres.find_binaries()
    assert binaries is not None
    with postgres.running(binaries) as database, start_entry(tmp_path) as entry:
        listen = entry.wait_ready().ready["listen"]
        server = database.folder / ".s.PGSQL.5432"
        publisher, connector = forwarders(tmp_path, listen, server)
        with publisher, connector:
            port = str(Address.parse(connector.ready["listen"]).port)
            pgbench(port, "-i", "-q", "-s", "1")
            said = pgbench(port, "-S", "-n", "-c", "8", "-t", "100")
            assert "number of transactions actually processed: 800/800" in said
            assert "number of failed transactions: 0" in said


@needs_redis
@pytest.mark.slow
def test_after_a_kill_of_anybody_clients_recover_by_themselves(tmp_path: Path) -> None:
    def ask(port: int, within_s: float = 40.0) -> None:
        """Ask Redis until it answers; each failed attempt is a new connection."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=15) as sock:
                    sock.sendall(b"PING\r\n")
                    if sock.recv(100) == b"+PONG\r\n":
                        return
            except OSError:
                pass
            assert time.monotonic() < deadline, "it did not recover"
            time.sleep(0.1)

    with redis(tmp_path) as server, start_entry(tmp_path) as entry:
        listen = entry.wait_ready().ready["listen"]
        publisher, connector = forwarders(tmp_path, listen, server)
        with publisher, connector:
            port = Address.parse(connector.ready["listen"]).port
            ask(port)
            with socket.create_connection(("127.0.0.1", port), timeout=30) as open_one:
                open_one.sendall(b"PING\r\n")
                assert open_one.recv(100)
                entry.kill()  # in the middle of a connection, which is reset
                with pytest.raises(ConnectionResetError):
                    assert not open_one.recv(100), "a lost connection looked like a good end"
            with start_entry(tmp_path, listen) as again:
                again.wait_ready()
                ask(port)
                publisher.kill()
                words = ("--entry", listen, "--known", str(tmp_path / "known"))
                with Program(
                    tmp_path, "nrep", "publish", "--app", "db", "--to", f"unix:{server}", *words
                ) as other:
                    other.wait_ready()
                    ask(port)
                    assert connector.terminate() == other.terminate() == 0
            said = json.loads(connector.log.read_text().splitlines()[-1])
            assert said["broken"] >= 1
            assert said["client"]["lost"] == 1
            assert said["client"]["lost_sockets"] == 1


@pytest.mark.slow
def test_forwarders_wait_for_an_entry_point_that_is_not_there_yet(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    words = ("--entry", listen, "--known", str(tmp_path / "known"))
    with Program(tmp_path, "nrep", "publish", "--app", "x", "--to", "127.0.0.1:9", *words) as early:
        time.sleep(0.5)
        with start_entry(tmp_path, listen) as entry:
            entry.wait_ready()
            assert early.wait_ready().ready["app"] == "x"
            assert early.terminate() == 0


@pytest.mark.slow
def test_questions_on_the_command_line_are_answered(tmp_path: Path) -> None:
    def ask(*words: str) -> str:
        with Program(tmp_path, "nrep", *words) as program:
            assert program.process.stdout is not None
            text = program.process.stdout.read().decode()
            assert program.process.wait(30) == 0, program.log.read_text()
            return text

    with start_entry(tmp_path) as entry:
        said = entry.wait_ready().ready
        to = ("--entry", said["listen"], "--pin", said["fingerprint"])

        async def main() -> None:
            async with Client(said["listen"], trust=Trust(pin=said["fingerprint"])) as client:
                await client.publish_offers("db", lambda offer: offer.refuse())

                def questions() -> None:
                    assert json.loads(ask("ls", "--json", *to)) == {"app": "db", "instances": 1}
                    found = json.loads(ask("find", "db", "--json", *to))
                    assert len(found["instance"]) == 20
                    status = json.loads(ask("status", *to))
                    assert (status["apps"], status["tls"]) == (1, "TLSv1.3")
                    answer = json.loads(ask("discover", said["discovery"], "--json"))
                    assert answer["fingerprint"] == said["fingerprint"]

                await asyncio.to_thread(questions)

        run(main())
