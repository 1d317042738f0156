from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from wireloom import wire
from wireloom.errors import DecodeError, EncodeError, TruncatedError
from wireloom.wire import DEFAULT_LIMITS, Limits, Reader, Writer, as_bytes, varint

# Bytes and the number they are: used in both directions where there is a writer.
NUMBERS = [
    ("u8", "00", 0),
    ("u8", "ff", 255),
    ("u16", "0102", 0x0102),
    ("u16", "ffff", 0xFFFF),
    ("u32", "01020304", 0x01020304),
    ("u32", "ffffffff", 0xFFFF_FFFF),
    ("u64", "0102030405060708", 0x0102030405060708),
    ("u16le", "0102", 0x0201),
    ("u32le", "01020304", 0x04030201),
    ("u64le", "0102030405060708", 0x0807060504030201),
    ("f32", "3fc00000", 1.5),
    ("f64", "bff8000000000000", -1.5),
    ("f64", "7ff0000000000000", math.inf),
]

# From the NAIS document, which has the same code as MQTT and protobuf.
VARINTS = [
    ("00", 0),
    ("7f", 127),
    ("8001", 128),
    ("ff01", 255),
    ("ac02", 300),
    ("ff7f", 16_383),
    ("808001", 16_384),
    ("80808001", 2_097_152),
    ("ffffff7f", 268_435_455),
]


def reader_for(kind: str, reader: Reader) -> Callable[[], int | float]:
    method: Callable[[], int | float] = getattr(reader, f"read_{kind}")
    return method


@pytest.mark.parametrize(("kind", "text", "value"), NUMBERS)
def test_a_number_is_read_from_its_place(kind: str, text: str, value: float) -> None:
    raw = bytes.fromhex(text)
    reader = Reader(b"\xee" + raw + b"\xee", 1)
    assert reader_for(kind, reader)() == value
    assert reader.pos == 1 + len(raw)
    assert reader.remaining == 1


@pytest.mark.parametrize(("kind", "text", "value"), NUMBERS)
def test_a_number_never_reaches_over_the_end_of_its_structure(
    kind: str, text: str, value: float
) -> None:
    raw = bytes.fromhex(text)
    for there in range(len(raw)):
        reader = Reader(raw + raw, 0, there)
        with pytest.raises(TruncatedError) as caught:
            reader_for(kind, reader)()
        assert (caught.value.needed, caught.value.available) == (len(raw), there)
        assert caught.value.offset == 0
        assert reader.pos == 0


@pytest.mark.parametrize(
    ("kind", "text", "value"), [case for case in NUMBERS if hasattr(Writer, f"write_{case[0]}")]
)
def test_a_number_is_written_as_it_is_read(kind: str, text: str, value: int) -> None:
    writer = Writer()
    getattr(writer, f"write_{kind}")(value)
    assert writer.getvalue() == bytes.fromhex(text)
    assert len(writer) == len(text) // 2


@pytest.mark.parametrize("value", [-1, 1 << 40, 1.5, "7", None])
@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "u16le", "u32le"])
def test_a_value_that_does_not_fit_is_an_encode_error(kind: str, value: object) -> None:
    writer = Writer()
    with pytest.raises(EncodeError, match="does not fit"):
        getattr(writer, f"write_{kind}")(value)
    assert writer.getvalue() == b""


def test_a_writer_collects_in_order() -> None:
    writer = Writer()
    writer.write_u8(1)
    writer.write(b"ab")
    writer.write_u16le(2)
    assert writer.getvalue() == b"\x01ab\x02\x00"


def test_take_and_advance_step_over_exactly_that_many_bytes() -> None:
    reader = Reader(b"abcdef", 1, 5)
    assert reader.take(2) == b"bc"
    assert reader.advance(1) == 3
    assert reader.take(0) == b""
    assert reader.remaining == 1
    with pytest.raises(TruncatedError) as caught:
        reader.take(2)
    assert (caught.value.offset, caught.value.needed, caught.value.available) == (4, 2, 1)


def test_a_limited_reader_ends_with_its_part_and_the_outer_one_goes_on_behind_it() -> None:
    outer = Reader(b"abcdef")
    inner = outer.limited(4)
    assert inner.take(4) == b"abcd"
    with pytest.raises(TruncatedError):
        inner.read_u8()
    assert outer.take(2) == b"ef"
    with pytest.raises(TruncatedError):
        outer.limited(1)


@pytest.mark.parametrize(("text", "value"), VARINTS)
def test_a_varint_reads_and_writes(text: str, value: int) -> None:
    raw = bytes.fromhex(text)
    assert varint(value) == raw
    reader = Reader(raw + b"\xff")
    assert reader.read_varint(4) == value
    assert reader.pos == len(raw)


def test_a_varint_may_be_longer_than_needed() -> None:
    assert Reader(bytes.fromhex("8300")).read_varint(4) == 3


def test_a_varint_that_goes_on_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        Reader(bytes.fromhex("00 80808080 00"), 1).read_varint(4)
    assert (caught.value.offset, caught.value.code) == (1, "len_overflow")


def test_a_varint_that_ends_early_asks_for_more() -> None:
    with pytest.raises(TruncatedError):
        Reader(b"\x80\x80").read_varint(4)


def test_a_negative_number_has_no_varint() -> None:
    with pytest.raises(EncodeError, match="negative"):
        varint(-1)


@pytest.mark.parametrize("given", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_every_bytes_like_object_becomes_bytes(given: wire.Buffer) -> None:
    made = as_bytes(given)
    assert made == b"ab"
    assert type(made) is bytes


def test_bytes_are_not_copied() -> None:
    raw = b"some bytes"
    assert as_bytes(raw) is raw


@pytest.mark.parametrize("given", ["ab", 3, None, [1, 2]])
def test_other_objects_are_refused(given: object) -> None:
    with pytest.raises(TypeError, match="expected bytes"):
        as_bytes(given)  # type: ignore[arg-type]


def test_limits_have_defaults_and_cannot_change() -> None:
    assert Limits() == DEFAULT_LIMITS
    with pytest.raises(AttributeError):
        DEFAULT_LIMITS.max_frame = 1  # type: ignore[misc]
