"""Python values → QForm fields, converted to the types of the dictionary (SPEC §4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple, SupportsInt

from wireloom.errors import EncodeError
from wireloom.formats._tib.decimals import HINT_NONE, real_and_hint, scale
from wireloom.formats._tib.scalars import INT_SIZES, Kind, read, text_bytes, write
from wireloom.formats._tib.values import BLANK, Blank, Date, Resolution, Time
from wireloom.formats.qform.dictionary.model import Dictionary, Entry, TssType
from wireloom.formats.qform.fields import KINDS, Field, Value
from wireloom.formats.qform.message import Message

__all__ = ["Partial", "build", "make", "time_text"]

_MOST_DIGITS = 400
"""The largest double has 309 digits before the point. A decimal that claims more would only fill
memory when it is written out."""

_PLAIN_DIGITS = 40
"""Decimals of more digits than that become text with an exponent."""


class Partial(NamedTuple):
    """A value for a partial field: `data` replaces what is at `offset`."""

    offset: int
    data: bytes | str


Values = Mapping[str, Value] | Mapping[int, Value] | Iterable[tuple[str | int, Value]]


def build(dictionary: Dictionary, values: Values, *, lenient: bool = False) -> Message:
    """A message from names (or fids) and values, each converted to its type in the dictionary.

    >>> from decimal import Decimal
    >>> from wireloom.formats.qform.dictionary import load
    >>> dictionary = load(
    ...     "BID { CLASS_ID 10720; DATA_TYPE grocery; }"
    ...     "SYM { CLASS_ID 7; DATA_TYPE string; DATA_SIZE 4; }"
    ... )
    >>> message = build(dictionary, {"BID": Decimal("1.25"), "SYM": "ABC"})
    >>> message.encode().hex(" ", 2)
    '1111 1112 0000 0012 e9e0 3ff4 0000 0000 0000 1200 c007 4142 4300'

    Args:
        dictionary: what the fields are.
        values: names or fids and values; as pairs if a field is repeated. The value of a partial
            field is a `Partial`, or just the data for offset 0.
        lenient: cut what does not fit, as the reference does, instead of raising.

    Raises:
        EncodeError: a field is not in the dictionary, or its value does not fit; the path is that
            of the field.
    """
    pairs: Iterable[tuple[str | int, Value]]
    pairs = values.items() if isinstance(values, Mapping) else values
    fields = []
    for key, value in pairs:
        entry = dictionary.get(key) if isinstance(key, int) else dictionary.by_name.get(key)
        if entry is None:
            raise EncodeError("there is no such field in the dictionary", path=str(key))
        fields.append(
            value if isinstance(value, Field) else Field.of(entry, value, lenient=lenient)
        )
    return Message(tuple(fields))


def make(entry: Entry, value: Value, offset: int | None, hint: int | None, lenient: bool) -> Field:
    """See `Field.of`.

    Raises:
        EncodeError: the value cannot be converted, or does not fit.
    """
    try:
        if entry.tss_type is None:
            raise EncodeError("it is a form, not a field")
        if entry.is_partial:
            return _partial(entry, value, offset)
        if offset is not None or isinstance(value, Partial):
            raise EncodeError("it is no partial, and has no offset")
        if hint is not None and entry.tss_type is not TssType.GROCERY:
            raise EncodeError("only a GROCERY has a hint")
        data = _data(entry, entry.tss_type, value, hint, lenient)
    except EncodeError as error:
        error.within(entry.name)
        raise
    return Field(entry, data)


def _partial(entry: Entry, value: Value, offset: int | None) -> Field:
    if isinstance(value, Partial):
        offset, value = value
    data = _bytes(value, entry)
    offset = offset or 0
    if not 0 <= offset <= 0xFFFF or len(data) > 0xFFFF:
        raise EncodeError(f"{len(data)} bytes at offset {offset}: neither may be over 65535")
    return Field(entry, data, offset)


def _bytes(value: Value, entry: Entry) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return text_bytes(value)
    raise _no(value, entry)


def _data(entry: Entry, kind: TssType, value: Value, hint: int | None, lenient: bool) -> bytes:
    scalar = KINDS[kind]
    if scalar in (Kind.STRING, Kind.OPAQUE):
        raw = isinstance(value, (bytes, bytearray, memoryview))
        data = bytes(value) if raw else _text(entry, kind, value, lenient)
        return _fitted(entry, data, lenient)
    if isinstance(value, (bytes, bytearray, memoryview)):
        if len(value) != entry.size:
            raise EncodeError(f"{len(value)} bytes of data, not {entry.size}")
        return bytes(value)
    if kind is TssType.GROCERY:
        return _grocery(entry, value, hint, lenient)
    if scalar is Kind.REAL:
        return _real(entry, value, lenient)
    if entry.size not in INT_SIZES:
        raise EncodeError(f"{kind.name} of {entry.size} bytes has no value; give the bytes")
    if scalar is Kind.BOOLEAN:
        if not isinstance(value, (bool, int, float, Decimal)):
            raise _no(value, entry)
        return int(bool(value)).to_bytes(entry.size, "big")
    return _int(entry, value, lenient, signed=scalar is Kind.INT)


def _no(value: Value, entry: Entry) -> EncodeError:
    kind = "" if entry.tss_type is None else entry.tss_type.name
    return EncodeError(f"{value!r:.100} is no value for {kind}")


# --- text and opaque ---------------------------------------------------------------------------


def _fitted(entry: Entry, data: bytes, lenient: bool) -> bytes:
    """Zero-padded to the size of a fixed field; a variable one is as long as its data."""
    if len(data) > entry.size:
        if not lenient:
            raise EncodeError(f"{len(data)} bytes do not fit in {entry.size}")
        data = data[: entry.size]
    return data.ljust(entry.size, b"\0") if entry.is_fixed else data


def _text(entry: Entry, kind: TssType, value: Value, lenient: bool) -> bytes:
    if isinstance(value, str):
        return text_bytes(value)
    if kind is TssType.STIME:
        time = Time.of(value) if value is None or isinstance(value, dt.time) else value
        if isinstance(time, Time):
            return time_text(time, entry.size, lenient).encode()
        raise _no(value, entry)
    # A datetime is a date too, but would lose its time.
    date = Date.of(value) if type(value) is dt.date else value
    if kind is TssType.SDATE:
        date = Date() if date is None else date
        if isinstance(date, Date):
            # Blanks are the null date, however few.
            return (date.text[: entry.size] if date.is_null else date.text).encode()
    elif kind is TssType.STRING:
        return _as_text(entry, date)
    raise _no(value, entry)


def _as_text(entry: Entry, value: Value) -> bytes:
    if isinstance(value, (Date, Time)):
        return value.text.encode()
    if isinstance(value, dt.time):
        return Time.of(value).text.encode()
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < _PLAIN_DIGITS:
        return format(value, "f").encode()
    if isinstance(value, (int, float, Decimal)):
        return str(value).encode()
    raise _no(value, entry)


def time_text(time: Time, size: int, lenient: bool = False) -> str:
    """The text of a time in an STIME of that size: HH:MM up to 6, HH:MM:SS up to 10, else all.

    Raises:
        EncodeError: the time is finer than that. With `lenient` it is cut.
    """
    if size > 10:
        return time.text
    short = size <= 6
    if time.is_null:
        return "  :  " if short else "  :  :  "
    if not lenient and (time.fraction or (short and time.second)):
        raise EncodeError(f"{time.text} is finer than {size} bytes can say")
    resolution = Resolution.MINUTE if short else Resolution.SECOND
    return Time(time.hour, time.minute, 0 if short else time.second, 0, resolution).text


# --- numbers -----------------------------------------------------------------------------------


def _number(value: Value, entry: Entry) -> int | float | Decimal:
    """A number, also from text."""
    if isinstance(value, str):
        try:
            # As a decimal: a text of 19 digits must not go through a double.
            value = Decimal(value.strip())
        except InvalidOperation:
            raise _no(value, entry) from None
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() > _MOST_DIGITS:
        raise _no(value, entry)
    if isinstance(value, (int, float, Decimal)):
        return value
    raise _no(value, entry)


def _int(entry: Entry, value: Value, lenient: bool, *, signed: bool) -> bytes:
    number: SupportsInt = _number(value, entry)
    try:
        whole = int(number)
    except (ValueError, OverflowError) as error:  # not a number, infinite
        raise _no(value, entry) from error
    bits = 8 * entry.size
    if lenient:
        return (whole & (1 << bits) - 1).to_bytes(entry.size, "big")
    if whole != number:
        raise EncodeError(f"{value!r} is not a whole number")
    return write(Kind.INT if signed else Kind.UINT, whole, entry.size)


def _real(entry: Entry, value: Value, lenient: bool) -> bytes:
    number = _number(value, entry)
    try:
        real = float(number)
    except (ValueError, OverflowError) as error:  # a signalling NaN, an int of 400 digits
        raise _no(value, entry) from error
    data = write(Kind.REAL, real, entry.size)
    if isinstance(number, int) and not lenient and read(Kind.REAL, data) != number:
        raise EncodeError(f"{number} has more digits than {entry.size} bytes keep")
    return data


def _grocery(entry: Entry, value: Value, hint: int | None, lenient: bool) -> bytes:
    size = entry.size - 1
    if size not in (4, 8):
        raise EncodeError(f"GROCERY of {entry.size} bytes has no value; give the bytes")
    if hint is not None:
        if not 0 <= hint <= 0xFF:
            raise EncodeError(f"hint {hint} does not fit in a byte")
        if value is None or isinstance(value, Blank):
            value = 0.0
        return _real(_shrunk(entry), value, lenient) + bytes((hint,))
    wanted: Decimal | Blank
    if value is None or isinstance(value, Blank):
        wanted = BLANK
    else:
        number = _number(value, entry)
        wanted = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    try:
        real, hint = real_and_hint(wanted)
        data = write(Kind.REAL, real, size)
        if size == 4:
            _see_that_single_keeps(data, hint, wanted)
    except EncodeError:
        # A double is itself, whatever its digits; a decimal is changed only if asked to.
        if isinstance(wanted, Blank) or not (lenient or isinstance(value, float)):
            raise
        data, hint = _real(_shrunk(entry), float(wanted), lenient), HINT_NONE
    return data + bytes((hint,))


def _shrunk(entry: Entry) -> Entry:
    """The real inside a GROCERY."""
    return Entry(entry.fid, entry.name, TssType.DOUBLE, entry.size - 1)


def _see_that_single_keeps(data: bytes, hint: int, wanted: Decimal | Blank) -> None:
    real = read(Kind.REAL, data)
    assert isinstance(real, float)
    found = scale(real, hint, single=True)
    if found is None or (found.value != wanted and found.text != "NaN"):
        raise EncodeError(f"{wanted} has more digits than a single keeps")
