from __future__ import annotations

import gc
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.lakes import frames_batch, logged_rows, stage_frames, visible_rows

from wireloom.errors import LakeError, OptionError
from wireloom.lake import (
    DataFile,
    Derivation,
    Input,
    Lake,
    StagedWriter,
    WriteOptions,
    Writing,
    compact,
    dataset,
    read,
    schema_of,
    without_sources,
)
from wireloom.lake.layout import NO_DATE, DateRule
from wireloom.lake.log import CHECKPOINT_EVERY
from wireloom.tables import arrow_schema

DAY_NS = 86_400_000_000_000
NOVEMBER = 19_675 * 86_400_000_000_000  # 2023-11-14

ROWS = [("a.pcap", 0, NOVEMBER + 5), ("a.pcap", 8, NOVEMBER + DAY_NS), ("b.pcap", 0, NOVEMBER)]


def test_rows_come_back_with_the_day_of_their_capture_time(lake: Lake) -> None:
    with lake.write() as writing:
        assert writing.commit(stage_frames(writing, ROWS)) == 1
    found = read(lake, "frames", ["source", "frame_offset", "date"]).to_pylist()
    assert {(row["source"], row["frame_offset"]): row["date"] for row in found} == {
        ("a.pcap", 0): date(2023, 11, 14),
        ("a.pcap", 8): date(2023, 11, 15),
        ("b.pcap", 0): date(2023, 11, 14),
    }
    assert visible_rows(lake.path) == sorted(ROWS)
    assert sorted(path.name for path in (lake.path / "frames").iterdir()) == [
        "date=2023-11-14",
        "date=2023-11-15",
    ]


def test_nothing_uncommitted_is_visible_and_nothing_of_it_stays(lake: Lake) -> None:
    with lake.write() as writing:
        files = stage_frames(writing, ROWS)
        assert all((lake.path / file.staged).exists() for file in files)
        assert visible_rows(lake.path) == logged_rows(lake) == []
    assert not list(lake.path.rglob("*.parquet"))


def test_a_worker_that_fails_leaves_no_file(lake: Lake) -> None:
    def fail(run: str) -> None:
        with StagedWriter(lake.path, run, WriteOptions(target_bytes=1)) as writer:
            writer.write("frames", frames_batch(ROWS))
            raise RuntimeError

    def fail_with_rows_that_wait(run: str) -> None:
        with StagedWriter(lake.path, run) as writer:
            writer.write("frames", frames_batch(ROWS))
            raise RuntimeError

    with lake.write() as writing:
        for each in (fail, fail_with_rows_that_wait):
            with pytest.raises(RuntimeError):
                each(writing.run)
            gc.collect()  # a writer that is destroyed has nothing to say
        assert not list(lake.path.rglob("*.parquet"))


def test_the_log_says_what_is_in_a_file(lake: Lake) -> None:
    with lake.write() as writing:
        writing.commit(stage_frames(writing, ROWS), notes={"why": "test"})
    first, second = lake.files("frames")
    assert (first.rows, first.day, first.sources) == (2, "2023-11-14", ("a.pcap", "b.pcap"))
    assert (first.ts_min_ns, first.ts_max_ns) == (NOVEMBER, NOVEMBER + 5)
    assert second.day == "2023-11-15"
    assert first.bytes == (lake.path / first.path).stat().st_size
    assert lake.history()[0].notes == {"why": "test"}


@pytest.mark.slow
def test_only_one_process_writes_at_a_time(lake: Lake) -> None:
    code = (
        "import sys; from wireloom.lake import Lake\n"
        "try:\n"
        "    with Lake(sys.argv[1]).write(): print('in')\n"
        "except Exception as error: print(error.reason)"
    )
    run = [sys.executable, "-c", code, str(lake.path)]
    with lake.write():
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "another process is writing to it"
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "in"


