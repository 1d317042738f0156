"""The columns of the `messages` table while they are filled: one row per message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wireloom.kernel import shim as cython
from wireloom.kernel.rows.keyrows import KeyRows, new_column

__all__ = ["MessageRows"]

# Columns that are wanted.
G_FORMAT = cython.declare(cython.int, 1)
G_DIALECT = cython.declare(cython.int, 2)
G_FIELDS = cython.declare(cython.int, 4)
G_DEPTH = cython.declare(cython.int, 8)


@cython.final
@cython.cclass
class MessageRows:
    """Rows of the `messages` table."""

    def __init__(
        self, want: int, key_want: int, rows: int, allocate: Callable[[int], Any] = bytearray
    ) -> None:
        self.want = want
        self.keys = KeyRows(key_want)
        self.capacity = rows
        self.allocate = allocate
        self.buffers: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Start a new batch with new columns."""
        self.count = self.mark_count = 0
        self._make(self.capacity)

    def let_go(self) -> None:
        """Leave the memory to the batch that was made from it; call `reset` before the next row."""
        self.count = 0
        self._make(0)

    def _make(self, rows: int) -> None:
        want = self.want
        make, found = new_column, self.buffers
        self.keys.reset(rows, self.allocate)
        # Unwanted ones too: they are small, and writing them is quicker than checking.
        self.format = make(found, self.allocate, "format", "b", rows)
        self.dialect = make(found, self.allocate, "dialect", "b", rows)
        self.has_dialect = make(found, self.allocate, "has_dialect", "B", rows)
        self.fields = make(found, self.allocate, "field_count", "i", rows if want & G_FIELDS else 0)
        self.depth = make(found, self.allocate, "depth", "i", rows if want & G_DEPTH else 0)

    def grow_rows(self) -> None:
        """Make room for a frame with more messages than a batch has; the batch is empty."""
        self.capacity *= 2
        self.reset()

    def mark(self):
        """Remember the state before a frame."""
        self.mark_count = self.count

    def back(self):
        """Discard the rows added since `mark`."""
        self.count = self.mark_count
        self.keys.back(self.count)

    def open(self, format, dialect, path):
        """A row for a message that starts; -1 if there is no room. A dialect of -1 is null."""
        row: cython.Py_ssize_t = self.count
        if row >= self.capacity:
            return -1
        self.format[row] = format
        self.dialect[row] = dialect if dialect >= 0 else 0
        self.has_dialect[row] = dialect >= 0
        if path:
            self.keys.set_path(row, path)
        self.count += 1
        return row

    def close(self, row, fields, depth):
        """Set what is known about that message at its end."""
        if self.want & G_FIELDS:
            self.fields[row] = fields
        if self.want & G_DEPTH:
            self.depth[row] = depth

    def add(self, format: int, dialect: int, path: int, fields: int, depth: int) -> None:
        """A row from the object path; there is room for it."""
        self.close(self.open(format, dialect, path), fields, depth)

    def finish(self) -> None:
        """Complete the columns that were started."""
        self.keys.end(self.count)
