"""Derived tables in a lake: made once, replaced as a whole, and there or not after a crash."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from oracles.crashes import kill_until_done
from oracles.derivations import KEYS, same
from oracles.lakes import lake_tables
from oracles.replay import replay
from oracles.tabled import plain_rows

from wireloom.cli import main
from wireloom.errors import LakeError, OptionError, WireloomError
from wireloom.generate import Faults, generate, write_schemas
from wireloom.lake import Lake, Writing, compact, read
from wireloom.pipeline import run_pipeline
from wireloom.tables import arrow_schema
from wireloom.tabulate import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

ALL = (
    "blaze_transactions",
    "blaze_subscriptions",
    "blaze_objects",
    "nais_exchanges",
    "nrep_sockets",
    "last_values",
    "bars",
)

REPLAYED: dict[str, dict[str, Any]] = {"blaze_objects": {"keys": KEYS}, "bars": {"seconds": 1}}
"""Options of the replay."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_schemas(tmp_path_factory.mktemp("schemas"))["model"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A lake with rows of all tables, and none that is derived."""
    folder = tmp_path_factory.mktemp("base")
    spoken = ["blaze", "nais", "nrep", "tibmsg"]
    faults = Faults(loss=0.01, reorder=0.02)
    generate(folder / "day.pcapng", spoken, messages=1200, seed=5, symbols=6, faults=faults)
    run_pipeline(folder / "day.pcapng", folder / "lake", Settings(options={"model": str(model)}))
    return folder / "lake"


@pytest.fixture
def lake(base: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(base, tmp_path / "lake"))


def written(lake: Path) -> dict[Path, int]:
    """Every file of a lake with its time."""
    return {path: path.stat().st_mtime_ns for path in lake.rglob("*.*") if path.is_file()}


def test_a_lake_keeps_derived_tables_until_their_base_changes(
    spark: SparkSession, lake: Path, model: Path, tmp_path: Path
) -> None:
    from wireloom.spark.derived import derived_table
    from wireloom.spark.derived.store import plan_derived, store_derived

    options = {"model": model.read_text("utf-8"), "interval": "1 second"}
    done: list[int] = []
    planned: list[int] = []
    stored = store_derived(
        spark, lake, options=options, progress=done.append, planned=planned.append
    )
    assert tuple(each.name for each in stored) == ALL
    assert all(each.is_new and each.made_of == 1 for each in stored)
    assert done == sorted(done)
    assert done[-1] == planned[0] > 0
    opened = Lake(lake)
    base = {name: plain_rows(read(opened, name)) for name in opened.tables}
    for each in stored:
        found = read(opened, each.name)
        schema = arrow_schema(derived_table(each.name), spark=True)
        if each.name not in ("blaze_objects", "last_values"):
            assert {str(day) for day in found["date"].to_pylist()} == {"2023-11-15"}
            schema = schema.append(pa.field("date", pa.date32()))
        assert found.schema.equals(schema)
        assert each.rows == len(found) > 0
        expected = replay(each.name, base, **REPLAYED.get(each.name, {}))
        same(plain_rows(found), expected, derived_table(each.name).names)

    # Again: nothing is made, nor when files were put together.
    before = written(lake)
    assert not any(each.is_new for each in store_derived(spark, lake, options=options))
    assert written(lake) == before
    with opened.write() as writing:
        compact(writing)
    assert not any(each.is_new for each in store_derived(spark, lake, options=options))
    (hourly,) = plan_derived(opened, ["bars"], {"interval": "1 hour"})
    assert not hourly.is_current

    # Another capture, with market data alone: other tables are as they were.
    generate(tmp_path / "more.pcap", ["tibmsg"], messages=50, container="pcap", symbols=2)
    run_pipeline(tmp_path / "more.pcap", lake)
    plans = plan_derived(Lake(lake), options=options)
    assert {plan.name for plan in plans if not plan.is_current} == {"bars", "last_values"}
    assert Lake(lake).state.changed_since("bars") == ["fields"]


def test_recipes_name_the_tables_that_are_used(
    spark: SparkSession, base: Path, model: Path
) -> None:
    from wireloom.spark.derived import derive, derived_names, recipe, tables_of

    give = tables_of(spark, base)
    assert callable(give)
    for name in derived_names():
        asked: list[str] = []

        def tables(table: str, asked: list[str] = asked) -> Any:
            asked.append(table)
            return give(table)

        options = {"model": model.read_text("utf-8")} if recipe(name).required else {}
        derive(name, tables, **options)
        assert set(asked) == {recipe(name).needs, *recipe(name).uses}


