"""`nais_exchanges`, one packet after the other."""

from __future__ import annotations

import json
from typing import Any

from oracles.replay.common import (
    Doubts,
    Row,
    Rows,
    connection_of,
    ends_of,
    less,
    time_of,
)
from oracles.replay.pairs import pairs

__all__ = ["nais_exchanges"]


def nais_exchanges(tables: Rows) -> list[Row]:
    """Requests with their Acks."""
    doubts = Doubts(tables)
    rows = []
    for row in tables["nais"]:
        if row["type_code"] in (0, 6):
            continue
        message = json.loads(row["message"] or "{}")
        is_ack = row["type_code"] == 3
        more = {
            "is_ack": is_ack,
            "tie": int(is_ack),
            "seq": message.get("seq"),
            "about": message.get("id") if is_ack else row["type_code"],
            "status": message.get("status") if is_ack else None,
        }
        rows.append(row | more)
    boards = {
        (row["source"], row["stream"])
        for row in rows
        if row["is_ack"] and ends_of(row)[0] is not None
    }
    rows = [row for row in rows if row["is_ack"] or (row["source"], row["stream"]) not in boards]
    stamped = {connection_of(row) for row in rows if not row["is_ack"] and row["sline"]}
    for row in rows:
        own = row["dline"] if row["is_ack"] else row["sline"]
        row["session"] = own if connection_of(row) in stamped else 0

    def key(row: Row) -> tuple[Any, ...]:
        return connection_of(row), row["session"], row["about"]

    numbered = pairs(
        [row for row in rows if row["seq"] is not None],
        lambda row: (*key(row), row["seq"]),
        lambda row: not row["is_ack"],
    )
    left = [each.request for each in numbered if each.response is None]
    plain = pairs(
        [row for row in rows if row["seq"] is None] + [row for row in left if row is not None],
        key,
        lambda row: not row["is_ack"],
    )
    found = []
    for each in [each for each in numbered if each.response is not None] + plain:
        if each.is_repeated:
            outcome = "repeated"
        elif each.request is None:
            outcome = "unrequested"
        else:
            outcome = "unanswered" if each.response is None else "acked"
        first = each.first
        found.append(
            {
                "source": first["source"],
                "connection": connection_of(first),
                "ts_ns": first["ts_ns"],
                "ts": time_of(first["ts_ns"]),
                "type_code": first["about"],
                "type_name": each.asked("type_name"),
                "message_name": each.asked("message_name"),
                "session": first["session"],
                "dline": each.asked("dline"),
                "seq": first["seq"],
                "outcome": outcome,
                "status": each.answered("status"),
                "latency_ns": less(each.answered("ts_ns"), each.asked("ts_ns")),
                "acked_ns": each.answered("ts_ns"),
                "request_offset": each.asked("frame_offset"),
                "ack_offset": each.answered("frame_offset"),
                "is_doubtful": doubts.about(outcome != "acked", connection_of(first)),
            }
        )
    return found
