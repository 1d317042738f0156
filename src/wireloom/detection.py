"""Which format some bytes are in: one rule for messages, for payloads and for streams.

Every format says how sure it is that the bytes start with one of its messages (`Format.detect`),
and the surest one is taken, provided that no other is as sure. How sure it must be depends on what
a mistake would cost:

* for bytes that are known to be a message `SURE` is enough (`wireloom.detect`);
* inside a payload, which may as well be plain data, only a magic counts: `MAGIC`
  (`wireloom.nesting`);
* a stream may begin in the middle of a frame, so its start alone decides nothing: formats are
  tried in this order, and frames that follow each other decide (`wireloom.tabulate.detection`).
"""

from __future__ import annotations

from collections.abc import Iterable

from wireloom.format import Format

__all__ = ["MAGIC", "SURE", "ranked", "surest"]

SURE = 50
"""Confidence below which a format is not taken."""

MAGIC = 90
"""Confidence that only a magic or an exact structure gives."""


def ranked(data: bytes, formats: Iterable[Format]) -> list[tuple[int, Format]]:
    """The formats with their confidence in `data`, the surest first; equals keep their order."""
    return sorted(((each.detect(data), each) for each in formats), key=lambda pair: -pair[0])


def surest(data: bytes, formats: Iterable[Format], least: int = SURE) -> Format | None:
    """The format that is surest of `data`; None if none is sure enough, or two are equally."""
    order = ranked(data, formats)
    if not order or order[0][0] < least:
        return None
    return order[0][1] if len(order) == 1 or order[0][0] > order[1][0] else None
