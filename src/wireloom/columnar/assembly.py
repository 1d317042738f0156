"""What the word kernel filled → Arrow record batches, without copying.

A column that no frame of a batch has costs nothing: all such columns share the same zeros, and key
columns with the same value in every row share theirs.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import dictionary, null_array, strings
from wireloom.arrow.frames import KEY_NAMES, FrameBatch, Keys
from wireloom.arrow.types import arrow_type
from wireloom.columnar.program import Output, Program
from wireloom.columns import Column, Table

__all__ = ["Assembly", "Filled"]


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
        """The rows of all frames that were not refused.

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
            elif column.name in KEY_NAMES:
                found = keys.column(column, batch, self._kernel)
            else:
                found = self._absent(column, filled.count)
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
            names = self._names.get(column.name, strings([]))
            return dictionary(null_array(type.index_type, count), names)
        return null_array(type, count)

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
