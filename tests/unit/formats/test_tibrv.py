from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import zlib
from collections.abc import Callable
from decimal import Decimal
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    LimitError,
    OptionError,
    TruncatedError,
    WireloomError,
)
from wireloom.formats import tibmsg
from wireloom.formats._tib.values import BLANK, Date, EnumNumber, EnumText, Time
from wireloom.formats.tibrv import FORMAT, Field, FieldType, Form, Message, build, decode, unwrapped
from wireloom.formats.tibrv import message as message_module
from wireloom.formats.tibrv.content import (
    MAX_XML,
    datetime_data,
    read_subject,
    read_xml,
    subject_data,
    xml_data,
)
from wireloom.formats.tibrv.format import TibrvRules
from wireloom.formats.tibrv.walk import ELEMENT, MAX_DEPTH, walk
from wireloom.framing import Frame, Problem
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages

T = FieldType

ODD = b"\1\2\3"
"""Data that no writer would give an int."""
MAGIC = "9955eeaa"


def message_of(body: str) -> bytes:
    raw = bytes.fromhex(body)
    return (8 + len(raw)).to_bytes(4, "big") + bytes.fromhex(MAGIC) + raw


def standard(data: bytes) -> Message:
    return decode(data, dialect="standard")


def one(body: str) -> Field:
    (field,) = standard(message_of(body))
    return field


def refusal(data: bytes, **options: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(data, "tibrv", **{"dialect": "standard", **options})
    return caught.value


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "form", "size"),
    [
        ("00 07 00", 0, 0),
        ("00 07 77" + "00" * 119, 0, 119),
        ("00 07 78" + "00" * 120, 1, 120),
        ("00 07 79 007a" + "00" * 120, 0, 120),
        ("00 07 7b" + "00" * 123, 1, 123),
        ("00 07 ff" + "00" * 255, 1, 255),
        ("00 07 79 0002", 2, 0),
        ("00 07 7a 00000004", 3, 0),
        ("00 07 79 7531" + "00" * 29999, 0, 29999),
        ("00 07 79 7532" + "00" * 30000, 2, 30000),
        ("00 07 7a 00007534" + "00" * 30000, 0, 30000),
        ("00 02 79 0006 01034100", 0, 4),
        ("00 02 04 01034100", 1, 4),
        ("00 02 7a 00000008 01034100", 3, 4),
        ("00 31 04 00000000", 1, 4),
        ("00 31 7a 00000008 00000000", 0, 4),
        ("02 4142 07 00", Form.NO_NUL, 0),
        ("00 01 7a 00000008 9955eeaa", 0, 8),
        ("00 01 7a 00000008 12345678", (0x12345678 ^ 0x9955EEAA) << 8, 8),
        ("01 41 01 7a 00000008 00000000", 0x9955EEAA << 8 | Form.NO_NUL, 8),
    ],
)
def test_every_form_is_kept(body: str, form: int, size: int) -> None:
    data = message_of(body)
    message = standard(data)
    assert (message[0].form, message[0].size) == (form, size)
    assert message.encode() == data
    assert FORMAT.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    if form:
        assert refusal(data, strict=True).code == "not_canonical"
    else:
        decode(data, strict=True)


def test_markers_are_sizes_where_the_size_is_one_byte() -> None:
    for size in (0x79, 0x7A):
        data = message_of(f"00 0b {size:02x}" + "00" * size)
        assert standard(data)[0].size == size
        assert standard(data).encode() == data


