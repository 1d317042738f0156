"""The fields of a protobuf message as byte ranges, with the names that its schema gives them.

The protobuf library says what a message means but not where its fields are. This walker knows only
the wire form (tags, varints, lengths, groups), takes names and types from a descriptor if there is
one, and continues as far as the bytes allow.

It keeps its own stack, and looks at each byte once: groups have no length, and finding the end of
each before stepping into it would cost a hostile payload's size once for every level of nesting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from wireloom.errors import DecodeError, InvalidFieldError, TruncatedError
from wireloom.wire import Reader

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["ByteField", "Field", "Wire", "byte_fields", "is_repeated", "read_varint", "walk"]

_MAX_VARINT = 10
"""Bytes of a 64-bit varint, which is also the form of a negative int32."""
_MAX_NUMBER = (1 << 29) - 1
_LIBRARY_DEPTH = 100
"""Levels of nesting that the protobuf library reads."""
_LABEL_REPEATED = 3


class Wire:
    """Wire types: the low three bits of a tag."""

    VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
    NAMES = ("varint", "64 bits", "bytes", "group", "end of group", "32 bits")
    SIZES: ClassVar = {FIXED64: 8, FIXED32: 4}


class _Type:
    """Numbers of ``FieldDescriptor.type`` that matter here; they are those of descriptor.proto."""

    STRING, GROUP, MESSAGE, BYTES = 9, 10, 11, 12


class Field(NamedTuple):
    """What the walker found: a field, or the start or end of what is nested in one."""

    event: Literal["field", "enter", "leave", "too_deep"]
    number: int
    wire: int
    start: int
    """Where the tag starts."""
    body: int
    """Where the content starts."""
    stop: int
    """Where the content ends; not known at the start of a group."""
    value: int
    """The number, for a varint."""
    schema: FieldDescriptor | None
    """None for a field that the message's schema does not know."""
    nth: int
    """How many fields of this number came before it in the same message."""

    @property
    def name(self) -> str:
        """Name or number, with the index where there may be several: ``svals[0]``, ``#12[0]``."""
        if self.schema is not None and not is_repeated(self.schema):
            return self.schema.name
        return f"{f'#{self.number}' if self.schema is None else self.schema.name}[{self.nth}]"


class _Level(NamedTuple):
    """A message or group that is open."""

    end: int
    opened: Field | None
    descriptor: Descriptor | None
    counts: dict[int, int]

    @property
    def group(self) -> int:
        """Number of the group; 0 for a message, which ends where its length says."""
        return self.opened.number if self.opened and self.opened.wire == Wire.GROUP else 0


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether the field is a list."""
    # Older releases of the library have only `label`, newer ones no longer do.
    found = getattr(field, "is_repeated", None)
    return getattr(field, "label", 0) == _LABEL_REPEATED if found is None else bool(found)


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A number, and where it ends.

    Raises:
        DecodeError: it is cut short, or longer than a 64-bit number can be.
    """
    if pos < end and data[pos] < 0x80:  # as most numbers are
        return data[pos], pos + 1
    reader = Reader(data, pos, end)
    return reader.read_varint(_MAX_VARINT) & (1 << 64) - 1, reader.pos


def walk(
    data: bytes, pos: int, end: int, descriptor: Descriptor | None, max_depth: int
) -> Iterator[Field]:
    """The fields of the message in ``data[pos:end]``, and of the messages and groups inside.

    A field with a message comes as ``enter``, then its fields, then ``leave``; at `max_depth` it
    comes as ``too_deep``, and its content is skipped.

    Raises:
        DecodeError: the bytes at its offset are not a field.
    """
    level = _Level(end, None, descriptor, {})
    above: list[_Level] = []
    while True:
        if pos >= level.end and not level.group:
            if level.opened is None:
                return
            yield level.opened._replace(event="leave", stop=pos)
            level = above.pop()
            continue
        found = _read(data, pos, level.end, level.group)
        if found.wire == Wire.GROUP_END:
            assert level.opened is not None
            yield level.opened._replace(event="leave", stop=found.stop)
            level = above.pop()
            pos = found.stop
            continue
        found = _named(found, level)
        pos = found.stop
        if not _is_nested(found):
            yield found
        elif len(above) + 1 >= max_depth:
            if found.wire == Wire.GROUP:
                pos = _skip_group(data, found, level.end)
            yield found._replace(event="too_deep", stop=pos)
        else:
            yield found._replace(event="enter")
            above.append(level)
            inner_end = level.end if found.wire == Wire.GROUP else found.stop
            level = _Level(inner_end, found, _inner(found), {})
            pos = found.body


