"""What the word kernel filled → Arrow record batches, without copying.

A column that no frame of a batch has costs nothing: all of them share the same zeros. So do the key
columns that are alike in every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.columnar.arrays import int_scalar, strings
from wireloom.columnar.framing import FrameBatch
from wireloom.columnar.program import Output, Program
from wireloom.tables import Column, Table, arrow_type

__all__ = ["Assembly", "Filled", "Keys"]


@dataclass(frozen=True, slots=True)
class Keys:
    """The key columns of a batch of frames."""

    source: str | pa.DictionaryArray
    """Of all frames, or of each."""
    stream: str | pa.DictionaryArray
    base: int
    """Stream offset that the frames' offsets count from."""
    ts_ns: memoryview | None
    """Capture time of each frame; None if not known."""
    offsets: memoryview | None = None
    """Stream offset of each frame, where they lie in several streams."""

    def part(self, first: int, last: int) -> Keys:
        """Those of the frames from `first` up to `last`."""
        source, stream = (
            text if isinstance(text, str) else text.slice(first, last - first)
            for text in (self.source, self.stream)
        )
        return Keys(
            source,
            stream,
            self.base,
            None if self.ts_ns is None else self.ts_ns[first:last],
            None if self.offsets is None else self.offsets[first:last],
        )

    def row(self, index: int, batch: FrameBatch) -> dict[str, Any]:
        """The key of one frame."""
        source, stream = (
            text if isinstance(text, str) else text[index].as_py()
            for text in (self.source, self.stream)
        )
        ts_ns = None if self.ts_ns is None else self.ts_ns[index]
        return {
            "source": source,
            "stream": stream,
            "frame_offset": self.offset(index, batch),
            "frame_length": batch.lengths[index],
            "ts_ns": ts_ns,
            "ts": None if ts_ns is None else ts_ns // 1000,
            "path": "",
        }

    def offset(self, index: int, batch: FrameBatch) -> int:
        """Where a frame starts in its stream."""
        found: int = (
            self.base + batch.offsets[index] if self.offsets is None else self.offsets[index]
        )
        return found


class _Zeros:
    """One buffer of zeros for all who need some."""

    def __init__(self) -> None:
        self._buffer = pa.py_buffer(bytes(1 << 19))

    def get(self, size: int) -> pa.Buffer:
        if size > self._buffer.size:
            self._buffer = pa.py_buffer(bytes(size))
        return self._buffer.slice(0, size)


_ZEROS = _Zeros()


