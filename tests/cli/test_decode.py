from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from wireloom.cli import _input, _progress, _sinks
from wireloom.formats import get

HELLO = get("nrep").samples()["hello"]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_one_json_object_a_line_with_offset_and_length(
    run: Any, capture: Path, stream: bytes
) -> None:
    result = run("decode", capture)
    rows = lines(result.stdout)
    assert rows[0] == {
        "frame_offset": 0,
        "frame_length": 10,
        "format": "nrep",
        "packet": "DISCOVER",
        "nonce": 0x01020304,
    }
    assert sum(row["frame_length"] for row in rows) == len(stream)
    assert len(rows) == len(get("nrep").samples())
    assert f"nrep: {len(rows)} messages, 0 problems; {len(stream)} bytes" in result.stderr


def test_stdin_is_read_when_no_file_is_named(run: Any, stream: bytes) -> None:
    assert run("decode", stdin=stream).stdout == run("decode", "-", stdin=stream).stdout


def test_damage_is_counted_and_what_follows_is_decoded(run: Any, damaged: Path) -> None:
    result = run("decode", "-f", "nrep", damaged, code=1)
    assert [row["frame_offset"] for row in lines(result.stdout)] == [0, 15]
    assert "2 messages, 1 problem; 25 bytes = 20 decoded + 5 quarantined" in result.stderr
    assert f"1 × reserved, first at byte 10 of {damaged}: the reserved byte is not" in result.stderr


def test_problems_go_among_the_messages_on_request(run: Any, damaged: Path) -> None:
    rows = lines(run("decode", "-f", "nrep", damaged, "--errors", "-", code=1).stdout)
    assert [row["frame_offset"] for row in rows] == [0, 10, 15]
    assert rows[1]["raw"] == b"\x1b[31m".hex()
    assert rows[1]["error"]
    assert rows[1]["reason"]
    assert rows[1]["at"] == 10


def test_problems_go_to_a_file_on_request(run: Any, damaged: Path, tmp_path: Path) -> None:
    errors = tmp_path / "bad.jsonl"
    result = run("decode", "-f", "nrep", damaged, "--errors", errors, code=1)
    assert len(lines(result.stdout)) == 2
    assert [row["frame_offset"] for row in lines(errors.read_text())] == [10]
    assert "exists" in run("decode", "-f", "nrep", damaged, "--errors", errors, code=2).stderr


def test_limit_stops_and_says_so(run: Any, capture: Path) -> None:
    result = run("decode", capture, "--limit", 2)
    assert len(lines(result.stdout)) == 2
    assert "stopped at --limit" in result.stderr
    assert "warning" not in result.stderr


def test_quiet_has_no_summary(run: Any, capture: Path) -> None:
    assert run("decode", "-q", capture).stderr == ""


def test_csv_has_every_column_that_occurs(run: Any, capture: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("decode", "--csv", capture).stdout)))
    assert list(rows[0])[:5] == ["frame_offset", "frame_length", "format", "packet", "nonce"]
    assert {"description", "instance_ids", "flags"} <= set(rows[0])
    published = next(row for row in rows if row["packet"] == "PUBLISH")
    assert published["description"] == "echo"
    found = next(row for row in rows if row["instance_ids"])
    assert json.loads(found["instance_ids"])


def test_csv_with_chosen_columns(run: Any, capture: Path) -> None:
    result = run("decode", "--csv", "--columns", "packet,nosuch,nonce", "-n1", capture)
    assert result.stdout == "packet,nosuch,nonce\nDISCOVER,,16909060\n"


@pytest.mark.parametrize("style", ["--csv", "--table"])
def test_a_column_that_no_message_has_is_an_error_with_the_nearest(
    run: Any, capture: Path, tmp_path: Path, style: str
) -> None:
    result = run("decode", style, "--columns", "nonec", capture, code=2)
    assert "no message has the column 'nonec' (is it nonce?); --nested gives" in result.stderr
    assert result.stdout == ""
    run("decode", style, "--columns", "packet,nonec", "-o", tmp_path / "o", capture, code=2)
    result = run("decode", style, "--columns", "packet,nosuch", "-n1", capture)
    assert "no message so far has the column 'nosuch'" in result.stderr
    # These belong to rows of other kinds, which a good file does not have.
    run("decode", style, "--columns", "packet,error,path,text", capture)


