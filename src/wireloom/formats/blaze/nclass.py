"""Objects of a model's classes: immutable values, made from Python, from JSON or from a body.

A value holds the fields that are *present*. What an absent field means depends on the encoding
(SPEC §4.2): zero in ALL and INDEXNOTZERO, unchanged in INDEXDELTA. `NClassValue.read` gives zero
for what is absent.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

from wireloom.errors import EncodeError
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.declarations import PRIMITIVES, EnumDecl, FieldDecl, NClass
from wireloom.formats.blaze.model import Model
from wireloom.kernel import either
from wireloom.kernel.live.objects import FLAT_OTHER, FLAT_SCALAR, FLAT_TEXT, FLAT_UNSIGNED
from wireloom.messages import Json

if TYPE_CHECKING:
    from wireloom._kernel import FlatClass

__all__ = ["ClassLayout", "NClassValue", "Slot", "Sparse", "Value", "layout_of", "new_value"]

_K = TypeVar("_K", str, int)

_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def text_of(raw: bytes) -> str:
    """Text from the wire; bytes that are not UTF-8 become lone surrogates, so nothing is lost."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The bytes that `text_of` read.

    Raises:
        UnicodeEncodeError: it holds surrogates that `text_of` never makes.
    """
    return text.encode("utf-8", "surrogateescape")


class _Frozen(Mapping[_K, "Value"]):
    __slots__ = ("_items",)

    def __init__(self, items: dict[_K, Value]) -> None:
        self._items: dict[_K, Value] = items

    def __getitem__(self, key: _K) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))


class Sparse(_Frozen[int]):
    """The elements of an array that are present, by index."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sparse, (self._items,)


class NClassValue(_Frozen[str]):
    """An object of a class: its present fields by name.

    >>> from wireloom.formats.blaze import ModelBuilder
    >>> builder = ModelBuilder()
    >>> point = builder.nclass("POINT", 301)
    >>> _ = point.field("x", "int_32").field("y", "int_32").field("label", "ascii", 6)
    >>> value = new_value(builder.build(), "POINT", {"x": 5, "label": "dock"})
    >>> value["x"], value.get("y"), value.read("y")
    (5, None, 0)
    """

    __slots__ = ("encoding", "layout")

    layout: ClassLayout
    encoding: Encoding
    """The encoding it was decoded from, and is written in by default. Not compared."""

    def __init__(self, layout: ClassLayout, items: dict[str, Value], encoding: Encoding) -> None:
        self._items = items
        self.layout = layout
        self.encoding = encoding

    @property
    def nclass(self) -> NClass:
        """Its class."""
        return self.layout.nclass

    @property
    def model(self) -> Model:
        """The model that declares the class."""
        return self.layout.model

    def read(self, name: str) -> Value:
        """The field's value, or its zero when it is absent.

        Raises:
            KeyError: the class has no such field.
        """
        slot = self.layout.by_name[name]
        return self._items[name] if name in self._items else slot.zero(self.encoding)

    def key(self) -> tuple[Value, ...] | None:
        """The values of the primary key's fields; None when the class has none."""
        key = self.nclass.primary_key
        return None if key is None else tuple(self.read(name) for name in key.fields)

    def to_values(self) -> Json:
        """The present fields as JSON; `new_value` takes it back.

        Arrays are objects with the indexes as keys, enums are names where there is one, text that
        is not UTF-8 is in hex under the field's name plus ``_hex``.
        """
        out: Json = {}
        for name, value in self._items.items():
            slot = self.layout.by_name[name]
            if isinstance(value, Sparse):
                out[name] = {str(i): slot.to_json(item) for i, item in value.items()}
            elif isinstance(value, str) and not value.isascii() and not _is_utf8(value):
                out[slot.hex_name] = bytes_of(value).hex()
            else:
                out[name] = slot.to_json(value)
        return out

    def to_dict(self) -> Json:
        """Class, encoding and present fields as JSON."""
        return {
            "class": self.nclass.name,
            "encoding": self.encoding.name,
            "values": self.to_values(),
        }

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Texts and byte arrays that are not empty, each with its path."""
        for name, value in self._items.items():
            slot = self.layout.by_name[name]
            if isinstance(value, NClassValue):
                yield from ((f"{name}.{path}", data) for path, data in value.payloads())
            elif isinstance(value, str):
                if value:
                    yield name, bytes_of(value)
            elif isinstance(value, Sparse):
                if slot.layout is not None:
                    for i, item in value.items():
                        assert isinstance(item, NClassValue)
                        for path, data in item.payloads():
                            yield f"{name}[{i}].{path}", data
                elif slot.decl.type == "byte" and any(value.values()):
                    # Zero bytes are not sent, so the array's end is known only from the model.
                    dense = bytearray(slot.decl.count)
                    for i, item in value.items():
                        assert isinstance(item, int)
                        dense[i] = item
                    yield name, bytes(dense)

    def __repr__(self) -> str:
        return f"<{self.nclass.name} {self._items!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.model, self.nclass.name, self._items, self.encoding)


Value = bool | int | float | str | NClassValue | Sparse
"""A field's value: numbers, text, an object, or the elements of an array."""


