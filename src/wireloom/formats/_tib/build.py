"""Python values → fields: what is common to the formats whose fields carry their own types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, TypeVar

from wireloom.errors import EncodeError
from wireloom.formats._tib.scalars import Kind

__all__ = ["address", "fields_of", "natural_kind"]

F = TypeVar("F", bound=Any)


def fields_of(
    values: Mapping[str, Any] | Iterable[F], cls: type[F], of: Callable[[str, Any], F]
) -> tuple[F, ...]:
    """The fields that names and values stand for; fields are taken as they are.

    Args:
        values: names and values, or names and fields, or fields.
        cls: the class of a field.
        of: makes one from a name and a value.
    """
    if isinstance(values, Mapping):
        return tuple(
            replace(value, name=name) if isinstance(value, cls) else of(name, value)
            for name, value in values.items()
        )
    return tuple(values)


def natural_kind(value: object) -> Kind | None:
    """The kind of scalar that fits a Python value; None if it is not a scalar."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int):
        return Kind.INT if value < 1 << 63 else Kind.UINT
    if isinstance(value, float):
        return Kind.REAL
    if isinstance(value, str):
        return Kind.STRING
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Kind.OPAQUE
    return Kind.IPDATA if isinstance(value, IPv4Address) else None


def address(text: str) -> IPv4Address:
    """The address that a text states.

    Raises:
        EncodeError: it states none.
    """
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise EncodeError(f"{text!r} is no address") from error
