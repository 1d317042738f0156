"""Blaze bodies → rows of the `fields` table, for classes that a model declares.

A transaction's header gives the class of its body. An event's body is of the class that was
subscribed to: the request is in one direction of the connection, the answer and the events in the
other, so both directions share one `Subscriptions`.

One row is a field or an array's element. `path` is the object or array that contains it, from
``body`` on; `position` is its INDEX, or the element's; an object and an array have a row of their
own before those of their contents. An enum's number has its name as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from wireloom.arrow.arrays import allocate, constant, dictionary, null_array, strings, zeros
from wireloom.arrow.bodies import Bodies, BodyRows, Lesson
from wireloom.arrow.frames import KEY_NAMES, FrameBatch, Keys, Payloads, Refused
from wireloom.arrow.types import arrow_type, schema_of
from wireloom.columns import Column, Table
from wireloom.errors import DecodeError, OptionError
from wireloom.formats.blaze.bodies.objects import object_rows
from wireloom.formats.blaze.bodies.tables import Tables, type_names
from wireloom.formats.blaze.bodies.texts import json_writer
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.dialects import DOCUMENT, Dialect, get_dialect
from wireloom.formats.blaze.format import FORMAT
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import ClassLayout, NClassValue, layout_of
from wireloom.formats.blaze.packets import SubscriptionEvent
from wireloom.kernel import load
from wireloom.kernel.rows import bodyrows, nclass
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["BATCH_ROWS", "BodyDecoder"]

BATCH_ROWS = 1 << 16
_BATCH_TEXT = 1 << 20
_MOST_PATHS = 1 << 14
"""Paths that are remembered from batch to batch."""
_TYPES = type_names()


class BodyDecoder(Bodies):
    """Reads the bodies of Blaze packets with a model; for one worker at a time."""

    def __init__(
        self,
        model: Model,
        table: Table,
        *,
        subscriptions: Mapping[int, Any] | None = None,
        dialect: str = DOCUMENT,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        kernel: Any = None,
        batch: int = BATCH_ROWS,
    ) -> None:
        """A decoder.

        Args:
            model: declares the classes.
            table: the `fields` table, with the columns that are wanted.
            subscriptions: class, or class and encoding, of events by SBSRID, known from the start.
            dialect: whose numbering is used.
            limits: fields of a body, and depth.
            strict: as for the object path, which then reads every body.
            kernel: which kernel to use; None: the compiled one if there is one.
            batch: about how many rows a record batch has.

        Raises:
            OptionError: there is no such dialect, or it has no such encoding, or the model has no
                such class.
        """
        self.table = table
        self.schema = schema_of(table)
        self._model = model
        self._dialect: Dialect = get_dialect(dialect)
        self._settings: dict[str, Any] = {"limits": limits, "strict": strict}
        self._given = {number: self._word(each) for number, each in (subscriptions or {}).items()}
        self._kernel = load() if kernel is None else kernel
        tables = Tables(model, self._dialect)
        self._names = tables.names
        self._json = json_writer(tables, self._kernel)
        self._bodies = tables.made(self._kernel, limits, strict)
        self._batch = batch
        self._paths = ["body"]
        self._arrays = {
            each.id for each in model.nclasses if _has_bytes(layout_of(model, each.name))
        }

    @cached_property
    def _rows(self) -> Any:
        """Where rows are collected; not needed by callers that only ask for classes."""
        return self._kernel.BodyRows(self._batch, _BATCH_TEXT, allocate)

    def state(self) -> Any:
        """The subscriptions of one direction: those that were given."""
        made = self._kernel.Subscriptions()
        for number, word in self._given.items():
            while made.is_full():
                made.grow()
            made.activate(number, word)
        return made

    def _word(self, given: Any) -> int:
        """Class and encoding of a subscription's events, in one number."""
        key, kind = given if isinstance(given, (tuple, list)) else (given, Encoding.INDEXNOTZERO)
        found = self._model.nclass(key)
        if found is None:
            raise OptionError(f"the model has no class {key!r}")
        encoding = Encoding.__members__.get(kind) if isinstance(kind, str) else Encoding(kind)
        if encoding is None:
            raise OptionError(f"there is no encoding {kind!r}")
        return self._dialect.enctyp(encoding) << 28 | found.id

    def decode(
        self,
        batch: FrameBatch,
        subscriptions: Any,
        *,
        passed_over: Iterable[int] = (),
        source: str = "",
        stream: str = "",
        ts_ns: memoryview | None = None,
    ) -> Iterator[BodyRows]:
        """The rows of the bodies in the frames of one stream, which has one or both directions.

        Args:
            batch: the frames, which are legal packets except those to skip.
            subscriptions: what is known about their connection; it learns from the frames.
            passed_over: frames that are not legal packets.
            source: the capture they come from.
            stream: the stream they come from.
            ts_ns: capture time of each frame, 64-bit numbers; None if not known.
        """
        words = self.classes(batch, subscriptions, passed_over=passed_over)
        keys = Keys(source, stream, batch.base, ts_ns)
        yield from self.read(batch, words, keys, passed_over=passed_over)

    def read(
        self,
        batch: FrameBatch,
        words: memoryview,
        keys: Keys,
        *,
        passed_over: Iterable[int] = (),
        texts: bool = False,
        payloads: bool = False,
    ) -> Iterator[BodyRows]:
        """See `Bodies.read`; the text of a body is JSON."""
        outcome = memoryview(bytearray(max(batch.count, 1)))
        for index in passed_over:
            outcome[index] = nclass.BODY_SKIP
        state = _Run(batch, words, keys, outcome, texts, payloads)
        refused: list[Refused] = []
        rows = self._rows
        first = index = 0
        while index < batch.count:
            index = self._bodies.run(
                rows, words, batch.data, batch.offsets, batch.lengths, index, outcome
            )
            if index == batch.count:
                break
            if outcome[index] in (nclass.BODY_BAD, nclass.BODY_CLASS):
                raw = batch.frame(index)
                try:
                    value, body = self._read(raw, words[index])
                except DecodeError as error:
                    refused.append(Refused(index, keys.offset(index, batch), raw, error))
                else:
                    rows.drop_note(index)
                    yield self._flush(state, first, index, refused)
                    refused = []
                    yield self._listed(state, index, value, body)
                    first = index + 1
                index += 1
            elif rows.count or rows.note_count:
                yield self._flush(state, first, index, refused)
                refused = []
                first = index
            else:
                rows.grow()
                self._paths = ["body"]
        yield self._flush(state, first, batch.count, refused)

    # --- classes

    def lessons(self, batch: FrameBatch) -> list[Lesson]:
        """The frames about subscriptions, legal or not.

        For each its index, whether it is a request, the request's number, and then the word with
        class and encoding of a request, or the subscription of an answer.
        """
        found = memoryview(bytearray(32 * max(batch.count, 1))).cast("q")
        count = 4 * self._bodies.lessons(batch.data, batch.offsets, batch.lengths, found)
        values = found[:count].tolist()
        fours = zip(values[::4], values[1::4], values[2::4], values[3::4], strict=True)
        return [(index, role == nclass.ROLE_REQUEST, *more) for index, role, *more in fours]

    def classes(
        self,
        batch: FrameBatch,
        state: Any,
        *,
        passed_over: Iterable[int] = (),
        told: Iterable[tuple[int, int, int]] = (),
    ) -> memoryview:
        """A word with class and encoding of each frame's body; 0 where there is none.

        Args:
            batch: the frames.
            state: their connection's subscriptions; they learn from the frames.
            passed_over: frames from which nothing is learned, because they are not legal packets.
            told: requests of the other direction: the frame before which each must be known, the
                request's number, and its word with class and encoding.
        """
        outcome = memoryview(bytearray(max(batch.count, 1)))
        for index in passed_over:
            outcome[index] = nclass.BODY_SKIP
        words = memoryview(bytearray(8 * max(batch.count, 1))).cast("q")
        index = 0
        for stop, request, word in (*told, (batch.count, 0, 0)):
            arrays = (batch.data, batch.offsets[:stop], batch.lengths[:stop])
            while (index := self._bodies.find(state, *arrays, index, outcome, words)) < stop:
                state.grow()
            if stop < batch.count:
                while state.is_full():
                    state.grow()
                state.request(request, word)
        return words[: batch.count]

    def _read(self, raw: bytes, clsenc: int) -> tuple[NClassValue, bytes]:
        """The body of a packet, and its bytes.

        Raises:
            DecodeError: it cannot be read.
        """
        name = self._dialect.name
        packet = FORMAT.decode(raw, dialect=name, **self._settings)
        given = {}
        if isinstance(packet, SubscriptionEvent):
            found = self._model.nclass(clsenc & 0xFFFFF)
            encoding = self._dialect.encoding(clsenc >> 28)
            if found is None or encoding is None:
                what = f"class {clsenc & 0xFFFFF}" if found is None else f"encoding {clsenc >> 28}"
                reason = f"the subscription is for {what}, which is not known"
                raise DecodeError(reason, path="body", code="nclsid" if found is None else "enctyp")
            given = {packet.sbsrid: (found, encoding)}
        read: Any = FORMAT.decode(
            raw, dialect=name, model=self._model, subscriptions=given, **self._settings
        )
        return read.nclass, read.body

    # --- Arrow

    def _flush(self, run: _Run, first: int, last: int, refused: list[Refused]) -> BodyRows:
        """What the kernel has collected from the frames `first` up to `last`."""
        rows = self._rows
        for number in range(len(self._paths), rows.path_count):
            step = rows.path_steps[number]
            parent = self._paths[rows.path_parents[number]]
            is_element, place = step & 1, step >> 1
            self._paths.append(
                f"{parent}[{place}]" if is_element else f"{parent}.{self._names[place]}"
            )
        arrays = [self._array(column, run) for column in self.table.columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        texts = self._texts(run, first, last) if run.has_texts else None
        payloads = self._payloads(run, first, last) if run.has_payloads else None
        if rows.count or rows.note_count:
            rows.reset()
        if len(self._paths) > _MOST_PATHS:
            rows.forget_paths(4 * _MOST_PATHS)
            self._paths = ["body"]
        return BodyRows(made, refused, texts, payloads)

    def _texts(self, run: _Run, first: int, last: int) -> pa.Array:
        """The bodies of some frames in JSON."""
        if self._json is not None:
            return self._json.array(self._rows, first, last, run.outcome)
        return strings([self._text(run, index) for index in range(first, last)])

    def _text(self, run: _Run, index: int) -> str | None:
        """A body in JSON by the object path."""
        if run.outcome[index] != nclass.BODY_GOOD:
            return None
        value, _ = self._read(run.batch.frame(index), run.words[index])
        return json.dumps(value.to_values())

    def _payloads(self, run: _Run, first: int, last: int) -> list[Payloads]:
        """Byte strings that may be messages."""
        rows, count, data = self._rows, self._rows.note_count, run.batch.data
        arrays = (rows.note_frame, rows.note_at, rows.note_size)
        columns = [memoryview(each)[:count] for each in arrays]
        paths, names = (memoryview(each)[:count] for each in (rows.note_path, rows.note_name))
        places = zip(paths.tolist(), names.tolist(), strict=True)
        runs = []
        at = 0
        for place, group in groupby(places):
            end = at + sum(1 for _ in group)
            runs.append(Payloads(self._path(*place), data, *(part[at:end] for part in columns)))
            at = end
        return self._with_arrays(run, first, last, runs) if self._arrays else runs

    def _path(self, path: int, name: int) -> str:
        return self._paths[path] if name < 0 else f"{self._paths[path]}.{self._names[name]}"

    def _with_arrays(
        self, run: _Run, first: int, last: int, runs: list[Payloads]
    ) -> list[Payloads]:
        """The same with byte arrays, whose bytes are not contiguous."""
        special = {
            index
            for index, word in enumerate(run.words[first:last].tolist(), first)
            if word & 0xFFFFF in self._arrays and run.outcome[index] == nclass.BODY_GOOD
        }
        if not special:
            return runs
        singles = [
            Payloads(each.path, each.data, [frame], [start], [size])
            for each in runs
            for frame, start, size in zip(each.frames, each.starts, each.sizes, strict=True)
            if frame not in special
        ]
        for index in special:
            value, _ = self._read(run.batch.frame(index), run.words[index])
            singles += _inside(value, index)
        return sorted(singles, key=lambda each: each.frames[0])

    def _array(self, column: Column, run: _Run) -> pa.Array:
        rows, count, name = self._rows, self._rows.count, column.name
        type, buffers = arrow_type(column.type), rows.buffers
        if name in KEY_NAMES and name != "path":
            text = getattr(run.keys, name, None)
            if isinstance(text, str):
                return constant(text, count, type)
            # The keys of the frames, repeated for each row.
            frames = self._plain(pa.int32(), "frame", 0)
            return run.keys.column(column, run.batch, self._kernel).take(frames)
        if name in ("path", "name", "type"):
            texts = {"path": self._paths, "name": self._names, "type": _TYPES}[name]
            has = bodyrows.HAS_NAME if name == "name" else 0
            numbers = self._plain(type.index_type, name, has)
            return dictionary(numbers, strings(texts))
        if name in ("position", "size"):
            return self._plain(type, name, 0)
        if name == "value_int":
            return self._plain(type, name, bodyrows.HAS_INT)
        if name == "value_real":
            return self._plain(type, name, bodyrows.HAS_REAL)
        if name == "value_text" and rows.seen & bodyrows.HAS_TEXT:
            bits, missing = self._bits(bodyrows.HAS_TEXT)
            return pa.Array.from_buffers(
                type, count, [bits, buffers["text_ends"], buffers["text"]], missing
            )
        if name == "value_binary" and rows.seen & bodyrows.HAS_BINARY:
            bits, missing = self._bits(bodyrows.HAS_BINARY)
            return pa.Array.from_buffers(
                type, count, [bits, buffers["binary_ends"], buffers["binary"]], missing
            )
        if name == "value_decimal" and rows.seen & bodyrows.HAS_BIG:
            bits, missing = self._bits(bodyrows.HAS_BIG)
            numbers = [bits, buffers["value_int"]]
            return pa.Array.from_buffers(pa.uint64(), count, numbers, missing).cast(type)
        if name == "is_blank":
            return pa.Array.from_buffers(type, count, [None, zeros(count // 8 + 1)], 0)
        return null_array(type, count)

    def _bits(self, has: int) -> tuple[pa.Buffer, int]:
        count = self._rows.count
        bits = bytearray(count // 8 + 1)
        there = self._kernel.mask_bits(self._rows.mask[:count], has, bits)
        return pa.py_buffer(bits), count - there

    def _plain(self, type: pa.DataType, name: str, has: int) -> pa.Array:
        bits, missing = self._bits(has) if has else (None, 0)
        return pa.Array.from_buffers(
            type, self._rows.count, [bits, self._rows.buffers[name]], missing
        )

    def _listed(self, run: _Run, index: int, value: NClassValue, body: bytes) -> BodyRows:
        """What the object path gives for one frame."""
        key: dict[str, Any] = run.keys.row(index, run.batch) | {"is_blank": False}
        names = self.table.names
        found = object_rows(value, body, self._dialect)
        full = [{name: (key | row).get(name) for name in names} for row in found]
        return BodyRows(
            pa.RecordBatch.from_pylist(full, self.schema),
            [],
            strings([json.dumps(value.to_values())]) if run.has_texts else None,
            _inside(value, index) if run.has_payloads else None,
        )


class _Run(NamedTuple):
    """Frames that are being read."""

    batch: FrameBatch
    words: memoryview
    keys: Keys
    outcome: memoryview
    has_texts: bool
    has_payloads: bool


def _inside(value: NClassValue, index: int) -> list[Payloads]:
    """The byte strings in a body, by the object path."""
    return [
        Payloads(f"body.{path}", data, [index], [0], [len(data)]) for path, data in value.payloads()
    ]


def _has_bytes(layout: ClassLayout) -> bool:
    """Whether objects of a class have byte arrays, at any depth."""
    return any(
        (slot.decl.type == "byte" and slot.decl.count > 1)
        or (slot.layout is not None and _has_bytes(slot.layout))
        for slot in layout.by_name.values()
    )
