"""The formats: one folder each, and one line each in `REGISTRY`.

A format's package exports one `FORMAT`, an instance of `wireloom.format.Format`. Packages are
imported when first used, so that ``import wireloom`` and ``wireloom --help`` stay quick.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType

from wireloom.errors import UnknownProtocolError
from wireloom.format import Format

__all__ = ["REGISTRY", "get", "names"]

REGISTRY: dict[str, str] = {
    "blaze": "wireloom.formats.blaze",
    "nais": "wireloom.formats.nais",
    "nrep": "wireloom.formats.nrep",
    "qform": "wireloom.formats.qform",
    "tibmsg": "wireloom.formats.tibmsg",
    "tibrv": "wireloom.formats.tibrv",
}
"""Name → package. A new format is its folder and one line here."""


def names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    return tuple(sorted(REGISTRY))


def get(name: str) -> Format:
    """The format of that name.

    Raises:
        UnknownProtocolError: there is none.
    """
    if name not in REGISTRY:
        raise UnknownProtocolError(f"no format {name!r}; there are {', '.join(names())}")
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
