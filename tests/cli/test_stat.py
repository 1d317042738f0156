"""`wireloom stat`: its numbers are those of what was generated."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wireloom.cli import _statistics
from wireloom.cli._sizes import parse_size, show_size
from wireloom.cli._statistics import DURATIONS, SIZES, Histogram, Latencies, Rates, Statistics
from wireloom.cli.stat import show_duration
from wireloom.formats import get
from wireloom.generate import Manifest, generate, traffic
from wireloom.generate.traffic import Conversation, pcap
from wireloom.tables import arrow_schema, table

Made = tuple[Path, Manifest, dict[str, Path]]


def options(files: dict[str, Path]) -> list[str]:
    given = [f"--{name}={path}" for name, path in files.items() if name != "model"]
    return [*given, "--bind", "10=board.Reading", "--bind", "11=board.LedCommand"]


def test_the_numbers_are_those_of_the_manifest(run: Any, made: Made) -> None:
    path, manifest, files = made
    found = json.loads(run("stat", path, "--json", *options(files)).stdout)
    sums = found["accounting"]
    assert sums["is_balanced"]
    assert sums["errors"] == 0
    assert sums["total"]["frames"] == manifest.messages
    assert sums["total"]["streams"] == manifest.streams
    assert {name: each["frames"] for name, each in sums["formats"].items()} == {
        name: manifest.count(name) for name in manifest.frames
    }
    for name, types in manifest.frames.items():
        if get(name).kind == "transport":
            counted = {
                each["type"]: each["frames"] for each in found["types"] if each["format"] == name
            }
            assert counted == types
    assert sum(each["frames"] for each in found["rates"]["bins"]) == manifest.messages
    assert sum(each["count"] for each in found["frame_sizes"]["ranges"]) == manifest.messages
    assert manifest.first_ns <= found["first_ns"] <= found["last_ns"] <= manifest.last_ns
    answers = manifest.frames["blaze"]["TXRESP"] + manifest.frames["blaze"]["SBSRES"]
    assert found["blaze_latency_ns"]["number"] == answers
    assert found["blaze_latency_ns"]["min"] > 0
    waits = found["inter_arrival_ns"]["number"]
    assert waits == manifest.messages - manifest.streams
    assert len(found["flows"]) == 10
    sizes = [flow["captured"] for flow in found["flows"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_report_for_people(run: Any, made: Made, faulty: tuple[Path, Manifest]) -> None:
    shown = run("stat", made[0], *options(made[2])).stdout
    lines = shown.splitlines()
    assert lines[0].startswith(f"{made[0]}, ")
    assert f"{made[1].messages:,} frames in {made[1].streams} streams, " in lines[0]
    assert lines[2].split()[:3] == ["format", "streams", "frames"]
    for title in ("frames over time", "frame sizes in bytes", "time between", "blaze: request"):
        assert title in shown
    assert "█" in shown
    assert " gaps," not in shown
    assert not any(line != line.rstrip() for line in lines)
    result = run("stat", faulty[0], "--top", 3, code=1)
    assert "bytes missing; the largest:" in result.stdout
    assert "errors:" in result.stdout
    assert "smaller flows; --top shows more" in result.stdout
    assert "WRONG" not in result.stdout


def test_damage_before_the_format_is_known_is_no_format_of_its_own(
    run: Any, tmp_path: Path
) -> None:
    talk = Conversation("10.0.0.1:4000", "10.0.0.2:7500", mss=500)
    data = b"".join(get("tibmsg").samples().values())
    packets = [*talk.open(), *talk.send(data * (20_000 // len(data)))]
    bad = bytearray(packets[4].data)
    bad[-1] ^= 1
    packets[4] = replace(packets[4], data=bytes(bad))
    path = tmp_path / "bad.pcap"
    path.write_bytes(pcap(packets, link_type=talk.link_type))
    shown = run("stat", path, code=1).stdout
    assert "1 × suspect" in shown
    assert "unrecognised" not in shown


def test_tunnels_that_are_not_read_are_told(run: Any, tmp_path: Path) -> None:
    frames = b"".join(get("tibmsg").samples().values())
    inside = traffic.tcp("10.0.0.1", "10.0.0.2", 4000, 7500, 1, frames)
    tunnelled = traffic.ethernet(traffic.ip("10.0.0.1", "10.0.0.2", 6, inside))
    outside = traffic.udp("10.1.0.1", "10.1.0.2", 99, 4789, b"\x08" + bytes(7) + tunnelled)
    packet = traffic.ethernet(traffic.ip("10.1.0.1", "10.1.0.2", 17, outside))
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(pcap([traffic.Packet(traffic.START_NS, packet)]))
    told = "1 stream of datagrams to the port of vxlan; --tunnels vxlan reads the packets in them"
    assert told in run("stat", path, code=1).stdout
    assert told in run("decode", path, code=1).stderr
    assert "--tunnels" not in run("stat", path, "--tunnels", "vxlan").stdout


def test_loss_is_told(run: Any, faulty: tuple[Path, Manifest]) -> None:
    found = json.loads(run("stat", faulty[0], "--json", code=1).stdout)
    total = found["accounting"]["total"]
    parts = ("decoded", "quarantined", "gap", "duplicate")
    assert total["captured"] == sum(total[name] for name in parts)
    assert found["gaps"]["number"] > 0
    assert found["gaps"]["bytes"] == total["missing"] > 0
    assert found["accounting"]["errors"] == sum(found["accounting"]["error_codes"].values())


def test_a_raw_capture_has_no_times(run: Any, capture: Path, stream: bytes) -> None:
    result = run("stat", capture)
    assert f"{len(get('nrep').samples())} frames in 1 stream\n" in result.stdout
    assert "over time" not in result.stdout
    assert run("stat", stdin=stream).stdout.startswith("-: ")
    found = json.loads(run("stat", capture, "--json").stdout)
    assert (found["first_ns"], found["rates"]["bins"]) == (None, [])
    assert found["accounting"]["total"]["decoded"] == len(stream)


def test_an_empty_file(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert "0 frames in" in run("stat", path).stdout


def test_several_files_are_one_capture(run: Any, tmp_path: Path) -> None:
    hello = get("nrep").samples()["hello"]
    talk = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    packets = [*talk.open(), *talk.send(hello * 3), *talk.send(hello[:4])]
    (tmp_path / "1.pcap").write_bytes(pcap(packets))
    (tmp_path / "2.pcap").write_bytes(pcap([*talk.send(hello[4:]), *talk.close()]))
    result = run("stat", tmp_path / "1.pcap", tmp_path / "2.pcap", "-f", "nrep")
    assert result.stdout.startswith("2 files, ")
    assert "4 frames in 1 stream" in result.stdout


def test_hostile_names_cannot_steer_the_terminal(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\u202ecapture"
    path.write_bytes(get("nrep").samples()["hello"] + b"\x1b]0;x")
    result = run("stat", path, "-f", "nrep", code=1)
    assert "\x1b" not in result.stdout + result.stderr
    assert "\u202e" not in result.stdout + result.stderr


def test_bars_without_unicode(run: Any, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wireloom.cli.stat._has_blocks", lambda: False)
    shown = run("stat", capture).stdout
    assert "#" in shown
    assert "█" not in shown


def test_a_report_of_many_types_and_streams_is_bounded(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "nais.pcap"
    manifest = generate(path, ["nais"], messages=300, container="pcap", connections=30)
    result = run("stat", path, "--top", 5)
    assert f"… and {manifest.streams - 5} smaller flows" in result.stdout


# --- the parts ------------------------------------------------------------------------------------


def test_a_histogram_has_every_value_in_one_range() -> None:
    random = Random(1)
    values = [random.randrange(1 << random.randrange(1, 33)) for _ in range(2000)]
    made = Histogram(SIZES)
    for start in range(0, 2000, 300):
        made.add(pa.array(values[start : start + 300], pa.int64()))
    made.add(pa.array([], pa.int64()))
    assert sum(made.counts) == made.number == 2000
    for first, last, number in made.ranges():
        end = math.inf if last is None else last
        assert number == sum(first <= value < end for value in values)
    assert (made.least, made.greatest) == (min(values), max(values))
    half = made.most(0.5)
    assert half is not None
    assert sum(value < half for value in values) >= 1000
    assert made.most(1.0) is None
    assert Histogram(SIZES).ranges() == []


def test_a_histogram_of_hostile_times() -> None:
    made = Histogram(DURATIONS)
    made.add(pa.array([(1 << 63) - 1] * 10, pa.int64()))
    assert made.counts[-1] == 10
    assert made.total > 1 << 63


def test_bins_get_wider_as_the_time_gets_longer() -> None:
    random = Random(2)
    for span in (10**3, 10**7, 10**12, 10**15, 1 << 62):
        rates = Rates()
        for _ in range(20):
            times = [random.randrange(span) for _ in range(500)]
            rates.add(pa.array(times, pa.int64()), pa.array([7] * 500, pa.int32()))
        assert len(rates.bins) <= 4096
        width, bins = rates.merged(24)
        assert 1 <= len(bins) <= 24
        assert sum(frames for _, frames, _ in bins) == 10_000
        assert sum(size for _, _, size in bins) == 70_000
        assert [start for start, _, _ in bins] == [
            bins[0][0] + width * place for place in range(len(bins))
        ]
    assert Rates().merged(24)[1] == []


def packets(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = arrow_schema(table("blaze").select(_statistics.exchange_columns()["blaze"]))
    return pa.RecordBatch.from_pylist(
        [{"stream": "tcp a:1 > b:2 #1"} | row for row in rows], schema
    )


def transaction(number: int, ts_ns: int | None, name: str) -> dict[str, Any]:
    ids = {"txplid": 1, "txsvid": 2, "txcnid": 3, "txprid": number}
    # Requests go one way, answers the other.
    stream = "tcp a:1 > b:2 #1" if name == "TXRQST" else "tcp b:2 > a:1 #1"
    return {"stream": stream, "type_name": name, "ts_ns": ts_ns, **ids}


def test_latencies_whatever_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [transaction(number, number * 1000, "TXRQST") for number in range(500)]
    answered = [transaction(number, number * 1000 + 70, "TXRESP") for number in range(400)]
    others = [
        {"type_name": "SBSREQ", "ts_ns": 5, "rqstid": 1},
        {"type_name": "SBSRES", "ts_ns": 75, "rqstid": 1},
        {"type_name": "SBSRES", "ts_ns": 95, "rqstid": 1, "stream": "tcp c:3 > a:1 #1"},
        {"type_name": "SBSEVT", "ts_ns": 80},
        transaction(900, None, "TXRQST"),
    ]
    for join_rows in (1, 100, 1 << 18):
        monkeypatch.setattr(_statistics, "_JOIN_ROWS", join_rows)
        for order in ((asked, answered, others), (answered, others, asked)):
            latencies = Latencies(get("blaze").columns().exchanges)
            for part in order:
                latencies.add(packets(part))
            latencies.match()
            found = latencies.histogram
            assert (found.number, found.least, found.greatest) == (401, 70, 70)
            assert latencies.lost == 0


def test_requests_without_answers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_statistics, "_MAX_PENDING", 50)
    monkeypatch.setattr(_statistics, "_JOIN_ROWS", 10)
    latencies = Latencies(get("blaze").columns().exchanges)
    for start in range(0, 300, 30):
        latencies.add(packets([transaction(start + i, start + i, "TXRQST") for i in range(30)]))
    assert latencies.lost == 250
    latencies.add(packets([transaction(299, 400, "TXRESP"), transaction(0, 400, "TXRESP")]))
    latencies.match()
    assert latencies.histogram.number == 1


def test_streams_that_are_too_many_are_still_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_statistics, "_MAX_FLOWS", 3)
    monkeypatch.setattr(_statistics, "_MAX_TYPES", 2)
    schema = arrow_schema(table("frames").select(_statistics.SELECT["frames"]))
    rows = [
        {
            "stream": f"s{i % 6}",
            "frame_length": 10,
            "ts_ns": 1000 * i,
            "format": "nrep",
            "type_name": f"T{i % 4}",
        }
        for i in range(60)
    ]
    found = Statistics()
    for start in (0, 30):
        found.add("frames", pa.RecordBatch.from_pylist(rows[start : start + 30], schema))
    assert found.sizes.number == 60
    assert len(found.types) == 2
    assert found.arrivals.number == 2 * 24 + 3
    assert found.arrivals.least == found.arrivals.greatest == 6000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("10MB", 10**7),
        ("2GiB", 1 << 31),
        ("1.5k", 1500),
        ("3 Ki", 3072),
        ("1_000b", 1000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "1X", "-1", "1iB", "1e3", "1.MB", "0x10"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_shown_sizes_and_durations() -> None:
    assert [show_size(size) for size in (0, 999, 1000, 999_960, 10**15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.0 MB",
        "1000.0 TB",
    ]
    shown = [show_duration(ns) for ns in (0, 999, 10**6, 90 * 10**9, 3 * 86_400 * 10**9)]
    assert shown == ["0 ns", "999 ns", "1 ms", "90 s", "3 d"]


def test_bytes_that_came_again_and_better_are_counted(run: Any, tmp_path: Path) -> None:
    frame = next(iter(get("tibmsg").samples().values()))
    talk = Conversation("10.0.0.1:7", "10.0.0.2:8", first_seq=(100, 500), step_ns=20 * 10**9)
    packets = [*talk.open(), *talk.send(frame), *talk.send(frame)]
    good = packets[-1]
    packets[-1] = replace(good, data=good.data[:-1] + bytes([good.data[-1] ^ 1]))
    packets += [packet for _ in range(5) for packet in talk.send(frame)]
    packets.append(talk.segment(0, frame, seq=101 + len(frame)))
    path = tmp_path / "again.pcap"
    path.write_bytes(pcap(packets))
    result = run("stat", path, "--format", "tibmsg", "--json", code=1)
    assert json.loads(result.stdout)["accounting"]["total"]["conflict"] == len(frame)


def test_it_does_without_pandas(tmp_path: Path) -> None:
    # Importing it takes longer than a small capture does.
    path = tmp_path / "all.pcapng"
    generate(path, messages=300, seed=1)
    program = f"""
import sys, click
from wireloom.cli import main
try:
    main(["stat", "-q", {str(path)!r}], standalone_mode=False)
except click.exceptions.Exit:
    pass
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_few_and_many_requests_are_matched_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(most: int) -> tuple[dict[str, Any], int]:
        monkeypatch.setattr("wireloom.cli._statistics._FEW_ROWS", most)
        latencies = Latencies(get("blaze").columns().exchanges)
        random = Random(3)
        for turn in range(40):
            rows = [
                {
                    "stream": f"tcp 10.0.0.{side}:1 > 10.0.0.{1 - side}:1 #1",
                    "ts_ns": 1000 * turn + random.randrange(5000),
                    "type_name": random.choice(("TXRQST", "TXRESP", "SBSREQ", "SBSRES")),
                    "txplid": 1,
                    "txsvid": 1,
                    "txcnid": 1,
                    "txprid": random.randrange(30),
                    "rqstid": random.randrange(30),
                }
                for side in (0, 1)
                for _ in range(10)
            ]
            latencies.add(packets(rows))
            if turn % 10 == 9:
                latencies.match()
        return latencies.histogram.to_dict(), latencies.lost

    assert found(0) == found(1 << 30)
