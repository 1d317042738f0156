"""What runs the units of a pipeline: the calling process, or an engine such as Spark.

An executor is given a job, which all tasks share, and units of work, and returns their outcomes.
What goes to the tasks and comes back is small: descriptions, never rows. An executor decides
nothing: what is read, proven and committed is the same with each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from wireloom.lake import DataFile, Input
from wireloom.pipeline.plan import Unit
from wireloom.pipeline.quarantine import Quarantine
from wireloom.pipeline.work import Job, Outcome, done_bytes, work

__all__ = ["Engine", "Executor", "InProcess", "Progress", "checked", "watched"]

Progress = Callable[[int], None]
"""Called from time to time with the number of bytes done."""

_LOOK_S: Final = 0.25
"""Seconds between two checks of the tasks' progress."""


class Executor(ABC):
    """Runs units of work."""

    @property
    @abstractmethod
    def cores(self) -> int:
        """Tasks that run at the same time, as far as is known."""

    @abstractmethod
    def run(self, job: Job, units: Sequence[Unit | Quarantine]) -> Iterable[Outcome]:
        """Run the units, each with `wireloom.pipeline.work.work`; return the outcomes in any order.

        Raises:
            Exception: the executor's own, when a task failed as often as it allows.
        """


class Engine(Executor):
    """An executor that can also move rows from task to task, and write tables by itself."""

    @abstractmethod
    def exchange(
        self, job: Job, inputs: Sequence[Input], parts: int, split_bytes: int
    ) -> Iterable[Outcome]:
        """Read packet captures as one capture: every packet is sent to the task of its connection.

        Raises:
            SourceError: a capture cannot be read.
            Exception: the engine's own, when a task failed as often as it allows.
        """

    @abstractmethod
    def write_tables(
        self, job: Job, units: Sequence[Unit], tables: Sequence[str]
    ) -> list[DataFile]:
        """Have tables decoded by tasks and written by the engine, into the lake's staging folder.

        Raises:
            Exception: the engine's own, when a task failed as often as it allows.
        """


class InProcess(Executor):
    """The calling process: one unit after the other."""

    @property
    def cores(self) -> int:
        """1: units run one after the other."""
        return 1

    def run(self, job: Job, units: Sequence[Unit | Quarantine]) -> Iterator[Outcome]:
        """Run the units here, in order.

        Raises:
            OSError: files cannot be written.
        """
        for number, unit in enumerate(units):
            yield work(job, number, unit)


def checked(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes.

    Raises:
        WireloomError: a task gave up.
    """
    found = []
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
        found.append(outcome)
    return found


@contextmanager
def watched(job: Job, progress: Progress | None) -> Iterator[None]:
    """Report the tasks' progress to `progress` while the block runs."""
    if progress is None:
        yield
        return
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_S):
            progress(done_bytes(job))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
