"""The cursor that all readers of the reference dialect share."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["END", "Scanner", "to_int"]

END: Final = -1
"""In place of a byte: the end of the text."""

_WHITE: Final = re.compile(rb"[ \t\n\r\f\v]++")
_WORD: Final = re.compile(rb"[^ \t\n\r\f\v;]*+")
_NUMBER: Final = re.compile(rb"[0-9]*+")
_INTEGER: Final = re.compile(rb"-?[0-9]++")
_WORD_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")


class Scanner:
    """A position in a text, with the line and how many tokens of that line were read."""

    __slots__ = ("column", "data", "line", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.line = 1
        self.column = 0

    def significant(self, comment: int) -> int:
        """Skip white space and comments; returns the next byte, or `END`."""
        while True:
            white = _WHITE.match(self.data, self.position)
            if white is not None:
                lines = self.data.count(b"\n", white.start(), white.end())
                if lines:
                    self.line += lines
                    self.column = 0
                self.position = white.end()
            if self.position >= len(self.data):
                return END
            byte = self.data[self.position]
            if byte != comment:
                return byte
            before = self.position
            self.skip_line()
            if self.position == before:
                # A comment sign as the very last byte. The reference never gets past it.
                self.position = len(self.data)

    def skip_line(self) -> None:
        """Step to the line end, or to the last byte of a text that ends without one."""
        if self.position < len(self.data):
            end = self.data.find(b"\n", self.position)
            self.position = len(self.data) - 1 if end < 0 else end

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.position
        self.position += size
        return self.data[start : self.position]

    def word(self) -> bytes:
        """Up to white space or a semicolon, whatever the first byte is."""
        found = _WORD.match(self.data, self.position + 1)
        assert found is not None  # it may be empty
        return self.take(found.end() - self.position)

    def number(self) -> tuple[bytes, bool]:
        """A run of digits, and True; or a word, and False, when a letter follows the digits."""
        found = _NUMBER.match(self.data, self.position + 1)
        assert found is not None  # it may be empty
        end = found.end()
        if end < len(self.data) and self.data[end] in _WORD_BYTES:
            return self.word(), False
        return self.take(end - self.position), True

    def quoted(self) -> bytes | None:
        """The text between quotes, line ends included; None when the quote is not closed."""
        end = self.data.find(b'"', self.position + 1)
        if end < 0:
            return None
        text = self.data[self.position + 1 : end]
        self.position = end + 1
        return text


def to_int(digits: bytes) -> int:
    """The 32-bit number at the start of `digits`, wrapped the way C does it."""
    if len(digits) < 10 and digits.isdigit():
        return int(digits)
    found = _INTEGER.match(digits)
    if found is None:
        return 0
    # What does not fit in 64 bits is capped; 25 digits are enough to tell.
    value = max(-(1 << 63), min(int(found[0][:25]), (1 << 63) - 1))
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
