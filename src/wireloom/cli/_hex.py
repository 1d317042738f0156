"""Hex as people write it: plain, with separators, as a C array or escapes, or as a dump."""

from __future__ import annotations

import ast
import re

__all__ = ["HexError", "parse_hex"]

_DIGITS = re.compile(r"[0-9a-fA-F]+")
_COMMENT = re.compile(r"(?:#|//).*$", re.MULTILINE)
_SEPARATORS = re.compile(r"[\s:;,|_.{}()\[\]<>\"'-]+")
_TOKEN = re.compile(r"(?:0[xX]|\\x)?([0-9a-fA-F]+)")

# `00000010: 6162 63  abc` (xxd, tcpdump), or `00000010  61 62 63  |abc|` (hexdump -C, Wireshark).
_DUMP = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16})(:\s+|\s{2,}|:?\s*$)(.*)")
_PAIRS = re.compile(r"[0-9a-fA-F]{2}(?: [0-9a-fA-F]{2})*")

_MAX_REPEAT = 1 << 24
"""Bytes that a `*` in a dump may stand for."""


class HexError(ValueError):
    """Text that is not hex in a form known here."""


def parse_hex(text: str) -> bytes:
    """The bytes that `text` writes down.

    Raises:
        HexError: it is not hex in a form known here; the message says why.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    dump = _parse_dump(lines)
    return _parse_plain(text) if dump is None else dump


def _parse_plain(text: str) -> bytes:
    text = _COMMENT.sub("", text).strip()
    if text[:2] in ("b'", 'b"'):
        return _parse_literal(text)
    digits = []
    for word in _SEPARATORS.split(text.replace("\\x", " \\x").replace("0x", " 0x")):
        match = _TOKEN.fullmatch(word)
        if match:
            # One digit behind a prefix, as in `0x1, 0x2`, is a whole byte.
            digit = match[1]
            digits.append(digit.zfill(2) if word != digit and len(digit) == 1 else digit)
        elif word:
            raise HexError(f"{word[:20]!r} is not hex")
    joined = "".join(digits)
    if not joined:
        raise HexError("there are no hex digits")
    if len(joined) % 2:
        raise HexError(f"the number of hex digits ({len(joined)}) is odd")
    return bytes.fromhex(joined)


def _parse_literal(text: str) -> bytes:
    """The bytes of a Python literal, where letters stand for themselves."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    if not isinstance(value, bytes):
        raise HexError("it is not a bytes literal")
    return value


def _parse_dump(lines: list[str]) -> bytes | None:
    """The bytes of a dump; None when the lines are not one."""
    out = bytearray()
    first: int | None = None
    row = b""
    repeated = False
    for line in lines:
        if line.strip() == "*" and row:
            repeated = True  # hexdump's mark for "the same row again, up to the next offset"
            continue
        match = _DUMP.fullmatch(line)
        digits = None if match is None else _row_digits(match[2], match[3])
        if match is None or digits is None:
            return None
        offset = int(match[1], 16)
        if first is None:
            if match[2].isspace() and offset % 8:
                return None  # plain hex with two spaces somewhere, as in `0003  7f`
            first = offset
        missing = offset - first - len(out)
        if repeated and 0 <= missing <= _MAX_REPEAT and missing % len(row) == 0:
            out += row * (missing // len(row))
            missing = 0
        # What tells a dump from plain hex: offsets that continue where the row before ended.
        if missing:
            return None
        repeated = False
        row = bytes.fromhex(digits)
        out += row
    return bytes(out) or None


def _row_digits(mark: str, rest: str) -> str | None:
    """The hex digits of one row, without the column of characters; None if it is not such a row."""
    if mark.startswith(":"):
        digits = re.split(r"\s{2,}", rest)[0]
    elif bars := re.search(r"\s\|.*\|\s*$", rest):
        digits = rest[: bars.start()]
    else:
        # Pairs of digits only, in one or two groups of eight: plain hex often has two spaces too.
        parts = re.split(r"\s{2,}", rest.rstrip())
        pairs = [part for part in parts[:2] if _PAIRS.fullmatch(part)]
        digits = " ".join(pairs if len(parts[0]) == 23 else pairs[:1])
        if rest and not digits:
            return None
    digits = digits.replace(" ", "")
    return digits if len(digits) % 2 == 0 and (not digits or _DIGITS.fullmatch(digits)) else None
