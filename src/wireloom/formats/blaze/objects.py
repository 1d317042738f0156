"""Objects of classes made from a model: checked fields, and their bytes.

`wireloom.formats.blaze.classes` makes the classes.
"""

from __future__ import annotations

import copy
import keyword
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from wireloom.errors import EncodeError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import (
    ClassLayout,
    NClassValue,
    Slot,
    Sparse,
    Value,
    bytes_of,
    new_value,
)
from wireloom.messages import Json

__all__ = ["Field", "ModelObject", "attribute_name", "member_name"]

_RANGES = {
    f"{sign}int_{bits}": (low, high)
    for bits in (16, 32, 64)
    for sign, low, high in (
        ("", -(1 << bits - 1), (1 << bits - 1) - 1),
        ("u", 0, (1 << bits) - 1),
    )
} | {"byte": (0, 255)}


class ModelObject:
    """An object of a model's class: its fields are attributes, and all of them always exist.

    What is set is checked against the type in the model. Elements of arrays and fields of inner
    objects can be changed in place, too; lists are checked when the object is encoded.

    Raises:
        EncodeError: a value is not of its field's type.
        TypeError: there is no such field.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # it may change

    layout: ClassVar[ClassLayout]
    """The class, ready for the codec."""
    _fields: ClassVar[tuple[Field, ...]] = ()
    _by_attribute: ClassVar[dict[str, Field]] = {}
    _writers: ClassVar[dict[int, tuple[_Writer, ...]]]

    def __init__(self, **fields: Any) -> None:
        for field in self._fields:
            if field.attribute in fields:
                field.put(self, field.check(fields.pop(field.attribute)))
            else:
                field.put(self, field.zero())
        if fields:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(fields))!r}")

    if not TYPE_CHECKING:  # to a type checker, a class with __setattr__ has any attribute

        def __setattr__(self, name: str, value: Any) -> None:
            field = self._by_attribute.get(name)
            if field is None:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}")
            field.put(self, field.check(value))

        def __delattr__(self, name: str) -> None:
            raise AttributeError(
                f"{name!r} cannot be removed; its zero is {type(self).__name__}()'s"
            )

    @classmethod
    def zero(cls) -> Self:
        """The object whose fields are all zero; the same as ``Class()``, but faster."""
        made = cls.__new__(cls)
        for field in cls._fields:
            field.put(made, field.zero())
        return made

    @classmethod
    def from_value(cls, value: NClassValue) -> Self:
        """The object for a decoded value; absent fields are zero.

        Raises:
            EncodeError: it is of another class.
        """
        if value.nclass.id != cls.layout.nclass.id or value.nclass != cls.layout.nclass:
            raise EncodeError(f"a {value.nclass.name} is not a {cls.layout.nclass.name}")
        made = cls.__new__(cls)
        items = value._items
        for field in cls._fields:
            name = field.slot.decl.name
            field.put(made, field.read(items[name]) if name in items else field.zero())
        return made

    def to_value(
        self,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        fields: Iterable[str] | None = None,
    ) -> NClassValue:
        """The object for the codec: what is not zero, or exactly the fields that are named.

        Args:
            encoding: the encoding that it is meant for.
            fields: names of fields; those of the primary key are always included.

        Raises:
            EncodeError: there is no such field, or an element of a list is not of its type.
        """
        items: dict[str, Value] = {}
        chosen = None if fields is None else self._chosen(fields)
        for field in self._fields:
            name = field.slot.decl.name
            if chosen is not None and name not in chosen:
                continue
            item = field.write(getattr(self, field.attribute), encoding)
            if chosen is not None or encoding is not Encoding.INDEXNOTZERO or not _is_zero(item):
                items[name] = item
        return NClassValue(self.layout, items, encoding)

    def _chosen(self, names: Iterable[str]) -> set[str]:
        key = self.layout.nclass.primary_key
        chosen = set(() if key is None else key.fields)
        for name in names:
            field = self._by_attribute.get(name)
            if field is None:
                raise EncodeError(f"{type(self).__name__} has no field {name!r}")
            chosen.add(field.slot.decl.name)
        return chosen

    def encode(
        self, encoding: Encoding = Encoding.INDEXNOTZERO, first_index: int | None = None
    ) -> bytes:
        """The body for this object; the same as `encode_nclass` of `to_value`.

        Raises:
            EncodeError: an element of a list is not of its type, or the body is too large.
        """
        if encoding is not Encoding.INDEXNOTZERO:
            return encode_nclass(self.to_value(encoding), encoding, first_index=first_index)
        if first_index is None:
            model = self.layout.model
            first_index = 1 if model.first_index is None else model.first_index
        content = self._content(first_index)
        return len(content).to_bytes(4, "little") + content

    def _content(self, first: int) -> bytes:
        writers = self._writers.get(first)
        if writers is None:
            writers = self._writers[first] = tuple(field.writer(first) for field in self._fields)
        return b"".join([writer(self) for writer in writers])

    @property
    def key(self) -> tuple[Any, ...] | None:
        """The values of the primary key's fields; None when the class has none."""
        key = self.layout.nclass.primary_key
        if key is None:
            return None
        return tuple(getattr(self, attribute_name(name)) for name in key.fields)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed.

        Raises:
            EncodeError: a value is not of its field's type.
            AttributeError: there is no such field.
        """
        made = copy.deepcopy(self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def to_dict(self) -> Json:
        """The fields that are not zero, as JSON; see `NClassValue.to_values`."""
        return self.to_value().to_values()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The object that `to_dict` described.

        Raises:
            EncodeError: there is no such field, or a value is not of its type; with the path.
        """
        return cls.from_value(new_value(cls.layout.model, cls.layout.nclass, values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelObject) or other.layout.nclass != self.layout.nclass:
            return NotImplemented
        return all(getattr(self, f.attribute) == getattr(other, f.attribute) for f in self._fields)

    def __repr__(self) -> str:
        shown = []
        for field in self._fields:
            value = getattr(self, field.attribute)
            if value != field.zero():
                shown.append(f"{field.attribute}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self._copied(lambda value: value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied(lambda value: copy.deepcopy(value, memo))

    def _copied(self, each: Callable[[Any], Any]) -> Self:
        made = type(self).__new__(type(self))
        for field in self._fields:
            field.put(made, each(getattr(self, field.attribute)))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # The class was made at run time: the model takes its place in a pickle.
        return _rebuild, (self.layout.model, self.layout.nclass.name, self.to_value())


_Writer = Callable[[ModelObject], bytes]


def _rebuild(model: Model, name: str, value: NClassValue) -> ModelObject:
    from wireloom.formats.blaze.classes import classes_of

    return classes_of(model).object_class(name).from_value(value)


def _is_zero(value: Value) -> bool:
    if isinstance(value, (NClassValue, Sparse)):
        return all(_is_zero(item) for item in value.values())
    # Bytewise: a negative zero is not zero.
    return not value and not (isinstance(value, float) and math.copysign(1.0, value) < 0)


class Field:
    """A field of a class made at run time: its checks, its zero, its bytes."""

    __slots__ = ("_constant", "attribute", "enum", "inner", "put", "slot")

    def __init__(
        self, slot: Slot, enum: type[IntEnum] | None, inner: type[ModelObject] | None
    ) -> None:
        self.slot = slot
        self.attribute = attribute_name(slot.decl.name)
        self.enum = enum
        self.inner = inner
        self.put: Callable[[ModelObject, Any], None]
        """Sets it without a check; known when the class is made."""
        self._constant: Any = None
        """Its zero, if that cannot be changed in place; of arrays the zero of an element."""
        if inner is None:
            self._constant = self._named(slot.zero_item(Encoding.INDEXNOTZERO))

    @property
    def _is_bytes(self) -> bool:
        return self.slot.is_array and self.slot.decl.type == "byte"

    def zero(self) -> Any:
        """The value of the field in a new object."""
        slot = self.slot
        if slot.is_array:
            if self._is_bytes:
                return bytes(slot.decl.count)
            if self.inner is None:
                return [self._constant] * slot.decl.count
            return [self.inner.zero() for _ in range(slot.decl.count)]
        return self._constant if self.inner is None else self.inner.zero()

    def _named(self, value: Any) -> Any:
        """The member of an enum, if the number has one."""
        return value if self.enum is None else self.enum._value2member_map_.get(value, value)

    def check(self, given: Any) -> Any:
        """The value as it is kept.

        Raises:
            EncodeError: it is not of the field's type; the path begins with the field.
        """
        try:
            if not self.slot.is_array:
                return self._check_item(given)
            return self._check_array(given)
        except EncodeError as error:
            error.within(self.slot.decl.name)
            raise

    def _check_item(self, given: Any) -> Any:
        slot, inner = self.slot, self.inner
        if inner is not None:
            if isinstance(given, inner):
                return given
            if isinstance(given, NClassValue):
                return inner.from_value(given)
            if isinstance(given, Mapping):
                return inner.from_dict(given)
            raise EncodeError(f"{given!r} is not an object of class {slot.decl.type}")
        if slot.is_string:
            slot.write_text(given)
            return given if isinstance(given, str) else given.decode("utf-8", "surrogateescape")
        try:
            return self._named(slot.read(slot.write(given), 0))
        except EncodeError:
            known = _RANGES.get(slot.decl.type)
            if known is None:
                raise
            low, high = known
            reason = f"{given!r} is not a value of type {slot.decl.type}, {low} to {high}"
            raise EncodeError(reason) from None

    def _check_array(self, given: Any) -> Any:
        count = self.slot.decl.count
        if isinstance(given, (str, ModelObject)) or not isinstance(given, (Mapping, Sequence)):
            raise EncodeError(f"{given!r} is not an array")
        pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
        made: Any = bytearray(count) if self._is_bytes else self.zero()
        for key, item in pairs:
            index = int(key) if isinstance(key, str) and key.isdecimal() else key
            if not isinstance(index, int) or not 0 <= index < count:
                raise EncodeError(f"the index must be from 0 to {count - 1}", path=f"[{key}]")
            if item is not None:
                try:
                    made[index] = self._check_item(item)
                except EncodeError as error:
                    error.within(f"[{index}]")
                    raise
        return bytes(made) if self._is_bytes else made

    def read(self, value: Value) -> Any:
        """A decoded value as it is kept."""
        if isinstance(value, Sparse):
            made: Any = bytearray(self.zero()) if self._is_bytes else self.zero()
            for index, item in value.items():
                made[index] = self._read_item(item)
            return bytes(made) if self._is_bytes else made
        return self._read_item(value)

    def _read_item(self, value: Value) -> Any:
        if isinstance(value, NClassValue):
            assert self.inner is not None
            return self.inner.from_value(value)
        return self._named(value)

    def write(self, value: Any, encoding: Encoding) -> Value:
        """The value for the codec.

        Raises:
            EncodeError: an element of a list is not of its type.
        """
        if not self.slot.is_array:
            return self._write_item(value, encoding)
        made: dict[int, Value] = {}
        for index, item in self._elements(value):
            kept = self._write_item(item, encoding)
            if encoding is not Encoding.INDEXNOTZERO or not _is_zero(kept):
                made[index] = kept
        return Sparse(made)

    def _write_item(self, value: Any, encoding: Encoding) -> Value:
        if isinstance(value, ModelObject):
            return value.to_value(encoding)
        return int(value) if isinstance(value, IntEnum) else cast("Value", value)

    def _elements(self, value: Any) -> Iterator[tuple[int, Any]]:
        """Index and element of a list, checked here because it may have been changed in place."""
        if self._is_bytes:
            yield from enumerate(value)
            return
        name, count = self.slot.decl.name, self.slot.decl.count
        if len(value) > count:
            raise EncodeError(f"{len(value)} elements, {count} are the most", path=name)
        for index, item in enumerate(value):
            try:
                yield index, self._check_item(item)
            except EncodeError as error:
                error.within(f"{name}[{index}]")
                raise

    def writer(self, first: int) -> _Writer:
        """INDEX and bytes of the field in an object; nothing when it is zero."""
        get = attrgetter(self.attribute)
        index = (first + self.slot.place).to_bytes(2, "little")
        if self.slot.is_array:
            return self._array_writer(get, index, first)
        return self._item_writer(get, index, first)

    def _item_writer(
        self, get: Callable[[Any], Any], index: bytes, first: int
    ) -> Callable[[Any], bytes]:
        slot = self.slot
        if self.inner is not None:

            def write_object(owner: Any) -> bytes:
                content = get(owner)._content(first)
                return index + len(content).to_bytes(4, "little") + content if content else b""

            return write_object
        if slot.is_string:

            def write_text(owner: Any) -> bytes:
                value = get(owner)
                if not value:
                    return b""
                raw = bytes_of(value)
                return index + len(raw).to_bytes(4, "little") + raw

            return write_text
        pack = slot.pack

        def write(owner: Any) -> bytes:
            value = get(owner)
            if not value and not (type(value) is float and math.copysign(1.0, value) < 0):
                return b""
            return index + pack(value)

        return write

    def _array_writer(self, get: Callable[[Any], Any], index: bytes, first: int) -> _Writer:
        pack, count, inner = self.slot.pack, self.slot.decl.count, self.inner

        def write_item(item: Any) -> bytes:
            # Elements can be changed in place, so each is checked here.
            if inner is not None:
                if type(item) is not inner:
                    item = self._check_item(item)
                content: bytes = item._content(first)
                return len(content).to_bytes(4, "little") + content if content else b""
            try:
                raw = pack(item)
            except (struct.error, TypeError, ValueError, OverflowError):
                raw = pack(self._check_item(item))
            return raw if any(raw) else b""

        def write_array(owner: ModelObject) -> bytes:
            values = get(owner)
            if len(values) > count:
                reason = f"{len(values)} elements, {count} are the most"
                raise EncodeError(reason, path=self.slot.decl.name)
            chunks = []
            for place, item in enumerate(values):
                if type(item) is int and not item:
                    continue
                try:
                    raw = write_item(item)
                except EncodeError as error:
                    error.within(f"{self.slot.decl.name}[{place}]")
                    raise
                if raw:
                    chunks.append(place.to_bytes(2, "little") + raw)
            content = b"".join(chunks)
            return index + len(content).to_bytes(4, "little") + content if content else b""

        return write_array


_OWN = frozenset(
    name for name in dir(ModelObject) if not (name.startswith("__") and name.endswith("__"))
) | {"layout"}
_ENUM_OWN = frozenset({"mro", "name", "value"} | set(dir(int)))


def attribute_name(name: str) -> str:
    """The attribute of a field, with a trailing underscore where Python reserves the name."""
    if keyword.iskeyword(name) or name in _OWN or (name.startswith("__") and name.endswith("__")):
        return name + "_"
    return name


def member_name(name: str) -> str:
    """The name of an enum's member in Python."""
    if keyword.iskeyword(name) or name in _ENUM_OWN or (name[0] == "_" == name[-1]):
        return name + "_"
    return name
