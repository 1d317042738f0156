"""DuckDB, Polars and pandas read the folders of a lake as they are, with the rows of its log."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.lakes import sorted_rows, stage_frames

from wireloom.generate import Faults, generate
from wireloom.lake import Lake, compact, delta, read
from wireloom.pipeline import run_pipeline

Read = Callable[[Path], pa.Table]


def files_of(folder: Path) -> str:
    """The pattern that the documentation gives: of a table with days, or without."""
    has_days = any(each.name.startswith("date=") for each in folder.iterdir())
    return str(folder / ("date=*/*.parquet" if has_days else "*.parquet"))


def by_duckdb(folder: Path) -> pa.Table:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        query = f"select * from read_parquet('{files_of(folder)}', union_by_name = true)"
        return database.sql(query).to_arrow_table()


def by_polars(folder: Path) -> pa.Table:
    polars = pytest.importorskip("polars")
    return polars.scan_parquet(files_of(folder), hive_partitioning=True).collect().to_arrow()


def by_polars_of_a_folder(folder: Path) -> pa.Table:
    polars = pytest.importorskip("polars")
    return polars.scan_parquet(folder, hive_partitioning=True).collect().to_arrow()


def by_pandas(folder: Path) -> pa.Table:
    pandas = pytest.importorskip("pandas")
    # Types of Arrow: whole numbers with nulls would be floating point otherwise.
    frame = pandas.read_parquet(folder, dtype_backend="pyarrow")
    return pa.Table.from_pandas(frame, preserve_index=False)


ENGINES = [by_duckdb, by_polars, by_polars_of_a_folder, by_pandas]


def check(lake: Lake, engine: Read) -> None:
    """See that an engine finds the rows of every table, each once, with its day."""
    for name in lake.tables:
        wanted = read(lake, name)
        found = engine(lake.path / name)
        assert set(found.column_names) == set(wanted.column_names), name
        found = found.select(wanted.column_names)
        assert sorted_rows(found.cast(wanted.schema)) == sorted_rows(wanted), name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of several days, commits and kinds of captures."""
    folder = tmp_path_factory.mktemp("made")
    faults = Faults(loss=0.01, reorder=0.02, corruption=0.005)
    generate(folder / "mixed.pcapng", size=150_000, seed=3, faults=faults)
    for day in ("2024-01-05", "2024-01-06"):
        path = folder / f"quotes-{day}.bin"
        generate(path, ["tibmsg"], size=40_000, container="raw", faults=Faults(corruption=0.02))
    for path in sorted(folder.iterdir()):
        run_pipeline(path, folder / "lake")
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    return Lake(shutil.copytree(made / "lake", tmp_path / "lake"))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_the_folders_as_they_are(made: Path, engine: Read) -> None:
    lake = Lake(made / "lake")
    days = {file.day for file in lake.files("fields")}
    assert days == {"2023-11-15", "2024-01-05", "2024-01-06"}
    check(lake, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_sees_neither_what_was_replaced_nor_what_is_staged(
    lake: Lake, made: Path, tmp_path: Path, engine: Read
) -> None:
    with lake.write() as writing:
        assert compact(writing)
        check(lake, engine)
    # A capture that has changed: its rows are replaced.
    capture = tmp_path / "quotes-2024-01-06.bin"
    shutil.copy(made / capture.name, capture)
    run_pipeline(capture, lake.path)
    capture.write_bytes(capture.read_bytes()[:20_000])
    assert run_pipeline(capture, lake.path).files_replaced == 1
    lake.refresh()
    check(lake, engine)
    # A writer at work, and one that was killed.
    with lake.write() as writing:
        stage_frames(writing, [("a", 1, None)])
        check(lake, engine)
    killed_while_staging(lake.path)
    assert list((lake.path / "_wireloom/staging").rglob("*.parquet"))
    check(lake, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [by_duckdb, by_polars, by_pandas])
def test_an_engine_does_not_take_a_delta_log_for_rows(lake: Lake, engine: Read) -> None:
    deltalake = pytest.importorskip("deltalake")
    delta.enable(lake)
    for name in lake.tables:
        deltalake.DeltaTable(str(lake.path / name)).create_checkpoint()
    assert list((lake.path / "fields/_delta_log").glob("*.parquet"))
    check(lake, engine)


def killed_while_staging(root: Path) -> None:
    code = (
        "import os, signal\n"
        "from wireloom.lake import Lake\n"
        "from oracles.lakes import stage_frames\n"
        f"with Lake({str(root)!r}).write() as writing:\n"
        "    stage_frames(writing, [('a', 1, None)])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_filter_on_the_day_reads_only_its_folder(lake: Lake) -> None:
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    wanted = sum(file.rows for file in lake.files("fields") if file.day == "2024-01-05")
    folder = lake.path / "fields"
    # What is not a Parquet file is no trouble as long as nobody opens it.
    for other in folder.glob("date=2024-01-06/*"):
        os.truncate(other, 7)
    with duckdb.connect() as database:
        files = f"read_parquet('{files_of(folder)}', hive_partitioning = true)"
        query = f"select count(*) from {files} where date = date '2024-01-05'"
        assert database.sql(query).fetchall() == [(wanted,)]
    scan = polars.scan_parquet(files_of(folder), hive_partitioning=True)
    day = polars.lit("2024-01-05").str.to_date()
    assert scan.filter(polars.col("date") == day).collect().height == wanted
    chosen = pandas.read_parquet(folder, filters=[("date", "==", "2024-01-05")])
    assert len(chosen) == wanted
