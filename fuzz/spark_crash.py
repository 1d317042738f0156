"""Kill processes of pipelines at random moments and compare the lakes: ``./run fuzz spark-crash``.

Every round makes captures, brings them into a lake undisturbed, then again while the driver, a
Python worker or an executor is killed several times, in batch or while a capture grows. All tables
must be the same, row for row.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from random import Random

from wireloom.lake import Lake
from wireloom.spark.pipeline import run_pipeline
from wireloom.testing.crashes import TARGETS, Target, kill_until_done
from wireloom.testing.generate import Faults, generate
from wireloom.testing.lakes import lake_tables

MASTERS = {"driver": "local[2,4]", "worker": "local[2,4]", "executor": "local-cluster[2,1,1024]"}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run fuzz spark-crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--kills", type=int, default=3, help="kills a round")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="shown, to do it again")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this; repeatable")
    parser.add_argument("--quick", action="store_true", help="a round for every target")
    options = parser.parse_args(arguments)
    targets: list[Target] = options.target or list(TARGETS)
    rounds = len(targets) if options.quick else options.rounds
    failed = 0
    for number in range(rounds):
        seed = options.seed + number
        target = targets[number % len(targets)]
        is_stream = number // len(targets) % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            problem = one_round(Path(folder), seed, target, is_stream, options.kills)
        kind = "stream" if is_stream else "batch"
        print(f"seed {seed}: {target} of a {kind}: {problem or 'the same lake'}", flush=True)
        failed += problem is not None
    print("no failures" if not failed else f"{failed} failures")
    return 1 if failed else 0


def make(folder: Path, seed: int) -> None:
    folder.mkdir()
    damaged = Faults(corruption=0.005)
    for number in range(4):
        path = folder / f"{number}.bin"
        generate(
            path, ["tibmsg"], size=600_000, container="raw", seed=seed + number, faults=damaged
        )
    lossy = Faults(loss=0.005, reorder=0.02, duplicates=0.01)
    generate(folder / "p.pcapng", size=500_000, seed=seed, faults=lossy)


def one_round(folder: Path, seed: int, target: Target, is_stream: bool, kills: int) -> str | None:
    """What differs; None if nothing does."""
    random = Random(seed)
    captures, lake = folder / "captures", folder / "lake"
    make(captures, seed)
    run_pipeline(None, captures, folder / "undisturbed")
    command = ["pipeline", str(captures), "--out", str(lake), "--master", MASTERS[target], "-q"]
    command += ["--split-bytes", "100000", "--commit-bytes", "500000"]
    most_s = 30.0 if target == "driver" else 4.0
    if not is_stream:
        kill_until_done(command, target, random, kills=kills, most_s=most_s)
    else:
        command += ["--stream", "--every", "0.2", "--settle", "5"]
        growing = threading.Thread(target=grow, args=(captures / "0.bin", random.random()))
        growing.start()

        def is_over() -> bool:
            if growing.is_alive() or not (lake / "_wireloom/log").exists():
                return False
            known = Lake(lake).state.inputs
            return len(known) == 5 and all(one.end == one.size for one in known.values())

        kill_until_done(command, target, random, kills=kills, most_s=most_s, is_over=is_over)
        growing.join()
    wanted, found = lake_tables(folder / "undisturbed"), lake_tables(lake)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            kept = Path(tempfile.mkdtemp(prefix="spark-crash-")) / "lake"
            shutil.copytree(lake, kept)
            count = len(found.get(name, ()))
            return f"{name} has {count} rows, not {len(wanted.get(name, ()))}; kept in {kept}"
    return None


def grow(path: Path, speed: float) -> None:
    """Take a capture away and write it again, bit by bit."""
    content = path.read_bytes()
    path.write_bytes(content[:1000])
    at = 1000
    while at < len(content):
        time.sleep(0.2 + speed)
        size = 1 + int(30_000 * (1 + speed))
        with path.open("ab") as file:
            file.write(content[at : at + size])
        at += size
