"""Our reassembled streams against those of tshark, on made-up traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from wireloom.captures import Stream
from wireloom.errors import OptionError, SourceError
from wireloom.generate import generate, traffic
from wireloom.generate.traffic import Conversation, Faults, disturb
from wireloom.testing import tshark

needs_tshark = [
    pytest.mark.interop,
    pytest.mark.skipif(not tshark.is_installed(), reason="tshark is not installed"),
]


def with_tshark(test: Any) -> Any:
    for mark in needs_tshark:
        test = mark(test)
    return test


PRINTED = """
===================================================================
Follow: tcp,raw
Filter: tcp.stream eq 1
Node 0: :0
Node 1: :0
===================================================================

===================================================================
Follow: tcp,raw
Filter: tcp.stream eq 0
Node 0: 10.0.0.1:1000
Node 1: [fe80::1]:80
0a0b
\t0c
0d
===================================================================
"""


def test_what_tshark_prints_is_read():
    assert list(tshark.parse(PRINTED)) == [
        (1, (":0", ":0"), (b"", b"")),
        (0, ("10.0.0.1:1000", "[fe80::1]:80"), (b"\x0a\x0b\x0d", b"\x0c")),
    ]


def test_without_tshark_there_is_nothing_to_compare(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match="not installed"):
        list(tshark.follow(tmp_path / "capture"))


@with_tshark
def test_a_file_that_tshark_cannot_read(tmp_path):
    path = tmp_path / "capture"
    path.write_bytes(b"not a capture")
    with pytest.raises(SourceError, match="tshark"):
        list(tshark.compare(path))


@with_tshark
@pytest.mark.parametrize("make", [traffic.pcap, traffic.pcapng])
@pytest.mark.parametrize("seed", range(2))
def test_streams_equal_those_of_tshark(tmp_path: Path, make, seed):
    random = Random(seed)
    talk = Conversation(
        "10.0.0.1:1000",
        "10.0.0.2:2000",
        first_seq=(2**32 - 3000, random.randrange(2**32)),
        mss=500,
    )
    sent, answered = random.randbytes(9000), random.randbytes(5000)
    faults = Faults(reorder=0.2, duplicates=0.2, distance=4)
    packets = list(talk.open())
    # One direction after the other: tshark gives a hole up once the other side has acknowledged it.
    packets += disturb(talk.send(sent), faults, random)
    packets += disturb(talk.answer(answered), faults, random)
    packets += talk.close()
    path = tmp_path / "capture"
    path.write_bytes(make(packets))
    (followed,) = tshark.follow(path)
    assert followed.data == (sent, answered)
    assert [found.is_same for found in tshark.compare(path)] == [True, True]


@with_tshark
@pytest.mark.parametrize(
    ("faults", "one_way", "container"),
    [
        (Faults(), False, "pcap"),
        (Faults(loss=0.02, duplicates=0.1), False, "pcapng"),
        (Faults(reorder=0.1, duplicates=0.1), True, "pcapng"),
    ],
)
def test_generated_streams_equal_those_of_tshark(tmp_path, faults, one_way, container):
    path = tmp_path / "capture"
    manifest = generate(
        path, size=100_000, container=container, faults=faults, one_way=one_way, symbols=5
    )
    found = list(tshark.compare(path))
    assert [each for each in found if not (each.is_same or each.is_explained)] == []
    assert sum(each.is_same for each in found) > len(found) // 2
    # Discovery is UDP.
    assert 20 < len(found) <= manifest.streams
    assert any(each.gap for each in found) == bool(faults.loss)


@with_tshark
def test_a_hole_that_tshark_gives_up_is_told(tmp_path):
    talk = Conversation("10.0.0.1:1000", "10.0.0.2:2000", mss=100)
    start = list(talk.open())
    first, second, third = talk.send(bytes(range(100)) * 3)
    answer = list(talk.answer(b"ok"))
    path = tmp_path / "capture"
    path.write_bytes(traffic.pcap([*start, first, third, *answer, second, *talk.close()]))
    one, two = tshark.compare(path)
    assert not one.is_same
    assert one.is_explained
    assert one.reason == "tshark gave up a hole at 100 that was filled later"
    assert two.is_same


@with_tshark
def test_tshark_stops_at_a_hole_of_a_one_way_capture_and_we_do_not(tmp_path):
    path = tmp_path / "capture"
    manifest = generate(
        path, ["tibmsg"], size=50_000, faults=Faults(loss=0.1), one_way=True, connections=1
    )
    (found,) = tshark.compare(path)
    assert not found.is_same
    assert found.is_explained
    assert found.size > found.difference
    assert manifest.faults["loss"] > 0


def _write(path, *talks):
    path.write_bytes(traffic.pcap([packet for talk in talks for packet in talk]))
    return path


@with_tshark
def test_connections_without_data_are_no_end_and_no_turn(tmp_path):
    def talk(port, data):
        now = next(clock)
        first = (now // 10**9 % 2**32, now // 10**8 % 2**32)
        talk = Conversation(f"10.0.0.1:{port}", "10.0.0.2:2000", start_ns=now, first_seq=first)
        return [*talk.open(), *talk.send(data), *talk.close()]

    clock = iter(range(traffic.START_NS, 2 * traffic.START_NS, 10**12))
    talks = [talk(1, b""), talk(2, b"two"), talk(1, b"one"), talk(1, b""), talk(1, b"again")]
    found = list(tshark.compare(_write(tmp_path / "capture", *talks)))
    assert [each.is_same for each in found] == [True] * 3
    assert sum(each.size for each in found) == len(b"twooneagain")


@with_tshark
def test_addresses_are_compared_however_they_are_written(tmp_path):
    talk = Conversation("[::ffff:10.0.0.1]:1000", "[2001:db8:0:0::1]:80")
    path = _write(tmp_path / "capture", [*talk.open(), *talk.send(b"mapped"), *talk.close()])
    assert [each.is_same for each in tshark.compare(path)] == [True]


@with_tshark
def test_captures_that_are_cut_short_are_compared(tmp_path):
    talk = Conversation("10.0.0.1:1000", "10.0.0.2:2000", mss=100)
    path = _write(tmp_path / "capture", [*talk.open(), *talk.send(bytes(range(250)))])
    path.write_bytes(path.read_bytes()[:-40])
    (found,) = tshark.compare(path)
    assert found.size == 200
    assert found.is_same


@with_tshark
def test_a_bad_copy_that_tshark_takes_is_told(tmp_path):
    talk = Conversation("10.0.0.1:1000", "10.0.0.2:2000", mss=100)
    start = list(talk.open())
    parts = [part for n in range(9) for part in talk.send(bytes([n]) * 100)]
    bad = replace(parts[4], data=parts[4].data[:-1] + b"x")
    path = _write(tmp_path / "capture", [*start, *parts[:4], bad, *parts[4:]])
    (found,) = tshark.compare(path)
    assert (found.size, found.difference, found.is_same) == (900, 499, False)
    assert found.is_explained
    assert found.reason == "tshark took a copy with a bad checksum at 499"


def test_a_bad_copy_excuses_nothing_else():
    stream = Stream(1, "tcp a > b #1", "tcp", "x")
    ours = [(0, b"abcdef", 6)]
    for theirs, difference in ((b"abXdef", 2), (b"abXdeY", 5), (b"aYXdef", 1)):
        own = tshark._Ours(stream, ours, 6, 0, [b"bXd" if theirs[1] == 98 else b"Xde"])
        found = tshark._compared(own, theirs)
        assert (found.difference, found.is_explained) == (difference, difference == 2)


def test_bytes_that_only_tshark_has_are_never_excused(tmp_path):
    # It gave a hole up, which is its rule; but behind that it has bytes that are missing here.
    stream = Stream(1, "tcp a > b #1", "tcp", "x")
    theirs = b"abc[3 bytes missing in capture file]\0ghi"
    ours = [(0, b"abcdef", 6), (6, None, 3)]
    found = tshark._compared(tshark._Ours(stream, ours, 6, 3), theirs)
    assert not found.is_explained
    assert found.reason == "3 bytes from 6 on are missing here, which tshark has"
    ours = [(0, b"abcdefghi", 9)]
    assert tshark._compared(tshark._Ours(stream, ours, 9, 0), theirs).is_explained
    ours = [(0, b"abcdefghX", 9)]
    found = tshark._compared(tshark._Ours(stream, ours, 9, 0), theirs)
    assert (found.is_explained, found.difference) == (False, 8)
