"""`wireloom decode` of captures without tables: the messages of all streams, as lines."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wireloom.cli import _capture
from wireloom.cli._sizes import show_time
from wireloom.formats import get
from wireloom.generate import Manifest
from wireloom.generate.traffic import Conversation, pcap, pcapng

HELLO = get("nrep").samples()["hello"]
Made = tuple[Path, Manifest, dict[str, Path]]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def options(files: dict[str, Path]) -> list[str]:
    given = [f"--{name}={path}" for name, path in files.items()]
    return [*given, "--bind", "10=board.Reading", "--bind", "11=board.LedCommand"]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Two greetings in one direction, and one in the other."""
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    packets = [*made.open(), *made.send(HELLO), *made.answer(HELLO), *made.send(HELLO)]
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap([*packets, *made.close()]))
    return path


def test_a_line_for_each_message_with_stream_and_time(run: Any, talk: Path) -> None:
    result = run("decode", talk)
    found = lines(result.stdout)
    streams = Counter(row["stream"] for row in found)
    assert streams == {
        "tcp 10.0.0.1:1234 > 10.0.0.2:80 #1": 2,
        "tcp 10.0.0.2:80 > 10.0.0.1:1234 #1": 1,
    }
    assert {row["packet"] for row in found} == {"HELLO"}
    assert all(row["ts"].startswith("2023-11-14T22:13:2") for row in found)
    assert [row["frame_offset"] for row in found if row["stream"].startswith("tcp 10.0.0.1")] == [
        0,
        len(HELLO),
    ]
    assert result.stderr == (
        "nrep: 3 messages in 2 streams, 0 problems; 30 bytes = 30 decoded + 0 quarantined "
        "+ 0 gap + 0 duplicate\n"
    )


def test_the_lines_can_be_turned_back_into_bytes(run: Any, talk: Path) -> None:
    assert run("encode", stdin=run("decode", talk).stdout).stdout_bytes == HELLO * 3


def test_every_format_and_what_is_inside(run: Any, made: Made) -> None:
    path, manifest, files = made
    result = run("decode", path, *options(files))
    found = Counter(row["format"] for row in lines(result.stdout) if "text" not in row)
    assert found == {name: manifest.count(name) for name in manifest.frames}
    result = run("decode", path, "--nested", *options(files))
    inside = Counter(row["format"] for row in lines(result.stdout) if "path" in row)
    # The class of a Blaze event is known from its subscription only, which the tables look at.
    assert inside == {name: n for name, n in manifest.nested.items() if name != "qform"}


@pytest.mark.parametrize("packed", [False, True])
def test_a_capture_from_stdin(run: Any, talk: Path, packed: bool) -> None:
    data = talk.read_bytes()
    result = run("decode", stdin=gzip.compress(data) if packed else data)
    assert result.stdout == run("decode", talk).stdout


