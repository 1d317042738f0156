"""Look for inputs that crash, hang, slow down or bloat a decoder: ``./run fuzz``.

Every format gets its share of mutants of valid messages (see `wireloom.testing.mutations`). Only a
message or a `DecodeError` may come out of each, in time and memory that grow with its size. Then
patterns made to be slow are doubled in size, and the time must not more than triple.

A failure is written to ``fuzz/crashes/<format>/`` and printed as the command that shows it again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from growth import check_growth
from mutants import Slow, run_mutants, save
from targets import Target

from wireloom.formats import names

DEFAULT = 1_000_000
QUICK = 50_000


def main() -> int:
    options = parse()
    if options.reproduce:
        return reproduce(Path(options.reproduce), options.format)
    wanted = options.format or list(names())
    if options.atheris is not None:
        from coverage_guided import run_atheris

        return run_atheris(wanted, options.atheris)
    failed = 0
    for name in wanted:
        outcome = run_mutants(name, options.mutants, options.seed, options.jobs)
        failed += outcome.failures
        slowest = sorted(outcome.slowest, reverse=True)[:20]
        report_slow(name, slowest)
        if not options.no_growth:
            problems = check_growth(Target(name), [slow.data for slow in slowest])
            for data, text in problems:
                print(f"  {name}: {text}\n    {save(name, data, text)}")
            failed += len(problems)
    print("no failures" if not failed else f"{failed} failures; see fuzz/crashes")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} mutants a format")
    parser.add_argument("--format", action="append", choices=names(), help="only this; repeatable")
    parser.add_argument("--mutants", type=int, help=f"mutants a format; {DEFAULT:,} by default")
    parser.add_argument("--seed", type=int, default=1, help="other mutants than those of seed 1")
    parser.add_argument("--jobs", type=int, default=0, help="processes; one a core by default")
    parser.add_argument("--no-growth", action="store_true", help="leave the slow patterns out")
    parser.add_argument(
        "--atheris", type=int, metavar="SECONDS", help="follow coverage instead, so long a target"
    )
    parser.add_argument("--reproduce", metavar="FILE", help="run one saved input, with a traceback")
    options = parser.parse_args()
    if options.mutants is None:
        options.mutants = QUICK if options.quick else DEFAULT
    return options


def report_slow(name: str, slowest: list[Slow]) -> None:
    for slow in slowest[:3]:
        print(
            f"  {name}: slowest {slow.per_byte:.2f} us/byte, {slow.seconds * 1e3:.2f} ms for "
            f"{len(slow.data)} bytes (mutant {slow.index})"
        )


def reproduce(path: Path, given: list[str] | None) -> int:
    name = given[0] if given else path.resolve().parent.name
    target = Target(name)
    data = path.read_bytes()
    # How an input is read depends on its index: try all the ways there are.
    for index in range(64):
        target.run(data, index)
    print(f"{name}: {len(data)} bytes, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
