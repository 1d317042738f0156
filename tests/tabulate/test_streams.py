"""Very many streams, very long ones, and what is kept of them in the meantime."""

from __future__ import annotations

import gc
import io
import tracemalloc

import pyarrow as pa
from oracles.captured import check_accounts, collect

from wireloom.captures import NO_TIME, Capture, Counts, Gap, Stream, StreamData, StreamEnd
from wireloom.formats import get
from wireloom.formats.nrep import SocketData
from wireloom.generate import traffic
from wireloom.generate.traffic import Conversation, pcap
from wireloom.kernel import load
from wireloom.tabulate import Settings, Tabulator, tabulate
from wireloom.tabulate.collecting import Collector
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.streams import StreamReader

BLAZE = list(get("blaze").samples().values())
NO_MARKS = memoryview(b"").cast("q")


def _longs(*numbers):
    view = memoryview(bytearray(8 * len(numbers))).cast("q")
    view[:] = memoryview(b"".join(n.to_bytes(8, "little", signed=True) for n in numbers)).cast("q")
    return view


def _feed(settings, events):
    tabulator = Tabulator(settings)

    def run():
        for event in events:
            yield from tabulator.feed(event)
        yield from tabulator.close()

    return collect(run(), settings), tabulator


def test_many_small_streams_share_batches():
    packets = []
    for number in range(600):
        talk = Conversation(f"10.0.{number >> 8}.{number & 255}:1000", "10.1.0.2:80")
        packets += [*talk.send(BLAZE[number % len(BLAZE)] * 3)]
    settings = Settings(formats=("blaze",), tables=("frames", "blaze", "accounting"))
    batches = list(tabulate(io.BytesIO(pcap(packets)), settings))
    assert sorted(name for name, _ in batches) == ["accounting", "blaze", "frames"]
    found = collect(iter(batches), settings)
    check_accounts(found)
    assert len(found["frames"]) == 1800
    assert len(found["accounting"]) == 600


def test_a_long_stream_is_never_held():
    frame = SocketData(socket_id=bytes(10), data=bytes(1000)).encode()
    chunk = memoryview(frame * 1000)
    stream = Stream(1, "s", "raw", "x")
    settings = Settings(formats=("nrep",))
    tabulator = Tabulator(settings)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    rows = 0
    for number in range(100):
        event = StreamData(stream, number * len(chunk), chunk, NO_MARKS, NO_MARKS)
        rows += sum(batch.num_rows for name, batch in tabulator.feed(event) if name == "frames")
        assert pa.total_allocated_bytes() - before < 64 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows += sum(batch.num_rows for name, batch in tabulator.close() if name == "frames")
    assert rows == 100_000
    assert peak < 40 << 20  # of 100 MB


def test_ended_streams_leave_nothing_behind():
    settings = Settings(formats=("blaze",))
    tabulator = Tabulator(settings)
    data = memoryview(b"".join(BLAZE))
    for number in range(50):
        stream = Stream(number, f"s{number}", "tcp", "x")
        list(tabulator.feed(StreamData(stream, 0, data, NO_MARKS, NO_MARKS)))
        counts = Counts(captured=len(data), delivered=len(data))
        list(tabulator.feed(StreamEnd(stream, len(data), "fin", counts)))
    assert not tabulator._streams._streams
    list(tabulator.close())
    assert tabulator.totals.streams == 50


def test_a_stream_between_two_events_keeps_only_what_waits():
    segments = []
    reader = StreamReader(
        Stream(1, "s", "tcp", "x"),
        ScannerPool(Settings(formats=("blaze",)), load(), segments.append),
    )
    data = b"".join(BLAZE)
    reader.data(StreamData(reader.stream, 0, memoryview(data + BLAZE[0][:5]), NO_MARKS, NO_MARKS))
    assert reader._scanner is None
    assert reader._rest == BLAZE[0][:5]
    reader.end()
    assert sum(segment.batch.count for segment in segments if segment.batch) == len(BLAZE)


