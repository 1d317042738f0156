"""Captures → tables: Parquet files in a folder, one file, or rows of text."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wireloom.cli._accounts import WideNotes
from wireloom.cli._capture import say_if_empty, spare_pandas, worker_count
from wireloom.cli._flat import plain
from wireloom.cli._options import (
    SUFFIXES,
    TABLE_SUFFIXES,
    OutputOptions,
    suffix_of,
)
from wireloom.cli._output import text_output
from wireloom.cli._progress import byte_bar, total_size
from wireloom.cli._sinks import Sink, open_sink
from wireloom.cli._sizes import count, show_size
from wireloom.view import escape

if TYPE_CHECKING:
    import pyarrow as pa

    from wireloom.captures import Source
    from wireloom.cli._csv import CsvTables
    from wireloom.cli._parquet import TableFiles
    from wireloom.tabulate import Settings, Totals

__all__ = ["FILES", "Wanted", "batches", "is_for_tables", "split_names", "write_tables"]

FILES = TABLE_SUFFIXES


def is_for_tables(writing: OutputOptions, tables: str | None) -> bool:
    """Whether the output is tables, not messages."""
    return tables is not None or writing.is_binary or writing.is_folder


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tables and columns."""

    tables: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    """Fields of wide, or the columns of the only table."""
    select: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_texts(cls, tables: str | None, columns: str | None) -> Wanted:
        """From lists with commas.

        Raises:
            UsageError: the columns belong to no table.
        """
        from wireloom.tables import table_names

        listed = split_names(tables) if tables else ()
        chosen = None if columns is None else split_names(columns)
        if not listed:
            listed = table_names() if chosen is None else ("wide", "errors")
        if chosen is None:
            return cls(listed)
        if "wide" in listed:
            return cls(listed, chosen)
        if len(listed) > 1:
            raise click.UsageError(
                "--columns are the fields of the table wide, or the columns of a single table: "
                "add wide to --tables, or name one table"
            )
        return cls(listed, None, {listed[0]: chosen})


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list with commas, each once.

    Raises:
        UsageError: there are none.
    """
    # Not at the comma of decimal(18,4).
    parts = (part.strip() for part in re.split(r",(?![^(]*\))", text))
    found = tuple(dict.fromkeys(part for part in parts if part))
    if not found:
        raise click.UsageError(f"{escape(text)!r} names nothing")
    return found


def batches(
    names: Sequence[str],
    sources: Sequence[Source],
    settings: Settings,
    workers: int | None = None,
    quiet: bool = False,
    totals: Totals | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches of captures, with a progress bar.

    Args:
        names: what the user called them.
        sources: the same, opened where they must be.
        settings: which tables.
        workers: how many threads decode; None: as many as are useful.
        quiet: no progress bar, and no word about an empty input.
        totals: where to count what becomes of every byte.
    """
    spare_pandas()
    return _batches(names, sources, settings, worker_count(names, workers), quiet, totals)


