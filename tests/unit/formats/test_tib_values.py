from __future__ import annotations

import datetime as dt
import math
import pickle
import struct
from decimal import Decimal, localcontext
from fractions import Fraction
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats._tib import jsonform, scalars
from wireloom.formats._tib.decimals import Scaled, is_decimal_hint, real_and_hint, scale
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.payloads import payloads
from wireloom.formats._tib.scalars import Kind
from wireloom.formats._tib.show import MAX_SHOWN, add_error, brief
from wireloom.formats._tib.texts import MAX_TEXT, parse_date, parse_time
from wireloom.formats._tib.values import (
    BLANK,
    Blank,
    Date,
    EnumNumber,
    EnumText,
    Resolution,
    Time,
)
from wireloom.formats.tibmsg import Field, FieldType, build
from wireloom.outline import Node

# --- dates and times ----------------------------------------------------------------------------

TODAY = dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02APR13", (2013, 4, 2)),
        ("18Apr2014", (2014, 4, 18)),
        ("13 Jul 12", (2012, 7, 13)),
        ("08 JUL 2013", (2013, 7, 8)),
        (" 8 JUL 2013", (2013, 7, 8)),
        ("3 Jun 21", (2021, 6, 3)),
        ("13-jul-69", (2069, 7, 13)),
        ("13-Jul-70", (1970, 7, 13)),
        ("31-Aug-2014", (2014, 8, 31)),
        ("Jul 13 12", (2012, 7, 13)),
        ("JUL 08 2013", (2013, 7, 8)),
        ("Jun 3 21", (2021, 6, 3)),
        ("Jul 1, 2013", (2013, 7, 1)),
        ("Jul 11, 2013", (2013, 7, 11)),
        ("01/31/95", (1995, 1, 31)),
        ("04/23/2014", (2014, 4, 23)),
        ("04-23-2014", (2014, 4, 23)),
        ("2014-09-04", (2014, 9, 4)),
        ("2014/09/04", (2014, 9, 4)),
        ("20140904", (2014, 9, 4)),
        ("21 08 2014", (2014, 8, 21)),
        ("Feb14", (2014, 2, 1)),
        ("May 15", (2015, 5, 1)),
        ("JAN 2000", (2000, 1, 1)),
        ("2013 Jul 2", (2013, 7, 2)),
        ("2013 Jul 28", (2013, 7, 28)),
        ("25569", (1970, 1, 1)),
        ("41000", (2012, 4, 1)),
        ("  08 JUL 2013   ", (2013, 7, 8)),
        ("", (0, 0, 0)),
        ("           ", (0, 0, 0)),
        ("  /  /  ", (0, 0, 0)),
        ("  -  -    ", (0, 0, 0)),
        ("00/00/00", (0, 0, 0)),
        ("00/00/0000", (0, 0, 0)),
        ("0000-00-00", (0, 0, 0)),
        ("00000000", (0, 0, 0)),
    ],
)
def test_date_texts(text: str, expected: tuple[int, int, int]) -> None:
    assert parse_date(text) == Date(*expected)
    assert parse_date(text, TODAY) == Date(*expected)


@pytest.mark.parametrize(
    "text",
    [
        "99 XYZ 2011",
        "31 FEB 2011",
        "29 FEB 2001",
        "00 JAN 2000",
        "13/01/2000",
        "1/1/2000",
        "01 JAN 0999",
        "25568",
        "00001",
        "garbage",
        "13-Jul 12",
        "2014-09/04",
        "x" * (MAX_TEXT + 1),
        "\u0661\u0661 JAN 2000",
        "08 JUL 2013 x",
    ],
)
def test_texts_that_are_no_date(text: str) -> None:
    assert parse_date(text, TODAY) is None


