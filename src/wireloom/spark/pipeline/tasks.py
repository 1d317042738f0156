"""Units of work → Spark tasks → outcomes.

A data frame of numbers with one row a partition, and `mapInArrow`: no RDDs, which Spark Connect
does not have. What goes to the tasks and comes back is small: descriptions, never rows.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from wireloom.spark.pipeline.plan import Unit
from wireloom.spark.pipeline.quarantine import Quarantine
from wireloom.spark.pipeline.work import Job, Outcome, done_bytes, work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Progress", "checked", "cores", "followed", "map_batches", "run_units"]

Progress = Callable[[int], None]
"""Told how many bytes are done, from time to time."""

_LOOK_S: Final = 0.25


def cores(spark: SparkSession | None) -> int:
    """Tasks that run at a time, as far as Spark tells."""
    if spark is None:
        return 1
    try:
        found: int = spark.sparkContext.defaultParallelism
    except Exception:  # Spark Connect has no context
        return 2
    return max(found, 1)


def run_units(
    spark: SparkSession | None,
    job: Job,
    units: Sequence[Unit | Quarantine],
    progress: Progress | None = None,
) -> list[Outcome]:
    """Have the units done by Spark's workers, one a task; the largest begin first.

    Without a session they are done here, one after the other.

    Raises:
        WireloomError: a task gave up because of the captures or the settings.
        Exception: Spark's own, when tasks failed as often as it allows.
    """
    if not units:
        return []
    ordered = sorted(units, key=lambda unit: unit.size, reverse=True)
    if spark is None:
        with followed(job, progress):
            return checked(work(job, number, unit) for number, unit in enumerate(ordered))
    numbers = spark.range(0, len(ordered), 1, len(ordered))
    tasks = _tasks(pickle.dumps(job), [pickle.dumps(unit) for unit in ordered])
    frame = map_batches(numbers, tasks, "outcome binary")
    with followed(job, progress):
        rows = frame.collect()
    return checked(pickle.loads(row[0]) for row in rows)


def map_batches(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """The frame that a function makes of Arrow batches."""
    with warnings.catch_warnings():
        # Spark looks at the version of pandas and may not like it; nothing here uses pandas.
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        return frame.mapInArrow(function, schema)


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


def _tasks(
    job: bytes, units: list[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in the workers; a function of this module's own would not find it there."""

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shared: Job = pickle.loads(job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                outcome = work(shared, number, pickle.loads(units[number]))
                made = pa.array([pickle.dumps(outcome)], pa.binary())
                yield pa.record_batch([made], names=["outcome"])

    return tasks


@contextmanager
def followed(job: Job, progress: Progress | None) -> Iterator[None]:
    """Tell `progress` what the tasks say, as long as the block runs."""
    if progress is None:
        yield
        return
    is_over = Event()

    def follow() -> None:
        while not is_over.wait(_LOOK_S):
            progress(done_bytes(job))

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
