"""What some formats need besides the bytes, and the seeds of mutants."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from oracles.tabled import options_for
from oracles.twins import seeds as vector_seeds

from wireloom.formats.qform import SYSTEM, Dictionary
from wireloom.messages import Message
from wireloom.testing.strategies import messages, options
from wireloom.testing.vectors import golden
from wireloom.testing.vectors.blaze import model_of

MAX_SEED = 4096
"""Bytes of a seed; longer vectors would make every mutant slow without reaching more code."""

MADE = 300
"""Messages that the strategies add to a format's seeds."""


@cache
def known(name: str) -> dict[str, Any]:
    """Options without which most messages of a format cannot be read in full."""
    if name == "blaze":
        kinds = ("INDEXNOTZERO", "ALL", "INDEXDELTA")
        events = {i: ("POINT" if i % 2 else "TRUCK", kinds[i % 3]) for i in range(64)}
        model = next(model_of(case) for case in golden(name) if "nclasses" in case)
        return {"model": model, "subscriptions": events}
    if name == "qform":
        made: Dictionary = options(name)["dictionary"]
        return {"dictionary": SYSTEM.merge(made).merge(options_for(name)["dictionary"])}
    return {}


def seeds(name: str) -> list[bytes]:
    """The format's samples, all bytes in its golden vectors, and messages of its strategy."""
    found = dict.fromkeys(vector_seeds(name, MAX_SEED) + _made(name))
    return [data for data in found if 0 < len(data) <= MAX_SEED]


def _made(name: str) -> list[bytes]:
    made = []

    @settings(
        max_examples=MADE,
        derandomize=True,  # the same in every process, as mutants are identified by their number
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(name))
    def collect(message: Message) -> None:
        made.append(message.encode())

    collect()
    return made
