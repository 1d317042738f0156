"""The session ids of a junction, which SLINE and DLINE carry (SPEC §6.2)."""

from __future__ import annotations

from collections import deque

from wireloom.errors import OptionError

__all__ = ["HOLD_S", "MAX_SESSIONS", "UNSAFE_ID", "SessionIds"]

_MAX_ID = 255
UNSAFE_ID = 0x1E
"""Never assigned: an old reader mistakes this byte for the start of a frame (SPEC, E6)."""
MAX_SESSIONS = _MAX_ID - 1
"""1 to 255 without 30."""
HOLD_S = 30.0
"""Seconds for which the id of a closed session is not reused: an answer to the old session that is
still on its way must not reach the new one (SPEC, E9)."""


class SessionIds:
    """Assigns ids in rotation: live ones are skipped, and freed ones stay on hold for a while."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        """A fresh range of ids, starting with 1.

        Raises:
            OptionError: `hold_s` is negative.
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
        """How many are on hold, or were and have not been reused since."""
        return len(self._held)

    def allot(self, now: float) -> int | None:
        """An id that has been free for at least `hold_s`; None if there is none.

        It is the one that has been free longest: the first 254 are in order, and then they rotate.
        """
        while self._held and self._held[0][0] <= now:
            self._free.append(self._held.popleft()[1])
        if not self._free:
            return None
        number = self._free.popleft()
        self._live.add(number)
        return number

    def free(self, number: int, now: float) -> None:
        """The session has closed; its id is on hold from now on.

        Raises:
            KeyError: the id is not in use.
        """
        self._live.remove(number)
        # If the clock steps back, the queue is still ordered by time.
        until = now + self._hold_s
        if self._held:
            until = max(until, self._held[-1][0])
        self._held.append((until, number))
