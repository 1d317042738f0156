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

NOT_BENCHMARKS = {"run", "cases", "layouts"}


def names() -> list[str]:
    found = (path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    return sorted(name for name in found if not name.startswith("soak"))


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
