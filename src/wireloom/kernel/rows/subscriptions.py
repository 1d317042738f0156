"""The class of a Blaze subscription's events, learned from requests and their answers."""

from __future__ import annotations

import secrets

from wireloom.kernel import shim as cython
from wireloom.kernel.rows.bodyrows import mixed

__all__ = ["Subscriptions"]

MOST_SUBSCRIPTIONS = cython.declare(cython.Py_ssize_t, 1048576)
"""Most entries of one connection; if a client makes more, they are forgotten."""


@cython.final
@cython.cclass
class Subscriptions:
    """Which class the events of each subscription of one connection have."""

    def __init__(self) -> None:
        self.requests = memoryview(bytearray(8 * 64)).cast("q")
        self.active = memoryview(bytearray(8 * 64)).cast("q")
        self.request_count = self.active_count = 0
        self.key = secrets.randbits(64)

    def copy(self) -> Subscriptions:
        """A copy."""
        made = Subscriptions()
        made.key = self.key
        made.requests = memoryview(bytearray(self.requests)).cast("q")
        made.active = memoryview(bytearray(self.active)).cast("q")
        made.request_count = self.request_count
        made.active_count = self.active_count
        return made

    def is_full(self):
        """Whether `grow` is due before anything more can be learned."""
        return (
            2 * (self.request_count + 1) > len(self.requests) // 2
            or 2 * (self.active_count + 1) > len(self.active) // 2
        )

    def grow(self) -> None:
        """Double the room."""
        requests, active = list(self.requests), list(self.active)
        if len(requests) >= 2 * MOST_SUBSCRIPTIONS or len(active) >= 2 * MOST_SUBSCRIPTIONS:
            requests = active = [0] * 64
        self.requests = memoryview(bytearray(16 * len(requests))).cast("q")
        self.active = memoryview(bytearray(16 * len(active))).cast("q")
        self.request_count = self.active_count = 0
        for at in range(0, len(requests), 2):
            if requests[at]:
                self.request(requests[at], requests[at + 1])
        for at in range(0, len(active), 2):
            if active[at]:
                self.activate(active[at], active[at + 1])

    def place(self, table, key):
        """The slot of a key in a table, or where it would go."""
        mask: cython.Py_ssize_t = len(table) // 2 - 1
        at: cython.Py_ssize_t = mixed(self.key, 0, key) & mask
        while table[2 * at] and table[2 * at] != key:
            at = (at + 1) & mask
        return 2 * at

    def request(self, number, clsenc):
        """A request was seen, for a class and encoding."""
        at: cython.Py_ssize_t = self.place(self.requests, number)
        self.request_count += 0 if self.requests[at] else 1
        self.requests[at] = number
        self.requests[at + 1] = clsenc

    def activate(self, number, clsenc):
        """A subscription has events of a class and encoding; 0: unknown."""
        at: cython.Py_ssize_t = self.place(self.active, number)
        self.active_count += 0 if self.active[at] else 1
        self.active[at] = number
        self.active[at + 1] = clsenc

    def answer(self, request, number):
        """A request was answered with a subscription."""
        at: cython.Py_ssize_t = self.place(self.requests, request)
        self.activate(number, self.requests[at + 1] if self.requests[at] else 0)

    def class_of(self, number: cython.longlong) -> int:
        """The word with class and encoding of a subscription's events; 0 if it is not known."""
        return self.find(number)

    def find(self, number):
        """See `class_of`."""
        at: cython.Py_ssize_t = self.place(self.active, number)
        return self.active[at + 1] if self.active[at] else 0
