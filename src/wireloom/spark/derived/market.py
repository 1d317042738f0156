"""Fields → messages about a subject: who a message is about, and what it does to its image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

__all__ = [
    "BAD_STATUS",
    "DROPS",
    "FRAME",
    "HEADER",
    "IGNORED",
    "MESSAGE",
    "REFRESHES",
    "STATUS",
    "SUBJECT_FIELDS",
    "TRADES",
    "WRAPPERS",
    "place_in_frame",
    "with_subject",
]

SUBJECT_FIELDS: Final = ("SUBJECT", "SYMBOL", "RIC")
"""Fields that may name the subject of a message; the first one present does."""

HEADER: Final = ("MSG_TYPE", "REC_TYPE", "SEQ_NO", "REC_STATUS")
"""Fields about the message, not about its subject."""

WRAPPERS: Final = ("_data_", "_TIBMSG", "_RAIMSG", "_QFORM")
"""Opaque fields that hold a message, which has rows of its own."""

# Values of MSG_TYPE. Those not named here, and none at all, are updates.
REFRESHES: Final = (8, 12, 13, 24, 26)
"""INITIAL, SUBREINIT, SNAPSHOT, INITIAL_PASS_THRU, INITIAL_AGGREGATE: the image starts over."""
DROPS: Final = (4, 7, 11)
"""DROP, CANCEL, DELETE: the image ends."""
STATUS: Final = (6,)
"""STATUS: only REC_STATUS changes."""
IGNORED: Final = (9, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
"""TRANSIENT, which is not to be kept, and messages about edits, services and groups."""

TRADES: Final = (1, 25, 27)
"""UPDATE, UPDATE_PASS_THRU, UPDATE_AGGREGATE: something has just happened."""

BAD_STATUS: Final = (*range(1, 31), 66, 67, 74)
"""Values of REC_STATUS for which the image cannot be trusted."""

FRAME: Final = ("frame_offset", "stream", "source")
"""What identifies a frame. Spark sorts in this order, and it is faster to compare numbers that
differ than names that do not."""
MESSAGE: Final = (*FRAME, "path")
"""What identifies a message."""


def place_in_frame(path: Column) -> Column:
    """A text that orders the messages of one frame: numbers in the path by value."""
    padded = sf.regexp_replace(path, r"(\d+)", "00000000$1")
    return sf.when(path == "", path).otherwise(sf.regexp_replace(padded, r"0*(\d{9})(?!\d)", "$1"))


def with_subject(fields: DataFrame, subject_fields: Sequence[str] = SUBJECT_FIELDS) -> DataFrame:
    """Field rows with the properties of their message; those without a subject are left out.

    A message that names no subject has that of the message around it: a TibMsg in a Rendezvous
    message may, and fields of a message in a field do.

    Adds `subject`, `msg_type`, `rec_status`, `kind` (refresh, update, drop, status or ignored),
    `within` (for fields of a message in a field, its path in the message that names the subject),
    and `is_first`, which is true for one row of each message.
    """
    name = sf.col("name")
    of_message = Window.partitionBy(*MESSAGE)
    # Sorted like the other window, so without another shuffle or sort.
    of_frame = Window.partitionBy(*FRAME).orderBy("path")
    of_frame = of_frame.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

    def header(field: str, column: str) -> Column:
        return sf.max(sf.when(name == field, sf.col(column))).over(of_message)

    rows = fields.repartition(*FRAME).withColumns(
        {
            "_named": sf.coalesce(*(header(each, "value_text") for each in subject_fields)),
            "msg_type": header("MSG_TYPE", "value_int"),
            "rec_status": header("REC_STATUS", "value_int"),
            "is_first": sf.col("position") == sf.min("position").over(of_message),
        }
    )
    says = name.isin(*subject_fields) & sf.col("_named").isNotNull()
    speaker = sf.struct(sf.length("path").alias("depth"), "path", "_named", "msg_type")
    speakers = sf.collect_set(sf.when(says, speaker)).over(of_frame)
    rows = rows.withColumn("_speakers", sf.when(sf.col("_named").isNull(), speakers))

    def is_around(each: Column) -> Column:
        path = sf.col("path")
        return (
            (each["path"] == "")
            | path.startswith(sf.concat(each["path"], sf.lit(".")))
            | path.startswith(sf.concat(each["path"], sf.lit("[")))
        )

    rows = rows.withColumn("_outer", sf.array_max(sf.filter("_speakers", is_around)))
    own, outer = _kind(sf.col("msg_type")), _kind(sf.col("_outer.msg_type"))
    # The message around it starts over, and has done so already.
    inherited = sf.when(outer == "refresh", "update").otherwise(outer)
    is_own = sf.col("_named").isNotNull() | sf.col("msg_type").isNotNull()
    return (
        rows.withColumns(
            {
                "subject": sf.coalesce("_named", "_outer._named"),
                "kind": sf.when(is_own, own).otherwise(inherited),
                "within": sf.when(sf.col("_named").isNull(), _within()),
            }
        )
        .drop("_named", "_speakers", "_outer")
        .where(sf.col("subject").isNotNull())
    )


def _kind(msg_type: Column) -> Column:
    return (
        sf.when(msg_type.isin(*REFRESHES), "refresh")
        .when(msg_type.isin(*DROPS), "drop")
        .when(msg_type.isin(*STATUS), "status")
        .when(msg_type.isin(*IGNORED), "ignored")
        .otherwise("update")
    )


def _within() -> Column:
    """The path below the message that names the subject, without the fields that only wrap."""
    below = sf.expr("substring(path, _outer.depth + 1)")
    wrappers = "|".join(WRAPPERS)
    steps = sf.regexp_replace(below, rf"(^|\.)({wrappers})(\[\d+\])?(?=\.|$)", "")
    return sf.nullif(sf.regexp_replace(steps, r"^\.", ""), sf.lit(""))
