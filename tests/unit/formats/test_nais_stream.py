"""The NAIS stream decoder: its contract, any chunking, resynchronisation, and what damage costs."""

from __future__ import annotations

import pickle
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.errors import OptionError
from wireloom.formats.nais import FORMAT, LineRules, NaisPacket, StreamDecoder
from wireloom.formats.nais.rules import Refusal
from wireloom.framing import Frame, Problem, Record, Text, scan
from wireloom.testing.chunks import chunkings
from wireloom.wire import Limits

GOOD = bytes.fromhex("1e0300000002080117")
IDLE = None


def brief(record: Record) -> tuple[Any, ...]:
    if isinstance(record, Frame):
        return "frame", record.offset, record.data
    if isinstance(record, Text):
        return "text", record.offset, record.data, record.eol
    return record.code, record.offset, record.data


def run(*chunks: bytes | None, eof: bool = True, **options: Any) -> list[tuple[Any, ...]]:
    text = {"max_text": options.pop("max_text")} if "max_text" in options else {}
    decoder = StreamDecoder(LineRules(**options), **text)
    records: list[Record] = []
    for chunk in chunks:
        records += decoder.idle() if chunk is IDLE else decoder.feed(chunk)
    return [brief(record) for record in records + (decoder.close() if eof else [])]


def plainly(*chunks: bytes | None, eof: bool = True, **options: Any) -> list[tuple[Any, ...]]:
    """The contract of SPEC §2 once more, a byte at a time and with no thought for cost."""
    max_text = options.get("max_text", 4096)
    records: list[tuple[Any, ...]] = []
    data, pos, junk_end, pending = b"", 0, 0, 0

    def flush(stop: int, eol: bool) -> None:
        if stop > pending:
            records.append(("text", pending, data[pending:stop], eol))

    for part in [*chunks, *(["eof"] if eof else [])]:
        giving_up = ""
        if isinstance(part, bytes):
            data += part
        else:
            giving_up = "timeout" if part is IDLE else "truncated"
        while pos < len(data):
            if data[pos] == 0x1E:
                flush(pos, False)
                code, size = attempt(data[pos:], options)
                if code == "more" and not giving_up:
                    pending = pos
                    break
                if code == "more":
                    code, size = giving_up, len(data) - pos
                if code == "frame":
                    records.append(("frame", pos, data[pos : pos + size]))
                    pos = pending = pos + size
                    continue
                records.append((code, pos, b"\x1e"))
                junk_end = max(junk_end, pos + size)
                pos = pending = pos + 1
            elif pos < junk_end:
                start = pos
                while pos < junk_end and data[pos] != 0x1E:
                    pos += 1
                records.append(("junk", start, data[start:pos]))
                pending = pos
            else:
                pos += 1
                if data[pos - 1] == 0x0A or pos - pending == max_text:
                    flush(pos, data[pos - 1] == 0x0A)
                    pending = pos
    if eof:
        flush(len(data), False)
    return records


def attempt(data: bytes, options: dict[str, Any]) -> tuple[str, int]:
    """What the frame at the start of `data` comes to, and its size or extent."""
    most = options.get("max_len_bytes", 4)
    if len(data) < 5:
        return "more", 0
    if options.get("strict_rsv") and data[4] & 0xFE:
        return "bad_rsv", 5
    group = data[5 : 5 + most]
    last = next((i for i, byte in enumerate(group) if byte < 0x80), None)
    if last is None:
        return ("len_overflow", 5 + most) if len(group) == most else ("more", 0)
    length = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(group[: last + 1]))
    if length > options.get("max_payload", 1 << 20):
        return "too_long", 6 + last
    size = 7 + last + length
    if len(data) < size:
        return "more", 0
    return ("frame" if data[size - 1] == 0x17 else "bad_end"), size


# --- the contract -------------------------------------------------------------------------------


def test_text_ends_at_a_newline_a_frame_and_the_end() -> None:
    assert run(b"one\ntwo" + GOOD + b"three") == [
        ("text", 0, b"one\n", True),
        ("text", 4, b"two", False),
        ("frame", 7, GOOD),
        ("text", 16, b"three", False),
    ]


def test_long_text_is_cut() -> None:
    assert run(b"abcdefg\nab\nabcd\nab", max_text=4) == [
        ("text", 0, b"abcd", False),
        ("text", 4, b"efg\n", True),
        ("text", 8, b"ab\n", True),
        ("text", 11, b"abcd", False),
        ("text", 15, b"\n", True),
        ("text", 16, b"ab", False),
    ]


