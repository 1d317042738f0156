"""Where every captured byte went: decoded, quarantined, cut by a hole, or captured twice.

An `Account` is kept for every stream while it is read; the accounts of streams that have ended are
summed up in `Totals`, by format and in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wireloom.captures import Counts

__all__ = ["COUNTS", "Account", "ErrorKind", "Totals", "balanced"]

COUNTS: Final = (
    "captured",
    "decoded",
    "quarantined",
    "gap",
    "duplicate",
    "missing",
    "frames",
    "packets",
    "conflict",
    "bad_checksums",
)
"""The numbers of a row of `accounting`."""


@dataclass(slots=True)
class Account:
    """The bytes of one stream, or of several."""

    streams: int = 0
    """Streams that have ended."""
    captured: int = 0
    """Payload bytes: the sum of the next four."""
    decoded: int = 0
    """Bytes of frames, and of text between them."""
    quarantined: int = 0
    """Bytes of `errors` rows, except those that a hole cut."""
    gap: int = 0
    """Captured bytes of frames that a hole cut."""
    duplicate: int = 0
    missing: int = 0
    """Bytes of holes, which were not captured."""
    frames: int = 0
    packets: int = 0
    conflict: int = 0
    """Quarantined bytes with a good checksum, after a copy with a bad one had been read."""
    bad_checksums: int = 0
    """Packets with a bad checksum, where those of others are good."""
    texts: int = 0
    """Texts between frames."""
    errors: int = 0
    """What could not be read: frames, nested messages, parts of captures."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a stream, given its row of `accounting`."""
        self.streams += 1
        self.captured += row["captured"]
        self.decoded += row["decoded"]
        self.quarantined += row["quarantined"]
        self.gap += row["gap"]
        self.duplicate += row["duplicate"]
        self.missing += row["missing"]
        self.frames += row["frames"]
        self.packets += row["packets"]
        self.conflict += row["conflict"]
        self.bad_checksums += row["bad_checksums"]

    def merge(self, other: Account) -> None:
        """Add the account of another part of the same stream."""
        self.decoded += other.decoded
        self.quarantined += other.quarantined
        self.gap += other.gap
        self.frames += other.frames
        self.texts += other.texts

    def refuse(self, frames: int, size: int) -> None:
        """Move frames that turned out not to be legal packets from decoded to quarantined."""
        self.frames -= frames
        self.decoded -= size
        self.quarantined += size

    @property
    def is_balanced(self) -> bool:
        """Whether every captured byte is in one of the four sums."""
        return self.captured == self.decoded + self.quarantined + self.gap + self.duplicate

    def to_dict(self) -> dict[str, int]:
        """The number of streams, and the numbers of `accounting`."""
        return {name: getattr(self, name) for name in ("streams", *COUNTS)}


def balanced(
    source: str, stream: str, format: str | None, account: Account, counts: Counts
) -> dict[str, Any]:
    """The row of `accounting` of a stream that has ended.

    Raises:
        AssertionError: the bytes do not add up, which is a bug in this program.
    """
    found = account.decoded + account.quarantined + account.gap + counts.duplicate
    if found != counts.captured:
        raise AssertionError(
            f"{source}, {stream}: {counts.captured} bytes captured, but {found} accounted for "
            f"({account}, {counts})"
        )
    return {
        "source": source,
        "stream": stream,
        "format": format,
        "captured": counts.captured,
        "decoded": account.decoded,
        "quarantined": account.quarantined,
        "gap": account.gap,
        "duplicate": counts.duplicate,
        "missing": counts.missing,
        "frames": account.frames,
        "packets": counts.packets,
        "conflict": counts.conflict,
        "bad_checksums": counts.bad_checksums,
    }


@dataclass(slots=True)
class ErrorKind:
    """Errors with the same code."""

    first: Mapping[str, Any]
    """The row of `errors` of the first of them."""
    number: int = 0


@dataclass(slots=True)
class Totals(Account):
    """The sums over all streams that have ended, what could not be read, and rows given out."""

    damaged: int = 0
    """Bytes of captures that belong to no stream because they could not be read."""
    left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes that are in no stream: ``not_ip``, ``other_protocol``, ``encapsulated``."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows given out, by table."""
    formats: dict[str | None, Account] = field(default_factory=dict)
    """The accounts by format of the stream; None: not recognised."""
    kinds: dict[str, ErrorKind] = field(default_factory=dict)
    """What could not be read, by code: there are few codes, while reasons may be endless."""

    def end(self, row: Mapping[str, Any], texts: int = 0) -> None:
        """Count a stream that has ended, given its row of `accounting`."""
        for account in (self, self._of(row["format"])):
            account.add(row)
            account.texts += texts

    def fail(self, row: Mapping[str, Any]) -> None:
        """Count something that could not be read, given its row of `errors`."""
        self.errors += 1
        if row["stream"]:
            self._of(row["format"]).errors += 1
        kind = self.kinds.get(row["code"])
        if kind is None:
            # Without its bytes, which may be many.
            names = ("source", "stream", "frame_offset", "path", "reason")
            kind = self.kinds[row["code"]] = ErrorKind({name: row[name] for name in names})
        kind.number += 1

    def leave_out(self, found: Mapping[str, tuple[int, int]]) -> None:
        """Add the packets of another capture that are in no stream."""
        for kind, (packets, size) in found.items():
            before = self.left_out.get(kind, (0, 0))
            self.left_out[kind] = before[0] + packets, before[1] + size

    def _of(self, format: str | None) -> Account:
        account = self.formats.get(format)
        if account is None:
            account = self.formats[format] = Account()
        return account

    @property
    def is_balanced(self) -> bool:
        """Whether the sums are right, for every format."""
        return all(account.is_balanced for account in self.formats.values())
