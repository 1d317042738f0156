"""Captures that grow while they are read; first without Spark, then with it."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.generate import generate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

from wireloom.spark import offsets
from wireloom.spark.offsets import Mark, Offset, Tail
from wireloom.spark.options import SourceOptions
from wireloom.spark.streaming import WireloomStreamReader

Rows = list[tuple[Any, ...]]
Expected = Callable[..., Rows]

NOW = 2_000_000_000.0
"""A time at which all files of the tests are old."""


class Stream:
    """What Spark does with a stream reader, without Spark."""

    def __init__(self, folder: Path, table: str, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self.options = SourceOptions.read({"path": str(folder), "table": table, **texts})
        self.offset: Offset = {}
        self.batches: list[pa.RecordBatch] = []
        self.restart()

    def restart(self) -> None:
        """All processes are new; only the offset is left."""
        self.tail = Tail(self.options)
        self.reader = WireloomStreamReader(self.options, list(self.options.schema.names))
        offsets._KEPT.clear()

    def step(self, *, now: float = 0.0) -> Offset:
        """One micro-batch: where it ended."""
        end = self.tail.advance(self.offset, self.options.max_bytes_per_trigger, now)
        assert all(isinstance(value, str) for value in end.values())
        for task in self.tail.partitions(self.offset, end):
            sent = pickle.loads(pickle.dumps((self.reader, task)))
            self.batches += sent[0].read(sent[1])
        self.offset = end
        return end

    def drain(self, *, now: float = 0.0) -> None:
        """Micro-batches until there is nothing new."""
        for _ in range(1000):
            before = self.offset
            if self.step(now=now) == before:
                return
        pytest.fail("it does not end")

    @property
    def rows(self) -> Rows:
        found = [tuple(row.values()) for batch in self.batches for row in batch.to_pylist()]
        return sorted(found, key=repr)


def summed(rows: Rows) -> dict[tuple[Any, ...], list[int]]:
    """Accounts, those of one stream added up."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        before = found.get(row[:3], [0] * len(row[3:]))
        found[row[:3]] = [a + b for a, b in zip(before, row[3:], strict=True)]
    return found


def grow(path: Path, data: bytes, random: Random, steps: int) -> Iterable[None]:
    """Write a file bit by bit."""
    sizes = [*sorted(random.randrange(len(data)) for _ in range(steps)), len(data)]
    for size in sizes:
        with path.open("ab") as file:
            file.write(data[file.tell() : size])
        yield


@pytest.mark.parametrize(
    ("table", "seed"),
    [("frames", 1), ("frames", 2), ("fields", 3), ("errors", 4), ("gaps", 5), ("accounting", 6)],
)
def test_rows_are_those_of_a_batch_whatever_the_growth_and_the_restarts(
    tmp_path: Path, captures: Path, expected: Expected, table: str, seed: int
) -> None:
    random = Random(seed)
    folder = tmp_path / "live"
    (folder / "packets").mkdir(parents=True)
    limit = {"max_bytes_per_trigger": 15_000} if seed % 2 else {}
    stream = Stream(folder, table, finish_after=60, packet_parts=1 + seed % 2, **limit)
    shutil.copy(captures / "rv.bin.gz", folder)
    names = ["orders.bin", "quotes.bin"]
    writers = [grow(folder / name, (captures / name).read_bytes(), random, 5) for name in names]
    for number in (8, 9, 10):
        name = f"packets/cap{number}.pcap"
        for _ in grow(folder / name, (captures / name).read_bytes(), random, 4):
            for writer in writers:
                next(iter(writer), None)
            if random.random() < 0.3:
                stream.restart()
            stream.step()
    for writer in writers:
        for _ in writer:
            stream.step()
    stream.drain(now=NOW)
    paths = [folder / name for name in (*names, "rv.bin.gz")]
    paths += [folder / "packets" / f"cap{number}.pcap" for number in (8, 9, 10)]
    assert all(Mark.read(stream.offset[str(path)]).is_done for path in paths)
    wanted = expected(paths, table)
    assert wanted
    if table == "accounting":
        assert summed(stream.rows) == summed(wanted)
    else:
        assert stream.rows == wanted
    assert stream.step(now=NOW + 100) == stream.offset


