"""``wireloom convert``: messages of one format → another, and what was lost on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

import click

import wireloom
from wireloom.cli._capture import (
    CaptureOptions,
    looked_at,
    open_messages,
    say_if_empty,
    say_unused,
    stream_options,
)
from wireloom.cli._flat import json_line
from wireloom.cli._formatoptions import ReadingCommand
from wireloom.cli._help import examples
from wireloom.cli._input import chunks, file_argument, joined, lines, open_binary
from wireloom.cli._options import (
    JSON_SUFFIXES,
    DecodeOptions,
    FormatName,
    decode_options,
    force_option,
    limit_option,
    output_file,
    refuse_suffix,
    suffix_of,
)
from wireloom.cli._output import binary_output, text_output
from wireloom.cli._progress import byte_bar, total_size
from wireloom.cli._rows import from_row, parse_row
from wireloom.cli._sizes import count
from wireloom.errors import OptionError, WireloomError
from wireloom.framing import Problem
from wireloom.messages import Message
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from wireloom.tabulate.opening import CaptureReader

__all__ = ["command"]

MAX_SHOWN = 20
"""Kinds of loss, and failed messages, that are listed; the rest is counted."""

MAX_KINDS = 1000
"""Kinds of loss that are distinguished: their texts come from the wire, and may be endless."""

_Item = tuple[str, Message | str]
"""Where it came from, and the message or why there is none."""


@click.command(
    cls=ReadingCommand,
    epilog=examples(
        "wireloom convert quotes.tibmsg --to tibrv -o quotes.tibrv",
        "wireloom convert quotes.tibrv --to json > quotes.jsonl",
        "wireloom convert quotes.jsonl --to tibmsg --no-loss -o quotes.tibmsg",
        "wireloom convert day1.pcapng.zst --formats tibrv --to tibmsg -o day1.tibmsg",
    ),
)
@file_argument
@click.option("--to", type=FormatName("json"), required=True, help="What to convert to.")
@decode_options
@stream_options
@limit_option()
@click.option(
    "--to-dictionary",
    "target",
    type=click.Path(exists=True),
    help="Dictionary to write qform with; --dictionary when left out.",
)
@click.option("--no-loss", is_flag=True, help="Exit with 1 if anything is lost.")
@output_file()
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no report.")
@force_option
def command(
    source: str,
    to: str,
    reading: DecodeOptions,
    capturing: CaptureOptions,
    limit: int | None,
    target: str | None,
    no_loss: bool,
    output: str | None,
    quiet: bool,
    force: bool,
) -> None:
    """Convert messages to another format, or to and from JSON lines.

    FILE has frames back to back or JSON lines, or is a pcap or pcapng capture, also in gzip or
    zstd.

    What the other format cannot express is reported on stderr, a line for each kind of loss.
    Messages that cannot be converted at all are named and left out; the exit status is then 1.
    """
    if _needs_dictionary(to) and not (target or "dictionary" in reading.given):
        raise click.UsageError(f"a {to} is made with a dictionary: --to-dictionary FILE")
    if to != "json":
        refuse_suffix(output)
    report = _Report()
    with ExitStack() as stack:
        items = _items(source, to, reading, capturing, quiet, stack)
        write = _writer(to, output, force, source, stack)
        for where, item in items:
            if isinstance(item, str):
                report.failed(where, item)
                continue
            try:
                write(_convert(item, to, _choose(item, target, reading), report))
            except OptionError as error:  # wrong for all of them, or for all of a format
                if _is_convertible(item.format):
                    raise
                raise OptionError(f"{error.reason}; --formats A,B reads only those") from None
            except WireloomError as error:
                report.failed(where, str(error))
                continue
            report.converted += 1
            if report.converted == limit:
                break
    if not quiet:
        report.show(to)
    if report.failures or (no_loss and report.losses):
        raise click.exceptions.Exit(1)


class _Report:
    """What became of the messages."""

    def __init__(self) -> None:
        self.converted = 0
        self.failures = 0
        self.losses: Counter[str] = Counter()

    def failed(self, where: str, why: str) -> None:
        self.failures += 1
        if self.failures <= MAX_SHOWN:
            click.echo(f"{escape(where)}: {escape(why)}", err=True)

    def lost(self, what: str) -> None:
        known = what in self.losses or len(self.losses) < MAX_KINDS
        self.losses[what if known else "other things"] += 1

    def show(self, to: str) -> None:
        for what, times in self.losses.most_common(MAX_SHOWN):
            often = f" ({times:,} times)" if times > 1 else ""
            click.echo(f"lost: {clip(what)}{often}", err=True)
        if len(self.losses) > MAX_SHOWN:
            click.echo(f"… and {len(self.losses) - MAX_SHOWN:,} more kinds of loss", err=True)
        kinds = f"; {count(len(self.losses), 'kind')} of loss" if self.losses else "; nothing lost"
        failures = f", {self.failures:,} failed" if self.failures else ""
        done = count(self.converted, "message")
        click.echo(f"{done} converted to {to}{failures}{kinds}", err=True)


def _needs_dictionary(format: str) -> bool:
    from wireloom.conversion import NEEDS_DICTIONARY  # late: it imports formats

    return format in NEEDS_DICTIONARY


def _is_convertible(format: str) -> bool:
    from wireloom.conversion import FORMATS  # late: it imports formats

    return format in FORMATS


def _choose(message: Message, target: str | None, reading: DecodeOptions) -> str | None:
    """The dictionary to write with: the one to read with, unless another is named."""
    if target is None and not _needs_dictionary(message.format):
        given: str | None = reading.given.get("dictionary")
        return given
    return target


def _convert(message: Message, to: str, dictionary: str | None, report: _Report) -> Message:
    if to == "json" or (to == message.format and dictionary is None):
        return message
    made, losses = wireloom.convert(message, to, dictionary=dictionary)
    for loss in losses:
        report.lost(str(loss))
    return made


def _writer(
    to: str, output: str | None, force: bool, source: str, stack: ExitStack
) -> Callable[[Message], object]:
    if to == "json":
        text = stack.enter_context(text_output(output, force, source))
        return lambda message: text.write(json_line(message.to_dict()) + "\n")
    binary = stack.enter_context(binary_output(output, force, source))
    return lambda message: binary.write(message.encode())


def _items(
    source: str,
    to: str,
    reading: DecodeOptions,
    capturing: CaptureOptions,
    quiet: bool,
    stack: ExitStack,
) -> Iterator[_Item]:
    """The messages of captures, of frames, or of JSON lines."""
    is_capture, stream = looked_at(stack.enter_context(open_binary(source)), source)
    if not is_capture:
        data = chunks(stream)
        head = next(data, b"")
        if suffix_of(source) in JSON_SUFFIXES or (not reading.format and head.lstrip()[:1] == b"{"):
            say_if_empty(len(head), quiet)
            return _from_lines(source, chain([head], data))
        stream = joined(chain([head], data), source)
    # A dictionary may be meant for the format to write, and not for the one read.
    show = stack.enter_context(byte_bar(total_size([source]), quiet))
    nested = _needs_dictionary(to)
    capture = open_messages([stream], reading, capturing, nested=nested, progress=show)
    stack.callback(say_unused, capture, reading, nested=nested, quiet=quiet)
    return _from_capture(capture, quiet)


def _from_capture(capture: CaptureReader, quiet: bool) -> Iterator[_Item]:
    from wireloom.captures import Gap

    for found in capture.read():
        if isinstance(found, Gap):
            continue
        where = f"byte {found.offset:,}" + ("" if found.is_raw else f" of {found.stream}")
        if found.message is not None:
            yield where, found.message
        elif isinstance(found.record, Problem):
            yield where, found.record.reason
        else:
            yield where, "text between frames is no message"
    say_if_empty(capture.capture.progress.done, quiet, capture.totals)


def _from_lines(source: str, data: Iterator[bytes]) -> Iterator[_Item]:
    for number, line in enumerate(lines(data), 1):
        where = f"{source}:{number}"
        try:
            row = parse_row(line)
            made = None if row is None else from_row(row)
        except WireloomError as error:
            yield where, str(error)
            continue
        if isinstance(made, Message):
            yield where, made
        elif made is not None:
            yield where, "text between frames is no message"