def test_a_version_is_committed_once_even_where_locks_do_not_work(lake: Lake) -> None:
    from wireloom.lake import Writing

    one, other = Writing(lake), Writing(Lake(lake.path))
    one.commit(stage_frames(one, ROWS[:1]))
    with pytest.raises(LakeError, match="another writer was here first"):
        other.commit(stage_frames(other, ROWS[1:]))
    assert visible_rows(lake.path) == ROWS[:1]


def test_a_batch_is_committed_once(lake: Lake) -> None:
    with lake.write() as writing:
        assert writing.commit(stage_frames(writing, ROWS[:1]), batch=("query", 7)) == 1
        assert writing.commit(stage_frames(writing, ROWS[:1]), batch=("query", 7)) is None
        assert writing.commit(stage_frames(writing, ROWS[1:]), batch=("query", 8)) == 2
        assert writing.commit(stage_frames(writing, ROWS[:1]), batch=("query", 3)) is None
        assert not list(writing.staging.rglob("*.parquet"))
    assert visible_rows(lake.path) == sorted(ROWS)


def test_inputs_and_batches_are_remembered_over_checkpoints(lake: Lake) -> None:
    with lake.write() as writing:
        for number in range(CHECKPOINT_EVERY + 3):
            found = Input(f"/captures/{number}", 10, 20, "digest", state={"x": number})
            writing.commit(inputs=[found], batch=("query", number))
        writing.commit(stage_frames(writing, ROWS))
    again = Lake(lake.path)
    assert again.version == CHECKPOINT_EVERY + 4
    assert len(again.state.inputs) == CHECKPOINT_EVERY + 3
    assert again.state.inputs["/captures/3"] == Input(
        "/captures/3", 10, 20, "digest", state={"x": 3}
    )
    assert again.state.batches == {"query": CHECKPOINT_EVERY + 2}
    assert again.state.files == lake.state.files
    first_records = sorted((lake.path / "_wireloom/log").glob("*[0-9].json"))[:5]
    for path in first_records:  # the checkpoint stands for them
        path.unlink()
    assert Lake(lake.path).state.files == lake.state.files


def test_reader_sees_new_commits_when_it_refreshes(lake: Lake) -> None:
    reader = Lake(lake.path)
    with lake.write() as writing:
        writing.commit(stage_frames(writing, ROWS))
    assert logged_rows(reader) == []
    reader.refresh()
    assert logged_rows(reader) == sorted(ROWS)


def test_a_folder_of_something_else_is_not_made_a_lake(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(LakeError, match="no lake's"):
        Lake.create(tmp_path)
    with pytest.raises(LakeError, match="no lake"):
        Lake(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": 9}', "later version"),
        ('{"format": 1}', "damaged"),
    ],
)
def test_a_damaged_log_is_an_error_that_names_the_record(
    lake: Lake, content: str, reason: str
) -> None:
    (lake.path / "_wireloom/log/00000000000000000001.json").write_text(content)
    with pytest.raises(LakeError, match=reason) as caught:
        Lake(lake.path)
    assert "00000000000000000001.json" in caught.value.path


def test_a_lost_record_is_an_error(lake: Lake) -> None:
    with lake.write() as writing:
        writing.commit()
        writing.commit()
    (lake.path / "_wireloom/log/00000000000000000001.json").unlink()
    with pytest.raises(LakeError, match="a record is lost"):
        Lake(lake.path)


def test_files_roll_at_the_target_size(lake: Lake) -> None:
    with lake.write() as writing:
        how = WriteOptions(target_bytes=1, group_rows=100)
        with StagedWriter(lake.path, writing.run, how) as writer:
            for part in range(4):
                rows = [("a", part * 1000 + row, NOVEMBER) for row in range(100)]
                writer.write("frames", frames_batch(rows))
            files = writer.close()
        assert [file.rows for file in files] == [100] * 4
        writing.commit(files)
    assert len(visible_rows(lake.path)) == 400


