"""Messages → rows, one object at a time: what the tables `messages` and `fields` hold, readably.

The compiled path gives the same rows (they are tested against these) and comes here for the few
messages that it does not read itself. A row is a dict of the table's columns after the key, with
`path`; values are in Python's types, times of day in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from ipaddress import IPv4Address
from typing import Any, Final

from wireloom.codec import message_codecs
from wireloom.columns import Columns, Row, failure_row
from wireloom.errors import DecodeError
from wireloom.format import COMMON_OPTIONS, Format
from wireloom.formats import get, names
from wireloom.formats._tib.fieldrows import decimal_row, text_row, value_row
from wireloom.formats._tib.scalars import is_utf8, text_bytes
from wireloom.layout import Packet
from wireloom.messages import Message
from wireloom.nesting import MAX_BYTES, MAX_DEPTH, _Walk
from wireloom.options import by_format

__all__ = [
    "MAX_PATH",
    "FrameRows",
    "field_row",
    "field_types",
    "frame_rows",
    "join_path",
    "message_formats",
    "payload_rows",
    "shown",
    "walked_formats",
]

MAX_PATH: Final = 1000
"""Longest path in bytes; a longer one ends with an ellipsis, or nested names would multiply."""

_ELLIPSIS = "…"


def walked_formats() -> tuple[str, ...]:
    """The formats that the kernel has a walker for; the index is the format's number in the kernel.

    Raises:
        AssertionError: the formats' numbers are not 0, 1, 2, ….
    """
    return _walked(tuple(map(get, names())))


@cache  # every decoder asks several times
def _walked(known: tuple[Format, ...]) -> tuple[str, ...]:
    numbered = {each.columns().walker: each.name for each in known}
    found = sorted(number for number in numbered if number is not None)
    assert found == list(range(len(found)))
    return tuple(numbered[number] for number in found)


def message_formats() -> tuple[str, ...]:
    """All message formats: those with a walker in the kernel, then the others."""
    known = tuple(map(get, names()))
    walked = _walked(known)
    others = (each.name for each in known if each.kind == "message")
    return (*walked, *(name for name in others if name not in walked))


@dataclass(slots=True)
class FrameRows:
    """The rows of one frame: its message, the messages inside it, and what is unreadable in it."""

    messages: list[Row] = field(default_factory=list)
    fields: list[Row] = field(default_factory=list)
    owners: list[int | None] = field(default_factory=list)
    """For each field, the index of its message; None if that message is nested in a field."""
    errors: list[Row] = field(default_factory=list)


def shown(text: str) -> str:
    r"""A name as the tables show it: bytes that are not UTF-8 as ``\xNN``.

    >>> shown("BID\udce9")
    'BID\\xe9'
    """
    return (
        text
        if text.isascii() or is_utf8(text)
        else text_bytes(text).decode("utf-8", "backslashreplace")
    )


def join_path(path: str, step: str, dot: str = ".") -> str:
    """A path with one more step; one that gets too long ends with an ellipsis.

    >>> join_path("body", "image"), join_path("data", "[1]", "")
    ('body.image', 'data[1]')
    """
    joined = path + dot + step if path else step
    if len(text_bytes(joined)) <= MAX_PATH:
        return joined
    return path if path.endswith(_ELLIPSIS) else path + _ELLIPSIS


def frame_rows(
    data: bytes, format: str, *, nested: bool = True, path: str = "", **options: Any
) -> FrameRows:
    """The rows of the message at the start of `data`.

    Args:
        data: one frame.
        format: its format, one of `message_formats()`.
        nested: whether messages in payloads get rows too.
        path: where it lies in its frame.
        options: as for `wireloom.decode`, spelled as in `wireloom.options`.

    Raises:
        DecodeError: it cannot be read.
        OptionError: an option that no message format has.
    """
    chosen = get(format)
    common = {option.name for option in COMMON_OPTIONS}
    shared = {name: value for name, value in options.items() if name in common}
    own = {name: value for name, value in options.items() if name not in common}
    given = shared | by_format(own, [get(name) for name in message_formats()]).get(format, {})
    limits, strict, rest = chosen.check_options(given)
    message = chosen.decode(data, limits=limits, strict=strict, **rest)
    rows = _Rows(options, nested)
    rows.read([(message, path)], 0)
    return rows.found


def payload_rows(data: bytes, *, path: str = "", **options: Any) -> FrameRows:
    """The rows of the messages that fill a transport's payload, if any do.

    Raises:
        OptionError: an option that no message format has.
    """
    rows = _Rows(options, nested=True)
    rows.read(rows.inside(data, path, 1), 1)
    return rows.found


class _Level:
    """A message whose fields are being visited: one with a row, or one nested in a field."""

    __slots__ = (
        "columns",
        "depth",
        "enclosing",
        "fields",
        "message",
        "number",
        "path",
        "row",
        "seen",
    )

    def __init__(
        self, columns: Columns, fields: Sequence[Any], path: str, enclosing: int, depth: int
    ) -> None:
        self.columns = columns  # of its format
        self.fields: Iterator[tuple[int, Any]] = iter(enumerate(fields))
        self.path = path
        self.enclosing = enclosing  # messages around this one
        self.depth = depth  # levels inside its own message
        self.seen: set[str] = set()  # field names so far
        self.row: Row = {}  # the row of its message
        self.number = 0  # the number of that row
        self.message: Message | None = None  # set where a message starts


class _Rows:
    """Collects the rows of one frame."""

    def __init__(self, options: Mapping[str, Any], nested: bool) -> None:
        self.found = FrameRows()
        self._walk = _Walk(message_codecs(options), MAX_DEPTH, MAX_BYTES, self._unreadable)
        self._is_nested = nested
        self._left = next(
            codec.limits.max_frame for codec in self._walk.codecs.values()
        )  # bytes of xml that may still be unpacked

    def _unreadable(self, _: object) -> None:
        raise AssertionError("reading is done here")

    def inside(self, data: bytes, path: str, depth: int) -> list[tuple[Message, str]]:
        """The messages that fill a payload, with their paths; none if one cannot be read."""
        codec = self._walk.recognise(data)
        if codec is None:
            return []
        try:
            messages = self._walk.read(codec, data, depth)
        except DecodeError as error:
            why = failure_row("message", codec.format.name, error, data, None)
            self.found.errors.append({"path": shown(path)} | why)
            return []
        if len(messages) == 1:
            return [(messages[0], path)]
        return [(each, join_path(path, f"[{i}]", "")) for i, each in enumerate(messages)]

    def read(self, messages: list[tuple[Message, str]], enclosing: int) -> None:
        """Append the rows of messages, and of all messages inside them."""
        # A stack instead of recursion: nesting must not reach Python's limit.
        stack = [_opened(message, path, enclosing) for message, path in reversed(messages)]
        while stack:
            level = stack[-1]
            if level.message is not None:
                self._open(level)
            index, item = next(level.fields, (-1, None))
            if item is None:
                stack.pop()
                continue
            step = _step(item.name, index, level.seen)
            row = {"path": shown(level.path), "position": index, **field_row(item, level.columns)}
            unpack = level.columns.unpacker(item)
            if unpack is not None:
                row |= self._unpacked(item.data, unpack)
            self.found.fields.append(row)
            self.found.owners.append(None if level.depth else level.number)
            stack += reversed(self._below(level, item, step))

    def _open(self, level: _Level) -> None:
        message = level.message
        level.message = None
        assert message is not None
        level.row = {
            "path": shown(level.path),
            "format": message.format,
            "dialect": level.columns.dialect_of(message),
            "field_count": len(_fields(message)),
            "depth": 0,
        }
        level.number = len(self.found.messages)
        self.found.messages.append(level.row)

    def _below(self, level: _Level, item: Any, step: str) -> list[_Level]:
        """Visit what is inside a field."""
        path = join_path(level.path, step)
        nested = level.columns.nested(item)
        if nested is None and (inner := _inner(item)) is not None:
            nested = [("", inner)]
        if nested is not None:
            level.row["depth"] = max(level.row["depth"], level.depth + 1)
            below = []
            for suffix, fields in nested:
                within = join_path(path, suffix) if suffix else path
                deeper = _Level(level.columns, fields, within, level.enclosing, level.depth + 1)
                deeper.row = level.row
                below.append(deeper)
            return below
        data = level.columns.payload_of(item)
        if not data or not self._is_nested:
            return []
        found = self.inside(data, path, level.enclosing + 1)
        return [_opened(message, where, level.enclosing + 1) for message, where in found]

    def _unpacked(self, data: bytes, unpack: Callable[[int], str]) -> Row:
        """The text of a packed field, unless all texts of the frame together exceed `max_frame`.

        Some kilobytes of zlib can hold megabytes, and a message has many fields.
        """
        try:
            text = unpack(self._left)
        except DecodeError:
            return {"value_binary": data}
        self._left -= len(text_bytes(text))
        return text_row(text)


def _opened(message: Message, path: str, enclosing: int) -> _Level:
    level = _Level(get(message.format).columns(), _fields(message), path, enclosing, 0)
    level.message = message
    return level


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A part of a declared packet, as a field."""

    name: str
    value: Any


