"""TibrvMsg bytes → field slots: the one walker for decoding, outlines and framing (SPEC §1, §2).

A slot says where the parts of a field are; no field object is made here. Every check is against the
end of the *message* that the field is in, never the buffer's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from wireloom.errors import DecodeError, InvalidFieldError, LimitError
from wireloom.formats._tib.headers import Header
from wireloom.formats._tib.problems import MAX_DEPTH, short
from wireloom.formats.tibrv.content import CHECKS, check_plausible
from wireloom.formats.tibrv.types import LITERAL_SIZED, FieldType
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["ELEMENT", "HEADER", "HEADER_LEN", "MAGIC", "MAX_DEPTH", "Slot", "walk"]

HEADER = Header("TibrvMsg", 8, b"\x99\x55\xee\xaa", magic_at=4, size_at=0, is_whole=True)
"""u32 size of the whole message, magic."""
HEADER_LEN, MAGIC = HEADER.length, HEADER.magic

ELEMENT = -1
"""The code in the slot of one message of a message array."""

_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")

_MESSAGE, _ARRAY_MSG = FieldType.MESSAGE.value, FieldType.ARRAY_MSG.value
_LONG = 0x7A
_MARKERS = (0x79, _LONG)

# How the size of each type is encoded; 0: there is no such type.
_LITERAL, _ANY, _OWN = 1, 2, 3
_SIZING = bytearray(256)
for _type in FieldType:
    _SIZING[_type] = _LITERAL if _type in LITERAL_SIZED else _ANY
_SIZING[_MESSAGE] = _OWN

_STRUCTURED = bytes(code == _MESSAGE or code in CHECKS for code in range(256))
"""Types whose content is checked."""

Slot = tuple[int, int, int, int, int]
"""start, type_at, code, data_at, data_end.

The name is in ``[start + 1, type_at)``, the size in ``[type_at + 1, data_at)``, the data in
``[data_at, data_end)``. The data of a message starts with its length, which is also the size.
"""


class _Level:
    """A message or message array around the current message."""

    __slots__ = ("elements", "end", "index", "is_array", "is_open", "position")

    def __init__(self, end: int, index: int, elements: list[tuple[int, int]] | None = None) -> None:
        self.end = end  # of the message that contains the field
        self.index = index  # of the field
        self.elements = iter(elements or ())  # of an array, those still to come
        self.is_array = elements is not None
        self.is_open = not self.is_array  # in a message, not between two elements
        self.position = -1  # of the current element

    def place(self, error: DecodeError) -> None:
        if self.is_array:
            error.within(f"messages[{self.position}]")
        error.within(f"fields[{self.index}]")


def walk(
    data: bytes | bytearray,
    pos: int,
    end: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    document: bool = False,
    deep: bool = True,
) -> Iterator[Slot | None]:
    """The slots of the fields in ``data[pos:end]``, in order.

    The slot of a nested message is followed by those of its fields and then by None. That of a
    message array is followed by its elements, each a slot with the code `ELEMENT`, its fields and
    None, and then by None. With `deep` false the content of a field is not checked.

    Args:
        data: what holds the message.
        pos: where its first field starts.
        end: where it ends.
        limits: fields in all, and depth.
        document: one-byte sizes count themselves, as in the document's own examples (SPEC §6).
        deep: whether to go into messages and check the content of structured types.

    Raises:
        DecodeError: a field cannot be read. Its path is that of the failing field.
    """
    levels: list[_Level] = []
    index = 0
    left = limits.max_fields
    max_depth = min(limits.max_depth, MAX_DEPTH)
    try:
        while True:
            if pos == end:
                if not levels:
                    return
                level = levels[-1]
                if level.is_open:
                    yield None
                element = next(level.elements, None)
                if element is not None:
                    level.is_open = True
                    level.position += 1
                    pos, end = element
                    yield (pos, pos, ELEMENT, pos, end)
                    pos += HEADER_LEN
                    index = 0
                    continue
                if level.is_array:
                    yield None
                levels.pop()
                end, index = level.end, level.index + 1
                continue
            if not left:
                raise LimitError(
                    "field count", limits.max_fields + 1, limits.max_fields, offset=pos
                )
            left -= 1
            start = pos
            type_at = start + 1 + data[start]
            size_at = type_at + 1
            if size_at + 1 > end:
                raise short("name, type and size", start, size_at + 1, end)
            code = data[type_at]
            sizing = _SIZING[code]
            size = data[size_at]
            data_at = size_at + 1
            if sizing == _LITERAL or (sizing == _ANY and size not in _MARKERS):
                data_end = data_at + size - document
            elif not sizing:
                raise InvalidFieldError(f"undefined field type {code}", offset=type_at, code="type")
            elif size == _LONG:
                if size_at + 5 > end:
                    raise short("size", size_at, size_at + 5, end)
                data_end = data_at + _U32.unpack_from(data, data_at)[0]
                if sizing == _ANY:
                    data_at += 4
            elif code != _MESSAGE:
                if size_at + 3 > end:
                    raise short("size", size_at, size_at + 3, end)
                data_end = data_at + _U16.unpack_from(data, data_at)[0]
                data_at += 2
            else:
                raise InvalidFieldError(
                    f"a message has a size of form 7a, not {size:02x}", offset=size_at, code="size"
                )
            if data_end < (data_at + HEADER_LEN if code == _MESSAGE else data_at):
                raise InvalidFieldError("a size below its own bytes", offset=size_at, code="size")
            if data_end > end:
                raise short("data", data_at, data_end, end)
            if document:
                check_plausible(code, data, data_at, data_end)
            if not deep or not _STRUCTURED[code]:
                yield (start, type_at, code, data_at, data_end)
                pos = data_end
                index += 1
                continue
            if code in CHECKS:
                CHECKS[code](data, data_at, data_end)
            yield (start, type_at, code, data_at, data_end)
            if code != _MESSAGE and code != _ARRAY_MSG:
                pos = data_end
                index += 1
                continue
            if len(levels) >= max_depth:
                raise LimitError("depth", len(levels) + 1, max_depth, offset=start)
            if code == _MESSAGE:
                levels.append(_Level(end, index))
                pos, end, index = data_at + HEADER_LEN, data_end, 0
            else:
                elements = _elements(data, data_at, data_end, left)
                left -= len(elements)
                levels.append(_Level(end, index, elements))
                pos = end = data_end
    except DecodeError as error:
        error.within(f"fields[{index}]")
        for level in reversed(levels):
            level.place(error)
        raise


def _elements(data: bytes | bytearray, pos: int, end: int, most: int) -> list[tuple[int, int]]:
    """Where the messages of a message array start and end."""
    count: int = _U32.unpack_from(data, pos)[0]
    if count > most:
        raise LimitError("message count", count, most, offset=pos)
    pos += 4
    elements = []
    for _ in range(count):
        size = 0 if pos + HEADER_LEN > end else _U32.unpack_from(data, pos)[0]
        if not HEADER_LEN <= size <= end - pos or data[pos + 4 : pos + HEADER_LEN] != MAGIC:
            raise _bad("no message that fits the array", pos)
        elements.append((pos, pos + size))
        pos += size
    if pos != end:
        raise _bad("bytes after the last message of the array", pos)
    return elements


def _bad(reason: str, offset: int) -> InvalidFieldError:
    return InvalidFieldError(reason, offset=offset, code="value")
