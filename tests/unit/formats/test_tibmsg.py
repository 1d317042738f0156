from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import time
from dataclasses import replace
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
    TruncatedError,
    WireloomError,
)
from wireloom.formats.tibmsg import (
    BLANK,
    FORMAT,
    Date,
    EnumNumber,
    EnumText,
    Field,
    FieldType,
    Form,
    Hint,
    Message,
    Resolution,
    Time,
    build,
    decode,
)
from wireloom.formats.tibmsg.format import TibMsgRules
from wireloom.formats.tibmsg.walk import MAX_DEPTH, walk
from wireloom.framing import Frame, Problem
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages

T = FieldType


def message_of(body: str, version: int = 1) -> bytes:
    raw = bytes.fromhex(body)
    return b"\xce\x13\xaa\x1f" + bytes((version,)) + len(raw).to_bytes(4, "big") + raw


def one(body: str) -> Field:
    (field,) = decode(message_of(body))
    return field


def refusal(data: bytes, **options: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(data, "tibmsg", **options)
    return caught.value


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("00 05 01 07", 0),
        ("00 35 01 07", 3),
        ("00 15 01 07", 1),
        ("00 85 00000001 07", Form.OTHER_SIZE),
        ("01 41 05 01 07", Form.NO_NUL),
        ("00 01 00", Form.OTHER_SIZE),
        ("00 81 00000000", 0),
        ("00 c1 00000000", Form.OTHER_FLAG),
        ("00 48 02 0001 05 02", 0),
        ("00 08 02 0001 05 02", Form.OTHER_FLAG),
        ("00 09 01 41 06 00", Form.OTHER_FLAG),
        ("00 49 01 41 86 00000100", 0),
        ("00 49 01 41 86 000000ff", Form.WIDE_HINT),
        ("00 45 01 07 86 00000001 05", Form.WIDE_HINT),
        ("00 45 01 07 76 01 05", Form.HINT_BITS),
        ("00 f5 00000001 07 f6 00000001 05", 3 | Form.OTHER_SIZE | Form.WIDE_HINT | Form.HINT_BITS),
    ],
)
def test_every_form_is_kept(body: str, form: int) -> None:
    data = message_of(body)
    message = decode(data)
    assert message[0].form == form
    assert message.encode() == data
    assert FORMAT.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    if form:
        assert refusal(data, strict=True).code == "not_canonical"
    else:
        decode(data, strict=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("00 47 08 3fd28f5c28f5c28f 06 01 12", Decimal("0.29")),
        ("00 47 08 3fd28f5c28f5c28f 05 01 12", Decimal("0.29")),
        ("00 47 04 3e947ae1 06 01 00", Decimal("0.29")),
        ("00 47 08 3ff8000000000000 06 02 0012", Decimal("1.50")),
        ("00 47 08 3ff8000000000000 05 01 ff", 1.5),
        ("00 47 08 3ff8000000000000 03 01 12", 1.5),
        ("00 47 08 3ff8000000000000 06 03 000012", 1.5),
        ("00 47 08 3ff8000000000000 06 00", 1.5),
        ("00 47 03 3ff800 06 01 12", b"\x3f\xf8\x00"),
        ("00 47 08 0000000000000000 06 01 7f", BLANK),
        ("00 42 06 31393a333300 06 02 0101", Time(19, 33, resolution=Resolution.MINUTE)),
        ("00 42 04 4e595300 06 02 0105", EnumText("NYS")),
        ("00 42 04 4e595300 06 01 03", "NYS"),
        ("00 42 04 4e595300 06 02 0102", "NYS"),
        ("00 45 01 05 06 02 0105", EnumNumber(5)),
        ("00 45 03 000005 06 02 0105", b"\0\0\5"),
        ("00 45 01 05 06 02 0106", 5),
        ("00 44 01 01 06 02 0105", True),
        ("00 48 05 0102030405 05 02", (258, 772)),
        ("00 48 04 01020304 05 00", ()),
        ("00 48 06 010203040506 05 03", (b"\1\2\3", b"\4\5\6")),
        ("00 48 04 41004142 02 02", ("A", "AB")),
        ("00 49 04 41415555 06 3c", b"AAUU"),
    ],
)
def test_typed_values(field: str, value: Any) -> None:
    found = one(field).value
    assert found == value
    assert type(found) is type(value)


