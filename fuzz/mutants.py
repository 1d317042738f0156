"""The mutation run: batches of mutants over all cores, with a watch on time and memory."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from pathlib import Path
from types import FrameType

from progress import Progress
from resources import seeds
from targets import Target

from wireloom.testing.mutations import Mutator

CRASHES = Path(__file__).parent / "crashes"

BATCH = 2000
"""Mutants per task: a second or so of work."""

MAX_SECONDS = 5.0
"""Longest time for one mutant, in seconds. The slowest good ones take milliseconds."""

MAX_MEMORY = 1 << 30
"""Address space that a worker may use on top of what it starts with."""

TRACED = 500
"""The memory of one mutant in so many is measured."""

PEAK_PER_BYTE = 400
PEAK_FLOOR = 300_000
"""Bytes that reading may allocate: so many for each input byte, on top of a fixed amount."""

SHOWN = 3
"""Failures of one cause that are saved and printed by a batch, and printed in all."""

KEPT = 20
"""Slowest inputs that are kept for the growth check."""


@dataclass(frozen=True, order=True)
class Slow:
    per_byte: float
    """Microseconds per byte, where short inputs count as 64 bytes."""
    seconds: float
    index: int
    data: bytes


@dataclass
class Outcome:
    """What a batch, or all of them, found."""

    mutants: int = 0
    accepted: int = 0
    failures: int = 0
    notes: dict[str, list[str]] = field(default_factory=dict)
    """What to print about failures, by their cause."""
    slowest: list[Slow] = field(default_factory=list)

    def keep(self, slow: Slow) -> None:
        if len(self.slowest) < KEPT:
            heappush(self.slowest, slow)
        elif slow > self.slowest[0]:
            heapreplace(self.slowest, slow)

    def add(self, other: Outcome) -> None:
        self.mutants += other.mutants
        self.accepted += other.accepted
        self.failures += other.failures
        for cause, notes in other.notes.items():
            self.notes.setdefault(cause, []).extend(notes)
        for slow in other.slowest:
            self.keep(slow)


class TooSlowError(Exception):
    """A mutant passed `MAX_SECONDS`."""


class TooMuchMemoryError(Exception):
    """A mutant passed its allowance."""


def save(name: str, data: bytes, why: str) -> str:
    """Keep an input that fails; the command that runs it again."""
    folder = CRASHES / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(why + "\n", "utf-8")
    return f"./run fuzz --reproduce {path.relative_to(CRASHES.parent.parent)}"


_prepared: tuple[Target, Mutator]
"""What a worker works with; set when it starts."""


def _late(signum: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {MAX_SECONDS} s")


def _begin(name: str, samples: list[bytes], seed: int) -> None:
    """Set up a worker: its target, a ceiling on its memory, and an alarm clock."""
    global _prepared
    _prepared = Target(name), Mutator(samples, seed)
    for data in samples[:100]:
        _prepared[0].run(data)  # imports on first use must not count as a mutant's time
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _late)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        ceiling = pages * os.sysconf("SC_PAGE_SIZE") + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, resource.RLIM_INFINITY))


@contextmanager
def _measured(data: bytes) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > PEAK_FLOOR + PEAK_PER_BYTE * len(data):
        raise TooMuchMemoryError(f"{peak} bytes for an input of {len(data)}")


def _cause(error: Exception) -> str:
    """Failures with the same cause differ in their values only."""
    places = traceback.extract_tb(error.__traceback__)
    words = re.sub(r"[0-9a-f]*[0-9][0-9a-f]*|'.*'", "#", str(error))[:80]
    return f"{type(error).__name__} {places[-1].filename}:{places[-1].lineno} {words}"


def _batch(task: tuple[str, int, int, int]) -> Outcome:
    name, seed, start, stop = task
    target, mutator = _prepared
    outcome = Outcome()
    gc.collect()  # between batches only: a pause would be taken for a slow mutant
    for index, data in mutator.mutants(start, stop):
        outcome.mutants += 1
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        began = time.process_time()  # not wall-clock time: other programs take their share of that
        try:
            if index % TRACED:
                outcome.accepted += target.run(data, index)
                spent = time.process_time() - began
                outcome.keep(Slow(spent * 1e6 / max(64, len(data)), spent, index, data))
            else:
                with _measured(data):
                    target.run(data, index)
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcome.failures += 1
            notes = outcome.notes.setdefault(_cause(error), [])
            if len(notes) < SHOWN:
                where = f"{name}: mutant {index} of seed {seed}"
                command = save(name, data, f"{where}\n{traceback.format_exc()}")
                what = f"{type(error).__name__}: {error!s:.200}"
                notes.append(f"  {where}: {what}\n    {command}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return outcome


def run_mutants(name: str, count: int, seed: int, jobs: int = 0) -> Outcome:
    """Run that many mutants of one format; failures are printed as they come."""
    tasks = [(name, seed, start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
    total = Outcome()
    jobs = jobs or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, _begin, (name, seeds(name), seed)) as pool:
        progress = Progress(name, count)
        for outcome in pool.imap_unordered(_batch, tasks):
            for cause, notes in outcome.notes.items():
                for note in notes[: max(0, SHOWN - len(total.notes.get(cause, ())))]:
                    print(note, flush=True)
            total.add(outcome)
            progress.add(outcome.mutants)
    print(
        f"{name}: {total.mutants:,} mutants, {total.accepted:,} of them valid, "
        f"{total.failures} failures, {progress.rate:,.0f}/s, {progress.seconds:.0f} s",
        flush=True,
    )
    return total