def test_a_micro_batch_is_about_as_large_as_it_may_be(tmp_path: Path) -> None:
    generate(tmp_path / "a.bin", ["tibmsg"], size=60_000, container="raw")
    generate(tmp_path / "b.bin", ["tibmsg"], size=60_000, container="raw", seed=1)
    generate(tmp_path / "c.pcapng", ["tibmsg"], size=60_000)
    stream = Stream(tmp_path, "frames", max_bytes_per_trigger=10_000)
    sizes, read = [], 0
    while True:
        before = stream.offset
        if stream.step() == before:
            break
        total = sum(Mark.read(text).position for text in stream.offset.values())
        sizes.append(total - read)
        read = total
    assert len(sizes) >= 15
    assert max(sizes) < 25_000
    assert len(stream.rows) > 100


def test_spark_that_does_not_say_where_it_starts_gets_all_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    generate(path, ["tibmsg"], size=60_000, container="raw")
    stream = Stream(tmp_path, "frames", max_bytes_per_trigger=10_000)
    everything = stream.reader.latestOffset()  # as Spark before 4.2 does
    assert Mark.read(everything[str(path)]).position > 50_000
    stream.restart()
    before = {str(path): str(replace(Mark.read(everything[str(path)]), position=0))}
    stream.reader.partitions({}, before)
    assert stream.reader.latestOffset() == everything
    assert stream.reader.latestOffset() == everything


def test_what_is_not_whole_yet_waits(tmp_path: Path, expected: Expected) -> None:
    path = tmp_path / "a.bin"
    generate(path, ["tibmsg"], size=30_000, container="raw")
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    stream = Stream(tmp_path, "frames")
    stream.drain()
    errors = Stream(tmp_path, "errors")
    errors.drain()
    assert errors.rows == []
    path.write_bytes(data)
    stream.drain()
    errors.drain()
    assert stream.rows == expected([path], "frames")
    assert errors.rows == []


def test_the_end_of_a_file_that_is_over_is_told_of(tmp_path: Path, expected: Expected) -> None:
    path = tmp_path / "a.bin"
    generate(path, ["tibmsg"], size=30_000, container="raw")
    path.write_bytes(path.read_bytes()[:-5])
    stream = Stream(tmp_path, "errors", finish_after=60)
    stream.drain(now=path.stat().st_mtime + 30)
    assert stream.rows == []
    stream.drain(now=path.stat().st_mtime + 61)
    assert len(stream.rows) == 1
    assert stream.rows == expected([path], "errors")


@pytest.mark.parametrize("container", ["raw", "pcap"])
def test_a_replaced_file_is_reported_and_read_again(
    tmp_path: Path, expected: Expected, container: str
) -> None:
    path = tmp_path / "capture"
    generate(path, ["tibmsg"], size=40_000, container=container, seed=1)
    streams = {name: Stream(tmp_path, name) for name in ("frames", "errors")}
    for stream in streams.values():
        stream.drain()
    before = len(streams["frames"].rows)
    generate(path, ["tibmsg"], size=20_000, container=container, seed=2)
    for stream in streams.values():
        stream.batches.clear()
        stream.drain()
    (notice,) = streams["errors"].rows
    assert str(path) in notice
    assert "replaced" in notice
    found = streams["frames"].rows
    assert 0 < len(found) < before
    assert set(found) <= set(expected([path], "frames"))


