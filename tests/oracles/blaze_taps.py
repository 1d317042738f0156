"""What a tap recorded, read by the pipeline, and what a store holds: they must agree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from wireloom.formats.blaze import Model, trimmed
from wireloom.formats.blaze.codes import Action
from wireloom.lake import Lake, read
from wireloom.services.blaze.store import open_store

__all__ = ["Image", "store_objects", "tap_objects"]

Image = tuple[tuple[int, int], dict[str, Any]]
"""An object's stamp and its values in JSON."""

_PAGE = 1000


def _wireloom(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "wireloom.cli", *arguments], check=True, timeout=1200)


def tap_objects(tap: Path, model: Path, lake: Path) -> dict[str, Image]:
    """Objects by key as `blaze_objects` has them, of the stream that had the most events."""
    made = ("--model", str(model))
    options = ("--out", str(lake), "--formats", "blaze", "--master", "none", "--quiet")
    _wireloom("pipeline", str(tap), *made, *options)
    _wireloom("derive", str(lake), "--tables", "blaze_objects", *made, "--quiet")
    names = ["stream", "key", "image", "state", "tmstmp0", "tmstmp1", "events"]
    rows = read(Lake(lake), "blaze_objects", names).to_pylist()
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["stream"]] += row["events"]
    [(stream, _)] = counts.most_common(1)
    return {
        row["key"]: ((row["tmstmp0"], row["tmstmp1"]), json.loads(row["image"]))
        for row in rows
        if row["stream"] == stream and row["state"] == "live"
    }


async def store_objects(url: str, model: Model, nclass: str) -> dict[str, Image]:
    """Objects by key as a store has them."""
    found = model.nclass(nclass)
    assert found is not None
    assert found.primary_key is not None
    store = await open_store(url, model)
    try:
        objects: dict[str, Image] = {}
        after = (0, 0)
        while page := await store.rows(found.id, after, _PAGE):
            after = page[-1].stamp
            for row in page:
                value = row.image if row.image is not None else row.value()  # type: ignore[attr-defined]
                if row.action is Action.INS:
                    key = json.dumps([str(value.read(name)) for name in found.primary_key.fields])
                    objects[key] = (row.stamp, trimmed(value).to_values())
        return objects
    finally:
        await store.close()
