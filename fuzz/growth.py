"""Time against size: an input twice as long may take twice the time, never four times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from targets import Pattern, Target, patterns

from wireloom.errors import DecodeError
from wireloom.framing import scan
from wireloom.testing.conformance.samples import decode, framer, outline

SIZES = (8_192, 16_384, 32_768, 65_536)
LARGE = (131_072, 262_144, 524_288)
"""Where a pattern looks suspicious: sizes at which a quadratic cost cannot hide."""

MAX_RATIO = 3.0
"""Growth of the time when the size doubles. Linear is 2, quadratic is 4."""

NOISE_SECONDS = 0.002
"""Shorter times are not judged: they are mostly the clock's and the machine's."""

REPEATS = 3

Found = tuple[bytes, str]


def check_growth(target: Target, slowest: list[bytes]) -> list[Found]:
    """Inputs whose time grows faster than their size."""
    made = dict(patterns(target.name))
    for i, data in enumerate(slowest):
        if data:
            made[f"slow mutant {i} repeated"] = lambda size, data=data: (
                data * (size // len(data) + 1)
            )
    found = []
    for title, pattern in made.items():
        for name, read in _readers(target):
            if (problem := _grows(pattern, read)) is not None:
                found.append((pattern(SIZES[0]), f"{name} of {title!r}: {problem}"))
    print(f"{target.name}: {len(made)} slow patterns, {len(found)} grow faster than their size")
    return found


def _readers(target: Target) -> Iterator[tuple[str, Callable[[bytes], object]]]:
    format = target.format

    def try_decode(data: bytes) -> None:
        try:
            decode(format, data, max_fields=1 << 20)
        except DecodeError:
            return

    yield "decode", try_decode
    yield "scan", lambda data: list(scan(framer(format), data))
    yield "outline", lambda data: outline(format, data)
    yield "detect", format.detect
    yield (
        "scan in chunks",
        lambda data: list(
            scan(framer(format), (data[i : i + 256] for i in range(0, len(data), 256)))
        ),
    )


def _seconds(read: Callable[[bytes], object], data: bytes, repeats: int = REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        read(data)
        best = min(best, time.process_time() - began)
    return best


def _grows(pattern: Pattern, read: Callable[[bytes], object]) -> str | None:
    """What is wrong with the growth, or None. Suspicion is confirmed at larger sizes."""
    whole = _seconds(read, pattern(SIZES[-1]), 1)
    if whole < NOISE_SECONDS:
        return None
    times = [_seconds(read, pattern(size)) for size in SIZES]
    # Over three doublings linear is a factor of 8, quadratic of 64.
    if times[-1] < MAX_RATIO**3 * max(times[0], NOISE_SECONDS / 8):
        return None
    large = [_seconds(read, pattern(size), 2) for size in LARGE]
    ratios = [later / max(earlier, 1e-9) for earlier, later in pairwise(large)]
    if min(ratios) < MAX_RATIO:
        return None
    shown = ", ".join(f"{s:,} B {t * 1e3:.1f} ms" for s, t in zip(LARGE, large, strict=True))
    return f"time grows {'x, '.join(f'{r:.1f}' for r in ratios)}x when the size doubles: {shown}"
