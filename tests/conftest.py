"""What holds for every test: examples may take their time, nothing is left behind, one Spark."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import zlib
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
UNITS = pytest.StashKey[Path]()
"""In the process that schedules: the file where a worker lists the tests that are not to be
spread over all workers, each with the name of its unit."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOT_COUNTED = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
"""What pytest says of itself, what a Spark session needs as long as it lives, and what Polars tells
its allocator when it is imported."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wireloom")
    group.addoption("--all", action="store_true", help="also what only runs at night")
    group.addoption("--quick", action="store_true", help="a sample that takes a minute or two")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("wireloom-quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run is not for; a test that is named (``file::test``) always runs."""
    tell_units(config, items)
    if hasattr(config, "workerinput"):
        # The order is random but for this: who gets a long one last would run it alone.
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    kept, left = [], []
    chosen = sample(items, is_quick=config.getoption("--quick"))
    for item in items:
        (kept if item.nodeid in chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def sample(items: list[pytest.Item], *, is_quick: bool) -> set[str]:
    """The names of those that run by default, or in a quick run.

    By default that is all but what is marked `nightly`, and of the interpreted kernel each test
    with each format and table, but not with everything else that it is combined with: it is the
    same source as the compiled one, which runs every case. A quick run has one case of each test,
    which is another one for the next: each format and table has its turn. The choice must not
    depend on the order of tests, which is random: all workers have to make the same one.
    """
    groups: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda item: item.nodeid):
        marks = {mark.name for mark in item.iter_markers()}
        params = item.callspec.params if hasattr(item, "callspec") else {}
        is_interpreted = params.get("kernel") == "interpreted"
        if "nightly" in marks or (is_quick and (is_interpreted or marks & {"slow", "spark"})):
            continue
        group = item.nodeid.partition("[")[0]
        if is_interpreted:
            named = {value for value in params.values() if isinstance(value, str)} & names()
            group += f"[interpreted {sorted(named)}]"
        # Only the first of those that are interpreted.
        if not is_interpreted or group not in groups:
            groups.setdefault(group, []).append(item.nodeid)
    if is_quick:
        groups = {
            name: [some[zlib.crc32(name.encode()) % len(some)]] for name, some in groups.items()
        }
    return {nodeid for some in groups.values() for nodeid in some}


@cache
def names() -> frozenset[str]:
    """All formats and tables."""
    return frozenset(REGISTRY) | frozenset(table_names())


def unit(item: pytest.Item) -> str:
    """Of tests with the same name, one runs after the other, on one worker; empty: on any.

    Those that need a Spark session have the same one. Others of Spark start some of their own, and
    several at once would starve each other.
    """
    if "spark" in getattr(item, "fixturenames", ()):
        return "session"
    return "processes" if item.get_closest_marker("spark") else ""


def tell_units(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers collect tests, the scheduler is in another process and sees nothing but names."""
    told = getattr(config, "workerinput", {}).get("units")
    if told and config.workerinput["workerid"] == "gw0":  # type: ignore[attr-defined]
        named = {item.nodeid: name for item in items if (name := unit(item))}
        Path(told).write_text(json.dumps(named), "utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    stash = node.config.stash
    if UNITS not in stash:
        handle, path = tempfile.mkstemp(prefix="wireloom-units-")
        os.close(handle)
        stash[UNITS] = Path(path)
    node.workerinput["units"] = str(stash[UNITS])


def pytest_unconfigure(config: pytest.Config) -> None:
    if UNITS in config.stash:
        config.stash[UNITS].unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Three for two cores: much of what is tested waits for sockets, clocks and other processes."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist takes it
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """The tests of a unit on one worker; the others anywhere.

    xdist 3.8 has groups for this, which go by a suffix of the names that pytest 9.2 drops silently.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        units: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.units is None:  # asked for the first time: every worker has collected
                self.units = json.loads(config.stash[UNITS].read_text("utf-8"))
            return self.units.get(nodeid, nodeid)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forget what is done: each time, xdist counts what is left in all that it knows."""
            super().mark_test_complete(node, item_index, duration)
            units = self.assigned_work[node]
            name = self._split_scope(self.registered_collections[node][item_index])
            if all(units[name].values()):
                del units[name]

    return Units(config, log)


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