def test_a_date_without_year_is_typed_when_today_is_known() -> None:
    field = Field.of("D", "Mon Jun 08", hint=258)
    assert field.value == "Mon Jun 08"
    assert field.is_unparsed
    assert field.typed(dt.date(2020, 3, 1)) == Date(2020, 6, 8)
    assert not Field.of("D", "01 JAN 2000", hint=258).is_unparsed
    assert not Field.of("D", "NYS", hint=261).is_unparsed


def test_the_wire_value_does_not_look_at_the_hint() -> None:
    assert Field.of("F", Decimal("1.25")).wire_value == 1.25
    assert Field.of("F", Date(2000, 1, 1)).wire_value == "01 JAN 2000"
    assert Field.of("F", {"A": 1}).wire_value == (Field.of("A", 1),)
    assert Field.of("F", [1, 2]).wire_value == (1, 2)
    assert Field.partial("F", b"x", 1).wire_value == b"x"


def test_what_other_types_do_not_have_is_none() -> None:
    field = Field.of("F", 1)
    assert field.partial_offset is None
    assert field.element_type is None
    assert field.element_size is None
    assert field.elements == ()
    assert field.scaled is None
    assert field.hint_number is None
    assert Field.of("F", 1.5).scaled is None
    assert Field.of("F", 1.5, hint=9).scaled is None


def test_names_that_are_not_utf8_and_strings_are_kept() -> None:
    data = message_of("04 fc6d6c00 02 05 80afe9ff00")
    (field,) = decode(data)
    assert field.name == "\udcfcml"
    assert field.value == "\udc80\udcaf\udce9\udcff"
    assert decode(data).encode() == data
    text = json.dumps(decode(data).to_dict())
    assert "fc6d6c" in text
    assert FORMAT.from_dict(json.loads(text)) == decode(data)


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        (b"", "truncated", "", 0),
        (b"\xce\x13", "truncated", "", 0),
        (b"\xce\x14", "magic", "", 0),
        (message_of("")[:8], "truncated", "", 0),
        (message_of("00 05 01 07")[:-1], "truncated", "", 0),
        (message_of("05 41"), "bounds", "fields[0]", 9),
        (message_of("00"), "bounds", "fields[0]", 9),
        (message_of("00 05"), "bounds", "fields[0]", 9),
        (message_of("00 85 0000"), "bounds", "fields[0]", 10),
        (message_of("00 05 04 01"), "bounds", "fields[0]", 12),
        (message_of("00 00 00"), "type", "fields[0]", 10),
        (message_of("00 0b 00"), "type", "fields[0]", 10),
        (message_of("00 05 00 00 0f 00"), "type", "fields[1]", 13),
        (message_of("00 45 00"), "bounds", "fields[0]", 12),
        (message_of("00 45 00 06"), "bounds", "fields[0]", 12),
        (message_of("00 45 00 86 0000"), "bounds", "fields[0]", 12),
        (message_of("00 45 00 06 02 01"), "bounds", "fields[0]", 14),
        (message_of("00 45 00 01 00"), "type", "fields[0]", 12),
        (message_of("00 48 00 08 00"), "type", "fields[0]", 12),
        (message_of("00 09 00"), "bounds", "fields[0]", 12),
        (message_of("00 01 03 00 0500 00 01 03 00 0f 01"), "type", "fields[1].fields[0]", 19),
        (message_of("00 01 05 00 0501 00 00 00 05 01"), "bounds", "fields[0].fields[1]", 16),
        (
            message_of("00 81 00000009 00 81 00000003 00 0c 00"),
            "type",
            "fields[0].fields[0].fields[0]",
            22,
        ),
    ],
)
def test_what_is_refused_and_where(data: bytes, code: str, path: str, offset: int) -> None:
    error = refusal(data)
    assert (error.code, error.path, error.offset) == (code, path, offset)
    assert pickle.loads(pickle.dumps(error)).path == path


