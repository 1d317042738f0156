"""`nrep_sockets`: one end of a relayed socket, from its opening to its close.

A socket has two ends, the requester's and the receiver's, each on a connection of its own to the
entry point; both have the same id there. One end is one row, so that a capture of one client is
as useful as one of the entry point; with both, join them by `socket_id`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import Tables, connected, dialogue_table, dialogues, named
from wireloom.spark.derived.pairs import ORDER, pair, placed
from wireloom.tables import Column

__all__ = ["TABLE", "nrep_sockets"]

TABLE: Final = dialogue_table(
    "nrep_sockets",
    "one end of a virtual socket, or one attempt to open it",
    (
        Column("socket_id", "text", "the socket; null if the entry point named none"),
        Column("role", "kind", "requester or receiver; null if its opening was not captured"),
        Column("instance_id", "text", "the instance that was asked for"),
        Column("client", "name", "address of the end; null for raw captures"),
        Column("broker", "name", "address of the entry point; null for raw captures"),
        Column(
            "outcome",
            "kind",
            "closed; open: not closed in the capture; pending: not accepted either; refused; "
            "no_instance; unanswered: nothing came back",
        ),
        Column("accepted_ns", "i64", "when the end could send: READY, or the receiver's ACCEPT"),
        Column("closed_ns", "i64", "time of the first CLOSE, or of the REFUSE"),
        Column("closed_by", "kind", "client or broker; null for raw captures"),
        Column("setup_ns", "i64", "from the opening to `accepted_ns`"),
        Column("duration_ns", "i64", "from the opening to `closed_ns`"),
        Column("sent_bytes", "i64", "data bytes from the client; null for raw captures"),
        Column("received_bytes", "i64", "data bytes to the client; null for raw captures"),
        Column("data_bytes", "i64", "data bytes in both directions"),
        Column("data_packets", "i64", "data packets in both directions"),
    ),
)

_HELLO, _PUBLISH, _PUBLISH_REPLY, _FIND, _FOUND, _OPEN, _CONTROL, _DATA = range(3, 11)
_OPEN_ACK, _OFFER, _ACCEPT, _REFUSE, _READY, _CLOSE = 0x80, 0x40, 0x20, 0x10, 0x08, 0x04
_ZERO = "0" * 20
"""The id in the answer for an instance that does not exist."""


def _has(flags: int) -> SparkColumn:
    """Whether a row is a control packet with one of these flags."""
    control = sf.col("type_code") == _CONTROL
    return control & (sf.col("flags").bitwiseAND(flags) != 0)


def _brokers(rows: DataFrame) -> DataFrame:
    """Which end of each connection is the entry point, known by packets that only it sends."""
    kind = sf.col("type_code")
    by_broker = kind.isin(_HELLO, _PUBLISH_REPLY, _FOUND) | _has(_OPEN_ACK | _OFFER | _READY)
    by_client = kind.isin(_PUBLISH, _FIND, _OPEN) | _has(_ACCEPT | _REFUSE)
    end = sf.when(by_broker, sf.col("sender")).when(by_client, sf.col("receiver"))
    return rows.where(end.isNotNull()).groupBy("connection").agg(sf.max(end).alias("broker"))


def nrep_sockets(tables: Tables, *, network: str | None = None) -> DataFrame:
    """Sockets of `nrep`; `gaps`, if given, shows holes.

    Args:
        tables: `nrep`, and `gaps` if there is one.
        network: see `wireloom.spark.derived.common.connected`.

    Raises:
        OptionError: a table is missing.
    """
    packets = named(tables, "nrep")
    kind = sf.col("type_code")
    rows = connected(packets, network).select(
        # At one nanosecond: the request, then what is said about the socket, then its data.
        *placed(kind),
        *("connection", "sender", "receiver"),
        *("type_code", "nonce", "socket_id", "instance_id", "flags"),
        sf.length("data").cast("bigint").alias("size"),
    )
    rows = rows.join(_brokers(rows), "connection", "left")
    rows = rows.where(kind.isin(_OPEN, _CONTROL, _DATA))

    opening = rows.where((kind == _OPEN) | _has(_OPEN_ACK))
    asked = pair(opening, ("nonce", "connection"), kind == _OPEN)
    is_named = sf.coalesce(sf.col("response.socket_id") != _ZERO, sf.lit(False))
    starts = asked.where(is_named).select(
        "response.*",
        sf.col("request.ts_ns").alias("asked_ns"),
        sf.col("request.instance_id").alias("asked_for"),
    )
    others = rows.where((kind != _OPEN) & ~_has(_OPEN_ACK))
    nothing = {"asked_ns": sf.lit(None).cast("bigint"), "asked_for": sf.lit(None).cast("string")}
    found = _lives(starts.unionByName(others.withColumns(nothing)))
    found = found.unionByName(_attempts(asked.where(~is_named)), allowMissingColumns=True)

    ended = sf.coalesce("closed_ns", "refused_ns")
    result = found.withColumns(
        {
            "closed_ns": ended,
            "setup_ns": sf.col("accepted_ns") - sf.col("ts_ns"),
            "duration_ns": ended - sf.col("ts_ns"),
            "data_bytes": sf.coalesce("data_bytes", sf.lit(0)),
            "data_packets": sf.coalesce("data_packets", sf.lit(0)),
        }
    )
    is_half = sf.col("role").isNull() | sf.col("outcome").isin("open", "pending", "unanswered")
    return dialogues(result, is_half, tables, network, TABLE)


def _lives(rows: DataFrame) -> DataFrame:
    """One row per opening of an id; what precedes the first one is of an opening not captured."""
    over = Window.partitionBy("socket_id", "connection").orderBy(*ORDER)
    so_far = over.rowsBetween(Window.unboundedPreceding, 0)
    is_start = _has(_OPEN_ACK | _OFFER)
    rows = rows.withColumn("life", sf.sum(is_start.cast("int")).over(so_far))

    place = sf.struct(*ORDER)
    is_closing = _has(_CLOSE)
    is_refusing = _has(_REFUSE) & ~is_closing
    is_accepting = _has(_ACCEPT | _READY) & ~is_closing & ~_has(_REFUSE)
    closing = sf.when(is_closing, place)
    is_from_broker = sf.col("sender") == sf.col("broker")
    size = sf.coalesce("size", sf.lit(0))
    lives = rows.groupBy("connection", "socket_id", "life").agg(
        sf.min_by("source", place).alias("source"),
        sf.min_by(sf.coalesce("asked_ns", "ts_ns"), place).alias("ts_ns"),
        sf.when(sf.max(_has(_OPEN_ACK)), "requester")
        .when(sf.max(_has(_OFFER)), "receiver")
        .alias("role"),
        sf.max(sf.coalesce("asked_for", "instance_id")).alias("instance_id"),
        sf.max(sf.when(is_from_broker, sf.col("receiver")).otherwise(sf.col("sender"))).alias(
            "client"
        ),
        sf.max("broker").alias("broker"),
        sf.max(is_accepting).alias("is_accepted"),
        sf.max(is_refusing).alias("is_refused"),
        sf.max(is_closing).alias("is_closed"),
        sf.min(sf.when(is_accepting, sf.col("ts_ns"))).alias("accepted_ns"),
        sf.min(sf.when(is_refusing, sf.col("ts_ns"))).alias("refused_ns"),
        sf.min(closing)["ts_ns"].alias("closed_ns"),
        sf.min_by(sf.when(is_from_broker, "broker").when(~is_from_broker, "client"), closing).alias(
            "closed_by"
        ),
        sf.sum(sf.when(~is_from_broker, size).when(is_from_broker, 0)).alias("sent_bytes"),
        sf.sum(sf.when(is_from_broker, size).when(~is_from_broker, 0)).alias("received_bytes"),
        sf.sum("size").alias("data_bytes"),
        sf.count("size").alias("data_packets"),
    )
    # An end that is not told that the socket is ready before it is closed was refused.
    is_unseen = sf.col("life") == 0
    outcome = (
        sf.when(sf.col("is_closed") & (sf.col("is_accepted") | is_unseen), "closed")
        .when(sf.col("is_closed") | sf.col("is_refused"), "refused")
        .when(sf.col("is_accepted") | is_unseen, "open")
        .otherwise("pending")
    )
    return lives.withColumn("outcome", outcome)


def _attempts(asked: DataFrame) -> DataFrame:
    """Openings that gave no socket: there was no such instance, or no answer."""
    request, response = sf.col("request"), sf.col("response")
    either = sf.coalesce(request, response)
    is_from_broker = either["sender"] == either["broker"]
    client = sf.when(is_from_broker, either["receiver"]).otherwise(either["sender"])
    answered = response.isNotNull()
    return asked.select(
        *(either[name].alias(name) for name in ("connection", "source", "ts_ns", "broker")),
        sf.lit("requester").alias("role"),
        request["instance_id"].alias("instance_id"),
        client.alias("client"),
        sf.when(answered, "no_instance").otherwise("unanswered").alias("outcome"),
        response["ts_ns"].alias("closed_ns"),
        sf.when(answered & either["broker"].isNotNull(), "broker").alias("closed_by"),
    )
