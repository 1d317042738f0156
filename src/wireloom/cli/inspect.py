"""``wireloom inspect``: hex beside a field tree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import click

import wireloom
from wireloom.cli._codec import Codec
from wireloom.cli._formatoptions import ReadingCommand
from wireloom.cli._help import examples
from wireloom.cli._hex import HexError, parse_hex
from wireloom.cli._input import from_text, open_binary, skip
from wireloom.cli._options import DecodeOptions, decode_options, force_option, limit_option
from wireloom.cli._output import show, text_output
from wireloom.errors import DecodeError
from wireloom.framing import Problem, Record, Text
from wireloom.outline import Node
from wireloom.view import escape

__all__ = ["command"]


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
    ),
)
@click.argument("source", metavar="[FILE|HEX...]", nargs=-1)
@decode_options
@click.option("--hex/--raw", "is_hex", default=None, help="What a file holds; seen from its text.")
@limit_option(10, "Show the first N frames.")
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="BYTE",
    help="Start here, at a frame_offset that decode printed.",
)
@click.option("--nested/--no-nested", default=True, help="Show payloads of other formats inside.")
@click.option(
    "--color/--no-color", "colour", default=None, help="Colours; by default on a terminal."
)
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write a page instead.")
@force_option
def command(
    source: tuple[str, ...],
    reading: DecodeOptions,
    is_hex: bool | None,
    limit: int,
    offset: int,
    nested: bool,
    colour: bool | None,
    page: str | None,
    force: bool,
) -> None:
    """Show bytes as a hex dump beside their field tree.

    Takes hex in nearly any form, a file (binary or hex) or stdin. Where the bytes cannot be read,
    the field says why and its bytes are marked.
    """
    with _open(source, is_hex) as data:
        codec, data = Codec.for_stream(skip(data, offset), reading, nested)
        records = islice(codec.records(data, offset), limit)
        sections = _sections(codec, records, nested)
        failed = _write_page(page, force, sections) if page else _print(sections, colour)
    if failed:
        raise click.exceptions.Exit(1)


@contextmanager
def _open(source: tuple[str, ...], is_hex: bool | None) -> Iterator[Iterator[bytes]]:
    """The bytes of the argument: of a file or stdin, or written down as hex."""
    name = source[0] if len(source) == 1 else ""
    try:
        if not source or name == "-" or os.path.exists(name):
            with open_binary(name or "-") as stream:
                yield from_text(stream, is_hex)
        else:
            yield iter([parse_hex(" ".join(source))])
    except HexError as error:
        what = f"no file {escape(name)!r}, and as hex" if name and name != "-" else "hex"
        raise click.UsageError(f"{what}: {escape(str(error))}") from None


def _sections(codec: Codec, records: Iterable[Record], with_nested: bool) -> Iterator[_Section]:
    """Every record's view, and below each that of the messages inside."""
    for record in records:
        yield _section(codec, record)
        if with_nested and not isinstance(record, (Problem, Text)):
            yield from _inside(codec, record.data)


def _section(codec: Codec, record: Record) -> _Section:
    where = f"{record.format} at byte {record.offset:,}, {record.length:,} bytes"
    if isinstance(record, Text):
        root = Node("text", 0, record.length, record.data.decode(errors="replace"))
        return _Section(f"{where}: text", record.data, root, failed=False)
    root = codec.outline(record.data)
    if isinstance(record, Problem):
        field = f" in {record.path}" if record.path else ""
        reason = f"{record.reason} (at byte {record.at:,}{field})"
        return _Section(f"{where}: {reason}", record.data, root, failed=True)
    failed = any(node.error for _, node in root.walk())
    return _Section(where, record.data, root, failed)


def _inside(codec: Codec, data: bytes) -> Iterator[_Section]:
    from wireloom.nesting import Unreadable

    try:
        message = codec.decode(data)
    except DecodeError:
        return  # the tree above says why
    for inner in codec.nested(message):
        where = f"{inner.format} in {inner.path}"
        if isinstance(inner, Unreadable):
            root = wireloom.outline(inner.data, inner.format)
            yield _Section(f"{where}: {inner.error}", inner.data, root, failed=True)
        else:
            data = inner.message.encode()
            heading = f"{where}, {len(data):,} bytes"
            yield _Section(heading, data, inner.message.outline(), failed=False)


def _print(sections: Iterator[_Section], colour: bool | None) -> bool:
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
    failed = False
    for section in sections:
        failed |= section.failed
        style = "bold red" if section.failed else "bold"
        heading = RichText(escape(section.heading), style)
        show(console, Group(heading, draw(console, section.data, section.root), RichText()))
    return failed


def _write_page(page: str, force: bool, sections: Iterator[_Section]) -> bool:
    from wireloom.view import to_page

    shown = list(sections)
    with text_output(page, force) as stream:
        stream.writelines(to_page("wireloom inspect", ((s.heading, s.data, s.root) for s in shown)))
    click.echo(f"{escape(page)}: {len(shown)} shown", err=True)
    return any(section.failed for section in shown)
