"""Object decode and encode rates of every format, and of other tools on the same bytes.

First all implementations must agree on every value. Then they take turns, several times over, so
that a change in the machine's speed affects all of them alike; the median counts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from statistics import median
from typing import Any

from benchmarks.cases import Case

FORMATS = ("blaze", "nais", "nrep", "qform", "tibmsg", "tibrv")

GOAL = 5.0
"""How many times as fast as `construct` we want to be, at least."""

Key = tuple[str, str, str]
"""Case, direction, implementation."""


def main(quick: bool) -> dict[str, Any]:
    cases = list(all_cases())
    for case in cases:
        case.verify()
    runs, seconds = (3, 0.02) if quick else (9, 0.1)
    jobs = {key: job for case in cases for key, job in jobs_of(case)}
    loops = {key: calibrate(job, seconds) for key, job in jobs.items()}
    times: dict[Key, list[float]] = {key: [] for key in jobs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            for key, job in jobs.items():
                times[key].append(measure(job, loops[key]) / loops[key])
    finally:
        gc.enable()
    rows = [row for case in cases for row in rows_of(case, times)]
    show(rows)
    ours = [row for row in rows if row["implementation"] == "wireloom"]
    known = [row for row in ours if row["ratio_to_construct"] is not None]
    worst = min(known, key=lambda row: row["ratio_to_construct"])
    passed = worst["ratio_to_construct"] >= GOAL
    print(
        f"\nat least {worst['ratio_to_construct']:.1f}x construct ({worst['case']}, "
        f"{worst['direction']}); the goal of {GOAL:.0f}x is {'reached' if passed else 'missed'}"
    )
    peers = {name: version(name) for name in ("construct", "kaitaistruct")}
    return {"passed": passed, "goal": GOAL, "runs": runs, "peers": peers, "rows": rows}


def all_cases() -> list[Case]:
    found = []
    for name in FORMATS:
        module = import_module(f"benchmarks.peers.{name}")
        found += [getattr(module, kind) for kind in ("CASE", "WRITING") if hasattr(module, kind)]
    return found


def jobs_of(case: Case) -> list[tuple[Key, Callable[[], None]]]:
    jobs: list[tuple[Key, Callable[[], None]]] = []
    for name, codec in case.codecs().items():
        jobs.append(((case.name, "decode", name), over(codec.decode, case.messages)))
        if codec.encode is not None:
            made = tuple(codec.decode(data) for data in case.messages)
            jobs.append(((case.name, "encode", name), over(codec.encode, made)))
    return jobs


def over(function: Callable[[Any], Any], inputs: tuple[Any, ...]) -> Callable[[], None]:
    def job() -> None:
        for given in inputs:
            function(given)

    return job


def measure(job: Callable[[], None], loops: int) -> float:
    began = time.process_time()
    for _ in range(loops):
        job()
    return time.process_time() - began


def calibrate(job: Callable[[], None], seconds: float) -> int:
    """How often to run the job so that it takes about so long."""
    job()
    loops = 1
    while (spent := measure(job, loops)) < seconds / 4:
        loops *= 4
    return max(1, round(loops * seconds / spent))


def rows_of(case: Case, times: dict[Key, list[float]]) -> list[dict[str, Any]]:
    count, size = len(case.messages), sum(map(len, case.messages))
    rows = []
    for direction in ("decode", "encode"):
        construct = times.get((case.name, direction, "construct"))
        for name in case.codecs():
            spent = times.get((case.name, direction, name))
            if spent is None:
                continue
            # The same round of both, so that they ran under the same conditions.
            ratios = [c / s for c, s in zip(construct, spent, strict=True)] if construct else []
            rows.append(
                {
                    "case": case.name,
                    "what": case.what,
                    "direction": direction,
                    "implementation": name,
                    "messages_per_second": round(count / median(spent)),
                    "megabytes_per_second": round(size / median(spent) / 1e6, 2),
                    "microseconds_per_message": round(median(spent) / count * 1e6, 3),
                    "ratio_to_construct": round(median(ratios), 2) if ratios else None,
                }
            )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    last = None
    print(f"{'':18} {'':7} {'':10} {'messages/s':>12} {'MB/s':>8} {'us':>8} {'x construct':>12}")
    for row in rows:
        if row["case"] != last:
            print(f"{row['case']}: {row['what']}")
            last = row["case"]
        ratio = row["ratio_to_construct"]
        print(
            f"{'':18} {row['direction']:7} {row['implementation']:10} "
            f"{row['messages_per_second']:12,} {row['megabytes_per_second']:8.1f} "
            f"{row['microseconds_per_message']:8.2f} {'' if ratio is None else f'{ratio:.1f}':>12}"
        )
