"""Compiled message tables against the object path, with every kind of settings.

Mutants are taken in groups, each group read in a way of its own: batches of few rows, chosen
columns, low limits. The last byte of the frames is followed by an unreadable page, so that reading
one byte too many ends the process.

Given a kernel, the run uses that one; `sanitized` gives it one with AddressSanitizer.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from mutants import save
from oracles.guarded import Guarded
from oracles.tabled import carriers, check_messages, names_in, ways
from progress import Progress
from resources import known, seeds

from wireloom import kernel as kernels
from wireloom.columnar import MessageDecoder
from wireloom.testing.mutations import Mutator

FORMATS = ("tibmsg", "tibrv", "qform", "payload")
"""The message formats, and payloads that may hold any of them."""

GROUP = 60
TASK = 20 * GROUP
MAX_SEED = 1024

_prepared: dict[str, Any] = {}


def format_of(name: str) -> str | None:
    return None if name == "payload" else name


def corpus(name: str) -> list[bytes]:
    """The seeds of the mutants."""
    if name == "payload":
        return [data for each in FORMATS[:3] for data in seeds(each) if len(data) <= MAX_SEED]
    return [data for data in seeds(name) + carriers(name) if len(data) <= MAX_SEED]


def options(name: str) -> dict[str, Any]:
    return known("qform" if name == "payload" else name)


def prepare(kernel: str | None, seed: int) -> None:
    """Set up a worker."""
    sys.unraisablehook = _unraisable
    _prepared["kernel"] = load(kernel) if kernel else kernels.load()
    _prepared["seed"] = seed
    _prepared["guarded"] = Guarded(1 << 17)


def load(path: str) -> Any:
    """A kernel that was built elsewhere."""
    spec = importlib.util.spec_from_file_location("wireloom._kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


_raised: list[str] = []


def _unraisable(hook: Any) -> None:
    """Collects what a bounds check raises inside the kernel, from where it cannot propagate."""
    _raised.append(f"{hook.exc_value!r} in {hook.object!r}")


@contextmanager
def nothing_raised() -> Iterator[None]:
    _raised.clear()
    yield
    if _raised:
        raise AssertionError(f"the kernel raised {_raised[0]}")


def state_of(name: str) -> dict[str, Any]:
    if name not in _prepared:
        samples = corpus(name)
        _prepared[name] = {
            "samples": samples,
            "mutator": Mutator(samples, _prepared["seed"]),
            "names": names_in(format_of(name), samples[:300], **options(name)),
        }
    found: dict[str, Any] = _prepared[name]
    return found


def check(name: str, frames: list[bytes], way: dict[str, Any]) -> None:
    """Check that both paths agree on some frames, and that the compiled one stays inside them."""
    kernel, guarded = _prepared["kernel"], _prepared["guarded"]
    with nothing_raised():
        check_messages(format_of(name), frames, kernel=kernel, options=options(name), **way)
        limits = {"limits": way["limits"]} if "limits" in way else {}
        decoder = MessageDecoder(format_of(name), kernel=kernel, **limits, **options(name))
        for frame in frames:
            for _ in decoder.feed(guarded.place(frame), [0], [len(frame)]):
                pass
        for _ in decoder.flush():
            pass


def alike(sample: bytes, random: Random) -> list[bytes]:
    """A message several times, so that its layout is remembered, then with other bytes."""
    found = [sample] * 3
    while sample and len(found) < GROUP // 2:
        data = bytearray(sample)
        for _ in range(random.choice((1, 1, 2, 5))):
            data[random.randrange(len(data))] = random.choice(
                (0, 1, 127, 255, random.randrange(256))
            )
        found += [bytes(data), sample] if random.random() < 0.3 else [bytes(data)]
    return found


def run_task(task: tuple[str, int, int]) -> tuple[int, list[str]]:
    """Check the mutants from one number to another; returns how many, and what is wrong."""
    name, start, stop = task
    state = state_of(name)
    random = Random(_prepared["seed"] << 32 | start)
    wrong = []
    for first in range(start, stop, GROUP):
        last = min(first + GROUP, stop)
        frames = [data for _, data in state["mutator"].mutants(first, last)]
        frames += random.choices(state["samples"], k=GROUP // 4)
        frames += alike(random.choice(state["samples"]), random)
        way = ways(random, state["names"])
        if name == "payload":
            way.pop("nested", None)
        try:
            check(name, frames, way)
        except Exception:
            wrong.append(blame(name, frames, way))
    return stop - start, wrong


def blame(name: str, frames: list[bytes], way: dict[str, Any]) -> str:
    """Save the first frame that fails by itself, else all of them; returns the report."""
    for frame in frames:
        try:
            check(name, [frame], way)
        except Exception as error:
            why = f"{way}\n{traceback.format_exc()}"
            return f"  {name} tables: {str(error)[:300]}\n    {save(f'{name}-tables', frame, why)}"
    text = "\n".join(frame.hex() for frame in frames)
    command = save(f"{name}-tables", b"".join(frames), f"{way}\n{text}")
    return f"  {name} tables: these frames fail together only\n    {command}"


def reproduce_tables(name: str, data: bytes) -> None:
    """Check one input in many ways."""
    prepare(None, 1)
    names = state_of(name)["names"]
    for turn in range(200):
        way = ways(Random(turn), names)
        if name == "payload":
            way.pop("nested", None)
        check(name, [data], way)


def run_tables(count: int, seed: int, jobs: int = 0, kernel: str | None = None) -> int:
    """Check so many mutants of every format; returns the number of failures."""
    context = multiprocessing.get_context("spawn")
    failures = 0
    with context.Pool(jobs or os.cpu_count() or 1, prepare, (kernel, seed)) as pool:
        for name in FORMATS:
            progress = Progress(f"{name} tables", count)
            tasks = [(name, at, min(at + TASK, count)) for at in range(0, count, TASK)]
            for made, wrong in pool.imap_unordered(run_task, tasks):
                progress.add(made)
                failures += len(wrong)
                for text in wrong[:3]:
                    print(text, flush=True)
            print(
                f"{name} tables: {progress.done:,} mutants in {progress.seconds:.0f} s, "
                f"{failures} failures",
                flush=True,
            )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--kernel", help="a compiled kernel to use instead of the installed one")
    given = parser.parse_args()
    return 1 if run_tables(given.mutants, given.seed, given.jobs, given.kernel) else 0


if __name__ == "__main__":
    sys.exit(main())
