"""TCP: whatever happens to its segments, a stream comes out, and the gaps are its holes."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from wireloom.captures import ReassemblyLimits
from wireloom.generate import traffic
from wireloom.generate.traffic import ACK, FIN, PSH, SYN, Conversation, Faults, Packet, disturb

MAX = 400

segments = st.lists(st.tuples(st.integers(0, MAX - 1), st.integers(1, 60)), min_size=1, max_size=40)


def original(seed: int, size: int = MAX + 60) -> bytes:
    return Random(seed).randbytes(size)


def packets_of(
    cuts: list[tuple[int, int]], data: bytes, first: int, *, has_syn: bool, has_fin: bool
) -> list[Packet]:
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", first_seq=(first, 0), step_ns=1000)
    found = [talk.segment(0, b"", seq=first - 1, flags=SYN)] if has_syn else []
    # Pushed: a zero byte without that, alone and first, would be a keep-alive.
    flags = ACK | PSH
    found += [talk.segment(0, data[at : at + n], seq=first + at, flags=flags) for at, n in cuts]
    if has_fin:
        found.append(talk.segment(0, b"", seq=first + len(data), flags=FIN | ACK))
    return found


def holes(cuts: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """Ranges from `start` to `stop` that no segment covers."""
    found, at = [], start
    for begin, size in sorted(cuts):
        if begin > at:
            found.append((at, begin - at))
        at = max(at, begin + size)
    if stop > at:
        found.append((at, stop - at))
    return found


def blanked(data: bytes, gaps: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for at, size in gaps:
        out[at : at + size] = bytes(size)
    return bytes(out)


@settings(deadline=None)
@given(
    cuts=segments,
    first=st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - MAX, 2**32 - 1)),
    seed=st.integers(0, 1 << 16),
    has_fin=st.booleans(),
    chunk=st.sampled_from([1, 50, 1 << 16]),
    batch=st.sampled_from([1, 3, 1 << 10]),
)
def test_any_order_with_a_syn(read, cuts, first, seed, has_fin, chunk, batch):
    data = original(seed)
    file = traffic.pcap(packets_of(cuts, data, first, has_syn=True, has_fin=has_fin))
    stream = read(file, chunk_bytes=chunk, batch_packets=batch).only
    last = len(data) if has_fin else max(at + size for at, size in cuts)
    gaps = holes(cuts, 0, last)
    assert stream.gaps == gaps
    assert stream.data == blanked(data[:last], gaps)
    assert stream.drops == []
    covered = last - sum(size for _, size in gaps)
    assert stream.counts.captured == sum(size for _, size in cuts)
    assert stream.counts.delivered == covered


@settings(deadline=None)
@given(cuts=segments, first=st.integers(0, 2**32 - 1), seed=st.integers(0, 1 << 16))
def test_any_order_without_a_syn(read, cuts, first, seed):
    data = original(seed)
    stream = read(traffic.pcap(packets_of(cuts, data, first, has_syn=False, has_fin=False))).only
    start = cuts[0][0]
    kept = [(max(at, start), at + size - max(at, start)) for at, size in cuts if at + size > start]
    last = max(at + size for at, size in cuts)
    gaps = holes(kept, start, last)
    assert stream.gaps == [(at - start, size) for at, size in gaps]
    assert stream.data == blanked(data, gaps)[start:last]
    lost = [(at, min(size, start - at)) for at, size in cuts if at < start]
    assert stream.drops == [("before_start", data[at : at + size]) for at, size in lost]


@settings(deadline=None)
@given(
    cuts=segments,
    seed=st.integers(0, 1 << 16),
    packets=st.integers(1, 6),
    size=st.integers(70, 400),
    total=st.integers(70, 1000),
    wait=st.integers(0, 20_000),
)
def test_under_any_limits_no_byte_is_wrong_or_unaccounted(
    read, cuts, seed, packets, size, total, wait
):
    limits = ReassemblyLimits(
        max_flow_packets=packets, max_flow_bytes=size, max_bytes=total, max_wait_ns=wait
    )
    data = original(seed)
    file = traffic.pcap(packets_of(cuts, data, 5, has_syn=True, has_fin=False), is_nano=True)
    result = read(file, limits=limits)
    stream = result.only
    assert stream.data == blanked(data[: stream.length], stream.gaps)
    # What was not delivered of the covered bytes came too late, and was told.
    assert stream.length == max(at + size for at, size in cuts)
    assert read(file, limits=limits, chunk_bytes=7, batch_packets=2).same() == result.same()


def conversations(random: Random, count: int, size: int) -> tuple[dict[str, bytes], list[Packet]]:
    """Interleaved connections, and what each direction carries."""
    sent: dict[str, bytes] = {}
    queues = []
    for number in range(count):
        client, server = f"10.0.0.{number + 1}:{1000 + number}", "10.1.0.1:80"
        if number % 3 == 2:
            client, server = f"[2001:db8::{number + 1}]:{1000 + number}", "[2001:db8::ffff]:80"
        seqs = (random.randrange(2**32), random.randrange(2**32))
        talk = Conversation(client, server, first_seq=seqs, mss=random.randint(1, 200))
        up, down = random.randbytes(random.randint(1, size)), random.randbytes(size)
        sent[f"tcp {client} > {server} #1"] = up
        sent[f"tcp {server} > {client} #1"] = down
        queues.append([*talk.open(), *talk.send(up), *talk.answer(down), *talk.close()])
    packets = []
    while queues:
        queue = random.choice(queues)
        packets.append(queue.pop(0))
        if not queue:
            queues.remove(queue)
    return sent, packets


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1 << 32), chunk=st.sampled_from([64, 3000, 1 << 20]))
def test_many_connections_on_a_bad_network(read, seed, chunk):
    random = Random(seed)
    sent, packets = conversations(random, 5, 1500)
    head, rest = packets[:1], packets[1:]
    faults = Faults(reorder=0.2, duplicates=0.1)
    result = read(traffic.pcapng([*head, *disturb(rest, faults, random)]), chunk_bytes=chunk)
    for name, data in sent.items():
        streams = [s for n, s in result.streams.items() if n.startswith(name[:-1])]
        # A SYN that comes after data cannot be told from a new connection; nothing else may.
        if len(streams) == 1 and not streams[0].drops:
            assert streams[0].data == data, name


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_lost_packets_are_the_gaps(read, seed):
    random = Random(seed)
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", first_seq=(random.randrange(2**32), 0), mss=50)
    data = random.randbytes(5000)
    packets = [talk.segment(0, b"", flags=SYN), *talk.send(data)]
    gone = {n for n in range(1, len(packets) - 1) if random.random() < 0.2}
    kept = [p for n, p in enumerate(packets) if n not in gone]
    stream = read(traffic.pcap(kept)).only
    missing = set()
    for at, size in stream.gaps:
        missing |= {1 + byte // 50 for byte in range(at, at + size)}
    assert missing == gone
    assert stream.data == blanked(data, stream.gaps)
