from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.cli._hex import HexError, parse_hex

DATA = bytes(range(60)) + b"ab cd|x|  12" + bytes(64) + b"\xff\xfe"


def xxd(data: bytes, group: int = 2) -> str:
    lines = []
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        groups = " ".join(row[i : i + group].hex() for i in range(0, len(row), group))
        chars = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        lines.append(f"{offset:08x}: {groups:<{16 * 2 + 16 // group - 1}}  {chars}")
    return "\n".join(lines) + "\n"


def hexdump(data: bytes, bars: bool = True) -> str:
    lines, last = [], b""
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        if bars and row == last and offset + 16 < len(data):
            if lines[-1] != "*":
                lines.append("*")
            continue
        last = row
        pairs = row[:8].hex(" ") + "  " + row[8:].hex(" ")
        chars = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        lines.append(f"{offset:08x}  {pairs:<48}  " + (f"|{chars}|" if bars else chars))
    if bars:
        lines.append(f"{len(data):08x}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "00037f",
        "00 03 7F",
        "0003 7f",
        "00:03:7f",
        "00-03-7f",
        "00|03|7f",
        "00,03,7f",
        "00_03_7f",
        "0x00037f",
        "0x00 0x03 0x7f",
        "{0x0, 0x3, 0x7f};",
        "[0x00,\n 0x03,\n 0x7f]",
        "\\x00\\x03\\x7f",
        '"\\x00\\x03\\x7f"',
        "b'\\x00\\x03\\x7f'",
        'b"\\x00\\x03\\x7f"',
        "00 03 # the header\n7f // the rest",
        "\n  00\r\n  03\t7f\n",
        "<00 03 7f>",
        "00000000: 0003 7f                                  ...",
        "\t0x0000:  0003 7f  ...",
        "00000000  00 03 7f                                          |...|\n00000003\n",
        "0000   00 03 7f   ...",
        "0040   00 03 7f",
        "0003  7f",
        "0003  7f\n",
    ],
)
def test_hex_is_read_in_every_usual_form(text: str) -> None:
    assert parse_hex(text) == b"\x00\x03\x7f"


def test_two_spaces_do_not_make_a_dump() -> None:
    assert parse_hex("0000  0003 7f") == b"\x00\x00\x00\x03\x7f"
    assert parse_hex("0003  0003  7f") == b"\x00\x03\x00\x03\x7f"


def test_letters_in_a_bytes_literal_stand_for_themselves() -> None:
    assert parse_hex("b'\\x00ab'") == b"\x00ab"


@pytest.mark.parametrize(
    "text",
    [xxd(DATA), xxd(DATA, 1), xxd(DATA, 4), hexdump(DATA), hexdump(DATA, bars=False)],
    ids=["xxd", "xxd -g1", "xxd -g4", "hexdump -C", "wireshark"],
)
def test_dumps_are_read_without_their_characters(text: str) -> None:
    assert parse_hex(text) == DATA


def test_a_star_stands_for_repeated_rows() -> None:
    text = hexdump(bytes(160) + b"\x01")
    assert "*" in text
    assert parse_hex(text) == bytes(160) + b"\x01"


def test_rows_with_a_hole_between_them_are_no_dump() -> None:
    assert parse_hex("00000000: 01\n00000005: 02") == bytes.fromhex("00000000 01 00000005 02")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no hex digits"),
        ("  # nothing", "no hex digits"),
        ("00 0", "odd"),
        ("hello", "'hello' is not hex"),
        ("00 \x1b[31m", "is not hex"),
        ("00000000: 0", "odd"),
        ("*\n00000000: 00 01", "'\\*' is not hex"),
        ("00000000  00 01  |..|\n*\n00000003\n", "is not hex"),  # no whole number of rows
        ("00000000  00 01  |..|\n*\nfffffffe\n", "is not hex"),  # more than anyone writes down
        ("b'\\x00", "not a bytes literal"),
        ("b'' + 1", "not a bytes literal"),
        ("b'' if 1 else 2", "not a bytes literal"),
    ],
)
def test_what_is_not_hex_is_named(text: str, why: str) -> None:
    with pytest.raises(HexError, match=why):
        parse_hex(text)


@given(st.binary(min_size=1, max_size=100))
def test_every_dump_reads_back(data: bytes) -> None:
    assert parse_hex(xxd(data)) == data
    assert parse_hex(hexdump(data)) == data
    assert parse_hex(data.hex()) == data


@given(st.text(max_size=60))
def test_any_text_is_hex_or_an_error(text: str) -> None:
    with contextlib.suppress(HexError):
        assert parse_hex(text)
