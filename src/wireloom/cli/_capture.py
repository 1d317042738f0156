"""Captures on the command line: recognising them, and settings from the options."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from wireloom.cli._input import PathOrDash, chunks, joined, naming, open_stdin
from wireloom.cli._options import DecodeOptions, Decorator, Listed, apply
from wireloom.cli._progress import total_size
from wireloom.errors import OptionError
from wireloom.formats import get, names

if TYPE_CHECKING:
    from wireloom.captures import Source
    from wireloom.tabulate import Settings
    from wireloom.tabulate.accounting import Totals
    from wireloom.tabulate.opening import CaptureReader

__all__ = [
    "CaptureOptions",
    "capture_options",
    "captures_argument",
    "is_capture",
    "is_nothing",
    "looked_at",
    "make_settings",
    "open_messages",
    "opened",
    "say_if_empty",
    "say_unused",
    "spare_pandas",
    "stream_options",
    "worker_count",
]

_HEAD = 12
"""Bytes looked at to tell a capture from frames back to back."""
_PCAPNG = b"\n\r\r\n"
_ALONE = 8 << 20
"""Bytes below which more than one worker is not worth it."""

captures_argument = click.argument(
    "sources",
    metavar="[FILE]...",
    nargs=-1,
    type=PathOrDash(exists=True, dir_okay=False),
)
"""The captures a command reads, in the order in which they were made; stdin when left out."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """Which formats are where, and how many threads decode."""

    formats: str | None
    ports: str | None
    tunnels: str | None
    workers: int | None


_NAMES = tuple(each.name for each in fields(CaptureOptions))
_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--formats",
        type=Listed(names),
        metavar="A,B,…",
        help="Only these formats may be on a stream of a capture.",
    ),
    click.option(
        "--ports",
        metavar="PORT=FORMAT,…",
        help="The formats on these ports; detected on all others.",
    ),
    click.option(
        "--tunnels",
        type=Listed(lambda: ("vxlan", "geneve", "gtp")),
        metavar="A,B,…",
        help="Read the packets in UDP datagrams of these kinds: vxlan, geneve, gtp.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads that decode; as many as are useful if left out.",
    ),
)


def capture_options(command: Any) -> Any:
    """``--formats --ports --tunnels --workers``; the command gets them as `capturing`."""
    return _collecting(_OPTIONS, command)


def stream_options(command: Any) -> Any:
    """``--formats --ports --tunnels``; the command gets them as `capturing`."""
    return _collecting(_OPTIONS[:3], command)


def _collecting(options: tuple[Decorator, ...], command: Any) -> Any:
    @wraps(command)
    def collected(**values: Any) -> Any:
        given = [values.pop(name, None) for name in _NAMES]
        return command(capturing=CaptureOptions(*given), **values)

    return apply(options, collected)


def _read_some(stream: BinaryIO, most: int) -> bytes:
    """What a pipe has now, without waiting for all of it."""
    read = cast("Callable[[int], bytes]", getattr(stream, "read1", stream.read))
    return read(most)


def looked_at(stream: BinaryIO, name: str) -> tuple[bool, BinaryIO]:
    """Whether it is a capture, and the stream again with all of its bytes.

    It waits for no more bytes than it needs: somebody may be typing.
    """
    if stream.seekable():
        with naming(stream):
            start = stream.tell()
            head = stream.read(_HEAD)
            stream.seek(start)
        return is_capture(head), stream
    if isinstance(stream, io.BufferedReader) and _is_enough(head := stream.peek(_HEAD)):
        return is_capture(head), stream
    head = b""
    while not _is_enough(head) and (more := _read_some(stream, _HEAD - len(head))):
        head += more
    return is_capture(head), joined(chain([head], chunks(stream)), name)


def _is_enough(head: bytes) -> bool:
    return len(head) >= (_HEAD if head[:4] == _PCAPNG else 4)


def is_capture(head: bytes) -> bool:
    """Whether a file with these first bytes is a pcap or pcapng capture, or compressed."""
    from wireloom.captures.bytesource import is_compressed
    from wireloom.captures.pcap import is_pcap
    from wireloom.captures.pcapng import is_pcapng

    return is_compressed(head) or is_pcap(head) or is_pcapng(head)


def opened(sources: Sequence[str]) -> list[Source]:
    """What can be read: paths, and stdin for ``-``."""
    if sources.count("-") > 1:
        raise click.UsageError("stdin can be read only once")
    return [open_stdin() if name == "-" else name for name in sources]


def worker_count(sources: Sequence[str], wanted: int | None) -> int:
    """How many threads are to decode."""
    if wanted is not None:
        return wanted
    size = total_size(sources)
    if size is None or size < _ALONE:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_settings(
    reading: DecodeOptions, capturing: CaptureOptions, tables: Iterable[str], **more: Any
) -> Settings:
    """The settings for `wireloom.tabulate`.

    Args:
        reading: the options of every command that reads frames.
        capturing: those of captures.
        tables: what is wanted.
        more: other settings.

    Raises:
        OptionError: an option is unknown, or its value cannot be used.
        SourceError: a file that one names cannot be read.
    """
    from wireloom.options import declared
    from wireloom.tabulate import Settings

    texts: dict[str, str] = {}
    own: dict[str, Any] = {}
    given: dict[str, Any] = {"tables": tuple(tables), **more}
    known = declared()
    read = [] if reading.format is None else [option.name for option in get(reading.format).options]
    for name, value in reading.given.items():
        if name == "strict":
            given[name] = value
        elif name in read:
            own[f"{reading.format}.{name}"] = value
        elif name.rpartition(".")[2] in known:
            own[name] = value
        else:
            texts[name] = str(value)
    for name in ("formats", "ports", "tunnels"):
        if text := getattr(capturing, name):
            texts[name] = text
    if reading.format:
        if capturing.formats:
            raise OptionError("--format and --formats exclude each other")
        given["formats"] = (reading.format,)
    return Settings.from_options(texts).changed(**given, options=own)


def open_messages(
    sources: Sequence[Source],
    reading: DecodeOptions,
    capturing: CaptureOptions,
    *,
    nested: bool = False,
    progress: Callable[[int], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> CaptureReader:
    """The messages of captures, with the options of the command line.

    Args:
        sources: what to read.
        reading: the options of every command that reads frames.
        capturing: those of captures.
        nested: whether options may also be for messages inside others.
        progress: called with the number of bytes done.
        on_wait: called before a pipe is waited for.

    Raises:
        OptionError: an option is unknown, or its value cannot be used.
        SourceError: a file that one names cannot be read.
    """
    from wireloom.formats import get
    from wireloom.tabulate import Settings
    from wireloom.tabulate.opening import open_capture

    spare_pandas()
    if reading.format and capturing.formats:
        raise OptionError("--format and --formats exclude each other")
    if reading.format:
        # If the format is named, an option that it does not have is a mistake.
        format = get(reading.format)
        own = reading.split(format)[0] if nested else reading
        format.check_options(own.for_format(format))
    texts = {name: getattr(capturing, name) for name in ("formats", "ports", "tunnels")}
    places = Settings.from_options({name: text for name, text in texts.items() if text})
    return open_capture(
        sources,
        reading.format,
        formats=places.formats,
        ports=places.ports,
        reassembly=places.reassembly,
        progress=None if progress is None else lambda now: progress(now.done),
        on_wait=on_wait,
        **reading.given,
    )


def spare_pandas() -> None:
    """Keep Arrow from importing pandas, which is not needed to read captures.

    Arrow looks for it whenever it meets a Python number; the import takes as long as reading a
    small capture. In other programs it must stay possible.

    It looks now, once and for all: while it looks, it drops whatever is raised, and a Ctrl-C that
    comes then would be lost. Call it before anything is opened for writing.
    """
    root = click.get_current_context().find_root().command
    if getattr(root, "is_program", False):
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas())
        pa.array([0])


class _NoPandas:
    """An import hook that says that there is no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """None, so that other finders are asked; an error for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=fullname)


def say_unused(
    capture: CaptureReader, reading: DecodeOptions, *, nested: bool, quiet: bool
) -> None:
    """Say which options were not used for any stream."""
    from wireloom.format import COMMON_OPTIONS
    from wireloom.formats import get

    found = [get(name) for name in capture.totals.formats if name is not None]
    if not found or quiet:
        return
    inside = [get(name) for name in names() if get(name).kind == "message"] if nested else []
    used = {
        option.name for each in (*found, *inside) for option in (*each.options, *COMMON_OPTIONS)
    }
    listed = ", ".join(each.name for each in found)
    for name in reading.given:
        if name.rpartition(".")[2] not in used:
            click.echo(f"note: {name} was not used; it is no option of {listed}", err=True)


def say_if_empty(done: int, quiet: bool = False, totals: Totals | None = None) -> None:
    """Say that nothing was read: no error, but rarely what somebody wanted.

    Args:
        done: bytes of the input.
        quiet: say nothing.
        totals: of what was read; a file that is not empty may still have no data in it.
    """
    if quiet:
        return
    if not done:
        click.echo("the input is empty", err=True)
    elif totals is not None and is_nothing(totals):
        click.echo("there is no data in the input", err=True)


def is_nothing(totals: Totals) -> bool:
    """Whether there was no data at all, as in a capture without packets."""
    return not totals.captured and not totals.errors
