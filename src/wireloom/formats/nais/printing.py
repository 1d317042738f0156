"""Protobuf messages → the objects of their JSON form: fast, for schemas without special cases.

`google.protobuf.json_format` consults the schema about every field of every message. Here that is
done once per schema. Types for which the library has special rules (the well-known ones, maps,
extensions, enum values with options) are left to it.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wireloom.formats.nais.fields import is_repeated

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from wireloom.messages import Json

__all__ = ["Convert", "NotText", "converter"]

Convert = Callable[[Any], "Json"]
"""Gives the JSON form of a message; raises `NotText`."""

_Fields = dict[int, tuple[str, Callable[[Any], Any]]]
"""For each field by its number: its name, and what turns its value into JSON."""

_SINGLE = struct.Struct("<f")
_MOST_DIGITS = 9
"""Digits that always identify a 32-bit float."""


class NotText(Exception):
    """A string is not UTF-8."""


def converter(schema: Descriptor) -> Convert | None:
    """What ``MessageToDict`` gives for messages of a schema; None if that has special cases."""
    schemas = list(_reachable(schema))
    if any(map(_is_special, schemas)):
        return None
    fields: dict[str, _Fields] = {each.full_name: {} for each in schemas}
    made = {name: _message(own) for name, own in fields.items()}
    for each in schemas:
        own = {field.number: (field.name, _field(field, made)) for field in each.fields}
        fields[each.full_name].update(own)
    return made[schema.full_name]


def _reachable(schema: Descriptor) -> Iterator[Descriptor]:
    """A schema and all schemas nested in it."""
    seen, todo = {schema.full_name}, [schema]
    while todo:
        current = todo.pop()
        yield current
        for field in current.fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                todo.append(inner)


def _is_special(schema: Descriptor) -> bool:
    return (
        schema.full_name.startswith("google.protobuf.")
        or schema.GetOptions().map_entry
        or bool(schema.extension_ranges)
        or any(
            value.has_options or field.enum_type.full_name.startswith("google.protobuf.")
            for field in schema.fields
            if field.enum_type is not None
            for value in field.enum_type.values
        )
    )


def _message(fields: _Fields) -> Convert:
    def convert(message: Any) -> Json:
        found = {}
        for field, value in message.ListFields():
            name, make = fields[field.number]
            found[name] = make(value)
        return found

    return convert


def _field(field: FieldDescriptor, made: dict[str, Convert]) -> Callable[[Any], Any]:
    make = _value(field, made)
    if not is_repeated(field):
        return make
    return lambda values: [make(value) for value in values]


def _value(field: FieldDescriptor, made: dict[str, Convert]) -> Callable[[Any], Any]:
    kind = field.cpp_type
    if kind == field.CPPTYPE_MESSAGE:
        assert field.message_type is not None
        return made[field.message_type.full_name]
    if kind == field.CPPTYPE_ENUM:
        assert field.enum_type is not None
        names = {value.number: value.name for value in reversed(list(field.enum_type.values))}
        return lambda number: names.get(number, number)
    if kind == field.CPPTYPE_STRING:
        return _base64 if field.type == field.TYPE_BYTES else _text
    if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return str
    if kind == field.CPPTYPE_FLOAT:
        return _single
    return _double if kind == field.CPPTYPE_DOUBLE else _same


def _same(value: Any) -> Any:
    return value


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _text(value: str | bytes) -> str:
    # The library lets bytes pass as strings of proto2, and hands them out as such.
    if isinstance(value, bytes):
        raise NotText
    return value


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _single(value: float) -> float | str:
    # Both zeros are equal, so the cache would confuse them.
    return _shortest(value) if value and math.isfinite(value) else _double(value)


@lru_cache(maxsize=1 << 14)
def _shortest(value: float) -> float:
    """The real with the fewest digits, but at least six, that is the same 32-bit float."""
    for digits in range(6, _MOST_DIGITS):
        found = float(f"{value:.{digits}g}")
        try:
            if _SINGLE.unpack(_SINGLE.pack(found))[0] == value:
                return found
        except OverflowError:
            continue
    return float(f"{value:.{_MOST_DIGITS}g}")