def _fields(message: Any) -> tuple[Any, ...]:
    """The fields of a message; of a declared packet its attributes."""
    if isinstance(message, Packet):
        return tuple(_Attribute(name, getattr(message, name)) for name in message.codec.attributes)
    return tuple(message.fields)


def _step(name: str | None, index: int, seen: set[str]) -> str:
    """What a field is called in a path; same rule as `wireloom.formats._tib.payloads`."""
    step = name if name and name not in seen else f"fields[{index}]"
    seen.add(step)
    return step


def _inner(item: Any) -> tuple[Any, ...] | None:
    """The fields of a message that is a field's value, where its format does not say."""
    if isinstance(item.value, Message):
        return _fields(item.value)
    found = getattr(item, "fields", None)
    return tuple(found) if found is not None and item.value is None else None


# --- one field ------------------------------------------------------------------------------------


def field_types() -> tuple[str, ...]:
    """The names that the type column may have, sorted."""
    return _field_types(message_formats())


_MOST_TYPES: Final = 127
"""How many types the type column can number."""


@cache
def _field_types(formats: tuple[str, ...]) -> tuple[str, ...]:
    slots = (get(name).columns().type_slots() for name in formats)
    found = {name for each in slots for name in each.values()}
    others = [name for name in formats if get(name).columns().walker is None]
    for name in (each.name.lower() for other in others for each in get(other).types()):
        if len(found) < _MOST_TYPES:
            found.add(name)
    return tuple(sorted(found))


