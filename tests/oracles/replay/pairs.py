"""Requests and their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oracles.replay.common import Row, in_time

__all__ = ["Dialogue", "pairs"]


class Dialogue:
    """A request with its answer; one of them may be missing."""

    def __init__(self, request: Row | None, response: Row | None, is_repeated: bool) -> None:
        self.request = request
        self.response = response
        self.is_repeated = is_repeated

    @property
    def first(self) -> Row:
        """The request, or the answer if there is none."""
        found = self.request or self.response
        assert found is not None
        return found

    def asked(self, name: str) -> Any:
        """A column of the request."""
        return None if self.request is None else self.request[name]

    def answered(self, name: str) -> Any:
        """A column of the answer."""
        return None if self.response is None else self.response[name]


def pairs(
    rows: Iterable[Row], key: Callable[[Row], Any], is_request: Callable[[Row], bool]
) -> list[Dialogue]:
    """Each answer goes to the newest open request of its key."""
    found: list[Dialogue] = []
    waiting: dict[Any, list[Dialogue]] = {}
    for row in in_time(rows):
        if is_request(row):
            dialogue = Dialogue(row, None, False)
            waiting.setdefault(key(row), []).append(dialogue)
            found.append(dialogue)
        elif waiting.get(key(row)):
            waiting[key(row)].pop().response = row
        else:
            found.append(Dialogue(None, row, key(row) in waiting))
    return found