def _batches(
    names: Sequence[str],
    sources: Sequence[Source],
    settings: Settings,
    workers: int,
    quiet: bool,
    totals: Totals | None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    from wireloom.captures import Progress
    from wireloom.tabulate import tabulate

    done = 0
    with byte_bar(total_size(names), quiet) as show:

        def report(now: Progress) -> None:
            nonlocal done
            done = max(done, now.done)
            show(now.done)

        yield from tabulate(sources, settings, workers=workers, progress=report, totals=totals)
    say_if_empty(done, quiet, totals)


def write_tables(
    names: Sequence[str],
    sources: Sequence[Source],
    wanted: Wanted,
    settings: Settings,
    writing: OutputOptions,
    *,
    limit: int | None = None,
    file_bytes: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Totals:
    """Write the tables of captures where the output options say."""
    from wireloom.tabulate import Totals
    from wireloom.tabulate.tabulation import sampled

    settings, sources = sampled(settings, sources)
    fields = settings.table("wide").names if "wide" in wanted.tables else ()
    totals, notes = Totals(), WideNotes(fields)
    started = time.monotonic()
    is_stopped = False
    if _is_text(writing):
        found = notes.watch(batches(names, sources, settings, workers, quiet, totals))
        is_stopped = _write_rows(found, wanted, settings, writing, limit, names)
    else:
        if limit is not None:
            raise click.UsageError("--limit is for rows of text, not for files of tables")
        assert writing.path is not None  # which would be text
        _check_target(writing.path, wanted, names)
        # Writing files is several times slower than decoding in one thread: more threads would only
        # fill memory with rows that wait.
        found = notes.watch(batches(names, sources, settings, workers or 1, quiet, totals))
        files = _write_files(found, wanted, settings, writing, file_bytes)
        if not quiet:
            _show_files(files, time.monotonic() - started)
    if not quiet:
        for line in notes.lines(is_stopped):
            click.echo(line, err=True)
    return totals


def _is_text(writing: OutputOptions) -> bool:
    """Whether rows of text are written: a path that says nothing is a folder of tables."""
    if writing.is_folder:
        return False
    if writing.path is None or writing.is_chosen or suffix_of(writing.path) in SUFFIXES:
        return True
    return os.path.exists(writing.path) and not os.path.isfile(writing.path)  # a device or a pipe


def _check_target(path: str, wanted: Wanted, sources: Sequence[str]) -> None:
    if suffix_of(path) in FILES and not os.path.isdir(path):
        if len(wanted.tables) != 1:
            raise click.UsageError("one file holds one table: name it with --tables")
        if os.path.exists(path) and any(
            name != "-" and os.path.samefile(path, name) for name in sources
        ):
            raise click.UsageError(f"{escape(path)} is also the input; write to another file")


def _write_files(
    found: Iterator[tuple[str, pa.RecordBatch]],
    wanted: Wanted,
    settings: Settings,
    writing: OutputOptions,
    file_bytes: int | None,
) -> TableFiles:
    from wireloom.cli._parquet import TableFiles

    assert writing.path is not None
    tables = {}
    for name in wanted.tables:
        tables[name] = settings.table(name).select(wanted.select.get(name))
    files = TableFiles(Path(writing.path), tables, force=writing.force, file_bytes=file_bytes)
    with files:
        for name, batch in found:
            files.write(name, batch)
    return files


def _show_files(files: TableFiles, seconds: float) -> None:
    """A line for each table."""
    written = files.written
    width = max(len(each.table) for each in written)
    rows = max(len(f"{each.rows:,}") for each in written)
    for each in written:
        where = each.files[0] if len(each.files) == 1 else f"{len(each.files)} files"
        click.echo(
            f"{each.table:{width}}  {each.rows:>{rows},} rows  {show_size(each.size):>8}  "
            f"{escape(str(where))}",
            err=True,
        )
    total = sum(each.rows for each in written)
    click.echo(f"{count(total, 'row')} in {seconds:.1f} s", err=True)


# --- rows of text ---------------------------------------------------------------------------------


def _write_rows(
    found: Iterator[tuple[str, pa.RecordBatch]],
    wanted: Wanted,
    settings: Settings,
    writing: OutputOptions,
    limit: int | None,
    sources: Sequence[str],
) -> bool:
    """Rows as JSON lines, CSV or a table; with several tables, each row names its own.

    Returns whether the limit ended them.
    """
    source = sources[0] if len(sources) == 1 else None
    with contextlib.ExitStack() as stack:
        sink: CsvTables | RowTables
        if writing.style == "csv":
            from wireloom.cli._csv import CsvTables

            stream = stack.enter_context(text_output(writing.path, writing.force, source))
            sink = CsvTables(stream, {name: settings.table(name).names for name in wanted.tables})
            stack.callback(sink.close)
        else:
            sink = RowTables(stack.enter_context(open_sink(writing, None, source)), wanted)
        left = limit
        for name, batch in found:
            rows = batch if left is None else batch.slice(0, left)
            sink.write(name, rows)
            if left is not None:
                left -= rows.num_rows
            if left == 0:
                return True
            sink.flush()
    return False


class RowTables:
    """Writes batches of tables row by row."""

    def __init__(self, sink: Sink, wanted: Wanted) -> None:
        self._sink = sink
        self._is_one = len(wanted.tables) == 1

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Take rows."""
        for row in batch.to_pylist():
            shown = {key: plain(value) for key, value in row.items()}
            self._sink.write(shown if self._is_one else {"table": table, **shown})

    def flush(self) -> None:
        """Write out the rows so far."""
        self._sink.flush()
