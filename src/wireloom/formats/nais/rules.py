"""Bytes → frames: where a NAIS frame ends, by its header and LEN alone (SPEC §1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    InvalidFieldError,
    LimitError,
    OptionError,
)
from wireloom.wire import DEFAULT_LIMITS, Reader, varint

__all__ = [
    "DEFAULT_RULES",
    "HEADER_LEN",
    "MAX_LEN_BYTES",
    "MAX_PAYLOAD",
    "MIN_FRAME_LEN",
    "SYNC_END",
    "SYNC_START",
    "LineRules",
    "Refusal",
    "read_len",
    "write_len",
]

SYNC_START = 0x1E
SYNC_END = 0x17
HEADER_LEN = 5
"""Bytes before LEN."""
MIN_FRAME_LEN = 7
MAX_LEN_BYTES = 4
"""The documents set no limit; four bytes carry 256 MiB, far more than any board (SPEC, E3)."""
MAX_PAYLOAD = 1 << 20
"""Bytes of a payload. A board accepts a few hundred; 1 MiB bounds what one bad LEN can hold up."""
_MOST_LEN_BYTES = 10
"""Bytes of a 64-bit number in base 128."""
_RSV_UNUSED = 0xFE
"""Bits of RSV without a meaning; bit 0 has one in firmware (SPEC §1)."""


class Refusal(NamedTuple):
    """Why there is no frame at a position, and how many bytes it took to tell."""

    error: DecodeError
    extent: int


@dataclass(frozen=True, slots=True)
class LineRules:
    """What a line lets pass as a frame."""

    max_payload: int = MAX_PAYLOAD
    max_len_bytes: int = MAX_LEN_BYTES
    strict_rsv: bool = False
    """Refuse RSV with any bit set but bit 0."""
    max_frame: int = DEFAULT_LIMITS.max_frame

    def __post_init__(self) -> None:
        if self.max_payload < 0:
            raise OptionError(f"max_payload must not be negative, not {self.max_payload}")
        if not 1 <= self.max_len_bytes <= _MOST_LEN_BYTES:
            raise OptionError(f"max_len_bytes must be 1 to 10, not {self.max_len_bytes}")

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int | Refusal | None:
        """Bytes of the frame at `pos`, or why there is none, or None if LEN is not complete yet.

        Looks at no more than the header and LEN: its cost does not depend on the frame's size.
        The caller has seen SYNC_START at `pos`, and looks at SYNC_END.
        """
        if end - pos < HEADER_LEN:
            return None
        if self.strict_rsv and data[pos + 4] & _RSV_UNUSED:
            reason = f"reserved bits are set: {data[pos + 4]:#04x}"
            error = InvalidFieldError(reason, offset=pos + 4, path="rsv", code="bad_rsv")
            return Refusal(error, HEADER_LEN)
        at = pos + HEADER_LEN
        stop = at + self.max_len_bytes
        length = shift = 0
        while at < stop:
            if at >= end:
                return None
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        else:
            reason = f"number longer than {self.max_len_bytes} bytes"
            wrong = InvalidFieldError(reason, offset=pos + 5, path="len", code="len_overflow")
            return Refusal(wrong, HEADER_LEN + self.max_len_bytes)
        size = at - pos + length + 1
        if length <= self.max_payload and size <= self.max_frame:
            return size
        return Refusal(self._too_long(pos + HEADER_LEN, length, size), at - pos)

    def _too_long(self, at: int, length: int, size: int) -> LimitError:
        if length > self.max_payload:
            limit = self.max_payload
            return LimitError("payload", length, limit, offset=at, path="len", code="too_long")
        return FrameTooLargeError(size, self.max_frame, offset=at, path="len", code="too_long")


DEFAULT_RULES = LineRules()


def read_len(data: bytes, max_len_bytes: int = MAX_LEN_BYTES) -> tuple[int, int]:
    """The LEN at the start of `data`, and how many bytes it takes.

    Raises:
        DecodeError: it is cut short, or longer than `max_len_bytes`.
    """
    reader = Reader(data)
    return reader.read_varint(max_len_bytes), reader.pos


def write_len(length: int) -> bytes:
    """LEN in as few bytes as possible, at least one.

    Raises:
        EncodeError: it is negative, or needs more than four bytes.
    """
    if length >> 7 * MAX_LEN_BYTES > 0:
        raise EncodeError(f"{length} does not fit in {MAX_LEN_BYTES} bytes of LEN", path="len")
    return varint(length)
