"""Damaged captures: nothing crashes, every byte is accounted for, what is whole is found."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

from wireloom.formats import names
from wireloom.testing.captured import check_mutant

BATCH = 500
"""Captures a task: some seconds of work."""

SHOWN = 10
"""Failures that are printed."""


def run_captures(count: int, seed: int, jobs: int) -> int:
    """Try about so many damaged captures, shared by the formats; give the number of failures."""
    tasks = [
        (name, first, min(first + BATCH, count // len(names()) + 1), seed)
        for name in names()
        for first in range(0, count // len(names()) + 1, BATCH)
    ]
    failures: list[str] = []
    done = 0
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        for tried, found in pool.map(_run, tasks):
            done += tried
            failures += found
    print(f"captures: {done:,} tried, {len(failures)} failures")
    for text in failures[:SHOWN]:
        print(f"  {text}")
    return len(failures)


def _run(task: tuple[str, int, int, int]) -> tuple[int, list[str]]:
    name, first, last, seed = task
    failures = []
    for index in range(first, last):
        try:
            check_mutant(name, index, seed)
        except Exception as error:
            # What was not expected is the failure that is looked for; the next one may be another.
            text = str(error).partition("\n")[0][:200]
            failures.append(
                f"check_mutant({name!r}, {index}, {seed}): {type(error).__name__}: {text}"
            )
    return last - first, failures
