"""TibMsg: one message, read and written (SPEC §1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.payloads import payloads
from wireloom.formats._tib.problems import check_end, not_canonical
from wireloom.formats.tibmsg.fields import Field, encode_fields, quick_field
from wireloom.formats.tibmsg.types import FieldType, Form, Hint
from wireloom.formats.tibmsg.walk import HEADER, HEADER_LEN, MAGIC, Slot, walk
from wireloom.messages import Json
from wireloom.messages import Message as BaseMessage
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["Message", "decode", "field_at"]


@dataclass(frozen=True, slots=True)
class Message(Lookup[Field], BaseMessage):
    """A TibMsg: fields by name or position, and the version byte that readers ignore."""

    format: ClassVar[str] = "tibmsg"

    fields: tuple[Field, ...] = ()
    version: int = 1

    @property
    def type_name(self) -> str:
        """Always ``TIBMSG``: the format has one kind of message."""
        return "TIBMSG"

    def encode(self) -> bytes:
        """The bytes of the message.

        Raises:
            EncodeError: a field cannot be written; its path says which.
        """
        if not 0 <= self.version <= 255:
            raise EncodeError(f"version {self.version} does not fit in a byte", path="version")
        body = encode_fields(self.fields)
        if len(body) > 0xFFFFFFFF:
            raise EncodeError(f"a body of {len(body)} bytes is too long")
        return b"".join((MAGIC, bytes((self.version,)), len(body).to_bytes(4, "big"), body))

    def to_dict(self) -> Json:
        """The message as a JSON object that `wireloom.from_dict` turns back into an equal one."""
        from wireloom.formats.tibmsg.jsonform import message_to_dict

        return message_to_dict(self)

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        from wireloom.formats.tibmsg.show import outline

        return outline(self.encode())

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """The opaque fields, which may hold a message of another format, with their paths."""
        return payloads(self.fields, FieldType.OPAQUE)


_TYPES = tuple(FieldType(code) if 1 <= code <= 10 else FieldType.MESSAGE for code in range(16))
_UINT_HINTS = tuple(Hint(FieldType.UINT, 1, bytes((n,))) for n in range(256))

# Plain names of this module: enum attributes cost as much as the rest of a field's flags.
_MESSAGE = FieldType.MESSAGE
_OTHER_SIZE, _OTHER_FLAG, _NO_NUL = Form.OTHER_SIZE, Form.OTHER_FLAG, Form.NO_NUL


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS, *, strict: bool = False) -> Message:
    """The TibMsg at the start of `data`; bytes after it are ignored unless `strict`.

    Raises:
        DecodeError: it cannot be read; the path is that of the failing field.
    """
    end = HEADER.body_end(data, limits)
    out: list[Field] = []
    stack: list[tuple[list[Field], Field]] = []
    for slot in walk(data, HEADER_LEN, end, limits):
        if slot is None:
            nested = tuple(out)
            out, field = stack.pop()
            out.append(quick_field(field.name, _MESSAGE, b"", None, nested, field.form))
            continue
        field = field_at(data, slot)
        if field.type is _MESSAGE:
            stack.append((out, field))
            out = []
        else:
            out.append(field)
    message = Message(tuple(out), data[4])
    if strict:
        _check_strict(message, data, end)
    return message


def field_at(data: bytes, slot: Slot) -> Field:
    """The field in a slot; a message without its fields."""
    start, key_at, key, data_at, data_end, hint_key, hint_size, hint_at, end = slot
    form = (key & 0x30) >> 4
    raw = data[start + 1 : key_at]
    if not raw:
        name = None
    elif raw[-1]:
        name = raw.decode("utf-8", "surrogateescape")
        form |= _NO_NUL
    else:
        name = raw[:-1].decode("utf-8", "surrogateescape")
    kind = _TYPES[key & 15]
    if kind is _MESSAGE:
        if not key & 0x80:
            form |= _OTHER_SIZE
        if key & 0x40:
            form |= _OTHER_FLAG
        return quick_field(name, kind, b"", None, (), form)
    if key & 0x80 and data_end - data_at < 256:
        form |= _OTHER_SIZE
    hint = None
    if hint_key >= 0:
        if not key & 0x40:
            form |= _OTHER_FLAG
        if hint_key & 0xF0:
            form |= (hint_key & 0x70) << 2
            if hint_key & 0x80 and hint_size < 256:
                form |= Form.WIDE_HINT
        if hint_key & 15 == 6 and end - hint_at == 1:
            hint = _UINT_HINTS[data[hint_at]]
        else:
            hint = Hint(_TYPES[hint_key & 15], hint_size, data[hint_at:end])
    return quick_field(name, kind, data[data_at:data_end], hint, (), form)


def _check_strict(message: Message, data: bytes, end: int) -> None:
    check_end(data, end)
    if message.version != 1:
        raise DecodeError(
            f"version {message.version} instead of 1",
            offset=4,
            path="version",
            code="not_canonical",
        )
    # The walker again, for the offsets: decoded fields do not carry any.
    levels = [iter(enumerate(message.fields))]
    path: list[int] = []
    for slot in walk(data, HEADER_LEN, end, Limits(max_fields=len(data), max_depth=len(data))):
        if slot is None:
            levels.pop()
            path.pop()
            continue
        index, field = next(levels[-1])
        reason = field.why_not_canonical()
        if reason is not None:
            error = not_canonical(reason, slot[0])
            for i in (index, *reversed(path)):
                error.within(f"fields[{i}]")
            raise error
        if field.type == FieldType.MESSAGE:
            levels.append(iter(enumerate(field.fields)))
            path.append(index)
