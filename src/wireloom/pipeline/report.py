"""What a run of a pipeline has done, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from wireloom.lake import DataFile
from wireloom.pipeline.work import Outcome
from wireloom.tabulate.accounting import COUNTS

__all__ = ["SUMS", "Report"]

SUMS: Final = (*COUNTS, "errors", "damaged", "streams")
"""The numbers that are added up over all tasks."""


@dataclass(slots=True)
class Report:
    """What a run has done."""

    files_read: int = 0
    files_known: int = 0
    """Captures that had been read before and have not changed."""
    files_replaced: int = 0
    """Captures that have changed: their rows were replaced."""
    bytes_read: int = 0
    commits: int = 0
    repairs: int = 0
    """Ranges that were read again because they did not meet."""
    seconds: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written, by table."""
    totals: dict[str, int] = field(default_factory=dict)
    """Sums of the accounting of what was read."""

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count what tasks have done."""
        for outcome in outcomes:
            for name in SUMS:
                self.totals[name] = self.totals.get(name, 0) + outcome.totals.get(name, 0)

    def wrote(self, files: Iterable[DataFile]) -> None:
        """Count files that were committed."""
        for file in files:
            self.rows[file.table] = self.rows.get(file.table, 0) + file.rows

    def withdrew(self, files: Iterable[DataFile]) -> None:
        """Count files that were committed before but are no longer valid."""
        for file in files:
            self.rows[file.table] = self.rows.get(file.table, 0) - file.rows
