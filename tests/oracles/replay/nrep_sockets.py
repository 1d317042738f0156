"""`nrep_sockets`, one packet after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oracles.replay.common import (
    Doubts,
    Row,
    Rows,
    connection_of,
    ends_of,
    in_time,
    less,
    place_of,
    time_of,
)
from oracles.replay.pairs import Dialogue, pairs

__all__ = ["nrep_sockets"]


def nrep_sockets(tables: Rows) -> list[Row]:
    """The lives of sockets, and requests that failed."""
    doubts = Doubts(tables)
    rows = tables["nrep"]
    brokers = _brokers(rows)
    asked = pairs(
        [
            row
            for row in rows
            if row["type_name"] == "OPEN_SOCKET"
            or (row["type_name"] == "SOCKET_CONTROL" and row["flags"] & 0x80)
        ],
        lambda row: (connection_of(row), row["nonce"]),
        lambda row: row["type_name"] == "OPEN_SOCKET",
    )
    requests = {}
    found = []
    for each in asked:
        if each.response is not None and set(each.response["socket_id"]) != {"0"}:
            requests[place_of(each.response)] = each
            continue
        first = each.first
        connection = connection_of(first)
        broker = brokers.get(connection)
        is_answered = each.response is not None
        found.append(
            {
                **_socket_row(first, brokers),
                "role": "requester",
                "instance_id": each.asked("instance_id"),
                "outcome": "no_instance" if is_answered else "unanswered",
                "closed_ns": each.answered("ts_ns"),
                "closed_by": "broker" if is_answered and broker else None,
                "duration_ns": less(each.answered("ts_ns"), first["ts_ns"]),
                "data_bytes": 0,
                "data_packets": 0,
                "is_doubtful": doubts.about(not is_answered, connection),
            }
        )
    lives: dict[tuple[str, str], list[list[Row]]] = {}
    for row in in_time(rows):
        if row["type_name"] not in ("SOCKET_CONTROL", "SOCKET_DATA"):
            continue
        if row["socket_id"] == "0" * 20 and row["flags"] is not None and row["flags"] & 0x80:
            continue
        known = lives.setdefault((connection_of(row), row["socket_id"]), [])
        is_start = row["flags"] is not None and row["flags"] & 0xC0
        if is_start or not known:
            known.append([])
        known[-1].append(row)
    for known in lives.values():
        found += [_socket(life, requests, brokers, doubts) for life in known]
    return found


def _brokers(rows: Iterable[Row]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        sender, receiver = ends_of(row)
        flags = row["flags"] or 0
        if row["type_name"] in ("HELLO", "PUBLISH_REPLY", "INSTANCE_REPLY") or flags & 0xC8:
            end = sender
        elif row["type_name"] in ("PUBLISH", "DISCOVER_INSTANCES", "OPEN_SOCKET") or flags & 0x30:
            end = receiver
        else:
            continue
        if end is not None:
            found[connection_of(row)] = max(end, found.get(connection_of(row), ""))
    return found


def _socket_row(first: Row, brokers: Mapping[str, str]) -> Row:
    connection = connection_of(first)
    sender, receiver = ends_of(first)
    broker = brokers.get(connection)
    return {
        "source": first["source"],
        "connection": connection,
        "ts_ns": first["ts_ns"],
        "ts": time_of(first["ts_ns"]),
        "socket_id": None,
        "role": None,
        "instance_id": None,
        "client": receiver if broker is not None and sender == broker else sender,
        "broker": broker,
        **dict.fromkeys(("accepted_ns", "setup_ns", "sent_bytes", "received_bytes")),
    }


def _socket(
    life: list[Row],
    requests: Mapping[tuple[str, str, int], Dialogue],
    brokers: Mapping[str, str],
    doubts: Doubts,
) -> Row:
    first = life[0]
    connection = connection_of(first)
    broker = brokers.get(connection)
    flags = first["flags"] or 0
    request = requests[place_of(first)].request if flags & 0x80 else None
    role = "requester" if flags & 0x80 else "receiver" if flags & 0x40 else None
    ts_ns = request["ts_ns"] if request else first["ts_ns"]
    accepted = refused = closed = None
    sent: int | None = None
    received: int | None = None
    is_accepted = is_refused = is_closed = False
    closed_by = None
    size = packets = 0
    for row in life:
        sender = ends_of(row)[0]
        flags = row["flags"] or 0
        if row["type_name"] == "SOCKET_DATA":
            size += len(row["data"])
            packets += 1
        if sender is not None and broker is not None:
            amount = len(row["data"] or b"")
            sent = (sent or 0) + (0 if sender == broker else amount)
            received = (received or 0) + (amount if sender == broker else 0)
        if flags & 0x04:
            if not is_closed:
                closed = row["ts_ns"]
                if sender is not None and broker is not None:
                    closed_by = "broker" if sender == broker else "client"
            is_closed = True
        elif flags & 0x10:
            refused = row["ts_ns"] if not is_refused else refused
            is_refused = True
        elif flags & 0x28:
            accepted = row["ts_ns"] if not is_accepted else accepted
            is_accepted = True
    if is_closed:
        outcome = "closed" if is_accepted or role is None else "refused"
    elif is_refused:
        outcome = "refused"
    else:
        outcome = "open" if is_accepted or role is None else "pending"
    ended = refused if closed is None else closed
    instance = request["instance_id"] if request else None
    is_half = role is None or outcome in ("open", "pending")
    return {
        **_socket_row(first, brokers),
        "ts_ns": ts_ns,
        "ts": time_of(ts_ns),
        "source": first["source"],
        "socket_id": first["socket_id"],
        "role": role,
        "instance_id": instance or max(r["instance_id"] or "" for r in life) or None,
        "outcome": outcome,
        "accepted_ns": accepted,
        "closed_ns": ended,
        "closed_by": closed_by,
        "setup_ns": less(accepted, ts_ns),
        "duration_ns": less(ended, ts_ns),
        "sent_bytes": sent,
        "received_bytes": received,
        "data_bytes": size,
        "data_packets": packets,
        "is_doubtful": doubts.about(is_half, connection),
    }