@pytest.mark.parametrize(
    ("text", "today", "expected"),
    [
        ("Mon Jun 08", TODAY, Date(2020, 6, 8)),
        ("06/01 05:36", TODAY, Date(2020, 6, 1)),
        ("Tue Dec 31", TODAY, Date(2019, 12, 31)),
        ("Tue Dec 31", dt.date(2020, 1, 2), Date(2020, 12, 31)),
        ("Sat Feb 29", TODAY, Date(2020, 2, 29)),
        ("Sat Feb 29", dt.date(2021, 1, 1), None),
        ("Mon Jun 08", None, None),
        ("06/01 05:36", None, None),
    ],
)
def test_dates_without_a_year_need_to_know_today(
    text: str, today: dt.date | None, expected: Date | None
) -> None:
    assert parse_date(text, today) == expected


@given(st.dates(min_value=dt.date(1000, 1, 1)))
def test_a_written_date_is_read_again(date: dt.date) -> None:
    value = Date.of(date)
    assert parse_date(value.text) == value
    assert value.to_date() == date


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    found = parse_date(text, TODAY)
    assert found is None or parse_date(found.text) == found
    time = parse_time(text)
    assert time is None or parse_time(time.text) == time


def test_long_texts_are_read_in_no_time() -> None:
    for text in (" " * 10**6, ":" * 10**6, "0" * 10**6, "-" * 10**6, " :" * 10**6):
        assert parse_date(text, TODAY) in (None, Date())
        assert parse_time(text) in (None, Time(is_null=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("19:33", Time(19, 33, resolution=Resolution.MINUTE)),
        ("9:05", Time(9, 5, resolution=Resolution.MINUTE)),
        ("01:02:03", Time(1, 2, 3)),
        ("01:02:03.9", Time(1, 2, 3, 900, Resolution.MILLISECOND)),
        ("01:02:03.999", Time(1, 2, 3, 999, Resolution.MILLISECOND)),
        ("01:02:03:12", Time(1, 2, 3, 120, Resolution.MILLISECOND)),
        ("01:02:03.99999", Time(1, 2, 3, 999990, Resolution.MICROSECOND)),
        ("01:02:03.0000001", Time(1, 2, 3, 100, Resolution.NANOSECOND)),
        ("  01:02:03  ", Time(1, 2, 3)),
        ("24:00", Time(24, 0, resolution=Resolution.MINUTE)),
        ("23:59:60", Time(23, 59, 60)),
        ("", Time(is_null=True)),
        ("     ", Time(is_null=True)),
        ("  :  ", Time(resolution=Resolution.MINUTE, is_null=True)),
        ("  :  :  ", Time(is_null=True)),
        ("  :  :  .   ", Time(is_null=True)),
    ],
)
def test_time_texts(text: str, expected: Time) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    "text",
    ["25:00", "12:60", "12:00:61", "1:2", "12", "12:00:00.0123456789", "noon", ":::", "9" * 40],
)
def test_texts_that_are_no_time(text: str) -> None:
    assert parse_time(text) is None


@given(st.times())
def test_a_written_time_is_read_again(time: dt.time) -> None:
    value = Time.of(time)
    assert parse_time(value.text) == value
    assert value.to_time() == time


def test_a_time_is_as_coarse_as_it_can_be() -> None:
    assert Time.of(dt.time(1, 2)) == Time(1, 2, 0)
    assert Time.of(dt.time(1, 2, 3, 4000)) == Time(1, 2, 3, 4, Resolution.MILLISECOND)
    assert Time.of(dt.time(1, 2, 3, 4)) == Time(1, 2, 3, 4, Resolution.MICROSECOND)


def test_what_a_time_tells() -> None:
    time = Time(1, 2, 3, 4, Resolution.MICROSECOND)
    assert (time.fraction_ns, time.day_ns, time.code) == (4000, 3_723_000_004_000, 2)
    assert str(time) == "01:02:03.000004"
    assert Time(resolution=Resolution.MINUTE, is_null=True).code == 12
    assert Time.of(None) == Time(is_null=True)
    assert Time.of(None).to_time() is None
    assert Time(24).to_time() is None
    assert Time(23, 59, 60).to_time() is None


def test_what_a_date_tells() -> None:
    assert Date.of(None) == Date()
    assert Date().is_null
    assert Date().to_date() is None
    assert str(Date()) == " " * 11
    assert str(Date(2011, 10, 18)) == "18 OCT 2011"
    assert not Date(1, 1, 1).is_null


