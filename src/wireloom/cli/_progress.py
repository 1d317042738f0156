"""A progress bar on stderr, for a person who waits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from wireloom.cli._input import file_size

__all__ = ["byte_bar", "is_terminal", "total_size"]

BIG = 4 << 20
"""Bytes from which reading a file takes long enough for a bar."""


def is_terminal() -> bool:
    """Whether a person sees what goes to stderr."""
    return sys.stderr.isatty()


def total_size(names: Sequence[str]) -> int | None:
    """Size of all files together; None if it is not known."""
    sizes = [file_size(name) for name in names]
    return None if None in sizes else sum(size for size in sizes if size is not None)


@contextlib.contextmanager
def byte_bar(total: int | None, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of bytes done; shows a bar if there are many."""
    if quiet or total is None or total < BIG or not is_terminal():
        yield lambda done: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as SpeedColumn

    columns = (BarColumn(), DownloadColumn(), SpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
