"""Whatever the bytes: no traceback, and nothing that steers a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.cli import main
from wireloom.formats import get

STEERING = "\x1b\x9b\u202e\r\x7f\x00\x08"
COMMANDS = (
    "inspect --raw -",
    "decode --nested --errors - --json",
    "decode --nested --errors - --csv",
    "decode --nested --errors - --table",
    "convert --to json",
)
EVIL = b"\x1b[31m\xc2\x9b\xe2\x80\xae[bold]\r\x7f"


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    samples = st.sampled_from(list(get(name).samples().values()))
    data = bytearray(b"".join(draw(st.lists(samples, min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 4))
        data[at : at + gone] = draw(st.binary(max_size=4) | st.just(EVIL))
    return bytes(data)


@pytest.mark.parametrize("name", wireloom.formats())
def test_no_bytes_break_a_command_or_steer_the_terminal(name: str, runner: CliRunner) -> None:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(damaged(name), st.sampled_from(COMMANDS))
    def check(data: bytes, command: str) -> None:
        words = [*command.split(), "-f", name]
        result = runner.invoke(main, words, input=data, env={"COLUMNS": "100"})
        details: Any = (command, data.hex(), result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), details
        assert result.exit_code in (0, 1), details
        assert not set(STEERING) & set(result.stdout + result.stderr), details
        assert "warning" not in result.stderr, details  # every byte is accounted for

    check()
