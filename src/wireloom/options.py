"""The options of the formats, spelled the same in Python, on the command line and in Spark.

An option is declared by its format (`Format.options`). ``FORMAT.NAME`` sets that format's option;
``NAME`` sets it for every format that has an option of this name and, where choices are declared,
allows the value. Texts are read as the declaration says: several values have commas between them.

>>> by_format({"dialect": "auto", "blaze.dialect": "document"})
{'tibrv': {'dialect': 'auto'}, 'blaze': {'dialect': 'document'}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wireloom.errors import OptionError
from wireloom.format import Format, Option
from wireloom.formats import get, names

__all__ = ["by_format", "declared", "spellings"]


def declared(formats: Iterable[Format] | None = None) -> dict[str, list[tuple[Format, Option]]]:
    """The options of some formats (None: all) by name, each with the formats that have it."""
    found: dict[str, list[tuple[Format, Option]]] = {}
    for format in map(get, names()) if formats is None else formats:
        for option in format.options:
            found.setdefault(option.name, []).append((format, option))
    return found


def spellings(formats: Iterable[Format] | None = None) -> list[str]:
    """All options of some formats, each with the name of its format."""
    return [
        f"{format.name}.{name}" for name, found in declared(formats).items() for format, _ in found
    ]


def by_format(
    given: Mapping[str, Any], formats: Sequence[Format] | None = None
) -> dict[str, dict[str, Any]]:
    """Sort options that are given as ``NAME`` or ``FORMAT.NAME`` by format.

    Args:
        given: the options.
        formats: the formats to consider; None: all.

    Raises:
        OptionError: none of the formats has such an option, or the value cannot be used.
    """
    found: dict[str, dict[str, Any]] = {}
    if not given:
        return found
    known = declared(formats)
    # The more exact spelling comes last, and wins.
    for spelling, value in sorted(given.items(), key=lambda item: "." in item[0]):
        owner, _, name = spelling.rpartition(".")
        takers = [each for each in known.get(name, ()) if owner in ("", each[0].name)]
        if not takers:
            there = ", ".join(spellings(formats)) or "none"
            raise OptionError(f"there is no option {spelling!r} of a format; there are {there}")
        fitting = [each for each in takers if not each[1].choices or value in each[1].choices]
        if not fitting and len(takers) > 1:
            there = "; ".join(f"{each.name}: {', '.join(own.choices)}" for each, own in takers)
            raise OptionError(f"no {name} {value!r}; there are {there}")
        for format, option in fitting or takers:
            found.setdefault(format.name, {})[name] = option.read(value)
    return found
