"""How long to wait before the next attempt to connect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from random import Random

from wireloom.errors import OptionError

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow from attempt to attempt, each a little different; times are in seconds.

    Raises:
        OptionError: a value makes no sense.
    """

    first: float = 0.1
    factor: float = 2.0
    most: float = 30.0
    jitter: float = 0.5
    """The part of a pause that is left to chance, so that many clients do not come back at once."""
    attempts: int | None = None
    """How many in a row may fail; None: no limit."""

    def __post_init__(self) -> None:
        if self.first <= 0 or self.most < self.first or self.factor < 1:
            raise OptionError("pauses must be positive, and must not shrink")
        if not 0 <= self.jitter <= 1:
            raise OptionError(f"jitter must be from 0 to 1, not {self.jitter}")
        if self.attempts is not None and self.attempts < 1:
            raise OptionError("there must be at least one attempt")

    def pauses(self, limit: int | None = None, random: Random | None = None) -> Iterator[float]:
        """The pause before each attempt; a pause is at most `most`, and jitter only shortens it.

        Args:
            limit: at most so many; by default `attempts`.
            random: where chance comes from.
        """
        chance = random or Random()
        wanted = self.attempts if limit is None else limit
        return islice(self._all(chance), wanted)

    def _all(self, chance: Random) -> Iterator[float]:
        pause = self.first
        for _ in count():
            yield pause * (1 - self.jitter * chance.random())
            pause = min(pause * self.factor, self.most)
