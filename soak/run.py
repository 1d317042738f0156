"""Run live services for a while, with faults: ``./run soak NAME [--minutes 10]``.

A soak is a module in this folder with a function ``main(minutes, seed)``, which raises when
something is not as it should be at the end. Several run at the same time, each in its own process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
# This folder itself must not be on the path: a soak is called like the service it is of.
sys.path[0] = str(HERE.parent)


def names() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem != "run")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(names())}; all by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each takes")
    parser.add_argument("--seed", type=int, default=1, help="other faults than those of seed 1")
    options = parser.parse_args()
    if unknown := set(options.name) - set(names()):
        parser.error(f"no soak {', '.join(unknown)}; there are {', '.join(names())}")
    chosen = options.name or names()
    if len(chosen) == 1:
        import_module(f"soak.{chosen[0]}").main(options.minutes, options.seed)
        print(f"{chosen[0]}: fine")
        return 0
    more = [f"--minutes={options.minutes}", f"--seed={options.seed}"]
    running = [subprocess.Popen([sys.executable, __file__, name, *more]) for name in chosen]
    return max(abs(each.wait()) for each in running)


if __name__ == "__main__":
    sys.exit(main())
