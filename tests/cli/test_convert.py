from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wireloom
from wireloom.cli import convert
from wireloom.errors import EncodeError
from wireloom.formats import get
from wireloom.generate.traffic import Conversation, pcap

CFILE = "BID { CLASS_ID 101; DATA_SIZE 9; DATA_TYPE 15; }\nBAD { CLASS_ID 102; DATA_TYPE 2; }\n"


@pytest.fixture
def tibmsg(tmp_path: Path) -> Path:
    path = tmp_path / "quotes.tibmsg"
    path.write_bytes(b"".join(get("tibmsg").samples().values()))
    return path


@pytest.fixture
def quote(tmp_path: Path) -> Path:
    path = tmp_path / "quote.jsonl"
    hint = {"hint_type": "uint", "hint_size": 1, "hint": 18}
    field = {"name": "BID", "type": "real", "size": 8, "value": 175.92, **hint}
    path.write_text(json.dumps({"format": "tibmsg", "fields": [field]}) + "\n")
    return path


@pytest.fixture
def cfile(tmp_path: Path) -> Path:
    path = tmp_path / "fields.cf"
    path.write_text(CFILE)
    return path


def test_a_stream_is_converted_and_losses_are_reported(run: Any, tibmsg: Path) -> None:
    target = tibmsg.with_suffix(".tibrv")
    result = run("convert", tibmsg, "--to", "tibrv", "-o", target)
    assert "lost: BID: hint 18 is lost" in result.stderr
    count = len(get("tibmsg").samples())
    assert f"{count} messages converted to tibrv; " in result.stderr
    assert "kinds of loss" in result.stderr
    decoded = run("decode", target)
    assert f"tibrv: {count} messages, 0 problems" in decoded.stderr
    assert "exists" in run("convert", tibmsg, "--to", "tibrv", "-o", target, code=2).stderr
    run("convert", tibmsg, "--to", "tibrv", "-o", target, "--force")


def test_loss_fails_on_request(run: Any, tibmsg: Path, quote: Path) -> None:
    run("convert", tibmsg, "--to", "tibrv", "--no-loss", code=1)
    result = run("convert", quote, "--to", "tibmsg", "--no-loss")
    assert "1 message converted to tibmsg; nothing lost" in result.stderr


def test_quiet_has_no_report(run: Any, tibmsg: Path) -> None:
    assert run("convert", tibmsg, "--to", "tibrv", "-q").stderr == ""


def test_to_and_from_json_loses_nothing(run: Any, tibmsg: Path) -> None:
    rows = run("convert", tibmsg, "--to", "json").stdout
    assert json.loads(rows.splitlines()[0]) == {"format": "tibmsg", "fields": []}
    result = run("convert", "--to", "tibmsg", stdin=rows)
    assert result.stdout_bytes == tibmsg.read_bytes()


def test_limit(run: Any, tibmsg: Path) -> None:
    assert len(run("convert", tibmsg, "--to", "json", "-n2").stdout.splitlines()) == 2