@pytest.mark.parametrize(
    ("name", "expected", "fid"),
    [
        ("03 414200", "AB", None),
        ("00", None, None),
        ("01 00", "", None),
        ("03 000001", "", 1),
        ("05 4142000fa1", "AB", 4001),
        ("04 41000000", "A", 0),
        ("03 fc6d6c", "\udcfcml", None),
        ("04 41004200", "A", 0x4200),
    ],
)
def test_names_with_and_without_a_field_id(
    name: str, expected: str | None, fid: int | None
) -> None:
    data = message_of(name + "0b 01 05")
    field = standard(data)[0]
    assert (field.name, field.fid) == (expected, fid)
    assert standard(data).encode() == data
    assert FORMAT.from_dict(json.loads(json.dumps(standard(data).to_dict()))) == standard(data)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("00 02 79 000a 02 0341 00 044243 00", "A.BC"),
        ("00 02 79 0003 00", ""),
        ("00 03 08 4e9dd46c 00025d63", dt.datetime(2011, 10, 18, 19, 33, 0, 154979, tzinfo=dt.UTC)),
        ("00 03 08 00000000 000f4240", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        ("00 03 05 f7276d46bd", b"\xf7\x27\x6d\x46\xbd"),
        ("00 08 03 414200", "AB"),
        ("00 09 01 01", True),
        ("00 0a 04 7f000001", IPv4Address("127.0.0.1")),
        ("00 0a 02 1d4c", 7500),
        ("00 0b 01 ff", -1),
        ("00 0c 01 ff", 255),
        ("00 0d 04 3fc00000", 1.5),
        ("00 20 02 0102", b"\1\2"),
        ("00 22 03 00ff80", (0, -1, -128)),
        ("00 25 05 0001ffff00", (1, 65535)),
        ("00 2d 08 3ff8000000000000", (1.5,)),
        ("00 30 07 00000002 610000", ("a", "")),
        ("00 30 04 00000000", ()),
    ],
)
def test_values(body: str, value: Any) -> None:
    found = one(body).value
    assert found == value
    assert type(found) is type(value)


def test_message_arrays() -> None:
    element = "00000011 9955eeaa 026900 0b 04 00000005"
    data = message_of(f"00 31 7a 00000021 00000002 {element} 00000008 9955eeaa 00 0b 01 07")
    message = decode(data, strict=True)
    assert message[0].value == (build({"i": 5}), build({}))
    assert message[0].messages[0]["i"].value == 5
    assert message[1].value == 7
    assert message.encode() == data
    assert message[0].elements == message[0].messages


