"""What the line-based files share: comments, `!tag` metadata, and one verdict per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wireloom.formats.qform.dictionary.model import Problem
from wireloom.formats.qform.dictionary.source import Source

__all__ = ["MAX_BAD_LINES", "LineReader"]

MAX_BAD_LINES: Final = 100
"""With more bad lines than this, the file is most likely something else entirely."""


class LineReader:
    """Gives the lines that hold something, and collects tags and problems.

    Lines are independent of each other, so a bad one does not end the file here: `check` can list
    all of them, and a caller that tolerates none raises the first.
    """

    def __init__(self, source: Source, comment: str) -> None:
        self._source = source
        self._comment = comment
        self._line = 0
        self._bad_lines = 0
        self.tags: dict[str, str] = {}
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[str]:
        # Not splitlines(): that also splits at characters which are data in these files.
        for number, raw in enumerate(self._source.text.split("\n"), start=1):
            self._line = number
            line = raw.strip(" \t\r\f\v")
            if line.startswith(self._comment):
                self._tag(line)
            elif line:
                yield line
                if self._bad_lines > MAX_BAD_LINES:
                    self.fail("too many bad lines; the rest was not read")
                    return

    def note(self, reason: str) -> None:
        """Record something odd in the current line."""
        self.problems.append(Problem(reason, self._source.name, self._line))

    def fail(self, reason: str) -> None:
        """Record that the current line cannot be read."""
        self._bad_lines += 1
        self.problems.append(Problem(reason, self._source.name, self._line, is_error=True))

    def _tag(self, line: str) -> None:
        marker, _, rest = line.partition(" ")
        name, _, value = rest.strip().partition(" ")
        if marker == "!tag" and value:
            self.tags.setdefault(name, value.strip())
