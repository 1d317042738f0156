"""What the suffix of an output file says, in all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from oracles.lakes import stage_frames
from pyarrow import feather
from pyarrow import parquet as pq

from wireloom.cli import main
from wireloom.lake import Lake


@pytest.mark.parametrize("name", ["x.xlsx", "x.Parquet2", "x.csv.gz"])
def test_decode_refuses_a_suffix_it_does_not_write(run: Any, capture: Path, name: str) -> None:
    target = capture.parent / name
    assert (
        "is no suffix that this command writes"
        in run("decode", capture, "-o", target, code=2).stderr
    )
    assert not target.exists()
    run("decode", capture, "-o", target, "--json")
    assert target.read_bytes().startswith(b"{")


def test_sql_writes_a_parquet_or_arrow_file(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    lake = Lake.create(tmp_path / "lake")
    with lake.write() as writing:
        writing.commit(stage_frames(writing, [("a", 0, 5), ("a", 8, 6)]))
    # A name for which there is an encoding of numbers, and a text in it.
    query = "select frame_offset, type_name, 'x' as \"offset\", 1.5 as r from frames order by 1"
    rows = [json.loads(line) for line in run("sql", lake.path, query, "--json").stdout.splitlines()]
    assert len(rows) == 2
    read = {".parquet": pq.read_table, ".arrow": feather.read_table, ".PARQUET": pq.read_table}
    for suffix, reader in read.items():
        target = tmp_path / f"x{suffix}"
        run("sql", lake.path, query, "-o", target)
        found = reader(target)
        assert [{**row, "r": str(row["r"])} for row in found.to_pylist()] == rows
        assert found.schema.field("frame_offset").type == pa.int64()
        assert "exists" in run("sql", lake.path, query, "-o", target, code=2).stderr
        run("sql", lake.path, "select 1 as one where false", "-o", target, "--force")
        assert reader(target).schema.names == ["one"]
    run("sql", lake.path, query, "-o", target, "--force", "--json")
    assert target.read_bytes().startswith(b"{")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("select interval 1 month as i", "interval"),
        ("select source::int from frames", "Could not convert"),
    ],
)
def test_sql_leaves_no_file_that_it_cannot_write(
    run: Any, tmp_path: Path, query: str, why: str
) -> None:
    pytest.importorskip("duckdb")
    lake = Lake.create(tmp_path / "lake")
    with lake.write() as writing:
        writing.commit(stage_frames(writing, [("a", 0, 5)]))
    target = tmp_path / "x.parquet"
    assert why in run("sql", lake.path, query, "-o", target, code=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_a_command_without_tables_does_not_write_a_parquet_file(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "x.parquet"
    said = run("formats", "-o", target, code=2).stderr
    assert ".parquet is no suffix that this command writes" in said
    assert not target.exists()


def test_generate_refuses_a_suffix_that_is_no_capture(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "g.xyz"
    said = run("generate", "-o", target, "--messages", "5", code=2).stderr
    assert ".xyz is no suffix of a capture" in said
    assert not target.exists()
    run("generate", "-o", target, "--messages", "5", "--container", "pcap")
    assert target.exists()


def test_cells_are_cut_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    lake = Lake.create(tmp_path / "lake")
    with lake.write() as writing:
        writing.commit(stage_frames(writing, [("a", 0, 5)]))
    target = tmp_path / "x.txt"
    monkeypatch.delenv("COLUMNS", raising=False)
    # The widths come from the first hundred rows; a longer cell comes after them.
    query = "select repeat('x', i * 10) as long, i as n from range(1, 151) t(i)"
    done = CliRunner().invoke(main, ["sql", str(lake.path), query, "-o", str(target)])
    assert done.exit_code == 0, done.output
    lines = target.read_text().splitlines()
    assert "…" not in target.read_text()
    assert lines[-1].split() == ["x" * 1500, "150"]


@pytest.mark.parametrize(
    "suffix", [".json", ".csv", ".txt", ".parquet", ".pcap", ".pcapng", ".gz", ".xlsx"]
)
def test_frames_do_not_go_into_a_file_that_promises_something_else(
    run: Any, capture: Path, suffix: str
) -> None:
    target = capture.parent / f"x{suffix}"
    rows = capture.parent / "rows.jsonl"
    run("decode", capture, "-o", rows)
    for words in (("encode", rows), ("convert", capture, "--to", "nrep")):
        said = run(*words, "-o", target, code=2).stderr
        assert f"{suffix} says something else" in said
        assert not target.exists()
    run("convert", capture, "--to", "json", "-o", target)
    assert target.read_bytes().startswith(b"{")


def test_a_dash_is_stdout_in_all_commands(
    run: Any, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = run("decode", capture, "-o", "-").stdout
    assert run("encode", "-o", "-", stdin=rows).stdout_bytes == capture.read_bytes()
    converted = run("convert", capture, "--to", "nrep", "-o", "-")
    assert converted.stdout_bytes == capture.read_bytes()
    assert "<html" in run("inspect", capture, "--html", "-").stdout
    run("generate", "-o", "x.pcap", "--messages", "1", "--schemas", "schemas")
    fields = run("dict", "convert", "schemas/tss_fields.cf", "--to", "csv", "-o", "-")
    assert fields.stdout.startswith("fid,")
    assert "class ORDER" in run("model", "stub", "schemas/orders.blz", "-o", "-").stdout
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("words", ["generate --messages 1", "encode", "decode"])
def test_an_error_of_writing_names_the_file_that_was_asked_for(
    run: Any, tmp_path: Path, words: str
) -> None:
    target = tmp_path / "none" / ("x.bin" if words != "decode" else "x.jsonl")
    said = run(*words.split(), "-o", target, code=1, stdin=b"").stderr
    assert f"Error: {target}: No such file" in said
