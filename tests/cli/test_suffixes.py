"""What the suffix of an output file says, in all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from oracles.lakes import stage_frames

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


def test_sql_does_not_write_a_text_table_into_a_parquet_file(run: Any, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    target = tmp_path / "x.parquet"
    said = run("sql", lake.path, "select 1", "-o", target, code=2).stderr
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
