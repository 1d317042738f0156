"""Stands in for the ``cython`` module where the kernel runs interpreted.

Only what the kernel uses, so that Cython is needed to build it and never to run it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any

__all__ = [
    "Py_ssize_t",
    "address",
    "bint",
    "cast",
    "cclass",
    "compiled",
    "declare",
    "double",
    "final",
    "inline",
    "longlong",
    "nogil",
    "pointer",
    "uchar",
    "uint",
    "ulonglong",
]

compiled = False
"""False here, true in the extension: the one difference that kernel code may test."""

nogil = nullcontext()


def cclass(cls: type) -> type:
    """A class whose attributes are C values in the extension."""
    return cls


def declare(_type: object, value: Any = None) -> Any:
    """A constant of a C type."""
    return value


def cast(_type: object, value: Any) -> Any:
    """A conversion between C types; the kernel code itself keeps values in range."""
    return value


def address(element: Any) -> Any:
    """Never called when interpreted; see `compiled`."""
    raise AssertionError("pointers exist in the extension only")


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """A hint to the compiler."""
    return function


class _Type:
    """Takes the place of every C type in annotations."""

    def __getitem__(self, _item: object) -> _Type:
        return self


float = int = Py_ssize_t = uchar = uint = ulonglong = longlong = bint = double = _Type()


def final(cls: type) -> type:
    """A class without subclasses: its methods are called directly."""
    return cls


def later(part: str, name: str) -> Callable[..., Any]:
    """A function of a later part; in the extension all parts are one module."""

    def call(*arguments: Any) -> Any:
        module = import_module(f"wireloom.kernel.{part}")
        return getattr(module, name)(*arguments)

    return call


def pointer(_type: object) -> _Type:
    """A pointer type; used in the extension only."""
    return _Type()
