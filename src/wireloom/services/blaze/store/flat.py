r"""Objects as flat rows: which columns a class has, and a quick function that fills them.

Nested objects become ``home_x``, arrays ``temps_0``, arrays of objects ``stops_0_x``; a ``byte[N]``
is one column of bytes without the zeros at its end. The columns are for people and their queries.
What is exact is the encoded object beside them, made from the same value in the same statement;
the store itself reads nothing else but the key's columns:

* a NaN in a column of SQLite is NULL, and a negative zero has lost its sign;
* text that is not UTF-8 or has a NUL stands as ``\x`` and hex, and so does what begins with that;
* a ``uint_64`` above 2^63 - 1 stands in SQLite as text of 20 digits, which sorts behind numbers;
* a class has at most `MAX_COLUMNS` columns: an array that does not fit is only in the object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wireloom.errors import EncodeError, SourceError
from wireloom.formats.blaze.declarations import NClass
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue, Slot, Sparse, bytes_of, layout_of

__all__ = ["MAX_COLUMNS", "MAX_NAME", "Column", "Flat", "Key", "flatten", "table_names"]

MAX_COLUMNS: Final = 400
"""Columns of one table. PostgreSQL keeps a row in a page of 8 kB, and a column takes up to 18 bytes
there even when its value is stored elsewhere."""
MAX_NAME: Final = 63
"""Bytes of a name in PostgreSQL; it cuts what is longer."""

BODY: Final = "_body"
"""The column of the encoded object."""
_TAKEN: Final = ("ts0", "ts1", "del", BODY)
# Every table of PostgreSQL has these columns already.
_SYSTEM: Final = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "oid", "rowid")

_FLOATS: Final = ("float_32", "float_64")

Key = tuple[Any, ...]
"""The values of the key's columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that holds a field or an element."""

    name: str
    path: tuple[str | int, ...]
    kind: str
    """``text``, ``bytes``, or a type of the model's language; an enum is an ``int_32``."""
    is_enum: bool = False


@dataclass(frozen=True, slots=True)
class Flat:
    """The columns of a class."""

    nclass: NClass
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    """Those of the primary key, in its order; empty when there is none."""
    secondary: Mapping[int, tuple[Column, ...]]
    """Those of the other keys, by the key's id; without keys that have a field with no column."""
    sizes: Mapping[Column, int]
    """The most bytes of each column of text or bytes."""
    unflattened: tuple[str, ...]
    """Fields that have no columns for want of room."""
    row: Callable[[NClassValue], Key]
    """The values of the columns."""
    checked_key: Callable[[NClassValue], Key]
    """The values of the key's columns. It raises EncodeError when one is NaN, which equals nothing
    and so identifies nothing."""


def table_names(classes: Sequence[NClass]) -> dict[int, str]:
    """A table's name for each class, by its id: the class's own, if it can be."""
    taken: set[str] = set()
    return {nclass.id: _unique(nclass.name, taken) for nclass in classes}


def _unique(name: str, taken: set[str]) -> str:
    if len(name) > MAX_NAME:
        name = f"{name[: MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    # SQLite takes names for equal that differ in case only.
    while name.lower() in taken:
        name += "_"
    taken.add(name.lower())
    return name


def _kind(slot: Slot) -> str:
    if slot.decl.type == "ascii":
        return "text"
    if slot.decl.type == "byte" and slot.is_array:
        return "bytes"
    return "int_32" if slot.enum is not None else slot.decl.type


def _width(slot: Slot) -> int:
    """How many columns a field takes."""
    if slot.decl.type == "byte" or slot.is_string:
        return 1
    inner = 1 if slot.layout is None else sum(map(_width, slot.layout.slots))
    return inner * slot.decl.count if slot.is_array else inner


Leaf = tuple[tuple[str | int, ...], Slot]


def _leaves(
    slot: Slot, path: tuple[str | int, ...], room: list[int], left_out: list[str]
) -> Iterator[Leaf]:
    """The columns of a field, as far as there is room for them."""
    # An object that is not in an array gets the columns that fit, an array all or none.
    if (slot.is_array or slot.layout is None) and _width(slot) > room[0]:
        left_out.append(".".join(map(str, path)))
        return
    places = [path]
    if slot.is_array and slot.decl.type != "byte":
        places = [(*path, i) for i in range(slot.decl.count)]
    for place in places:
        if slot.layout is None:
            room[0] -= 1
            yield place, slot
        else:
            for inner in slot.layout.slots:
                yield from _leaves(inner, (*place, inner.decl.name), room, left_out)


