"""Python classes for the classes of a model: made at run time, checked, fast to encode.

>>> from wireloom.formats.blaze import from_blz
>>> from wireloom.formats.blaze.classes import classes_of
>>> fleet = classes_of(from_blz('''
... nclass POINT
... {
...     @id 301
...     int_32 x
...     int_16 y
... }
... '''))
>>> point = fleet.POINT(x=5)
>>> point.y = 70000
Traceback (most recent call last):
    ...
wireloom.errors.EncodeError: 70000 is not a value of type int_16, -32768 to 32767 (in y)
>>> point
POINT(x=5)

A class is named as in the model, and so are its attributes. A name that Python or `ModelObject`
needs for itself gets a trailing underscore: ``class_``. `wireloom model stub` writes the types for
type checkers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

from wireloom.errors import EncodeError
from wireloom.formats.blaze.blz import load_blz
from wireloom.formats.blaze.model import EnumDecl, Model, NClass
from wireloom.formats.blaze.nclass import ClassLayout, Slot, layout_of
from wireloom.formats.blaze.objects import Field, ModelObject, attribute_name, member_name

__all__ = ["Classes", "ModelObject", "classes_of", "install", "load_classes"]

_CACHE = "\0classes"
"""Key in a model's cache, besides the layouts, whose keys are the names of their classes."""


class Classes(Mapping[str, Any]):
    """The classes and enums of a model by name, also as attributes: ``fleet.TRUCK``."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._made: dict[str, Any] = {}
        for entity in model.entities:
            if isinstance(entity, EnumDecl):
                self._made[entity.name] = _enum(entity)
            else:
                self._made[entity.name] = self._class(layout_of(model, entity.name))
        self._attributes = {attribute_name(name): made for name, made in self._made.items()}

    def _class(self, layout: ClassLayout) -> type[ModelObject]:
        fields = tuple(self._field(slot) for slot in layout.slots)
        namespace = {
            "__slots__": tuple(field.attribute for field in fields),
            "__doc__": f"Objects of the class {layout.nclass.name}.",
            "__module__": __name__,
            "layout": layout,
            "_fields": fields,
            "_by_attribute": {field.attribute: field for field in fields},
            "_writers": {},
        }
        made = type(attribute_name(layout.nclass.name), (ModelObject,), namespace)
        for field in fields:
            field.put = made.__dict__[field.attribute].__set__
        return made

    def _field(self, slot: Slot) -> Field:
        enum = None if slot.enum is None else self.enum_class(slot.enum.name)
        inner = None if slot.layout is None else self.object_class(slot.layout.nclass.name)
        return Field(slot, enum, inner)

    def object_class(self, key: NClass | str | int) -> type[ModelObject]:
        """The Python class for a class of the model, by its name or id.

        Raises:
            EncodeError: there is none.
        """
        found = self.model.nclass(key)
        if found is None or found.name not in self._made:
            raise EncodeError(f"the model has no class {key!r}")
        return cast("type[ModelObject]", self._made[found.name])

    def enum_class(self, name: str) -> type[IntEnum]:
        """The Python enum for an enum of the model.

        Raises:
            EncodeError: there is none.
        """
        if not isinstance(self.model.entity(name), EnumDecl):
            raise EncodeError(f"the model has no enum {name!r}")
        return cast("type[IntEnum]", self._made[name])

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __getattr__(self, name: str) -> Any:
        made = self.__dict__.get("_attributes", {})
        if name not in made:
            raise AttributeError(f"the model has no class or enum {name!r}")
        return made[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._attributes})


def _enum(decl: EnumDecl) -> type[IntEnum]:
    members = {member_name(member.name): member.value for member in decl.members}
    return cast("type[IntEnum]", IntEnum(attribute_name(decl.name), members, module=__name__))


def classes_of(model: Model) -> Classes:
    """The Python classes of a model; made once per model."""
    found: Classes | None = model._cache.get(_CACHE)
    if found is None:
        found = model._cache[_CACHE] = Classes(model)
    return found


def load_classes(
    path: str | os.PathLike[str], *, paths: Sequence[str | os.PathLike[str]] = ()
) -> Classes:
    """The Python classes of a ``.blz`` file.

    Raises:
        SourceError: the text is wrong.
        OSError: it cannot be read.
    """
    return classes_of(load_blz(path, paths=paths))


def install(module: str, path: str | os.PathLike[str]) -> None:
    """Put the classes of a ``.blz`` file, and the model as ``MODEL``, into a module.

    A file ``fleet.py`` with these two lines beside ``fleet.blz`` and its stub ``fleet.pyi`` can be
    imported, and type checkers know what is in it::

        from wireloom.formats.blaze.classes import install
        install(__name__, "fleet.blz")

    Raises:
        SourceError: the text is wrong.
        OSError: it cannot be read.
    """
    target = sys.modules[module]
    folder = Path(target.__file__ or ".").parent
    found = load_classes(folder / path)
    for name, made in found.items():
        made.__module__ = module
        setattr(target, attribute_name(name), made)
    target.MODEL = found.model  # type: ignore[attr-defined]
