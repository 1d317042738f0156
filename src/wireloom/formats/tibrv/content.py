"""The data of TibrvMsg's structured types: subject, datetime, string array, xml (SPEC §3)."""

from __future__ import annotations

import datetime as dt
import struct
import zlib
from collections.abc import Callable, Mapping

from wireloom.errors import DecodeError, EncodeError, InvalidFieldError, LimitError
from wireloom.formats._tib.scalars import INT_SIZES, text_bytes
from wireloom.formats.tibrv.types import ARRAY_CODES, FieldType
from wireloom.wire import DEFAULT_LIMITS

__all__ = [
    "CHECKS",
    "MAX_XML",
    "check_plausible",
    "datetime_data",
    "datetime_text",
    "modest_xml",
    "read_datetime",
    "read_strings",
    "read_subject",
    "read_xml",
    "subject_data",
    "xml_data",
]

MAX_XML = DEFAULT_LIMITS.max_frame
"""Bytes that the text of an xml field may have: a few kilobytes of zlib can hold megabytes."""

_U16, _U32, _U32X2 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">II")

Data = bytes | bytearray


def _bad(reason: str, offset: int) -> InvalidFieldError:
    return InvalidFieldError(reason, offset=offset, code="value")


def check_subject(data: Data, pos: int, end: int) -> None:
    """Check that segments fill the data exactly.

    Raises:
        InvalidFieldError: they do not.
    """
    if pos == end:
        raise _bad("a subject without a count of segments", pos)
    left = data[pos]
    pos += 1
    while left:
        stop = pos + data[pos] if pos < end else end + 1
        if stop > end or stop < pos + 2 or data[stop - 1]:
            raise _bad("a subject's segment that does not fit or has no NUL", pos)
        pos = stop
        left -= 1
    if pos != end:
        raise _bad("bytes after the last segment of a subject", pos)


def read_subject(data: bytes) -> str:
    """The segments of checked data, joined with dots."""
    parts, pos = [], 1
    while pos < len(data):
        stop = pos + data[pos]
        parts.append(data[pos + 1 : stop - 1])
        pos = stop
    return b".".join(parts).decode("utf-8", "surrogateescape")


def subject_data(subject: str) -> bytes:
    """The data of a subject.

    Raises:
        EncodeError: a segment is empty, too long, or has a NUL; or there are more than 255.
    """
    parts = text_bytes(subject).split(b".")
    if len(parts) > 255:
        raise EncodeError(f"a subject of {len(parts)} segments; 255 is the most")
    if not all(1 <= len(part) <= 253 and 0 not in part for part in parts):
        raise EncodeError(f"{subject!r} has an empty or long segment, or a NUL")
    return bytes((len(parts),)) + b"".join(bytes((len(part) + 2,)) + part + b"\0" for part in parts)


def check_strings(data: Data, pos: int, end: int) -> None:
    """Check that a string array holds as many strings as it says, and nothing else.

    Raises:
        InvalidFieldError: it does not.
    """
    if end - pos < 4:
        raise _bad("a string array without a count", pos)
    count = _U32.unpack_from(data, pos)[0]
    first = pos + 4
    if data.count(0, first, end) != count or (end > first and data[end - 1]):
        raise _bad("the strings do not fill the array exactly", first)


def read_strings(data: bytes) -> tuple[str, ...]:
    """The strings of a checked string array."""
    parts = data[4:].split(b"\0")
    return tuple(part.decode("utf-8", "surrogateescape") for part in parts[:-1])


def check_messages(data: Data, pos: int, end: int) -> None:
    """Check that a message array has a count; the walker checks its elements.

    Raises:
        InvalidFieldError: it has none.
    """
    if end - pos < 4:
        raise _bad("a message array without a count", pos)


def check_xml(data: Data, pos: int, end: int) -> None:
    """Check that an xml field starts with a length; the rest is unpacked only on request.

    Raises:
        InvalidFieldError: it does not.
    """
    _xml_length(data, pos, end)


def _xml_length(data: Data, pos: int, end: int) -> tuple[int, int]:
    """The length of the text, and where the zlib stream starts."""
    first = data[pos] if pos < end else 0
    start = pos + {0x79: 3, 0x7A: 5}.get(first, 1)
    if start > end:
        raise _bad("an xml field without its length", pos)
    if first == 0x79:
        length = _U16.unpack_from(data, pos + 1)[0] - 2
    elif first == 0x7A:
        length = _U32.unpack_from(data, pos + 1)[0] - 4
    else:
        length = first
    if length < 0:
        raise _bad("an xml length below its own bytes", pos)
    return length, start


