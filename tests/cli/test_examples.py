"""The examples run, and stay short enough to read at a glance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_examples_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) < 40
    # In its debug mode, asyncio complains of a busy machine.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONASYNCIODEBUG"}
    done = subprocess.run(
        [sys.executable, "-bb", "-W", "error", str(path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environ,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert not list(tmp_path.iterdir())
