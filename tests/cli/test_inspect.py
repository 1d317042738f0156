from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import wireloom
from wireloom import view
from wireloom.cli import _draw
from wireloom.formats import get
from wireloom.outline import Node

HELLO = get("nrep").samples()["hello"]
ESC = "\x1b"


@pytest.mark.parametrize(
    "words",
    [
        [HELLO.hex()],
        HELLO.hex(" ").split(),
        [HELLO.hex(":")],
        ["0x" + HELLO.hex()],
        ["-f", "nrep", HELLO.hex("|")],
    ],
)
def test_hex_on_the_command_line(run: Any, words: list[str]) -> None:
    shown = run("inspect", *words).stdout
    assert shown.startswith("nrep at byte 0, 10 bytes\n000000  00 03 00 00")
    assert "HELLO" in shown


def test_a_file_may_be_binary_or_hex(run: Any, tmp_path: Path) -> None:
    binary, text = tmp_path / "a.bin", tmp_path / "a.hex"
    binary.write_bytes(HELLO)
    text.write_text(HELLO.hex(" ", 2) + "\n")
    shown = run("inspect", binary).stdout
    assert shown == run("inspect", text).stdout
    assert shown == run("inspect", "--hex", text).stdout
    assert shown == run("inspect", "-", stdin=HELLO).stdout
    assert shown == run("inspect", stdin=HELLO.hex()).stdout


def test_text_that_is_not_hex_is_taken_as_bytes(run: Any) -> None:
    result = run("inspect", "-f", "nrep", stdin=b"just text, long enough", code=1)
    assert "6a 75 73 74" in result.stdout


def test_raw_and_hex_can_be_forced(run: Any) -> None:
    assert "30 30 30 33" in run("inspect", "-f", "nrep", "--raw", stdin=b"0003", code=1).stdout
    assert "odd" in run("inspect", "-f", "nrep", "--hex", stdin=b"000", code=2).stderr
    assert "the input is empty" in run("inspect", "--raw", stdin=b"").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuchfile"], "no file 'nosuchfile', and as hex: 'nosuchfile' is not hex"),
        (["00", "0"], "hex: the number of hex digits (3) is odd"),
        (["\x1b[31m"], "\\x1b"),
    ],
)
def test_what_is_neither_file_nor_hex_is_usage(run: Any, words: list[str], says: str) -> None:
    result = run("inspect", *words, code=2)
    assert says in result.stderr
    assert ESC not in result.stderr


def test_all_frames_up_to_the_limit_are_shown(run: Any, capture: Path) -> None:
    assert run("inspect", capture).stdout.count("nrep at byte") == 10
    assert run("inspect", capture, "--limit", 2).stdout.count("nrep at byte") == 2


def test_any_frame_can_be_picked_by_its_offset(run: Any, capture: Path, stream: bytes) -> None:
    at = stream.index(HELLO)
    shown = run("inspect", capture, "--offset", at, "-n1").stdout
    assert shown.startswith(f"nrep at byte {at}, 10 bytes\n000000  00 03")
    result = run("inspect", capture, "--offset", len(stream), code=1)
    assert f"there is nothing at or behind byte {len(stream)}" in result.stderr
    result = run("inspect", "-f", "nrep", "--offset", 15, HELLO.hex() + "ff" * 5 + "fe", code=1)
    assert result.stdout.startswith("nrep at byte 15, 1 bytes: ")


def test_the_field_that_failed_says_why(run: Any) -> None:
    result = run("inspect", "-f", "nrep", "0003 0000", "0000 ffff ffff", code=1)
    assert "over the limit" in result.stdout.splitlines()[0]
    assert any("content_size" in line and "✗ frame" in line for line in result.stdout.splitlines())


def test_a_frame_with_a_bad_field_fails(run: Any, capture: Path) -> None:
    damaged = capture.read_bytes()[:10] + b"\x1b\x1b" + capture.read_bytes()[10:]
    result = run("inspect", "-f", "nrep", "--no-nested", stdin=damaged, code=1)
    assert ESC not in result.stdout
    assert "✗" in result.stdout


def test_colours_agree_between_dump_and_tree(run: Any) -> None:
    shown = run("inspect", "--color", HELLO.hex()).stdout
    assert f"{ESC}[32m00 00 00 00{ESC}[0m" in shown
    assert f"{ESC}[32mnonce{ESC}[0m" in shown


def test_failed_bytes_are_marked(run: Any) -> None:
    shown = run("inspect", "--color", "-f", "nrep", "0003 0000 0000 ffff ffff", code=1).stdout
    assert f"{ESC}[1;37;41mff ff" in shown
    assert f"{ESC}[1;37;41mcontent_size{ESC}[0m" in shown