@pytest.mark.slow
def test_many_days_do_not_open_many_files(lake: Lake) -> None:
    days = 120
    rows = [("a", row, NOVEMBER + row % days * DAY_NS) for row in range(3 * days)]
    with lake.write() as writing, StagedWriter(lake.path, writing.run) as writer:
        for start in range(0, len(rows), 50):
            writer.write("frames", frames_batch(rows[start : start + 50]))
        writing.commit(writer.close())
    assert visible_rows(lake.path) == rows
    assert len(list((lake.path / "frames").iterdir())) == days


def test_rows_wait_for_row_groups_in_bounded_memory(lake: Lake) -> None:
    how = WriteOptions(held_bytes=10_000)
    with lake.write() as writing, StagedWriter(lake.path, writing.run, how) as writer:
        for part in range(50):
            day = NOVEMBER + part % 5 * DAY_NS
            writer.write("frames", frames_batch([("a", row, day) for row in range(40)]))
            assert writer.held_bytes <= 10_000
        writing.commit(writer.close())
    assert len(visible_rows(lake.path)) == 2000


def test_raw_captures_have_the_day_in_their_name(lake: Lake) -> None:
    rows = [("/x/ticks_2024-01-05.bin", 0, None), ("/x/ticks.bin", 0, None), ("c", 0, NOVEMBER)]
    with lake.write() as writing:
        writing.commit(stage_frames(writing, rows))
    assert {file.day for file in lake.files("frames")} == {"2024-01-05", NO_DATE, "2023-11-14"}
    found = read(lake, "frames", ["source", "date"]).to_pylist()
    assert {row["source"]: row["date"] for row in found} == {
        "/x/ticks_2024-01-05.bin": date(2024, 1, 5),
        "/x/ticks.bin": date(1970, 1, 1),
        "c": date(2023, 11, 14),
    }


@pytest.mark.parametrize(
    ("rule", "name", "day"),
    [
        ("name", "a-20240105.bin.gz", "2024-01-05"),
        ("name", "20231301_2023.11.14.raw", "2023-11-14"),
        ("name", "order120240105.bin", NO_DATE),
        ("name", "2024-0105.bin", NO_DATE),
        ("none", "a-20240105.bin", NO_DATE),
        ("2020-02-29", "a-20240105.bin", "2020-02-29"),
    ],
)
def test_day_of_a_raw_capture(rule: str, name: str, day: str) -> None:
    assert DateRule(rule).day_of(f"/2019-01-01/{name}") == day


def test_a_wrong_day_is_refused() -> None:
    with pytest.raises(OptionError, match="YYYY-MM-DD"):
        DateRule("yesterday")


def test_a_time_that_no_calendar_has_does_no_harm(lake: Lake) -> None:
    rows = [("a", 0, -(2**63) + 1), ("a", 1, 2**63 - 1), ("a", 2, NOVEMBER)]
    with lake.write() as writing:
        writing.commit(stage_frames(writing, rows))
    assert visible_rows(lake.path) == rows


@pytest.mark.parametrize("table", ["frames", "fields", "errors", "gaps", "accounting", "nrep"])
def test_files_of_every_table_have_types_that_all_engines_read(lake: Lake, table: str) -> None:
    schema = arrow_schema(table)
    empty = [pa.nulls(2, each.type) for each in schema]
    with lake.write() as writing, StagedWriter(lake.path, writing.run) as writer:
        writer.write(table, pa.record_batch(empty, schema=schema))
        writing.commit(writer.close())
    stored = pq.read_schema(lake.path / lake.files(table)[0].path)
    assert stored.equals(arrow_schema(table, spark=True))
    assert schema_of(lake, table).names[: len(schema)] == schema.names
    assert read(lake, table).num_rows == 2


