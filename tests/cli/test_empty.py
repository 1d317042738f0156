"""What is no input means the same to every command.

One without bytes: nothing in it, which is said, and no error. No file, or a folder in place of one:
wrong usage.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from wireloom.generate.traffic import pcap_header

COMMANDS = [
    "decode",
    "decode -f nrep",
    "decode --tables frames",
    "decode --tables frames --csv",
    "stat",
    "stat --json",
    "inspect",
    "inspect -f tibmsg",
    "convert --to json",
    "convert -f tibmsg --to tibrv",
    "encode",
]

FILE_COMMANDS = [
    "verify",
    "verify --tshark",
    "dict show",
    "dict check",
    "dict convert --to csv",
    "model show",
    "model check",
]


@pytest.mark.parametrize("words", COMMANDS)
def test_an_empty_input_is_no_error_and_is_said(run: Any, tmp_path: Path, words: str) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert "the input is empty\n" in run(*words.split(), path).stderr
    assert "the input is empty\n" in run(*words.split(), stdin=b"").stderr


@pytest.mark.parametrize("words", COMMANDS[:-1])
def test_an_input_without_data_is_no_error_and_is_said(
    run: Any, tmp_path: Path, words: str
) -> None:
    for name, data in (("gz", gzip.compress(b"")), ("pcap", pcap_header())):
        path = tmp_path / f"empty.{name}"
        path.write_bytes(data)
        assert "there is no data in the input\n" in run(*words.split(), path).stderr
        assert "there is no data in the input\n" in run(*words.split(), stdin=data).stderr


def test_an_empty_file_goes_into_a_lake_without_an_error(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty.bin"
    path.write_bytes(b"")
    run("pipeline", path, "-o", tmp_path / "lake", "--master", "none")


@pytest.mark.parametrize("words", FILE_COMMANDS)
def test_an_empty_file_is_no_error_and_is_said(run: Any, tmp_path: Path, words: str) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert "the input is empty\n" in run(*words.split(), path).stderr


@pytest.mark.parametrize("words", [*COMMANDS, *FILE_COMMANDS])
def test_a_missing_file_and_a_folder_are_wrong_usage(run: Any, tmp_path: Path, words: str) -> None:
    assert run(*words.split(), tmp_path / "missing", code=2).stdout == ""
    if "dict" not in words:  # which reads the dictionaries of a folder
        assert run(*words.split(), tmp_path, code=2).stdout == ""
