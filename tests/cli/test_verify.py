from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from wireloom.formats import get
from wireloom.generate import Faults, generate
from wireloom.generate.traffic import Conversation, pcap
from wireloom.testing import tshark, vectors
from wireloom.wire import Limits

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


ECHO: dict[str, Any] = {"format": "nrep", "hex": "00044433221108000000040000006563686f"}
SAID = get("nrep").decode(bytes.fromhex(ECHO["hex"]), limits=Limits(), strict=False).to_dict()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"message": SAID, "name": "echo", "source": "by hand"}, "1 passed"),
        ({"message": {**SAID, "name": "ohce"}}, "expected {"),
        ({"message": SAID, "hex": "0004"}, "FAIL"),
        ({"error": "short_header", "hex": "0004"}, "1 passed"),
        ({"error": "type"}, "read, where type was expected"),
        ({"message": SAID, "error": "type"}, "either a message or an error"),
        ({"message": SAID, "hex": "xy"}, "hex is not hexadecimal"),
        ({"message": SAID, "odd": 1}, "not understood: odd"),
        ({"message": SAID, "options": {"odd": 1}}, "has no option 'odd'"),
    ],
)
def test_a_case_of_any_format(run: Any, tmp_path: Path, more: Any, says: str) -> None:
    path = write(tmp_path / "v.jsonl", ECHO | more)
    assert says in run("verify", path, code=int(says != "1 passed")).stdout


def test_compressed_files_are_read(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert run("verify", path).stdout == "1 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{nonsense\n", ":1: stopped: JSONDecodeError"),
        (b"[1]\n", "not a JSON object"),
        (b"\xff\xfe\n", "UnicodeDecodeError"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_failure(
    run: Any, tmp_path: Path, content: bytes, says: str
) -> None:
    good = write(tmp_path / "good.jsonl", GOOD)
    bad = tmp_path / "bad.jsonl"
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
    shown = run("verify", write(tmp_path / "f", GOOD), code=1).stdout
    assert ":2: stopped: KeyError: 'oops'" in shown
    assert shown.endswith("1 passed, 1 failed\n")


# --- tshark ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(not tshark.is_installed(), reason="tshark is not installed")
def test_streams_are_those_of_tshark(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "day.pcapng"
    generate(path, ["tibmsg", "blaze"], messages=200, connections=1)
    result = run("verify", "--tshark", path)
    assert result.stdout == "3 streams the same, 0 failed\n"
    shown = run("verify", "--tshark", "-v", path).stdout.splitlines()
    assert sum(line.startswith("ok   ") for line in shown) == 3
    late = tmp_path / "late.pcapng"
    generate(late, ["tibmsg"], messages=500, faults=Faults(reorder=0.2))
    result = run("verify", "--tshark", late)
    assert "note " in result.stdout
    assert "different by tshark's own rules, 0 failed" in result.stdout


def test_without_tshark_that_is_said(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([]))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("verify", "--tshark", path, code=2)
    assert "tshark is not installed" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in for tshark")
def test_a_difference_is_a_failure(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = get("nrep").samples()["hello"]
    talk = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([*talk.open(), *talk.send(hello)]))
    other = tmp_path / "tshark"
    other.write_text(
        "#!/bin/sh\ncat <<END\n=====\nFollow: tcp,raw\nFilter: tcp.stream eq 0\n"
        "Node 0: 10.0.0.1:1234\nNode 1: 10.0.0.2:80\nffff\n=====\nEND\n"
    )
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    result = run("verify", "--tshark", path, code=1)
    assert "FAIL " in result.stdout
    assert "10 bytes here, 2 there, different from 0 on" in result.stdout
    assert "0 streams the same, 1 failed" in result.stdout
