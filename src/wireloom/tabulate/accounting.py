"""Where every captured byte went: decoded, quarantined, cut by a hole, captured twice, left out.

An `Account` is kept for every stream while it is read; the accounts of streams that have ended are
summed up in `Totals`, by format and in all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wireloom.captures import Counts

__all__ = ["COUNTS", "NO_STREAM", "Account", "ErrorKind", "Totals", "balanced"]

COUNTS: Final = (
    "captured",
    "decoded",
    "quarantined",
    "gap",
    "duplicate",
    "left_out",
    "missing",
    "frames",
    "packets",
    "conflict",
    "bad_checksums",
)
"""The numbers of a row of `accounting`."""

NO_STREAM: Final = "no stream: "
"""How the column `stream` of rows of `accounting` begins that are of bytes in no stream. Their kind
follows: that of a `wireloom.captures.LeftOut`, or ``damaged`` for what could not be read."""

_TUNNELS: Final = {"4789": "vxlan", "6081": "geneve", "2152": "gtp"}
"""The tunnels that are read on request, by UDP port."""
_TO_PORT = re.compile(r"udp .*:(\d+) #")


@dataclass(slots=True)
class Account:
    """The bytes of one stream, or of several."""

    streams: int = 0
    """Streams that have ended."""
    captured: int = 0
    """Payload bytes, and those of packets in no stream: the sum of the next five."""
    decoded: int = 0
    """Bytes of frames, and of text between them."""
    quarantined: int = 0
    """Bytes of `errors` rows, except those that a hole cut."""
    gap: int = 0
    """Captured bytes of frames that a hole cut."""
    duplicate: int = 0
    left_out: int = 0
    """Bytes of packets that carry nothing for a stream."""
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

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows of `accounting`."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + sum([row[name] for row in rows]))

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
        """Whether every captured byte is in one of the five sums."""
        found = self.decoded + self.quarantined + self.gap + self.duplicate + self.left_out
        return self.captured == found

    def to_dict(self) -> dict[str, int]:
        """The number of streams, and the numbers of `accounting`."""
        return {name: getattr(self, name) for name in ("streams", *COUNTS)}


def balanced(
    source: str, stream: str, format: str | None, account: Account, counts: Counts
) -> dict[str, Any]:
    """The row of `accounting` of a stream that has ended, or of bytes in none.

    Raises:
        AssertionError: the bytes do not add up, which is a bug in this program.
    """
    found = account.decoded + account.quarantined + account.gap + account.left_out
    found += counts.duplicate
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
        "left_out": account.left_out,
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
    no_stream: dict[str, Account] = field(default_factory=dict)
    """The accounts of bytes in no stream, by kind; see `NO_STREAM`."""
    tunnels: dict[str, int] = field(default_factory=dict)
    """Streams to the ports of tunnels, so that packets in them were not read, by tunnel."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows given out, by table."""
    formats: dict[str | None, Account] = field(default_factory=dict)
    """The accounts by format of the stream; None: not recognised."""
    kinds: dict[str, ErrorKind] = field(default_factory=dict)
    """What could not be read, by code: there are few codes, while reasons may be endless."""

    def end(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Count streams that have ended, and bytes in none, given their rows of `accounting`."""
        self.add(rows)
        by_format: dict[str | None, list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["stream"].startswith(NO_STREAM):
                kind = row["stream"].removeprefix(NO_STREAM)
                self.no_stream.setdefault(kind, Account()).add([row])
            else:
                by_format.setdefault(row["format"], []).append(row)
                to = _TO_PORT.match(row["stream"])
                if to and (tunnel := _TUNNELS.get(to[1])):
                    self.tunnels[tunnel] = self.tunnels.get(tunnel, 0) + 1
        for format, own in by_format.items():
            for account in (self, self._of(format)):
                account.streams += len(own)
            self._of(format).add(own)

    def end_texts(self, format: str | None, texts: int) -> None:
        """Count the texts between the frames of a stream that has ended."""
        self.texts += texts
        self._of(format).texts += texts

    def fail(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Count what could not be read, given the rows of `errors`."""
        self.errors += len(rows)
        for row in rows:
            kind = self.kinds.get(row["code"])
            if kind is None:
                # Without its bytes, which may be many.
                names = ("source", "stream", "frame_offset", "path", "reason")
                kind = self.kinds[row["code"]] = ErrorKind({name: row[name] for name in names})
            kind.number += 1
            if row["stream"]:
                self._of(row["format"]).errors += 1

    def _of(self, format: str | None) -> Account:
        account = self.formats.get(format)
        if account is None:
            account = self.formats[format] = Account()
        return account

    @property
    def is_balanced(self) -> bool:
        """Whether the sums are right, for every format and for what is in no stream."""
        parts = (*self.formats.values(), *self.no_stream.values())
        return all(account.is_balanced for account in parts)
