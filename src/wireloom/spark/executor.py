"""Spark as an executor of the pipeline: units of work → Spark tasks → outcomes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from wireloom.lake import DataFile, Input
from wireloom.pipeline.executor import Engine
from wireloom.pipeline.plan import Unit
from wireloom.pipeline.quarantine import Quarantine
from wireloom.pipeline.work import Job, Outcome, work
from wireloom.spark.arrowmap import Batches, map_numbers
from wireloom.spark.exchange import run_exchanged
from wireloom.spark.tablewriter import write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkExecutor"]


class SparkExecutor(Engine):
    """Runs the units of a pipeline on Spark's workers, one per task.

    ``run_pipeline("captures/", "lake", executor=SparkExecutor(session()))``. A task whose worker
    died is retried, as often as the session's master allows.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is started.

        Args:
            spark: a session; `wireloom.spark.session` makes one.
        """
        self._spark = spark

    @property
    def cores(self) -> int:
        """Tasks that run at the same time, as far as Spark says."""
        try:
            found: int = self._spark.sparkContext.defaultParallelism
        except Exception:  # Spark Connect has no context
            return 2
        return max(found, 1)

    def run(self, job: Job, units: Sequence[Unit | Quarantine]) -> Iterable[Outcome]:
        """Run the units.

        Raises:
            Exception: Spark's own, when a task failed as often as it allows.
        """
        tasks = _tasks(pickle.dumps(job), [pickle.dumps(unit) for unit in units])
        rows = map_numbers(self._spark, len(units), tasks, "outcome binary").collect()
        return [pickle.loads(row[0]) for row in rows]

    def exchange(
        self, job: Job, inputs: Sequence[Input], parts: int, split_bytes: int
    ) -> Iterable[Outcome]:
        """Read packet captures as one: Spark sends packets to the task of their connection.

        Raises:
            SourceError: a capture cannot be read.
            Exception: Spark's own, when a task failed as often as it allows.
        """
        return run_exchanged(self._spark, job, inputs, parts, split_bytes)

    def write_tables(
        self, job: Job, units: Sequence[Unit], tables: Sequence[str]
    ) -> list[DataFile]:
        """Have tables decoded by tasks and written by Spark, into the lake's staging folder.

        Raises:
            Exception: Spark's own, when a task failed as often as it allows.
        """
        return write_tables(self._spark, job, units, tables)


def _tasks(job: bytes, units: list[bytes]) -> Callable[[Batches], Batches]:
    """What runs in the workers, which could not import a function of this module by name."""

    def tasks(batches: Batches) -> Batches:
        shared: Job = pickle.loads(job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                outcome = work(shared, number, pickle.loads(units[number]))
                made = pa.array([pickle.dumps(outcome)], pa.binary())
                yield pa.record_batch([made], names=["outcome"])

    return tasks
