"""Pipelines that are killed: afterwards the lake is as if nothing had happened."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from random import Random

import pytest
from oracles.crashes import (
    COMMITS,
    captures_to_kill,
    check_lake,
    kill_until_done,
    rotated,
    write_slowly,
)
from oracles.lakes import lake_tables

from wireloom.generate import Faults, generate
from wireloom.lake import Lake
from wireloom.pipeline import run_pipeline
from wireloom.tabulate import Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists() or sys.platform != "linux", reason="looks into /proc"
    ),
]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captures_to_kill(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="module")
def undisturbed(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    run_pipeline(captures, lake)
    return lake_tables(lake)


def test_killing_the_driver_changes_nothing(
    captures: Path, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    arguments = ["pipeline", str(captures), "--out", str(lake), "--master", "none", *COMMITS]
    done = kill_until_done(arguments, "driver", Random(1), kills=4, most_s=4)
    assert done.kills
    check_lake(lake, undisturbed)


def test_killing_the_driver_of_a_stream_changes_nothing(
    captures: Path, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    arguments = ["pipeline", str(captures), "--out", str(lake), "--master", "none", *COMMITS]
    follow = [*arguments, "--stream", "--every", "0.05", "--settle", "1"]

    def is_over() -> bool:
        known = Lake(lake).state.inputs if (lake / "_wireloom/log").exists() else {}
        return len(known) == 4 and not any(one.is_open for one in known.values())

    kill_until_done(follow, "driver", Random(2), kills=3, most_s=4, is_over=is_over)
    check_lake(lake, undisturbed)


def test_killing_the_driver_of_a_stream_of_rotated_packets_changes_nothing(tmp_path: Path) -> None:
    folder, lake, random = tmp_path / "captures", tmp_path / "lake", Random(5)
    folder.mkdir()
    faults = Faults(loss=0.01, reorder=0.02, duplicates=0.01)
    whole = tmp_path / "whole.pcap"
    generate(whole, size=200_000, container="pcap", connections=1, seed=4, faults=faults)
    files = [(folder / f"{8 + n}.pcap", data) for n, data in enumerate(rotated(whole, 4))]
    tables = ("--tables", "frames,messages", "-q", "--master", "none")
    # Complete after a moment, so that connections are closed, and go on all the same.
    follow = ["pipeline", str(folder), "--out", str(lake), *tables, "--stream"]
    follow += ["--every", "0.05", "--settle", "0.5"]
    writing = threading.Thread(
        target=write_slowly, args=(files, Random(6)), kwargs={"total_s": 12.0}
    )
    writing.start()

    def is_over() -> bool:
        if writing.is_alive() or not (lake / "_wireloom/log").exists():
            return False
        known = Lake(lake).state.inputs.values()
        sizes = {one.path: one.size for one in known if not one.is_open}
        return sizes == {str(path): len(data) for path, data in files}

    done = kill_until_done(follow, "driver", random, kills=4, most_s=5, is_over=is_over)
    writing.join()
    assert done.kills == 4
    batch = tmp_path / "batch"
    run_pipeline(folder, batch, Settings(tables=("frames", "messages")))
    check_lake(lake, lake_tables(batch))