def _rebuild(model: Model, name: str, items: dict[str, Value], encoding: Encoding) -> NClassValue:
    return NClassValue(layout_of(model, name), items, encoding)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Slot:
    """A field, ready for the walkers: how its bytes become a value and vice versa."""

    __slots__ = (
        "decl",
        "enum",
        "hex_name",
        "is_array",
        "is_string",
        "labels",
        "layout",
        "names",
        "pack",
        "place",
        "read",
        "width",
    )

    decl: FieldDecl
    place: int
    """Position in its class, from 0."""
    width: int
    """Bytes of a scalar or array element; 0 for text and objects, which tell their length."""
    read: Callable[[bytes, int], Value]
    """The scalar or element at an offset, where `width` bytes are available."""
    pack: Callable[[Any], bytes]
    """The bytes of a scalar or element; may raise anything."""
    names: Mapping[str, float] | None
    """Numbers that may be given by name."""
    labels: Mapping[int, str]
    """Names of an enum's numbers."""
    enum: EnumDecl | None
    layout: ClassLayout | None
    """The layout of a field or element that is an object."""

    def __init__(self, model: Model, decl: FieldDecl, place: int, taken: Set[str]) -> None:
        entity = model.entity(decl.type)
        self.decl = decl
        self.place = place
        self.is_string = decl.type == "ascii" and decl.count > 1
        self.is_array = decl.type != "ascii" and decl.count > 1
        self.enum = entity if isinstance(entity, EnumDecl) else None
        self.layout = layout_of(model, entity.name) if isinstance(entity, NClass) else None
        code, width = PRIMITIVES.get(decl.type, ("i", 4))
        self.width = 0 if self.layout is not None or self.is_string else width
        self.read = _READERS[code]
        self.pack = _PACKERS[code]
        self.names = _FLOATS if code in "fd" else None
        self.labels = {}
        if self.enum is not None:
            self.names = {member.name: member.value for member in self.enum.members}
            # From last to first: of several members with one value, the first gives its name.
            self.labels = {member.value: member.name for member in reversed(self.enum.members)}
        self.hex_name = f"{decl.name}_hex"
        while self.hex_name in taken:
            self.hex_name += "_"

    def write(self, value: Any) -> bytes:
        """The bytes of a scalar or array element.

        Raises:
            EncodeError: the value is not of the field's type.
        """
        try:
            if isinstance(value, str) and self.names is not None:
                value = self.names[value]
            return self.pack(value)
        except (KeyError, OverflowError, TypeError, ValueError, struct.error):
            raise EncodeError(f"{value!r} is not a value of type {self.decl.type}") from None

    def write_text(self, value: Any) -> bytes:
        """The bytes of a string.

        Raises:
            EncodeError: it is not text, or longer than declared.
        """
        try:
            raw = value if isinstance(value, bytes) else bytes_of(str.__str__(value))
        except (TypeError, UnicodeEncodeError):
            raise EncodeError(f"{value!r} is not text") from None
        if len(raw) > self.decl.count:
            raise EncodeError(f"{len(raw)} bytes of text, {self.decl.count} are the most")
        return raw

    def zero(self, encoding: Encoding) -> Value:
        """The value whose bytes are all zero."""
        if self.is_array:
            return Sparse({})
        return self.zero_item(encoding)

    def zero_item(self, encoding: Encoding) -> Value:
        """The zero of one element."""
        if self.layout is not None:
            return NClassValue(self.layout, {}, encoding)
        return "" if self.is_string else self.read(bytes(8), 0)

    def make(self, given: Any, encoding: Encoding) -> Value:
        """A value of this field from Python or JSON.

        Raises:
            EncodeError: it is not of the field's type.
        """
        if not self.is_array:
            return self._make_item(given, encoding)
        items: dict[int, Value] = {}
        for key, item in _elements(given):
            try:
                index = _index(key, self.decl.count)
                if index in items:
                    raise EncodeError("given twice")
                items[index] = self._make_item(item, encoding)
            except EncodeError as error:
                error.within(f"[{key}]")
                raise
        return Sparse(items)

    def _make_item(self, given: Any, encoding: Encoding) -> Value:
        if self.layout is not None:
            return _make(self.layout, given, encoding)
        if self.is_string:
            return text_of(self.write_text(given))
        # Through bytes and back: checked, and a float_32 is rounded to what is sent.
        return self.read(self.write(given), 0)

    def to_json(self, value: Value) -> Any:
        """A value or element as JSON."""
        if isinstance(value, NClassValue):
            return value.to_values()
        if self.enum is not None:
            assert isinstance(value, int)
            return self.labels.get(value, value)
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value


