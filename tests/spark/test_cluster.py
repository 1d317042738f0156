"""The same code on several processes: local-cluster, a standalone cluster, Spark Connect.

Each runs in a process of its own, since one process has one Spark.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

pytest.importorskip("pyspark")

from wireloom.spark import find_java

Rows = list[tuple[Any, ...]]

JOB = """
import json, sys
from wireloom.spark import decode_column, session

master, folder = sys.argv[1:]
loopback = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "600m"}
spark = session(master, conf={} if master.startswith("sc") else loopback)
reader = spark.read.format("wireloom").option("split_bytes", 20000).option("packet_parts", 2)
found = {}
for table in ("frames", "errors"):
    rows = reader.option("table", table).load(folder).toArrow().to_pylist()
    found[table] = sorted(repr(tuple(row.values())) for row in rows)
raw = reader.option("table", "frames").option("include_raw", "true").option("formats", "tibmsg")
values = raw.load(folder + "/quotes.bin").select("raw")
found["decoded"] = decode_column(values, "raw", format="tibmsg", table="messages").count()
found["workers"] = spark.range(0, 64, 1, 8).count()
print(json.dumps(found))
"""


def run(*arguments: object, timeout: int = 400, code: int = 0, **more: str) -> str:
    """The output of a Python process."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **more},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == code, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def check(output: str, captures: Path, expected: Callable[..., Rows]) -> None:
    """Whether a job found the rows of one pass."""
    found = json.loads(output.splitlines()[-1])
    raw = [captures / name for name in ("orders.bin", "quotes.bin", "rv.bin.gz")]
    paths = [*raw, *(captures / "packets" / f"cap{number}.pcap" for number in (8, 9, 10))]
    for table in ("frames", "errors"):
        assert found[table] == sorted(map(repr, expected(paths, table)))
    assert found["decoded"] == len(expected([captures / "quotes.bin"], "messages"))
    assert found["workers"] == 64


@pytest.mark.nightly  # the standalone cluster below does the same with real daemons
def test_local_cluster(captures: Path, expected: Callable[..., Rows]) -> None:
    check(run("-c", JOB, "local-cluster[2,1,1024]", captures), captures, expected)


@contextmanager
def daemon(role: str, folder: Path, *arguments: str, **env: str) -> Iterator[str]:
    """A process of a standalone cluster; gives the address that it tells of."""
    import pyspark

    home = Path(pyspark.__file__).parent
    kind = f"org.apache.spark.deploy.{role.lower()}.{role}"
    settings = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    process = subprocess.Popen(
        [home / "bin" / "spark-class", kind, *settings, *arguments],
        env={
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder),
            "SPARK_DAEMON_MEMORY": "256m",
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    told = Event()
    pattern = re.compile(r"Starting Spark master at (\S+)|Successfully registered with (master)")

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if pattern.search(line):
                told.set()
        told.set()

    listener = Thread(target=listen)
    listener.start()
    try:
        assert told.wait(120), "".join(lines)
        found = [match for line in lines if (match := pattern.search(line))]
        assert found, "".join(lines)[-3000:]
        yield found[0][1] or found[0][2]
    finally:
        process.kill()
        process.wait()
        listener.join()
        assert process.stdout is not None
        process.stdout.close()


def test_a_standalone_cluster_and_a_worker_that_lacks_something(
    captures: Path, tmp_path: Path, expected: Callable[..., Rows]
) -> None:
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    with ExitStack() as cluster:
        master = cluster.enter_context(daemon("Master", tmp_path))
        assert master.startswith("spark://127.0.0.1:")
        size = ("--cores", "1", "--memory", "1g")
        cluster.enter_context(daemon("Worker", tmp_path / "one", *size, master))
        path = os.pathsep.join(filter(None, [str(shadow), os.environ.get("PYTHONPATH")]))
        cluster.enter_context(daemon("Worker", tmp_path / "two", *size, master, PYTHONPATH=path))
        check(run("-c", JOB, master, captures), captures, expected)
        # From now on importing finds a package on the second worker that is none.
        (shadow / "wireloom").mkdir()
        (shadow / "wireloom" / "__init__.py").write_text("raise ImportError('half is missing')")
        shown = run("-m", "wireloom.cli", "doctor", "--master", master, "--json", code=1)
    rows = [json.loads(line) for line in shown.splitlines()]
    workers = [row for row in rows if row["what"] == "worker"]
    assert sorted(row["state"] for row in workers) == ["bad", "ok"]
    (bad,) = (row for row in workers if row["state"] == "bad")
    assert "wireloom missing: ImportError: half is missing" in bad["found"]


CONNECT = """
import sys
from pyspark.sql import SparkSession
from wireloom.spark import use_java

use_java()
import os
os.environ["PYSPARK_PYTHON"] = sys.executable
SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
sys.argv[1:] = ["sc://there", sys.argv[1]]
"""


def test_spark_connect(captures: Path, expected: Callable[..., Rows]) -> None:
    pytest.importorskip("grpc_status")
    output = run("-W", "ignore", "-c", CONNECT + JOB, captures)
    check(output, captures, expected)
