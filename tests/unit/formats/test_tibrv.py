from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from collections.abc import Callable
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
from wireloom.formats.tibrv import FORMAT, Field, FieldType, Form, Message, build, decode
from wireloom.formats.tibrv.walk import MAX_DEPTH
from wireloom.framing import Frame, Problem
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages

T = FieldType

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