@pytest.mark.parametrize("parts", [(2011, 2, 30), (0, 1, 1), (10000, 1, 1), ("x", 1, 1)])
def test_there_is_no_such_date(parts: Any) -> None:
    with pytest.raises(EncodeError, match="no such date"):
        Date(*parts)


@pytest.mark.parametrize(
    "parts",
    [
        (25,),
        (1, 60),
        (1, 1, 61),
        (1, 1, 1, 1),
        (1, 1, 1, 1000, 1),
        (1, 1, 1, 0, 4),
        (1, 0, 0, 0, 0, True),
        (1, 1, 1, 0, 9),
        ("1",),
    ],
)
def test_there_is_no_such_time(parts: Any) -> None:
    with pytest.raises(EncodeError, match="no such time"):
        Time(*parts)


def test_blank_is_neither_none_nor_zero() -> None:
    assert isinstance(BLANK, Blank)
    others: tuple[Any, ...] = (None, 0, "")
    assert BLANK not in others
    assert repr(BLANK) == "BLANK"
    assert pickle.loads(pickle.dumps(BLANK)) is BLANK


def test_enums_are_numbers_and_texts() -> None:
    assert EnumNumber(2) == 2
    assert EnumText("NYS") == "NYS"
    assert (repr(EnumNumber(2)), repr(EnumText("NYS"))) == ("EnumNumber(2)", "EnumText('NYS')")


# --- decimals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("places", range(16))
def test_decimals_are_rounded_to_the_nearest_never_cut(places: int) -> None:
    for units in (1, 28, 29, 57, 58, 113, 819, 820, 1754191, 123456789):
        wanted = Decimal(units).scaleb(-places)
        found = scale(float(wanted), 16 + places)
        assert found is not None
        assert found.value == wanted
        assert found.ival == units


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([*range(1, 9), *range(16, 32)]),
)
def test_the_significand_is_nearest_to_the_exact_value(value: float, hint: int) -> None:
    found = scale(value, hint)
    assert found is not None
    unit = Fraction(2**hint) if hint < 9 else Fraction(10 ** (hint - 16))
    exact = Fraction(value) * unit
    assert abs(found.ival - exact) <= Fraction(1, 2)
    assert found.ival == round(exact)  # Python's round takes ties to even
    decimal = found.value
    assert isinstance(decimal, Decimal)
    assert Fraction(decimal) * unit == found.ival


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_hint_zero_is_the_shortest_text(value: float) -> None:
    found = scale(value, 0)
    assert found is not None
    assert float(found.text) == value
    if value.is_integer():
        assert found == (int(value), 1)
    else:
        assert Decimal(found.text) == Decimal(repr(value))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_hint_zero_on_four_bytes_is_the_shortest_text_of_a_single(value: float) -> None:
    found = scale(value, 0, single=True)
    assert found is not None
    assert struct.pack(">f", float(found.text)) == struct.pack(">f", value + 0.0)
    double = scale(value, 0)
    assert double is not None
    assert len(found.text) <= len(double.text)


@pytest.mark.parametrize(
    ("value", "hint", "expected", "text"),
    [
        (2.5, 16, (2, 1), "2"),
        (3.5, 16, (4, 1), "4"),
        (-2.5, 16, (-2, 1), "-2"),
        (-388.25, 3, (-3106, 4), "-388.250"),
        (0.0, 127, (0, 0), ""),
        (5.0, 127, (0, 0), ""),
        (math.nan, 127, (0, 0), ""),
        (math.nan, 18, (0, -3), "NaN"),
        (math.inf, 1, (0, -1), "Inf"),
        (-math.inf, 0, (0, -2), "-Inf"),
        (-0.0, 18, (0, -12), "0.00"),
        (0.1, 0, (1, -11), "0.1"),
        (1e-7, 0, (1, -17), "0.0000001"),
        (1e23, 0, (99999999999999991611392, 1), "99999999999999991611392"),
    ],
)
def test_decimals(value: float, hint: int, expected: tuple[int, int], text: str) -> None:
    found = scale(value, hint)
    assert found == expected
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize("hint", [-1, *range(9, 16), 32, 126, 128, 256, 2**40])
def test_other_hints_leave_a_plain_real(hint: int) -> None:
    assert not is_decimal_hint(hint)
    assert scale(1.5, hint) is None