def field_row(item: Any, columns: Columns) -> Row:
    """The columns of one field, from `name` on; a packed field has no value.

    Args:
        item: has a `name` and a `value`, and may have a `type`, a `size` and `fields`.
        columns: of its format.
    """
    row: Row = dict.fromkeys(_COLUMNS)
    row["name"] = None if item.name is None else shown(item.name)
    own = columns.field_row(item)
    if own is None:
        return row | _other(item)
    return row | {"type": item.type.name.lower(), "size": item.size, "is_blank": False} | own


_COLUMNS = (
    "name",
    "fid",
    "type",
    "size",
    "value_int",
    "value_real",
    "value_decimal",
    "value_text",
    "value_binary",
    "value_date",
    "value_time",
    "value_ts_ns",
    "is_blank",
    "hint",
    "partial_offset",
)


def _other(item: Any) -> Row:
    """A field whose format says no more: the type of its value decides the column."""
    value = item.value
    is_message = _inner(item) is not None
    kind = getattr(item, "type", None)
    type = "" if kind is None else str(getattr(kind, "name", kind)).lower()
    if type not in field_types():
        found = next((name for cls, name in _KINDS if isinstance(value, cls)), "string")
        type = "message" if is_message else found
    size = getattr(item, "size", None)
    if not isinstance(size, int):
        size = len(text_bytes(value) if isinstance(value, str) else value) if _has_len(value) else 0
    row: Row = {"type": type, "size": size, "is_blank": False}
    if is_message:
        return row
    if value is None:
        return row | {"is_blank": True}
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        since = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return row | {"value_ts_ns": (since // timedelta(microseconds=1)) * 1000}
    if isinstance(value, date):
        return row | {"value_text": value.isoformat(), "value_date": value}
    if isinstance(value, Decimal):
        return row | decimal_row(value)
    if isinstance(value, int | float | bytes | IPv4Address):
        return row | value_row(value, value, None)
    return row | text_row(str(value))


def _has_len(value: Any) -> bool:
    return isinstance(value, str | bytes)


_KINDS: Final = (
    (bool, "boolean"),
    (int, "int"),
    (float, "real"),
    (bytes, "opaque"),
)
