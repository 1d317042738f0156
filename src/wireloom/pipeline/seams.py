"""Proof that the ranges of a raw capture meet, before any of them is committed.

A range begins at the first chain of frames after its first byte, which may be a false one: a
payload can look like frames. It is right exactly if what comes before it ends there. A hole between
the proven part and the next range is read from the proven end; if that leads past the start of the
range, the range was a false one and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from wireloom.pipeline.plan import Range
from wireloom.pipeline.work import Outcome

__all__ = ["Chain"]


class Chain:
    """The ranges of one capture, from its first byte to its last."""

    def __init__(self, path: str, first: int, last: int) -> None:
        """Nothing is known yet.

        Args:
            path: the capture.
            first: where reading began: 0, or where an earlier run stopped.
            last: where it is to end.
        """
        self.path = path
        self.end = first
        """How far everything is proven."""
        self.proven: list[Outcome] = []
        """What was done up to there, in order."""
        self.repairs = 0
        """Ranges that had to be read again."""
        self._last = last
        self._others: dict[int, Outcome] = {}

    def add(self, outcomes: Iterable[Outcome]) -> list[Range]:
        """Take what tasks have done; return what is still to be read. Empty: everything meets.

        Every call proves at least the first of the ranges that the one before asked for.
        """
        for outcome in outcomes:
            if outcome.end > outcome.start:
                self._others[outcome.start] = outcome
        while (following := self._others.pop(self.end, None)) is not None:
            self.proven.append(following)
            self.end = following.end
        self._others = {at: one for at, one in self._others.items() if at > self.end}
        if self.end >= self._last:
            return []
        # Only the first hole begins at a proven place. The others probably do as well, and are
        # worth reading at the same time: closing the first one shows whether they do.
        holes = []
        at = self.end
        for start, other in sorted(self._others.items()):
            if start > at:
                holes.append(Range(self.path, at, start, is_seam=True))
            if start >= at:
                at = other.end
        if at < self._last:
            holes.append(Range(self.path, at, self._last, is_seam=True))
        self.repairs += len(holes)
        return holes