def test_the_decimal_context_does_not_matter() -> None:
    with localcontext() as context:
        context.prec = 2
        assert str(Scaled(123456789, -14).value) == "12345.6789"
        assert str(Scaled(12345, 4).value) == "1543.125"


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 15))
def test_a_decimal_of_fifteen_digits_is_written_and_read_again(units: int, places: int) -> None:
    value = Decimal(f"{units}E-{places}")
    real, hint = real_and_hint(value)
    found = scale(real, hint)
    assert found is not None
    assert found.value == value
    assert hint == (16 + places if places else 0)


def test_special_decimals_are_written() -> None:
    assert real_and_hint(BLANK) == (0.0, 127)
    assert real_and_hint(Decimal("Infinity")) == (math.inf, 0)
    assert real_and_hint(Decimal("-Infinity")) == (-math.inf, 0)
    for text in ("NaN", "sNaN"):
        real, hint = real_and_hint(Decimal(text))
        assert math.isnan(real)
        assert hint == 0
    assert real_and_hint(Decimal("1E+3")) == (1000.0, 0)


@pytest.mark.parametrize(
    "text", ["1E-16", "0.12345678901234567", "12345678901234567890.5", "1E+400"]
)
def test_a_decimal_that_a_real_does_not_keep_is_refused(text: str) -> None:
    with pytest.raises(EncodeError):
        real_and_hint(Decimal(text))


# --- scalars ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "value", "json"),
    [
        (Kind.INT, "ff", -1, -1),
        (Kind.INT, "8000000000000000", -(2**63), -(2**63)),
        (Kind.UINT, "ffff", 65535, 65535),
        (Kind.INT, "396044", b"\x39\x60\x44", "0x396044"),
        (Kind.UINT, "", b"", "0x"),
        (Kind.REAL, "3ff2000000000000", 1.125, 1.125),
        (Kind.REAL, "3fc00000", 1.5, 1.5),
        (Kind.REAL, "7ff0000000000000", math.inf, "Infinity"),
        (Kind.REAL, "fff0000000000000", -math.inf, "-Infinity"),
        (Kind.REAL, "00", b"\0", "0x00"),
        (Kind.BOOLEAN, "00000001", True, True),
        (Kind.BOOLEAN, "00", False, False),
        (Kind.BOOLEAN, "000001", b"\0\0\1", "0x000001"),
        (Kind.IPDATA, "7f000001", IPv4Address("127.0.0.1"), "127.0.0.1"),
        (Kind.IPDATA, "1d4c", 7500, 7500),
        (Kind.IPDATA, "20" * 16, b"\x20" * 16, "0x" + "20" * 16),
        (Kind.OPAQUE, "00ff", b"\0\xff", "0x00ff"),
        (Kind.STRING, "414200", "AB", "AB"),
        (Kind.STRING, "4142", "AB", "AB"),
        (Kind.STRING, "410042", "A", "A"),
        (Kind.STRING, "", "", ""),
    ],
)
def test_scalars_are_read(kind: Kind, data: str, value: Any, json: Any) -> None:
    raw = bytes.fromhex(data)
    found = scalars.read(kind, raw)
    assert found == value
    assert type(found) is type(value)
    assert scalars.to_json(found) == json
    if kind not in (Kind.STRING, Kind.BOOLEAN):
        assert scalars.write(kind, scalars.from_json(kind, json), len(raw)) == raw


def test_nan_in_json() -> None:
    assert scalars.to_json(math.nan) == "NaN"
    assert scalars.write(Kind.REAL, scalars.from_json(Kind.REAL, "NaN")) == b"\x7f\xf8" + bytes(6)


