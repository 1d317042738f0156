"""pcap: damage is told with its bytes, and the packets around it are found."""

from __future__ import annotations

import struct
from random import Random

import pytest

from wireloom.captures import NO_TIME
from wireloom.captures.tcp import Reassembler
from wireloom.generate import traffic
from wireloom.generate.traffic import Packet
from wireloom.testing.mutations import Mutator

SIZES = [1, 60, 700, 1460]


def capture(count: int = 30, seed: int = 1) -> tuple[list[bytes], bytes, list[bytes]]:
    """Records of a file, its header, and the payloads of the datagrams in them."""
    random = Random(seed)
    records, payloads = [], []
    for number in range(count):
        payload = random.randbytes(random.choice(SIZES))
        datagram = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, payload)
        frame = traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram))
        records.append(traffic.pcap_record(Packet(traffic.START_NS + number * 1000, frame)))
        payloads.append(payload)
    return records, traffic.pcap_header(), payloads


def payloads_of(result) -> list[bytes]:
    # Damage may make another flow of a packet, or cut one short.
    stream = result.streams.get("udp 10.0.0.1:1 > 10.0.0.2:2 #1")
    if stream is None:
        return []
    ends = [at for at, _ in stream.marks[1:]] + [len(stream.data)]
    return [bytes(stream.data[at:stop]) for (at, _), stop in zip(stream.marks, ends, strict=True)]


@pytest.mark.parametrize("chunk", [1, 37, 1 << 20])
@pytest.mark.parametrize("length", [0, 1, 3, 100, 2000, 200_000, 262_145, 2**32 - 1])
def test_a_damaged_length_costs_one_packet(read, length, chunk):
    records, head, payloads = capture()
    bad = bytearray(records[10])
    bad[8:12] = struct.pack("<I", length)
    records[10] = bytes(bad)
    result = read(head + b"".join(records), chunk_bytes=chunk)
    assert payloads_of(result) == payloads[:10] + payloads[11:]
    (damage,) = result.damage
    assert damage.data == records[10]
    assert damage.offset == len(head) + sum(map(len, records[:10]))
    assert damage.layer == "container"


@pytest.mark.parametrize("chunk", [1, 37, 1 << 20])
def test_four_lost_bytes_do_not_move_all_headers_by_one_word(read, chunk):
    records, head, payloads = capture()
    records[10] = records[10][:30] + records[10][34:]
    result = read(head + b"".join(records), chunk_bytes=chunk)
    assert payloads_of(result) == payloads[:10] + payloads[11:]
    (damage,) = result.damage
    assert damage.data == records[10]


@pytest.mark.parametrize("chunk", [37, 1 << 20])
def test_a_byte_lost_in_a_header_does_not_move_all_headers_by_one_word(read, chunk):
    link, wrap = traffic.LINKS["cooked v2"]  # its first word could be a length on the wire
    records, payloads = [], []
    for number in range(12):
        payloads.append(bytes([number]) * (20 + 7 * number))
        datagram = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, payloads[-1])
        packet = wrap(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram))
        records.append(traffic.pcap_record(Packet(traffic.START_NS + number * 1000, packet)))
    records[6] = records[6][:8] + records[6][9:]
    result = read(traffic.pcap_header(link_type=link) + b"".join(records), chunk_bytes=chunk)
    assert payloads_of(result) == payloads[:6] + payloads[7:]


@pytest.mark.parametrize("chunk", [1, 37, 1 << 20])
def test_a_clock_that_is_set_is_no_damage(read, chunk):
    records, head, payloads = capture()
    early = [struct.pack("<I", number + 1) + record[4:] for number, record in enumerate(records)]
    result = read(head + b"".join(early[:9] + records[9:20] + early[20:]), chunk_bytes=chunk)
    assert payloads_of(result) == payloads
    assert result.damage == []


def test_numbers_in_a_payload_that_lead_to_a_true_record_are_no_record(read):
    records, head, payloads = capture()
    payload = bytearray(payloads[3] * 2000)[:1400]
    behind = sum(map(len, records[4:6])) + 100
    payload[-116:-100] = struct.pack("<4I", 51968, 256, behind, 70_000)
    datagram = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(payload))
    packet = traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram))
    record = traffic.pcap_record(Packet(traffic.START_NS + 3000, packet))
    bad = record[:8] + b"\xff" * 4 + record[12:]  # its length is damaged, so that it is searched
    result = read(head + b"".join([*records[:3], bad, *records[4:]]))
    assert payloads_of(result) == payloads[:3] + payloads[4:]


