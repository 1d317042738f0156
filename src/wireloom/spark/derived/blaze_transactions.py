"""`blaze_transactions`: a request and its response."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import (
    CONNECTION,
    DOUBTFUL,
    SOURCE,
    TIME,
    Tables,
    conform,
    connected,
    micros,
    named,
    optional,
    with_doubt,
)
from wireloom.spark.derived.pairs import pair
from wireloom.tables import Column, Table

__all__ = ["TABLE", "blaze_transactions"]

_ID = ("txplid", "txsvid", "txcnid", "txprid")

TABLE: Final = Table(
    "blaze_transactions",
    "one transaction: its request, its response, or both",
    (
        SOURCE,
        CONNECTION,
        *TIME,
        Column("txplid", "i64", "transaction id: platform"),
        Column("txsvid", "i64", "transaction id: service"),
        Column("txcnid", "i64", "transaction id: connection"),
        Column("txprid", "i64", "transaction id: progressive number"),
        Column("txtype", "name", "what is asked for"),
        Column("txactn", "name", "what is to be done with the object"),
        Column("nclsid", "i32", "class of the object"),
        Column("object", "text", "the object in JSON, when a model was given"),
        Column(
            "outcome",
            "kind",
            "ok, ko; unanswered: no response; unrequested: no request; repeated: another response",
        ),
        Column("txresl", "name", "result, as the response has it"),
        Column("blzcod", "name", "cause"),
        Column("result", "text", "the result's object in JSON, when a model was given"),
        Column("latency_ns", "i64", "from the request to the response"),
        Column("responded_ns", "i64", "time of the response"),
        Column("request_offset", "i64", "where the request stands in its stream"),
        Column("response_offset", "i64", "where the response stands in its stream"),
        Column("request_bytes", "i64", "bytes of the request"),
        Column("response_bytes", "i64", "bytes of the response"),
        DOUBTFUL,
    ),
)

_REQUEST, _RESPONSE = 6, 7


def blaze_transactions(tables: Tables, *, network: str | None = None) -> DataFrame:
    """Transactions of `blaze`; holes are told by `gaps`, if it is given.

    Args:
        tables: `blaze`, and `gaps` if there is one.
        network: see `wireloom.spark.derived.common.connected`.

    Raises:
        OptionError: a table is missing.
    """
    packets = named(tables, "blaze")
    rows = (
        connected(packets, network)
        .where(sf.col("type_code").isin(_REQUEST, _RESPONSE))
        .select(
            *("connection", "source", "stream", "frame_offset", "frame_length", "ts_ns"),
            sf.when(sf.col("ts_ns").isNotNull(), sf.col("type_code")).alias("tie"),
            *("type_code", *_ID, "txtype", "txactn", "nclsid", "nclass", "txresl", "blzcod"),
        )
    )
    pairs = pair(rows, (*reversed(_ID), "connection"), sf.col("type_code") == _REQUEST)
    request, response = sf.col("request"), sf.col("response")
    outcome = (
        sf.when(sf.col("is_repeated"), "repeated")
        .when(request.isNull(), "unrequested")
        .when(response.isNull(), "unanswered")
        .when(response["txresl"] == "TXOK", "ok")
        .otherwise("ko")
    )
    either = sf.coalesce(request, response)
    found = pairs.select(
        either["source"].alias("source"),
        either["connection"].alias("connection"),
        either["ts_ns"].alias("ts_ns"),
        micros(either["ts_ns"]).alias("ts"),
        *(either[name].alias(name) for name in _ID),
        *(request[name].alias(name) for name in ("txtype", "txactn")),
        sf.coalesce(request["nclsid"], response["nclsid"]).alias("nclsid"),
        request["nclass"].alias("object"),
        outcome.alias("outcome"),
        *(response[name].alias(name) for name in ("txresl", "blzcod")),
        response["nclass"].alias("result"),
        (response["ts_ns"] - request["ts_ns"]).alias("latency_ns"),
        response["ts_ns"].alias("responded_ns"),
        request["frame_offset"].alias("request_offset"),
        response["frame_offset"].alias("response_offset"),
        request["frame_length"].alias("request_bytes"),
        response["frame_length"].alias("response_bytes"),
    )
    is_half = sf.col("outcome").isin("unanswered", "unrequested", "repeated")
    gaps = optional(tables, "gaps", packets)
    return conform(with_doubt(found, gaps, is_half, network), TABLE)
