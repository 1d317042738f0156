"""Check the codecs against golden vector files, in both directions.

A vector file is JSON lines. Each family of vectors has one module here with a `Verifier`: it says
which cases are its own and what is wrong with one. One verifier instance serves one file, because a
file may start with a schema that later lines use.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from wireloom.formats import REGISTRY

__all__ = ["FAMILIES", "Case", "Outcome", "Verifier", "golden", "load", "verify"]

Case = dict[str, Any]

FAMILIES = ("blaze", "nais", "nrep", "tib", "dictionaries", "plain")
"""Modules of this package, in the order in which they are asked."""


class Verifier(Protocol):
    """Checks the cases of one vector file."""

    def accepts(self, case: Case) -> bool:
        """Whether the case belongs to this family."""
        ...

    def check(self, case: Case) -> str | None:
        """None when the codecs agree with the case, else what differs, in one line."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case."""

    file: str
    line: int
    name: str
    failure: str | None
    """None when it passed."""


def load(path: Path) -> Iterator[tuple[int, Case]]:
    """Line numbers and cases of a ``.jsonl`` or ``.jsonl.gz`` file.

    Raises:
        ValueError: a line is not a JSON object.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                case = json.loads(line)
                if not isinstance(case, dict):
                    raise ValueError(f"{path}:{number}: not a JSON object")
                yield number, case


def golden(name: str) -> Iterator[Case]:
    """The cases of all vector files of a format."""
    folder = Path(import_module(REGISTRY[name]).__file__ or "").parent / "vectors"
    for path in sorted(folder.glob("*.jsonl*")):
        for _, case in load(path):
            yield case


def _name(case: Case, line: int) -> str:
    name = case.get("id") or case.get("name") or f"line {line}"
    return f"{case['format']}: {name}" if "format" in case else str(name)


def verify(path: Path) -> Iterator[Outcome]:
    """The outcome of every case of a vector file; a case of no known family is a failure."""
    verifiers: list[Verifier] = [
        import_module(f"{__name__}.{family}").Verifier() for family in FAMILIES
    ]
    for line, case in load(path):
        found = next((verifier for verifier in verifiers if verifier.accepts(case)), None)
        failure = "no verifier knows this kind of case" if found is None else found.check(case)
        yield Outcome(str(path), line, _name(case, line), failure)
