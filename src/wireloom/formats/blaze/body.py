"""Body bytes ↔ objects: the walker that reads an nclass, its writing twin, and deltas (SPEC §4).

Every LEN must end exactly inside its parent, so a hostile one never reaches past it. The reader
can draw what it reads as a tree; it is the same code, so the two never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from wireloom.errors import DecodeError, EncodeError, LimitError
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.model import Model, NClass
from wireloom.formats.blaze.nclass import (
    ClassLayout,
    NClassValue,
    Slot,
    Sparse,
    Value,
    layout_of,
    text_of,
)
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Buffer, Limits, as_bytes

__all__ = [
    "apply_delta",
    "decode_below",
    "decode_nclass",
    "encode_nclass",
    "encode_plain",
    "make_delta",
    "trimmed",
]

# Looked up once: a member of an enum takes as long as a small object.
_ALL, _NOT_ZERO = Encoding.ALL, Encoding.INDEXNOTZERO
_INDEX_LEN = 2
_LEN_LEN = 4


def decode_nclass(
    model: Model,
    nclass: NClass | str | int,
    data: Buffer,
    encoding: Encoding = Encoding.INDEXNOTZERO,
    *,
    first_index: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    strict: bool = False,
    node: Node | None = None,
) -> NClassValue:
    """The object that fills `data`.

    Args:
        model: declares the class.
        nclass: the class, its name or its id.
        data: LEN and fields, nothing after them.
        encoding: what absent fields mean; only strict mode looks at it.
        first_index: INDEX of the first field; None: the model's, or else 1.
        limits: depth and number of fields.
        strict: reject what a writer would not send: fields or elements that do not ascend, zeros
            in INDEXNOTZERO, gaps in ALL.
        node: where to draw what is read, with the reason if it fails.

    Raises:
        DecodeError: the bytes are not such an object; with the path inside it.
    """
    raw = as_bytes(data)
    found = model.nclass(nclass)
    if found is None:
        raise DecodeError(f"the model has no class {nclass!r}", code="nclsid")
    if first_index is None:
        first_index = 1 if model.first_index is None else model.first_index
    layout = layout_of(model, found.name)
    if node is None and encoding is not Encoding.ALL and len(layout.slots) <= limits.max_fields:
        # Nearly all objects are as a writer makes them: all modes take those.
        items = layout.flat(first_index).read(raw, encoding is Encoding.INDEXDELTA)
        if items is not None:
            return NClassValue(layout, items, encoding)
    reader = _Reader(raw, encoding, first_index, limits, strict)
    try:
        end = reader.length(0, len(raw))
        if end != len(raw):
            raise reader.bad(f"{len(raw) - end} bytes behind the object", end)
    except DecodeError as error:
        if node is not None:
            node.error = error.reason
        raise
    if node is not None:
        node.add("LEN", 0, _LEN_LEN, end - _LEN_LEN, "bytes that follow")
    return reader.fields(layout, _LEN_LEN, end, 1, node)


def decode_below(root: Node, *args: Any, **options: Any) -> NClassValue:
    """Like `decode_nclass`, and draw the object below the node ``body`` of a packet's tree.

    Raises:
        DecodeError: the bytes are not such an object; the tree shows where.
    """
    body = root.children[-1]
    if body.name != "body":  # an empty body has no node
        body = root.add("body", root.end, 0)
    tree = Node(body.name, 0, body.length)
    try:
        return decode_nclass(*args, **options, node=tree)
    finally:
        for _, node in tree.walk():
            node.offset += body.offset
        body.children = tree.children
        body.error = tree.error


class _Reader:
    __slots__ = (
        "count",
        "data",
        "encoding",
        "first",
        "is_placed",
        "limits",
        "no_zeros",
        "strict",
    )

    def __init__(
        self, data: bytes, encoding: Encoding, first: int, limits: Limits, strict: bool
    ) -> None:
        self.data = data
        self.encoding = encoding
        self.first = first
        self.limits = limits
        self.strict = strict
        self.no_zeros = strict and encoding is Encoding.INDEXNOTZERO
        self.count = 0  # fields and elements read
        self.is_placed = False  # whether the tree shows why reading failed

    def bad(self, reason: str, at: int) -> DecodeError:
        return DecodeError(reason, offset=at, code="nclass")

    def length(self, at: int, end: int) -> int:
        """Where the structure whose LEN is at `at` ends."""
        if end - at < _LEN_LEN:
            raise self.bad(f"LEN needs {_LEN_LEN} bytes, {end - at} are left", at)
        size = int.from_bytes(self.data[at : at + _LEN_LEN], "little")
        if size > end - at - _LEN_LEN:
            left = end - at - _LEN_LEN
            raise self.bad(f"LEN {size} runs past the end, {left} bytes are left", at)
        if self.no_zeros and not size and at:
            raise self.bad("a zero is sent", at)
        return at + _LEN_LEN + size

    def index(self, at: int, end: int) -> int:
        """The INDEX at `at`; counts one more field or element."""
        if end - at < _INDEX_LEN:
            raise self.bad(f"INDEX needs {_INDEX_LEN} bytes, {end - at} are left", at)
        self.count += 1
        if self.count > self.limits.max_fields:
            raise LimitError("number of fields", self.count, self.limits.max_fields, offset=at)
        return self.data[at] | self.data[at + 1] << 8

    def fields(
        self, layout: ClassLayout, at: int, end: int, depth: int, node: Node | None
    ) -> NClassValue:
        """The object whose fields fill ``[at, end)``."""
        if depth > self.limits.max_depth:
            raise LimitError("nesting depth", depth, self.limits.max_depth, offset=at)
        items: dict[str, Value] = {}
        slots = layout.slots
        first = self.first
        last = -1
        name = ""
        try:
            while at < end:
                name = ""
                place = self.index(at, end) - first
                if not 0 <= place < len(slots):
                    raise self.bad(f"class {layout.nclass.name} has no field {place + first}", at)
                slot = slots[place]
                name = slot.decl.name
                if name in items:
                    raise self.bad("the field is there twice", at)
                if self.strict and place < last:
                    raise self.bad("the fields do not ascend", at)
                last = place
                if slot.is_array:
                    items[name], at = self.array(slot, at, end, depth, node)
                else:
                    items[name], at = self.item(slot, name, at, end, depth, node)
            if self.strict and self.encoding is Encoding.ALL and len(items) < len(slots):
                name = next(slot.decl.name for slot in slots if slot.decl.name not in items)
                raise self.bad("the field is missing", at)
        except DecodeError as error:
            self.place_error(error, name, at, end, node)
            raise
        return NClassValue(layout, items, self.encoding)

    def item(
        self, slot: Slot, name: str, start: int, end: int, depth: int, node: Node | None
    ) -> tuple[Value, int]:
        """The field or element whose INDEX is at `start`, and where it ends."""
        at = start + _INDEX_LEN
        decl = slot.decl
        if slot.width:
            stop = at + slot.width
            if stop > end:
                raise self.bad(f"{slot.width} bytes needed, {end - at} are left", at)
            if decl.type == "bool" and self.data[at] > 1:
                raise self.bad(f"{self.data[at]} is not a bool", at)
            if self.no_zeros and not any(self.data[at:stop]):
                raise self.bad("a zero is sent", at)
            value = slot.read(self.data, at)
            if node is not None:
                named = slot.to_json(value)
                meaning = f"{named} ({decl.type})" if named is not value else decl.type
                node.add(name, start, stop - start, value, meaning)
            return value, stop
        stop = self.length(at, end)
        at += _LEN_LEN
        if slot.layout is not None:
            if node is not None:
                node = node.add(name, start, stop - start, "", slot.layout.nclass.name)
            return self.fields(slot.layout, at, stop, depth + 1, node), stop
        if stop - at > decl.count:
            raise self.bad(f"{stop - at} bytes of text, {decl.count} are the most", at)
        text = text_of(self.data[at:stop])
        if node is not None:
            node.add(name, start, stop - start, text, f"ascii[{decl.count}]")
        return text, stop

    def array(
        self, slot: Slot, start: int, end: int, depth: int, node: Node | None
    ) -> tuple[Value, int]:
        """The array whose INDEX is at `start`, and where it ends."""
        decl = slot.decl
        at = start + _INDEX_LEN
        stop = self.length(at, end)
        if node is not None:
            node = node.add(decl.name, start, stop - start, "", f"{decl.type}[{decl.count}]")
        at += _LEN_LEN
        items: dict[int, Value] = {}
        last = -1
        name = ""
        try:
            while at < stop:
                name = ""
                index = self.index(at, stop)
                name = f"[{index}]"
                if index >= decl.count:
                    raise self.bad(f"the array has {decl.count} elements", at)
                if index in items:
                    raise self.bad("the element is there twice", at)
                if self.strict and index < last:
                    raise self.bad("the elements do not ascend", at)
                last = index
                items[index], at = self.item(slot, name, at, stop, depth, node)
            if self.strict and self.encoding is Encoding.ALL and len(items) < decl.count:
                raise self.bad(f"{len(items)} of {decl.count} elements are there", at)
        except DecodeError as error:
            self.place_error(error, name, at, stop, node)
            raise
        return Sparse(items), stop

    def place_error(
        self, error: DecodeError, name: str, at: int, end: int, node: Node | None
    ) -> None:
        """Say where it failed: in the error's path, and once in the tree."""
        if node is not None and not self.is_placed:
            node.add(name or "?", at, end - at, error=error.reason)
            self.is_placed = True
        if name:
            error.within(name)