@pytest.mark.parametrize(
    ("kind", "value", "size", "data"),
    [
        (Kind.INT, 1, None, "00000001"),
        (Kind.INT, -(2**31), None, "80000000"),
        (Kind.INT, 2**31, None, "0000000080000000"),
        (Kind.UINT, 2**31, None, "80000000"),
        (Kind.UINT, 2**32, None, "0000000100000000"),
        (Kind.REAL, 1, None, "3ff0000000000000"),
        (Kind.REAL, 1.5, 4, "3fc00000"),
        (Kind.STRING, "AB", None, "414200"),
        (Kind.STRING, "AB\0", None, "414200"),
        (Kind.STRING, b"AB", None, "4142"),
        (Kind.STRING, bytearray(b"AB"), 2, "4142"),
        (Kind.BOOLEAN, True, None, "01"),
        (Kind.BOOLEAN, True, 4, "00000001"),
        (Kind.IPDATA, 80, None, "0050"),
    ],
)
def test_scalars_are_written(kind: Kind, value: Any, size: int | None, data: str) -> None:
    assert scalars.write(kind, value, size).hex() == data


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        (Kind.INT, 128, 1),
        (Kind.UINT, -1, None),
        (Kind.INT, 2**63, None),
        (Kind.INT, True, None),
        (Kind.INT, 1.0, None),
        (Kind.REAL, 1.0, 3),
        (Kind.REAL, 1e300, 4),
        (Kind.REAL, 10**400, None),
        (Kind.REAL, True, None),
        (Kind.STRING, 1, None),
        (Kind.STRING, "\ud800", None),
        (Kind.STRING, "AB", 7),
        (Kind.IPDATA, 65536, None),
        (Kind.IPDATA, "x", None),
        (Kind.OPAQUE, "text", None),
        (Kind.OPAQUE, b"AB", 3),
        (Kind.BOOLEAN, 1, None),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: Kind, value: Any, size: int | None) -> None:
    with pytest.raises(EncodeError):
        scalars.write(kind, value, size)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.INT, "0xzz"),
        (Kind.IPDATA, "1.2.3"),
        (Kind.REAL, None),
        (Kind.STRING, []),
        (Kind.REAL, "x"),
    ],
)
def test_json_that_is_no_scalar_is_refused(kind: Kind, value: Any) -> None:
    with pytest.raises(EncodeError):
        scalars.from_json(kind, value)


@given(st.binary())
def test_text_keeps_all_bytes(data: bytes) -> None:
    data = data.replace(b"\0", b"")
    text = scalars.text_of(data)
    assert scalars.text_bytes(text) == data
    out: dict[str, Any] = {}
    scalars.put_text(out, "name", text)
    assert scalars.get_text(out, "name") == text
    assert ("name" in out) == scalars.is_utf8(text)


def test_text_in_json() -> None:
    out: dict[str, Any] = {}
    scalars.put_text(out, "name", None)
    assert out == {"name": None}
    assert scalars.get_text(out, "name") is None
    for bad in ({"name": 1}, {"name_hex": "zz"}, {"name_hex": 1}):
        with pytest.raises(EncodeError):
            scalars.get_text(bad, "name")


def test_padding() -> None:
    assert scalars.padded("ab", 4) == b"ab\0\0"
    assert scalars.padded("abcd", 4) == b"abcd"
    with pytest.raises(EncodeError):
        scalars.padded("abcde", 4)


@given(st.sampled_from(sorted(Kind)), st.binary(max_size=20))
def test_scalar_data_survives_json(kind: Kind, data: bytes) -> None:
    out: dict[str, Any] = {}
    jsonform.put_scalar(out, kind, data)
    assert jsonform.get_scalar(out, kind) == data
    assert out["size"] == len(data)


@pytest.mark.parametrize(
    ("d", "kind"),
    [
        ({}, Kind.STRING),
        ({}, Kind.OPAQUE),
        ({}, Kind.INT),
        ({"raw": "x"}, Kind.INT),
        ({"raw": 1}, Kind.INT),
        ({"value": 1, "size": -1}, Kind.INT),
        ({"value": 1, "size": "4"}, Kind.INT),
        ({"value": 1, "size": True}, Kind.INT),
        ({"value_hex": 5}, Kind.OPAQUE),
    ],
)
def test_json_that_is_no_field_is_refused(d: dict[str, Any], kind: Kind) -> None:
    with pytest.raises(EncodeError):
        jsonform.get_scalar(d, kind)


