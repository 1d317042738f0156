from __future__ import annotations

import os
from pathlib import Path

import pytest

from wireloom.errors import SourceError
from wireloom.lake import Input, compare
from wireloom.lake.inputs import PIECE, digest_of


def known(*paths: Path) -> dict[str, Input]:
    return {str(path): compare([str(path)], {})[0].now for path in paths}


@pytest.fixture(params=[10, PIECE, 3 * PIECE + 7])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(request.param))
    return path


def kind_now(path: Path, before: dict[str, Input]) -> str:
    return compare([str(path)], before)[0].kind


def test_a_capture_that_was_read_is_the_same_whatever_its_time_says(capture: Path) -> None:
    before = known(capture)
    assert kind_now(capture, before) == "same"
    os.utime(capture, ns=(1, 1))
    assert kind_now(capture, before) == "same"


def test_more_behind_what_was_read_is_growth(capture: Path) -> None:
    before = known(capture)
    with capture.open("ab") as file:
        file.write(b"more")
    change = compare([str(capture)], before)[0]
    assert change.kind == "grown"
    assert change.before == before[str(capture)]
    assert change.now.size == change.before.size + 4
    assert change.now.digest == digest_of(capture, change.now.size) != change.before.digest


@pytest.mark.parametrize("where", [0, -1])
def test_another_byte_at_either_end_is_another_capture(capture: Path, where: int) -> None:
    before = known(capture)
    content = bytearray(capture.read_bytes())
    content[where] ^= 1
    capture.write_bytes(content + b"more")
    os.utime(capture, ns=(1, 1))
    assert kind_now(capture, before) == "rewritten"


def test_a_shorter_capture_is_another_one(capture: Path) -> None:
    before = known(capture)
    capture.write_bytes(capture.read_bytes()[:-1])
    assert kind_now(capture, before) == "rewritten"


def test_a_renamed_capture_has_moved_and_a_copied_one_is_new(capture: Path) -> None:
    before = known(capture)
    copy = capture.with_name("copy.bin")
    copy.write_bytes(capture.read_bytes())
    assert kind_now(copy, before) == "new"
    capture.unlink()
    change = compare([str(copy)], before)[0]
    assert (change.kind, change.now.path) == ("moved", str(copy))


def test_empty_captures_are_not_taken_for_one_another(tmp_path: Path) -> None:
    gone, other = tmp_path / "gone", tmp_path / "other"
    gone.touch()
    before = known(gone)
    gone.rename(other)
    assert kind_now(other, before) == "new"


def test_a_missing_capture_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing"):
        compare([str(tmp_path / "nothing")], {})
