"""Which session ids a junction may give out: what SLINE and DLINE carry (SPEC §6.2)."""

from __future__ import annotations

from collections import deque

from wireloom.errors import OptionError

__all__ = ["HOLD_S", "MAX_SESSIONS", "UNSAFE_ID", "SessionIds"]

_MAX_ID = 255
UNSAFE_ID = 0x1E
"""Never given out: an old reader takes this byte for the start of a frame (SPEC, E6)."""
MAX_SESSIONS = _MAX_ID - 1
"""1 to 255 without 30."""
HOLD_S = 30.0
"""Seconds for which the id of a session that has gone is not given to another: an answer to the old
one that is still on its way must not reach the new one (SPEC, E9)."""


class SessionIds:
    """Gives out ids in rotation: live ones are skipped, and freed ones rest for a while."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        """A fresh range of ids, of which 1 is the first.

        Raises:
            OptionError: a negative time to hold them.
        """
        if hold_s < 0:
            raise OptionError(f"hold_s must not be negative, not {hold_s}")
        self._hold_s = hold_s
        self._free = deque(number for number in range(1, _MAX_ID + 1) if number != UNSAFE_ID)
        self._held: deque[tuple[float, int]] = deque()
        self._live: set[int] = set()

    @property
    def live(self) -> int:
        """How many are in use."""
        return len(self._live)

    @property
    def held(self) -> int:
        """How many rest, or have rested and were not asked for since."""
        return len(self._held)

    def allot(self, now: float) -> int | None:
        """An id that nobody has, and nobody had until `hold_s` ago; None when there is none.

        The one that was free for longest: so the first 254 are in order, and then they rotate.
        """
        while self._held and self._held[0][0] <= now:
            self._free.append(self._held.popleft()[1])
        if not self._free:
            return None
        number = self._free.popleft()
        self._live.add(number)
        return number

    def free(self, number: int, now: float) -> None:
        """The session has gone; its id rests from now on.

        Raises:
            KeyError: the id is not in use.
        """
        self._live.remove(number)
        # Should the clock step back, the order of the queue still is that of the times.
        until = now + self._hold_s
        if self._held:
            until = max(until, self._held[-1][0])
        self._held.append((until, number))
