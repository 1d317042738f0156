"""Bytes: the bounds-checked cursor that decoders read with, its writing twin, and their limits.

Every read states how many bytes it needs and raises `TruncatedError` when the *structure* it works
in (not just the buffer) ends first: a hostile length can never reach past its own message.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from wireloom.errors import DecodeError, EncodeError, TruncatedError

__all__ = ["DEFAULT_LIMITS", "Buffer", "Limits", "Reader", "Writer", "as_bytes", "varint"]

Buffer = bytes | bytearray | memoryview
"""What every public function accepts; they hand out `bytes`."""

_U16, _U32, _U64 = (struct.Struct(">" + c) for c in "HIQ")
_U16LE, _U32LE, _U64LE = (struct.Struct("<" + c) for c in "HIQ")
_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one message may ask for; checked before anything is allocated."""

    max_frame: int = 16 << 20
    """Bytes of one frame. Market-data images reach 100 KB; opaque payloads may be larger."""
    max_depth: int = 32
    """Nested messages. Real traffic nests two or three; Python's own stack would end near 1000."""
    max_fields: int = 65_536
    """Fields of one message, nested ones included. A SASS dictionary as a message has 16,384."""


DEFAULT_LIMITS = Limits()


def as_bytes(data: Buffer) -> bytes:
    """The same bytes, immutable; no copy when they already are.

    Raises:
        TypeError: `data` is not bytes-like.
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")


class Reader:
    """A cursor over ``data[pos:end]``; offsets in errors are those of `data`."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    @property
    def remaining(self) -> int:
        """Bytes left before the end of this structure."""
        return self.end - self.pos

    def advance(self, size: int) -> int:
        """Step over `size` bytes and give the offset where they start.

        Raises:
            TruncatedError: fewer are left.
        """
        start = self.pos
        if size > self.end - start:
            raise TruncatedError(needed=size, available=self.end - start, offset=start)
        self.pos = start + size
        return start

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            TruncatedError: fewer are left.
        """
        start = self.advance(size)
        return self.data[start : start + size]

    def limited(self, size: int) -> Reader:
        """A reader over the next `size` bytes, which this one steps over.

        Raises:
            TruncatedError: fewer are left.
        """
        start = self.advance(size)
        return Reader(self.data, start, start + size)

    def read_u8(self) -> int:
        """One byte."""
        return self.data[self.advance(1)]

    def read_u16(self) -> int:
        """Two bytes, big-endian."""
        value: int = _U16.unpack_from(self.data, self.advance(2))[0]
        return value

    def read_u32(self) -> int:
        """Four bytes, big-endian."""
        value: int = _U32.unpack_from(self.data, self.advance(4))[0]
        return value

    def read_u64(self) -> int:
        """Eight bytes, big-endian."""
        value: int = _U64.unpack_from(self.data, self.advance(8))[0]
        return value

    def read_u16le(self) -> int:
        """Two bytes, little-endian."""
        value: int = _U16LE.unpack_from(self.data, self.advance(2))[0]
        return value

    def read_u32le(self) -> int:
        """Four bytes, little-endian."""
        value: int = _U32LE.unpack_from(self.data, self.advance(4))[0]
        return value

    def read_u64le(self) -> int:
        """Eight bytes, little-endian."""
        value: int = _U64LE.unpack_from(self.data, self.advance(8))[0]
        return value

    def read_f32(self) -> float:
        """IEEE 754 single, big-endian."""
        value: float = _F32.unpack_from(self.data, self.advance(4))[0]
        return value

    def read_f64(self) -> float:
        """IEEE 754 double, big-endian."""
        value: float = _F64.unpack_from(self.data, self.advance(8))[0]
        return value

    def read_varint(self, max_bytes: int) -> int:
        """A base-128 number, least significant group first, at most `max_bytes` long.

        Raises:
            TruncatedError: the data ends inside it.
            DecodeError: it goes on after `max_bytes` (code ``len_overflow``).
        """
        start, value = self.pos, 0
        for count in range(max_bytes):
            byte = self.read_u8()
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                return value
        raise DecodeError(
            f"number longer than {max_bytes} bytes", offset=start, code="len_overflow"
        )


def varint(value: int) -> bytes:
    """`value` in base 128, least significant group first, in as few bytes as possible.

    Raises:
        EncodeError: `value` is negative.
    """
    if value < 0:
        raise EncodeError(f"{value} is negative")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Writer:
    """Collects the bytes of one message; ranges are checked, `struct.error` never escapes."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()

    def __len__(self) -> int:
        return len(self.out)

    def write(self, data: bytes) -> None:
        """Append bytes as they are."""
        self.out += data

    def _uint(self, value: int, size: int, order: Literal["big", "little"]) -> None:
        try:
            self.out += value.to_bytes(size, order)
        except (OverflowError, AttributeError, TypeError) as error:
            raise EncodeError(f"{value!r} does not fit in {size} unsigned bytes") from error

    def write_u8(self, value: int) -> None:
        """Append one byte."""
        self._uint(value, 1, "big")

    def write_u16(self, value: int) -> None:
        """Append two bytes, big-endian."""
        self._uint(value, 2, "big")

    def write_u32(self, value: int) -> None:
        """Append four bytes, big-endian."""
        self._uint(value, 4, "big")

    def write_u16le(self, value: int) -> None:
        """Append two bytes, little-endian."""
        self._uint(value, 2, "little")

    def write_u32le(self, value: int) -> None:
        """Append four bytes, little-endian."""
        self._uint(value, 4, "little")

    def getvalue(self) -> bytes:
        """Everything written so far."""
        return bytes(self.out)
