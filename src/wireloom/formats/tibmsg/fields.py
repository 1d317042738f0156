"""One TibMsg field: what the wire says, and what it means (SPEC §2, §3)."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wireloom.errors import EncodeError
from wireloom.formats._tib.decimals import Scaled, scale
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.quick import quick
from wireloom.formats._tib.scalars import (
    SCALARS,
    Kind,
    Scalar,
    read,
    text_bytes,
    text_of,
    why_not_usual,
)
from wireloom.formats._tib.texts import parse_date, parse_time
from wireloom.formats._tib.values import Date, EnumNumber, EnumText, Time
from wireloom.formats.tibmsg.types import FieldType, Form, Hint
from wireloom.formats.tibmsg.walk import MAX_DEPTH

__all__ = ["Field", "Value", "encode_fields", "quick_field"]

Value = Any
"""A typed value: str, bytes, bool, int, float, IPv4Address, Decimal, BLANK, Date, Time, EnumNumber,
EnumText, a tuple of elements, or a tuple of fields."""


_DATES = (256, 258)
_TIMES = (257, 259, 260)
_ENUM = 261

_CODES = {
    (FieldType.INT, 1): "b",
    (FieldType.INT, 2): "h",
    (FieldType.INT, 4): "i",
    (FieldType.INT, 8): "q",
    (FieldType.UINT, 1): "B",
    (FieldType.UINT, 2): "H",
    (FieldType.UINT, 4): "I",
    (FieldType.UINT, 8): "Q",
    (FieldType.REAL, 4): "f",
    (FieldType.REAL, 8): "d",
}


@dataclass(frozen=True, slots=True)
class Field(Lookup["Field"]):
    """One field, as on the wire. `value` is the typed view of it."""

    name: str | None
    """None if it has none. Bytes that are not UTF-8 are lone surrogates (``surrogateescape``)."""
    type: FieldType
    data: bytes = b""
    """The data bytes, without size and hint; empty for a message, which has `fields`."""
    hint: Hint | None = None
    fields: tuple[Field, ...] = ()
    """The fields of a nested message."""
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
        hint: int | Hint | None = None,
    ) -> Field:
        """A field for a Python value, with the type and hint that suit the value.

        Args:
            name: its name.
            value: see `Value`; also `datetime.date` and `time`, a list (array), and a mapping or a
                sequence of fields (message).
            type: if it is not the obvious one, such as `FieldType.UINT` for a number.
            size: bytes of a number, or of one array element.
            hint: instead of the value's own.

        Raises:
            EncodeError: there is no way to write this value.
        """
        # The writing half is imported when used: it needs this class.
        from wireloom.formats.tibmsg.build import make

        return make(name, value, type, size, hint)

    @classmethod
    def array(
        cls,
        name: str | None,
        values: Sequence[Scalar],
        element_type: FieldType | None = None,
        element_size: int | None = None,
    ) -> Field:
        """An array; text elements are NUL-padded to the element size.

        Raises:
            EncodeError: the elements are not of one type, or do not fit.
        """
        from wireloom.formats.tibmsg.build import array

        return array(name, values, element_type, element_size)

    @classmethod
    def partial(cls, name: str | None, data: bytes | str, offset: int) -> Field:
        """A patch: `data` replaces what is at `offset` in the field of that name.

        Raises:
            EncodeError: the offset is not a u32.
        """
        if not 0 <= offset < 1 << 32:
            raise EncodeError(f"partial offset {offset} does not fit in 4 unsigned bytes")
        raw = text_bytes(data) if isinstance(data, str) else bytes(data)
        return cls(name, FieldType.PARTIAL, raw, Hint(FieldType.UINT, offset))

    @property
    def size(self) -> int:
        """Bytes of data on the wire; of a message, those of its fields."""
        if self.type == FieldType.MESSAGE:
            return len(encode_fields(self.fields))
        return len(self.data)

    @property
    def hint_number(self) -> int | None:
        """The hint as a number; None if there is none, or it is not a number."""
        hint = self.hint
        return None if hint is None or self.type in (8, 9) else hint.number

    @property
    def partial_offset(self) -> int | None:
        """Where a partial's data goes; None for other types."""
        return self.hint.size if self.hint and self.type == FieldType.PARTIAL else None

    @property
    def element_type(self) -> FieldType | None:
        """The type of an array's elements; None for other types."""
        return self.hint.type if self.hint and self.type == FieldType.ARRAY else None

    @property
    def element_size(self) -> int | None:
        """Bytes of one array element; None for other types."""
        return self.hint.size if self.hint and self.type == FieldType.ARRAY else None

    @property
    def elements(self) -> tuple[Scalar, ...]:
        """The elements of an array, without leftover bytes; empty for other types."""
        kind, size = self.element_type, self.element_size
        if not kind or not size:
            return ()
        data = self.data
        count = len(data) // size
        code = _CODES.get((kind, size))
        if code:
            return struct.unpack_from(f">{count}{code}", data)
        return tuple(read(kind, data[i : i + size]) for i in range(0, count * size, size))

    @property
    def wire_value(self) -> Scalar | tuple[Any, ...]:
        """The value by wire type alone, without the hint's meaning."""
        if self.type == FieldType.MESSAGE:
            return self.fields
        if self.type == FieldType.ARRAY:
            return self.elements
        return self.data if self.type == FieldType.PARTIAL else read(self.type, self.data)

    @property
    def scaled(self) -> Scaled | None:
        """A decimal as (significand, unit); None if it is not a real with a decimal hint."""
        if self.type != FieldType.REAL:
            return None
        number, real = self.hint_number, read(Kind.REAL, self.data)
        if number is None or not isinstance(real, float):
            return None
        return scale(real, number, single=len(self.data) == 4)

    @property
    def value(self) -> Value:
        """The typed value. Text that does not parse as the date or time it should be stays text."""
        return self.typed()

    def typed(self, today: dt.date | None = None) -> Value:
        """The typed value; `today` gives the year to the two date spellings that have none."""
        hint, kind = self.hint_number, self.type
        if hint is None:
            return self.wire_value
        if kind == FieldType.REAL:
            scaled = self.scaled
            return read(kind, self.data) if scaled is None else scaled.value
        if kind == FieldType.STRING:
            text = text_of(self.data)
            if hint == _ENUM:
                return EnumText(text)
            found: Date | Time | None = None
            if hint in _DATES:
                found = parse_date(text, today)
            elif hint in _TIMES:
                found = parse_time(text)
            return text if found is None else found
        value = self.wire_value
        if hint == _ENUM and kind in (FieldType.INT, FieldType.UINT) and isinstance(value, int):
            return EnumNumber(value)
        return value

    @property
    def is_unparsed(self) -> bool:
        """Whether the hint promises a date or time and the text is neither."""
        return (
            self.type == FieldType.STRING
            and self.hint_number in (*_DATES, *_TIMES)
            and isinstance(self.value, str)
        )

    def why_not_canonical(self) -> str | None:
        """How it differs from what a writer would emit; None if it does not."""
        if self.form:
            return f"a form that writers do not use ({self.form:#x})"
        kind, size = self.type, len(self.data)
        reason = why_not_usual(kind, self.data)
        if reason is not None:
            return reason
        if kind == FieldType.ARRAY:
            element = self.element_size
            return None if element and not size % element else "an array with bytes left over"
        if kind == FieldType.PARTIAL:
            typed = self.hint is not None and self.hint.type == FieldType.UINT
            return None if typed else "a partial offset that is not a uint"
        if self.hint is not None and self.hint.number is None:
            return "a hint that is not a number"
        return None


