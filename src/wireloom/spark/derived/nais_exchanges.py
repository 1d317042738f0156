"""`nais_exchanges`: a packet to a board and the Ack that answers it.

An Ack names the TYPE that it answers and, if the board supports it, the request's `seq`. On a line
to a board the junction has stamped requests with the client's session, which the Ack's DLINE
repeats; on a client's own line nothing is stamped, and only the connection says who is meant.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import Tables, connected, dialogue_table, dialogues, named
from wireloom.spark.derived.pairs import outcome, pair, placed
from wireloom.tables import Column

__all__ = ["TABLE", "nais_exchanges"]

TABLE: Final = dialogue_table(
    "nais_exchanges",
    "one request to a board and its Ack, or one of them alone",
    (
        Column("type_code", "i32", "TYPE of the request; of an Ack alone: the one it names"),
        Column("type_name", "name", "what the request is called"),
        Column("message_name", "name", "full name of the message in the request"),
        Column("session", "i32", "the client's session on a board's line; 0 on a client's"),
        Column("dline", "i32", "session the request is for; 0 is everyone"),
        Column("seq", "i64", "sequence number of the request, or of an Ack alone"),
        Column(
            "outcome",
            "kind",
            "acked; unanswered: no Ack; unrequested: no request; repeated: a further Ack, as "
            "several boards give to a request for everyone",
        ),
        Column("status", "i64", "status of the Ack; a missing one means success"),
        Column("latency_ns", "i64", "from the request to the Ack"),
        Column("acked_ns", "i64", "time of the Ack"),
        Column("request_offset", "i64", "offset of the request in its stream"),
        Column("ack_offset", "i64", "offset of the Ack in its stream"),
    ),
)

_NONE, _ACK, _EVENT = 0, 3, 6


def _number(path: str) -> SparkColumn:
    return sf.get_json_object("message", path).try_cast("bigint")


def _asked(packets: DataFrame, network: str | None) -> DataFrame:
    """Requests and Acks, with what they have in common: `session` and `about`."""
    is_ack = sf.col("type_code") == _ACK
    rows = (
        connected(packets, network)
        .where(~sf.col("type_code").isin(_NONE, _EVENT))
        .select(
            *placed(is_ack.cast("int")),
            *("connection", "sender", "type_code", "type_name", "message_name", "sline", "dline"),
            is_ack.alias("is_ack"),
            _number("$.seq").alias("seq"),
            sf.when(is_ack, _number("$.id")).otherwise(sf.col("type_code")).alias("about"),
            sf.when(is_ack, _number("$.status")).alias("status"),
        )
    )
    # A sender of Acks answers and does not ask: its other packets are not requests.
    answering = (
        rows.where(sf.col("is_ack") & sf.col("sender").isNotNull())
        .select("source", "stream", sf.lit(True).alias("_answers"))
        .distinct()
    )
    rows = rows.join(answering, ["source", "stream"], "left").where(
        sf.col("is_ack") | sf.col("_answers").isNull()
    )
    stamped = (
        rows.where(~sf.col("is_ack") & (sf.col("sline") != 0))
        .select("connection", sf.lit(True).alias("_stamped"))
        .distinct()
    )
    rows = rows.join(stamped, "connection", "left")
    session = sf.when(sf.col("is_ack"), sf.col("dline")).otherwise(sf.col("sline"))
    return rows.withColumn(
        "session", sf.when(sf.col("_stamped"), session).otherwise(sf.lit(0))
    ).drop("_answers", "_stamped", "sender")


def nais_exchanges(tables: Tables, *, network: str | None = None) -> DataFrame:
    """Exchanges of `nais`; `gaps`, if given, shows holes.

    Acks that carry a `seq` are matched first, with the request of that `seq`; then those that carry
    none, with the requests that are left.

    Args:
        tables: `nais`, and `gaps` if there is one.
        network: see `wireloom.spark.derived.common.connected`.

    Raises:
        OptionError: a table is missing.
    """
    packets = named(tables, "nais")
    rows = _asked(packets, network)
    keys = ("about", "session", "connection")
    asks = ~sf.col("is_ack")
    numbered = pair(rows.where(sf.col("seq").isNotNull()), ("seq", *keys), asks)
    is_open = sf.col("response").isNull()
    left = numbered.where(is_open).select("request.*")
    plain = pair(rows.where(sf.col("seq").isNull()).unionByName(left), keys, asks)
    pairs = numbered.where(~is_open).unionByName(plain)

    request, response = sf.col("request"), sf.col("response")
    either = sf.coalesce(request, response)
    found = pairs.select(
        *(either[name].alias(name) for name in ("source", "connection", "ts_ns")),
        either["about"].alias("type_code"),
        *(request[name].alias(name) for name in ("type_name", "message_name")),
        either["session"].alias("session"),
        request["dline"].alias("dline"),
        either["seq"].alias("seq"),
        outcome(sf.lit("acked")),
        response["status"].alias("status"),
        (response["ts_ns"] - request["ts_ns"]).alias("latency_ns"),
        response["ts_ns"].alias("acked_ns"),
        request["frame_offset"].alias("request_offset"),
        response["frame_offset"].alias("ack_offset"),
    )
    is_half = sf.col("outcome") != "acked"
    return dialogues(found, is_half, tables, network, TABLE)