@pytest.mark.parametrize("chunk", [1, 37, 1 << 20])
def test_garbage_between_records(read, chunk):
    records, head, payloads = capture()
    garbage = Random(5).randbytes(5000)
    file = head + b"".join(records[:7]) + garbage + b"".join(records[7:])
    result = read(file, chunk_bytes=chunk)
    assert payloads_of(result) == payloads
    assert b"".join(d.data for d in result.damage) == garbage
    assert result.capture.damaged_bytes == len(garbage)


def test_missing_bytes(read):
    records, head, payloads = capture()
    file = head + b"".join(records[:7]) + records[7][:-5] + b"".join(records[8:])
    result = read(file)
    assert payloads_of(result) == payloads[:7] + payloads[8:]
    assert b"".join(d.data for d in result.damage) == records[7][:-5]


def test_a_region_of_zeros(read):
    records, head, payloads = capture()
    file = head + b"".join(records[:7]) + bytes(5 << 18) + b"".join(records[7:])
    result = read(file)
    assert payloads_of(result) == payloads
    assert sum(d.length for d in result.damage) == 5 << 18
    assert max(d.length for d in result.damage) <= 1 << 20


def test_every_truncation(read):
    records, head, payloads = capture(6)
    file = head + b"".join(records)
    ends = [len(head)]
    for record in records:
        ends.append(ends[-1] + len(record))
    random = Random(2)
    for size in [*ends, *(random.randrange(12, len(file)) for _ in range(60))]:
        result = read(file[:size])
        whole = sum(end <= size for end in ends[1:])
        assert payloads_of(result) == payloads[:whole]
        left = size - max([end for end in ends if end <= size], default=0)
        assert sum(d.length for d in result.damage) == left
        if left:
            assert result.damage[-1].code == "truncated"


def test_a_capture_inside_a_packet_is_no_reason_to_distrust_it(read):
    # The payload holds records of its own, and the header behind the packet is damaged.
    records, head, payloads = capture()
    inner = b"".join(traffic.pcap_record(Packet(10**18 + n, bytes(30))) for n in range(20))
    datagram = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, inner)
    frame = traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram))
    outer = traffic.pcap_record(Packet(traffic.START_NS, frame))
    file = head + b"".join(records[:5]) + outer + b"\xff" * 20 + b"".join(records[5:])
    result = read(file)
    assert payloads_of(result) == [*payloads[:5], inner, *payloads[5:]]
    assert b"".join(d.data for d in result.damage) == b"\xff" * 20


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_never_loses_a_byte_of_the_file(read, seed):
    random = Random(seed)
    records, head, payloads = capture(40, seed)
    file = bytearray(head + b"".join(records))
    for _ in range(3):
        at = random.randrange(len(head), len(file))
        file[at : at + random.randint(1, 40)] = random.randbytes(random.randint(0, 40))
    results = [read(bytes(file), chunk_bytes=chunk) for chunk in (13, 1 << 20)]
    assert results[0].same() == results[1].same()
    found = set(payloads_of(results[0]))
    assert sum(p not in found for p in payloads) <= 3 * 2


def test_a_file_that_is_cut_in_its_header(read):
    (damage,) = read(traffic.pcap_header()[:20]).damage
    assert (damage.code, damage.length) == ("truncated", 20)


def test_a_header_alone_is_no_damage(read):
    result = read(traffic.pcap_header())
    assert result.damage == []
    assert result.streams == {}


