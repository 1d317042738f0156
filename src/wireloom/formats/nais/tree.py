"""The field tree of a protobuf message: every field with its bytes, type and value."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from wireloom.errors import DecodeError, TruncatedError
from wireloom.formats.nais.fields import Field, Wire, is_repeated, read_varint, walk
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["add_fields", "type_name"]

_SHOWN = 96
"""Characters of a value that the tree shows; a payload may hold a megabyte of text."""


# --- values -------------------------------------------------------------------------------------


def _signed(bits: int) -> Callable[[int], int]:
    half, full = 1 << (bits - 1), 1 << bits
    return lambda value: (value % full + half) % full - half


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


class _Scalar(NamedTuple):
    name: str
    wire: int
    convert: Callable[[int], object] = int
    layout: str = ""


# By the number of FieldDescriptor.type, which is that of descriptor.proto.
_SCALARS = {
    1: _Scalar("double", Wire.FIXED64, layout="<d"),
    2: _Scalar("float", Wire.FIXED32, layout="<f"),
    3: _Scalar("int64", Wire.VARINT, _signed(64)),
    4: _Scalar("uint64", Wire.VARINT),
    5: _Scalar("int32", Wire.VARINT, _signed(32)),
    6: _Scalar("fixed64", Wire.FIXED64, layout="<Q"),
    7: _Scalar("fixed32", Wire.FIXED32, layout="<I"),
    8: _Scalar("bool", Wire.VARINT, lambda value: "true" if value else "false"),
    13: _Scalar("uint32", Wire.VARINT, lambda value: value % (1 << 32)),
    14: _Scalar("enum", Wire.VARINT, _signed(32)),
    15: _Scalar("sfixed32", Wire.FIXED32, layout="<i"),
    16: _Scalar("sfixed64", Wire.FIXED64, layout="<q"),
    17: _Scalar("sint32", Wire.VARINT, lambda value: _zigzag(value % (1 << 32))),
    18: _Scalar("sint64", Wire.VARINT, _zigzag),
}
_BYTE_TYPES = {9: "string", 12: "bytes"}


def type_name(field: FieldDescriptor) -> str:
    """The type as a .proto file writes it: ``int32``, ``string``, the name of a message or enum."""
    named = field.message_type or field.enum_type
    if named is not None:
        return str(named.full_name)
    return _BYTE_TYPES.get(field.type) or _SCALARS[field.type].name


def _nested_wire(field: FieldDescriptor) -> int | None:
    """The form of a field that holds a message; None if it does not."""
    if field.message_type is None:
        return None
    return Wire.GROUP if field.type == field.TYPE_GROUP else Wire.BYTES


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _hex(raw: bytes) -> str:
    return raw.hex() if len(raw) <= _SHOWN // 2 else f"{len(raw)} bytes"


def _number(schema: FieldDescriptor, kind: _Scalar, data: bytes, at: int, value: int) -> str:
    if kind.layout:
        return str(struct.unpack_from(kind.layout, data, at)[0])
    shown = kind.convert(value)
    known = schema.enum_type.values_by_number if schema.enum_type is not None else {}
    name = known[shown].name if isinstance(shown, int) and shown in known else ""
    return f"{shown} {name}".rstrip()


# --- the tree -----------------------------------------------------------------------------------


class _Full(Exception):
    """No more nodes may be made."""

    def __init__(self, at: int) -> None:
        self.at = at


class _Tree:
    def __init__(self, root: Node, data: bytes, limits: Limits) -> None:
        self.data = data
        self.most = self.left = limits.max_fields
        self.max_depth = limits.max_depth
        self.open = [root]

    def add(self, name: str, start: int, stop: int, value: str = "", meaning: str = "") -> Node:
        if not self.left:
            raise _Full(start)
        self.left -= 1
        return self.open[-1].add(name, start, stop - start, value, meaning)

    def step(self, found: Field) -> None:
        """Show what the walker found."""
        if found.event == "leave":
            # The start of a group did not know where it ends.
            node = self.open.pop()
            node.length = found.stop - node.offset
            return
        schema = found.schema
        meaning = f"unknown field, {Wire.NAMES[found.wire]}"
        if schema is not None:
            meaning = f"#{found.number} {type_name(schema)}"
        node = self.add(found.name, found.start, found.stop, "", meaning)
        if found.event == "too_deep":
            node.error = f"nested deeper than {self.max_depth}"
        elif schema is not None:
            self.show(node, found, schema)
        elif found.wire != Wire.GROUP:
            node.value = self.raw(found)
        if found.event == "enter":
            self.open.append(node)

    def raw(self, found: Field) -> str:
        if found.wire == Wire.VARINT:
            return str(found.value)
        return _hex(self.data[found.body : found.stop])

    def show(self, node: Node, found: Field, schema: FieldDescriptor) -> None:
        """The value of a field that the schema knows, if it has the declared form."""
        kind = _SCALARS.get(schema.type)
        if kind is not None and found.wire == kind.wire:
            node.value = _number(schema, kind, self.data, found.body, found.value)
        elif kind is not None and found.wire == Wire.BYTES and is_repeated(schema):
            node.name = schema.name
            node.meaning += ", packed"
            self.open.append(node)
            self.add_packed(found, schema, kind)
            self.open.pop()
        elif found.wire == Wire.BYTES and schema.type in _BYTE_TYPES:
            raw = self.data[found.body : found.stop]
            is_text = _BYTE_TYPES[schema.type] == "string"
            node.value = _clip(raw.decode("utf-8", "backslashreplace")) if is_text else _hex(raw)
        elif found.wire != _nested_wire(schema):
            # The library keeps such a field with the unknown ones.
            node.value = self.raw(found)
            node.error = f"{Wire.NAMES[found.wire]} where {type_name(schema)} is expected"

    def add_packed(self, found: Field, schema: FieldDescriptor, kind: _Scalar) -> None:
        pos, index = found.body, 0
        while pos < found.stop:
            value, stop = 0, pos + Wire.SIZES.get(kind.wire, 0)
            try:
                if kind.wire == Wire.VARINT:
                    value, stop = read_varint(self.data, pos, found.stop)
                elif stop > found.stop:
                    raise TruncatedError(needed=stop - pos, available=found.stop - pos)
            except DecodeError as error:
                self.add("?", pos, found.stop).error = _why(error)
                return
            shown = _number(schema, kind, self.data, pos, value)
            self.add(f"[{index}]", pos, stop, shown)
            pos = stop
            index += 1

    def stop(self, name: str, at: int, value: str, why: str) -> None:
        """The rest cannot be shown: say why at its start."""
        for outer, inner in pairwise(self.open):
            # An open group: it extends as far as what contains it.
            if inner.end < at:
                inner.length = outer.end - inner.offset
        last = self.open[-1]
        last.add(name, at, last.end - at, value, error=why)


def add_fields(
    node: Node,
    data: bytes,
    pos: int,
    end: int,
    descriptor: Descriptor | None,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Add a node for every field of the message in ``data[pos:end]``, as far as it can be read."""
    tree = _Tree(node, data, limits)
    at = pos
    try:
        for found in walk(data, pos, end, descriptor, limits.max_depth):
            tree.step(found)
            at = found.body if found.event == "enter" else found.stop
    except _Full as full:
        tree.stop("…", full.at, "", f"more than {tree.most} fields")
    except DecodeError as error:
        tree.stop("?", at, _hex(data[at:end]), _why(error))


def _why(error: DecodeError) -> str:
    if isinstance(error, TruncatedError):
        return f"not a field: {error.needed} bytes needed, {error.available} available"
    return f"not a field: {error.reason}"
