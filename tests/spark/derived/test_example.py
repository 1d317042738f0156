"""The notebook-style example does what it says, on a folder of rotated captures."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wireloom.generate import Faults, generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "captures_to_bars.py"


def test_from_captures_to_bars_and_latencies(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 20
    captures = tmp_path / "captures"
    captures.mkdir()
    for seed in (1, 2):
        generate(
            captures / f"{seed}.pcapng.gz",
            ["tibmsg", "blaze"],
            messages=400,
            seed=seed,
            compression="gzip",
            faults=Faults(loss=0.01, reorder=0.02),
        )
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(captures), str(tmp_path / "lake")])
    runpy.run_path(str(EXAMPLE))
    shown = capsys.readouterr().out
    bars, latencies = shown.split("only showing top 5 rows")
    assert ".N|2023-11-15 14:30:00|" in bars
    assert " ok|" in latencies