def test_no_colour_without_a_terminal_or_on_request(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ESC not in run("inspect", HELLO.hex()).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert f"{ESC}[32m" in run("inspect", HELLO.hex()).stdout
    assert f"{ESC}[32m" not in run("inspect", "--no-color", HELLO.hex()).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert f"{ESC}[32m" not in run("inspect", HELLO.hex()).stdout


def test_side_by_side_when_there_is_room(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, beside, row in [("80", False, 16), ("110", True, 8), ("160", True, 16)]:
        monkeypatch.setenv("COLUMNS", columns)
        shown = run("inspect", HELLO.hex()).stdout.splitlines()
        assert ("offset" in shown[1]) is beside
        assert shown[1].startswith("000000  " + HELLO[:row].hex(" "))
        assert all(len(line) <= int(columns) for line in shown)


def test_messages_inside_are_shown_with_their_path(run: Any) -> None:
    inner = get("tibmsg").samples()
    name, data = next(iter(inner.items()))
    body = bytes(10) + len(data).to_bytes(4, "little") + data
    frame = b"\0\x0a\0\0\0\0" + len(body).to_bytes(4, "little") + body
    shown = run("inspect", frame.hex()).stdout
    assert f"tibmsg in data, {len(data)} bytes" in shown, name
    assert "tibmsg in" not in run("inspect", "--no-nested", frame.hex()).stdout


def test_a_damaged_message_inside_is_shown_and_fails(run: Any) -> None:
    data = get("tibmsg").samples()["string"][:-1]
    body = bytes(10) + len(data).to_bytes(4, "little") + data
    frame = b"\0\x0a\0\0\0\0" + len(body).to_bytes(4, "little") + body
    assert "tibmsg in data: " in run("inspect", frame.hex(), code=1).stdout


def test_html_is_a_page(run: Any, tmp_path: Path, capture: Path) -> None:
    page = tmp_path / "page.html"
    result = run("inspect", capture, "--html", page, "-n2")
    assert result.stdout == ""
    assert "page.html: 2 shown" in result.stderr
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<h3>") == 2
    assert "exists" in run("inspect", capture, "--html", page, code=2).stderr
    run("inspect", capture, "--html", page, "--force")
    run("inspect", "-f", "nrep", "0003", "--html", page, "--force", code=1)


@pytest.mark.parametrize("name", wireloom.formats())
def test_every_message_shows_itself_on_a_terminal_and_in_a_notebook(run: Any, name: str) -> None:
    samples = get(name).samples()
    shown = run("inspect", "-f", name, "--limit", 1000, stdin=b"".join(samples.values())).stdout
    assert shown.count(f"{name} at byte") == len(samples)
    for data in samples.values():
        page = wireloom.decode(data, name)._repr_html_()
        assert data[:4].hex(" ")[:2] in page
        assert "class=e>" not in page
        assert all(c == "\n" or c.isprintable() for c in page)


def test_text_between_frames_is_shown(run: Any) -> None:
    frame = next(iter(get("nais").samples().values()))
    shown = run("inspect", "-f", "nais", stdin=frame + b"ok \x1b[31m\n" + frame).stdout
    assert "text" in shown
    assert "\\x1b[31m" in shown
    assert ESC not in shown


def test_a_huge_message_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_draw, "MAX_ROWS", 20)
    monkeypatch.setattr(view, "MAX_ROWS", 20)
    root = Node("root", 0, 16 * 20 + 1)
    for _ in range(20):
        root.add("[bold]x[/bold]" + "y" * 1000, 0, 1, "v" * 1000, "m")
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(_draw.draw(console, bytes(root.length), root))
    shown = captured.get()
    assert "… 1 more bytes" in shown
    assert "… more fields" in shown
    assert "[bold]x[/bold]" in shown
    assert len(shown) < 100_000


def test_a_frame_of_a_capture_is_found_by_its_stream_and_offset(
    run: Any, faulty: tuple[Path, Any]
) -> None:
    path, _ = faulty
    rows = [
        json.loads(line) for line in run("decode", path, "-n", 500, code=None).stdout.splitlines()
    ]
    wanted = [row for row in rows if row["frame_offset"] and "text" not in row][-1]
    where = ("--stream", wanted["stream"], "--offset", wanted["frame_offset"], "-n1")
    shown = run("inspect", path, *where, "--no-nested").stdout
    heading = f"{wanted['format']} at byte {wanted['frame_offset']:,} of {wanted['stream']}, "
    assert shown.startswith(heading)
    assert f"{wanted['ts']}, {wanted['frame_length']:,} bytes\n" in shown.splitlines()[0] + "\n"


def test_what_an_errors_row_names_is_shown_with_its_reason(
    run: Any, faulty: tuple[Path, Any]
) -> None:
    path, _ = faulty
    table = run("decode", path, "--tables", "errors", code=1).stdout.splitlines()
    row = next(row for row in map(json.loads, table) if row["format"] and row["stream"])
    where = ("--stream", row["stream"], "--offset", row["frame_offset"], "-n1")
    shown = run("inspect", path, *where, code=1).stdout
    assert f"{row['format']} at byte {row['frame_offset']:,} of {row['stream']}" in shown
    assert row["reason"] in shown.splitlines()[0] or "✗" in shown
    # The old words spoke of a place in a stream that there is not.
    wrong = row["stream"][:-1]
    said = run("inspect", path, "--stream", wrong, code=1).stderr
    assert f"no stream '{wrong}'; there are '{wrong}" in said
    behind = run("inspect", path, "--stream", row["stream"], "--offset", 10**9, code=1).stderr
    assert f"nothing at or behind byte 1,000,000,000 of stream {row['stream']}" in behind


def test_a_raw_file_has_no_streams_to_choose_from(run: Any, capture: Path) -> None:
    assert "--stream is for captures" in run("inspect", capture, "--stream", "x", code=2).stderr


def test_a_folder_is_no_file(run: Any, tmp_path: Path) -> None:
    assert "is a folder; name a file" in run("inspect", tmp_path, code=2).stderr
