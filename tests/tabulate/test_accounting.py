"""Every captured byte is decoded, quarantined, cut by a hole or captured twice; never lost."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random

import pytest
from oracles.captured import check_accounts, collect, made_capture
from oracles.damaged import check_mutant

from wireloom.captures import Capture, Counts
from wireloom.errors import DecodeError
from wireloom.formats import get, names
from wireloom.generate import Faults, generate
from wireloom.generate.traffic import Conversation, Packet, ethernet, ip, pcap, udp
from wireloom.tabulate import Settings, Tabulator, tabulate
from wireloom.tabulate.accounting import Account, balanced

TIBMSG = get("tibmsg").samples()
FRAMES = list(TIBMSG.values())


def _run(data, **options):
    settings = Settings(**options)
    tabulator = Tabulator(settings)

    def run():
        for event in Capture(io.BytesIO(data)):
            yield from tabulator.feed(event)
        yield from tabulator.close()

    found = collect(run(), settings)
    check_accounts(found, tabulator.totals.captured)
    return found, tabulator.totals


def test_a_missing_byte_is_an_error_of_the_program():
    counts = Counts(captured=10, delivered=9, duplicate=1)
    assert balanced("s", "t", None, Account(decoded=9), counts)["decoded"] == 9
    with pytest.raises(AssertionError, match="10 bytes captured, but 9"):
        balanced("s", "t", None, Account(decoded=8), counts)


@pytest.mark.parametrize("name", names())
def test_mutants_of_captures(name):
    for index in range(60):
        check_mutant(name, index)


MUTANTS = [
    # A false frame of the end of a damaged one and the beginning of the next hid that one.
    ("nrep", 1770, 1),
    ("nrep", 92586, 1),
    # Of two equal bytes, the last of a frame and the first of the next, one is lost.
    ("blaze", 17046, 5),
    # Headers of pcap that had lost four bytes were taken for those of a clock set to 1970.
    ("blaze", 343, 11),
    ("blaze", 2263, 11),
    # Small numbers near the end of a file were taken for the headers of its last records.
    ("blaze", 853, 11),
    # The first segment with data has a damaged header: a wrong place, or that of a SYN.
    ("tibrv", 7651, 11),
    ("nrep", 11863, 12),
    # What looked like one record reached exactly up to the end of the file.
    ("tibmsg", 415, 51),
]


@pytest.mark.parametrize(("name", "index", "seed"), MUTANTS)
def test_a_mutant_that_was_a_fault(name, index, seed):
    check_mutant(name, index, seed)


def test_a_hole_cuts_frames():
    frame = max(FRAMES, key=len)
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", mss=len(frame) - 3)
    packets = [*talk.open(), *talk.send(frame * 6), *talk.close()]
    del packets[4]
    found, totals = _run(pcap(packets), formats=("tibmsg",))
    gap = [row for row in found["errors"] if row["code"] == "gap"]
    assert [row["layer"] for row in gap] == ["stream"] * len(gap)
    assert totals.gap == sum(row["frame_length"] for row in gap) > 0
    assert totals.missing == found["gaps"][0]["length"] == len(frame) - 3
    # What is left of the frames that lie in the hole is all that is not decoded.
    assert totals.decoded == len(frame) * totals.frames
    assert totals.quarantined == 0


def test_datagrams_are_framed_by_themselves():
    frame = FRAMES[0]
    ends = ("10.0.0.3", "10.0.0.4")

    def datagram(at, payload):
        return Packet(at, ethernet(ip(*ends, 17, udp(*ends, 5, 6, payload))))

    cut = datagram(3000, frame * 4)
    packets = [
        datagram(1000, frame * 2),
        datagram(2000, frame[:-4]),  # not continued in the next one
        datagram(2500, frame[-4:] + frame),
        cut.cut(len(cut.data) - 4),
        datagram(4000, frame),
    ]
    found, totals = _run(pcap(packets), formats=("tibmsg",))
    assert totals.frames == 2 + 1 + 3 + 1
    errors = [(row["frame_length"], row["layer"], row["code"]) for row in found["errors"]]
    assert errors == [
        (len(frame) - 4, "frame", "truncated"),
        (4, "frame", errors[1][2]),
        (len(frame) - 4, "stream", "gap"),
    ]


def conflicting():
    """A capture in which a good copy of a damaged segment comes after that was used."""
    talk = Conversation("10.0.0.1:7", "10.0.0.2:8", first_seq=(100, 500), step_ns=20 * 10**9)
    start = [*talk.open(), *talk.send(FRAMES[0])]
    seq = 101 + len(FRAMES[0])
    (good,) = talk.send(FRAMES[0])
    bad = replace(good, data=good.data[:-1] + bytes([good.data[-1] ^ 1]))
    later = [packet for _ in range(5) for packet in talk.send(FRAMES[0])]
    again = talk.segment(0, FRAMES[0], seq=seq)
    return pcap([*start, bad, *later, again])


def test_a_good_copy_of_what_was_read_with_a_bad_checksum_is_told():
    found, totals = _run(conflicting(), formats=("tibmsg",))
    rows = [row for row in found["errors"] if row["code"] == "conflict"]
    assert [(row["layer"], row["raw"]) for row in rows] == [("stream", FRAMES[0])]
    rows = [row for row in found["errors"] if row["code"] == "suspect"]
    key = ("frame_offset", "frame_length", "layer")
    size = len(FRAMES[0])
    assert [tuple(row[name] for name in key) for row in rows] == [(size, size, "stream")]
    assert totals.conflict == len(FRAMES[0])
    assert [row["conflict"] for row in found["accounting"]] == [len(FRAMES[0])]


def test_bytes_of_no_known_format():
    noise = Random(1).randbytes(200_000).replace(b"\x1e", b"x")
    found, totals = _run(noise)
    assert totals.quarantined == len(noise)
    sizes = [row["frame_length"] for row in found["errors"]]
    assert sizes == [65536, 65536, 65536, len(noise) - 3 * 65536]
    assert {(row["layer"], row["code"], row["format"]) for row in found["errors"]} == {
        ("stream", "unknown_format", None)
    }
    assert b"".join(row["raw"] for row in found["errors"]) == noise
    assert found["accounting"][0]["format"] is None


def test_text_between_nais_frames_counts_as_decoded():
    frames = list(get("nais").samples().values())
    data = b"hello\n" + frames[0] + b"a line\n" + frames[1] + b"no end"
    found, totals = _run(data)
    assert found["accounting"][0]["format"] == "nais"
    assert (totals.decoded, totals.frames) == (len(data), 2)


def test_damaged_captures_are_told_of():
    data = bytearray(made_capture(FRAMES, Random(2)))
    found, totals = _run(bytes(data[:-7]))
    assert [row["layer"] for row in found["errors"]] == ["capture"]
    row = found["errors"][0]
    assert (row["stream"], row["field"]) == ("", "container")
    assert totals.damaged == row["frame_length"] == len(row["raw"])


def test_modes():
    bad = b"".join(FRAMES) + b"\xff" * 33 + b"".join(FRAMES)
    found, totals = _run(bad, formats=("tibmsg",))
    assert totals.quarantined == 33
    found, dropped = _run_dropped(bad)
    assert "errors" not in found
    assert (dropped.quarantined, dropped.errors) == (33, totals.errors)
    with pytest.raises(DecodeError) as caught:
        list(tabulate(io.BytesIO(bad), formats="tibmsg", mode="failfast"))
    at = sum(map(len, FRAMES))
    assert caught.value.offset == at
    assert "<file>" in caught.value.reason


def _run_dropped(data):
    settings = Settings(formats=("tibmsg",), mode="dropmalformed")
    tabulator = Tabulator(settings)
    found = {}
    for event in Capture(io.BytesIO(data)):
        for name, batch in tabulator.feed(event):
            found.setdefault(name, []).extend(batch.to_pylist())
    for name, batch in tabulator.close():
        found.setdefault(name, []).extend(batch.to_pylist())
    return found, tabulator.totals


def test_a_tabulator_that_is_closed_early_accounts_for_what_it_got():
    settings = Settings(formats=("tibmsg",))
    tabulator = Tabulator(settings)
    events = list(Capture(io.BytesIO(made_capture(FRAMES, Random(3)))))[:5]
    batches = [pair for event in events for pair in tabulator.feed(event)]
    found = collect(iter([*batches, *tabulator.close()]), settings)
    check_accounts(found)
    assert len(found["accounting"]) == len({event.stream.number for event in events})


@pytest.mark.parametrize("scenario", ["tibmsg", "blaze", "nais"])
def test_every_damaged_packet_is_seen(scenario):
    target = io.BytesIO()
    made = generate(target, [scenario], messages=8000, seed=5, faults=Faults(corruption=0.04))
    found, totals = _run(target.getvalue(), tables=("frames", "errors", "accounting"))
    assert totals.bad_checksums == made.faults["corruption"] > 5
    told = [row for row in found["errors"] if row["code"] in ("suspect", "checksum")]
    assert len(told) == totals.bad_checksums
    places = [
        (row["stream"], row["frame_offset"], row["frame_offset"] + row["frame_length"])
        for row in told
        if row["code"] == "suspect"
    ]
    for row in found["frames"]:
        first, last = row["frame_offset"], row["frame_offset"] + row["frame_length"]
        is_hit = any(row["stream"] == s and first < b and a < last for s, a, b in places)
        assert row["is_suspect"] == is_hit
