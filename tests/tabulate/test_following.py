"""Captures that grow, read step by step: the rows are those of one pass over all of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wireloom.captures import packet_ranges
from wireloom.generate import SCENARIOS, generate
from wireloom.generate.traffic import Faults
from wireloom.tables import table_names
from wireloom.tabulate import Settings, tabulate, tabulate_range
from wireloom.tabulate.following import (
    Follower,
    PacketWalk,
    Step,
    find_seams,
    packet_frontier,
    raw_frontier,
)

Rows = dict[str, list[str]]
SETTINGS = Settings()


def gather(batches: Iterable[tuple[str, pa.RecordBatch]], into: Rows | None = None) -> Rows:
    """All rows by table; those of accounts are added up later."""
    found: Rows = {name: [] for name in table_names()} if into is None else into
    for name, batch in batches:
        found[name] += map(repr, batch.to_pylist())
    return found


def settled(rows: Rows) -> dict[str, Any]:
    """In an order of its own, with the accounts of each stream added up."""
    sums: dict[tuple[str, ...], list[int]] = {}
    for text in rows["accounting"]:
        row = eval(text)
        key = (row["source"], row["stream"], str(row["format"]))
        numbers = [value for value in row.values() if isinstance(value, int)]
        sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(numbers)), numbers, strict=True)]
    found: dict[str, Any] = {name: sorted(rows[name]) for name in rows if name != "accounting"}
    return found | {"accounting": sums}


def growth(size: int, random: Random, steps: int) -> list[int]:
    """Sizes that a file has on its way."""
    return [*sorted(random.randrange(size) for _ in range(steps)), size]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("format", ["blaze", "nais", "nrep", "qform", "tibmsg", "tibrv"])
def test_a_raw_capture_that_grows_gives_the_rows_of_one_pass(
    tmp_path: Path, format: str, seed: int
) -> None:
    random = Random(f"{format} {seed}")
    whole = tmp_path / "whole"
    faults = Faults(corruption=0.1 if seed else 0)
    generate(whole, [format], size=60_000, container="raw", seed=seed, faults=faults)
    data = bytearray(whole.read_bytes())
    if seed == 2:
        for _ in range(5):  # damage of any kind, and a cut last frame
            at = random.randrange(len(data))
            data[at : at + random.randrange(40)] = random.randbytes(random.randrange(40))
        del data[-3:]
    path = tmp_path / "growing"
    found = gather(())
    at = 0
    for size in growth(len(data), random, 12):
        path.write_bytes(data[:size])
        is_final = size == len(data)
        while True:
            limit = random.choice([None, 1, 500, 5_000])
            end = raw_frontier(path, SETTINGS, at, limit, is_final=is_final)
            assert at <= end <= size
            if end == at:
                break
            reader = tabulate_range(path, at, end, SETTINGS, is_seam=True)
            gather(reader.batches(), found)
            assert (reader.start, reader.end) == (at, end)
            at = end
    assert at == len(data)
    assert settled(found) == settled(gather(tabulate(path, SETTINGS)))


def test_bytes_of_no_format_are_given_out_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    data = Random(4).randbytes(300_000)
    found = gather(())
    at = 0
    for size in (1000, 70_000, 200_000, 300_000):
        path.write_bytes(data[:size])
        end = raw_frontier(path, SETTINGS, at, is_final=size == len(data))
        if end > at:
            gather(tabulate_range(path, at, end, SETTINGS, is_seam=True).batches(), found)
        at = end
    assert at == len(data)
    assert settled(found) == settled(gather(tabulate(path, SETTINGS)))
    assert find_seams(path, SETTINGS, 3) == [0, 131_072, 262_144, 300_000]


def test_a_short_capture_waits_until_its_format_is_told(tmp_path: Path) -> None:
    path = tmp_path / "short"
    generate(path, ["tibmsg"], messages=4, container="raw")
    assert path.stat().st_size < 4096
    assert raw_frontier(path, SETTINGS, 0) == 0
    assert raw_frontier(path, Settings(formats=("tibmsg",)), 0) > 500
    assert raw_frontier(path, SETTINGS, 0, is_final=True) == path.stat().st_size


def test_seams_within_a_range_fit(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    generate(path, ["tibrv"], size=50_000, container="raw")
    first = raw_frontier(path, SETTINGS, 0, 10_000)
    last = raw_frontier(path, SETTINGS, first, 30_000)
    cuts = find_seams(path, SETTINGS, 4, first=first, last=last)
    assert cuts[0] == first
    assert cuts[-1] == last
    assert len(cuts) > 3
    found = gather(())
    for start, end in zip([0, *cuts], [*cuts, path.stat().st_size], strict=True):
        gather(tabulate_range(path, start, end, SETTINGS, is_seam=True).batches(), found)
    assert settled(found) == settled(gather(tabulate(path, SETTINGS)))


def rotated(pcap: Path, files: int) -> list[bytes]:
    """The content of several captures that one was cut into."""
    data = pcap.read_bytes()
    head = data[:24]
    parts = packet_ranges(pcap, files)
    return [(head if part.start else b"") + data[part.start : part.end] for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("container", ["pcap", "pcapng"])
def test_packet_captures_that_grow_give_the_rows_of_one_pass(
    tmp_path: Path, container: str, seed: int
) -> None:
    random = Random(f"{container} {seed}")
    whole = tmp_path / f"whole.{container}"
    faults = Faults(reorder=0.05, loss=0.01, duplicates=0.02, corruption=0.02, cut=0.01)
    generate(
        whole,
        SCENARIOS,
        size=250_000,
        container=container,
        seed=seed,
        faults=faults if seed else None,
        connections=1,
    )
    contents = rotated(whole, 3) if container == "pcap" else [whole.read_bytes()]
    if seed == 3:
        contents[-1] = contents[-1][:-7]
        at = len(contents[0]) // 2
        contents[0] = contents[0][:at] + random.randbytes(60) + contents[0][at + 50 :]
    parts = 1 + seed % 2
    followers = [Follower(SETTINGS, part=part, parts=parts) for part in range(parts)]
    found = gather(())
    steps: dict[str, Step] = {}
    for number, content in enumerate(contents):
        path = tmp_path / f"cap{number}"
        walk = PacketWalk()
        for size in growth(len(content), random, 8):
            path.write_bytes(content[:size])
            if size < 12:
                continue
            is_final = size == len(content)
            limit = random.choice([None, None, 1, 20_000])
            if random.random() < 0.3:
                walk = PacketWalk()  # as after a restart
            end = packet_frontier(path, walk, None if is_final else limit, is_final=is_final)
            before = steps.get(str(path))
            end = max(end, before.end if before else 0)
            for part in range(parts):
                if random.random() < 0.3:
                    # Another worker, which has to come to the same place by itself.
                    followers[part] = Follower(SETTINGS, part=part, parts=parts)
                    for _ in followers[part].advance(steps.values()):
                        pass
                now = {**steps, str(path): Step(str(path), end)}
                gather(followers[part].advance(now.values()), found)
            steps[str(path)] = Step(str(path), end)
    for follower in followers:
        gather(follower.finish(), found)
    assert [steps[path].end for path in steps] == [len(content) for content in contents]
    expected = gather(tabulate(list(steps), SETTINGS))
    assert settled(found) == settled(expected)


def test_a_follower_of_a_raw_capture_gives_the_rows_of_one_pass(tmp_path: Path) -> None:
    random = Random(5)
    path = tmp_path / "raw"
    generate(path, ["blaze"], size=40_000, container="raw")
    size = path.stat().st_size
    found = gather(())
    follower = Follower(SETTINGS)
    before = 0
    for end in growth(size, random, 6):
        if random.random() < 0.5:
            follower = Follower(SETTINGS)
            for _ in follower.advance([Step(str(path), before, is_packets=False)]):
                pass
        gather(follower.advance([Step(str(path), end, is_packets=False)]), found)
        assert follower.positions == {str(path): end}
        before = end
    assert follower.can_reach({str(path): size})
    assert not follower.can_reach({str(path): size - 1})
    gather(follower.finish(), found)
    assert settled(found) == settled(gather(tabulate(path, SETTINGS)))
