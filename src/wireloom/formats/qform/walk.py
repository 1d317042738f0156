"""QForm bytes → field slots: the one walker for decoding, outlines and framing (SPEC §1, §2).

A slot says where the parts of a field are; no field object is made here. Every check is against the
end of the *message*, never the buffer's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from wireloom.errors import DecodeError, InvalidFieldError, LimitError
from wireloom.formats._tib.headers import Header
from wireloom.formats._tib.problems import short
from wireloom.formats.qform.dictionary.model import Entry
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = [
    "FID_MASK",
    "HEADER",
    "HEADER_LEN",
    "MAGIC",
    "MAX_SHORT",
    "Slot",
    "walk",
]

HEADER = Header("QForm", 8, b"\x11\x11\x11\x12", magic_at=0, size_at=4)
"""Magic, u32 size of the body."""
HEADER_LEN, MAGIC = HEADER.length, HEADER.magic

FID_MASK = 0x3FFF
"""The id in the two bytes that start a field; the other two bits are flags that readers ignore."""

MAX_SHORT = 0xFFFF
"""Dictionary sizes up to this give a variable field a length of two bytes, larger ones four."""

_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")

Slot = tuple[int, int, Entry, int, int, int, int]
"""start, wire_fid, entry, data_at, data_end, partial_offset, end.

The data lies in ``[data_at, data_end)`` and the pad byte, if there is one, in ``[data_end, end)``.
`partial_offset` is -1 for a field that is not a partial.
"""


def walk(
    data: bytes | bytearray,
    pos: int,
    end: int,
    entries: Mapping[int, Entry],
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Slot]:
    """The slots of the fields in ``data[pos:end]``, in order.

    A fid 0 without an entry is accepted as the last two bytes only. It gives no slot: the last slot
    then ends two bytes before `end`.

    Raises:
        DecodeError: a field cannot be read. Its path is that of the failing field.
    """
    index = 0
    most = limits.max_fields
    find = entries.get
    read_u16 = _U16.unpack_from
    try:
        while pos < end:
            if index == most:
                raise LimitError("field count", most + 1, most, offset=pos)
            if pos + 2 > end:
                raise short("fid", pos, pos + 2, end)
            start = pos
            wire_fid = read_u16(data, pos)[0]
            entry = find(wire_fid & FID_MASK)
            if entry is None:
                if wire_fid & FID_MASK:
                    raise _unknown(wire_fid, start)
                if pos + 2 == end:
                    return
                raise InvalidFieldError(
                    "fid 0 before the last two bytes", offset=start, code="null_fid"
                )
            if entry.tss_type is None:
                raise _form(entry, start)
            if entry.is_partial:
                data_at = pos + 6
                if data_at > end:
                    raise short("partial offset and length", pos, data_at, end)
                offset = read_u16(data, pos + 2)[0]
                size = read_u16(data, pos + 4)[0]
            elif entry.is_fixed:
                offset, data_at, size = -1, pos + 2, entry.size
            elif entry.size <= MAX_SHORT:
                offset, data_at = -1, pos + 4
                if data_at > end:
                    raise short("length", pos, data_at, end)
                size = read_u16(data, pos + 2)[0]
            else:
                offset, data_at = -1, pos + 6
                if data_at > end:
                    raise short("length", pos, data_at, end)
                size = _U32.unpack_from(data, pos + 2)[0]
            data_end = data_at + size
            pos = data_end + (size & 1)  # everything before the data is even
            if pos > end:
                what = "data" if data_end > end else "pad byte"
                raise short(what, start, pos, end)
            yield start, wire_fid, entry, data_at, data_end, offset, pos
            index += 1
    except DecodeError as error:
        error.within(f"fields[{index}]")
        raise


def _unknown(wire_fid: int, offset: int) -> InvalidFieldError:
    return InvalidFieldError(
        f"fid {wire_fid & FID_MASK} is not in the dictionary: its size is not known",
        offset=offset,
        code="unknown_fid",
    )


def _form(entry: Entry, offset: int) -> InvalidFieldError:
    return InvalidFieldError(
        f"fid {entry.fid} is the form {entry.name}, not a field", offset=offset, code="form"
    )