def test_what_other_types_do_not_have() -> None:
    field = Field.of("F", 1)
    assert field.elements == ()
    assert field.time_parts is None
    with pytest.raises(DecodeError, match="int is no xml"):
        field.document()
    assert one("00 03 08 00000001 00000002").time_parts == (1, 2)


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        (b"", "truncated", "", 0),
        (bytes(4), "truncated", "", 0),
        (message_of("")[:7], "truncated", "", 0),
        (bytes(5), "magic", "", 4),
        (bytes.fromhex("00000008 9955eeab"), "magic", "", 4),
        (bytes.fromhex("00000007 9955eeaa"), "length", "", 0),
        (message_of("00 0b 01 07")[:-1], "truncated", "", 0),
        (message_of("05 41"), "bounds", "fields[0]", 8),
        (message_of("00 0b"), "bounds", "fields[0]", 8),
        (message_of("00 08 79 00"), "bounds", "fields[0]", 10),
        (message_of("00 08 7a 000000"), "bounds", "fields[0]", 10),
        (message_of("00 01 7a 000000"), "bounds", "fields[0]", 10),
        (message_of("00 0b 04 01"), "bounds", "fields[0]", 11),
        (message_of("00 08 79 0001"), "size", "fields[0]", 10),
        (message_of("00 08 7a 00000003"), "size", "fields[0]", 10),
        (message_of("00 01 7a 00000007 9955eeaa"), "size", "fields[0]", 10),
        (message_of("00 01 08 9955eeaa"), "size", "fields[0]", 10),
        (message_of("00 01 79 0008 9955eeaa"), "size", "fields[0]", 10),
        (message_of("00 0b 01 00 00 04 00"), "type", "fields[1]", 13),
        (message_of("00 ff 00"), "type", "fields[0]", 9),
        (message_of("00 02 00"), "value", "fields[0]", 11),
        (message_of("00 02 01 01"), "value", "fields[0]", 12),
        (message_of("00 02 03 01 0100"), "value", "fields[0]", 12),
        (message_of("00 02 04 01 034141"), "value", "fields[0]", 12),
        (message_of("00 02 04 01 053141"), "value", "fields[0]", 12),
        (message_of("00 02 02 00 00"), "value", "fields[0]", 12),
        (message_of("00 2f 00"), "value", "fields[0]", 11),
        (message_of("00 2f 02 7900"), "value", "fields[0]", 11),
        (message_of("00 2f 03 790001"), "value", "fields[0]", 11),
        (message_of("00 2f 05 7a00000003"), "value", "fields[0]", 11),
        (message_of("00 30 03 000000"), "value", "fields[0]", 11),
        (message_of("00 30 06 00000001 6100".replace("6100", "6161")), "value", "fields[0]", 15),
        (message_of("00 30 06 00000002 6100"), "value", "fields[0]", 15),
        (message_of("00 31 03 000000"), "value", "fields[0]", 11),
        (message_of("00 31 05 00000000 00"), "value", "fields[0]", 15),
        (message_of("00 31 05 00000001 00"), "value", "fields[0]", 15),
        (message_of("00 31 0c 00000001 00000008 9955eeab"), "value", "fields[0]", 15),
        (message_of("00 31 0c 00000001 00000009 9955eeaa"), "value", "fields[0]", 15),
        (
            message_of("00 31 17 00000002 00000008 9955eeaa 0000000b 9955eeaa 00 ff 00"),
            "type",
            "fields[0].messages[1].fields[0]",
            32,
        ),
        (
            message_of("00 01 7a 0000000b 9955eeaa 00 ff 00"),
            "type",
            "fields[0].fields[0]",
            20,
        ),
    ],
)
def test_what_is_refused_and_where(data: bytes, code: str, path: str, offset: int) -> None:
    error = refusal(data)
    assert (error.code, error.path, error.offset) == (code, path, offset)
    assert pickle.loads(pickle.dumps(error)).path == path


def test_bytes_after_the_message_are_ignored_unless_strict() -> None:
    data = message_of("00 0b 01 07")
    assert decode(data + b"xx") == decode(data)
    assert refusal(data + b"xx", strict=True).code == "trailing"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("00 08 01 41", "fields[0]"),
        ("00 09 01 02", "fields[0]"),
        ("00 0b 03 000000", "fields[0]"),
        ("00 0d 02 0000", "fields[0]"),
        ("00 0a 03 000000", "fields[0]"),
        ("00 03 05 0000000000", "fields[0]"),
        ("00 03 08 00000000 000f4240", "fields[0]"),
        ("00 25 03 000000", "fields[0]"),
        ("00 0b 01 00 00 01 7a 0000000c 9955eeaa 00 08 01 41", "fields[1].fields[0]"),
        (
            "00 31 7a 00000018 00000002 00000008 9955eeaa0000000c 9955eeaa 00 08 01 41".replace(
                "00000018", "0000001c"
            ),
            "fields[0].messages[1].fields[0]",
        ),
    ],
)
def test_strict_refuses_what_no_writer_emits(body: str, path: str) -> None:
    data = message_of(body)
    standard(data)
    error = refusal(data, strict=True)
    assert (error.code, error.path) == ("not_canonical", path)


# --- dialects -----------------------------------------------------------------------------------