def test_a_crash_before_the_commit_leaves_the_table_as_it_was(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wireloom.spark.derived.store import store_derived

    store_derived(spark, lake, ["bars"])
    before = lake_tables(lake)

    def crash(self: Writing, add: Any, **_: Any) -> None:
        assert all((self.root / file.staged).exists() for file in add)
        assert add
        self._is_pending = True  # nothing is cleaned up, as when the process is gone
        raise KeyboardInterrupt

    monkeypatch.setattr(Writing, "commit", crash)
    with pytest.raises(KeyboardInterrupt):
        store_derived(spark, lake, ["bars"], {"interval": "1 second"})
    monkeypatch.undo()
    assert list((lake / "_wireloom" / "staging").rglob("*.parquet"))
    assert lake_tables(lake) == before
    (made,) = store_derived(spark, lake, ["bars"], {"interval": "1 second"})
    assert made.is_new
    assert not list((lake / "_wireloom").rglob("*.parquet"))
    assert lake_tables(lake)["bars"] != before["bars"]


# It starts Spark three times or more. The crash above leaves the same behind; a killed driver of
# a pipeline shows the rest (tests/pipeline/test_killed.py).
@pytest.mark.nightly
@pytest.mark.slow
def test_killing_the_driver_changes_nothing(spark: SparkSession, lake: Path) -> None:
    from wireloom.spark.derived.store import store_derived

    names = ["blaze_transactions", "nrep_sockets", "bars"]
    other = Path(shutil.copytree(lake, lake.with_name("other")))
    store_derived(spark, other, names)
    arguments = ["derive", str(lake), "--tables", ",".join(names), "--master", "local[1]", "-q"]
    kill_until_done(arguments, "driver", Random(4), kills=2, most_s=40)
    assert lake_tables(lake) == lake_tables(other)


# --- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def run(spark: SparkSession) -> Callable[..., Result]:
    """Runs a command, which uses the session of the tests."""

    def call(*arguments: object, code: int = 0) -> Result:
        done = CliRunner().invoke(main, [str(each) for each in arguments])
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return call


def test_commands_make_and_show_derived_tables(
    run: Callable[..., Result], lake: Path, tmp_path: Path
) -> None:
    tables = ("--tables", "bars,blaze_transactions")
    done = run("derive", lake, *tables, "--interval", "1 second", "--json")
    stored = json.loads(done.stdout)
    assert [each["name"] for each in stored] == ["bars", "blaze_transactions"]
    assert "new" in done.stderr
    again = run("derive", lake, *tables, "--interval", "1 second")
    assert "nothing has changed" in again.stderr
    assert "new" not in again.stderr.split()
    assert "nothing has changed" not in run("derive", lake, *tables, "--force").stderr

    shown = run("tables", lake).stdout
    assert "bars was made of commit 3" in shown
    assert "changed since" not in shown
    rows = [json.loads(line) for line in run("tables", lake, "--json").stdout.splitlines()]
    known = {row["table"]: row for row in rows}
    assert known["bars"]["is_current"] is True
    assert known["fields"]["made_of"] is None
    query = "select count(*) as n, sum(trades) as trades from bars"
    for engine in ("duckdb", "spark"):
        line = run("sql", lake, query, "--engine", engine, "--json").stdout
        assert json.loads(line)["n"] == known["bars"]["rows"]

    generate(tmp_path / "more.pcap", ["tibmsg"], messages=50, container="pcap", symbols=2)
    run_pipeline(tmp_path / "more.pcap", lake)
    assert "bars was made of commit 3; changed since: fields" in run("tables", lake).stdout
    done = run("pipeline", tmp_path / "more.pcap", "--out", lake, "--derive", "bars", "--json")
    report = json.loads(done.stdout)
    assert (report["files_read"], report["derived"][0]["is_new"]) == (0, True)
    assert "changed since" not in run("tables", lake).stdout


def test_commands_say_what_is_wrong(
    run: Callable[..., Result], lake: Path, model: Path, tmp_path: Path
) -> None:
    def says(*arguments: object, code: int) -> str:
        return run("derive", *arguments, code=code).stderr

    assert "no derived table 'bar'" in says(lake, "--tables", "bar", code=2)
    assert "needs the option 'model'" in says(lake, "--tables", "blaze_objects", code=2)
    assert "no option 'nope' of bars" in says(lake, "--tables", "bars", "-O", "nope=1", code=2)
    assert "NAME=VALUE" in says(lake, "-O", "nope", code=2)
    assert "this needs Spark" in says(lake, "--tables", "bars", "--master", "none", code=2)
    text = says(lake, "--tables", "bars", "--interval", "1 banana", code=1)
    assert "bars cannot be made" in text
    assert "Traceback" not in text
    generate(tmp_path / "n.bin", ["nrep"], messages=20, container="raw")
    run_pipeline(tmp_path / "n.bin", tmp_path / "small", Settings(tables=("frames",)))
    text = says(tmp_path / "small", "--tables", "bars", code=1)
    assert "bars is made of fields: no such table here; there are: accounting, errors" in text
    (tmp_path / "other").mkdir()
    assert "no lake" in says(tmp_path / "other", code=1)
    assert "--derive needs Spark" in run(
        "pipeline", "x", "--out", lake, "--derive", "bars", "--master", "none", code=2
    ).stderr  # fmt: skip


def test_of_a_table_without_rows_comes_another_one(
    run: Callable[..., Result], spark: SparkSession, tmp_path: Path
) -> None:
    from wireloom.spark.lake import read_table

    generate(tmp_path / "n.bin", ["nrep"], messages=20, container="raw")
    run_pipeline(tmp_path / "n.bin", tmp_path / "lake")
    run("derive", tmp_path / "lake", "--tables", "bars")
    for name in ("bars", "errors"):
        found = read_table(spark, tmp_path / "lake", name)
        assert found.collect() == []
        assert found.columns[0] == "source"
        assert found.columns[-1] == "date"
    query = "select count(*) as n from bars left join errors using (source)"
    done = run("sql", tmp_path / "lake", query, "--engine", "spark", "--json")
    assert json.loads(done.stdout) == {"n": 0}


def test_what_cannot_be_made_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    from wireloom.spark.derived.store import store_derived

    generate(tmp_path / "n.bin", ["nrep"], messages=50, container="raw")
    run_pipeline(tmp_path / "n.bin", tmp_path / "lake", Settings(tables=("frames",)))
    with pytest.raises(LakeError, match="nrep_sockets is made of nrep"):
        store_derived(spark, tmp_path / "lake")
    with pytest.raises(OptionError, match="no derived table"):
        store_derived(spark, tmp_path / "lake", ["nope"])
    with pytest.raises(WireloomError, match="no lake"):
        store_derived(spark, tmp_path)
