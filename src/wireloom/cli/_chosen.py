"""Columns that a user chose: one that no row has is a mistake, not a column of empty cells."""

from __future__ import annotations

from collections.abc import Sequence

import click

from wireloom.cli._flat import Row, flatten
from wireloom.cli._rows import KEY, WHERE
from wireloom.cli._sinks import MAX_COLUMNS, Sink
from wireloom.spelling import hint
from wireloom.view import escape

__all__ = ["ChosenSink"]

_ALWAYS = frozenset((*WHERE, *KEY, "format", "packet", "path", "text", "text_hex")) | frozenset(
    ("error", "reason", "field", "at", "raw")
)
"""Columns of any kind of row: valid even if this input has no such row."""


class ChosenSink:
    """Passes rows on, and looks for the columns in them.

    Rows before the first one that has any of the columns are only counted: they are empty.
    """

    def __init__(self, sink: Sink, columns: Sequence[str]) -> None:
        self._sink = sink
        self._missing = dict.fromkeys(name for name in columns if name not in _ALWAYS)
        self._is_any = len(self._missing) < len(set(columns))
        self._known: dict[str, None] = {}
        self._empty = 0
        self._rows = 0

    def write(self, row: Row) -> None:
        """Take one row."""
        self._rows += 1
        if self._missing:
            flat = flatten(row)
            if len(self._known) < MAX_COLUMNS:
                self._known |= dict.fromkeys(flat)
            for name in [name for name in self._missing if name in flat]:
                del self._missing[name]
                self._is_any = True
        if not self._is_any:
            self._empty += 1
            return
        for _ in range(self._empty):
            self._sink.write({})
        self._empty = 0
        self._sink.write(row)

    def flush(self) -> None:
        """Show the rows so far."""
        self._sink.flush()

    def close(self) -> None:
        """There are no more rows."""
        self._sink.close()

    def check(self, stopped: bool) -> None:
        """Say which columns no row had; if there were no rows, that is not known.

        Args:
            stopped: whether a limit ended the rows. A later one may have the column: it is an error
                only if there is no other column.

        Raises:
            UsageError: there are such columns.
        """
        if not self._rows or not self._missing:
            return
        so_far = " so far" if stopped else ""
        text = "; ".join(
            f"no message{so_far} has the column '{escape(name)}'{escape(hint(name, self._known))}"
            for name in self._missing
        )
        if not self._is_any and "path" not in self._known:
            text += "; --nested gives messages inside others their columns, too"
        if not stopped or not self._is_any:
            raise click.UsageError(text)
        click.echo(f"note: {text}", err=True)
