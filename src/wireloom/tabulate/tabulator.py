"""Events of a capture → batches of all tables; the state of every open stream, and nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import local
from typing import Any

import pyarrow as pa

from wireloom.arrow.arrays import from_rows
from wireloom.captures import Damage, Event, LeftOut, Stream, StreamData, StreamEnd
from wireloom.errors import DecodeError
from wireloom.kernel import load
from wireloom.tabulate.accounting import Totals, balanced
from wireloom.tabulate.collecting import Collector
from wireloom.tabulate.connections import Connections, told_formats
from wireloom.tabulate.decoding import Decoded, GroupDecoder
from wireloom.tabulate.groups import FrameGroup
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.streams import StreamReader
from wireloom.tabulate.streamtable import StreamTable

__all__ = ["Batches", "Tabulator"]

Batches = Iterator[tuple[str, pa.RecordBatch]]
"""Pairs of a table's name and a record batch of it."""


class Tabulator:
    """Turns the events of one `wireloom.captures.Capture` into batches of tables.

    It knows no files. `feed` it with every event, in order, and `close` it; both must be iterated
    to their ends. With workers, batches come later, but the same ones in the same order.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int = 1,
        kernel: Any = None,
        totals: Totals | None = None,
        skip: Callable[[Stream], None] | None = None,
    ) -> None:
        """A tabulator.

        Args:
            settings: what is wanted.
            workers: threads that decode; 1: none besides the caller's.
            kernel: which kernel to use; None: the compiled one if there is one.
            totals: where to count; its own when left out.
            skip: told of streams of which no more bytes are needed; see `Capture.skip`.

        Raises:
            OptionError: the settings cannot be used.
            SourceError: a dictionary or model cannot be found or read.
        """
        self._settings = settings
        self._kernel = load() if kernel is None else kernel
        self._decoder = GroupDecoder(settings, kernel=self._kernel)
        self._connections: Connections | None = None
        if told_formats(settings):
            self._connections = Connections(settings, self._kernel)
        self._bytes: object = None  # the buffer that holds the data of the last events
        self._settled = 0  # segments of the group whose bodies are identified
        self._touched: dict[int, StreamReader] = {}
        error_columns = settings.table("errors").names if "errors" in settings.tables else ()
        self._streams = StreamTable(
            lambda put: ScannerPool(
                settings,
                self._kernel,
                put,
                error_columns=error_columns,
                skip=skip,
            )
        )
        self._collector = Collector(settings)
        self._pool = _Pool(settings, self._kernel, workers) if workers > 1 else None
        self._waiting: deque[tuple[FrameGroup, Future[Decoded] | Decoded]] = deque()
        self.totals = Totals() if totals is None else totals
        """What became of all bytes so far."""

    # --- events

    def feed(self, event: Event) -> Batches:
        """Take the next event; return the batches that are complete.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        if self._connections is not None and isinstance(event, (StreamData, Damage)):
            yield from self._next(event)
        if isinstance(event, Damage):
            self.totals.damaged += event.length
        elif self._connections is not None and not isinstance(event, LeftOut):
            state = self._streams.reader(event.stream).state
            if state.direction is None:
                state.direction = self._connections.join(event.stream)
        self._streams.feed(event)
        self._streams.own()
        if self._connections is not None and isinstance(event, StreamEnd):
            self._connections.leave(event.stream)
        if self._connections is None and self._streams.group.is_full(self._settings.batch_rows):
            yield from self._decode()
        elif self._waiting and self._pool is not None:
            yield from self._finished(self._pool.most)

    def feed_all(self, events: Iterable[Event]) -> Batches:
        """Take events one after the other; return the batches that are complete.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        if self._connections is not None or self._pool is not None:
            for event in events:
                yield from self.feed(event)
            return
        streams, rows = self._streams, self._settings.batch_rows
        for event in events:
            streams.feed(event)
            if isinstance(event, Damage):
                self.totals.damaged += event.length
            if streams.group.is_full(rows):
                yield from self._decode()
        streams.own()

    def flush(self) -> Batches:
        """Everything that is certain by now; streams stay open.

        Everything given out so far then depends on the captured bytes alone, not on the segments in
        which they came.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        self._streams.look()
        yield from self._decode()
        yield from self._finished(0)
        yield from self._counted(self._collector.flush())

    @property
    def unfinished(self) -> dict[str, int]:
        """The sums over the streams that are open, and over what was damaged, after `flush`.

        ``waiting`` counts bytes that are in no row yet, but not those that were captured twice or
        are held behind a hole.
        """
        found = dict.fromkeys(("streams", "decoded", "quarantined", "gap", "waiting", "frames"), 0)
        for reader in self._streams:
            account = reader.state.account
            found["streams"] += 1
            for name in ("decoded", "quarantined", "gap", "frames"):
                found[name] += getattr(account, name)
            told = account.decoded + account.quarantined + account.gap
            found["waiting"] += reader.counts.captured - told
        found["quarantined"] += sum(self._streams.damaged.values())
        return found

    def close(self) -> Batches:
        """Everything that is left; streams that have not ended end here.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        try:
            self._streams.close()
            yield from self._decode()
            yield from self._finished(0)
            yield from self._counted(self._collector.flush())
        finally:
            self.stop()

    def accept(self, group: FrameGroup, made: Decoded) -> Batches:
        """Add what others have decoded, as if it were decoded here."""
        self._waiting.append((group, made))
        yield from self._finished(0)

    def stop(self) -> None:
        """End the workers; what they have not given out is lost."""
        if self._pool is not None:
            self._pool.close()

    # --- bodies

    def _next(self, event: StreamData | Damage) -> Batches:
        """Before an event: whether everything that was captured together has come.

        A request in one direction of a connection may come after its answer in the other, since
        packets that are captured together come stream by stream. Their data is in one buffer, so
        a new buffer means that all have come. No group ends before.
        """
        buffer = event.data.obj if isinstance(event, StreamData) else None
        if buffer is not self._bytes or buffer is None:
            self._bytes = buffer
            self._settle()
            if self._streams.group.is_full(self._settings.batch_rows):
                yield from self._decode()
        if isinstance(event, StreamData):
            self._touched[event.stream.number] = self._streams.reader(event.stream)

    def _settle(self) -> None:
        """Identify the bodies that have come."""
        if self._connections is None:
            return
        formats = self._connections.formats
        segments = [
            segment
            for segment in self._streams.group.segments[self._settled :]
            if segment.batch is not None and segment.batch.count and segment.batch.format in formats
        ]
        waiting = [
            each
            for reader in self._touched.values()
            for format in formats
            for each in reader.glance(format)
        ]
        self._touched.clear()
        self._connections.settle(segments, waiting)
        self._settled = len(self._streams.group.segments)

    # --- rows

    def _decode(self) -> Batches:
        """Have the group decoded, by a worker if there are any."""
        self._settle()
        group = self._streams.take()
        self._settled = 0
        if not group.frames:
            return
        if self._pool is None:
            self._waiting.append((group, self._decoder.decode(group)))
        else:
            self._waiting.append((group, self._pool.submit(group)))
        limit = 0 if self._pool is None else self._pool.most
        yield from self._finished(limit)

    def _finished(self, most: int) -> Batches:
        """Take decoded groups, in order, until at most `most` are pending."""
        while self._waiting:
            group, made = self._waiting[0]
            if isinstance(made, Future):
                if len(self._waiting) <= most and not made.done():
                    return
                made = made.result()
            self._waiting.popleft()
            for state, frames, size in made.refused:
                state.account.refuse(frames, size)
            batches = made.batches
            batches.reverse()
            while batches:  # rows that were given out are not kept
                yield from self._counted(self._collector.add(*batches.pop()))
            yield from self._small(group, made.errors)

    def _small(self, group: FrameGroup, errors: list[dict[str, Any]]) -> Batches:
        """Errors, holes, and the accounts of streams that have ended."""
        settings = self._settings
        self.totals.fail(errors)
        if errors and settings.mode == "failfast":
            raise _failure(errors[0])
        accounts = []
        for state, counts in group.ended:
            account = state.account
            accounts.append(balanced(state.source, state.name, state.format, account, counts))
            if account.texts:
                self.totals.end_texts(state.format, account.texts)
        self.totals.end(accounts)
        if settings.mode == "permissive":
            yield from self._emit("errors", errors)
        yield from self._emit("gaps", group.gaps)
        yield from self._emit("accounting", accounts)

    def _emit(self, name: str, rows: list[dict[str, Any]]) -> Batches:
        if rows and name in self._settings.tables:
            batch = from_rows(self._settings.table(name), rows)
            yield from self._counted(self._collector.add(name, batch))

    def _counted(self, batches: Batches) -> Batches:
        rows = self.totals.rows
        for name, batch in batches:
            rows[name] = rows.get(name, 0) + batch.num_rows
            yield name, batch


class _Pool:
    """Threads that decode groups, each with a decoder of its own."""

    def __init__(self, settings: Settings, kernel: Any, workers: int) -> None:
        self._settings = settings
        self._kernel = kernel
        self._pool = ThreadPoolExecutor(workers)
        self._own = local()
        self.most = workers + 1
        """Groups that may be in flight."""

    def submit(self, group: FrameGroup) -> Future[Decoded]:
        return self._pool.submit(self._decode, group)

    def _decode(self, group: FrameGroup) -> Decoded:
        decoder: GroupDecoder | None = getattr(self._own, "decoder", None)
        if decoder is None:
            decoder = self._own.decoder = GroupDecoder(self._settings, kernel=self._kernel)
        return decoder.decode(group)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _failure(row: dict[str, Any]) -> DecodeError:
    where = f"{row['source']}, stream {row['stream']}" if row["stream"] else row["source"]
    path = f", {row['path']}" if row["path"] else ""
    return DecodeError(
        f"{where}{path}: {row['reason']}",
        offset=row["frame_offset"] if row["failed_at"] is None else row["failed_at"],
        path=row["field"],
        code=row["code"],
    )
