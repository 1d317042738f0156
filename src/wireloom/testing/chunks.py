"""Cut a byte stream into chunks in every way that has ever broken a framer.

>>> list(cut(b"abcdefg", 3))
[b'abc', b'def', b'g']
>>> [name for name, _ in chunkings(b"abc")]
['by 1', 'by 2', 'by 3', 'by 7', 'by 64', 'by 65536', 'at random 0', 'at random 1']
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

__all__ = ["SIZES", "chunkings", "cut", "cut_randomly"]

SIZES = (1, 2, 3, 7, 64, 65_536)
"""Byte by byte, within and across words, coprime to every word size, within and beyond a frame."""

_RANDOM = 2
"""Random cuts among the `chunkings` of a stream."""


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """The stream in pieces of `size` bytes; the last one may be shorter."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def cut_randomly(data: bytes, random: Random, most: int = 64) -> Iterator[bytes]:
    """The stream in pieces of 0 to `most` bytes: an empty read must not upset a framer either."""
    start = 0
    while start < len(data):
        stop = start + random.randint(0, most)
        yield data[start:stop]
        start = stop


def chunkings(data: bytes, seed: int = 0) -> Iterator[tuple[str, list[bytes]]]:
    """Every fixed chunking and some random ones, each with a name for a failure's message."""
    for size in SIZES:
        yield f"by {size}", list(cut(data, size))
    for extra in range(seed, seed + _RANDOM):
        yield f"at random {extra}", list(cut_randomly(data, Random(extra)))
