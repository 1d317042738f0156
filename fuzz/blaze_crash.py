"""Kill brokers at random moments under load: ``./run fuzz blaze-crash``.

Nothing that was acknowledged may be lost, and nothing doubled: in the store, and for a subscriber
that resumes where it was (see `oracles.blaze_crash`). The database lives on from round to round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from oracles.blaze_crash import Trial, kill_under_load, settle
from oracles.blaze_program import Program
from oracles.postgres import MISSING, find_binaries, running

ROUNDS = {"sqlite": 200, "postgresql": 50}
SETTLE_EVERY = 10


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run fuzz blaze-crash", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--store", choices=ROUNDS, action="append", help="only this; repeatable")
    parser.add_argument("--rounds", type=int, help="kills; 200 on SQLite, 50 on PostgreSQL")
    parser.add_argument("--seed", type=int, default=1, help="other moments than those of seed 1")
    options = parser.parse_args(arguments)
    for kind in options.store or ROUNDS:
        if kind == "postgresql" and find_binaries() is None:
            print(f"postgresql: left out: {MISSING}")
            continue
        run(kind, options.rounds or ROUNDS[kind], options.seed)
    print("nothing lost, nothing doubled")
    return 0


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'fleet.db'}"
    else:
        binaries = find_binaries()
        assert binaries is not None
        with running(binaries) as server:
            yield server.new_database()


def run(kind: str, rounds: int, seed: int) -> None:
    rng, trial, started = Random(seed), Trial(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wlcrash-") as name, database(kind, Path(name)) as url:
        folder = Path(name)
        for number in range(1, rounds + 1):
            with Program.start(folder, url, "--log-level", "warning") as program:
                asyncio.run(kill_under_load(trial, program, rng))
            if number % SETTLE_EVERY == 0 or number == rounds:
                with Program.start(folder, url, "--window", "256") as program:
                    asyncio.run(settle(trial, program))
                    assert program.terminate() == 0
                print(
                    f"{kind}: {number} kills, {len(trial.acknowledged):,} acknowledged, "
                    f"{time.monotonic() - started:.0f} s",
                    flush=True,
                )
