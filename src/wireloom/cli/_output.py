"""Where a command's rows go: JSON lines, CSV or a table, on stdout or in a file."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

import click

from wireloom.cli._flat import Row, flatten, json_line
from wireloom.cli._options import OutputOptions
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "Sink",
    "binary_output",
    "make_console",
    "open_sink",
    "show",
    "text_output",
]

BATCH = 100
"""Rows of a table drawn at once; the first batch decides how wide the columns are."""

PIPE_WIDTH = 200
"""Width of a table that nobody looks at on a terminal."""

MAX_CELL = 500

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
        """Show what there is: the next row may be long in coming."""
        ...

    def close(self) -> None:
        """There are no more rows."""
        ...


@contextlib.contextmanager
def _created(path: str, force: bool, source: str | None, **how: Any) -> Iterator[IO[Any]]:
    """A new file; gone again if nothing was written before something failed."""
    exists = os.path.exists(path)
    regular = os.path.isfile(path)
    if exists and source is not None and _is_same_file(path, source):
        raise click.UsageError(f"{escape(path)} is also the input; write to another file")
    if regular and not force:
        raise click.UsageError(f"{escape(path)} exists; overwrite it with --force")
    with open(path, **how) as file:
        try:
            yield file
        except BaseException:
            if not exists and file.tell() == 0:
                file.close()
                os.unlink(path)
            raise


def _is_same_file(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


@contextlib.contextmanager
def text_output(path: str | None, force: bool, source: str | None = None) -> Iterator[IO[str]]:
    """A text stream to write to: a new file, or stdout for None.

    Args:
        path: where to write.
        force: whether a file may be overwritten.
        source: the input, which is never overwritten.
    """
    if path is None:
        yield sys.stdout
    else:
        how = {"mode": "w", "encoding": "utf-8", "newline": "", "errors": "backslashreplace"}
        with _created(path, force, source, **how) as file:
            yield file


@contextlib.contextmanager
def binary_output(path: str | None, force: bool, source: str | None = None) -> Iterator[IO[bytes]]:
    """A binary stream to write to: a new file, or stdout for None, unless that is a terminal."""
    if path is not None:
        with _created(path, force, source, mode="wb") as file:
            yield file
        return
    if sys.stdout.isatty():
        raise click.UsageError(
            "this writes bytes, not text: send them to a file with -o, or to a pipe"
        )
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


class JsonSink:
    """One JSON object a line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        self._stream.write(json_line(row) + "\n")

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        pass


class CsvSink:
    """Comma-separated values.

    With `columns` given rows are written as they come. Otherwise the rows wait, on disk if they are
    many, until all columns are known: the header is complete, and its order is that of appearance.
    """

    def __init__(self, stream: IO[str], columns: Sequence[str] | None, waiting: IO[str]) -> None:
        self._stream = stream
        self._fixed = columns is not None
        self._columns: dict[str, None] = dict.fromkeys(columns or ())
        self._waiting = waiting
        self._writer = csv.DictWriter(
            stream, list(self._columns), restval="", extrasaction="ignore", lineterminator="\n"
        )
        if self._fixed:
            self._writer.writeheader()

    def write(self, row: Row) -> None:
        flat = flatten(row)
        if self._fixed:
            self._writer.writerow(flat)
            return
        for name in flat:
            if name not in self._columns:
                if len(self._columns) >= MAX_COLUMNS:
                    raise click.ClickException(
                        f"over {MAX_COLUMNS} columns; choose some with --columns, or use --json"
                    )
                self._columns[name] = None
        self._waiting.write(json_line(flat) + "\n")

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self._fixed and self._columns:
            self._writer.fieldnames = list(self._columns)
            self._writer.writeheader()
            self._waiting.seek(0)
            for line in self._waiting:
                self._writer.writerow(json.loads(line))


class TableSink:
    """A table for people: cells are cut to what the terminal is wide."""

    def __init__(self, stream: IO[str], columns: Sequence[str] | None) -> None:
        self._stream = stream
        self._columns = list(columns or ())
        self._fixed = columns is not None
        self._rows: list[dict[str, str]] = []
        self._widths: list[int] = []

    def write(self, row: Row) -> None:
        flat = flatten(row)
        if not self._fixed:
            self._columns.extend(name for name in flat if name not in self._columns)
        self._rows.append(flat)
        if len(self._rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._draw()
        self._stream.flush()

    def close(self) -> None:
        self.flush()

    def _draw(self) -> None:
        from rich.table import Table
        from rich.text import Text

        console = make_console(self._stream)
        table = Table(box=None, pad_edge=False, show_header=not self._widths, header_style="bold")
        # Columns that turn up after the first batch have no place any more; --csv keeps them.
        self._fixed = True
        cells = [[clip(row.get(c, ""), MAX_CELL) for c in self._columns] for row in self._rows]
        if not self._widths:
            self._widths = _fit(self._columns, cells, console.width)
        for name, width in zip(self._columns, self._widths, strict=True):
            table.add_column(
                Text(name), width=width, no_wrap=True, overflow="ellipsis", justify=_justify(name)
            )
        for row in cells:
            # Text, not str: rich would take brackets in a str for markup.
            table.add_row(*[Text(cell) for cell in row])
        show(console, table)
        self._rows.clear()


def _justify(name: str) -> Any:
    return "right" if name.endswith(("offset", "length", "fid", "size")) else "left"


def _fit(columns: Sequence[str], cells: list[list[str]], width: int) -> list[int]:
    """Column widths: as wide as the cells are; the widest give way until all fit."""
    widths = [max(len(row[i]) for row in [[*columns], *cells]) for i in range(len(columns))]
    spare = width - 2 * (len(columns) - 1)
    while sum(widths) > max(spare, len(columns)):
        widths[widths.index(max(widths))] -= 1
    return widths


def make_console(stream: IO[str]) -> Console:
    """A console that draws on `stream`, plain unless that is a terminal."""
    from rich.console import Console

    fixed = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=fixed, highlight=False, emoji=False, markup=False)


def show(console: Console, what: RenderableType) -> None:
    """Print; where it is no terminal, without the blanks that fill up the lines."""
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


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
                    tempfile.SpooledTemporaryFile(MEMORY, "w+", encoding="utf-8")
                )
                sink = CsvSink(stream, columns, spool)
            case "table":
                sink = TableSink(stream, columns)
        yield sink
        sink.close()
        sink.flush()
