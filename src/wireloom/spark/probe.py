"""Whether this machine, and every worker of a cluster, has what Wireloom needs."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from wireloom.errors import StateError
from wireloom.kernel import is_compiled
from wireloom.spark.java import find_java

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Finding", "WorkerReport", "look_around", "probe_workers"]

_TOOL_S: Final = 30
"""Seconds that another program may take to print its version."""
_LOOK_S: Final = 0.5
"""Seconds between two looks at the executors of a cluster."""
_QUIET_LOOKS: Final = 6
"""Looks without a new executor after which all are there."""
_EXECUTOR_LOOKS: Final = 120
"""Looks after which those present have to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for."""

    what: str
    found: str
    """Version and path, or why there is none."""
    state: str
    """``ok``, ``note`` (works without it, or slower) or ``bad``."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one executor of a cluster has."""

    host: str
    executor: str
    facts: dict[str, str] = field(hash=False)
    """Versions and paths, by name."""
    lacks: tuple[str, ...]
    """What is missing there or differs from the driver; empty if all is well."""


# --- here -----------------------------------------------------------------------------------------


def look_around() -> list[Finding]:
    """What this machine has."""
    found = [
        Finding("python", f"{platform.python_version()} at {sys.executable}", "ok"),
        Finding("wireloom", version("wireloom"), "ok"),
        _kernel(),
        Finding("pyarrow", version("pyarrow"), "ok"),
    ]
    return [*found, *_spark(), _tshark()]


def _kernel() -> Finding:
    if is_compiled():
        return Finding("kernel", "compiled", "ok")
    return Finding("kernel", "interpreted, about 100 times slower: install a wheel", "note")


def _spark() -> Iterator[Finding]:
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        yield Finding("spark", "not installed: pip install 'wireloom[spark]'", "note")
        return
    yield Finding("spark", spark, "ok" if int(spark.split(".")[0]) >= 4 else "bad")
    try:
        java = find_java()
    except StateError as error:
        yield Finding("java", str(error), "bad")
    else:
        yield Finding("java", f"{java.version} from {java.origin} ({java.why})", "ok")


def _tshark() -> Finding:
    found = shutil.which("tshark")
    if found is None:
        return Finding("tshark", "not found; only the interop tests use it", "note")
    try:
        shown = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=_TOOL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("tshark", f"{found} does not start: {error}", "note")
    return Finding("tshark", f"{shown.stdout.partition(chr(10))[0].strip()} at {found}", "ok")


# --- on the workers -------------------------------------------------------------------------------


def _look() -> dict[str, str]:
    """What a process has. Runs where Wireloom may be missing, so it uses nothing of this module."""
    import importlib
    import platform
    import socket
    import sys
    from importlib import metadata

    facts = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
    }
    for name in ("wireloom", "pyspark_wireloom", "pyarrow"):
        try:
            importlib.import_module(name)
            facts[name] = metadata.version(name.removeprefix("pyspark_"))
        except Exception as error:  # whatever a broken installation raises is the result
            facts[name] = f"missing: {type(error).__name__}: {error}"
    try:
        kernel = importlib.import_module("wireloom.kernel")
        facts["kernel"] = "compiled" if kernel.is_compiled() else "interpreted"
    except Exception as error:
        facts["kernel"] = f"missing: {type(error).__name__}: {error}"
    return facts


def probe_workers(spark: SparkSession) -> list[WorkerReport]:
    """Ask every executor what it has, all at the same time so that none is left out.

    Raises:
        StateError: Python does not even start on a worker; the reason is Spark's.
    """
    from py4j.protocol import Py4JError
    from pyspark import BarrierTaskContext, cloudpickle
    from pyspark.errors import PySparkException

    def look(_: Iterable[int]) -> Iterator[dict[str, str]]:
        context = BarrierTaskContext.get()
        yield {**_look(), "executor": context.getTaskInfos()[context.partitionId()].address}

    context = spark.sparkContext
    _wait_for_executors(context)
    slots = max(context.defaultParallelism, 1)
    module = sys.modules[__name__]
    # By value: a worker that lacks Wireloom could not import the function. (The two functions that
    # do that have no types in PySpark.)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        tasks = context.parallelize(range(slots), slots).barrier()
        rows: list[dict[str, str]] = tasks.mapPartitions(look).collect()
    except (PySparkException, Py4JError) as error:
        raise StateError(f"a worker cannot run Python: {_short(error)}") from error
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    own = _look()
    found = {row["executor"]: row for row in rows}
    return [_report(row, own) for _, row in sorted(found.items())]


def _wait_for_executors(context: SparkContext) -> None:
    """Wait until no more executors have come for a while: they register one by one."""
    if (context.master or "").startswith("local["):
        return
    status = context._jsc.sc()
    known, quiet = -1, 0
    for _ in range(_EXECUTOR_LOOKS):
        found = status.getExecutorMemoryStatus().size()  # the driver is one of them
        quiet = quiet + 1 if found == known and found > 1 else 0
        known = found
        if quiet >= _QUIET_LOOKS:
            return
        time.sleep(_LOOK_S)


def _short(error: Exception) -> str:
    """The lines of Spark's long message that say what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("at "))[:1000]


def _report(row: dict[str, str], own: dict[str, str]) -> WorkerReport:
    lacks = []
    for name in ("wireloom", "pyspark_wireloom", "pyarrow", "kernel"):
        if row[name].startswith("missing"):
            lacks.append(f"{name} {row[name]}")
        elif name != "pyarrow" and row[name] != own[name]:
            lacks.append(f"{name} is {row[name]}, here it is {own[name]}")
    facts = {key: value for key, value in row.items() if key not in ("host", "executor")}
    return WorkerReport(row["host"], row["executor"], facts, tuple(lacks))
