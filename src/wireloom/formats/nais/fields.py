"""The fields of a protobuf message as byte ranges: for the field tree, and for payloads inside.

The protobuf library says what a message means but not where its fields lie. This walker knows the
wire form only (tags, varints, lengths, groups), takes names and types from a descriptor where there
is one, and goes on as far as the bytes allow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from wireloom.errors import DecodeError, InvalidFieldError, TruncatedError
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits, Reader

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = [
    "ByteField",
    "Field",
    "add_fields",
    "byte_fields",
    "is_repeated",
    "read_field",
    "type_name",
]

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_WIRE_NAMES = ("varint", "64 bits", "bytes", "group", "end of group", "32 bits")
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT = 10
"""Bytes of a 64-bit varint, which is also the form of a negative int32."""
_LIBRARY_DEPTH = 100
"""Levels of nesting that the protobuf library reads."""
_SHOWN = 96
"""Characters of a value that the tree shows; a payload may hold a megabyte of text."""


class Field(NamedTuple):
    """One field on the wire: tag in ``[start, body)``, content in ``[body, body_end)``."""

    number: int
    wire: int
    start: int
    body: int
    body_end: int
    stop: int
    value: int
    """The number, for a varint."""


def read_field(data: bytes, pos: int, end: int) -> Field:
    """The field that starts at `pos`.

    Raises:
        DecodeError: the bytes are no field, or it runs past `end`.
    """
    tag, body = _varint(data, pos, end)
    number, wire = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise InvalidFieldError(f"{number} is no field number", offset=pos, code="protobuf")
    if wire == _VARINT:
        value, stop = _varint(data, body, end)
        return Field(number, wire, pos, body, stop, stop, value & (1 << 64) - 1)
    if wire == _GROUP:
        content_end, stop = _group_end(data, body, end, number)
        return Field(number, wire, pos, body, content_end, stop, 0)
    if wire == _BYTES:
        size, body = _varint(data, body, end)
    elif wire in _SIZES:
        size = _SIZES[wire]
    else:
        what = "the end of a group" if wire == _GROUP_END else f"wire type {wire}"
        raise InvalidFieldError(f"{what} is not legal here", offset=pos, code="protobuf")
    if size > end - body:
        raise TruncatedError(needed=size, available=end - body, offset=body)
    return Field(number, wire, pos, body, body + size, body + size, 0)


def _varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A number, and where it ends."""
    if pos < end and data[pos] < 0x80:  # which most are
        return data[pos], pos + 1
    reader = Reader(data, pos, end)
    return reader.read_varint(_MAX_VARINT), reader.pos


def _group_end(data: bytes, pos: int, end: int, number: int) -> tuple[int, int]:
    """Where the content of a group ends, and where its closing tag does."""
    # One stack for all levels: a hostile payload nests groups a hundred thousand deep.
    opened = [number]
    while True:
        tag, body = _varint(data, pos, end)
        if tag & 7 == _GROUP:
            opened.append(tag >> 3)
            pos = body
        elif tag & 7 == _GROUP_END:
            if tag >> 3 != opened.pop():
                raise InvalidFieldError("groups overlap", offset=pos, code="protobuf")
            if not opened:
                return pos, body
            pos = body
        else:
            pos = read_field(data, pos, end).stop


# --- values -------------------------------------------------------------------------------------


def _signed(bits: int) -> Callable[[int], int]:
    half, full = 1 << (bits - 1), 1 << bits
    return lambda value: (value % full + half) % full - half


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


class _Scalar(NamedTuple):
    name: str
    wire: int
    convert: Callable[[int], object] | None = None
    layout: str = ""


