from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wireloom import framing
from wireloom.errors import DecodeError, InvalidFieldError, TruncatedError
from wireloom.framing import SUSPECT_STEPS, Frame, Problem, Record, Scanner, Text, scan
from wireloom.wire import Limits

MARK = 0xA5
STRONG, WEAK, LISTED = 0, 1, 2
HEADER = 4


class Rules:
    """A small format: mark, kind, length of the frame (2 bytes), content.

    STRONG content starts with its own length (2 bytes), WEAK content says nothing, LISTED content
    is a list of strings, each with its length (1 byte). Counts what it is asked.
    """

    def __init__(self, has_magic: bool = True) -> None:
        self.has_magic = has_magic
        self.calls: Counter[str] = Counter()

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        self.calls["measure"] += 1
        if pos < end and data[pos] != MARK:
            raise InvalidFieldError("no mark", offset=pos, code="mark", path="mark")
        if pos + 1 < end and data[pos + 1] > LISTED:
            raise InvalidFieldError("no such kind", offset=pos + 1, code="kind", path="kind")
        if pos + HEADER > end:
            raise TruncatedError(
                needed=HEADER, available=end - pos, offset=pos, code="short_header"
            )
        size = int.from_bytes(data[pos + 2 : pos + 4], "big")
        if size < HEADER:
            raise InvalidFieldError("too short", offset=pos + 2, code="length", path="length")
        return size

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        self.calls["check"] += 1
        kind = data[pos + 1]
        pos += HEADER
        if kind == STRONG:
            if int.from_bytes(data[pos : pos + 2], "big") != end - pos - 2:
                raise InvalidFieldError("contradiction", offset=pos, code="inner", path="inner")
            return True
        while kind == LISTED and pos < end:
            if steps == 0:
                return False
            self.calls["field"] += 1
            steps = None if steps is None else steps - 1
            pos += 1 + data[pos]
            if pos > end:
                raise InvalidFieldError("past the end", offset=end, code="inner", path="items")
        return kind == LISTED

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        self.calls["find"] += 1
        found = data.find(bytes([MARK]), pos, end)
        return end if found < 0 else found


def header(kind: int, size: int) -> bytes:
    return bytes([MARK, kind]) + size.to_bytes(2, "big")


def strong(payload: bytes) -> bytes:
    return header(STRONG, HEADER + 2 + len(payload)) + len(payload).to_bytes(2, "big") + payload


def weak(payload: bytes) -> bytes:
    return header(WEAK, HEADER + len(payload)) + payload


def listed(*items: bytes) -> bytes:
    content = b"".join(bytes([len(item)]) + item for item in items)
    return header(LISTED, HEADER + len(content)) + content


def scanner(rules: Rules | None = None, max_frame: int = 1 << 20, offset: int = 0) -> Scanner:
    return Scanner("toy", rules or Rules(), Limits(max_frame=max_frame), offset)


def records(data: bytes | Iterable[bytes], has_magic: bool = True) -> list[Record]:
    return list(scan(scanner(Rules(has_magic)), data))


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def frames(found: Iterable[Record]) -> list[tuple[int, bytes]]:
    return [(record.offset, record.data) for record in found if isinstance(record, Frame)]


def problems(found: Iterable[Record]) -> list[tuple[int, bytes, str]]:
    return [(r.offset, r.data, r.code) for r in found if isinstance(r, Problem)]


def test_records_know_their_length_and_pickle() -> None:
    made = (
        Frame("toy", 3, b"abc"),
        Text("toy", 6, b"line\n", True),
        Problem("toy", 11, b"??", "mark", "no mark", "mark", 11),
    )
    assert [record.length for record in made] == [3, 5, 2]
    assert pickle.loads(pickle.dumps(made)) == made


def test_frames_back_to_back_are_cut_with_their_offsets() -> None:
    parts = [strong(b"one"), weak(b"two"), listed(b"a", b"bc"), strong(b"")]
    found = records(b"".join(parts))
    assert [record.data for record in found] == parts
    assert [record.offset for record in found] == [0, 9, 16, 25]
    assert all(isinstance(record, Frame) and record.format == "toy" for record in found)


