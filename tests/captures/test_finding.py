"""Where captures are found, and what can be told of them without reading them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wireloom.captures.finding import (
    examine,
    find_paths,
    is_there,
    open_file,
    open_source,
    size_and_time,
)
from wireloom.errors import OptionError, SourceError
from wireloom.generate import generate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("c10", "c9", "sub/c1", ".hidden", "_wireloom/x", "_x"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def test_a_path_and_an_address_stand_for_the_same_files(folder: Path) -> None:
    pytest.importorskip("fsspec")
    wanted = [f"{folder}/{name}" for name in ("c9", "c10", "sub/c1")]
    assert find_paths([str(folder)]) == wanted
    assert find_paths([f"file://{folder}"]) == wanted
    assert find_paths([f"local://{folder}"]) == [f"local://{path}" for path in wanted]
    assert find_paths([f"{folder}/c*", f"{folder}/c10"]) == wanted[:2]
    # What a pattern stands for may be a folder.
    assert find_paths([f"{folder}/s*"]) == wanted[2:]


def test_nothing_is_an_error_only_if_something_is_needed(tmp_path: Path) -> None:
    assert find_paths([f"{tmp_path}/*"], needed=False) == []
    with pytest.raises(OptionError, match="no captures at"):
        find_paths([f"{tmp_path}/*"])
    with pytest.raises(OptionError, match="cannot be read"):
        find_paths(["nobody-knows://this"])


@pytest.mark.parametrize("front", ["", "local://"])
def test_size_time_and_bytes_of_a_file(folder: Path, front: str) -> None:
    pytest.importorskip("fsspec")
    path = f"{front}{folder}/c10"
    os.utime(folder / "c10", ns=(10**18, 10**18))
    assert size_and_time(path) == (3, 10**18)
    with open_file(path) as file:
        file.seek(1)
        assert file.read() == b"10"
    assert is_there(path)
    missing = f"{front}{folder}/c11"
    assert not is_there(missing)
    for ask in (size_and_time, open_file, examine):
        with pytest.raises(SourceError):
            ask(missing)
    assert open_source(f"{folder}/c10") == f"{folder}/c10"


def test_a_file_system_that_does_not_answer_has_not_lost_its_files() -> None:
    assert is_there("nobody-knows://this")


def test_the_first_bytes_tell_what_a_capture_is(tmp_path: Path) -> None:
    raw, packed, packets = (tmp_path / name for name in ("a.bin", "b.bin.gz", "c.pcap"))
    generate(raw, ["tibmsg"], messages=3, container="raw")
    generate(packed, ["tibmsg"], messages=3, container="raw", compression="gzip")
    generate(packets, ["tibmsg"], messages=3, container="pcap")
    found = [examine(str(path)) for path in (raw, packed, packets)]
    assert [(one.is_packets, one.is_packed) for one in found] == [
        (False, False),
        (False, True),
        (True, False),
    ]
    assert [one.size for one in found] == [path.stat().st_size for path in (raw, packed, packets)]
