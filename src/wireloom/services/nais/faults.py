"""What can be wrong with a board, on purpose: for those who write the other end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from wireloom.errors import OptionError

__all__ = ["FAULTS", "Fault", "Faults"]

Fault = Literal["garbage", "text", "slow", "half", "silent"]
FAULTS = get_args(Fault)
_TEXT = b"printf: value=%d\n"
_SLOW_BYTES = 7
"""Bytes sent at once by a slow board: no two parts of a header together."""


@dataclass(slots=True)
class Faults:
    """Which faults a board has, and how often.

    Args:
        kinds: garbage: bytes that are no frame before one; text: a line of text before one; slow:
            a few bytes at a time; half: a frame that is cut; silent: a frame that is not sent.
        rate: for which part of the frames.
        bytes_per_s: speed of a slow board.
        seed: the same seed gives the same faults.

    Raises:
        OptionError: no such fault, or no such rate.
    """

    kinds: frozenset[str]
    rate: float
    bytes_per_s: int
    random: random.Random
    counted: int = 0
    """How many there were."""

    @classmethod
    def of(
        cls, kinds: Iterable[str], rate: float = 0.2, bytes_per_s: int = 500, seed: int = 0
    ) -> Faults:
        """Faults by their names.

        Raises:
            OptionError: no such fault, or no such rate.
        """
        kinds = frozenset(kinds)
        if unknown := kinds - set(FAULTS):
            raise OptionError(f"fault {sorted(unknown)[0]!r} is none of {', '.join(FAULTS)}")
        if not (0 <= rate <= 1 and bytes_per_s > 0):
            raise OptionError("a rate is from 0 to 1, and bytes_per_s is positive")
        return cls(kinds, rate, bytes_per_s, random.Random(seed))

    def _now(self, kind: str) -> bool:
        is_now = kind in self.kinds and self.random.random() < self.rate
        self.counted += is_now
        return is_now

    async def spoilt(self, record: bytes) -> AsyncIterator[bytes]:
        """What is sent instead of a record, piece by piece."""
        if self._now("garbage"):
            # With starts of frames in it, one of which says that a megabyte follows.
            yield self.random.randbytes(20) + b"\x1e\x0a\0\0\0\xff\xff\x3f" + b"\x1e\x03"
        if self._now("text"):
            yield _TEXT % self.random.randrange(1000)
        if self._now("silent"):
            return
        if self._now("half"):
            yield record[: self.random.randrange(1, max(2, len(record)))]
        elif self._now("slow"):
            for at in range(0, len(record), _SLOW_BYTES):
                yield record[at : at + _SLOW_BYTES]
                await asyncio.sleep(_SLOW_BYTES / self.bytes_per_s)
        else:
            yield record