def test_the_offset_of_the_stream_is_that_of_its_first_byte() -> None:
    found = list(scan(scanner(offset=1000), strong(b"x") + b"?" + strong(b"y")))
    assert [record.offset for record in found] == [1000, 1007, 1008]
    assert [record.at for record in found if isinstance(record, Problem)] == [1007]


def test_a_proven_frame_is_given_out_with_its_last_byte() -> None:
    framer = scanner()
    data = strong(b"live")
    assert framer.feed(data[:-1]) == []
    assert framer.feed(memoryview(data)[-1:]) == [Frame("toy", 0, data)]
    assert framer.close() == []


def test_an_unproven_frame_waits_for_the_next_header_or_the_end() -> None:
    framer = scanner()
    first, second = weak(b"one"), weak(b"two")
    assert framer.feed(first) == []
    assert framer.feed(second[:3]) == []
    assert framer.feed(second[3:]) == [Frame("toy", 0, first)]
    assert framer.close() == [Frame("toy", 7, second)]


def test_an_empty_stream_has_no_records() -> None:
    assert records(b"") == []
    assert records([b"", b""]) == []


def test_garbage_before_between_and_after_is_quarantined_with_its_reason() -> None:
    one, two = strong(b"one"), listed(b"two")
    found = records(b"before" + one + b"between" + two + b"after")
    assert frames(found) == [(6, one), (22, two)]
    assert problems(found) == [
        (0, b"before", "mark"),
        (15, b"between", "mark"),
        (30, b"after", "mark"),
    ]
    first = found[0]
    assert isinstance(first, Problem)
    assert (first.reason, first.path, first.at) == ("no mark", "mark", 0)


def test_an_error_inside_a_frame_names_the_byte_where_reading_failed() -> None:
    broken = listed(b"ab", b"cd")[:-3] + b"\x09cd"
    (before, problem) = records(strong(b"") + broken)
    assert isinstance(before, Frame)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.path) == ("inner", "items")
    assert (problem.offset, problem.at) == (6, 6 + len(broken))


def test_a_truncated_tail_is_a_problem() -> None:
    one, two = strong(b"one"), strong(b"two")
    for size in range(1, len(two)):
        found = records(one + two[:size])
        assert frames(found) == [(0, one)]
        code = "short_header" if size < HEADER else "truncated"
        assert problems(found) == [(len(one), two[:size], code)]


def test_a_frame_behind_a_torn_one_is_found_where_the_stream_ends() -> None:
    torn, whole = strong(b"a very long payload")[:9], strong(b"whole")
    found = records(torn + whole)
    assert frames(found) == [(len(torn), whole)]
    assert problems(found) == [(0, torn, "truncated")]


def test_a_frame_over_the_limit_is_a_problem_before_it_is_there() -> None:
    framer = scanner(max_frame=100)
    large = strong(bytes(200))
    found = framer.feed(large[:HEADER]) + framer.feed(strong(b"next"))
    assert frames(found) == [(HEADER, strong(b"next"))]
    assert problems(found) == [(0, large[:HEADER], "too_large")]


def test_an_unproven_length_over_the_next_frame_swallows_nothing() -> None:
    """The header behind is missing and a frame stands inside: the length was wrong."""
    long = header(WEAK, 4 + 3 + 5) + b"abc"
    inner = strong(b"0123456789")
    found = records(long + inner + strong(b"x"))
    assert frames(found) == [(7, inner), (23, strong(b"x"))]
    assert problems(found) == [(0, long, "length")]


def test_an_unproven_frame_with_nothing_inside_and_garbage_behind_is_kept() -> None:
    one = weak(bytes([MARK]) + b"no frame" + bytes([MARK]))
    found = records(one + b"garbage" + weak(b"two"))
    assert frames(found) == [(0, one), (len(one) + 7, weak(b"two"))]


