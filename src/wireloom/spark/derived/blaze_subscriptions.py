"""`blaze_subscriptions`: the life of a subscription, from its request to its end.

The answer, the events and the end come in one direction, so their order is that of the stream's
bytes, whatever happened to the packets. Ids are reused: each accepting answer starts another life
of its SBSRID, and events before the first one belong to a life whose start was not captured.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import (
    Tables,
    connected,
    dialogue_table,
    dialogues,
    named,
    optional,
)
from wireloom.spark.derived.pairs import pair, placed
from wireloom.tables import Column

__all__ = ["TABLE", "blaze_subscriptions", "lived"]

TABLE: Final = dialogue_table(
    "blaze_subscriptions",
    "one subscription, or one request for it that was not granted",
    (
        Column("stream", "name", "the server's direction; null if it gave no answer"),
        Column("rqstid", "i64", "request id; null if the start was not captured"),
        Column("sbsrid", "i64", "subscription id; null if none was given"),
        Column("nclsid", "i32", "class of the objects"),
        Column("enctyp", "name", "encoding of the objects"),
        Column("sbstyp", "name", "snapshots or changes"),
        Column("sbsmod", "name", "stored objects, live ones or both"),
        Column("flotyp", "name", "every event, or the last one of each object"),
        Column("dwltyp", "name", "all stored objects, or those after a time"),
        Column(
            "outcome",
            "kind",
            "open: not ended in the capture; stopped: by the client; ended: by the server; "
            "disconnected; refused; unanswered",
        ),
        Column("blzcod", "name", "why it was refused or ended by the server"),
        Column("started_ns", "i64", "time of the server's answer"),
        Column("ended_ns", "i64", "time of the end"),
        Column("duration_ns", "i64", "from the answer to the end"),
        Column("events", "i64", "events with an object"),
        Column("live", "i64", "those of them that were live"),
        Column("downloaded", "i64", "those of them that were stored"),
        Column("event_bytes", "i64", "bytes of all events"),
        Column("first_event_ns", "i64", "time of the first event"),
        Column("last_event_ns", "i64", "time of the last event"),
        Column("download_ns", "i64", "from the answer to the end of the download"),
        Column("acked", "i64", "events with an acknowledgement of their own"),
        Column("ack_lag_mean_ns", "f64", "from an event to its acknowledgement, mean"),
        Column("ack_lag_max_ns", "i64", "from an event to its acknowledgement, longest"),
        Column("id_gaps", "i64", "times that an event's id was more than one above the last"),
        Column("ids_skipped", "i64", "ids left out there; other subscribers may have had them"),
        Column("holes", "i64", "holes in the server's stream during its life"),
        Column("missing_bytes", "i64", "bytes of these"),
    ),
)

_CONREQ, _DSCOND = 3, 5
_SBSREQ, _SBSRES, _SBSEVT, _SBSACK, _SBSTOP, _SBSSPR = range(8, 14)
_GRANTED = ("SBSOK", "SBSPART")
_ASKED = ("rqstid", "nclsid", "enctyp", "sbstyp", "sbsmod", "flotyp", "dwltyp")
_DATA_EVENTS = ("DATALIVE", "DATADWNL")


def _rows(packets: DataFrame, network: str | None) -> DataFrame:
    return connected(packets, network).select(
        *placed(sf.col("type_code")),
        *("connection", "frame_length"),
        *("type_code", "sbsrid", "sevttp", "sevtid", "sbeact", "sbresl", "blzcod", "nclass"),
        *("tmstmp0", "tmstmp1", *_ASKED),
    )


def _requests(rows: DataFrame) -> DataFrame:
    kind = sf.col("type_code")
    return pair(rows.where(kind.isin(_SBSREQ, _SBSRES)), ("rqstid", "connection"), kind == _SBSREQ)


def _is_granted() -> SparkColumn:
    granted = sf.col("response.sbresl").isin(*_GRANTED) & sf.col("response.sbsrid").isNotNull()
    return sf.coalesce(granted, sf.lit(False))


def _starts(requests: DataFrame) -> DataFrame:
    """The answers that grant a subscription, with what was asked for."""
    response = [f"response.{name}" for name in ("sbsrid", "source", "stream", "connection")]
    return requests.where(_is_granted()).select(
        *response,
        *(sf.col(f"response.{name}") for name in ("frame_offset", "ts_ns", "type_code")),
        sf.col("request.ts_ns").alias("asked_ns"),
        sf.col("response.rqstid").alias("rqstid"),
        *(sf.col(f"request.{name}").alias(name) for name in _ASKED if name != "rqstid"),
    )


def _numbered(rows: DataFrame) -> DataFrame:
    """Answers and events with the number of the life that they belong to."""
    over = Window.partitionBy("sbsrid", "stream", "source").orderBy("frame_offset")
    so_far = over.rowsBetween(Window.unboundedPreceding, 0)
    is_start = (sf.col("type_code") == _SBSRES).cast("int")
    return rows.withColumns(
        {"life": sf.sum(is_start).over(so_far), "last_id": sf.lag("sevtid").over(over)}
    )


def lived(packets: DataFrame, network: str | None = None) -> DataFrame:
    """Events with an object, each with the class that its subscription is for.

    An event whose subscription was not seen to start has no class.
    """
    rows = _rows(packets, network)
    events = rows.where(sf.col("sevttp").isin(*_DATA_EVENTS)).drop("nclsid", "enctyp")
    both = events.unionByName(_starts(_requests(rows)), allowMissingColumns=True)
    over = Window.partitionBy("sbsrid", "stream", "source").orderBy("frame_offset")
    so_far = over.rowsBetween(Window.unboundedPreceding, 0)
    # The class of this answer, which may be unknown, and not that of an earlier one.
    subscribed = sf.when(sf.col("type_code") == _SBSRES, sf.struct("nclsid"))
    return (
        both.withColumn("_class", sf.last(subscribed, ignorenulls=True).over(so_far))
        .where(sf.col("type_code") == _SBSEVT)
        .withColumn("nclsid", sf.col("_class.nclsid"))
        .drop("_class")
    )


def blaze_subscriptions(tables: Tables, *, network: str | None = None) -> DataFrame:
    """Subscriptions of `blaze`; `gaps`, if given, shows holes.

    Args:
        tables: `blaze`, and `gaps` if there is one.
        network: see `wireloom.spark.derived.common.connected`.

    Raises:
        OptionError: a table is missing.
    """
    packets = named(tables, "blaze")
    gaps = optional(tables, "gaps", packets)
    rows = _rows(packets, network)
    kind = sf.col("type_code")
    requests = _requests(rows)

    acked = pair(
        rows.where(kind.isin(_SBSEVT, _SBSACK)),
        ("sevtid", "sbsrid", "connection"),
        kind == _SBSEVT,
    )
    events = (
        acked.where(sf.col("request").isNotNull())
        .select(
            "request.*",
            sf.col("response.ts_ns").alias("acked_ns"),
            sf.lit(True).alias("is_event"),
            sf.col("response").isNotNull().alias("is_acked"),
        )
        .drop(*_ASKED)
    )
    stops = rows.where((kind == _SBSSPR) & sf.col("sbsrid").isNotNull()).drop(*_ASKED)
    starts = _starts(requests)
    all_rows = events.unionByName(stops, allowMissingColumns=True)
    lives = _summed(_numbered(all_rows.unionByName(starts, allowMissingColumns=True)))
    lives = _with_holes(_with_end(lives, rows), gaps)

    refused = requests.where(~_is_granted() & ~sf.col("is_repeated")).select(
        *(
            sf.coalesce(f"request.{name}", f"response.{name}").alias(name)
            for name in ("source", "connection", "ts_ns", "rqstid")
        ),
        *(sf.col(f"request.{name}").alias(name) for name in _ASKED if name != "rqstid"),
        sf.col("response.stream").alias("stream"),
        sf.when(sf.col("response").isNull(), "unanswered").otherwise("refused").alias("outcome"),
        sf.col("response.blzcod").alias("blzcod"),
        sf.col("response.ts_ns").alias("ended_ns"),
    )
    found = lives.unionByName(refused, allowMissingColumns=True)
    counts = (
        *("events", "live", "downloaded", "event_bytes", "acked", "id_gaps", "ids_skipped"),
        *("holes", "missing_bytes"),
    )
    found = found.withColumns({name: sf.coalesce(name, sf.lit(0)) for name in counts})
    is_half = sf.col("rqstid").isNull() | sf.col("outcome").isin("open", "unanswered")
    return dialogues(found, is_half, tables, network, TABLE)


def _summed(rows: DataFrame) -> DataFrame:
    """One row per life."""
    is_start, is_event = sf.col("type_code") == _SBSRES, sf.col("type_code") == _SBSEVT
    is_stop = (sf.col("type_code") == _SBSSPR) & (sf.col("sbresl") == "SBSOK")
    is_end = is_event & (sf.col("sevttp") == "STOP")
    is_data = sf.col("sevttp").isin(*_DATA_EVENTS)
    ts, at = sf.col("ts_ns"), sf.col("frame_offset")
    skipped = sf.col("sevtid") - sf.col("last_id") - 1
    lag = sf.col("acked_ns") - ts

    def count(condition: SparkColumn) -> SparkColumn:
        return sf.count(sf.when(condition, 1))

    lives = rows.groupBy("source", "stream", "sbsrid", "life").agg(
        sf.max("connection").alias("connection"),
        sf.min_by(sf.coalesce("asked_ns", "ts_ns"), at).alias("ts_ns"),
        *(sf.max(sf.when(is_start, sf.col(name))).alias(name) for name in _ASKED),
        sf.min(at).alias("first_offset"),
        sf.max(at).alias("last_offset"),
        sf.min(sf.when(is_start, ts)).alias("started_ns"),
        sf.max(is_start).alias("is_seen"),
        sf.max(is_stop).alias("is_stopped"),
        sf.min(sf.when(is_stop, ts)).alias("stopped_ns"),
        sf.max(is_end).alias("is_ended"),
        sf.min(sf.when(is_end, ts)).alias("cut_ns"),
        sf.min_by(sf.when(is_end, sf.col("blzcod")), sf.when(is_end, at)).alias("blzcod"),
        count(is_data).alias("events"),
        count(sf.col("sevttp") == "DATALIVE").alias("live"),
        count(sf.col("sevttp") == "DATADWNL").alias("downloaded"),
        sf.sum(sf.when(is_event, sf.col("frame_length"))).alias("event_bytes"),
        sf.min(sf.when(is_data, ts)).alias("first_event_ns"),
        sf.max(sf.when(is_data, ts)).alias("last_event_ns"),
        sf.min(sf.when(sf.col("sevttp") == "DWNLEND", ts)).alias("downloaded_ns"),
        count(sf.col("is_acked")).alias("acked"),
        sf.avg(lag).alias("ack_lag_mean_ns"),
        sf.max(lag).alias("ack_lag_max_ns"),
        count(skipped > 0).alias("id_gaps"),
        sf.sum(sf.when(skipped > 0, skipped)).alias("ids_skipped"),
    )
    return lives.withColumn("download_ns", sf.col("downloaded_ns") - sf.col("started_ns"))


def _with_end(lives: DataFrame, rows: DataFrame) -> DataFrame:
    """Lives with their outcome; the end of a connection ends those still open."""
    is_break = sf.col("type_code").isin(_CONREQ, _DSCOND) & sf.col("ts_ns").isNotNull()
    breaks = (
        rows.where(is_break).groupBy("connection").agg(sf.collect_set("ts_ns").alias("_breaks"))
    )
    begun = sf.coalesce("started_ns", "ts_ns")
    broken = sf.array_min(sf.filter("_breaks", lambda each: each > begun))
    joined = lives.join(breaks, "connection", "left").withColumn("_broken", broken)
    outcome = (
        sf.when(sf.col("is_ended"), "ended")
        .when(sf.col("is_stopped"), "stopped")
        .when(sf.col("_broken").isNotNull(), "disconnected")
        .otherwise("open")
    )
    ended = (
        sf.when(sf.col("is_ended"), sf.col("cut_ns"))
        .when(sf.col("is_stopped"), sf.col("stopped_ns"))
        .otherwise(sf.col("_broken"))
    )
    return joined.withColumns(
        {
            "outcome": outcome,
            "ended_ns": ended,
            "duration_ns": ended - sf.col("started_ns"),
        }
    ).drop("_breaks", "_broken")


def _with_holes(lives: DataFrame, gaps: DataFrame) -> DataFrame:
    """Lives with the holes in the server's stream between their first and last packet."""
    holes = gaps.groupBy("source", "stream").agg(
        sf.collect_list(sf.struct("offset", "length")).alias("_holes")
    )
    within = sf.filter(
        "_holes",
        lambda hole: (
            (hole["offset"] > sf.col("first_offset")) & (hole["offset"] < sf.col("last_offset"))
        ),
    )
    total = sf.aggregate(
        within, sf.lit(0).cast("bigint"), lambda so_far, hole: so_far + hole["length"]
    )
    return lives.join(holes, ["source", "stream"], "left").withColumns(
        {"holes": sf.array_size(within), "missing_bytes": total}
    )
