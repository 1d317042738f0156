"""Packets routed to where their connections are reassembled, for readers that share no memory.

A distributed job reads ranges of many captures at once, but a TCP connection is spread over all of
them. `route` turns the packets of a range into rows that say which part their connection
belongs to, by the same rule as ``Capture(part=, parts=)``. Once the rows of each part are together,
sorted by `SORT`, `Part` reads them and gives the events that ``Capture(files, part=i, parts=n)``
gives, whatever the batch sizes. Both sides work in batches; neither holds a capture in memory.

Fragments of IP packets go to every part, because only the first one has ports. What belongs to no
connection (packets that are not TCP or UDP, damage of the capture) goes to part 0, which reports
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.captures.events import OF_CAPTURES, Damage, Event
from wireloom.captures.split import PacketRange, RangeReader
from wireloom.captures.tcp import PacketCounts, Reassembler, ReassemblyLimits
from wireloom.captures.window import CHUNK
from wireloom.errors import OptionError
from wireloom.kernel import Kernel, load
from wireloom.kernel.packets.packetrows import PACKET_UDP, SCAN_FRAGMENT

__all__ = ["SCHEMA", "SORT", "Part", "route"]

SCHEMA = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("file", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("ts_ns", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("link", pa.int32(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("record", pa.binary(), nullable=False),
    ]
)
"""Rows of packets: the part, the number of the capture, the offset there, the time (`NO_TIME` if
there is none), bytes on the wire, link type, and the captured bytes. A row with a note is damage
instead: the note has its layer, code and reason in three lines."""

SORT = ("file", "position")
"""What the rows of a part are sorted by."""

_BATCH = 1 << 14
"""Packets processed at a time."""
_NO_LINK = -1


def route(
    source: PacketRange,
    file: int,
    parts: int,
    *,
    limits: ReassemblyLimits | None = None,
    chunk_bytes: int = CHUNK,
    kernel: Kernel | None = None,
) -> Iterator[pa.RecordBatch]:
    """The packets of a range as rows of `SCHEMA`, in the order of the capture.

    Args:
        source: what to read.
        file: number of the capture in the list of all.
        parts: into how many parts connections are divided.
        limits: as for the `Part`s: they say which tunnels are read.
        chunk_bytes: read at a time.
        kernel: the compiled or the interpreted one; the best there is if not given.

    Raises:
        OptionError: it is not a packet capture, or `parts` is not positive.
        SourceError: the capture cannot be read.
    """
    if parts < 1:
        raise OptionError(f"cannot divide connections into {parts} parts")
    tunnels = (limits or ReassemblyLimits()).tunnel_bits
    router = _Router(file, parts, tunnels, load() if kernel is None else kernel)
    with RangeReader(source, chunk_bytes=chunk_bytes, kernel=kernel) as reader:
        while not reader.is_done:
            damage = reader.read(router.rows)
            if damage:
                yield _notes(damage, file)
            if router.rows.count:
                yield router.batch(reader.window.data, reader.window.base)


class _Router:
    def __init__(self, file: int, parts: int, tunnels: int, kernel: Any) -> None:
        self._file = file
        self._parts = parts
        self._kernel = kernel
        self._flows = kernel.Flows(1, 0, parts, 1, True, tunnels)
        self.rows = kernel.Packets(_BATCH)

    def batch(self, data: memoryview, base: int) -> pa.RecordBatch:
        """The packets that `rows` points to in `data`, which starts at `base` in the capture."""
        rows, count = self.rows, self.rows.count
        fragments = self._scan(data)
        at = _array(rows.at, pa.int64(), count)
        captured = _array(rows.captured, pa.int32(), count)
        part = _array(rows.flow, pa.int32(), count)
        status = _array(rows.status, pa.uint8(), count)
        part = pc.if_else(pc.less_equal(status, PACKET_UDP), part, pa.scalar(0, pa.int32()))
        columns = [
            part,
            pa.repeat(pa.scalar(self._file, pa.int32()), count),
            pc.add(at, base),
            _array(rows.ts, pa.int64(), count),
            _array(rows.length, pa.int32(), count).cast(pa.int64()),
            _array(rows.link, pa.int32(), count),
            pa.nulls(count, pa.string()),
            _packets(data, at, captured, count),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        return self._repeated(batch, fragments) if fragments and self._parts > 1 else batch

    def _scan(self, data: memoryview) -> list[int]:
        """Find the part of each packet; return the rows that are fragments."""
        rows, done, found = self.rows, 0, []
        while done < rows.count:
            done = self._kernel.scan_packets(rows, self._flows, data, done, rows.count)
            if rows.stop == SCAN_FRAGMENT:
                found.append(done)
                done += 1
        return found

    def _repeated(self, batch: pa.RecordBatch, fragments: list[int]) -> pa.RecordBatch:
        """The batch with each fragment once for every part."""
        again = [row for row in fragments for _ in range(1, self._parts)]
        numbers = [part for _ in fragments for part in range(1, self._parts)]
        copies = batch.take(pa.array(again, pa.int64()))
        copies = copies.set_column(0, SCHEMA.field(0), pa.array(numbers, pa.int32()))
        both = pa.Table.from_batches([batch, copies]).sort_by("position")
        (found,) = both.combine_chunks().to_batches()
        return found


def _array(view: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A copy of the first elements of one of the kernel's arrays."""
    data = bytes(memoryview(view)[:count].cast("B"))
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _packets(data: memoryview, at: pa.Array, captured: pa.Array, count: int) -> pa.Array:
    """The bytes of packets, without what lies between them."""
    # Every other element of an array over the whole chunk is a packet.
    bounds = memoryview(bytearray(8 * (2 * count + 1))).cast("q")
    bounds[0 : 2 * count : 2] = memoryview(at.buffers()[1]).cast("q")
    ends = pc.add(at, captured.cast(pa.int64()))
    bounds[1 : 2 * count : 2] = memoryview(ends.buffers()[1]).cast("q")
    bounds[2 * count] = bounds[2 * count - 1]
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    everything = pa.Array.from_buffers(pa.large_binary(), 2 * count, buffers)
    return everything.take(pa.array(range(0, 2 * count, 2), pa.int64())).cast(pa.binary())


