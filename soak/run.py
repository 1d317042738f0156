"""Run live services for a while, with faults: ``./run soak NAME [--minutes 10]``.

A soak is a module in this folder with a function ``main(minutes, seed)``, which raises when
something is not as it should be at the end.
"""

from __future__ import annotations

import argparse
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
    for name in options.name or names():
        import_module(f"soak.{name}").main(options.minutes, options.seed)
        print(f"{name}: fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