def test_a_candidate_in_garbage_must_be_followed_by_a_header_if_unproven() -> None:
    false, good = weak(b"xy"), strong(b"good")
    found = records(b"?" + false + b"?" + good)
    assert frames(found) == [(8, good)]
    assert records(b"?" + false + good)[1] == Frame("toy", 1, false)


def test_a_candidate_that_runs_past_the_end_is_no_frame() -> None:
    data = b"?" + header(STRONG, 50) + b"tail"
    assert problems(records(data)) == [(0, data, "mark")]


def test_frames_in_a_damaged_region_are_checked_a_few_steps_only() -> None:
    """There the header behind decides on a long list; deeper damage is left to the decoder."""
    items = b"\x01x" * (2 * SUSPECT_STEPS)
    for inner, is_found in (
        (header(LISTED, HEADER + len(items)) + items, True),
        (header(LISTED, HEADER + len(items)) + items[:-2] + b"\xff?", True),
        (header(LISTED, HEADER + len(items)) + b"\xfe" * len(items), False),
    ):
        broken = header(LISTED, HEADER + 1 + len(inner)) + b"\xff" + inner
        found = records(broken + strong(b"next"))
        assert ((HEADER + 1, inner) in frames(found)) == is_found
        assert frames(found)[-1] == (len(broken), strong(b"next"))


# --- without a magic ----------------------------------------------------------------------------

# Says that it goes on for 9 bytes; has what it says in it, and of the next frame the first 4 bytes.
RUNS_OVER = strong(b"012345678")[:-4]


def without_magic(data: bytes) -> list[Record]:
    """The records, which do not depend on the chunks."""
    found = records(data, has_magic=False)
    for size in range(1, len(data)):
        assert records(cut(data, size), has_magic=False) == found
    return found


def test_a_frame_with_a_header_behind_goes_before_one_that_runs_into_it() -> None:
    good, last = strong(b"good"), strong(b"last")
    data = b"?" + RUNS_OVER + good + last
    start = 1 + len(RUNS_OVER)
    found = without_magic(data)
    assert frames(found) == [(start, good), (start + len(good), last)]
    assert problems(found) == [(0, data[:start], "mark")]
    # A magic makes the content proof enough, and nothing has to be waited for.
    assert frames(records(data)) == [(1, data[1:16]), (start + len(good), last)]


def test_the_end_of_the_stream_is_as_good_as_a_header_behind() -> None:
    good = strong(b"good")
    found = without_magic(b"?" + RUNS_OVER + good)
    assert frames(found) == [(1 + len(RUNS_OVER), good)]
    # Were a byte of garbage behind, either one could be the frame: the first is taken.
    assert frames(without_magic(b"?" + RUNS_OVER + good + b"?")) == [(1, RUNS_OVER + good[:4])]


def test_a_whole_frame_between_two_damaged_ones_is_found() -> None:
    whole, last = strong(b"whole"), strong(b"last")
    for inside in (whole, strong(whole + b"no header"), listed(b"one", b"two"), listed(weak(b"x"))):
        found = without_magic(b"?damaged" + inside + b"damaged?" + last)
        assert frames(found) == [(8, inside), (16 + len(inside), last)]


def test_a_header_behind_alone_does_not_go_before_a_proven_content() -> None:
    """Nor has a frame that a header is behind to fear those inside it."""
    proven = strong(weak(b"") + weak(b"") + b"...")
    assert frames(without_magic(b"?" + proven + b"?")) == [(1, proven)]
    unproven, last = weak(strong(b"inside")), strong(b"last")
    found = without_magic(b"?" + unproven + last)
    assert frames(found) == [(1, unproven), (1 + len(unproven), last)]


def test_the_first_of_several_frames_with_a_header_behind_is_found() -> None:
    one, two = strong(b"1"), strong(b"2")
    false = strong(RUNS_OVER + one + two + bytes(9))[:-9]
    found = without_magic(b"?" + false + strong(b"3") + b"?")
    start = 1 + len(false) - len(one + two)
    assert frames(found)[:2] == [(start, one), (start + len(one), two)]


