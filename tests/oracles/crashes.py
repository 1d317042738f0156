"""Pipelines that are killed at random moments, and what their lakes must look like afterwards.

A pipeline runs as a process of its own. One of its processes (the driver, a Python worker, an
executor) is killed with no chance to clean up; then the pipeline is run again until it ends well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal

from oracles.lakes import lake_tables
from wireloom.captures import packet_ranges
from wireloom.generate import Faults, generate

__all__ = [
    "COMMITS",
    "TARGETS",
    "Kills",
    "Target",
    "captures_to_kill",
    "check_lake",
    "kill_until_done",
    "rotated",
    "start",
    "stop",
    "write_slowly",
]

Target = Literal["driver", "worker", "executor"]
TARGETS: Final[tuple[Target, ...]] = ("driver", "worker", "executor")

_NAMES: Final = {"worker": "pyspark.daemon", "executor": "CoarseGrainedExecutorBackend"}
"""What is in the command line of a process of that kind."""
_GONE_S: Final = 30.0
"""Seconds after which the processes of a dead driver must have ended by themselves."""


@dataclass(slots=True)
class Kills:
    """What was done to a pipeline."""

    runs: int = 0
    """Processes that were started."""
    kills: int = 0
    output: list[str] = field(default_factory=list)
    """What the runs wrote to stderr."""


def rotated(pcap: Path, count: int) -> list[bytes]:
    """The contents of the files of a capture program that rotates its output."""
    data = pcap.read_bytes()
    parts = packet_ranges(pcap, count)
    return [(data[:24] if part.start else b"") + data[part.start : part.end] for part in parts]


def write_slowly(files: Sequence[tuple[Path, bytes]], random: Random, *, total_s: float) -> None:
    """Write files one after the other, bit by bit."""
    left = sum(len(content) for _, content in files)
    pace_s = total_s / max(1, left)
    for path, content in files:
        at = 0
        while at < len(content):
            size = random.randrange(1, max(2, len(content) // 3))
            with path.open("ab") as file:
                file.write(content[at : at + size])
            time.sleep(len(content[at : at + size]) * pace_s)
            at += size


def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """A command of Wireloom as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "wireloom.cli", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_until_done(
    arguments: Sequence[str],
    target: Target,
    random: Random,
    *,
    kills: int,
    most_s: float,
    limit_s: float = 300.0,
    is_over: Callable[[], bool] | None = None,
    told: Callable[[str], None] | None = None,
) -> Kills:
    """Run a pipeline, kill one of its processes at a random moment, and so on.

    Args:
        arguments: of the command.
        target: what is killed.
        random: chooses the moments.
        kills: how often; the run after that is left alone.
        most_s: longest time from the start of a run until something is killed.
        limit_s: longest time for a run.
        is_over: for a run that never ends by itself: whether it has done everything. The run that
            is left alone is then asked to end.
        told: called with progress messages.

    Raises:
        TimeoutError: a run does not end.
        RuntimeError: a run that was left alone, or that should have survived, failed.
    """
    done = Kills()
    patience_s = 1.0
    tell = told or (lambda text: None)
    while True:
        done.runs += 1
        tell(f"run {done.runs}")
        process = start(arguments)
        was_killed = False
        while done.kills < kills:
            is_hit = _kill(process, target, random.uniform(0, most_s))
            tell("killed" if is_hit else "ended before it was killed")
            was_killed = was_killed or is_hit
            done.kills += is_hit
            if not is_hit or target == "driver" or is_over is None:
                break
            # An endless run survives this: the next target is killed in the same run.
        if is_over is not None and not (was_killed and target == "driver"):
            ends = time.monotonic() + limit_s
            while process.poll() is None and not is_over() and time.monotonic() < ends:
                time.sleep(0.1)
            # Everything may have been done before it started: it must get to where it can be asked.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
            tell("asked to end")
            process.terminate()
        try:
            _, text = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            stop(process)
            raise TimeoutError(f"a run did not end in {limit_s} s") from None
        done.output.append(text)
        if process.returncode == 0 and done.kills >= kills:
            return done
        if is_over is not None and process.returncode == -signal.SIGTERM:
            patience_s *= 2
            continue
        if process.returncode and not (was_killed and target == "driver"):
            raise RuntimeError(f"a run failed with {process.returncode}: {text[-2000:]}")
        if process.returncode == 0 and not was_killed:
            return done  # there was nothing left to kill


def stop(process: subprocess.Popen[str]) -> None:
    """End a run and everything that it has started."""
    family = list(_below(process.pid))
    process.kill()
    process.communicate()
    _wait(family)


def _kill(process: subprocess.Popen[str], target: Target, after_s: float) -> bool:
    """Kill the target some time after it appears; False if the run ends before."""
    if target == "driver":
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
            return False
        family = list(_below(process.pid))
        process.kill()
        _wait(family)
        return True
    victims: list[int] = []
    while not victims:
        if process.poll() is not None:
            return False
        victims = [pid for pid in _below(process.pid) if _NAMES[target] in _command(pid)]
        time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
        return False
    # The last ones do the work. The first Python process only starts the others.
    alive = [pid for pid in _below(process.pid) if _NAMES[target] in _command(pid)]
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(alive[-1], signal.SIGKILL)
        return True
    return False


def _wait(family: list[int]) -> None:
    """Wait until the processes of a dead driver are gone; end those that remain."""
    ends = time.monotonic() + _GONE_S
    while any(_is_alive(pid) for pid in family) and time.monotonic() < ends:
        time.sleep(0.05)
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            if _is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


def _below(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        threads = Path(f"/proc/{pid}/task").iterdir()
        for thread in threads:
            if thread.name != str(pid):
                children += (thread / "children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from _below(int(child))


# --- what is killed, and what must be left --------------------------------------------------------

COMMITS: Final = ("--split-bytes", "30000", "--commit-bytes", "90000", "-q")


def captures_to_kill(folder: Path) -> Path:
    """Damaged captures in a folder, complete also for a pipeline that follows them."""
    damaged = Faults(corruption=0.01)
    for number in range(3):
        path = folder / f"{number}.bin"
        generate(path, ["tibmsg"], size=90_000, container="raw", seed=number, faults=damaged)
    lossy = Faults(loss=0.01, reorder=0.02)
    generate(folder / "p.pcap", ["tibrv", "nrep"], size=90_000, container="pcap", faults=lossy)
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))
    return folder


def check_lake(lake: Path, undisturbed: dict[str, list[str]]) -> None:
    """The lake has the tables of one that nothing disturbed, and nothing beside them."""
    assert lake_tables(lake) == undisturbed
    staging = lake / "_wireloom" / "staging"
    assert not staging.exists() or not any(staging.iterdir())
