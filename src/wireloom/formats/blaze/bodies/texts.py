"""The rows of Blaze bodies → JSON, as `json.dumps` writes the values of the object path."""

from __future__ import annotations

import math
from array import array
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.formats.blaze.bodies.tables import Tables
from wireloom.kernel.rows import bodyrows

__all__ = ["JsonWriter", "json_writer"]

_NO_REALS = memoryview(bytes(1)), memoryview(bytes(4)).cast("i")
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


class JsonWriter:
    """Writes the bodies that the kernel has read; for one worker at a time."""

    def __init__(self, writer: Any, longest: int) -> None:
        self._writer = writer
        self._longest = longest

    def array(self, rows: Any, first: int, last: int, outcome: memoryview) -> pa.Array:
        """The text of each frame from `first` up to `last`; null where there is no body.

        Args:
            rows: the kernel's rows of these frames.
            first: number of the first frame.
            last: number after the last.
            outcome: what became of each frame of the batch.
        """
        count = last - first
        reals, real_ends = _reals(rows) if rows.seen & bodyrows.HAS_REAL else _NO_REALS
        # More than is ever written: a byte of text may become six bytes, or two if it is not UTF-8.
        most = 6 * rows.text_used + 2 * rows.binary_used + len(reals) + 2 * count
        most += rows.count * (self._longest + 32)
        out, valid = bytearray(most + 64), bytearray(count // 8 + 1)
        ends = memoryview(bytearray(4 * (count + 1))).cast("i")
        there = self._writer.write(rows, first, last, outcome, reals, real_ends, out, ends, valid)
        data = pa.py_buffer(bytes(memoryview(out)[: ends[count]]))
        bits = None if there == count else pa.py_buffer(valid)
        buffers = [bits, pa.py_buffer(ends), data]
        return pa.Array.from_buffers(pa.string(), count, buffers, count - there)


def _reals(rows: Any) -> tuple[memoryview, memoryview]:
    """All reals as JSON, and where each ends: Python knows their shortest form."""
    masks = pa.Array.from_buffers(pa.uint8(), rows.count, [None, rows.buffers["mask"]], 0)
    has_real = pc.bit_wise_and(masks, pa.scalar(bodyrows.HAS_REAL, pa.uint8()))
    values = pa.Array.from_buffers(pa.float64(), rows.count, [None, rows.buffers["value_real"]], 0)
    texts = [
        repr(value) if math.isfinite(value) else _NOT_FINITE[str(value)]
        for value in values.filter(has_real.cast(pa.bool_())).to_pylist()
    ]
    ends = array("i", accumulate(map(len, texts)))
    return memoryview("".join(texts).encode()), memoryview(ends)


def json_writer(tables: Tables, kernel: Any) -> JsonWriter | None:
    """A writer for the classes of a model; None if hex keys do not follow from names alone."""
    made = tables.writer(kernel)
    if made is None:
        return None
    # A name may need escapes, and is in quotes before a colon.
    return JsonWriter(made, max((6 * len(name) for name in tables.names), default=0) + 16)