def test_a_bad_region_up_to_a_frame_inside_another_comes_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framing, "MAX_PROBLEM", 16)
    good = strong(b"good")
    for before in (b"?", b"?" * 16, b"?" * 40):
        data = before + strong(bytes(200))[:150] + good + good
        found = without_magic(data)
        assert frames(found) == [(len(data) - 20, good), (len(data) - 10, good)]
        assert {record.length for record in found[:-3]} == {16}


def test_a_long_bad_region_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_PROBLEM", 16)
    for garbage_len in (15, 16, 17, 31, 32, 33, 100):
        garbage = bytes(range(garbage_len))
        data = garbage + strong(b"found")
        whole = records(data)
        pieces = [record for record in whole if isinstance(record, Problem)]
        assert b"".join(piece.data for piece in pieces) == garbage
        assert all(piece.length == 16 for piece in pieces[:-1])
        assert 1 <= pieces[-1].length <= 16
        assert [piece.code for piece in pieces] == ["mark"] + ["resync"] * (len(pieces) - 1)
        assert [piece.at for piece in pieces] == [piece.offset for piece in pieces]
        assert frames(whole) == [(garbage_len, strong(b"found"))]
        for size in (1, 5, 16, 40):
            assert records(cut(data, size)) == whole


def test_garbage_is_given_out_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_PROBLEM", 1000)
    framer = scanner()
    given_out = 0
    for fed in range(100, 20_000, 100):
        given_out += sum(record.length for record in framer.feed(b"?" * 100))
        assert given_out >= fed - 1000 - 100
    assert sum(record.length for record in framer.close()) == 19_900 - given_out


# --- properties ---------------------------------------------------------------------------------

