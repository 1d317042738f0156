"""Messages → rows, one object at a time: what the tables `messages` and `fields` hold, readably.

The compiled path gives the same rows (they are tested against these) and comes here for the few
messages that it does not read itself. A row is a dict of the table's columns after the key, with
`path`; values are in Python's types, times of day in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from ipaddress import IPv4Address
from typing import Any, Final

from wireloom.codec import message_codecs
from wireloom.errors import DecodeError
from wireloom.formats import get, names
from wireloom.formats._tib.decimals import Scaled
from wireloom.formats._tib.scalars import is_utf8, text_bytes
from wireloom.formats._tib.values import Date, Time
from wireloom.formats.qform import Field as QformField
from wireloom.formats.qform import Message as QformMessage
from wireloom.formats.qform.dictionary import TssType
from wireloom.formats.tibmsg import Field as TibMsgField
from wireloom.formats.tibmsg import FieldType as TibMsgType
from wireloom.formats.tibmsg import Message as TibMsgMessage
from wireloom.formats.tibrv import Field as TibrvField
from wireloom.formats.tibrv import FieldType as TibrvType
from wireloom.formats.tibrv import Message as TibrvMessage
from wireloom.layout import Packet
from wireloom.messages import Message
from wireloom.nesting import MAX_BYTES, MAX_DEPTH, _Walk
from wireloom.tables import DECIMAL_SCALE

__all__ = [
    "MAX_PATH",
    "MESSAGE_FORMATS",
    "FrameRows",
    "field_row",
    "field_types",
    "frame_rows",
    "join_path",
    "message_formats",
    "payload_rows",
    "shown",
]

Row = dict[str, Any]

MESSAGE_FORMATS: Final = ("qform", "tibmsg", "tibrv")
"""The formats that the kernel has a walker for; a position here is the format's number there."""

MAX_PATH: Final = 1000
"""Bytes of a path; what goes deeper ends with an ellipsis. Else names in names would multiply."""

_ELLIPSIS = "…"
_LIMIT = Decimal(10) ** (38 - DECIMAL_SCALE)


# Messages of other formats are asked for `fields`; each has a `name` and a `value`, and may have a
# `type`, a `size` and `fields` of its own.
AnyField = TibMsgField | TibrvField | QformField | Any
AnyMessage = TibMsgMessage | TibrvMessage | QformMessage | Message


def message_formats() -> tuple[str, ...]:
    """All formats of messages: those with a walker in the kernel, then the others."""
    others = (name for name in names() if get(name).kind == "message")
    return (*MESSAGE_FORMATS, *(name for name in others if name not in MESSAGE_FORMATS))


@dataclass(slots=True)
class FrameRows:
    """The rows of one frame: its message, those carried inside, and what inside is unreadable."""

    messages: list[Row] = field(default_factory=list)
    fields: list[Row] = field(default_factory=list)
    owners: list[int | None] = field(default_factory=list)
    """For each field, which message it is a field of; None if of one nested in a field."""
    errors: list[Row] = field(default_factory=list)


