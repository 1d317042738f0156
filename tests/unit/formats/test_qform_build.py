"""Values → QForm fields: conversion to the dictionary's types, and what does not fit."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import EncodeError
from wireloom.formats.qform import (
    BLANK,
    Date,
    Dictionary,
    Entry,
    Field,
    Message,
    Partial,
    Resolution,
    Time,
    TssType,
    build,
    decode,
)

MINUTE = Resolution.MINUTE
MICRO = Resolution.MICROSECOND


def entry(kind: TssType, size: int, **more: Any) -> Entry:
    return Entry(7, "F", kind, size, **more)


def made(kind: TssType, size: int, value: Any, **options: Any) -> bytes:
    return Field.of(entry(kind, size), value, **options).data


GOOD: list[tuple[TssType, int, Any, str]] = [
    (TssType.INTEGER, 2, 12345, "3039"),
    (TssType.INTEGER, 2, "77", "004d"),
    (TssType.INTEGER, 8, 200.0, "00000000000000c8"),
    (TssType.INTEGER, 8, Decimal("-42"), "ffffffffffffffd6"),
    (TssType.INTEGER, 8, "9223372036854775807", "7fffffffffffffff"),
    (TssType.INTEGER, 1, True, "01"),
    (TssType.U_INT, 4, (1 << 32) - 1, "ffffffff"),
    (TssType.INTEGER, 3, b"\1\2\3", "010203"),
    (TssType.DOUBLE, 8, -3, "c008000000000000"),
    (TssType.DOUBLE, 8, "2.5", "4004000000000000"),
    (TssType.DOUBLE, 8, Decimal("2.5"), "4004000000000000"),
    (TssType.DOUBLE, 8, math.inf, "7ff0000000000000"),
    (TssType.FLOAT, 4, 1.5, "3fc00000"),
    (TssType.BOOLEAN, 1, True, "01"),
    (TssType.BOOLEAN, 2, 0, "0000"),
    (TssType.BOOLEAN, 1, 2.5, "01"),
    (TssType.STRING, 7, "AB", "41420000000000"),
    (TssType.STRING, 2, "AB", "4142"),
    (TssType.STRING, 4, bytearray(b"AB"), "41420000"),
    (TssType.STRING, 7, 1234, "31323334000000"),
    (TssType.STRING, 4, 2.5, "322e3500"),
    (TssType.STRING, 2, True, "3100"),
    (TssType.STRING, 2, False, "3000"),
    (TssType.STRING, 8, Decimal("1.50"), "312e353000000000"),
    (TssType.STRING, 8, Decimal("1E+3"), "3130303000000000"),
    (TssType.STRING, 8, Decimal("1E+99"), "31452b3939000000"),
    (TssType.STRING, 8, Decimal("NaN"), "4e614e0000000000"),
    (TssType.STRING, 12, Date(2011, 10, 18), "3138204f4354203230313100"),
    (TssType.STRING, 12, dt.date(2011, 10, 18), "3138204f4354203230313100"),
    (TssType.STRING, 8, dt.time(1, 2, 3), "30313a30323a3033"),
    (TssType.STRING, 6, Time(1, 2, resolution=MINUTE), "30313a303200"),
    (TssType.OPAQUE, 4, b"\1\2", "01020000"),
    (TssType.OPAQUE, 4, "short"[:2], "73680000"),
    (TssType.NULL, 2, b"\x94\1", "9401"),
    (TssType.SDATE, 12, Date(2011, 10, 18), "3138204f4354203230313100"),
    (TssType.SDATE, 11, dt.date(2011, 10, 18), "3138204f43542032303131"),
    (TssType.SDATE, 12, None, "202020202020202020202000"),
    (TssType.SDATE, 12, "04/23/2014", "30342f32332f323031340000"),
    (TssType.STIME, 6, Time(13, 15, resolution=MINUTE), "31333a313500"),
    (TssType.STIME, 6, dt.time(13, 15), "31333a313500"),
    (TssType.STIME, 6, None, "20203a202000"),
    (TssType.STIME, 6, "9:30", "393a33300000"),
    (TssType.STIME, 10, Time(13, 15, resolution=MINUTE), "31333a31353a30300000"),
    (TssType.STIME, 10, Time(is_null=True, resolution=MINUTE), "20203a20203a20200000"),
    (TssType.STIME, 14, Time(13, 15, resolution=MINUTE), "31333a3135000000000000000000"),
    (TssType.STIME, 15, Time(1, 2, 3, 4, MICRO), "30313a30323a30332e303030303034"),
    (TssType.GROCERY, 9, Decimal("1.125"), "3ff200000000000013"),
    (TssType.GROCERY, 9, "1.125", "3ff200000000000013"),
    (TssType.GROCERY, 9, 1.125, "3ff200000000000013"),
    (TssType.GROCERY, 9, 1024, "409000000000000000"),
    (TssType.GROCERY, 9, BLANK, "00000000000000007f"),
    (TssType.GROCERY, 9, None, "00000000000000007f"),
    (TssType.GROCERY, 9, Decimal("NaN"), "7ff800000000000000"),
    (TssType.GROCERY, 9, -math.inf, "fff000000000000000"),
    (TssType.GROCERY, 9, 1e-20, "3bc79ca10c92422300"),  # more places than a hint can say
    (TssType.GROCERY, 5, Decimal("1.125"), "3f90000013"),
    (TssType.GROCERY, 5, Decimal("0.1"), "3dcccccd11"),
    (TssType.GROCERY, 5, Decimal("NaN"), "7fc0000000"),
    (TssType.GROCERY, 5, 0.1234567891, "3dfcd6ea00"),
    (TssType.GROCERY, 8, bytes(8), "0000000000000000"),
]


@pytest.mark.parametrize(("kind", "size", "value", "data"), GOOD)
def test_a_value_becomes_what_the_dictionary_says(
    kind: TssType, size: int, value: Any, data: str
) -> None:
    assert made(kind, size, value).hex() == data
    assert made(kind, size, value, lenient=True).hex() == data


BAD: list[tuple[TssType, int, Any, str, str | None]] = [
    # type, size, value, reason, what a lenient writer puts; None: it refuses too
    (TssType.INTEGER, 2, 70000, "does not fit", "1170"),
    (TssType.INTEGER, 2, -32769, "does not fit", "7fff"),
    (TssType.U_SHORT, 2, -1, "does not fit", "ffff"),
    (TssType.INTEGER, 2, 1.5, "whole", "0001"),
    (TssType.INTEGER, 2, "1.5", "whole", "0001"),
    (TssType.INTEGER, 2, math.nan, "no value", None),
    (TssType.INTEGER, 2, Decimal("Infinity"), "no value", None),
    (TssType.INTEGER, 2, "abc", "no value", None),
    (TssType.INTEGER, 2, None, "no value", None),
    (TssType.INTEGER, 2, "1e999999999", "no value", None),
    (TssType.INTEGER, 3, 5, "no value", None),
    (TssType.INTEGER, 2, b"abc", "not 2", None),
    (TssType.DOUBLE, 8, (1 << 53) + 1, "digits", "4340000000000000"),
    (TssType.DOUBLE, 8, 10**400, "no value", None),
    (TssType.DOUBLE, 8, Decimal("sNaN"), "no value", None),
    (TssType.DOUBLE, 3, 1.0, "4 or 8", None),
    (TssType.FLOAT, 4, 1e300, "does not fit", None),
    (TssType.BOOLEAN, 1, "yes", "no value", None),
    (TssType.BOOLEAN, 3, True, "no value", None),
    (TssType.STRING, 2, "ABC", "do not fit in 2", "4142"),
    (TssType.STRING, 2, [1], "no value", None),
    (TssType.STRING, 2, None, "no value", None),
    (TssType.STRING, 9, "\ud800", "no bytes", None),
    (TssType.OPAQUE, 2, b"abc", "do not fit in 2", "6162"),
    (TssType.OPAQUE, 2, 5, "no value", None),
    (TssType.OPAQUE, 20, Date(2011, 10, 18), "no value", None),
    (TssType.SDATE, 10, Date(2011, 10, 18), "do not fit", "3138204f435420323031"),
    (TssType.SDATE, 12, dt.datetime(2011, 10, 18, 1, 2), "no value", None),
    (TssType.SDATE, 12, Time(1, 2), "no value", None),
    (TssType.SDATE, 12, 5, "no value", None),
    (TssType.STIME, 6, Time(13, 15, 1), "finer", "31333a313500"),
    (TssType.STIME, 10, Time(13, 15, 1, 5, MICRO), "finer", "31333a31353a30310000"),
    (TssType.STIME, 14, Time(1, 2, 3, 999990, MICRO), "do not", "30313a30323a30332e3939393939"),
    (TssType.STIME, 6, Date(), "no value", None),
    (TssType.GROCERY, 9, Decimal("1E-16"), "places", "3c9cd2b297d889bc00"),
    (TssType.GROCERY, 9, Decimal("0.123456789012345678"), "places", "3fbf9add3746f65f00"),
    (TssType.GROCERY, 5, Decimal("16777217"), "single", "4b80000000"),
    (TssType.GROCERY, 9, "x", "no value", None),
    (TssType.GROCERY, 8, Decimal(1), "no value", None),
]


@pytest.mark.parametrize(("kind", "size", "value", "reason", "cut"), BAD)
def test_what_does_not_fit_is_refused_or_cut_when_asked(
    kind: TssType, size: int, value: Any, reason: str, cut: str | None
) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        made(kind, size, value)
    assert caught.value.path == "F"
    if cut is None:
        with pytest.raises(EncodeError):
            made(kind, size, value, lenient=True)
    else:
        assert made(kind, size, value, lenient=True).hex() == cut


def test_a_hint_can_be_given() -> None:
    assert made(TssType.GROCERY, 9, 0.375, hint=3).hex() == "3fd800000000000003"
    assert made(TssType.GROCERY, 9, BLANK, hint=127).hex() == "00000000000000007f"
    assert made(TssType.GROCERY, 9, None, hint=1).hex() == "000000000000000001"
    for hint in (-1, 256):
        with pytest.raises(EncodeError, match="byte"):
            made(TssType.GROCERY, 9, 0.5, hint=hint)
    with pytest.raises(EncodeError, match="only a GROCERY"):
        made(TssType.DOUBLE, 8, 0.5, hint=3)


def test_a_partial_has_an_offset() -> None:
    row = entry(TssType.STRING, 80, is_partial=True)
    assert Field.of(row, "ABC") == Field(row, b"ABC", 0)
    assert Field.of(row, b"\xff", offset=300) == Field(row, b"\xff", 300)
    assert Field.of(row, Partial(5, "X")) == Field(row, b"X", 5)
    for value in (Partial(65_536, b""), Partial(-1, b""), Partial(0, bytes(65_536))):
        with pytest.raises(EncodeError, match="65535"):
            Field.of(row, value)
    with pytest.raises(EncodeError, match="no value"):
        Field.of(row, 5)
    with pytest.raises(EncodeError, match="no partial"):
        made(TssType.STRING, 4, "A", offset=1)
    with pytest.raises(EncodeError, match="no partial"):
        made(TssType.STRING, 4, Partial(1, "A"))


def test_a_variable_field_is_as_long_as_its_data() -> None:
    text = entry(TssType.STRING, 4, is_fixed=False)
    assert Field.of(text, "AB").data == b"AB"
    with pytest.raises(EncodeError, match="do not fit"):
        Field.of(text, "ABCDE")
    assert Field.of(text, "ABCDE", lenient=True).data == b"ABCD"


def test_a_form_cannot_be_filled() -> None:
    with pytest.raises(EncodeError, match="form"):
        Field.of(Entry(9, "FORM", None, 0), 1)


DICTIONARY = Dictionary(
    (
        Entry(10720, "BID", TssType.GROCERY, 9),
        Entry(2705, "SYMBOL", TssType.STRING, 20),
        Entry(10914, "ROW", TssType.STRING, 80, is_partial=True),
    )
)


def test_a_message_is_built_from_names_or_fids() -> None:
    by_name = build(DICTIONARY, {"BID": Decimal("1.25"), "SYMBOL": "ABC"})
    assert build(DICTIONARY, {10720: "1.25", 2705: "ABC"}) == by_name
    assert build(DICTIONARY, by_name.to_values()) == by_name
    assert build(DICTIONARY, [("BID", by_name["BID"]), (2705, "ABC")]) == by_name
    assert decode(by_name.encode(), DICTIONARY, strict=True) == by_name


def test_pairs_may_repeat_a_field() -> None:
    message = build(DICTIONARY, [("ROW", Partial(0, "A")), ("ROW", Partial(9, "B"))])
    assert [field.partial_offset for field in message.all("ROW")] == [0, 9]


def test_a_field_that_the_dictionary_does_not_have_is_named() -> None:
    for key in ("NONE", 5):
        with pytest.raises(EncodeError) as caught:
            build(DICTIONARY, [(key, 1)])
        assert caught.value.path == str(key)


def test_a_lenient_build_cuts() -> None:
    assert build(DICTIONARY, {"SYMBOL": "x" * 30}, lenient=True)["SYMBOL"].value == "x" * 20


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9)))
def test_a_decimal_is_read_back_or_refused(value: Decimal) -> None:
    try:
        field = Field.of(DICTIONARY.by_name["BID"], value)
    except EncodeError:
        assert abs(value) > 10**10
        return
    assert field.value == value
    assert decode(Message((field,)).encode(), DICTIONARY)["BID"].value == value
