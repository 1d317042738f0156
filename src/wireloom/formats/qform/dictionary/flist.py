"""`flistmapping`: Marketfeed field list numbers → the names of forms. SPEC §5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.lines import LineReader
from wireloom.formats.qform.dictionary.model import MAX_NAME_LEN, Problem, first_error
from wireloom.formats.qform.dictionary.source import Source, to_source

__all__ = ["FlistMapping", "parse_flist", "scan_flist"]

_LINE: Final = re.compile(r'([0-9]{1,9}+)\s++("[^"]*+"|[^\s"#]\S*+)\s*+(?:\#.*+)?+', re.ASCII)


@dataclass(frozen=True, slots=True)
class FlistMapping:
    """Which form a field list number stands for."""

    forms: Mapping[int, str] = field(default_factory=dict)
    """Field list number → the name of a form in `tss_records.cf`."""
    problems: tuple[Problem, ...] = field(default=(), compare=False)

    @property
    def error(self) -> SourceError | None:
        """The first problem that is an error, as an exception; None if everything could be read."""
        return first_error(self.problems)


def parse_flist(text: str | bytes, *, file: str = "flistmapping") -> FlistMapping:
    """The mapping of a `flistmapping` text.

    Raises:
        SourceError: a line cannot be read; `scan_flist` gives the others.
    """
    mapping = scan_flist(to_source(text, file))
    if mapping.error is not None:
        raise mapping.error
    return mapping


def scan_flist(source: Source) -> FlistMapping:
    """What can be read of a `flistmapping`; a bad line is one of the problems."""
    lines = LineReader(source, "#")
    forms: dict[int, str] = {}
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            lines.fail(f"a number and a form name expected: {line[:60]!r}")
            continue
        number, name = int(found[1]), found[2].strip('"')
        if not 0 < len(name) <= MAX_NAME_LEN:
            lines.note(f"the form of {number} has an empty or too long name; left out")
        elif forms.setdefault(number, name) != name:
            lines.note(f"{number} is {name} and also {forms[number]}, which is used")
    return FlistMapping(forms, tuple(lines.problems))
