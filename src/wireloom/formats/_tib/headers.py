"""Bytes → frames: the header that starts a message, and how it cuts a stream into messages.

All three formats have a magic and a length of four bytes each; they differ in where these are and
in what the length counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from wireloom.errors import DecodeError, FrameTooLargeError, TruncatedError
from wireloom.wire import Limits

__all__ = ["Header", "HeaderRules"]

_U32 = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Header:
    """Where magic and length are."""

    title: str
    """The format, for errors."""
    length: int
    """Bytes of the header."""
    magic: bytes
    magic_at: int
    size_at: int
    is_whole: bool = False
    """Whether the size counts the header too."""

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the message whose header starts at `pos`.

        Raises:
            TruncatedError: the header is not complete.
            DecodeError: it is not such a header (code ``magic`` or ``length``).
        """
        available = end - pos
        magic_at = pos + self.magic_at
        magic = self.magic[: max(0, available - self.magic_at)]
        if data[magic_at : magic_at + len(magic)] != magic:
            raise DecodeError(f"no {self.title} magic", offset=magic_at, code="magic")
        if available < self.length:
            raise TruncatedError(needed=self.length, available=available, offset=pos)
        size: int = _U32.unpack_from(data, pos + self.size_at)[0]
        if not self.is_whole:
            return self.length + size
        if size < self.length:
            raise DecodeError(
                f"length {size} is below that of the header", offset=pos, code="length"
            )
        return size

    def body_end(self, data: bytes, limits: Limits) -> int:
        """Where the message at the start of `data` ends.

        Raises:
            DecodeError: there is no whole message, or it is over the limit.
        """
        size = self.measure(data, 0, len(data))
        if size > limits.max_frame:
            raise FrameTooLargeError(size, limits.max_frame)
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        return size

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The next position of a magic, even one cut off by the end; `end` if there is none."""
        magic, magic_at = self.magic, self.magic_at
        found = data.find(magic, pos + magic_at, end)
        if found >= 0:
            return found - magic_at
        for start in range(max(pos, end - magic_at - len(magic) + 1), end):
            part = data[start + magic_at : end]
            if part == magic[: len(part)]:
                return start
        return end

    def detect(self, data: bytes) -> int:
        """Sure if the magic is there and the length fits, less so if bytes are missing."""
        if data[self.magic_at : self.magic_at + len(self.magic)] != self.magic:
            return 0
        if len(data) < self.length:
            return 80
        try:
            size = self.measure(data, 0, len(data))
        except DecodeError:  # an impossible length
            return 40
        return 99 if size == len(data) else 97 if size < len(data) else 90


class HeaderRules:
    """The header part of `wireloom.framing.FrameRules`; each format has its own `check`."""

    header: ClassVar[Header]
    has_magic = True

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the message whose header starts at `pos`.

        Raises:
            TruncatedError: the header is not complete.
            DecodeError: it is not such a header.
        """
        return self.header.measure(data, pos, end)

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The next position of a magic, even one cut off by the end; `end` if there is none."""
        return self.header.find(data, pos, end)
