"""The pipeline's logic, without Spark: what is read, replaced, proven and committed."""

from __future__ import annotations

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracles.lakes import lake_tables, sorted_rows

from wireloom.errors import DecodeError, OptionError, SourceError
from wireloom.formats import tibmsg
from wireloom.generate import Faults, generate, write_schemas
from wireloom.lake import Lake, totals
from wireloom.pipeline import (
    PipelineOptions,
    Report,
    StreamOptions,
    follow,
    reprocess,
    run_pipeline,
)
from wireloom.tabulate import Settings, tabulate

SMALL = PipelineOptions(split_bytes=40_000)


def expected(*groups: list[Path], **options: Any) -> dict[str, list[str]]:
    """What one pass over the captures gives; each group is one capture.

    Tables without rows are there, too.
    """
    parts: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
    for group in groups:
        for name, batch in tabulate([str(path) for path in group], **options):
            parts[name].append(batch)
    rows = {name: sorted_rows(pa.Table.from_batches(found)) for name, found in parts.items()}
    return {name: rows.get(name, []) for name in Settings.from_options(options).tables}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures of several kinds."""
    folder = tmp_path_factory.mktemp("captures")
    generate(
        folder / "quotes-2024-01-05.bin",
        ["tibmsg"],
        size=200_000,
        container="raw",
        seed=1,
        faults=Faults(corruption=0.01),
    )
    generate(folder / "blaze.bin.gz", ["blaze"], size=50_000, container="raw", compression="gzip")
    generate(folder / "mixed.pcapng", size=150_000, seed=3, faults=Faults(loss=0.01, reorder=0.02))
    return folder


@pytest.fixture
def captures(made: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(made, tmp_path / "captures"))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_lake_has_the_rows_of_one_pass(captures: Path, lake: Path) -> None:
    report = run_pipeline(captures, lake, options=SMALL)
    assert lake_tables(lake) == expected(files(captures))
    assert (report.files_read, report.files_known, report.files_replaced) == (3, 0, 0)
    found = totals(Lake(lake))
    parts = ("decoded", "quarantined", "gap", "duplicate")
    assert found["captured"] == sum(found[name] for name in parts) > 0
    assert all(report.totals[name] == count for name, count in found.items())


def test_frames_inside_of_frames_mislead_nobody(tmp_path: Path, lake: Path) -> None:
    inner = tibmsg.build({"SYM": "ABC", "BIDSIZE": 10}).encode()
    outer = tibmsg.build({"SEQ": 1, "DATA": inner * 300}).encode()
    (tmp_path / "nested.bin").write_bytes((outer + inner) * 9)
    report = run_pipeline(tmp_path / "nested.bin", lake, options=PipelineOptions(split_bytes=5000))
    assert report.repairs
    assert lake_tables(lake) == expected([tmp_path / "nested.bin"])


def test_the_same_captures_again_change_nothing(captures: Path, lake: Path) -> None:
    run_pipeline(captures, lake)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*.*")}
    os.utime(captures / "mixed.pcapng", ns=(1, 1))
    report = run_pipeline([captures, captures / "mixed.pcapng"], lake)
    assert (report.files_read, report.files_known, report.commits) == (0, 3, 0)
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*.*")} == before


def test_only_new_captures_are_read(captures: Path, lake: Path) -> None:
    run_pipeline(captures, lake)
    generate(captures / "new.bin", ["nrep"], size=20_000, container="raw")
    report = run_pipeline(captures, lake)
    assert (report.files_read, report.files_known) == (1, 3)
    assert lake_tables(lake) == expected(files(captures))


@pytest.mark.slow
@pytest.mark.parametrize("change", ["grown", "cut", "rewritten", "renamed", "rotated"])
@pytest.mark.parametrize("name", ["quotes-2024-01-05.bin", "mixed.pcapng"])
def test_a_changed_capture_replaces_what_was_read_of_it(
    captures: Path, lake: Path, name: str, change: str
) -> None:
    path = captures / name
    content = path.read_bytes()
    if change == "grown":
        path.write_bytes(content[: len(content) * 2 // 3])
    run_pipeline(captures, lake)
    if change == "grown":
        path.write_bytes(content)
    elif change == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif change == "rewritten":
        path.write_bytes(content[:1000] + bytes(50) + content[1050:-1])
    else:
        path.rename(captures / f"old-{name}")
        if change == "rotated":
            path.write_bytes(content[: len(content) // 2])
    report = run_pipeline(captures, lake)
    assert report.files_replaced == 1
    assert lake_tables(lake) == expected(*([path] for path in files(captures)))
    assert run_pipeline(captures, lake).commits == 0


def test_packet_captures_of_a_folder_are_one_capture(tmp_path: Path, lake: Path) -> None:
    whole = tmp_path / "whole.pcap"
    generate(whole, ["tibrv"], size=60_000, container="pcap")
    content = whole.read_bytes()
    records = list(pcap_records(content))
    cut_at = records[len(records) // 2]
    folder = tmp_path / "rotated"
    folder.mkdir()
    (folder / "c2.pcap").write_bytes(content[:cut_at])
    (folder / "c10.pcap").write_bytes(content[:24] + content[cut_at:])
    run_pipeline(folder, lake)
    assert lake_tables(lake) == expected([folder / "c2.pcap", folder / "c10.pcap"])
    assert totals(Lake(lake))["quarantined"] == 0

    # The second one grows: the connections that began in the first one go on.
    (folder / "c10.pcap").write_bytes(content[:24] + content[cut_at : records[-3]])
    report = run_pipeline(folder, lake)
    assert report.files_read == 2
    assert lake_tables(lake) == expected([folder / "c2.pcap", folder / "c10.pcap"])
    (folder / "c2.pcap").unlink()
    (folder / "c10.pcap").write_bytes(content[:24] + content[cut_at:])
    with pytest.raises(SourceError, match="read together"):
        run_pipeline(folder, lake)


def pcap_records(content: bytes) -> Iterator[int]:
    at = 24
    while at < len(content):
        yield at
        at += 16 + int.from_bytes(content[at + 8 : at + 12], "little")


def test_commits_are_as_large_as_asked_for(tmp_path: Path, lake: Path) -> None:
    for number in range(5):
        generate(tmp_path / f"{number}.bin", ["nrep"], size=5000, container="raw", seed=number)
    paths = [tmp_path / f"{number}.bin" for number in range(5)]
    report = run_pipeline(paths, lake, options=PipelineOptions(commit_bytes=10_000))
    assert 2 <= report.commits <= 5
    assert lake_tables(lake) == expected(paths)


def test_the_lake_may_lie_among_the_captures(captures: Path) -> None:
    generate(captures / "deep.bin", ["nrep"], size=5000, container="raw")
    before = files(captures)
    run_pipeline(captures, captures / "lake")
    assert run_pipeline(captures, captures / "lake").files_read == 0
    assert lake_tables(captures / "lake") == expected(before)


def test_failfast_names_file_offset_and_reason_and_commits_nothing(
    captures: Path, lake: Path
) -> None:
    with pytest.raises(DecodeError) as caught:
        run_pipeline(captures, lake, Settings(mode="failfast"))
    assert str(captures) in caught.value.reason
    assert f"(at byte {caught.value.offset}" in str(caught.value)
    assert Lake(lake).tables == ()
    assert not list(lake.rglob("*.parquet"))


@pytest.mark.parametrize("head", [b"", b"\x0a\x0d\x0d\x0a", b"\xd4\xc3\xb2\xa1", b"\x1f\x8b\x08"])
def test_hostile_captures_fail_nothing(tmp_path: Path, lake: Path, head: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(head + os.urandom(100_000))
    run_pipeline(path, lake, options=PipelineOptions(split_bytes=9000))
    assert lake_tables(lake) == expected([path])
    (tmp_path / "empty").touch()
    assert run_pipeline(tmp_path / "empty", lake).files_read == 1


def test_what_is_always_written(captures: Path, lake: Path) -> None:
    run_pipeline(captures, lake, Settings(tables=("nrep",)))
    assert set(Lake(lake).tables) <= {"nrep", "errors", "gaps", "accounting"}
    assert {"nrep", "accounting"} <= set(Lake(lake).tables)


def test_types_of_wide_columns_stay_what_they_were(tmp_path: Path, lake: Path) -> None:
    settings = Settings(tables=("wide",), columns=("BID", "SYMBOL", "NOT_THERE"))
    for number in range(2):
        path = tmp_path / f"{number}.bin"
        generate(path, ["tibmsg"], size=20_000, container="raw", seed=number)
        run_pipeline(path, lake, settings)
    assert set(Lake(lake).state.columns) == {"BID", "SYMBOL", "NOT_THERE"}
    assert len({file.schema for file in Lake(lake).files("wide")}) == 1


def test_the_quarantine_is_read_again(tmp_path: Path, lake: Path) -> None:
    files = {name: str(path) for name, path in write_schemas(tmp_path).items()}
    schemas = {"dictionary": files["dictionary"], "model": files["model"]}
    generate(tmp_path / "q.bin", ["qform"], size=20_000, container="raw")
    generate(tmp_path / "n.pcap", ["qform", "qform-in-blaze"], size=40_000, container="pcap")
    paths = [tmp_path / "q.bin", tmp_path / "n.pcap"]
    run_pipeline(paths, lake, Settings(options={"model": files["model"]}))
    before = lake_tables(lake)
    assert any("'unknown_fid'" in row and "'body" in row for row in before["errors"])
    fixed = Settings(options=schemas)
    report = reprocess(lake, fixed)
    assert report.commits == 1
    want = expected([tmp_path / "q.bin"], [tmp_path / "n.pcap"], **schemas)
    assert lake_tables(lake) == want
    assert reprocess(lake, fixed).commits == 0
    assert report.totals["mended"] == len(before["errors"]) - len(want.get("errors", ()))


# --- following ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_following_a_growing_capture_gives_the_rows_of_one_pass(captures: Path, lake: Path) -> None:
    path = captures / "quotes-2024-01-05.bin"
    generate(path, ["tibmsg"], size=900_000, container="raw", faults=Faults(corruption=0.005))
    content = path.read_bytes()
    path.write_bytes(content[:150_000])
    sizes = [150_001, 300_000, 620_000, 700_000, len(content)]
    stop = threading.Event()
    seen: list[int] = []

    def grow(report: Report) -> None:
        """After every commit, a part of the rest is added."""
        known = Lake(lake).state.inputs.get(str(path))
        seen.append(known.end if known is not None else 0)
        if not sizes:
            stop.set()
            return
        size = sizes.pop(0)
        with path.open("ab") as file:
            file.write(content[path.stat().st_size : size])

    for other in files(captures):
        if other != path:
            os.utime(other, ns=(10**18, 10**18))  # complete, unlike the one that grows
    how = StreamOptions(every_s=0, settle_s=3600, max_bytes=200_000)
    follow([captures], lake, options=SMALL, following=how, stop=stop, told=grow)
    assert seen == sorted(seen)
    assert len(set(seen)) > 3
    assert lake_tables(lake) == expected(
        [path], [captures / "blaze.bin.gz"], [captures / "mixed.pcapng"]
    )
    assert run_pipeline(captures, lake).commits == 0


def test_captures_at_an_address_are_read_as_those_at_a_path(
    captures: Path, lake: Path, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    # An address that pyarrow does not know, so that fsspec reads it.
    address = f"local://{captures}"
    report = run_pipeline(address, lake, options=SMALL)
    assert report.files_read == 3
    found = lake_tables(lake)
    assert {row.replace("local://", "") for rows in found.values() for row in rows} == {
        row for rows in expected(files(captures)).values() for row in rows
    }
    assert run_pipeline(f"{address}/*", lake).files_known == 3
    with (captures / "quotes-2024-01-05.bin").open("ab") as file:
        file.write(tibmsg.build({"SYM": "ABC"}).encode())
    again = run_pipeline(address, lake)
    assert (again.files_read, again.files_known, again.files_replaced) == (1, 2, 1)
    with pytest.raises(SourceError, match="no such file"):
        run_pipeline(f"{address}/nothing", lake)


def test_addresses_are_not_followed(lake: Path) -> None:
    with pytest.raises(OptionError, match="can be followed"):
        follow(["local:///captures"], lake, stop=threading.Event())
