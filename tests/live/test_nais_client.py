"""The NAIS client and the simulated board, on real connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from oracles.naislive import frame, junction_of, serving, until
from websockets.asyncio.client import connect

from wireloom.errors import ConnectionClosed, EncodeError, OptionError, StateError
from wireloom.formats.nais import NaisPacket
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.program import run_service
from wireloom.services.nais import Client, SyncClient
from wireloom.services.nais.simulator import BUTTON_EVENT, Board, BoardSettings

BOARD, APP, WEB = "board=tcp://127.0.0.1:0?board", "app=tcp://127.0.0.1:0", "web=ws://127.0.0.1:0"
LOCAL = Address("127.0.0.1", 0)
ROUTES = ("board-app", "board-web")


@contextlib.asynccontextmanager
async def board_at(**settings: Any) -> AsyncIterator[tuple[Board, dict[str, Any]]]:
    board = Board(BoardSettings(**settings))
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(run_service(board, stop=stop, ready=ready.set_result))
        try:
            yield board, await ready
        finally:
            stop.set()


def test_a_client_does_all_that_a_board_can() -> None:
    async def main() -> None:
        async with (
            serving(junction_of(BOARD, APP, WEB, routes=ROUTES)) as junction,
            board_at(connect=f"tcp://{junction.addresses['board']}") as (board, _),
        ):
            await until(lambda: len(junction.sessions) == 1)
            number = next(iter(junction.sessions))
            for url in (f"tcp://{junction.addresses['app']}", f"ws://{junction.addresses['web']}"):
                async with Client(url, timeout_s=5) as client:
                    answer = await client.command(1, type=10, ivals=[7, 5])
                    assert answer is not None
                    assert (answer.status, answer.board) == (5, number)
                    assert await client.leds(4, 0, board=number) == 1
                    assert await client.leds() == 1
                    assert (await client.profile("net", "word")).is_success
                    new = {"network": "n", "board": "b", "host": "h", "port": 1}
                    assert (await client.config(new)).status == 0
                    assert (await client.get_config()).config == new
                    assert not (await client.request(77, {"id": 1})).is_success  # type: ignore[union-attr]
                    unknown = await client.command(99)
                    assert unknown is not None
                    assert unknown.status == -1
                    assert await client.command(1, type=10, expects_answer=False) is None
                    with client.events(BUTTON_EVENT) as events, client.texts() as texts:
                        await board.send_event(12)
                        await board.send_event(BUTTON_EVENT, ivals=[-3])
                        event = await anext(events)
                        assert (event.id, event.board) == (BUTTON_EVENT, number)
                        assert event.event["ivals"] == [-3]
                        await board.print("hello")
                        assert await anext(texts) == "hello"
            assert board.status()["leds"] == 1

    asyncio.run(main())


def test_a_client_asks_again_and_the_board_does_it_once() -> None:
    async def main() -> None:
        settings = {"fault": ("silent",), "fault_rate": 0.6, "seed": 3}
        async with board_at(listen=LOCAL, **settings) as (board, said):
            done: list[int] = []
            async with Client(f"tcp://{said['listen']}", timeout_s=0.1, retries=30) as client:
                for value in range(8):
                    answer = await client.command(1, type=10, ivals=[7, value])
                    assert answer is not None
                    done.append(answer.status)
            assert done == list(range(8))
            assert board.faults.counted > 0
            assert len([line for line in board.happened if "Custom" in line]) == 8

    asyncio.run(main())


def test_no_answer_is_a_timeout_and_a_payload_that_is_too_large_is_said_at_once() -> None:
    async def main() -> None:
        async with board_at(listen=LOCAL, fault=("silent",), fault_rate=1.0) as (_, said):
            url = f"tcp://{said['listen']}"
            async with Client(url, timeout_s=0.05, retries=1, is_board=True) as client:
                with pytest.raises(TimeoutError, match="asked 2 times"):
                    await client.command(1, type=10)
                with pytest.raises(EncodeError, match="248"):
                    await client.secret("k" * 300)

    asyncio.run(main())


def test_what_a_faulty_board_sends_besides_frames_does_no_harm() -> None:
    async def main() -> None:
        faults = {"fault": ("garbage", "text", "slow"), "fault_rate": 0.5, "bytes_per_s": 20_000}
        async with (
            serving(junction_of(BOARD + "&idle-s=0.1", APP, routes=("board-app",))) as junction,
            board_at(connect=f"tcp://{junction.addresses['board']}", **faults) as (board, _),
        ):
            await until(lambda: len(junction.sessions) == 1)
            url = f"tcp://{junction.addresses['app']}"
            async with Client(url, timeout_s=0.5, retries=10) as client:
                for value in range(8):
                    assert await client.leds(7, value) == value
            assert board.faults.counted > 3
            assert junction.router.counters.problems > 0

    asyncio.run(main())


def test_a_client_connects_again_and_a_request_survives_it() -> None:
    async def main() -> None:
        async with serving(junction_of(BOARD, APP, routes=("board-app",))) as junction:
            url = f"tcp://{junction.addresses['app']}"
            async with Client(url, timeout_s=2, retries=5) as client:
                await until(lambda: len(junction.sessions) == 1)
                async with asyncio.TaskGroup() as group:
                    asked = group.create_task(client.leds(7, 3))
                    await until(lambda: junction.router.counters.stored == 1)
                    # The client's connection ends while it waits for an answer.
                    next(iter(junction.sessions.values())).close()
                    await until(lambda: not junction.sessions)
                    connect = f"tcp://{junction.addresses['board']}"
                    async with board_at(connect=connect):
                        assert await asked == 3
                assert client.reconnections >= 1

    asyncio.run(main())


def test_without_reconnection_the_end_is_the_end() -> None:
    async def main() -> None:
        async with serving(junction_of(BOARD, APP, routes=("board-app",))) as junction:
            url = f"tcp://{junction.addresses['app']}"
            async with Client(url, reconnects=False) as client:
                await until(lambda: len(junction.sessions) == 1)
                next(iter(junction.sessions.values())).close()
                with pytest.raises(ConnectionClosed):
                    await client.leds(1, 1)
                with pytest.raises(ConnectionClosed):
                    await client.send_text("x")
            with pytest.raises(StateError):
                await client.connect()
        with pytest.raises(OSError, match=r".*"):
            await Client(url).connect()

    asyncio.run(main())


def test_any_packet_and_text_can_be_sent_and_heard() -> None:
    async def main() -> None:
        async with (
            serving(junction_of("a=tcp://127.0.0.1:0", WEB, routes=("a-web",))) as junction,
            Client(f"tcp://{junction.addresses['a']}") as one,
            Client(f"ws://{junction.addresses['web']}") as two,
        ):
            await until(lambda: len(junction.sessions) == 2)
            with two.packets() as packets, two.texts() as texts, one.packets() as back:
                await one.send_packet(NaisPacket(type=80, payload=b"anything"))
                assert (await anext(packets)).payload == b"anything"
                await one.send_text("hello")
                assert await anext(texts) == "hello"
                await two.send_packet(NaisPacket(type=80, payload=b"x\x1e\x17"))
                assert (await anext(back)).payload == b"x\x1e\x17"

    asyncio.run(main())


def test_a_client_over_a_serial_line() -> None:
    async def main() -> None:
        left, right = os.openpty()
        import tty

        tty.setraw(left)
        device = os.ttyname(right)
        from wireloom.formats.nais.board import BoardSession

        board = BoardSession()
        loop = asyncio.get_running_loop()

        def readable() -> None:
            board.receive(os.read(left, 4096), loop.time())
            os.write(left, board.data_to_send())

        loop.add_reader(left, readable)
        try:
            async with Client(f"serial://{device}", is_board=True) as client:
                assert await client.leds(7, 6) == 6
        finally:
            loop.remove_reader(left)
            os.close(left)
            os.close(right)

    asyncio.run(main())


def test_the_blocking_client_does_the_same() -> None:
    found: dict[str, Any] = {}

    async def main() -> None:
        async with (
            serving(junction_of(BOARD, APP, routes=("board-app",))) as junction,
            board_at(connect=f"tcp://{junction.addresses['board']}", event_every_s=0.05) as (
                _,
                _said,
            ),
        ):
            await until(lambda: len(junction.sessions) == 1)
            url = f"tcp://{junction.addresses['app']}"

            def use() -> None:
                with SyncClient(url) as client:
                    found["leds"] = client.leds(7, 2)
                    found["config"] = client.get_config().config
                    found["profile"] = client.profile("a", "b").status
                    found["set"] = client.config({"network": "n", "board": "b", "host": "h"}).status
                    found["command"] = client.command(1, type=10).status  # type: ignore[union-attr]
                    found["request"] = client.request("Command", {"id": 77}).status  # type: ignore[union-attr]
                    found["event"] = next(client.events(12)).id
                    found["texts"] = list(client.texts(timeout_s=0.05))
                    client.send_text("x")
                    client.send_packet(NaisPacket(type=80, payload=b"x"))
                    client.secret("key")

            await asyncio.to_thread(use)

    asyncio.run(main())
    assert found["leds"] == found["command"] == 2
    assert found["config"]["board"] == "board"
    assert (found["profile"], found["set"], found["request"]) == (0, 0, -1)
    assert (found["event"], found["texts"]) == (12, [])
    assert not [each for each in threading.enumerate() if each.name == "nais"]
    with pytest.raises(StateError):
        SyncClient("tcp://127.0.0.1:1").leds()
    with pytest.raises(OSError, match=r".*"), SyncClient("tcp://127.0.0.1:1"):
        pass


def test_a_board_that_reboots_comes_back() -> None:
    async def main() -> None:
        async with (
            serving(junction_of(BOARD, APP, routes=("board-app",))) as junction,
            board_at(connect=f"tcp://{junction.addresses['board']}"),
        ):
            await until(lambda: len(junction.sessions) == 1)
            first = next(iter(junction.sessions))
            async with Client(f"tcp://{junction.addresses['app']}") as client:
                assert (await client.command(1)).status == 0  # type: ignore[union-attr]
                await until(lambda: first not in junction.sessions and len(junction.sessions) == 2)
                assert await client.leds(1, 1) == 1

    asyncio.run(main())


def test_the_page_shows_the_leds_and_escapes_what_others_wrote() -> None:
    async def main() -> None:
        async with board_at(listen=LOCAL, page=LOCAL, board="<b>x</b>") as (board, said):
            async with httpx.AsyncClient(base_url=said["page"]) as http:
                async with Client(f"tcp://{said['listen']}") as client:
                    await client.leds(7, 1)
                    await client.send_text("<script>alert(1)</script>\x1b[2J")
                    await client.leds(2, 2)
                page = await http.get("/")
                assert "<b>" not in page.text
                assert "<script>alert" not in page.text
                assert "\x1b" not in page.text
                assert "&lt;script&gt;alert" in page.text
                assert 'id="red" aria-pressed="true"' in page.text
                assert "default-src 'self'" in page.headers["content-security-policy"]
                assert (
                    (await http.get("/board.js"))
                    .headers["content-type"]
                    .startswith("text/javascript")
                )
                assert (await http.get("/board.css")).status_code == 200
                assert (await http.post("/leds/red")).status_code == 403
                own = {"X-Wireloom": "1"}
                state = (await http.post("/leds/red", headers=own)).json()
                assert state["leds"] == {"red": False, "yellow": True, "green": False}
                assert (await http.post("/leds/blue", headers=own)).status_code == 404
                assert (await http.post("/press", headers=own)).status_code == 200
                assert (await http.get("/state")).json()["happened"][-1].endswith("event 9001")
                named = {"Host": "rebound.example"}
                assert (await http.get("/", headers=named)).status_code == 421
            assert board.leds.lit == 2

    asyncio.run(main())


def test_a_page_that_others_reach_wants_a_token() -> None:
    with pytest.raises(OptionError, match="page-token"):
        Board(BoardSettings(listen=LOCAL, page=Address("0.0.0.0", 0)))

    async def main() -> None:
        async with (
            board_at(listen=LOCAL, page=LOCAL, page_token="s3cret") as (_, said),
            httpx.AsyncClient(base_url=said["page"]) as http,
        ):
            assert (await http.get("/")).status_code == 401
            assert (await http.get("/?token=wrong")).status_code == 401
            assert (await http.get("/?token=s3cret")).status_code == 303
            assert (await http.get("/")).status_code == 200
            assert "s3cret" not in str(said)

    asyncio.run(main())


def test_a_board_that_makes_no_sense_is_refused() -> None:
    for wrong in (
        {},
        {"listen": LOCAL, "connect": "tcp://h:1"},
        {"connect": "udp://h:1"},
        {"listen": LOCAL, "fault": ("bad",)},
        {"listen": LOCAL, "fault_rate": 2.0},
    ):
        with pytest.raises(OptionError):
            Board(BoardSettings(**wrong))  # type: ignore[arg-type]


def test_a_frame_that_is_no_message_is_counted_and_no_more() -> None:
    async def main() -> None:
        async with (
            serving(junction_of("a=tcp://127.0.0.1:0", APP, routes=("a-app",))) as junction,
            Client(f"tcp://{junction.addresses['a']}") as one,
            Client(f"tcp://{junction.addresses['app']}") as two,
        ):
            await until(lambda: len(junction.sessions) == 2)
            await one.send_packet(NaisPacket(type=6, payload=frame()))
            await until(lambda: two.problems == 1)

    asyncio.run(main())


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_page_and_switches_the_leds(tmp_path: Path) -> None:
    async def main() -> None:
        async with Browser(tmp_path) as page, board_at(listen=LOCAL, page=LOCAL) as (board, said):
            board.leds.lit = 4
            board.note("<i>shown as text</i>")
            await page.ask("Page.navigate", url=said["page"])
            # Before that, nobody would hear the clicks.
            await page.until("document.readyState === 'complete' && location.port !== ''")
            led = "document.getElementById('{}').getAttribute('aria-pressed')"
            await page.until(led.format("green") + " === 'true'")
            assert (
                await page.value("document.getElementById('happened').innerText")
                == (board.happened[0])
            )
            # A real click, at the middle of it.
            await page.click("red")
            await page.until(led.format("red") + " === 'true'")
            assert board.leds.lit == 5
            await page.click("green")
            await page.until(led.format("green") + " === 'false'")
            assert board.leds.lit == 1
            color = "getComputedStyle(document.getElementById('{}')).backgroundColor"
            lit, dark = (
                await page.value(color.format("red")),
                await page.value(color.format("green")),
            )
            assert (lit, dark) == ("rgb(255, 85, 85)", "rgb(17, 85, 51)")
            await page.click("press")
            await until(lambda: board.happened[-1].endswith("event 9001"))
            async with Client(f"tcp://{said['listen']}") as client:
                await client.leds(7, 2)
                await page.until(led.format("yellow") + " === 'true'")
                await page.until("document.getElementById('state').innerText.endsWith(': 1')")
        assert not page.complaints

    asyncio.run(main())


class Browser:
    """A browser without a window, by its own protocol."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "browser"
        self._count = 0
        self.complaints: list[str] = []
        """Errors on the page's console."""

    async def __aenter__(self) -> Self:
        assert CHROMIUM is not None
        quiet = ("first-run", "background-networking", "component-update", "sync")
        self._process = await asyncio.create_subprocess_exec(
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
            *("--no-first-run", *(f"--disable-{name}" for name in quiet[1:])),
            *(f"--user-data-dir={self._folder}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        told = self._folder / "DevToolsActivePort"
        await until(lambda: told.exists() and "\n" in told.read_text(), within_s=60)
        async with httpx.AsyncClient() as http:
            pages = await http.get(f"http://127.0.0.1:{told.read_text().split()[0]}/json")
        (page,) = [each for each in pages.json() if each["type"] == "page"]
        self._socket = await connect(page["webSocketDebuggerUrl"])
        await self.ask("Runtime.enable")
        await self.ask("Log.enable")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        self._process.terminate()
        await self._process.wait()

    async def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        await self._socket.send(json.dumps({"id": self._count, "method": method, "params": params}))
        while True:
            said = json.loads(await self._socket.recv())
            if said.get("id") == self._count:
                return said["result"]
            if said.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(str(said["params"]))

    async def value(self, expression: str) -> Any:
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        async with asyncio.timeout(20):
            while not await self.value(expression):  # noqa: ASYNC110 - a page tells nobody
                await asyncio.sleep(0.05)

    async def click(self, name: str) -> None:
        box = f"document.getElementById('{name}').getBoundingClientRect()"
        at = await self.value(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}
            await self.ask("Input.dispatchMouseEvent", **event)