def test_text_that_fills_max_text_exactly_is_given_out_at_once() -> None:
    decoder = StreamDecoder(max_text=4)
    assert decoder.feed(b"abc") == []
    assert decoder.pending == 3
    assert decoder.feed(b"d") == [Text("nais", 0, b"abcd", False)]
    assert decoder.pending == 0


def test_an_idle_line_keeps_its_text() -> None:
    assert run(b"temp=", IDLE, b"21\n", IDLE) == [("text", 0, b"temp=21\n", True)]


def test_a_frame_may_hold_sync_bytes_anywhere() -> None:
    frame = bytes.fromhex("1e1e17170003") + b"\x1e\x17\x1e" + b"\x17"
    assert run(frame) == [("frame", 0, frame)]


def test_each_failure_has_its_extent() -> None:
    rest = b"\n" + GOOD
    assert run(b"\x1e\x03\x00\x00\x02" + rest, strict_rsv=True) == [
        ("bad_rsv", 0, b"\x1e"),
        ("junk", 1, b"\x03\x00\x00\x02"),
        ("text", 5, b"\n", True),
        ("frame", 6, GOOD),
    ]
    assert run(b"\x1e\x01\x00\x00\x00\x80\x80" + rest, max_len_bytes=2) == [
        ("len_overflow", 0, b"\x1e"),
        ("junk", 1, b"\x01\x00\x00\x00\x80\x80"),
        ("text", 7, b"\n", True),
        ("frame", 8, GOOD),
    ]
    assert run(b"\x1e\x01\x00\x00\x00\x89\x00" + rest, max_payload=8) == [
        ("too_long", 0, b"\x1e"),
        ("junk", 1, b"\x01\x00\x00\x00\x89\x00"),
        ("text", 7, b"\n", True),
        ("frame", 8, GOOD),
    ]
    assert run(b"\x1e\x01\x00\x00\x00\x01\n\n" + rest) == [
        ("bad_end", 0, b"\x1e"),
        ("junk", 1, b"\x01\x00\x00\x00\x01\n\n"),
        ("text", 8, b"\n", True),
        ("frame", 9, GOOD),
    ]


def test_rsv_bit_0_is_no_failure() -> None:
    frame = bytes.fromhex("1e030000010017")
    assert run(frame, strict_rsv=True) == [("frame", 0, frame)]


def test_a_frame_over_max_frame_is_too_long() -> None:
    assert [r[0] for r in run(GOOD, max_frame=8)] == ["too_long", "junk", "text"]
    assert run(GOOD, max_frame=9) == [("frame", 0, GOOD)]


def test_idle_gives_up_every_unfinished_frame() -> None:
    start = bytes.fromhex("1e010000000a")
    assert run(start + start + b"\n", IDLE, b"x\n", eof=False) == [
        ("timeout", 0, b"\x1e"),
        ("junk", 1, start[1:]),
        ("timeout", 6, b"\x1e"),
        ("junk", 7, start[1:] + b"\n"),
        ("text", 13, b"x\n", True),
    ]


def test_idle_prefers_what_is_certain() -> None:
    bad = bytes.fromhex("1e010000ff")
    assert run(bad, IDLE, strict_rsv=True)[0] == ("bad_rsv", 0, b"\x1e")


def test_the_extent_of_an_outer_failure_covers_what_follows_an_inner_frame() -> None:
    outer = b"\x1e\x01\x00\x00\x00\x10" + b"ab" + GOOD + b"cd\nef" + b"\x00"
    assert run(outer + b"h\n") == [
        ("bad_end", 0, b"\x1e"),
        ("junk", 1, outer[1:8]),
        ("frame", 8, GOOD),
        ("junk", 17, b"cd\nef\x00"),
        ("text", 23, b"h\n", True),
    ]


def test_in_frame_says_when_a_timer_is_needed() -> None:
    decoder = StreamDecoder()
    seen = []
    for chunk in (b"", b"text", GOOD[:4], GOOD[4:]):
        decoder.feed(chunk)
        seen.append((decoder.is_in_frame, decoder.pending))
    assert seen == [(False, 0), (False, 4), (True, 4), (False, 0)]


def test_closing_twice_gives_nothing_more() -> None:
    decoder = StreamDecoder()
    decoder.feed(b"text" + GOOD[:4])
    assert [brief(r)[0] for r in decoder.close()] == ["truncated", "junk"]
    assert decoder.close() == []


