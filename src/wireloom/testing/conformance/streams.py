"""Checks on streams: any chunking, records that add up, damage that does not spread."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from random import Random

from wireloom.errors import DecodeError
from wireloom.format import Format
from wireloom.framing import Frame, Problem, Record, scan
from wireloom.testing.chunks import chunkings, cut_randomly
from wireloom.testing.conformance.samples import FormatCheck, decode, expect, framer
from wireloom.testing.mutations import Mutator

__all__ = ["STREAM_CHECKS", "check_sum"]

DAMAGED_STREAMS = 60
"""Streams tried for each kind of damage, with one damaged place each."""


_OFFSETS = "offsets in errors of rules count from data[0], in a Problem from the stream's start"


def check_sum(records: list[Record], size: int, start: int = 0) -> None:
    """Records follow one another without a gap and cover the stream.

    Raises:
        AssertionError: they do not.
    """
    at = start
    for record in records:
        expect(record.offset == at, f"a record starts at {record.offset}, the last ended at {at}")
        expect(record.length > 0, f"an empty record at {at}")
        if isinstance(record, Problem):
            expect(record.code and record.reason, f"no code or no reason: {record}")
            inside = at <= record.at <= start + size
            expect(inside, f"a problem at {at} is blamed on {record.at}: {_OFFSETS}")
        at += record.length
    expect(at == start + size, f"the records cover {at - start} of {size} bytes")


def is_described(format: Format) -> None:
    """The format describes itself, its options, its types and their byte tables."""
    expect(format.name.isidentifier() and format.name.islower(), f"bad name {format.name!r}")
    expect(format.title and format.summary.endswith("."), "no title, or the summary is no sentence")
    expect(format.kind in ("transport", "message"), f"no kind {format.kind!r}")
    for option in format.options:
        expect(option.doc, f"option {option.name} is not explained")
        known = option.default is None or not option.choices or option.default in option.choices
        expect(known, f"the default of {option.name} is not one of its choices")
    types = format.types()
    expect(types and all(info.name and info.summary for info in types), "a type is not explained")
    expect(len({info.code for info in types}) == len(types), "a type code is listed twice")
    expect(format.samples(), "no samples")
    spec = Path(inspect.getfile(type(format))).with_name("SPEC.md")
    expect(spec.is_file(), f"{spec.name} is missing beside the format's module")


def _stream(format: Format, random: Random, most: int = 40) -> list[bytes]:
    samples = list(format.samples().values())
    random.shuffle(samples)
    return samples[:most]


def any_chunking_gives_the_same_records(format: Format) -> None:
    """How a stream arrives does not change what it says, whether it is whole or damaged."""
    parts = _stream(format, Random(1))
    stream = b"".join(parts)
    at = 0
    frames: list[Record] = []
    for part in parts:
        frames.append(Frame(format.name, at, part))
        at += len(part)
    expect(list(scan(framer(format), stream)) == frames, "not one frame for each sample")
    mutants = Mutator(parts, seed=1).mutants(0, 25)
    for data in (stream, *(mutant + parts[0] for _, mutant in mutants)):
        whole = list(scan(framer(format), data))
        check_sum(whole, len(data))
        for name, chunks in chunkings(data):
            expect(list(scan(framer(format), chunks)) == whole, f"cut {name}: {data.hex()}")


def offsets_count_from_the_start_of_the_stream(format: Format) -> None:
    """A framer that starts in the middle of a stream says so in every record."""
    random = Random(2)
    limits, strict, own = format.check_options({})
    for _, data in Mutator(_stream(format, random), seed=2).mutants(0, 25):
        stream = format.framer(limits=limits, strict=strict, offset=1000, **own)
        shifted = list(scan(stream, cut_randomly(data, random)))
        check_sum(shifted, len(data), 1000)
        plain = list(scan(framer(format), data))
        expect([r.data for r in shifted] == [r.data for r in plain], "other records at an offset")
        expect([type(r) for r in shifted] == [type(r) for r in plain], "other kinds at an offset")


def an_empty_stream_has_no_records(format: Format) -> None:
    """Nothing in, nothing out."""
    stream = framer(format)
    expect(stream.feed(b"") == [] and stream.close() == [], "records of an empty stream")


def buffers_are_not_kept(format: Format) -> None:
    """A caller may reuse its buffer after `feed`, and give any kind of buffer."""
    data = b"".join(_stream(format, Random(3), 5))
    whole = list(scan(framer(format), data))
    stream = framer(format)
    records: list[Record] = []
    buffer = bytearray(5)
    for start in range(0, len(data), 5):
        piece = data[start : start + 5]
        buffer[: len(piece)] = piece
        records += stream.feed(memoryview(buffer)[: len(piece)])
    records += stream.close()
    expect(records == whole, "the framer keeps the caller's buffer")
    expect(all(type(r.data) is bytes for r in records), "records hold something else than bytes")


# --- damage -------------------------------------------------------------------------------------


def _damages(part: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """A frame damaged in several ways. A changed byte may leave it valid, which does no harm."""
    at = random.randrange(len(part))
    yield "a changed byte", part[:at] + random.randbytes(1) + part[at + 1 :]
    yield "a lost end", part[:at]
    yield "a lost start", part[at + 1 :]
    yield "a hole", part[: at // 2] + part[at + 1 :]
    yield "a lost frame", b""
    yield "noise instead", random.randbytes(random.randint(1, 40))
    yield "noise before", random.randbytes(random.randint(1, 40)) + part
    yield "zeros instead", bytes(len(part))
    yield "ones instead", b"\xff" * len(part)
    yield "a twin", part[:at] + part


def _decodes(format: Format, frame: Frame) -> bool:
    try:
        decode(format, frame.data)
    except DecodeError:
        return False
    return True


def damage_does_not_spread(format: Format) -> None:
    """With one frame of a stream damaged, every other frame is still found in its place.

    One exception, which no reader without checksums can avoid: the damaged bytes may happen to be
    the start of another frame, most often when the end of a frame is lost and the start of the next
    one fits in its place. Frames that it covers are lost with it. To be accepted it must be a valid
    message, or its length must lead to the next frame.

    Another for formats whose frames have nothing but a delimiter at their end: what is damaged and
    does not end with it takes the next frame along.
    """
    delimiter = _delimiter(format)
    for seed in range(DAMAGED_STREAMS):
        random = Random(seed)
        parts = _stream(format, random, 7)
        middle = len(parts) // 2
        for kind, damaged in _damages(parts[middle], random):
            stream = b"".join([*parts[:middle], damaged, *parts[middle + 1 :]])
            records = list(scan(framer(format), stream))
            check_sum(records, len(stream))
            takes_next = bool(delimiter and damaged) and not damaged.endswith(delimiter)
            where = f"{kind}, seed {seed}"
            _find_all(format, parts, middle, damaged, records, where, takes_next)


def _delimiter(format: Format) -> bytes:
    """The byte that all samples end with, if nothing else tells where one starts; else nothing."""
    samples = list(format.samples().values())
    last = samples[0][-1:]
    if len({data[:1] for data in samples}) == 1:
        return b""  # they start with a mark
    return last if all(data.find(last) == len(data) - 1 for data in samples) else b""


def _find_all(
    format: Format,
    parts: list[bytes],
    middle: int,
    damaged: bytes,
    records: list[Record],
    where: str,
    takes_next: bool,
) -> None:
    start = sum(map(len, parts[:middle]))
    stop = start + len(damaged)
    frames = [record for record in records if isinstance(record, Frame)]
    found = {(frame.offset, frame.data) for frame in frames}
    lost_until = stop
    if takes_next and middle + 1 < len(parts):
        lost_until += len(parts[middle + 1])
    starts = {frame.offset for frame in frames} | {sum(record.length for record in records)}
    for frame in frames:
        end = frame.offset + frame.length
        if start <= frame.offset < lost_until and (end in starts or _decodes(format, frame)):
            lost_until = max(lost_until, end)
    at = 0
    for i, part in enumerate(parts):
        if i == middle:
            at = stop
            continue
        if i < middle or at >= lost_until:
            expect((at, part) in found, f"{where}: the frame at {at} is lost: {part.hex()}")
        at += len(part)


STREAM_CHECKS: tuple[FormatCheck, ...] = (
    is_described,
    any_chunking_gives_the_same_records,
    offsets_count_from_the_start_of_the_stream,
    an_empty_stream_has_no_records,
    buffers_are_not_kept,
    damage_does_not_spread,
)
