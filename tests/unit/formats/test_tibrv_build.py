from __future__ import annotations

import datetime as dt
import json
import zlib
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any

import pytest

from wireloom.errors import (
    DecodeError,
    EncodeError,
    LimitError,
)
from wireloom.formats._tib.values import BLANK, Date, EnumNumber, EnumText, Time
from wireloom.formats.tibrv import FORMAT, Field, FieldType, Form, Message, build, decode
from wireloom.formats.tibrv import message as message_module
from wireloom.formats.tibrv.content import (
    MAX_XML,
    datetime_data,
    read_subject,
    read_xml,
    subject_data,
    xml_data,
)

T = FieldType

ODD = b"\1\2\3"
"""Data that no writer would give an int."""
MAGIC = "9955eeaa"


def message_of(body: str) -> bytes:
    raw = bytes.fromhex(body)
    return (8 + len(raw)).to_bytes(4, "big") + bytes.fromhex(MAGIC) + raw


# --- subjects, datetimes, xml -------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["A", "A.BC", "_INBOX.0A1B.>", "\u00e9.x", "x" * 253])
def test_subjects_are_written_and_read_again(subject: str) -> None:
    data = subject_data(subject)
    assert read_subject(data) == subject
    assert data[0] == subject.count(".") + 1


@pytest.mark.parametrize(
    "subject", ["", ".", "A..B", "A.", ".A", "x" * 254, "A\0", ".".join("x" * 256)]
)
def test_subjects_that_cannot_be_written(subject: str) -> None:
    with pytest.raises(EncodeError):
        subject_data(subject)


@pytest.mark.parametrize(("middle", "value"), [("412e42", "A.B"), ("410042", "A\0B"), ("", "")])
def test_a_subject_that_no_text_stands_for_survives_json(middle: str, value: str) -> None:
    segment = bytes.fromhex(middle)
    data = bytes((1, len(segment) + 2)) + segment + b"\0"
    message = decode(message_of(f"00 02 79 {len(data) + 2:04x}" + data.hex()), dialect="standard")
    assert message[0].value == value
    assert message.to_dict()["fields"][0]["raw"] == data.hex()
    assert FORMAT.from_dict(message.to_dict()) == message


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, tzinfo=dt.UTC),
        dt.datetime(2107, 1, 1, tzinfo=dt.UTC),
    ],
)
def test_datetimes_that_cannot_be_written(value: dt.datetime) -> None:
    with pytest.raises(EncodeError):
        datetime_data(value)


def test_datetimes_of_any_zone_are_written_in_utc() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    assert datetime_data(dt.datetime(1970, 1, 1, 2, 0, 1, tzinfo=zone)).hex() == "0000000100000000"


@pytest.mark.parametrize("size", [0, 1, 119, 120, 121, 122, 29999, 30000, 70000])
def test_xml_of_any_length(size: int) -> None:
    text = "x" * size
    field = Field.of("X", text, type=T.XML)
    assert field.value == text
    assert field.document() == text
    (back,) = decode(build([field]).encode(), strict=True)
    assert back.value == text
    assert FORMAT.from_dict(build([field]).to_dict()) == build([field])


def test_xml_is_never_unpacked_beyond_its_limit() -> None:
    bomb = b"\x7a\xff\xff\xff\xff" + zlib.compress(bytes(10**6))
    with pytest.raises(LimitError):
        read_xml(bomb)
    lying = b"\x05" + zlib.compress(bytes(10**7))
    with pytest.raises(DecodeError, match="not the 5 bytes"):
        read_xml(lying)
    with pytest.raises(LimitError):
        Field.of("X", "x" * 100, type=T.XML).document(99)
    with pytest.raises(EncodeError):
        xml_data("x" * (MAX_XML + 1))


@pytest.mark.parametrize(
    "data",
    [b"\x05junk!", b"\x02" + zlib.compress(b"x"), b"\x01" + zlib.compress(b"x")[:-2], b"\x00"],
)
def test_xml_that_cannot_be_unpacked_has_its_bytes_as_value(data: bytes) -> None:
    field = Field.of("X", data, type=T.XML)
    message = build([field, Field.of("A", 1)])
    back = decode(message.encode())
    assert back == message
    assert back["X"].value == data
    assert back["A"].value == 1
    assert FORMAT.from_dict(json.loads(json.dumps(back.to_dict()))) == back
    with pytest.raises(DecodeError):
        back["X"].document()


