"""Which captures are to be read, and how the work is divided among tasks.

The pipeline and Spark's data source divide it in the same way, except for large raw captures. The
data source gives out rows as soon as a task has them, so it cuts at seams that are proven before.
The pipeline cuts blindly: each task finds its own start, and rows are committed only once it is
proven that the ranges meet. That saves looking for seams.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from wireloom.captures.finding import examine, find_paths, is_remote
from wireloom.errors import SourceError
from wireloom.pipeline.splitting import SPLIT_BYTES
from wireloom.tabulate import Settings
from wireloom.tabulate.tabulation import splittable

__all__ = [
    "Cutter",
    "FlowPartition",
    "Range",
    "Sized",
    "Unit",
    "Whole",
    "can_split",
    "cut",
    "expand",
    "is_packets",
    "plan_packets",
    "plan_raw",
]


class Sized(Protocol):
    """A capture whose size is known."""

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def size(self) -> int:
        """Its bytes, as stored."""


Cutter = Callable[[Sized], "Sequence[Range]"]
"""Divides a capture that is too large for one task; empty if it cannot be divided."""


@dataclass(frozen=True, slots=True)
class Range:
    """The frames of a raw capture that begin between two offsets."""

    path: str
    first: int
    last: int
    is_seam: bool = False
    """Whether `first` is known to be where a frame begins."""

    @property
    def size(self) -> int:
        """Bytes to read, about."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Whole:
    """Raw captures that are read as a whole, one after the other."""

    paths: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class FlowPartition:
    """One share of the connections in packet captures; all of the captures are read."""

    paths: tuple[str, ...]
    part: int
    parts: int
    size: int


Unit = Range | Whole | FlowPartition
"""The work of one task."""


def expand(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, folders, patterns and addresses stand for, each once.

    Files keep the order in which they are named; those of a folder or a pattern are sorted by name,
    with numbers by value, which is how rotated captures follow one another. See
    `wireloom.captures.finding.find_paths`.

    Raises:
        OptionError: no file system is known for an address.
        SourceError: there is no such file, or nothing matches a pattern.
    """
    found: dict[str, None] = {}
    for source in sources:
        path = os.fspath(source)
        listed = find_paths([path], needed=False)
        if not listed and not os.path.isdir(path):
            raise SourceError("there is no such file", file=path)
        found.update(dict.fromkeys(listed))
    return list(found)


def is_packets(path: str) -> bool:
    """Whether a capture holds packets; else it is raw.

    Raises:
        SourceError: it cannot be opened or read.
    """
    return examine(path).is_packets


def can_split(path: str, settings: Settings) -> bool:
    """Whether a raw capture can be read in ranges.

    Raises:
        SourceError: it cannot be opened or read.
    """
    return not is_remote(path) and splittable(path, settings)


def plan_raw(captures: Iterable[Sized], cutter: Cutter, split_bytes: int) -> list[Unit]:
    """Divide raw captures: large ones into ranges, small ones several to a task.

    Raises:
        SourceError: a file cannot be opened or read.
    """
    units: list[Unit] = []
    bundle: list[str] = []
    size = 0
    for one in captures:
        ranges = cutter(one) if one.size > split_bytes else ()
        if ranges:
            units += ranges
            continue
        if bundle and size + one.size > split_bytes:
            units.append(Whole(tuple(bundle), size))
            bundle, size = [], 0
        bundle.append(one.path)
        size += one.size
    if bundle:
        units.append(Whole(tuple(bundle), size))
    return units


def plan_packets(captures: Sequence[Sized], parts: int) -> list[Unit]:
    """Divide packet captures, which count as one, into shares of their connections."""
    paths = tuple(one.path for one in captures)
    size = sum(one.size for one in captures)
    return [FlowPartition(paths, part, parts, size // parts) for part in range(parts)]


def cut(path: str, first: int, last: int, split_bytes: int = SPLIT_BYTES) -> Iterator[Range]:
    """Divide a part of a raw capture evenly; it begins at a known frame."""
    count = max(1, -(-(last - first) // split_bytes))
    bounds = [first + (last - first) * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield Range(path, start, end, is_seam=start == first)