quick_field = quick(Field)

_Level = tuple[Iterator[tuple[int, Field]], bytearray, int, Field]


def encode_fields(fields: tuple[Field, ...]) -> bytes:
    """The bytes of a message's body.

    Raises:
        EncodeError: a field cannot be written; the path is that of the field.
    """
    # A stack instead of recursion: nesting must not reach Python's limit.
    stack: list[_Level] = []
    out, index = bytearray(), 0
    walker: Iterator[tuple[int, Field]] = iter(enumerate(fields))
    try:
        while True:
            for index, field in walker:
                if field.type == FieldType.MESSAGE:
                    if len(stack) >= MAX_DEPTH:
                        raise EncodeError(f"messages nested deeper than {MAX_DEPTH}")
                    stack.append((walker, out, index, field))
                    walker, out = iter(enumerate(field.fields)), bytearray()
                    break
                _append(out, field, field.data)
            else:
                if not stack:
                    return bytes(out)
                body = out
                walker, out, index, field = stack.pop()
                _append(out, field, body)
    except EncodeError as error:
        for i in (index, *(level[2] for level in reversed(stack))):
            error.within(f"fields[{i}]")
        raise


def _append(out: bytearray, field: Field, data: bytes | bytearray) -> None:
    """Append one field whose data is given; SPEC §2 says which form is the canonical one."""
    kind, form, hint, size = field.type, field.form, field.hint, len(data)
    is_message = kind == FieldType.MESSAGE
    if field.name is None:
        name = b""
    else:
        name = text_bytes(field.name)
        if not form & Form.NO_NUL:
            name += b"\0"
    if len(name) > 255:
        raise EncodeError(f"name of {len(name)} bytes, with its NUL; 255 is the most")
    wide = (is_message or size > 255) != bool(form & Form.OTHER_SIZE)
    if size > (0xFFFFFFFF if wide else 255):
        raise EncodeError(f"{size} bytes of data do not fit the size field")
    if kind in (FieldType.ARRAY, FieldType.PARTIAL):
        flagged = not form & Form.OTHER_FLAG
    else:
        flagged = bool(form & Form.OTHER_FLAG) if is_message else hint is not None
    if (reason := _misfit(field, name)) is not None:
        raise EncodeError(reason)
    out.append(len(name))
    out += name
    out.append(kind | (form & Form.KEY_BITS) << 4 | flagged << 6 | wide << 7)
    out += size.to_bytes(4 if wide else 1, "big")
    out += data
    if hint is None:
        return
    wide = hint.size > 255 or bool(form & Form.WIDE_HINT)
    out.append(hint.type | (form & Form.HINT_BITS) >> 2 | wide << 7)
    try:
        out += hint.size.to_bytes(4 if wide else 1, "big")
    except OverflowError as error:
        raise EncodeError(f"hint size {hint.size} does not fit in 4 unsigned bytes") from error
    out += hint.data


_SIZED = (FieldType.ARRAY, FieldType.PARTIAL)


def _misfit(field: Field, name: bytes) -> str | None:
    """Why the parts of a field contradict each other; None if they do not."""
    kind, form, hint = field.type, field.form, field.hint
    if form and (
        form & ~Form.ALL
        or (form & (Form.WIDE_HINT | Form.HINT_BITS) and hint is None)
        or (form & Form.OTHER_FLAG and kind not in (FieldType.MESSAGE, *_SIZED))
        or (form & Form.NO_NUL and (not name or name.endswith(b"\0")))
    ):
        return f"form {form:#x} does not suit this field"
    if kind == FieldType.MESSAGE:
        return "a message has fields, no data and no hint" if field.data or hint else None
    if field.fields:
        return f"a field of type {kind.name.lower()} has no fields"
    if hint is None:
        return f"a field of type {kind.name.lower()} needs a hint" if kind in _SIZED else None
    if hint.type not in SCALARS:
        return f"hint type {hint.type} is not a scalar type"
    if len(hint.data) != (0 if kind in _SIZED else hint.size):
        return f"hint of size {hint.size} with {len(hint.data)} bytes"
    return None
