"""What of a capture is in no stream: in the account once, however the work is divided."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracles.lakes import lake_tables

from wireloom.captures.exchange import SORT, Part, route
from wireloom.captures.split import packet_ranges
from wireloom.cli import main
from wireloom.formats import get
from wireloom.generate.traffic import START_NS, Conversation, Packet, ethernet, ip, pcap
from wireloom.lake import Lake, read, totals
from wireloom.pipeline import PipelineOptions, StreamOptions, follow, run_pipeline
from wireloom.tabulate import Settings, Tabulator, tabulate

MAC = bytes(12)
ADDRESSES = ("10.0.0.1", "10.0.0.2")
ARP = MAC + b"\x08\x06" + bytes(46)
ICMP = ethernet(ip(*ADDRESSES, 1, bytes(40)))
ESP = ethernet(ip(*ADDRESSES, 50, bytes(100)))
BROKEN = MAC + b"\x08\x00" + b"\x43" + bytes(60)
"""An IP header of 12 bytes."""
SETTINGS = Settings(tables=("frames", "errors", "accounting"))

EXPECTED = {
    "no stream: damaged": (0, len(BROKEN), len(BROKEN), 0),
    "no stream: encapsulated": (2, 2 * len(ESP), 0, 2 * len(ESP)),
    "no stream: not_ip": (3, 3 * len(ARP), 0, 3 * len(ARP)),
    "no stream: other_protocol": (1, len(ICMP), 0, len(ICMP)),
}
"""Packets, captured, quarantined and left out, by stream."""


def packets() -> list[Packet]:
    frame = next(iter(get("tibrv").samples().values()))
    found = []
    for number in range(5):
        talk = Conversation(f"10.0.0.{number + 1}:1000", "10.0.0.9:80")
        found += [*talk.open(), *talk.send(frame), *talk.close()]
    others = [ARP, ARP, ESP, ICMP, BROKEN, ARP, ESP]
    return [*found[:7], *(Packet(START_NS, data) for data in others), *found[7:]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "captures"
    made.mkdir()
    (made / "one.pcap").write_bytes(pcap(packets()))
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def in_no_stream(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int, int, int]]:
    """The rows of what is in no stream; each must be there once."""
    found = {}
    for row in rows:
        parts = ("decoded", "quarantined", "gap", "duplicate", "left_out")
        assert row["captured"] == sum(row[name] for name in parts)
        if row["stream"].startswith("no stream: "):
            assert row["stream"] not in found
            assert (row["format"], row["frames"]) == (None, 0)
            sums = ("packets", "captured", "quarantined", "left_out")
            found[row["stream"]] = tuple(row[name] for name in sums)
    return found  # type: ignore[return-value]


def accounting(batches: Any) -> list[dict[str, Any]]:
    return [row for name, batch in batches if name == "accounting" for row in batch.to_pylist()]


def test_it_is_in_the_account_of_tables(folder: Path) -> None:
    assert in_no_stream(accounting(tabulate(folder / "one.pcap", SETTINGS))) == EXPECTED


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_it_is_in_a_lake_once(folder: Path, lake: Path, parts: int) -> None:
    report = run_pipeline(folder, lake, SETTINGS, PipelineOptions(parts=parts))
    assert in_no_stream(read(Lake(lake), "accounting").to_pylist()) == EXPECTED
    left_out = sum(sums[3] for sums in EXPECTED.values())
    assert totals(Lake(lake))["left_out"] == report.totals["left_out"] == left_out
    assert run_pipeline(folder, lake, SETTINGS).commits == 0


def test_it_is_in_a_lake_that_follows_as_in_a_batch(
    folder: Path, lake: Path, tmp_path: Path
) -> None:
    run_pipeline(folder, tmp_path / "batch", SETTINGS)
    stop = threading.Event()
    stop.set()
    following = StreamOptions(max_bytes=300)
    follow([folder], lake, SETTINGS, following=following, stop=stop)
    assert lake_tables(lake) == lake_tables(tmp_path / "batch")
    assert in_no_stream(read(Lake(lake), "accounting").to_pylist()) == EXPECTED


@pytest.mark.parametrize("parts", [1, 3])
def test_it_is_in_the_account_of_one_part_of_exchanged_packets(folder: Path, parts: int) -> None:
    path = folder / "one.pcap"
    routed = [batch for each in packet_ranges(path, 2) for batch in route(each, 0, parts)]
    rows = pa.Table.from_batches(routed).sort_by([(name, "ascending") for name in SORT])
    found = []
    for part in range(parts):
        own = rows.filter(pa.compute.equal(rows["part"], part)).to_batches()
        tabulator = Tabulator(SETTINGS)
        for event in Part(own, [str(path)], part, parts):
            found += accounting(tabulator.feed(event))
        found += accounting(tabulator.close())
    assert in_no_stream(found) == EXPECTED


def test_stat_shows_the_same_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["stat", "-q", "--json", str(folder / "one.pcap")], standalone_mode=False) == 1
    found = json.loads(capsys.readouterr().out)["accounting"]
    names = ("packets", "captured", "quarantined", "left_out")
    shown = {
        f"no stream: {kind}": tuple(sums[name] for name in names)
        for kind, sums in found["no_stream"].items()
    }
    assert shown == EXPECTED
    assert found["is_balanced"]
    assert found["total"]["captured"] == sum(
        sums["captured"] for sums in (*found["formats"].values(), *found["no_stream"].values())
    )
    assert found["total"]["streams"] == sum(sums["streams"] for sums in found["formats"].values())
