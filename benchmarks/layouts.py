"""Columns of messages that look alike, or not: templates, lengths, order; and fewer columns.

What the kernel learns from a message helps with the next one that looks the same. Here a feed has
one template, 8 or 40, texts of different lengths in each message, or its fields in a different
order in each. Times are per field, relative to the feed with one template. Then random choices of
columns are read: fewer must not take longer than all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from random import Random
from statistics import median
from typing import Any

from benchmarks.columnar import values
from wireloom import kernel
from wireloom.columnar import decode_bytes
from wireloom.formats import tibmsg, tibrv
from wireloom.formats._tib.values import Date, Time
from wireloom.tables import table

FORMATS = ("tibmsg", "tibrv")
FEEDS = ("1 template", "8 templates", "40 templates", "lengths", "order")
MESSAGES = 20_000
CHOICES = 12
MOST = 1.1
"""How much longer a choice of columns may take than all of them, given the clock's precision."""


def feed(kind: str, format: str, count: int) -> tuple[bytes, int]:
    """The bytes of so many messages, and their number of fields."""
    random = Random(7)
    made, fields = [], 0
    templates: list[list[str]] = []
    for each in values(count):
        names = list(each)
        if not templates:
            number = int(kind.split()[0]) if kind[0].isdigit() else 1
            sizes = [len(names) if number == 1 else random.randrange(8, 20) for _ in range(number)]
            templates = [sorted(random.sample(names, size), key=names.index) for size in sizes]
        chosen = random.choice(templates)
        if kind == "lengths":
            text = "".join(random.choices("ABCDEFGH", k=random.randrange(1, 24)))
            each = {**each, "SYMBOL": text, "CURRENCY": text[: random.randrange(1, 8)] or "X"}
        elif kind == "order":
            chosen = random.sample(names, len(names))
        made.append(build(format, {name: each[name] for name in chosen}))
        fields += len(chosen)
    return b"".join(made), fields


def build(format: str, fields: dict[str, Any]) -> bytes:
    """A message."""
    if format == "tibmsg":
        return tibmsg.build(fields).encode()
    plain: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Decimal):
            value = float(value)
        plain[name] = str(value) if isinstance(value, Date | Time) else value
    return tibrv.build(plain).encode()


def clock(job: Callable[[], object], runs: int) -> float:
    """The median CPU time of this thread over some runs."""
    spent = []
    for _ in range(runs):
        began = time.thread_time()
        job()
        spent.append(time.thread_time() - began)
    return median(spent)


def read(data: bytes, format: str, columns: list[str] | None = None) -> None:
    """Decode everything and keep nothing."""
    select = None if columns is None else {"fields": columns}
    for _ in decode_bytes(data, format, tables=["fields"], select=select):
        pass


def main(quick: bool) -> dict[str, Any]:
    if not kernel.is_compiled():
        print("the kernel is not compiled: nothing to measure")
        return {"passed": False, "rows": []}
    count, runs = (MESSAGES // 5, 5) if quick else (MESSAGES, 15)
    rows, worst, random = [], 0.0, Random(1)
    for format in FORMATS:
        first = 0.0
        for kind in FEEDS:
            data, fields = feed(kind, format, count)
            took = clock(partial(read, data, format), runs) / fields
            first = first or took
            rows.append({"case": format, "feed": kind, "ns": 1e9 * took, "times": took / first})
            print(f"{format:7} {kind:13} {1e9 * took:6.1f} ns a field, {took / first:.2f} times")
        data, fields = feed("1 template", format, count)
        everything = clock(partial(read, data, format), runs)
        for _ in range(CHOICES):
            names = table("fields").names
            chosen = random.sample(names, random.randrange(1, len(names)))
            share = clock(partial(read, data, format, chosen), runs) / everything
            worst = max(worst, share)
            print(f"{format:7} {len(chosen):2} of {len(names)} columns: {share:.2f} of all")
    print(f"fewer columns: at most {worst:.2f} of the time for all; the goal is {MOST}")
    return {"passed": worst <= MOST, "worst_choice": round(worst, 2), "rows": rows, "runs": runs}
