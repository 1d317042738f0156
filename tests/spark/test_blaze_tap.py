"""What a broker's tap has recorded is what its store holds."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.blaze_peers import MODEL, Raw, truck
from oracles.blaze_program import Program
from oracles.blaze_taps import store_objects, tap_objects

from wireloom.formats.blaze import Action, Encoding, encode_nclass


async def _traffic(address: str) -> None:
    async with await Raw.connect(address) as writer, await Raw.connect(address) as reader:
        for number in range(1, 11):
            await writer.ask(value=truck(number, x=number, name=f"truck {number}"))
        await reader.subscribe()
        for _ in range(11):
            await reader.event()
        for number in (2, 4):
            await writer.ask(Action.UPD, truck(number, x=-number))
        body = encode_nclass(truck(6, x=60, temps={1: 7}), Encoding.INDEXDELTA, first_index=1)
        answer = await writer.ask(
            Action.DLT, truck(6), enctyp=Encoding.INDEXDELTA, body=body, rsclrq=1
        )
        assert answer.txresl == 1
        await writer.ask(Action.DEL, truck(9))
        for _ in range(4):
            await reader.event()


@pytest.mark.nightly  # it starts a Spark of its own; a soak of one minute compares the same
def test_objects_of_the_tap_are_those_of_the_store(tmp_path: Path) -> None:
    store, tap = f"sqlite:///{tmp_path / 'fleet.db'}", tmp_path / "tap"
    with Program.start(tmp_path, store, "--tap", str(tap)) as program:
        asyncio.run(_traffic(program.address))
        assert program.terminate() == 0
    [file] = tap.iterdir()
    decoded = subprocess.run(
        [sys.executable, "-m", "wireloom.cli", "decode", str(file), "--format", "blaze", "--json"],
        capture_output=True,
        check=True,
        timeout=120,
    )
    names = [json.loads(line)["packet"] for line in decoded.stdout.splitlines()]
    assert names.count("TXRQST") == names.count("TXRESP") == 14
    assert names.count("SBSEVT") == 15
    held = asyncio.run(store_objects(store, MODEL, "TRUCK"))
    assert len(held) == 9
    assert tap_objects(tap, tmp_path / "fleet.blz", tmp_path / "lake") == held