DOCUMENT = {
    "uint": ("00 0c 05 12345678", 0x12345678),
    "real": ("00 0d 09 3ff8000000000000", 1.5),
    "boolean": ("00 09 02 01", True),
    "datetime": ("00 03 09 00000001 00000000", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
    "ipdata": ("00 0a 05 7f000001", IPv4Address("127.0.0.1")),
    "string": ("00 08 03 4100", "A"),
    "opaque": ("00 07 03 4142", b"AB"),
    "array": ("00 25 05 00010002", (1, 2)),
    "subject": ("00 02 05 01 034100", "A"),
    "long form": ("00 08 79 0004 4100", "A"),
    "nested": ("00 01 7a 0000000f 9955eeaa 00 0c 05 00000007", (Field.of(None, 7, type=T.UINT),)),
}


@pytest.mark.parametrize(("body", "value"), DOCUMENT.values(), ids=DOCUMENT)
def test_the_document_s_dialect(body: str, value: Any) -> None:
    data = message_of(body)
    message = decode(data, dialect="document")
    assert message[0].value == value
    assert message.dialect == "document"
    assert message[0].form == 0
    real = message.encode()
    assert decode(real, strict=True) == message
    assert decode(real).dialect == "standard"
    if body != DOCUMENT["long form"][0]:
        assert decode(data).dialect == "document"
        assert refusal(data).code in ("bounds", "value")
        assert isinstance(refusal(data, dialect="auto", strict=True), DecodeError)
        wireloom.decode(data, "tibrv", dialect="document", strict=True)
    else:
        assert decode(data).dialect == "standard"


@pytest.mark.parametrize(
    "body",
    [
        "00 0c 00 12345678",
        "00 0c 04 123456",
        "00 0d 06 1234567890",
        "00 08 02 41",
        "00 08 01",
        "00 25 04 000100",
        "00 03 05 00000001",
        "00 0a 04 000000",
        "00 08 00",
    ],
)
def test_data_that_is_not_plausible_is_not_of_the_document_s_dialect(body: str) -> None:
    error = refusal(message_of(body), dialect="document")
    assert error.code in ("size", "bounds")


def test_the_standard_reading_is_preferred_and_its_error_reported() -> None:
    data = message_of("00 0c 04 12345678")
    assert decode(data).dialect == "standard"
    bad = message_of("00 0c 09 12345678")
    with pytest.raises(TruncatedError, match="9 bytes needed"):
        decode(bad)


def test_the_dialect_is_shown_and_kept_in_json() -> None:
    data = message_of("00 0c 05 12345678")
    message = decode(data)
    assert message.to_dict()["dialect"] == "document"
    back = FORMAT.from_dict(message.to_dict())
    assert back == message
    assert back.dialect == "document"
    assert "document" in wireloom.outline(data, "tibrv").meaning
    assert "document" in wireloom.outline(data, "tibrv", dialect="document").meaning
    assert wireloom.outline(data, "tibrv", dialect="standard").children[-1].error
    with pytest.raises(OptionError):
        wireloom.decode(data, "tibrv", dialect="other")


def test_streams_of_either_dialect_are_framed() -> None:
    document, plain = message_of("00 0c 05 12345678"), message_of("00 0c 04 12345678")
    stream = document + plain + document
    records = list(wireloom.scan(stream, "tibrv"))
    assert [r.data for r in records] == [document, plain, document]
    records = list(wireloom.scan(stream, "tibrv", dialect="standard"))
    assert [type(r) for r in records] == [Problem, Frame, Problem]
    records = list(wireloom.scan(stream, "tibrv", dialect="document"))
    assert [type(r) for r in records] == [Frame, Problem, Frame]


# --- limits -------------------------------------------------------------------------------------


def test_limits_are_checked_before_anything_is_made() -> None:
    data = message_of("00 0b 01 07" * 3)
    assert isinstance(refusal(data, max_frame=19), FrameTooLargeError)
    error = refusal(data, max_fields=2)
    assert isinstance(error, LimitError)
    assert (error.what, error.limit, error.path) == ("field count", 2, "fields[2]")
    many = message_of("00 31 7a 00000018 00000002" + "00000008 9955eeaa" * 2)
    assert refusal(many, max_fields=2).code == "limit"
    wireloom.decode(many, "tibrv", max_fields=3)
    claimed = message_of("00 31 04 ffffffff")
    assert refusal(claimed).code == "limit"


def nested(depth: int, array: bool = False) -> bytes:
    data = message_of("")
    for _ in range(depth):
        size = 4 + len(data) + 4
        inner = f"00 31 7a {size:08x} 00000001" if array else "00 01 7a"
        data = message_of(inner + data.hex())
    return data


@pytest.mark.parametrize("array", [False, True])
def test_nesting_is_limited(array: bool) -> None:
    data = nested(4, array)
    wireloom.decode(data, "tibrv", max_depth=4)
    error = refusal(data, max_depth=3)
    assert error.code == "limit"
    deep = 10**6
    data = nested(MAX_DEPTH, array)
    message = wireloom.decode(data, "tibrv", max_depth=deep)
    assert message.encode() == data
    assert hash(message) == hash(message)
    assert wireloom.from_dict(message.to_dict()) == message
    assert refusal(nested(MAX_DEPTH + 1, array), max_depth=deep).code == "limit"
    assert refusal(nested(3000, array), max_depth=deep).code == "limit"
    root = wireloom.outline(nested(3000, array), "tibrv", max_depth=deep)
    assert sum(bool(node.error) for _, node in root.walk()) == 1


def test_messages_nested_too_deep_are_not_written() -> None:
    field = Field.of("F", 1)
    for i in range(3000):
        if i % 2:
            field = Field("M", T.MESSAGE, fields=(field,))
        else:
            field = Field("M", T.ARRAY_MSG, messages=(Message((field,)),))
    for write in (lambda: Message((field,)).encode(), lambda: Message((field,)).to_dict()):
        with pytest.raises(EncodeError, match="nested deeper"):
            write()
    d: dict[str, Any] = {"name": "F", "type": "int", "value": 1}
    for _ in range(MAX_DEPTH + 1):
        d = {"name": "M", "type": "array_msg", "messages": [[d]]}
    with pytest.raises(EncodeError, match="nested deeper"):
        FORMAT.from_dict({"format": "tibrv", "fields": [d]})


@pytest.mark.parametrize(
    "unit", ["00 07 00", "00 01 7a 00000008 9955eeaa", "00 31 04 00000000", "00 02 03 01 0200"]
)
def test_hostile_messages_take_linear_work(unit: str, steps: Callable[..., int]) -> None:
    def work(count: int) -> int:
        data = message_of(unit * count)
        return steps(lambda: wireloom.decode(data, "tibrv", max_fields=10**7))

    assert 0 < work(8000) <= 8 * work(1000)


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
    message = standard(message_of(f"00 02 79 {len(data) + 2:04x}" + data.hex()))
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


# --- envelopes ----------------------------------------------------------------------------------

INNER = tibmsg.build({"BID": Decimal("1.25")})


@pytest.mark.parametrize("name", ["_data_", "_TIBMSG", "_RAIMSG"])
def test_a_carried_tibmsg(name: str) -> None:
    envelope = build({name: INNER.encode(), "MORE": 1})
    assert envelope.carried() == ("tibmsg", INNER.encode())
    data = envelope.encode()
    assert wireloom.decode(data, "tibrv", unwrap=True) == INNER
    assert wireloom.decode(data, "tibrv", unwrap=False) == envelope
    assert wireloom.decode(data, "tibrv") == envelope
    assert unwrapped(envelope, lambda _, inner: tibmsg.decode(inner)) == INNER


@pytest.mark.parametrize(
    "envelope",
    [
        build({}),
        build({"A": 1}),
        build({"_data_": 1}),
        build({"_data_": b"junk" * 8}),
        build({"_QFORM": INNER.encode()}),
        build({"other": INNER.encode()}),
        build({"A": 1, "_data_": INNER.encode()}),
        build([Field.of(None, INNER.encode())]),
        build({"_data_": b"\x11\x11\x11\x12\x00\x00\x00"}),
    ],
)
def test_messages_that_carry_none(envelope: Message) -> None:
    assert envelope.carried() is None
    assert unwrapped(envelope, lambda name, data: pytest.fail(name)) is envelope


def test_a_carried_message_that_cannot_be_read() -> None:
    envelope = build({"_data_": INNER.encode()[:-1]})
    error = refusal(envelope.encode(), unwrap=True)
    assert (error.code, error.path) == ("truncated", "fields[0]")


def test_payloads_in_arrays_are_found() -> None:
    message = build({"ROWS": [{"A": b"1"}, {"A": b"2", "M": {"B": b"3"}}], "C": b"4"})
    assert list(message.payloads()) == [
        ("ROWS.messages[0].A", b"1"),
        ("ROWS.messages[1].A", b"2"),
        ("ROWS.messages[1].M.B", b"3"),
        ("C", b"4"),
    ]


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


# --- outline, framing, detection ----------------------------------------------------------------


def test_a_broken_message_shows_everything_up_to_the_failing_field() -> None:
    data = message_of(
        "024100 0b 01 07 024d00 01 7a 00000015 9955eeaa 024200 0b 01 08 024300 ff 01 00 00"
    )
    root = wireloom.outline(data, "tibrv")
    assert [node.name for node in root.children] == ["length", "magic", "A", "M"]
    inner = root.children[-1].children
    assert [n.name for n in inner] == ["name", "type", "size", "length", "magic", "B", "error"]
    assert inner[-1].error == "undefined field type 255"
    assert inner[-1].value == "fields[1].fields[1]"


def test_outlines_show_arrays_of_messages_and_field_ids() -> None:
    message = build([Field.of("R", [{"i": 5}]), Field.of(None, 1), Field.of("F", 2, fid=7)])
    rows, unnamed, with_id = message.outline().children[2:]
    assert [n.name for n in rows.children] == ["name", "type", "size", "count", "message"]
    assert [n.name for n in rows.children[-1].children] == ["length", "magic", "i"]
    assert unnamed.name == "field 5"
    assert with_id.meaning == "int, field id 7"


@pytest.mark.parametrize("data", [b"", bytes(4), b"junkjunk", message_of("")[:7], message_of("00")])
def test_an_outline_never_fails(data: bytes) -> None:
    root = wireloom.outline(data, "tibrv")
    assert sum(bool(node.error) for _, node in root.walk()) == 1


def test_a_strict_outline_shows_what_is_not_canonical() -> None:
    data = message_of("00 07 79 0002")
    assert not any(node.error for _, node in wireloom.outline(data, "tibrv").walk())
    root = wireloom.outline(data, "tibrv", strict=True)
    assert root.children[-1].error.startswith("not canonical")


def test_a_frame_with_a_broken_nested_message_is_kept_if_the_next_one_follows() -> None:
    broken = message_of("00 01 7a 0000000b 9955eeaa 00 ff 00")
    good = message_of("00 0b 01 07")
    records = list(wireloom.scan(broken + good, "tibrv"))
    assert [type(r) for r in records] == [Frame, Frame]
    assert refusal(records[0].data).path == "fields[0].fields[0]"


def test_the_rules_of_framing() -> None:
    rules = TibrvRules("standard")
    data = message_of("00 0b 01 07" * 3)
    assert rules.check(data, 0, len(data), None)
    assert rules.check(data, 0, len(data), 3)
    assert not rules.check(data, 0, len(data), 2)
    assert not rules.check(message_of(""), 0, 8, None)
    assert rules.measure(data, 0, len(data)) == len(data)
    with pytest.raises(TruncatedError):
        rules.measure(data, 0, 3)
    magic = bytes.fromhex(MAGIC)
    assert rules.find(b"xx1234" + magic + b"xx", 0, 12) == 2
    assert rules.find(b"xx1234" + magic, 3, 10) == 6
    assert rules.find(b"xxxx1234" + magic[:2], 0, 10) == 4
    assert rules.find(b"xxxxxxxx", 0, 8) == 4
    assert rules.find(b"xxxxxxxx", 8, 8) == 8
    assert rules.find(b"", 0, 0) == 0


def test_the_walker_can_step_over_content() -> None:
    data = message_of("00 31 14 00000001 00000010 9955eeaa 00 0b 01 07 00 07 01 00 00 0b 01 07")
    slots = list(walk(data, 8, len(data)))
    assert [None if slot is None else slot[2] for slot in slots] == [
        *(49, ELEMENT, 11, 7, None, None, 11)
    ]
    assert len(list(walk(data, 8, len(data), deep=False))) == 2


@pytest.mark.parametrize(
    ("data", "sure"),
    [
        (message_of("00 0b 01 07"), 99),
        (message_of("00 0b 01 07") + b"x", 97),
        (message_of("00 0b 01 07")[:-1], 90),
        (bytes.fromhex("00000007 9955eeaa"), 40),
        (message_of("")[:7], 0),
        (b"", 0),
    ],
)
def test_detection(data: bytes, sure: int) -> None:
    assert FORMAT.detect(data) == sure


def test_every_type_is_described_and_sampled() -> None:
    assert {info.code for info in FORMAT.types()} == set(FieldType)
    assert all(info.summary for info in FORMAT.types())
    seen = {field.type for data in FORMAT.samples().values() for field in decode(data)}
    assert seen == set(FieldType)


def test_a_message_is_what_it_says() -> None:
    message = build({"A": b"\1"})
    assert (message.format, message.type_name, message.dialect) == ("tibrv", "TIBRVMSG", "standard")
    assert pickle.loads(pickle.dumps(message)) == message
    assert "A" in message._repr_html_()


# --- properties ---------------------------------------------------------------------------------


@given(messages("tibrv"))
def test_what_is_written_is_read_again(message: Message) -> None:
    data = message.encode()
    assert standard(data) == message
    assert wireloom.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert not any(node.error for _, node in message.outline().walk())
    for field in message:
        assert field.value is not None
        assert field.size >= 0


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES = (
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary()
    | st.ip_addresses(v=4)
    | st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2106, 1, 1), timezones=st.just(dt.UTC))
    | st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple)
    | st.lists(st.floats(allow_nan=False), min_size=1).map(tuple)
    | st.lists(TEXT, min_size=1).map(tuple)
)


@given(st.dictionaries(st.text(max_size=20).filter(lambda n: "\0" not in n), VALUES))
def test_values_come_back_as_they_went(values: dict[str, Any]) -> None:
    message = build(values)
    back = decode(message.encode(), strict=True)
    assert back == message
    found = back.to_values()
    assert found == values
    for name, value in values.items():
        assert isinstance(found[name], type(value))
        if isinstance(value, float):
            assert math.copysign(1, found[name]) == math.copysign(1, value)


def test_mutants_are_refused_or_kept_byte_for_byte() -> None:
    mutator = Mutator(list(FORMAT.samples().values()), seed=12)
    accepted = 0
    for index in range(1500):
        mutant = mutator.mutant(index)
        examine(FORMAT, mutant, Random(index), thorough=index % 10 == 0)
        try:
            message = standard(mutant)
        except DecodeError:
            continue
        accepted += 1
        assert mutant.startswith(message.encode())
    assert accepted > 100


@settings(max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 2**32))
def test_noise_gives_only_our_errors(noise: bytes, seed: int) -> None:
    body = noise + Random(seed).randbytes(20)
    data = message_of(body.hex())
    try:
        message = decode(data)
    except WireloomError:
        return
    assert message.encode() == data or message.dialect == "document"
