"""``wireloom decode``: a stream of frames → JSON lines, CSV or a table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from wireloom.cli._codec import Account, Codec
from wireloom.cli._help import examples
from wireloom.cli._input import chunks, file_argument, open_binary
from wireloom.cli._options import (
    DecodeOptions,
    OutputOptions,
    decode_options,
    limit_option,
    output_options,
)
from wireloom.cli._output import text_output
from wireloom.cli._progress import progress
from wireloom.cli._rows import nested_row, summarise, to_row
from wireloom.cli._sinks import JsonSink, Sink, open_sink
from wireloom.messages import Json

__all__ = ["command"]

_TABLE = ("frame_offset", "frame_length", "type", "content")


@click.command(
    epilog=examples(
        "wireloom decode capture.bin",
        "wireloom decode capture.bin --csv --columns frame_offset,packet,nonce -o hello.csv",
        "wireloom decode quotes.qform --dictionary tss_fields.cf --table --limit 20",
        "cat capture.bin | wireloom decode - --errors bad.jsonl | jq .packet",
    )
)
@file_argument
@decode_options
@limit_option()
@click.option(
    "--nested", is_flag=True, help="Also write the messages inside payloads, with their path."
)
@click.option("--columns", metavar="A,B,…", help="Columns of --csv and --table; all when left out.")
@click.option(
    "--errors",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write what cannot be read there as JSON lines; - puts it among the messages.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@output_options("json")
def command(
    source: str,
    reading: DecodeOptions,
    writing: OutputOptions,
    limit: int | None,
    nested: bool,
    columns: str | None,
    errors: str | None,
    quiet: bool,
) -> None:
    """Decode a stream of frames, one line for each message.

    The format is detected from the first bytes. Damage is skipped and counted: nothing after it is
    lost, and the exit status is then 1. The lines can be turned back into bytes with encode.
    """
    chosen = columns.split(",") if columns else None
    account = Account()
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open_binary(source))
        codec, data = Codec.for_stream(chunks(stream), reading, nested)
        account.format = codec.format.name
        sink = stack.enter_context(open_sink(writing, chosen or _columns(writing), source))
        problems = _problem_sink(errors, writing, sink, stack, source)
        data = stack.enter_context(progress(source, account.counted(data), quiet))
        brief = writing.style == "table" and not chosen

        def write(row: Json) -> None:
            target = problems if "error" in row else sink
            if target is not None:
                target.write(summarise(row) if brief and target is sink else row)

        for found in codec.read(_flushing(data, sink)):
            account.add(found)
            write(to_row(found))
            if nested and found.message is not None:
                for inner in codec.nested(found.message):
                    row = nested_row(found, inner)
                    if "error" in row:
                        account.note(row["error"], f"in {row['path']}: {row['reason']}")
                    write(row)
            if account.messages == limit:
                account.stopped = True
                break
    if not quiet:
        click.echo(account.summary(), err=True)
    if account.problems:
        raise click.exceptions.Exit(1)


def _columns(writing: OutputOptions) -> tuple[str, ...] | None:
    return _TABLE if writing.style == "table" else None


def _problem_sink(
    errors: str | None,
    writing: OutputOptions,
    sink: Sink,
    stack: contextlib.ExitStack,
    source: str,
) -> Sink | None:
    """Where problems are written: nowhere, among the messages, or to a file of their own."""
    if errors is None:
        return None
    if errors == "-":
        return sink
    return JsonSink(stack.enter_context(text_output(errors, writing.force, source)))


def _flushing(data: Iterator[bytes], sink: Sink) -> Iterator[bytes]:
    """The same chunks; before the next is waited for, all rows so far are handed out."""
    for chunk in data:
        yield chunk
        sink.flush()
