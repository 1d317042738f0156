"""A format of another package is found by its entry point; one that fails is only reported."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from wireloom import formats
from wireloom.formats import GROUP, REGISTRY, _load
from wireloom.layout import Rest, packet
from wireloom.testing import conformance

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_format"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed, as pip would leave it."""
    folder = tmp_path_factory.mktemp("own_format")
    site = folder / "site"
    example = folder / "example"  # a build leaves files beside the source
    shutil.copytree(EXAMPLE, example)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "--target", str(site), str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "wireloom.cli", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_example_is_installed_and_used(site: Path, tmp_path: Path) -> None:
    frame = b"PING\x01\x00\x0c\x00\x07\x00\x00\x00"
    path = tmp_path / "ping.bin"
    path.write_bytes(frame * 3)
    assert "ping" in run(site, "formats").stdout
    decoded = run(site, "decode", str(path), "--json")
    assert decoded.returncode == 0, decoded.stderr
    assert [json.loads(line)["packet"] for line in decoded.stdout.splitlines()] == ["ASK"] * 3


@pytest.mark.slow
def test_one_that_fails_to_load_is_reported_and_not_fatal(site: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(site, tmp_path / "site", ignore=lambda *_: {"__pycache__"})
    (broken / "wireloom_ping" / "__init__.py").write_text("raise OSError('no way')\n")
    listed = run(broken, "formats")
    assert listed.returncode == 0, listed.stderr
    assert "ping" not in listed.stdout
    doctor = run(broken, "doctor", "--json")
    assert "format ping" in doctor.stdout
    assert "OSError: no way" in doctor.stdout


@pytest.mark.slow
def test_the_example_and_the_toys_do_what_every_format_must_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in (EXAMPLE / "src", Path(__file__).parent):
        monkeypatch.syspath_prepend(str(folder))
    for package in ("wireloom_ping", "toy_format", "toy_note"):
        format = importlib.import_module(package).FORMAT
        monkeypatch.setitem(REGISTRY, format.name, package)
        conformance.check(format)
    _load.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_one_that_cannot_have_a_table_is_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    import wireloom_ping  # type: ignore[import-not-found]

    @packet(code=3, name="ODD", parts=(Rest("number"),))
    class Odd(wireloom_ping.PingPacket):  # type: ignore[misc, name-defined]
        number: bytes

    class Named(wireloom_ping.Ping):  # type: ignore[misc, name-defined]
        name = "errors"

    class Mixed(wireloom_ping.Ping):  # type: ignore[misc, name-defined]
        name = "mixed"

        def packets(self):
            return *super().packets(), Odd

    made = {"named": Named(), "mixed": Mixed()}
    for name, format in made.items():
        monkeypatch.setattr(wireloom_ping, name, format, raising=False)
    points = [point("errors", "wireloom_ping:named"), point("mixed", "wireloom_ping:mixed")]
    points += [point("ping", "wireloom_ping:FORMAT"), point("nrep", "wireloom_ping:FORMAT")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    formats._others.cache_clear()
    try:
        assert "ping" in formats.names()
        assert formats.failures() == {
            "errors": "ValueError: a table has the name 'errors'",
            "mixed": "TypeError: Odd: number is binary, in another packet i64; rename one",
            "nrep": "TypeError: wireloom_ping:FORMAT is no Format of that name",
        }
    finally:
        formats._others.cache_clear()
