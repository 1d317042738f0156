"""Where a command's rows go: JSON lines, CSV or a table.

All of them take rows one by one and keep few: a capture may be larger than memory.
"""

from __future__ import annotations

import contextlib
import csv
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Protocol

import click

from wireloom.cli._flat import Row, flatten, json_line
from wireloom.cli._options import OutputOptions
from wireloom.cli._output import is_plain, text_output
from wireloom.view import clip

__all__ = ["CsvSink", "JsonSink", "Sink", "TableSink", "open_sink"]

BATCH = 100
"""Rows of a table that are drawn at a time; the first ones decide the column widths."""

MAX_CELL = 500
"""Characters of one cell of a table."""

MEMORY = 1 << 23
"""Bytes of CSV rows kept in memory until all columns are known; more than that goes to disk."""

MAX_COLUMNS = 10_000
"""Columns of a CSV file. Messages name them; hostile ones must not fill the memory with names."""


class Sink(Protocol):
    """Takes rows."""

    def write(self, row: Row) -> None:
        """Take one row."""
        ...

    def flush(self) -> None:
        """Show the rows so far: the next one may take long to arrive."""
        ...

    def close(self) -> None:
        """There are no more rows."""
        ...


class JsonSink:
    """One JSON object per line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        self._stream.write(json_line(row) + "\n")

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.flush()


class CsvSink:
    """Comma-separated values.

    If `columns` are given, rows are written as they come. Otherwise they wait, on disk if there are
    many, until all columns are known: the header is complete, in order of appearance.
    """

    def __init__(self, stream: IO[str], columns: Sequence[str] | None, waiting: IO[str]) -> None:
        self._stream = stream
        self._waiting = None if columns else waiting
        self._columns = dict.fromkeys(columns or ())
        self._writer = csv.writer(stream if columns else waiting, lineterminator="\n")
        self._grown: list[tuple[int, int]] = []  # the row from which each number of columns applies
        self._rows = 0
        self._has_header = not columns

    def _write_header(self) -> None:
        if not self._has_header:
            self._has_header = True
            self._writer.writerow(self._columns)

    def write(self, row: Row) -> None:
        self._write_header()
        flat = flatten(row)
        if self._waiting is not None and not flat.keys() <= self._columns.keys():
            self._grow(flat)
        self._writer.writerow([flat.get(name, "") for name in self._columns])
        self._rows += 1

    def _grow(self, flat: dict[str, str]) -> None:
        self._columns |= dict.fromkeys(flat)  # existing ones keep their place
        if len(self._columns) > MAX_COLUMNS:
            raise click.ClickException(
                f"over {MAX_COLUMNS} columns; choose some with --columns, or use --json"
            )
        self._grown.append((self._rows, len(self._columns)))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._write_header()
        if self._waiting is not None and self._rows:
            csv.writer(self._stream, lineterminator="\n").writerow(self._columns)
            self._waiting.seek(0)
            changes = iter([*self._grown, (self._rows, 0)])
            _, known = next(changes)
            until, following = next(changes)
            # Line ends in cells are escaped: a line is a row, and only lacks the
            # columns that turned up after it.
            for number, line in enumerate(self._waiting):
                if number == until:
                    known = following
                    until, following = next(changes)
                self._stream.write(line[:-1] + "," * (len(self._columns) - known) + "\n")
        self.flush()


class TableSink:
    """A table for people: on a terminal cells are cut so that a row fits it."""

    def __init__(self, stream: IO[str], columns: Sequence[str] | None) -> None:
        self._stream = stream
        self._columns = list(columns or ())
        self._fixed = self._is_chosen = bool(columns)
        self._late: dict[str, None] = {}
        """Columns that turned up after the widths were known."""
        self._rows: list[dict[str, str]] = []
        self._widths: list[int] = []
        self._known: set[str] = set()

    def write(self, row: Row) -> None:
        flat = flatten(row)
        if not self._fixed:
            self._columns.extend(name for name in flat if name not in self._columns)
        elif not self._is_chosen and not flat.keys() <= self._known:
            self._late |= dict.fromkeys(name for name in flat if name not in self._known)
        self._rows.append(flat)
        if len(self._rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._draw()
        self._stream.flush()

    def close(self) -> None:
        self.flush()
        if self._late:
            names = clip(", ".join(self._late), MAX_CELL)
            text = f"note: the table lacks columns of later rows: {names}; --csv has them"
            click.echo(text, err=True)

    def _draw(self) -> None:
        # Columns that turn up after the first rows have no place any more.
        self._fixed = True
        self._known = set(self._columns)
        limit = None if is_plain(self._stream) else MAX_CELL
        cells = [[_cut(row.get(c, ""), limit) for c in self._columns] for row in self._rows]
        self._rows.clear()
        if not self._widths:
            self._widths = _fit(self._columns, cells, _width(self._stream))
            header = self._line(self._columns)
            self._stream.write(click.style(header, bold=True) if self._stream.isatty() else header)
            self._stream.write("\n")
        self._stream.writelines(self._line(row) + "\n" for row in cells)

    def _line(self, cells: list[str]) -> str:
        together = zip(cells, self._widths, self._columns, strict=True)
        if is_plain(self._stream):  # a file or pipe has room for wider rows
            return "  ".join(
                cell if _columns_of(cell) > width else _cell(cell, width, name)
                for cell, width, name in together
            ).rstrip()
        return "  ".join(_cell(*cell) for cell in together).rstrip()


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None else clip(text, limit)


def _width(stream: IO[str]) -> int | None:
    """Width of a row; None if it does not go to a terminal, and nothing is cut."""
    return None if is_plain(stream) else shutil.get_terminal_size().columns


def _is_number(column: str) -> bool:
    return column.endswith(("offset", "length", "fid", "size"))


def _cell(text: str, width: int, column: str) -> str:
    """The text cut to a width; numbers are never cut."""
    if _is_number(column):
        return text.rjust(width)
    if text[: width + 1].isascii():
        return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
    from rich.cells import set_cell_size

    fits = _columns_of(text) <= width
    return set_cell_size(text, width) if fits else set_cell_size(text, width - 1) + "…"


def _columns_of(text: str) -> int:
    """Width of a text on a terminal: some characters are two wide, or have no width."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fit(columns: Sequence[str], cells: list[list[str]], width: int | None) -> list[int]:
    """Column widths: those of the cells; the widest are reduced until all fit."""
    widths = [max(map(_columns_of, column)) for column in zip(columns, *cells, strict=True)]
    if width is None:
        return widths
    spare = max(width - 2 * (len(columns) - 1), len(columns))
    while sum(widths) > spare:
        widths[widths.index(max(widths))] -= 1
    return widths


@contextlib.contextmanager
def open_sink(
    writing: OutputOptions, columns: Sequence[str] | None = None, source: str | None = None
) -> Iterator[Sink]:
    """A sink of the style that was asked for.

    Args:
        writing: the output options.
        columns: columns of CSV and table; all that occur when left out.
        source: the input, which is never overwritten.
    """
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(text_output(writing.path, writing.force, source))
        sink: Sink
        match writing.style:
            case "json":
                sink = JsonSink(stream)
            case "csv":
                spool = stack.enter_context(
                    tempfile.SpooledTemporaryFile(MEMORY, "w+", encoding="utf-8", newline="")
                )
                sink = CsvSink(stream, columns, spool)
            case _:
                sink = TableSink(stream, columns)
        yield sink
        sink.close()
