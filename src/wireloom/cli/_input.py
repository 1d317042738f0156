"""Where a command's bytes come from: a file or stdin, in chunks, never all at once."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

import click

from wireloom.cli._hex import HexError, parse_hex

__all__ = [
    "CHUNK",
    "MAX_HEX",
    "PathOrDash",
    "chunks",
    "file_argument",
    "file_size",
    "from_text",
    "joined",
    "lines",
    "naming",
    "open_binary",
    "open_stdin",
    "skip",
]

CHUNK = 1 << 18
"""Bytes read at a time: enough to make reading cheap, few enough to show progress."""

MAX_HEX = 1 << 26
"""Most characters of hex text; hex is for people, captures are binary."""

HEAD = 4096
"""Bytes looked at to tell hex text from binary."""


class PathOrDash(click.Path):
    """A path, or ``-`` for stdin or stdout, even if there is a file of that name."""

    # Instead of allow_dash, which in older clicks compares bytes with str.
    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """The value itself, if it may be used."""
        return value if value == "-" else super().convert(value, param, ctx)


file_argument = click.argument(
    "source",
    metavar="[FILE]",
    default="-",
    type=PathOrDash(exists=True, dir_okay=False),
)
"""The file a command reads; stdin when left out."""


def open_stdin() -> BinaryIO:
    """The bytes of stdin; if it is a terminal, the user is told to type."""
    # Python has no stdin when the caller closed it; the type says otherwise.
    if cast("object", sys.stdin) is None:
        raise click.UsageError("stdin is closed; name a file")
    if sys.stdin.isatty():
        # A command that silently waits for typing looks as if it hangs.
        click.echo("Reading from the terminal; end with Ctrl-D, stop with Ctrl-C.", err=True)
    return sys.stdin.buffer


@contextlib.contextmanager
def open_binary(name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, or of stdin for ``-``."""
    if name == "-":
        yield open_stdin()
    else:
        with open(name, "rb") as file:
            yield file


@contextlib.contextmanager
def naming(stream: BinaryIO) -> Iterator[None]:
    """Errors of reading the stream say which file it was."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = getattr(stream, "name", None)
        raise


def chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The stream in chunks: a pipe's bytes are passed on before a chunk is full."""
    read = cast("Callable[[int], bytes]", getattr(stream, "read1", stream.read))
    while True:
        with naming(stream):
            chunk = read(CHUNK)
        if not chunk:
            return
        yield chunk


class _Joined(io.RawIOBase):
    """Chunks as a file that is read once."""

    def __init__(self, data: Iterator[bytes], name: str) -> None:
        self.name = name
        self._data = data
        self._rest = b""

    def readable(self) -> bool:
        """It can be read, and nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is available, at most as much as the buffer holds."""
        while not self._rest:
            chunk = next(self._data, None)
            if chunk is None:
                return 0
            self._rest = chunk
        data = self._rest[: len(buffer)]
        self._rest = self._rest[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def joined(data: Iterator[bytes], name: str) -> BinaryIO:
    """Chunks as a file that is read once, under this name."""
    return io.BufferedReader(_Joined(data, name))


def skip(data: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The chunks without the first `size` bytes."""
    for chunk in data:
        if size < len(chunk):
            yield chunk[size:]
        size = max(size - len(chunk), 0)


def lines(data: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text in UTF-8; invalid bytes become visible marks."""
    pieces: list[bytes] = []  # joined once: a line may span many chunks
    for chunk in data:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield _text(b"".join([*pieces, chunk[start:end]]))
            pieces.clear()
            start = end + 1
        pieces.append(chunk[start:])
    if rest := b"".join(pieces):
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix("\ufeff")


def file_size(name: str) -> int | None:
    """Size of a regular file; None if it is not known."""
    if name == "-" or not os.path.isfile(name):
        return None
    return os.path.getsize(name)


def _looks_like_text(head: bytes) -> bool:
    return bool(head) and all(32 <= byte < 127 or 9 <= byte <= 13 for byte in head)


def from_text(stream: BinaryIO, force: bool | None = None) -> Iterator[bytes]:
    """The bytes of a stream that holds either hex or the bytes themselves.

    Args:
        stream: what to read.
        force: True: it is hex, False: it is not; None: look at it.

    Raises:
        HexError: it must be hex, and is not.
    """
    first = b"" if force else stream.read(HEAD)
    if force or (force is None and _looks_like_text(first)):
        text = first + stream.read(MAX_HEX - len(first))
        try:
            yield parse_hex(text.decode("ascii", "replace"))
            return
        except HexError:
            if force:
                raise
        first = text
    if first:
        yield first
    yield from chunks(stream)
