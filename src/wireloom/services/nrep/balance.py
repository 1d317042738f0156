"""Which instance of an app is asked first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

__all__ = ["POLICIES", "Balancer", "Policy"]

Policy = Literal["random", "round-robin", "least-open"]
POLICIES: tuple[str, ...] = get_args(Policy)


class Balancer:
    """Orders instances, and remembers what it has to for that.

    >>> turns = Balancer("round-robin")
    >>> [turns.order([b"a", b"b"])[0] for _ in range(3)]
    [b'a', b'b', b'a']
    """

    def __init__(self, policy: Policy = "random") -> None:
        self.policy = policy
        self._open: Counter[bytes] = Counter()
        self._turn = 0

    def order(self, instances: Sequence[bytes]) -> list[bytes]:
        """The instances, the one to try first at the front."""
        order = list(instances)
        if self.policy == "round-robin":
            turn = self._turn % len(order) if order else 0
            self._turn += 1
            return order[turn:] + order[:turn]
        random.shuffle(order)
        if self.policy == "least-open":
            order.sort(key=self._open.__getitem__)  # stable: equal ones stay shuffled
        return order

    def opened(self, instance: bytes) -> None:
        """A socket to it is open."""
        self._open[instance] += 1

    def closed(self, instance: bytes) -> None:
        """One has ended."""
        self._open[instance] -= 1
        if not self._open[instance]:
            del self._open[instance]
