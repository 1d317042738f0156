"""Which captures there are to read, and how the work on them is divided.

Nothing is read here but the first bytes of each file. A raw capture is cut into byte ranges
blindly: each task finds its own start, and the driver proves afterwards that the ranges meet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from itertools import pairwise
from pathlib import Path

from wireloom.captures.bytesource import ByteSource
from wireloom.captures.pcap import is_pcap
from wireloom.captures.pcapng import is_pcapng
from wireloom.errors import SourceError
from wireloom.lake import Input
from wireloom.spark.shares import SPLIT_BYTES
from wireloom.tabulate import Settings
from wireloom.tabulate.reading import splittable

__all__ = [
    "Part",
    "Range",
    "Unit",
    "Whole",
    "cut",
    "expand",
    "is_packets",
    "plan_raw",
]


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
class Part:
    """The connections of one part of packet captures, all of which are read."""

    paths: tuple[str, ...]
    part: int
    parts: int
    size: int


Unit = Range | Whole | Part
"""The work of one task."""


def expand(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, folders and patterns stand for, each once, as absolute paths.

    Files keep the order in which they are named; those of a folder or a pattern are in the order of
    their names, numbers by value, which is how rotated captures follow one another. Folders are
    searched to the bottom; names that start with a dot or an underscore are left out.

    Raises:
        SourceError: there is no such file, or nothing fits a pattern.
    """
    found: dict[str, None] = {}
    for source in sources:
        path = Path(os.path.abspath(source))
        if path.is_dir():
            paths = sorted(_files_below(path), key=_natural)
        elif path.exists():
            paths = [str(path)]
        else:
            matches = glob(str(path), recursive=True)
            paths = sorted((name for name in matches if os.path.isfile(name)), key=_natural)
            if not paths:
                raise SourceError("there is no such file", file=os.fspath(source))
        found.update(dict.fromkeys(paths))
    return list(found)


def _files_below(folder: Path) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (os.path.join(base, name) for name in files if name[0] not in "._")


def _natural(path: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", path)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def is_packets(path: str) -> bool:
    """Whether a capture holds packets; else it is raw.

    Raises:
        SourceError: it cannot be opened or read.
    """
    with ByteSource(path) as source:
        head = memoryview(bytearray(12))
        size = source.read_into(head)
    return is_pcap(head[:size]) or is_pcapng(head[:size])


def plan_raw(
    inputs: Sequence[Input], settings: Settings, split_bytes: int = SPLIT_BYTES
) -> list[Unit]:
    """Divide raw captures: large ones into ranges, small ones several to a task.

    Raises:
        SourceError: a file cannot be opened or read.
    """
    units: list[Unit] = []
    bundle: list[str] = []
    held = 0
    for one in inputs:
        if one.size > split_bytes and splittable(one.path, settings):
            units += cut(one.path, 0, one.size, split_bytes)
            continue
        if bundle and held + one.size > split_bytes:
            units.append(Whole(tuple(bundle), held))
            bundle, held = [], 0
        bundle.append(one.path)
        held += one.size
    if bundle:
        units.append(Whole(tuple(bundle), held))
    return units


def cut(path: str, first: int, last: int, split_bytes: int = SPLIT_BYTES) -> Iterator[Range]:
    """Divide a part of a raw capture, which begins at a place that is known, evenly."""
    count = max(1, -(-(last - first) // split_bytes))
    bounds = [first + (last - first) * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield Range(path, start, end, is_seam=start == first)
