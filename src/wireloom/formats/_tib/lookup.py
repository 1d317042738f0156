"""Fields by name and position, the same for a message and for a nested one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar, overload

__all__ = ["Lookup", "NamedField"]


class NamedField(Protocol):
    """What look-up needs to know about a field."""

    @property
    def name(self) -> str | None:
        """Its name; None if it has none."""
        ...

    @property
    def value(self) -> Any:
        """Its typed value."""
        ...


F = TypeVar("F", bound=NamedField)
D = TypeVar("D")


class Lookup(Generic[F]):
    """Look-up among `fields`. Where a name is repeated the first counts; `all` gives every one."""

    __slots__ = ()

    fields: tuple[F, ...]

    def __iter__(self) -> Iterator[F]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __getitem__(self, key: str | int) -> F:
        """The first field of that name, or the field at that position.

        Raises:
            KeyError: no field has that name.
            IndexError: there are fewer fields.
        """
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(key)

    @overload
    def get(self, name: str) -> F | None: ...

    @overload
    def get(self, name: str, default: D) -> F | D: ...

    def get(self, name: str, default: D | None = None) -> F | D | None:
        """The first field of that name, or `default`."""
        for field in self.fields:
            if field.name == name:
                return field
        return default

    def all(self, name: str | None) -> tuple[F, ...]:
        """Every field of that name, in order."""
        return tuple(field for field in self.fields if field.name == name)

    def names(self) -> tuple[str | None, ...]:
        """The names of all fields, in order."""
        return tuple(field.name for field in self.fields)

    def to_values(self) -> dict[str, Any]:
        """Name → typed value: the first of a repeated name; fields without a name are left out."""
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.name is not None and field.name not in values:
                values[field.name] = field.value
        return values