def test_elements_in_json() -> None:
    values = ("ab", "\udcff", 1, b"\x01")
    coded = jsonform.elements_to_json(values)
    assert coded == ["ab", {"value_hex": "ff"}, 1, "0x01"]
    assert jsonform.elements_from_json(Kind.STRING, coded[:2], 3) == [b"ab\0", b"\xff\0\0"]
    assert jsonform.elements_from_json(Kind.STRING, coded[:2], None) == [b"ab\0", b"\xff\0"]
    assert jsonform.elements_from_json(Kind.INT, [1], 2) == [b"\0\1"]
    wrong: tuple[Any, ...] = (None, {}, 5)
    for bad in wrong:
        with pytest.raises(EncodeError):
            jsonform.elements_from_json(Kind.STRING, [bad], 3)


def test_json_objects_are_checked() -> None:
    with pytest.raises(EncodeError, match="expected an object, not list"):
        jsonform.check_keys([], frozenset())
    with pytest.raises(EncodeError, match="unknown key 'b'"):
        jsonform.check_keys({"a": 1, "b": 2}, frozenset("a"))
    with pytest.raises(EncodeError, match="must be a list"):
        jsonform.get_list({"fields": {}}, "fields")


# --- look-up, payloads, outlines ----------------------------------------------------------------


def test_fields_by_name_and_position() -> None:
    message: Lookup[Field] = build(
        [Field.of("A", 1), Field.of("B", 2), Field.of("A", 3), Field.of(None, 4)]
    )
    assert message["A"].value == 1
    assert message[2].value == 3
    assert message[-1].value == 4
    assert [f.value for f in message.all("A")] == [1, 3]
    assert [f.value for f in message.all(None)] == [4]
    assert [f.value for f in message] == [1, 2, 3, 4]
    assert message.names() == ("A", "B", "A", None)
    assert message.to_values() == {"A": 1, "B": 2}
    assert "A" in message
    assert "X" not in message
    found = message.get("B")
    assert found is not None
    assert found.value == 2
    assert message.get("X") is None
    assert message.get("X", 5) == 5
    with pytest.raises(KeyError):
        message["X"]
    with pytest.raises(IndexError):
        message[4]


def test_payloads_are_named_by_their_path() -> None:
    fields = build(
        [
            Field.of("A", b"1"),
            Field.of("M", {"A": b"2", "N": {"B": b"3"}}),
            Field.of("A", b"4"),
            Field.of(None, b"5"),
            Field.of("E", b""),
            Field.of("S", "text"),
            Field.of("M", {"A": b"6"}),
        ]
    ).fields
    assert list(payloads(fields, FieldType.OPAQUE)) == [
        ("A", b"1"),
        ("M.A", b"2"),
        ("M.N.B", b"3"),
        ("fields[2]", b"4"),
        ("fields[3]", b"5"),
        ("fields[6].A", b"6"),
    ]


def test_values_are_shown_briefly() -> None:
    assert brief(b"\x01\x02") == "0102"
    assert brief(bytes(100)).endswith("00…")
    assert brief((1, "a")) == "[1, a]"
    assert brief(tuple(range(100))).endswith("7, … 100 in all]")
    assert brief("x" * 100) == "x" * MAX_SHOWN + "…"
    assert brief(Decimal("1.50")) == "1.50"


def test_an_error_is_shown_up_to_the_end_of_what_it_is_in() -> None:
    parent = Node("m", 10, 20)
    add_error(parent, DecodeError("bad", offset=15, path="fields[0]", code="type"))
    (node,) = parent.children
    assert (node.offset, node.length, node.error, node.meaning) == (15, 15, "bad", "type")
    add_error(parent, DecodeError("worse", offset=99))
    assert parent.children[1].length == 0


@pytest.mark.parametrize(
    ("bits", "text"),
    [(1, "1E-45"), (2, "3E-45"), (3, "4E-45"), (100, "1.4E-43"), (0x7FFFFF, "1.1754942E-38")],
)
def test_subnormal_singles_have_their_shortest_text(bits, text):
    (value,) = struct.unpack(">f", struct.pack(">I", bits))
    assert scale(value, 0, single=True).value == Decimal(text)
