"""Quotas by time; light to import, so that clients need nothing else."""

from __future__ import annotations

__all__ = ["TokenBucket"]


class TokenBucket:
    """A quota: `rate` tokens per second, and a burst of one second's worth.

    >>> bucket = TokenBucket(rate=100, now=0.0)
    >>> bucket.take(100, now=0.0), bucket.take(50, now=0.0)
    (0.0, 0.5)
    """

    __slots__ = ("_at", "_tokens", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._tokens = float(rate)
        self._at = now

    def take(self, count: float, now: float) -> float:
        """Take tokens, also those to come; give the seconds to wait before the next are taken."""
        self._tokens = min(self.rate, self._tokens + (now - self._at) * self.rate) - count
        self._at = now
        return max(0.0, -self._tokens / self.rate)

    def has(self, count: float, now: float) -> bool:
        """Take tokens if they are there; whether they were."""
        self._tokens = min(self.rate, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens < count:
            return False
        self._tokens -= count
        return True
