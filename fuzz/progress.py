"""How far a long run is, on stderr."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_EVERY = 30.0
"""Seconds between two lines in a log."""


class Progress:
    """One line that is rewritten on a terminal; in a log, one line every half minute."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._began = self._told = time.monotonic()
        self.done = 0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def rate(self) -> float:
        """How many per second."""
        return self.done / max(self.seconds, 1e-9)

    def add(self, count: int) -> None:
        """Note that so many more are done."""
        self.done += count
        left = (self._total - self.done) / max(self.rate, 1e-9)
        count = f"{self.done:,}/{self._total:,}, {self.rate:,.0f}/s"
        line = f"{self._what}: {count}, {_span(left)} left"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}" if self.done < self._total else "\r\x1b[K")
        elif time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
