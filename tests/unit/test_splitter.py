"""Frames of a live stream: each at its last byte, linear, one copy at most."""

from __future__ import annotations

from random import Random

import pytest

from wireloom.errors import DecodeError, FrameTooLargeError, LimitError, TruncatedError
from wireloom.framing import Splitter
from wireloom.testing.chunks import chunkings
from wireloom.wire import Limits


class Rules:
    """``!``, four digits, so many bytes in all."""

    def __init__(self) -> None:
        self.calls = 0

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        self.calls += 1
        if data[pos] != ord("!"):
            raise DecodeError("no header", offset=pos, code="magic")
        if end - pos < 5:
            raise TruncatedError(needed=5, available=end - pos, offset=pos)
        return int(data[pos + 1 : pos + 5])


def frame(size: int) -> bytes:
    return (b"!%04d" % size).ljust(size, b".")


FRAMES = [frame(size) for size in (5, 6, 100, 5, 4000, 9, 64)]


def test_every_chunking_gives_the_same_frames() -> None:
    for name, chunks in chunkings(b"".join(FRAMES) + b"!00"):
        splitter = Splitter(Rules())
        found = []
        for chunk in chunks:
            splitter.feed(chunk)
            found += list(splitter)
        assert found == FRAMES, name
        assert splitter.pending == 3
        assert splitter.offset == sum(map(len, FRAMES))


def test_a_frame_is_given_at_its_last_byte() -> None:
    splitter = Splitter(Rules())
    data = frame(40)
    for i in range(40):
        assert splitter.pending == i
        splitter.feed(data[i : i + 1])
        assert list(splitter) == ([data] if i == 39 else [])


def test_chunks_may_wait_to_be_taken() -> None:
    splitter = Splitter(Rules())
    for data in FRAMES:
        splitter.feed(data[:7])
        splitter.feed(data[7:])
        splitter.feed(b"")
    assert splitter.pending == sum(map(len, FRAMES))
    assert list(splitter) == FRAMES


def test_a_chunk_that_is_a_frame_is_not_copied() -> None:
    splitter = Splitter(Rules())
    data = frame(4000)
    splitter.feed(data)
    assert next(splitter) is data


def test_what_the_caller_changes_later_does_not_reach_the_frames() -> None:
    splitter = Splitter(Rules())
    buffer = bytearray(frame(10) + frame(8)[:6])
    splitter.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert list(splitter) == [frame(10)]
    buffer[:2] = b".."
    splitter.feed(memoryview(buffer)[:2])
    buffer[:2] = b"xx"
    assert list(splitter) == [frame(8)]


def test_a_header_is_measured_a_few_times_whatever_the_chunks() -> None:
    rules = Rules()
    splitter = Splitter(rules)
    for byte in frame(9000):
        splitter.feed(bytes([byte]))
        list(splitter)
    assert rules.calls == 2
    assert splitter.offset == 9000


def test_a_frame_in_many_chunks_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is handed out is the object that was filled, so that filling it was the only copy.
    import wireloom.framing

    made = []

    class Watched(wireloom.framing.BytesIO):
        def getvalue(self) -> bytes:
            made.append(super().getvalue())
            return made[-1]

    monkeypatch.setattr(wireloom.framing, "BytesIO", Watched)
    splitter = Splitter(Rules())
    data = frame(9000)
    for start in range(0, 9000, 1000):
        splitter.feed(data[start : start + 1000])
    (found,) = splitter
    assert found == data
    assert found is made[-1]


def test_good_frames_before_a_bad_header_are_given() -> None:
    for chunks in ([frame(12) + frame(6) + b"?"], [frame(12), frame(6)[:2], frame(6)[2:] + b"?"]):
        splitter = Splitter(Rules())
        for chunk in chunks:
            splitter.feed(chunk)
        assert [next(splitter), next(splitter)] == [frame(12), frame(6)]
        for _ in range(2):  # and not something else the next time
            with pytest.raises(DecodeError) as caught:
                next(splitter)
            assert (caught.value.code, caught.value.offset) == ("magic", 18)


def test_a_frame_that_is_too_large_is_refused_at_its_header() -> None:
    for cut in (5, 3):
        splitter = Splitter(Rules(), Limits(max_frame=100))
        splitter.feed(frame(100))
        assert next(splitter) == frame(100)
        splitter.feed(b"!0101"[:cut])
        splitter.feed(b"!0101"[cut:])
        for _ in range(2):
            with pytest.raises(FrameTooLargeError) as caught:
                next(splitter)
            assert (caught.value.value, caught.value.limit) == (101, 100)
            assert caught.value.offset == 100


def test_who_does_not_take_frames_cannot_feed_for_ever() -> None:
    splitter = Splitter(Rules(), Limits(max_frame=100))
    splitter.feed(frame(90) * 10)  # one chunk may be of any size: it is there already
    with pytest.raises(LimitError, match="bytes not taken 990 is over the limit of 200"):
        splitter.feed(frame(90))
    assert list(splitter) == [frame(90)] * 10
    splitter.feed(frame(90))
    assert list(splitter) == [frame(90)]


def test_random_streams_come_back() -> None:
    rng = Random(5)
    frames = [frame(rng.choice((5, 6, 7, rng.randint(5, 300)))) for _ in range(500)]
    data = b"".join(frames)
    for _ in range(20):
        splitter = Splitter(Rules())
        found, pos = [], 0
        while pos < len(data):
            size = rng.choice((1, 2, 5, rng.randint(1, 400)))
            splitter.feed(data[pos : pos + size])
            pos += size
            if rng.random() < 0.7:
                found += list(splitter)
        assert found + list(splitter) == frames
        assert splitter.pending == 0
