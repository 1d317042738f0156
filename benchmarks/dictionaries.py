"""QForm dictionaries: how long a full one takes to load, and hostile texts of growing size.

The full ones have 16,000 fields, as an RDMFieldDictionary and as a cfile, and are loaded without
and with the cache on disk. Each scanner reads every hostile text in a short version and in one
eight times as long; the time may grow about as much, never quadratically.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from wireloom.formats.qform.dictionary import (
    Dialect,
    Source,
    detect,
    load,
    scan_cfile,
    scan_enumtype,
    scan_flist,
    scan_rdm,
    to_cfile,
    to_sass,
)
from wireloom.formats.qform.dictionary.source import to_source

FIELDS = 16_000
"""Fields of a full RDM dictionary, rounded up."""

GOAL_SECONDS = 1.0
"""Longest time for a full dictionary: a program waits for it at its start."""

TIMES = 8
"""How much longer the long texts are."""

MAX_GROWTH = 24.0
"""How much longer they may take. Linear is 8, quadratic is 64."""

ENOUGH_SECONDS = 0.02
"""Shorter times are not judged: they are mostly noise of the clock and the machine."""

DIALECTS: tuple[Dialect, ...] = ("clean", "reference")

Scan = Callable[[Source], object]

HOSTILE: dict[str, Callable[[int], str]] = {
    "white": lambda size: " " * size,
    "lines": lambda size: "\n" * size,
    "comments": lambda size: "#\n" * (size // 2),
    "one comment": lambda size: "#" * size,
    "bang comments": lambda size: "!\n" * (size // 2),
    "one bang comment": lambda size: "!" * size,
    "semicolons": lambda size: ";" * size,
    "open braces": lambda size: "{" * size,
    "open items": lambda size: "a{" * (size // 2),
    "digits": lambda size: "1" * size,
    "number as an id": lambda size: "a{class_id " + "1" * size,
    "number as a type": lambda size: "a{class_id 1;data_type " + "1" * size + ";}",
    "one word": lambda size: "a" * size,
    "words": lambda size: "a " * (size // 2),
    "one quote": lambda size: '"' + "a" * size,
    "quotes": lambda size: '"a' * (size // 2),
    "empty quotes": lambda size: '""' * (size // 2),
    "minus": lambda size: "-" * size,
    "parentheses": lambda size: 'A "B" 1 NULL DATE 1 ' + "(" * size,
    "blanks in a field": lambda size: 'A "B" 1 NULL DATE 1' + " " * size + "x",
    "blanks everywhere": lambda size: ("A" + " " * (size // 10)) * 10,
    "repeated statements": lambda size: "a{" + "is_fixed true;" * (size // 14),
    "plain items": lambda size: "a{class_id 1;}" * (size // 14),
    "items of one id": lambda size: "".join(f"a{n}{{class_id 1;}}" for n in range(size // 18)),
    "unknown types": lambda size: "".join(
        f"a{n}{{class_id {n};data_type z}}" for n in range(size // 32)
    ),
    "a form of strangers": lambda size: (
        "f" * (size // 2) + "{class_id 1;fields{" + "b{field_class_name c;}" * (size // 44)
    ),
    "includes": lambda size: "cfile_includes{" + "a;" * (size // 2),
    "same fields": lambda size: 'A "x" 1 NULL INTEGER 1 INT64 1\n' * (size // 31),
    "odd fields": lambda size: "".join(
        f'A{n} "x" {n % 9} NULL X 1 Y 1\n' for n in range(size // 30)
    ),
    "enum tables": lambda size: 'A 1\n0 "x" y\n' * (size // 12),
    "enum values": lambda size: "A 1\n" + "".join(f"{n} x\n" for n in range(size // 8)),
    "field lists": lambda size: "1 A\n" * (size // 4),
}
"""Texts of about that many characters, designed to be slow."""


def main(quick: bool) -> dict[str, Any]:
    loads = load_rows(1 if quick else 5)
    growths = growth_rows(1 << 12 if quick else 1 << 15)
    passed = all(row["seconds"] <= GOAL_SECONDS for row in loads)
    passed = passed and all(row["growth"] <= MAX_GROWTH for row in growths)
    return {
        "passed": passed,
        "goal_seconds": GOAL_SECONDS,
        "max_growth": MAX_GROWTH,
        "loads": loads,
        "growths": growths,
    }


# --- loading ------------------------------------------------------------------------------------


def full_rdm(ids: int = 12_000) -> str:
    """An RDMFieldDictionary of `FIELDS` fields with that many ids, always the same."""
    rng = random.Random(16)
    columns = [
        "INTEGER 15 REAL64 7",
        "INTEGER 5 UINT64 2",
        "ALPHANUMERIC 32 RMTES_STRING 32",
        "PRICE 17 REAL64 7",
        "DATE 11 DATE 4",
        "TIME_SECONDS 8 TIME 5",
        "ENUMERATED 3 ( 3 ) ENUM 1",
    ]
    return "".join(
        f'F_{rng.randrange(1 << 20):05X}_{number} "FIELD {number}" {number % ids + 1}'
        f" NULL {rng.choice(columns)}\n"
        for number in range(FIELDS)
    )


def load_rows(runs: int) -> list[dict[str, Any]]:
    # An RDM text may have an id twice, as real ones do; a cfile may not.
    unique = to_sass(scan_rdm(to_source(full_rdm(FIELDS), "rdm")))
    texts = {"RDMFieldDictionary": full_rdm(), "tss_fields.cf": to_cfile(unique)}
    rows = []
    print(f"{'':26} {'fields':>8} {'KiB':>8} {'ms':>8} {'us/field':>9}")
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("WIRELOOM_CACHE")
        os.environ["WIRELOOM_CACHE"] = str(Path(folder, "cache"))
        try:
            for name, text in texts.items():
                path = Path(folder, name)
                path.write_text(text, "utf-8")
                load(path)  # fills the cache
                for kind, cached in (("cold", False), ("cached", True)):
                    spent = min(seconds(partial(load, path, cache=cached)) for _ in range(runs))
                    count = len(load(path))
                    rows.append(
                        {
                            "file": name,
                            "kind": kind,
                            "fields": count,
                            "bytes": len(text),
                            "seconds": round(spent, 4),
                        }
                    )
                    print(
                        f"{name + ', ' + kind:26} {count:8,} {len(text) / 1024:8,.0f} "
                        f"{spent * 1e3:8.0f} {spent / count * 1e6:9.1f}"
                    )
        finally:
            if before is None:
                del os.environ["WIRELOOM_CACHE"]
            else:
                os.environ["WIRELOOM_CACHE"] = before
    return rows


# --- hostile texts ------------------------------------------------------------------------------


def scanners() -> dict[str, Scan]:
    """Everything that reads a text."""
    found: dict[str, Scan] = {"detect": detect, "flist": scan_flist}
    for name, scan in (("cfile", scan_cfile), ("rdm", scan_rdm), ("enumtype", scan_enumtype)):
        found |= {f"{name}, {dialect}": partial(scan, dialect=dialect) for dialect in DIALECTS}
    return found


def growth_rows(size: int) -> list[dict[str, Any]]:
    """For every text, the scanner whose time grows the most."""
    rows = []
    print(f"\n{'slowest of the scanners':26} {'':8} {'KiB':>8} {'ms':>8} {'growth':>9}")
    for name, make in HOSTILE.items():
        small, large = (to_source(make(length), "t") for length in (size, TIMES * size))
        worst = max((growth(scan, small, large), title) for title, scan in scanners().items())
        (factor, spent), title = worst
        row = {"text": name, "scanner": title, "seconds": round(spent, 4), "growth": factor}
        rows.append(row)
        shown = f"{TIMES * size / 1024:8,.0f} {spent * 1e3:8.1f} {factor:9.1f}"
        print(f"{name:26} {'':8} {shown}  {title}")
    return rows


def growth(scan: Scan, small: Source, large: Source) -> tuple[float, float]:
    """How much longer the large text takes, and its time; 0 if that is too short to judge."""
    spent = min(seconds(partial(scan, large)) for _ in range(2))
    if spent < ENOUGH_SECONDS:
        return 0.0, spent
    return round(spent / min(seconds(partial(scan, small)) for _ in range(3)), 1), spent


def seconds(job: Callable[[], object]) -> float:
    """CPU time, so that other programs do not count."""
    began = time.process_time()
    job()
    return time.process_time() - began