def shown(text: str) -> str:
    r"""A name as the tables show it: bytes that are not UTF-8 as ``\xNN``.

    >>> shown("BID\udce9")
    'BID\\xe9'
    """
    return text if is_utf8(text) else text_bytes(text).decode("utf-8", "backslashreplace")


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
        options: as for `wireloom.decode`.

    Raises:
        DecodeError: it cannot be read.
        OptionError: an option that no format of messages has.
    """
    chosen = get(format)
    own = {option.name for option in chosen.options} | {"strict", "max_frame", "max_depth"}
    given = {key: value for key, value in options.items() if key in own | {"max_fields"}}
    limits, strict, rest = chosen.check_options(given)
    message = chosen.decode(data, limits=limits, strict=strict, **rest)
    rows = _Rows(options, nested)
    rows.read([(message, path)], 0)
    return rows.found


def payload_rows(data: bytes, *, path: str = "", **options: Any) -> FrameRows:
    """The rows of the messages that fill a transport's payload, if any do.

    Raises:
        OptionError: an option that no format of messages has.
    """
    rows = _Rows(options, nested=True)
    rows.read(rows.inside(data, path, 1), 1)
    return rows.found


class _Level:
    """A message while its fields are gone through: its own, or one nested in a field."""

    __slots__ = ("carried", "depth", "fields", "message", "number", "path", "row", "seen")

    def __init__(self, fields: tuple[AnyField, ...], path: str, carried: int, depth: int) -> None:
        self.fields: Iterator[tuple[int, AnyField]] = iter(enumerate(fields))
        self.path = path
        self.carried = carried  # messages around this one
        self.depth = depth  # levels inside its own message
        self.seen: set[str] = set()  # names of the fields so far
        self.row: Row = {}  # its message's
        self.number = 0  # of that row
        self.message: AnyMessage | None = None  # set where a message starts


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
        """The messages that fill a payload, with their paths; none where there is an error."""
        codec = self._walk.recognise(data)
        if codec is None:
            return []
        try:
            messages = self._walk.read(codec, data, depth)
        except DecodeError as error:
            self.found.errors.append(
                {
                    "path": shown(path),
                    "layer": "message",
                    "format": codec.format.name,
                    "code": error.code,
                    "reason": error.reason,
                    "at": None,
                    "field": error.path,
                    "raw": data,
                }
            )
            return []
        if len(messages) == 1:
            return [(messages[0], path)]
        return [(each, join_path(path, f"[{i}]", "")) for i, each in enumerate(messages)]

    def read(self, messages: list[tuple[Message, str]], carried: int) -> None:
        """Append the rows of messages, and of all that lie in them."""
        # A stack instead of recursion: nesting must not reach Python's limit.
        stack = [_opened(message, path, carried) for message, path in reversed(messages)]
        while stack:
            level = stack[-1]
            if level.message is not None:
                self._open(level)
            index, item = next(level.fields, (-1, None))
            if item is None:
                stack.pop()
                continue
            step = _step(item.name, index, level.seen)
            row = {"path": shown(level.path), "position": index, **field_row(item)}
            if isinstance(item, TibrvField) and item.type == TibrvType.XML:
                row |= self._unpacked(item)
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
            "dialect": message.dialect if isinstance(message, TibrvMessage) else None,
            "field_count": len(_fields(message)),
            "depth": 0,
        }
        level.number = len(self.found.messages)
        self.found.messages.append(level.row)

    def _below(self, level: _Level, item: AnyField, step: str) -> list[_Level]:
        """What lies in a field."""
        path = join_path(level.path, step)
        nested = _nested(item)
        if nested is not None:
            level.row["depth"] = max(level.row["depth"], level.depth + 1)
            below = []
            for suffix, fields in nested:
                inner = join_path(path, suffix) if suffix else path
                deeper = _Level(fields, inner, level.carried, level.depth + 1)
                deeper.row = level.row
                below.append(deeper)
            return below
        data = _payload(item)
        if not data or not self._is_nested:
            return []
        found = self.inside(data, path, level.carried + 1)
        return [_opened(message, where, level.carried + 1) for message, where in found]

    def _unpacked(self, item: TibrvField) -> Row:
        """The text of an xml field, as long as all of the frame are not larger than a frame may be.

        Some kilobytes of zlib can hold megabytes, and a message has many fields.
        """
        try:
            text = item.document(self._left)
        except DecodeError:
            return {"value_binary": item.data}
        self._left -= len(text_bytes(text))
        return _text(text)


def _opened(message: Message, path: str, carried: int) -> _Level:
    level = _Level(_fields(message), path, carried, 0)
    level.message = message
    return level


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A part of a declared packet, as a field."""

    name: str
    value: Any


def _fields(message: Any) -> tuple[AnyField, ...]:
    """The fields of a message; of a declared packet its attributes."""
    if isinstance(message, Packet):
        return tuple(_Attribute(name, getattr(message, name)) for name in message.codec.attributes)
    return tuple(message.fields)


