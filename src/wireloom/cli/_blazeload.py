"""Many objects from a CSV or Parquet file into a broker; what it does not take goes to a file."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import click

from wireloom.cli._blazeconnect import note_connection
from wireloom.cli._blazetx import outcome
from wireloom.cli._blazevalues import Columns
from wireloom.cli._flat import json_line
from wireloom.cli._output import text_output
from wireloom.cli._progress import byte_bar
from wireloom.errors import EncodeError, SourceError

if TYPE_CHECKING:
    from wireloom.cli._blazeconnect import Target
    from wireloom.formats.blaze.nclass import ClassLayout, NClassValue
    from wireloom.services.blaze import Client, Result

__all__ = ["Loaded", "load"]

_AT_ONCE = 4096
"""Rows whose transactions are under way together."""

Row = tuple[int, dict[str, Any]]
"""Number of a row, from 1 without the header, and its cells."""


@dataclass(slots=True)
class Loaded:
    """What became of the rows."""

    rows: int = 0
    loaded: int = 0
    updated: int = 0
    """Of those: objects that were there before."""
    rejected: int = 0
    is_cut: bool = False
    """The broker was gone: rows behind these were not read."""
    unknown: int = 0
    """Rows whose fate is not known, because the connection was lost."""
    rejects: str | None = None
    """The file that has the rows which were not loaded, and why."""


def _csv(path: str, done: Callable[[int], None]) -> Iterator[Any]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_counted(file, done))
        try:
            header = next(reader, [])
            yield header
            for number, cells in enumerate(reader, 1):
                if len(cells) > len(header):
                    yield number, {"": cells}
                elif cells:
                    yield number, dict(zip(header, cells, strict=False))
        except csv.Error as error:
            raise SourceError(str(error), file=path, line=reader.line_num) from error


def _counted(file: IO[str], done: Callable[[int], None]) -> Iterator[str]:
    read = 0
    for line in file:
        read += len(line)
        yield line
        done(read)


def _parquet(path: str, done: Callable[[int], None]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise SourceError(f"it is no Parquet file: {error}", file=path) from error
    with opened as file:
        yield list(file.schema_arrow.names)
        size, total, number = os.path.getsize(path), file.metadata.num_rows or 1, 0
        for batch in file.iter_batches(batch_size=_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield number, row
            done(size * number // total)


def _is_unicode(text: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


class _Rejects:
    """The file of what was not loaded: made when there is something to write."""

    def __init__(self, path: str, force: bool, source: str, stack: contextlib.ExitStack) -> None:
        self.path = path
        self._output = text_output(path, force, source)
        self._stack = stack
        self._file: IO[str] | None = None
        if os.path.isfile(path) and not force:
            raise click.UsageError(f"{path} exists; overwrite it with --force")

    def write(self, number: int, row: dict[str, Any], reason: str) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._output)
        cells = {name: _plain(value) for name, value in row.items()}
        self._file.write(json_line({"row": number, "reason": reason, "cells": cells}) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


@dataclass(slots=True)
class _Load:
    layout: ClassLayout
    is_upsert: bool
    rejects: _Rejects
    totals: Loaded = field(default_factory=Loaded)

    async def send(self, client: Client, rows: Sequence[Row], columns: Columns) -> None:
        values: list[NClassValue] = []
        sent: list[Row] = []
        for number, row in rows:
            self.totals.rows += 1
            try:
                values.append(self._value(columns, row))
                sent.append((number, row))
            except EncodeError as error:
                self._reject(number, row, str(error))
        await self._transact(client, sent, values)

    def _value(self, columns: Columns, row: dict[str, Any]) -> NClassValue:
        from wireloom.formats.blaze.nclass import new_value

        if "" in row:
            raise EncodeError("more cells than columns")
        for name, cell in row.items():
            if isinstance(cell, str) and not _is_unicode(cell):
                raise EncodeError("not UTF-8", path=name)
        return new_value(self.layout.model, self.layout.nclass, columns.values(row))

    async def _transact(
        self, client: Client, rows: Sequence[Row], values: Sequence[NClassValue]
    ) -> None:
        from wireloom.formats.blaze.codes import Action

        results = await client.transact_many(Action.INS, values)
        again = [i for i, result in enumerate(results) if not result.is_ok and result.is_sent]
        if self.is_upsert and again:
            # An update may be sent once more, so that what was lost on the way is sent again, too.
            updates = await client.transact_many(Action.UPD, [values[i] for i in again])
            for i, update in zip(again, updates, strict=True):
                self.totals.updated += update.is_ok
                results[i] = update
        for (number, row), result in zip(rows, results, strict=True):
            self._count(number, row, result)
        self.totals.is_cut = not all(result.is_sent for result in results)

    def _count(self, number: int, row: dict[str, Any], result: Result) -> None:
        if result.is_ok:
            self.totals.loaded += 1
        elif result.is_known:
            self._reject(number, row, outcome(result))
        else:
            self.totals.unknown += 1
            self.rejects.write(number, row, outcome(result))

    def _reject(self, number: int, row: dict[str, Any], reason: str) -> None:
        self.totals.rejected += 1
        self.rejects.write(number, row, reason)


def load(
    target: Target,
    layout: ClassLayout,
    source: str,
    *,
    is_upsert: bool,
    rejects: str | None,
    force: bool,
    max_flying: int,
) -> Loaded:
    """Insert the objects in the rows of a file.

    Raises:
        EncodeError: a column is no field of the class.
        ConnectionClosed: there is no connection any more.
    """
    path = rejects or f"{os.path.basename(source)}.rejects.jsonl"
    read = _parquet if source.lower().endswith(".parquet") else _csv

    with contextlib.ExitStack() as stack:
        show = stack.enter_context(byte_bar(os.path.getsize(source)))
        work = _Load(layout, is_upsert, _Rejects(path, force, source, stack))
        rows = read(source, show)
        columns = Columns(layout, next(rows))
        for name in columns.missing:
            click.echo(f"no column for {name}, which is in the key: it is empty", err=True)

        async def run() -> None:
            async with target.client(
                layout.model, note_connection, max_flying=max_flying
            ) as client:
                while not work.totals.is_cut and (chunk := list(islice(rows, _AT_ONCE))):
                    await work.send(client, chunk, columns)

        asyncio.run(run())
        if work.totals.rejected or work.totals.unknown:
            work.totals.rejects = path
    return work.totals
