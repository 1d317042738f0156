"""Comma-separated values: in order, and the same whatever they are written to."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

from wireloom.cli._csv import CsvTables

COUNT = 40_000


def batch() -> pa.RecordBatch:
    """More rows than one thread takes."""
    numbers = pa.array(range(COUNT))
    texts = pa.array([f"é{n}" if n % 3 else None for n in range(COUNT)])
    return pa.record_batch([numbers, texts], ["n", "text"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", None])
def test_rows_of_all_threads_are_in_order(encoding: str | None) -> None:
    raw = io.BytesIO()
    stream = io.StringIO() if encoding is None else io.TextIOWrapper(raw, encoding, newline="")
    sink = CsvTables(stream, {"t": ("n", "text")})
    sink.write("t", batch())
    sink.write("t", batch().slice(0, 0))
    sink.write("t", batch().slice(7, 1))
    sink.flush()
    sink.close()
    written = stream.getvalue() if encoding is None else raw.getvalue().decode(encoding)
    places = [*range(COUNT), 7]
    expected = [["n", "text"], *([str(n), f"é{n}" if n % 3 else ""] for n in places)]
    assert list(csv.reader(written.splitlines())) == expected