def _elements(given: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of index and element: from a mapping, or from a sequence in which None is absent."""
    if isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, Sequence) and not isinstance(given, str):
        yield from ((i, item) for i, item in enumerate(given) if item is not None)
    else:
        raise EncodeError(f"{given!r} is not an array")


def _index(key: Any, count: int) -> int:
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 5:
        key = int(key)
    if not isinstance(key, int) or not 0 <= key < count:
        raise EncodeError(f"the index must be from 0 to {count - 1}")
    return key


def _number_reader(code: str) -> Callable[[bytes, int], Value]:
    unpack = struct.Struct("<" + code).unpack_from

    def read(data: bytes, at: int) -> Value:
        value: int | float = unpack(data, at)[0]
        return value

    return read


_CHARACTERS = ("", *(text_of(bytes([byte])) for byte in range(1, 256)))


def _read_character(data: bytes, at: int) -> Value:
    return _CHARACTERS[data[at]]


def _read_bool(data: bytes, at: int) -> Value:
    return data[at] != 0


_READERS: dict[str, Callable[[bytes, int], Value]] = {
    "?": _read_bool,
    "c": _read_character,
    **{code: _number_reader(code) for code in "hHiIqQfdB"},
}


def _pack_character(value: Any) -> bytes:
    raw = value if isinstance(value, bytes) else bytes_of(str.__str__(value))
    if len(raw) > 1:
        raise ValueError
    return raw or b"\0"


def _pack_bool(value: Any) -> bytes:
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError
    return b"\1" if value else b"\0"


_PACKERS: dict[str, Callable[[Any], bytes]] = {
    "?": _pack_bool,
    "c": _pack_character,
    **{code: struct.Struct("<" + code).pack for code in "hHiIqQfdB"},
}


class ClassLayout:
    """A class, ready for the walkers."""

    __slots__ = ("_flat", "by_name", "full_size", "model", "nclass", "slots")

    def __init__(self, model: Model, nclass: NClass) -> None:
        self.model = model
        self.nclass = nclass
        taken = {decl.name for decl in nclass.fields}
        self.slots = tuple(Slot(model, decl, i, taken) for i, decl in enumerate(nclass.fields))
        self.by_name = {slot.decl.name: slot for slot in self.slots}
        self.full_size = 4 + sum(2 + _full_size(slot) for slot in self.slots)
        """Bytes of an object in the encoding ALL, without its texts."""
        self._flat: dict[int, FlatClass] = {}

    def flat(self, first_index: int) -> FlatClass:
        """The kernel's reader and writer of plain objects; made once."""
        found = self._flat.get(first_index)
        if found is None:
            slots = self.slots
            kinds = [_flat_kind(slot) for slot in slots]
            sizes = [slot.decl.count if slot.is_string else slot.width for slot in slots]
            found = self._flat[first_index] = either().FlatClass(
                tuple(slot.decl.name for slot in slots),
                memoryview(array("i", kinds)),
                memoryview(array("i", [min(size, _MAX_INT) for size in sizes])),
                tuple(slot.read for slot in slots),
                tuple(slot.pack for slot in slots),
                first_index,
            )
        return found


_MAX_INT = 0x7FFFFFFF


def _flat_kind(slot: Slot) -> int:
    """What the kernel does with a field."""
    kind: int = FLAT_SCALAR
    if slot.is_array or slot.layout is not None or slot.decl.type == "bool":
        kind = FLAT_OTHER
    elif slot.is_string:
        kind = FLAT_TEXT
    elif slot.decl.type.startswith(("uint", "byte")):
        kind = FLAT_UNSIGNED
    return kind


def _full_size(slot: Slot) -> int:
    item = slot.width or (4 if slot.layout is None else slot.layout.full_size)
    return 4 + slot.decl.count * (2 + item) if slot.is_array else item


def layout_of(model: Model, name: str) -> ClassLayout:
    """The class of that name, ready for the walkers; made once per model.

    Raises:
        KeyError: the model has no such class.
    """
    found: ClassLayout | None = model._cache.get(name)
    if found is None:
        nclass = model.nclass(name)
        if nclass is None:
            raise KeyError(name)
        found = model._cache[name] = ClassLayout(model, nclass)
    return found


def _make(layout: ClassLayout, given: Any, encoding: Encoding) -> NClassValue:
    if not isinstance(given, Mapping):
        raise EncodeError(f"{given!r} is not an object of class {layout.nclass.name}")
    items: dict[str, Value] = {}
    hex_names = {slot.hex_name: slot for slot in layout.slots if slot.decl.type == "ascii"}
    for key, item in given.items():
        try:
            slot = layout.by_name.get(key)
            if slot is None and key in hex_names:
                slot, item = hex_names[key], _from_hex(item)
            if slot is None:
                raise EncodeError(f"class {layout.nclass.name} has no such field")
            if slot.decl.name in items:
                raise EncodeError("given twice")
            items[slot.decl.name] = slot.make(item, encoding)
        except EncodeError as error:
            error.within(str(key))
            raise
    return NClassValue(layout, items, encoding)


def _from_hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise EncodeError(f"{text!r} is not hex") from None


def new_value(
    model: Model,
    nclass: NClass | str | int,
    values: Mapping[str, Any],
    encoding: Encoding = Encoding.INDEXNOTZERO,
) -> NClassValue:
    """An object from Python values or from what `NClassValue.to_values` gave.

    Enums are numbers or names, arrays are mappings of index → element or sequences (``byte[N]``
    also bytes), objects are mappings, text may be given as bytes.

    Raises:
        EncodeError: there is no such class or field, or a value is not of its type; with the path.
    """
    found = model.nclass(nclass)
    if found is None:
        raise EncodeError(f"the model has no class {nclass!r}")
    return _make(layout_of(model, found.name), values, encoding)