def test_offsets_start_where_the_stream_does() -> None:
    decoder = StreamDecoder(offset=1000)
    assert [r.offset for r in decoder.feed(b"a\n" + GOOD + b"\x1e\x03")] == [1000, 1002]
    closed = decoder.close()
    assert [(r.offset, r.at) for r in closed if isinstance(r, Problem)] == [
        (1011, 1013),
        (1012, 1012),
    ]


def test_problems_say_why_and_where() -> None:
    problem = list(scan(StreamDecoder(), b"ab\n\x1e\x03\x00\x00\x00\x02\x08\x01\x00"))[1]
    assert isinstance(problem, Problem)
    assert (problem.code, problem.path, problem.at) == ("bad_end", "sync_end", 11)
    assert "SYNC_END" in problem.reason
    [refused, *_] = scan(StreamDecoder(LineRules(max_payload=1)), GOOD)
    assert isinstance(refused, Problem)
    assert (refused.path, refused.at) == ("len", 5)
    assert refused.reason == "payload 2 is over the limit of 1"
    assert pickle.loads(pickle.dumps(refused)) == refused


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="max_text"):
        StreamDecoder(max_text=0)
    with pytest.raises(OptionError, match="max_payload"):
        LineRules(max_payload=-1)
    for count in (0, 11):
        with pytest.raises(OptionError, match="max_len_bytes"):
            LineRules(max_len_bytes=count)


def test_any_bytes_like_chunk_is_taken_and_none_is_kept() -> None:
    decoder = StreamDecoder()
    chunk = bytearray(GOOD)
    assert decoder.feed(memoryview(chunk)[:5]) == []
    chunk[:] = bytes(9)
    assert [r.data for r in decoder.feed(bytearray(GOOD[5:]))] == [GOOD]


def test_scan_takes_the_options() -> None:
    options = {"max_payload": 1, "max_text": 2, "strict_rsv": True, "max_len_bytes": 1}
    assert [brief(r)[0] for r in wireloom.scan(b"abc" + GOOD, "nais", **options)] == [
        "text",
        "text",
        "too_long",
        "junk",
        "text",
        "text",
    ]
    strict = wireloom.scan(b"\x1e\x03\x00\x00\xf0\x00\x17", "nais", strict=True)
    assert [brief(r)[0] for r in strict] == ["bad_rsv", "junk", "text"]
    framer = FORMAT.framer(limits=Limits(), strict=False, offset=7)
    assert [r.offset for r in framer.feed(GOOD)] == [7]


# --- any stream, any chunking -------------------------------------------------------------------

packets = st.builds(
    NaisPacket,
    type=st.sampled_from([0, 1, 3, 10, 0x17, 0x1E, 255]),
    sline=st.sampled_from([0, 0x1E, 255]),
    dline=st.sampled_from([0, 0x17, 0x1E]),
    rsv=st.sampled_from([0, 1, 2, 0x1E]),
    payload=st.binary(max_size=40) | st.binary(min_size=126, max_size=130),
)
frames = packets.map(NaisPacket.encode)
tricky = st.lists(
    st.sampled_from([b"\x1e", b"\x17", b"\n", b"\x00", b"\x02", b"\x80", b"\xff", b"a"]),
    max_size=20,
).map(b"".join)
damaged = st.tuples(frames, st.integers(0, 60), st.integers(0, 255)).map(
    lambda t: t[0][: t[1] % len(t[0])] + bytes([t[2]]) + t[0][t[1] % len(t[0]) + 1 :]
)
cut_short = st.tuples(frames, st.integers(0, 60)).map(lambda t: t[0][: t[1] % len(t[0])])
pieces = st.one_of(
    frames, frames, tricky, damaged, cut_short, st.binary(max_size=12), st.just(IDLE)
)
options = st.fixed_dictionaries(
    {},
    optional={
        "max_payload": st.sampled_from([0, 5, 127, 128]),
        "max_text": st.sampled_from([1, 3, 16]),
        "strict_rsv": st.booleans(),
        "max_len_bytes": st.sampled_from([1, 2, 5]),
    },
)


def recut(chunks: list[bytes | None], random: Random) -> list[bytes | None]:
    """The same stream in other chunks; what is between two idle marks stays there."""
    out: list[bytes | None] = []
    for chunk in chunks:
        if chunk is IDLE:
            out.append(IDLE)
            continue
        marks = sorted(random.choices(range(len(chunk) + 1), k=random.randint(0, 6)))
        out += [chunk[a:b] for a, b in pairwise([0, *marks, len(chunk)])]
    return out


