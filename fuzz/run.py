"""Look for inputs that crash, hang, slow down or bloat a decoder: ``./run fuzz``.

Every format gets its share of mutants of valid messages (see `wireloom.testing.mutations`). Only a
message or a `DecodeError` may come out of each, in time and memory that grow with its size. Then
patterns designed to be slow are doubled in size; the time must not more than triple. The compiled
tables of messages must be those of the object path, for mutants as well (see `tables`), also with a
kernel that has AddressSanitizer in it. Damaged captures become tables, with every byte accounted
for and every whole frame found.

``./run fuzz spark-crash`` does something else: it kills pipelines, see spark_crash.py; so does
``./run fuzz blaze-crash`` with brokers, see blaze_crash.py.

A failure is written to ``fuzz/crashes/<format>/`` and printed with the command that reproduces it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from captures import reproduce_capture, run_captures
from growth import check_growth
from mutants import Slow, run_mutants, save
from sanitized import run_sanitized
from tables import reproduce_tables, run_tables
from targets import Target

from wireloom.formats import names

DEFAULT = 1_000_000
QUICK = 50_000
CAPTURES = 100_000
QUICK_CAPTURES = 2_000


def main() -> int:
    if sys.argv[1:2] == ["spark-crash"]:
        from spark_crash import main as crash

        return crash(sys.argv[2:])
    if sys.argv[1:2] == ["blaze-crash"]:
        from blaze_crash import main as crash_brokers

        return crash_brokers(sys.argv[2:])
    options = parse()
    if options.reproduce:
        return reproduce(Path(options.reproduce), options.format)
    if options.mutant:
        name, _, index = options.mutant.partition(":")
        return reproduce_capture(name, int(index), options.seed)
    if options.only_sanitized:
        return run_sanitized(options.mutants, options.seed, options.jobs)
    wanted = options.format or list(names())
    if options.atheris is not None:
        from coverage_guided import run_atheris

        return run_atheris(wanted, options.atheris)
    failed = run_captures(options.captures, options.seed, options.jobs) if options.captures else 0
    for name in () if options.only_captures else wanted:
        outcome = run_mutants(name, options.mutants, options.seed, options.jobs)
        failed += outcome.failures
        slowest = sorted(outcome.slowest, reverse=True)[:20]
        report_slow(name, slowest)
        if not options.no_growth:
            problems = check_growth(Target(name), [slow.data for slow in slowest])
            for data, text in problems:
                print(f"  {name}: {text}\n    {save(name, data, text)}")
            failed += len(problems)
    if not (options.no_tables or options.only_captures):
        failed += run_tables(options.mutants // 10, options.seed, options.jobs)
        failed += run_sanitized(options.mutants // 50, options.seed, options.jobs)
    print("no failures" if not failed else f"{failed} failures; see fuzz/crashes")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} mutants per format")
    parser.add_argument("--format", action="append", choices=names(), help="only this; repeatable")
    parser.add_argument("--mutants", type=int, help=f"mutants per format; {DEFAULT:,} by default")
    parser.add_argument("--seed", type=int, default=1, help="other mutants than those of seed 1")
    parser.add_argument("--jobs", type=int, default=0, help="processes; one per core by default")
    parser.add_argument("--no-tables", action="store_true", help="leave the compiled tables out")
    parser.add_argument(
        "--only-sanitized",
        action="store_true",
        help="only the compiled tables, with AddressSanitizer in the kernel",
    )
    parser.add_argument("--no-growth", action="store_true", help="leave the slow patterns out")
    parser.add_argument(
        "--atheris", type=int, metavar="SECONDS", help="follow coverage instead, so long per target"
    )
    parser.add_argument(
        "--captures", type=int, metavar="COUNT", help=f"damaged captures; {CAPTURES:,} by default"
    )
    parser.add_argument("--only-captures", action="store_true", help="leave the formats out")
    parser.add_argument("--reproduce", metavar="FILE", help="run one saved input, with a traceback")
    parser.add_argument(
        "--mutant", metavar="FORMAT:NUMBER", help="try one damaged capture, with a traceback"
    )
    options = parser.parse_args()
    if options.mutants is None:
        options.mutants = QUICK if options.quick else DEFAULT
    if options.captures is None:
        options.captures = QUICK_CAPTURES if options.quick else CAPTURES
    return options


def report_slow(name: str, slowest: list[Slow]) -> None:
    for slow in slowest[:3]:
        print(
            f"  {name}: slowest {slow.per_byte:.2f} us/byte, {slow.seconds * 1e3:.2f} ms for "
            f"{len(slow.data)} bytes (mutant {slow.index})"
        )


def reproduce(path: Path, given: list[str] | None) -> int:
    name = given[0] if given else path.resolve().parent.name
    data = path.read_bytes()
    if name.endswith("-tables"):
        reproduce_tables(name.removesuffix("-tables"), data)
        print(f"{name}: {len(data)} bytes, nothing wrong")
        return 0
    target = Target(name)
    # How an input is read depends on its index: try every way.
    for index in range(240):
        target.run(data, index)
    print(f"{name}: {len(data)} bytes, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
