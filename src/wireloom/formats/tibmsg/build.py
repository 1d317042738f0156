"""Python values → TibMsg fields, with the type, size and hint that suit each value (SPEC §4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from wireloom.errors import EncodeError
from wireloom.formats._tib.build import address, fields_of, natural_kind
from wireloom.formats._tib.decimals import real_and_hint
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.scalars import SCALARS, Scalar, padded, text_bytes, write
from wireloom.formats._tib.values import Blank, Date, EnumNumber, EnumText, Resolution, Time
from wireloom.formats.tibmsg.fields import Field, Value
from wireloom.formats.tibmsg.message import Message
from wireloom.formats.tibmsg.types import FieldType, Hint

__all__ = ["array", "build", "make"]

_DATE, _TIME, _TIME_SECONDS, _ENUM = 258, 259, 260, 261


def build(values: Mapping[str, Value] | Iterable[Field]) -> Message:
    """A message from names and values, or from fields.

    >>> from decimal import Decimal
    >>> message = build({"BID": Decimal("1.25"), "SYM": "ABC"})
    >>> message["BID"].value, message["BID"].hint_number
    (Decimal('1.25'), 18)

    Raises:
        EncodeError: a value cannot be written; the path is that of the field.
    """
    return Message(_fields(values))


def _fields(values: Mapping[str, Value] | Iterable[Field]) -> tuple[Field, ...]:
    return fields_of(values, Field, Field.of)


def make(
    name: str | None,
    value: Value,
    type: FieldType | None,
    size: int | None,
    hint: int | Hint | None,
) -> Field:
    """See `Field.of`.

    Raises:
        EncodeError: there is no way to write this value.
    """
    if name is not None and name.endswith("\0"):
        name = name[:-1]  # the writer adds it
    try:
        field = _make(name, value, type, size)
        if hint is not None:
            hint = Hint.of(hint) if isinstance(hint, int) else hint
            field = replace(field, hint=hint)
        if isinstance(value, Decimal) and not _same(field.value, value):
            raise EncodeError(f"{value} cannot be read back from this size and hint")
    except EncodeError as error:
        error.within(name or "fields[]")
        raise
    return field


def _same(found: Value, wanted: Decimal) -> bool:
    if wanted.is_nan():
        return isinstance(found, Decimal) and found.is_nan()
    return isinstance(found, Decimal) and found == wanted


def _make(name: str | None, value: Value, type: FieldType | None, size: int | None) -> Field:
    nested = _nested(value, type)
    if nested is not None:
        return _typed(Field(name, FieldType.MESSAGE, fields=nested), type)
    if type == FieldType.ARRAY or (type is None and isinstance(value, (list, tuple))):
        return array(name, value, None, size)
    if type in (FieldType.MESSAGE, FieldType.PARTIAL):
        hint = "use Field.partial" if type == FieldType.PARTIAL else "give fields or a mapping"
        raise EncodeError(f"{value!r} is no {type.name.lower()}: {hint}")
    kind, value, hint_number, hint_size, size = _scalar(value, type, size)
    data = write(kind, value, size)
    hint_value = None if hint_number is None else Hint.of(hint_number, hint_size)
    return Field(name, kind, data, hint_value)


def _typed(field: Field, type: FieldType | None) -> Field:
    if type is not None and type != field.type:
        raise EncodeError(f"fields cannot be a {type.name.lower()}")
    return field


def _nested(value: Value, type: FieldType | None) -> tuple[Field, ...] | None:
    """The fields that a value stands for; None if it is not a message."""
    if isinstance(value, Mapping):
        return _fields(value)
    if isinstance(value, Lookup):  # a message, or a field that holds one
        value = value.fields
    elif not isinstance(value, (list, tuple)) or not (value or type == FieldType.MESSAGE):
        return None
    if all(isinstance(item, Field) for item in value):
        return tuple(value)
    if any(isinstance(item, Lookup) for item in value):
        raise EncodeError("a nested message has TibMsg fields only")
    return None


_Plan = tuple[FieldType, Any, int | None, int | None, int | None]
"""Type, value to write, hint, hint size, data size."""


def _scalar(value: Value, type: FieldType | None, size: int | None) -> _Plan:
    if isinstance(value, (Decimal, Blank)):
        real, hint = real_and_hint(value)
        return _or(type, FieldType.REAL), real, hint, 1, size
    if isinstance(value, dt.datetime):
        raise EncodeError("TibMsg has no date with time: use a date, a time or a text")
    if isinstance(value, (dt.date, Date)):
        date = value if isinstance(value, Date) else Date.of(value)
        return _or(type, FieldType.STRING), date.text, _DATE, 2, size
    if isinstance(value, (dt.time, Time)):
        time = value if isinstance(value, Time) else Time.of(value)
        hint = _TIME if time.resolution == Resolution.MINUTE else _TIME_SECONDS
        return _or(type, FieldType.STRING), time.text, hint, 2, size
    if isinstance(value, EnumText):
        return _or(type, FieldType.STRING), value, _ENUM, 2, size
    if isinstance(value, EnumNumber):
        kind = FieldType.UINT if value >= 0 else FieldType.INT
        return _or(type, kind), int(value), _ENUM, 2, size or (2 if -32768 <= value < 65536 else 4)
    if type == FieldType.IPDATA and isinstance(value, str):
        value = address(value)
    kind = _natural_type(value) if type is None else type
    return kind, value, None, None, size


def _or(type: FieldType | None, own: FieldType) -> FieldType:
    return own if type is None else type


def _natural_type(value: Value) -> FieldType:
    kind = natural_kind(value)
    if kind is not None:
        return FieldType(kind)
    raise EncodeError(f"no TibMsg type for {value!r}")


def array(
    name: str | None,
    values: Sequence[Scalar],
    element_type: FieldType | None = None,
    element_size: int | None = None,
) -> Field:
    """See `Field.array`.

    Raises:
        EncodeError: the elements are not of one type, or do not fit.
    """
    if element_type is None:
        element_type = _common_type(values)
    elif element_type not in SCALARS:
        raise EncodeError(f"an array of {element_type.name.lower()} cannot be written")
    size = _element_size(element_type, values) if element_size is None else element_size
    if not size:
        raise EncodeError("array elements have at least one byte")
    is_text = element_type == FieldType.STRING
    data = b"".join(
        padded(value, size)
        if is_text and isinstance(value, str)
        else write(element_type, value, size)
        for value in values
    )
    return Field(name, FieldType.ARRAY, data, Hint(element_type, size))


def _common_type(values: Sequence[Scalar]) -> FieldType:
    kinds = {_natural_type(value) for value in values} or {FieldType.INT}
    if kinds in ({FieldType.INT, FieldType.UINT}, {FieldType.INT, FieldType.REAL}):
        kinds.remove(FieldType.INT)
    if len(kinds) != 1:
        raise EncodeError("the elements of an array must be of one type")
    return kinds.pop()


def _element_size(kind: FieldType, values: Sequence[Scalar]) -> int:
    """The size that fits all elements."""
    if kind == FieldType.STRING:
        sizes = [
            len(text_bytes(v)) + 1 if isinstance(v, str) else len(write(kind, v)) for v in values
        ]
        return max(sizes, default=1)
    usual = {FieldType.REAL: 8, FieldType.BOOLEAN: 1}
    return max((len(write(kind, value)) for value in values), default=usual.get(kind, 4))