def flatten(model: Model, nclass: NClass, *, has_text_uint64: bool) -> Flat:
    """The columns of a class.

    Args:
        model: declares the class.
        nclass: the class.
        has_text_uint64: whether numbers above 2^63 - 1 must be text, as in SQLite.

    Raises:
        SourceError: the primary key alone has more columns than a table may have.
    """
    layout = layout_of(model, nclass.name)
    primary = nclass.primary_key
    key_fields = () if primary is None else primary.fields
    key_width = sum(_width(layout.by_name[name]) for name in key_fields)
    if key_width > MAX_COLUMNS:
        raise SourceError(
            f"the primary key of {nclass.name} has {key_width} values, {MAX_COLUMNS} are the most"
        )
    # The key always has its columns, whatever is declared before it.
    left_out: list[str] = []
    room, key_room = [MAX_COLUMNS - key_width], [key_width]
    leaves: list[Leaf] = []
    for slot in layout.slots:
        name = slot.decl.name
        leaves += _leaves(slot, (name,), key_room if name in key_fields else room, left_out)
    taken = {*_TAKEN, *_SYSTEM}
    columns = tuple(
        Column(_unique("_".join(map(str, path)), taken), path, _kind(slot), slot.enum is not None)
        for path, slot in leaves
    )
    by_field: dict[str, list[Column]] = {name: [] for name in layout.by_name}
    for column in columns:
        by_field[str(column.path[0])].append(column)
    cut = {name.partition(".")[0] for name in left_out}
    is_key = [str(column.path[0]) in key_fields for column in columns]
    has_floats = any(
        key and column.kind in _FLOATS for column, key in zip(columns, is_key, strict=True)
    )
    key_of = _reader(
        [leaf for name in key_fields for leaf in leaves if leaf[0][0] == name],
        [True] * key_width,
        has_text_uint64,
    )
    return Flat(
        nclass,
        columns,
        tuple(column for name in key_fields for column in by_field[name]),
        {
            key.id: tuple(column for name in key.fields for column in by_field[name])
            for key in nclass.keys
            if not key.primary and not cut.intersection(key.fields)
        },
        {column: slot.decl.count for column, (_, slot) in zip(columns, leaves, strict=True)},
        tuple(left_out),
        _reader(leaves, is_key, has_text_uint64),
        _checked(key_of) if has_floats else key_of,
    )


def _checked(key_of: Callable[[NClassValue], Key]) -> Callable[[NClassValue], Key]:
    def checked_key(value: NClassValue) -> Key:
        key = key_of(value)
        for part in key:
            if part != part:  # only a NaN differs from itself
                raise EncodeError("a NaN in the primary key")
        return key

    return checked_key


def _text(value: str) -> str:
    """Text as every database takes it, different for different bytes."""
    if value.isascii() and "\0" not in value and value[:2] != "\\x":
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        pass
    else:
        if "\0" not in value and value[:2] != "\\x":
            return value
    return "\\x" + bytes_of(value).hex()


def _uint64(value: int) -> int | str:
    return value if value < 1 << 63 else f"{value:020}"


def _bytes(value: Mapping[int, Any], count: int) -> bytes:
    dense = bytearray(count)
    for index, item in value.items():
        dense[index] = item
    return bytes(dense).rstrip(b"\0")


def _reader(
    leaves: Sequence[Leaf], is_key: Sequence[bool], has_text_uint64: bool
) -> Callable[[NClassValue], Key]:
    """A function that takes a value apart: one expression, for this runs for every write.

    It looks into the values' own dicts: the methods of mappings would take most of the time.
    """
    lines: list[str] = ["    get0 = value._items.get"]
    opened: dict[tuple[str | int, ...], str] = {(): "get0"}

    def opener(path: tuple[str | int, ...]) -> str:
        """The name of what gives the items of the object or array there."""
        if path not in opened:
            get = opener(path[:-1])
            opened[path] = name = f"get{len(opened)}"
            lines.append(f"    {name} = {get}({path[-1]!r}, empty)._items.get")
        return opened[path]

    parts = []
    for (path, slot), key in zip(leaves, is_key, strict=True):
        kind = _kind(slot)
        item = f"{opener(path[:-1])}({path[-1]!r}, "
        if kind == "bytes":
            part = f"dense({item}empty), {slot.decl.count})"
        elif kind == "text":
            part = f"text({item}''))"
        elif kind == "bool":
            part = f"{item}False)"
        elif kind == "uint_64" and has_text_uint64:
            part = f"uint64({item}0))"
        elif kind in _FLOATS:
            # In a key, the two zeros are one.
            part = f"{item}0.0)" + (" + 0.0" if key else "")
        else:
            part = f"{item}0)"
        parts.append(part)
    body = "\n".join([*lines, f"    return ({''.join(part + ', ' for part in parts)})"])
    names = {"empty": Sparse({}), "text": _text, "uint64": _uint64, "dense": _bytes}
    space: dict[str, Any] = {}
    exec(f"def read(value):\n{body}\n", names, space)
    read: Callable[[NClassValue], Key] = space["read"]
    return read
