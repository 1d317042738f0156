"""The live part: a broker, a junction with two boards and an entry point, on loopback.

They are the programs that a user starts, each a process of its own, with port 0 and a tap. Clients
send real traffic through them, while a pipeline follows the taps into a lake.
"""

from __future__ import annotations

import asyncio
import json
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

from wireloom.formats import tibmsg, tibrv
from wireloom.formats.blaze import load_blz
from wireloom.formats.blaze.classes import classes_of
from wireloom.generate.schemas import write_schemas
from wireloom.pipeline import Report, StreamOptions, follow
from wireloom.tabulate import Settings

__all__ = ["Crossed", "run_live"]

ORDERS = 400
QUOTES = 3_000
COMMANDS = 20
SYMBOLS = ("ABC.N", "DEF.L", "GHI.PA", "JKL.DE")
_READY_S = 60.0
_STOP_S = 30.0


@dataclass(slots=True)
class Crossed:
    """What went through, as the clients counted it."""

    transactions: int = 0
    events: int = 0
    quotes: int = 0
    quote_bytes: int = 0
    commands: int = 0
    board_events: int = 0
    seconds: float = 0.0


@contextmanager
def _program(*words: str) -> Iterator[dict[str, Any]]:
    """A command of ``wireloom`` that runs; gives what its ready line says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wireloom.cli", *words, "--log-level", "error"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], _READY_S)[0]:
            raise TimeoutError(f"{' '.join(words[:2])} is not ready after {_READY_S:.0f} seconds")
        line = process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{' '.join(words[:2])} has ended before it was ready")
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run_live(folder: Path) -> tuple[Crossed, Report]:
    """Run all of it; the lake is then in ``lake``, what the programs recorded in ``taps``.

    Raises:
        TimeoutError: a service is not ready in time.
        ChildProcessError: a service has ended.
        TransactionFailed: a transaction has failed.
    """
    schemas = write_schemas(folder / "schemas")
    taps, stop = folder / "taps", Event()
    taps.mkdir()
    reports: list[Report] = []

    def follow_taps(ports: dict[int, str]) -> None:
        options = {"blaze.model": str(schemas["model"]), "nrep.extensions": True}
        settings, how = Settings(ports=ports, options=options), StreamOptions(every_s=0.5)
        reports.append(follow([taps], folder / "lake", settings, following=how, stop=stop))

    # The pipeline ends after the programs, whose files are whole then.
    with ExitStack() as last, ExitStack() as programs:

        def start(*words: str) -> dict[str, Any]:
            return programs.enter_context(_program(*words))

        tap = ("--tap", str(taps))
        model, store = str(schemas["model"]), f"sqlite:///{folder / 'orders.db'}"
        at = ("--listen", "127.0.0.1:0")
        blaze = start("serve", "blaze", "--model", model, "--store", store, *at, *tap)
        lines = ("--line", "board=tcp://127.0.0.1:0?board", "--line", "app=tcp://127.0.0.1:0")
        nais = start("serve", "nais", *lines, "--route", "board-app", *tap)
        found = ("--discovery", "127.0.0.1:0", "--state", str(folder / "identity"))
        nrep = start("serve", "nrep", *at, *found, *tap)
        ports = dict.fromkeys(map(_port, nais["lines"].values()), "nais")
        ports |= {_port(blaze["listen"]): "blaze", _port(nrep["listen"]): "nrep"}
        follower = Thread(target=follow_taps, args=(ports,), name="pipeline")
        follower.start()
        last.callback(follower.join)
        last.callback(stop.set)
        board = f"tcp://{nais['lines']['board']}"
        for name in ("hall", "roof"):
            start("nais", "board", "--connect", board, "--name", name, "--event-every-s", "0.1")
        crossed = asyncio.run(_traffic(blaze, nais, nrep, Path(model)))
    return crossed, reports[0]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def _traffic(
    blaze: dict[str, Any], nais: dict[str, Any], nrep: dict[str, Any], model: Path
) -> Crossed:
    crossed, began = Crossed(), time.monotonic()
    async with asyncio.timeout(_READY_S), asyncio.TaskGroup() as group:
        group.create_task(_orders(blaze["listen"], model, crossed))
        group.create_task(_boards(nais["lines"]["app"], crossed))
        group.create_task(_market_data(nrep["listen"], nrep["fingerprint"], crossed))
    crossed.seconds = time.monotonic() - began
    return crossed


async def _orders(address: str, path: Path, crossed: Crossed) -> None:
    """One client trades, another one watches."""
    from wireloom.services.blaze import Client

    host, _, port = address.rpartition(":")
    orders, dice = classes_of(load_blz(path)), random.Random(1)

    async def watch(is_watching: asyncio.Event) -> None:
        async with Client.connect(host, int(port)) as client:
            subscription = client.subscribe(orders.ORDER)
            async for event in subscription:
                if event.is_download_end:
                    is_watching.set()
                    continue
                crossed.events += 1
                if crossed.events == 2 * ORDERS:
                    return

    async with asyncio.TaskGroup() as group, Client.connect(host, int(port)) as client:
        is_watching = asyncio.Event()
        group.create_task(watch(is_watching))
        await is_watching.wait()
        for number in range(1, ORDERS + 1):
            order = orders.ORDER(
                order_id=number,
                symbol=dice.choice(SYMBOLS),
                side=dice.choice((orders.SIDE.BUY, orders.SIDE.SELL)),
                quantity=100 * dice.randint(1, 20),
                price=round(dice.uniform(10, 200), 2),
                state=orders.ORDER_STATE.LIVE,
            )
            await client.insert(order)
            order.filled, order.state = order.quantity, orders.ORDER_STATE.FILLED
            await client.update(order)
            crossed.transactions += 2


async def _boards(address: str, crossed: Crossed) -> None:
    """A program that switches LEDs and listens to what the boards report."""
    from wireloom.services.nais import Client

    async with Client(f"tcp://{address}") as client:
        with client.events() as events:
            for number in range(COMMANDS):
                await client.leds(mask=7, values=number & 7, board=1)
                crossed.commands += 1
            heard = set()
            async for event in events:
                crossed.board_events += 1
                heard.add(event.board)
                if crossed.board_events >= COMMANDS and len(heard) == 2:
                    return


async def _market_data(address: str, fingerprint: str, crossed: Crossed) -> None:
    """A feed of quotes, published as an app and read through a relayed socket over TLS."""
    from wireloom.services.nrep import Client, SocketWriter, Trust

    quotes = list(_quotes())

    async def serve(_: asyncio.StreamReader, writer: SocketWriter) -> None:
        for data in quotes:
            writer.write(data)
            await writer.drain()
        writer.close()

    trust = Trust(pin=fingerprint)
    async with Client(address, trust=trust) as feed, Client(address, trust=trust) as reader:
        await feed.publish("quotes", serve)
        stream, writer = await reader.open("quotes")
        received = await stream.read()
        writer.close()
    if received != b"".join(quotes):
        raise ChildProcessError("the quotes that were relayed are not those that were sent")
    crossed.quotes, crossed.quote_bytes = len(quotes), len(received)


def _quotes() -> Iterator[bytes]:
    """Rendezvous messages with a TibMsg quote each."""
    dice = random.Random(2)
    prices = {symbol: Decimal(dice.randint(1_000, 20_000)) / 100 for symbol in SYMBOLS}
    for number in range(QUOTES):
        symbol = SYMBOLS[number % len(SYMBOLS)]
        prices[symbol] += Decimal(dice.randint(-5, 5)) / 100
        fields = {
            "SYMBOL": symbol,
            "BID": prices[symbol],
            "ASK": prices[symbol] + Decimal("0.02"),
            "SIZE": 100 * dice.randint(1, 9),
        }
        yield tibrv.build({"_data_": tibmsg.build(fields).encode()}).encode()
