"""Damage valid messages in the ways that find bugs in decoders, the same way for the same seed.

A mutant is determined by the samples, a seed and an index, so that a failure is reproduced from two
numbers:

>>> mutator = Mutator([b"hello world", b"0123456789"], seed=1)
>>> mutator.mutant(3) == Mutator([b"hello world", b"0123456789"], seed=1).mutant(3)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal

__all__ = ["EDITS", "MAX_MUTANT", "Edit", "Mutator"]

MAX_MUTANT = 1 << 16
"""Most bytes of a mutant; edits that copy stop there, or growing mutants would slow the run."""

Edit = Callable[[bytearray, bytes, Random], None]
"""Changes a message in place; the second argument is another sample to take bytes from."""

_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_ORDERS: tuple[Literal["big", "little"], ...] = ("big", "little")
_MOST_EDITS = 5


def _span(random: Random, size: int, most: int = 64) -> tuple[int, int]:
    """A range of up to `most` bytes inside `size` bytes."""
    start = random.randrange(size + 1)
    return start, min(size, start + random.randint(1, most))


def flip_bit(data: bytearray, other: bytes, random: Random) -> None:
    """Flip one bit."""
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def set_byte(data: bytearray, other: bytes, random: Random) -> None:
    """Set a byte to a boundary value, or to one that means something somewhere else."""
    if data:
        values = random.choice((_BYTES, data, other or _BYTES))
        data[random.randrange(len(data))] = random.choice(values)


def set_number(data: bytearray, other: bytes, random: Random) -> None:
    """Set what may be a length or a count to a boundary value, in either byte order."""
    size = random.choice((1, 2, 2, 3, 4, 4, 8))
    if len(data) < size:
        return
    at = random.randrange(len(data) - size + 1)
    order = random.choice(_ORDERS)
    now = int.from_bytes(data[at : at + size], order)
    top = 1 << 8 * size
    left = len(data) - at
    limits = (0, 1, 2, top - 1, top - 2, top >> 1, (top >> 1) - 1)
    near = (now + 1, now - 1, now * 2, now >> 1)
    ends = (left, left - 1, left + 1, left - size, left - size - 1, len(data), len(data) + 1)
    value = random.choice(random.choice((limits, near, ends)))
    data[at : at + size] = (value % top).to_bytes(size, order)


def insert(data: bytearray, other: bytes, random: Random) -> None:
    """Put random bytes somewhere."""
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(random.randint(1, 16))


def delete(data: bytearray, other: bytes, random: Random) -> None:
    """Take bytes out."""
    start, stop = _span(random, len(data))
    del data[start:stop]


def duplicate(data: bytearray, other: bytes, random: Random) -> None:
    """Repeat a range, once or often."""
    start, stop = _span(random, len(data))
    piece = bytes(data[start:stop])
    times = random.choice((1, 1, 1, 2, 8, 64))
    if len(data) + len(piece) * times <= MAX_MUTANT:
        data[stop:stop] = piece * times


def truncate(data: bytearray, other: bytes, random: Random) -> None:
    """Cut off the end."""
    del data[random.randrange(len(data) + 1) :]


def swap(data: bytearray, other: bytes, random: Random) -> None:
    """Swap two ranges."""
    if len(data) < 2:
        return
    middle = random.randrange(1, len(data))
    start, stop = _span(random, middle)
    begin, end = _span(random, len(data) - middle)
    begin, end = begin + middle, end + middle
    data[start:end] = data[begin:end] + data[stop:begin] + data[start:stop]


def graft(data: bytearray, other: bytes, random: Random) -> None:
    """Replace a range by a piece of another message."""
    start, stop = _span(random, len(data))
    begin, end = _span(random, len(other))
    data[start:stop] = other[begin:end]


def splice(data: bytearray, other: bytes, random: Random) -> None:
    """Continue with another message from a random position."""
    del data[random.randrange(len(data) + 1) :]
    data += other[random.randrange(len(other) + 1) :]


EDITS: tuple[Edit, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    set_number,
    set_number,
    set_number,
    insert,
    delete,
    duplicate,
    truncate,
    swap,
    graft,
    splice,
)
"""All edits; those that leave most of the structure intact reach deepest, and are listed twice."""


class Mutator:
    """Mutants of some samples."""

    def __init__(self, samples: Sequence[bytes], seed: int = 0) -> None:
        self._samples = tuple(samples)
        self._seed = seed

    def mutant(self, index: int) -> bytes:
        """The mutant with that number: some samples in a row, with a few edits."""
        random = Random(self._seed << 64 | index)
        data = bytearray(random.choice(self._samples))
        while random.random() < 0.25 and len(data) < MAX_MUTANT:
            data += random.choice(self._samples)
        for _ in range(random.randint(1, _MOST_EDITS)):
            random.choice(EDITS)(data, random.choice(self._samples), random)
        return bytes(data[:MAX_MUTANT])

    def mutants(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Mutants ``start`` up to ``stop``, each with its number."""
        for index in range(start, stop):
            yield index, self.mutant(index)
