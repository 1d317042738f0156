from __future__ import annotations

import json
import math
import pickle
import struct
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wireloom.errors import DecodeError, EncodeError, LimitError
from wireloom.formats.blaze import (
    Encoding,
    Model,
    ModelBuilder,
    NClassValue,
    Sparse,
    apply_delta,
    decode_nclass,
    encode_nclass,
    from_blz,
    make_delta,
    new_value,
    trimmed,
)
from wireloom.formats.blaze.nclass import layout_of
from wireloom.outline import Node
from wireloom.testing.mutations import Mutator
from wireloom.wire import Limits

MODEL = from_blz("""
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low
    GAUGE_High = 9
    GAUGE_Neg = -3
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    bool active
    int_16 i16
    uint_16 u16
    int_32 i32
    int_64 i64
    uint_64 u64
    float_32 f32
    float_64 f64
    ascii grade
    byte flags
    GAUGE gauge
    int_32[4] temps
    GAUGE[3] gauges
    bool[3] doors
    float_64[2] load
    byte[4] raw
    POINT home
    POINT[3] stops
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}
""")

ALL, NOTZERO, DELTA = Encoding.ALL, Encoding.INDEXNOTZERO, Encoding.INDEXDELTA


def value_of(
    values: dict[str, Any], nclass: str = "TRUCK", kind: Encoding = NOTZERO
) -> NClassValue:
    return new_value(MODEL, nclass, values, kind)


def body(content: str) -> bytes:
    raw = bytes.fromhex(content)
    return len(raw).to_bytes(4, "little") + raw


# --- bytes, written by hand -----------------------------------------------------------------------

FIELDS = [
    ("truck_id", 0x01020304, "0100 04030201"),
    ("name", "Bob", "0200 03000000 426f62"),
    ("name", "0123456789ABCDEF", "0200 10000000 30313233343536373839414243444546"),
    ("active", True, "0300 01"),
    ("i16", -2, "0400 feff"),
    ("u16", 65535, "0500 ffff"),
    ("i32", -2147483648, "0600 00000080"),
    ("i64", -1, "0700 ffffffffffffffff"),
    ("u64", 1 << 63, "0800 0000000000000080"),
    ("f32", 1.5, "0900 0000c03f"),
    ("f64", -0.0, "0a00 0000000000000080"),
    ("grade", "A", "0b00 41"),
    ("flags", 255, "0c00 ff"),
    ("gauge", 9, "0d00 09000000"),
    ("gauge", -3, "0d00 fdffffff"),
    ("temps", {1: 7, 3: -1}, "0e00 0c000000 0100 07000000 0300 ffffffff"),
    ("gauges", {2: 1}, "0f00 06000000 0200 01000000"),
    ("doors", {0: True}, "1000 03000000 0000 01"),
    ("load", {1: 0.5}, "1100 0a000000 0100 000000000000e03f"),
    ("raw", {0: 1, 3: 2}, "1200 06000000 0000 01 0300 02"),
    ("home", {"x": 5}, "1300 06000000 0100 05000000"),
    (
        "stops",
        {0: {"x": 1}, 2: {"label": "end"}},
        "1400 1b000000 0000 06000000 0100 01000000 0200 09000000 0300 03000000 656e64",
    ),
]


@pytest.mark.parametrize(("name", "value", "content"), FIELDS)
def test_every_type_of_field(name: str, value: Any, content: str) -> None:
    data = body(content)
    read = decode_nclass(MODEL, "TRUCK", data)
    assert read == {name: value}
    assert encode_nclass(read) == data
    assert encode_nclass(value_of({name: value})) == data
    assert encode_nclass(value_of({name: value}), DELTA) == data
    assert decode_nclass(MODEL, 302, bytearray(data), strict=True) == read
    assert pickle.loads(pickle.dumps(read)) == read
    assert hash(pickle.loads(pickle.dumps(read))) == hash(read)
    made = json.loads(json.dumps(read.to_values(), allow_nan=False))
    assert encode_nclass(value_of(made)) == data


