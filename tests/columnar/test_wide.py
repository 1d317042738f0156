"""The wide table: chosen fields as typed columns, and what happens to values that do not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from oracles.tabled import (
    WIDE_TYPES,
    check_messages,
    choices,
    names_in,
    options_for,
    plain_rows,
)
from oracles.twins import seeds

from wireloom import kernel as kernels
from wireloom.columnar import decode_bytes, decode_frames, infer_columns
from wireloom.columnar.messages import MessageDecoder
from wireloom.formats import qform, tibmsg, tibrv
from wireloom.formats._tib.values import BLANK, Date, Time
from wireloom.formats.tibmsg import Field, FieldType
from wireloom.rows import walked_formats

WALKED = walked_formats()


def _wide(frames, columns, kernel, format="tibmsg", **options):
    decoder = MessageDecoder(format, tables=["wide"], columns=columns, kernel=kernel, **options)
    starts, lengths, at = [], [], 0
    for frame in frames:
        starts.append(at)
        lengths.append(len(frame))
        at += len(frame)
    fed = [*decoder.feed(b"".join(frames), starts, lengths), *decoder.flush()]
    return [row for _, batch in fed for row in plain_rows(batch)]


DAY_NS = 10**9
CASES = [
    (5, "i64", 5),
    (-5, "f64", -5.0),
    (5, "decimal(18,4)", Decimal("5.0000")),
    (1, "bool", True),
    (2, "bool", None),
    (5, "text", None),
    (2.0, "i64", 2),
    (2.5, "i64", None),
    (1e300, "i64", None),
    (float("nan"), "i64", None),
    (float("inf"), "decimal", None),
    (0.1, "decimal(18,4)", Decimal("0.1000")),
    (0.12345, "decimal(18,4)", None),
    (Decimal("0.29"), "decimal(18,4)", Decimal("0.2900")),
    (Decimal("0.29"), "f64", 0.29),
    (Decimal("1000.5"), "decimal(5,2)", None),
    (Decimal("-999.99"), "decimal(5,2)", Decimal("-999.99")),
    ("text", "text", "text"),
    ("", "text", ""),
    ("text", "i64", None),
    ("text", "binary", None),
    (b"\0\1", "binary", b"\0\1"),
    (b"ab", "text", None),
    (Date(2024, 2, 29), "date", dt.date(2024, 2, 29)),
    ("29 FEB 2024", "date", dt.date(2024, 2, 29)),
    ("29 FEB 2023", "date", None),
    ("12:34", "time", 45240 * DAY_NS),
    (Time(12, 34, 56), "time", 45296 * DAY_NS),
    ("24:00", "time", None),
    (5, "date", None),
    (5, "time", None),
    (5, "timestamp", None),
]


@pytest.mark.parametrize(("value", "type", "wanted"), CASES)
def test_values_in_columns(value, type, wanted, kernel):
    frame = tibmsg.build({"BID": value}).encode()
    (row,) = _wide([frame], [f"BID:{type}"], kernel)
    assert row["BID"] == wanted
    assert row["misfits"] == (wanted is None)


def test_a_field_that_is_not_there_or_blank_is_no_misfit(kernel):
    frames = [tibmsg.build(values).encode() for values in ({"BID": 1}, {"ASK": BLANK}, {})]
    rows = _wide(frames, ["ASK:f64", "BID:i64"], kernel)
    assert [(row["ASK"], row["BID"], row["misfits"]) for row in rows] == [
        (None, 1, 0),
        (None, None, 0),
        (None, None, 0),
    ]


def test_null_dates_and_times_are_no_misfits(kernel):
    frame = tibmsg.build({"DAY": Date(), "AT": Time(is_null=True)}).encode()
    (row,) = _wide([frame], ["DAY:date", "AT:time"], kernel)
    assert (row["DAY"], row["AT"], row["misfits"]) == (None, None, 0)


def test_of_a_repeated_name_the_first_counts(kernel):
    fields = [Field.of("BID", "x"), Field.of("BID", 2), Field.of("ASK", 3), Field.of("ASK", 4)]
    (row,) = _wide([tibmsg.build(fields).encode()], ["BID:i64", "ASK:i64"], kernel)
    assert (row["BID"], row["ASK"], row["misfits"]) == (None, 3, 1)


def test_large_unsigned_numbers(kernel):
    most = 2**64 - 1
    frame = tibmsg.build([Field.of("N", most, type=FieldType.UINT, size=8)]).encode()
    for type, wanted in (
        ("i64", None),
        ("f64", float(most)),
        ("decimal(20,0)", Decimal(most)),
        ("decimal(19,0)", None),
    ):
        (row,) = _wide([frame], [f"N:{type}"], kernel)
        assert row["N"] == wanted


def test_of_two_decimals_that_read_back_as_the_same_single_the_even_one_counts(kernel):
    """Half-way between both, as every tie is decided."""
    for value, wanted in ((2507.90625, "2507.9062"), (2507.96875, "2507.9688"), (0.1, "0.1000")):
        frame = tibmsg.build([Field.of("N", value, size=4)]).encode()
        (row,) = _wide([frame], ["N:decimal(18,4)"], kernel)
        assert row["N"] == Decimal(wanted)


def test_no_chosen_fields_leave_the_key_and_the_misfits(kernel):
    (row,) = _wide([tibmsg.build({"BID": 1}).encode()], [], kernel)
    assert row["misfits"] == 0
    assert "BID" not in row


def test_nested_fields_belong_to_their_own_message(kernel):
    inner = tibmsg.build({"BID": 7}).encode()
    frame = tibmsg.build({"INFO": {"BID": 1}, "DATA": inner}).encode()
    rows = _wide([frame], ["BID:i64"], kernel)
    assert [(row["path"], row["BID"]) for row in rows] == [("", None), ("DATA", 7)]


def test_timestamps(kernel):
    when = dt.datetime(2024, 3, 14, 15, 9, 26, 535897, tzinfo=dt.UTC)
    frame = tibrv.build({"WHEN": when}).encode()
    (row,) = _wide([frame], ["WHEN:timestamp"], kernel, "tibrv")
    assert row["WHEN"] == when


@pytest.mark.parametrize("name", [*WALKED, None])
def test_every_type_for_every_field_of_the_golden_vectors(name, kernel):
    frames = [data for each in WALKED if name in (each, None) for data in seeds(each, 400)]
    frames = frames[:: 60 if kernel is kernels.interpreted() else 6]
    given = options_for(name)
    names = names_in(name, frames, **given)[:60]
    for choice in choices(names):
        check_messages(name, frames, kernel=kernel, options=given, choice=choice)
    assert len(choices(names)) == len(WIDE_TYPES)


def test_names_that_are_not_utf8_are_found_as_they_are_shown(kernel):
    frame = b"\xce\x13\xaa\x1f\1\0\0\0\x06\2\xff\0\5\1\7"
    (row,) = _wide([frame], ["\\xff:i64"], kernel)
    assert row["\\xff"] == 7


def test_types_come_from_the_dictionary_or_from_the_data():
    dictionary = qform.load("BID { CLASS_ID 22; DATA_TYPE grocery; DATA_SIZE 9; }")
    frame = qform.build(dictionary, {"BID": Decimal("1.5")}).encode()
    (batch,) = (
        batch for _, batch in decode_bytes(frame, "qform", columns=["BID"], dictionary=dictionary)
    )
    assert batch.schema.field("BID").type == pa.decimal128(38, 15)
    frame = tibmsg.build({"BID": Decimal("1.5"), "SYM": "A", "N": 1, "F": 0.5}).encode()
    wanted = ["BID:decimal", "SYM:text", "N:i64", "F:f64"]
    assert infer_columns(frame, [0], [len(frame)], "tibmsg") == wanted
    ((name, batch),) = decode_frames(
        frame, [0], [len(frame)], "tibmsg", columns=["N", "SYM:binary"]
    )
    assert name == "wide"
    assert batch.schema.field("N").type == pa.int64()
    assert batch.schema.field("SYM").type == pa.binary()
    assert batch["misfits"].to_pylist() == [1]


def test_a_damaged_stream_has_its_rows_and_its_errors():
    good = [tibmsg.build({"N": number}).encode() for number in range(50)]
    stream = b"".join(good[:20]) + b"noise" + b"".join(good[20:])
    whole = {}
    for chunks in (stream, [stream[at : at + 7] for at in range(0, len(stream), 7)]):
        found = {}
        for table, batch in decode_bytes(chunks, "tibmsg", offset=1 << 33, columns=["N:i64"]):
            found.setdefault(table, []).extend(batch.to_pylist())
        assert [row["N"] for row in found["wide"]] == list(range(50))
        (error,) = found["errors"]
        assert (error["layer"], error["raw"]) == ("frame", b"noise")
        assert error["frame_offset"] == (1 << 33) + len(good[0]) * 20
        assert found["wide"][20]["frame_offset"] == error["frame_offset"] + 5
        assert whole in ({}, found)
        whole = found
