"""What a model declares: enums, classes, fields and keys, as plain immutable values (SPEC §5).

They are checked when a `wireloom.formats.blaze.model.Model` is made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "MAX_CLASS_DEPTH",
    "MAX_CLASS_ID",
    "MAX_ELEMENTS",
    "MAX_FIELDS",
    "MAX_NAMESPACES",
    "MAX_STRING",
    "PRIMITIVES",
    "Define",
    "Entity",
    "EnumDecl",
    "EnumMember",
    "FieldDecl",
    "Key",
    "NClass",
]

PRIMITIVES: Mapping[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int_16": ("h", 2),
    "uint_16": ("H", 2),
    "int_32": ("i", 4),
    "uint_32": ("I", 4),
    "int_64": ("q", 8),
    "uint_64": ("Q", 8),
    "float_32": ("f", 4),
    "float_64": ("d", 8),
    "ascii": ("c", 1),
    "byte": ("B", 1),
}
"""Struct code and bytes of every type that is not declared in the model (SPEC §4)."""

MAX_CLASS_ID = (1 << 20) - 1
"""NCLSID has 20 bits, and zero is excluded."""
MAX_ELEMENTS = 1 << 16
"""An array element's INDEX has 16 bits."""
MAX_FIELDS = (1 << 16) - 2
"""A field's INDEX has 16 bits and starts at 2 in one dialect."""
MAX_STRING = (1 << 32) - 1
"""A string's LEN has 32 bits."""
MAX_NAMESPACES = 16
"""Namespaces inside namespaces; every declaration carries all of them."""
MAX_CLASS_DEPTH = 64
"""Classes inside classes. Real models nest two or three; the walkers recurse, so it is bounded."""


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A named number of an enum."""

    name: str
    value: int
    text: str = ""
    """The description that follows it, for readers."""


@dataclass(frozen=True, slots=True)
class EnumDecl:
    """A named list of numbers; on the wire a signed 32-bit number."""

    name: str
    members: tuple[EnumMember, ...]
    namespace: tuple[str, ...] = ()

    def name_of(self, value: int) -> str | None:
        """The first member with that value."""
        return next((member.name for member in self.members if member.value == value), None)

    def value_of(self, name: str) -> int | None:
        """The value of that member."""
        return next((member.value for member in self.members if member.name == name), None)


@dataclass(frozen=True, slots=True)
class FieldDecl:
    """A field of a class. Its INDEX on the wire follows from its place in the class."""

    name: str
    type: str
    """A name from `PRIMITIVES`, or of an enum or class declared earlier."""
    count: int = 1
    """More than 1: the most bytes of a string (``ascii``), or the number of elements."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """Fields that identify the objects of a class."""

    id: int
    fields: tuple[str, ...]
    primary: bool = False


@dataclass(frozen=True, slots=True)
class NClass:
    """A class of objects."""

    name: str
    id: int
    """NCLSID on the wire."""
    fields: tuple[FieldDecl, ...] = ()
    keys: tuple[Key, ...] = ()
    persistent: bool = False
    namespace: tuple[str, ...] = ()

    @property
    def primary_key(self) -> Key | None:
        """The primary key, if it has one."""
        return next((key for key in self.keys if key.primary), None)

    def position(self, name: str) -> int | None:
        """Position of the field of that name, from 0."""
        return next((i for i, decl in enumerate(self.fields) if decl.name == name), None)


@dataclass(frozen=True, slots=True)
class Define:
    """A named number, usable for lengths and ids in the text it comes from."""

    name: str
    value: int


Entity = EnumDecl | NClass
