from __future__ import annotations

from pathlib import Path

import pytest
from oracles.lakes import Row, logged_rows, stage_frames, visible_rows

from wireloom.lake import Lake, Writing, compact, delta, without_sources
from wireloom.lake import lake as lake_module

deltalake = pytest.importorskip("deltalake")

NOVEMBER = 19_675 * 86_400_000_000_000  # 2023-11-14
ROWS: list[Row] = [("a", 1, NOVEMBER), ("a", 2, NOVEMBER + 10**15), ("b", 1, None)]


def delta_rows(root: Path) -> list[Row]:
    table = deltalake.DeltaTable(str(root / "frames")).to_pyarrow_table(
        columns=["source", "frame_offset", "ts_ns"]
    )
    return sorted(
        ((row["source"], row["frame_offset"], row["ts_ns"]) for row in table.to_pylist()),
        key=lambda row: row[:2],
    )


def test_readers_of_delta_see_the_same_rows(lake: Lake) -> None:
    with lake.write() as writing:
        writing.commit(stage_frames(writing, ROWS[:1]))
        delta.enable(lake)
        assert delta_rows(lake.path) == ROWS[:1]
        writing.commit(stage_frames(writing, ROWS[1:]))
        assert delta_rows(lake.path) == ROWS
        writing.commit(stage_frames(writing, [("a", 3, NOVEMBER)]))
        assert compact(writing)
        assert delta_rows(lake.path) == logged_rows(lake) == visible_rows(lake.path)
        kept, gone = without_sources(writing, ["a"])
        writing.commit(kept, remove=gone)
    assert delta_rows(lake.path) == logged_rows(lake) == visible_rows(lake.path) == ROWS[2:]
    table = deltalake.DeltaTable(str(lake.path / "frames"))
    assert table.metadata().partition_columns == ["date"]
    assert table.transaction_version(delta.APPLICATION) == lake.version


def test_a_commit_is_told_once_and_not_forgotten(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake.write() as writing:
        delta.enable(lake)
        writing.commit(stage_frames(writing, ROWS[:1]))
    before = deltalake.DeltaTable(str(lake.path / "frames")).version()
    with Lake(lake.path).write():
        pass  # carries the last commit out again
    assert deltalake.DeltaTable(str(lake.path / "frames")).version() == before

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted() -> None:
        with Lake(lake.path).write() as writing:
            files = stage_frames(writing, ROWS[1:])
            monkeypatch.setattr(lake_module.delta, "tell", crash)
            writing.commit(files)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    monkeypatch.undo()
    assert delta_rows(lake.path) == ROWS[:1]
    with Lake(lake.path).write():
        pass
    assert delta_rows(lake.path) == ROWS


def test_tables_without_days_keep_their_delta_log_when_files_are_replaced(lake: Lake) -> None:
    import pyarrow as pa

    from wireloom.lake import StagedWriter
    from wireloom.tables import arrow_schema

    def accounts(writing: Writing) -> list[lake_module.DataFile]:
        schema = arrow_schema("accounting")
        with StagedWriter(writing.root, writing.run) as writer:
            empty = [pa.nulls(1, each.type) for each in schema]
            writer.write("accounting", pa.record_batch(empty, schema=schema))
            return writer.close()

    with lake.write() as writing:
        delta.enable(lake)
        for _ in range(3):
            writing.commit(accounts(writing))
        compact(writing)
    table = deltalake.DeltaTable(str(lake.path / "accounting"))
    assert table.to_pyarrow_table().num_rows == 3
    assert len(table.files() if hasattr(table, "files") else table.file_uris()) == 1


def test_a_table_that_is_replaced_as_a_whole_keeps_its_delta_log(lake: Lake) -> None:
    new: list[Row] = [("c", 1, NOVEMBER), ("c", 2, NOVEMBER + 3 * 10**15)]
    with lake.write() as writing:
        delta.enable(lake)
        writing.commit(stage_frames(writing, ROWS))
        writing.commit(stage_frames(writing, new), whole=["frames"], kind="derive")
        assert delta_rows(lake.path) == logged_rows(lake) == visible_rows(lake.path) == new
    assert deltalake.DeltaTable(str(lake.path / "frames")).version() == 1
