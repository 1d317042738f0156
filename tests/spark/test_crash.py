"""Processes of Spark that are killed: afterwards the lake is as if nothing had happened."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from oracles.crashes import COMMITS, Target, captures_to_kill, check_lake, kill_until_done
from oracles.lakes import lake_tables

from wireloom.pipeline import run_pipeline

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or sys.platform != "linux", reason="looks into /proc"
)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captures_to_kill(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="module")
def undisturbed(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    run_pipeline(captures, lake)
    return lake_tables(lake)


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
    check_lake(lake, undisturbed)