def test_files_with_other_columns_are_read_together(lake: Lake) -> None:
    def wide(*names: str) -> pa.RecordBatch:
        base = frames_batch([("a", 1, NOVEMBER)]).select(["source", "frame_offset", "ts_ns"])
        for name in names:
            base = base.append_column(name, pa.array([1.5]))
        return base

    with lake.write() as writing:
        for names in [("BID",), ("ASK", "BID")]:
            with StagedWriter(lake.path, writing.run) as writer:
                writer.write("wide", wide(*names))
                writing.commit(writer.close())
        compact(writing)
    rows = read(lake, "wide", ["ASK", "BID"]).to_pylist()
    assert sorted(rows, key=str) == [{"ASK": 1.5, "BID": 1.5}, {"ASK": None, "BID": 1.5}]


def test_a_scan_skips_other_days(lake: Lake) -> None:
    import pyarrow.compute as pc

    with lake.write() as writing:
        writing.commit(stage_frames(writing, ROWS))
    found = dataset(lake, "frames")
    chosen = list(found.get_fragments(pc.field("date") == date(2023, 11, 15)))
    assert len(chosen) == 1
    assert found.filter(pc.field("date") == date(2023, 11, 15)).count_rows() == 1


def test_no_such_table(lake: Lake) -> None:
    with pytest.raises(LakeError, match="no table 'nrep'; there are: none"):
        read(lake, "nrep")


def test_a_derived_table_is_current_until_rows_that_it_was_made_of_change(lake: Lake) -> None:
    with lake.write() as writing:
        writing.commit(stage_frames(writing, ROWS[:1]))
        writing.commit(stage_frames(writing, ROWS[1:]))
        made = Derivation(lake.version, {"frames": lake.state.changed["frames"], "gaps": 0})
        made_anew = replace_table(writing, "bars", ROWS[:2], made)
        assert [file.table for file in made_anew] == ["bars", "bars"]
        assert compact(writing)
        # Nor do commits that only tell how far captures were read.
        for _ in range(CHECKPOINT_EVERY):
            writing.commit(inputs=[Input("x", 1, 1, "")])
        assert Lake(lake.path).state.changed_since("bars") == []
        assert Lake(lake.path).state.derived == {"bars": made}

        kept, gone = without_sources(writing, ["a.pcap"])
        assert {path.partition("/")[0] for path in gone} == {"frames"}
        writing.commit(kept, remove=gone)
    assert lake.state.changed_since("bars") == ["frames"]
    assert Lake(lake.path).state.changed_since("bars") == ["frames"]
    assert len(read(lake, "bars")) == 2


def replace_table(
    writing: Writing, table: str, rows: list[tuple[str, int, int]], made: Derivation
) -> list[DataFile]:
    with StagedWriter(writing.root, writing.run) as writer:
        writer.write(table, bars_batch(rows))
        files = writer.close()
    writing.commit(files, kind="derive", whole=[table], derived={table: made})
    return files


def bars_batch(rows: list[tuple[str, int, int]]) -> pa.RecordBatch:
    """A few columns of bars, whose days are told by timestamps."""
    times = [ns // 1000 for _, _, ns in rows]
    return pa.record_batch(
        {
            "source": [source for source, _, _ in rows],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def test_a_table_that_is_replaced_as_a_whole_keeps_nothing(lake: Lake) -> None:
    made = Derivation(0, {})
    with lake.write() as writing:
        replace_table(writing, "bars", ROWS, made)
        days = sorted(path.name for path in (lake.path / "bars").iterdir())
        assert days == ["date=2023-11-14", "date=2023-11-15"]
        replace_table(writing, "bars", [("c", 0, NOVEMBER - DAY_NS)], made)
        assert [path.name for path in (lake.path / "bars").iterdir()] == ["date=2023-11-13"]
        (file,) = lake.files("bars")
        assert (file.ts_min_ns, file.ts_max_ns) == (NOVEMBER - DAY_NS, NOVEMBER - DAY_NS)
        replace_table(writing, "bars", [], made)
    assert lake.tables == ()
    assert not (lake.path / "bars").exists()