def test_an_object_of_zeros_is_four_bytes() -> None:
    assert encode_nclass(value_of({})) == bytes(4)
    zeros = {"truck_id": 0, "name": "", "active": False, "f64": 0.0, "grade": "", "gauge": 0}
    zeros |= {"temps": [0, 0], "home": {"x": 0}, "stops": {1: {}}, "raw": bytes(4)}
    assert encode_nclass(value_of(zeros)) == bytes(4)
    assert decode_nclass(MODEL, "TRUCK", bytes(4)) == {}
    assert len(encode_nclass(value_of(zeros), DELTA)) > 60


def test_a_negative_zero_is_not_zero() -> None:
    read = decode_nclass(MODEL, "TRUCK", encode_nclass(value_of({"f32": -0.0})))
    assert math.copysign(1, read["f32"]) == -1  # type: ignore[arg-type]


def test_all_writes_every_field_and_element() -> None:
    data = encode_nclass(value_of({"x": 1}, "POINT"), ALL)
    assert data == body("0100 01000000 0200 00000000 0300 00000000")
    data = encode_nclass(value_of({"truck_id": 1}), ALL)
    read = decode_nclass(MODEL, "TRUCK", data, ALL, strict=True)
    assert list(read) == [slot.decl.name for slot in read.layout.slots]
    assert dict(read)["stops"] == {i: {"x": 0, "y": 0, "label": ""} for i in range(3)}
    assert len(data) == read.layout.full_size
    assert trimmed(read) == {"truck_id": 1}
    assert encode_nclass(read) == data


def test_a_delta_keeps_absent_and_zero_apart() -> None:
    data = body("0100 01000000 0300 00 0d00 00000000 1300 00000000 0e00 06000000 0200 00000000")
    read = decode_nclass(MODEL, "TRUCK", data, DELTA)
    assert read.encoding is DELTA
    assert read == {"truck_id": 1, "active": False, "gauge": 0, "home": {}, "temps": {2: 0}}
    expected = body("0100 01000000 0300 00 0d00 00000000 0e00 06000000 0200 00000000 1300 00000000")
    assert encode_nclass(read) == expected
    assert decode_nclass(MODEL, "TRUCK", expected, DELTA, strict=True) == read


def test_fields_and_elements_may_come_in_any_order() -> None:
    data = body("0200 01000000 0100 02000000")
    assert decode_nclass(MODEL, "POINT", data) == {"y": 1, "x": 2}
    assert encode_nclass(decode_nclass(MODEL, "POINT", data)) == body("0100 02000000 0200 01000000")
    array = body("0e00 0c000000 0300 01000000 0100 01000000")
    assert decode_nclass(MODEL, "TRUCK", array)["temps"] == {1: 1, 3: 1}


def test_the_first_index_is_the_model_s_or_given() -> None:
    value = value_of({"x": 1}, "POINT")
    assert encode_nclass(value) == body("0100 01000000")
    other = MODEL.with_first_index(2)
    data = encode_nclass(new_value(other, "POINT", {"x": 1}))
    assert data == body("0200 01000000")
    assert decode_nclass(other, "POINT", data) == value
    assert encode_nclass(value, first_index=2) == data
    assert decode_nclass(MODEL, "POINT", data, first_index=2) == value
    assert decode_nclass(MODEL, "POINT", data) == {"y": 1}
    zero_based = decode_nclass(MODEL.with_first_index(0), "POINT", body("0000 01000000"))
    assert zero_based == {"x": 1}


def test_bytes_that_are_no_text_are_kept() -> None:
    data = body("0200 04000000 ff41c3a9 0b00 80")
    read = decode_nclass(MODEL, "TRUCK", data)
    assert read["name"] == "\udcffAé"
    assert read["grade"] == "\udc80"
    assert encode_nclass(read) == data
    made = read.to_values()
    assert made == {"name_hex": "ff41c3a9", "grade_hex": "80"}
    assert encode_nclass(value_of(made)) == data
    assert value_of({"name": "é"}).to_values() == {"name": "é"}
    with_nul = body("0200 03000000 410042")
    assert encode_nclass(decode_nclass(MODEL, "TRUCK", with_nul)) == with_nul


def test_a_field_that_is_called_hex_does_not_collide() -> None:
    builder = ModelBuilder()
    builder.nclass("C", 1).field("a", "ascii", 4).field("a_hex", "ascii", 4)
    model = builder.build()
    value = new_value(model, "C", {"a": b"\xff", "a_hex": "ff"})
    assert value.to_values() == {"a_hex_": "ff", "a_hex": "ff"}
    assert new_value(model, "C", value.to_values()) == value