def _nulls(type: pa.DataType, count: int) -> pa.Array:
    """Nothing but nulls, of a type whose values have a fixed size."""
    bits, width = _ZEROS.get(count // 8 + 1), type.bit_width // 8
    return pa.Array.from_buffers(type, count, [bits, _ZEROS.get(width * count)], count)


class Filled:
    """The blocks of memory that a run of the kernel filled."""

    def __init__(self, kernel_rows: Any, outputs: list[Output]) -> None:
        """Make room for those columns that the classified frames have."""
        self.rows = kernel_rows
        self.count: int = kernel_rows.count
        counts = kernel_rows.counts
        self.there = {
            output.index: sum(counts[form] for form in output.forms) for output in outputs
        }
        self.slots = memoryview(bytearray(4 * max(len(outputs), 1))).cast("i")
        used = {"i32": 0, "i64": 0, "blob": 0}
        stride = -(-max(self.count, 1) // 16) * 16  # columns start at multiples of 64 bytes
        for output in outputs:
            if self.there[output.index]:
                group = "blob" if output.is_blob else "i64" if output.kind == "i64" else "i32"
                self.slots[output.index] = stride * used[group]
                used[group] += 1
        self.buffer32, self.ints32 = self._block("i", stride * used["i32"])
        self.buffer64, self.ints64 = self._block("q", stride * used["i64"])
        self.starts = self._block("q", stride * used["blob"])[1]
        self.sizes = self._block("i", stride * used["blob"])[1]
        self.outcome = memoryview(bytearray(max(self.count, 1)))

    def _block(self, code: Literal["i", "q"], values: int) -> tuple[pa.Buffer, memoryview]:
        buffer = pa.allocate_buffer((8 if code == "q" else 4) * values)
        return buffer, memoryview(buffer).cast("B").cast(code)

    def run(self, batch: FrameBatch) -> None:
        """Let the kernel fill the blocks."""
        self.rows.run(
            batch.data,
            batch.offsets,
            batch.lengths,
            self.slots,
            self.ints32,
            self.ints64,
            self.starts,
            self.sizes,
            self.outcome,
        )

    def numbers(self, output: Output) -> pa.Buffer:
        """The values of a column of numbers."""
        is_wide = output.kind == "i64"
        width, buffer = (8, self.buffer64) if is_wide else (4, self.buffer32)
        start = width * self.slots[output.index]
        return buffer.slice(start, width * self.count)

    def blobs(self, output: Output) -> tuple[memoryview, memoryview]:
        """Where the values of a blob column start, and their sizes."""
        start = self.slots[output.index]
        return self.starts[start : start + self.count], self.sizes[start : start + self.count]


class Assembly:
    """Builds the record batches of one packet table."""

    def __init__(self, kernel: Any, table: Table, program: Program) -> None:
        self._kernel = kernel
        self._columns = table.columns
        self.schema = pa.schema([(each.name, arrow_type(each.type)) for each in table.columns])
        self._program = program
        self._outputs = {output.name: output for output in program.outputs}
        self._names: dict[str, pa.Array] = {}
        self._learned(program.name_outputs)

    def _learned(self, outputs: list[Output]) -> None:
        for output in outputs:
            self._names[output.name] = strings(output.names)

    def fill(self, rows: Any, batch: FrameBatch) -> Filled:
        """The columns of the frames that `rows` has classified."""
        filled = Filled(rows, list(self._program.outputs))
        filled.run(batch)
        self._learned(self._program.learn())
        return filled

    def batch(
        self, filled: Filled, keys: Keys, batch: FrameBatch, more: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        """The rows of all frames that are not refused.

        Args:
            filled: what the kernel made of them.
            keys: the key columns.
            batch: the frames.
            more: columns that do not come from the kernel.
        """
        self._valid: dict[frozenset[int], pa.Buffer] = {}
        arrays = []
        for column in self._columns:
            output = self._outputs.get(column.name)
            if column.name in more:
                found = more[column.name]
            elif output is not None and not filled.there[output.index]:
                found = self._absent(column, filled.count)
            elif output is not None and output.is_blob:
                found = self._blob(filled, output, batch.data)
            elif output is not None:
                found = self._number(filled, output)
            else:
                found = self._key(column, keys, batch)
            arrays.append(found)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if 1 not in bytes(filled.outcome):
            return rows
        outcome = pa.py_buffer(filled.outcome)
        kept = pc.equal(pa.Array.from_buffers(pa.uint8(), filled.count, [None, outcome]), 0)
        return rows.filter(kept)

    def _absent(self, column: Column, count: int) -> pa.Array:
        type = arrow_type(column.type)
        if pa.types.is_dictionary(type):
            indices = _nulls(type.index_type, count)
            names = self._names.get(column.name)
            return pa.DictionaryArray.from_arrays(indices, strings([]) if names is None else names)
        return _nulls(type, count) if pa.types.is_integer(type) else pa.nulls(count, type)

    def _bits(self, filled: Filled, forms: set[int]) -> pa.Buffer:
        """A bit for each frame of these forms; columns with the same forms share them."""
        key = frozenset(forms)
        if key not in self._valid:
            buffer = bytearray(filled.count // 8 + 8)
            members = bytearray(256)
            for form in forms:
                members[form] = 1
            filled.rows.merge_bits(members, buffer)
            self._valid[key] = pa.py_buffer(buffer)
        return self._valid[key]

    def _number(self, filled: Filled, output: Output) -> pa.Array:
        count, there = filled.count, filled.there[output.index]
        valid = None if there == count else self._bits(filled, output.forms)
        type = pa.int64() if output.kind == "i64" else pa.int32()
        numbers = pa.Array.from_buffers(type, count, [valid, filled.numbers(output)], count - there)
        if output.kind != "name":
            return numbers
        return pa.DictionaryArray.from_arrays(numbers, self._names[output.name], safe=False)

    def _blob(self, filled: Filled, output: Output, data: memoryview) -> pa.Array:
        count, unit = filled.count, output.unit
        starts, sizes = filled.blobs(output)
        is_hex = output.kind in ("hex", "items")
        total = self._kernel.measure_blobs(sizes, filled.outcome)
        size = total * unit * (2 if is_hex else 1)
        out = pa.allocate_buffer(max(size, 1))
        ends = pa.allocate_buffer(4 * (count + 1))
        valid = bytearray(count // 8 + 1)
        there = self._kernel.take_blobs(
            data,
            starts,
            sizes,
            filled.outcome,
            unit,
            is_hex,
            memoryview(ends).cast("B").cast("i"),
            memoryview(out).cast("B"),
            valid,
        )
        bits = None if there == count else pa.py_buffer(valid)
        if output.kind != "items":
            type = pa.binary() if output.kind == "binary" else pa.string()
            return pa.Array.from_buffers(type, count, [bits, ends, out], count - there)
        steps = memoryview(bytearray(4 * (total + 1))).cast("i")
        for index in range(total + 1):
            steps[index] = 2 * unit * index
        items = pa.Array.from_buffers(pa.string(), total, [None, pa.py_buffer(steps), out], 0)
        return pa.Array.from_buffers(
            pa.list_(pa.string()), count, [bits, ends], count - there, children=[items]
        )

    def _key(self, column: Column, keys: Keys, batch: FrameBatch) -> pa.Array:
        name, type, count = column.name, arrow_type(column.type), batch.count
        if name == "frame_offset" and keys.offsets is not None:
            return pa.Array.from_buffers(type, count, [None, pa.py_buffer(keys.offsets)], 0)
        if name == "frame_offset":
            found = pa.Array.from_buffers(type, count, [None, pa.py_buffer(batch.offsets)], 0)
            return pc.add(found, int_scalar(keys.base)) if keys.base else found
        if name == "frame_length":
            return pa.Array.from_buffers(type, count, [None, pa.py_buffer(batch.lengths)], 0)
        if name in ("source", "stream", "path"):
            text = {"source": keys.source, "stream": keys.stream, "path": ""}[name]
            if not isinstance(text, str):
                return text
            zeros = pa.Array.from_buffers(pa.int32(), count, [None, _ZEROS.get(4 * count)], 0)
            return pa.DictionaryArray.from_arrays(zeros, strings([text]), safe=False)
        if name not in ("ts_ns", "ts") or keys.ts_ns is None:
            return self._absent(column, count)
        if name == "ts_ns":
            return pa.Array.from_buffers(type, count, [None, pa.py_buffer(keys.ts_ns)], 0)
        micros = pa.allocate_buffer(8 * max(count, 1))
        self._kernel.to_micros(keys.ts_ns, memoryview(micros).cast("B").cast("q"))
        return pa.Array.from_buffers(type, count, [None, micros], 0)
