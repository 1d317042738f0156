"""TCP: every case the policy speaks of, one by one."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from wireloom.captures import NO_TIME, Capture, Gap, ReassemblyLimits
from wireloom.generate import traffic
from wireloom.generate.traffic import ACK, FIN, PSH, RST, SYN, Conversation, Packet

A, B = "10.0.0.1:1000", "10.0.0.2:2000"
NAME = "tcp 10.0.0.1:1000 > 10.0.0.2:2000 #1"
ISN = 7_000


class Sender:
    """One direction; segments are given by their place in the stream."""

    def __init__(self, *, first: int = ISN, is_checked: bool = True) -> None:
        self._talk = Conversation(A, B, first_seq=(first, 0), is_checked=is_checked)
        self._first = first

    def syn(self, isn: int | None = None) -> Packet:
        return self._talk.segment(0, b"", seq=self._first if isn is None else isn, flags=SYN)

    def at(self, offset: int, payload: bytes, flags: int = ACK) -> Packet:
        return self._talk.segment(0, payload, seq=self._first + 1 + offset, flags=flags)


@pytest.fixture
def sender() -> Sender:
    return Sender()


def test_in_order(read, sender):
    stream = read(traffic.pcap([sender.syn(), sender.at(0, b"ab"), sender.at(2, b"cd")])).only
    assert stream.data == b"abcd"
    assert stream.end == "end"


def test_out_of_order(read, sender):
    parts = [sender.at(4, b"ef"), sender.at(2, b"cd"), sender.at(6, b"gh"), sender.at(0, b"ab")]
    stream = read(traffic.pcap([sender.syn(), *parts])).only
    assert stream.data == b"abcdefgh"
    assert stream.gaps == []
    assert [at for at, _ in stream.marks] == [0, 2, 4, 6]
    # Each piece keeps the time of its own packet.
    assert [ts for _, ts in stream.marks] == [parts[i].ts_ns for i in (3, 1, 0, 2)]


def test_duplicates_are_counted(read, sender):
    packets = [sender.syn(), sender.at(0, b"abcd"), sender.at(0, b"abcd"), sender.at(4, b"ef")]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"abcdef"
    assert stream.counts.duplicate == 4


def test_the_first_capture_of_a_byte_wins(read, sender):
    packets = [
        sender.syn(),
        sender.at(0, b"aa"),
        sender.at(0, b"bbbb"),  # its end is new
        sender.at(8, b"cc"),
        sender.at(6, b"ddddddd"),  # around what is held
        sender.at(4, b"ee"),
    ]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"aabbeeddccddd"
    assert stream.counts.duplicate == 4


def test_one_segment_over_many_held_ones(read, sender):
    held = [sender.at(at, bytes([at])) for at in range(2, 40, 2)]
    stream = read(traffic.pcap([sender.syn(), *held, sender.at(0, b"\xff" * 41)])).only
    assert stream.data == bytes(at if 0 < at < 40 and at % 2 == 0 else 255 for at in range(41))
    assert stream.counts.duplicate == len(held)


def test_a_hole_becomes_a_gap_at_the_end(read, sender):
    before, after = sender.at(0, b"ab"), sender.at(5, b"fg")
    stream = read(traffic.pcap([sender.syn(), before, after], is_nano=True)).only
    assert stream.data == b"ab\0\0\0fg"
    assert stream.gaps == [(2, 3)]
    assert stream.gap_times == [(before.ts_ns, after.ts_ns)]


def test_several_holes(read, sender):
    packets = [sender.syn(), *(sender.at(at, b"xy") for at in (2, 6, 10, 4))]
    stream = read(traffic.pcap(packets)).only
    assert stream.gaps == [(0, 2), (8, 2)]
    assert stream.data == b"\0\0xyxyxy\0\0xy"


@pytest.mark.parametrize("first", [2**32 - 1, 2**32 - 2, 2**32 - 3, 2**31 - 2, 0])
def test_sequence_numbers_wrap(read, first):
    sender = Sender(first=first)
    packets = [sender.syn(), *(sender.at(at, b"abcd") for at in (4, 0, 12, 8))]
    assert read(traffic.pcap(packets)).only.data == b"abcd" * 4


def test_more_than_one_wrap(kernel):
    # Holes stand for the bytes: 13 GB need no such file.
    sender = Sender(first=2**32 - 10)
    step = 16_000_000
    packets = [sender.syn(), *(sender.at(number * step, b"head") for number in range(800))]
    limits = ReassemblyLimits(max_flow_packets=1)
    events = list(Capture(io.BytesIO(traffic.pcap(packets)), limits=limits, kernel=kernel))
    gaps = [(event.offset, event.length) for event in events if isinstance(event, Gap)]
    assert gaps == [(n * step + 4, step - 4) for n in range(799)]
    assert events[-1].length == 799 * step + 4


def test_one_way_and_mid_stream(read, sender):
    # No SYN, and nothing from the other side.
    stream = read(traffic.pcap([sender.at(500, b"ab"), sender.at(502, b"cd")])).only
    assert stream.data == b"abcd"


def test_what_comes_before_a_stream_without_syn_is_dropped_and_told(read, sender):
    packets = [sender.at(100, b"cd"), sender.at(98, b"ab"), sender.at(99, b"bcdef")]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"cdef"
    assert stream.drops == [("before_start", b"ab"), ("before_start", b"b")]


def test_a_late_syn_is_no_new_stream(read, sender):
    stream = read(traffic.pcap([sender.at(0, b"ab"), sender.syn(), sender.at(2, b"cd")])).only
    assert stream.data == b"abcd"


def test_a_syn_may_carry_data(read, sender):
    packet = sender._talk.segment(0, b"ab", seq=ISN, flags=SYN)
    assert read(traffic.pcap([packet, sender.at(2, b"cd")])).only.data == b"abcd"


def test_port_reuse_starts_a_new_stream(read, sender):
    packets = [
        sender.syn(),
        sender.at(0, b"one"),
        sender.at(9, b"held"),
        sender.syn(isn=90_000),
        sender.at(90_000 - ISN, b"two"),
    ]
    result = read(traffic.pcap(packets))
    assert list(result.streams) == [NAME, NAME[:-1] + "2"]
    one, two = result.streams.values()
    assert (one.data, one.end) == (b"one" + bytes(6) + b"held", "reused")
    assert two.data == b"two"


def test_a_repeated_syn_does_not(read, sender):
    packets = [sender.syn(), sender.at(0, b"ab"), sender.syn(), sender.at(2, b"cd")]
    assert read(traffic.pcap(packets)).only.data == b"abcd"


def test_fin_closes(read, sender):
    packets = [
        sender.syn(),
        sender.at(0, b"ab", ACK | FIN),
        sender.at(0, b"ab", ACK | FIN),  # again
        sender.at(3, b""),
        sender.at(3, b"new"),  # without a SYN, but not of the old stream
    ]
    result = read(traffic.pcap(packets))
    one, two = result.streams.values()
    assert (one.data, one.end, one.counts.duplicate) == (b"ab", "fin", 2)
    assert (two.data, two.end) == (b"new", "end")


def test_fin_before_the_last_data(read, sender):
    packets = [sender.syn(), sender.at(4, b"", ACK | FIN), sender.at(2, b"cd"), sender.at(0, b"ab")]
    stream = read(traffic.pcap(packets)).only
    assert (stream.data, stream.end, stream.gaps) == (b"abcd", "fin", [])


def test_the_hole_before_a_fin_is_a_gap(read, sender):
    packets = [sender.syn(), sender.at(0, b"ab"), sender.at(7, b"", ACK | FIN)]
    stream = read(traffic.pcap(packets)).only
    assert stream.gaps == [(2, 5)]
    assert stream.gap_times[0][1] == NO_TIME
    assert stream.end == "fin"


def test_a_stream_of_which_nothing_but_syn_and_fin_was_captured(read, sender):
    stream = read(traffic.pcap([sender.syn(), sender.at(7, b"", ACK | FIN)])).only
    assert stream.gaps == [(0, 7)]
    assert stream.counts.captured == 0


def test_reset_closes(read, sender):
    packets = [sender.syn(), sender.at(0, b"ab"), sender.at(2, b"", RST), sender.at(2, b"cd")]
    one, two = read(traffic.pcap(packets)).streams.values()
    assert (one.data, one.end) == (b"ab", "reset")
    assert two.data == b"cd"


def test_a_reset_that_overtakes_data_does_not_cut_it_off(read, sender):
    packets = [sender.syn(), sender.at(2, b"", RST), sender.at(0, b"ab")]
    stream = read(traffic.pcap(packets)).only
    assert (stream.data, stream.end) == (b"ab", "reset")


@pytest.mark.parametrize("byte", [b"", b"\0"])
def test_keep_alives_add_nothing(read, sender, byte):
    packets = [sender.syn(), sender.at(0, b"ab"), sender.at(1, byte), sender.at(2, b"cd")]
    assert read(traffic.pcap(packets)).only.data == b"abcd"


def test_a_keep_alive_at_the_start_of_a_capture_is_no_data(read, sender):
    packets = [
        sender.at(99, b"\0"),
        sender.at(99, b"\0"),
        sender.at(100, b"a"),
        sender.at(101, b"bc"),
    ]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"abc"
    assert stream.drops == [("before_start", b"\0")] * 2


def test_a_window_probe_at_the_start_of_a_capture_is_of_the_stream(read, sender):
    packets = [sender.at(99, b"\0"), sender.at(99, b"\0ab"), sender.at(102, b"c")]
    assert read(traffic.pcap(packets)).only.data == b"\0abc"


@pytest.mark.parametrize(
    ("byte", "flags"), [(b"\0", ACK | PSH), (b"a", ACK), (b"\0", ACK | FIN), (b"\0", ACK | RST)]
)
def test_one_byte_that_is_no_keep_alive_is_data(read, sender, byte, flags):
    assert read(traffic.pcap([sender.at(99, byte, flags)])).only.data == byte


def test_a_zero_byte_behind_a_syn_is_data(read, sender):
    packets = [sender.syn(), sender.at(0, b"\0"), sender.at(1, b"a")]
    assert read(traffic.pcap(packets)).only.data == b"\0a"


def test_a_foreign_segment_alone_is_dropped(read):
    sender = Sender(is_checked=False)
    far = 2**31 + 77
    packets = [sender.at(0, b"ab"), sender.at(far, b"zz"), sender.at(2, b"cd")]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"abcd"
    assert stream.drops == [("stray", b"zz")]


@pytest.mark.parametrize("far", [-(2**30), 2**31 - 5])
def test_foreign_segments_in_a_row_are_a_new_stream(read, sender, far):
    packets = [sender.at(0, b"ab"), *(sender.at(far + 2 * n, b"xy") for n in range(5))]
    one, two = read(traffic.pcap(packets)).streams.values()
    assert (one.data, one.end, one.drops) == (b"ab", "restarted", [])
    assert (two.data, two.end, two.gaps) == (b"xy" * 5, "end", [])
    # Each piece keeps the time of its own packet.
    assert [ts for _, ts in two.marks] == [packet.ts_ns for packet in packets[1:]]


def test_a_stray_syn_takes_nothing_with_it(read, sender):
    packets = [sender.syn(), *(sender.at(2 * n, bytes([n, n])) for n in range(5))]
    packets.insert(3, sender._talk.segment(0, b"", seq=ISN + 2**31 - 5, flags=SYN | ACK))
    result = read(traffic.pcap(packets))
    one, two = result.streams.values()
    assert (one.data, one.end) == (bytes([0, 0, 1, 1]), "reused")
    assert (two.data, two.drops, two.gaps) == (bytes([2, 2, 3, 3, 4, 4]), [], [])


def test_foreign_segments_that_do_not_follow_each_other_are_dropped(read, sender):
    far = 2**31 - 500
    apart = [sender.at(far + 10 * n, bytes([n, n])) for n in range(4)]
    packets = [sender.at(0, b"ab"), *apart, sender.at(2, b"cd"), *apart[:1]]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"abcd"
    assert stream.drops == [("stray", bytes([n, n])) for n in (0, 1, 2, 3, 0)]


def test_two_foreign_segments_are_dropped_where_the_stream_goes_on(read, sender):
    far = 2**31 - 500
    strays = [sender.at(far, b"x"), sender.at(far + 1, b"y")]
    after = [sender.at(4, b"ef"), sender.at(2, b"cd"), sender.at(far + 2, b"z")]
    stream = read(traffic.pcap([sender.at(0, b"ab"), *strays, *after])).only
    assert stream.data == b"abcdef"
    assert stream.drops == [("stray", b"x"), ("stray", b"y"), ("stray", b"z")]


def test_foreign_segments_after_the_end_start_a_stream_with_what_came_before_it(read, sender):
    far = 2**31 - 500
    packets = [
        sender.at(0, b"ab"),
        sender.at(far, b"x"),
        sender.at(2, b"", ACK | FIN),
        sender.at(far + 1, b"y"),
    ]
    one, two = read(traffic.pcap(packets)).streams.values()
    assert (one.data, one.end, one.drops) == (b"ab", "fin", [])
    assert two.data == b"xy"


def test_a_restart_with_cut_packets_leaves_their_gaps(read, sender):
    far = 2**31 - 500
    packets = [sender.at(far + 10 * n, bytes([n + 1]) * 10) for n in range(4)]
    size = len(packets[0].data)
    cut = [packets[0].cut(size - 4), packets[1].cut(size - 10)]
    one, two = read(traffic.pcap([sender.at(0, b"ab"), *cut, *packets[2:]])).streams.values()
    assert one.drops == []
    assert two.gaps == [(6, 4), (10, 10)]
    assert two.data == b"\1" * 6 + bytes(14) + b"\3" * 10 + b"\4" * 10


def test_what_is_set_aside_counts_as_held(read, sender):
    # One far segment a flow, and no more: nothing but the limit takes them away.
    packets = []
    for port in range(1000, 1100):
        talk = Conversation(f"10.0.0.1:{port}", B, first_seq=(0, 0))
        packets += [talk.segment(0, b"ab", seq=0), talk.segment(0, b"z" * 1000, seq=2**31 - 500)]
    result = read(traffic.pcap(packets), limits=ReassemblyLimits(max_bytes=20_000))
    assert [stream.drops for stream in result.streams.values()] == [[("stray", b"z" * 1000)]] * 100
    assert result.capture.packets.packets == 200


def damaged(packet: Packet, at: int, byte: int) -> Packet:
    data = bytearray(packet.data)
    data[at] ^= byte
    return replace(packet, data=bytes(data))


SEQ_AT = 14 + 20 + 4
FLAGS_AT = 14 + 20 + 13


@pytest.mark.parametrize("at", range(SEQ_AT, SEQ_AT + 4))
def test_a_damaged_sequence_number_is_not_believed(read, sender, at):
    packets = [sender.syn(), *(sender.at(n * 100, bytes([n]) * 100) for n in range(20))]
    packets[8] = damaged(packets[8], at, 0x40)
    stream = read(traffic.pcap(packets)).only
    expected = b"".join(bytes([n]) * 100 for n in range(20))
    assert stream.gaps == [(700, 100)]
    assert stream.data == expected[:700] + bytes(100) + expected[800:]
    assert [code for code, _ in stream.drops] == ["checksum"]


@pytest.mark.parametrize("flag", [SYN, FIN, RST])
def test_a_damaged_flag_is_not_believed(read, sender, flag):
    packets = [sender.syn(), *(sender.at(n * 10, bytes([n]) * 10) for n in range(20))]
    packets[8] = damaged(packets[8], FLAGS_AT, flag)
    stream = read(traffic.pcap(packets)).only
    assert stream.length == 200
    assert stream.counts.delivered >= 190


def test_checksums_left_to_the_network_card_are_no_reason_to_drop(read):
    sender = Sender(is_checked=False)
    packets = [sender.syn(), *(sender.at(at, b"ab") for at in (0, 4, 2, 8))]
    stream = read(traffic.pcap(packets)).only
    assert stream.gaps == [(6, 2)]
    assert stream.drops == []


def rest_of(result):
    """What was delivered of numbered segments of a hundred bytes, in order."""
    data = b"".join(bytes(stream.data) for stream in result.streams.values())
    return [n for n in range(256) if bytes([n]) * 100 in data]


@pytest.mark.parametrize("has_syn", [True, False])
@pytest.mark.parametrize("at", [*range(SEQ_AT, SEQ_AT + 4), FLAGS_AT])
def test_a_first_segment_with_a_damaged_header_takes_nothing_with_it(read, sender, at, has_syn):
    packets = [sender.at(n * 100, bytes([n]) * 100) for n in range(1, 20)]
    packets[0] = damaged(packets[0], at, SYN if at == FLAGS_AT else 0x40)
    if has_syn:
        packets.insert(0, sender.syn())
    result = read(traffic.pcap(packets))
    assert set(rest_of(result)) >= set(range(2, 20))
    drops = [drop for stream in result.streams.values() for drop in stream.drops]
    if has_syn:
        # It says that checksums are good, and where the stream starts: the bad one is left out.
        assert {(code, *set(data)) for code, data in drops} == {("checksum", 1)}
    else:
        assert drops == []


@pytest.mark.parametrize("at", range(SEQ_AT, SEQ_AT + 4))
def test_a_damaged_syn_takes_nothing_with_it(read, sender, at):
    packets = [damaged(sender.syn(), at, 0x40)]
    packets += [sender.at(n * 100, bytes([n]) * 100) for n in range(1, 20)]
    result = read(traffic.pcap(packets))
    assert rest_of(result) == [*range(1, 20)]
    assert result.only.gaps == []


def test_segments_that_a_network_card_has_joined_are_kept(read, sender):
    # Their checksums are bad, but what follows says that they are where they say.
    joined = Sender(is_checked=False)
    packets = [sender.syn(), joined.at(1000, b"a" * 5000), sender.at(6000, b"b")]
    packets += [
        joined.at(6001, b"c" * 5000),
        sender.at(12_001, b"d"),
        joined.at(11_001, b"e" * 1000),
    ]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == bytes(1000) + b"a" * 5000 + b"b" + b"c" * 5000 + b"e" * 1000 + b"d"
    assert stream.drops == []


def test_cut_packets_leave_gaps_at_once(read, sender):
    packets = [sender.syn()]
    packets += [sender.at(n * 100, bytes([n]) * 100).cut(14 + 40 + 60) for n in (0, 2, 1, 3)]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"".join(bytes([n]) * 60 + bytes(40) for n in range(4))
    assert stream.gaps == [(60, 40), (160, 40), (260, 40), (360, 40)]


def test_the_whole_copy_of_a_cut_packet_is_used(read, sender):
    # The cut one is held, so that the whole one still comes in time.
    cut = sender.at(100, b"b" * 100).cut(14 + 40 + 60)
    packets = [sender.syn(), cut, sender.at(100, b"c" * 100), sender.at(0, b"a" * 100)]
    stream = read(traffic.pcap(packets)).only
    assert stream.data == b"a" * 100 + b"b" * 60 + b"c" * 40
    assert stream.gaps == []


def test_packets_cut_before_the_payload(read, sender):
    packets = [sender.syn(), *(sender.at(n * 10, b"x" * 10).cut(54) for n in range(3))]
    stream = read(traffic.pcap(packets)).only
    assert stream.counts.captured == 0
    assert sum(length for _, length in stream.gaps) == 30


def test_data_for_a_hole_that_was_given_up_is_late(read, sender):
    limits = ReassemblyLimits(max_flow_packets=2)
    packets = [sender.syn(), *(sender.at(at, b"ab") for at in (2, 4, 6, 0, 8))]
    stream = read(traffic.pcap(packets), limits=limits).only
    assert stream.gaps == [(0, 2)]
    assert stream.drops == [("late", b"ab")]
    assert stream.counts.duplicate == 0


def test_time_gives_a_hole_up(read, sender):
    limits = ReassemblyLimits(max_wait_ns=1_500_000)
    packets = [sender.syn(), *(sender.at(at, b"ab") for at in (0, 4, 6, 8, 2))]
    stream = read(traffic.pcap(packets), limits=limits).only
    assert stream.gaps == [(2, 2)]
    assert stream.drops == [("late", b"ab")]


def test_udp_datagrams_keep_their_boundaries(read):
    sent = [b"one", b"", b"three", b"x" * 1400]
    packets = []
    for number, data in enumerate(sent):
        datagram = traffic.udp("10.0.0.1", "10.0.0.255", 5000, 5001, data)
        frame = traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.255", 17, datagram))
        packets.append(Packet(traffic.START_NS + number, frame))
    result = read(traffic.pcap(packets, is_nano=True))
    assert list(result.streams) == ["udp 10.0.0.1:5000 > 10.0.0.255:5001 #1"]
    stream = result.only
    assert stream.marks == [(at, traffic.START_NS + n) for n, at in enumerate([0, 3, 3, 8])]
    assert stream.data == b"".join(sent)
    assert stream.counts.packets == 4


def test_a_cut_datagram_leaves_a_gap(read):
    datagram = traffic.udp("10.0.0.1", "10.0.0.2", 5, 6, b"x" * 100)
    packet = Packet(0, traffic.ethernet(traffic.ipv4("10.0.0.1", "10.0.0.2", 17, datagram)))
    stream = read(traffic.pcap([packet.cut(80), packet])).only
    assert stream.gaps == [(38, 62)]
    assert [at for at, _ in stream.marks] == [0, 100]


PAYLOAD_AT = 14 + 20 + 20


def test_joined_segments_after_a_reordering_are_kept(read, sender):
    # The first one is good; a network card joined all others, and two of those are swapped.
    joined = Sender(is_checked=False)
    parts = [joined.at(10 + 3000 * n, bytes([n]) * 3000) for n in range(10)]
    parts[4], parts[5] = parts[5], parts[4]
    stream = read(traffic.pcap([sender.syn(), sender.at(0, b"a" * 10), *parts])).only
    assert stream.data == b"a" * 10 + b"".join(bytes([n]) * 3000 for n in range(10))
    assert stream.drops == []


@pytest.mark.parametrize("word", [b"\0\0", None])
def test_checksums_that_were_left_out_are_no_reason_to_drop(read, sender, word):
    # None stands for what Linux leaves there: the sum of the addresses, protocol and length.
    parts = [sender.at(10 * n, bytes([n]) * 10) for n in range(10)]
    for n in range(1, 10):
        data = bytearray(parts[n].data)
        if word is None:
            pseudo = data[26:34] + bytes([0, 6, 0, 20 + 10])
            left = (0xFFFF ^ traffic.checksum(bytes(pseudo))).to_bytes(2, "big")
        data[50:52] = left if word is None else word
        parts[n] = replace(parts[n], data=bytes(data))
    order = [0, 2, 1, 3, 4, 7, 6, 5, 8, 9]
    stream = read(traffic.pcap([sender.syn(), *(parts[n] for n in order)])).only
    assert stream.data == b"".join(bytes([n]) * 10 for n in range(10))
    assert stream.drops == []


@pytest.mark.parametrize("later", [1, 3, 12])
def test_a_bad_copy_does_not_beat_its_good_retransmission(read, sender, later):
    parts = [sender.at(10 * n, bytes([n]) * 10) for n in range(16)]
    bad = damaged(parts[3], PAYLOAD_AT + 4, 1)
    packets = [*parts[:3], bad, *parts[4 : 3 + later], parts[3], *parts[3 + later :]]
    stream = read(traffic.pcap([sender.syn(), *packets])).only
    assert stream.data == b"".join(bytes([n]) * 10 for n in range(16))
    assert stream.drops == [("checksum", b"\3\3\3\3\2\3\3\3\3\3")]
    assert stream.counts.duplicate == 0


def test_a_bad_copy_is_used_where_no_good_one_comes(read, sender):
    parts = [sender.at(10 * n, bytes([n]) * 10) for n in range(16)]
    bad = damaged(parts[3], PAYLOAD_AT + 4, 1)
    stream = read(traffic.pcap([sender.syn(), *parts[:3], bad, *parts[4:]])).only
    assert stream.data[30:40] == b"\3\3\3\3\2\3\3\3\3\3"
    assert len(stream.data) == 160
    assert (stream.drops, stream.gaps) == ([], [])


def test_a_good_copy_that_comes_after_a_bad_one_was_used_is_a_conflict(read, sender):
    limits = ReassemblyLimits(max_flow_packets=4)
    parts = [sender.at(10 * n, bytes([n]) * 10) for n in range(16)]
    bad = damaged(parts[3], PAYLOAD_AT + 4, 1)
    packets = [sender.syn(), *parts[:3], bad, *parts[4:12], parts[3], parts[2], *parts[12:]]
    stream = read(traffic.pcap(packets), limits=limits).only
    assert stream.data[30:40] == b"\3\3\3\3\2\3\3\3\3\3"
    assert stream.drops == [("conflict", b"\3" * 10)]
    assert len(stream.suspects) == 1
    assert (stream.counts.conflict, stream.counts.duplicate) == (10, 10)


def test_where_every_other_checksum_is_bad_they_mean_nothing(read, sender):
    parts = [sender.at(10 * n, bytes([n]) * 10) for n in range(40)]
    for n in range(1, 40, 2):
        parts[n] = damaged(parts[n], PAYLOAD_AT, 1)
    packets = [sender.syn(), *parts[:20], parts[22], parts[21], parts[20], *parts[23:]]
    stream = read(traffic.pcap(packets)).only
    assert len(stream.data) == 400
    assert (stream.drops, stream.gaps) == ([], [])


def test_a_stray_syn_near_the_stream_takes_nothing_with_it(read, sender):
    packets = [sender.at(n * 100, bytes([n]) * 100) for n in range(1, 20)]
    packets.insert(9, sender.at(777_777, b"", flags=SYN | ACK))
    result = read(traffic.pcap(packets))
    assert rest_of(result) == [*range(1, 20)]
    assert all(stream.drops == [] for stream in result.streams.values())


@pytest.mark.parametrize("has_syn", [True, False])
def test_a_damaged_first_segment_is_told(read, sender, has_syn):
    packets = [sender.syn()] if has_syn else []
    packets += [sender.at(n * 100, bytes([n]) * 100) for n in range(6)]
    packets[has_syn] = damaged(packets[has_syn], 100, 1)
    stream = read(traffic.pcap(packets)).only
    assert stream.suspects == [(0, 100)]
    assert stream.counts.bad_checksums == 1
    assert len(stream.data) == 600


@pytest.mark.parametrize("has_syn", [True, False])
def test_two_damaged_first_segments_are_told(read, sender, has_syn):
    packets = [sender.syn()] if has_syn else []
    packets += [sender.at(n * 100, bytes([n]) * 100) for n in range(12)]
    for n in has_syn, has_syn + 1:
        packets[n] = damaged(packets[n], 100, 1)
    stream = read(traffic.pcap(packets)).only
    assert sum(size for _, size in stream.suspects) == 200
    assert stream.counts.bad_checksums == 2
    assert len(stream.data) == 1200


def datagrams(*, bad: set[int], unchecked: set[int]) -> bytes:
    """Twelve datagrams of 99 bytes, some damaged, some without a checksum."""
    packets = []
    for n in range(12):
        host = bytearray(traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, bytes([n]) * 99))
        if n in unchecked:
            host[6:8] = bytes(2)
        host[20] ^= n in bad
        data = traffic.ethernet(traffic.ip("10.0.0.1", "10.0.0.2", 17, bytes(host)))
        packets.append(traffic.Packet(traffic.START_NS + n, data))
    return traffic.pcap(packets)


@pytest.mark.parametrize("unchecked", [set(), {0}, {5}, {1, 4, 8}])
def test_a_damaged_datagram_is_told(read, unchecked):
    stream = read(datagrams(bad={3}, unchecked=unchecked)).only
    assert stream.suspects == [(297, 99)]
    assert stream.counts.bad_checksums == 1


@pytest.mark.parametrize("bad", [{0}, {0, 1}])
def test_damaged_first_datagrams_are_told(read, bad):
    stream = read(datagrams(bad=bad, unchecked=set())).only
    assert stream.suspects == [(0, 99 * len(bad))]
    assert stream.counts.bad_checksums == len(bad)


def test_bad_checksums_that_are_normal_are_not_counted(read):
    joined = Sender(is_checked=False)
    packets = [joined.at(n * 100, bytes([n]) * 100) for n in range(20)]
    stream = read(traffic.pcap(packets)).only
    assert (stream.suspects, stream.counts.bad_checksums) == ([], 0)
