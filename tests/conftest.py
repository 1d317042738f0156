"""What holds for every test: examples may take their time, nothing is left behind, one Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# How long an example takes says more about the machine than about the code.
settings.register_profile("wireloom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wireloom")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOT_COUNTED = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
"""What pytest says of itself, what a Spark session needs as long as it lives, and what Polars tells
its allocator when it is imported."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """All tests of Spark on one worker, whatever else runs on the others.

    xdist 3.8 has groups for this, which go by a suffix of the names that pytest 9.2 drops silently:
    each worker would have a Spark of its own, and they would starve each other.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return OneSpark(config, log)


def surroundings() -> dict[str, object]:
    """What the tests of a process share."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(NOT_COUNTED)}
    handlers = {number.name: signal.getsignal(number) for number in SIGNALS}
    return {"folder": os.getcwd(), **handlers, **environ}


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Tests run in any order: what one changes must not reach the next."""
    before = surroundings()
    yield
    after = surroundings()
    changed = {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    assert not changed, "this test leaves its surroundings changed: name: (before, after)"
