"""Events of a subscription that were sent and not acknowledged (SPEC §8.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

__all__ = ["Outstanding"]


class Outstanding:
    """The ids of events that wait for an acknowledgement, in the order in which they were sent.

    They are kept as the runs in which they were sent: a window may hold thousands.
    """

    __slots__ = ("_count", "_runs")

    def __init__(self) -> None:
        self._count = 0
        self._runs: deque[Sequence[int]] = deque()

    def __len__(self) -> int:
        return self._count

    def add(self, sevtids: Sequence[int]) -> None:
        """Events were sent."""
        runs = self._runs
        self._count += len(sevtids)
        if runs and isinstance(runs[-1], range) and isinstance(sevtids, range):
            last = runs[-1]
            if last.stop == sevtids.start:
                runs[-1] = range(last.start, sevtids.stop)
                return
        runs.append(sevtids)

    def acknowledge(self, sevtid: int, is_cumulative: bool) -> bool:
        """An event was acknowledged; False if it did not wait for that.

        Args:
            sevtid: its id.
            is_cumulative: whether all that were sent before it are acknowledged, too.
        """
        runs = self._runs
        place = next((place for place, run in enumerate(runs) if sevtid in run), None)
        if place is None:
            return False
        run = runs[place]
        at = run.index(sevtid)
        before, behind = run[:at], run[at + 1 :]
        if is_cumulative:
            for _ in range(place):
                self._count -= len(runs.popleft())
            runs.popleft()
            if behind:
                runs.appendleft(behind)
            self._count -= at + 1
            return True
        del runs[place]
        for rest in (behind, before):
            if rest:
                runs.insert(place, rest)
        self._count -= 1
        return True
