"""`blaze_objects`: what a subscriber holds, object by object.

An event with INS or UPD is a whole image, DLT changes what it names and leaves the rest, DEL ends
the object, and RST ends all objects of its class, as in Wireloom's broker. The order is that of the
stream's bytes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from wireloom.errors import OptionError
from wireloom.formats.blaze import Model
from wireloom.formats.blaze.blz import from_blz
from wireloom.spark.derived.blaze_subscriptions import lived
from wireloom.spark.derived.common import TIME, Tables, conform, last_holes, micros, named
from wireloom.spark.derived.fold import fold
from wireloom.tables import SOURCE, STREAM, Column, Table

__all__ = ["TABLE", "blaze_objects"]

TABLE: Final = Table(
    "blaze_objects",
    "one object, as the events of one stream left it",
    (
        SOURCE,
        STREAM,
        Column("nclsid", "i32", "its class"),
        Column("class", "name", "name of the class"),
        Column("key", "text", "values of its primary key, a JSON array"),
        *TIME,
        Column("image", "text", "its values in JSON, those at the end if it was deleted"),
        Column("state", "kind", "live; stale: holes since its last whole image; deleted"),
        Column("is_complete", "bool", "a whole image was seen, and not only changes"),
        Column("updated_ns", "i64", "time of its last event"),
        Column("updated_offset", "i64", "offset of that event in the stream"),
        Column("image_offset", "i64", "offset of its last whole image in the stream"),
        Column("tmstmp0", "i64", "version: Unix seconds of its last change"),
        Column("tmstmp1", "i64", "version: counter inside that second"),
        Column("events", "i64", "number of its events"),
        Column("deltas", "i64", "those of them that were changes only"),
    ),
)

_KEYS = ("source", "stream", "nclsid", "key")
_FOLDED: Final = Table(
    "folded",
    "one object as the fold leaves it",
    (
        *(each for each in TABLE.columns if each.name not in ("class", "ts", "state")),
        Column("is_deleted", "bool", "its last event ended it"),
    ),
)
_DELETES = ("DEL", "REMOVE")
_DELTA = "DLT"
_RESETS = ("RST", "RESET")
RESETS: Final = ("class", "object")
"""What a reset does: it ends all objects of its class, or it is the image of its own."""


class _Object:
    """An object while its events are applied."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._values: Any = None  # the text's, once a change needs them
        self._is_deleted = False
        self._resets = 0
        self._image_offset: int | None = None
        self._first_ns: int | None = None
        self._events = self._deltas = 0
        self._last: dict[str, Any] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Apply an event."""
        self._events += 1
        self._last = row
        if self._events == 1:
            self._first_ns = row["ts_ns"]
        elif row["resets"] != self._resets:
            self._is_deleted, self._image_offset = True, None
        self._resets = row["resets"]
        if row["sbeact"] in _DELETES:
            self._is_deleted = True
            self._image_offset = None
            return
        if row["sbeact"] != _DELTA:
            self._text, self._values = row["nclass"], None
            self._image_offset = row["frame_offset"]
        else:
            self._deltas += 1
            change = json.loads(row["nclass"])
            if self._is_deleted or self._text is None:
                base = {}
            elif self._values is None:
                base = json.loads(self._text)
            else:
                base = self._values
            self._values = merged(base, change)
            self._text = ""
        self._is_deleted = False

    def result(self) -> dict[str, Any]:
        """Its row."""
        last = self._last
        return {
            "ts_ns": self._first_ns,
            "image": self._text if self._values is None else json.dumps(self._values),
            "is_complete": self._image_offset is not None,
            "updated_ns": last["ts_ns"],
            "updated_offset": last["frame_offset"],
            "image_offset": self._image_offset,
            "tmstmp0": last["tmstmp0"],
            "tmstmp1": last["tmstmp1"],
            "events": self._events,
            "deltas": self._deltas,
            "is_deleted": self._is_deleted,
        }


def merged(base: Any, change: Any) -> Any:
    """A value with a change applied, object by object; arrays are objects with numbers as keys."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    made = dict(base)
    for name, value in change.items():
        made[name] = merged(made.get(name), value)
    return made


def blaze_objects(
    tables: Tables, *, model: Model | str, network: str | None = None, reset: str = "class"
) -> DataFrame:
    """Objects of `blaze` with decoded bodies; `gaps` and `errors`, if given, show holes.

    Args:
        tables: `blaze`, and `gaps` and `errors` if they exist.
        model: the model, or its text; it says what an object's key is. Objects of classes without
            a primary key cannot be told apart and are left out.
        network: see `wireloom.spark.derived.common.connected`.
        reset: what RST does: it ends all objects of its class (``"class"``), or it is the image of
            its own (``"object"``), for brokers that use it so.

    Raises:
        OptionError: a table is missing, the model has no class with a primary key, or `reset` is
            neither of the two.
        SourceError: the model's text has an error.
    """
    if reset not in RESETS:
        raise OptionError(f"reset is {' or '.join(RESETS)}, not {reset!r}")
    declared = model if isinstance(model, Model) else from_blz(model)
    classes = [each for each in declared.nclasses if each.primary_key is not None]
    if not classes:
        raise OptionError("no class of the model has a primary key")
    packets = named(tables, "blaze")
    events = lived(packets, network).where(sf.col("nclass").isNotNull())
    key, title = sf.lit(None).cast("string"), sf.lit(None).cast("string")
    for each in classes:
        assert each.primary_key is not None
        parts = [sf.get_json_object("nclass", f"$['{name}']") for name in each.primary_key.fields]
        is_one = sf.col("nclsid") == each.id
        key = sf.when(is_one, sf.to_json(sf.array(*parts))).otherwise(key)
        title = sf.when(is_one, sf.lit(each.name)).otherwise(title)
    rows = events.withColumn("key", key).where(sf.col("key").isNotNull())
    scope = ("source", "stream", "nclsid")
    is_reset = sf.col("sbeact").isin(*_RESETS) if reset == "class" else sf.lit(False)
    over = Window.partitionBy(*scope).orderBy("frame_offset")
    so_far = over.rowsBetween(Window.unboundedPreceding, 0)
    cleared = rows.where(is_reset).groupBy(*scope).agg(sf.max("frame_offset").alias("cleared"))
    rows = rows.withColumn("resets", sf.count(sf.when(is_reset, 1)).over(so_far)).where(~is_reset)
    rows = rows.select(
        *_KEYS, "frame_offset", "ts_ns", "sbeact", "nclass", "tmstmp0", "tmstmp1", "resets"
    )
    objects = fold(rows, _KEYS, ("frame_offset",), _Object, _FOLDED)

    holes = last_holes(tables, packets)
    joined = objects.join(cleared, list(scope), "left")
    is_cleared = sf.coalesce(sf.col("cleared") > sf.col("updated_offset"), sf.lit(False))
    whole = sf.when(~is_cleared, sf.col("image_offset"))
    joined = joined.withColumns(
        {
            "is_deleted": sf.col("is_deleted") | is_cleared,
            "image_offset": whole,
            "is_complete": whole.isNotNull(),
        }
    ).join(holes, ["source", "stream"], "left")
    since = sf.coalesce("image_offset", sf.lit(-1))
    state = (
        sf.when(sf.col("is_deleted"), "deleted")
        .when(sf.col("hole") > since, "stale")
        .otherwise("live")
    )
    return conform(
        joined.withColumns({"class": title, "ts": micros(sf.col("ts_ns")), "state": state}), TABLE
    )
