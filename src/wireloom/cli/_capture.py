"""Captures on the command line: what is one, and the settings that its options make."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from wireloom.cli._input import PathOrDash, open_stdin
from wireloom.cli._options import DecodeOptions, Decorator, Listed, apply
from wireloom.cli._progress import total_size
from wireloom.errors import OptionError
from wireloom.formats import names

if TYPE_CHECKING:
    from wireloom.captures import Source
    from wireloom.tabulate import Settings

__all__ = [
    "CaptureOptions",
    "capture_options",
    "captures_argument",
    "is_capture",
    "looked_at",
    "make_settings",
    "opened",
    "worker_count",
]

_HEAD = 12
"""Bytes that tell a capture from frames back to back."""
_PCAPNG = b"\n\r\r\n"
_ALONE = 8 << 20
"""Bytes for which more than one worker is not worth it."""

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


_NAMES = tuple(each.name for each in dataclasses.fields(CaptureOptions))
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
        help="What is spoken on these ports; detected on all others.",
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
        help="Threads that decode; as many as are of use when left out.",
    ),
)


def capture_options(command: Any) -> Any:
    """``--formats --ports --tunnels --workers``; the command gets them as `capturing`."""

    @wraps(command)
    def collected(**values: Any) -> Any:
        capturing = CaptureOptions(*(values.pop(name) for name in _NAMES))
        return command(capturing=capturing, **values)

    return apply(_OPTIONS, collected)


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes have been read, from its start."""

    def __init__(self, head: bytes, stream: BinaryIO, name: str) -> None:
        self.name = name
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What is there, at most as much as the buffer holds."""
        data = self._head[: len(buffer)] or _read_some(self._stream, len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def _read_some(stream: BinaryIO, most: int) -> bytes:
    """What a pipe holds now, without waiting for all of it."""
    read = cast("Callable[[int], bytes]", getattr(stream, "read1", stream.read))
    return read(most)


def looked_at(stream: BinaryIO, name: str) -> tuple[bool, BinaryIO]:
    """Whether it is a capture, and the stream again with all of its bytes.

    No more is waited for than must be known: somebody may be typing.
    """
    if stream.seekable():
        start = stream.tell()
        head = stream.read(_HEAD)
        stream.seek(start)
        return is_capture(head), stream
    if isinstance(stream, io.BufferedReader) and _is_enough(head := stream.peek(_HEAD)):
        return is_capture(head), stream
    head = b""
    while not _is_enough(head) and (more := _read_some(stream, _HEAD - len(head))):
        head += more
    return is_capture(head), io.BufferedReader(_Rejoined(head, stream, name))


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
    from wireloom.tabulate import Settings

    texts: dict[str, str] = {}
    given: dict[str, Any] = {"tables": tuple(tables), **more}
    for name, value in reading.given.items():
        if name in ("dictionary", "model", "strict"):
            given[name] = value
        elif name in ("proto", "bind"):
            given[name] = tuple(value)
        elif name == "dialect":
            given[_dialect_of(value, reading.format)] = value
        else:
            texts[name] = str(value)
    for name in ("formats", "ports", "tunnels"):
        if text := getattr(capturing, name):
            texts[name] = text
    if reading.format:
        if capturing.formats:
            raise OptionError("--format and --formats exclude each other")
        given["formats"] = (reading.format,)
    return dataclasses.replace(Settings.from_options(texts), **given)


def _dialect_of(dialect: str, format: str | None) -> str:
    """Which setting a dialect is for: that of the format, or of the one that has such a dialect."""
    from wireloom.formats import get

    known = {
        name: option.choices
        for name in names()
        for option in get(name).options
        if option.name == "dialect"
    }
    for name, choices in known.items():
        if (name == format or format is None) and dialect in choices:
            return f"{name}_dialect"
    listed = "; ".join(f"{name}: {', '.join(choices)}" for name, choices in known.items())
    raise OptionError(f"no dialect {dialect!r}; there are {listed}")
