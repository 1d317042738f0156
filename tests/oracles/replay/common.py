"""What the replays share: rows, connections, time, holes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "EPOCH",
    "Doubts",
    "Row",
    "Rows",
    "connection_of",
    "ends_of",
    "in_time",
    "last_holes",
    "less",
    "place_of",
    "time_of",
]

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Tables by name."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STREAM = re.compile(r"(tcp|udp) (\S+) > (\S+) #\d+(?:e\d+)?", re.ASCII)


def connection_of(row: Row) -> str:
    """The name of the connection that a row belongs to, the same for both directions.

    >>> connection_of({"stream": "tcp 10.0.0.2:99 > 10.0.0.1:80 #2"})
    'tcp 10.0.0.1:80 <> 10.0.0.2:99'
    """
    found = _STREAM.fullmatch(row["stream"])
    if found is None:
        stream: str = row["stream"]
        return stream
    low, high = sorted(found.groups()[1:])
    return f"{found[1]} {low} <> {high}"


def ends_of(row: Row) -> tuple[str | None, str | None]:
    """Sender and receiver."""
    found = _STREAM.fullmatch(row["stream"])
    return (found[2], found[3]) if found else (None, None)


def time_of(ts_ns: int | None) -> dt.datetime | None:
    """Nanoseconds since 1970 as a time."""
    return None if ts_ns is None else EPOCH + dt.timedelta(microseconds=ts_ns // 1000)


def less(one: int | None, other: int | None) -> int | None:
    """The difference; None if one of them is None."""
    return None if one is None or other is None else one - other


def in_time(rows: Iterable[Row]) -> list[Row]:
    """By time; at the same time by type; those without a time in the order of their stream."""

    def key(row: Row) -> tuple[Any, ...]:
        ts_ns = row["ts_ns"]
        tie = 0 if ts_ns is None else row.get("tie", row["type_code"])
        return (
            ts_ns is not None,
            ts_ns or 0,
            tie,
            row["source"],
            row["stream"],
            row["frame_offset"],
        )

    return sorted(rows, key=key)


def place_of(row: Row) -> tuple[str, str, int]:
    """The sort key of a row; rows of one stream are in the order of their bytes."""
    return row["source"], row["stream"], row["frame_offset"]


class Doubts:
    """Which connections have holes."""

    def __init__(self, tables: Rows) -> None:
        self._holed = {connection_of(row) for row in tables.get("gaps", ())}

    def about(self, is_missing: bool, connection: str) -> bool:
        """Whether the missing packet may have been in a hole."""
        return is_missing and connection in self._holed


def last_holes(tables: Rows) -> dict[tuple[str, str], tuple[int, str]]:
    """For each stream that has any: where the last hole is, and its cause."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    holes = [(gap, gap["offset"], "gap") for gap in tables.get("gaps", ())]
    holes += [
        (row, row["frame_offset"], "error")
        for row in tables.get("errors", ())
        if row["layer"] != "capture"
    ]
    for row, offset, cause in holes:
        key = (row["source"], row["stream"])
        found[key] = max(found.get(key, (offset, cause)), (offset, cause))
    return found
