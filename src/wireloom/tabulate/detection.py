"""Which format a stream is in: that of its port, else what explains most of its first bytes.

Every format that the stream may be in scans the first bytes. The one with the longest chain of
frames wins, so that a stream may begin in the middle of a frame, hold text between frames,
or carry messages of one format in frames of another.

Most captures are mostly something else, so a chance match must not be enough:

* A format with a magic is found by it.
* Any other one must find frames that it is sure of (`Format.detect`) in half of all bytes: lengths
  inside that agree, nothing left over, no unused bits. Frames that are merely in the right place
  count between two such frames, though not if those are short and often interrupted, and what a
  frame claims beyond the bytes that were looked at does not.
* Among other bytes, a few of the shortest frames prove nothing.
* Datagrams are looked at one by one: frames must fill them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wireloom.columnar.framing import FrameScanner, Survey
from wireloom.detection import MAGIC, SURE
from wireloom.format import Format
from wireloom.formats import get, names
from wireloom.tabulate.settings import Settings

__all__ = ["FIRST_LOOK", "MOST_DATAGRAMS", "PREFIX", "Detector"]

FIRST_LOOK: Final = 4 << 10
"""Bytes of a stream that are looked at first. A format that is certain then need not wait."""

PREFIX: Final = 64 << 10
"""Bytes after which the decision is made, or at the end of the stream if that comes first."""

_SURE_FRAMES: Final = 4
_MOST_ASKED: Final = 64
"""Frames that a format is asked about: enough to be certain."""
MOST_DATAGRAMS: Final = 16
"""Datagrams that are looked at."""
_SHORT: Final = 16
"""Frames of fewer bytes may well be small numbers and zeros of something else."""

_RUN: Final = 4
"""Of such frames, more than so many must follow each other to prove those between them."""

_PRINTABLE: Final = bytes([9, 10, 13, *range(32, 127)])


class Detector:
    """Decides by the first bytes; keeps a scanner for each format."""

    def __init__(
        self, settings: Settings, scanner: Callable[[str], FrameScanner], kernel: Any
    ) -> None:
        """A detector for streams read with these settings.

        Args:
            settings: which formats there may be.
            scanner: makes a scanner of that format.
            kernel: which kernel to use.
        """
        order = sorted(map(get, names()), key=lambda each: each.precedence)
        allowed = names() if settings.formats is None else settings.formats
        self._formats = [each for each in order if each.name in allowed]
        self._ports = settings.ports
        self._make = scanner
        self._scanners: dict[str, FrameScanner] = {}
        self._kernel = kernel
        self._triage: Any = None

    def by_port(self, src_port: int, dst_port: int) -> str | None:
        """The format, if it is known without looking at the bytes; else None."""
        ports = self._ports
        if ports:
            found = ports.get(dst_port) or ports.get(src_port)
            if found is not None:
                return found
        return self._formats[0].name if len(self._formats) == 1 else None

    def by_prefix(self, data: bytes | memoryview) -> str | None:
        """The format of a stream, given all of it or at least its first `PREFIX` bytes."""
        found = None
        if len(data) >= FIRST_LOOK:
            found = self.by_bytes(data[:FIRST_LOOK], is_all=False)
        return found or (self.by_bytes(data[:PREFIX], is_all=True) if data else None)

    def by_bytes(
        self,
        data: bytes | bytearray | memoryview,
        *,
        is_all: bool,
        starts: Sequence[int] | None = None,
    ) -> str | None:
        """The format of a stream that begins with `data`; None if it cannot be told.

        Args:
            data: the first bytes: all there are, `PREFIX` of them, or `FIRST_LOOK`.
            is_all: whether there will be no second look.
            starts: where datagrams start in it, if it consists of datagrams.
        """
        best: _Look | None = None
        bounds = None
        if starts is not None:
            bounds = array("q", [*starts[: MOST_DATAGRAMS + 1], len(data)][: MOST_DATAGRAMS + 1])
            data = data[: bounds[-1]]
        possible = self._possible(data, bounds)
        if not possible:
            return None
        data = bytes(data)
        for order, format in enumerate(self._formats):
            if not possible >> order & 1 or (format.magic and format.magic not in data):
                continue
            scanner = self._scanner(format)
            if bounds is None:
                look = _stream_look(format, scanner, data, order)
            else:
                look = _datagram_look(format, scanner, data, bounds, order)
            if look is None:
                continue
            if look.chain == len(data) and (is_all or look.frames >= _SURE_FRAMES):
                return format.name  # nothing can explain more
            if best is None or look.rank > best.rank:
                best = look
        if best is None:
            return None
        is_sure = best.frames >= _SURE_FRAMES and best.breaks == 0
        return best.format if is_all or is_sure else None

    def _possible(self, data: bytes | bytearray | memoryview, bounds: array[int] | None) -> int:
        """A bit for each format that the bytes may be in; most are in none, which costs little."""
        if self._triage is None:
            scans = [self._scanner(format).kernel_scan for format in self._formats]
            self._triage = self._kernel.Triage(scans)
        triage = self._triage
        found: int = triage.stream(data) if bounds is None else triage.datagrams(data, bounds)
        return found

    def _scanner(self, format: Format) -> FrameScanner:
        scanner = self._scanners.get(format.name)
        if scanner is None:
            scanner = self._scanners[format.name] = self._make(format.name)
        return scanner


@dataclass(frozen=True, slots=True)
class _Look:
    """What a format explains of some bytes."""

    format: str
    chain: int
    """Bytes of frames that follow each other; of all frames where text is between."""
    frames: int
    breaks: int
    """How often something else interrupts the frames."""
    order: int
    """Its position among the formats that the stream may be in."""

    @property
    def rank(self) -> tuple[int, int]:
        """The larger, the better; if two explain the same, the order decides."""
        return self.chain, -self.order


def _stream_look(format: Format, scanner: FrameScanner, data: bytes, order: int) -> _Look | None:
    """What a format makes of the first bytes of a stream; None: it is not in that format."""
    found = scanner.survey(data)
    if found is None:
        return None
    end = len(data)
    problems = found.problems
    covers = sum(length for _, length in found.frames)
    if format.magic:
        # A header with a magic is proof enough; a large frame may fill all of the prefix.
        if not covers and format.detect(data) < MAGIC:
            return None
    else:
        longest, proven = _proof(format, data, found)
        cut = data[end - found.cut :]
        if found.cut <= proven:
            end -= found.cut  # all that it claims is certain
        elif format.detect(cut) >= MAGIC:
            longest, proven = max(longest, found.cut), proven + found.cut
        else:
            problems = [*problems, (end - found.cut, found.cut)]
        is_little = longest < _SHORT and proven < 4 * _SHORT
        if not proven or 2 * proven < end or (problems and is_little):
            return None
    chain = covers if format.has_text else _longest(problems, end)
    breaks = sum(offset > 0 for offset, _ in problems)
    return _Look(format.name, chain, len(found.frames), breaks, order)


def _proof(format: Format, data: bytes, found: Survey) -> tuple[int, int]:
    """The longest frame that a format is sure of, and how many bytes are certainly its own."""
    asked = found.frames[:_MOST_ASKED]
    sure: list[int] = []
    likely: list[int] = []
    between: list[int] = []  # likely ones behind a sure one: the next sure one proves them
    held: list[int] = []  # those that it proved
    follows, reached = False, 0
    for start, length in asked:
        trust = format.detect(data[start : start + length])
        if start != reached or trust < SURE:
            likely += between
            between, follows = [], False
        reached = start + length
        if trust >= MAGIC:
            sure.append(length)
            held += between
            between, follows = [], True
        elif trust >= SURE:
            (between if follows else likely).append(length)
    likely += between
    if max(sure, default=0) < _SHORT and len(sure) <= _RUN * len(found.problems):
        likely += held
    else:
        sure += held
    is_whole = not found.problems and not found.texts and not found.cut
    number = len(sure) + len(likely)
    if format.has_text and (sure or is_whole or number >= _SURE_FRAMES):
        # Text belongs to the stream, but only frames prove the format.
        sure += likely
        sure += [_printable(data[at : at + length]) for at, length in found.texts]
    elif is_whole and 1 < number == len(asked):
        # Nothing is left over, which makes up for content that proves little.
        sure += likely
    proven = sum(sure)
    if len(asked) < len(found.frames):
        covers = sum(length for _, length in found.frames)
        proven = proven * covers // sum(length for _, length in asked)
    return max(sure, default=0), proven


def _datagram_look(
    format: Format, scanner: FrameScanner, data: bytes, bounds: Sequence[int], order: int
) -> _Look | None:
    """What a format makes of the first datagrams of a stream; None: it is not in that format."""
    parts = [data[first:last] for first, last in pairwise(bounds) if first < last]
    whole = frames = chain = size = 0
    for turn, part in enumerate(parts):
        if not format.magic and turn > 2 * whole + len(parts) // 2:
            return None  # too few are left
        size += len(part)
        if format.magic not in part or not (format.magic or scanner.stands(part)):
            continue
        found = scanner.survey(part)
        if found is None:
            continue
        covers = sum(length for _, length in found.frames)
        is_whole = covers > 0
        if not format.magic:
            is_whole = covers == len(part) and _proof(format, part, found)[1] == covers
        if is_whole:
            whole += 1
            chain += covers
            frames += len(found.frames)
    if not whole or (not format.magic and (2 * whole < len(parts) or 2 * chain < size)):
        return None
    return _Look(format.name, chain, frames, len(parts) - whole, order)


def _longest(problems: list[tuple[int, int]], end: int) -> int:
    """The most bytes between two problems."""
    longest = at = 0
    for offset, length in problems:
        longest = max(longest, offset - at)
        at = offset + length
    return max(longest, end - at)


def _printable(text: bytes) -> int:
    return len(text) - len(text.translate(None, _PRINTABLE))