def test_json_has_names_and_numbers_that_are_none() -> None:
    values = {"gauge": 9, "gauges": {0: -3, 1: 77}, "f64": math.inf, "load": [math.nan, -math.inf]}
    value = value_of(values)
    made = value.to_dict()
    assert made == {
        "class": "TRUCK",
        "encoding": "INDEXNOTZERO",
        "values": {
            "gauge": "GAUGE_High",
            "gauges": {"0": "GAUGE_Neg", "1": 77},
            "f64": "Infinity",
            "load": {"0": "NaN", "1": "-Infinity"},
        },
    }
    assert encode_nclass(value_of(made["values"])) == encode_nclass(value)
    assert value_of({"home": {"x": 1}, "stops": {2: {}}}).to_values() == {
        "home": {"x": 1},
        "stops": {"2": {}},
    }


def test_a_value_reads_like_a_mapping() -> None:
    value = value_of({"truck_id": 4, "stops": [{"x": 1}, None, {"y": 2}]})
    assert dict(value) == {"truck_id": 4, "stops": {0: {"x": 1}, 2: {"y": 2}}}
    assert len(value) == 2
    assert value.nclass.name == "TRUCK"
    assert value.key() == (4,)
    assert value_of({}).key() == (0,)
    assert value_of({}, "POINT").key() is None
    zeros = {"truck_id": 0, "name": "", "active": False, "f32": 0.0, "grade": "", "gauge": 0}
    empty = value_of({})
    assert {name: empty.read(name) for name in zeros} == zeros
    assert empty.read("active") is False
    assert empty.read("temps") == {}
    assert isinstance(empty.read("stops"), Sparse)
    assert isinstance(empty.read("home"), NClassValue)
    with pytest.raises(KeyError):
        value.read("nope")
    with pytest.raises(KeyError):
        value["nope"]
    with pytest.raises(KeyError):
        layout_of(MODEL, "GAUGE")
    assert (
        repr(value)
        == "<TRUCK {'truck_id': 4, 'stops': {0: <POINT {'x': 1}>, 2: <POINT {'y': 2}>}}>"
    )
    assert value != 5
    assert pickle.loads(pickle.dumps(value["stops"])) == value["stops"]


def test_payloads_are_texts_and_byte_arrays() -> None:
    value = value_of(
        {
            "truck_id": 1,
            "name": "\udcff\udcfe",
            "grade": "",
            "raw": {1: 7},
            "temps": [1],
            "home": {"label": "a", "x": 1},
            "stops": {2: {"label": "b"}, 0: {}},
        }
    )
    assert list(value.payloads()) == [
        ("name", b"\xff\xfe"),
        ("raw", b"\0\7\0\0"),
        ("home.label", b"a"),
        ("stops[2].label", b"b"),
    ]
    assert list(value_of({"raw": [0, 0]}).payloads()) == []


