"""The formats: one folder each, and one line each in `REGISTRY`.

A format's package exports one `FORMAT`, an instance of `wireloom.format.Format`. Packages are
imported when first used, so that ``import wireloom`` and ``wireloom --help`` stay quick. Formats of
other packages are found by their entry points; one that cannot be loaded is left out, and
``wireloom doctor`` says why.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from wireloom.columns import FIXED_TABLES, declared_columns
from wireloom.errors import UnknownProtocolError
from wireloom.format import Format
from wireloom.spelling import missing

__all__ = ["GROUP", "REGISTRY", "failures", "get", "names"]

REGISTRY: dict[str, str] = {
    "blaze": "wireloom.formats.blaze",
    "nais": "wireloom.formats.nais",
    "nrep": "wireloom.formats.nrep",
    "qform": "wireloom.formats.qform",
    "tibmsg": "wireloom.formats.tibmsg",
    "tibrv": "wireloom.formats.tibrv",
}
"""Name → package. A new format is its folder and one line here."""


GROUP = "wireloom.formats"
"""The group of entry points that name formats of other packages: name → `Format` object."""


@cache
def _others() -> tuple[dict[str, Format], dict[str, str]]:
    """The formats of other packages, and why some could not be loaded."""
    from importlib.metadata import entry_points  # late: it brings e-mail and sockets with it

    found: dict[str, Format] = {}
    failed: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        try:
            format = point.load()
            if not isinstance(format, Format) or format.name != point.name:
                raise TypeError(f"{point.value} is no Format of that name")
            if point.name in REGISTRY or point.name in found:
                raise ValueError("there is a format of that name already")
            if point.name in FIXED_TABLES:
                raise ValueError(f"a table has the name {point.name!r}")
            declared_columns(format.packets())
        except Exception as error:  # another package may raise anything on import
            failed[point.name] = f"{type(error).__name__}: {error}"
        else:
            found[point.name] = format
    return found, failed


def failures() -> Mapping[str, str]:
    """Formats of other packages that could not be loaded, and why."""
    return dict(_others()[1])


def names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    return tuple(sorted({*REGISTRY, *_others()[0]}))


def get(name: str) -> Format:
    """The format of that name.

    Raises:
        UnknownProtocolError: there is none.
    """
    if name not in REGISTRY:
        if name in _others()[0]:
            return _others()[0][name]
        raise UnknownProtocolError(missing("format", name, names()))
    return _load(REGISTRY[name])


@cache
def _load(package: str) -> Format:
    found: Format = import_module(package).FORMAT
    return found


class _Formats(ModuleType):
    """This package, which can also be called.

    The API has both `wireloom.formats()` and modules such as `wireloom.formats.blaze`; a plain
    function of that name would hide the latter.
    """

    def __call__(self) -> tuple[str, ...]:
        return names()


sys.modules[__name__].__class__ = _Formats
