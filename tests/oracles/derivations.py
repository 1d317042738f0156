"""Rows of generated captures, as they are and made worse; Spark compared with the replay."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oracles.replay import replay
from oracles.tabled import plain_rows
from wireloom.formats.blaze.blz import from_blz
from wireloom.generate import Faults, generate
from wireloom.generate.schemas import DICTIONARY, MODEL, registry
from wireloom.tables import arrow_schema
from wireloom.tabulate import tabulate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BLAZE_MODEL",
    "KEYS",
    "Rows",
    "captured",
    "check",
    "disturbed",
    "frames",
    "plain",
    "same",
    "timeless",
]

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Tables by name."""

BLAZE_MODEL = from_blz(MODEL)
"""The model of generated Blaze traffic."""
KEYS = {
    each.id: (each.name, each.primary_key.fields)
    for each in BLAZE_MODEL.nclasses
    if each.primary_key is not None
}
"""Name and primary key of each class of the model."""
_FAULTY = Faults(loss=0.02, duplicates=0.02, reorder=0.03, corruption=0.005)


@cache
def captured(*formats: str, seed: int = 0, messages: int = 400, faulty: bool = True) -> Rows:
    """The tables of a generated capture; not to be changed."""
    file = io.BytesIO()
    file.name = f"made-{seed}.pcapng"
    faults = _FAULTY if faulty else None
    generate(file, formats, messages=messages, seed=seed, faults=faults, symbols=6)
    file.seek(0)
    found: Rows = {}
    batches = tabulate(file, dictionary=DICTIONARY, model=BLAZE_MODEL, types=registry())
    for name, batch in batches:
        found.setdefault(name, []).extend(plain_rows(batch))
    return found


def frames(spark: SparkSession, rows: Mapping[str, Sequence[Row]]) -> dict[str, DataFrame]:
    """Rows as Spark has them."""
    made = {}
    for name, each in rows.items():
        schema = arrow_schema(name, spark=True)
        made[name] = spark.createDataFrame(pa.Table.from_pylist(list(each), schema=schema))
    return made


def plain(found: DataFrame) -> list[Row]:
    """The rows of a result."""
    return plain_rows(found.toArrow())


def check(
    spark: SparkSession,
    name: str,
    rows: Mapping[str, Sequence[Row]],
    *,
    plainly: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Row]:
    """Check that Spark and the replay agree; returns the rows.

    Args:
        spark: the session.
        name: of the derived table.
        rows: the base tables.
        plainly: options of the replay that are not those of Spark.
        options: of both.
    """
    from wireloom.spark.derived import derive, derived_table

    common = {} if plainly is not None else options
    expected = replay(name, rows, **common, **(plainly or {}))
    found = derive(name, frames(spark, rows), **options)
    table = derived_table(name)
    assert tuple(found.columns) == table.names
    same(plain(found), expected, table.names)
    return expected


def same(found: Iterable[Row], expected: Iterable[Row], names: Sequence[str]) -> None:
    """Check that the rows are the same, in any order."""
    one = Counter(_shown(row, names) for row in found)
    other = Counter(_shown(row, names) for row in expected)
    extra, missing = list((one - other).elements()), list((other - one).elements())
    if not extra and not missing:
        return
    lines = [f"{sum(one.values())} rows, expected {sum(other.values())}"]
    lines += [f"{len(extra)} extra, {len(missing)} missing"]
    for row, near in zip(sorted(extra)[:3], sorted(missing)[:3], strict=False):
        lines += [f"{n}: {a} != {b}" for n, a, b in zip(names, row, near, strict=True) if a != b]
        lines.append("--")
    lines += [f"extra: {row}" for row in extra[:2]] + [f"missing: {row}" for row in missing[:2]]
    raise AssertionError("\n".join(lines))


def _shown(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_cell(row.get(name)) for name in names)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.9g}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return repr(value)


def disturbed(rows: Rows, seed: int, *, few_ids: Mapping[str, int] | None = None) -> Rows:
    """The rows as a worse capture would have them: some lost, some doubled, ids reused.

    Args:
        rows: of a capture.
        seed: of all choices.
        few_ids: columns of the tables whose numbers wrap around early.
    """
    random = Random(seed)
    made: Rows = {}
    for name, each in rows.items():
        kept = []
        for row in each:
            if random.random() < 0.1:
                continue
            changed = dict(row)
            for column, count in (few_ids or {}).items():
                if changed.get(column):
                    changed[column] = changed[column] % count + 1
            kept.append(changed)
            if random.random() < 0.05 and "ts_ns" in row and row["ts_ns"] is not None:
                # Sent again, and answered again or not.
                again = random.randrange(1, 50_000_000)
                later = {"ts_ns": row["ts_ns"] + again, "frame_offset": row["frame_offset"] + again}
                kept.append(changed | later)
        random.shuffle(kept)
        made[name] = kept
    return made


def timeless(rows: Rows) -> Rows:
    """The rows as raw captures give them: one stream, in order of time, without times."""
    made: Rows = {}
    for name, each in rows.items():
        if name == "gaps":
            continue
        ordered = sorted(each, key=lambda row: (row.get("ts_ns") or 0, row.get("frame_offset", 0)))
        made[name] = [
            row | {"stream": row["source"], "frame_offset": at, "ts_ns": None, "ts": None}
            for at, row in enumerate(ordered)
        ]
    return made