def _step(name: str | None, index: int, seen: set[str]) -> str:
    """What a field is called in a path; as `wireloom.formats._tib.payloads` does it."""
    step = name if name and name not in seen else f"fields[{index}]"
    seen.add(step)
    return step


def _nested(item: AnyField) -> list[tuple[str, tuple[AnyField, ...]]] | None:
    """The nested messages of a field with what follows its step in the path; None if it is none."""
    if isinstance(item, QformField):
        return None
    if isinstance(item, TibMsgField):
        return [("", item.fields)] if item.type == TibMsgType.MESSAGE else None
    if not isinstance(item, TibrvField):
        inner = _inner(item)
        return None if inner is None else [("", inner)]
    if item.type == TibrvType.ARRAY_MSG:
        return [(f"messages[{i}]", each.fields) for i, each in enumerate(item.messages)]
    return [("", item.fields)] if item.type == TibrvType.MESSAGE else None


def _inner(item: Any) -> tuple[AnyField, ...] | None:
    """The fields of a message that is a field's value, in a format without a walker."""
    if isinstance(item.value, Message):
        return _fields(item.value)
    found = getattr(item, "fields", None)
    return tuple(found) if found is not None and item.value is None else None


def _payload(item: AnyField) -> bytes:
    """The bytes of a field that may hold a message of another format."""
    if not isinstance(item, QformField | TibMsgField | TibrvField):
        return item.value if isinstance(item.value, bytes) else b""
    if isinstance(item, QformField):
        is_opaque = item.entry.tss_type is TssType.OPAQUE and not item.entry.is_partial
    elif isinstance(item, TibMsgField):
        is_opaque = item.type == TibMsgType.OPAQUE
    else:
        is_opaque = item.type == TibrvType.OPAQUE
    return item.data if is_opaque else b""


# --- one field ------------------------------------------------------------------------------------


def field_types() -> tuple[str, ...]:
    """The names that the type column may have, sorted."""
    return _field_types(message_formats())


_MOST_TYPES: Final = 127
"""What the type column can number."""


@cache
def _field_types(formats: tuple[str, ...]) -> tuple[str, ...]:
    scalars = (code for code in TibMsgType if code.name not in ("MESSAGE", "ARRAY", "PARTIAL"))
    found = {code.name.lower() for code in TibMsgType} - {"array"}
    found |= {f"array_{code.name.lower()}" for code in scalars}
    found |= {code.name.lower() for code in TibrvType} | {code.name.lower() for code in TssType}
    others = [name for name in formats if name not in MESSAGE_FORMATS]
    for name in (each.name.lower() for other in others for each in get(other).types()):
        if len(found) < _MOST_TYPES:
            found.add(name)
    return tuple(sorted(found))


def field_row(item: AnyField) -> Row:
    """The columns of one field, from `name` on; an xml is not unpacked, and has no value."""
    row: Row = dict.fromkeys(_COLUMNS)
    row["name"] = None if item.name is None else shown(item.name)
    if not isinstance(item, TibMsgField | TibrvField | QformField):
        return row | _other(item)
    row["type"] = item.type.name.lower()
    row["size"] = item.size
    row["is_blank"] = False
    if isinstance(item, TibMsgField):
        row |= _tibmsg(item)
    elif isinstance(item, TibrvField):
        row |= _tibrv(item)
    else:
        row |= _qform(item)
    return row


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


def _tibmsg(item: TibMsgField) -> Row:
    kind = item.type
    if kind == TibMsgType.MESSAGE:
        return {}
    if kind == TibMsgType.ARRAY:
        assert item.element_type is not None
        return {
            "type": f"array_{item.element_type.name.lower()}",
            "hint": item.element_size,
            "value_binary": item.data,
        }
    if kind == TibMsgType.PARTIAL:
        return {"partial_offset": item.partial_offset} | _bytes_text(item.data)
    hint = item.hint_number
    row: Row = {"hint": hint} if hint is not None and _fits(hint) else {}
    return row | _values(item.wire_value, item.value, item.scaled)