def _notes(damage: Sequence[Damage], file: int) -> pa.RecordBatch:
    """Damage as rows."""
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(0, pa.int32()), len(damage)),
            pa.repeat(pa.scalar(file, pa.int32()), len(damage)),
            pa.array([found.offset for found in damage], pa.int64()),
            pa.array([found.ts_ns for found in damage], pa.int64()),
            pa.array([found.length for found in damage], pa.int64()),
            pa.repeat(pa.scalar(_NO_LINK, pa.int32()), len(damage)),
            pa.array([f"{found.layer}\n{found.code}\n{found.reason}" for found in damage]),
            pa.array([found.data for found in damage], pa.binary()),
        ],
        schema=SCHEMA,
    )


class Part:
    """The connections of one part, from rows that `route` made and the caller sorted by `SORT`.

    Iterating reads them, once. Rows of other parts are not allowed among them; the column `part`
    may be missing.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        sources: Sequence[str],
        part: int,
        parts: int,
        *,
        limits: ReassemblyLimits | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            batches: the rows.
            sources: names of the captures, by their number.
            part: which part it is.
            parts: how many there are.
            limits: of reassembly.
            kernel: the compiled or the interpreted one; the best there is if not given.

        Raises:
            OptionError: there is no such part.
        """
        if not 0 <= part < parts:
            raise OptionError(f"part {part} of {parts} does not exist")
        self._is_first = part == 0
        self._batches = batches
        self._sources = sources
        kernel = load() if kernel is None else kernel
        self._rows: Any = kernel.Packets(_BATCH)
        self._reassembler = Reassembler(kernel, limits or ReassemblyLimits(), _BATCH, (part, parts))

    @property
    def packets(self) -> PacketCounts:
        """What the packets of this part were, so far; fragments are counted in every part."""
        return self._reassembler.counts

    def __iter__(self) -> Iterator[Event]:
        """The events of the part.

        Raises:
            OptionError: rows are not as `route` makes them, or not in order.
        """
        last = (-1, -1)
        for batch in self._batches:
            for start in range(0, batch.num_rows, _BATCH):
                rows = batch.slice(start, _BATCH)
                last = _checked(rows, last)
                yield from self._own(self._read(rows))
        yield from self._own(self._reassembler.finish())

    def _own(self, events: Iterable[Event]) -> Iterator[Event]:
        """Those events that this part gives."""
        for event in events:
            if self._is_first or not isinstance(event, OF_CAPTURES):
                yield event

    def _read(self, batch: pa.RecordBatch) -> Iterator[Event]:
        for file in pc.unique(batch["file"]).to_pylist():
            rows = batch
            if not 0 <= file < len(self._sources):
                raise OptionError(f"there is no capture number {file}")
            if batch["file"][0].as_py() != file or batch["file"][-1].as_py() != file:
                rows = batch.filter(pc.equal(batch["file"], file))
            if rows["note"].null_count < rows.num_rows:
                is_packet = pc.is_null(rows["note"])
                yield from self._damage(rows.filter(pc.invert(is_packet)), self._sources[file])
                rows = rows.filter(is_packet)
            if rows.num_rows:
                yield from self._feed(rows, self._sources[file])

    def _damage(self, rows: pa.RecordBatch, source: str) -> Iterator[Damage]:
        for row in rows.to_pylist():
            layer, code, reason = row["note"].split("\n", 2)
            yield Damage(
                source,
                row["position"],
                row["length"],
                layer,
                code,
                reason,
                row["record"],
                row["ts_ns"],
            )

    def _feed(self, batch: pa.RecordBatch, source: str) -> list[Event]:
        """Show the kernel the packets where they lie in the batch."""
        rows, count = self._rows, batch.num_rows
        records = batch["record"].cast(pa.large_binary())
        # The kernel takes the offsets as they are.
        records.validate(full=True)
        _, offsets, data = records.buffers()
        starts = memoryview(offsets).cast("q")[records.offset : records.offset + count]
        rows.clear()
        memoryview(rows.at)[:count] = starts
        memoryview(rows.captured)[:count] = _view(pc.binary_length(records).cast(pa.int32()), "i")
        memoryview(rows.length)[:count] = _view(batch["length"].cast(pa.int32()), "i")
        memoryview(rows.ts)[:count] = _view(batch["ts_ns"], "q")
        memoryview(rows.link)[:count] = _view(batch["link"], "i")
        rows.count = count
        packets = memoryview(data if data else b"\0")  # all of them may be empty
        places = _view(batch["position"], "q")
        return self._reassembler.feed(rows, packets.cast("B"), 0, source, places)


