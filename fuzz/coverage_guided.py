"""Follow coverage with atheris, where it is installed: one target per format, one per framer.

``python fuzz/coverage_guided.py TARGET [libFuzzer options]`` is one target; `run_atheris` starts
them all. The seeds are those of the mutation run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "fuzz"

FRAMER = "-framer"
"""Suffix of the name of a target that only frames."""


def run_atheris(names: list[str], seconds: int) -> int:
    """Run every target for so many seconds; 1 if one found something."""
    if find_spec("atheris") is None:
        from mutants import run_mutants

        print("atheris is not installed here (it has wheels for Linux on x86-64): plain mutants")
        # A mutant takes less than a millisecond: about as long as was asked for.
        return 1 if sum(run_mutants(name, 1500 * seconds, 1).failures for name in names) else 0
    failed = []
    for name in names:
        for target in (name, name + FRAMER):
            corpus = _corpus(name, target)
            crashes = HERE / "crashes" / name
            crashes.mkdir(parents=True, exist_ok=True)
            print(f"{target}: {seconds} s", flush=True)
            done = subprocess.run(
                [
                    *(sys.executable, __file__, target, str(corpus)),
                    *(f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048"),
                    *(f"-artifact_prefix={crashes}/", "-max_len=4096", "-verbosity=0"),
                    "-print_final_stats=1",
                ],
                check=False,
            )
            if done.returncode:
                failed.append(target)
    print(f"failed: {', '.join(failed)}" if failed else "no failures")
    return 1 if failed else 0


def _corpus(name: str, target: str) -> Path:
    """A folder with the seeds, and with what former runs found to be interesting."""
    from resources import seeds

    folder = BUILD / target
    folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(name):
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return folder


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["wireloom"]):
        from targets import Target

        from wireloom.formats import get
        from wireloom.framing import scan
        from wireloom.testing.chunks import cut_randomly
        from wireloom.testing.conformance.samples import framer

    name = sys.argv[1].removesuffix(FRAMER)

    def frame_it(data: bytes) -> None:
        format = get(name)
        cut = cut_randomly(data, Random(len(data)), 32)
        whole = list(scan(framer(format), data))
        assert list(scan(framer(format), cut)) == whole
        assert b"".join(record.data for record in whole) == data

    target = Target(name)

    def read_it(data: bytes) -> None:
        # The input determines the options, so that atheris can choose them.
        target.run(data, sum(data[-4:]) if data else 0)

    arguments = [sys.argv[0], *sys.argv[2:]]
    atheris.Setup(arguments, frame_it if sys.argv[1].endswith(FRAMER) else read_it)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
