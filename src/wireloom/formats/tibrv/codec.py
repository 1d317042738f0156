"""TibrvMsg bytes → messages, in the standard dialect or the document's (SPEC §1, §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from wireloom.errors import DecodeError
from wireloom.formats._tib.problems import check_end, not_canonical
from wireloom.formats.tibrv.message import Dialect, Field, Message, quick_field
from wireloom.formats.tibrv.types import LITERAL_SIZED, FieldType, Form, canonical_size_form
from wireloom.formats.tibrv.walk import ELEMENT, HEADER, HEADER_LEN, MAGIC, Slot, walk
from wireloom.messages import Message as BaseMessage
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["DIALECTS", "DialectOption", "Unwrap", "decode", "field_at", "unwrapped"]

DialectOption = Literal["auto", "standard", "document"]
DIALECTS: tuple[DialectOption, ...] = ("auto", "standard", "document")

Unwrap = Callable[[str, bytes], BaseMessage]
"""Decodes a carried message, given the name of its format and its bytes."""

_TYPES = {code.value: code for code in FieldType}
# Plain names of this module: enum attributes cost as much as the rest of a field's flags.
_MESSAGE, _ARRAY_MSG = FieldType.MESSAGE, FieldType.ARRAY_MSG
_MESSAGE_CODE, _ARRAY_MSG_CODE = _MESSAGE.value, _ARRAY_MSG.value
_NO_NUL = Form.NO_NUL
_LITERAL = frozenset(code.value for code in LITERAL_SIZED)
_MAGIC = int.from_bytes(MAGIC, "big")
_SIZE_FORMS = {1: 1, 3: 2, 5: 3}
"""Bytes of the size → `Form.SIZE`."""


def decode(
    data: bytes,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = False,
    dialect: DialectOption = "auto",
) -> Message:
    """The TibrvMsg at the start of `data`; bytes after it are ignored unless `strict`.

    Args:
        data: one whole message.
        limits: bounds that are checked before anything is allocated.
        strict: reject trailing bytes, forms that writers do not use, and the document's dialect
            unless it is asked for by name.
        dialect: ``auto`` reads the document's dialect only where the standard one does not fit.

    Raises:
        DecodeError: it cannot be read; the path is that of the failing field.
    """
    end = HEADER.body_end(data, limits)
    if dialect == "document":
        message = _decode(data, end, limits, "document")
    else:
        try:
            message = _decode(data, end, limits, "standard")
        except DecodeError as error:
            other = None if strict or dialect == "standard" else _try_document(data, end, limits)
            if other is None:
                raise error
            message = other
    if strict:
        _check_strict(message, data, end)
    return message


def _try_document(data: bytes, end: int, limits: Limits) -> Message | None:
    try:
        return _decode(data, end, limits, "document")
    except DecodeError:
        return None


def _decode(data: bytes, end: int, limits: Limits, dialect: Dialect) -> Message:
    is_document = dialect == "document"
    out: list[Field] = []
    messages: list[Message] = []
    # For each enclosing message or message array: the lists and field to return to.
    stack: list[tuple[list[Field], list[Message], Field | None]] = []
    for slot in walk(data, HEADER_LEN, end, limits, document=is_document):
        if slot is None:
            fields, elements = tuple(out), messages
            out, messages, field = stack.pop()
            if field is None:  # the end of an element
                messages.append(Message(fields, dialect))
            else:
                found = tuple(elements)
                if field.type is _ARRAY_MSG:
                    fields = ()
                out.append(
                    quick_field(field.name, field.type, b"", field.fid, fields, found, field.form)
                )
        elif slot[2] == ELEMENT:
            stack.append((out, messages, None))
            out = []
        else:
            field = field_at(data, slot, is_document)
            if field.type is _MESSAGE or field.type is _ARRAY_MSG:
                stack.append((out, messages, field))
                out, messages = [], []
            else:
                out.append(field)
    return Message(tuple(out), dialect)


def field_at(data: bytes, slot: Slot, is_document: bool) -> Field:
    """The field in a slot; a message or message array without its contents."""
    start, type_at, code, data_at, data_end = slot
    raw = data[start + 1 : type_at]
    form, fid = 0, None
    if not raw:
        name = None
    elif len(raw) > 2 and not raw[-3]:
        name = raw[:-3].decode("utf-8", "surrogateescape")
        fid = raw[-2] << 8 | raw[-1]
    elif raw[-1]:
        name = raw.decode("utf-8", "surrogateescape")
        form = _NO_NUL
    else:
        name = raw[:-1].decode("utf-8", "surrogateescape")
    if code in _LITERAL:
        return quick_field(name, _TYPES[code], data[data_at:data_end], fid, (), (), form)
    if code == _MESSAGE_CODE:
        magic = int.from_bytes(data[data_at + 4 : data_at + 8], "big")
        return quick_field(
            name, _MESSAGE, b"", fid, (), (), form | (magic ^ _MAGIC) << Form.MAGIC_SHIFT
        )
    size_form = _SIZE_FORMS[data_at - type_at - 1]
    if size_form != canonical_size_form(code, data_end - data_at) and not is_document:
        form |= size_form
    held = b"" if code == _ARRAY_MSG_CODE else data[data_at:data_end]
    return quick_field(name, _TYPES[code], held, fid, (), (), form)


def _check_strict(message: Message, data: bytes, end: int) -> None:
    check_end(data, end)
    # The walker again, for the offsets: decoded fields do not carry any.
    is_document = message.dialect == "document"
    every = Limits(max_fields=len(data), max_depth=len(data))
    path: list[str] = []
    walkers = [iter(enumerate(message.fields))]
    elements: list[Iterator[tuple[int, Message]]] = [iter(())]
    for slot in walk(data, HEADER_LEN, end, every, document=is_document):
        if slot is None:
            path.pop()
            walkers.pop()
            elements.pop()
            continue
        if slot[2] == ELEMENT:
            index, element = next(elements[-1])
            path.append(f"messages[{index}]")
            walkers.append(iter(enumerate(element.fields)))
            elements.append(iter(()))
            continue
        index, field = next(walkers[-1])
        reason = field.why_not_canonical()
        if reason is not None:
            error = not_canonical(reason, slot[0])
            for step in (f"fields[{index}]", *reversed(path)):
                error.within(step)
            raise error
        if field.type in (FieldType.MESSAGE, FieldType.ARRAY_MSG):
            path.append(f"fields[{index}]")
            walkers.append(iter(enumerate(field.fields)))
            elements.append(iter(enumerate(field.messages)))


def unwrapped(message: Message, decode_carried: Unwrap) -> BaseMessage:
    """The message that `message` only carries, decoded; itself if it carries none.

    Raises:
        DecodeError: the carried message cannot be read.
    """
    carried = message.carried()
    if carried is None:
        return message
    try:
        return decode_carried(carried.format, carried.data)
    except DecodeError as error:
        error.within("fields[0]")
        raise
