"""`last_values`: the image of each subject, field by field.

Every step is a maximum over *places*: the last value of a field is the one furthest on in the
stream, the image starts at the last refresh, and so on. Maxima can be taken of parts first and then
of these, in any order. So Spark aggregates before it shuffles, a subject with a billion updates
does not overload one worker, yesterday's images and today's messages give today's images
(`compacted` of both), and rows that come late end up where they belong.

A partial value (a patch) needs those before it. But of two patches to the same bytes of a field
only the later one counts, and there are few such ranges: they are kept, and joined at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import Tables, conform, last_holes, micros, named
from wireloom.spark.derived.market import (
    BAD_STATUS,
    HEADER,
    SUBJECT_FIELDS,
    WRAPPERS,
    place_in_frame,
    with_subject,
)
from wireloom.tables import SOURCE, STREAM, Column, Table, spark_type
from wireloom.tables import table as base_table

__all__ = ["MAX_FIELD", "TABLE", "changes", "compacted", "images", "last_values"]

MAX_FIELD: Final = 1 << 16
"""Most bytes of a field made of patches, far more than a page has. A patch that ends beyond it is
not applied: a worker would allocate whatever somebody put on the wire."""

_FIELDS = base_table("fields")
_VALUES: Final = (
    "type",
    "value_int",
    "value_real",
    "value_decimal",
    "value_text",
    "value_binary",
    "value_date",
    "value_time",
    "value_ts_ns",
    "is_blank",
    "hint",
)

TABLE: Final = Table(
    "last_values",
    "one field of the image of one subject; an image without fields has one row",
    (
        SOURCE,
        STREAM,
        Column("subject", "name", "what the image is about"),
        Column("name", "name", "the field; null if the image has none. In a nested one: its path"),
        *(_FIELDS[name] for name in _VALUES),
        Column("is_patched", "bool", "the value was joined from partial ones"),
        Column("is_partial", "bool", "some bytes of it were never sent, and are blanks here"),
        Column("frame_offset", "i64", "where the value was last set in the stream"),
        Column("ts_ns", "i64", "when that was, nanoseconds since 1970 UTC"),
        Column("ts", "timestamp", "the same time as a timestamp, in microseconds"),
        Column("state", "kind", "of the image: live, stale or dropped"),
        Column(
            "stale_reason",
            "kind",
            "since its last refresh: gap: bytes were not captured; error: a frame could not be "
            "read; status: the sender says so",
        ),
        Column("is_complete", "bool", "the image starts with a refresh, and not with an update"),
        Column("refreshed_offset", "i64", "offset of its last refresh in the stream"),
        Column("refreshed_ns", "i64", "time of its last refresh"),
        Column("updated_offset", "i64", "offset of the last message about it in the stream"),
        Column("updated_ns", "i64", "time of the last message about it"),
        Column("rec_status", "i32", "the last status that was sent"),
        Column("messages", "i64", "messages about the subject so far"),
    ),
)

_IMAGE = ("subject", "stream", "source")


def changes(fields: DataFrame, subject_fields: Sequence[str] = SUBJECT_FIELDS) -> DataFrame:
    """What each field row does to an image.

    Rows that set no field (`name` is null) are those of a message's header, which say what the
    message does. A place is an offset in the stream, with its time.

    Args:
        fields: rows of `fields`.
        subject_fields: see `wireloom.spark.derived.market.SUBJECT_FIELDS`.
    """
    rows = with_subject(fields, subject_fields).where(sf.col("kind") != "ignored")
    kind = sf.col("kind")
    name = sf.coalesce(
        sf.col("name"),
        sf.concat(sf.lit("fid "), sf.col("fid")),
        sf.concat(sf.lit("#"), sf.col("position")),
    )
    start = sf.col("partial_offset")
    patch = sf.coalesce(sf.encode("value_text", "UTF-8"), sf.col("value_binary"))
    patch = sf.when(start.isNotNull(), patch)
    is_far = sf.coalesce((start < 0) | (start > MAX_FIELD - sf.length(patch)), sf.lit(False))
    applies = kind.isin("refresh", "update")
    sets = applies & ~name.isin(*HEADER, *WRAPPERS, *subject_fields)
    # The fields of a nested message have rows of their own.
    sets = sets & ~sf.col("type").isin("message", "array_msg") & ~is_far
    place = sf.struct("frame_offset", place_in_frame(sf.col("path")).alias("path"), "ts_ns")
    rows = rows.withColumns({"_place": place, "_sets": sets})

    place, sets = sf.col("_place"), sf.col("_sets")
    value = sf.struct(
        place.alias("place"), "position", patch.alias("patch"), sf.struct(*_VALUES).alias("value")
    )
    status = sf.struct(place.alias("place"), "rec_status")
    first = sf.col("is_first")  # once is enough
    return rows.select(
        *_IMAGE,
        sf.when(sets, sf.concat_ws(".", "within", name)).alias("name"),
        sf.when(sets, start).alias("patch_offset"),
        sf.when(sets, sf.length(patch)).alias("patch_length"),
        sf.when(sets, value).alias("last"),
        sf.when(first & (kind == "refresh"), place).alias("refreshed"),
        sf.when(first & (kind == "drop"), place).alias("dropped"),
        sf.when(first & applies, place).alias("applied"),
        sf.when(first, place).alias("begun"),
        sf.when(first, place).alias("updated"),
        sf.when(first & sf.col("rec_status").isNotNull(), status).alias("told"),
        sf.lit(0).cast("bigint").alias("known"),
        (first & sf.col("within").isNull()).cast("bigint").alias("new"),
    )


def compacted(rows: DataFrame) -> DataFrame:
    """The same images from fewer rows: `changes`, or what this made of them before, or both.

    What is known of an image as a whole is in each of its rows.
    """
    grouped = rows.groupBy("name", *_IMAGE, "patch_offset", "patch_length").agg(
        *(sf.max(name).alias(name) for name in ("last", *_LATEST)),
        sf.min("begun").alias("begun"),
        sf.max("known").alias("known"),
        sf.sum("new").alias("new"),
    )
    of_image = Window.partitionBy(*_IMAGE)
    of_field = Window.partitionBy(*_IMAGE, "name")
    is_whole = sf.col("patch_offset").isNull()
    wholes = grouped.withColumns(
        {
            **{name: sf.max(name).over(of_image) for name in _LATEST},
            "begun": sf.min("begun").over(of_image),
            "known": sf.max("known").over(of_image) + sf.sum("new").over(of_image),
            "new": sf.lit(0).cast("bigint"),
            "_whole": sf.max(sf.when(is_whole, sf.struct("last.place", "last.position"))).over(
                of_field
            ),
        }
    )
    place = sf.col("last.place")
    is_current = _or(place >= sf.col("refreshed"), True) & _or(place > sf.col("dropped"), True)
    is_over = _or(sf.struct("last.place", "last.position") < sf.col("_whole"), False)
    return wholes.where(sf.col("name").isNull() | (is_current & ~is_over)).drop("_whole")


_LATEST: Final = ("refreshed", "dropped", "applied", "updated", "told")
"""Places of an image for which the last one counts."""


def _or(condition: SparkColumn, default: bool) -> SparkColumn:
    """A condition, or what holds when a part of it is unknown."""
    return sf.coalesce(condition, sf.lit(default))


def images(rows: DataFrame, holes: DataFrame) -> DataFrame:
    """The table, from the result of `compacted` and the last holes of the streams."""
    whole = sf.when(sf.col("patch_offset").isNull(), sf.col("last"))
    patch = sf.struct(
        sf.col("last.place").alias("place"),
        sf.col("last.position").alias("position"),
        sf.col("patch_offset").alias("start"),
        sf.col("last.patch").alias("patch"),
        sf.col("last.value.type").alias("type"),
    )
    about = (*_LATEST, "begun", "known")
    # All rows of an image are on one worker already, and equal in these columns.
    fields = rows.groupBy(*_IMAGE, "name").agg(
        *(sf.first(name).alias(name) for name in about),
        sf.max(whole).alias("whole"),
        sf.array_sort(sf.collect_list(sf.when(sf.col("patch_offset").isNotNull(), patch))).alias(
            "patches"
        ),
    )
    count = sf.count("name").over(Window.partitionBy(*_IMAGE))
    fields = fields.withColumn("_count", count)
    fields = fields.where(sf.col("name").isNotNull() | (sf.col("_count") == 0))
    fields = _patched(fields).join(holes, ["source", "stream"], "left")

    refreshed = sf.when(_or(sf.col("refreshed") > sf.col("dropped"), True), sf.col("refreshed"))
    since = sf.coalesce(refreshed, sf.greatest(sf.col("begun"), sf.col("dropped")))
    is_dropped = sf.col("dropped").isNotNull() & _or(sf.col("dropped") > sf.col("applied"), True)
    is_bad = sf.col("told.rec_status").isin(*BAD_STATUS) & _or(
        sf.col("told.place") >= refreshed, True
    )
    reason = sf.when(sf.col("hole") > since["frame_offset"], sf.col("cause")).when(
        _or(is_bad, False), "status"
    )
    made = fields.withColumns(
        {
            "stale_reason": sf.when(~is_dropped, reason),
            "state": sf.when(is_dropped, "dropped")
            .when(reason.isNotNull(), "stale")
            .otherwise("live"),
            "is_complete": refreshed.isNotNull() & ~is_dropped,
            "refreshed_offset": refreshed["frame_offset"],
            "refreshed_ns": refreshed["ts_ns"],
            "updated_offset": sf.col("updated.frame_offset"),
            "updated_ns": sf.col("updated.ts_ns"),
            "rec_status": sf.col("told.rec_status"),
            "messages": sf.col("known"),
            "frame_offset": sf.col("set_at.frame_offset"),
            "ts_ns": sf.col("set_at.ts_ns"),
            "ts": micros(sf.col("set_at.ts_ns")),
        }
    )
    return conform(
        made.select("*", *(sf.col(f"value.{name}").alias(name) for name in _VALUES)), TABLE
    )


def _patched(fields: DataFrame) -> DataFrame:
    """Fields with `value`, joined if it came in pieces, and where it was last set."""
    base = sf.coalesce(
        sf.encode("whole.value.value_text", "UTF-8"),
        sf.col("whole.value.value_binary"),
        sf.lit(b""),
    )
    blank = sf.lit(b" ")

    def apply(so_far: SparkColumn, patch: SparkColumn) -> SparkColumn:
        size = sf.greatest(sf.length(so_far), patch["start"].cast("int"))
        wide = sf.rpad(so_far, size, blank)
        return sf.overlay(wide, patch["patch"], patch["start"].cast("int") + 1)

    def reach(so_far: SparkColumn, patch: SparkColumn) -> SparkColumn:
        end = patch["start"] + sf.length(patch["patch"])
        return sf.struct(
            sf.greatest(so_far["end"], end).alias("end"),
            (so_far["is_open"] | (patch["start"] > so_far["end"])).alias("is_open"),
        )

    data = sf.aggregate("patches", base, apply)
    by_start = sf.array_sort(
        sf.transform("patches", lambda patch: sf.struct(patch["start"], patch["patch"]))
    )
    covered = sf.aggregate(
        by_start,
        sf.struct(sf.length(base).cast("bigint").alias("end"), sf.lit(False).alias("is_open")),
        reach,
    )
    text = sf.when(sf.is_valid_utf8(sf.col("_data").cast("string")), sf.col("_data").cast("string"))
    is_patched = sf.array_size("patches") > 0
    last = sf.element_at("patches", -1)
    given = {name: sf.lit(None).cast(spark_type(_FIELDS[name].type)) for name in _VALUES}
    given |= {
        "type": sf.coalesce(sf.col("whole.value.type"), last["type"]),
        "value_text": text,
        "value_binary": sf.when(text.isNull(), sf.col("_data")),
        "is_blank": sf.lit(False),
        "hint": sf.col("whole.value.hint"),
    }
    put_together = sf.struct(*(given[name].alias(name) for name in _VALUES))
    return (
        fields.withColumn("is_patched", sf.when(sf.col("name").isNotNull(), is_patched))
        .withColumn("_data", sf.when(is_patched, data))
        .withColumns(
            {
                "is_partial": sf.when(sf.col("name").isNotNull(), is_patched & covered["is_open"]),
                "set_at": sf.when(is_patched, last["place"]).otherwise(sf.col("whole.place")),
                "value": sf.when(is_patched, put_together).otherwise(sf.col("whole.value")),
            }
        )
    )


def last_values(tables: Tables, *, subject_fields: Sequence[str] = SUBJECT_FIELDS) -> DataFrame:
    """Images of the subjects in `fields`; `gaps` and `errors`, if given, show what is stale.

    Args:
        tables: `fields`, and `gaps` and `errors` if they exist.
        subject_fields: see `wireloom.spark.derived.market.SUBJECT_FIELDS`.

    Raises:
        OptionError: a table is missing.
    """
    fields = named(tables, "fields")
    return images(compacted(changes(fields, subject_fields)), last_holes(tables, fields))
