"""Small record batches of a table → batches with about as many rows as wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from wireloom.tabulate.settings import Settings

__all__ = ["Collector"]

MAX_BYTES = 64 << 20
"""Bytes of batches that wait for others."""
_LARGE = 4 << 20
"""Bytes of a batch that is worth giving as it is: joining it with others would copy them."""


class Collector:
    """Holds batches back until there are enough rows."""

    def __init__(self, settings: Settings) -> None:
        self._rows = settings.batch_rows
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._counts: dict[str, int] = {}
        self._sizes: dict[str, int] = {}

    def add(self, name: str, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take one more batch; return those that are complete."""
        count = batch.num_rows
        if not count:
            return
        if count > self._rows:
            for first in range(0, count, self._rows):
                yield from self.add(name, batch.slice(first, self._rows))
            return
        held = self._counts.get(name, 0)
        if not held and (2 * count >= self._rows or batch.nbytes >= _LARGE):
            yield name, batch
            return
        if held + count > self._rows:
            yield from self._give(name)
            held = 0
        self._waiting.setdefault(name, []).append(batch)
        self._counts[name] = held + count
        self._sizes[name] = self._sizes.get(name, 0) + batch.nbytes
        if 2 * self._counts[name] >= self._rows or self._sizes[name] >= MAX_BYTES:
            yield from self._give(name)

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is left."""
        for name in list(self._waiting):
            yield from self._give(name)

    def _give(self, name: str) -> Iterator[tuple[str, pa.RecordBatch]]:
        batches = self._waiting.pop(name, [])
        self._counts[name] = self._sizes[name] = 0
        if len(batches) == 1:
            yield name, batches[0]
        elif batches:
            whole = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
            for batch in whole.to_batches():
                yield name, batch