def _read(data: bytes, pos: int, end: int, group: int) -> Field:
    """The field at `pos`; for a group only its tag, and the end tag only inside `group`."""
    tag, body = read_varint(data, pos, end)
    number, wire = tag >> 3, tag & 7
    value, stop = 0, body
    if not 0 < number <= _MAX_NUMBER:
        raise InvalidFieldError(f"{number} is no field number", offset=pos, code="protobuf")
    if wire == Wire.VARINT:
        value, stop = read_varint(data, body, end)
    elif wire == Wire.BYTES:
        size, body = read_varint(data, body, end)
        stop = body + size
    elif wire in Wire.SIZES:
        stop = body + Wire.SIZES[wire]
    elif wire != Wire.GROUP and not (wire == Wire.GROUP_END and number == group):
        what = "this end of a group" if wire == Wire.GROUP_END else f"wire type {wire}"
        raise InvalidFieldError(f"{what} is not legal here", offset=pos, code="protobuf")
    if stop > end:
        raise TruncatedError(needed=stop - body, available=end - body, offset=body)
    return Field("field", number, wire, pos, body, stop, value, None, 0)


def _skip_group(data: bytes, found: Field, end: int) -> int:
    """Where a group ends."""
    opened = [found.number]
    pos = found.body
    while opened:
        inner = _read(data, pos, end, opened[-1])
        if inner.wire == Wire.GROUP:
            opened.append(inner.number)
        elif inner.wire == Wire.GROUP_END:
            opened.pop()
        pos = inner.stop
    return pos


def _named(found: Field, level: _Level) -> Field:
    known = level.descriptor.fields_by_number if level.descriptor is not None else {}
    nth = level.counts.get(found.number, 0)
    level.counts[found.number] = nth + 1
    return found._replace(schema=known.get(found.number), nth=nth)


def _is_nested(found: Field) -> bool:
    """Whether there are fields inside: those of a message, or of any group."""
    return found.wire == Wire.GROUP or _inner(found) is not None


def _inner(found: Field) -> Descriptor | None:
    """The schema of what is nested in the field, if its form is the one declared."""
    if found.schema is None:
        return None
    wire = {_Type.MESSAGE: Wire.BYTES, _Type.GROUP: Wire.GROUP}.get(found.schema.type)
    return found.schema.message_type if wire == found.wire else None


class ByteField(NamedTuple):
    """A string or bytes field somewhere in a message."""

    path: str
    data: bytes


def byte_fields(
    data: bytes, descriptor: Descriptor, max_depth: int = _LIBRARY_DEPTH
) -> Iterator[ByteField]:
    """Every string and bytes field of a message, also those that its schema does not know.

    `data` is a message that the protobuf library could read; should the two ever disagree on its
    form, the fields up to that point are given.
    """
    path: list[str] = []
    with suppress(DecodeError):
        for found in walk(data, 0, len(data), descriptor, max_depth):
            if found.event == "enter":
                path.append(found.name)
            elif found.event == "leave":
                path.pop()
            elif found.event == "field" and _is_bytes(found):
                yield ByteField(".".join([*path, found.name]), data[found.body : found.stop])


def _is_bytes(found: Field) -> bool:
    # Packed numbers have the same form, but are not a byte string.
    has_type = found.schema is None or found.schema.type in (_Type.STRING, _Type.BYTES)
    return found.wire == Wire.BYTES and has_type
