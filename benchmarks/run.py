"""Run benchmarks by name: ``./run bench [NAME ...] [--quick]``; all of them without a name.

A benchmark is a module in this folder with a function ``main(quick)``. It prints a table and gives
a JSON object, which is kept in ``build/bench/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
# This folder itself must not be on the path: a benchmark may have the name of a standard module.
sys.path[0] = str(HERE.parent)

PARTS = {"layouts"}
"""Measured by another one, which it takes its messages from."""


def names() -> list[str]:
    """The modules that have a ``main``; what others share has none."""
    return sorted(path.stem for path in HERE.glob("*.py") if _is_benchmark(path))


def _is_benchmark(path: Path) -> bool:
    # Not imported: some need a library that is only here for its own benchmark.
    is_main = "\ndef main(quick: bool)" in path.read_text("utf-8")
    return is_main and path.stem not in PARTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="short runs; the figures are rougher")
    options = parser.parse_args()
    if unknown := set(options.name) - set(names()):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}")
    folder = HERE.parent / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.name or names():
        found = import_module(f"benchmarks.{name}").main(options.quick)
        result = {
            "benchmark": name,
            "quick": options.quick,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
            "wireloom": version("wireloom"),
            **found,
        }
        path = folder / f"{name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        print(f"written to {path.relative_to(HERE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
