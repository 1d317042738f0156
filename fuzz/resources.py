"""What some formats need beside the bytes, and where mutants start from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from wireloom.formats import REGISTRY, get
from wireloom.formats.blaze import from_blz
from wireloom.formats.qform import SYSTEM, Dictionary, load
from wireloom.messages import Message
from wireloom.testing.strategies import messages, options

MAX_SEED = 4096
"""Bytes of a seed; longer vectors would make every mutant slow without reaching more code."""

MADE = 300
"""Messages that the strategies add to a format's seeds."""

# The classes of the golden vectors' bodies.
FLEET = """
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low
    GAUGE_High = 9
    GAUGE_Neg = -3
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    bool active
    int_16 i16
    uint_16 u16
    int_32 i32
    int_64 i64
    uint_64 u64
    float_32 f32
    float_64 f64
    ascii grade
    byte flags
    GAUGE gauge
    int_32[4] temps
    GAUGE[3] gauges
    bool[3] doors
    float_64[2] load
    byte[4] raw
    POINT home
    POINT[3] stops
}
"""


def _cases(name: str) -> Iterator[dict[str, Any]]:
    folder = Path(import_module(REGISTRY[name]).__file__ or "").parent / "vectors"
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            case = json.loads(line) if line.strip() else {}
            # The three TIB formats share a file; a case says whose it is.
            if case.get("format", name).removesuffix("msg") == name.removesuffix("msg"):
                yield case


@cache
def known(name: str) -> dict[str, Any]:
    """Options without which most messages of a format cannot be read in full."""
    if name == "blaze":
        kinds = ("INDEXNOTZERO", "ALL", "INDEXDELTA")
        events = {i: ("POINT" if i % 2 else "TRUCK", kinds[i % 3]) for i in range(64)}
        return {"model": from_blz(FLEET), "subscriptions": events}
    if name == "qform":
        found: Dictionary = SYSTEM.merge(options("qform")["dictionary"])
        for text in {case["dict"] for case in _cases(name) if case.get("dict")}:
            found = found.merge(load(text))
        return {"dictionary": found}
    return {}


def seeds(name: str) -> list[bytes]:
    """The format's samples, all bytes in its golden vectors, and messages of its strategy."""
    found = dict.fromkeys(get(name).samples().values())
    for case in _cases(name):
        found.update(dict.fromkeys(_hex_in(case)))
    found.update(dict.fromkeys(_made(name)))
    return [data for data in found if 0 < len(data) <= MAX_SEED]


def _hex_in(case: dict[str, Any]) -> Iterator[bytes]:
    for key, value in case.items():
        if key == "hex" and isinstance(value, str):
            yield bytes.fromhex(value)
        elif key in ("chunks", "segments") and isinstance(value, list):
            chunks = [part for part in value if isinstance(part, str) and part != "idle"]
            yield bytes.fromhex("".join(chunks))


def _made(name: str) -> list[bytes]:
    made = []

    @settings(
        max_examples=MADE,
        derandomize=True,  # the same in every process, as mutants are told by their number
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(name))
    def collect(message: Message) -> None:
        made.append(message.encode())

    collect()
    return made
