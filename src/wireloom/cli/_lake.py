"""What the commands that work on lakes share: a bar, sizes in words, the accounting as a table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from wireloom.cli._progress import is_terminal
from wireloom.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.table import Table

__all__ = ["Bar", "accounting_table", "bar", "plain_table", "size_text", "spark_session"]


class Bar:
    """A progress bar, or none."""

    def __init__(
        self, total: Callable[[int], None] | None = None, done: Callable[[int], None] | None = None
    ) -> None:
        self._total = total
        self._done = done

    def total(self, count: int) -> None:
        """How much there is to do."""
        if self._total is not None:
            self._total(count)

    def done(self, count: int) -> None:
        """How much is done."""
        if self._done is not None:
            self._done(count)


@contextlib.contextmanager
def spark_session(master: str | None, name: str) -> Iterator[SparkSession | None]:
    """Spark for one command; None for the master ``none``. One already running keeps running.

    Args:
        master: where it runs; None: on all cores of this machine, or not at all if Spark or its
            Java is missing here, which is reported on stderr.
        name: of the application in Spark.

    Raises:
        StateError: Spark was asked for and cannot run.
    """
    if master == "none":
        yield None
        return

    from wireloom.spark.session import DEFAULT_MASTER, session

    is_running = _is_running()
    try:
        spark = session(master or DEFAULT_MASTER, name=name)
    except StateError as error:
        if master is not None:
            raise
        click.echo(f"without Spark, on one core: {error}", err=True)
        yield None
        return
    try:
        yield spark
    finally:
        if not is_running:
            spark.stop()


def _is_running() -> bool:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


@contextlib.contextmanager
def bar(text: str, quiet: bool = False) -> Iterator[Bar]:
    """A bar of bytes with rate and time left, on stderr, when that is a terminal."""
    if quiet or not is_terminal():
        yield Bar()
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as SpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        SpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(text, total=None)
        yield Bar(
            lambda count: shown.update(task, total=count),
            lambda count: shown.update(task, completed=count),
        )


def size_text(count: int) -> str:
    """A number of bytes in words.

    >>> size_text(1234), size_text(56_000_000_000)
    ('1.2 kB', '56.0 GB')
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} B"


def plain_table(*columns: str) -> Table:
    """A table without rules; all columns but the first hold numbers."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if number else "left", overflow="fold")
    return made


def accounting_table(totals: Mapping[str, int]) -> Table:
    """Where the captured bytes went, and whether the sum is right."""
    made = plain_table("accounting", "bytes", "share")
    captured = totals.get("captured", 0)
    parts = ("decoded", "quarantined", "gap", "duplicate", "left_out")
    for name in ("captured", *parts):
        count = totals.get(name, 0)
        share = f"{100 * count / captured:.3f} %" if captured else ""
        made.add_row(name.replace("_", " "), f"{count:,}", share)
    rest = captured - sum(totals.get(name, 0) for name in parts)
    made.add_row("unaccounted", f"{rest:,}", "the sum is right" if not rest else "THE SUM IS WRONG")
    made.add_row("missing", f"{totals.get('missing', 0):,}", "never captured")
    return made