def tiles(file: bytes, monkeypatch: pytest.MonkeyPatch, read) -> list[tuple[int, int, str]]:
    """What every byte of a pcap file is: header, record or damage; in order, without overlap."""
    found: list[tuple[int, int, str]] = []
    feed = Reassembler.feed

    def watch(self, rows, data, base, source):
        for row in range(rows.count):
            start = base + rows.at[row]
            found.append((start - 16, start + rows.captured[row], "record"))
        return feed(self, rows, data, base, source)

    monkeypatch.setattr(Reassembler, "feed", watch)
    result = read(file)
    monkeypatch.undo()
    found += [
        (damage.offset, damage.offset + damage.length, "damage")
        for damage in result.damage
        if damage.layer == "container" and damage.length
    ]
    found.sort()
    whole, at = [], 0
    for start, stop, what in found:
        while start > at and file[at : at + 4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4"):
            whole.append((at, at + 24, "header"))
            at += 24
        assert start == at, (at, start, stop, what)
        whole.append((start, stop, what))
        at = stop
    assert at == len(file) or len(file) - at == 24
    return whole


@pytest.mark.parametrize("seed", range(10))
def test_every_byte_of_a_damaged_file_is_told(read, monkeypatch, seed):
    random = Random(seed)
    records, head, _ = capture(30, seed)
    mutator = Mutator([b"".join(records), head + b"".join(records[:5])], seed)
    for index in range(30):
        tiles(head + mutator.mutant(index), monkeypatch, read)
    cut = random.randrange(len(head), len(head) + 2000)
    tiles((head + b"".join(records))[:cut], monkeypatch, read)


def numbered(number: int, ts_ns: int, *, has_chain: bool) -> tuple[bytes, bytes]:
    """A record and its payload, which may look like a chain of records that leads out of it."""
    payload = bytes([number]) * 300
    if has_chain:
        heads = [struct.pack("<4I", 5, 7, size, size) for size in (20, 20, 20, 400)]
        payload = b"".join(head + bytes(20) for head in heads)
    datagram = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, payload)
    frame = traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram))
    return traffic.pcap_record(Packet(ts_ns, frame)), payload


@pytest.mark.parametrize("chunk", [1, 37, 1 << 20])
@pytest.mark.parametrize("turn", [1, 2, 12])
def test_numbers_in_a_payload_are_no_reason_to_give_up_a_record_before_a_jump(read, turn, chunk):
    # Two captures merged, `turn` records of each in turn: a year between them.
    year = 365 * 86_400 * 10**9
    made = [
        numbered(n, traffic.START_NS + n * 1000 + n // turn % 2 * year, has_chain=n % 3 == 2)
        for n in range(24)
    ]
    file = traffic.pcap_header() + b"".join(record for record, _ in made)
    result = read(file, chunk_bytes=chunk)
    assert payloads_of(result) == [payload for _, payload in made]
    assert result.damage == []


@pytest.mark.parametrize("chunk", [37, 1 << 20])
def test_a_clock_that_starts_in_1970_and_is_set_costs_no_packet(read, chunk):
    # Small times, as those of the numbers in the payloads, and too few records for a chain.
    times = [3, 4, 1_700_000_000, 1_700_000_001, 5, 1_600_000_000, 6, 7]
    made = [numbered(n, time * 10**9, has_chain=True) for n, time in enumerate(times)]
    file = traffic.pcap_header() + b"".join(record for record, _ in made)
    result = read(file, chunk_bytes=chunk)
    assert payloads_of(result) == [payload for _, payload in made]
    assert result.damage == []


@pytest.mark.parametrize("chunk", [37, 1 << 20])
def test_a_damaged_length_that_leads_to_numbers_of_another_time_costs_one_packet(read, chunk):
    made = [numbered(n, traffic.START_NS + n * 1000, has_chain=n == 5) for n in range(12)]
    bad = bytearray(made[5][0])
    # To the second of the made-up headers, which has none behind it.
    bad[8:12] = struct.pack("<I", 42 + 36)
    bad[16 + 42 + 36 + 8 : 16 + 42 + 36 + 12] = struct.pack("<I", 10)
    records = [record for record, _ in made]
    records[5] = bytes(bad)
    result = read(traffic.pcap_header() + b"".join(records), chunk_bytes=chunk)
    found = payloads_of(result)
    assert found == [payload for n, (_, payload) in enumerate(made) if n != 5]
    assert b"".join(damage.data for damage in result.damage) == records[5]


@pytest.mark.parametrize("chunk", [37, 1 << 20])
def test_a_part_of_a_second_that_cannot_be_costs_the_time_and_not_the_packet(read, chunk):
    records, head, payloads = capture()
    records[10] = records[10][:4] + struct.pack("<I", 10**9) + records[10][8:]
    result = read(head + b"".join(records), chunk_bytes=chunk)
    assert payloads_of(result) == payloads
    assert result.damage == []
    times = [ts for _, ts in result.only.marks]
    assert times[10] == NO_TIME
    assert times[9] < times[11]


def test_an_empty_record_of_no_time_is_damage_and_in_the_sums(read, monkeypatch):
    records, head, _ = capture(8)
    tiles(head + b"".join(records[:4]) + bytes(16) + b"".join(records[4:]), monkeypatch, read)
    tiles(head + b"".join(records) + bytes(16), monkeypatch, read)
    tiles(head + bytes(16) + b"".join(records), monkeypatch, read)
    tiles(head + bytes(16), monkeypatch, read)
