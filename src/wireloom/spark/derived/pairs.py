"""Requests and their answers, matched with window functions: no join, no state but the sort's.

An answer belongs to the newest request before it, of the same key, that is still open. This
rule survives incomplete captures: when an answer was lost, or an id is reused, the next answer
still finds its own request, and at most one row is wrong, not all that follow.

Requests and answers are like brackets. The balance of a key goes up at a request and down at an
answer, and an answer that would bring it below zero has no request. Between a request and its
answer the balance never falls below the level of the request; so, among the rows of one key and
one level, a request's answer is simply the next row.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["ORDER", "outcome", "pair", "placed"]

ORDER = ("ts_ns", "tie", "source", "stream", "frame_offset")
"""The order of packets. `tie` decides between the two directions at the same nanosecond, and is
the same for all rows without a time: these are in the order of their stream."""


def placed(tie: Column) -> tuple[Column, ...]:
    """The columns of `ORDER`, for rows that have all of them except `tie`."""
    timed = sf.when(sf.col("ts_ns").isNotNull(), tie).alias("tie")
    return tuple(timed if name == "tie" else sf.col(name) for name in ORDER)


def pair(rows: DataFrame, keys: Sequence[str], is_request: Column) -> DataFrame:
    """Dialogues: one row for each request, and one for each answer without a request.

    Args:
        rows: requests and answers, with the columns of `ORDER`.
        keys: columns that are equal in a request and its answer; Spark sorts by the first of them
            first, so put one with many values in front.
        is_request: which of the two a row is.

    Returns:
        `request` and `response`, structs of the columns of `rows`, of which one may be null, and
        `is_repeated`: the answer has no open request, but an earlier one of that key.
    """
    own = list(rows.columns)
    over = Window.partitionBy(*keys).orderBy(*ORDER)
    before = over.rowsBetween(Window.unboundedPreceding, -1)
    opened = (
        rows.withColumn("_asks", is_request)
        .withColumn("_step", sf.when(sf.col("_asks"), 1).otherwise(-1))
        .withColumn(
            "_balance", sf.sum("_step").over(over.rowsBetween(Window.unboundedPreceding, 0))
        )
        # The balance never goes below zero: how far it would have gone is added back.
        .withColumn("_floor", sf.least(sf.lit(0), sf.min("_balance").over(before)))
        .withColumn("_was_asked", sf.coalesce(sf.max("_asks").over(before), sf.lit(False)))
        .withColumn(
            "_level", sf.col("_balance") - sf.col("_floor") + (~sf.col("_asks")).cast("int")
        )
        .withColumn("_row", sf.struct(*own))
        .select(*keys, *ORDER, "_asks", "_was_asked", "_level", "_row")
    )
    following = Window.partitionBy(*keys, "_level").orderBy(*ORDER)
    answer = sf.lead("_row").over(following)
    is_answered = ~sf.lead("_asks", 1, True).over(following)
    paired = opened.withColumn("_answer", sf.when(is_answered, answer))
    asks = sf.col("_asks")
    return paired.where(asks | (sf.col("_level") == 0)).select(
        sf.when(asks, sf.col("_row")).alias("request"),
        sf.when(asks, sf.col("_answer")).otherwise(sf.col("_row")).alias("response"),
        (~asks & sf.col("_was_asked")).alias("is_repeated"),
    )


def outcome(answered: Column) -> Column:
    """The column `outcome` of what `pair` found; `answered` is that of a whole dialogue."""
    return (
        sf.when(sf.col("is_repeated"), "repeated")
        .when(sf.col("request").isNull(), "unrequested")
        .when(sf.col("response").isNull(), "unanswered")
        .otherwise(answered)
        .alias("outcome")
    )