def encode_nclass(
    value: NClassValue,
    encoding: Encoding | None = None,
    *,
    first_index: int | None = None,
    max_size: int = DEFAULT_LIMITS.max_frame,
) -> bytes:
    """The body for an object: fields and elements ascend.

    Args:
        value: the object.
        encoding: ALL writes absent fields as zeros, INDEXNOTZERO leaves zeros out, INDEXDELTA
            writes exactly what is present. None: the value's own.
        first_index: INDEX of the first field; None: the model's, or else 1.
        max_size: most bytes; a small object of a large class may be huge in the encoding ALL.

    Raises:
        EncodeError: it would be larger than `max_size`.
    """
    if encoding is None:
        encoding = value.encoding
    if first_index is None:
        first_index = 1 if value.model.first_index is None else value.model.first_index
    layout = value.layout
    if encoding is _ALL and layout.full_size > max_size:
        size = layout.full_size
        raise EncodeError(f"{size} bytes in the encoding ALL, {max_size} are the most")
    if encoding is _NOT_ZERO:
        try:
            made: bytes | None = layout.flat(first_index).write(value._items)
        except Exception:  # what is wrong is said below
            made = None
        if made is not None and len(made) <= max_size:
            return made
    content = _write_fields(value, encoding, first_index)
    if len(content) + _LEN_LEN > max_size:
        raise EncodeError(f"{len(content) + _LEN_LEN} bytes, {max_size} are the most")
    return _framed(content)


