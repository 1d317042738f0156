"""What holds for every test: examples may take their time, nothing is left behind, one Spark."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from wireloom.formats import REGISTRY
from wireloom.tables import table_names

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# How long an example takes says more about the machine than about the code.
settings.register_profile("wireloom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("wireloom-quick", settings.get_profile("wireloom"), max_examples=10)
settings.load_profile("wireloom")
NEEDS_SPARK = pytest.StashKey[Path]()
"""In the process that schedules: the file where a worker lists the tests that need Spark."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOT_COUNTED = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
"""What pytest says of itself, what a Spark session needs as long as it lives, and what Polars tells
its allocator when it is imported."""


CASES_IF_QUICK = 3
"""Cases of one test function in a quick run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wireloom")
    group.addoption("--all", action="store_true", help="also what only runs at night")
    group.addoption("--quick", action="store_true", help="a sample that takes two minutes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("wireloom-quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run is not for; a test that is named (``file::test``) always runs."""
    tell_which_need_spark(config, items)
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    is_quick = config.getoption("--quick")
    kept, left = [], []
    chosen = sample(items, CASES_IF_QUICK if is_quick else None)
    for item in items:
        (kept if item.nodeid in chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def sample(items: list[pytest.Item], cases: int | None) -> set[str]:
    """The names of those that run by default; with `cases`, of those that run in a quick run.

    By default that is all but what is marked `nightly`, and of the interpreted kernel each test
    with each format and table, but not with everything else that it is combined with: it is the
    same source as the compiled one, which runs every case. The choice must not depend on the order
    of tests, which is random: all workers have to make the same one.
    """
    chosen: set[str] = set()
    counts: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: item.nodeid):
        marks = {mark.name for mark in item.iter_markers()}
        params = item.callspec.params if hasattr(item, "callspec") else {}
        is_interpreted = params.get("kernel") == "interpreted"
        if "nightly" in marks or (cases and (is_interpreted or marks & {"slow", "spark"})):
            continue
        function = item.nodeid.partition("[")[0]
        if is_interpreted:
            named = {value for value in params.values() if isinstance(value, str)} & names()
            function += f"[interpreted {sorted(named)}]"
        counts[function] += 1
        if counts[function] <= (1 if is_interpreted else cases or sys.maxsize):
            chosen.add(item.nodeid)
    return chosen


@cache
def names() -> frozenset[str]:
    """All formats and tables."""
    return frozenset(REGISTRY) | frozenset(table_names())


def tell_which_need_spark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers collect tests, the scheduler is in another process and sees nothing but names."""
    told = getattr(config, "workerinput", {}).get("needs_spark")
    if told and config.workerinput["workerid"] == "gw0":  # type: ignore[attr-defined]
        need = [item.nodeid for item in items if "spark" in getattr(item, "fixturenames", ())]
        Path(told).write_text("\n".join(need), "utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    stash = node.config.stash
    if NEEDS_SPARK not in stash:
        handle, path = tempfile.mkstemp(prefix="wireloom-needs-spark-")
        os.close(handle)
        stash[NEEDS_SPARK] = Path(path)
    node.workerinput["needs_spark"] = str(stash[NEEDS_SPARK])


def pytest_unconfigure(config: pytest.Config) -> None:
    if NEEDS_SPARK in config.stash:
        config.stash[NEEDS_SPARK].unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """All tests that need a Spark session on the worker that has it; the others anywhere.

    xdist 3.8 has groups for this, which go by a suffix of the names that pytest 9.2 drops silently:
    each worker would have a Spark of its own, and they would starve each other.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        needing: frozenset[str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.needing is None:  # asked for the first time: every worker has collected
                text = config.stash[NEEDS_SPARK].read_text("utf-8")
                self.needing = frozenset(text.splitlines())
            return "spark" if nodeid in self.needing else nodeid

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
