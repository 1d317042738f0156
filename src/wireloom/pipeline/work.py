"""What a task does: decode its share, write Parquet into staging, report what it wrote."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wireloom.captures import Capture
from wireloom.captures.finding import open_source
from wireloom.errors import WireloomError
from wireloom.lake import DataFile, StagedWriter, WriteOptions
from wireloom.lake.layout import STAGING
from wireloom.pipeline.plan import FlowPartition, Range, Unit, Whole
from wireloom.pipeline.quarantine import Quarantine, Reread, reread
from wireloom.tabulate import Batches, Settings, Tabulator, Totals, tabulate_range

__all__ = ["Job", "Note", "Outcome", "decode", "done_bytes", "summed", "work"]

_REPORT_S: Final = 0.5
"""Seconds between two notes of a task's progress."""

Report = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """What all tasks share; it is sent to each of them."""

    root: str
    """Folder of the lake."""
    run: str
    """Name of the staging folder."""
    settings: Settings
    writing: WriteOptions
    step: int = 0
    """Counts the jobs of a run, so that their notes are kept apart."""


@dataclass(frozen=True)
class Outcome:
    """What a task has done."""

    unit: Unit | Quarantine | None
    """None: the caller did it itself."""
    files: tuple[DataFile, ...] = ()
    start: int = 0
    """For a range: where its rows begin."""
    end: int = 0
    """For a range: where they end."""
    totals: dict[str, Any] = field(default_factory=dict)
    accounting: tuple[dict[str, Any], ...] = ()
    """For a range: its share of the capture's row of accounting, for the driver to add up."""
    reread: Reread | None = None
    """For a file of the quarantine: what became of it."""
    error: WireloomError | None = None
    """Why it was given up; another attempt would not help."""


def work(job: Job, number: int, unit: Unit | Quarantine) -> Outcome:
    """Do the work of one task.

    Errors that lie in the captures or the settings are part of the outcome. Others (a full disk, a
    lost file system) are raised, so that the executor may try again.
    """
    note = Note(job, number)
    try:
        if isinstance(unit, Range):
            return _range(job, unit, note)
        if isinstance(unit, Quarantine):
            return _quarantine(job, unit, note)
        return _capture(job, unit, note)
    except WireloomError as error:
        return Outcome(unit, error=error)


def _range(job: Job, unit: Range, report: Report) -> Outcome:
    reader = tabulate_range(unit.path, unit.first, unit.last, job.settings, is_seam=unit.is_seam)
    accounts: list[dict[str, Any]] = []
    with StagedWriter(job.root, job.run, job.writing) as writer:
        for table, batch in reader.batches():
            if table == "accounting":
                accounts += batch.to_pylist()
            else:
                writer.write(table, batch)
            report(min(reader.totals.captured, unit.size))
        files = tuple(writer.close())
    report(unit.size)
    return Outcome(unit, files, reader.start, reader.end, summed(reader.totals), tuple(accounts))


def _quarantine(job: Job, unit: Quarantine, report: Report) -> Outcome:
    with StagedWriter(job.root, job.run, job.writing) as writer:
        found = reread(job.settings, unit, writer)
        files = tuple(writer.close())
    report(unit.size)
    return Outcome(unit, files, reread=found)


def _capture(job: Job, unit: Whole | FlowPartition, report: Report) -> Outcome:
    with StagedWriter(job.root, job.run, job.writing) as writer:
        totals = Totals()
        for table, batch in _batches(job.settings, unit, report, totals):
            writer.write(table, batch)
        files = tuple(writer.close())
    return Outcome(unit, files, totals=summed(totals))


def _batches(
    settings: Settings, unit: Whole | FlowPartition, report: Report, totals: Totals
) -> Batches:
    part, parts = (unit.part, unit.parts) if isinstance(unit, FlowPartition) else (0, 1)
    sources = [open_source(path) for path in unit.paths]
    capture = Capture(sources, limits=settings.reassembly, part=part, parts=parts)
    tabulator = Tabulator(settings, totals=totals)
    for event in capture:
        yield from tabulator.feed(event)
        # Every part reads everything: each counts its share as done.
        report(capture.progress.done // parts)
    yield from tabulator.close()
    report(capture.progress.done // parts)


def decode(settings: Settings, unit: Unit) -> Batches:
    """The tables of a unit, without writing them.

    Raises:
        SourceError: a capture cannot be read.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    if isinstance(unit, Range):
        reader = tabulate_range(unit.path, unit.first, unit.last, settings, is_seam=unit.is_seam)
        return reader.batches()
    return _batches(settings, unit, lambda done: None, Totals())


def summed(totals: Totals) -> dict[str, Any]:
    """The totals as the driver adds them up."""
    return totals.to_dict() | {"errors": totals.errors, "damaged": totals.damaged}


# --- progress -------------------------------------------------------------------------------------


class Note:
    """A task's progress, in a file of its own that the driver reads now and then.

    It costs nothing to lose one, so nothing here is durable. Two attempts at the same task share a
    file, and the last one to write is shown.
    """

    def __init__(self, job: Job, number: int) -> None:
        self._path = _notes(job) / f"{number}"
        self._next = 0.0

    def __call__(self, done: int, *, is_last: bool = False) -> None:
        """Note that that many bytes are done."""
        now = time.monotonic()
        if is_last or now >= self._next:
            self._next = now + _REPORT_S
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                waiting = self._path.with_name(f".{self._path.name}.{os.getpid()}")
                waiting.write_text(str(done), "ascii")
                waiting.replace(self._path)


def _notes(job: Job) -> Path:
    return Path(job.root, STAGING, job.run, f"progress-{job.step}")


def done_bytes(job: Job) -> int:
    """Bytes that the tasks of a job have read, by their own notes."""
    return sum(_read(path) for path in _listed(_notes(job)))


def _listed(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in folder.iterdir() if not path.name.startswith("."))


def _read(path: Path) -> int:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return 0
