"""Which format is on a stream: told by its port, else by what explains most of its first bytes.

Every format that the stream may be in scans the first bytes. The one with the longest chain of
frames wins, so that a stream may begin in the middle of a frame, hold text between frames,
or carry messages of one format in frames of another. Formats without a magic find frames in bytes
that mean something else (zeros are legal packets of one); theirs must be at least half of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wireloom.columnar.framing import FrameBatch, FrameScanner
from wireloom.detection import MAGIC, ranked
from wireloom.formats import get, names
from wireloom.framing import Problem, Text
from wireloom.tabulate.settings import Settings

__all__ = ["CUT", "FIRST_LOOK", "PREFIX", "Detector", "covered"]

FIRST_LOOK: Final = 4 << 10
"""Bytes of a stream that are looked at first. What is sure then need not wait for more."""

PREFIX: Final = 64 << 10
"""Bytes after which the decision falls, or at the end of the stream if that comes first."""

_SURE_FRAMES: Final = 4
CUT: Final = frozenset({"truncated", "short_header"})
"""Codes of problems that say: the data ends within a frame."""

_PRINTABLE: Final = bytes([9, 10, 13, *range(32, 127)])


class Detector:
    """Decides by the first bytes; a scanner for each format is kept."""

    def __init__(self, settings: Settings, scanner: Callable[[str], FrameScanner]) -> None:
        """A detector for streams read with these settings.

        Args:
            settings: which formats there may be.
            scanner: gives a scanner of that format, ready for a stream from offset 0.
        """
        order = sorted(map(get, names()), key=lambda each: each.precedence)
        allowed = names() if settings.formats is None else settings.formats
        self._formats = [each.name for each in order if each.name in allowed]
        self._ports = settings.ports
        self._scanner = scanner

    def by_port(self, src_port: int, dst_port: int) -> str | None:
        """The format that needs no look at the bytes; None if there must be one."""
        ports = self._ports
        if ports:
            found = ports.get(dst_port) or ports.get(src_port)
            if found is not None:
                return found
        return self._formats[0] if len(self._formats) == 1 else None

    def by_prefix(self, data: bytes) -> str | None:
        """The format of a stream of which `data` is all, or at least `PREFIX` bytes."""
        found = None
        if len(data) >= FIRST_LOOK:
            found = self.by_bytes(data[:FIRST_LOOK], is_all=False)
        return found or (self.by_bytes(data[:PREFIX], is_all=True) if data else None)

    def by_bytes(self, data: bytes, *, is_all: bool) -> str | None:
        """The format of a stream that begins with `data`; None if it cannot be told.

        Args:
            data: the first bytes: all that there are, `PREFIX`, or `FIRST_LOOK`.
            is_all: whether there will be no second look.
        """
        best: _Look | None = None
        for _, found in ranked(data, map(get, self._formats)):
            format = found.name
            look = self._look(format, data)
            if look.is_perfect and (is_all or look.frames >= _SURE_FRAMES):
                return format  # nothing can explain more
            if look.chain and (best is None or look.rank > best.rank):
                best = look
        if best is None:
            return None
        is_sure = best.frames >= _SURE_FRAMES and best.breaks == 0
        return best.format if is_all or is_sure else None

    def _look(self, format: str, data: bytes) -> _Look:
        """What a format makes of the first bytes."""
        batches = _scanned(self._scanner(format), data)
        covers = sum(map(covered, batches))
        frames = sum(batch.count for batch in batches)
        others = [other for batch in batches for other in batch.others]
        problems = [(each.offset, each.length) for each in others if isinstance(each, Problem)]
        end = len(data)
        rest = 0
        if problems and others[-1].offset == problems[-1][0] and _is_cut(others[-1], end):
            rest = problems.pop()[1]
        is_proven = True
        chosen = get(format)
        if chosen.magic:
            # A header with a magic is proof enough; a large frame may fill all of the prefix.
            is_proven = covers > 0 or chosen.detect(data) >= MAGIC
        else:
            end -= rest
            proven = covers
            if chosen.has_text and any(map(_has_message, batches)):
                # Text belongs to the stream, but only frames tell that it is one.
                proven += sum(_printable(each.data) for each in others if isinstance(each, Text))
            is_proven = 0 < end <= 2 * proven and frames > 0
        chain = covers if chosen.has_text else _longest(problems, end)
        breaks = sum(offset > 0 for offset, _ in problems)
        is_perfect = is_proven and chain == end
        order = self._formats.index(format)
        return _Look(format, chain if is_proven else 0, frames, breaks, is_perfect, order)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a format explains of some bytes."""

    format: str
    chain: int
    """Bytes of frames that follow each other; of all frames where text is between."""
    frames: int
    breaks: int
    """Places where it goes on only behind something else."""
    is_perfect: bool
    """Whether it explains everything."""
    order: int
    """Its place among the formats that the stream may be in."""

    @property
    def rank(self) -> tuple[int, int]:
        """The larger, the better; where two explain the same, the order decides."""
        return self.chain, -self.order


def _is_cut(other: object, end: int) -> bool:
    """Whether the data ends in a frame."""
    return isinstance(other, Problem) and other.code in CUT and other.offset + other.length == end


def _longest(problems: list[tuple[int, int]], end: int) -> int:
    """The most bytes between two problems."""
    longest = at = 0
    for offset, length in problems:
        longest = max(longest, offset - at)
        at = offset + length
    return max(longest, end - at)


def covered(batch: FrameBatch) -> int:
    """The bytes of all frames of a batch."""
    return sum(batch.lengths)


def _scanned(scanner: FrameScanner, data: bytes) -> list[FrameBatch]:
    return [*scanner.feed(data), *scanner.close()]


def _has_message(batch: FrameBatch) -> bool:
    """Whether a frame is one beyond doubt, on a stream of text: no chance in a text."""
    detect = get(batch.format).detect
    # Something behind the frame, or it would count that nothing is left over.
    return any(detect(batch.frame(index) + b"\0") for index in range(batch.count))


def _printable(text: bytes) -> int:
    return len(text) - len(text.translate(None, _PRINTABLE))