def test_packets_of_which_no_time_is_known():
    one = BLAZE[0]
    stream = Stream(1, "s", "tcp", "x")
    marks = _longs(*(index * len(one) for index in range(4)))
    times = _longs(1000, NO_TIME, 3000, NO_TIME)
    counts = Counts(captured=4 * len(one), delivered=4 * len(one), packets=4)
    settings = Settings(formats=("blaze",))
    found, _ = _feed(
        settings,
        [
            StreamData(stream, 0, memoryview(one * 4), marks, times),
            StreamEnd(stream, 4 * len(one), "fin", counts),
        ],
    )
    check_accounts(found)
    assert [row["ts_ns"] for row in found["frames"]] == [1000, None, 3000, None]


def test_the_format_may_be_told_by_what_is_behind_a_hole():
    stream = Stream(1, "s", "tcp", "x")
    data = b"".join(get("tibmsg").samples().values())
    end = 10 + 5 + len(data)
    counts = Counts(captured=5 + len(data), delivered=5 + len(data), missing=10)
    found, tabulator = _feed(
        Settings(),
        [
            StreamData(stream, 0, memoryview(b"\xff" * 5), NO_MARKS, NO_MARKS),
            Gap(stream, 5, 10, NO_TIME, NO_TIME),
            StreamData(stream, 15, memoryview(data), NO_MARKS, NO_MARKS),
            StreamEnd(stream, end, "fin", counts),
        ],
    )
    assert found["accounting"][0]["format"] == "tibmsg"
    assert (tabulator.totals.quarantined, tabulator.totals.decoded) == (5, len(data))


def test_datagrams_that_take_a_second_look_may_come_in_small_batches():
    # Parts of messages among other bytes: looking at them fails in ways that are remembered.
    message = list(get("tibrv").samples().values())[1]
    packets = []
    for number in range(60):
        # The first holds none, so that it takes more than the first look to be certain.
        inside = bytes(60) + (8 * message if number else b"") + message[:7]
        host = traffic.udp("10.0.0.1", "10.0.0.2", 5, 6, inside)
        data = traffic.ethernet(traffic.ip("10.0.0.1", "10.0.0.2", 17, host))
        packets.append(traffic.Packet(traffic.START_NS + number, data))
    file = pcap(packets)
    gc.disable()  # what it would clear away must not be in the way
    try:
        events = Capture(io.BytesIO(file), chunk_bytes=300, batch_packets=1)
        found, _ = _feed(Settings(), events)
    finally:
        gc.enable()
    check_accounts(found)
    assert sum(row["captured"] for row in found["accounting"]) == 60 * 67 + 59 * 8 * len(message)


def test_too_many_undecided_bytes_are_decided_early(monkeypatch):
    monkeypatch.setattr("wireloom.tabulate.streamtable.MAX_UNDECIDED", 100)
    data = b"".join(get("tibmsg").samples().values())[:200]
    events = [
        StreamData(
            Stream(number, f"s{number}", "tcp", "x"), 0, memoryview(data), NO_MARKS, NO_MARKS
        )
        for number in range(3)
    ]
    found, tabulator = _feed(Settings(), events)
    check_accounts(found)
    assert {row["format"] for row in found["accounting"]} == {"tibmsg"}
    assert tabulator._streams._undecided == 0


def test_batches_have_about_as_many_rows_as_are_wanted():
    collector = Collector(Settings(batch_rows=10))
    schema = pa.schema([("n", pa.dictionary(pa.int32(), pa.string()))])
    given = 0
    sizes = []
    for count in (1, 2, 3, 25, 4, 30, 1):
        rows = [{"n": str(given + index)} for index in range(count)]
        given += count
        sizes += [
            b.num_rows for _, b in collector.add("t", pa.RecordBatch.from_pylist(rows, schema))
        ]
    sizes += [batch.num_rows for _, batch in collector.flush()]
    assert sum(sizes) == given
    assert max(sizes) <= 10
    assert sum(size >= 5 for size in sizes) >= len(sizes) - 2


def test_a_stream_that_goes_on_in_another_file():
    data = b"".join(BLAZE) * 20
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", mss=77)
    packets = [*talk.open(), *talk.send(data), *talk.close()]
    files = [io.BytesIO(pcap(packets[:9])), io.BytesIO(pcap(packets[9:]))]
    settings = Settings()
    events = list(Capture(files))
    found, tabulator = _feed(settings, events)
    check_accounts(found)
    assert tabulator.totals.decoded == len(data)