def test_views_of_a_message_do_not_unpack_what_is_out_of_proportion() -> None:
    bomb = build([Field.of("X", "x" * 10**6, type=T.XML)])
    assert bomb["X"].value == "x" * 10**6
    assert "value" not in bomb.to_dict()["fields"][0]
    assert FORMAT.from_dict(bomb.to_dict()) == bomb
    assert bomb.outline().children[-1].value == "cannot be unpacked, or is very long"
    short = build([Field.of("X", "<a/>", type=T.XML)])
    assert short.outline().children[-1].value == "<a/>"
    assert short.to_dict()["fields"][0]["value"] == "<a/>"


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (True, {}, "09 01 01"),
        (5, {}, "0b 04 00000005"),
        (2**31, {}, "0b 08 0000000080000000"),
        (2**63, {}, "0c 08 8000000000000000"),
        (5, {"type": T.UINT, "size": 2}, "0c 02 0005"),
        (1.5, {}, "0d 08 3ff8000000000000"),
        (Decimal("1.5"), {}, "0d 08 3ff8000000000000"),
        (Decimal("sNaN"), {}, "0d 08 7ff8000000000000"),
        ("AB", {}, "08 03 414200"),
        (Date(2000, 2, 29), {}, "08 0c 323920464542203230303000"),
        (dt.date(2000, 2, 29), {}, "08 0c 323920464542203230303000"),
        (Time(1, 2, 3), {}, "08 09 30313a30323a303300"),
        (dt.time(1, 2, 3), {}, "08 09 30313a30323a303300"),
        (EnumText("NYS"), {}, "08 04 4e595300"),
        (EnumNumber(5), {}, "0c 02 0005"),
        (b"\1\2", {}, "07 02 0102"),
        (ODD, {"type": T.INT}, "0b 03 010203"),
        (b"\1\2", {"type": T.ENCRYPTED}, "20 02 0102"),
        (IPv4Address("10.0.0.1"), {}, "0a 04 0a000001"),
        ("10.0.0.1", {"type": T.IPDATA}, "0a 04 0a000001"),
        (7500, {"type": T.IPDATA}, "0a 02 1d4c"),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=dt.UTC), {}, "03 08 0000000100000002"),
        ("A.B", {"type": T.SUBJECT}, "02 79 0009 02 034100 034200"),
        ([], {}, "26 00"),
        ([1, -1], {}, "26 08 00000001ffffffff"),
        ([2**31], {}, "28 08 0000000080000000"),
        ([2**63, 1], {}, "29 10 80000000000000000000000000000001"),
        ([1, 1.5], {}, "2d 10 3ff00000000000003ff8000000000000"),
        ([True, False], {}, "22 02 0100"),
        ([1, 2], {"type": T.ARRAY_U16}, "25 04 00010002"),
        (["a", ""], {}, "30 07 00000002 6100 00"),
        ([], {"type": T.ARRAY_STR}, "30 04 00000000"),
        ([], {"type": T.ARRAY_MSG}, "31 7a 00000008 00000000"),
        ([{}], {}, "31 7a 00000010 00000001 00000008 9955eeaa"),
        ([build({})], {}, "31 7a 00000010 00000001 00000008 9955eeaa"),
        ({"A": 1}, {}, "01 7a 00000011 9955eeaa 024100 0b 04 00000001"),
        ({"A": Field.of("X", 1)}, {}, "01 7a 00000011 9955eeaa 024100 0b 04 00000001"),
        (build({"A": 1}), {}, "01 7a 00000011 9955eeaa 024100 0b 04 00000001"),
        ([Field.of("A", 1)], {}, "01 7a 00000011 9955eeaa 024100 0b 04 00000001"),
        ([], {"type": T.MESSAGE}, "01 7a 00000008 9955eeaa"),
        ({}, {}, "01 7a 00000008 9955eeaa"),
        (build({}), {}, "01 7a 00000008 9955eeaa"),
    ],
)
def test_values_become_fields(value: Any, options: dict[str, Any], expected: str) -> None:
    field = Field.of("N", value, **options)
    written = build([field]).encode()
    assert written == message_of("024e00" + expected)
    assert decode(written, strict=value is not ODD) == build([field])


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("N", None, {}),
        ("N", BLANK, {}),
        ("N", dt.datetime(2000, 1, 1), {}),
        ("N", 2**64, {}),
        ("N", "x", {"type": T.INT}),
        ("N", "x", {"type": T.IPDATA}),
        ("N", "A..B", {"type": T.SUBJECT}),
        ("N", 5, {"type": T.SUBJECT}),
        ("N", 5, {"type": T.XML}),
        ("N", 5, {"type": T.ARRAY_I8}),
        ("N", b"", {"type": T.MESSAGE}),
        ("N", {"A": 1}, {"type": T.INT}),
        ("N", [1, "a"], {}),
        ("N", [None], {}),
        ("N", [True, 1], {}),
        ("N", [b"a"], {}),
        ("N", ["a\0"], {}),
        ("N", [300], {"type": T.ARRAY_U8}),
        ("N", [True], {"type": T.ARRAY_F32}),
        ("N", [1], {"type": T.ARRAY_STR}),
        ("N", [1], {"type": T.ARRAY_MSG}),
        ("N", [1], {"type": T.MESSAGE}),
        ("N", [1], {"type": T.STRING}),
        (None, None, {}),
    ],
)
def test_values_that_cannot_be_written(
    name: str | None, value: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(EncodeError) as caught:
        Field.of(name, value, **options)
    assert caught.value.path == (name or "fields[]")


def test_the_path_of_a_nested_value() -> None:
    with pytest.raises(EncodeError) as caught:
        build({"A": {"B": {"C": None}}})
    assert caught.value.path == "A.B.C"


def test_a_name_may_come_with_its_nul() -> None:
    assert Field.of("AB\0", 1) == Field.of("AB", 1)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (Field("x" * 255, T.INT, b"\0"), "name of 256 bytes"),
        (Field("x" * 253, T.INT, b"\0", fid=1), "name of 256 bytes"),
        (Field("A\0b", T.INT, b"\0"), "read as a field id"),
        (Field("\0ab", T.INT, b"\0", form=Form.NO_NUL), "read as a field id"),
        (Field("", T.INT, b"\0", form=Form.NO_NUL), "without NUL"),
        (Field("A\0", T.INT, b"\0", form=Form.NO_NUL), "without NUL"),
        (Field(None, T.INT, b"\0", fid=1), "needs a name"),
        (Field("A", T.INT, b"\0", fid=65536), "field id 65536"),
        (Field("A", T.INT, b"\0", fid=1, form=Form.NO_NUL), "field id 1"),
        (Field("N", T.MESSAGE, b"x"), "content of another type"),
        (Field("N", T.INT, b"\0", fields=(Field("A", T.INT),)), "content of another type"),
        (Field("N", T.INT, b"\0", messages=(Message(),)), "content of another type"),
        (Field("N", T.INT, bytes(256)), "do not fit"),
        (Field("N", T.INT, b"\0", form=1), "do not fit"),
        (Field("N", T.MESSAGE, form=1), "do not fit"),
        (Field("N", T.OPAQUE, bytes(0x79), form=1), "do not fit"),
        (Field("N", T.OPAQUE, bytes(256), form=1), "do not fit"),
        (Field("N", T.OPAQUE, bytes(65534), form=2), "do not fit"),
        (Field("N", T.INT, b"\0", form=8), "form 0x8"),
        (Field("N", T.INT, b"\0", form=-1), "form"),
        (Field("N", T.MESSAGE, form=1 << 40), "form"),
    ],
)
def test_fields_that_cannot_be_written(field: Field, reason: str) -> None:
    rows = Field("R", T.ARRAY_MSG, messages=(Message(), Message((Field.of("A", 1), field))))
    outer = Message((Field.of("A", 1), Field("M", T.MESSAGE, fields=(rows,))))
    with pytest.raises(EncodeError, match=reason) as caught:
        outer.encode()
    assert caught.value.path == "fields[1].fields[0].messages[1].fields[1]"


