"""One Spark session for all tests of a process; with xdist all of them run in the same one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.generate import generate
from wireloom.generate.traffic import Faults
from wireloom.tables import arrow_schema
from wireloom.tabulate import Settings, tabulate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent
# Each Java here lives for seconds, most of which went into compiling it a second time, better.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
Rows = list[tuple[Any, ...]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Starting Java and its Python takes a minute on a busy machine, and a test that is
            # stopped while it talks to Java takes the session with it.
            item.add_marker(pytest.mark.timeout(600))
            # Spark 4.0 leaves closing its sockets to the garbage collector.
            for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:.*socket:{warning}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores, with its files in a temporary folder."""
    pytest.importorskip("pyspark")
    from wireloom.spark import session

    place = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_DIRS"] = str(place)
    made = session(
        "local[2]",
        memory=1 << 30,
        conf={
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.streaming.metricsEnabled": "false",
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with raw captures, packed and not, and packet captures that follow each other."""
    folder = tmp_path_factory.mktemp("captures")
    generate(folder / "quotes.bin", ["tibmsg"], size=120_000, container="raw", seed=1)
    generate(folder / "rv.bin.gz", ["tibrv"], size=40_000, container="raw", compression="gzip")
    damage = Faults(corruption=0.05)
    generate(folder / "orders.bin", ["nrep"], size=60_000, container="raw", seed=2, faults=damage)
    faults = Faults(reorder=0.02, loss=0.01, duplicates=0.01)
    whole = folder.parent / "whole.pcap"
    generate(whole, size=300_000, container="pcap", faults=faults, connections=1, seed=3)
    rotate(whole, folder / "packets", 3)
    return folder


def rotate(pcap: Path, folder: Path, files: int) -> list[Path]:
    """Cut a pcap file into several, as capture programs do that start a new one now and then."""
    from wireloom.captures import packet_ranges

    folder.mkdir(exist_ok=True)
    data = pcap.read_bytes()
    made = []
    for number, part in enumerate(packet_ranges(pcap, files)):
        path = folder / f"cap{8 + number}.pcap"
        head = data[:24] if part.start else b""
        path.write_bytes(head + data[part.start : part.end])
        made.append(path)
    return made


def plain(batches: Iterable[pa.RecordBatch]) -> Rows:
    """All rows in an order of their own, so that they can be compared."""
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=repr)


@pytest.fixture
def patient() -> Callable[[Callable[[], None]], None]:
    """Calls something that starts a stream, again if its Python was too slow to start.

    Spark gives it ten seconds, which cannot be changed and a busy machine may not have.
    """
    from pyspark.errors import StreamingQueryException

    def call(start: Callable[[], None]) -> None:
        for _ in range(4):
            try:
                return start()
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error):
                    raise
        return start()

    return call


@pytest.fixture
def rows_of() -> Callable[[DataFrame], Rows]:
    """The rows that Spark has."""

    def collect(frame: DataFrame) -> Rows:
        return plain(frame.toArrow().to_batches())

    return collect


@pytest.fixture
def expected() -> Callable[..., Rows]:
    """The rows that one pass in this process gives, as Spark shows them."""

    def read(paths: Iterable[Path], table: str, **options: Any) -> Rows:
        from wireloom.spark.planning import spark_batches

        settings = Settings().changed(tables=(table,), **options)
        paths = [str(path) for path in paths]
        if not settings.is_typed:
            settings = settings.resolved(paths)
        found = list(spark_batches(tabulate(paths, settings), settings, table))
        assert all(each.schema == arrow_schema(settings.table(table), spark=True) for each in found)
        return plain(found)

    return read
