"""Where a command's output goes: stdout or a new file, as text, as bytes or drawn."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from wireloom.view import escape

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["PART", "PIPE_WIDTH", "binary_output", "is_plain", "make_console", "show", "text_output"]

PART = ".part"
"""The end of a file's name while it is written."""

PIPE_WIDTH = 200
"""Width of tables that do not go to a terminal."""


def is_plain(stream: IO[str]) -> bool:
    """Whether the stream is not a terminal, and no width was given."""
    return not stream.isatty() and "COLUMNS" not in os.environ


@contextlib.contextmanager
def _created(path: str, force: bool, source: str | None, **how: Any) -> Iterator[IO[Any]]:
    """A new file, which gets its name only once all of it is written."""
    exists = os.path.exists(path)
    if exists and source is not None and _is_same_file(path, source):
        raise click.UsageError(f"{escape(path)} is also the input; write to another file")
    if exists and not os.path.isfile(path):
        with open(path, **how) as file:  # a device or a pipe, which cannot be replaced
            yield file
        return
    if exists and not force:
        raise click.UsageError(f"{escape(path)} exists; overwrite it with --force")
    target = os.path.realpath(path)  # the target of a link is replaced, not the link
    folder, name = os.path.split(target)
    aside = os.path.join(folder, f".{name}.{os.getpid()}{PART}")
    try:
        file = open(aside, **how)  # noqa: SIM115
    except OSError as error:
        error.filename = path  # the name that the user knows
        raise
    try:
        with file:
            yield file
        if exists:
            shutil.copymode(target, aside)
        os.replace(aside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def _is_same_file(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


@contextlib.contextmanager
def text_output(path: str | None, force: bool, source: str | None = None) -> Iterator[IO[str]]:
    """A text stream to write to: a new file, or stdout for None and ``-``.

    Args:
        path: where to write.
        force: whether a file may be overwritten.
        source: the input, which is never overwritten.
    """
    if path is None or path == "-":
        yield sys.stdout
    else:
        how = {"mode": "w", "encoding": "utf-8", "newline": "", "errors": "backslashreplace"}
        with _created(path, force, source, **how) as file:
            yield file


@contextlib.contextmanager
def binary_output(path: str | None, force: bool, source: str | None = None) -> Iterator[IO[bytes]]:
    """A binary stream: a new file, or stdout for None and ``-``, unless that is a terminal."""
    if path is not None and path != "-":
        with _created(path, force, source, mode="wb") as file:
            yield file
        return
    if sys.stdout.isatty():
        raise click.UsageError(
            "this writes bytes, not text: send them to a file with -o, or to a pipe"
        )
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def make_console(stream: IO[str]) -> Console:
    """A console that draws on `stream`, plain unless that is a terminal."""
    from rich.console import Console

    fixed = PIPE_WIDTH if is_plain(stream) else None
    return Console(file=stream, width=fixed, highlight=False, emoji=False, markup=False)


def show(console: Console, what: RenderableType) -> None:
    """Print; if it is not a terminal, without trailing blanks."""
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")
