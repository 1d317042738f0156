"""`wireloom decode` with tables for output: what files hold, and what is left after a failure."""

from __future__ import annotations

import contextlib
import csv
import gc
import io
import json
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wireloom.cli import _csv, _parquet, _progress
from wireloom.cli._parquet import TableFiles, file_schema
from wireloom.formats import get, tibmsg
from wireloom.generate import Manifest
from wireloom.tables import arrow_schema, table, table_names
from wireloom.view import escape


def options(files: dict[str, Path]) -> list[str]:
    given = [f"--{name}={path}" for name, path in files.items()]
    return [*given, "--bind", "10=board.Reading", "--bind", "11=board.LedCommand"]


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_a_capture_becomes_a_folder_of_parquet(
    run: Any, made: tuple[Path, Manifest, dict[str, Path]], tmp_path: Path
) -> None:
    path, manifest, files = made
    out = tmp_path / "day"
    result = run("decode", path, "-o", f"{out}/", *options(files))
    assert result.stdout == ""
    assert {each.name for each in out.iterdir()} == {f"{name}.parquet" for name in table_names()}
    frames = pq.read_table(out / "frames.parquet").to_pydict()
    assert len(frames["format"]) == manifest.messages
    for name in manifest.frames:
        assert frames["format"].count(name) == manifest.count(name)
    assert pq.read_metadata(out / "errors.parquet").num_rows == 0
    assert pq.read_metadata(out / "fields.parquet").num_rows > manifest.messages
    sums = rows(out / "accounting.parquet")
    assert sum(row["frames"] for row in sums) == manifest.messages
    for row in sums:
        assert row["captured"] == row["decoded"] + row["duplicate"]
    assert "fields " in result.stderr
    for name in manifest.frames:
        assert f"{name}: {manifest.count(name):,} frames in" in result.stderr


def test_only_the_tables_that_are_asked_for(
    run: Any, faulty: tuple[Path, Manifest], tmp_path: Path
) -> None:
    path, _ = faulty
    out = tmp_path / "out"
    result = run("decode", path, "-o", out, "--tables", "fields,errors", code=1)
    assert {each.name for each in out.iterdir()} == {"fields.parquet", "errors.parquet"}
    errors = rows(out / "errors.parquet")
    assert errors
    assert all(row["code"] and row["reason"] for row in errors)
    assert "bytes missing" in result.stderr
    assert " × " in result.stderr
    for line in result.stderr.splitlines():
        if " bytes = " in line:
            numbers = line.replace(",", "").split(" bytes = ")
            captured = int(numbers[0].split()[-1])
            parts = [int(part.split()[0]) for part in numbers[1].split(";")[0].split(" + ")]
            assert captured == sum(parts)


def test_files_have_the_schema_of_the_table_but_for_times(
    run: Any, capture: Path, tmp_path: Path
) -> None:
    run("decode", capture, "-o", f"{tmp_path}/out/")
    for name in table_names():
        found = pq.read_schema(tmp_path / "out" / f"{name}.parquet")
        wanted = file_schema(table(name))
        assert found.remove_metadata() == wanted.remove_metadata()
        # Spark takes it: dictionaries are an Arrow matter, and there is no TIME.
        assert not any(pa.types.is_time(field.type) for field in found)
        assert found.names == arrow_schema(name).names


