"""Hypothesis strategies that make valid messages of every format, derived from its declarations.

>>> from hypothesis import given
>>> from wireloom.testing.strategies import messages
>>> @given(messages("nrep"))
... def test_round_trip(message):
...     assert wireloom.decode(message.encode(), "nrep") == message

A format made of declared packets needs nothing here. Hypothesis is a test dependency: only this
package imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from hypothesis.strategies import SearchStrategy

from wireloom.formats import get
from wireloom.messages import Message
from wireloom.testing.strategies.declared import packets_of

__all__ = ["messages", "options"]

_OWN = {name: f"{__name__}.{name}" for name in ("qform", "tibmsg", "tibrv")}
"""Formats that describe themselves field by field, and the module that makes their messages."""


def options(name: str) -> Mapping[str, Any]:
    """What `wireloom.decode` must be given to read the messages that `messages` makes."""
    made: Mapping[str, Any] = (
        getattr(import_module(_OWN[name]), "OPTIONS", {}) if name in _OWN else {}
    )
    return made


def messages(name: str) -> SearchStrategy[Message]:
    """Valid messages of a format: they encode, and decode to an equal message.

    Raises:
        UnknownProtocolError: no such format.
    """
    get(name)  # its packets are declared when its package is imported
    if name not in _OWN:
        return packets_of(name)
    make: Callable[[], SearchStrategy[Message]] = import_module(_OWN[name]).messages
    return make()
