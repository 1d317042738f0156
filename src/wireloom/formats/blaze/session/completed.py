"""Ids of transactions that were answered, so that a repeated one is recognised (SPEC §8.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from wireloom.formats.blaze.session.events import TxId

__all__ = ["Completed"]

Sender = tuple[int, int, int]
"""What the ids of a sender begin with."""


class Completed:
    """The ids of the last transactions of a connection.

    They are kept as numbers, and forgotten as the runs in which they came: a busy client's requests
    are answered by the hundred.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._numbers: dict[Sender, set[int]] = {}
        self._runs: deque[tuple[Sender, Sequence[int]]] = deque()
        """The oldest first."""

    def __contains__(self, txid: TxId) -> bool:
        return txid[3] in self._numbers.get(txid[:3], ())

    def has_any(self, sender: Sender, numbers: Sequence[int]) -> bool:
        """Whether there is one of these among them."""
        known = self._numbers.get(sender)
        return known is not None and not known.isdisjoint(numbers)

    def add(self, sender: Sender, numbers: Sequence[int]) -> None:
        """These were answered; the oldest are forgotten."""
        known = self._numbers.get(sender)
        if known is None:
            known = self._numbers[sender] = set()
        known.update(numbers)
        self._runs.append((sender, numbers))
        self._count += len(numbers)
        while self._count > self._most:
            self._forget(self._count - self._most)

    def _forget(self, count: int) -> None:
        """Forget so many of the oldest run, or all of it."""
        sender, numbers = self._runs.popleft()
        if len(numbers) > count:
            self._runs.appendleft((sender, numbers[count:]))
            numbers = numbers[:count]
        self._count -= len(numbers)
        known = self._numbers[sender]
        known.difference_update(numbers)
        if not known:
            del self._numbers[sender]
