from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wireloom.cli import main
from wireloom.formats import get

Run = Callable[..., Result]


def runner() -> CliRunner:
    try:
        return CliRunner(mix_stderr=False)  # click before 8.2 mixes stdout and stderr otherwise
    except TypeError:
        return CliRunner()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line; what it should exit with is checked at once."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object, code: int = 0, stdin: bytes | str | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        result = runner().invoke(main, words, input=stdin, prog_name="wireloom")
        details: Any = (result.stdout, result.stderr, result.exception)
        assert result.exit_code == code, details
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
