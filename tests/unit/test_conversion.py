"""Conversion between the three TIB formats: what stays equal, and what is reported as lost."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import math
import pickle
import struct
from dataclasses import replace
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.conversion import Conversion, Loss, LossKind, convert, rendezvous
from wireloom.conversion.losses import Losses, cut_text, fit_name, steps
from wireloom.conversion.sass import _same
from wireloom.errors import EncodeError, OptionError, SourceError
from wireloom.formats import nrep, qform, tibmsg, tibrv
from wireloom.formats._tib.values import BLANK, Date, EnumNumber, EnumText, Resolution, Time
from wireloom.formats.qform import Dictionary, Entry, TssType
from wireloom.formats.tibmsg.walk import MAX_DEPTH
from wireloom.messages import Message
from wireloom.testing.strategies import messages
from wireloom.testing.strategies.qform import DICTIONARY
from wireloom.testing.vectors import load

MINUTE, MILLI, MICRO = Resolution.MINUTE, Resolution.MILLISECOND, Resolution.MICROSECOND
Tib, Rv = tibmsg.FieldType, tibrv.FieldType

Losing = list[tuple[str, LossKind]]


def kinds(losses: tuple[Loss, ...]) -> list[str]:
    return [loss.kind.value for loss in losses]


def to_rv(value: Any, **more: Any) -> tuple[tibrv.Field, list[str]]:
    field = value if isinstance(value, tibmsg.Field) else tibmsg.Field.of("F", value, **more)
    made, losses = convert(tibmsg.Message((field,)), to="tibrv")
    assert isinstance(made, tibrv.Message)
    assert tibrv.decode(made.encode(), strict=True).encode() == made.encode()
    return made[0], kinds(losses)


def to_tib(field: tibrv.Field) -> tuple[tibmsg.Field, list[str]]:
    made, losses = convert(tibrv.Message((field,)), to="tibmsg")
    assert isinstance(made, tibmsg.Message)
    assert tibmsg.decode(made.encode()) == made
    return made[0], kinds(losses)


# --- the function itself -------------------------------------------------------------------------


def test_a_conversion_is_a_message_and_losses() -> None:
    quote = tibmsg.build({"SYM": "ABC", "BID": Decimal("1.25")})
    result = wireloom.convert(quote, to="tibrv")
    assert isinstance(result, Conversion)
    made, losses = result
    assert made is result.message
    assert isinstance(made, tibrv.Message)
    assert made.to_values() == {"SYM": "ABC", "BID": 1.25}
    (loss,) = losses
    assert isinstance(loss, wireloom.Loss)
    assert (loss.path, loss.kind) == ("BID", LossKind.HINT)
    assert str(loss) == "BID: hint 18 is lost: the decimal becomes a plain real"
    assert pickle.loads(pickle.dumps(loss)) == loss


def test_the_same_format_is_the_same_message() -> None:
    for message in (tibmsg.Message(), tibrv.Message(), qform.Message()):
        assert convert(message, to=message.format) == (message, ())


def test_json_goes_both_ways() -> None:
    quote = tibmsg.build({"BID": Decimal("1.25")})
    made, losses = convert(quote, to="json")
    assert made == quote.to_dict()
    assert losses == ()
    assert convert(made, to="tibmsg").message == quote
    assert convert(made, to="tibrv") == convert(quote, to="tibrv")
    hello = nrep.Hello()
    assert convert(hello, to="json").message == hello.to_dict()


def test_what_cannot_be_converted_is_refused() -> None:
    with pytest.raises(OptionError, match="tibmsg, tibrv, qform and json"):
        convert(tibmsg.Message(), to="nrep")
    with pytest.raises(OptionError, match="json only"):
        convert(nrep.Hello(), to="tibmsg")
    with pytest.raises(OptionError, match="dictionary"):
        convert(tibmsg.Message(), to="qform")
    with pytest.raises(OptionError, match="dictionary"):
        convert(tibmsg.Message(), to="qform", dictionary=Dictionary())
    with pytest.raises(SourceError):
        convert(tibmsg.Message(), to="qform", dictionary="no/such/file")
    with pytest.raises(EncodeError, match="format"):
        convert({}, to="tibmsg")
    with pytest.raises(EncodeError):
        convert({"format": "tibmsg", "fields": 5}, to="tibrv")


def test_paths_are_names_or_positions() -> None:
    inner = tibmsg.Field.of("IN", {"P": Decimal("1.5")})
    fields = (
        inner,
        tibmsg.Field.of("P", Decimal("1.5")),
        tibmsg.Field.of("P", Decimal("1.5")),
        tibmsg.Field.of(None, Decimal("1.5")),
        tibmsg.Field.of("", Decimal("1.5")),
    )
    _, losses = convert(tibmsg.Message(fields), to="tibrv")
    assert [loss.path for loss in losses] == ["IN.P", "P", "fields[2]", "fields[3]", "fields[4]"]


def test_long_paths_are_cut() -> None:
    field = tibmsg.Field.of("P", Decimal("1.5"))
    for _ in range(5):
        field = tibmsg.Field("N" * 200, Tib.MESSAGE, fields=(field,))
    (loss,) = convert(tibmsg.Message((field,)), to="tibrv").losses
    assert loss.path.startswith("…N")
    assert loss.path.endswith("N.P")
    assert len(loss.path) < 510


# --- TibMsg → TibrvMsg ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["text", "", "x\udce9", b"\0\1", True, -5, 1 << 63, 1.5, math.inf, IPv4Address("10.0.0.1")],
)
def test_plain_values_are_carried(value: Any) -> None:
    made, lost = to_rv(value)
    assert made.value == value
    assert lost == []
    assert to_tib(made) == (tibmsg.Field.of("F", value), [])


def test_numbers_keep_their_size_and_sign() -> None:
    for size in (1, 2, 4, 8):
        made, _ = to_rv(5, type=Tib.UINT, size=size)
        assert (made.type, made.data) == (Rv.UINT, (5).to_bytes(size, "big"))
    assert to_rv(7500, type=Tib.IPDATA)[0].value == 7500
    assert to_rv(tibmsg.Field("F", Tib.IPDATA, bytes(16)))[0].data == bytes(16)


def test_hints_are_lost_and_the_plain_value_stays() -> None:
    for value, plain in [
        (Decimal("0.29"), 0.29),
        (Decimal("0.375"), 0.375),
        (Date(2011, 10, 18), "18 OCT 2011"),
        (Time(19, 33, resolution=MINUTE), "19:33"),
        (EnumText("NYS"), "NYS"),
        (EnumNumber(2), 2),
    ]:
        assert (to_rv(value)[0].value, to_rv(value)[1]) == (plain, ["hint"])
    texts = [
        convert(tibmsg.build({"F": value}), to="tibrv").losses[0].text
        for value in (Date(2011, 10, 18), Time(1, 2), EnumText("X"), EnumNumber(5))
    ]
    assert texts == [
        "hint 258 is lost: the date becomes plain text",
        "hint 260 is lost: the time becomes plain text",
        "hint 261 is lost: the enum becomes plain text",
        "hint 261 is lost",
    ]
    odd = tibmsg.Field("F", Tib.INT, b"\5", tibmsg.Hint(Tib.STRING, 2, b"x\0"))
    assert to_rv(odd)[1] == ["hint"]


def test_a_blank_becomes_nan() -> None:
    made, lost = to_rv(BLANK)
    assert math.isnan(made.value)
    assert lost == ["hint", "value"]
    short = tibmsg.Field("F", Tib.REAL, bytes(4), tibmsg.Hint.of(127))
    assert (to_rv(short)[0].size, math.isnan(to_rv(short)[0].value)) == (4, True)


def test_a_patch_becomes_a_whole_value() -> None:
    made, lost = to_rv(tibmsg.Field.partial("F", b"AAUU", 60))
    assert (made.type, made.value, lost) == (Rv.STRING, "AAUU", ["partial"])
    made, lost = to_rv(tibmsg.Field.partial("F", b"A\0U", 60))
    assert (made.type, made.value, lost) == (Rv.OPAQUE, b"A\0U", ["partial"])


def test_forms_that_no_writer_uses_become_regular() -> None:
    assert to_rv(tibmsg.Field("F", Tib.STRING, b"AB"))[0].data == b"AB\0"
    assert to_rv(tibmsg.Field("F", Tib.BOOLEAN, b"\0\2"))[0].data == b"\1"


def test_a_number_too_long_for_a_size_of_one_byte_becomes_opaque() -> None:
    made, losses = convert(tibmsg.Message((tibmsg.Field("F", Tib.INT, bytes(300)),)), to="tibrv")
    assert isinstance(made, tibrv.Message)
    assert (made[0].type, made[0].data, kinds(losses)) == (Rv.OPAQUE, bytes(300), ["type"])


def array(kind: tibmsg.FieldType, size: int, data: bytes) -> tibmsg.Field:
    return tibmsg.Field("F", Tib.ARRAY, data, tibmsg.Hint(kind, size))


@pytest.mark.parametrize(
    ("kind", "size", "data", "code", "value", "lost"),
    [
        (Tib.INT, 2, "0001fffe", Rv.ARRAY_I16, (1, -2), []),
        (Tib.UINT, 8, "00" * 7 + "05", Rv.ARRAY_U64, (5,), []),
        (Tib.REAL, 4, "3fc00000", Rv.ARRAY_F32, (1.5,), []),
        (Tib.REAL, 8, "", Rv.ARRAY_F64, (), []),
        (Tib.INT, 2, "0001ff", Rv.ARRAY_I16, (1,), ["bytes"]),
        (Tib.STRING, 3, "414200430000", Rv.ARRAY_STR, ("AB", "C"), []),
        (Tib.STRING, 3, "410042", Rv.ARRAY_STR, ("A",), ["bytes"]),
        (Tib.STRING, 3, "4142434400", Rv.ARRAY_STR, ("ABC",), ["bytes"]),
        (Tib.BOOLEAN, 2, "00020000", Rv.ARRAY_I8, (1, 0), ["type"]),
        (Tib.IPDATA, 4, "7f000001", Rv.ARRAY_U32, (0x7F000001,), ["type"]),
        (Tib.IPDATA, 2, "1d4c", Rv.ARRAY_U16, (7500,), ["type"]),
        (Tib.OPAQUE, 2, "0102", Rv.OPAQUE, b"\1\2", ["type"]),
        (Tib.INT, 3, "010203", Rv.OPAQUE, b"\1\2\3", ["type"]),
        (Tib.STRING, 0, "0102", Rv.OPAQUE, b"\1\2", ["type"]),
    ],
)
def test_arrays_become_arrays(
    kind: tibmsg.FieldType,
    size: int,
    data: str,
    code: tibrv.FieldType,
    value: object,
    lost: list[str],
) -> None:
    made, found = to_rv(array(kind, size, bytes.fromhex(data)))
    assert (made.type, made.value, found) == (code, value, lost)


def test_nested_messages_stay_nested() -> None:
    message = tibmsg.build({"A": {"B": {"C": 5}}, "D": {}})
    made, losses = convert(message, to="tibrv")
    assert isinstance(made, tibrv.Message)
    assert made["A"]["B"]["C"].value == 5
    assert losses == ()
    assert convert(made, to="tibmsg") == (message, ())


def deep(field: Any, levels: int) -> Any:
    for _ in range(levels):
        field = type(field)("F", type(field.type)(1), fields=(field,))
    return field


def test_deep_nesting_is_converted_both_ways() -> None:
    message = tibmsg.Message((deep(tibmsg.Field.of("X", 1), MAX_DEPTH),))
    made, losses = convert(message, to="tibrv")
    assert losses == ()
    assert convert(made, to="tibmsg").message.encode() == message.encode()


def test_names_are_cut_where_they_cannot_be_carried() -> None:
    for name, wanted, lost in [
        ("A" * 254, "A" * 254, []),
        ("A" * 255, "A" * 254, ["name"]),
        ("A" * 253 + "é", "A" * 253, ["name"]),
        ("A\0B", "A", ["name"]),
        ("x\udce9", "x\udce9", []),
    ]:
        assert to_rv(tibmsg.Field(name, Tib.INT, b"\5")) == (
            tibrv.Field(wanted, Rv.INT, b"\5"),
            lost,
        )
    assert fit_name(None, "", Losses()) is None


def test_text_is_cut_between_characters() -> None:
    text = "aé€😀".encode()
    assert [len(cut_text(text, size)) for size in range(12)] == [
        0,
        1,
        1,
        3,
        3,
        3,
        6,
        6,
        6,
        6,
        10,
        10,
    ]
    assert cut_text(b"\x80" * 9, 4) == b"\x80" * 4  # no UTF-8
    assert cut_text(b"\x80" * 9, 2) == b"\x80" * 2


# --- TibrvMsg → TibMsg ---------------------------------------------------------------------------


def test_types_that_tibmsg_does_not_have_become_plain() -> None:
    when = dt.datetime(2011, 10, 18, 19, 33, 0, 154979, tzinfo=dt.UTC)
    for field, kind, value in [
        (tibrv.Field.of("F", "A.BC", type=Rv.SUBJECT), Tib.STRING, "A.BC"),
        (tibrv.Field.of("F", when), Tib.STRING, "2011-10-18T19:33:00.154979Z"),
        (tibrv.Field.of("F", "<a/>", type=Rv.XML), Tib.STRING, "<a/>"),
        (tibrv.Field.of("F", "a\0b", type=Rv.XML), Tib.OPAQUE, None),
        (tibrv.Field("F", Rv.XML, b"\5no zlib"), Tib.OPAQUE, b"\5no zlib"),
        (tibrv.Field("F", Rv.DATETIME, b"abc"), Tib.OPAQUE, b"abc"),
        (tibrv.Field("F", Rv.ENCRYPTED, b"\1\2"), Tib.OPAQUE, b"\1\2"),
    ]:
        made, lost = to_tib(field)
        assert (made.type, lost) == (kind, ["type"])
        assert made.value == (field.data if value is None else value)


def test_field_ids_are_lost() -> None:
    assert to_tib(tibrv.Field.of("F", 5, fid=4001)) == (tibmsg.Field.of("F", 5), ["fid"])


def test_arrays_of_numbers_and_texts_are_carried() -> None:
    for code in (Rv.ARRAY_I8, Rv.ARRAY_U32, Rv.ARRAY_F64):
        field = tibrv.Field.of("F", [0, 1, 100], type=code)
        made, lost = to_tib(field)
        assert (made.value, lost) == (field.value, [])
        assert to_rv(made) == (field, [])
    for texts in (["one", "", "three"], [], ["x\udce9"]):
        field = tibrv.Field.of("F", texts, type=Rv.ARRAY_STR)
        made, lost = to_tib(field)
        assert (made.value, lost) == (tuple(texts), [])
        assert to_rv(made) == (field, [])
    assert to_tib(tibrv.Field("F", Rv.ARRAY_I16, b"\0\1\2"))[1] == ["bytes"]


def test_an_array_of_texts_must_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "MAX_PADDED", 100)
    field = tibrv.Field.of("F", ["x" * 50, "", ""], type=Rv.ARRAY_STR)
    made, losses = convert(tibrv.Message((field,)), to="tibmsg")
    assert (made, kinds(losses)) == (tibmsg.Message(), ["field"])


def test_an_array_of_messages_becomes_a_message_of_messages() -> None:
    field = tibrv.Field.of(
        "ROWS", [{"i": 0}, {"t": tibrv.Field.of("t", "A.B", type=Rv.SUBJECT)}, {}]
    )
    made, losses = convert(tibrv.Message((field,)), to="tibmsg")
    assert isinstance(made, tibmsg.Message)
    assert [(f.name, f.to_values()) for f in made["ROWS"].fields] == [
        (None, {"i": 0}),
        (None, {"t": "A.B"}),
        (None, {}),
    ]
    assert [(loss.path, loss.kind) for loss in losses] == [
        ("ROWS", LossKind.TYPE),
        ("ROWS.messages[1].t", LossKind.TYPE),
    ]


def test_what_is_nested_too_deep_is_left_out() -> None:
    field = tibrv.Field.of("X", 1)
    for _ in range(MAX_DEPTH * 3 // 4):
        field = tibrv.Field("F", Rv.ARRAY_MSG, messages=(tibrv.Message((field,)),))
    made, losses = convert(tibrv.Message((field,)), to="tibmsg")
    assert made.encode()
    assert kinds(losses)[-1] == "field"
    assert kinds(losses).count("field") == 1


# --- QForm ↔ TibMsg ------------------------------------------------------------------------------


def sass(*entries: Entry) -> Dictionary:
    return Dictionary(entries)


def entry(kind: TssType, size: int, name: str = "F", fid: int = 7, **more: Any) -> Entry:
    return Entry(fid, name, kind, size, **more)


def from_q(field: qform.Field) -> tuple[tibmsg.Field, list[str]]:
    made, losses = convert(qform.Message((field,)), to="tibmsg")
    assert isinstance(made, tibmsg.Message)
    assert tibmsg.decode(made.encode()) == made
    return made[0], kinds(losses)


def to_q(value: Any, target: Entry) -> tuple[qform.Field | None, list[str]]:
    field = value if isinstance(value, tibmsg.Field) else tibmsg.Field.of("F", value)
    made, losses = convert(tibmsg.Message((field,)), to="qform", dictionary=sass(target))
    assert isinstance(made, qform.Message)
    assert qform.decode(made.encode(), sass(target)) == made
    return (made[0] if made.fields else None), kinds(losses)


# Values that TibMsg and QForm both have, with the dictionary entry for each.
COMMON: list[tuple[Any, Entry]] = [
    ("ABC", entry(TssType.STRING, 20)),
    ("", entry(TssType.STRING, 20)),
    ("ABC", entry(TssType.STRING, 3)),
    ("x\udce9", entry(TssType.STRING, 20)),
    ("ABC", entry(TssType.STRING, 20, is_fixed=False)),
    (-5, entry(TssType.INTEGER, 4)),
    (5.5, entry(TssType.DOUBLE, 8)),
    (math.inf, entry(TssType.PRICE, 8)),
    (True, entry(TssType.BOOLEAN, 1)),
    (b"\1\2", entry(TssType.OPAQUE, 2)),
    (b"\1\2", entry(TssType.OPAQUE, 80, is_fixed=False)),
    (Decimal("0.29"), entry(TssType.GROCERY, 9)),
    (Decimal("NaN"), entry(TssType.GROCERY, 9)),
    (BLANK, entry(TssType.GROCERY, 9)),
    (Date(2011, 10, 18), entry(TssType.SDATE, 12)),
    (Date(), entry(TssType.SDATE, 12)),
    (Time(19, 33, resolution=MINUTE), entry(TssType.STIME, 6)),
    (Time(is_null=True, resolution=MINUTE), entry(TssType.STIME, 6)),
    (Time(1, 2, 3), entry(TssType.STIME, 10)),
    (Time(is_null=True), entry(TssType.STIME, 10)),
    (Time(1, 2, 3, 999, MILLI), entry(TssType.STIME, 14)),
    (tibmsg.Field.of("F", 0.375, hint=3), entry(TssType.GROCERY, 9)),
    (tibmsg.Field.of("F", 0.5, size=4, hint=17), entry(TssType.GROCERY, 5)),
    (tibmsg.Field.of("F", 1.5, hint=40), entry(TssType.GROCERY, 9)),
    (tibmsg.Field.of("F", -5, size=2), entry(TssType.SHORT_INT, 2)),
    (tibmsg.Field.of("F", 5, type=Tib.UINT, size=8), entry(TssType.U_LONG, 8)),
    (tibmsg.Field.of("F", 1.5, size=4), entry(TssType.FLOAT, 4)),
    (tibmsg.Field("F", Tib.REAL, bytes.fromhex("7ff4000000000001")), entry(TssType.DOUBLE, 8)),
    (tibmsg.Field("F", Tib.INT, b"\1\2\3"), entry(TssType.INTEGER, 3)),
    (tibmsg.Field.partial("F", b"A\0U", 300), entry(TssType.STRING, 80, is_partial=True)),
]


@pytest.mark.parametrize(("value", "target"), COMMON)
def test_what_the_dictionary_types_is_carried_both_ways(value: Any, target: Entry) -> None:
    field = value if isinstance(value, tibmsg.Field) else tibmsg.Field.of("F", value)
    made, lost = to_q(field, target)
    assert made is not None
    assert lost == []
    assert from_q(made) == (field, [])


@pytest.mark.parametrize(
    ("value", "target", "data", "lost"),
    [
        # numbers that stay the same number
        (1000, entry(TssType.DOUBLE_INT, 8), "408f400000000000", []),
        (1000, entry(TssType.GROCERY, 9), "408f40000000000000", []),
        (1000.0, entry(TssType.INTEGER, 4), "000003e8", []),
        (0.1, entry(TssType.GROCERY, 9), "3fb999999999999a11", []),
        (5, entry(TssType.U_SHORT, 2), "0005", []),
        (Time(13, 15, resolution=MINUTE), entry(TssType.STIME, 10), "31333a31353a30300000", []),
        (Time(13, 15), entry(TssType.STIME, 6), "31333a313500", []),
        # hints that the dictionary has no place for
        (Decimal("1.5"), entry(TssType.DOUBLE, 8), "3ff8000000000000", ["hint"]),
        (Decimal(5), entry(TssType.INTEGER, 2), "0005", ["hint"]),
        (Date(2011, 10, 18), entry(TssType.STRING, 11), "3138204f43542032303131", ["hint"]),
        (Time(1, 2), entry(TssType.STRING, 8), "30313a30323a3030", ["hint"]),
        (EnumText("NYS"), entry(TssType.STRING, 4), "4e595300", ["hint"]),
        (EnumNumber(2), entry(TssType.INTEGER, 2), "0002", ["hint"]),
        (
            tibmsg.Field.of("F", 1.5, hint=300),
            entry(TssType.GROCERY, 9),
            "3ff800000000000011",
            ["hint"],
        ),
        (
            tibmsg.Field("F", Tib.INT, b"\5", tibmsg.Hint(Tib.STRING, 2, b"x\0")),
            entry(TssType.INTEGER, 1),
            "05",
            ["hint"],
        ),
        # other types
        ("12.5", entry(TssType.GROCERY, 9), "402900000000000011", ["type"]),
        ("18 OCT 2011", entry(TssType.SDATE, 12), "3138204f4354203230313100", ["type"]),
        (5, entry(TssType.STRING, 2), "3500", ["type"]),
        (True, entry(TssType.INTEGER, 1), "01", ["type"]),
        (2, entry(TssType.BOOLEAN, 1), "01", ["type"]),
        (IPv4Address("127.0.0.1"), entry(TssType.STRING, 10), "3132372e302e302e3100", ["type"]),
        (IPv4Address("127.0.0.1"), entry(TssType.U_INT, 4), "7f000001", ["type"]),
        (IPv4Address("127.0.0.1"), entry(TssType.OPAQUE, 4), "7f000001", ["type"]),
        (b"AB", entry(TssType.STRING, 2), "4142", ["type"]),
        ("AB", entry(TssType.OPAQUE, 2), "4142", ["type"]),
        # values that do not fit
        ("ABCDE", entry(TssType.STRING, 4), "41424344", ["text"]),
        ("aé", entry(TssType.STRING, 2), "6100", ["text"]),
        (0.1, entry(TssType.FLOAT, 4), "3dcccccd", ["value"]),
        ((1 << 53) + 1, entry(TssType.DOUBLE, 8), "4340000000000000", ["value"]),
        (Decimal("16777217"), entry(TssType.GROCERY, 5), "4b80000000", ["value"]),
        (BLANK, entry(TssType.DOUBLE, 8), "7ff8000000000000", ["hint", "value"]),
        (Time(13, 15, 59), entry(TssType.STIME, 6), "31333a313500", ["value"]),
        (
            Time(1, 2, 3, 999990, MICRO),
            entry(TssType.STIME, 14),
            "30313a30323a30332e3939393939",
            ["value"],
        ),
        (Time(1, 2, 3, 999, MILLI), entry(TssType.STIME, 9), "30313a30323a303300", ["value"]),
        (Time(1, 2, 3, 999, MILLI), entry(TssType.STIME, 11), "30313a30323a30332e3939", ["value"]),
        (b"A", entry(TssType.OPAQUE, 3), "410000", ["bytes"]),
        (tibmsg.Field("F", Tib.STRING, b"A\0B\0"), entry(TssType.STRING, 4), "41000000", ["bytes"]),
        # a whole value where the dictionary has a patch
        ("AB", entry(TssType.STRING, 9, is_partial=True), "4142", ["partial"]),
        (b"A\0", entry(TssType.STRING, 9, is_partial=True), "4100", ["partial"]),
    ],
)
def test_values_become_what_the_dictionary_says(
    value: Any, target: Entry, data: str, lost: list[str]
) -> None:
    made, found = to_q(value, target)
    assert made is not None
    assert (made.data.hex(), found) == (data, lost)


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (70_000, entry(TssType.SHORT_INT, 2)),
        (1.5, entry(TssType.INTEGER, 4)),
        (BLANK, entry(TssType.INTEGER, 4)),
        (BLANK, entry(TssType.STRING, 4)),
        (1e300, entry(TssType.FLOAT, 4)),
        (12345, entry(TssType.STRING, 4)),
        (IPv4Address("127.0.0.1"), entry(TssType.STRING, 4)),
        (IPv4Address("127.0.0.1"), entry(TssType.BOOLEAN, 1)),
        ("abc", entry(TssType.INTEGER, 4)),
        ("yes", entry(TssType.BOOLEAN, 1)),
        (b"\1\2\3\4", entry(TssType.INTEGER, 4)),
        (b"ABCDE", entry(TssType.OPAQUE, 4)),
        (5, entry(TssType.OPAQUE, 4)),
        (5, entry(TssType.SDATE, 12)),
        ("x" * 20, entry(TssType.SDATE, 12)),
        (Date(2011, 10, 18), entry(TssType.STIME, 12)),
        (Time(1, 2), entry(TssType.SDATE, 12)),
        (tibmsg.Field("F", Tib.INT, b"\1\2\3"), entry(TssType.INTEGER, 4)),
        (tibmsg.Field.partial("F", b"AB", 0), entry(TssType.STRING, 4)),
        (tibmsg.Field.partial("F", b"AB", 70_000), entry(TssType.STRING, 4, is_partial=True)),
        (5, entry(TssType.STRING, 4, is_partial=True)),
        ({"A": 1}, entry(TssType.STRING, 4)),
        ([1, 2], entry(TssType.STRING, 4)),
        ("AB", Entry(7, "F", None, 0)),
        ("AB", entry(TssType.STRING, 4, fid=16_384)),
        ("AB", entry(TssType.STRING, 4, name="OTHER")),
        (tibmsg.Field.of(None, "AB"), entry(TssType.STRING, 4)),
    ],
)
def test_what_cannot_be_said_is_left_out(value: Any, target: Entry) -> None:
    assert to_q(value, target) == (None, ["field"])


def test_a_second_name_of_a_fid_cannot_be_used() -> None:
    both = sass(entry(TssType.STRING, 4, "FIRST"), entry(TssType.STRING, 9, "SECOND"))
    made, losses = convert(tibmsg.build({"SECOND": "A"}), to="qform", dictionary=both)
    assert (made, kinds(losses)) == (qform.Message(), ["field"])


def test_a_date_keeps_its_spelling_where_there_is_room() -> None:
    spelt = tibmsg.Field.of("F", "04/23/2014", hint=258)
    made, lost = to_q(spelt, entry(TssType.SDATE, 12))
    assert made is not None
    assert (made.wire_value, made.value, lost) == ("04/23/2014", Date(2014, 4, 23), [])
    blanks = tibmsg.Field.of("F", "18 OCT 2011" + " " * 9, hint=256)
    made, lost = to_q(blanks, entry(TssType.SDATE, 12))
    assert made is not None
    assert (made.wire_value, lost) == ("18 OCT 2011", [])


def test_text_that_is_no_date_stays_text() -> None:
    garbage = tibmsg.Field.of("F", "garbage", hint=258)
    made, lost = to_q(garbage, entry(TssType.SDATE, 12))
    assert made is not None
    assert (made.value, lost) == ("garbage", [])
    assert from_q(made) == (garbage, [])


def test_what_tibmsg_cannot_say_of_a_qform() -> None:
    made, lost = from_q(qform.Field(entry(TssType.GROCERY, 8), bytes(8)))
    assert (made.type, lost) == (Tib.OPAQUE, ["type"])
    made, lost = from_q(qform.Field(entry(TssType.STRING, 4), b"A\0B\0"))
    assert (made.value, lost) == ("A", ["bytes"])
    made, lost = from_q(qform.Field(entry(TssType.STIME, 6), b"xxxxxx"))
    assert (made.value, made.hint_number, lost) == ("xxxxxx", 260, [])
    long = Entry(5, "é" * 200, TssType.U_SHORT, 2)
    assert from_q(qform.Field(long, b"\0\5"))[1] == ["name"]


# --- through the hub -----------------------------------------------------------------------------


def test_qform_to_tibrv_and_back_loses_what_tibrv_cannot_say() -> None:
    fields = sass(
        entry(TssType.GROCERY, 9, "BID", 1),
        entry(TssType.STRING, 80, "ROW", 2, is_partial=True),
        entry(TssType.STIME, 6, "AT", 3),
        entry(TssType.INTEGER, 4, "SIZE", 4),
    )
    values = {"BID": Decimal("1.25"), "ROW": qform.Partial(5, "AB"), "AT": "19:33", "SIZE": 5}
    message = qform.build(fields, values)
    made, losses = convert(message, to="tibrv")
    assert isinstance(made, tibrv.Message)
    assert made.to_values() == {"BID": 1.25, "ROW": "AB", "AT": "19:33", "SIZE": 5}
    assert [(loss.path, loss.kind.value) for loss in losses] == [
        ("BID", "hint"),
        ("ROW", "partial"),
        ("AT", "hint"),
    ]
    back, losses = convert(made, to="qform", dictionary=fields)
    assert isinstance(back, qform.Message)
    assert back["BID"] == message["BID"]
    assert back["ROW"].partial_offset == 0
    assert [(loss.path, loss.kind.value) for loss in losses] == [("ROW", "partial"), ("AT", "type")]


def test_a_qform_can_change_its_dictionary() -> None:
    old = sass(entry(TssType.INTEGER, 4, "SIZE", 1), entry(TssType.GROCERY, 9, "BID", 2))
    new = sass(entry(TssType.DOUBLE_INT, 8, "SIZE", 500), entry(TssType.GROCERY, 9, "BID", 501))
    message = qform.build(old, {"SIZE": 5, "BID": "1.25"})
    made, losses = convert(message, to="qform", dictionary=new)
    assert losses == ()
    assert made == qform.build(new, {"SIZE": 5, "BID": "1.25"})


# --- any message ---------------------------------------------------------------------------------


def flat(fields: Any, outer: str = "") -> dict[str, Any]:
    """Path → field, nested ones included."""
    found: dict[str, Any] = {}
    for path, field in steps(fields, outer):
        found[path] = field
        if hasattr(field, "fields"):
            found |= flat(field.fields, path)
    return found


def check_promise(source: Message, made: Message, losses: tuple[Loss, ...]) -> None:
    """A field without a loss has an equal value on both sides."""
    lost = {loss.path for loss in losses}
    given, found = flat(source), flat(made)
    # Once a name has changed or a field is missing, positions in paths no longer agree.
    if any(loss.kind in (LossKind.NAME, LossKind.FIELD) for loss in losses):
        return
    for path, field in given.items():
        inside = any(path.startswith(f"{other}.") for other in lost)
        if path in lost or inside or (hasattr(field, "fields") and field.fields):
            continue
        assert same(found[path].value, field.value), path


def same(made: Any, given_value: Any) -> bool:
    if isinstance(made, tuple) and isinstance(given_value, tuple):
        return len(made) == len(given_value) and all(map(same, made, given_value))
    return _same(made, given_value)


def check_all(message: Message) -> None:
    for to in ("tibmsg", "tibrv", "qform"):
        made, losses = convert(message, to=to, dictionary=DICTIONARY)
        options = {"dictionary": DICTIONARY} if to == "qform" else {}
        data = made.encode()
        assert wireloom.decode(data, to, **options).encode() == data
        assert all(loss.path and loss.text for loss in losses)
        check_promise(message, made, losses)


@pytest.mark.parametrize("name", ["tibmsg", "tibrv", "qform"])
@settings(deadline=None)
@given(data=st.data())
def test_any_message_can_be_converted(name: str, data: st.DataObject) -> None:
    check_all(data.draw(messages(name)))


@settings(deadline=None)
@given(message=messages("tibmsg"), data=st.data())
def test_any_value_fits_any_entry_or_is_reported(
    message: tibmsg.Message, data: st.DataObject
) -> None:
    names = st.sampled_from([entry.name for entry in DICTIONARY])
    for field in message.fields:
        check_all(tibmsg.Message((replace(field, name=data.draw(names), form=0),)))


def canonical(field: qform.Field) -> bool:
    return field.why_not_canonical() is None and (
        field.type is not TssType.GROCERY or field.hint is not None
    )


@settings(deadline=None)
@given(messages("qform"))
def test_a_canonical_qform_survives_tibmsg(message: qform.Message) -> None:
    regular = qform.Message(tuple(filter(canonical, message.fields)))
    made, losses = convert(regular, to="tibmsg")
    assert losses == ()
    back, losses = convert(made, to="qform", dictionary=DICTIONARY)
    assert losses == ()
    assert isinstance(back, qform.Message)
    for before, after in zip(regular.fields, back.fields, strict=True):
        # A time may be spelt otherwise, as 1:02 for 01:02; all else is the same bytes.
        assert before == after or same(before.value, after.value)


VECTORS = [
    (format_, path)
    for format_, module in (("tibmsg", tibmsg), ("tibrv", tibrv))
    for path in sorted((Path(inspect.getfile(module)).parent / "vectors").glob("*.jsonl"))
]


@pytest.mark.parametrize(("format_", "path"), VECTORS, ids=lambda value: str(value)[-20:])
def test_every_vector_can_be_converted(format_: str, path: Path) -> None:
    for _, case in load(path):
        if not case.get("malformed"):
            check_all(wireloom.decode(bytes.fromhex(case["hex"]), format_))


def test_json_of_what_was_made_is_json() -> None:
    made, _ = convert(qform.build(qform.SYSTEM, {"MSG_TYPE": 1}), to="tibrv")
    assert json.loads(json.dumps(convert(made, to="json").message)) == made.to_dict()


def test_a_noisy_real_is_told():
    noisy = tibmsg.Field(
        "P", tibmsg.FieldType.REAL, struct.pack(">d", 0.1 + 0.2), tibmsg.Hint.of(18, 1)
    )
    made, losses = convert(tibmsg.Message((noisy,)), to="tibrv")
    assert made.fields[0].value == 0.1 + 0.2
    assert [(loss.kind, loss.text) for loss in losses] == [
        (LossKind.HINT, "hint 18 is lost: the decimal becomes a plain real"),
        (LossKind.VALUE, "the real is 0.30000000000000004, where the decimal is 0.30"),
    ]
    clean = tibmsg.Field("P", tibmsg.FieldType.REAL, struct.pack(">f", 0.3), tibmsg.Hint.of(18, 1))
    _, losses = convert(tibmsg.Message((clean,)), to="tibrv")
    assert [loss.kind for loss in losses] == [LossKind.HINT]


def test_a_time_as_text_is_cut_to_its_entry():
    dictionary = Dictionary([Entry(30, "T", TssType.STIME, 13)])
    message = tibrv.build({"T": "01:02:03.456789"})
    made, losses = convert(message, to="qform", dictionary=dictionary)
    (field,) = made.fields
    assert str(field.value) == "01:02:03.456700"
    assert LossKind.VALUE in {loss.kind for loss in losses}
    assert LossKind.FIELD not in {loss.kind for loss in losses}


def test_a_null_date_fits_a_small_entry():
    dictionary = Dictionary([Entry(31, "D", TssType.SDATE, 9)])
    for value in (None, Date()):
        (field,) = qform.build(dictionary, {"D": value}).fields
        assert field.value == Date()
    null = tibmsg.build({"D": Date()})
    made, _ = convert(null, to="qform", dictionary=dictionary)
    assert [field.value for field in made.fields] == [Date()]