def test_a_removed_packet_capture_is_reported_when_it_would_be_needed(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    generate(whole, ["tibmsg"], size=60_000, container="pcap", connections=1)
    folder = tmp_path / "live"
    folder.mkdir()
    data = whole.read_bytes()
    from wireloom.captures import packet_ranges

    first, second = packet_ranges(whole, 2)
    stream = Stream(folder, "errors")
    (folder / "1.pcap").write_bytes(data[: first.end])
    stream.drain()
    (folder / "2.pcap").write_bytes(data[:24] + data[second.start : -2000])
    stream.drain()
    (folder / "1.pcap").unlink()
    (folder / "2.pcap").write_bytes(data[:24] + data[second.start :])
    stream.drain()
    assert stream.rows == []  # this process remembers
    stream.restart()
    with (folder / "2.pcap").open("ab") as file:
        file.write(data[-70:-70] + data[24:1542])
    stream.drain()
    assert any("removed" in row for row in stream.rows)


def test_a_capture_that_needs_what_came_before_is_followed(
    tmp_path: Path, expected: Expected
) -> None:
    from wireloom.generate import write_schemas

    folder = tmp_path / "live"
    folder.mkdir()
    write_schemas(tmp_path)
    (model,) = tmp_path.glob("*.blz")
    path = folder / "a.bin"
    generate(tmp_path / "whole", ["blaze"], size=50_000, container="raw")
    stream = Stream(folder, "blaze", model=model, finish_after=60)
    for _ in grow(path, (tmp_path / "whole").read_bytes(), Random(3), 6):
        stream.step()
        stream.restart()
    assert Mark.read(stream.offset[str(path)]).kind == offsets.MEMORY
    stream.drain(now=NOW)
    assert stream.rows == expected([path], "blaze", model=str(model))


def test_only_this_machine_is_followed() -> None:
    from wireloom.errors import OptionError

    with pytest.raises(OptionError, match="this machine"):
        Tail(SourceOptions.read({"path": "s3://bucket/captures"}))


# --- with Spark -----------------------------------------------------------------------------------


def read_stream(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    reader = spark.readStream.format("wireloom")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(folder))


def age(folder: Path) -> None:
    """Make all files look as if nobody wrote to them for a long time."""
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def test_a_query_started_again_goes_on_from_its_checkpoint(
    spark: SparkSession,
    captures: Path,
    tmp_path: Path,
    expected: Expected,
    rows_of: Any,
    patient: Callable[[Callable[[], None]], None],
) -> None:
    folder = tmp_path / "live"
    (folder / "packets").mkdir(parents=True)
    names = ["orders.bin", "packets/cap8.pcap", "packets/cap9.pcap"]

    def read_all() -> None:
        frame = read_stream(
            spark, folder, table="frames", finish_after=3600, max_bytes_per_trigger=100_000
        )
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()

    for turn in range(3):
        for name in names[: turn + 1]:
            data = (captures / name).read_bytes()
            is_last = turn == 2 or name != names[turn]
            (folder / name).write_bytes(data if is_last else data[: len(data) * 2 // 3])
        if turn == 2:
            age(folder)
        patient(read_all)
    found = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert found == expected([folder / name for name in names], "frames")


def test_a_running_query_sees_what_is_added(
    spark: SparkSession,
    tmp_path: Path,
    expected: Expected,
    rows_of: Any,
    patient: Callable[[Callable[[], None]], None],
) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    generate(tmp_path / "whole", ["tibmsg", "nrep"], size=80_000, container="pcap", connections=1)
    data = (tmp_path / "whole").read_bytes()
    path = folder / "a.pcap"

    def follow() -> None:
        path.write_bytes(data[:10_000])
        frame = read_stream(spark, folder, table="frames", finish_after=3600)
        query = frame.writeStream.format("memory").queryName("live").start()
        try:
            query.processAllAvailable()
            first = spark.table("live").count()
            assert first > 0
            path.write_bytes(data)
            age(folder)
            query.processAllAvailable()
            assert rows_of(spark.table("live")) == expected([path], "frames")
            assert spark.table("live").count() > first
        finally:
            query.stop()

    patient(follow)
