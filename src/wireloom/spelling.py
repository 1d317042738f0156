"""What somebody may have meant who spelt a name wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = ["hint", "missing", "nearest"]

_LONGEST = 100
"""Longer names are not looked at: that would take as long as they please."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, upper and lower case aside; None if none is.

    >>> nearest("Prize", ["size", "price"])
    'price'
    """
    by_form = {each.casefold(): each for each in known}
    if len(name) > _LONGEST:
        return None
    found = get_close_matches(name.casefold(), by_form, 1)
    return by_form[found[0]] if found else None


def hint(name: str, known: Iterable[str]) -> str:
    """For a message that says that there is no `name`; empty if nothing is like it.

    >>> f"no column 'prize'{hint('prize', ['size', 'price'])}"
    "no column 'prize' (is it price?)"
    """
    near = nearest(name, known)
    return f" (is it {near}?)" if near is not None else ""


def missing(what: str, name: str, known: Sequence[str]) -> str:
    """What is said of a name that is not among those known.

    >>> missing("column", "prize", ["size", "price"])
    "no column 'prize' (is it price?); there are size, price"
    """
    return f"no {what} {name!r}{hint(name, known)}; there are {', '.join(known)}"