def test_a_compressed_stream_of_frames(run: Any, tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "capture.bin.gz"
    path.write_bytes(gzip.compress(stream))
    found = lines(run("decode", path).stdout)
    assert len(found) == len(get("nrep").samples())
    assert "ts" not in found[0]


def test_several_files_say_where_each_line_is_from(run: Any, talk: Path, capture: Path) -> None:
    result = run("decode", talk, capture)
    sources = {row["source"] for row in lines(result.stdout)}
    assert sources == {str(talk), str(capture)}
    assert "stdin can be read only once" in run("decode", "-", "-", code=2).stderr


def test_csv_and_table(run: Any, talk: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("decode", talk, "--csv").stdout)))
    assert list(rows[0])[:4] == ["stream", "ts", "frame_offset", "frame_length"]
    shown = run("decode", talk, "--table").stdout.splitlines()
    assert shown[0].split() == [
        "ts",
        "stream",
        "frame_offset",
        "frame_length",
        "type",
        "content",
    ]
    chosen = run("decode", talk, "--csv", "--columns", "packet,ts", "-n1").stdout
    assert chosen.startswith("packet,ts\nHELLO,2023-")
    run("decode", talk, "-o", tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text().startswith("stream,ts,")
    result = run("decode", talk, "-o", talk, "--force", code=2)
    assert "is also the input" in result.stderr


def test_problems_are_counted_and_written_on_request(
    run: Any, faulty: tuple[Path, Manifest], tmp_path: Path
) -> None:
    path, _ = faulty
    target = tmp_path / "bad.jsonl"
    result = run("decode", path, "--errors", target, code=1)
    problems = lines(target.read_text())
    assert problems
    assert all(row["error"] and row["reason"] and "stream" in row for row in problems)
    assert '"error":' not in result.stdout
    among = run("decode", path, "--errors", "-", code=1)
    assert sum("error" in row for row in lines(among.stdout)) == len(problems)
    count = sum("text" not in row for row in lines(result.stdout))
    assert f"{count:,} messages, {len(problems):,} problems" in result.stderr


def test_a_body_that_cannot_be_read_is_a_problem(run: Any, tmp_path: Path) -> None:
    model = tmp_path / "m.blz"
    model.write_text("nclass POINT\n{\n@id 301\nint_32 x\n}\n")
    row = {
        "format": "blaze",
        "packet": "TXRQST",
        "txtype": "NCLASS",
        "txactn": "INS",
        "enctyp": "INDEXNOTZERO",
        "nclsid": 301,
        "connid": 7,
        **dict.fromkeys(("txplid", "txsvid", "txcnid", "txprid"), 1),
        "body": "0a000000",
    }
    data = run("encode", stdin=json.dumps(row)).stdout_bytes
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    path = tmp_path / "bodies.pcapng"
    path.write_bytes(pcapng([*made.open(), *made.send(data * 2)]))
    assert len(lines(run("decode", "-f", "blaze", path).stdout)) == 2
    result = run("decode", "-f", "blaze", path, "--model", model, "--errors=-", code=1)
    assert [found["error"] for found in lines(result.stdout)] == ["nclass", "nclass"]
    assert "blaze: 0 messages in 1 stream, 2 problems; " in result.stderr


def test_limit_and_quiet(run: Any, talk: Path) -> None:
    result = run("decode", talk, "-n", 2)
    assert len(lines(result.stdout)) == 2
    assert "stopped at --limit" in result.stderr
    assert run("decode", talk, "-q").stderr == ""


def test_options_concern_only_the_formats_that_have_them(run: Any, made: Made) -> None:
    path, _, files = made
    result = run("decode", path, "--dialect", "2019", "-n5", *options(files))
    assert len(lines(result.stdout)) == 5
    assert "dialect must be one of" in run("decode", path, "--dialect", "x", code=2).stderr
    run("decode", path, "-O", "max_content=100000", "-n5")
    assert "no format has the option 'nosuch'" in (
        run("decode", path, "-O", "nosuch=5", code=2).stderr
    )
    only = run("decode", path, "--formats", "nrep,blaze", *options(files), code=1)
    assert {row["format"] for row in lines(only.stdout)} <= {"nrep", "blaze"}


def test_a_port_says_what_is_spoken(run: Any, talk: Path) -> None:
    assert len(lines(run("decode", talk, "--ports", "80=nrep").stdout)) == 3
    wrong = run("decode", talk, "--ports", "80=tibmsg", code=1)
    assert wrong.stdout == ""
    assert (
        "tibmsg: 0 messages in 2 streams, 2 problems; 30 bytes = 0 decoded + 30 quarantined"
        in wrong.stderr
    )


def test_hostile_text_cannot_steer_the_terminal(run: Any, tmp_path: Path) -> None:
    text = "\x1b[31m\u202e\x9b\r[bold]x[/bold]".encode()
    body = len(text).to_bytes(4, "little") + text
    data = b"\0\4\0\0\0\0" + len(body).to_bytes(4, "little") + body
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    path = tmp_path / "hostile.pcap"
    path.write_bytes(pcap([*made.open(), *made.send(data + b"\x1b[31mjunk")]))
    for words in (["--json"], ["--csv"], ["--table"], ["--tables", "nrep"], ["--tables", "errors"]):
        result = run("decode", "-f", "nrep", *words, path, code=1)
        for raw in ("\x1b", "\u202e", "\x9b", "\r"):
            assert raw not in result.stdout + result.stderr


def test_a_truncated_capture(run: Any, talk: Path) -> None:
    data = talk.read_bytes()
    for size in (0, 3, 10, 24, 30, len(data) // 2, len(data) - 1):
        result = run("decode", "-f", "nrep", "-q", stdin=data[:size], code=None)
        assert "Traceback" not in result.stderr


def test_the_head_of_a_slow_pipe_is_waited_for(talk: Path) -> None:
    data = pcapng([*Conversation("10.0.0.1:1", "10.0.0.2:2").open()])
    for whole, is_capture in ((data, True), (talk.read_bytes(), True), (HELLO, False)):
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as raw:
            os.write(writing, whole)
            os.close(writing)

            class Slow(io.RawIOBase):
                """One byte at a time."""

                def readable(self) -> bool:
                    return True

                def readinto(self, buffer: Any, raw: Any = raw) -> int:
                    piece = raw.read(1)
                    buffer[: len(piece)] = piece
                    return len(piece)

            found, stream = _capture.looked_at(io.BufferedReader(Slow()), "-")
            assert found is is_capture
            assert stream.read() == whole


def test_a_real_pipe(talk: Path) -> None:
    words = [sys.executable, "-m", "wireloom.cli", "decode", "-q"]
    done = subprocess.run(words, input=talk.read_bytes(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 3


def test_times_are_exact() -> None:
    assert show_time(0) == "1970-01-01T00:00:00.000000000Z"
    assert show_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
