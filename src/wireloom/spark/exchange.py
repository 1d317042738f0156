"""Packets sent to the task of their connection: captures of any size, constant memory.

The first tasks read ranges of the captures and find the part that the connection of each packet
belongs to. Spark brings the packets of a part together and sorts them by their place in the
captures, on disk if they do not fit into memory. The second tasks reassemble connections, decode
and write, as tasks that read captures themselves do. Every packet is read once, however many parts
there are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.captures import PacketRange, packet_ranges
from wireloom.captures.exchange import SORT, Part, route
from wireloom.errors import WireloomError
from wireloom.lake import Input, StagedWriter
from wireloom.pipeline.plan import FlowPartition
from wireloom.pipeline.work import Job, Note, Outcome, summed
from wireloom.spark.arrowmap import Batches, map_batches, map_numbers
from wireloom.tabulate import Tabulator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_exchanged"]

_ROW: Final = (
    "part int, file int, position bigint, ts_ns bigint, length bigint, link int, note string, "
    "record binary"
)
"""The columns of `wireloom.captures.exchange.SCHEMA`."""


def run_exchanged(
    spark: SparkSession, job: Job, inputs: Sequence[Input], parts: int, split_bytes: int
) -> Iterable[Outcome]:
    """Have packet captures, which count as one, read by tasks that share the packets.

    Raises:
        SourceError: a capture cannot be read.
        Exception: Spark's own, when tasks failed as often as it allows.
    """
    ranges = [
        (number, found) for number, one in enumerate(inputs) for found in _ranges(one, split_bytes)
    ]
    routed = map_numbers(spark, len(ranges), _routing(job, ranges, parts), _ROW)
    # From Spark 4.1 on a row can be sent to a partition by its number; before, only by a hash, so
    # several parts may meet in one partition.
    send = getattr(routed, "repartitionById", routed.repartition)
    ordered = send(parts, "part").sortWithinPartitions("part", *SORT)
    names = [one.path for one in inputs]
    size = sum(one.size for one in inputs)
    frame = map_batches(ordered, _joining(job, names, parts, size), "outcome binary")
    return [pickle.loads(row[0]) for row in frame.collect()]


def _ranges(one: Input, split_bytes: int) -> list[PacketRange]:
    return packet_ranges(one.path, max(1, -(-one.size // split_bytes)))


def _routing(
    job: Job, ranges: list[tuple[int, PacketRange]], parts: int
) -> Callable[[Batches], Batches]:
    def routing(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                file, found = ranges[number]
                note = Note(job, number)
                done = 0
                for routed in route(found, file, parts, limits=job.settings.reassembly):
                    done += routed.column("record").nbytes
                    note(done)
                    yield routed
                note(done, is_last=True)

    return routing


def _joining(job: Job, names: list[str], parts: int, size: int) -> Callable[[Batches], Batches]:
    def joining(batches: Batches) -> Batches:
        for part, rows in _by_part(batches):
            outcome = _join(job, names, part, parts, size, rows)
            for _ in rows:
                pass  # the rest must be consumed even if the task gave up
            made = pa.array([pickle.dumps(outcome)], pa.binary())
            yield pa.record_batch([made], names=["outcome"])

    return joining


def _join(job: Job, names: list[str], part: int, parts: int, size: int, rows: Batches) -> Outcome:
    unit = FlowPartition(tuple(names), part, parts, size // parts)
    tabulator = Tabulator(job.settings)
    try:
        with StagedWriter(job.root, job.run, job.writing) as writer:
            for event in Part(rows, names, part, parts, limits=job.settings.reassembly):
                for table, batch in tabulator.feed(event):
                    writer.write(table, batch)
            for table, batch in tabulator.close():
                writer.write(table, batch)
            files = tuple(writer.close())
    except WireloomError as error:
        return Outcome(unit, error=error)
    return Outcome(unit, files, totals=summed(tabulator.totals))


def _by_part(batches: Batches) -> Iterator[tuple[int, Batches]]:
    """The rows of each part, which are in order; consume each before the next."""
    waiting = chain.from_iterable(_runs(batch) for batch in batches)
    following = next(waiting, None)

    def rows(part: int) -> Batches:
        nonlocal following
        while following is not None and following[0] == part:
            batch = following[1]
            following = next(waiting, None)
            yield batch

    while following is not None:
        part = following[0]
        found = rows(part)
        yield part, found


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The parts of a batch, each with its rows."""
    numbers = batch.column("part")
    start = 0
    while start < batch.num_rows:
        part = numbers[start].as_py()
        count = pc.sum(pc.equal(numbers, part)).as_py()  # they are sorted
        yield part, batch.slice(start, count)
        start += count
