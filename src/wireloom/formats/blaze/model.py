"""The nclass model: which classes a Blaze application exchanges, with their fields, keys and enums.

A `Model` is immutable and checked when it is made. It comes from a ``.blz`` text
(`wireloom.formats.blaze.blz`) or is built here::

    builder = ModelBuilder("fleet")
    builder.enum("GAUGE").member("GAUGE_Off").member("GAUGE_High", 9)
    point = builder.nclass("POINT", 301)
    point.field("x", "int_32").field("y", "int_32").field("label", "ascii", 6)
    model = builder.build()
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from wireloom.errors import SourceError
from wireloom.formats.blaze.declarations import (
    MAX_CLASS_DEPTH,
    MAX_CLASS_ID,
    MAX_ELEMENTS,
    MAX_FIELDS,
    MAX_NAMESPACES,
    MAX_STRING,
    PRIMITIVES,
    Define,
    Entity,
    EnumDecl,
    EnumMember,
    FieldDecl,
    Key,
    NClass,
)

__all__ = [
    "Define",
    "EnumBuilder",
    "EnumDecl",
    "EnumMember",
    "FieldDecl",
    "Key",
    "Model",
    "ModelBuilder",
    "NClass",
    "NClassBuilder",
    "check_namespace",
]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = frozenset({"enum", "nclass", *PRIMITIVES})


@dataclass(frozen=True, slots=True)
class Model:
    """Enums and classes, in the order of their declaration.

    Raises:
        SourceError: a name is declared twice or not at all, an id or a size is out of range.
    """

    name: str = ""
    version: str = ""
    entities: tuple[Entity, ...] = ()
    defines: tuple[Define, ...] = ()
    first_index: int | None = None
    """INDEX of a class's first field; None: as the dialect says (SPEC §4.3)."""
    _by_name: dict[str, Entity] = field(init=False, repr=False, compare=False)
    _by_id: dict[int, NClass] = field(init=False, repr=False, compare=False)
    _cache: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.first_index not in (None, 0, 1, 2):
            raise SourceError(f"the first index must be 0, 1 or 2, not {self.first_index!r}")
        _replay(self)
        put = object.__setattr__
        put(self, "_by_name", {entity.name: entity for entity in self.entities})
        put(self, "_by_id", {nclass.id: nclass for nclass in self.nclasses})
        put(self, "_cache", {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Derived data may hold functions that do not pickle.
        return Model, (self.name, self.version, self.entities, self.defines, self.first_index)

    @property
    def nclasses(self) -> tuple[NClass, ...]:
        """The classes."""
        return tuple(entity for entity in self.entities if isinstance(entity, NClass))

    @property
    def enums(self) -> tuple[EnumDecl, ...]:
        """The enums."""
        return tuple(entity for entity in self.entities if isinstance(entity, EnumDecl))

    def entity(self, name: str) -> Entity | None:
        """The enum or class of that name."""
        return self._by_name.get(name)

    def nclass(self, key: NClass | str | int) -> NClass | None:
        """The class of that name or id."""
        if isinstance(key, NClass):
            key = key.name
        found = self._by_name.get(key) if isinstance(key, str) else self._by_id.get(key)
        return found if isinstance(found, NClass) else None

    def with_first_index(self, first_index: int | None) -> Model:
        """The same model with that INDEX for the first field of each class."""
        return replace(self, first_index=first_index)


def _replay(model: Model) -> None:
    """Build the model once more, step by step, which checks every declaration."""
    builder = ModelBuilder(model.name, model.version)
    for define in model.defines:
        builder.define(define.name, define.value)
    for entity in model.entities:
        check_namespace(entity.namespace)
        if isinstance(entity, EnumDecl):
            enum = builder.enum(entity.name)
            for member in entity.members:
                enum.member(member.name, member.value, member.text)
        else:
            nclass = builder.nclass(entity.name, entity.id)
            for decl in entity.fields:
                nclass.field(decl.name, decl.type, decl.count, decl.text)
            for key in entity.keys:
                nclass.key(key.id, *key.fields, primary=key.primary)
    builder.close()


def check_namespace(namespace: Sequence[str]) -> None:
    """Check that a namespace can be written.

    Raises:
        SourceError: it is nested too deeply, or a part of it is not text.
    """
    if len(namespace) > MAX_NAMESPACES:
        raise SourceError(f"namespaces are nested deeper than {MAX_NAMESPACES}")
    for part in namespace:
        _check_text("the namespace", part)


def _check_text(what: str, text: str) -> None:
    # Texts are in quotes on one line of a .blz file, which has no escapes.
    if not isinstance(text, str) or '"' in text or not text.isprintable():
        raise SourceError(f"{what} must be printable text without quotes, not {text!r}")


def _check_number(what: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SourceError(f"{what} must be a number from {least} to {most}, not {value!r}")


class EnumBuilder:
    """An enum under construction."""

    def __init__(self, model: ModelBuilder, name: str, namespace: tuple[str, ...]) -> None:
        self.name = name
        self._model = model
        self._namespace = namespace
        self._members: dict[str, EnumMember] = {}
        self._next = 0

    def member(self, name: str, value: int | None = None, text: str = "") -> Self:
        """Add a member; without a value, it gets 0 or one more than the member before it.

        Raises:
            SourceError: the name is not free, or the value has more than 32 bits.
        """
        self._model.check_member(self.name, name, self._members)
        number = self._next if value is None else value
        _check_number(f"the value of {name}", number, -(1 << 31), (1 << 31) - 1)
        _check_text("a description", text)
        self._members[name] = EnumMember(name, number, text)
        self._next = number + 1
        return self

    def finish(self) -> EnumDecl:
        """The finished enum.

        Raises:
            SourceError: it has no members.
        """
        if not self._members:
            raise SourceError(f"enum {self.name} has no members")
        return EnumDecl(self.name, tuple(self._members.values()), self._namespace)


class NClassBuilder:
    """A class under construction."""

    depth = 1
    """Classes inside classes, this one included."""

    def __init__(self, model: ModelBuilder, name: str, namespace: tuple[str, ...]) -> None:
        self.name = name
        self._model = model
        self._namespace = namespace
        self._id: int | None = None
        self._fields: dict[str, FieldDecl] = {}
        self._keys: dict[int, Key] = {}
        self._has_primary = False
        self._persistent = False

    def id(self, number: int) -> Self:
        """Give the class its NCLSID.

        Raises:
            SourceError: it has one, or the number is out of range or belongs to another class.
        """
        if self._id is not None:
            raise SourceError(f"class {self.name} has an id already")
        _check_number("a class id", number, 1, MAX_CLASS_ID)
        self._model.take_id(self.name, number)
        self._id = number
        return self

    def field(self, name: str, type: str, count: int = 1, text: str = "") -> Self:
        """Add a field; `count` is the length of an ``ascii`` string, else the number of elements.

        Raises:
            SourceError: the name is not free, the type not declared, or the count out of range.
        """
        self._model.check_member(self.name, name, self._fields)
        self.depth = max(self.depth, self._model.check_type(type) + 1)
        if self.depth > MAX_CLASS_DEPTH:
            raise SourceError(f"classes are nested deeper than {MAX_CLASS_DEPTH}")
        most = MAX_STRING if type == "ascii" else MAX_ELEMENTS
        _check_number(f"the size of {name}", count, 1, most)
        _check_text("a description", text)
        if len(self._fields) == MAX_FIELDS:
            raise SourceError(f"class {self.name} has more than {MAX_FIELDS} fields")
        self._fields[name] = FieldDecl(name, type, count, text)
        return self

    def key(self, id: int, *fields: str, primary: bool = False) -> Self:
        """Add a key over fields that the class has.

        Raises:
            SourceError: the id or a field is used twice, a field is missing, or there is a second
                primary key.
        """
        _check_number("a key id", id, 0, (1 << 31) - 1)
        if id in self._keys:
            raise SourceError(f"class {self.name} has a key {id} already")
        if primary and self._has_primary:
            raise SourceError(f"class {self.name} has a primary key already")
        if not fields:
            raise SourceError(f"key {id} has no fields")
        seen: set[str] = set()
        for name in fields:
            if name not in self._fields:
                raise SourceError(f"class {self.name} has no field {name!r}")
            if name in seen:
                raise SourceError(f"key {id} names {name!r} twice")
            seen.add(name)
        self._keys[id] = Key(id, fields, primary)
        self._has_primary = self._has_primary or primary
        return self

    def persistent(self) -> Self:
        """Mark the class as stored by the server.

        Raises:
            SourceError: it is marked already.
        """
        if self._persistent:
            raise SourceError(f"class {self.name} is persistent already")
        self._persistent = True
        return self

    def finish(self) -> NClass:
        """The finished class.

        Raises:
            SourceError: it has no id.
        """
        if self._id is None:
            raise SourceError(f"class {self.name} has no id")
        return NClass(
            self.name,
            self._id,
            tuple(self._fields.values()),
            tuple(self._keys.values()),
            self._persistent,
            self._namespace,
        )


class ModelBuilder:
    """A model under construction; each call checks what it adds."""

    def __init__(self, name: str = "", version: str = "") -> None:
        _check_text("the model's name", name)
        _check_text("the model's version", version)
        self.name = name
        self.version = version
        self._defines: dict[str, Define] = {}
        self._entities: dict[str, Entity] = {}
        self._depths: dict[str, int] = {}
        self._members: dict[str, str] = {}  # every member's name → the first entity that has it
        self._ids: dict[int, str] = {}
        self._open: EnumBuilder | NClassBuilder | None = None

    def define(self, name: str, value: int) -> Self:
        """Give a number a name.

        Raises:
            SourceError: the name is not free, or the number out of range.
        """
        self.close()
        self._check_name(name)
        _check_number(f"the value of {name}", value, -(1 << 31), MAX_STRING)
        self._defines[name] = Define(name, value)
        return self

    def defined(self, name: str) -> int | None:
        """The number of that name."""
        found = self._defines.get(name)
        return None if found is None else found.value

    def enum(self, name: str, namespace: tuple[str, ...] = ()) -> EnumBuilder:
        """Begin an enum; it ends when the next declaration begins.

        Raises:
            SourceError: the name is not free, or the declaration before is not complete.
        """
        self.close()
        self._check_name(name)
        self._open = builder = EnumBuilder(self, name, namespace)
        return builder

    def nclass(
        self, name: str, id: int | None = None, namespace: tuple[str, ...] = ()
    ) -> NClassBuilder:
        """Begin a class; it ends when the next declaration begins.

        Raises:
            SourceError: the name is not free, the id is out of range or used, or the declaration
                before is not complete.
        """
        self.close()
        self._check_name(name)
        self._open = builder = NClassBuilder(self, name, namespace)
        return builder if id is None else builder.id(id)

    def close(self) -> None:
        """End the declaration that is under construction.

        Raises:
            SourceError: it is not complete.
        """
        if self._open is not None:
            entity = self._open.finish()
            self._entities[entity.name] = entity
            if isinstance(self._open, NClassBuilder):
                self._depths[entity.name] = self._open.depth
            self._open = None

    def build(self, first_index: int | None = None) -> Model:
        """The finished model.

        Raises:
            SourceError: the last declaration is not complete.
        """
        self.close()
        entities = tuple(self._entities.values())
        return Model(self.name, self.version, entities, tuple(self._defines.values()), first_index)

    def check_member(self, owner: str, name: str, taken: Mapping[str, object]) -> None:
        """Check that a name is free inside its enum or class, and among the declarations.

        Raises:
            SourceError: it is not.
        """
        _check_word(name)
        if name in taken:
            raise SourceError(f"{owner} has {name!r} already")
        if name == owner or name in self._defines or name in self._entities:
            raise SourceError(f"{name!r} is declared already")
        self._members.setdefault(name, owner)

    def check_type(self, name: str) -> int:
        """How deep classes are nested in a type: 0 unless it is a class.

        Raises:
            SourceError: there is no such type, or not yet.
        """
        if name not in PRIMITIVES and name not in self._entities:
            raise SourceError(f"type {name!r} is not declared before this")
        return self._depths.get(name, 0)

    def take_id(self, owner: str, number: int) -> None:
        """Take a class id.

        Raises:
            SourceError: another class has it.
        """
        if number in self._ids:
            raise SourceError(f"class {self._ids[number]} has the id {number} already")
        self._ids[number] = owner

    def _check_name(self, name: str) -> None:
        _check_word(name)
        if name in _RESERVED:
            raise SourceError(f"{name!r} is a word of the language")
        if name in self._defines or name in self._entities:
            raise SourceError(f"{name!r} is declared already")
        if name in self._members:
            raise SourceError(f"{name!r} is a member of {self._members[name]} already")


def _check_word(name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise SourceError(f"{name!r} is not a name")