def test_bytes_after_the_message_are_ignored_unless_strict() -> None:
    data = message_of("00 05 01 07")
    assert decode(data + b"xx") == decode(data)
    assert refusal(data + b"xx", strict=True).code == "trailing"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("00 02 01 41", "fields[0]"),
        ("00 04 01 02", "fields[0]"),
        ("00 05 03 000000", "fields[0]"),
        ("00 07 02 0000", "fields[0]"),
        ("00 0a 03 000000", "fields[0]"),
        ("00 48 03 000000 05 02", "fields[0]"),
        ("00 48 00 05 00", "fields[0]"),
        ("00 49 01 41 05 01", "fields[0]"),
        ("00 45 01 07 02 02 4100", "fields[0]"),
        ("00 05 01 00 00 81 00000008 00 05 01 01 00 02 01 41", "fields[1].fields[1]"),
        ("00 81 00000004 00 05 01 01 00 02 01 41", "fields[1]"),
    ],
)
def test_strict_refuses_what_no_writer_emits(body: str, path: str) -> None:
    data = message_of(body)
    decode(data)
    error = refusal(data, strict=True)
    assert (error.code, error.path) == ("not_canonical", path)


def test_the_version_is_kept() -> None:
    data = message_of("00 05 01 07", version=0)
    message = decode(data)
    assert message.version == 0
    assert message.encode() == data
    assert message.to_dict()["version"] == 0
    assert FORMAT.from_dict(message.to_dict()) == message
    assert refusal(data, strict=True).path == "version"
    with pytest.raises(EncodeError):
        Message((), 256).encode()


# --- limits -------------------------------------------------------------------------------------


def test_limits_are_checked_before_anything_is_made() -> None:
    data = message_of("00 05 01 07" * 3)
    assert isinstance(refusal(data, max_frame=20), FrameTooLargeError)
    error = refusal(data, max_fields=2)
    assert isinstance(error, LimitError)
    assert (error.what, error.limit, error.path) == ("field count", 2, "fields[2]")
    wireloom.decode(data, "tibmsg", max_fields=3)
    huge = b"\xce\x13\xaa\x1f\x01\xff\xff\xff\xff"
    assert isinstance(refusal(huge), FrameTooLargeError)