# --- malformed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "path", "offset", "reason"),
    [
        (b"", "", 0, "LEN needs 4 bytes, 0 are left"),
        (b"\1\0\0", "", 0, "LEN needs 4 bytes, 3 are left"),
        (b"\1\0\0\0", "", 0, "LEN 1 runs past the end, 0 bytes are left"),
        (b"\xff\xff\xff\xff", "", 0, "LEN 4294967295 runs past the end"),
        (b"\0\0\0\0x", "", 4, "1 bytes behind the object"),
        (body("01"), "", 4, "INDEX needs 2 bytes, 1 are left"),
        (body("0000 00000000"), "", 4, "class TRUCK has no field 0"),
        (body("1500"), "", 4, "class TRUCK has no field 21"),
        (body("0300 01 0300 01"), "active", 7, "the field is there twice"),
        (body("0100 010000"), "truck_id", 6, "4 bytes needed, 3 are left"),
        (body("0300 02"), "active", 6, "2 is not a bool"),
        (body("0200 020000"), "name", 6, "LEN needs 4 bytes, 3 are left"),
        (body("0200 02000000 41"), "name", 6, "LEN 2 runs past the end, 1 bytes are left"),
        (body("0200 11000000" + "78" * 17), "name", 10, "17 bytes of text, 16 are the most"),
        (body("0e00 06000000 0400 01000000"), "temps[4]", 10, "the array has 4 elements"),
        (body("0e00 05000000 0000 010000"), "temps[0]", 12, "4 bytes needed, 3 are left"),
        (body("0e00 07000000 0000 01000000 00"), "temps", 16, "INDEX needs 2 bytes, 1 are left"),
        (body("0e00 02000000 0000"), "temps[0]", 12, "4 bytes needed, 0 are left"),
        (
            body("1000 06000000 0100 01 0100 01"),
            "doors[1]",
            13,
            "the element is there twice",
        ),
        (body("1000 03000000 0100 09"), "doors[1]", 12, "9 is not a bool"),
        (body("1300 32000000"), "home", 6, "LEN 50 runs past the end, 0 bytes are left"),
        (body("1300 04000000 0100 0000"), "home.x", 12, "4 bytes needed, 2 are left"),
        (
            body("1400 0e000000 0200 08000000 0300 07000000 4142"),
            "stops[2].label",
            18,
            "LEN 7 runs past the end, 2 bytes are left",
        ),
        (
            body("1400 0b000000 0200 05000000 0400 414243"),
            "stops[2]",
            16,
            "class POINT has no field 4",
        ),
    ],
)
def test_a_body_that_cannot_be_read(data: bytes, path: str, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_nclass(MODEL, "TRUCK", data)
    error = caught.value
    assert reason in error.reason
    assert (error.path, error.offset, error.code) == (path, offset, "nclass")


def test_an_unknown_class_is_an_error() -> None:
    for key in ("NOPE", 4242, "GAUGE"):
        with pytest.raises(DecodeError, match="has no class") as caught:
            decode_nclass(MODEL, key, bytes(4))
        assert caught.value.code == "nclsid"
        with pytest.raises(EncodeError, match="has no class"):
            new_value(MODEL, key, {})


@pytest.mark.parametrize(
    ("content", "kind", "path", "reason"),
    [
        ("0300 01 0100 01000000", NOTZERO, "truck_id", "the fields do not ascend"),
        ("0300 01 0100 01000000", DELTA, "truck_id", "the fields do not ascend"),
        ("0e00 0c000000 0300 01000000 0100 01000000", DELTA, "temps[1]", "elements do not ascend"),
        ("0100 00000000", NOTZERO, "truck_id", "a zero is sent"),
        ("0300 00", NOTZERO, "active", "a zero is sent"),
        ("0200 00000000", NOTZERO, "name", "a zero is sent"),
        ("0e00 00000000", NOTZERO, "temps", "a zero is sent"),
        ("0e00 06000000 0300 00000000", NOTZERO, "temps[3]", "a zero is sent"),
        ("1300 00000000", NOTZERO, "home", "a zero is sent"),
        ("1400 06000000 0100 00000000", NOTZERO, "stops[1]", "a zero is sent"),
        ("0100 01000000", ALL, "name", "the field is missing"),
    ],
)
def test_strict_rejects_what_nobody_writes(
    content: str, kind: Encoding, path: str, reason: str
) -> None:
    data = body(content)
    decode_nclass(MODEL, "TRUCK", data, kind)
    with pytest.raises(DecodeError, match=reason) as caught:
        decode_nclass(MODEL, "TRUCK", data, kind, strict=True)
    assert caught.value.path == path


def test_strict_rejects_gaps_in_the_arrays_of_all() -> None:
    whole = encode_nclass(value_of({}), ALL)
    at = whole.index(bytes.fromhex("1000 09000000")) + 6
    gap = whole[: at - 4] + (6).to_bytes(4, "little") + whole[at : at + 6] + whole[at + 9 :]
    gap = (len(gap) - 4).to_bytes(4, "little") + gap[4:]
    assert decode_nclass(MODEL, "TRUCK", gap, ALL)["doors"] == {0: False, 1: False}
    with pytest.raises(DecodeError, match="2 of 3 elements are there") as caught:
        decode_nclass(MODEL, "TRUCK", gap, ALL, strict=True)
    assert caught.value.path.startswith("doors")


def test_limits_hold() -> None:
    data = encode_nclass(value_of({"temps": [1, 2, 3, 4], "truck_id": 1}))
    decode_nclass(MODEL, "TRUCK", data, limits=Limits(max_fields=6))
    with pytest.raises(LimitError) as caught:
        decode_nclass(MODEL, "TRUCK", data, limits=Limits(max_fields=5))
    assert (caught.value.what, caught.value.value) == ("number of fields", 6)
    assert caught.value.path == "temps"
    nested = encode_nclass(value_of({"stops": {1: {"x": 1}}}))
    decode_nclass(MODEL, "TRUCK", nested, limits=Limits(max_depth=2))
    with pytest.raises(LimitError) as caught:
        decode_nclass(MODEL, "TRUCK", nested, limits=Limits(max_depth=1))
    assert (caught.value.what, caught.value.path) == ("nesting depth", "stops[1]")


def test_a_small_object_of_a_huge_class_is_not_written_whole() -> None:
    builder = ModelBuilder()
    builder.nclass("A", 1).field("x", "byte", 65536)
    builder.nclass("B", 2).field("a", "A", 65536)
    builder.nclass("C", 3).field("b", "B", 65536)
    value = new_value(builder.build(), "C", {"b": {65535: {"a": {65535: {"x": {65535: 1}}}}}})
    data = encode_nclass(value)
    assert len(data) == 4 + 3 * 6 + 2 * 6 + 3
    assert decode_nclass(value.model, "C", data) == value
    with pytest.raises(EncodeError, match="in the encoding ALL"):
        encode_nclass(value, ALL)
    with pytest.raises(EncodeError, match="37 bytes, 36 are the most"):
        encode_nclass(value, max_size=36)


# --- making values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"nope": 1}, "nope"),
        ({5: 1}, "5"),
        ({"truck_id": -1}, "truck_id"),
        ({"truck_id": 1 << 32}, "truck_id"),
        ({"truck_id": 1.5}, "truck_id"),
        ({"truck_id": "1"}, "truck_id"),
        ({"truck_id": None}, "truck_id"),
        ({"name": 5}, "name"),
        ({"name": "x" * 17}, "name"),
        ({"name": "é" * 9}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name_hex": "zz"}, "name_hex"),
        ({"name_hex": 5}, "name_hex"),
        ({"name": "a", "name_hex": "62"}, "name_hex"),
        ({"truck_id_hex": "00"}, "truck_id_hex"),
        ({"active": 2}, "active"),
        ({"active": "yes"}, "active"),
        ({"active": b"\1"}, "active"),
        ({"f32": 1e39}, "f32"),
        ({"f32": "nope"}, "f32"),
        ({"f64": 10**400}, "f64"),
        ({"grade": "AB"}, "grade"),
        ({"grade": "é"}, "grade"),
        ({"grade": 65}, "grade"),
        ({"flags": 256}, "flags"),
        ({"gauge": "GAUGE_Nope"}, "gauge"),
        ({"gauge": 1 << 31}, "gauge"),
        ({"temps": 5}, "temps"),
        ({"temps": "1234"}, "temps"),
        ({"temps": {4: 1}}, "temps[4]"),
        ({"temps": {-1: 1}}, "temps[-1]"),
        ({"temps": {"x": 1}}, "temps[x]"),
        ({"temps": {"000000": 1}}, "temps[000000]"),
        ({"temps": {1.0: 1}}, "temps[1.0]"),
        ({"temps": {1: 1, "1": 2}}, "temps[1]"),
        ({"temps": {1: "x"}}, "temps[1]"),
        ({"temps": [1, 2, 3, 4, 5]}, "temps[4]"),
        ({"home": 5}, "home"),
        ({"home": {"x": "?"}}, "home.x"),
        ({"stops": {2: {"label": "too long"}}}, "stops[2].label"),
    ],
)
def test_values_that_do_not_fit_are_named(values: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        value_of(values)
    assert caught.value.path == path


def test_values_may_be_given_in_several_ways() -> None:
    value = value_of({"name": b"\xff", "gauge": "GAUGE_Neg", "raw": b"\1\0\3", "active": 1})
    assert value == {"name": "\udcff", "gauge": -3, "raw": {0: 1, 1: 0, 2: 3}, "active": True}
    assert value_of({"f32": 0.1})["f32"] == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert value_of({"home": value_of({"x": 1}, "POINT")}) == {"home": {"x": 1}}
    assert value_of({"grade": b"\0", "f64": "-Infinity"}) == {"grade": "", "f64": -math.inf}


# --- any value ------------------------------------------------------------------------------------

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int_16": st.integers(-(2**15), 2**15 - 1),
    "uint_16": st.integers(0, 2**16 - 1),
    "int_32": st.integers(-(2**31), 2**31 - 1),
    "uint_32": st.integers(0, 2**32 - 1),
    "int_64": st.integers(-(2**63), 2**63 - 1),
    "uint_64": st.integers(0, 2**64 - 1),
    "float_32": st.floats(width=32, allow_nan=False) | st.just(-0.0),
    "float_64": st.floats(allow_nan=False) | st.just(-0.0),
    "byte": st.integers(0, 255),
    "GAUGE": st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, 9, -3]),
}


