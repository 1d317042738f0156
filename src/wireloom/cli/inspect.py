"""``wireloom inspect``: hex beside a field tree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import click

import wireloom
from wireloom.cli._capture import (
    CaptureOptions,
    is_nothing,
    looked_at,
    open_messages,
    say_if_empty,
    stream_options,
)
from wireloom.cli._formatoptions import ReadingCommand
from wireloom.cli._help import examples
from wireloom.cli._hex import HexError, parse_hex
from wireloom.cli._input import PathOrDash, chunks, from_text, joined, open_binary, skip
from wireloom.cli._options import DecodeOptions, decode_options, force_option, limit_option
from wireloom.cli._output import show, text_output
from wireloom.cli._sizes import show_time
from wireloom.errors import DecodeError
from wireloom.framing import Frame, Problem, Text
from wireloom.outline import Node
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.tabulate.opening import Captured, CaptureReader

__all__ = ["command"]

_MAX_STREAMS = 1000
"""Streams whose names are kept to suggest one."""
_SHOWN_STREAMS = 3


@dataclass(slots=True)
class _Section:
    """One dump with its tree."""

    heading: str
    data: bytes
    root: Node
    failed: bool


@click.command(
    cls=ReadingCommand,
    epilog=examples(
        "wireloom inspect 0003 0000 0000 0000 0000",
        "wireloom inspect capture.bin --offset 333 --limit 1",
        "xxd capture.bin | wireloom inspect -",
        "wireloom inspect message.hex --html message.html",
        "wireloom inspect day1.pcapng.zst --stream 'tcp 10.0.0.1:7000 > 10.0.0.2:4242 #1' "
        "--offset 333 -n 1",
    ),
)
@click.argument("source", metavar="[FILE|HEX...]", nargs=-1)
@decode_options
@stream_options
@click.option("--stream", metavar="NAME", help="Show this stream of a capture only.")
@click.option(
    "--hex/--raw", "is_hex", default=None, help="What a file holds; detected when left out."
)
@limit_option(10, "Show the first N frames.")
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="BYTE",
    help="Start here, at a frame_offset that decode printed or an errors row has.",
)
@click.option("--nested/--no-nested", default=True, help="Show payloads of other formats inside.")
@click.option(
    "--color/--no-color", "colour", default=None, help="Colours; by default on a terminal."
)
@click.option(
    "--html",
    "page",
    type=PathOrDash(dir_okay=False, readable=False),
    help="Write an HTML page instead.",
)
@force_option
def command(
    source: tuple[str, ...],
    reading: DecodeOptions,
    capturing: CaptureOptions,
    stream: str | None,
    is_hex: bool | None,
    limit: int,
    offset: int,
    nested: bool,
    colour: bool | None,
    page: str | None,
    force: bool,
) -> None:
    """Show bytes as a hex dump beside their field tree.

    Takes hex in nearly any form, a file (binary or hex) or stdin; also a pcap or pcapng capture,
    with or without gzip or zstd, in which --stream and --offset choose a frame. Where the bytes
    cannot be read, the field says why and its bytes are marked.
    """
    from wireloom.captures import Gap

    with ExitStack() as stack:
        is_capture, data = _open(source, is_hex, stack)
        if stream is not None and not is_capture:
            raise click.UsageError("--stream is for captures: these bytes are one stream")
        base = 0 if is_capture else offset
        if not is_capture:
            data = joined(skip(chunks(data), offset), data.name)
        capture = open_messages([data], reading, capturing, nested=nested)
        every = (each for each in capture.read(decode=False) if not isinstance(each, Gap))
        streams: dict[str, None] = {}
        found = _chosen(every, stream, offset, streams) if is_capture else every
        sections = _sections(capture, islice(found, limit), nested, base)
        shown, failed = _write_page(page, force, sections) if page else _print(sections, colour)
        done, totals = capture.capture.progress.done, capture.totals
    if not offset and not shown and stream is None and is_nothing(totals):
        say_if_empty(done, totals=totals)
    elif not shown:
        where = ""
        if stream is not None:
            if stream not in streams:
                raise click.ClickException(_no_stream(stream, list(streams)))
            where = f" of stream {escape(stream)}"
        raise click.ClickException(f"there is nothing at or behind byte {offset:,}{where}")
    if failed:
        raise click.exceptions.Exit(1)


def _chosen(
    found: Iterator[Captured], stream: str | None, offset: int, streams: dict[str, None]
) -> Iterator[Captured]:
    """The records of a stream, or of all, from the one that has the byte at that offset.

    The names of some streams that are met are put into `streams`, and always that of the chosen.
    """
    for each in found:
        if each.stream is not None and (each.stream == stream or len(streams) < _MAX_STREAMS):
            streams[each.stream] = None
        if (stream is None or each.stream == stream) and each.offset + each.length > offset:
            yield each


def _no_stream(name: str, known: list[str]) -> str:
    """What is said of a stream that is not there: with the nearest names first."""
    near = get_close_matches(name, known, _SHOWN_STREAMS, 0) or known[:_SHOWN_STREAMS]
    listed = "; ".join(f"'{escape(each)}'" for each in near)
    more = f" and {len(known) - len(near):,} more" if len(known) > len(near) else ""
    return f"no stream '{escape(name)}'; there are {listed or 'none'}{more}"


def _open(source: tuple[str, ...], is_hex: bool | None, stack: ExitStack) -> tuple[bool, BinaryIO]:
    """Whether it is a capture, and the bytes: of a file or stdin, or written down as hex."""
    name = source[0] if len(source) == 1 else ""
    try:
        if os.path.isdir(name):
            raise click.UsageError(f"{escape(name)} is a folder; name a file")
        if not source or name == "-" or os.path.exists(name):
            file = stack.enter_context(open_binary(name or "-"))
            is_capture, stream = looked_at(file, name or "-")
            if is_capture and not is_hex:
                return True, stream
            data = from_text(stream, is_hex)
            # The first bytes show whether it is hex.
            return False, joined(chain([next(data, b"")], data), name or "-")
        return False, joined(iter([parse_hex(" ".join(source))]), "hex")
    except HexError as error:
        what = f"no file {escape(name)!r}, and as hex" if name and name != "-" else "hex"
        raise click.UsageError(f"{what}: {escape(str(error))}") from None


def _sections(
    capture: CaptureReader, records: Iterable[Captured], with_nested: bool, base: int
) -> Iterator[_Section]:
    """A view of every record, each followed by those of the messages inside."""
    for found in records:
        yield _section(capture, found, base)
        if with_nested and isinstance(found.record, Frame):
            yield from _inside(capture, found)


def _section(capture: CaptureReader, found: Captured, base: int) -> _Section:
    record = found.record
    where = f"{record.format or 'unrecognised'} at byte {base + found.offset:,}"
    if not found.is_raw:
        where += f" of {found.stream}" if found.stream else f" of {found.source}"
    if found.ts_ns is not None:
        where += f", {show_time(found.ts_ns)}"
    where += f", {found.length:,} bytes"
    if isinstance(record, Text):
        root = Node("text", 0, record.length, record.data.decode(errors="replace"))
        return _Section(f"{where}: text", record.data, root, failed=False)
    root = Node("bytes", 0, len(record.data))
    if record.format:
        root = capture.codec(record.format).outline(record.data)
    if isinstance(record, Problem):
        field = f" in {record.path}" if record.path else ""
        reason = f"{record.reason} (at byte {base + record.at:,}{field})"
        return _Section(f"{where}: {reason}", record.data, root, failed=True)
    failed = any(node.error for _, node in root.walk())
    return _Section(where, record.data, root, failed)


def _inside(capture: CaptureReader, found: Captured) -> Iterator[_Section]:
    from wireloom.nesting import Unreadable

    try:
        message = capture.codec(found.record.format).decode(found.record.data)
    except DecodeError:
        return  # the tree above says why
    for inner in capture.nested(replace(found, message=message)):
        where = f"{inner.format} in {inner.path}"
        if isinstance(inner, Unreadable):
            root = wireloom.outline(inner.data, inner.format)
            yield _Section(f"{where}: {inner.error}", inner.data, root, failed=True)
        else:
            data = inner.message.encode()
            heading = f"{where}, {len(data):,} bytes"
            yield _Section(heading, data, inner.message.outline(), failed=False)


def _print(sections: Iterator[_Section], colour: bool | None) -> tuple[int, bool]:
    from rich.console import Console, Group
    from rich.text import Text as RichText

    from wireloom.cli._draw import draw

    console = Console(
        force_terminal=colour or None,
        no_color=None if colour is None else not colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    shown, failed = 0, False
    for section in sections:
        shown += 1
        failed |= section.failed
        style = "bold red" if section.failed else "bold"
        heading = RichText(escape(section.heading), style)
        show(console, Group(heading, draw(console, section.data, section.root), RichText()))
    return shown, failed


def _write_page(page: str, force: bool, sections: Iterator[_Section]) -> tuple[int, bool]:
    from wireloom.view import to_page

    shown = list(sections)
    with text_output(page, force) as stream:
        stream.writelines(to_page("wireloom inspect", ((s.heading, s.data, s.root) for s in shown)))
    click.echo(f"{escape(page)}: {len(shown)} shown", err=True)
    return len(shown), any(section.failed for section in shown)