def _tibrv(item: TibrvField) -> Row:
    kind = item.type
    row: Row = {"fid": item.fid}
    if kind in (TibrvType.MESSAGE, TibrvType.ARRAY_MSG, TibrvType.XML):
        return row
    if kind.name.startswith("ARRAY"):
        return row | {"value_binary": item.data}
    parts = item.time_parts
    if parts is not None:
        return row | {"value_ts_ns": parts[0] * 10**9 + parts[1] * 1000}
    return row | _values(item.value, item.value, None)


def _qform(item: QformField) -> Row:
    row: Row = {"fid": item.fid, "partial_offset": item.partial_offset, "hint": item.hint}
    if item.partial_offset is not None:
        return row | (_bytes_text(item.data) if item.type is TssType.STRING else _binary(item.data))
    return row | _values(item.wire_value, item.value, item.scaled)


def _other(item: Any) -> Row:
    """A field of a format without a walker: its value's own type says which column it is in."""
    value = item.value
    kind = getattr(item, "type", None)
    type = str(getattr(kind, "name", kind)).lower()
    if type not in field_types():
        type = next((name for cls, name in _KINDS if isinstance(value, cls)), "string")
    size = getattr(item, "size", None)
    if not isinstance(size, int):
        size = len(text_bytes(value) if isinstance(value, str) else value) if _has_len(value) else 0
    row: Row = {"type": type, "size": size, "is_blank": False}
    if _inner(item) is not None:
        return row | {"type": type if kind is not None else "message"}
    if value is None:
        return row | {"is_blank": True}
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        since = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return row | {"value_ts_ns": (since // timedelta(microseconds=1)) * 1000}
    if isinstance(value, date):
        return row | {"value_text": value.isoformat(), "value_date": value}
    if isinstance(value, Decimal):
        return row | _decimal(value)
    if isinstance(value, int | float | bytes | IPv4Address):
        return row | _values(value, value, None)
    return row | _text(str(value))


def _has_len(value: Any) -> bool:
    return isinstance(value, str | bytes)


_KINDS: Final = (
    (bool, "boolean"),
    (int, "int"),
    (float, "real"),
    (bytes, "opaque"),
    (Message, "message"),
)


def _values(wire: Any, value: Any, scaled: Scaled | None) -> Row:
    """The value columns, of what the wire has, what it means, and its decimal if it is one."""
    if isinstance(wire, bytes):
        return {"value_binary": wire}
    if isinstance(wire, IPv4Address):
        return {"value_text": str(wire)}
    if isinstance(wire, float):
        if scaled is not None and scaled == Scaled(0, 0):
            return {"is_blank": True}
        return {"value_real": wire} | ({} if scaled is None else _decimal(scaled.value))
    if isinstance(wire, int):
        return {"value_int": int(wire)} if _fits(wire) else _decimal(Decimal(wire))
    row = _text(wire)
    if isinstance(value, Date | Time) and value.is_null:
        return row | {"is_blank": True}
    if isinstance(value, Date):
        return row | {"value_date": value.to_date()}
    if isinstance(value, Time) and value.hour < 24 and value.second < 60:
        return row | {"value_time": value.day_ns}
    return row


def _fits(value: int) -> bool:
    """Whether a column of signed 64-bit numbers can hold it."""
    return -(1 << 63) <= value < 1 << 63


def _decimal(value: Any) -> Row:
    """A decimal, if the column can hold it as it is."""
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value) >= _LIMIT:
        return {}
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    return {"value_decimal": value} if exponent >= -DECIMAL_SCALE else {}


def _text(text: str) -> Row:
    return {"value_text": str(text)} if is_utf8(text) else {"value_binary": text_bytes(text)}


def _binary(data: bytes) -> Row:
    return {"value_binary": data}


def _bytes_text(data: bytes) -> Row:
    try:
        return {"value_text": data.decode()}
    except UnicodeDecodeError:
        return _binary(data)
