from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wireloom.cli import main
from wireloom.formats import get
from wireloom.generate import Faults, Manifest, generate, write_schemas

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def runner() -> CliRunner:
    """Runs commands in this process."""
    try:
        return CliRunner(mix_stderr=False)  # click before 8.2 mixes stdout and stderr otherwise
    except TypeError:
        return CliRunner()


@pytest.fixture
def run(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line; what it should exit with is checked at once, unless it is None."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object, code: int | None = 0, stdin: bytes | str | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        result = runner.invoke(main, words, input=stdin, prog_name="wireloom")
        details: Any = (result.stdout, result.stderr, result.exception)
        assert code is None or result.exit_code == code, details
        assert result.exception is None or isinstance(result.exception, SystemExit), details
        return result

    return call


@pytest.fixture(scope="session")
def stream() -> bytes:
    """All NREP samples back to back."""
    return b"".join(get("nrep").samples().values())


@pytest.fixture
def capture(tmp_path: Path, stream: bytes) -> Path:
    """A file of NREP packets."""
    path = tmp_path / "capture.bin"
    path.write_bytes(stream)
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Two good packets with five bytes between them that belong to none."""
    path = tmp_path / "damaged.bin"
    hello = get("nrep").samples()["hello"]
    path.write_bytes(hello + b"\x1b[31m" + hello)
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest, dict[str, Path]]:
    """A capture of all formats without faults, what is in it, and its schemas."""
    folder = tmp_path_factory.mktemp("made")
    path = folder / "day.pcapng.zst"
    manifest = generate(path, size=400_000, seed=3, compression="zstd", connections=1)
    return path, manifest, write_schemas(folder / "schemas")


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """A capture with lost, late, repeated and damaged packets."""
    path = tmp_path_factory.mktemp("faulty") / "bad.pcap"
    faults = Faults(loss=0.02, reorder=0.05, duplicates=0.02, corruption=0.01)
    return path, generate(path, size=400_000, seed=4, container="pcap", faults=faults)
