"""Processes of Spark that are killed: afterwards the lake is as if nothing had happened."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

import pytest
from oracles.crashes import Target, kill_until_done
from oracles.lakes import lake_tables

from wireloom.generate import Faults, generate
from wireloom.pipeline import run_pipeline

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or sys.platform != "linux", reason="looks into /proc"
)

COMMITS = ("--split-bytes", "30000", "--commit-bytes", "90000", "-q")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    damaged = Faults(corruption=0.01)
    for number in range(3):
        path = folder / f"{number}.bin"
        generate(path, ["tibmsg"], size=90_000, container="raw", seed=number, faults=damaged)
    lossy = Faults(loss=0.01, reorder=0.02)
    generate(folder / "p.pcap", ["tibrv", "nrep"], size=90_000, container="pcap", faults=lossy)
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))  # complete, for one that follows them
    return folder


@pytest.fixture(scope="module")
def undisturbed(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    run_pipeline(captures, lake)
    return lake_tables(lake)


def check(lake: Path, undisturbed: dict[str, list[str]]) -> None:
    assert lake_tables(lake) == undisturbed
    assert not (lake / "_wireloom" / "staging").exists() or not any(
        (lake / "_wireloom" / "staging").iterdir()
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("target", "master"),
    [
        # Each start of Spark costs half a minute; ``./run fuzz spark-crash`` goes on for hours.
        pytest.param("driver", "local[2,4]", marks=pytest.mark.nightly),
        ("worker", "local[2,4]"),
        pytest.param("executor", "local-cluster[2,1,1024]", marks=pytest.mark.nightly),
    ],
)
def test_killing_a_process_of_spark_changes_nothing(
    captures: Path,
    undisturbed: dict[str, list[str]],
    tmp_path: Path,
    target: Target,
    master: str,
) -> None:
    lake = tmp_path / "lake"
    arguments = ["pipeline", str(captures), "--out", str(lake), "--master", master, *COMMITS]
    most_s = 20 if target == "driver" else 2
    done = kill_until_done(arguments, target, Random(3), kills=1, most_s=most_s)
    assert done.kills == 1
    check(lake, undisturbed)