def strategy_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    nclass = MODEL.nclass(name)
    assert nclass is not None
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for decl in nclass.fields:
        if decl.type == "ascii":
            fields[decl.name] = st.binary(max_size=decl.count)
            continue
        item = strategy_of("POINT") if decl.type == "POINT" else NUMBERS[decl.type]
        if decl.count > 1:
            item = st.dictionaries(st.integers(0, decl.count - 1), item)
        fields[decl.name] = item
    return st.fixed_dictionaries({}, optional=fields)


OBJECTS = strategy_of("TRUCK")


@settings(max_examples=120, deadline=None)
@given(OBJECTS, st.sampled_from(Encoding), st.integers(0, 2))
def test_any_object_comes_back_in_every_encoding(
    given_values: dict[str, Any], kind: Encoding, first: int
) -> None:
    value = value_of(given_values, kind=kind)
    data = encode_nclass(value, kind, first_index=first)
    read = decode_nclass(MODEL, "TRUCK", data, kind, first_index=first, strict=True)
    assert encode_nclass(read, kind, first_index=first) == data
    if kind is DELTA:
        assert read == value
    else:
        assert encode_nclass(trimmed(read), NOTZERO) == encode_nclass(value, NOTZERO)
        assert trimmed(read) == trimmed(value)
    assert len(data) <= read.layout.full_size + 16 + 4 * 6 or kind is not NOTZERO
    made = json.loads(json.dumps(read.to_values(), allow_nan=False))
    assert encode_nclass(value_of(made), kind, first_index=first) == data
    assert hash(value_of(made, kind=kind)) == hash(read)


