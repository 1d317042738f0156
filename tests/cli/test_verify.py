from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from wireloom.testing import vectors

GOOD = {
    "id": "V\x1b01",
    "kind": "valid",
    "transport": "udp",
    "dir": "C>S",
    "hex": "00010403020100000000",
    "packet": {
        "reserved": 0,
        "type": 1,
        "type_name": "DISCOVER",
        "nonce": 16909060,
        "content_size": 0,
        "payload": {},
    },
}
BAD = GOOD | {"id": "bad", "hex": "00010403020100000001"}


def write(path: Path, *cases: object) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def test_the_last_line_counts(run: Any, tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", GOOD, GOOD)
    assert run("verify", good).stdout == "2 passed, 0 failed\n"
    assert run("verify", good, good).stdout == "4 passed, 0 failed\n"


def test_each_failure_is_one_line(run: Any, tmp_path: Path) -> None:
    shown = run("verify", write(tmp_path / "v.jsonl", GOOD, BAD), code=1).stdout.splitlines()
    assert len(shown) == 2
    assert shown[0].startswith(f"FAIL {tmp_path}/v.jsonl:2: bad: ")
    assert shown[1] == "1 passed, 1 failed"


def test_verbose_lists_passes_too(run: Any, tmp_path: Path) -> None:
    shown = run("verify", "-v", write(tmp_path / "v.jsonl", GOOD)).stdout
    assert shown == f"ok   {tmp_path}/v.jsonl:1: V\\x1b01\n1 passed, 0 failed\n"


def test_a_case_of_no_known_kind_is_a_failure(run: Any, tmp_path: Path) -> None:
    shown = run("verify", write(tmp_path / "v.jsonl", {"kind": "nosuch"}), code=1).stdout
    assert "no verifier knows" in shown
    assert shown.endswith("0 passed, 1 failed\n")


def test_compressed_files_are_read(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert run("verify", path).stdout == "1 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read: No such file"),
        (b"{nonsense\n", ":1: stopped: JSONDecodeError"),
        (b"[1]\n", "not a JSON object"),
        (b"\xff\xfe\n", "UnicodeDecodeError"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_failure(
    run: Any, tmp_path: Path, content: bytes | None, says: str
) -> None:
    good = write(tmp_path / "good.jsonl", GOOD)
    bad = tmp_path / "bad.jsonl"
    if content is not None:
        bad.write_bytes(content)
    result = run("verify", bad, good, code=1)
    assert says in result.stdout
    assert result.stdout.endswith("\n1 passed, 1 failed\n")
    assert "Traceback" not in result.stderr


def test_a_codec_that_breaks_is_a_failure(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> Any:
        yield vectors.Outcome("f", 1, "one", None)
        raise KeyError("oops")

    monkeypatch.setattr(vectors, "verify", broken)
    shown = run("verify", tmp_path / "f", code=1).stdout
    assert ":2: stopped: KeyError: 'oops'" in shown
    assert shown.endswith("1 passed, 1 failed\n")