def nested(depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        body = b"\0\x81" + len(body).to_bytes(4, "big") + body
    return message_of(body.hex())


def test_nesting_is_limited() -> None:
    data = nested(4)
    wireloom.decode(data, "tibmsg", max_depth=4)
    error = refusal(data, max_depth=3)
    assert (error.code, error.path) == ("limit", ".".join(["fields[0]"] * 4))


def test_no_limit_allows_nesting_that_python_cannot_compare() -> None:
    deep = 10**6
    data = nested(MAX_DEPTH)
    message = wireloom.decode(data, "tibmsg", max_depth=deep)
    assert message.encode() == data
    assert wireloom.from_dict(message.to_dict()) == message
    assert hash(message) == hash(message)
    assert repr(message)
    assert refusal(nested(MAX_DEPTH + 1), max_depth=deep).code == "limit"
    assert refusal(nested(5000), max_depth=deep).code == "limit"
    root = wireloom.outline(nested(5000), "tibmsg", max_depth=deep)
    assert sum(bool(node.error) for _, node in root.walk()) == 1


def test_messages_nested_too_deep_are_not_written() -> None:
    field = Field.of("F", 1)
    for _ in range(3000):
        field = Field("M", T.MESSAGE, fields=(field,))
    for write in (lambda: Message((field,)).encode(), lambda: Message((field,)).to_dict()):
        with pytest.raises(EncodeError, match="nested deeper"):
            write()
    d: dict[str, Any] = {"name": "F", "type": "int", "value": 1}
    for _ in range(MAX_DEPTH + 1):
        d = {"name": "M", "type": "message", "fields": [d]}
    with pytest.raises(EncodeError, match="nested deeper"):
        FORMAT.from_dict({"format": "tibmsg", "fields": [d]})


@pytest.mark.parametrize("unit", ["00 03 00", "00 81 00000000", "00 48 00 05 01", "01 00 05 00"])
def test_hostile_messages_take_linear_time(unit: str) -> None:
    def seconds(count: int) -> float:
        data = message_of(unit * count)
        start = time.perf_counter()
        wireloom.decode(data, "tibmsg", max_fields=10**7)
        return time.perf_counter() - start

    seconds(1000)
    small, large = min(seconds(2000) for _ in range(3)), seconds(40_000)
    assert large < 20 * small * 8 + 0.2


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (True, {}, "04 01 01"),
        (5, {}, "05 04 00000005"),
        (-1, {"size": 1}, "05 01 ff"),
        (2**31, {}, "05 08 0000000080000000"),
        (2**63, {}, "06 08 8000000000000000"),
        (5, {"type": T.UINT, "size": 2}, "06 02 0005"),
        (5, {"type": T.REAL}, "07 08 4014000000000000"),
        (7500, {"type": T.IPDATA}, "0a 02 1d4c"),
        ("10.0.0.1", {"type": T.IPDATA}, "0a 04 0a000001"),
        (1.5, {}, "07 08 3ff8000000000000"),
        (1.5, {"size": 4}, "07 04 3fc00000"),
        ("AB", {}, "02 03 414200"),
        ("", {}, "02 01 00"),
        ("AB", {"hint": 261}, "42 03 414200 06 02 0105"),
        ("AB", {"hint": Hint(T.INT, 1, b"\5")}, "42 03 414200 05 01 05"),
        (b"\1\2", {}, "03 02 0102"),
        (b"\1\2\3", {"type": T.INT}, "05 03 010203"),
        (bytearray(b"\1"), {}, "03 01 01"),
        (IPv4Address("10.0.0.1"), {}, "0a 04 0a000001"),
        (Decimal("0.29"), {}, "47 08 3fd28f5c28f5c28f 06 01 12"),
        (Decimal("1.5"), {"size": 4}, "47 04 3fc00000 06 01 11"),
        (Decimal("1.5"), {"hint": 2}, "47 08 3ff8000000000000 06 01 02"),
        (Decimal(1024), {}, "47 08 4090000000000000 06 01 00"),
        (Decimal("NaN"), {}, "47 08 7ff8000000000000 06 01 00"),
        (BLANK, {}, "47 08 0000000000000000 06 01 7f"),
        (Date(2000, 2, 29), {}, "42 0c 3239204645422032303030 00 06 02 0102"),
        (dt.date(2000, 2, 29), {}, "42 0c 3239204645422032303030 00 06 02 0102"),
        (Date(), {}, "42 0c 2020202020202020202020 00 06 02 0102"),
        (dt.time(1, 2, 3), {}, "42 09 30313a30323a3033 00 06 02 0104"),
        (Time(19, 33, resolution=Resolution.MINUTE), {}, "42 06 31393a3333 00 06 02 0103"),
        (EnumText("NYS"), {}, "42 04 4e595300 06 02 0105"),
        (EnumNumber(5), {}, "46 02 0005 06 02 0105"),
        (EnumNumber(-5), {}, "45 02 fffb 06 02 0105"),
        (EnumNumber(70000), {}, "46 04 00011170 06 02 0105"),
        ([1, 2], {}, "48 08 0000000100000002 05 04"),
        ([1, 2], {"size": 1}, "48 02 0102 05 01"),
        ([1, 2**40], {}, "48 10 00000000000000010000010000000000 05 08"),
        ([1, 2**63], {}, "48 10 00000000000000018000000000000000 06 08"),
        ([1, 1.5], {}, "48 10 3ff00000000000003ff8000000000000 07 08"),
        ([True], {}, "48 01 01 04 01"),
        (["a", "bcd"], {}, "48 08 6100000062636400 02 04"),
        ([b"ab", b"cd"], {}, "48 04 61626364 03 02"),
        ([IPv4Address("1.2.3.4")], {}, "48 04 01020304 0a 04"),
        ([], {}, "48 00 05 04"),
        ({"A": 1}, {}, "81 00000009 0241000504 00000001"),
        ([], {"type": T.MESSAGE}, "81 00000000"),
        ((Field.of("A", 1),), {}, "81 00000009 0241000504 00000001"),
        (build({"A": 1}), {}, "81 00000009 0241000504 00000001"),
        ({"A": Field.of("X", 1)}, {}, "81 00000009 0241000504 00000001"),
    ],
)
def test_values_become_fields(value: Any, options: dict[str, Any], expected: str) -> None:
    field = Field.of("N", value, **options)
    written = build([field]).encode()
    assert written == message_of("024e00" + expected)
    assert decode(written, strict=value != b"\1\2\3") == build([field])


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("N", None, {}),
        ("N", object(), {}),
        ("N", dt.datetime(2000, 1, 1), {}),
        ("N", 2**64, {}),
        ("N", 300, {"size": 1}),
        ("N", -1, {"type": T.UINT}),
        ("N", "x", {"type": T.INT}),
        ("N", "x", {"type": T.IPDATA}),
        ("N", "x", {"type": T.MESSAGE}),
        ("N", b"x", {"type": T.PARTIAL}),
        ("N", {"A": 1}, {"type": T.INT}),
        ("N", [1, "a"], {}),
        ("N", [None], {}),
        ("N", [{"A": 1}], {}),
        ("N", [b"a", b"bc"], {}),
        ("N", [1, Field.of("A", 1)], {}),
        ("N", [], {"size": 0}),
        ("N", Decimal("0.123456789012345678"), {}),
        ("N", Decimal("0.3"), {"size": 4, "hint": 31}),
        ("N", Decimal("0.3"), {"hint": 1}),
        ("N", Decimal("0.3"), {"hint": 99}),
        ("N", Decimal("NaN"), {"hint": 99}),
        ("N", 1, {"hint": -1}),
        ("N", 1, {"hint": 2**64}),
        ("N", "\ud800", {}),
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


