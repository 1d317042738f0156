"""TibMsg bytes → field slots: the one walker for decoding, outlines and framing (SPEC §1, §2).

A slot says where the parts of a field are; no field object is made here. Every check is against the
end of the *message* that the field is in, never the buffer's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from wireloom.errors import DecodeError, InvalidFieldError, LimitError
from wireloom.formats._tib.headers import Header
from wireloom.formats._tib.problems import MAX_DEPTH, short
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["HEADER", "HEADER_LEN", "MAGIC", "MAX_DEPTH", "Slot", "walk"]

HEADER = Header("TibMsg", 9, b"\xce\x13\xaa\x1f", magic_at=0, size_at=5)
"""Magic, version, u32 size of the body."""
HEADER_LEN, MAGIC = HEADER.length, HEADER.magic

_U32 = struct.Struct(">I")

_MESSAGE, _LAST_TYPE = 1, 10
_SIZED = (8, 9)
"""Array and partial: the hint's size says it all."""
_IS_SCALAR = tuple(code in (2, 3, 4, 5, 6, 7, 10) for code in range(16))

Slot = tuple[int, int, int, int, int, int, int, int, int]
"""start, key_at, key, data_at, data_end, hint_key, hint_size, hint_at, end.

The name is in ``[start + 1, key_at)`` and the data in ``[data_at, data_end)``. Without a hint,
`hint_key` is -1; otherwise its data is in ``[hint_at, end)``, empty for array and partial.
"""


def walk(
    data: bytes | bytearray,
    pos: int,
    end: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    deep: bool = True,
) -> Iterator[Slot | None]:
    """The slots of the fields in ``data[pos:end]``, in order.

    The slot of a nested message is followed by those of its fields and then by None. With `deep`
    false, nested messages are skipped, and there is no None.

    Raises:
        DecodeError: a field cannot be read. Its path is that of the failing field.
    """
    ends: list[int] = []  # of the enclosing messages
    indexes: list[int] = []
    index = 0
    left = limits.max_fields
    max_depth = min(limits.max_depth, MAX_DEPTH)
    try:
        while True:
            if pos == end:
                if not ends:
                    return
                yield None
                end = ends.pop()
                index = indexes.pop() + 1
                continue
            if not left:
                raise LimitError(
                    "field count", limits.max_fields + 1, limits.max_fields, offset=pos
                )
            left -= 1
            start = pos
            key_at = start + 1 + data[start]
            if key_at + 2 > end:
                raise short("name, type and size", start, key_at + 2, end)
            key = data[key_at]
            code = key & 15
            if not 1 <= code <= _LAST_TYPE:
                raise InvalidFieldError(f"undefined field type {code}", offset=key_at, code="type")
            if key & 0x80:
                data_at = key_at + 5
                if data_at > end:
                    raise short("size", key_at, data_at, end)
                data_end = data_at + _U32.unpack_from(data, key_at + 1)[0]
            else:
                data_at = key_at + 2
                data_end = data_at + data[key_at + 1]
            if data_end > end:
                raise short("data", data_at, data_end, end)
            if code == _MESSAGE:  # its 0x40 means nothing
                yield (start, key_at, key, data_at, data_end, -1, 0, data_end, data_end)
                if deep:
                    if len(ends) >= max_depth:
                        raise LimitError("depth", len(ends) + 1, max_depth, offset=start)
                    ends.append(end)
                    indexes.append(index)
                    pos, end, index = data_at, data_end, 0
                else:
                    pos = data_end
                    index += 1
                continue
            if not (key & 0x40 or code in _SIZED):
                pos = data_end
                yield (start, key_at, key, data_at, data_end, -1, 0, pos, pos)
                index += 1
                continue
            hint_at = data_end + 2
            if hint_at > end:
                raise short("hint", data_end, hint_at, end)
            hint_key = data[data_end]
            if not _IS_SCALAR[hint_key & 15]:
                raise InvalidFieldError(
                    f"hint type {hint_key & 15} is not a scalar type", offset=data_end, code="type"
                )
            hint_size = data[data_end + 1]
            if hint_key & 0x80:
                hint_at = data_end + 5
                if hint_at > end:
                    raise short("hint size", data_end, hint_at, end)
                hint_size = _U32.unpack_from(data, data_end + 1)[0]
            # For array and partial the size *is* the hint: no bytes follow.
            pos = hint_at if code in _SIZED else hint_at + hint_size
            if pos > end:
                raise short("hint data", hint_at, pos, end)
            yield (start, key_at, key, data_at, data_end, hint_key, hint_size, hint_at, pos)
            index += 1
    except DecodeError as error:
        for i in (index, *reversed(indexes)):
            error.within(f"fields[{i}]")
        raise
