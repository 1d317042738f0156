"""The columnar path in one call: bytes or frames → record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from wireloom.arrow.arrays import from_rows
from wireloom.columnar.framing import FrameBatch, Source, scan_frames
from wireloom.columnar.messages import BATCH_ROWS, MessageDecoder
from wireloom.columnar.wide import infer
from wireloom.columns import failure_row, key_row
from wireloom.formats import get
from wireloom.framing import Problem
from wireloom.tables import table, wide_column
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["decode_bytes", "decode_frames", "infer_columns"]

Batches = Iterator[tuple[str, pa.RecordBatch]]

_SAMPLE = 4096
"""Frames that `infer_columns` looks at."""


def decode_frames(
    data: Source,
    starts: Any,
    lengths: Any,
    format: str,
    *,
    tables: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    select: Mapping[str, Iterable[str]] | None = None,
    source: str = "",
    stream: str = "",
    offsets: Any = None,
    base: int = 0,
    ts_ns: Any = None,
    nested: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> Batches:
    """The tables of frames whose offsets and lengths are given as arrays.

    Args:
        data: bytes, a memoryview or a mapped file that holds the frames.
        starts: where each starts in `data`: 64-bit numbers.
        lengths: the bytes of each: 32-bit numbers.
        format: ``tibmsg``, ``tibrv`` or ``qform``.
        tables: which; by default ``messages``, ``fields`` and ``errors``, or with `columns`
            ``wide`` and ``errors``.
        columns: the fields of the wide table, such as ``BID`` or ``BID:decimal(18,4)``. One without
            a type gets it from the dictionary (QForm), else from the first frames: name the types
            where the schema must not depend on the data.
        select: columns of the other tables that are wanted; all of a table that is not named.
        source: name of the capture, for the key.
        stream: name of the stream, for the key.
        offsets: where each frame starts in its stream; by default at its start plus `base`.
        base: stream offset of ``data[0]``.
        ts_ns: when each frame was captured, in nanoseconds since 1970; None if not known.
        nested: whether messages in the payloads of others get rows too.
        limits: as for `wireloom.decode`.
        batch_rows: rows in a batch.
        options: the format's own: ``dictionary``, ``dialect``, ``strict``.

    Returns:
        Pairs of a table's name and a record batch.

    Raises:
        OptionError: there is no such format, table, column or option.
        SourceError: the dictionary cannot be found or read.
    """
    if columns is not None:
        columns = list(columns)
        if _is_open(columns, format):
            columns = infer_columns(data, starts, lengths, format, columns, nested, **options)
    decoder = MessageDecoder(
        format,
        tables=_tables(tables, columns),
        columns=columns,
        select=select,
        source=source,
        nested=nested,
        limits=limits,
        batch_rows=batch_rows,
        **options,
    )
    yield from decoder.feed(
        data, starts, lengths, offsets=offsets, base=base, ts_ns=ts_ns, stream=stream
    )
    yield from decoder.flush()


def _tables(tables: Iterable[str] | None, columns: object) -> tuple[str, ...]:
    if tables is not None:
        return tuple(tables)
    return ("messages", "fields", "errors") if columns is None else ("wide", "errors")


def decode_bytes(
    data: Source | Iterable[Source],
    format: str,
    *,
    tables: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    select: Mapping[str, Iterable[str]] | None = None,
    source: str = "",
    stream: str = "",
    offset: int = 0,
    nested: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    batch_rows: int = BATCH_ROWS,
    **options: Any,
) -> Batches:
    """The tables of a stream of messages back to back, damage included.

    Arguments are those of `decode_frames`, and:

    Args:
        data: the stream in one piece, such as a mapped file, or in chunks.
        format: ``tibmsg``, ``tibrv`` or ``qform``.
        tables: which.
        columns: the fields of the wide table.
        select: columns of the other tables.
        source: name of the capture.
        stream: name of the stream.
        offset: stream offset of the first byte.
        nested: whether messages in payloads get rows.
        limits: as for `wireloom.decode`.
        batch_rows: rows in a batch.
        options: the format's own.

    Raises:
        OptionError: there is no such format, table, column or option.
        SourceError: the dictionary cannot be found or read.
    """
    wanted = _tables(tables, columns)
    batches = scan_frames(format, data, offset=offset, limits=limits, **options)
    if columns is not None:
        columns = list(columns)
        if _is_open(columns, format):
            first = list(islice(batches, 1))
            if first:
                part = first[0]
                columns = infer_columns(
                    part.data, part.offsets, part.lengths, format, columns, nested, **options
                )
            batches = _again(first, batches)
    decoder = MessageDecoder(
        format,
        tables=wanted,
        columns=columns,
        select=select,
        source=source,
        nested=nested,
        limits=limits,
        batch_rows=batch_rows,
        **options,
    )
    has_errors = "errors" in wanted
    for batch in batches:
        yield from decoder.feed(
            batch.data, batch.offsets, batch.lengths, base=batch.base, stream=stream
        )
        problems = [other for other in batch.others if isinstance(other, Problem)]
        if problems and has_errors:
            yield "errors", _problems(decoder, problems, source, stream)
    yield from decoder.flush()


def _is_open(columns: list[str], format: str) -> bool:
    """Whether only a look at messages can tell a column's type."""
    is_typed = all(wide_column(text)[1] is not None for text in columns)
    return not is_typed and not get(format).columns().knows_fields


def _again(first: list[FrameBatch], rest: Iterator[FrameBatch]) -> Iterator[FrameBatch]:
    yield from first
    yield from rest


def _problems(
    decoder: MessageDecoder, problems: list[Problem], source: str, stream: str
) -> pa.RecordBatch:
    rows = [
        key_row(source, stream, problem.offset, problem.length, None)
        | failure_row("frame", problem.format, problem, problem.data, problem.at)
        for problem in problems
    ]
    return from_rows(decoder.table("errors"), rows)


def infer_columns(
    data: Source,
    starts: Any,
    lengths: Any,
    format: str,
    columns: Iterable[str] | None = None,
    nested: bool = True,
    **options: Any,
) -> list[str]:
    """Chosen fields with the types that they have in the first frames, for `decode_frames`.

    Args:
        data: what holds the frames.
        starts: where each starts.
        lengths: the bytes of each.
        format: of the messages.
        columns: the fields; those that have a type keep it. None: all fields that occur.
        nested: whether to look into messages in payloads too.
        options: the format's own.

    Raises:
        OptionError: there is no such format, type or option.
    """
    wanted = [name for name in table("fields").names if name not in ("source", "stream", "ts")]
    first = (starts[:_SAMPLE], lengths[:_SAMPLE])
    found = decode_frames(
        data, *first, format, tables=["fields"], select={"fields": wanted}, nested=nested, **options
    )
    rows = [row for _, batch in found for row in _plain(batch)]
    types = infer(rows)
    given = [wide_column(text) for text in columns] if columns is not None else []
    if columns is None:
        given = [(name, None) for name in types]
    return [f"{name}:{type or types.get(name, 'text')}" for name, type in given]


def _plain(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts; times as numbers, since Python has none in nanoseconds."""
    at = batch.schema.get_field_index("value_time")
    if at >= 0:
        batch = batch.set_column(at, "value_time", batch.column(at).view(pa.int64()))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows
