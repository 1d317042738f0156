"""The QForm codec: walking, fields, messages, strict reading, what a message is made of."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    LimitError,
    TruncatedError,
)
from wireloom.formats.qform import (
    BLANK,
    FORMAT,
    SYSTEM,
    Date,
    Dictionary,
    Entry,
    Field,
    Message,
    MsgType,
    RecStatus,
    Resolution,
    Time,
    TssType,
    decode,
    load,
)
from wireloom.formats.qform import message as message_module
from wireloom.formats.qform.codes import meaning
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES
from wireloom.formats.qform.fields import KINDS
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages
from wireloom.testing.strategies.qform import DICTIONARY
from wireloom.wire import Limits

CFILE = """
MSG_TYPE { CLASS_ID 4001; DATA_SIZE 2; DATA_TYPE short_int; }
REC_TYPE { CLASS_ID 4002; DATA_SIZE 2; DATA_TYPE short_int; }
SEQ_NO { CLASS_ID 4003; DATA_SIZE 2; DATA_TYPE short_int; }
REC_STATUS { CLASS_ID 4005; DATA_SIZE 2; DATA_TYPE short_int; }
SYMBOL { CLASS_ID 2705; DATA_SIZE 20; DATA_TYPE string; }
RDNDISPLAY { CLASS_ID 10701; DATA_SIZE 4; DATA_TYPE integer; }
RDN_EXCHID { CLASS_ID 10703; DATA_SIZE 4; DATA_TYPE string; }
TIMACT { CLASS_ID 10704; DATA_SIZE 6; DATA_TYPE stime; }
ACTIV_DATE { CLASS_ID 10716; DATA_SIZE 12; DATA_TYPE sdate; }
BID { CLASS_ID 10720; DATA_SIZE 9; DATA_TYPE grocery; }
BIDSIZE { CLASS_ID 10728; DATA_SIZE 8; DATA_TYPE double_int; }
ACVOL_1 { CLASS_ID 10730; DATA_SIZE 8; DATA_TYPE double_int; }
ROW64_1 { CLASS_ID 10914; IS_PARTIAL true; DATA_SIZE 80; DATA_TYPE string; }
STR7 { CLASS_ID 110; DATA_SIZE 7; DATA_TYPE string; }
VARS { CLASS_ID 130; IS_FIXED false; DATA_SIZE 128; DATA_TYPE string; }
VBIG { CLASS_ID 132; IS_FIXED false; DATA_SIZE 100000; DATA_TYPE string; }
CONTROL { CLASS_ID 4081; FIELDS { "a" { FIELD_CLASS_NAME BID; } } }
"""
FIELDS = load(CFILE)


def body(text: str) -> bytes:
    """A message with these fields, in hex."""
    data = bytes.fromhex(text)
    return b"\x11\x11\x11\x12" + len(data).to_bytes(4, "big") + data


def one(text: str, dictionary: Dictionary = FIELDS) -> Field:
    return decode(body(text), dictionary)[0]


def entry(kind: TssType, size: int, **more: Any) -> Entry:
    return Entry(7, "F", kind, size, **more)


# --- the document's two examples ---------------------------------------------------------------


def test_the_header_printed_in_the_document() -> None:
    data = bytes.fromhex("1111111200000010cfa10001cfa28b4fcfa30000cfa50000")
    message = decode(data, FIELDS)
    assert message.to_values() == {"MSG_TYPE": 1, "REC_TYPE": -29873, "SEQ_NO": 0, "REC_STATUS": 0}
    assert decode(data, SYSTEM) == message  # the system fields are built in
    assert message.encode() == data
    assert [f.meaning for f in message] == ["UPDATE", "", "", "OK"]
    assert [f.wire_fid for f in message] == [0xCFA1, 0xCFA2, 0xCFA3, 0xCFA5]


def test_the_record_printed_in_the_document() -> None:
    data = bytes.fromhex(
        "1111111200000058"
        "ca914142432e4e000000000000000000000000000000"
        "e9cd00000040"
        "e9cf4e595300"
        "e9d031393a333300"
        "e9dc3138204f4354203230313100"
        "e9ea408f400000000000"
        "e9e03ff20000000000001300"
        "e9e84024000000000000"
    )
    message = decode(data, FIELDS, strict=True)
    assert message.to_values() == {
        "SYMBOL": "ABC.N",
        "RDNDISPLAY": 64,
        "RDN_EXCHID": "NYS",
        "TIMACT": Time(19, 33, resolution=Resolution.MINUTE),
        "ACTIV_DATE": Date(2011, 10, 18),
        "ACVOL_1": 1000.0,
        "BID": Decimal("1.125"),
        "BIDSIZE": 10.0,
    }
    assert message.encode() == data
    assert message["BID"].hint == 19
    assert message["BID"].wire_value == 1.125
    assert message["BID"].wire_len == 12
    assert (message.format, message.type_name) == ("qform", "QFORM")


# --- kinds of fields ---------------------------------------------------------------------------


def test_a_partial_has_an_offset_of_sixteen_bits() -> None:
    field = one("eaa2 012c 0004 57494445")
    assert (field.partial_offset, field.value, field.data) == (300, b"WIDE", b"WIDE")
    assert (field.size, field.wire_len, field.is_variable) == (4, 10, False)


def test_the_dictionary_s_size_chooses_the_width_of_a_length() -> None:
    assert one("4082 0003 414243 00").value == "ABC"
    assert one("4084 00000003 414243 00").value == "ABC"
    edge = Dictionary((Entry(5, "EDGE", TssType.OPAQUE, 65_535, is_fixed=False),))
    assert one("4005 0002 0102", edge).value == b"\x01\x02"


def test_flags_and_pad_bytes_are_ignored_and_kept() -> None:
    data = body("006e 61616161616161 2a")
    message = decode(data, FIELDS)
    field = message[0]
    assert (field.value, field.wire_fid, field.fid, field.pad) == ("aaaaaaa", 110, 110, 0x2A)
    assert message.encode() == data


def test_a_field_made_by_hand_gets_the_flags_of_a_writer() -> None:
    for flags, made in [
        (0xC000, entry(TssType.STRING, 4)),
        (0xC000, entry(TssType.STRING, 4, is_partial=True)),
        (0x4000, entry(TssType.STRING, 4, is_fixed=False)),
        (0x0000, entry(TssType.STRING, 4, is_fixed=False, is_primitive=False)),
        (0xC000, entry(TssType.STRING, 4, is_primitive=False)),
    ]:
        assert Field(made, b"abcd").wire_fid == flags | 7


def test_fid_zero_is_tolerated_as_the_last_two_bytes() -> None:
    for last in ("0000", "c000"):
        data = body("cfa3 0005" + last)
        message = decode(data, FIELDS)
        assert (message.names(), message.trailer) == (("SEQ_NO",), bytes.fromhex(last))
        assert message.encode() == data
        with pytest.raises(DecodeError, match="fid 0") as caught:
            decode(data, FIELDS, strict=True)
        assert (caught.value.code, caught.value.path, caught.value.offset) == (
            "not_canonical",
            "trailer",
            12,
        )


def test_fid_zero_is_a_field_if_the_dictionary_has_it() -> None:
    zero = Dictionary((Entry(0, "ZERO", TssType.U_SHORT, 2),))
    message = decode(body("c000 0005"), zero)
    assert (message["ZERO"].value, message.trailer) == (5, b"")
    with pytest.raises(DecodeError) as caught:
        decode(body("0000"), zero)
    assert caught.value.code == "bounds"


@pytest.mark.parametrize(
    ("text", "code", "index", "offset"),
    [
        ("cfa3 0005 de61 00000000", "unknown_fid", 1, 12),
        ("0000 0000 cfa3 0005", "null_fid", 0, 8),
        ("cff1 0000", "form", 0, 8),
        ("cf", "bounds", 0, 8),
        ("cfa3 0005 cf", "bounds", 1, 12),
        ("cfa3", "bounds", 0, 8),
        ("eaa2 0008", "bounds", 0, 8),
        ("eaa2 0008 000a 41415555", "bounds", 0, 8),
        ("eaa2 0008 0003 414155", "bounds", 0, 8),
        ("4082 00", "bounds", 0, 8),
        ("4082 0009 41415555", "bounds", 0, 8),
        ("4084 000000", "bounds", 0, 8),
        ("4084 00000064 41415555", "bounds", 0, 8),
        ("c06e 61616161616161", "bounds", 0, 8),
    ],
)
def test_what_cannot_be_read_says_where_and_why(
    text: str, code: str, index: int, offset: int
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body(text), FIELDS)
    assert (caught.value.code, caught.value.offset) == (code, offset)
    assert caught.value.path == f"fields[{index}]"
    if isinstance(caught.value, TruncatedError):
        assert caught.value.needed > caught.value.available


def test_headers_that_are_none() -> None:
    for data, code in [
        (b"", "truncated"),
        (b"\x11\x11\x11", "truncated"),
        (b"\x11\x11\x11\x13\0\0\0\0", "magic"),
        (b"\x11\x12", "magic"),
        (body("cfa30005")[:-1], "truncated"),
    ]:
        with pytest.raises(DecodeError) as caught:
            decode(data, FIELDS)
        assert caught.value.code == code


def test_without_a_dictionary_nothing_can_be_read() -> None:
    for nothing in (None, Dictionary()):
        for data in (body("cfa30005"), body("")):
            with pytest.raises(DecodeError) as caught:
                decode(data, nothing)
            assert (caught.value.code, caught.value.path) == ("no_dictionary", "")


def test_limits_hold() -> None:
    data = body("cfa30005" * 4)
    assert len(decode(data, FIELDS, Limits(max_fields=4)).fields) == 4
    with pytest.raises(LimitError) as caught:
        decode(data, FIELDS, Limits(max_fields=3))
    assert (caught.value.value, caught.value.limit, caught.value.path) == (4, 3, "fields[3]")
    with pytest.raises(FrameTooLargeError):
        decode(data, FIELDS, Limits(max_frame=len(data) - 1))


def test_an_empty_message_is_one() -> None:
    assert decode(body(""), FIELDS) == Message()
    assert Message().encode() == body("")


# --- types -------------------------------------------------------------------------------------

VALUES = [
    (TssType.INTEGER, "ff", -1),
    (TssType.INTEGER, "8000", -32768),
    (TssType.INTEGER, "80000000", -(1 << 31)),
    (TssType.INTEGER, "7fffffffffffffff", (1 << 63) - 1),
    (TssType.SHORT_INT, "8b4f", -29873),
    (TssType.LONG, "ffffffffffffffff", -1),
    (TssType.BYTE, "ff", 255),
    (TssType.U_SHORT, "ffff", 65535),
    (TssType.U_INT, "ffffffff", (1 << 32) - 1),
    (TssType.U_LONG, "ffffffffffffffff", (1 << 64) - 1),
    (TssType.INTEGER, "010203", b"\x01\x02\x03"),  # no such integer
    (TssType.STRING, "41420043", "AB"),
    (TssType.STRING, "41424344", "ABCD"),
    (TssType.STRING, "ff00", "\udcff"),
    (TssType.BOOLEAN, "00", False),
    (TssType.BOOLEAN, "02", True),
    (TssType.BOOLEAN, "000000", b"\0\0\0"),
    (TssType.PRICE, "3fc00000", 1.5),
    (TssType.DOUBLE, "c008000000000000", -3.0),
    (TssType.DOUBLE_INT, "408f400000000000", 1000.0),
    (TssType.FLOAT, "c0100000", -2.25),
    (TssType.FLOAT, "c010", b"\xc0\x10"),
    (TssType.GROCERY, "3ff200000000000013", Decimal("1.125")),
    (TssType.GROCERY, "3f90000013", Decimal("1.125")),
    (TssType.GROCERY, "00000000000000007f", BLANK),
    (TssType.GROCERY, "3ff20000000000000f", 1.125),  # hint 15 leaves a plain real
    (TssType.GROCERY, "3ff2000000000000", bytes.fromhex("3ff2000000000000")),  # no room for a hint
    (TssType.GROCERY, "", b""),
    (TssType.SDATE, "3138204f4354203230313100", Date(2011, 10, 18)),
    (TssType.SDATE, "000000000000000000000000", Date()),
    (TssType.SDATE, "676172626167650000000000", "garbage"),
    (TssType.STIME, "31393a333300", Time(19, 33, resolution=Resolution.MINUTE)),
    (TssType.STIME, "78787878787800", "xxxxxx"),
    *((kind, "0102", b"\x01\x02") for kind in (TssType.DATE, TssType.TIME, TssType.OPAQUE)),
    *((kind, "0102", b"\x01\x02") for kind in (TssType.NULL, TssType.RESERVED, TssType.NODATA)),
]


@pytest.mark.parametrize(("kind", "data", "value"), VALUES)
def test_data_has_a_value_by_its_type(kind: TssType, data: str, value: object) -> None:
    raw = bytes.fromhex(data)
    field = Field(entry(kind, len(raw)), raw)
    assert field.value == value
    assert type(field.value) is type(value)
    assert decode(Message((field,)).encode(), Dictionary((field.entry,))).fields == (field,)


def test_every_type_has_a_kind() -> None:
    assert set(KINDS) == set(TssType)


def test_a_partial_is_bytes() -> None:
    for kind in (TssType.STRING, TssType.STIME):
        field = Field(entry(kind, 80, is_partial=True), b"12:00", 3)
        assert field.value == field.wire_value == b"12:00"
        assert not field.is_unparsed
    grocery = Field(entry(TssType.GROCERY, 9, is_partial=True), bytes(9), 0)
    assert (grocery.hint, grocery.scaled, grocery.value) == (None, None, bytes(9))


def test_a_date_without_a_year_takes_today_s() -> None:
    field = Field(entry(TssType.SDATE, 12), b"Mon Jun 08\0\0")
    assert field.value == "Mon Jun 08"
    assert field.is_unparsed
    assert field.typed(dt.date(2020, 6, 9)) == Date(2020, 6, 8)
    assert not one("e9dc 3138204f4354203230313100").is_unparsed


def test_a_form_is_no_field() -> None:
    form = FIELDS.by_name["CONTROL"]
    with pytest.raises(EncodeError, match="form"):
        _ = Field(form, b"").type


def test_codes_of_system_fields_have_names() -> None:
    assert MsgType(28).name == "FINISH_AGGREGATE"
    assert RecStatus(85).name == "FEED_NOT_ACCEPTING"
    assert len(MsgType) == 29
    assert meaning("REC_STATUS", 13) == ""  # not assigned
    assert meaning("MSG_TYPE", b"\1") == ""
    assert one("cfa1 000d").meaning == "SNAPSHOT"


# --- strict reading ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0fa3 0005", "flags"),
        ("c06e 61616161616161 01", "pad"),
        ("c06e 61006161616161 00", "after the end"),
        ("4082 0002 4100", "after the end"),
        ("4082 0081" + "41" * 129 + "00", "at most"),
    ],
)
def test_strict_reading_rejects_what_no_writer_puts(text: str, reason: str) -> None:
    data = body("cfa30005" + text)
    message = decode(data, FIELDS)
    assert message.encode() == data
    with pytest.raises(DecodeError, match=reason) as caught:
        decode(data, FIELDS, strict=True)
    assert (caught.value.code, caught.value.path) == ("not_canonical", "fields[1]")
    assert caught.value.offset == 12


def test_strict_reading_rejects_odd_booleans() -> None:
    for data, good in [(b"\0\1", True), (b"\0\0", True), (b"\1\0", False), (b"\0\2", False)]:
        reason = Field(entry(TssType.BOOLEAN, 2), data).why_not_canonical()
        assert (reason is None) == good


def test_strict_reading_rejects_bytes_behind_the_message() -> None:
    with pytest.raises(DecodeError, match="3 bytes") as caught:
        decode(body("cfa30005") + b"abc", FIELDS, strict=True)
    assert (caught.value.code, caught.value.offset) == ("trailing", 12)


def test_a_patch_may_hold_anything() -> None:
    assert one("eaa2 0000 0004 41004200").why_not_canonical() is None


# --- writing what cannot be written -------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (Field(FIELDS.by_name["CONTROL"], b""), "form"),
        (Field(Entry(16384, "F", TssType.STRING, 0), b""), "14 bits"),
        (Field(Entry(-1, "F", TssType.STRING, 0), b""), "14 bits"),
        (Field(entry(TssType.STRING, 2), b"ab", wire_fid=8), "not fid 7"),
        (Field(entry(TssType.STRING, 2), b"ab", wire_fid=0x10007), "not fid 7"),
        (Field(entry(TssType.STRING, 2), b"abc"), "not 2"),
        (Field(entry(TssType.STRING, 2), b"ab", pad=1), "pad"),
        (Field(entry(TssType.STRING, 1), b"a", pad=256), "pad"),
        (Field(entry(TssType.STRING, 2), b"ab", 0), "no partial"),
        (Field(entry(TssType.STRING, 2, is_partial=True), b"ab"), "offset None"),
        (Field(entry(TssType.STRING, 2, is_partial=True), b"ab", 65_536), "offset 65536"),
        (Field(entry(TssType.STRING, 2, is_partial=True), bytes(65_536), 0), "length field"),
        (Field(entry(TssType.STRING, 2, is_fixed=False), bytes(65_536)), "length field"),
    ],
)
def test_parts_that_do_not_go_together_are_not_written(field: Field, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        Message((Field(entry(TssType.STRING, 0), b""), field)).encode()
    assert caught.value.path == "fields[1]"


def test_one_fid_has_one_entry() -> None:
    fields = (Field(entry(TssType.STRING, 2), b"ab"), Field(entry(TssType.STRING, 4), b"abcd"))
    with pytest.raises(EncodeError, match="another entry"):
        Message(fields).encode()


def test_a_trailer_is_fid_zero() -> None:
    zero = Field(Entry(0, "ZERO", TssType.U_SHORT, 2), b"\0\5")
    for message in (Message((), b"\0"), Message((), b"\0\1"), Message((zero,), b"\0\0")):
        with pytest.raises(EncodeError, match="fid 0") as caught:
            message.encode()
        assert caught.value.path == "trailer"
    assert Message((), b"\x40\0").encode() == body("4000")


class _Endless(bytes):
    """Bytes that say they are 4 GiB long."""

    def __len__(self) -> int:
        return 1 << 32


def test_a_body_has_a_size_of_four_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_module, "encode_field", lambda field: _Endless(field.data))
    with pytest.raises(EncodeError, match="too long"):
        Message((Field(entry(TssType.STRING, 2), b"ab"),)).encode()


# --- what a message is -------------------------------------------------------------------------


def test_a_message_carries_its_own_entries_only() -> None:
    many = tuple(Entry(i, f"FIELD_{i}", TssType.U_SHORT, 2) for i in range(1, 5000))
    message = decode(body("c001 0005"), Dictionary(many))
    size = len(pickle.dumps(message))
    assert size < 1000
    assert pickle.loads(pickle.dumps(message)) == message


def test_payloads_are_the_opaque_fields() -> None:
    opaque = Entry(5, "DATA", TssType.OPAQUE, 2, is_fixed=False)
    patch = Entry(6, "PATCH", TssType.OPAQUE, 2, is_partial=True)
    text = Entry(7, "DATA", TssType.STRING, 2)
    fields = (
        Field(opaque, b"ab"),
        Field(opaque, b""),
        Field(patch, b"ab", 0),
        Field(text, b"ab"),
        Field(opaque, b"cd"),
    )
    assert list(Message(fields).payloads()) == [("DATA", b"ab"), ("fields[4]", b"cd")]


# --- any message, any bytes ----------------------------------------------------------------------


@given(messages("qform"))
def test_every_message_is_read_as_it_was_written(message: Message) -> None:
    data = message.encode()
    assert decode(data, DICTIONARY) == message
    assert decode(data + b"more", DICTIONARY) == message
    assert FORMAT.from_dict(message.to_dict()) == message


@given(st.binary(max_size=60))
def test_noise_is_read_or_refused(noise: bytes) -> None:
    data = body(noise.hex())
    try:
        message = decode(data, DICTIONARY)
    except DecodeError:
        return
    assert message.encode() == data


def test_only_decode_errors_come_out_of_mutants() -> None:
    kinds = [Field(e, bytes(DEFAULT_SIZES.get(e.tss_type or TssType.NODATA, 10))) for e in FIXED]
    samples = [Message(tuple(kinds[i : i + 4])).encode() for i in range(0, len(kinds), 4)]
    samples += [
        body("eaa2 012c 0004 57494445"),
        body("4082 0003 414243 00"),
        body("4084 00000003 414243 00 cfa3 0005 0000"),
    ]
    dictionary = DICTIONARY.merge(FIELDS)
    for _, data in Mutator(samples, seed=3).mutants(0, 800):
        examine(FORMAT, data, Random(5), dictionary=dictionary)


FIXED = [e for e in DICTIONARY.entries if e.is_fixed and not e.is_partial and e.fid < 200]


def test_work_is_linear_in_a_hostile_message(steps: Callable[..., int]) -> None:
    def refuse(data: bytes) -> None:
        with pytest.raises(DecodeError, match="fid 6"):
            decode(data, none, Limits(max_fields=1 << 30))

    def work(count: int) -> int:
        # Fields of no bytes: the most fields that fit, and the longest way to an error at the end.
        data = body("c005" * count + "c006")
        return steps(lambda: refuse(data))

    none = Dictionary((Entry(5, "NONE", TssType.STRING, 0),))
    assert 0 < work(8000) <= 8 * work(1000)
