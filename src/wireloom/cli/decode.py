"""``wireloom decode``: frames and captures → JSON lines, CSV, a table, or Parquet files."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from wireloom.cli._accounts import summary_lines
from wireloom.cli._capture import (
    CaptureOptions,
    capture_options,
    captures_argument,
    looked_at,
    make_settings,
    open_messages,
    opened,
    say_if_empty,
    say_unused,
)
from wireloom.cli._chosen import ChosenSink
from wireloom.cli._formatoptions import ReadingCommand
from wireloom.cli._help import examples
from wireloom.cli._input import PathOrDash, open_binary
from wireloom.cli._options import (
    DecodeOptions,
    Listed,
    OutputOptions,
    decode_options,
    limit_option,
    output_options,
)
from wireloom.cli._output import text_output
from wireloom.cli._progress import byte_bar, total_size
from wireloom.cli._rows import nested_row, summarise, to_row
from wireloom.cli._sinks import JsonSink, Sink, open_sink
from wireloom.cli._sizes import Size, count
from wireloom.messages import Json

if TYPE_CHECKING:
    from wireloom.tabulate import Totals

__all__ = ["command"]

_TABLE = ("frame_offset", "frame_length", "type", "content")


def _table_names() -> tuple[str, ...]:
    from wireloom.tables import table_names

    return (*table_names(), "wide")


@click.command(
    cls=ReadingCommand,
    epilog=examples(
        "wireloom decode capture.bin",
        "wireloom decode capture.bin --csv --columns frame_offset,packet,nonce -o hello.csv",
        "wireloom decode quotes.qform --dictionary tss_fields.cf --table --limit 20",
        "cat capture.bin | wireloom decode - --errors bad.jsonl | jq .packet",
        "wireloom decode day1.pcapng.zst -o day1/ --tables fields,errors",
        "wireloom decode day1-*.pcap -o day1/ --ports 7000=blaze --model orders.blz",
        "wireloom decode day1.pcap -o bids.parquet --tables wide --columns 'BID,ASK:decimal(18,4)'",
        "wireloom decode day1.pcap --tables gaps --csv",
    ),
)
@captures_argument
@decode_options
@limit_option(text="Stop after N messages, or rows of a table.")
@click.option(
    "--nested", is_flag=True, help="Also write the messages inside payloads, with their path."
)
@click.option(
    "--columns",
    metavar="A,B,…",
    help="Columns of --csv and --table, or of a single table; fields of the table wide.",
)
@click.option(
    "--errors",
    metavar="FILE",
    type=PathOrDash(dir_okay=False),
    help="Write what cannot be read to this file, as JSON lines; - puts it among the messages.",
)
@click.option(
    "--tables",
    type=Listed(_table_names),
    metavar="A,B,…",
    help="Write these tables instead of messages.",
)
@capture_options
@click.option(
    "--file-size",
    type=Size(),
    help="Start another file of a table at this size; if left out, each table is one file.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@output_options("json", folder=True)
def command(
    sources: tuple[str, ...],
    reading: DecodeOptions,
    writing: OutputOptions,
    capturing: CaptureOptions,
    limit: int | None,
    nested: bool,
    columns: str | None,
    errors: str | None,
    tables: str | None,
    file_size: int | None,
    quiet: bool,
) -> None:
    """Decode frames or captures: a line for each message, or tables.

    FILE has frames back to back, or is a pcap or pcapng capture, also in gzip or zstd; several are
    read as one capture. The format of each stream is detected from its first bytes. Damage is
    skipped and counted: nothing after it is lost, and the exit status is then 1. The lines can be
    turned back into bytes with encode.

    With a folder for output or with --tables the output is tables: frames, blaze, nais, nrep,
    messages, fields, errors, gaps, accounting; and wide, with the fields that --columns names.
    """
    from wireloom.cli._tablewriting import Wanted, is_for_tables, split_names, write_tables

    names = sources or ("-",)
    if is_for_tables(writing, tables):
        if errors is not None:
            raise click.UsageError("what cannot be read is in the table errors; leave --errors out")
        wanted = Wanted.from_texts(tables, columns)
        settings = make_settings(
            reading, capturing, wanted.tables, columns=wanted.columns, select=wanted.select
        )
        totals = write_tables(
            names,
            opened(names),
            wanted,
            settings,
            writing,
            limit=limit,
            file_bytes=file_size,
            workers=capturing.workers,
            quiet=quiet,
        )
        lines = list(summary_lines(totals))
    else:
        if file_size is not None:
            raise click.UsageError("--file-size is for files of tables: add -o FOLDER/")
        chosen = None if columns is None else list(split_names(columns))
        if chosen is not None and writing.style == "json":
            raise click.UsageError(
                "--columns are for --csv and --table, or for --tables; a line of JSON has all of "
                "its message"
            )
        job = _Job(writing, chosen, errors, limit, nested, quiet)
        totals, lines = _decode_messages(names, reading, capturing, job)
    if not quiet:
        for line in lines:
            click.echo(line, err=True)
    if totals.errors:
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Job:
    """What to do with messages."""

    writing: OutputOptions
    columns: list[str] | None
    errors: str | None
    limit: int | None
    nested: bool
    quiet: bool


def _decode_messages(
    names: Sequence[str], reading: DecodeOptions, capturing: CaptureOptions, job: _Job
) -> tuple[Totals, list[str]]:
    """Write messages; return what became of every byte, and the lines of the summary."""
    from wireloom.captures import Gap

    has_sources = len(names) > 1
    with contextlib.ExitStack() as stack:
        sources = opened(names)
        where: tuple[str, ...] = ("ts", "stream")
        if not has_sources:
            is_capture, sources[0] = looked_at(stack.enter_context(open_binary(names[0])), names[0])
            where = where if is_capture else ()
        out: _Output | None = None
        show = stack.enter_context(byte_bar(total_size(names), job.quiet))
        capture = open_messages(
            sources,
            reading,
            capturing,
            nested=job.nested,
            progress=show,
            on_wait=lambda: out.flush() if out is not None else None,
        )
        own = None if has_sources else names[0]
        out = _Output(job.writing, job.columns, job.errors, own, stack, where=where)
        messages = 0
        for found in capture.read():
            if isinstance(found, Gap):
                continue
            out.write(to_row(found, has_sources))
            if job.nested:
                for inner in capture.nested(found):
                    out.write(nested_row(found, inner, has_sources))
            messages += found.message is not None
            if messages == job.limit:
                break
        is_stopped = messages == job.limit
        out.finish(is_stopped)
    totals = capture.totals
    if is_stopped:
        # The bytes of streams are summed up when they end, and these have not.
        problems = count(totals.errors, "problem")
        return totals, [f"{count(messages, 'message')}, {problems}; stopped at --limit"]
    say_if_empty(capture.capture.progress.done, job.quiet, totals)
    say_unused(capture, reading, nested=job.nested, quiet=job.quiet)
    return totals, list(summary_lines(totals, "message"))


class _Output:
    """Where messages and problems go."""

    def __init__(
        self,
        writing: OutputOptions,
        columns: Sequence[str] | None,
        errors: str | None,
        source: str | None,
        stack: contextlib.ExitStack,
        *,
        where: tuple[str, ...] = (),
    ) -> None:
        brief = writing.style == "table" and not columns
        shown = (*where, *_TABLE) if brief else columns
        self._is_brief = brief
        self._sink = stack.enter_context(open_sink(writing, shown, source))
        self._chosen: ChosenSink | None = None
        if columns and writing.style != "json":
            self._sink = self._chosen = ChosenSink(self._sink, columns)
        self._problems = _problem_sink(errors, writing, self._sink, stack, source)

    def write(self, row: Json) -> None:
        """A message, or a problem."""
        target = self._problems if "error" in row else self._sink
        if target is not None:
            target.write(summarise(row) if self._is_brief and target is self._sink else row)

    def flush(self) -> None:
        """Write out all rows so far."""
        self._sink.flush()

    def finish(self, stopped: bool) -> None:
        """There are no more rows, because of a limit or because the input has ended.

        Raises:
            UsageError: a column was asked for that no row has.
        """
        if self._chosen is not None:
            self._chosen.check(stopped)


def _problem_sink(
    errors: str | None,
    writing: OutputOptions,
    sink: Sink,
    stack: contextlib.ExitStack,
    source: str | None,
) -> Sink | None:
    """Where problems are written: nowhere, among the messages, or to a file of their own."""
    if errors is None:
        return None
    if errors == "-":
        return sink
    return JsonSink(stack.enter_context(text_output(errors, writing.force, source)))
