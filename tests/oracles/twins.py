"""The compiled path against the object path: same bytes, same records, same rows.

Each check raises AssertionError with the first difference. The tests give it thousands of inputs,
the fuzzer as many as there is time for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import wireloom
from wireloom.arrow.frames import Refused
from wireloom.columnar.framing import FrameBatch, scan_frames
from wireloom.columnar.packettables import PacketDecoder
from wireloom.errors import DecodeError
from wireloom.formats import get
from wireloom.framing import Record
from wireloom.testing.chunks import chunkings
from wireloom.testing.vectors import Case, golden
from wireloom.wire import Buffer

__all__ = ["batch_of", "check_packets", "check_scan", "scanned", "seeds"]

_KEY = ("source", "stream", "frame_offset", "frame_length", "ts_ns", "ts", "path")


def seeds(name: str, most: int = 4096) -> list[bytes]:
    """A format's samples and all bytes in its golden vectors, up to that length."""
    found = dict.fromkeys(get(name).samples().values())
    for case in golden(name):
        found.update(dict.fromkeys(_bytes_in(case)))
    return [data for data in found if 0 < len(data) <= most]


def _bytes_in(case: Case) -> Iterator[bytes]:
    for key, value in case.items():
        if key == "hex" and isinstance(value, str):
            yield bytes.fromhex(value)
        elif key in ("chunks", "segments") and isinstance(value, list):
            chunks = [part for part in value if isinstance(part, str) and part != "idle"]
            yield bytes.fromhex("".join(chunks))


def _differ(what: str, wanted: Sequence[Any], found: Sequence[Any]) -> None:
    for index, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one != other:
            raise AssertionError(f"{what}: number {index} is {other!r} and should be {one!r}")
    if len(wanted) != len(found):
        raise AssertionError(f"{what}: {len(found)} of them, and should be {len(wanted)}")


# --- frames ---------------------------------------------------------------------------------------


def scanned(name: str, data: Any, **settings: Any) -> list[Record]:
    """The records of the compiled scanner."""
    batches = scan_frames(name, data, **settings)
    return [record for batch in batches for record in batch.records()]


def _settings(name: str, options: dict[str, Any]) -> dict[str, Any]:
    limits, strict, own = get(name).check_options(options)
    return {"limits": limits, "strict": strict, **own}


def check_scan(
    name: str, data: Buffer, *, kernel: Any = None, chunked: bool = True, **options: Any
) -> list[Record]:
    """Check that both scanners give the same records, in one piece and in chunks; returns them.

    Raises:
        AssertionError: they do not.
    """
    raw = bytes(data)
    wanted = list(wireloom.scan(raw, name, **options))
    settings = _settings(name, options)
    # A small batch makes the scanner return in the middle of everything.
    for batch in (1 << 16, 3):
        found = scanned(name, raw, kernel=kernel, batch=batch, **settings)
        _differ(f"{name}: {raw.hex()} in batches of {batch}", wanted, found)
    for title, chunks in chunkings(raw) if chunked else ():
        found = scanned(name, chunks, kernel=kernel, **settings)
        _differ(f"{name}: {raw.hex()} cut {title}", wanted, found)
    return wanted


# --- packets --------------------------------------------------------------------------------------


def batch_of(name: str, frames: Iterable[bytes], base: int = 0) -> FrameBatch:
    """A batch of any byte strings, taken for frames."""
    pieces = list(frames)
    offsets = memoryview(bytearray(8 * len(pieces))).cast("q")
    lengths = memoryview(bytearray(4 * len(pieces))).cast("i")
    at = 0
    for index, piece in enumerate(pieces):
        offsets[index], lengths[index] = at, len(piece)
        at += len(piece)
    return FrameBatch(name, memoryview(b"".join(pieces)), base, offsets, lengths)


def _said(error: DecodeError) -> tuple[Any, ...]:
    return error.code, error.reason, error.path, error.offset


def check_packets(
    name: str, batch: FrameBatch, *, decoder: PacketDecoder, **options: Any
) -> tuple[list[dict[str, Any]], list[Refused]]:
    """Check that the rows and refusals of a batch are those of the object path; returns them.

    Args:
        name: the format.
        batch: the frames.
        decoder: made with the same options; its columns are those that are compared.
        options: as for `wireloom.decode`.

    Raises:
        AssertionError: they are not.
    """
    format, settings = get(name), _settings(name, options)
    rows: list[dict[str, Any]] = []
    refused: list[tuple[Any, ...]] = []
    for index in range(batch.count):
        offset, raw = batch.base + batch.offsets[index], batch.frame(index)
        try:
            packet = format.decode(raw, **settings)
        except DecodeError as error:
            refused.append((offset, raw, *_said(error)))
        else:
            row = format.columns().row(packet) | {"frame_offset": offset, "frame_length": len(raw)}
            rows.append(row | {"source": "a", "stream": "b", "path": ""})
    found_rows: list[dict[str, Any]] = []
    found_refused: list[Refused] = []
    for made in decoder.decode(batch, source="a", stream="b"):
        made.rows.validate(full=True)
        found_rows += made.rows.to_pylist()
        found_refused += made.refused
    columns = [name for name in decoder.table.names if name != "nclass"]
    cut = [{name: row.get(name) for name in columns} for row in rows]
    found_cut = [{name: row[name] for name in columns} for row in found_rows]
    _differ(f"{name} rows", cut, found_cut)
    told = [(each.offset, each.data, *_said(each.error)) for each in found_refused]
    _differ(f"{name} refusals", refused, told)
    return found_rows, found_refused
