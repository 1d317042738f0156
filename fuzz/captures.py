"""Damaged captures: nothing crashes, every byte is accounted for, every intact frame is found."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from types import FrameType

from mutants import CRASHES
from oracles.damaged import check_mutant, container_of, make_mutant
from progress import Progress

from wireloom.formats import names

BATCH = 240
"""Captures per task: some seconds of work, every container twenty times."""

MAX_SECONDS = 60.0
"""Longest time for one capture, in seconds. The slowest take a fraction of a second."""

SHOWN = 10
"""Failures that are printed."""

_parent = 0
"""The process that a worker works for."""

Task = tuple[str, int, int, int]
"""Format, first and last number, seed."""


def run_captures(count: int, seed: int, jobs: int) -> int:
    """Try so many damaged captures, spread over the formats; return the number of failures."""
    each = -(-count // len(names()))
    tasks: list[Task] = [
        (name, first, min(first + BATCH, each), seed)
        for first in range(0, each, BATCH)
        for name in names()
    ]
    progress = Progress("captures", each * len(names()))
    failures: list[str] = []
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _begin) as pool:
        waiting: dict[Future[list[str]], Task] = {pool.submit(_run, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                name, first, last, _ = waiting[future]
                found = future.result()
                for text in found[: max(0, SHOWN - len(failures))]:
                    print(text, flush=True)
                failures += found
                progress.add(last - first)
                del waiting[future]
        except BrokenProcessPool:
            # Tasks are taken in order: whatever killed a worker is in one of the first.
            for name, first, last, _ in list(waiting.values())[: 2 * jobs]:
                print(f"  a worker died, maybe in {name} {first} to {last} of seed {seed}")
            failures.append("a worker died")
    print(
        f"captures: {progress.done:,} damaged captures of {len(names())} formats, seed {seed}, "
        f"{len(failures)} failures, {progress.rate:,.0f}/s, {progress.seconds:.0f} s",
        flush=True,
    )
    return len(failures)


def reproduce_capture(name: str, index: int, seed: int) -> int:
    """Try one again, with a traceback; 0 if nothing is wrong."""
    check_mutant(name, index, seed)
    print(f"{name} {index} of seed {seed}, {container_of(index)}: nothing wrong")
    return 0


def _late(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {MAX_SECONDS} s")


def _begin() -> None:
    global _parent
    _parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _late)


def _run(task: Task) -> list[str]:
    name, first, last, seed = task
    failures = []
    for index in range(first, last):
        if os.getppid() != _parent:
            os._exit(1)  # the run was killed: nobody waits for this worker
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        try:
            check_mutant(name, index, seed)
        except Exception as error:
            # An unexpected exception is what we look for; the next capture may fail in another way.
            signal.setitimer(signal.ITIMER_REAL, 0)
            what = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
            again = _save(name, index, seed)
            failures.append(f"  {name} {index} of seed {seed}: {what}\n    {again}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return failures


def _save(name: str, index: int, seed: int) -> str:
    """Keep a capture that fails; the command that tries it again."""
    folder = CRASHES / f"{name}-captures"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{seed}-{index}.{container_of(index)}"
    path.with_name(path.name + ".txt").write_text(traceback.format_exc(), "utf-8")
    with suppress(AssertionError):  # not even what it was made from can be read
        path.write_bytes(make_mutant(name, index, seed).data)
    return f"./run fuzz --mutant {name}:{index} --seed {seed}"
