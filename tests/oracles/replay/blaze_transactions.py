"""`blaze_transactions`, one packet after the other."""

from __future__ import annotations

from oracles.replay.common import Doubts, Row, Rows, connection_of, less, time_of
from oracles.replay.pairs import pairs

__all__ = ["blaze_transactions"]


def blaze_transactions(tables: Rows) -> list[Row]:
    """Requests with their responses."""
    doubts = Doubts(tables)
    ids = ("txplid", "txsvid", "txcnid", "txprid")
    rows = [row for row in tables["blaze"] if row["type_name"] in ("TXRQST", "TXRESP")]
    found = []
    for each in pairs(
        rows,
        lambda row: (connection_of(row), *(row[name] for name in ids)),
        lambda row: row["type_name"] == "TXRQST",
    ):
        if each.is_repeated:
            outcome = "repeated"
        elif each.request is None:
            outcome = "unrequested"
        elif each.response is None:
            outcome = "unanswered"
        else:
            outcome = "ok" if each.answered("txresl") == "TXOK" else "ko"
        first = each.first
        nclsid = each.asked("nclsid")
        found.append(
            {
                "source": first["source"],
                "connection": connection_of(first),
                "ts_ns": first["ts_ns"],
                "ts": time_of(first["ts_ns"]),
                **{name: first[name] for name in ids},
                "txtype": each.asked("txtype"),
                "txactn": each.asked("txactn"),
                "nclsid": each.answered("nclsid") if nclsid is None else nclsid,
                "object": each.asked("nclass"),
                "outcome": outcome,
                "txresl": each.answered("txresl"),
                "blzcod": each.answered("blzcod"),
                "result": each.answered("nclass"),
                "latency_ns": less(each.answered("ts_ns"), each.asked("ts_ns")),
                "responded_ns": each.answered("ts_ns"),
                "request_offset": each.asked("frame_offset"),
                "response_offset": each.answered("frame_offset"),
                "request_bytes": each.asked("frame_length"),
                "response_bytes": each.answered("frame_length"),
                "is_doubtful": doubts.about(outcome not in ("ok", "ko"), connection_of(first)),
            }
        )
    return found
