"""What became of every byte, in a few lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wireloom.cli._sizes import count
from wireloom.tables import KEY
from wireloom.view import clip, escape

if TYPE_CHECKING:
    import pyarrow as pa

    from wireloom.tabulate.accounting import Account, Totals

__all__ = [
    "LEFT_OUT",
    "UNKNOWN",
    "WideNotes",
    "left_out_lines",
    "problem_lines",
    "summary_lines",
    "to_json",
]

MAX_CODES = 5
"""Kinds of problems that a summary lists, the most frequent first."""
HINTS = {
    "unknown_fid": "name the field dictionary with --dictionary",
    "unknown_format": "say what is spoken with --ports or --format",
    "nclsid": "the model that declares the class goes to --model",
}
"""Hints, by error code."""
LEFT_OUT = {
    "not_ip": "not IP",
    "other_protocol": "other protocol",
    "encapsulated": "encapsulated, not read",
    "damaged": "damaged",
}
"""Names for bytes in no stream."""
_WIDE_KEY = frozenset(column.name for column in KEY)
UNKNOWN = "unrecognised"
"""Name for streams of unknown format."""


def summary_lines(totals: Totals, noun: str = "frame") -> Iterator[str]:
    """A line for each format, one for all if there are several, and one for each kind of error."""
    if len(totals.formats) > 1:
        yield f"{count(totals.frames, noun)}, {count(totals.errors, 'problem')}"
    for format in sorted(totals.formats, key=lambda each: (each is None, each)):
        account = totals.formats[format]
        if format is not None or account.captured or account.errors:
            yield f"{format or UNKNOWN}: {_sentence(account, noun)}"
    yield from left_out_lines(totals)
    if not totals.is_balanced:
        yield "warning: the bytes do not add up; this is a bug in wireloom"
    yield from problem_lines(totals)


def problem_lines(totals: Totals) -> Iterator[str]:
    """A line for each of the most frequent kinds of errors."""
    worst = sorted(totals.kinds.items(), key=lambda item: (-item[1].number, item[0]))
    for code, kind in worst[:MAX_CODES]:
        yield f"{kind.number:,} × {escape(code)}, first {_where(kind.first)}"
        if code in HINTS:
            yield f"  hint: {HINTS[code]}"


def left_out_lines(totals: Totals) -> Iterator[str]:
    """Lines about packets that are in no stream, and those in tunnels, if there are any."""
    parts = [
        f"{account.packets:,} {LEFT_OUT[kind]} ({account.captured:,} bytes)"
        for kind, account in totals.no_stream.items()
        if account.left_out
    ]
    if parts:
        yield f"packets in no stream: {'; '.join(parts)}"
    for tunnel, streams in sorted(totals.tunnels.items()):
        where = f"{count(streams, 'stream')} of datagrams to the port of {tunnel}"
        yield f"note: {where}; --tunnels {tunnel} reads the packets in them"


class WideNotes:
    """What makes columns of the wide table emptier than expected."""

    def __init__(self, columns: Iterable[str] = ()) -> None:
        """Notes about these columns; those of the key, which every row has, are left out."""
        self._filled = {name: 0 for name in columns if name not in (*_WIDE_KEY, "misfits")}
        self._misfits = 0

    def watch(self, found: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[Any]:
        """Pass batches on, looking at those of the wide table."""
        for name, batch in found:
            if name == "wide":
                self._add(batch)
            yield name, batch

    def _add(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name == "misfits":
                self._misfits += column.sum().as_py() or 0
            elif name not in _WIDE_KEY:
                filled = len(column) - column.null_count
                self._filled[name] = self._filled.get(name, 0) + filled

    def lines(self, is_stopped: bool = False) -> Iterator[str]:
        """Which columns have no value, and how many values did not fit.

        Args:
            is_stopped: whether there are more rows, which were not asked for.
        """
        empty = [escape(name) for name, number in self._filled.items() if not number]
        if empty:
            so_far = " so far" if is_stopped else ""
            what = "that fits" if self._misfits else "for"
            yield f"note: no message{so_far} has a value {what} {', '.join(empty)}"
        if self._misfits:
            values = count(self._misfits, "value")
            yield (
                f"note: {values} did not fit the type of their column; misfits says where, "
                "and NAME:TYPE in --columns chooses another type"
            )


def to_json(totals: Totals) -> dict[str, Any]:
    """The sums for JSON."""
    formats = {name or UNKNOWN: account.to_dict() for name, account in totals.formats.items()}
    return {
        "formats": dict(sorted(formats.items())),
        "total": totals.to_dict(),
        "is_balanced": totals.is_balanced,
        "errors": totals.errors,
        "no_stream": {kind: account.to_dict() for kind, account in totals.no_stream.items()},
        "error_codes": {code: kind.number for code, kind in sorted(totals.kinds.items())},
    }


def _sentence(account: Account, noun: str) -> str:
    line = count(account.frames, noun)
    # A raw capture is one stream.
    if account.packets or account.streams > 1:
        line += f" in {count(account.streams, 'stream')}"
    if account.texts:
        line += f", {count(account.texts, 'text')}"
    line += (
        f", {count(account.errors, 'problem')}; {account.captured:,} bytes = "
        f"{account.decoded:,} decoded + {account.quarantined:,} quarantined"
    )
    # All four wherever packets can be lost or sent twice, so that the sum can be checked.
    if account.packets or account.gap or account.duplicate:
        line += f" + {account.gap:,} gap + {account.duplicate:,} duplicate"
    if account.missing:
        line += f"; {account.missing:,} bytes missing"
    if account.bad_checksums:
        line += f"; {count(account.bad_checksums, 'packet')} with a bad checksum"
    if account.conflict:
        line += (
            f"; {account.conflict:,} bytes read with a bad checksum that came again with a good one"
        )
    return line


def _where(row: Mapping[str, Any]) -> str:
    at = f"at byte {row['frame_offset']:,}" if row["frame_offset"] is not None else "at no byte"
    inside = f" in {row['path']}" if row["path"] else ""
    return clip(f"{at} of {row['stream'] or row['source']}{inside}: {row['reason']}", 200)