@settings(max_examples=120, deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_delta_turns_one_image_into_another(old: dict[str, Any], new: dict[str, Any]) -> None:
    base, image = value_of(old), value_of(new)
    delta = make_delta(base, image)
    assert delta.encoding is DELTA
    assert "truck_id" in delta
    sent = decode_nclass(MODEL, "TRUCK", encode_nclass(delta), DELTA)
    assert sent == delta
    merged = apply_delta(base, sent)
    assert encode_nclass(merged, NOTZERO) == encode_nclass(image, NOTZERO)
    nothing = make_delta(image, merged)
    assert list(nothing) == ["truck_id"]


@settings(max_examples=80, deadline=None)
@given(OBJECTS, OBJECTS, OBJECTS)
def test_deltas_add_up(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    base, one, two = (value_of(v, kind=DELTA) for v in (first, second, third))
    step_by_step = apply_delta(apply_delta(base, one), two)
    assert apply_delta(base, apply_delta(one, two)) == step_by_step


def test_deltas_merge_inside_objects_and_arrays() -> None:
    base = value_of({"truck_id": 1, "home": {"x": 1, "y": 2}, "stops": {0: {"x": 1}}, "temps": [9]})
    delta = value_of(
        {"home": {"y": 0}, "stops": {0: {"y": 5}, 2: {"x": 3}}, "temps": {3: 4}}, kind=DELTA
    )
    assert apply_delta(base, delta) == {
        "truck_id": 1,
        "home": {"x": 1, "y": 0},
        "stops": {0: {"x": 1, "y": 5}, 2: {"x": 3}},
        "temps": {0: 9, 3: 4},
    }
    assert make_delta(value_of({"x": 1}, "POINT"), value_of({"x": 1}, "POINT")) == {}
    nan = value_of({"f64": math.nan, "f32": -0.0})
    assert make_delta(nan, nan) == {"truck_id": 0}
    assert make_delta(nan, value_of({"f64": math.nan, "f32": 0.0})) == {"truck_id": 0, "f32": 0.0}
    assert trimmed(nan).keys() == {"f64", "f32"}


def test_deltas_are_of_one_class() -> None:
    truck, point = value_of({}), value_of({}, "POINT")
    with pytest.raises(EncodeError, match="a POINT cannot change a TRUCK"):
        apply_delta(truck, point)
    with pytest.raises(EncodeError, match="a POINT is no new image of a TRUCK"):
        make_delta(truck, point)


# --- trees ----------------------------------------------------------------------------------------


def test_the_tree_shows_every_field_and_where_it_went_wrong() -> None:
    data = encode_nclass(
        value_of({"truck_id": 7, "name": "Bob", "gauge": 9, "temps": [5], "stops": {2: {"x": 1}}})
    )
    root = Node("body", 0, len(data))
    decode_nclass(MODEL, "TRUCK", data, node=root)
    shown = [(d, n.name, n.offset, n.length, n.value, n.meaning) for d, n in root.walk()][1:]
    assert shown == [
        (1, "LEN", 0, 4, str(len(data) - 4), "bytes that follow"),
        (1, "truck_id", 4, 6, "7", "uint_32"),
        (1, "name", 10, 9, "Bob", "ascii[16]"),
        (1, "gauge", 19, 6, "9", "GAUGE_High (GAUGE)"),
        (1, "temps", 25, 12, "", "int_32[4]"),
        (2, "[0]", 31, 6, "5", "int_32"),
        (1, "stops", 37, 18, "", "POINT[3]"),
        (2, "[2]", 43, 12, "", "POINT"),
        (3, "x", 49, 6, "1", "int_32"),
    ]
    bad = data[:49] + b"\x09" + data[50:]
    root = Node("body", 0, len(data))
    with pytest.raises(DecodeError):
        decode_nclass(MODEL, "TRUCK", bad, node=root)
    errors = [(n.name, n.offset, n.error) for _, n in root.walk() if n.error]
    assert errors == [("?", 49, "class POINT has no field 9")]
    root = Node("body", 0, 1)
    with pytest.raises(DecodeError):
        decode_nclass(MODEL, "TRUCK", b"\0", node=root)
    assert root.error == "LEN needs 4 bytes, 1 are left"


@pytest.mark.parametrize("strict", [False, True])
def test_only_decode_errors_come_out_of_damaged_bodies(strict: bool) -> None:
    samples = [body(content) for _, _, content in FIELDS]
    samples.append(encode_nclass(value_of({}), ALL))
    samples.append(b"".join([bytes.fromhex(content) for _, _, content in FIELDS]))
    accepted = 0
    for _, data in Mutator(samples, seed=5).mutants(0, 2000):
        root = Node("body", 0, len(data))
        try:
            value = decode_nclass(MODEL, "TRUCK", data, DELTA, node=root, strict=strict)
        except DecodeError as error:
            assert 0 <= error.offset <= len(data)  # noqa: PT017 - of any damaged body
            assert sum(bool(node.error) for _, node in root.walk()) == 1
            continue
        accepted += 1
        assert not any(node.error for _, node in root.walk())
        again = decode_nclass(MODEL, "TRUCK", encode_nclass(value), DELTA, strict=True)
        assert encode_nclass(again) == encode_nclass(value)
        if strict:
            assert encode_nclass(value) == data
    assert accepted > 50


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_only_decode_errors_come_out_of_noise(noise: bytes) -> None:
    framed = len(noise).to_bytes(4, "little") + noise
    for data in (noise, framed):
        try:
            value = decode_nclass(MODEL, "TRUCK", data, DELTA)
        except DecodeError:
            continue
        assume(len(value))


def test_models_that_nest_deeply_are_walked() -> None:
    builder = ModelBuilder()
    builder.nclass("C0", 1).field("x", "byte")
    for i in range(1, 64):
        builder.nclass(f"C{i}", i + 1).field("c", f"C{i - 1}")
    model: Model = builder.build()
    values_in: dict[str, Any] = {"x": 1}
    for _ in range(63):
        values_in = {"c": values_in}
    value = new_value(model, "C63", values_in)
    data = encode_nclass(value)
    assert decode_nclass(model, "C63", data, limits=Limits(max_depth=64)) == value
    with pytest.raises(LimitError):
        decode_nclass(model, "C63", data)
    assert trimmed(value) == value
