"""Where every captured byte went: decoded, quarantined, cut by a hole, or captured twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wireloom.captures import Counts

__all__ = ["Tally", "Totals", "balanced"]


@dataclass(slots=True)
class Tally:
    """The bytes of one stream so far, as the tables tell of them."""

    decoded: int = 0
    """Bytes of frames, and of NAIS text."""
    quarantined: int = 0
    """Bytes of `errors` rows, but for those that a hole cut."""
    gap: int = 0
    """Captured bytes of frames that a hole cut."""
    frames: int = 0

    def add(self, other: Tally) -> None:
        """Those of another part of the stream."""
        self.decoded += other.decoded
        self.quarantined += other.quarantined
        self.gap += other.gap
        self.frames += other.frames

    def refuse(self, frames: int, size: int) -> None:
        """Frames that were counted as decoded turn out to be no legal packets."""
        self.frames -= frames
        self.decoded -= size
        self.quarantined += size


def balanced(
    source: str, stream: str, format: str | None, tally: Tally, counts: Counts
) -> dict[str, Any]:
    """The row of `accounting` of a stream that has ended.

    Raises:
        AssertionError: the bytes do not sum up, which is a mistake in this program.
    """
    found = tally.decoded + tally.quarantined + tally.gap + counts.duplicate
    if found != counts.captured:
        raise AssertionError(
            f"{source}, {stream}: {counts.captured} bytes captured, but {found} accounted for "
            f"({tally}, {counts})"
        )
    return {
        "source": source,
        "stream": stream,
        "format": format,
        "captured": counts.captured,
        "decoded": tally.decoded,
        "quarantined": tally.quarantined,
        "gap": tally.gap,
        "duplicate": counts.duplicate,
        "missing": counts.missing,
        "frames": tally.frames,
        "packets": counts.packets,
        "conflict": counts.conflict,
    }


@dataclass(slots=True)
class Totals:
    """The sums over all streams that have ended, and rows given out."""

    streams: int = 0
    captured: int = 0
    """Payload bytes; the sum of the next four."""
    decoded: int = 0
    quarantined: int = 0
    gap: int = 0
    duplicate: int = 0
    missing: int = 0
    """Bytes of holes, which were not captured."""
    frames: int = 0
    packets: int = 0
    conflict: int = 0
    """Quarantined bytes with a good checksum, where others with a bad one had been read."""
    errors: int = 0
    """What could not be read: frames, nested messages, parts of captures."""
    damaged: int = 0
    """Bytes of captures that belong to no stream because they could not be read."""
    left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes that are in no stream: ``not_ip``, ``other_protocol``, ``encapsulated``."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows given out, by table."""
    formats: dict[str | None, Totals] = field(default_factory=dict)
    """The same by format of the stream; None: not recognised."""

    def leave_out(self, found: Mapping[str, tuple[int, int]]) -> None:
        """Packets of another capture that are in no stream."""
        for kind, (packets, size) in found.items():
            before = self.left_out.get(kind, (0, 0))
            self.left_out[kind] = before[0] + packets, before[1] + size

    def add(self, row: dict[str, Any]) -> None:
        """One more stream, as its row of `accounting` tells."""
        format = row["format"]
        each = self.formats.get(format)
        if each is None:
            each = self.formats[format] = Totals()
        for totals in (self, each):
            totals.streams += 1
            totals.captured += row["captured"]
            totals.decoded += row["decoded"]
            totals.quarantined += row["quarantined"]
            totals.gap += row["gap"]
            totals.duplicate += row["duplicate"]
            totals.missing += row["missing"]
            totals.frames += row["frames"]
            totals.packets += row["packets"]
            totals.conflict += row["conflict"]
