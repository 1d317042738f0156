"""A Spark session with settings that fit Wireloom: on this machine by default, or on a cluster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wireloom.errors import OptionError, StateError
from wireloom.spark.java import use_java
from wireloom.spark.paging import add_paging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULT_MASTER", "machine_memory", "session", "settings_for"]

DEFAULT_MASTER: Final = "local[*,4]"
"""All cores of this machine. The 4: attempts per task, as on a cluster."""

_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_EMBEDDED: Final = re.compile(r"local\b.*")
"""``local[2]`` and ``local-cluster[2,1,1024]``: Spark runs on this machine alone."""
_LOOPBACK: Final = "127.0.0.1"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")

_ARROW: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java checks the bounds of every value that it takes from a batch, which is a quarter of the cost
of reading rows. The batches come from pyarrow in a process of the same session."""

_QUERY: Final = {
    # Times in the tables are UTC; a session in another zone would show and cast them differently.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # As many rows as the tables' batches have; Spark's default of 10,000 costs more per row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
"""Settings that can be changed in a running session."""


def session(
    master: str = "local[*]",
    *,
    name: str = "wireloom",
    ui: bool = False,
    memory: int | None = None,
    log_level: str = "ERROR",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session, ready for ``spark.read.format("wireloom")``.

    If one is running, it is returned with only its query settings changed (time zone, Arrow, see
    also `wireloom.spark.paging`): Spark has one per process.

    Args:
        master: where Spark runs: ``local[*]`` (this machine, all cores), ``local[2]``,
            ``local-cluster[2,1,1024]``, ``spark://host:7077``, ``yarn``, ``k8s://…``, or
            ``sc://host`` for Spark Connect.
        name: what Spark's pages and logs call it.
        ui: whether to serve Spark's web pages.
        memory: bytes for the Java process of a local session; by default a quarter of the
            machine's, of which Python workers need some, too.
        log_level: of Spark's own log.
        conf: more settings of Spark; they win.

    Raises:
        StateError: pyspark or a Java to run it is missing, or Spark does not start.
        OptionError: the memory is too small.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StateError("pyspark is not installed: pip install 'wireloom[spark]'") from error
    is_remote = master.startswith("sc://")
    active = SparkSession.getActiveSession()
    if active is None and is_remote:
        active = SparkSession.builder.remote(master).getOrCreate()
    if active is not None:
        for key, value in {**_QUERY, **(conf or {})}.items():
            if active.conf.isModifiable(key):
                active.conf.set(key, value)
        add_paging(active)
        return active
    use_java()
    # The workers' Python; otherwise they would take the first python3 on their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _EMBEDDED.fullmatch(master):
        # Nothing outside this machine takes part, and its host name may resolve to anything.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    builder = SparkSession.builder.master(master).appName(name)
    settings = settings_for(master, ui=ui, memory=memory, log_level=log_level)
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        made = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        cause = error.java_exception if isinstance(error, Py4JJavaError) else error
        reason = str(cause).partition("\n")[0]
        raise StateError(f"Spark does not start at {master!r}: {reason}") from error
    add_paging(made)
    return made


def settings_for(
    master: str, *, ui: bool = False, memory: int | None = None, log_level: str = "ERROR"
) -> dict[str, str]:
    """Spark's settings for a master; the arguments are those of `session`.

    Raises:
        OptionError: the memory is too small.
    """
    settings = {
        **_QUERY,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": log_level,
        # Until that level is set, Spark would print a page of messages.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {_ARROW}",
    }
    if _EMBEDDED.fullmatch(master):
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    local = _LOCAL.fullmatch(master)
    if local is not None:
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        # Spark's 200 are for clusters: here each would be an almost empty task.
        settings["spark.sql.shuffle.partitions"] = str(max(2, cores))
        memory = machine_memory() // 4 if memory is None else memory
    if memory is not None:
        if memory < 512 << 20:
            raise OptionError(f"Spark does not start with less than 512 MiB; {memory} bytes given")
        settings["spark.driver.memory"] = f"{memory >> 20}m"
    return settings


def machine_memory() -> int:
    """Bytes of memory this process may use: the machine's, or the container's if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found = min(found, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue  # no such controller, or "max"
    return max(found, 2 << 30)
