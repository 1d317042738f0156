"""Events of a capture → batches of all tables; the state of every open stream, and nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import local
from typing import Any, Final

import pyarrow as pa

from wireloom.captures import (
    NO_TIME,
    Counts,
    Damage,
    Dropped,
    Event,
    Gap,
    Stream,
    StreamData,
    StreamEnd,
    Suspect,
)
from wireloom.columnar.arrays import from_rows
from wireloom.errors import DecodeError
from wireloom.kernel import load
from wireloom.rows import shown
from wireloom.tabulate.accounting import Totals, balanced
from wireloom.tabulate.collecting import Collector
from wireloom.tabulate.connections import Connections
from wireloom.tabulate.decoding import Decoded, LotDecoder
from wireloom.tabulate.desk import Desk
from wireloom.tabulate.lots import Lot, Origin, Piece
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.streams import StreamReader, error_row

__all__ = ["Batches", "Tabulator"]

Batches = Iterator[tuple[str, pa.RecordBatch]]
"""Pairs of a table's name and a record batch of it."""

MAX_UNDECIDED: Final = 64 << 20
"""Bytes of streams whose format is not known yet; above that it is decided with what there is."""


class Tabulator:
    """Turns the events of one `wireloom.captures.Capture` into batches of tables.

    It knows no files. `feed` it with every event, in order, and `close` it; both must be iterated
    to their ends. With workers, batches come later, but the same ones in the same order.
    """

    def __init__(self, settings: Settings, *, workers: int = 1, kernel: Any = None) -> None:
        """A tabulator.

        Args:
            settings: what is wanted.
            workers: threads that decode; 1: none besides the caller's.
            kernel: which kernel to use; None: the compiled one if there is one.

        Raises:
            OptionError: the settings cannot be used.
            SourceError: a dictionary or model cannot be found or read.
        """
        self._settings = settings
        self._kernel = load() if kernel is None else kernel
        self._decoder = LotDecoder(settings, kernel=self._kernel)
        self._connections: Connections | None = None
        if settings.model is not None and "blaze" in (settings.formats or ("blaze",)):
            self._connections = Connections(settings, self._kernel)
        self._bytes: object = None  # what the data of the last events lies in
        self._settled = 0  # pieces of the lot whose bodies' classes are known
        self._touched: dict[int, StreamReader] = {}
        self._desk = Desk(settings, self._kernel, self._put)
        self._streams: dict[int, StreamReader] = {}
        self._undecided = 0
        self._lot = Lot()
        self._collector = Collector(settings)
        self._pool = _Pool(settings, self._kernel, workers) if workers > 1 else None
        self._waiting: deque[tuple[Lot, Future[Decoded] | Decoded]] = deque()
        self.totals = Totals()
        """What became of all bytes so far."""

    # --- events

    def feed(self, event: Event) -> Batches:
        """Take the next event; give the batches that are complete.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        if self._connections is not None and isinstance(event, (StreamData, Damage)):
            yield from self._next(event)
        if isinstance(event, StreamData):
            reader = self._reader(event.stream)
            before = reader.undecided
            reader.data(event)
            self._undecided += reader.undecided - before
            if self._undecided > MAX_UNDECIDED:
                self._decide_all()
        elif isinstance(event, StreamEnd):
            reader = self._reader(event.stream)
            self._undecided -= reader.undecided
            reader.end()
            del self._streams[event.stream.number]
            if self._connections is not None:
                self._connections.leave(event.stream)
            self._end(reader.origin, event.counts)
        elif isinstance(event, Gap):
            reader = self._reader(event.stream)
            self._undecided -= reader.undecided
            reader.gap(event)
            self._gap(event, reader.origin)
        elif isinstance(event, Suspect):
            self._reader(event.stream).suspect(event)
        elif isinstance(event, Dropped):
            self._reader(event.stream).dropped(event)
        else:
            self._damage(event)
        if self._connections is None and self._lot.is_full(self._settings.batch_rows):
            yield from self._decode()
        elif self._waiting and self._pool is not None:
            yield from self._finished(self._pool.most)

    def flush(self) -> Batches:
        """Everything that is certain by now; streams stay open.

        All that was given out so far then depends on the captured bytes alone, not on the pieces
        in which they came.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        for reader in self._streams.values():
            reader.look()
        yield from self._decode()
        yield from self._finished(0)
        yield from self._counted(self._collector.flush())

    @property
    def unfinished(self) -> dict[str, int]:
        """The sums over the streams that are open, after `flush`.

        ``waiting`` are bytes of which nothing was told yet; bytes that were captured twice, or are
        held behind a hole, are not among them.
        """
        found = dict.fromkeys(("streams", "decoded", "quarantined", "gap", "waiting", "frames"), 0)
        for reader in self._streams.values():
            tally = reader.origin.tally
            told = tally.decoded + tally.quarantined + tally.gap
            found["streams"] += 1
            found["decoded"] += tally.decoded
            found["quarantined"] += tally.quarantined
            found["gap"] += tally.gap
            found["waiting"] += reader.counts.captured - told
            found["frames"] += tally.frames
        return found

    def close(self) -> Batches:
        """Everything that is left; streams that have not ended end here.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        try:
            for reader in self._streams.values():
                reader.end()
                self._end(reader.origin, reader.counts)
            self._streams.clear()
            yield from self._decode()
            yield from self._finished(0)
            yield from self._counted(self._collector.flush())
        finally:
            self.stop()

    def accept(self, lot: Lot, made: Decoded) -> Batches:
        """What others have decoded, as if it were decoded here."""
        self._waiting.append((lot, made))
        yield from self._finished(0)

    def stop(self) -> None:
        """End the workers; what they have not given out is lost."""
        if self._pool is not None:
            self._pool.close()

    # --- streams

    def _reader(self, stream: Stream) -> StreamReader:
        reader = self._streams.get(stream.number)
        if reader is None:
            reader = self._streams[stream.number] = StreamReader(stream, self._desk)
            if self._connections is not None:
                reader.origin.direction = self._connections.join(stream)
        return reader

    def _decide_all(self) -> None:
        for reader in self._streams.values():
            reader.decide()
        self._undecided = 0

    # --- Blaze bodies

    def _next(self, event: StreamData | Damage) -> Batches:
        """Before an event: whether everything that was captured together has come.

        What one direction of a connection asks for may come after what the other one answers, since
        packets that are captured together come stream by stream. Their data lies in one buffer, so
        that another buffer tells that all have come. No lot ends before.
        """
        buffer = event.data.obj if isinstance(event, StreamData) else None
        if buffer is not self._bytes or buffer is None:
            self._bytes = buffer
            self._settle()
            if self._lot.is_full(self._settings.batch_rows):
                yield from self._decode()
        if isinstance(event, StreamData):
            self._touched[event.stream.number] = self._reader(event.stream)

    def _settle(self) -> None:
        """Find the classes of the bodies that have come."""
        if self._connections is None:
            return
        pieces = [
            piece
            for piece in self._lot.pieces[self._settled :]
            if piece.batch is not None and piece.batch.count and piece.batch.format == "blaze"
        ]
        waiting = [each for reader in self._touched.values() for each in reader.glance("blaze")]
        self._touched.clear()
        self._connections.settle(pieces, waiting)
        self._settled = len(self._lot.pieces)

    # --- rows

    def _put(self, piece: Piece) -> None:
        self._lot.add(piece)

    def _end(self, origin: Origin, counts: Counts) -> None:
        self._lot.ended.append((origin, counts))
        self._lot.frames += 1

    def _gap(self, event: Gap, origin: Origin) -> None:
        self._lot.frames += 1
        self._lot.gaps.append(
            {
                "source": origin.source,
                "stream": origin.name,
                "offset": event.offset,
                "length": event.length,
                "ts_before_ns": _known(event.ts_before_ns),
                "ts_after_ns": _known(event.ts_after_ns),
            }
        )

    def _damage(self, event: Damage) -> None:
        self.totals.damaged += event.length
        row = error_row(
            shown(event.source),
            "",
            event.offset,
            min(event.length, (1 << 31) - 1),
            event.ts_ns,
            layer="capture",
            format=None,
            code=event.code,
            reason=event.reason,
            at=event.offset,
            field=event.layer,
            raw=event.data,
        )
        self._lot.add(Piece(Origin(row["source"], ""), None, None, [row], 0))

    def _decode(self) -> Batches:
        """Have the lot decoded, by a worker if there are some."""
        self._settle()
        lot, self._lot = self._lot, Lot()
        self._settled = 0
        if not lot.frames:
            return
        if self._pool is None:
            self._waiting.append((lot, self._decoder.decode(lot)))
        else:
            self._waiting.append((lot, self._pool.submit(lot)))
        limit = 0 if self._pool is None else self._pool.most
        yield from self._finished(limit)

    def _finished(self, most: int) -> Batches:
        """Take over what is decoded, in order, until so many are left that are not."""
        while self._waiting:
            lot, made = self._waiting[0]
            if isinstance(made, Future):
                if len(self._waiting) <= most and not made.done():
                    return
                made = made.result()
            self._waiting.popleft()
            for origin, frames, size in made.refused:
                origin.tally.refuse(frames, size)
            batches = made.batches
            batches.reverse()
            while batches:  # those that were given out are not kept
                yield from self._counted(self._collector.add(*batches.pop()))
            yield from self._small(lot, made.errors)

    def _small(self, lot: Lot, errors: list[dict[str, Any]]) -> Batches:
        """Errors, holes, and the accounts of streams that have ended."""
        settings = self._settings
        self.totals.errors += len(errors)
        if errors and settings.mode == "failfast":
            raise _failure(errors[0])
        accounts = []
        for origin, counts in lot.ended:
            row = balanced(origin.source, origin.name, origin.format, origin.tally, counts)
            self.totals.add(row)
            accounts.append(row)
        if settings.mode == "permissive":
            yield from self._emit("errors", errors)
        yield from self._emit("gaps", lot.gaps)
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
    """Threads that decode lots, each with a decoder of its own."""

    def __init__(self, settings: Settings, kernel: Any, workers: int) -> None:
        self._settings = settings
        self._kernel = kernel
        self._pool = ThreadPoolExecutor(workers)
        self._own = local()
        self.most = workers + 1
        """Lots that may be on their way."""

    def submit(self, lot: Lot) -> Future[Decoded]:
        return self._pool.submit(self._decode, lot)

    def _decode(self, lot: Lot) -> Decoded:
        decoder: LotDecoder | None = getattr(self._own, "decoder", None)
        if decoder is None:
            decoder = self._own.decoder = LotDecoder(self._settings, kernel=self._kernel)
        return decoder.decode(lot)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _known(ts_ns: int) -> int | None:
    return None if ts_ns == NO_TIME else ts_ns


def _failure(row: dict[str, Any]) -> DecodeError:
    where = f"{row['source']}, stream {row['stream']}" if row["stream"] else row["source"]
    path = f", {row['path']}" if row["path"] else ""
    return DecodeError(
        f"{where}{path}: {row['reason']}",
        offset=row["frame_offset"] if row["at"] is None else row["at"],
        path=row["field"],
        code=row["code"],
    )