def encode_plain(
    values: Sequence[NClassValue], first_index: int, max_size: int = DEFAULT_LIMITS.max_frame
) -> list[bytes] | None:
    """What `encode_nclass` makes of objects of one class in INDEXNOTZERO, at once.

    None if one of them is not plain, or not legal: that function says which.
    """
    write = values[0].layout.flat(first_index).write
    try:
        bodies: list[bytes | None] = [write(value._items) for value in values]
    except Exception:
        return None
    found = [body for body in bodies if body is not None and len(body) <= max_size]
    return found if len(found) == len(bodies) else None


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(_LEN_LEN, "little") + content


_place = attrgetter("place")


def _write_fields(value: NClassValue, encoding: Encoding, first: int) -> bytes:
    chunks: list[bytes] = []
    slots: Iterable[Slot] = value.layout.slots
    if encoding is not Encoding.ALL:
        by_name = value.layout.by_name
        slots = sorted([by_name[name] for name in value], key=_place)
    for slot in slots:
        item = value.read(slot.decl.name)
        if isinstance(item, Sparse):
            raw = _framed(_write_elements(slot, item, encoding, first))
        else:
            raw = _write_item(slot, item, encoding, first)
        if encoding is not Encoding.INDEXNOTZERO or any(raw):
            chunks.append((first + slot.place).to_bytes(_INDEX_LEN, "little") + raw)
    return b"".join(chunks)


