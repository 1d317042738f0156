"""`enumtype.def` in the reference dialect, and what its lookups then find."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from wireloom.formats.qform.dictionary.model import Problem
from wireloom.formats.qform.dictionary.rdm_model import EnumTable, EnumTables
from wireloom.formats.qform.dictionary.reference.scanner import END, Scanner, to_int
from wireloom.formats.qform.dictionary.source import Source, decode_text

__all__ = ["found_displays", "is_dense", "scan_enumtype"]

_HEX: Final = re.compile(rb"#[0-9A-Fa-f]*+#")
_HEX_DIGITS: Final = b"0123456789abcdef"


def scan_enumtype(source: Source) -> EnumTables:
    """What the reference reads; at an error it keeps the tables before it and stops."""
    scanner = Scanner(source.data)
    tables: list[EnumTable] = []
    acronyms: list[tuple[str, int]] = []
    rows: list[tuple[int, bytes]] = []
    hexed: set[int] = set()
    problems: tuple[Problem, ...] = ()
    word: bytes | None = None
    number: int | None = None
    for token, kind in _tokens(scanner):
        is_error = kind == "error" or (word if kind == "word" else number) is not None
        if scanner.column == 1 and kind == "word" and rows:
            tables.append(EnumTable(tuple(acronyms), tuple(rows), frozenset(hexed)))
            acronyms, rows, hexed = [], [], set()
        if kind == "word":
            word = token
        else:
            number = to_int(token) % (1 << 32)
        if word is not None and number is not None and not is_error:
            if kind == "number":
                acronyms.append((decode_text(word), number))
            elif acronyms:
                rows.append((number, _unhexed(word)))
                if rows[-1][1] != word:
                    hexed.add(number)
            else:
                is_error = True
            word = number = None
        if is_error:
            reason = f"unexpected {decode_text(token[:40])!r}"
            problems = (Problem(reason, source.name, scanner.line, is_error=True),)
            break
    else:
        if rows:
            tables.append(EnumTable(tuple(acronyms), tuple(rows), frozenset(hexed)))
    return EnumTables(_last_wins(tables), problems=problems)


def _tokens(scanner: Scanner) -> Iterator[tuple[bytes, str]]:
    while True:
        if scanner.column == 2:
            scanner.skip_line()  # only two columns count
        byte = scanner.significant(ord("!"))
        scanner.column += 1
        if byte == END:
            return
        if byte == ord('"'):
            text = scanner.quoted()
            yield (b'"', "error") if text is None else (text, "word")
        elif byte == ord("#"):
            found = _HEX.match(scanner.data, scanner.position)
            yield (b"#", "error") if found is None else (scanner.take(len(found[0])), "word")
        elif byte in b"-0123456789":
            text, is_number = scanner.number()
            yield text, "number" if is_number else "word"
        elif chr(byte).isascii() and chr(byte).isalpha():
            yield scanner.word(), "word"
        else:
            yield scanner.take(1), "error"


def _unhexed(display: bytes) -> bytes:
    """The bytes of ``#C3A9#``, quoted or not; a lone last digit counts as the upper half."""
    if len(display) < 2 or not (display.startswith(b"#") and display.endswith(b"#")):
        return display
    digits = [max(0, _HEX_DIGITS.find(digit)) for digit in display[1:-1].lower()]
    digits += [0] * (len(digits) % 2)
    return bytes(high << 4 | low for high, low in zip(digits[::2], digits[1::2], strict=True))


def _last_wins(tables: list[EnumTable]) -> tuple[EnumTable, ...]:
    """A field named for two tables gets the later one."""
    taken: set[int] = set()
    kept = []
    for table in reversed(tables):
        own = tuple((name, fid) for name, fid in table.acronyms if fid not in taken)
        taken.update(fid for _, fid in own)
        kept.append(table if own == table.acronyms else replace(table, acronyms=own))
    return tuple(reversed(kept))


def is_dense(table: EnumTable) -> bool:
    """Whether the reference keeps the table as an array, padded with blanks."""
    return max(value for value, _ in table.rows) + 1 < 2 * len(table.rows)


def found_displays(table: EnumTable) -> dict[int, bytes]:
    """What the reference's lookup gives for each value.

    A dense table has a text for every value up to its largest. In a sparse one the texts are
    searched as if they were sorted, so values out of order are not found; what follows a short
    text there is whatever the memory held, and is left out here.
    """
    if is_dense(table):
        width = table.width
        displays = dict.fromkeys(range(max(v for v, _ in table.rows) + 1), b" " * width)
        for value, display in table.rows:
            displays[value] = display + displays[value][len(display) :]
        return displays
    values = [value for value, _ in table.rows]
    found = {}
    for value, _ in table.rows:
        position = bisect_left(values, value)
        if position < len(values) and values[position] == value:
            found[value] = table.rows[position][1]
    return found