def test_arrays_of_given_types() -> None:
    assert Field.array("A", ["a"], T.STRING, 4).data == b"a\0\0\0"
    assert Field.array("A", [b"ab"], T.STRING).data == b"ab"
    assert Field.array("A", [], T.REAL).hint == Hint(T.REAL, 8)
    assert Field.array("A", [80], T.IPDATA).data == b"\0\x50"
    assert Field.array("A", [], T.OPAQUE).hint == Hint(T.OPAQUE, 4)
    with pytest.raises(EncodeError, match="an array of message"):
        Field.array("A", [], T.MESSAGE)
    with pytest.raises(EncodeError, match="at least one byte"):
        Field.array("A", [b""])


def test_partials() -> None:
    assert build([Field.partial("P", "\u00e9", 300)]).encode() == message_of(
        "025000 49 02 c3a9 86 0000012c"
    )
    for offset in (-1, 2**32):
        with pytest.raises(EncodeError):
            Field.partial("P", b"", offset)


def test_a_name_may_come_with_its_nul() -> None:
    assert Field.of("AB\0", 1) == Field.of("AB", 1)


def test_hint_sizes() -> None:
    sizes = [Hint.of(n).size for n in (0, 255, 256, 65536, 2**32)]
    assert sizes == [1, 1, 2, 4, 8]
    assert Hint.of(5, 4) == Hint(T.UINT, 4, b"\0\0\0\5")
    assert Hint.of(5).value == 5


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (Field("x" * 255, T.INT, b"\0"), "name of 256 bytes"),
        (Field("\ud800", T.INT, b"\0"), "no bytes"),
        (Field("N", T.MESSAGE, b"x"), "a message has fields"),
        (Field("N", T.MESSAGE, hint=Hint.of(1)), "a message has fields"),
        (Field("N", T.INT, b"\0", fields=(Field("A", T.INT),)), "has no fields"),
        (Field("N", T.ARRAY, b""), "needs a hint"),
        (Field("N", T.PARTIAL, b""), "needs a hint"),
        (Field("N", T.INT, b"\0", Hint(T.MESSAGE, 0)), "not a scalar type"),
        (Field("N", T.INT, b"\0", Hint(T.UINT, 2, b"\0")), "hint of size 2 with 1 bytes"),
        (Field("N", T.ARRAY, b"", Hint(T.INT, 1, b"\0")), "hint of size 1 with 1 bytes"),
        (Field("N", T.PARTIAL, b"", Hint(T.UINT, 2**32)), "hint size"),
        (Field("N", T.OPAQUE, bytes(256), form=Form.OTHER_SIZE), "do not fit"),
        (Field("N", T.INT, b"\0", form=Form.WIDE_HINT), "form 0x20"),
        (Field("N", T.INT, b"\0", form=Form.OTHER_FLAG), "form 0x8"),
        (Field("", T.INT, b"\0", form=Form.NO_NUL), "form 0x10"),
        (Field("A\0", T.INT, b"\0", form=Form.NO_NUL), "form 0x10"),
        (Field("N", T.INT, b"\0", form=0x200), "form 0x200"),
        (Field("N", T.INT, b"\0", form=-1), "form"),
    ],
)
def test_fields_that_cannot_be_written(field: Field, reason: str) -> None:
    inner = Message((Field.of("A", 1), Field("M", T.MESSAGE, fields=(field,))))
    with pytest.raises(EncodeError, match=reason) as caught:
        inner.encode()
    assert caught.value.path == "fields[1].fields[0]"


