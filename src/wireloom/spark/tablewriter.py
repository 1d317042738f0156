"""Tables written by Spark's own Parquet writer, for storage that only Spark can reach.

Tasks decode one table at a time and send it as Arrow batches to Spark, which writes it into the
lake's staging folder; the driver commits these files like those that tasks write. It takes several
times as long as when tasks write: see the benchmarks.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from wireloom.lake import DataFile
from wireloom.lake.layout import STAGING, TIME_COLUMNS, DateRule
from wireloom.lake.writing import by_day, file_schema, schema_digest
from wireloom.pipeline.plan import Unit
from wireloom.pipeline.work import Job, decode
from wireloom.spark.arrowmap import Batches, map_numbers
from wireloom.spark.planning import spark_batches
from wireloom.tables import spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["write_tables"]

_DAY: Final = "date"


def write_tables(
    spark: SparkSession, job: Job, units: Sequence[Unit], tables: Sequence[str]
) -> list[DataFile]:
    """Have tables decoded by tasks and written by Spark, into staging.

    Raises:
        Exception: Spark's own, when a task failed as often as it allows.
    """
    # By default Spark writes times in a form long deprecated, and without their zone.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    found: list[DataFile] = []
    for table in tables:
        wanted = dataclasses.replace(job.settings, tables=(table,))
        if table != "wide":
            wanted = dataclasses.replace(wanted, columns=None)
        own = dataclasses.replace(job, settings=wanted)
        folder = f"{STAGING}/{job.run}/spark-{job.step}/{table}"
        has_days = TIME_COLUMNS.get(table, "ts_ns") is not None
        schema = spark_ddl(wanted.table(table)) + (f", {_DAY} string" if has_days else "")
        rows = _rows(pickle.dumps(own), list(units), table)
        frame = map_numbers(spark, len(units), rows, schema)
        writer = frame.write.option("compression", job.writing.compression)
        if has_days:
            writer = writer.partitionBy(_DAY)
        writer.parquet(str(Path(job.root, folder)))
        found += [_described(job, table, path) for path in _written(Path(job.root, folder))]
    return found


def _rows(job: bytes, units: list[Unit], table: str) -> Callable[[Batches], Batches]:
    def rows(batches: Batches) -> Batches:
        shared: Job = pickle.loads(job)
        column = TIME_COLUMNS.get(table, "ts_ns")
        rule = DateRule(shared.writing.dates)
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                made = decode(shared.settings, units[number])
                for batch in spark_batches(made, shared.settings, table):
                    if column is None:
                        yield batch
                        continue
                    for day, part in by_day(batch, column, rule):
                        days = pa.repeat(pa.scalar(day, pa.string()), part.num_rows)
                        yield part.append_column(_DAY, days)

    return rows


def _written(folder: Path) -> list[Path]:
    return sorted(folder.rglob("part-*.parquet"))


def _described(job: Job, table: str, path: Path) -> DataFile:
    """What the log says about a file, from its footer."""
    footer = pq.read_metadata(path)
    day = path.parent.name.removeprefix(f"{_DAY}=") if path.parent.name != table else None
    sources = _ends(footer, "source")
    times = _ends(footer, TIME_COLUMNS.get(table, "ts_ns"))
    return DataFile(
        table=table,
        path="",
        staged=str(path.relative_to(job.root)),
        rows=footer.num_rows,
        bytes=path.stat().st_size,
        day=day,
        # Minimum and maximum are all the values of a column only if they are equal.
        sources=tuple(sources) if len(sources) == 1 else None,
        ts_min_ns=min(times) if times else None,
        ts_max_ns=max(times) if times else None,
        schema=schema_digest(file_schema(footer.schema.to_arrow_schema())),
    )


def _ends(footer: Any, column: str | None) -> set[Any]:
    """The smallest and largest values of a column in all row groups; none if any is unknown."""
    names = list(footer.schema.names)
    found: set[Any] = set()
    for group in range(footer.num_row_groups if column in names else 0):
        known = footer.row_group(group).column(names.index(column)).statistics
        if known is None or not known.has_min_max:
            return set()
        found |= {known.min, known.max}
    return found
