"""The sums of a run over captures: what the tables `accounting` and `errors` say, in few lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from wireloom.cli._codec import MAX_CODES, count
from wireloom.tables import KEY
from wireloom.view import clip, escape

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ERROR_COLUMNS", "Accounts", "Sums"]

ERROR_COLUMNS = ("source", "stream", "frame_offset", "path", "layer", "format", "code", "reason")
"""The columns of `errors` that the sums need."""
HINTS = {
    "unknown_fid": "name the field dictionary with --dictionary",
    "unknown_format": "say what is spoken with --ports or --format",
    "nclsid": "the model that declares the class goes to --model",
}
"""What may help, by code."""
LEFT_OUT = {
    "not_ip": "not IP",
    "other_protocol": "other protocol",
    "encapsulated": "encapsulated, not read",
}
"""What packets in no stream are called."""
_WIDE_KEY = frozenset(column.name for column in KEY)
UNKNOWN = "unrecognised"
"""What streams of no known format are called."""


@dataclass(slots=True)
class Sums:
    """The streams of one format, or all."""

    streams: int = 0
    frames: int = 0
    packets: int = 0
    captured: int = 0
    decoded: int = 0
    quarantined: int = 0
    gap: int = 0
    duplicate: int = 0
    missing: int = 0
    conflict: int = 0

    def add(self, row: dict[str, Any]) -> None:
        """One more stream."""
        self.streams += 1
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + row[name])

    @property
    def is_balanced(self) -> bool:
        """Whether every captured byte is in one of the four sums."""
        return self.captured == self.decoded + self.quarantined + self.gap + self.duplicate

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


_COUNTED = tuple(each.name for each in fields(Sums) if each.name != "streams")


@dataclass(slots=True)
class _Kind:
    """Errors with one code."""

    number: int = 0
    first: str = ""


@dataclass(slots=True)
class Accounts:
    """The sums so far."""

    formats: dict[str, Sums] = field(default_factory=dict)
    total: Sums = field(default_factory=Sums)
    errors: int = 0
    codes: dict[str, _Kind] = field(default_factory=dict)
    left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes of what is in no stream."""
    filled: dict[str, int] = field(default_factory=dict)
    """Of each column of the wide table, how many values there are."""
    misfits: int = 0
    """Values that did not fit their column."""

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Take a batch of any table."""
        if table == "accounting":
            for row in batch.to_pylist():
                self.total.add(row)
                self.formats.setdefault(row["format"] or UNKNOWN, Sums()).add(row)
        elif table == "errors":
            self._add_errors(batch)
        elif table == "wide":
            self._add_wide(batch)

    def _add_wide(self, batch: pa.RecordBatch) -> None:
        """Which columns have values, and how many did not fit."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name == "misfits":
                self.misfits += column.sum().as_py() or 0
            elif name not in _WIDE_KEY:
                filled = len(column) - column.null_count
                self.filled[name] = self.filled.get(name, 0) + filled

    def _add_errors(self, batch: pa.RecordBatch) -> None:
        self.errors += batch.num_rows
        codes = batch.column("code").cast("string")
        names = None
        for found in codes.value_counts().to_pylist():
            code = found["values"]
            kind = self.codes.get(code)
            if kind is None:
                # `Array.index` would import pandas, which takes longer than small captures do.
                names = codes.to_pylist() if names is None else names
                row = batch.slice(names.index(code), 1).select(ERROR_COLUMNS).to_pylist()[0]
                kind = self.codes[code] = _Kind(0, _where(row))
            kind.number += found["counts"]

    @property
    def is_balanced(self) -> bool:
        """Whether the sums are right for every format."""
        return all(sums.is_balanced for sums in self.formats.values())

    def lines(self) -> Iterator[str]:
        """A line for each format, and one for each frequent kind of error."""
        for name in sorted(self.formats, key=lambda each: (each == UNKNOWN, each)):
            yield f"{name}: {_sentence(self.formats[name])}"
        yield from self.packets_left_out()
        yield from self._wide_notes()
        if not self.is_balanced:
            yield "warning: the bytes do not sum up; this is a mistake in wireloom"
        yield from self.problems()

    def _wide_notes(self) -> Iterator[str]:
        """What would make a column of the wide table emptier than one might think."""
        empty = [escape(name) for name, number in self.filled.items() if not number]
        if empty:
            yield f"note: no message has a value for {', '.join(empty)}"
        if self.misfits:
            values = count(self.misfits, "value")
            yield f"note: {values} did not fit the type of their column; misfits says where"

    def packets_left_out(self) -> Iterator[str]:
        """A line about packets that are in no stream, if there are any."""
        if self.left_out:
            parts = [
                f"{packets:,} {LEFT_OUT[kind]} ({size:,} bytes)"
                for kind, (packets, size) in self.left_out.items()
            ]
            yield f"packets in no stream: {'; '.join(parts)}"

    def problems(self) -> Iterator[str]:
        """A line for each of the most frequent kinds of errors."""
        worst = sorted(self.codes.items(), key=lambda item: (-item[1].number, item[0]))
        for code, kind in worst[:MAX_CODES]:
            yield f"{kind.number:,} × {escape(code)}, first {kind.first}"
            if code in HINTS:
                yield f"  hint: {HINTS[code]}"

    def to_dict(self) -> dict[str, Any]:
        """The sums as JSON has them."""
        return {
            "formats": {name: sums.to_dict() for name, sums in sorted(self.formats.items())},
            "total": self.total.to_dict(),
            "is_balanced": self.is_balanced,
            "errors": self.errors,
            "left_out": {
                kind: {"packets": packets, "bytes": size}
                for kind, (packets, size) in self.left_out.items()
            },
            "error_codes": {code: kind.number for code, kind in sorted(self.codes.items())},
        }


def _sentence(sums: Sums) -> str:
    line = (
        f"{count(sums.frames, 'frame')} in {count(sums.streams, 'stream')}; "
        f"{sums.captured:,} bytes = {sums.decoded:,} decoded + {sums.quarantined:,} quarantined"
    )
    # Always all four where packets can be lost or sent twice, so that the sum can be checked.
    if sums.packets or sums.gap or sums.duplicate:
        line += f" + {sums.gap:,} gap + {sums.duplicate:,} duplicate"
    if sums.missing:
        line += f"; {sums.missing:,} bytes missing"
    if sums.conflict:
        line += (
            f"; {sums.conflict:,} bytes read with a bad checksum that came again with a good one"
        )
    return line


def _where(row: dict[str, Any]) -> str:
    place = row["stream"] if row["stream"] and row["stream"] != row["source"] else row["source"]
    at = f"at byte {row['frame_offset']:,}" if row["frame_offset"] is not None else "at no byte"
    inside = f" in {row['path']}" if row["path"] else ""
    return clip(f"{at} of {place}{inside}: {row['reason']}", 200)
