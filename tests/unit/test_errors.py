from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from wireloom import errors
from wireloom.errors import (
    ChecksumError,
    ConnectionClosed,
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    InvalidFieldError,
    LakeError,
    LimitError,
    OptionError,
    RefusedError,
    SourceError,
    StateError,
    StoreError,
    TruncatedError,
    TrustError,
    UnknownProtocolError,
    WireloomError,
)

ONE_OF_EACH = [
    WireloomError("broken"),
    DecodeError("broken", offset=3, path="body.stops[2]", code="why"),
    TruncatedError(needed=8, available=5, offset=11, path="word", code="payload_short"),
    TruncatedError("no header", needed=8, available=5),
    LimitError("depth", 40, 32, offset=7, path="a.b", code="deep"),
    FrameTooLargeError(1 << 30, 1 << 20, offset=4, path="len", code="too_long"),
    ChecksumError(0x1E, 0x17, offset=9, path="sync"),
    InvalidFieldError("0 is not legal", offset=2, path="type", code="illegal_value"),
    EncodeError("does not fit", path="name"),
    SourceError("unknown word", file="fields.cf", line=12),
    OptionError("no such option"),
    UnknownProtocolError("no such format"),
    LakeError("another writer holds it", path="lake"),
    StoreError("another broker uses it"),
    StateError("not connected"),
    RefusedError("no more sockets", code="quota"),
    TrustError("another certificate"),
    ConnectionClosed("reset", sent=10, received=20),
    ConnectionClosed(),
]


def test_each_exported_error_is_in_the_tree_and_in_this_table() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, WireloomError)
    }
    assert set(errors.__all__) == classes
    assert {type(error).__name__ for error in ONE_OF_EACH} == classes


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    for name in errors.__all__:
        assert name in (errors.__doc__ or "")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda e: type(e).__name__)
def test_every_error_survives_pickling_with_all_attributes(
    error: WireloomError, protocol: int
) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert again.args == error.args == (error.reason,)
    assert str(again) == str(error)


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda e: type(e).__name__)
def test_every_error_can_be_copied(error: WireloomError) -> None:
    again = copy.copy(error)
    assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))


def test_a_pickled_error_can_be_raised_again() -> None:
    again = pickle.loads(pickle.dumps(TruncatedError(needed=2, available=1, offset=5)))
    with pytest.raises(TruncatedError, match="at byte 5"):
        raise again


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (WireloomError("broken"), "broken"),
        (DecodeError("broken"), "broken (at byte 0)"),
        (DecodeError("broken", offset=3, path="a.b"), "broken (at byte 3 in a.b)"),
        (
            TruncatedError(needed=8, available=5, offset=1),
            "8 bytes needed, 5 available (at byte 1)",
        ),
        (TruncatedError("no header", needed=8, available=5), "no header (at byte 0)"),
        (LimitError("depth", 40, 32), "depth 40 is over the limit of 32 (at byte 0)"),
        (FrameTooLargeError(9, 8), "frame size 9 is over the limit of 8 (at byte 0)"),
        (ChecksumError(0x17, 0, offset=6), "expected 0x17, got 0x0 (at byte 6)"),
        (EncodeError("too long"), "too long"),
        (EncodeError("too long", path="name"), "too long (in name)"),
        (SourceError("unknown word"), "<text>: unknown word"),
        (SourceError("unknown word", file="a.blz", line=3), "a.blz:3: unknown word"),
        (ConnectionClosed(), "connection closed"),
    ],
)
def test_the_text_says_why_and_where(error: WireloomError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DecodeError("x"), "invalid"),
        (TruncatedError(needed=1, available=0), "truncated"),
        (LimitError("x", 1, 0), "limit"),
        (FrameTooLargeError(1, 0), "too_large"),
        (ChecksumError(1, 0), "checksum"),
        (InvalidFieldError("x"), "invalid_field"),
        (DecodeError("x", code="mine"), "mine"),
    ],
)
def test_every_decode_error_has_a_code(error: DecodeError, code: str) -> None:
    assert error.code == code


def test_attributes_are_those_given() -> None:
    truncated = TruncatedError(needed=8, available=5)
    assert (truncated.needed, truncated.available) == (8, 5)
    limit = FrameTooLargeError(9, 8)
    assert (limit.what, limit.value, limit.limit) == ("frame size", 9, 8)
    checksum = ChecksumError(1, 2)
    assert (checksum.expected, checksum.actual) == (1, 2)
    closed = ConnectionClosed(sent=3, received=4)
    assert (closed.sent, closed.received) == (3, 4)


@pytest.mark.parametrize("kind", [DecodeError, EncodeError])
def test_a_path_grows_from_the_inside_out(kind: type[DecodeError] | type[EncodeError]) -> None:
    error = kind("broken")
    error.within("label")
    error.within("[2]")
    assert error.path == "[2].label"
    error.within("stops")
    error.within("body")
    assert error.path == "body.stops[2].label"


def test_an_offset_moves_with_the_part_it_was_found_in() -> None:
    error = DecodeError("broken", offset=3)
    error.shifted(100)
    assert error.offset == 103


def test_option_and_lookup_errors_are_also_the_builtin_ones() -> None:
    assert issubclass(OptionError, ValueError)
    assert issubclass(UnknownProtocolError, LookupError)