def _write_elements(slot: Slot, array: Sparse, encoding: Encoding, first: int) -> bytes:
    indexes: Iterable[int] = sorted(array)
    if encoding is Encoding.ALL:
        indexes = range(slot.decl.count)
    chunks: list[bytes] = []
    for index in indexes:
        item = array[index] if index in array else slot.zero_item(encoding)
        raw = _write_item(slot, item, encoding, first)
        if encoding is not Encoding.INDEXNOTZERO or any(raw):
            chunks.append(index.to_bytes(_INDEX_LEN, "little") + raw)
    return b"".join(chunks)


def _write_item(slot: Slot, item: Value, encoding: Encoding, first: int) -> bytes:
    if isinstance(item, NClassValue):
        return _framed(_write_fields(item, encoding, first))
    return _framed(slot.write_text(item)) if slot.is_string else slot.write(item)


def apply_delta(base: NClassValue, delta: NClassValue) -> NClassValue:
    """`base` updated with what is present in `delta`, field by field and element by element.

    Zeros in the delta stay as zeros in the result; `trimmed` drops them.

    Raises:
        EncodeError: the two are not of one class.
    """
    if base.nclass != delta.nclass:
        raise EncodeError(f"a {delta.nclass.name} cannot change a {base.nclass.name}")
    items = dict(base.items())
    for name, value in delta.items():
        items[name] = _merged(items.get(name), value)
    return NClassValue(base.layout, items, base.encoding)


def _merged(old: Value | None, new: Value) -> Value:
    if isinstance(old, NClassValue) and isinstance(new, NClassValue):
        return apply_delta(old, new)
    if isinstance(old, Sparse) and isinstance(new, Sparse):
        items = dict(old.items())
        for index, item in new.items():
            items[index] = _merged(items.get(index), item)
        return Sparse(items)
    return new


def trimmed(value: NClassValue) -> NClassValue:
    """The same image without zeros: two images are equal if they are equal when trimmed."""
    items: dict[str, Value] = {}
    for slot in value.layout.slots:
        name = slot.decl.name
        if name in value:
            item = _trimmed(slot, value[name])
            if item is not None:
                items[name] = item
    return NClassValue(value.layout, items, value.encoding)


def _trimmed(slot: Slot, value: Value) -> Value | None:
    if isinstance(value, Sparse):
        kept = {index: _trimmed(slot, value[index]) for index in sorted(value)}
        items = {index: item for index, item in kept.items() if item is not None}
        return Sparse(items) if items else None
    if isinstance(value, NClassValue):
        inner = trimmed(value)
        return inner if inner else None
    if slot.is_string:
        return value or None
    # Bytewise: a negative zero is not zero.
    return value if any(slot.write(value)) else None


def make_delta(base: NClassValue, image: NClassValue) -> NClassValue:
    """What changes `base` into `image`, for INDEXDELTA; primary key fields are always present.

    ``apply_delta(base, make_delta(base, image))`` is `image`, up to zeros.

    Raises:
        EncodeError: the two are not of one class.
    """
    if base.nclass != image.nclass:
        raise EncodeError(f"a {image.nclass.name} is no new image of a {base.nclass.name}")
    key = base.nclass.primary_key
    return _difference(base, image, () if key is None else key.fields)


def _difference(base: NClassValue, image: NClassValue, always: tuple[str, ...]) -> NClassValue:
    items: dict[str, Value] = {}
    for slot in base.layout.slots:
        name = slot.decl.name
        if name in base or name in image or name in always:
            new = image.read(name)
            change = _change(slot, base.read(name), new)
            if change is not None:
                items[name] = change
            elif name in always:
                items[name] = new
    return NClassValue(base.layout, items, Encoding.INDEXDELTA)


def _change(slot: Slot, old: Value, new: Value) -> Value | None:
    """What turns the old value into the new one; None when they are the same."""
    if isinstance(old, Sparse) and isinstance(new, Sparse):
        zero = slot.zero_item(Encoding.INDEXDELTA)
        changes = {
            index: _change(slot, old.get(index, zero), new.get(index, zero))
            for index in sorted({*old, *new})
        }
        items = {index: item for index, item in changes.items() if item is not None}
        return Sparse(items) if items else None
    if isinstance(old, NClassValue) and isinstance(new, NClassValue):
        inner = _difference(old, new, ())
        return inner if inner else None
    if slot.is_string:
        return None if old == new else new
    # Bytewise: a negative zero is not zero, and a NaN equals itself.
    return None if slot.write(old) == slot.write(new) else new
