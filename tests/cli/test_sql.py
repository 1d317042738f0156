"""``wireloom sql``, answered by DuckDB; Spark's answers are compared in tests/spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oracles.lakes import stage_frames
from pyarrow import parquet as pq

from wireloom.cli.sql import _statements
from wireloom.formats import tibmsg
from wireloom.lake import Lake
from wireloom.pipeline import run_pipeline
from wireloom.tables import arrow_schema
from wireloom.tabulate import Settings

pytest.importorskip("duckdb")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of three frames."""
    made = Lake.create(tmp_path / "lake")
    with made.write() as writing:
        writing.commit(stage_frames(writing, [("a", 0, 5), ("a", 8, 6), ("b", 0, 7)]))
    return made.path


def rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("query", ["", "  \n", ";;", " -- nothing", "/* ; */"])
def test_an_empty_query_is_wrong_usage(run: Any, lake: Path, query: str) -> None:
    assert "the query is empty" in run("sql", lake, query, code=2).stderr


def test_what_the_engine_says_keeps_its_lines(run: Any, lake: Path) -> None:
    said = run("sql", lake, "select * form\nframes", code=1).stderr
    assert "\\n" not in said
    assert said.splitlines()[-2:] == ["LINE 2: frames", "        ^^^^^^"]
    said = run("sql", lake, "select source,\n nosuch\nfrom frames", code=1).stderr
    assert said.splitlines()[-2:] == ["LINE 2:  nosuch", "         ^^^^^^"]


def test_an_error_among_the_rows_is_no_traceback(run: Any, lake: Path) -> None:
    assert "Could not convert" in run("sql", lake, "select source::int from frames", code=1).stderr


def test_the_engine_does_not_depend_on_the_size_and_is_named(run: Any, lake: Path) -> None:
    query = "select count(*) as n from frames"
    done = run("sql", lake, query, "--json")
    assert (rows(done.stdout), done.stderr) == ([{"n": 3}], "answered by DuckDB\n")
    assert run("sql", lake, query, "--json", "-q").stderr == ""
    assert run("sql", lake, query, "--json", "--engine", "duckdb").stdout == done.stdout


def test_a_query_comes_from_a_file_or_stdin(run: Any, lake: Path, tmp_path: Path) -> None:
    query = "select source, count(*) as n\nfrom frames group by 1 order by 1"
    file = tmp_path / "query.sql"
    file.write_text(query)
    wanted = [{"source": "a", "n": 2}, {"source": "b", "n": 1}]
    assert rows(run("sql", lake, "--file", file, "--json").stdout) == wanted
    assert rows(run("sql", lake, "--file", "-", "--json", stdin=query).stdout) == wanted
    assert rows(run("sql", lake, "-", "--json", stdin=query).stdout) == wanted
    assert "give one QUERY" in run("sql", lake, code=2).stderr
    assert "give one QUERY" in run("sql", lake, query, "--file", file, code=2).stderr
    assert "not UTF-8" in run("sql", lake, "-", code=2, stdin=b"\xff").stderr


def test_of_several_statements_the_last_one_answers(run: Any, lake: Path) -> None:
    query = "create table t as select 'a;b' as x; -- one;two\nselect x from t;"
    assert rows(run("sql", lake, query, "--json").stdout) == [{"x": "a;b"}]
    assert run("sql", lake, "create table t (x int)").stdout == ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select 1", ["select 1"]),
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';' ; select \"a;b\", `c;d`", ["select ';'", 'select "a;b", `c;d`']),
        (r"select 'it\'s;' ; select 'a''b;'", [r"select 'it\'s;'", "select 'a''b;'"]),
        ("select 4/2 - 1 -- ;\n; /* ; */ select 2", ["select 4/2 - 1 -- ;", "/* ; */ select 2"]),
        ("select 'open ; ", ["select 'open ;"]),
    ],
)
def test_statements_end_at_semicolons_outside_quotes(text: str, wanted: list[str]) -> None:
    assert _statements(text) == wanted


def test_columns_that_are_keywords_are_those_that_the_help_names(run: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    from wireloom.tables import table, table_names

    found = set()
    with duckdb.connect() as database:
        for name in table_names():
            for column in table(name).names:
                database.execute(f'create or replace table "{name}" as select 1 as "{column}"')
                for written in (f'"{column}"', f"{name}.{column}"):
                    rows = database.execute(f"select {written} from {name}").fetchall()
                    assert rows == [(1,)]
                try:
                    database.execute(f"select {column} from {name}")
                except duckdb.ParserException:
                    found.add(f"{name}.{column}")
    assert found == {"gaps.offset", "nrep.trailing"}
    said = run("sql", "--help").stdout
    assert all(name in said for name in found)


def test_tables_that_were_to_be_written_are_there_without_rows(run: Any, tmp_path: Path) -> None:
    path, lake = tmp_path / "a.bin", tmp_path / "lake"
    path.write_bytes(tibmsg.build({"BID": 1.5}).encode())
    run_pipeline(path, lake, Settings(tables=("messages", "wide"), columns=("BID:double",)))
    for name in ("errors", "gaps"):
        wanted = [*arrow_schema(name).names, "date"]
        done = run("sql", lake, f"select * from {name}", "--csv")
        assert done.stdout == ",".join(wanted) + "\n"
        shown = rows(run("tables", lake, name, "--json").stdout)
        assert [row["column"] for row in shown] == wanted
    listed = {row["table"]: row["rows"] for row in rows(run("tables", lake, "--json").stdout)}
    assert listed == {"accounting": 1, "errors": 0, "gaps": 0, "messages": 1, "wide": 1}
    query = "select count(*) as n from wide join errors using (source, frame_offset)"
    assert rows(run("sql", lake, query, "--json").stdout) == [{"n": 0}]
    assert "no table 'fields'" in run("tables", lake, "fields", code=1).stderr
    assert "no table 'error' (is it errors?)" in run("tables", lake, "error", code=1).stderr


def test_columns_of_the_same_name_are_all_there(run: Any, lake: Path, tmp_path: Path) -> None:
    query = "select 1 as a, 2 as a, 3 as a_1, 4 as a"
    wanted = {"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}
    assert rows(run("sql", lake, query, "--json").stdout) == [wanted]
    run("sql", lake, query, "-o", tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [wanted]
