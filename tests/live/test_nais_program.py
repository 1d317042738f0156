"""The junction, the board and the commands as programs: ready, reload, drain, kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from oracles.naislive import Program, dial, frame, free_port, until

from wireloom import cli
from wireloom.services.nais import Client

CONFIG = """\
[lines.a]
url = "tcp://127.0.0.1:{a}"

[lines.b]
url = "tcp://127.0.0.1:{b}"
max_age_s = 5.0

[[routes]]
a = "a"
b = "b"
[routes.forward]
block = [{block}]

[program]
metrics = "127.0.0.1:0"
"""


def test_the_junction_says_that_it_is_ready_and_stops_when_told() -> None:
    with Program(
        *("serve", "nais", "--line", "board=tcp://127.0.0.1:0", "--line", "web=ws://127.0.0.1:0"),
        *("--route", "board-web", "--metrics", "127.0.0.1:0"),
    ) as program:
        said = program.said
        assert said["event"] == "ready"
        assert set(said["lines"]) == {"board", "web"}
        assert not any(address.endswith(":0") for address in said["lines"].values())
        assert httpx.get(f"http://{said['metrics']}/healthz").json() == {"status": "alive"}
        status, log = program.stop()
    assert status == 0
    assert [line["event"] for line in log] == ["ready", "draining", "counters", "stopped"]


@pytest.mark.slow
def test_sighup_reads_the_configuration_again_and_unchanged_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "junction.toml"
    ports = {"a": free_port(), "b": free_port()}
    path.write_text(CONFIG.format(**ports, block=""))

    async def main(program: Program) -> None:
        async with httpx.AsyncClient(base_url=f"http://{program.said['metrics']}") as http:

            async def lines() -> dict[str, Any]:
                found: dict[str, Any] = (await http.get("/status")).json()["lines"]
                return found

            reader, stays = await dial(f"127.0.0.1:{ports['b']}")
            _, goes = await dial(f"127.0.0.1:{ports['a']}")
            await asyncio.sleep(0.2)
            goes.write(frame(80))
            assert (await reader.readexactly(len(frame())))[1] == 80
            # Another address for a, and a filter; b stays as it is.
            ports["a"] = free_port()
            path.write_text(CONFIG.format(**ports, block="80"))
            program.signal(signal.SIGHUP)
            async with asyncio.timeout(10):
                while (await lines())["a"]["address"] != f"127.0.0.1:{ports['a']}":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            _, again = await dial(f"127.0.0.1:{ports['a']}")
            again.write(frame(80) + frame(81))
            assert (await reader.readexactly(len(frame())))[1] == 81
            # What is wrong changes nothing.
            path.write_text("[lines.a]\nurl = 5\n")
            program.signal(signal.SIGHUP)
            await asyncio.sleep(0.3)
            again.write(frame(82))
            assert (await reader.readexactly(len(frame())))[1] == 82
            for each in (stays, goes, again):
                each.close()

    with Program("serve", "nais", "--config", str(path)) as program:
        asyncio.run(main(program))
        status, log = program.stop()
    assert status == 0
    events = {line["event"]: line for line in log}
    assert events["reloaded"]["kept"] == ["b"]
    assert "url" in events["reload_failed"]["error"]


@pytest.mark.slow
def test_a_log_that_nobody_reads_stops_nothing() -> None:
    async def main(program: Program) -> None:
        reader, stays = await dial(program.said["lines"]["b"])
        for _ in range(30):
            await asyncio.gather(*(refused(program.said["lines"]["b"]) for _ in range(50)))
        _, sender = await dial(program.said["lines"]["a"])
        sender.write(frame())
        async with asyncio.timeout(10):
            assert (await reader.readexactly(len(frame())))[1] == frame()[1]
        for each in (stays, sender):
            each.transport.abort()

    async def refused(address: str) -> None:
        reader, writer = await dial(address)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    # A pipe holds 64 KiB; these are more.
    arguments = ("--line", "a=tcp://127.0.0.1:0", "--line", "b=tcp://127.0.0.1:0?max-sessions=1")
    with Program("serve", "nais", *arguments, "--route", "a-b") as program:
        asyncio.run(main(program))
        program.signal(signal.SIGTERM)
        assert program.ended(10) == 0


@pytest.mark.slow
def test_what_waits_is_sent_before_the_junction_ends() -> None:
    async def main(program: Program) -> int:
        reader, slow = await dial(program.said["lines"]["b"])
        _, sender = await dial(program.said["lines"]["a"])
        await asyncio.sleep(0.2)
        slow.transport.pause_reading()  # type: ignore[attr-defined]
        one = frame(payload=bytes(10_000))
        for _ in range(300):
            sender.write(one)
        await sender.drain()
        await asyncio.sleep(0.5)
        program.signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        slow.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(10):
            got = await reader.read(-1)
        for each in (slow, sender):
            each.transport.abort()
        return len(got) // len(one)

    arguments = ("--line", "a=tcp://127.0.0.1:0", "--line", "b=tcp://127.0.0.1:0")
    with Program("serve", "nais", *arguments, "--route", "a-b") as program:
        assert asyncio.run(main(program)) == 300


def test_a_serial_line_of_the_program_carries_frames() -> None:
    end, slave = os.openpty()
    tty.setraw(slave)
    try:
        with Program(
            *("serve", "nais", "--line", f"usb=serial://{os.ttyname(slave)}?board"),
            *("--line", "app=tcp://127.0.0.1:0", "--route", "usb-app"),
        ) as program:
            host, _, port = program.said["lines"]["app"].rpartition(":")
            with socket.create_connection((host, int(port))) as app:
                app.settimeout(10)
                app.sendall(frame())
                got = os.read(end, 100)
                assert got[3:] == frame()[3:]
                os.write(end, b"boot\n" + frame(3, dline=got[2]))
                answer = b""
                while len(answer) < 5 + len(frame()):
                    answer += app.recv(100)
                assert answer[:5] == b"boot\n"
            assert program.stop()[0] == 0
    finally:
        for fd in (end, slave):
            os.close(fd)


@contextlib.asynccontextmanager
async def asking(url: str) -> AsyncIterator[tuple[Client, list[int]]]:
    """A client that switches LEDs all the time: what was answered so far."""
    answers: list[int] = []

    async def ask(client: Client) -> None:
        while True:
            value = len(answers) % 8
            assert await client.leds(7, value) == value
            answers.append(value)
            await asyncio.sleep(0.005)

    async with (
        asyncio.timeout(60),
        Client(url, timeout_s=0.5, retries=40) as client,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(ask(client))
        try:
            yield client, answers
        finally:
            task.cancel()


@pytest.mark.slow
def test_clients_and_boards_come_back_when_the_junction_is_killed() -> None:
    board_port, app_port = free_port(), free_port()
    arguments = (
        *("serve", "nais", "--line", f"board=tcp://127.0.0.1:{board_port}?board"),
        *("--line", f"app=tcp://127.0.0.1:{app_port}", "--route", "board-app"),
    )

    async def main(board: Program, start: Callable[[], Program]) -> None:
        junction = start()
        async with asking(f"tcp://127.0.0.1:{app_port}") as (client, answers):
            await until(lambda: len(answers) > 20)
            await asyncio.to_thread(junction.kill)
            count = len(answers)
            junction = await asyncio.to_thread(start)
            await until(lambda: len(answers) > count + 20)
            assert client.reconnections >= 1
        junction.kill()

    with (
        contextlib.ExitStack() as stack,
        Program("nais", "board", "--connect", f"tcp://127.0.0.1:{board_port}") as board,
    ):
        asyncio.run(main(board, lambda: stack.enter_context(Program(*arguments))))


# The other end of the same story as above, and the soak kills boards all the time.
@pytest.mark.nightly
@pytest.mark.slow
def test_clients_go_on_when_the_board_is_killed_and_another_comes() -> None:
    arguments = ("--line", "board=tcp://127.0.0.1:0?board", "--line", "app=tcp://127.0.0.1:0")

    async def main(junction: Program, start: Callable[[], Program]) -> None:
        board = start()
        async with asking(f"tcp://{junction.said['lines']['app']}") as (client, answers):
            await until(lambda: len(answers) > 20)
            await asyncio.to_thread(board.kill)
            count = len(answers)
            await asyncio.to_thread(start)
            await until(lambda: len(answers) > count + 20)
            assert client.reconnections == 0
        async with httpx.AsyncClient() as http:
            metrics = (await http.get(f"http://{junction.said['metrics']}/metrics")).text
        line = 'wireloom_nais_line_dropped_total{line="board",reason="no_session"}'
        counted = next(each for each in metrics.splitlines() if each.startswith(line))
        assert float(counted.split()[-1]) > 0  # what could not be delivered is counted

    with (
        contextlib.ExitStack() as stack,
        Program(
            "serve", "nais", *arguments, "--route", "board-app", "--metrics", "127.0.0.1:0"
        ) as junction,
    ):
        to = f"tcp://{junction.said['lines']['board']}"
        asyncio.run(
            main(junction, lambda: stack.enter_context(Program("nais", "board", "--connect", to)))
        )


@pytest.mark.slow
def test_the_commands_do_what_they_say() -> None:
    arguments = ("--line", "board=tcp://127.0.0.1:0?board", "--line", "app=tcp://127.0.0.1:0")
    with (
        Program(
            "serve", "nais", *arguments, "--route", "board-app", "--metrics", "127.0.0.1:0"
        ) as junction,
        Program(
            *("nais", "board", "--connect", f"tcp://{junction.said['lines']['board']}"),
            *("--event-every-s", "0.05", "--page", "127.0.0.1:0"),
        ) as board,
    ):
        url = f"tcp://{junction.said['lines']['app']}"
        side = junction.said["metrics"]
        wait_for_sessions(side, 1)

        def run(*words: str) -> Any:
            return CliRunner().invoke(cli.main, ["nais", *words])

        done = run("command", url, "1", "--type", "10", "--ival", "7", "--ival", "5")
        assert json.loads(done.stdout) == {"status": 5, "board": 1}
        assert json.loads(run("config", url).stdout)["config"]["board"] == "board"
        done = run("config", url, "network=n", "board=b", "host=h", "port=7", "secure=true")
        assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, 0)
        found = json.loads(run("command", url, "get-config").stdout)["config"]
        assert found == {"network": "n", "board": "b", "host": "h", "port": 7, "secure": True}
        profile = '{"uid": "net", "pwd": "word"}'
        assert json.loads(run("send", url, "Profile", profile).stdout)["status"] == 0
        unknown = run("send", url, "99", '{"id": 1}')
        assert (unknown.exit_code, json.loads(unknown.stdout)["status"]) == (1, -1)
        events = run("events", url, "--id", "12", "--count", "2").stdout.splitlines()
        assert [json.loads(line)["svals"] for line in events] == [["simulated"]] * 2
        assert run("events", url, "--id", "5", "--seconds", "0.1").stdout == ""
        shown = run("sessions", side).stdout
        assert "board" in shown
        assert "listening" in shown
        assert json.loads(run("sessions", side, "--json").stdout)["routes"] == [["board", "app"]]
        for wrong in (
            ("send", url, "Profile", "{"),
            ("send", url, "Profile", "[]"),
            ("command", url, "dance"),
            ("config", url, "port=x"),
            ("config", url, "secure=x"),
            ("config", url, "network"),
            ("events", "udp://h:1"),
        ):
            assert run(*wrong).exit_code == 2, wrong
        assert run("send", url, "Profile", '{"uid": "net"}').exit_code == 1
        assert run("log", f"tcp://127.0.0.1:{free_port()}").exit_code == 1
        later = threading.Timer(
            0.5, httpx.post, [board.said["page"] + "press"], {"headers": {"X-Wireloom": "1"}}
        )
        later.start()
        pressed = run("events", url, "--id", "9001", "--count", "1", "--seconds", "10")
        later.join()
        assert json.loads(pressed.stdout)["id"] == 9001
        # The board prints a line when it comes back. Two commands at once, so one is a program.
        reboot = [sys.executable, "-m", "wireloom.cli", "nais", "command", url, "reboot"]
        later = threading.Timer(0.5, subprocess.run, [reboot], {"stdout": subprocess.DEVNULL})
        later.start()
        printed = run("log", url, "--count", "1", "--seconds", "30")
        later.join()
        assert printed.stdout == "local/board is ready\n"
        assert board.stop()[0] == 0


def wait_for_sessions(side: str, count: int) -> None:
    for _ in range(500):
        if len(httpx.get(f"http://{side}/status").json()["sessions"]) == count:
            return
        threading.Event().wait(0.02)
    raise AssertionError("the board does not connect")


def test_a_configuration_is_checked_without_serving(tmp_path: Path) -> None:
    path = tmp_path / "junction.toml"

    def check(text: str) -> Any:
        path.write_text(text)
        arguments = ["serve", "nais", "--config", str(path), "--check-config"]
        return CliRunner().invoke(cli.main, arguments)

    assert check(CONFIG.format(a=0, b=0, block="")).exit_code == 0
    wrong = {
        '[lines.a]\nurl = "tcp://h"': "junction.toml:1: line 'a'",
        '[lines.a]\nurl = "tcp://h:1"\nmax_age = 1': "did you mean max_age_s",
        '[lines.a]\nurl = "tcp://h:1"\n[[routes]]\na = "a"\nb = "c"': "toml:3: route a-c: no line",
        '[lines.a]\nurl = "tcp://h:1"\n[[routes]]\na = "a"': "b is missing",
        '[lines."a b"]\nurl = "tcp://h:1"': "letters",
        '[lines.a]\nurl = "tcp://h:1?board"': "not part of the URL",
        '[lines.a]\nurl = "tcp://h:1"\n[lines.b]\nurl = "tcp://h:2"\n[[routes]]\na = "a"\n'
        'b = "b"\n[routes.forward]\ntransform = "no.such:thing"': "cannot be loaded",
        "": "needs a line",
    }
    for text, reason in wrong.items():
        done = check(text)
        assert done.exit_code == 1, text
        assert reason in done.output.replace("\n", " "), (text, done.output)