# --- JSON ---------------------------------------------------------------------------------------


def dictionary(**field: Any) -> dict[str, Any]:
    return {"format": "tibmsg", "fields": [field]}


@pytest.mark.parametrize(
    "d",
    [
        {},
        {"format": "tibrv", "fields": []},
        {"format": "tibmsg", "fields": {}},
        {"format": "tibmsg", "fields": [1]},
        {"format": "tibmsg", "fields": [], "x": 1},
        {"format": "tibmsg", "fields": [], "version": "1"},
        dictionary(name="A"),
        dictionary(name="A", type="nothing"),
        dictionary(name="A", type=5),
        dictionary(name="A", type="int"),
        dictionary(name="A", type="int", value=1, x=1),
        dictionary(name=1, type="int", value=1),
        dictionary(name="A", type="int", value=1, form="x"),
        dictionary(name="A", type="int", value=1, hint_type="array", hint_size=1, hint=1),
        dictionary(name="A", type="int", value=1, hint_type="uint", hint=1),
        dictionary(name="A", type="int", value=1, hint_type="uint", hint_size=1, hint=300),
        dictionary(name="A", type="int", value=1, hint_type="opaque", hint_size=1),
        dictionary(name="A", type="array", values=[1]),
        dictionary(name="A", type="array", values=[1], elem_type="int"),
        dictionary(name="A", type="array", values=[300], elem_type="int", elem_size=1),
        dictionary(name="A", type="partial", value="x"),
        dictionary(name="A", type="message", fields=[{}]),
    ],
)
def test_objects_that_are_no_message(d: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        FORMAT.from_dict(d)


def test_short_objects_are_enough() -> None:
    made = FORMAT.from_dict(
        {
            "format": "tibmsg",
            "fields": [
                {"name": "A", "type": "int", "value": 1},
                {"type": "string", "value": "x"},
                {"name": "P", "type": "partial", "value": "ab", "partial_offset": 3},
                {"name": "Q", "type": "partial", "raw": "00ff", "partial_offset": 3},
                {"name": "M", "type": "message"},
                {"name": "R", "type": "array", "elem_type": "int", "elem_size": 1, "raw": "0102"},
            ],
        }
    )
    assert made == build(
        [
            Field.of("A", 1),
            Field.of(None, "x"),
            Field.partial("P", "ab", 3),
            Field.partial("Q", b"\0\xff", 3),
            Field.of("M", {}),
            Field.array("R", [1, 2], T.INT, 1),
        ]
    )


@pytest.mark.parametrize(
    "hint",
    [
        Hint(T.STRING, 4, b"abc\0"),
        Hint(T.STRING, 3, b"abc"),
        Hint(T.STRING, 2, b"\xff\0"),
        Hint(T.STRING, 3, b"a\0b"),
        Hint(T.OPAQUE, 2, b"\0\1"),
        Hint(T.REAL, 4, b"\x7f\xc0\0\1"),
        Hint(T.IPDATA, 4, b"\1\2\3\4"),
        Hint(T.INT, 3, b"\1\2\3"),
        Hint(T.BOOLEAN, 1, b"\2"),
        Hint(T.UINT, 0, b""),
    ],
)
def test_hints_of_any_type_survive_json(hint: Hint) -> None:
    message = Message((Field("A", T.INT, b"\1", hint),))
    assert decode(message.encode()) == message
    text = json.dumps(message.to_dict(), allow_nan=False)
    assert FORMAT.from_dict(json.loads(text)) == message


# --- outline, framing, detection ----------------------------------------------------------------


def test_a_broken_message_shows_everything_up_to_the_failing_field() -> None:
    data = message_of("024100 05 01 07 024d00 01 0d 024200 05 01 08 024300 0f 01 00 00")
    root = wireloom.outline(data, "tibmsg")
    assert [node.name for node in root.children] == ["magic", "version", "size", "A", "M"]
    nested_nodes = root.children[-1].children
    assert [node.name for node in nested_nodes] == ["name", "type", "size", "B", "error"]
    assert nested_nodes[-1].error == "undefined field type 15"
    assert nested_nodes[-1].value == "fields[1].fields[1]"


def test_outlines_tell_types_hints_and_values() -> None:
    message = build(
        [
            Field.of("P", Decimal("1.25")),
            Field.of(None, [1, 2]),
            Field.partial("Q", b"x", 7),
            Field.of("I", 1),
        ]
    )
    shown = {node.name: (node.value, node.meaning) for node in message.outline().children[3:]}
    assert shown == {
        "P": ("1.25", "real <18>"),
        "field 1": ("[1, 2]", "array of int 4"),
        "Q": ("78", "partial at 7"),
        "I": ("1", "int"),
    }


@pytest.mark.parametrize("data", [b"", b"\xce\x13", b"junk", message_of("")[:8], message_of("00")])
def test_an_outline_never_fails(data: bytes) -> None:
    root = wireloom.outline(data, "tibmsg")
    assert sum(bool(node.error) for _, node in root.walk()) == 1


def test_a_strict_outline_shows_what_is_not_canonical() -> None:
    data = message_of("00 85 00000001 07")
    assert not any(node.error for _, node in wireloom.outline(data, "tibmsg").walk())
    root = wireloom.outline(data, "tibmsg", strict=True)
    assert root.children[-1].error.startswith("not canonical")


def test_a_frame_with_a_broken_nested_message_is_kept_if_the_next_one_follows() -> None:
    broken = message_of("00 01 03 00 0f 01")
    good = message_of("00 05 01 07")
    records = list(wireloom.scan(broken + good, "tibmsg"))
    assert [type(r) for r in records] == [Frame, Frame]
    assert refusal(records[0].data).path == "fields[0].fields[0]"


def test_a_damaged_frame_does_not_swallow_the_next() -> None:
    good = message_of("00 05 01 07")
    opaque = message_of("00 03 20" + "00" * 32)
    # Cut where the opaque can take bytes of the next message instead, it is lost with it.
    for size in (10, 43):
        records = list(wireloom.scan(opaque[:size] + good + good, "tibmsg"))
        assert isinstance(records[-1], Frame)
    bad = message_of("00 0f 01 07")
    records = list(wireloom.scan(bad + good, "tibmsg"))
    assert [type(r) for r in records] == [Problem, Frame]
    assert isinstance(records[0], Problem)
    assert (records[0].code, records[0].path, records[0].at) == ("type", "fields[0]", 10)


def test_the_rules_of_framing() -> None:
    rules = TibMsgRules()
    data = message_of("00 05 01 07" * 3)
    assert rules.check(data, 0, len(data), None)
    assert rules.check(data, 0, len(data), 3)
    assert not rules.check(data, 0, len(data), 2)
    assert not rules.check(message_of(""), 0, 9, None)
    assert rules.measure(data, 0, len(data)) == len(data)
    with pytest.raises(TruncatedError):
        rules.measure(data, 0, 3)
    assert rules.find(b"xx\xce\x13\xaa\x1fxx", 0, 8) == 2
    assert rules.find(b"xxx\xce\x13", 0, 5) == 3
    assert rules.find(b"xxx\xce", 0, 4) == 3
    assert rules.find(b"xxx\xce\x13\xaa", 4, 6) == 6
    assert rules.find(b"xxxx", 0, 4) == 4


def test_the_walker_can_step_over_nested_messages() -> None:
    data = message_of("00 01 03 00 05 00 00 05 00")
    slots = list(walk(data, 9, len(data)))
    assert [slot is None for slot in slots] == [False, False, True, False]
    assert len(list(walk(data, 9, len(data), deep=False))) == 2


@pytest.mark.parametrize(
    ("data", "sure"),
    [
        (message_of("00 05 01 07"), 99),
        (message_of("00 05 01 07") + b"x", 97),
        (message_of("00 05 01 07")[:-1], 90),
        (message_of("")[:8], 80),
        (b"\xce\x13\xaa", 0),
        (b"", 0),
    ],
)
def test_detection(data: bytes, sure: int) -> None:
    assert FORMAT.detect(data) == sure


def test_every_type_is_described_and_sampled() -> None:
    assert [info.code for info in FORMAT.types()] == list(range(1, 11))
    assert all(info.summary for info in FORMAT.types())
    seen = {field.type for data in FORMAT.samples().values() for field in decode(data)}
    assert seen == set(FieldType)


def test_a_message_is_what_it_says() -> None:
    message = build({"A": b"\1"})
    assert (message.format, message.type_name) == ("tibmsg", "TIBMSG")
    assert list(message.payloads()) == [("A", b"\1")]
    assert pickle.loads(pickle.dumps(message)) == message
    assert "A" in message._repr_html_()
    assert replace(message, version=2) != message


# --- properties ---------------------------------------------------------------------------------


@given(messages("tibmsg"))
def test_what_is_written_is_read_again(message: Message) -> None:
    data = message.encode()
    assert decode(data) == message
    assert wireloom.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert not any(node.error for _, node in message.outline().walk())
    for field in message:
        assert field.value is not None
        assert field.size >= 0


VALUES = (
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.binary()
    | st.ip_addresses(v=4)
    | st.decimals(-(10**6), 10**6, places=4)
    | st.just(BLANK)
    | st.dates(min_value=dt.date(1000, 1, 1)).map(Date.of)
    | st.times().map(Time.of)
)


@given(st.dictionaries(st.text(max_size=20).filter(lambda n: not n.endswith("\0")), VALUES))
def test_values_come_back_as_they_went(values: dict[str, Any]) -> None:
    message = build(values)
    back = decode(message.encode(), strict=True)
    assert back == message
    found = back.to_values()
    assert found == values
    for name, value in values.items():
        if isinstance(value, float):
            assert math.copysign(1, found[name]) == math.copysign(1, value)
        else:
            assert isinstance(found[name], type(value))


def test_mutants_are_refused_or_kept_byte_for_byte() -> None:
    mutator = Mutator(list(FORMAT.samples().values()), seed=11)
    accepted = 0
    for index in range(1500):
        mutant = mutator.mutant(index)
        examine(FORMAT, mutant, Random(index), thorough=index % 10 == 0)
        try:
            message = decode(mutant)
        except DecodeError:
            continue
        accepted += 1
        assert mutant.startswith(message.encode())
    assert accepted > 100


@settings(max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 2**32))
def test_noise_gives_only_our_errors(noise: bytes, seed: int) -> None:
    random = Random(seed)
    body = noise + random.randbytes(20)
    try:
        message = decode(message_of(body.hex()))
    except WireloomError:
        return
    assert message.encode() == message_of(body.hex())
