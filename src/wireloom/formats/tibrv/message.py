"""TibrvMsg: fields and messages, what the wire says and what it means (SPEC §1-§4)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.payloads import payloads
from wireloom.formats._tib.quick import quick
from wireloom.formats._tib.scalars import read, text_bytes, why_not_usual
from wireloom.formats.tibrv.content import (
    MAX_XML,
    read_datetime,
    read_strings,
    read_subject,
    read_xml,
)
from wireloom.formats.tibrv.types import (
    ARRAY_CODES,
    KINDS,
    LITERAL_SIZED,
    FieldType,
    Form,
    canonical_size_form,
)
from wireloom.formats.tibrv.walk import HEADER_LEN, MAGIC, MAX_DEPTH
from wireloom.messages import Json
from wireloom.messages import Message as BaseMessage
from wireloom.outline import Node

__all__ = ["Carried", "Dialect", "Field", "Message", "Value", "encode_fields", "quick_field"]

Value = Any
"""A value: str, bytes, bool, int, float, IPv4Address, datetime, a tuple of elements, a tuple of
fields, or a tuple of messages."""

Dialect = Literal["standard", "document"]

_U32X2 = struct.Struct(">II")
_MAGIC = int.from_bytes(MAGIC, "big")


@dataclass(frozen=True, slots=True)
class Field(Lookup["Field"]):
    """One field, as on the wire. `value` is what it means."""

    name: str | None
    """None if it has none. Bytes that are not UTF-8 are lone surrogates (``surrogateescape``)."""
    type: FieldType
    data: bytes = b""
    """The data bytes, without size; empty for message and message array."""
    fid: int | None = None
    """The field id that may follow the name."""
    fields: tuple[Field, ...] = ()
    """The fields of a nested message."""
    messages: tuple[Message, ...] = ()
    """The elements of a message array."""
    form: int = 0
    """How it is encoded where the wire allows several ways; see `Form`."""

    @classmethod
    def of(
        cls,
        name: str | None,
        value: Value,
        *,
        type: FieldType | None = None,
        size: int | None = None,
        fid: int | None = None,
    ) -> Field:
        """A field for a Python value, with the type that suits the value.

        Args:
            name: its name.
            value: see `Value`; also a decimal (becomes a real), dates and times (become text), a
                list (array), and a mapping or a sequence of fields (message).
            type: if it is not the obvious one, such as `FieldType.SUBJECT` for a text.
            size: bytes of a number.
            fid: field id to put after the name.

        Raises:
            EncodeError: there is no way to write this value.
        """
        # The writing half is imported when used: it needs this class.
        from wireloom.formats.tibrv.build import make

        return make(name, value, type, size, fid)

    @property
    def size(self) -> int:
        """Bytes of data on the wire; of a message, those of the whole message."""
        if self.type == FieldType.MESSAGE:
            return HEADER_LEN + len(encode_fields(self.fields))
        if self.type == FieldType.ARRAY_MSG:
            return 4 + sum(len(message.encode()) for message in self.messages)
        return len(self.data)

    @property
    def elements(self) -> tuple[Any, ...]:
        """The elements of an array of any type; empty for other types."""
        if self.type == FieldType.ARRAY_STR:
            return read_strings(self.data)
        if self.type == FieldType.ARRAY_MSG:
            return self.messages
        found = ARRAY_CODES.get(self.type)
        if found is None:
            return ()
        return struct.unpack_from(f">{len(self.data) // found[1]}{found[2]}", self.data)

    @property
    def time_parts(self) -> tuple[int, int] | None:
        """A datetime's seconds and microseconds as on the wire; None for other types and sizes."""
        if self.type != FieldType.DATETIME or len(self.data) != 8:
            return None
        sec, usec = _U32X2.unpack(self.data)
        return sec, usec

    def document(self, max_size: int = MAX_XML) -> str:
        """The text of an xml field.

        Raises:
            LimitError: it is longer than `max_size`.
            DecodeError: it cannot be unpacked, or this is not an xml field.
        """
        if self.type != FieldType.XML:
            raise DecodeError(f"{self.type.name.lower()} is no xml", code="type")
        return read_xml(self.data, max_size)

    @property
    def value(self) -> Value:
        """The value. Data that its type cannot read is its own value: bytes."""
        kind = KINDS.get(self.type)
        if kind is not None:
            return read(kind, self.data)
        if self.type == FieldType.MESSAGE:
            return self.fields
        if self.type == FieldType.SUBJECT:
            return read_subject(self.data)
        if self.type == FieldType.DATETIME:
            return read_datetime(self.data)
        if self.type == FieldType.XML:
            try:
                return read_xml(self.data)
            except DecodeError:
                return self.data
        return self.elements

    def why_not_canonical(self) -> str | None:
        """How it differs from what a writer would emit; None if it does not."""
        if self.form:
            return f"a form that writers do not use ({self.form:#x})"
        kind, size = self.type, len(self.data)
        reason = why_not_usual(KINDS.get(kind, 0), self.data)
        if reason is not None:
            return reason
        if kind == FieldType.DATETIME and (self.time_parts or (0, 10**6))[1] >= 10**6:
            return "a datetime that is not seconds and microseconds"
        element = ARRAY_CODES.get(kind)
        return "an array with bytes left over" if element and size % element[1] else None


