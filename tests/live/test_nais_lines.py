"""Lines of every kind: MQTT, serial, WebSocket clients, trunks, TLS."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.naislive import (
    MOSQUITTO,
    Mosquitto,
    certificate,
    dial,
    frame,
    junction_of,
    mosquitto,
    serving,
    until,
)
from oracles.naisroutes import Kind, play

from wireloom.errors import OptionError, SourceError
from wireloom.formats import nais
from wireloom.services._shell.program import run_service
from wireloom.services._shell.tls import client_context
from wireloom.services.nais import Client
from wireloom.services.nais.simulator import Board, BoardSettings

A, B = "a=tcp://127.0.0.1:0", "b=tcp://127.0.0.1:0"
ROUTES = Path(nais.__file__).parent / "vectors" / "nais_routes.jsonl"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    if MOSQUITTO is None:
        pytest.skip("no mosquitto on this machine (Debian: apt install mosquitto)")
    with mosquitto(tmp_path) as found:
        yield found


# -- MQTT


def test_a_serial_board_is_reached_over_mqtt_and_back(broker: Mosquitto) -> None:
    """One junction puts a board on MQTT, another reaches it there."""
    topic = f"mqtt://127.0.0.1:{broker.port}/local/board"

    async def main() -> None:
        async with (
            serving(junction_of(A, f"b={topic}?trunk")) as near,
            serving(junction_of(f"a={topic}?trunk&role=client&qos=1", B)) as far,
        ):
            await until(lambda: len(near.sessions) == len(far.sessions) == 1)
            board = Board(BoardSettings(connect=f"tcp://{near.addresses['a']}"))
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(run_service(board, stop=stop))
                await until(lambda: len(near.sessions) == 2)
                async with Client(f"tcp://{far.addresses['b']}") as client:
                    assert await client.leds(7, 6) == 6
                    with client.events() as events, client.texts() as texts:
                        await board.send_event(12, svals=["hall"])
                        assert (await anext(events)).event["svals"] == ["hall"]
                        await board.print("hello")
                        assert await anext(texts) == "hello"
                stop.set()
            assert near.lines["b"].state == "connected"

    asyncio.run(main())


def test_a_board_and_a_client_speak_over_a_broker_directly(broker: Mosquitto) -> None:
    topic = f"mqtt://127.0.0.1:{broker.port}/local/b1"

    async def main() -> None:
        board = Board(BoardSettings(connect=topic))
        stop = asyncio.Event()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(run_service(board, stop=stop))
            async with Client(topic, timeout_s=0.3, retries=20) as client:
                assert await client.leds(7, 3) == 3
            stop.set()

    asyncio.run(main())


def test_a_broker_that_is_killed_comes_back_and_what_was_lost_is_counted(
    broker: Mosquitto,
) -> None:
    topic = f"mqtt://127.0.0.1:{broker.port}/local/board"

    async def main() -> None:
        line = f"b={topic}?retry-s=0.05&max-retry-s=0.2"
        async with (
            serving(junction_of(A, line)) as junction,
            Client(topic, timeout_s=1) as client,
        ):
            await until(lambda: len(junction.sessions) == 1)
            _, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 2)
            with client.packets() as packets:
                writer.write(frame(80))
                assert (await anext(packets)).type == 80
                broker.stop()
                await until(lambda: len(junction.sessions) == 1)
                assert junction.lines["b"].state == "connecting"
                writer.write(frame(81))
                await until(lambda: junction.router.line_counters("b").no_session == 1)
                broker.start()
                await until(lambda: len(junction.sessions) == 2 and client.is_connected)
                writer.write(frame(82))
                assert (await anext(packets)).type == 82
            writer.close()

    asyncio.run(main())


def test_what_is_no_frame_on_mqtt_is_a_problem_of_that_message(broker: Mosquitto) -> None:
    topic = f"127.0.0.1:{broker.port}/local/board"

    async def main() -> None:
        import aiomqtt

        async with serving(junction_of(A, f"b=mqtt://{topic}")) as junction:
            await until(lambda: len(junction.sessions) == 1)
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 2)
            async with aiomqtt.Client("127.0.0.1", broker.port) as client:
                for payload in (frame() + b"x", frame()[:-1], b"", frame()):
                    await client.publish("local/board", payload, qos=1)
            assert await reader.readexactly(len(frame())) == frame(sline=1)
            assert junction.router.line_counters("b").problems == 2
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize(("kind", "count"), [("tcp", 9), ("ws", 9), ("mqtt", 7)])
def test_the_golden_scenarios_hold_on_real_connections(
    kind: Kind, count: int, broker: Mosquitto
) -> None:
    """On MQTT those that begin with the one session of a line."""
    cases = [json.loads(line) for line in ROUTES.read_text("utf-8").splitlines()]

    async def main() -> int:
        return sum([await play(case, kind, broker.port) for case in cases])

    assert asyncio.run(main()) == count


# -- serial


class Pty:
    """Two ends of a serial line; ours is raw bytes."""

    def __init__(self) -> None:
        self.end, self._slave = os.openpty()
        tty.setraw(self.end)
        tty.setraw(self._slave)
        os.set_blocking(self.end, False)
        self.device = os.ttyname(self._slave)

    async def read(self, size: int) -> bytes:
        found = b""
        async with asyncio.timeout(10):
            while len(found) < size:
                try:
                    found += os.read(self.end, size - len(found))
                except BlockingIOError:
                    await asyncio.sleep(0.01)
        return found

    def close(self) -> None:
        for fd in (self.end, self._slave):
            os.close(fd)


def test_a_serial_line_carries_frames_and_text_and_gives_up_half_a_frame() -> None:
    async def main() -> None:
        pty = Pty()
        line = f"b=serial://{pty.device}?board&idle-s=0.1"
        async with serving(junction_of(A, line)) as junction:
            await until(lambda: len(junction.sessions) == 1)
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 2)
            os.write(pty.end, b"boot\n" + frame())
            expected = b"boot\n" + frame(sline=1)
            assert await reader.readexactly(len(expected)) == expected
            os.write(pty.end, frame()[:4])
            await until(lambda: junction.router.line_counters("b").problems > 0)
            os.write(pty.end, frame())
            assert await reader.readexactly(len(frame())) == frame(sline=1)
            # More than the board can take, then what it must not get, then what it can.
            writer.write(frame(payload=bytes(128)) + frame(3) + frame())
            assert await pty.read(len(frame())) == frame(sline=2)
            counters = junction.router.line_counters("b")
            assert (counters.wrong_size, counters.filtered) == (1, 1)
            writer.close()
        pty.close()

    asyncio.run(main())


def test_a_serial_device_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    device = tmp_path / "ttyUSB0"

    async def main() -> None:
        line = f"b=serial://{device}?retry-s=0.05&max-retry-s=0.1"
        async with serving(junction_of(A, line)) as junction:
            await until(lambda: "No such file" in junction.lines["b"].error)
            pty = Pty()
            device.symlink_to(pty.device)
            await until(lambda: len(junction.sessions) == 1)
            assert junction.lines["b"].state == "connected"
            device.unlink()
            pty.close()  # unplugged
            await until(lambda: not junction.sessions)

    asyncio.run(main())


def test_a_lot_of_bytes_for_a_slow_serial_line_wait_in_the_router() -> None:
    async def main() -> None:
        pty = Pty()
        settings = junction_of(A, f"b=serial://{pty.device}?max-queue-bytes=100000")
        async with serving(settings) as junction:
            await until(lambda: len(junction.sessions) == 1)
            _, writer = await dial(junction.addresses["a"])
            for _ in range(100):
                writer.write(frame(payload=bytes(10_000)))
            await until(lambda: junction.router.line_counters("b").overflow > 0)
            whole = frame(sline=2, payload=bytes(10_000))
            assert (await pty.read(20_000)).startswith(whole[:5000])
            writer.transport.abort()
            next(iter(junction.lines["b"].peers)).close()
        pty.close()

    asyncio.run(main())


# -- WebSocket clients and trunks


def test_a_trunk_carries_requests_and_answers_between_junctions() -> None:
    async def main() -> None:
        async with serving(junction_of(A, "b=ws://127.0.0.1:0?trunk")) as near:
            trunk = f"a=ws-client://{near.addresses['b']}?trunk&retry-s=0.05"
            async with serving(junction_of(trunk, B)) as far:
                await until(lambda: len(near.sessions) == len(far.sessions) == 1)
                board = Board(BoardSettings(connect=f"tcp://{near.addresses['a']}"))
                stop = asyncio.Event()
                async with asyncio.TaskGroup() as group:
                    group.create_task(run_service(board, stop=stop))
                    await until(lambda: len(near.sessions) == 2)
                    url = f"tcp://{far.addresses['b']}"
                    async with Client(url) as one, Client(url) as two:
                        answers = await asyncio.gather(
                            one.command(1, type=10, ivals=[7, 1]),
                            two.command(1, type=10, ivals=[0, 0]),
                        )
                        boards = {answer.board for answer in answers if answer is not None}
                        assert len(boards) == 1
                        assert await one.leds(7, 4, board=boards.pop()) == 4
                        virtual = [each for each in far.router.sessions() if each.via]
                        assert len(virtual) == 1
                    stop.set()

    asyncio.run(main())


def test_a_trunk_over_tcp_comes_back_after_it_was_cut() -> None:
    async def main() -> None:
        async with serving(junction_of(A, "b=tcp://127.0.0.1:0?trunk")) as near:
            trunk = f"a=tcp-client://{near.addresses['b']}?trunk&retry-s=0.05"
            async with serving(junction_of(trunk, B)) as far:
                await until(lambda: len(near.sessions) == 1)
                first = next(iter(near.sessions.values()))
                first.close()
                await until(lambda: len(near.sessions) == 1 and first.session == 0)
                _, writer = await dial(near.addresses["a"])
                reader, other = await dial(far.addresses["b"])
                await until(lambda: len(near.sessions) == len(far.sessions) == 2)
                writer.write(frame())
                got = await reader.readexactly(len(frame()))
                assert got[3:] == frame()[3:]
                assert next(each for each in far.router.sessions() if each.via).id == got[2]
                for each in (writer, other):
                    each.close()

    asyncio.run(main())


# -- TLS


def test_lines_serve_and_speak_tls_and_certificates_are_checked(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    served = f"tls-cert={cert}&tls-key={key}"

    async def main() -> None:
        lines = (f"a=tcp://127.0.0.1:0?{served}", f"b=ws://127.0.0.1:0?{served}&token=word")
        async with serving(junction_of(*lines)) as junction:
            trusted = client_context(cert)
            a, b = junction.addresses["a"], junction.addresses["b"]
            async with (
                Client(f"tls://{a}", tls=trusted) as one,
                Client(f"wss://{b}", tls=trusted, token="word") as two,
            ):
                await until(lambda: len(junction.sessions) == 2)
                with two.texts() as texts:
                    await one.send_text("hello")
                    assert await anext(texts) == "hello"
            with pytest.raises(ssl.SSLError):
                await Client(f"tls://{a}").connect()
            far = junction_of(
                f"a=tcp-client://{a}?tls-ca={cert}&retry-s=0.05",
                f"b=ws-client://{b}?tls-ca={cert}&token=word&retry-s=0.05",
                routes=(),
            )
            async with serving(far) as other:
                await until(lambda: len(other.sessions) == 2)
            untrusting = junction_of(f"a=tcp-client://{a}?tls&retry-s=0.05", routes=())
            async with serving(untrusting) as other:
                await until(lambda: "certificate" in other.lines["a"].error.lower())

    asyncio.run(main())


def test_tokens_come_from_files_and_are_needed_on_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from file\n")

    async def main() -> None:
        async with serving(junction_of(f"a=tcp://127.0.0.1:0?token-file={path}", B)) as near:
            line = f"a=tcp-client://{near.addresses['a']}?token-file={path}&retry-s=0.05"
            async with serving(junction_of(line, B)):
                await until(lambda: len(near.sessions) == 1)
            async with Client(f"tcp://{near.addresses['a']}", token="from file") as client:
                await until(lambda: len(near.sessions) == 1)
                assert client.is_connected

    asyncio.run(main())
    path.write_text("\n")
    with pytest.raises(OptionError, match="empty"):
        junction_of(f"a=tcp://127.0.0.1:0?token-file={path}", B).check()
    with pytest.raises(SourceError):
        junction_of(f"a=tcp://127.0.0.1:0?tls-cert={path}", B).check()


def test_an_address_that_is_taken_is_an_error_that_leaves_nothing_open() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            taken = junction.addresses["b"]
            with pytest.raises(ExceptionGroup) as caught:
                async with serving(junction_of(A, f"b=tcp://{taken}")):
                    pass
            assert caught.group_contains(OSError)

    asyncio.run(main())
