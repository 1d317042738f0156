"""The client and its commands against ``wireloom serve blaze``, which is killed now and then."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="brokers need the extra `serve`")

from oracles.blaze_broker import FLEET, MODEL
from oracles.blaze_program import Program

from wireloom.formats.blaze import Action, FlowType, SubscriptionMode, SubscriptionType
from wireloom.formats.blaze.classes import classes_of
from wireloom.services.blaze import Backoff, Client, SubscriptionRefused, TransactionRefused

TRUCK: Any = classes_of(MODEL).TRUCK


def start(folder: Path, *options: str, listen: str = "127.0.0.1:0") -> Program:
    store = f"sqlite:///{folder / 'fleet.db'}"
    return Program.start(folder, store, "--listen", listen, *options, model=FLEET)


def to(broker: Program, **options: Any) -> Client:
    host, _, port = broker.address.rpartition(":")
    pauses = Backoff(first=0.05, most=0.2)
    return Client.connect(host, int(port), model=MODEL, reconnect=pauses, **options)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["document", "2017", "2019"])
def test_everything_that_a_client_does(tmp_path: Path, dialect: str) -> None:
    async def run(broker: Program) -> None:
        async with asyncio.timeout(60), to(broker, dialect=dialect) as client:
            results = await client.insert_many(TRUCK(truck_id=i + 1, name="x") for i in range(300))
            assert all(result.is_ok for result in results)
            with pytest.raises(TransactionRefused):
                await client.insert(TRUCK(truck_id=1))
            async with client.subscribe(TRUCK) as events:
                got = [(await anext(events)).object.truck_id for _ in range(300)]
                assert got == list(range(1, 301))
                if dialect != "2019":
                    assert (await anext(events)).is_download_end
                with pytest.raises(SubscriptionRefused):
                    await client.subscribe(TRUCK).start()
                await client.update(TRUCK(truck_id=5, name="new"))
                await client.delete(TRUCK(truck_id=6))
                first, second = await anext(events), await anext(events)
                assert (first.action.name, first.object.name) == ("UPD", "new")  # type: ignore[union-attr]
                assert (second.action.name, second.object.truck_id) == ("DEL", 6)  # type: ignore[union-attr]
                position = events.position
            await client.update(TRUCK(truck_id=7, name="newer"))
            async with client.subscribe(TRUCK, resume=position, flow=FlowType.LAST) as events:
                assert (await anext(events)).object.name == "newer"
            if dialect == "document":
                kind = SubscriptionType.INCREMENTAL
                async with client.subscribe(TRUCK, kind=kind) as events:
                    while not (await anext(events)).is_download_end:
                        pass
                    await client.merge(TRUCK(truck_id=7, speed=4.0), fields=["speed"])
                    event = await anext(events)
                    assert event.action is Action.DLT
                    assert event.object == TRUCK(truck_id=7, name="newer", speed=4.0)
                past = client.subscribe(TRUCK, mode=SubscriptionMode.PAST)
                # Of 300 objects one is deleted, of which nobody is told who has none yet; the end.
                assert len([event async for event in past]) == 300

    with start(tmp_path, "--dialect", dialect, "--window", "1") as broker:
        asyncio.run(run(broker))


@pytest.mark.slow
def test_a_broker_that_is_killed_loses_and_doubles_nothing_for_its_client(tmp_path: Path) -> None:
    total, kills = 2000, 2

    async def run(broker: Program) -> None:
        known: set[int] = set()
        seen: list[int] = []
        programs = [broker]
        async with (
            asyncio.timeout(100),
            to(broker, max_flying=64) as writer,
            to(broker) as reader,
            asyncio.TaskGroup() as group,
        ):

            async def write() -> None:
                for start_at in range(1, total + 1, 100):
                    wanted = list(range(start_at, start_at + 100))
                    while wanted:  # what is not known is tried again
                        results = await writer.insert_many(
                            TRUCK(truck_id=i, name="x") for i in wanted
                        )
                        # Refused: it is there, the answer to the first attempt was lost.
                        pairs = zip(wanted, results, strict=True)
                        known.update(i for i, r in pairs if r.is_sent and r.is_known)
                        wanted = [i for i in wanted if i not in known]

            async def read() -> None:
                async with reader.subscribe(TRUCK) as events:
                    stamps = set()
                    while set(seen) < set(range(1, total + 1)):
                        event = await anext(events)
                        if not event.is_download_end:
                            assert event.stamp not in stamps
                            stamps.add(event.stamp)
                            seen.append(event.object.truck_id)
                    assert len(seen) == total

            async def kill() -> None:
                for _ in range(kills):
                    count = len(known)
                    while len(known) < min(count + 500, total - 100):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    address = programs[-1].address
                    await asyncio.to_thread(programs[-1].kill)
                    made = await asyncio.to_thread(
                        start, tmp_path, "--window", "64", listen=address
                    )
                    programs.append(made)

            group.create_task(write())
            group.create_task(read())
            group.create_task(kill())
        programs[-1].kill()
        assert known == set(range(1, total + 1))
        assert reader.counts["connections"] >= kills

    with start(tmp_path, "--window", "64") as broker:
        asyncio.run(run(broker))


def wireloom(*words: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "wireloom.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.slow
def test_commands_and_a_replay_of_what_the_broker_has_recorded(tmp_path: Path) -> None:
    csv = tmp_path / "trucks.csv"
    csv.write_text("truck_id,name\n" + "".join(f"{i},n{i}\n" for i in range(1, 201)))
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with start(first, "--tap", str(tmp_path / "tap"), "--metrics", "127.0.0.1:0") as broker:
        here = ["--model", first / "fleet.blz", "--at", broker.address]
        wireloom("blaze", "load", csv, "TRUCK", *here, "--rejects", tmp_path / "rejects.jsonl")
        wireloom("blaze", "tx", "upd", "TRUCK", "truck_id=7", "name=seven", *here)
        wireloom("blaze", "tx", "ins", "TRUCK", "truck_id=7", *here, code=1)
        rows = wireloom("blaze", "sub", "TRUCK", "--past", "--json", *here).splitlines()
        assert len(rows) == 201
        assert json.loads(rows[-2])["object"] == {"truck_id": 7, "name": "seven"}
        status = json.loads(wireloom("blaze", "status", broker.ready["metrics"], "--json"))
        assert status
        assert broker.terminate() == 0
    (capture,) = (tmp_path / "tap").glob("*.pcapng")
    with start(second) as broker:
        told = wireloom("blaze", "replay", capture, "--at", broker.address, "--speed", 0, "--json")
        report = json.loads(told)
        assert report["equal"], report
        assert report["connections"] == 4
        assert report["packets"]["TXRESP"]["equal"] == 202
        assert report["packets"]["SBSEVT"]["equal"] == 202  # the end, and STOP