class Carried(NamedTuple):
    """A message of another format in a TibrvMsg's first field."""

    format: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Message(Lookup[Field], BaseMessage):
    """A TibrvMsg: fields by name or position."""

    format: ClassVar[str] = "tibrv"

    fields: tuple[Field, ...] = ()
    dialect: Dialect = field(default="standard", compare=False)
    """How it was read: ``document`` if one-byte sizes counted themselves. Written as standard."""

    @property
    def type_name(self) -> str:
        """Always ``TIBRVMSG``: the format has one kind of message."""
        return "TIBRVMSG"

    def encode(self) -> bytes:
        """The bytes of the message, in the standard dialect.

        Raises:
            EncodeError: a field cannot be written; its path says which.
        """
        return _whole(encode_fields(self.fields), MAGIC)

    def to_dict(self) -> Json:
        """The message as a JSON object that `wireloom.from_dict` turns back into an equal one."""
        from wireloom.formats.tibrv.jsonform import message_to_dict

        return message_to_dict(self)

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        from wireloom.formats.tibrv.show import outline

        return outline(self.encode())

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """The opaque fields, which may hold a message of another format, with their paths."""
        return payloads(self.fields, FieldType.OPAQUE)

    def carried(self) -> Carried | None:
        """The TibMsg or QForm that this message merely wraps; None if it is a message in itself.

        That is so when the first field is an opaque of a certain name whose data starts with the
        other format's magic (SPEC §4).
        """
        first = self.fields[0] if self.fields else None
        if first is None or first.type != FieldType.OPAQUE:
            return None
        for name, magic in _CARRIERS.get(first.name or "", ()):
            if first.data.startswith(magic) and len(self.encode()) >= HEADER_LEN + _MIN_CARRIER:
                return Carried(name, first.data)
        return None


_TIBMSG = ("tibmsg", b"\xce\x13\xaa\x1f")
_QFORM = ("qform", b"\x11\x11\x11\x12")
_CARRIERS = {
    "_TIBMSG": (_TIBMSG,),
    "_RAIMSG": (_TIBMSG,),
    "_QFORM": (_QFORM,),
    "_data_": (_TIBMSG, _QFORM),
}
_MIN_CARRIER = 19
"""The least bytes of fields in a wrapping message."""


quick_field = quick(Field)


def _whole(body: bytes | bytearray, magic: bytes) -> bytes:
    size = HEADER_LEN + len(body)
    if size > 0xFFFFFFFF:
        raise EncodeError(f"a message of {size} bytes is too long")
    return b"".join((size.to_bytes(4, "big"), magic, body))


class _Level:
    """A field with messages in it, while those are being written."""

    __slots__ = ("done", "field", "index", "out", "rest", "walker")

    def __init__(
        self, walker: Iterator[tuple[int, Field]], out: bytearray, index: int, field: Field
    ) -> None:
        self.walker = walker
        self.out = out
        self.index = index
        self.field = field
        self.rest = iter(field.messages)  # of an array, those still to be written
        self.done: list[bytes] = []  # and those already written

    def place(self, error: EncodeError) -> None:
        if self.field.type == FieldType.ARRAY_MSG:
            error.within(f"messages[{len(self.done)}]")
        error.within(f"fields[{self.index}]")


