"""A format of another package is found by its entry point; one that fails is only reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_format"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the example is installed, as pip would leave it."""
    site = tmp_path / "site"
    example = tmp_path / "example"  # a build leaves files beside the source
    shutil.copytree(EXAMPLE, example)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "--target", str(site), str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wireloom.cli", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_example_is_installed_and_used(installed: dict[str, str], tmp_path: Path) -> None:
    frame = b"PING\x01\x00\x0c\x00\x07\x00\x00\x00"
    path = tmp_path / "ping.bin"
    path.write_bytes(frame * 3)
    assert "ping" in run(installed, "formats").stdout
    decoded = run(installed, "decode", str(path), "--json")
    assert decoded.returncode == 0, decoded.stderr
    assert [json.loads(line)["packet"] for line in decoded.stdout.splitlines()] == ["ASK"] * 3


def test_one_that_fails_to_load_is_reported_and_not_fatal(
    installed: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site" / "wireloom_ping" / "__init__.py").write_text("raise OSError('no way')\n")
    listed = run(installed, "formats")
    assert listed.returncode == 0, listed.stderr
    assert "ping" not in listed.stdout
    doctor = run(installed, "doctor", "--json")
    assert "format ping" in doctor.stdout
    assert "OSError: no way" in doctor.stdout
