from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from wireloom.cli import _output
from wireloom.formats import get

HELLO = get("nrep").samples()["hello"]
LINE = '{"format":"nrep","packet":"HELLO","nonce":0}\n'


def test_encode_is_the_inverse_of_decode(run: Any, capture: Path, stream: bytes) -> None:
    rows = run("decode", "-q", "-f", "nrep", capture).stdout
    assert run("encode", stdin=rows).stdout_bytes == stream


def test_output_goes_to_a_file(run: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "a.bin"
    source.write_text(LINE * 2)
    assert run("encode", source, "-o", target).stdout == ""
    assert target.read_bytes() == HELLO * 2
    assert "exists" in run("encode", source, "-o", target, code=2).stderr
    run("encode", source, "-o", target, "--force")


def test_hex_is_one_message_a_line(run: Any) -> None:
    assert run("encode", "--hex", stdin=LINE * 2).stdout == f"{HELLO.hex()}\n" * 2


def test_problems_and_nested_messages_are_left_out(run: Any, damaged: Path) -> None:
    rows = run("decode", "-q", "-f", "nrep", "--errors=-", damaged, code=1).stdout
    rows += '{"frame_offset":0,"frame_length":1,"path":"data","format":"tibmsg","fields":[]}\n\n'
    assert run("encode", stdin=rows).stdout_bytes == HELLO * 2
    assert run("encode", "--hex", stdin=rows).stdout == f"{HELLO.hex()}\n" * 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ("{}", "needs a 'format'"),
        ('{"format":"nosuch"}', "no format 'nosuch'"),
        ('{"format":"nrep","packet":"NOSUCH\\u001b"}', "no packet"),
        ('{"format":"nais","text_hex":"0"}', "not hex"),
        ('{"format":"nais","text_hex":1}', "not hex"),
        ("\xff", "not JSON"),
    ],
)
def test_a_line_that_cannot_be_encoded_is_named(run: Any, line: str, says: str) -> None:
    data = LINE.encode() + line.encode("latin-1") + b"\n" + LINE.encode()
    result = run("encode", stdin=data, code=1)
    assert result.stdout_bytes == HELLO * 2
    assert result.stderr.startswith("-:2: ")
    assert says in result.stderr
    assert "\x1b" not in result.stderr


def test_a_byte_order_mark_is_no_problem(run: Any) -> None:
    assert run("encode", stdin=b"\xef\xbb\xbf" + LINE.encode()).stdout_bytes == HELLO


def test_bytes_do_not_go_to_a_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(_output, "sys", type(sys)("sys"))
    monkeypatch.setattr(_output.sys, "stdout", Terminal(), raising=False)
    assert "send them to a file with -o" in run("encode", stdin=LINE, code=2).stderr
