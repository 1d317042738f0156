"""Time against size: an input twice as long may take twice the time, never four times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from targets import Pattern, Target, patterns, repeated

from wireloom.errors import DecodeError
from wireloom.framing import scan
from wireloom.testing.chunks import cut
from wireloom.testing.conformance.samples import decode, framer, outline

SMALLEST = 4_096
LARGEST = 262_144
"""Sizes that are tried. What is fast even at the largest cannot be used for an attack."""

ENOUGH_SECONDS = 0.01
"""Shorter times are not judged: they are mostly noise of the clock and the machine."""

MAX_RATIO = 2.8
"""Growth of the time when the size doubles. Linear is 2, quadratic is 4."""

DOUBLINGS = 3
"""Over so many doublings the time must have grown that much, each time, to be too much."""

Found = tuple[bytes, str]
Reader = Callable[[bytes], object]


def check_growth(target: Target, slowest: list[bytes]) -> list[Found]:
    """Inputs whose time grows faster than their size."""
    made = dict(patterns(target.name))
    made |= {f"slow mutant {i} repeated": repeated(data) for i, data in enumerate(slowest) if data}
    found = []
    for title, pattern in made.items():
        for name, read in _readers(target):
            if (problem := _grows(pattern, read)) is not None:
                found.append((pattern(SMALLEST), f"{name} of {title!r}: {problem}"))
    print(f"{target.name}: {len(made)} slow patterns, {len(found)} grow faster than their size")
    return found


def _readers(target: Target) -> Iterator[tuple[str, Reader]]:
    format, known = target.format, target.known

    def try_decode(data: bytes) -> None:
        try:
            decode(format, data, max_fields=1 << 20, **known)
        except DecodeError:
            return

    def try_scan(data: bytes) -> None:
        for _ in scan(framer(format, **known), data):
            pass

    def try_chunks(data: bytes) -> None:
        for _ in scan(framer(format, **known), cut(data, 256)):
            pass

    yield "decode", try_decode
    yield "scan", try_scan
    yield "scan in chunks", try_chunks
    yield "outline", lambda data: outline(format, data, **known)
    yield "detect", format.detect


def _seconds(read: Reader, data: bytes, repeats: int = 2) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        read(data)
        best = min(best, time.process_time() - began)
    return best


def _grows(pattern: Pattern, read: Reader) -> str | None:
    """What is wrong with the growth, or None."""
    size = SMALLEST
    while _seconds(read, pattern(size), 1) < ENOUGH_SECONDS:
        size *= 2
        if size > LARGEST:
            return None
    first = _seconds(read, pattern(size))
    shown = [f"{size:,} B {first * 1e3:.0f} ms"]
    # One slow moment of the machine must neither make nor hide a finding: the sum counts.
    for doubling in range(1, DOUBLINGS + 1):
        size *= 2
        spent = _seconds(read, pattern(size))
        least = MAX_RATIO**doubling if doubling == DOUBLINGS else 2.3**doubling
        if spent < least * first:
            return None
        shown.append(f"{size:,} B {spent * 1e3:.0f} ms")
    return f"time grows faster than size: {', '.join(shown)}"