# By the number of FieldDescriptor.type, which is that of descriptor.proto.
_SCALARS = {
    1: _Scalar("double", _FIXED64, layout="<d"),
    2: _Scalar("float", _FIXED32, layout="<f"),
    3: _Scalar("int64", _VARINT, _signed(64)),
    4: _Scalar("uint64", _VARINT),
    5: _Scalar("int32", _VARINT, _signed(32)),
    6: _Scalar("fixed64", _FIXED64, layout="<Q"),
    7: _Scalar("fixed32", _FIXED32, layout="<I"),
    8: _Scalar("bool", _VARINT, lambda value: "true" if value else "false"),
    13: _Scalar("uint32", _VARINT, lambda value: value % (1 << 32)),
    14: _Scalar("enum", _VARINT, _signed(32)),
    15: _Scalar("sfixed32", _FIXED32, layout="<i"),
    16: _Scalar("sfixed64", _FIXED64, layout="<q"),
    17: _Scalar("sint32", _VARINT, lambda value: _zigzag(value % (1 << 32))),
    18: _Scalar("sint64", _VARINT, _zigzag),
}
_STRING, _GROUP_TYPE, _MESSAGE, _BYTES_TYPE = 9, 10, 11, 12
_LABEL_REPEATED = 3
_LONG_NAMES = {_STRING: "string", _BYTES_TYPE: "bytes"}


def type_name(field: FieldDescriptor) -> str:
    """The type as a .proto file writes it: ``int32``, ``string``, the name of a message or enum."""
    if field.message_type is not None:
        return field.message_type.full_name
    if field.enum_type is not None:
        return field.enum_type.full_name
    return _LONG_NAMES.get(field.type) or _SCALARS[field.type].name


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether the field is a list."""
    # Older releases of the library have only `label`, newer ones no longer do.
    found = getattr(field, "is_repeated", None)
    return getattr(field, "label", 0) == _LABEL_REPEATED if found is None else bool(found)


def _label(found: Field, field: FieldDescriptor | None, index: int) -> str:
    if field is not None and not is_repeated(field):
        return field.name
    return f"{field.name if field is not None else f'#{found.number}'}[{index}]"


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _hex(raw: bytes) -> str:
    return raw.hex() if len(raw) <= _SHOWN // 2 else f"{len(raw)} bytes"


def _scalar(field: FieldDescriptor, kind: _Scalar, data: bytes, found: Field) -> str:
    if kind.layout:
        return str(struct.unpack_from(kind.layout, data, found.body)[0])
    value = kind.convert(found.value) if kind.convert is not None else found.value
    if field.enum_type is not None and isinstance(value, int):
        known = field.enum_type.values_by_number.get(value)
        return f"{value} {known.name}" if known is not None else str(value)
    return str(value)


# --- the tree -----------------------------------------------------------------------------------


class _Budget:
    """Nodes that may still be made; shared by all levels of one tree."""

    def __init__(self, limits: Limits) -> None:
        self.left = self.most = limits.max_fields
        self.max_depth = limits.max_depth

    def is_spent(self, node: Node, pos: int, end: int) -> bool:
        if self.left:
            self.left -= 1
            return False
        node.add("…", pos, end - pos, error=f"more than {self.most} fields")
        return True


def add_fields(
    node: Node,
    data: bytes,
    pos: int,
    end: int,
    descriptor: Descriptor | None,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Add a node for every field of the message in ``data[pos:end]``, as far as it can be read."""
    _fill(node, data, pos, end, descriptor, _Budget(limits), 1)


def _fill(
    node: Node,
    data: bytes,
    pos: int,
    end: int,
    descriptor: Descriptor | None,
    budget: _Budget,
    depth: int,
) -> None:
    if depth > budget.max_depth:
        node.add("…", pos, end - pos, error=f"nested deeper than {budget.max_depth}")
        return
    counts: dict[int, int] = {}
    while pos < end:
        if budget.is_spent(node, pos, end):
            return
        try:
            found = read_field(data, pos, end)
        except DecodeError as error:
            node.add("?", pos, end - pos, _hex(data[pos:end]), error=_why(error))
            return
        field = descriptor.fields_by_number.get(found.number) if descriptor is not None else None
        index = counts[found.number] = counts.get(found.number, -1) + 1
        _add(node, data, found, field, index, budget, depth)
        pos = found.stop


def _why(error: DecodeError) -> str:
    if isinstance(error, TruncatedError):
        return f"not a field: {error.needed} bytes needed, {error.available} available"
    return f"not a field: {error.reason}"