def read_xml(data: bytes, max_size: int = MAX_XML) -> str:
    """The text of an xml field.

    Raises:
        LimitError: it says that it is longer than `max_size`.
        DecodeError: it is not a zlib stream of the stated length.
    """
    length, start = _xml_length(data, 0, len(data))
    if length > max_size:
        raise LimitError("xml size", length, max_size)
    inflater = zlib.decompressobj()
    try:
        # One byte more than stated shows a text that is too long, and no more is unpacked.
        text = inflater.decompress(data[start:], length + 1)
    except zlib.error as error:
        raise DecodeError(f"xml: {error}", offset=start, code="value") from error
    if len(text) != length or not inflater.eof:
        raise _bad(f"the xml is not the {length} bytes that it states", start)
    return text.decode("utf-8", "surrogateescape")


def modest_xml(data: bytes) -> str | None:
    """The text of an xml field for views that show all fields; None if it cannot be unpacked.

    Also None for a text far longer than its stream, so that a small hostile message cannot produce
    a huge view. Markup shrinks to a fifth or a tenth.
    """
    try:
        return read_xml(data, 16 * len(data) + 1024)
    except DecodeError:
        return None


def xml_data(text: str) -> bytes:
    """The data of an xml field.

    Raises:
        EncodeError: the text is too long.
    """
    raw = text_bytes(text)
    if len(raw) < 120:
        prefix = bytes((len(raw),))
    elif len(raw) < 30_000:
        prefix = b"\x79" + _U16.pack(len(raw) + 2)
    elif len(raw) <= MAX_XML:
        prefix = b"\x7a" + _U32.pack(len(raw) + 4)
    else:
        raise EncodeError(f"an xml of {len(raw)} bytes; {MAX_XML} is the most")
    return prefix + zlib.compress(raw)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def read_datetime(data: bytes) -> dt.datetime | bytes:
    """The time in eight bytes; data of another size is its own value."""
    if len(data) != 8:
        return data
    sec, usec = _U32X2.unpack(data)
    return _EPOCH + dt.timedelta(seconds=sec, microseconds=usec)


def datetime_data(value: dt.datetime) -> bytes:
    """The data of a datetime.

    Raises:
        EncodeError: it has no time zone, or is not between 1970 and 2106.
    """
    if value.utcoffset() is None:
        raise EncodeError(f"{value} has no time zone")
    since = value - _EPOCH
    try:
        return _U32X2.pack(since.days * 86_400 + since.seconds, since.microseconds)
    except struct.error as error:
        raise EncodeError(f"{value} is not between 1970 and 2106") from error


def datetime_text(value: dt.datetime) -> str:
    """The time as the vectors spell it, in nanoseconds."""
    return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond:06d}000Z"


CHECKS: Mapping[int, Callable[[Data, int, int], None]] = {
    FieldType.SUBJECT: check_subject,
    FieldType.XML: check_xml,
    FieldType.ARRAY_STR: check_strings,
    FieldType.ARRAY_MSG: check_messages,
}
"""What the walker checks before a field is made, by type."""

_SIZES: Mapping[int, tuple[int, ...]] = {
    FieldType.DATETIME: (8,),
    FieldType.BOOLEAN: INT_SIZES,
    FieldType.IPDATA: (2, 4),
    FieldType.INT: INT_SIZES,
    FieldType.UINT: INT_SIZES,
    FieldType.REAL: (4, 8),
}

_ELEMENTS: Mapping[int, int] = {code: size for code, (_, size, _) in ARRAY_CODES.items()}
"""Element sizes of the numeric arrays."""


def check_plausible(code: int, data: Data, pos: int, end: int) -> None:
    """Check that the data fits the document's reading of its size (SPEC §6).

    Raises:
        InvalidFieldError: an impossible size, or a string that does not end with its NUL.
    """
    size = end - pos
    sizes = _SIZES.get(code)
    element = _ELEMENTS.get(code)
    if (
        (sizes and size not in sizes)
        or (element and size % element)
        or (code == FieldType.STRING and (not size or data[end - 1]))
    ):
        raise InvalidFieldError(
            f"{FieldType(code).name.lower()} of {size} bytes in the document's sizes",
            offset=pos,
            code="size",
        )