def test_files_are_compressed_and_encoded(
    run: Any, made: tuple[Path, Manifest, dict[str, Path]], tmp_path: Path
) -> None:
    run("decode", made[0], "-o", f"{tmp_path}/out/", "--tables", "fields", *options(made[2]))
    group = pq.ParquetFile(tmp_path / "out" / "fields.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "RLE_DICTIONARY" in columns["name"].encodings
    assert "PLAIN_DICTIONARY" not in columns["frame_offset"].encodings
    assert "DELTA_BINARY_PACKED" in columns["frame_offset"].encodings


def test_a_folder_with_something_in_it_is_refused_without_force(
    run: Any, capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run("decode", capture, "-o", out, "--tables", "frames")
    (out / "mine.txt").write_text("precious")
    result = run("decode", capture, "-o", out, "--tables", "frames,errors", code=2)
    assert "not empty; replace the tables in it with --force" in result.stderr
    (out / "frames-00007.parquet").write_text("old")
    run("decode", capture, "-o", out, "--tables", "frames,errors", "--force")
    assert {path.name for path in out.iterdir()} == {
        "mine.txt",
        "frames.parquet",
        "errors.parquet",
    }


def test_a_file_is_no_folder(run: Any, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    result = run("decode", capture, "-o", tmp_path / "out", "--tables", "frames", code=2)
    assert "is a file; name a folder" in result.stderr


def test_large_tables_have_several_files_on_request(
    run: Any, capture: Path, stream: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture.write_bytes(stream * 400)
    monkeypatch.setattr(_parquet, "ROW_GROUP_ROWS", 500)
    result = run(
        "decode",
        capture,
        "-o",
        f"{tmp_path}/out/",
        "--tables=frames",
        "--file-size=1kB",
        "-O",
        "batch_rows=500",
    )
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 1
    assert files[0].name == "frames-00001.parquet"
    assert f"{len(files)} files" in result.stderr
    offsets = [row["frame_offset"] for path in files for row in rows(path)]
    assert len(offsets) == 400 * len(get("nrep").samples())
    assert offsets == sorted(offsets)


def test_one_table_in_one_file(run: Any, capture: Path, stream: bytes, tmp_path: Path) -> None:
    target = tmp_path / "frames.parquet"
    run("decode", capture, "-o", target, "--tables", "frames")
    assert sum(row["frame_length"] for row in rows(target)) == len(stream)
    assert "exists; overwrite it with --force" in (
        run("decode", capture, "-o", target, "--tables", "frames", code=2).stderr
    )
    run("decode", capture, "-o", target, "--tables", "frames", "--force")
    arrow = tmp_path / "frames.arrow"
    run("decode", capture, "-o", arrow, "--tables", "frames")
    with pa.OSFile(str(arrow)) as file:
        found = pa.ipc.open_file(file).read_all()
    assert found.num_rows == len(get("nrep").samples())
    assert found.schema.field("type_name").type == pa.string()
    result = run("decode", capture, "-o", tmp_path / "x.parquet", code=2)
    assert "one file holds one table: name it with --tables" in result.stderr


def test_the_input_is_never_overwritten_by_a_table(run: Any, tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "capture.parquet"
    path.write_bytes(stream)
    result = run("decode", path, "-o", path, "--tables", "frames", "--force", code=2)
    assert "is also the input" in result.stderr
    assert path.read_bytes() == stream


def test_chosen_columns_of_one_table(run: Any, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.parquet"
    chosen = "type_name,frame_offset"
    run("decode", capture, "-o", target, "--tables", "frames", "--columns", chosen)
    assert pq.read_schema(target).names == ["frame_offset", "type_name"]
    run("decode", capture, "-o", target, "--tables", "errors", "--columns", "code", "--force")
    assert pq.read_schema(target).names == ["code"]
    run("decode", capture, "-o", target, "--tables=accounting", "--columns=captured", "--force")
    assert rows(target) == [{"captured": capture.stat().st_size}]
    result = run(
        "decode", capture, "-o", target, "--tables", "frames", "--columns", "nosuch", code=2
    )
    assert "frames has no column 'nosuch'" in result.stderr
    result = run("decode", capture, "--tables", "frames,errors", "--columns", "code", code=2)
    assert "add wide to --tables" in result.stderr


def test_the_fields_of_wide_are_columns(
    run: Any, made: tuple[Path, Manifest, dict[str, Path]], tmp_path: Path
) -> None:
    out = tmp_path / "wide"
    columns = "SYMBOL,BID:decimal(18,4),BIDSIZE:int"
    run("decode", made[0], "-o", f"{out}/", "--columns", columns, *options(made[2]))
    assert {path.name for path in out.iterdir()} == {"wide.parquet", "errors.parquet"}
    schema = pq.read_schema(out / "wide.parquet")
    assert schema.field("BID").type == pa.decimal128(18, 4)
    assert schema.field("BIDSIZE").type == pa.int64()
    found = pq.read_table(out / "wide.parquet")
    assert found["BID"].null_count < found.num_rows


def test_rows_of_a_table_as_json_and_csv(
    run: Any, made: tuple[Path, Manifest, dict[str, Path]], tmp_path: Path
) -> None:
    path, _, files = made
    result = run("decode", path, "--tables", "accounting", *options(files))
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found
    assert all(row["captured"] == row["decoded"] + row["duplicate"] for row in found)
    target = tmp_path / "fields.csv"
    run("decode", path, "--tables", "fields", "--limit", 50, "-o", target, *options(files))
    shown = list(csv.DictReader(io.StringIO(target.read_text())))
    assert len(shown) == 50
    assert shown[0]["ts"].startswith("2023-11-15T14:3")
    both = run("decode", path, "--tables", "frames,errors", "-n2", *options(files)).stdout
    assert [json.loads(line)["table"] for line in both.splitlines()] == ["frames", "frames"]


def test_rows_of_a_table_from_stdin(run: Any, stream: bytes) -> None:
    result = run("decode", "--tables", "frames", "--columns", "type_name", stdin=stream)
    assert len(result.stdout.splitlines()) == len(get("nrep").samples())


def test_a_failed_run_leaves_nothing(
    run: Any, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "frames.parquet")

    monkeypatch.setattr(TableFiles, "write", full)
    result = run("decode", capture, "-o", f"{tmp_path}/out/", code=1)
    assert "No space left on device" in result.stderr
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.setattr(_parquet._Writer, "finish", full)
    run("decode", capture, "-o", f"{tmp_path}/out/", code=1)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TableFiles, "write", interrupted)
    run("decode", capture, "-o", f"{tmp_path}/out/", code=130)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / ".frames.parquet.part").write_text("half")
    run("decode", capture, "-o", tmp_path / "killed", "--tables", "errors")
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["errors.parquet"]


def test_failfast_names_what_is_wrong(run: Any, damaged: Path, tmp_path: Path) -> None:
    words = ["-f", "nrep", "-o", f"{tmp_path}/out/", "-O", "mode=failfast"]
    result = run("decode", damaged, *words, code=1)
    assert "the reserved byte is not zero" in result.stderr
    assert not (tmp_path / "out").exists()


def test_options_that_do_not_fit_are_usage(run: Any, capture: Path, tmp_path: Path) -> None:
    out = f"{tmp_path}/out/"
    for words, says in [
        (["--tables", "nosuch"], "no table 'nosuch'; there are frames, blaze"),
        (["--tables", "fieldz"], "no table 'fieldz' (is it fields?); there are frames, blaze"),
        (["--tables", "frames", "--columns", "frame_ofset"], "(is it frame_offset?)"),
        (["--tables", "wide"], "wide"),
        (["--ports", "7000"], "ports must be like 7001=blaze,7002=nais"),
        (["--ports", "7000=nosuch"], "no format 'nosuch'"),
        (["--formats", "nosuch"], "no format 'nosuch'"),
        (["--formats", "nrep", "-f", "nrep"], "exclude each other"),
        (["--errors", "x"], "in the table errors"),
        (["--limit", "3"], "--limit is for rows of text"),
        (["--dialect", "klingon"], "no dialect 'klingon'; there are blaze: document"),
        (["-O", "nosuch=1"], "there is no option 'nosuch'"),
        (["--file-size", "lots"], "'lots' is not a size, such as 500kB"),
        (["--file-size", "0"], "at least one byte"),
    ]:
        result = run("decode", capture, "-o", out, *words, code=2)
        assert says in result.stderr, result.stderr
        assert not Path(out).exists()
    assert "--file-size is for files" in run("decode", capture, "--file-size=1", code=2).stderr


def test_bytes_of_no_format_are_kept_and_counted(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"\xff" * 100_000)
    result = run("decode", path, "-o", f"{tmp_path}/out/", code=1)
    errors = rows(tmp_path / "out" / "errors.parquet")
    assert b"".join(row["raw"] for row in errors) == path.read_bytes()
    assert {row["code"] for row in errors} == {"unknown_format"}
    assert (
        "unrecognised: 0 frames, 2 problems; 100,000 bytes = 0 decoded + 100,000" in result.stderr
    )


def test_an_empty_file_has_empty_tables(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    run("decode", path, "-o", f"{tmp_path}/out/")
    assert rows(tmp_path / "out" / "frames.parquet") == []


@pytest.mark.parametrize("cut", [1, 13, 1000])
def test_a_broken_compressed_file_is_read_as_far_as_it_goes(
    run: Any, made: tuple[Path, Manifest, dict[str, Path]], tmp_path: Path, cut: int
) -> None:
    path = tmp_path / "cut.pcapng.zst"
    path.write_bytes(made[0].read_bytes()[:-cut])
    run("decode", path, "-o", f"{tmp_path}/out/", *options(made[2]), code=1)
    layers = {row["layer"] for row in rows(tmp_path / "out" / "errors.parquet")}
    assert "capture" in layers
    assert pq.read_metadata(tmp_path / "out" / "frames.parquet").num_rows > 0


def test_workers_and_ports_change_no_rows(
    run: Any, faulty: tuple[Path, Manifest], tmp_path: Path
) -> None:
    path, manifest = faulty
    ports = ",".join(f"{port}={name}" for port, name in manifest.ports.items())
    words = ["--tables", "frames", "-q"]
    one = run("decode", path, *words, "--workers", 1, code=1).stdout
    assert run("decode", path, *words, "--workers", 3, code=1).stdout == one
    named = run("decode", path, *words, "--ports", ports, code=1).stdout
    assert len(named.splitlines()) >= len(one.splitlines())


def test_a_large_capture_shows_progress_on_a_terminal(
    run: Any, faulty: tuple[Path, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "BIG", 1)
    words = ["decode", faulty[0], "--force", "-o", f"{tmp_path}/out/", "--tables", "frames"]
    assert "━" not in run(*words, code=1).stderr
    monkeypatch.setattr(_progress, "is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "━" in run(*words, code=1).stderr
    assert run(*words, "-q", code=1).stderr == ""


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parquet, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(_parquet, "WAITING_BYTES", 1000)
    tables = {"gaps": table("gaps"), "accounting": table("accounting")}
    schema = file_schema(tables["gaps"])
    batch = pa.RecordBatch.from_pylist([{"source": "a", "offset": 1, "length": 2}] * 7, schema)
    files = TableFiles(tmp_path / "out", tables)
    with files:
        for _ in range(40):
            files.write("gaps", batch)
    (written, other) = files.written
    assert (written.rows, other.rows) == (280, 0)
    found = pq.ParquetFile(written.files[0])
    groups = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
    assert sum(groups) == 280
    assert max(groups) <= 107
    assert len(groups) > 3
    assert found.read().column("offset").to_pylist() == [1] * 280


@pytest.mark.parametrize("table", ["fields", "frames", "nrep", "errors", "accounting"])
def test_csv_has_what_json_has(run: Any, made: Any, table: str) -> None:
    path, _, _ = made
    words = ("decode", path, "--tables", table)
    wanted = [json.loads(line) for line in run(*words, code=None).stdout.splitlines()]
    found = list(csv.DictReader(io.StringIO(run(*words, "--csv", code=None).stdout)))
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted, strict=True):
        assert list(row) == list(expected)
        for name, value in expected.items():
            cell = row[name]
            if value is None:
                assert cell == ""
            elif isinstance(value, bool):
                assert cell == str(value).lower()
            elif isinstance(value, float):
                assert float(cell) == value
            elif isinstance(value, (list, dict)):
                assert json.loads(cell) == value
            elif name.startswith("ts"):
                assert cell[:19] == str(value)[:19]
            elif name == "value_time":
                assert cell.startswith(value)
            else:
                assert cell == escape(str(value))


def test_csv_of_several_tables_has_the_columns_of_all(run: Any, made: Any) -> None:
    path, _, _ = made
    shown = run("decode", path, "--tables", "gaps,accounting,frames", "--csv", code=None).stdout
    header = shown.splitlines()[0].split(",")
    assert header[:3] == ["table", "source", "stream"]
    assert {"offset", "captured", "type_name"} <= set(header)
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert {row["table"] for row in rows} == {"accounting", "frames"}
    assert {len(row) for row in rows} == {len(header)}


def test_csv_rows_come_before_the_input_ends(tmp_path: Path, stream: bytes) -> None:
    words = ["decode", "-f", "nrep", "--tables", "frames", "--csv"]
    with subprocess.Popen(
        [sys.executable, "-m", "wireloom.cli", *words, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The input stays open, and nobody reads more than two rows.
        writer = threading.Thread(target=_feed, args=(process.stdin, stream * 5000))
        writer.start()
        assert process.stdout.readline().startswith(b"source,stream,")
        assert process.stdout.readline().startswith(b'"<stdin>","<stdin>",0,')
        assert process.poll() is None
        process.kill()
        writer.join()


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.write(data)
        pipe.flush()


def test_bytes_in_csv_are_hex_wherever_their_array_starts() -> None:
    values = [b"\x00\xff", None, b"", b"abc", None, b"\x01"]
    column = pa.array(values, pa.binary())
    for first in range(len(values) + 1):
        expected = [None if each is None else each.hex() for each in values[first:]]
        assert _csv._hex(column[first:]).to_pylist() == expected


def test_columns_that_are_empty_are_told(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(tibmsg.build({"SYM": "ABC", "N": "ten"}).encode() * 3)
    target = tmp_path / "x.parquet"
    columns = "SYM,N:i64,NOPE"
    result = run("decode", path, "--tables", "wide", "--columns", columns, "-o", target)
    assert "note: no message has a value that fits N, NOPE" in result.stderr
    assert "note: 3 values did not fit the type of their column" in result.stderr
    assert "NAME:TYPE in --columns chooses another type" in result.stderr
    result = run("decode", path, "--tables", "wide", "--columns", "SYM,NOPE", "--csv")
    assert "note: no message has a value for NOPE" in result.stderr
    result = run("decode", path, "--tables", "wide", "--columns", "SYM,NOPE", "--csv", "-n1")
    assert "note: no message so far has a value for NOPE" in result.stderr
    path.write_bytes(b"")
    result = run("decode", path, "--tables", "wide", "--columns", "SYM", "--csv")
    assert "note: no message has a value for SYM" in result.stderr


def test_a_field_of_late_messages_has_its_type(run: Any, tmp_path: Path) -> None:
    path, target = tmp_path / "x.bin", tmp_path / "x.parquet"
    early = tibmsg.build({"SYM": "ABC", "A": 1, "B": 2, "C": 3}).encode()
    late = tibmsg.build({"SYM": "ABC", "BID": Decimal("1.5")}).encode()
    path.write_bytes(early * 2000 + late)
    columns = ("--tables", "wide", "--columns", "A,B,C,BID", "-o", target, "--force")
    for stdin in (None, path.read_bytes()):
        run("decode", path if stdin is None else "-", *columns, stdin=stdin)
        assert pq.read_table(target)["BID"].to_pylist()[-1] == Decimal("1.5")


def test_text_is_written_where_it_is_asked_for(run: Any, tmp_path: Path) -> None:
    path, target = tmp_path / "x.bin", tmp_path / "x.parquet"
    path.write_bytes(tibmsg.build({"SYM": "ABC"}).encode())
    tables = ("decode", path, "--tables", "fields", "--columns", "name", "--csv", "-o")
    run(*tables, target)
    assert target.read_text() == 'name\n"SYM"\n'
    run(*tables, tmp_path / "x")
    assert (tmp_path / "x").read_text() == 'name\n"SYM"\n'
    assert "leave --csv out" in run(*tables, f"{tmp_path}/d/", code=2).stderr
    assert not (tmp_path / "d").exists()


def test_a_suffix_in_capitals_is_a_file(run: Any, tmp_path: Path) -> None:
    path, target = tmp_path / "x.bin", tmp_path / "X.PARQUET"
    path.write_bytes(tibmsg.build({"SYM": "ABC"}).encode())
    run("decode", path, "--tables", "fields", "-o", target)
    assert pq.read_table(target)["name"].to_pylist() == ["SYM"]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_what_is_abandoned_says_nothing_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    gaps = table("gaps")
    target = tmp_path / f"x{suffix}"
    rows = pa.RecordBatch.from_pylist([{}] * 3, arrow_schema(gaps))

    def interrupted() -> None:
        with TableFiles(target, {"gaps": gaps}, force=False, file_bytes=None) as files:
            files.write("gaps", rows)
            files._writers["gaps"].flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    gc.collect()
    assert said == []
    assert list(tmp_path.iterdir()) == []


def test_columns_that_a_table_has_no_place_for_are_said(
    run: Any, faulty: tuple[Path, Manifest]
) -> None:
    done = run("decode", faulty[0], "--tables", "frames,errors", "--table", code=1)
    assert "reason" not in done.stdout.splitlines()[0]
    assert "note: the table lacks columns of later rows: layer, code, reason" in done.stderr
    done = run("decode", faulty[0], "--tables", "errors", "--table", code=1)
    assert "lacks" not in done.stderr
