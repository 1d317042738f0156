"""Python values → TibrvMsg fields, with the type and size that suit each value (SPEC §5)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from wireloom.errors import EncodeError
from wireloom.formats._tib.build import address, fields_of, natural_kind
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.scalars import Kind, text_bytes, write
from wireloom.formats._tib.values import Date, EnumNumber, Time
from wireloom.formats.tibrv.content import datetime_data, subject_data, xml_data
from wireloom.formats.tibrv.message import Field, Message, Value
from wireloom.formats.tibrv.types import ARRAY_CODES, KINDS, FieldType

__all__ = ["build", "make"]

_TYPES = {kind: type for type, kind in KINDS.items() if type != FieldType.ENCRYPTED}
"""The type for each kind of scalar."""


def build(values: Mapping[str, Value] | Iterable[Field]) -> Message:
    """A message from names and values, or from fields.

    >>> build({"SYM": "ABC", "SIZES": [1, 2]})["SIZES"].type.name
    'ARRAY_I32'

    Raises:
        EncodeError: a value cannot be written; the path is that of the field.
    """
    return Message(_fields(values))


def _fields(values: Mapping[str, Value] | Iterable[Field]) -> tuple[Field, ...]:
    return fields_of(values, Field, Field.of)


def make(
    name: str | None, value: Value, type: FieldType | None, size: int | None, fid: int | None
) -> Field:
    """See `Field.of`.

    Raises:
        EncodeError: there is no way to write this value.
    """
    if name is not None and name.endswith("\0"):
        name = name[:-1]  # the writer adds it
    try:
        return _make(name, value, type, size, fid)
    except EncodeError as error:
        error.within(name or "fields[]")
        raise


def _make(
    name: str | None, value: Value, type: FieldType | None, size: int | None, fid: int | None
) -> Field:
    if isinstance(value, (Mapping, Lookup)):
        fields = _fields(value) if isinstance(value, Mapping) else value.fields
        return _sequence(name, fields, type or FieldType.MESSAGE, fid)
    if isinstance(value, (list, tuple)):
        return _sequence(name, value, type, fid)
    if isinstance(value, (Date, Time)):
        value = value.text
    elif isinstance(value, dt.time):
        value = Time.of(value).text
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = Date.of(value).text
    elif isinstance(value, Decimal):
        # Precision beyond a double's is lost, as is the number of places: there are no hints here.
        value = float(value) if not value.is_snan() else float("nan")
    elif isinstance(value, EnumNumber):
        type, size = type or FieldType.UINT, size or 2
        value = int(value)
    kind = _natural_type(value) if type is None else type
    return Field(name, kind, _data(kind, value, size), fid)


def _natural_type(value: Value) -> FieldType:
    kind = natural_kind(value)
    if kind is not None:
        return _TYPES[kind]
    if isinstance(value, dt.datetime):
        return FieldType.DATETIME
    raise EncodeError(f"no TibrvMsg type for {value!r}")


def _data(kind: FieldType, value: Value, size: int | None) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        if kind in (FieldType.MESSAGE, FieldType.ARRAY_MSG):
            raise EncodeError(f"a {kind.name.lower()} is made of fields, not bytes")
        return bytes(value)
    if kind == FieldType.SUBJECT and isinstance(value, str):
        return subject_data(value)
    if kind == FieldType.XML and isinstance(value, str):
        return xml_data(value)
    if kind == FieldType.DATETIME and isinstance(value, dt.datetime):
        return datetime_data(value)
    if kind == FieldType.IPDATA and isinstance(value, str):
        value = address(value)
    scalar = KINDS.get(kind)
    if scalar is None:
        raise EncodeError(f"{value!r} is no {kind.name.lower()}")
    return write(scalar, value, size)


def _sequence(
    name: str | None, values: Sequence[Any], type: FieldType | None, fid: int | None
) -> Field:
    """A message, or an array of the type that suits its elements."""
    if type is None:
        type = _array_type(values)
    if type == FieldType.MESSAGE and all(isinstance(value, Field) for value in values):
        return Field(name, type, fid=fid, fields=tuple(values))
    if type == FieldType.ARRAY_MSG and all(isinstance(v, (Message, Mapping)) for v in values):
        messages = tuple(v if isinstance(v, Message) else build(v) for v in values)
        return Field(name, type, fid=fid, messages=messages)
    if type == FieldType.ARRAY_STR and all(isinstance(value, str) for value in values):
        parts = [text_bytes(value) for value in values]
        if any(0 in part for part in parts):
            raise EncodeError("a string of an array has a NUL")
        data = len(parts).to_bytes(4, "big") + b"".join(part + b"\0" for part in parts)
        return Field(name, type, data, fid)
    if type in ARRAY_CODES:
        kind, size, _ = ARRAY_CODES[type]
        # A boolean array is one of single bytes.
        whole = [int(v) if isinstance(v, bool) and kind != Kind.REAL else v for v in values]
        return Field(name, type, b"".join(write(kind, v, size) for v in whole), fid)
    raise EncodeError(f"these values are no {type.name.lower()}")


def _array_type(values: Sequence[Any]) -> FieldType:
    if not values:
        return FieldType.ARRAY_I32
    if all(isinstance(value, Field) for value in values):
        return FieldType.MESSAGE
    if all(isinstance(value, (Message, Mapping)) for value in values):
        return FieldType.ARRAY_MSG
    if all(isinstance(value, str) for value in values):
        return FieldType.ARRAY_STR
    if all(isinstance(value, bool) for value in values):
        return FieldType.ARRAY_I8
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        raise EncodeError("the elements of an array must be of one type that has arrays")
    if any(isinstance(value, float) for value in values):
        return FieldType.ARRAY_F64
    if max(values) >= 1 << 63:
        return FieldType.ARRAY_U64
    fits = min(values) >= -(1 << 31) and max(values) < 1 << 31
    return FieldType.ARRAY_I32 if fits else FieldType.ARRAY_I64