def _add(
    node: Node,
    data: bytes,
    found: Field,
    field: FieldDescriptor | None,
    index: int,
    budget: _Budget,
    depth: int,
) -> None:
    raw = data[found.body : found.body_end]
    length = found.stop - found.start
    if field is None:
        value = str(found.value) if found.wire == _VARINT else _hex(raw)
        meaning = f"unknown field, {_WIRE_NAMES[found.wire]}"
        child = node.add(_label(found, field, index), found.start, length, value, meaning)
        if found.wire == _GROUP:
            _fill(child, data, found.body, found.body_end, None, budget, depth + 1)
        return
    child = node.add(
        _label(found, field, index), found.start, length, "", f"#{found.number} {type_name(field)}"
    )
    kind = _SCALARS.get(field.type)
    if kind is not None and found.wire == kind.wire:
        child.value = _scalar(field, kind, data, found)
    elif kind is not None and found.wire == _BYTES and is_repeated(field):
        child.name = field.name
        child.meaning += ", packed"
        _add_packed(child, data, found, field, kind, budget)
    elif _nests(found, field):
        _fill(child, data, found.body, found.body_end, field.message_type, budget, depth + 1)
    elif kind is None and field.message_type is None and found.wire == _BYTES:
        is_text = field.type == _STRING
        child.value = _clip(raw.decode("utf-8", "backslashreplace")) if is_text else _hex(raw)
    else:
        # The library keeps such a field with the unknown ones.
        child.value = str(found.value) if found.wire == _VARINT else _hex(raw)
        child.error = f"{_WIRE_NAMES[found.wire]} where {type_name(field)} is expected"


def _nests(found: Field, field: FieldDescriptor) -> bool:
    wire = {_MESSAGE: _BYTES, _GROUP_TYPE: _GROUP}.get(field.type)
    return wire == found.wire


def _add_packed(
    node: Node, data: bytes, found: Field, field: FieldDescriptor, kind: _Scalar, budget: _Budget
) -> None:
    pos, end, index = found.body, found.body_end, 0
    while pos < end:
        if budget.is_spent(node, pos, end):
            return
        try:
            value, stop = 0, pos + _SIZES.get(kind.wire, 0)
            if kind.wire == _VARINT:
                value, stop = _varint(data, pos, end)
            elif stop > end:
                raise TruncatedError(needed=stop - pos, available=end - pos, offset=pos)
        except DecodeError as error:
            node.add("?", pos, end - pos, error=_why(error))
            return
        item = found._replace(body=pos, value=value & (1 << 64) - 1)
        node.add(f"[{index}]", pos, stop - pos, _scalar(field, kind, data, item))
        pos = stop
        index += 1


# --- byte strings inside ------------------------------------------------------------------------


class ByteField(NamedTuple):
    """A string or bytes field somewhere in a message."""

    path: str
    field: FieldDescriptor | None
    """None for a field that the schema does not know."""
    data: bytes


def byte_fields(
    data: bytes, descriptor: Descriptor, max_depth: int = _LIBRARY_DEPTH
) -> Iterator[ByteField]:
    """Every string and bytes field of a message, also those that its schema does not know.

    `data` is a message that the protobuf library could read; should the two ever disagree on its
    form, the fields up to that point are given.
    """
    with suppress(DecodeError):
        yield from _byte_fields(data, 0, len(data), descriptor, "", max_depth)


def _byte_fields(
    data: bytes, pos: int, end: int, descriptor: Descriptor | None, path: str, depth: int
) -> Iterator[ByteField]:
    counts: dict[int, int] = {}
    while pos < end and depth:
        found = read_field(data, pos, end)
        pos = found.stop
        field = descriptor.fields_by_number.get(found.number) if descriptor is not None else None
        index = counts[found.number] = counts.get(found.number, -1) + 1
        name = path + _label(found, field, index)
        if found.wire == _GROUP or (field is not None and _nests(found, field)):
            inner = field.message_type if field is not None else None
            yield from _byte_fields(data, found.body, found.body_end, inner, f"{name}.", depth - 1)
        elif found.wire == _BYTES and (field is None or field.type in _LONG_NAMES):
            yield ByteField(name, field, data[found.body : found.body_end])
