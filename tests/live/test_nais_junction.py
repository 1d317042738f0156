"""The NAIS junction over real TCP and WebSocket on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from oracles.naislive import dial, frame, junction_of, serving, until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from wireloom.captures import Capture, StreamData
from wireloom.errors import OptionError
from wireloom.formats.nais.board import BoardSession
from wireloom.formats.nais.session import Acknowledged, ClientSession
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.loops import new_loop
from wireloom.services._shell.program import run_service
from wireloom.services._shell.sections import TapSettings
from wireloom.services._shell.side import SidePort
from wireloom.services._shell.tasks import Tasks
from wireloom.services.nais import Junction, JunctionSettings, parse_line, parse_route

A, B = "a=tcp://127.0.0.1:0", "b=tcp://127.0.0.1:0"
WS = "b=ws://127.0.0.1:0"


def _blocking(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def test_who_connects_when_the_ready_line_is_there_gets_ids_in_that_order() -> None:
    names = ("d", "c", "b", "a")

    async def main() -> None:
        lines = [f"{name}=tcp://127.0.0.1:0" for name in sorted(names)]
        junction = Junction(junction_of(*lines, routes=("a-b", "b-c", "c-d")))
        stop = asyncio.Event()
        with ExitStack() as stack:

            def ready(said: dict[str, Any]) -> None:
                # Before the loop goes on, as others may do it on another processor.
                for name in names:
                    stack.enter_context(_blocking(said["lines"][name]))

            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                group.create_task(run_service(junction, stop=stop, ready=ready))
                await until(lambda: len(junction.sessions) == len(names))
                found = {each["id"]: each["line"] for each in junction.status()["sessions"]}
                stop.set()
        assert found == {1: "d", 2: "c", 3: "b", 4: "a"}

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("make_loop", [new_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_what_is_sent_behind_a_new_connection_reaches_it(make_loop: Any) -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            with _blocking(junction.addresses["a"]) as sender, ExitStack() as stack:
                await until(lambda: len(junction.sessions) == 1)
                for _ in range(10):
                    # One after the other, and the loop sees both at once.
                    there = stack.enter_context(_blocking(junction.addresses["b"]))
                    sender.sendall(frame())
                    here = asyncio.get_running_loop()
                    there.setblocking(False)
                    async with asyncio.timeout(10):
                        assert await here.sock_recv(there, 100) == frame(sline=1)
                # Whoever has gone meanwhile has said what it has said.
                _blocking(junction.addresses["b"]).close()
                sender.sendall(frame(type=11))
                sender.close()
                async with asyncio.timeout(10):
                    assert (await here.sock_recv(there, 100))[1:3] == b"\x0b\x01"

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


def test_frames_and_text_cross_and_many_of_them_stay_in_order() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            reader, writer = await dial(junction.addresses["b"])
            await until(lambda: len(junction.sessions) == 1)
            _, sender = await dial(junction.addresses["a"])
            many = [b"%06d" % number for number in range(5000)]
            sender.write(b"boot\n" + b"".join(frame(payload=each) for each in many))
            expected = b"boot\n" + b"".join(frame(sline=2, payload=each) for each in many)
            assert await reader.readexactly(len(expected)) == expected
            for each in (writer, sender):
                each.close()

    asyncio.run(main())


def test_a_slow_reader_loses_records_and_a_fast_one_does_not() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            _, slow = await dial(junction.addresses["b"])
            reader, fast = await dial(junction.addresses["b"])
            _, sender = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 3)
            slow.transport.pause_reading()  # type: ignore[attr-defined]
            one = frame(payload=bytes(50_000))
            for _ in range(600):
                sender.write(one)
                await sender.drain()
                got = await reader.readexactly(len(one))
                assert got[6:] == one[6:]
            assert junction.router.counters.overflow > 0
            for each in (slow, fast, sender):
                each.transport.abort()

    asyncio.run(main())


def test_a_client_line_connects_again_and_a_command_is_acknowledged() -> None:
    async def main() -> None:
        boards: list[asyncio.StreamWriter] = []

        async def board(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            boards.append(writer)
            session = BoardSession()
            while data := await reader.read(4096):
                session.receive(data, 0)
                writer.write(session.data_to_send())
            writer.close()

        server = await asyncio.start_server(board, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        line = f"b=tcp-client://127.0.0.1:{port}?board&retry-s=0.05"
        async with serving(junction_of(A, line)) as junction:
            reader, writer = await dial(junction.addresses["a"])
            client = ClientSession()
            for attempt in (1, 2):
                await until(lambda n=attempt: len(boards) == n and len(junction.sessions) == 2)
                client.command(1, 0, type=10, ivals=[7, 5])
                writer.write(client.data_to_send())
                events = client.receive(await reader.read(4096), 0)
                assert [(type(event), event.status) for event in events] == [(Acknowledged, 5)]
                boards[-1].transport.abort()
            writer.transport.abort()
        server.close()

    asyncio.run(main())


def test_frames_are_binary_and_text_is_text_on_a_websocket() -> None:
    async def main() -> None:
        async with serving(junction_of(A, WS)) as junction:
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 1)
            async with connect(f"ws://{junction.addresses['b']}") as ws:
                await until(lambda: len(junction.sessions) == 2)
                writer.write(frame() + b"hello\n")
                assert await ws.recv() == frame(sline=1)
                assert await ws.recv() == "hello\n"
                await ws.send(frame(dline=1))
                assert await reader.readexactly(len(frame())) == frame(sline=2, dline=1)
                await ws.send("typed")
                assert await reader.readexactly(5) == b"typed"
                await ws.send(frame()[:-1])
                await until(lambda: junction.router.line_counters("b").problems == 1)
            writer.close()

    asyncio.run(main())


def test_only_the_addressed_websocket_gets_an_answer_unless_the_line_is_a_broadcast() -> None:
    async def answers(line: str) -> int:
        async with serving(junction_of(A, line)) as junction:
            reader, writer = await dial(junction.addresses["a"])
            url = f"ws://{junction.addresses['b']}"
            async with connect(url) as first, connect(url) as second:
                await until(lambda: len(junction.sessions) == 3)
                await first.send(frame())
                asker = (await reader.readexactly(len(frame())))[2]
                writer.write(frame(3, dline=asker))
                await first.recv()
                try:
                    async with asyncio.timeout(0.2):
                        await second.recv()
                except TimeoutError:
                    return 1
                finally:
                    writer.close()
                return 2

    assert asyncio.run(answers(WS)) == 1
    assert asyncio.run(answers(WS + "?broadcast")) == 2


def test_a_json_line_speaks_json_both_ways() -> None:
    async def main() -> None:
        async with serving(junction_of(A, WS + "?form=json")) as junction:
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 1)
            async with connect(f"ws://{junction.addresses['b']}") as ws:
                await until(lambda: len(junction.sessions) == 2)
                writer.write(frame(3, payload=b"\x08\x0a\x18\x05") + b"hello\n")
                assert json.loads(await ws.recv()) == {
                    "type": 3,
                    "sline": 1,
                    "dline": 0,
                    "rsv": 0,
                    "message_name": "Ack",
                    "message": {"id": 10, "status": 5},
                }
                assert json.loads(await ws.recv()) == {"text": "hello"}
                await ws.send('{"type": 10, "dline": 1, "message": {"id": 1}}')
                assert await reader.readexactly(len(frame())) == frame(sline=2, dline=1)
                await ws.send('{"text": "typed"}')
                assert await reader.readexactly(6) == b"typed\n"
                for wrong in ("{", "[]", '{"type": 999}', '{"text": 1}', "[" * 100_000):
                    await ws.send(wrong)
                await until(lambda: junction.router.line_counters("b").transform_errors == 5)
            writer.close()

    asyncio.run(main())


def test_a_page_line_speaks_as_old_pages_do() -> None:
    async def main() -> None:
        async with serving(junction_of(A, WS + "?form=page")) as junction:
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 1)
            async with connect(f"ws://{junction.addresses['b']}") as ws:
                await until(lambda: len(junction.sessions) == 2)
                await ws.send('{"leds": "set", "red": "on", "green": "off"}')
                expected = frame(sline=2, payload=b"\x08\x01\x20\x05\x20\x01")
                assert await reader.readexactly(len(expected)) == expected
                writer.write(frame(3, dline=2, payload=b"\x08\x0a\x18\x01"))
                assert json.loads(await ws.recv()) == {"red": "on", "yellow": "off", "green": "off"}
                writer.write(frame(3, dline=2, payload=b"\x08\x02"))
                assert json.loads(await ws.recv()) == {"id": 2, "sts": None}
                await ws.send('{"uid": "net", "pwd": "pass"}')
                assert (await reader.readexactly(18))[1] == 1
            writer.close()

    asyncio.run(main())


def test_a_tcp_line_can_speak_json_too() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B + "?form=json")) as junction:
            reader, writer = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 1)
            json_reader, json_writer = await dial(junction.addresses["b"])
            await until(lambda: len(junction.sessions) == 2)
            json_writer.write(b'{"type": 10, "message": {"id": 1}}\n')
            assert await reader.readexactly(len(frame())) == frame(sline=2)
            writer.write(frame())
            assert json.loads(await json_reader.readline())["message"] == {"id": 1}
            for each in (writer, json_writer):
                each.close()

    asyncio.run(main())


def test_filters_and_transforms_act_on_their_direction() -> None:
    config = {"a": "a", "b": "b"}
    settings = JunctionSettings(
        line=(A, B),
        routes=[
            _route(config, forward={"types": (10,), "text": False}, backward={"block": (10,)}),
        ],
    )

    async def main() -> None:
        async with serving(settings) as junction:
            a_reader, a = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 1)
            b_reader, b = await dial(junction.addresses["b"])
            await until(lambda: len(junction.sessions) == 2)
            a.write(frame(11) + b"no\n" + frame(10))
            assert await b_reader.readexactly(len(frame())) == frame(10, sline=1)
            b.write(frame(10) + b"yes\n")
            assert await a_reader.readexactly(4) == b"yes\n"
            assert junction.router.line_counters("b").filtered == 2
            assert junction.router.line_counters("a").filtered == 1
            for each in (a, b):
                each.close()

    asyncio.run(main())


def _route(ends: dict[str, str], **directions: dict[str, Any]) -> Any:
    from wireloom.services.nais.settings import DirectionSettings, RouteSettings

    return RouteSettings(
        **ends, **{name: DirectionSettings(**given) for name, given in directions.items()}
    )


def test_a_route_of_one_direction() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B, routes=("a>b",))) as junction:
            _, a = await dial(junction.addresses["a"])
            _, b = await dial(junction.addresses["b"])
            await until(lambda: len(junction.sessions) == 2)
            b.write(frame())
            await until(lambda: junction.router.line_counters("a").filtered == 1)
            for each in (a, b):
                each.close()

    asyncio.run(main())


def test_a_line_with_a_token_lets_in_who_says_it() -> None:
    lines = (A + "?token=s3cret", WS + "?token=s3cret")

    async def main() -> None:
        async with serving(junction_of(*lines)) as junction:
            for said in (b"token wrong\n", frame(), b"x" * 5000):
                reader, writer = await dial(junction.addresses["a"])
                writer.write(said)
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
                writer.close()
            url = f"ws://{junction.addresses['b']}"
            with pytest.raises(InvalidStatus, match="401"):
                await connect(url)
            assert not junction.sessions
            reader, writer = await dial(junction.addresses["a"])
            writer.write(b"token s3")
            await asyncio.sleep(0.02)
            writer.write(b"cret\n" + frame())
            await until(lambda: len(junction.sessions) == 1)
            bearer = {"Authorization": "Bearer s3cret"}
            async with connect(url, additional_headers=bearer) as ws:
                assert await ws.recv() == frame(sline=1)
            async with connect(url + "/?token=s3cret"):
                pass
            assert "s3cret" not in json.dumps(junction.status())
            assert "s3cret" not in repr([str(line.url) for line in junction.lines.values()])
            writer.close()

    asyncio.run(main())


def test_pages_from_elsewhere_cannot_open_a_websocket() -> None:
    async def main() -> None:
        line = WS + "?origins=https://console.example"
        async with serving(junction_of(A, line)) as junction:
            address = junction.addresses["b"]
            for origin in ("https://evil.example", "http://localhost:80", "null"):
                with pytest.raises(InvalidStatus, match="403"):
                    await connect(f"ws://{address}", origin=origin)  # type: ignore[arg-type]
            for origin in ("https://console.example", "http://127.0.0.1:8000"):
                async with connect(f"ws://{address}", origin=origin):  # type: ignore[arg-type]
                    pass

    asyncio.run(main())


def test_connections_beyond_what_a_line_takes_are_refused_and_others_have_room() -> None:
    async def main() -> None:
        async with serving(junction_of(A + "?max-sessions=2", WS + "?max-sessions=1")) as junction:
            streams = [await dial(junction.addresses["a"]) for _ in range(3)]
            assert await streams[2][0].read() == b""
            url = f"ws://{junction.addresses['b']}"
            async with connect(url), connect(url) as second:
                with pytest.raises(ConnectionClosed) as caught:
                    await second.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1013
            for _, writer in streams:
                writer.close()

    asyncio.run(main())


def test_peers_that_come_and_go_all_the_time_leave_ids_for_others() -> None:
    async def main() -> None:
        async with serving(junction_of(A + "?max-ids=20", B)) as junction:
            for _ in range(30):
                _, writer = await dial(junction.addresses["a"])
                writer.close()
                await writer.wait_closed()
            counters = junction.router.line_counters("a")
            await until(lambda: junction.lines["a"].connects + counters.refused == 30)
            assert counters.refused == 10
            _, writer = await dial(junction.addresses["b"])
            await until(lambda: len(junction.sessions) == 1)
            writer.close()

    asyncio.run(main())


def test_status_and_metrics_are_per_line() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            tasks = Tasks()
            side = SidePort(junction.registry, junction.status, lambda: True)
            address = await side.start(Address("127.0.0.1", 0), tasks)
            reader, b = await dial(junction.addresses["b"])
            _, a = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 2)
            a.write(frame() + b"hello\n" + frame(0))
            await reader.readexactly(len(frame()) + 6)
            async with httpx.AsyncClient(base_url=f"http://{address}") as http:
                metrics = (await http.get("/metrics")).text
                status = (await http.get("/status")).json()
            await side.stop()
            assert 'wireloom_nais_line_frames_total{line="a",way="in"} 2.0' in metrics
            assert 'wireloom_nais_line_texts_total{line="b",way="out"} 1.0' in metrics
            assert 'wireloom_nais_line_dropped_total{line="a",reason="type_zero"} 1.0' in metrics
            assert 'wireloom_nais_line_sessions{line="b"} 1.0' in metrics
            assert status["lines"]["a"]["state"] == "listening"
            assert [each["line"] for each in status["sessions"]] == ["b", "a"]
            assert status["routes"] == [["a", "b"]]
            for each in (a, b):
                each.close()

    asyncio.run(main())


def test_the_tap_has_what_crossed_and_no_token(tmp_path: Path) -> None:
    settings = JunctionSettings(
        line=(A + "?token=s3cret", WS), route=("a-b",), tap=TapSettings(tmp_path)
    )

    async def main() -> None:
        async with serving(settings) as junction:
            _, writer = await dial(junction.addresses["a"])
            writer.write(b"token s3cret\n")
            async with connect(f"ws://{junction.addresses['b']}") as ws:
                await until(lambda: len(junction.sessions) == 2)
                writer.write(frame())
                await ws.recv()
            writer.close()

    asyncio.run(main())
    files = sorted(tmp_path.iterdir())
    found = [event.data for event in Capture(files) if isinstance(event, StreamData)]
    assert found == [frame(), frame(sline=1)]
    assert all(b"s3cret" not in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://h:1",
        "a b=tcp://h:1",
        "a=udp://h:1",
        "a=tcp://h",
        "a=tcp://h:x",
        "a=tcp://h:1/x",
        "a=tcp://h:1?fast",
        "a=tcp://h:1?max-age-s=soon",
        "a=tcp://h:1?board=maybe",
        "a=serial://dev",
        "a=serial:///dev/tty?token=x",
        "a=mqtt://h/",
        "a=mqtt://h/a/+",
        "a=mqtt://h/a?qos=2",
        "a=ws://h:1?board",
        "a=ws://h:1?trunk&form=json",
        "a=tcp://h:1?tls",
        "a=tcp://user:pass@h:1",
    ],
)
def test_wrong_lines_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="line") as caught:
        parse_line(text)
    assert "pass" not in str(caught.value).replace("password", "")


def test_wrong_routes_are_refused() -> None:
    for text in ("a", "a-", "-b", "a-b-c", "a>"):
        with pytest.raises(OptionError, match="route"):
            parse_route(text)
    for routes in (("a-c",), ("a-a",), ("a-b", "b-a")):
        with pytest.raises(OptionError, match="route"):
            junction_of(A, B, routes=routes).check()
    with pytest.raises(OptionError, match="twice"):
        junction_of(A, A).check()
    with pytest.raises(OptionError, match="needs a line"):
        JunctionSettings().check()
