"""QForm's JSON, outline, framing, detection, options and types."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import wireloom
from wireloom.errors import DecodeError, EncodeError, OptionError, SourceError
from wireloom.formats.qform import (
    FORMAT,
    SYSTEM,
    Dictionary,
    Entry,
    Field,
    Message,
    TssType,
    build,
    decode,
    load,
)
from wireloom.formats.qform import options as options_module
from wireloom.formats.qform.jsonform import field_from_dict, field_to_dict
from wireloom.formats.qform.options import resolve
from wireloom.formats.qform.rules import Rules
from wireloom.framing import Frame, Problem
from wireloom.messages import Json
from wireloom.testing.strategies import messages
from wireloom.testing.strategies.qform import DICTIONARY

CFILE = (
    "BID { CLASS_ID 10720; DATA_TYPE grocery; }"
    "SYM { CLASS_ID 7; DATA_TYPE string; DATA_SIZE 4; }"
    "ROW { CLASS_ID 8; DATA_TYPE string; DATA_SIZE 80; IS_PARTIAL true; }"
    "TEXT { CLASS_ID 9; DATA_TYPE string; DATA_SIZE 80; IS_FIXED false; }"
    "MSG_TYPE { CLASS_ID 4001; DATA_TYPE short_int; }"
    "SEQ_NO { CLASS_ID 4003; DATA_TYPE short_int; }"
    "DAY { CLASS_ID 10; DATA_TYPE sdate; }"
    "AT { CLASS_ID 11; DATA_TYPE stime; }"
    "RAW { CLASS_ID 12; DATA_TYPE opaque; DATA_SIZE 3; }"
)
FIELDS = load(CFILE)


def body(text: str) -> bytes:
    data = bytes.fromhex(text)
    return b"\x11\x11\x11\x12" + len(data).to_bytes(4, "big") + data


HEADER = body("cfa1 0001 cfa3 0005")
QUOTE = body("e9e0 3ff2000000000000 13 00 c007 41424300")


# --- JSON --------------------------------------------------------------------------------------

OBJECTS: list[tuple[str, Json]] = [
    (
        "cfa1 0001",
        {
            "fid": 4001,
            "name": "MSG_TYPE",
            "type": "short_int",
            "size": 2,
            "value": 1,
            "meaning": "UPDATE",
        },
    ),
    (
        "e9e0 3ff2000000000000 13 00",
        {
            "fid": 10720,
            "name": "BID",
            "type": "grocery",
            "size": 9,
            "value": 1.125,
            "hint": 19,
            "md": {"type": "decimal", "ival": 1125, "dec": -13, "text": "1.125"},
        },
    ),
    ("c007 41424300", {"fid": 7, "name": "SYM", "type": "string", "size": 4, "value": "ABC"}),
    (
        "0007 41004200",
        {
            "fid": 7,
            "name": "SYM",
            "type": "string",
            "size": 4,
            "value": "A",
            "raw": "41004200",
            "wire_fid": 7,
        },
    ),
    (
        "c007 ff000000",
        {"fid": 7, "name": "SYM", "type": "string", "size": 4, "value_hex": "ff"},
    ),
    (
        "c008 0005 0003 414243 2a",
        {
            "fid": 8,
            "name": "ROW",
            "type": "string",
            "size": 3,
            "partial_offset": 5,
            "max_size": 80,
            "value": "ABC",
            "pad": 42,
        },
    ),
    (
        "4009 0002 4142",
        {
            "fid": 9,
            "name": "TEXT",
            "type": "string",
            "size": 2,
            "variable": True,
            "max_size": 80,
            "value": "AB",
        },
    ),
    (
        "c00a 676172626167650000000000",
        {
            "fid": 10,
            "name": "DAY",
            "type": "sdate",
            "size": 12,
            "value": "garbage",
            "md": {"type": "string", "unparsed": True},
        },
    ),
    (
        "c00c 010203 00",
        {"fid": 12, "name": "RAW", "type": "opaque", "size": 3, "value_hex": "010203"},
    ),
]


@pytest.mark.parametrize(("text", "expected"), OBJECTS)
def test_a_field_is_an_object(text: str, expected: Json) -> None:
    message = decode(body(text), FIELDS)
    assert message.to_dict() == {"format": "qform", "fields": [expected]}
    assert wireloom.from_dict(message.to_dict()) == message


def test_a_typed_view_is_for_people() -> None:
    view = field_to_dict(build(FIELDS, {"AT": "19:33"})[0])["md"]
    assert (view["type"], view["text"]) == ("time", "19:33")


def test_the_trailer_is_kept() -> None:
    message = decode(body("cfa1 0001 c000"), SYSTEM)
    assert message.to_dict()["trailer"] == "c000"
    assert FORMAT.from_dict(message.to_dict()) == message


@given(messages("qform"))
def test_json_is_without_loss(message: Message) -> None:
    again = FORMAT.from_dict(json.loads(json.dumps(message.to_dict(), allow_nan=False)))
    assert again == message
    assert again.encode() == message.encode()


def test_a_partial_that_is_not_fixed_survives() -> None:
    entry = Entry(5, "P", TssType.DOUBLE, 80, is_fixed=False, is_primitive=False, is_partial=True)
    field = Field(entry, b"\1\2", 3)
    assert field_from_dict(field_to_dict(field)) == field


def test_names_that_are_not_utf8_survive() -> None:
    field = Field(Entry(5, "x\udce9", TssType.U_SHORT, 2), b"\0\1")
    made = field_to_dict(field)
    assert made["name_hex"] == "78e9"
    assert field_from_dict(json.loads(json.dumps(made))) == field


def test_what_is_written_by_hand_needs_little() -> None:
    grocery = field_from_dict({"fid": 5, "name": "P", "type": "grocery", "value": 1.5, "hint": 17})
    assert grocery == Field(Entry(5, "P", TssType.GROCERY, 9), bytes.fromhex("3ff800000000000011"))
    text = field_from_dict({"fid": 5, "name": "T", "type": "string", "value": "AB"})
    assert text == Field(Entry(5, "T", TssType.STRING, 2), b"AB")
    real = field_from_dict({"fid": 5, "name": "R", "type": "double", "value": "NaN"})
    assert real.data.hex() == "7ff8000000000000"


NUMBER: Json = {"fid": 5, "name": "N", "type": "u_short", "size": 2, "value": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fid": None}, "needs a fid"),
        ({"fid": -1}, "fid"),
        ({"name": None}, "needs a fid, a name"),
        ({"name": 5}, "name"),
        ({"type": "no_such"}, "type"),
        ({"type": None}, "type"),
        ({"colour": 1}, "unknown key"),
        ({"value": 70_000}, "does not fit"),
        ({"value": None}, "no uint"),
        ({"size": 3, "raw": "0001"}, "2 bytes, not 3"),
        ({"raw": "00"}, "1 bytes, not 2"),
        ({"raw": "zz"}, "hex"),
        ({"variable": 1}, "true or false"),
        ({"primitive": "no"}, "true or false"),
        ({"type": "opaque"}, "value_hex"),
        ({"type": "string", "value": None}, "needs a value"),
        ({"type": "grocery", "hint": 300}, "does not fit"),
        ({"wire_fid": -5}, "wire_fid"),
        ({"pad": "x"}, "pad"),
    ],
)
def test_objects_that_are_no_field_are_refused(changes: Json, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        wireloom.from_dict({"format": "qform", "fields": [{**NUMBER, **changes}]}).encode()
    assert caught.value.path.startswith("fields[0]")


@pytest.mark.parametrize(
    "d",
    [
        {"format": "qform", "fields": 5},
        {"format": "qform", "colour": []},
        {"format": "qform", "fields": [5]},
        {"format": "qform", "trailer": "x"},
        {"format": "tibmsg"},
    ],
)
def test_objects_that_are_no_message_are_refused(d: Json) -> None:
    with pytest.raises(EncodeError):
        FORMAT.from_dict(d)


# --- outline -----------------------------------------------------------------------------------


def test_the_outline_names_every_part() -> None:
    text = (
        "cfa1 0001 e9e0 3ff2000000000000 13 00 c008 0005 0003 414243 2a 4009 0002 4142"
        "0007 41424344 0000"
    )
    root = wireloom.outline(body(text), "qform", dictionary=FIELDS)
    shown = [(n.name, n.offset, n.length, n.value, n.meaning) for _, n in root.walk()]
    assert shown == [
        ("qform", 0, 48, "", ""),
        ("magic", 0, 4, "11111112", ""),
        ("size", 4, 4, "40", "bytes of fields"),
        ("MSG_TYPE", 8, 4, "1", "UPDATE, short_int 2"),
        ("fid", 8, 2, "4001", "fixed, primitive"),
        ("data", 10, 2, "0001", ""),
        ("BID", 12, 12, "1.125", "grocery 9 <19>"),
        ("fid", 12, 2, "10720", "fixed, primitive"),
        ("data", 14, 8, "3ff2000000000000", ""),
        ("hint", 22, 1, "19", ""),
        ("pad", 23, 1, "0x00", ""),
        ("ROW", 24, 10, "414243", "string 3, partial at 5"),
        ("fid", 24, 2, "8", "fixed, primitive"),
        ("offset", 26, 2, "5", "where the data goes"),
        ("length", 28, 2, "3", "bytes of data"),
        ("data", 30, 3, "414243", ""),
        ("pad", 33, 1, "0x2a", ""),
        ("TEXT", 34, 6, "AB", "string 2, variable, 80 at most"),
        ("fid", 34, 2, "9", "primitive"),
        ("length", 36, 2, "2", "bytes of data"),
        ("data", 38, 2, "4142", ""),
        ("SYM", 40, 6, "ABCD", "string 4"),
        ("fid", 40, 2, "7", "no flags"),
        ("data", 42, 4, "41424344", ""),
        ("trailer", 46, 2, "0000", "fid 0, ignored"),
    ]
    assert wireloom.decode(body(text), "qform", dictionary=FIELDS).outline() == root


def test_the_outline_goes_as_far_as_it_can() -> None:
    root = wireloom.outline(body("cfa1 0001 de61 0000"), "qform", dictionary=FIELDS)
    assert [node.name for node in root.children] == ["magic", "size", "MSG_TYPE", "error"]
    error = root.children[-1]
    assert (error.offset, error.length, error.value) == (12, 4, "fields[1]")
    assert "25185" not in error.error
    assert "fid 7777" in error.error


@pytest.mark.parametrize("data", [b"", b"\x11\x11", b"\x11\x11\x11\x12\0", HEADER[:-1], b"noise"])
def test_the_outline_of_no_message_says_so(data: bytes) -> None:
    assert any(node.error for _, node in wireloom.outline(data, "qform").walk())


def test_a_strict_outline_shows_what_is_not_canonical() -> None:
    data = body("0fa1 0001")
    assert not any(n.error for _, n in wireloom.outline(data, "qform").walk())
    assert any("flags" in n.error for _, n in wireloom.outline(data, "qform", strict=True).walk())


def test_long_lengths_are_shown() -> None:
    big = Entry(5, "BIG", TssType.STRING, 70_000, is_fixed=False)
    node = Message((Field(big, b"AB"),)).outline().children[-1]
    assert [(part.name, part.length) for part in node.children] == [
        ("fid", 2),
        ("length", 4),
        ("data", 2),
    ]


# --- framing and detection -----------------------------------------------------------------------


def frames(data: bytes, **options: Any) -> list[tuple[str, int]]:
    return [(type(r).__name__, r.length) for r in wireloom.scan(data, "qform", **options)]


def test_messages_back_to_back_are_cut() -> None:
    for known in ("system", FIELDS, None):
        assert frames(HEADER + QUOTE + HEADER, dictionary=known) == [
            ("Frame", len(HEADER)),
            ("Frame", len(QUOTE)),
            ("Frame", len(HEADER)),
        ]


def test_a_damaged_length_does_not_swallow_the_next_message() -> None:
    for size in range(0, 80):
        damaged = HEADER[:4] + size.to_bytes(4, "big") + HEADER[8:]
        records = list(wireloom.scan(damaged + QUOTE + HEADER, "qform", dictionary=FIELDS))
        assert records[-1].data == HEADER
        if size != len(HEADER) - 8:
            assert QUOTE in [r.data for r in records]


def test_a_length_that_ends_in_the_next_magic_is_the_same_damage_in_any_chunks() -> None:
    for more in range(2, 8, 2):
        damaged = HEADER[:4] + (len(HEADER) - 8 + more).to_bytes(4, "big") + HEADER[8:]
        data = damaged + QUOTE + HEADER
        records = list(wireloom.scan(data, "qform", dictionary=FIELDS))
        assert [record.data for record in records] == [damaged, QUOTE, HEADER]
        for size in range(1, len(data)):
            chunks = [data[at : at + size] for at in range(0, len(data), size)]
            assert list(wireloom.scan(chunks, "qform", dictionary=FIELDS)) == records


def test_rules_know_what_they_prove() -> None:
    known, unknown = Rules(FIELDS), Rules(None)
    assert known.check(QUOTE, 0, len(QUOTE), None)
    assert not known.check(QUOTE, 0, len(QUOTE), 1)
    assert known.check(QUOTE, 0, len(QUOTE), 2)
    assert not unknown.check(QUOTE, 0, len(QUOTE), None)
    empty = body("")
    assert not known.check(empty, 0, len(empty), None)
    for data, code in [
        (body("cfa1 0001 00"), "length"),  # odd
        (body("cfa1"), "bounds"),
        (body("0000 0000"), "null_fid"),
        (body("cfa1 0001" + HEADER.hex()), "unknown_fid"),  # another message stands there
    ]:
        with pytest.raises(DecodeError) as caught:
            known.check(data, 0, len(data), None)
        assert caught.value.code == code


def test_a_start_is_found_also_when_it_is_cut_off() -> None:
    rules = Rules(None)
    data = b"\x11\x00" + HEADER
    assert rules.find(data, 0, len(data)) == 2
    for cut in (1, 2, 3):
        part = b"noise" + HEADER[:cut]
        assert rules.find(part, 0, len(part)) == 5
    assert rules.find(b"noise", 0, 5) == 5
    assert rules.find(HEADER, 1, len(HEADER)) == len(HEADER)
    assert rules.find(b"\x11", 1, 1) == 1


def test_noise_between_messages_is_a_problem() -> None:
    records = list(wireloom.scan(HEADER + b"noise" + HEADER, "qform"))
    assert [type(r) for r in records] == [Frame, Problem, Frame]


def test_detection() -> None:
    assert FORMAT.detect(HEADER) == 99
    assert FORMAT.detect(HEADER + b"x") == 97
    assert FORMAT.detect(HEADER[:-1]) == 90
    assert FORMAT.detect(HEADER[:6]) == 80
    assert FORMAT.detect(HEADER[:3]) == FORMAT.detect(b"noise") == 0


def test_types_have_byte_tables() -> None:
    types = {info.name: info for info in FORMAT.types()}
    assert len(types) == 21
    assert types["GROCERY"].rows[-1] == ("11", "1", "pad", "0")
    assert types["STRING"].rows[1][1] == "size"
    assert types["INTEGER"].rows[1][:3] == ("2", "4", "data")


# --- the option `dictionary` ---------------------------------------------------------------------


def test_without_a_dictionary_the_system_fields_are_known() -> None:
    assert FORMAT.decode(HEADER).to_values() == {"MSG_TYPE": 1, "SEQ_NO": 5}
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(QUOTE, "qform")
    assert caught.value.code == "unknown_fid"


def test_no_dictionary_at_all_is_an_error() -> None:
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(HEADER, "qform", dictionary=None)
    assert caught.value.code == "no_dictionary"


def test_a_dictionary_is_given_in_many_ways(tmp_path: Path) -> None:
    file = tmp_path / "tss_fields.cf"
    file.write_text(CFILE)
    for source in (
        FIELDS,
        CFILE,
        CFILE.encode(),
        bytearray(CFILE.encode()),
        file,
        str(file),
        tmp_path,
    ):
        assert FORMAT.decode(QUOTE, dictionary=source)["SYM"].value == "ABC"


def test_a_file_is_read_once_and_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fields.cf"
    file.write_text(CFILE)
    first = resolve(file)
    assert resolve(str(file)) is first
    file.write_text(CFILE.replace("SYM", "SYMBOL"))
    os.utime(file, ns=(1, 1))
    second = resolve(file)
    assert isinstance(second, Dictionary)
    assert "SYMBOL" in second.by_name
    assert resolve(CFILE) is resolve(CFILE)


def test_a_bad_dictionary_is_refused() -> None:
    with pytest.raises(OptionError, match="int"):
        wireloom.decode(HEADER, "qform", dictionary=5)
    with pytest.raises(SourceError):
        wireloom.decode(HEADER, "qform", dictionary="no/such/file")
    with pytest.raises(SourceError):
        wireloom.decode(HEADER, "qform", dictionary="no\0file")
    with pytest.raises(SourceError):
        wireloom.decode(HEADER, "qform", dictionary="{ broken")


def test_the_format_takes_options_also_directly() -> None:
    assert FORMAT.decode(QUOTE, dictionary=CFILE)["SYM"].value == "ABC"
    assert FORMAT.outline(QUOTE, dictionary=CFILE).length == len(QUOTE)
    assert FORMAT.check_options({"strict": True})[1:] == (True, {})
    assert FORMAT.check_options({"dictionary": "system"})[2] == {"dictionary": SYSTEM}
    assert FORMAT.options[0].default == options_module.DEFAULT


def test_the_dictionary_of_the_test_kit_has_every_type() -> None:
    kinds = {entry.tss_type for entry in DICTIONARY}
    assert kinds == set(TssType) - {TssType.NODATA}


def test_samples_decode_without_a_dictionary_of_one_s_own() -> None:
    for data in FORMAT.samples().values():
        assert wireloom.decode(data, "qform", strict=True).encode() == data
