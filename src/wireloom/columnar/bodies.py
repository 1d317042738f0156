"""Blaze bodies → rows of the `fields` table, for classes that a model declares.

A transaction's header says which class its body is. An event's body is of the class that its
subscription was made for: the request is in one direction of the connection, the answer and the
events in the other, so that both directions share one `Subscriptions`.

One row is a field or an array's element. `path` is the object or array that it lies in, from
``body`` on; `position` is its INDEX, or the element's; an object and an array have a row of their
own before those of what is in them. A number of an enum has its name as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from wireloom.columnar.arrays import (
    allocate,
    constant,
    dictionary,
    null_array,
    strings,
    zeros,
)
from wireloom.columnar.bodytables import Tables, array_type_name, item_type_name, type_names
from wireloom.columnar.framing import FrameBatch
from wireloom.columnar.kernel import bodyrows, load, nclass
from wireloom.columnar.packets import Refused
from wireloom.errors import DecodeError, OptionError
from wireloom.formats import get
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.dialects import DOCUMENT, Dialect, get_dialect
from wireloom.formats.blaze.frames import header_fields
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import (
    ClassLayout,
    NClassValue,
    Slot,
    Sparse,
    bytes_of,
    layout_of,
)
from wireloom.formats.blaze.packets import SubscriptionEvent
from wireloom.outline import Node
from wireloom.tables import Column, Table, arrow_type, table
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["BATCH_ROWS", "BodyDecoder", "BodyRows", "object_rows"]

BATCH_ROWS = 1 << 16
_BATCH_TEXT = 1 << 20
_MOST_PATHS = 1 << 14
"""Paths that are remembered from batch to batch."""
_TYPES = type_names()
_LEN = 4
_INDEX = 2


@dataclass(frozen=True, slots=True)
class BodyRows:
    """Rows of the `fields` table, and the frames whose bodies cannot be read."""

    rows: pa.RecordBatch
    refused: list[Refused]


@dataclass(frozen=True, slots=True)
class _Keys:
    batch: FrameBatch
    source: str
    stream: str
    ts_ns: memoryview | None


class BodyDecoder:
    """Reads the bodies of Blaze packets with a model; for one worker at a time."""

    def __init__(
        self,
        model: Model,
        *,
        dialect: str = DOCUMENT,
        columns: Iterable[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        kernel: Any = None,
        batch: int = BATCH_ROWS,
    ) -> None:
        """A decoder.

        Args:
            model: declares the classes.
            dialect: whose numbering is spoken.
            columns: those of the `fields` table that are wanted; None: all.
            limits: fields of a body, and depth.
            strict: as for the object path, which then reads every body.
            kernel: which kernel to use; None: the compiled one if there is one.
            batch: about how many rows a record batch has.

        Raises:
            OptionError: there is no such dialect or column.
        """
        self.table: Table = table("fields").select(columns)
        self.schema = pa.schema([(each.name, arrow_type(each.type)) for each in self.table.columns])
        self._model = model
        self._dialect: Dialect = get_dialect(dialect)
        self._settings = {"limits": limits, "strict": strict}
        self._kernel = load() if kernel is None else kernel
        tables = Tables(model, self._dialect)
        self._names = tables.names
        self._bodies = tables.made(self._kernel, limits, strict)
        self._rows = self._kernel.BodyRows(batch, _BATCH_TEXT, allocate)
        self._paths = ["body"]
        self._arrays = {
            each.id for each in model.nclasses if _has_bytes(layout_of(model, each.name))
        }

    def subscriptions(self, given: Mapping[int, Any] | None = None) -> Any:
        """What is known of one connection's subscriptions: nothing yet, or what is given.

        Args:
            given: class, or class and encoding, of events by SBSRID.

        Raises:
            OptionError: a class or encoding is not in the model or the dialect.
        """
        made = self._kernel.Subscriptions()
        for number, pair in (given or {}).items():
            key, kind = pair if isinstance(pair, (tuple, list)) else (pair, Encoding.INDEXNOTZERO)
            found = self._model.nclass(key)
            if found is None:
                raise OptionError(f"the model has no class {key!r}")
            encoding = Encoding.__members__.get(kind) if isinstance(kind, str) else Encoding(kind)
            if encoding is None:
                raise OptionError(f"there is no encoding {kind!r}")
            while made.is_full():
                made.grow()
            made.activate(number, self._dialect.enctyp(encoding) << 28 | found.id)
        return made

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
        """The rows of the bodies in a batch of frames, in one or more record batches.

        Args:
            batch: the frames, which are legal packets but for those to pass over.
            subscriptions: what is known of their connection; it learns from them.
            passed_over: frames that are no legal packets.
            source: the capture they come from.
            stream: the stream they come from.
            ts_ns: capture time of each frame, 64-bit numbers; None if not known.
        """
        keys = _Keys(batch, source, stream, ts_ns)
        outcome = memoryview(bytearray(max(batch.count, 1)))
        for index in passed_over:
            outcome[index] = nclass.BODY_SKIP
        refused: list[Refused] = []
        rows = self._rows
        index = 0
        while index < batch.count:
            index = self._bodies.run(
                rows, subscriptions, batch.data, batch.offsets, batch.lengths, index, outcome
            )
            if index == batch.count:
                break
            if outcome[index] in (nclass.BODY_BAD, nclass.BODY_CLASS):
                try:
                    raw = batch.frame(index)
                    value, body = self._read(raw, self._class_of(raw, subscriptions))
                except DecodeError as error:
                    offset = batch.base + batch.offsets[index]
                    refused.append(Refused(index, offset, batch.frame(index), error))
                else:
                    if rows.count:
                        yield self._flush(keys, refused)
                        refused = []
                    found = object_rows(value, body, self._dialect)
                    yield BodyRows(self._listed(found, index, keys), [])
                index += 1
            elif subscriptions.is_full():
                subscriptions.grow()
            elif rows.count:
                yield self._flush(keys, refused)
                refused = []
            else:
                rows.grow()
                self._paths = ["body"]
        if rows.count or refused:
            yield self._flush(keys, refused)

    def texts(
        self, batch: FrameBatch, subscriptions: Any, *, passed_over: Iterable[int] = ()
    ) -> list[str | None]:
        """The values of each frame's body in JSON, for the column `nclass`; by the object path.

        None for a frame without a body, and for one that cannot be read, about which `decode`
        tells. `subscriptions` is not changed: it is for `decode` to learn.
        """
        found: list[str | None] = [None] * batch.count
        for index, clsenc in enumerate(self._classes(batch, subscriptions, passed_over)):
            if clsenc:
                with suppress(DecodeError):
                    value, _ = self._read(batch.frame(index), clsenc)
                    found[index] = json.dumps(value.to_values())
        return found

    def payloads(
        self,
        batch: FrameBatch,
        subscriptions: Any,
        wanted: Iterable[int],
        *,
        passed_over: Iterable[int] = (),
    ) -> dict[int, list[tuple[str, bytes]]]:
        """The byte strings in the bodies of some frames, with their paths; by the object path.

        A body of no known class, or that cannot be read, is one byte string. `subscriptions` is
        not changed: it is for `decode` to learn.

        Args:
            batch: the frames.
            subscriptions: what is known of their connection.
            wanted: frames to look at. Those with byte arrays are looked at in any case: the bytes
                of one do not lie next to each other.
            passed_over: frames that are no legal packets.
        """
        classes = self._classes(batch, subscriptions, passed_over)
        arrays = {
            index for index, word in enumerate(classes) if word and word & 0xFFFFF in self._arrays
        }
        found: dict[int, list[tuple[str, bytes]]] = {}
        for index in sorted(arrays.union(wanted)):
            raw = batch.frame(index)
            try:
                if not classes[index]:
                    raise DecodeError("no class")
                value, _ = self._read(raw, classes[index])
                inner = [(f"body.{path}", data) for path, data in value.payloads()]
            except DecodeError:
                blaze: Any = get("blaze")
                packet = blaze.decode(raw, dialect=self._dialect.name, **self._settings)
                inner = list(packet.payloads())
            found[index] = inner
        return found

    def learn(
        self, batch: FrameBatch, subscriptions: Any, *, passed_over: Iterable[int] = ()
    ) -> None:
        """Let subscriptions learn of the requests in some frames before these are decoded.

        For the direction that is read first: what it answers to may be in the other one.
        """
        self._find(batch, subscriptions, passed_over)

    def _classes(
        self, batch: FrameBatch, subscriptions: Any, passed_over: Iterable[int]
    ) -> list[int]:
        """Class and encoding of each frame's body; 0 where there is none."""
        return self._find(batch, subscriptions.copy(), passed_over)

    def _find(self, batch: FrameBatch, known: Any, passed_over: Iterable[int]) -> list[int]:
        outcome = memoryview(bytearray(max(batch.count, 1)))
        for index in passed_over:
            outcome[index] = nclass.BODY_SKIP
        words = memoryview(bytearray(8 * max(batch.count, 1))).cast("q")
        arrays = (batch.data, batch.offsets, batch.lengths)
        index = 0
        while (index := self._bodies.find(known, *arrays, index, outcome, words)) < batch.count:
            known.grow()
        return words[: batch.count].tolist()

    def _read(self, raw: bytes, clsenc: int) -> tuple[NClassValue, bytes]:
        """The body of a packet, and its bytes.

        Raises:
            DecodeError: it cannot be read.
        """
        blaze: Any = get("blaze")
        name = self._dialect.name
        packet = blaze.decode(raw, dialect=name, **self._settings)
        given = {}
        if isinstance(packet, SubscriptionEvent):
            found = self._model.nclass(clsenc & 0xFFFFF)
            encoding = self._dialect.encoding(clsenc >> 28)
            if found is None or encoding is None:
                what = f"class {clsenc & 0xFFFFF}" if found is None else f"encoding {clsenc >> 28}"
                reason = f"the subscription is for {what}, which is not known"
                raise DecodeError(reason, path="body", code="nclsid" if found is None else "enctyp")
            given = {packet.sbsrid: (found, encoding)}
        packet = blaze.decode(
            raw, dialect=name, model=self._model, subscriptions=given, **self._settings
        )
        return packet.nclass, packet.body

    def _class_of(self, raw: bytes, subscriptions: Any) -> int:
        """Class and encoding of an event's subscription; 0 for other packets, which say it."""
        fields = header_fields(raw)
        return subscriptions.class_of(fields["sbsrid"]) if "sbsrid" in fields else 0

    # --- Arrow

    def _flush(self, keys: _Keys, refused: list[Refused]) -> BodyRows:
        """A record batch of what the kernel has collected."""
        for number in range(len(self._paths), self._rows.path_count):
            step = self._rows.path_steps[number]
            parent = self._paths[self._rows.path_parents[number]]
            is_element, place = step & 1, step >> 1
            self._paths.append(
                f"{parent}[{place}]" if is_element else f"{parent}.{self._names[place]}"
            )
        arrays = [self._array(column, keys) for column in self.table.columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._rows.reset()
        if len(self._paths) > _MOST_PATHS:
            self._rows.forget_paths(4 * _MOST_PATHS)
            self._paths = ["body"]
        return BodyRows(made, refused)

    def _array(self, column: Column, keys: _Keys) -> pa.Array:
        rows, count, name = self._rows, self._rows.count, column.name
        type, buffers, batch = arrow_type(column.type), rows.buffers, keys.batch
        if name in ("source", "stream"):
            return constant(keys.source if name == "source" else keys.stream, count, type)
        if name == "frame_offset":
            return self._taken(batch.offsets, batch.base, type)
        if name == "ts_ns" and keys.ts_ns is not None:
            return self._taken(keys.ts_ns, 0, type)
        if name == "ts" and keys.ts_ns is not None:
            micros = memoryview(bytearray(8 * max(batch.count, 1))).cast("q")
            self._kernel.to_micros(keys.ts_ns, micros)
            return self._taken(micros, 0, type)
        if name == "frame_length":
            out = allocate(4 * max(count, 1))
            self._kernel.take32(
                rows.frame[:count], batch.lengths, memoryview(out).cast("B").cast("i")
            )
            return pa.Array.from_buffers(type, count, [None, out], 0)
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

    def _taken(self, values: memoryview, add: int, type: pa.DataType) -> pa.Array:
        count = self._rows.count
        out = allocate(8 * max(count, 1))
        into = memoryview(out).cast("B").cast("q")
        self._kernel.take64(self._rows.frame[:count], values, add, into)
        return pa.Array.from_buffers(type, count, [None, out], 0)

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

    def _listed(self, rows: list[dict[str, Any]], index: int, keys: _Keys) -> pa.RecordBatch:
        """A record batch of rows that the object path gave for one frame."""
        batch = keys.batch
        key: dict[str, Any] = {
            "source": keys.source,
            "stream": keys.stream,
            "frame_offset": batch.base + batch.offsets[index],
            "frame_length": batch.lengths[index],
            "is_blank": False,
        }
        if keys.ts_ns is not None:
            key |= {"ts_ns": keys.ts_ns[index], "ts": keys.ts_ns[index] // 1000}
        names = self.table.names
        full = [{name: (key | row).get(name) for name in names} for row in rows]
        return pa.RecordBatch.from_pylist(full, self.schema)


def _has_bytes(layout: ClassLayout) -> bool:
    """Whether objects of a class have byte arrays, at any depth."""
    return any(
        (slot.decl.type == "byte" and slot.decl.count > 1)
        or (slot.layout is not None and _has_bytes(slot.layout))
        for slot in layout.by_name.values()
    )


# --- the object path's rows -----------------------------------------------------------------------


def object_rows(value: NClassValue, body: bytes, dialect: Dialect) -> list[dict[str, Any]]:
    """The rows of a body from the object path: slow, and what the kernel's must be equal to."""
    tree = Node("body", 0, len(body))
    first = dialect.first_index_of(value.model)
    decode_nclass(value.model, value.nclass, body, value.encoding, first_index=first, node=tree)
    return list(_object(value, tree.children[1:], "body", first))


def _object(
    value: NClassValue, nodes: list[Node], path: str, first: int
) -> Iterator[dict[str, Any]]:
    for node, (name, item) in zip(nodes, value.items(), strict=True):
        slot = value.layout.by_name[name]
        row = {"path": path, "position": first + slot.place, "name": name}
        size = node.length - _INDEX
        if isinstance(item, Sparse):
            yield row | {"type": array_type_name(slot), "size": size - _LEN}
            for child, (index, element) in zip(node.children, item.items(), strict=True):
                inner = f"{path}.{name}"
                yield from _item(
                    slot,
                    element,
                    child,
                    {"path": inner, "position": index, "name": None},
                    f"{inner}[{index}]",
                    first,
                )
        else:
            yield from _item(slot, item, node, row, f"{path}.{name}", first)


def _item(
    slot: Slot, item: Any, node: Node, row: dict[str, Any], path: str, first: int
) -> Iterator[dict[str, Any]]:
    size = node.length - _INDEX - (0 if slot.width else _LEN)
    row = row | {"type": item_type_name(slot), "size": size}
    if isinstance(item, NClassValue):
        yield row
        yield from _object(item, node.children, path, first)
        return
    if isinstance(item, float):
        row["value_real"] = item
    elif isinstance(item, str):
        raw = bytes_of(item)
        try:
            row["value_text"] = raw.decode()
        except UnicodeDecodeError:
            row["value_binary"] = raw
    elif item >> 63 > 0:
        row["value_decimal"] = Decimal(item)
    else:
        row["value_int"] = int(item)
        if slot.enum is not None and (name := slot.enum.name_of(item)) is not None:
            row["value_text"] = name
    yield row