def encode_fields(fields: tuple[Field, ...]) -> bytes:
    """The bytes of a message without its header.

    Raises:
        EncodeError: a field cannot be written; the path is that of the field.
    """
    # A stack instead of recursion: nesting must not reach Python's limit.
    levels: list[_Level] = []
    out, index = bytearray(), 0
    walker: Iterator[tuple[int, Field]] = iter(enumerate(fields))
    try:
        while True:
            for index, item in walker:
                _check(item)
                if item.type not in (FieldType.MESSAGE, FieldType.ARRAY_MSG):
                    _append(out, item, item.data)
                    continue
                if len(levels) >= MAX_DEPTH:
                    raise EncodeError(f"messages nested deeper than {MAX_DEPTH}")
                if item.type == FieldType.MESSAGE:
                    levels.append(_Level(walker, out, index, item))
                    walker, out = iter(enumerate(item.fields)), bytearray()
                    break
                level = _Level(walker, out, index, item)
                first = next(level.rest, None)
                if first is None:
                    _append(out, item, bytes(4))
                    continue
                levels.append(level)
                walker, out = iter(enumerate(first.fields)), bytearray()
                break
            else:
                if not levels:
                    return bytes(out)
                level = levels[-1]
                if level.field.type == FieldType.ARRAY_MSG:
                    level.done.append(_whole(out, MAGIC))
                    following = next(level.rest, None)
                    if following is not None:
                        walker, out = iter(enumerate(following.fields)), bytearray()
                        continue
                    data = b"".join((len(level.done).to_bytes(4, "big"), *level.done))
                else:
                    magic = _MAGIC ^ level.field.form >> Form.MAGIC_SHIFT
                    data = _whole(out, magic.to_bytes(4, "big"))
                levels.pop()
                walker, out, index = level.walker, level.out, level.index
                _append(out, level.field, data)
    except EncodeError as error:
        error.within(f"fields[{index}]")
        for level in reversed(levels):
            level.place(error)
        raise


def _name_bytes(item: Field) -> bytes:
    """The name as it is on the wire, with NUL and fid."""
    if item.name is None:
        if item.fid is not None:
            raise EncodeError("a field id needs a name")
        return b""
    name = text_bytes(item.name)
    if item.fid is not None:
        if not 0 <= item.fid <= 0xFFFF or item.form & Form.NO_NUL:
            raise EncodeError(f"field id {item.fid} does not fit in 2 bytes behind a NUL")
        name += b"\0" + item.fid.to_bytes(2, "big")
    else:
        if not item.form & Form.NO_NUL:
            name += b"\0"
        elif not name or name.endswith(b"\0"):
            raise EncodeError("a name without NUL must have bytes, and not end with one")
        if len(name) > 2 and not name[-3]:
            raise EncodeError(f"the end of {item.name!r} would be read as a field id")
    if len(name) > 255:
        raise EncodeError(f"name of {len(name)} bytes, with NUL and field id; 255 is the most")
    return name


def _check(item: Field) -> None:
    """Check that the parts of a field agree."""
    kind = item.type
    is_message = kind == FieldType.MESSAGE
    if (
        (item.fields and not is_message)
        or (item.messages and kind != FieldType.ARRAY_MSG)
        or (item.data and kind in (FieldType.MESSAGE, FieldType.ARRAY_MSG))
    ):
        raise EncodeError(f"a field of type {kind.name.lower()} has content of another type")
    if item.form < 0 or item.form >> (Form.MAGIC_SHIFT + 32 if is_message else 3):
        raise EncodeError(f"form {item.form:#x} does not suit this field")


def _append(out: bytearray, item: Field, data: bytes) -> None:
    """Append one field whose data is given; SPEC §2.1 says which form of size is canonical."""
    kind, size = item.type, len(data)
    form = item.form & Form.SIZE
    name = _name_bytes(item)
    if kind == FieldType.MESSAGE:
        head = b"\x7a" if not form else b""
    elif kind in LITERAL_SIZED:
        head = bytes((size,)) if size <= 255 and not form else b""
    else:
        head = _size_bytes(form or canonical_size_form(kind, size), size)
    if not head:
        raise EncodeError(f"{size} bytes of data do not fit the size field")
    out.append(len(name))
    out += name
    out.append(kind)
    out += head
    out += data


def _size_bytes(form: int, size: int) -> bytes:
    if form == 1:
        return bytes((size,)) if size <= 255 and size not in (0x79, 0x7A) else b""
    if form == 2:
        return b"\x79" + (size + 2).to_bytes(2, "big") if size <= 0xFFFF - 2 else b""
    return b"\x7a" + (size + 4).to_bytes(4, "big") if size <= 0xFFFFFFFF - 4 else b""
