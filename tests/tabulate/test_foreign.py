"""Captures of other protocols: nothing is found there, and looking costs little."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from itertools import accumulate
from random import Random

import pytest
from oracles.foreign import DATAGRAMS, STREAMS, capture

from wireloom.captures import Capture, StreamData
from wireloom.errors import DecodeError
from wireloom.formats.nrep import SocketData
from wireloom.generate import SCENARIOS, Faults, generate
from wireloom.generate.traffic import START_NS, Conversation, Packet, ethernet, ip, pcap, udp
from wireloom.kernel import load
from wireloom.tabulate import Settings, Tabulator, tabulate, tabulation
from wireloom.tabulate.accounting import Totals
from wireloom.tabulate.detection import Detector
from wireloom.tabulate.scannerpool import ScannerPool

_OUTER = {"tibmsg-in-tibrv": "tibrv", "tibrv-in-nrep": "nrep", "qform-in-blaze": "blaze"}


def _accounts(source):
    batches = [batch for _, batch in tabulate(source, tables="accounting")]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def detector():
    return ScannerPool(Settings(), load(), print).detector


@pytest.mark.parametrize("kind", STREAMS)
def test_streams_of_other_protocols_have_no_format(kind, detector):
    for seed in range(400):
        random = Random(seed)
        data = STREAMS[kind](random)
        if seed % 3 == 0:
            data = data[random.randrange(len(data)) :]
        assert detector.by_prefix(data) is None, seed


@pytest.mark.parametrize("kind", DATAGRAMS)
def test_datagrams_of_other_protocols_have_no_format(kind, detector):
    for seed in range(400):
        parts = list(DATAGRAMS[kind](Random(seed)))
        starts = [0, *accumulate(map(len, parts[:-1]))]
        assert detector.by_bytes(b"".join(parts), is_all=True, starts=starts) is None, seed


def test_a_capture_of_other_protocols_has_no_streams_with_a_format():
    assert {row["format"] for row in _accounts(io.BytesIO(capture(40)))} == {None}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_stream_of_generated_captures_is_found(scenario):
    for seed, messages in ((1, 12), (2, 200)):
        target = io.BytesIO()
        generate(target, [scenario], messages=messages, seed=seed, connections=4)
        target.seek(0)
        found = {row["format"] for row in _accounts(target)}
        assert found == {_OUTER.get(scenario, scenario)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_holes_and_damage_hide_few_streams(scenario):
    target = io.BytesIO()
    faults = Faults(loss=0.05, reorder=0.02, duplicates=0.02, corruption=0.02)
    generate(target, [scenario], messages=400, seed=3, connections=4, faults=faults)
    target.seek(0)
    rows = [row for row in _accounts(target) if row["captured"] > 60]
    assert {row["format"] for row in rows} == {_OUTER.get(scenario, scenario)}


def test_what_a_frame_claims_is_no_proof(detector):
    # A header, and a content of which the fields take a part only: the rest may be anything.
    random = Random(1)
    header = b"\0\x06" + random.randbytes(4) + (3000).to_bytes(4, "little")
    assert detector.by_prefix(header + random.randbytes(3000)) is None
    # The same cut off by the end.
    assert detector.by_prefix(header + random.randbytes(900)) is None


def test_a_large_packet_is_known_by_its_lengths(detector):
    packet = SocketData(socket_id=bytes(10), data=Random(1).randbytes(200_000)).encode()
    assert detector.by_prefix(packet[:65536]) == "nrep"


def test_behind_holes_it_is_not_tried_for_ever():
    # Unknown for long; what follows a late hole then looks like packets.
    random = Random(4)
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2")
    sent = [*talk.send(random.randbytes(100_000))]
    lost = [*talk.send(random.randbytes(1460))]
    packet = SocketData(socket_id=bytes(10), data=bytes(50)).encode()
    sent += [*talk.send(packet * 40)]
    assert lost
    (row,) = _accounts(io.BytesIO(pcap(sent)))
    assert row["format"] is None
    assert row["gap"] == 0


def test_looking_makes_few_errors(monkeypatch):
    # Half a million errors were made and dropped here: 16 to 40 times as long as reading.
    made, make = [], DecodeError.__init__

    def counted(self, *args, **kwargs):
        made.append(1)
        make(self, *args, **kwargs)

    monkeypatch.setattr(DecodeError, "__init__", counted)
    data = capture(40)
    streams = {event.stream for event in Capture(io.BytesIO(data)) if isinstance(event, StreamData)}
    _accounts(io.BytesIO(data))
    assert len(made) < len(streams)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_cheap_look_never_says_no_wrongly(scenario, monkeypatch):
    target = io.BytesIO()
    faults = Faults(loss=0.02, corruption=0.02)
    generate(target, [scenario], messages=300, seed=5, connections=2, faults=faults)
    target.seek(0)
    streams: dict[str, bytes] = {}
    for event in Capture(target):
        if isinstance(event, StreamData):
            streams[event.stream.name] = streams.get(event.stream.name, b"") + event.data
    random = Random(6)
    pieces = []
    for data in streams.values():
        for _ in range(30):
            start = random.randrange(len(data))
            pieces.append(data[start : start + random.choice((20, 200, 5000))])
    quick = ScannerPool(Settings(), load(), print).detector
    found = [quick.by_prefix(piece) for piece in pieces]
    monkeypatch.setattr(Detector, "_possible", lambda *_: -1)
    assert found == [quick.by_prefix(piece) for piece in pieces]


def test_a_header_of_other_bytes_is_not_remembered():
    scanner = ScannerPool(Settings(), load(), print).scanner("nrep")
    packet = SocketData(socket_id=bytes(10), data=bytes(50)).encode()
    assert scanner.stands(packet)
    assert not scanner.stands(packet[:-1])
    assert scanner.stands(SocketData(socket_id=bytes(10), data=bytes(5)).encode())


def test_bytes_that_nobody_wants_are_counted_all_the_same():
    data = capture(12)
    every, few = Totals(), Totals()
    rows = [
        row
        for _, batch in tabulate(io.BytesIO(data), tables="errors", totals=every)
        for row in batch.to_pylist()
    ]
    accounts = _accounts(io.BytesIO(data))
    for _ in tabulate(io.BytesIO(data), tables="accounting", totals=few):
        pass
    assert every.to_dict() == few.to_dict()
    assert {code: kind.number for code, kind in every.kinds.items()} == {
        code: kind.number for code, kind in few.kinds.items()
    }
    assert every.kinds["unknown_format"].first == few.kinds["unknown_format"].first
    assert all(len(row["raw"]) == row["frame_length"] for row in rows)
    assert sum(row["frame_length"] for row in rows) == sum(row["captured"] for row in accounts)


def _long_streams(seed):
    """Streams of other protocols, longer than what is looked at, with faults of all kinds."""
    random = Random(seed)
    talks = []
    for number in range(5):
        talk = Conversation(f"10.0.0.{number}:5000", "192.0.2.1:443")
        sent = [*talk.open(), *talk.send(random.randbytes(random.choice((90_000, 400_000))))]
        for _ in range(8):
            place = random.randrange(4, len(sent) - 3)
            right = sent[place]
            wrong = replace(right, data=right.data[:-1] + bytes([right.data[-1] ^ 1]))
            copies = random.choice(([wrong], [wrong, right], [right, right], []))
            sent[place : place + 1] = [sent[place - 3], *copies]
        talks.append([*sent, *talk.close()])
    for number in range(3):
        source = f"10.0.1.{number}"
        hosts = [udp(source, "192.0.2.1", 5000, 5004, random.randbytes(1000)) for _ in range(150)]
        made = (ethernet(ip(source, "192.0.2.1", 17, each)) for each in hosts)
        talks.append([Packet(START_NS, each) for each in made])
    packets = []
    while any(talks):
        talk = random.choice([each for each in talks if each])
        packets += [talk.pop(0) for _ in range(min(len(talk), 4))]
    return pcap(packets)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_of_streams_in_no_format_are_skipped_where_nobody_wants_them(seed, monkeypatch):
    data = _long_streams(seed)
    # Few packets at a time, or little would be left to skip.
    monkeypatch.setattr(tabulation, "Capture", partial(Capture, batch_packets=30))
    skipped, skip = [], Capture.skip

    def watched(self, stream):
        skipped.append(stream.name)
        skip(self, stream)

    monkeypatch.setattr(Capture, "skip", watched)
    every, few = Totals(), Totals()
    rows = {"gaps": [], "accounting": []}
    wanted = {"gaps": [], "accounting": []}
    for name, batch in tabulate(io.BytesIO(data), totals=every):
        if name in wanted:
            wanted[name] += batch.to_pylist()
    assert not skipped, "errors have the bytes"
    for name, batch in tabulate(io.BytesIO(data), tables=("gaps", "accounting"), totals=few):
        rows[name] += batch.to_pylist()
    assert len(set(skipped)) == len(skipped) > 5
    assert rows == wanted
    assert every.to_dict() == few.to_dict()
    assert every.errors == few.errors
    numbers = {code: kind.number for code, kind in every.kinds.items()}
    assert numbers == {code: kind.number for code, kind in few.kinds.items()}
    assert {"unknown_format", "checksum"} < set(numbers)


def test_the_buffers_of_events_may_go_when_their_batch_is_over():
    data = capture(6)
    found, expected = Totals(), Totals()
    for _ in tabulate(io.BytesIO(data), tables="accounting", totals=expected):
        pass
    tabulator = Tabulator(Settings(tables=("accounting",)), totals=found)
    for batch in Capture(io.BytesIO(data), batch_packets=20).batches():
        events = list(batch)
        for _ in tabulator.feed_all(events):
            pass
        for event in events:
            if isinstance(event, StreamData):
                event.data.release()
                event.mark_offsets.release()
                event.mark_times.release()
    for _ in tabulator.close():
        pass
    assert found.to_dict() == expected.to_dict()
    assert found.errors == expected.errors
