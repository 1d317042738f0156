"""The fuzzer and the benchmarks run, and notice what they are there to notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "fuzz" / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.slow
def test_a_short_run_finds_nothing() -> None:
    few = ("--mutants", "300", "--captures", "20", "--jobs", "1")
    done = fuzz("--format", "nrep", *few, "--no-growth", "--no-tables")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 mutants" in done.stdout
    assert "no failures" in done.stdout


def test_an_input_can_be_run_again(tmp_path: Path) -> None:
    path = tmp_path / "nrep" / "input.bin"
    path.parent.mkdir()
    path.write_bytes(bytes.fromhex("00044433221108000000040000006563686f"))
    done = fuzz("--reproduce", str(path))
    assert done.returncode == 0, done.stderr
    assert "nothing wrong" in done.stdout


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "fuzz"))
    import growth  # type: ignore[import-not-found]

    found: ModuleType = growth
    return found


@pytest.mark.slow
def test_quadratic_time_is_noticed(growth: ModuleType) -> None:
    def quadratic(data: bytes) -> None:
        for _ in range(len(data) // 64):
            sum(data)

    assert "faster than size" in growth._grows(bytes, quadratic)


def test_linear_time_is_not(growth: ModuleType) -> None:
    def linear(data: bytes) -> None:
        for _ in range(100):
            sum(data)

    assert growth._grows(bytes, linear) is None


def test_a_failure_is_saved_with_a_command_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "fuzz"))
    import mutants  # type: ignore[import-not-found]

    monkeypatch.setattr(mutants, "CRASHES", tmp_path / "fuzz" / "crashes")
    command = mutants.save("nrep", b"bad", "why")
    path = tmp_path / command.split()[-1]
    assert path.read_bytes() == b"bad"
    assert path.with_suffix(".txt").read_text() == "why\n"


@pytest.mark.parametrize("name", ["blaze", "nais", "nrep", "qform", "tibmsg", "tibrv"])
def test_the_benchmark_s_peers_read_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("construct")
    pytest.importorskip("kaitaistruct")
    monkeypatch.syspath_prepend(str(ROOT))
    from importlib import import_module

    import_module(f"benchmarks.peers.{name}").CASE.verify()


def test_every_benchmark_that_is_run_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from importlib import import_module

    # Loading it puts the checkout in the place of the first folder of the path.
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = import_module("benchmarks.run").names()
    assert {"blaze", "columnar", "spark"} <= set(found)
    for name in found:
        assert callable(import_module(f"benchmarks.{name}").main), name