clean = st.binary(max_size=20).map(lambda raw: raw.replace(bytes([MARK]), b"\x00"))
good_frame = st.one_of(
    clean.map(strong),
    clean.map(weak),
    st.lists(clean, max_size=4).map(lambda items: listed(*items)),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Good frames, garbage, false headers; some bytes changed, some lost."""
    piece = st.one_of(
        good_frame,
        st.binary(max_size=12),
        st.builds(header, st.integers(0, 3), st.integers(0, 80)),
    )
    data = bytearray(b"".join(draw(st.lists(piece, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            at = draw(st.integers(0, len(data) - 1))
            data[at : at + draw(st.integers(1, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


@given(streams(), st.booleans(), st.data())
def test_any_chunking_gives_the_same_records(
    data: bytes, has_magic: bool, draws: st.DataObject
) -> None:
    whole = records(data, has_magic)
    assert records(cut(data, 1), has_magic) == whole
    assert records(cut(data, draws.draw(st.integers(2, 30))), has_magic) == whole
    places = sorted(draws.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    bounds = [0, *places, len(data)]
    assert records((data[a:b] for a, b in pairwise(bounds)), has_magic) == whole


@given(streams(), st.booleans())
def test_every_byte_is_in_exactly_one_record(data: bytes, has_magic: bool) -> None:
    found = records(data, has_magic)
    assert b"".join(record.data for record in found) == data
    offset = 0
    for record in found:
        assert record.offset == offset
        assert record.length > 0
        offset += record.length
        if isinstance(record, Problem):
            assert 0 <= record.at <= len(data)
            assert record.code
            assert record.reason


proven_frame = clean.map(strong) | st.lists(clean, max_size=4).map(lambda items: listed(*items))


@given(st.lists(proven_frame, max_size=8), st.booleans(), st.data())
def test_garbage_anywhere_loses_no_proven_frame(
    parts: list[bytes], has_magic: bool, draws: st.DataObject
) -> None:
    stream = b""
    expected = []
    for part in parts:
        stream += draws.draw(clean)
        expected.append((len(stream), part))
        stream += part
    stream += draws.draw(clean)
    assert frames(records(stream, has_magic)) == expected


@given(st.lists(good_frame, min_size=1, max_size=8), st.booleans(), st.data())
def test_a_damaged_length_never_swallows_the_frames_behind_it(
    parts: list[bytes], has_magic: bool, draws: st.DataObject
) -> None:
    starts = [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    hit = draws.draw(st.integers(0, len(parts) - 1))
    size = draws.draw(st.integers(0, 300) | st.integers(0, 0xFFFF))
    assume(size != len(parts[hit]))
    # Where nothing contradicts a length and it ends where a header stands, there is no damage
    # that a framer could see.
    assume(parts[hit][1] == STRONG or starts[hit] + size not in starts)
    damaged = bytearray(b"".join(parts))
    damaged[starts[hit] + 2 : starts[hit] + 4] = size.to_bytes(2, "big")
    if parts[hit][1] == LISTED:
        rest = bytes(damaged[starts[hit] : starts[hit] + size])
        with suppress(DecodeError, IndexError):
            assume(not Rules().check(rest, 0, len(rest), None))
    found = frames(records(bytes(damaged), has_magic))
    for i, part in enumerate(parts):
        if i != hit:
            assert (starts[i], part) in found


# --- cost ---------------------------------------------------------------------------------------


def cost(data: bytes, chunk: int, has_magic: bool) -> Counter[str]:
    rules = Rules(has_magic)
    found = list(scan(scanner(rules), cut(data, chunk)))
    assert sum(record.length for record in found) == len(data)
    return rules.calls


def claim(size: int) -> bytes:
    """The beginning of a proven frame of so many bytes."""
    return header(STRONG, size) + (size - HEADER - 2).to_bytes(2, "big")


def hostile(count: int) -> dict[str, bytes]:
    """Streams in which every few bytes a header claims all that follows it."""
    rng = random.Random(count)
    size = 8 * count
    each = range(1, count)
    # A list item that is a header: the list that starts there has the rest of the items.
    items = b"".join(b"\x04" + header(LISTED, 5 * (count - i) + HEADER) for i in each)
    return {
        # Outer frame complete, no header behind it; every inner one needs one byte more.
        "unproven, each ends a byte later": header(WEAK, size)
        + b"...."
        + b"".join(header(WEAK, size + i - 8 * i) + b"...." for i in each)
        + b"." * (2 * count),
        "unproven, all end in one place": header(WEAK, size)
        + b"...."
        + b"".join(header(WEAK, size - 8 * i) + b"...." for i in each)
        + b"....",
        "unproven, random lengths": b"".join(
            header(WEAK, rng.randrange(HEADER, size)) + b"...." for _ in each
        ),
        "lists that fail at their end": header(LISTED, HEADER + len(items) + 5)
        + items
        + b"\xff" * 9,
        # Each is proven, has no header behind it, and all that follow it inside.
        "proven, all end in one place": b"?"
        + b"".join(claim(size - 8 * i) + b".." for i in each)
        + b"." * 16,
        "proven, each ends a byte later": b"?"
        + b"".join(claim(size - 7 * i) + b".." for i in each)
        + b"." * (2 * count),
        "proven, random lengths": b"?"
        + b"".join(claim(rng.randrange(6, size)) + b".." for _ in each),
        "contradictions": b"".join(header(STRONG, size - 8 * i) + b"...." for i in each),
        "marks only": bytes([MARK]) * size,
    }


@pytest.mark.parametrize("has_magic", [True, False])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
@pytest.mark.parametrize("name", hostile(4))
def test_cost_is_linear_on_hostile_headers(name: str, chunk: int, has_magic: bool) -> None:
    """Work per byte has a bound, however long the stream is and however it is cut."""
    for count in (100, 1600):
        data = hostile(count)[name]
        calls = cost(data, chunk, has_magic)
        # A position is a candidate at most twice, inside a frame and inside a bad region; a
        # candidate is measured with the header behind it; waiting for bytes repeats the last step.
        assert calls["find"] <= 3 * len(data)
        assert calls["measure"] <= 6 * len(data)
        assert calls["check"] <= 3 * len(data)
        assert calls["field"] <= SUSPECT_STEPS * len(data) / 2