def test_a_transport_converts_to_json_only(run: Any, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    result = run("convert", capture, "--to", "tibrv", "-o", target, code=2)
    assert "can be converted to json only; --formats A,B reads only those" in result.stderr
    assert not target.exists()
    assert run("convert", capture, "--to", "json").stdout
    assert run("convert", capture, "--to", "nrep").stdout_bytes == capture.read_bytes()


def test_a_run_that_fails_leaves_no_half_file(run: Any, quote: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    before = set(tmp_path.iterdir())
    quote.write_text(quote.read_text() + '{"format":"nrep","packet":"HELLO","nonce":0}\n')
    run("convert", quote, "--to", "tibrv", "-o", target, code=2)
    assert set(tmp_path.iterdir()) == before
    target.write_text("precious")
    run("convert", quote, "--to", "tibrv", "-o", target, "--force", code=2)
    assert target.read_text() == "precious"


def test_a_qform_needs_a_dictionary(run: Any, quote: Path, cfile: Path) -> None:
    assert "--to-dictionary" in run("convert", quote, "--to", "qform", code=2).stderr
    made = run("convert", quote, "--to", "qform", "--dictionary", cfile).stdout_bytes
    assert made == run("convert", quote, "--to", "qform", "--to-dictionary", cfile).stdout_bytes
    again = run("convert", "--dictionary", cfile, "--to", "tibmsg", stdin=made)
    assert again.stdout_bytes == run("encode", quote).stdout_bytes
    same = run("convert", "--dictionary", cfile, "--to", "qform", stdin=made)
    assert same.stdout_bytes == made
    other = cfile.with_name("other.cf")
    other.write_text(CFILE.replace("101", "103"))
    moved = run(
        "convert", "--dictionary", cfile, "--to", "qform", "--to-dictionary", other, stdin=made
    )
    assert moved.stdout_bytes == made.replace(b"\xc0\x65", b"\xc0\x67")


def test_a_dictionary_is_no_option_of_tibmsg(run: Any, tibmsg: Path, cfile: Path) -> None:
    result = run("convert", tibmsg, "--to", "tibrv", "--dictionary", cfile)
    assert "note: dictionary was not used; it is no option of tibmsg" in result.stderr
    named = ("convert", "-f", "tibmsg", tibmsg, "--to", "tibrv", "--dictionary", cfile)
    assert "tibmsg has no option 'dictionary'" in run(*named, code=2).stderr
    run("convert", tibmsg, "--to", "qform", "--dictionary", cfile)


def test_what_cannot_be_read_is_named_and_left_out(run: Any) -> None:
    good = get("tibmsg").samples()["string"]
    result = run("convert", "-f", "tibmsg", "--to", "json", stdin=good + b"\x1b" + good, code=1)
    assert len(result.stdout.splitlines()) == 2
    assert f"byte {len(good)}: " in result.stderr
    assert "2 messages converted to json, 1 failed; nothing lost" in result.stderr


def test_lines_that_are_no_message_are_named(run: Any, quote: Path) -> None:
    good = quote.read_text()
    bad = "nonsense\x1b\n" + '{"format":"nais","text":"ok\\n"}\n' + '{"error":"x"}\n\n'
    quote.write_text(bad + good)
    result = run("convert", quote, "--to", "tibrv", code=1)
    assert f"{quote}:1: not JSON" in result.stderr
    assert f"{quote}:2: text between frames is no message" in result.stderr
    assert "1 message converted to tibrv, 2 failed" in result.stderr
    assert "\x1b" not in result.stderr


def test_text_between_frames_is_no_message(run: Any) -> None:
    frame = next(iter(get("nais").samples().values()))
    result = run("convert", "-f", "nais", "--to", "json", stdin=frame + b"ok\n" + frame, code=1)
    assert "text between frames is no message" in result.stderr


def test_a_message_that_cannot_be_converted_is_named(
    run: Any, quote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EncodeError("too \x1b large", path="BID")

    monkeypatch.setattr(wireloom, "convert", refuse, raising=False)
    result = run("convert", quote, "--to", "tibrv", code=1)
    assert f"{quote}:1: too \\x1b large (in BID)" in result.stderr
    assert "0 messages converted to tibrv, 1 failed" in result.stderr


def test_the_report_is_bounded(run: Any, tibmsg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_SHOWN", 2)
    monkeypatch.setattr(convert, "MAX_KINDS", 3)
    result = run("convert", tibmsg, "--to", "tibrv")
    assert sum(line.startswith("lost: ") for line in result.stderr.splitlines()) == 2
    assert "… and 2 more kinds of loss" in result.stderr
    result = run("convert", "--to", "json", stdin="{nonsense\n" * 5, code=1)
    assert result.stderr.count("not JSON") == 2
    assert "5 failed" in result.stderr


def test_the_messages_of_a_capture_are_converted(run: Any, tmp_path: Path) -> None:
    message = get("tibmsg").samples()["string"]
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap([*made.open(), *made.send(message * 3)]))
    target = tmp_path / "talk.tibrv"
    run("convert", path, "--to", "tibrv", "-o", target)
    assert len(run("decode", target).stdout.splitlines()) == 3
    result = run("convert", path, "--ports", "80=nrep", "--to", "json", code=1)
    assert "of tcp 10.0.0.1:1234 > 10.0.0.2:80 #1: " in result.stderr
