"""A progress bar on stderr, for a person who waits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from wireloom.cli._input import file_size

__all__ = ["progress"]

BIG = 4 << 20
"""Bytes from which reading a file takes long enough for a bar."""


def is_terminal() -> bool:
    """Whether a person sees what goes to stderr."""
    return sys.stderr.isatty()


@contextlib.contextmanager
def progress(name: str, data: Iterator[bytes], quiet: bool = False) -> Iterator[Iterator[bytes]]:
    """The same chunks; a bar follows them when `name` is a large file and stderr a terminal."""
    size = file_size(name)
    if quiet or size is None or size < BIG or not is_terminal():
        yield data
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as SpeedColumn

    columns = (BarColumn(), DownloadColumn(), SpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size)

        def followed() -> Iterator[bytes]:
            for chunk in data:
                yield chunk
                bar.advance(task, len(chunk))

        yield followed()