def test_rows_without_the_chosen_columns_are_there_once_one_has_them(
    run: Any, capture: Path
) -> None:
    rows = run("decode", "--csv", "--columns", "description", capture).stdout.splitlines()
    assert rows[0] == "description"
    assert len(rows) == 1 + len(run("decode", capture).stdout.splitlines())


def test_csv_of_nothing_is_empty(run: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    result = run("decode", "-f", "nrep", "--csv", empty)
    assert result.stdout == ""
    assert "0 messages, 0 problems; 0 bytes = 0 decoded" in result.stderr


def test_too_many_columns_are_refused(
    run: Any, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sinks, "MAX_COLUMNS", 4)
    assert "over 4 columns" in run("decode", "--csv", capture, code=1).stderr


def test_table_has_a_row_for_each_message(run: Any, capture: Path, damaged: Path) -> None:
    shown = run("decode", "--table", capture).stdout.splitlines()
    assert shown[0].split() == ["frame_offset", "frame_length", "type", "content"]
    assert shown[1].split() == ["0", "10", "DISCOVER", "nonce=16909060"]
    assert len(shown) == 1 + len(get("nrep").samples())
    assert all(len(line) <= 120 and line == line.rstrip() for line in shown)
    assert any(line.endswith("…") for line in shown)
    shown = run(
        "decode", "--table", "--errors=-", "-f", "nrep", damaged, code=1
    ).stdout.splitlines()
    assert shown[2].split()[:3] == ["10", "5", "ERROR"]


def test_table_with_chosen_columns(run: Any, capture: Path) -> None:
    shown = run("decode", "--table", "--columns", "packet,nonce", "-n1", capture).stdout
    assert [line.split() for line in shown.splitlines()] == [
        ["packet", "nonce"],
        ["DISCOVER", "16909060"],
    ]


def test_a_long_table_keeps_its_columns(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_bytes(HELLO * 250)
    shown = run("decode", "--table", path).stdout.splitlines()
    assert len(shown) == 251
    assert len({line.index("HELLO") for line in shown[1:]}) == 1


def test_a_table_in_a_pipe_is_as_wide_as_its_cells(
    run: Any, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    shown = run("decode", "--table", capture).stdout.splitlines()
    # Of the samples' rows, the longest has 662 characters; none is cut.
    assert max(map(len, shown)) == 662
    assert not any("…" in line for line in shown)


@pytest.mark.parametrize(
    ("name", "starts"),
    [("o.jsonl", '{"frame'), ("o.csv", "frame_offset,"), ("o.txt", "frame_offset "), ("o", "{")],
)
def test_the_suffix_chooses_the_style(
    run: Any, capture: Path, tmp_path: Path, name: str, starts: str
) -> None:
    target = tmp_path / name
    assert run("decode", capture, "-o", target).stdout == ""
    assert target.read_text().startswith(starts)


def test_an_option_wins_over_the_suffix(run: Any, capture: Path, tmp_path: Path) -> None:
    run("decode", capture, "--json", "-o", tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text().startswith("{")


def test_a_dash_is_stdout(run: Any, capture: Path) -> None:
    assert run("decode", capture, "-o", "-").stdout


def test_nothing_is_overwritten_without_force(run: Any, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "o.jsonl"
    target.write_text("precious")
    assert (
        "o.jsonl exists; overwrite it with --force"
        in run("decode", capture, "-o", target, code=2).stderr
    )
    assert target.read_text() == "precious"
    run("decode", capture, "-o", target, "--force")
    assert target.read_text() != "precious"


def test_the_input_is_never_overwritten(run: Any, capture: Path, stream: bytes) -> None:
    result = run("decode", capture, "-o", capture, "--force", code=2)
    assert "is also the input" in result.stderr
    assert capture.read_bytes() == stream


def test_a_file_may_be_overwritten_from_stdin(run: Any, stream: bytes, tmp_path: Path) -> None:
    target = tmp_path / "o.jsonl"
    target.write_text("old")
    run("decode", "-o", target, "--force", stdin=stream)
    assert target.read_text().startswith("{")


def test_a_device_is_no_file_to_be_overwritten(run: Any, capture: Path) -> None:
    run("decode", capture, "-o", "/dev/null")


def test_a_run_that_fails_at_once_leaves_no_file(run: Any, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "o.csv"
    run("decode", capture, "-o", target, "--errors", tmp_path, code=2)
    run("decode", capture, "-o", target, "--errors", capture, code=2)
    assert not target.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-O", "nosuch=1"], "nrep has no option 'nosuch'; it has transport, extensions"),
        (["-O", "transport=pigeon"], "transport must be one of tcp, udp, not 'pigeon'"),
        (["-O", "max_content=many"], "max_content must be a number, not 'many'"),
        (["-O", "extensions=perhaps"], "extensions must be true or false"),
        (["-O", "extensions"], "'extensions' is not NAME=VALUE"),
        (["--bind", "5=Status"], "nrep has no option 'bind'"),
        (["--dialect", "x"], "nrep has no option 'dialect'"),
        (["--max-frame", "0"], "0 is not in the range"),
        (["--format", "nosuch"], "'nosuch' is not one of"),
        (["--model", "nosuch.blz"], "does not exist"),
    ],
)
def test_a_wrong_option_is_usage_and_says_what_exists(
    run: Any, capture: Path, options: list[str], says: str
) -> None:
    result = run("decode", "-f", "nrep", *options, capture, code=2)
    assert says in result.stderr
    assert result.stdout == ""


def test_options_reach_the_format(run: Any, tmp_path: Path) -> None:
    extension = tmp_path / "x"
    extension.write_bytes(bytes.fromhex("0040 00000000 00000000"))
    run("decode", "-f", "nrep", extension, code=1)
    for yes in ("1", "true", "Yes", "on"):
        run("decode", "-f", "nrep", "-O", f"extensions={yes}", extension)
    run("decode", "-f", "nrep", "-O", "extensions=off", extension, code=1)
    run("decode", "-f", "nrep", "-O", "extensions=1", "-O", "max_content=0x20000", extension)


def test_limits_reach_the_format(run: Any, capture: Path) -> None:
    result = run("decode", "-f", "nrep", "--max-frame", "100", "--errors=-", capture, code=1)
    assert "over the limit of 100" in result.stdout
    trailing = bytes.fromhex("0003 00000000 01000000 ff")
    run("decode", "-f", "nrep", stdin=trailing)
    run("decode", "-f", "nrep", "--strict", stdin=trailing, code=1)


def test_bytes_of_no_format_are_a_problem(run: Any) -> None:
    result = run("decode", "--errors=-", stdin=b"\xff" * 100, code=1)
    assert [row["error"] for row in lines(result.stdout)] == ["unknown_format"]
    assert "unrecognised: 0 messages, 1 problem; 100 bytes = 0 decoded + 100" in result.stderr
    assert "hint: say what is spoken with --ports or --format" in result.stderr


def test_a_missing_file_is_usage(run: Any, tmp_path: Path) -> None:
    assert "does not exist" in run("decode", tmp_path / "nosuch", code=2).stderr


def test_hostile_text_cannot_steer_the_terminal(run: Any, tmp_path: Path) -> None:
    text = "\x1b[31m\u202e\x9b\r[bold]x[/bold]".encode()
    body = len(text).to_bytes(4, "little") + text
    path = tmp_path / "hostile"
    path.write_bytes(b"\0\4\0\0\0\0" + len(body).to_bytes(4, "little") + body)
    for style in ("--json", "--csv", "--table"):
        result = run("decode", "-f", "nrep", style, path)
        assert "[bold]x[/bold]" in result.stdout
        for raw in ("\x1b", "\u202e", "\x9b", "\r"):
            assert raw not in result.stdout + result.stderr


def test_text_between_frames_is_kept(run: Any) -> None:
    frame = next(iter(get("nais").samples().values()))
    data = b"ok\n\xff\n" + frame
    result = run("decode", "-f", "nais", stdin=data)
    assert [row.get("text", row.get("text_hex")) for row in lines(result.stdout)[:2]] == [
        "ok\n",
        "ff0a",
    ]
    assert "nais: 1 message, 2 texts, 0 problems" in result.stderr
    table = run("decode", "-f", "nais", "--table", stdin=data).stdout
    assert [line.split()[-2:] for line in table.splitlines()[1:3]] == [
        ["text", "ok\\n"],
        ["text", "ff0a"],
    ]
    assert run("encode", stdin=result.stdout).stdout_bytes == data


def test_a_large_file_shows_progress_on_a_terminal(
    run: Any, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "BIG", 1)
    assert "━" not in run("decode", capture).stderr
    monkeypatch.setattr(_progress, "is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "━" in run("decode", capture).stderr
    assert "━" not in run("decode", "-q", capture).stderr
    assert "━" not in run("decode", stdin=capture.read_bytes()).stderr


def test_a_person_who_must_type_is_told(
    stream: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(stream)))
    with _input.open_binary("-") as opened:
        assert opened.read() == stream
    assert "Reading from the terminal" in capsys.readouterr().err


def test_a_closed_stdin_is_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(click.UsageError, match="stdin is closed"), _input.open_binary("-"):
        pass


def relay(data: bytes) -> bytes:
    """An NREP packet that carries `data`."""
    body = bytes(10) + len(data).to_bytes(4, "little") + data
    return b"\0\x0a\0\0\0\0" + len(body).to_bytes(4, "little") + body


def test_messages_inside_have_their_own_rows(run: Any) -> None:
    inner = get("tibmsg").samples()["string"]
    packet = relay(inner)
    assert len(lines(run("decode", stdin=packet).stdout)) == 1
    result = run("decode", "--nested", stdin=packet)
    outer, found = lines(result.stdout)
    assert outer["packet"] == "SOCKET_DATA"
    assert list(found)[:4] == ["frame_offset", "frame_length", "path", "format"]
    assert (found["path"], found["format"]) == ("data", "tibmsg")
    assert run("encode", stdin=result.stdout).stdout_bytes == packet
    assert "in data: SYMBOL=ABC.N" in run("decode", "--nested", "--table", stdin=packet).stdout


def test_a_damaged_message_inside_is_a_problem(run: Any) -> None:
    packet = relay(get("tibmsg").samples()["string"][:-1])
    run("decode", stdin=packet)
    result = run("decode", "--nested", "--errors=-", stdin=packet, code=1)
    assert lines(result.stdout)[1]["path"] == "data"
    assert "first at byte 0 of <file> in data: " in result.stderr
    assert "1 problem; " in result.stderr


def test_a_dictionary_reaches_the_message_inside(run: Any, tmp_path: Path) -> None:
    cfile = tmp_path / "fields.cf"
    cfile.write_text("BID { CLASS_ID 101; DATA_SIZE 9; DATA_TYPE 15; }\n")
    packet = relay(bytes.fromhex("111111120000000cc0654065fd70a3d70a3d1200"))
    named = ("decode", "-f", "nrep", "--dictionary", cfile)
    assert "has no option" in run(*named, stdin=packet, code=2).stderr
    assert "dictionary was not used" in run("decode", "--dictionary", cfile, stdin=packet).stderr
    found = lines(run("decode", "--nested", "--dictionary", cfile, stdin=packet).stdout)[1]
    assert found["fields"][0]["name"] == "BID"
    shown = run("inspect", "--dictionary", cfile, stdin=packet).stdout
    assert "BID" in shown
    assert (
        "no format has the option 'nosuch'"
        in run("decode", "--nested", "-O", "nosuch=1", stdin=packet, code=2).stderr
    )


def test_an_option_of_the_outer_format_is_for_it_alone(run: Any) -> None:
    blaze = next(iter(get("blaze").samples().values()))
    run("decode", "-f", "blaze", "--nested", "--dialect", "2019", stdin=blaze)


def test_self_describing_messages_have_a_column_for_each_field(run: Any) -> None:
    inner = [{"name": "X", "type": "string", "value": "a\n"}]
    fields = [
        {"name": "BID", "type": "int", "size": 4, "value": 1},
        {"name": "BID", "type": "int", "size": 4, "value": 2},
        {"name": None, "type": "opaque", "size": 1, "value_hex": "ff"},
        {"name": "IN", "type": "message", "fields": inner},
        {"name": "format", "type": "string", "value": "mine"},
    ]
    data = run("encode", stdin=json.dumps({"format": "tibmsg", "fields": fields})).stdout_bytes
    (row,) = csv.DictReader(io.StringIO(run("decode", "--csv", stdin=data).stdout))
    assert row == {
        "frame_offset": "0",
        "frame_length": str(len(data)),
        "format": "tibmsg",
        "BID": "1",
        "BID[2]": "2",
        "[2]": "ff",
        "IN.X": "a\\n",
        "format[2]": "mine",
    }


@pytest.mark.parametrize("name", ["tibmsg", "tibrv", "qform", "blaze", "nais"])
def test_every_format_makes_a_table_and_a_csv(run: Any, name: str) -> None:
    samples = get(name).samples()
    data = b"".join(samples.values())
    rows = list(csv.reader(io.StringIO(run("decode", "--csv", stdin=data).stdout)))
    assert len(rows) == 1 + len(samples)
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(run("decode", "--table", stdin=data).stdout.splitlines()) == 1 + len(samples)
    back = run("encode", stdin=run("decode", "-q", stdin=data).stdout)
    assert back.stdout_bytes == data


def test_wide_characters_are_cut_by_their_width(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"format": "nrep", "packet": "PUBLISH", "description": "日本" * 50}
    data = run("encode", stdin=json.dumps(row) + "\n").stdout_bytes
    for columns in ("60", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        shown = run("decode", "--table", stdin=data).stdout.splitlines()[1]
        assert shown.endswith("…") is (columns == "60")
        assert len(shown) < int(columns)


def test_a_table_on_a_terminal_has_a_bold_header(capture: Path) -> None:
    from wireloom.cli import _sinks

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    sink = _sinks.TableSink(stream, None)
    sink.write({"a": 1})
    sink.close()
    assert stream.getvalue() == "\x1b[1ma\x1b[0m\n1\n"


def test_columns_belong_to_csv_and_tables(run: Any, capture: Path) -> None:
    said = run("decode", capture, "--columns", "packet", code=2).stderr
    assert "--columns are for --csv and --table" in said
    assert "names nothing" in run("decode", capture, "--csv", "--columns", ",", code=2).stderr
    spaced = run("decode", capture, "--csv", "--columns", "frame_offset, packet").stdout
    assert spaced.startswith("frame_offset,packet\n")
    said = run("decode", capture, "--csv", "--columns", "PACKET", code=2).stderr
    assert "is it packet?" in said


def test_an_option_of_no_format_is_wrong_usage(run: Any, capture: Path) -> None:
    said = run("decode", capture, "-O", "nrpe.strict=1", code=2).stderr
    assert "no format 'nrpe'" in said


@pytest.mark.parametrize("words", ["decode", "inspect", "encode", "convert --to json"])
def test_a_file_that_cannot_be_read_is_named(
    run: Any, capture: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    class Broken(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "Input/output error")

    real = builtins.open

    def broken(name: Any, *how: Any, **more: Any) -> Any:
        return io.BufferedReader(Broken(name)) if name == str(capture) else real(name, *how, **more)

    monkeypatch.setattr(builtins, "open", broken)
    assert f"{capture}: Input/output error" in run(*words.split(), capture, code=1).stderr
