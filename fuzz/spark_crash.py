"""Kill processes of pipelines at random moments and compare the lakes: ``./run fuzz spark-crash``.

Every round makes captures and loads them into a lake undisturbed, then again while the driver, a
Python worker or an executor is killed several times, in batch or while captures grow: a raw one,
and rotated packet captures, with connections that go on from file to file. All tables must be the
same, row for row.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from random import Random

from oracles.crashes import TARGETS, Target, kill_until_done, rotated, write_slowly
from oracles.lakes import lake_tables

from wireloom.generate import Faults, generate
from wireloom.lake import Lake
from wireloom.pipeline import run_pipeline

MASTERS = {"driver": "local[2,4]", "worker": "local[2,4]", "executor": "local-cluster[2,1,1024]"}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run fuzz spark-crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--kills", type=int, default=3, help="kills a round")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="printed, to repeat it")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this; repeatable")
    parser.add_argument("--kind", choices=["batch", "stream"], help="only this; else both in turn")
    parser.add_argument("--master", help="where Spark runs, instead of what suits the target")
    parser.add_argument("--quick", action="store_true", help="one round per target")
    options = parser.parse_args(arguments)
    targets: list[Target] = options.target or list(TARGETS)
    rounds = len(targets) if options.quick else options.rounds
    failed = 0
    for number in range(rounds):
        seed = options.seed + number
        target = targets[number % len(targets)]
        kind = options.kind or ("batch", "stream")[number // len(targets) % 2]
        master = options.master or MASTERS[target]
        what = f"round {number + 1} of {rounds}, seed {seed}: {target} of a {kind}"
        print(f"{what} on {master}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            problem = one_round(Path(folder), seed, target, kind, master, options.kills)
        took = time.monotonic() - began
        print(f"{what}: {problem or 'the same lake'} ({took:.0f} s)", flush=True)
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
    generate(folder / "p.pcapng", size=300_000, seed=seed, faults=lossy)
    whole = folder.parent / "whole.pcap"
    generate(whole, size=400_000, container="pcap", connections=1, seed=seed, faults=lossy)
    (folder / "rotated").mkdir()
    for number, content in enumerate(rotated(whole, 4)):
        (folder / "rotated" / f"{8 + number}.pcap").write_bytes(content)


def tell(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)


def one_round(
    folder: Path, seed: int, target: Target, kind: str, master: str, kills: int
) -> str | None:
    """What differs; None if nothing does."""
    random = Random(seed)
    captures, lake = folder / "captures", folder / "lake"
    make(captures, seed)
    run_pipeline(captures, folder / "undisturbed")
    command = ["pipeline", str(captures), "--out", str(lake), "--master", master, "-q"]
    command += ["--split-bytes", "100000", "--commit-bytes", "500000"]
    most_s = 30.0 if target == "driver" else 4.0
    if kind == "batch":
        kill_until_done(command, target, random, kills=kills, most_s=most_s, told=tell)
    else:
        # Connections are closed, and go on, as their captures grow in jumps.
        command += ["--stream", "--every", "0.2", "--settle", str(random.choice([1, 5]))]
        sizes = {str(path): path.stat().st_size for path in captures.rglob("*.*")}
        growing = [
            threading.Thread(target=write_again, args=(paths, Random(random.random())))
            for paths in ([captures / "0.bin"], sorted_names(captures / "rotated"))
        ]
        for thread in growing:
            thread.start()

        def is_over() -> bool:
            if any(each.is_alive() for each in growing) or not (lake / "_wireloom/log").exists():
                return False
            known = Lake(lake).state.inputs.values()
            return {one.path: one.size for one in known if not one.is_open} == sizes

        kill_until_done(
            command, target, random, kills=kills, most_s=most_s, is_over=is_over, told=tell
        )
        for thread in growing:
            thread.join()
    wanted, found = lake_tables(folder / "undisturbed"), lake_tables(lake)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            kept = Path(tempfile.mkdtemp(prefix="spark-crash-")) / "lake"
            shutil.copytree(lake, kept)
            count = len(found.get(name, ()))
            return f"{name} has {count} rows, not {len(wanted.get(name, ()))}; kept in {kept}"
    return None


def sorted_names(folder: Path) -> list[Path]:
    """Rotated captures in their order."""
    return sorted(folder.iterdir(), key=lambda path: int(path.stem))


def write_again(paths: list[Path], random: Random) -> None:
    """Remove captures and write them again, one after the other, bit by bit."""
    files = [(path, path.read_bytes()) for path in paths]
    for path in paths:
        path.unlink()
    write_slowly(files, random, total_s=random.uniform(10, 60))