def _view(values: pa.Array, code: Literal["i", "q"]) -> memoryview:
    """The elements of an array of numbers."""
    start = values.offset
    return memoryview(values.buffers()[1]).cast(code)[start : start + len(values)]


def _checked(batch: pa.RecordBatch, last: tuple[int, int]) -> tuple[int, int]:
    """The place of the last row of a batch, if the rows go on from `last` and ascend.

    Raises:
        OptionError: they do not, or are not as `route` makes them.
    """
    for field in SCHEMA:
        if field.name != "part" and field.name not in batch.schema.names:
            raise OptionError(f"rows without {field.name} are not routed packets")
    file, position = batch["file"], batch["position"]
    count = batch.num_rows
    is_later = pc.greater(file.slice(1), file.slice(0, count - 1))
    is_same = pc.equal(file.slice(1), file.slice(0, count - 1))
    is_behind = pc.greater_equal(position.slice(1), position.slice(0, count - 1))
    is_sorted = pc.all(pc.or_(is_later, pc.and_(is_same, is_behind)), min_count=0).as_py()
    first = (file[0].as_py(), position[0].as_py())
    if not is_sorted or first < last:
        raise OptionError(f"routed packets must be sorted by {' and '.join(SORT)}")
    return file[count - 1].as_py(), position[count - 1].as_py()