def bytewise(chunks: list[bytes | None]) -> list[bytes | None]:
    return [
        piece
        for chunk in chunks
        for piece in ([IDLE] if chunk is IDLE else [bytes([byte]) for byte in chunk])
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12), options, st.booleans(), st.randoms(use_true_random=False))
def test_any_stream_in_any_chunks_gives_the_records_of_the_contract(
    chunks: list[bytes | None], chosen: dict[str, Any], eof: bool, random: Random
) -> None:
    expected = plainly(*chunks, eof=eof, **chosen)
    assert run(*chunks, eof=eof, **chosen) == expected
    assert run(*recut(chunks, random), eof=eof, **chosen) == expected
    assert run(*bytewise(chunks), eof=eof, **chosen) == expected
    stream = b"".join(chunk for chunk in chunks if chunk is not IDLE)
    covered = b"".join(record[2] for record in expected)
    assert covered == (stream if eof else stream[: len(covered)])
    offsets = [record[1] for record in expected]
    assert offsets == [sum(len(r[2]) for r in expected[:i]) for i in range(len(expected))]


@settings(max_examples=100, deadline=None)
@given(st.lists(frames, min_size=1, max_size=5), st.integers(7, 200), st.binary(max_size=6))
def test_a_false_start_never_hides_the_frames_behind_it(
    good: list[bytes], announced: int, middle: bytes
) -> None:
    # A frame that announces more than it has, so that it seems to reach over the good ones.
    middle = middle.replace(b"\x1e", b"-")
    start = NaisPacket(type=1, payload=bytes(announced)).encode()[: -announced - 1] + middle
    stream = start + b"".join(good)
    found = [record for record in run(stream) if record[0] == "frame"]
    if found and found[0][1] == 0:
        return  # it happened to end with SYNC_END where it should
    assert [record[2] for record in found] == good


def test_chunks_of_every_size_give_the_same_records() -> None:
    random = Random(3)
    parts = [GOOD, b"text\n", GOOD[:6], b"\x1e" * 9, random.randbytes(50), GOOD]
    stream = b"".join(random.choices(parts, k=60))
    expected = list(scan(StreamDecoder(), stream))
    for name, chunks in chunkings(stream):
        assert list(scan(StreamDecoder(), chunks)) == expected, name


# --- cost ---------------------------------------------------------------------------------------


class Counting:
    """Rules that count how often a header is looked at."""

    def __init__(self) -> None:
        self.rules = LineRules()
        self.calls = 0

    def measure(self, data: bytearray, pos: int, end: int) -> int | Refusal | None:
        self.calls += 1
        return self.rules.measure(data, pos, end)


HOSTILE = {
    "nothing but sync bytes": b"\x1e" * 10_000,
    "overlapping frames of a mebibyte": bytes.fromhex("1e01000000808040") * 3000,
    "overlapping frames of the header's own length": bytes.fromhex("1e010000000b") * 3000,
    "sync bytes before a number that goes on": b"\x1e\x1e\x1e\x1e\x1e\x80\x80" * 2000,
    "good frames with sync bytes": bytes.fromhex("1e1e1e1e1e021e1e17") * 2000,
}


@pytest.mark.parametrize("stream", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("chunk", [1, 9, 4096, 1 << 20])
@pytest.mark.parametrize("ending", ["close", "idle"])
def test_each_sync_byte_is_decided_once(stream: bytes, chunk: int, ending: str) -> None:
    decoder, counting = StreamDecoder(), Counting()
    decoder._rules = counting  # type: ignore[assignment]
    most = 0
    count = 0
    for at in range(0, len(stream), chunk):
        count += len(decoder.feed(stream[at : at + chunk]))
        most = max(most, decoder.pending)
    count += len(decoder.idle() if ending == "idle" else decoder.close())
    starts = stream.count(b"\x1e")
    assert count <= 2 * starts + 1
    # Once while it waits for each byte of header and LEN (only if they come one by one), once
    # when the frame should end, once when the line goes idle.
    waits = min(9, 1 + 9 // chunk)
    assert counting.calls <= (waits + 2) * starts + 1
    assert most <= (1 << 20) + 16
    assert decoder.pending == 0


def test_searching_text_goes_on_where_it_stopped() -> None:
    decoder = StreamDecoder(max_text=10_000)
    for _ in range(9_999):
        assert decoder.feed(b"x") == []
        assert decoder._searched == decoder.pending
    assert [r.length for r in decoder.feed(b"x")] == [10_000]