def test_a_message_over_four_gigabytes_is_not_written() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return 0xFFFFFFFF

    with pytest.raises(EncodeError, match="too long"):
        message_module._whole(Long(), b"")
    assert message_module._size_bytes(3, 0xFFFFFFFF) == b""


# --- JSON ---------------------------------------------------------------------------------------


def dictionary(**field: Any) -> dict[str, Any]:
    return {"format": "tibrv", "fields": [field]}


@pytest.mark.parametrize(
    "d",
    [
        {},
        {"format": "tibmsg", "fields": []},
        {"format": "tibrv", "fields": {}},
        {"format": "tibrv", "fields": [1]},
        {"format": "tibrv", "fields": [], "x": 1},
        {"format": "tibrv", "fields": [], "dialect": "other"},
        dictionary(name="A"),
        dictionary(name="A", type="nothing"),
        dictionary(name="A", type=["int"]),
        dictionary(name="A", type="int"),
        dictionary(name="A", type="int", value=1, x=1),
        dictionary(name="A", type="int", value=1, fid="x"),
        dictionary(name="A", type="subject"),
        dictionary(name="A", type="subject", value="A..B"),
        dictionary(name="A", type="xml"),
        dictionary(name="A", type="datetime"),
        dictionary(name="A", type="datetime", value="2011"),
        dictionary(name="A", type="datetime", value="0xzz"),
        dictionary(name="A", type="datetime", sec=2**32, usec=0),
        dictionary(name="A", type="datetime", sec=-1, usec=0),
        dictionary(name="A", type="array_i8", values=[300]),
        dictionary(name="A", type="array_str", values=[1]),
        dictionary(name="A", type="array_msg", messages=[1]),
        dictionary(name="A", type="array_msg", messages=[[{}]]),
        dictionary(name="A", type="message", fields=[{}]),
    ],
)
def test_objects_that_are_no_message(d: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        FORMAT.from_dict(d)


def test_the_path_of_what_is_wrong_in_json() -> None:
    with pytest.raises(EncodeError) as caught:
        FORMAT.from_dict(dictionary(name="A", type="array_msg", messages=[[], [{}]]))
    assert caught.value.path == "fields[0].messages[1].fields[0]"


def test_short_objects_are_enough() -> None:
    made = FORMAT.from_dict(
        {
            "format": "tibrv",
            "fields": [
                {"name": "A", "type": "int", "value": 1},
                {"name": "D", "type": "datetime", "sec": 5},
                {"name": "X", "type": "xml", "value": "<a/>"},
                {"type": "message"},
            ],
        }
    )
    assert made.to_values() == {
        "A": 1,
        "D": dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC),
        "X": "<a/>",
    }
