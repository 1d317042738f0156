"""Packet captures that are followed: the lake of a batch over the same bytes, at every end."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from oracles.lakes import lake_tables

from wireloom.captures import packet_ranges
from wireloom.errors import SourceError
from wireloom.generate import Faults, generate
from wireloom.lake import Lake, compact, totals
from wireloom.pipeline import Report, StreamOptions, follow, run_pipeline
from wireloom.tabulate import Settings

Parts = list[tuple[str, bytes]]
Tables = dict[str, list[str]]

SETTINGS = Settings(tables=("frames", "messages"))
"""Few tables, besides those that are always there: every file of a commit takes time."""
LONG_S = 3600.0
"""Longer than any test: nothing is complete because of its age."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A capture of a few long connections, rotated: the names and contents of four files."""
    folder = tmp_path_factory.mktemp("parts")
    whole = folder / "whole.pcap"
    faults = Faults(reorder=0.02, loss=0.01, duplicates=0.01)
    generate(whole, size=150_000, container="pcap", faults=faults, connections=1, seed=5)
    data = whole.read_bytes()
    found = packet_ranges(whole, 4)
    assert len(found) == 4
    return [
        (f"cap{9 + number}.pcap", (data[:24] if number else b"") + data[part.start : part.end])
        for number, part in enumerate(found)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "live"
    made.mkdir()
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def batch(folder: Path, tmp_path: Path) -> Callable[..., Tables]:
    """What a batch over the captures gives now."""
    count = 0

    def run(settings: Settings = SETTINGS) -> Tables:
        nonlocal count
        count += 1
        run_pipeline(folder, tmp_path / f"batch{count}", settings)
        return lake_tables(tmp_path / f"batch{count}")

    return run


def once(folder: Path, lake: Path, settings: Settings = SETTINGS) -> Report:
    """Follow what is there now, to its end."""
    stop = threading.Event()
    stop.set()
    return follow([folder], lake, settings, stop=stop)


def still(path: Path) -> None:
    """Nobody writes to it any more, as it seems; but that is not long ago."""
    at = time.time() - 60
    os.utime(path, (at, at))


def grow(path: Path, data: bytes, random: Random, steps: int) -> Iterator[None]:
    """Write a file bit by bit."""
    for size in [*sorted(random.randrange(len(data)) for _ in range(steps)), len(data)]:
        with path.open("ab") as file:
            file.write(data[file.tell() : size])
        yield


class Restart(Exception):
    """The driver is gone."""


class Rounds(threading.Event):
    """Between two rounds of a stream something is added to captures; at times the driver ends."""

    def __init__(self, folder: Path, parts: Parts, random: Random) -> None:
        super().__init__()
        self.restarts = 0
        self._random = random
        self._left = [(folder / name, grow(folder / name, data, random, 3)) for name, data in parts]
        self._more()

    def wait(self, timeout: float | None = None) -> bool:
        """What the stream does between two rounds."""
        self._more()
        if self._random.random() < 0.3 and not self.is_set():
            self.restarts += 1
            raise Restart
        return self.is_set()

    def _more(self) -> None:
        while self._left:
            path, writer = self._left[0]
            for _ in writer:
                return
            still(path)
            del self._left[0]
        self.set()


def check_sums(lake: Path) -> None:
    """What the rows say was decoded is what the accounts say, with those that are in the log."""
    opened = Lake(lake)
    rows = sum(file.rows for file in opened.files("frames"))
    found = totals(opened) if "accounting" in opened.tables else dict.fromkeys(COUNTS, 0)
    rest = [one.state["open"] for one in opened.state.inputs.values() if "open" in one.state]
    assert rows == found["frames"] + sum(one["frames"] for one in rest)
    assert found["captured"] == sum(found[name] for name in COUNTS[2:])


COUNTS = ("frames", "captured", "decoded", "quarantined", "gap", "duplicate")


@pytest.mark.slow
def test_files_that_come_one_by_one_in_single_runs(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    whole = {"captured": 0, "frames": 0}
    every = Settings()
    for name, data in parts:
        (folder / name).write_bytes(data)
        report = once(folder, lake, every)
        assert lake_tables(lake) == batch(every)
        check_sums(lake)
        whole = {key: count + report.totals[key] for key, count in whole.items()}
        assert whole == {key: totals(Lake(lake))[key] for key in whole}
    sources = {one.path for one in Lake(lake).state.inputs.values()}
    assert len(sources) == 4
    # Connections go on: nothing starts in the last file.
    assert not any(str(folder / parts[-1][0]) in row for row in lake_tables(lake)["accounting"])
    assert once(folder, lake, every).commits == 0
    assert run_pipeline(folder, lake).commits == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_that_goes_on_while_files_grow_and_is_started_again(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables], seed: int
) -> None:
    random = Random(seed)
    options = StreamOptions(every_s=0, settle_s=LONG_S, max_bytes=30_000 if seed % 2 else 1 << 30)
    rounds = Rounds(folder, parts, random)
    commits = 0

    def told(report: Report) -> None:
        nonlocal commits
        commits += 1
        check_sums(lake)

    while not rounds.is_set():
        with suppress(Restart):
            follow([folder], lake, SETTINGS, following=options, stop=rounds, told=told)
    assert rounds.restarts
    assert commits > 8
    assert lake_tables(lake) == batch()
    numbers = [one.batch for one in Lake(lake).history()]
    assert len(set(numbers)) == len(numbers)  # no batch twice
    assert run_pipeline(folder, lake).commits == 0


def test_a_folder_that_is_complete_and_then_is_not(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    """Every round takes everything for complete, with the bytes of a packet that is not."""
    random = Random(7)
    rounds = Rounds(folder, parts, random)
    seen: list[bool] = []

    def told(report: Report) -> None:
        check_sums(lake)
        seen.append(any("closing" in one.state for one in Lake(lake).state.inputs.values()))

    while not rounds.is_set():
        with suppress(Restart):
            how = StreamOptions(every_s=0, settle_s=0)
            follow([folder], lake, SETTINGS, following=how, stop=rounds, told=told)
    assert True in seen
    assert False in seen
    assert lake_tables(lake) == batch()


def test_rows_of_a_folder_that_goes_on_were_put_together_with_others(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    for name, data in parts:
        (folder / name).write_bytes(data)
        once(folder, lake)
        with Lake(lake).write() as writing:
            compact(writing)
    assert lake_tables(lake) == batch()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def replace_other(path: Path) -> None:
    generate(path, ["nrep"], size=20_000, container="pcap", seed=9)


def swap_bytes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:210] = bytes(10)
    path.write_bytes(data)


def remove_and_rename(path: Path) -> None:
    path.rename(path.with_name(f"z{path.name}"))


@pytest.mark.parametrize("change", [cut, replace_other, swap_bytes, remove_and_rename])
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("is_closed", [False, True])
def test_what_was_read_and_has_changed_is_replaced(
    parts: Parts,
    folder: Path,
    lake: Path,
    batch: Callable[..., Tables],
    change: Callable[[Path], None],
    number: int,
    is_closed: bool,
) -> None:
    for name, data in parts[:3]:
        (folder / name).write_bytes(data)
        still(folder / name)
    settle_s = 0 if is_closed else LONG_S
    first = Between(lambda: change(folder / parts[number][0]), rounds=4)
    how = StreamOptions(every_s=0, settle_s=settle_s)
    report = follow([folder], lake, SETTINGS, following=how, stop=first)
    assert report.files_replaced == 3
    assert lake_tables(lake) == batch()
    (folder / "zz.pcap").write_bytes(parts[3][1])
    once(folder, lake)
    assert lake_tables(lake) == batch()


class Between(threading.Event):
    """Does something between two rounds, when nothing is left to do; some rounds later it ends."""

    def __init__(self, act: Callable[[], object], rounds: int) -> None:
        super().__init__()
        self._act = act
        self._rounds = self._left = rounds

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        if self._left == 0:
            self._act()
        if self._left == -self._rounds:
            self.set()
        return self.is_set()


def test_captures_that_come_late_or_grow_late_are_read_in_their_order(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    names = [name for name, _ in parts]
    contents = dict(parts)
    for name in (names[0], names[2]):
        (folder / name).write_bytes(contents[name])
    (folder / names[0]).write_bytes(contents[names[0]][:-5000])
    once(folder, lake)
    assert lake_tables(lake) == batch()
    (folder / names[1]).write_bytes(contents[names[1]])
    once(folder, lake)
    assert lake_tables(lake) == batch()
    (folder / names[0]).write_bytes(contents[names[0]])
    report = once(folder, lake)
    assert report.files_replaced == 3
    assert lake_tables(lake) == batch()
    (folder / names[2]).write_bytes(contents[names[2]][:-5000])
    run_pipeline(folder, lake, SETTINGS)  # in the same order
    assert lake_tables(lake) == batch()


@pytest.mark.parametrize("is_closed", [False, True])
def test_captures_may_be_removed_as_long_as_the_driver_lives(
    parts: Parts, folder: Path, lake: Path, tmp_path: Path, is_closed: bool
) -> None:
    every = tmp_path / "every"
    every.mkdir()
    for name, data in parts:
        (every / name).write_bytes(data)
    for name, data in parts[:2]:
        (folder / name).write_bytes(data)
        still(folder / name)

    def rotate() -> None:
        (folder / parts[0][0]).unlink()
        for name, data in parts[2:]:
            (folder / name).write_bytes(data)

    stop = Between(rotate, rounds=5)
    how = StreamOptions(every_s=0, settle_s=0 if is_closed else LONG_S)
    follow([folder], lake, SETTINGS, following=how, stop=stop)
    run_pipeline(every, tmp_path / "batch", SETTINGS)
    wanted = lake_tables(tmp_path / "batch")
    found = lake_tables(lake)
    check_sums(lake)
    lost = [row for row in found.get("errors", ()) if "'removed'" in row]
    if is_closed:  # then it does not know any more, and says so
        assert len(lost) == 1
        assert str(folder / parts[0][0]) in lost[0]
        return
    renamed = {
        table: [row.replace(str(every), str(folder)) for row in rows]
        for table, rows in wanted.items()
    }
    assert not lost
    assert {name: sorted(rows) for name, rows in found.items()} == {
        name: sorted(rows) for name, rows in renamed.items()
    }


@pytest.mark.parametrize("is_more", [False, True])
def test_captures_that_are_removed_before_a_restart_are_told_of(
    parts: Parts, folder: Path, lake: Path, is_more: bool
) -> None:
    for name, data in parts[:2]:
        (folder / name).write_bytes(data)
        still(folder / name)
    how = StreamOptions(every_s=0, settle_s=LONG_S)
    with suppress(Restart):
        follow([folder], lake, SETTINGS, following=how, stop=Between(restart, rounds=3))
    before = lake_tables(lake)
    assert any("open" in one.state for one in Lake(lake).state.inputs.values())
    (folder / parts[0][0]).unlink()
    with pytest.raises(SourceError, match="removed before"):
        once(folder, lake, Settings(mode="failfast"))
    if is_more:
        (folder / parts[2][0]).write_bytes(parts[2][1])
    report = once(folder, lake)
    found = lake_tables(lake)
    assert sum("'removed'" in row for row in found["errors"]) == 1
    assert set(before["frames"]) <= set(found["frames"])
    assert (len(found["frames"]) > len(before["frames"])) == is_more
    check_sums(lake)
    assert not any(one.is_open for one in Lake(lake).state.inputs.values())
    (folder / parts[2][0]).write_bytes(parts[2][1])
    assert report.totals["captured"] == totals(Lake(lake))["captured"]
    (folder / parts[3][0]).write_bytes(parts[3][1])
    once(folder, lake)
    check_sums(lake)
    # What was read together with it cannot be read again.
    cut(folder / parts[1][0])
    (folder / parts[2][0]).unlink()
    with pytest.raises(SourceError, match="read together"):
        once(folder, lake)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_folder_whose_captures_are_all_gone_is_closed(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables], is_known: bool
) -> None:
    (folder / parts[0][0]).write_bytes(parts[0][1])
    wanted = batch()

    def act() -> None:
        (folder / parts[0][0]).unlink()
        if not is_known:
            raise Restart

    how = StreamOptions(every_s=0, settle_s=LONG_S)
    with suppress(Restart):
        follow([folder], lake, SETTINGS, following=how, stop=Between(act, rounds=3))
    once(folder, lake)
    check_sums(lake)
    found = lake_tables(lake)
    assert not any(one.is_open for one in Lake(lake).state.inputs.values())
    if is_known:
        assert found == wanted
    else:  # streams of which too little had come to tell their formats are only counted
        assert 0 < len(found["frames"]) < len(wanted["frames"])
        assert set(found["frames"]) < set(wanted["frames"])
        assert sum("'removed'" in row for row in found["errors"]) == 1


def restart() -> None:
    raise Restart


def test_captures_that_are_moved_to_another_folder(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    for name, data in parts[:3]:
        (folder / name).write_bytes(data)
    once(folder, lake)
    (folder / "done").mkdir()
    (folder / parts[0][0]).rename(folder / "done" / parts[0][0])
    once(folder, lake)
    assert lake_tables(lake) == batch()
    for name, _ in parts[1:3]:
        (folder / name).rename(folder / "done" / name)
    once(folder, lake)
    assert lake_tables(lake) == batch()


def test_packed_and_damaged_captures_and_such_of_other_kinds(
    tmp_path: Path, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    noise = Random(1).randbytes(5000)
    generate(folder / "1.pcapng", ["blaze"], size=30_000, seed=1)
    whole = (folder / "1.pcapng").read_bytes()
    (folder / "1.pcapng").write_bytes(whole[:20_000] + noise + whole[20_000:])
    once(folder, lake)
    assert lake_tables(lake) == batch()
    generate(folder / "2.pcap.gz", ["nrep"], size=20_000, container="pcap", compression="gzip")
    once(folder, lake)
    assert lake_tables(lake) == batch()
    (folder / "3.pcap").touch()  # nobody can tell what it will be
    generate(folder / "sub.bin", ["nrep"], size=5000, container="raw")
    once(folder, lake)
    assert lake_tables(lake) == batch()
    generate(tmp_path / "3.pcap", ["tibrv"], size=30_000, container="pcap", seed=3)
    shutil.copy(tmp_path / "3.pcap", folder)
    with (folder / "1.pcapng").open("ab") as file:
        file.write(whole[-300:])
    once(folder, lake)
    assert lake_tables(lake) == batch()


def test_a_batch_and_a_stream_into_one_lake(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    for name, data in parts[:2]:
        (folder / name).write_bytes(data)
        still(folder / name)
    how = StreamOptions(every_s=0, settle_s=LONG_S)
    with suppress(Restart):
        follow([folder], lake, SETTINGS, following=how, stop=Between(restart, rounds=3))
    run_pipeline(folder, lake, SETTINGS)  # what was left open is read to its end
    assert lake_tables(lake) == batch()
    (folder / parts[1][0]).write_bytes(parts[1][1] + parts[2][1][24:])
    once(folder, lake)
    assert lake_tables(lake) == batch()
    (folder / parts[3][0]).write_bytes(parts[3][1])
    once(folder, lake)
    assert lake_tables(lake) == batch()


@pytest.mark.slow
def test_more_folders_than_are_kept_in_memory(
    parts: Parts, folder: Path, lake: Path, batch: Callable[..., Tables]
) -> None:
    for number in range(6):
        (folder / str(number)).mkdir()

    def more(name: str, data: bytes) -> None:
        for number in range(6):
            (folder / str(number) / name).write_bytes(data)
            still(folder / str(number) / name)

    more(*parts[0])
    how = StreamOptions(every_s=0, settle_s=LONG_S)
    stop = Between(lambda: more(*parts[1]), rounds=3)
    follow([folder], lake, SETTINGS, following=how, stop=stop)
    assert lake_tables(lake) == batch()
