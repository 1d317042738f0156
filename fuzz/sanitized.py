"""The same checks with a kernel that has AddressSanitizer and bounds checks in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "build" / "asan"


def library() -> str | None:
    """The sanitizer's library, which must be loaded before everything else; None if missing."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    command = [compiler, "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if os.path.isabs(found) else None


def build() -> Path:
    """Build that kernel, if its sources changed.

    Raises:
        CalledProcessError: it cannot be built.
    """
    say("building the sanitised kernel: about 3 minutes of a core, if its sources changed")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(BUILT)]
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"WIRELOOM_KERNEL": "asan"}) as made:
        while True:
            try:
                made.wait(30)
                break
            except subprocess.TimeoutExpired:
                say(f"building the sanitised kernel: {time.monotonic() - began:.0f} s so far")
    if made.returncode:
        raise subprocess.CalledProcessError(made.returncode, command)
    say(f"building the sanitised kernel: done in {time.monotonic() - began:.0f} s")
    (found,) = (BUILT / "wireloom").glob("_kernel*.so")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_sanitized(mutants: int, seed: int, jobs: int) -> int:
    """Check so many mutants of every message format; 1 if something is wrong, else 0."""
    preload = library()
    if preload is None:
        print("no AddressSanitizer here: left out")
        return 0
    settings = {
        "LD_PRELOAD": preload,
        # Python never frees some of its memory, which is no leak. An error must end the run.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:halt_on_error=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        # Otherwise small objects and Arrow's buffers come from arenas, which are not watched.
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    command = [sys.executable, "fuzz/tables.py", "--kernel", str(build())]
    command += ["--mutants", str(mutants), "--seed", str(seed), "--jobs", str(jobs)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False)
    return 1 if done.returncode else 0
