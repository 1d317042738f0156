"""`blaze_objects`, one event after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from oracles.replay.blaze_subscriptions import asked_for, granting
from oracles.replay.common import Row, Rows, last_holes, place_of, time_of

__all__ = ["blaze_objects"]


def blaze_objects(tables: Rows, *, keys: Mapping[int, tuple[str, Sequence[str]]]) -> list[Row]:
    """Images of objects; `keys` has name and primary key of each class."""
    starts = granting(asked_for(tables["blaze"]))
    classes: dict[tuple[str, str, int], int | None] = {}
    objects: dict[tuple[Any, ...], Row] = {}
    for row in sorted(tables["blaze"], key=place_of):
        where = (row["source"], row["stream"], row["sbsrid"])
        start = starts.get(place_of(row))
        if start is not None:
            classes[where] = start.asked("nclsid")
        nclsid = classes.get(where)
        if row["type_name"] != "SBSEVT" or row["nclass"] is None or nclsid not in keys:
            continue
        assert nclsid is not None
        if row["sbeact"] == "RST":
            for place, each in objects.items():
                if place[:3] == (*where[:2], nclsid):
                    each |= {"state": "deleted", "image_offset": None}
            continue
        name, fields = keys[nclsid]
        values = json.loads(row["nclass"])
        parts = [values.get(field) for field in fields]
        shown = [part if part is None or isinstance(part, str) else str(part) for part in parts]
        key = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
        found = objects.setdefault(
            (*where[:2], nclsid, key),
            {
                "source": row["source"],
                "stream": row["stream"],
                "nclsid": nclsid,
                "class": name,
                "key": key,
                "ts_ns": row["ts_ns"],
                "ts": time_of(row["ts_ns"]),
                "image": None,
                "state": "live",
                "image_offset": None,
                "events": 0,
                "deltas": 0,
            },
        )
        found["events"] += 1
        if row["sbeact"] == "DEL":
            found |= {"state": "deleted", "image_offset": None}
        elif row["sbeact"] == "DLT":
            base = {} if found["state"] == "deleted" else json.loads(found["image"] or "{}")
            found["deltas"] += 1
            found |= {"state": "live", "image": json.dumps(_merge(base, values))}
        else:
            place = row["frame_offset"]
            found |= {"state": "live", "image": row["nclass"], "image_offset": place}
        found |= {
            "updated_ns": row["ts_ns"],
            "updated_offset": row["frame_offset"],
            "tmstmp0": row["tmstmp0"],
            "tmstmp1": row["tmstmp1"],
        }
    holes = last_holes(tables)
    for found in objects.values():
        found["is_complete"] = found["image_offset"] is not None
        since = found["image_offset"] if found["is_complete"] else -1
        hole = holes.get((found["source"], found["stream"]))
        if found["state"] == "live" and hole is not None and hole[0] > since:
            found["state"] = "stale"
    return list(objects.values())


def _merge(base: Row, change: Row) -> Row:
    for name, value in change.items():
        nested = isinstance(value, dict) and isinstance(base.get(name), dict)
        base[name] = _merge(base[name], value) if nested else value
    return base
