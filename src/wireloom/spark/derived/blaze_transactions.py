"""`blaze_transactions`: a request and its response."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import Tables, connected, dialogue_table, dialogues, named
from wireloom.spark.derived.pairs import outcome, pair, placed
from wireloom.tables import Column

__all__ = ["TABLE", "blaze_transactions"]

_ID = ("txplid", "txsvid", "txcnid", "txprid")

TABLE: Final = dialogue_table(
    "blaze_transactions",
    "one transaction: its request, its response, or both",
    (
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
        Column("request_offset", "i64", "offset of the request in its stream"),
        Column("response_offset", "i64", "offset of the response in its stream"),
        Column("request_bytes", "i64", "bytes of the request"),
        Column("response_bytes", "i64", "bytes of the response"),
    ),
)

_REQUEST, _RESPONSE = 6, 7


def blaze_transactions(tables: Tables, *, network: str | None = None) -> DataFrame:
    """Transactions of `blaze`; `gaps`, if given, shows holes.

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
            *placed(sf.col("type_code")),
            *("connection", "frame_length", "type_code", *_ID, "txtype", "txactn"),
            *("nclsid", "nclass", "txresl", "blzcod"),
        )
    )
    pairs = pair(rows, (*reversed(_ID), "connection"), sf.col("type_code") == _REQUEST)
    request, response = sf.col("request"), sf.col("response")
    either = sf.coalesce(request, response)
    found = pairs.select(
        *(either[name].alias(name) for name in ("source", "connection", "ts_ns", *_ID)),
        *(request[name].alias(name) for name in ("txtype", "txactn")),
        sf.coalesce(request["nclsid"], response["nclsid"]).alias("nclsid"),
        request["nclass"].alias("object"),
        outcome(sf.when(response["txresl"] == "TXOK", "ok").otherwise("ko")),
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
    return dialogues(found, is_half, tables, network, TABLE)
