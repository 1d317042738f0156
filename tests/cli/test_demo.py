from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

import wireloom
from wireloom import demo
from wireloom.framing import Frame, Problem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown() -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, highlight=False, markup=False, emoji=False)
    demo.main(console, has_spark=False)
    return out.getvalue()


def test_every_part_has_its_heading(shown: str) -> None:
    for number, (heading, _) in enumerate([(demo.LIVE, None), *demo.PARTS], 1):
        assert f"{number}. {heading}" in shown


def test_live_traffic_became_tables_and_nothing_is_missing(shown: str) -> None:
    assert "Blaze: 800 transactions" in shown
    assert "3,000 quotes" in shown
    assert "the sum is right" in shown
    rows = dict(line.split()[:2] for line in shown.splitlines() if len(line.split()) > 1)
    assert (rows["quarantined"], rows["gap"]) == ("0", "0")


def test_samples_of_all_formats_are_written_again(shown: str) -> None:
    for name in wireloom.formats():
        line = next(line for line in shown.splitlines() if re.match(rf"{name} +\d+ .* of ", line))
        _, count, _, same, of, again, *_ = line.split()
        assert (same, of, again) == (count, "of", count)


def test_the_nested_message_is_found(shown: str) -> None:
    assert "tibrv in data\n" in shown
    assert "tibmsg in data._data_\n" in shown
    assert "175.92" in shown


def test_everything_after_the_damage_is_found(shown: str) -> None:
    assert "298 of 298 undamaged messages found" in shown
    records = list(wireloom.scan(demo.damaged_stream(), "tibmsg"))
    assert sum(isinstance(record, Frame) for record in records) == 298
    assert sum(isinstance(record, Problem) for record in records) == 3
    assert b"".join(record.data for record in records) == demo.damaged_stream()


def test_it_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-bb", "-W", "error", "-m", "wireloom.demo", "--without-spark"],
        # It would complain of slow steps on a busy machine.
        env={**os.environ, "PYTHONASYNCIODEBUG": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1. ")
