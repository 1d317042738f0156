"""The derived tables by going through the rows one by one: slow, plain, and what Spark must equal.

Nothing here is shared with `wireloom.spark.derived`, so that a mistake cannot hide on both sides.
Tables are lists of rows, rows are dicts of all columns.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

__all__ = ["REPLAYS", "connection_of", "replay"]

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STREAM = re.compile(r"(tcp|udp) (\S+) > (\S+) #\d+(?:e\d+)?", re.ASCII)


def replay(name: str, tables: Rows, **options: Any) -> list[Row]:
    """A derived table.

    Args:
        name: which.
        tables: the base tables; `gaps` and `errors` may be missing.
        options: as for `wireloom.spark.derived.derive`.

    Raises:
        KeyError: there is none of that name.
    """
    return REPLAYS[name](tables, **options)


# --- connections and time -------------------------------------------------------------------------


def connection_of(row: Row) -> str:
    """Both directions of what a row belongs to.

    >>> connection_of({"stream": "tcp 10.0.0.2:99 > 10.0.0.1:80 #2"})
    'tcp 10.0.0.1:80 <> 10.0.0.2:99'
    """
    found = _STREAM.fullmatch(row["stream"])
    if found is None:
        stream: str = row["stream"]
        return stream
    low, high = sorted(found.groups()[1:])
    return f"{found[1]} {low} <> {high}"


def _ends(row: Row) -> tuple[str | None, str | None]:
    """Sender and receiver."""
    found = _STREAM.fullmatch(row["stream"])
    return (found[2], found[3]) if found else (None, None)


def _time(ts_ns: int | None) -> dt.datetime | None:
    return None if ts_ns is None else _EPOCH + dt.timedelta(microseconds=ts_ns // 1000)


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _in_time(rows: Iterable[Row]) -> list[Row]:
    """By time; at the same time by type; those without a time in the order of their stream."""

    def key(row: Row) -> tuple[Any, ...]:
        ts_ns = row["ts_ns"]
        tie = 0 if ts_ns is None else row.get("tie", row["type_code"])
        return (
            ts_ns is not None,
            ts_ns or 0,
            tie,
            row["source"],
            row["stream"],
            row["frame_offset"],
        )

    return sorted(rows, key=key)


class _Doubts:
    """Which connections have holes."""

    def __init__(self, tables: Rows) -> None:
        self._holed = {connection_of(row) for row in tables.get("gaps", ())}

    def about(self, is_missing: bool, connection: str) -> bool:
        return is_missing and connection in self._holed


class _Dialogue:
    """A request with its answer; one of them may be missing."""

    def __init__(self, request: Row | None, response: Row | None, is_repeated: bool) -> None:
        self.request = request
        self.response = response
        self.is_repeated = is_repeated

    @property
    def first(self) -> Row:
        found = self.request or self.response
        assert found is not None
        return found

    def asked(self, name: str) -> Any:
        return None if self.request is None else self.request[name]

    def answered(self, name: str) -> Any:
        return None if self.response is None else self.response[name]


def _pairs(
    rows: Iterable[Row], key: Callable[[Row], Any], is_request: Callable[[Row], bool]
) -> list[_Dialogue]:
    """Each answer goes to the newest open request of its key."""
    found: list[_Dialogue] = []
    waiting: dict[Any, list[_Dialogue]] = {}
    for row in _in_time(rows):
        if is_request(row):
            dialogue = _Dialogue(row, None, False)
            waiting.setdefault(key(row), []).append(dialogue)
            found.append(dialogue)
        elif waiting.get(key(row)):
            waiting[key(row)].pop().response = row
        else:
            found.append(_Dialogue(None, row, key(row) in waiting))
    return found


# --- blaze ----------------------------------------------------------------------------------------


def _transactions(tables: Rows) -> list[Row]:
    doubts = _Doubts(tables)
    ids = ("txplid", "txsvid", "txcnid", "txprid")
    rows = [row for row in tables["blaze"] if row["type_name"] in ("TXRQST", "TXRESP")]
    found = []
    for each in _pairs(
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
                "ts": _time(first["ts_ns"]),
                **{name: first[name] for name in ids},
                "txtype": each.asked("txtype"),
                "txactn": each.asked("txactn"),
                "nclsid": each.answered("nclsid") if nclsid is None else nclsid,
                "object": each.asked("nclass"),
                "outcome": outcome,
                "txresl": each.answered("txresl"),
                "blzcod": each.answered("blzcod"),
                "result": each.answered("nclass"),
                "latency_ns": _less(each.answered("ts_ns"), each.asked("ts_ns")),
                "responded_ns": each.answered("ts_ns"),
                "request_offset": each.asked("frame_offset"),
                "response_offset": each.answered("frame_offset"),
                "request_bytes": each.asked("frame_length"),
                "response_bytes": each.answered("frame_length"),
                "is_doubtful": doubts.about(outcome not in ("ok", "ko"), connection_of(first)),
            }
        )
    return found


_SUBSCRIBED = ("nclsid", "enctyp", "sbstyp", "sbsmod", "flotyp", "dwltyp")


def _asked_for(rows: Sequence[Row]) -> list[_Dialogue]:
    return _pairs(
        [row for row in rows if row["type_name"] in ("SBSREQ", "SBSRES")],
        lambda row: (connection_of(row), row["rqstid"]),
        lambda row: row["type_name"] == "SBSREQ",
    )


def _granting(dialogues: Sequence[_Dialogue]) -> dict[tuple[str, str, int], _Dialogue]:
    """The dialogues that start a subscription, by the answer's place."""
    return {
        (each.response["source"], each.response["stream"], each.response["frame_offset"]): each
        for each in dialogues
        if each.response is not None
        and each.response["sbresl"] in ("SBSOK", "SBSPART")
        and each.response["sbsrid"] is not None
    }


def _place(row: Row) -> tuple[str, str, int]:
    return row["source"], row["stream"], row["frame_offset"]


class _Life:
    """A subscription while its packets go by."""

    def __init__(self, row: Row, start: _Dialogue | None) -> None:
        self.rows = [row]
        self.start = start


def _subscriptions(tables: Rows) -> list[Row]:
    rows = tables["blaze"]
    doubts = _Doubts(tables)
    dialogues = _asked_for(rows)
    starts = _granting(dialogues)
    acks = {
        _place(each.request): each.response
        for each in _pairs(
            [row for row in rows if row["type_name"] in ("SBSEVT", "SBSACK")],
            lambda row: (connection_of(row), row["sbsrid"], row["sevtid"]),
            lambda row: row["type_name"] == "SBSEVT",
        )
        if each.request is not None
    }
    lives: list[_Life] = []
    current: dict[tuple[str, str, int], _Life] = {}
    for row in sorted(rows, key=_place):
        start = starts.get(_place(row))
        if start is None and (row["type_name"] not in ("SBSEVT", "SBSSPR") or not row["sbsrid"]):
            continue
        key = (row["source"], row["stream"], row["sbsrid"])
        if start is not None or key not in current:
            current[key] = _Life(row, start)
            lives.append(current[key])
        else:
            current[key].rows.append(row)

    breaks: dict[str, list[int]] = {}
    for row in rows:
        if row["type_name"] in ("CONREQ", "DSCOND") and row["ts_ns"] is not None:
            breaks.setdefault(connection_of(row), []).append(row["ts_ns"])
    found = [_subscription(life, acks, breaks, tables, doubts) for life in lives]
    for each in dialogues:
        granted = each.response is not None and _place(each.response) in starts
        if not granted and not each.is_repeated:
            found.append(_refusal(each, doubts))
    return found


def _subscription(
    life: _Life,
    acks: Mapping[tuple[str, str, int], Row | None],
    breaks: Mapping[str, list[int]],
    tables: Rows,
    doubts: _Doubts,
) -> Row:
    first = life.rows[0]
    connection = connection_of(first)
    started = first["ts_ns"] if life.start else None
    asked = life.start.asked("ts_ns") if life.start else None
    ts_ns = first["ts_ns"] if asked is None else asked
    events = [row for row in life.rows if row["type_name"] == "SBSEVT"]
    data = [row for row in events if row["sevttp"] in ("DATALIVE", "DATADWNL")]
    ends = [row for row in events if row["sevttp"] == "STOP"]
    stops = [row for row in life.rows if row["type_name"] == "SBSSPR" and row["sbresl"] == "SBSOK"]
    begun = ts_ns if started is None else started
    later = [ts for ts in breaks.get(connection, ()) if begun is not None and ts > begun]
    if ends:
        outcome, ended = "ended", _earliest(ends)
    elif stops:
        outcome, ended = "stopped", _earliest(stops)
    elif later:
        outcome, ended = "disconnected", min(later)
    else:
        outcome, ended = "open", None
    answers = [(row, acks[_place(row)]) for row in events]
    acked = [(row, ack) for row, ack in answers if ack is not None]
    lags = [ack["ts_ns"] - row["ts_ns"] for row, ack in acked if ack["ts_ns"] is not None]
    skips = []
    for before, after in zip(life.rows, life.rows[1:], strict=False):
        if before["sevtid"] is not None and after["sevtid"] is not None:
            skips.append(after["sevtid"] - before["sevtid"] - 1)
    holes = [
        gap
        for gap in tables.get("gaps", ())
        if (gap["source"], gap["stream"]) == (first["source"], first["stream"])
        and first["frame_offset"] < gap["offset"] < life.rows[-1]["frame_offset"]
    ]
    return {
        "source": first["source"],
        "connection": connection,
        "ts_ns": ts_ns,
        "ts": _time(ts_ns),
        "stream": first["stream"],
        "rqstid": first["rqstid"] if life.start else None,
        "sbsrid": first["sbsrid"],
        **{name: life.start.asked(name) if life.start else None for name in _SUBSCRIBED},
        "outcome": outcome,
        "blzcod": ends[0]["blzcod"] if ends else None,
        "started_ns": started,
        "ended_ns": ended,
        "duration_ns": _less(ended, started),
        "events": len(data),
        "live": sum(row["sevttp"] == "DATALIVE" for row in data),
        "downloaded": sum(row["sevttp"] == "DATADWNL" for row in data),
        "event_bytes": sum(row["frame_length"] for row in events),
        "first_event_ns": _earliest(data),
        "last_event_ns": _latest(data),
        "download_ns": _less(
            _earliest([row for row in events if row["sevttp"] == "DWNLEND"]), started
        ),
        "acked": len(acked),
        "ack_lag_mean_ns": sum(lags) / len(lags) if lags else None,
        "ack_lag_max_ns": max(lags, default=None),
        "id_gaps": sum(skip > 0 for skip in skips),
        "ids_skipped": sum(skip for skip in skips if skip > 0),
        "holes": len(holes),
        "missing_bytes": sum(gap["length"] for gap in holes),
        "is_doubtful": doubts.about(not life.start or outcome == "open", connection),
    }


def _refusal(each: _Dialogue, doubts: _Doubts) -> Row:
    first = each.first
    connection = connection_of(first)
    return {
        "source": first["source"],
        "connection": connection,
        "ts_ns": first["ts_ns"],
        "ts": _time(first["ts_ns"]),
        "stream": each.answered("stream"),
        "rqstid": first["rqstid"],
        "sbsrid": None,
        **{name: each.asked(name) for name in _SUBSCRIBED},
        "outcome": "unanswered" if each.response is None else "refused",
        "blzcod": each.answered("blzcod"),
        **dict.fromkeys(
            ("started_ns", "duration_ns", "first_event_ns", "last_event_ns", "download_ns")
        ),
        "ended_ns": each.answered("ts_ns"),
        **dict.fromkeys(("events", "live", "downloaded", "event_bytes", "acked"), 0),
        **dict.fromkeys(("ack_lag_mean_ns", "ack_lag_max_ns")),
        **dict.fromkeys(("id_gaps", "ids_skipped", "holes", "missing_bytes"), 0),
        "is_doubtful": doubts.about(each.response is None, connection),
    }


def _earliest(rows: Iterable[Row]) -> int | None:
    return min((row["ts_ns"] for row in rows if row["ts_ns"] is not None), default=None)


def _latest(rows: Iterable[Row]) -> int | None:
    return max((row["ts_ns"] for row in rows if row["ts_ns"] is not None), default=None)


def _objects(tables: Rows, *, keys: Mapping[int, tuple[str, Sequence[str]]]) -> list[Row]:
    """Images of objects; `keys` has name and primary key of each class."""
    starts = _granting(_asked_for(tables["blaze"]))
    classes: dict[tuple[str, str, int], int | None] = {}
    objects: dict[tuple[Any, ...], Row] = {}
    for row in sorted(tables["blaze"], key=_place):
        where = (row["source"], row["stream"], row["sbsrid"])
        start = starts.get(_place(row))
        if start is not None:
            classes[where] = start.asked("nclsid")
        nclsid = classes.get(where)
        if row["type_name"] != "SBSEVT" or row["nclass"] is None or nclsid not in keys:
            continue
        assert nclsid is not None
        name, fields = keys[nclsid]
        values = json.loads(row["nclass"])
        parts = [values.get(field) for field in fields]
        shown = [part if part is None or isinstance(part, str) else str(part) for part in parts]
        key = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
        found = objects.setdefault(
            (*where[:2], nclsid, key),
            {
                "source": row["source"],
                "stream": row["stream"],
                "nclsid": nclsid,
                "class": name,
                "key": key,
                "ts_ns": row["ts_ns"],
                "ts": _time(row["ts_ns"]),
                "image": None,
                "state": "live",
                "image_offset": None,
                "events": 0,
                "deltas": 0,
            },
        )
        found["events"] += 1
        if row["sbeact"] == "DEL":
            found |= {"state": "deleted", "image_offset": None}
        elif row["sbeact"] == "DLT":
            base = {} if found["state"] == "deleted" else json.loads(found["image"] or "{}")
            found["deltas"] += 1
            found |= {"state": "live", "image": json.dumps(_merge(base, values))}
        else:
            place = row["frame_offset"]
            found |= {"state": "live", "image": row["nclass"], "image_offset": place}
        found |= {
            "updated_ns": row["ts_ns"],
            "updated_offset": row["frame_offset"],
            "tmstmp0": row["tmstmp0"],
            "tmstmp1": row["tmstmp1"],
        }
    holes = _last_holes(tables)
    for found in objects.values():
        found["is_complete"] = found["image_offset"] is not None
        since = found["image_offset"] if found["is_complete"] else -1
        hole = holes.get((found["source"], found["stream"]))
        if found["state"] == "live" and hole is not None and hole[0] > since:
            found["state"] = "stale"
    return list(objects.values())


def _merge(base: Row, change: Row) -> Row:
    for name, value in change.items():
        nested = isinstance(value, dict) and isinstance(base.get(name), dict)
        base[name] = _merge(base[name], value) if nested else value
    return base


# --- nais -----------------------------------------------------------------------------------------


def _exchanges(tables: Rows) -> list[Row]:
    doubts = _Doubts(tables)
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
        if row["is_ack"] and _ends(row)[0] is not None
    }
    rows = [row for row in rows if row["is_ack"] or (row["source"], row["stream"]) not in boards]
    stamped = {connection_of(row) for row in rows if not row["is_ack"] and row["sline"]}
    for row in rows:
        own = row["dline"] if row["is_ack"] else row["sline"]
        row["session"] = own if connection_of(row) in stamped else 0

    def key(row: Row) -> tuple[Any, ...]:
        return connection_of(row), row["session"], row["about"]

    numbered = _pairs(
        [row for row in rows if row["seq"] is not None],
        lambda row: (*key(row), row["seq"]),
        lambda row: not row["is_ack"],
    )
    left = [each.request for each in numbered if each.response is None]
    plain = _pairs(
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
                "ts": _time(first["ts_ns"]),
                "type_code": first["about"],
                "type_name": each.asked("type_name"),
                "message_name": each.asked("message_name"),
                "session": first["session"],
                "dline": each.asked("dline"),
                "seq": first["seq"],
                "outcome": outcome,
                "status": each.answered("status"),
                "latency_ns": _less(each.answered("ts_ns"), each.asked("ts_ns")),
                "acked_ns": each.answered("ts_ns"),
                "request_offset": each.asked("frame_offset"),
                "ack_offset": each.answered("frame_offset"),
                "is_doubtful": doubts.about(outcome != "acked", connection_of(first)),
            }
        )
    return found


# --- nrep -----------------------------------------------------------------------------------------


def _sockets(tables: Rows) -> list[Row]:
    doubts = _Doubts(tables)
    rows = tables["nrep"]
    brokers = _brokers(rows)
    asked = _pairs(
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
            requests[_place(each.response)] = each
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
                "duration_ns": _less(each.answered("ts_ns"), first["ts_ns"]),
                "data_bytes": 0,
                "data_packets": 0,
                "is_doubtful": doubts.about(not is_answered, connection),
            }
        )
    lives: dict[tuple[str, str], list[list[Row]]] = {}
    for row in _in_time(rows):
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
        sender, receiver = _ends(row)
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
    sender, receiver = _ends(first)
    broker = brokers.get(connection)
    return {
        "source": first["source"],
        "connection": connection,
        "ts_ns": first["ts_ns"],
        "ts": _time(first["ts_ns"]),
        "socket_id": None,
        "role": None,
        "instance_id": None,
        "client": receiver if broker is not None and sender == broker else sender,
        "broker": broker,
        **dict.fromkeys(("accepted_ns", "setup_ns", "sent_bytes", "received_bytes")),
    }


def _socket(
    life: list[Row],
    requests: Mapping[tuple[str, str, int], _Dialogue],
    brokers: Mapping[str, str],
    doubts: _Doubts,
) -> Row:
    first = life[0]
    connection = connection_of(first)
    broker = brokers.get(connection)
    flags = first["flags"] or 0
    request = requests[_place(first)].request if flags & 0x80 else None
    role = "requester" if flags & 0x80 else "receiver" if flags & 0x40 else None
    ts_ns = request["ts_ns"] if request else first["ts_ns"]
    accepted = refused = closed = None
    sent: int | None = None
    received: int | None = None
    is_accepted = is_refused = is_closed = False
    closed_by = None
    size = packets = 0
    for row in life:
        sender = _ends(row)[0]
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
        "ts": _time(ts_ns),
        "source": first["source"],
        "socket_id": first["socket_id"],
        "role": role,
        "instance_id": instance or max(r["instance_id"] or "" for r in life) or None,
        "outcome": outcome,
        "accepted_ns": accepted,
        "closed_ns": ended,
        "closed_by": closed_by,
        "setup_ns": _less(accepted, ts_ns),
        "duration_ns": _less(ended, ts_ns),
        "sent_bytes": sent,
        "received_bytes": received,
        "data_bytes": size,
        "data_packets": packets,
        "is_doubtful": doubts.about(is_half, connection),
    }


# --- market data ----------------------------------------------------------------------------------

_REFRESHES = {8, 12, 13, 24, 26}
_DROPS = {4, 7, 11}
_STATUS = 6
_IGNORED = {9, *range(14, 24)}
_BAD = {*range(1, 31), 66, 67, 74}
_HEADER = {"MSG_TYPE", "REC_TYPE", "SEQ_NO", "REC_STATUS"}
_WRAPPERS = {"_data_", "_TIBMSG", "_RAIMSG", "_QFORM"}
_SUBJECT_FIELDS = ("SUBJECT", "SYMBOL", "RIC")
_MAX_FIELD = 1 << 16


def _last_holes(tables: Rows) -> dict[tuple[str, str], tuple[int, str]]:
    found: dict[tuple[str, str], tuple[int, str]] = {}
    holes = [(gap, gap["offset"], "gap") for gap in tables.get("gaps", ())]
    holes += [
        (row, row["frame_offset"], "error")
        for row in tables.get("errors", ())
        if row["layer"] != "capture"
    ]
    for row, offset, cause in holes:
        key = (row["source"], row["stream"])
        found[key] = max(found.get(key, (offset, cause)), (offset, cause))
    return found


class _Message:
    """The fields of one message, and what it is about."""

    def __init__(self, fields: list[Row], subject_fields: Sequence[str]) -> None:
        self.fields = sorted(fields, key=lambda row: row["position"])
        first = self.fields[0]
        self.place = (first["frame_offset"], _natural(first["path"]))
        self.path: str = first["path"]
        self.ts_ns: int | None = first["ts_ns"]
        self.msg_type = self._header("MSG_TYPE")
        self.rec_status = self._header("REC_STATUS")
        names = (self._header(name, "value_text") for name in subject_fields)
        self.own: str | None = next((name for name in names if name is not None), None)
        self.subject = self.own
        self.kind = _kind(self.msg_type)
        self.within = ""

    def _header(self, name: str, column: str = "value_int") -> Any:
        found = [row[column] for row in self.fields if row["name"] == name]
        return max((value for value in found if value is not None), default=None)


def _kind(msg_type: int | None) -> str:
    if msg_type in _REFRESHES:
        return "refresh"
    if msg_type in _DROPS:
        return "drop"
    if msg_type == _STATUS:
        return "status"
    return "ignored" if msg_type in _IGNORED else "update"


def _natural(path: str) -> list[Any]:
    """Numbers in a path by value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def _messages(fields: Sequence[Row], subject_fields: Sequence[str]) -> list[_Message]:
    """The messages with a subject, in the order of each stream."""
    frames: dict[tuple[str, str, int], dict[str, list[Row]]] = {}
    for row in fields:
        frames.setdefault(_place(row), {}).setdefault(row["path"], []).append(row)
    found: list[_Message] = []
    for _, paths in sorted(frames.items(), key=lambda item: item[0]):
        messages = [_Message(rows, subject_fields) for rows in paths.values()]
        messages.sort(key=lambda each: each.place)
        for each in messages:
            if each.own is None:
                _inherit(each, messages)
        found += [each for each in messages if each.subject is not None]
    return found


def _inherit(message: _Message, others: Sequence[_Message]) -> None:
    around = [
        each
        for each in others
        if each.own is not None
        and (not each.path or message.path.startswith((each.path + ".", each.path + "[")))
    ]
    if not around:
        return
    outer = max(around, key=lambda each: len(each.path))
    message.subject = outer.own
    if message.msg_type is None:
        message.kind = "update" if outer.kind == "refresh" else outer.kind
    steps = message.path[len(outer.path) :].split(".")
    kept = [step for step in steps if re.sub(r"\[\d+\]$", "", step) not in _WRAPPERS]
    message.within = ".".join(kept).strip(".")


class _Image:
    """The image of a subject."""

    def __init__(self, source: str, stream: str, subject: str) -> None:
        self.source, self.stream, self.subject = source, stream, subject
        self.fields: dict[str, _Value] = {}
        self.since: int | None = None
        """From where on a hole matters."""
        self.refreshed: tuple[int, int | None] | None = None
        self.updated: tuple[int, int | None] = (0, None)
        self.is_dropped = False
        self.status: int | None = None
        self.is_status_old = False
        self.messages = 0

    def apply(self, message: _Message, subject_fields: Sequence[str]) -> None:
        place = (message.place[0], message.ts_ns)
        self.updated = place
        self.messages += not message.within
        if self.since is None:
            self.since = place[0]
        if message.kind == "refresh":
            self.fields.clear()
            self.refreshed = place
            self.since = place[0]
            self.is_status_old = True
        if message.rec_status is not None:
            self.status = message.rec_status
            self.is_status_old = False
        if message.kind == "drop":
            self.fields.clear()
            self.refreshed = None
            self.since = place[0]
            self.is_dropped = True
        if message.kind not in ("refresh", "update"):
            return
        self.is_dropped = False
        for row in message.fields:
            name = row["name"] or (
                f"fid {row['fid']}" if row["fid"] is not None else f"#{row['position']}"
            )
            if name in _HEADER or name in _WRAPPERS or name in subject_fields:
                continue
            if row["type"] in ("message", "array_msg"):
                continue
            full = f"{message.within}.{name}" if message.within else name
            if row["partial_offset"] is None:
                self.fields[full] = _Value(row, place)
            else:
                self._patch(full, row, place)

    def _patch(self, name: str, row: Row, place: tuple[int, int | None]) -> None:
        patch = _data(row)
        start = row["partial_offset"]
        if start < 0 or start + len(patch) > _MAX_FIELD:
            return
        if name not in self.fields:
            self.fields[name] = _Value({"type": row["type"], "hint": None}, place)
        self.fields[name].patch(start, patch, place)


class _Value:
    """One field of an image."""

    def __init__(self, row: Row, place: tuple[int, int | None]) -> None:
        self.row = row
        self.place = place
        self.is_patched = False
        self.data = bytearray(_data(row))
        self.is_sent = bytearray(b"\1" * len(self.data))

    def patch(self, start: int, patch: bytes, place: tuple[int, int | None]) -> None:
        self.is_patched = True
        self.place = place
        missing = start - len(self.data)
        self.data += b" " * missing
        self.is_sent += bytes(max(missing, 0))
        self.data[start : start + len(patch)] = patch
        self.is_sent[start : start + len(patch)] = b"\1" * len(patch)

    def columns(self) -> Row:
        names = (
            "type",
            "value_int",
            "value_real",
            "value_decimal",
            "value_text",
            "value_binary",
            "value_date",
            "value_time",
            "value_ts_ns",
            "is_blank",
            "hint",
        )
        if not self.is_patched:
            return {name: self.row[name] for name in names}
        found: Row = dict.fromkeys(names)
        found |= {"type": self.row["type"], "hint": self.row["hint"], "is_blank": False}
        try:
            return found | {"value_text": self.data.decode()}
        except UnicodeDecodeError:
            return found | {"value_binary": bytes(self.data)}


def _data(row: Row) -> bytes:
    if row.get("value_text") is not None:
        return str(row["value_text"]).encode()
    return row.get("value_binary") or b""


def _last_values(tables: Rows, *, subject_fields: Sequence[str] = _SUBJECT_FIELDS) -> list[Row]:
    images: dict[tuple[str, str, str], _Image] = {}
    for message in _messages(tables["fields"], subject_fields):
        if message.kind == "ignored":
            continue
        assert message.subject is not None
        key = (message.fields[0]["source"], message.fields[0]["stream"], message.subject)
        images.setdefault(key, _Image(*key)).apply(message, subject_fields)
    holes = _last_holes(tables)
    return [row for image in images.values() for row in _image_rows(image, holes)]


def _image_rows(image: _Image, holes: Mapping[tuple[str, str], tuple[int, str]]) -> list[Row]:
    hole = holes.get((image.source, image.stream))
    reason = None
    if not image.is_dropped:
        if hole is not None and image.since is not None and hole[0] > image.since:
            reason = hole[1]
        elif image.status in _BAD and not image.is_status_old:
            reason = "status"
    about = {
        "source": image.source,
        "stream": image.stream,
        "subject": image.subject,
        "state": "dropped" if image.is_dropped else "stale" if reason else "live",
        "stale_reason": reason,
        "is_complete": image.refreshed is not None,
        "refreshed_offset": image.refreshed[0] if image.refreshed else None,
        "refreshed_ns": image.refreshed[1] if image.refreshed else None,
        "updated_offset": image.updated[0],
        "updated_ns": image.updated[1],
        "rec_status": image.status,
        "messages": image.messages,
    }
    rows = [
        {
            **about,
            "name": name,
            **value.columns(),
            "is_patched": value.is_patched,
            "is_partial": value.is_patched and not all(value.is_sent),
            "frame_offset": value.place[0],
            "ts_ns": value.place[1],
            "ts": _time(value.place[1]),
        }
        for name, value in image.fields.items()
    ]
    return rows or [about]


_TRADES = {None, 1, 25, 27}


def _bars(
    tables: Rows,
    *,
    seconds: int = 60,
    price: str = "TRDPRC_1",
    volume: str = "TRDVOL_1",
    subject_fields: Sequence[str] = _SUBJECT_FIELDS,
) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for message in _messages(tables["fields"], subject_fields):
        values = {row["name"]: _number(row) for row in message.fields}
        cost, size = values.get(price), values.get(volume)
        if message.msg_type not in _TRADES or cost is None or message.ts_ns is None:
            continue
        start = message.ts_ns // (seconds * 10**9) * seconds
        first = message.fields[0]
        key = (first["source"], first["stream"], message.subject, start)
        begin = _EPOCH + dt.timedelta(seconds=start)
        bar = found.setdefault(
            key,
            {
                "source": first["source"],
                "stream": first["stream"],
                "subject": message.subject,
                "ts": begin,
                "until": begin + dt.timedelta(seconds=seconds),
                "open": cost,
                "high": cost,
                "low": cost,
                "volume": None,
                "trades": 0,
                "_traded": 0.0,
            },
        )
        bar["trades"] += 1
        bar["close"] = cost
        bar["high"], bar["low"] = max(bar["high"], cost), min(bar["low"], cost)
        if size is not None:
            bar["volume"] = size + (bar["volume"] or 0)
            bar["_traded"] += float(cost) * float(size)
    for bar in found.values():
        traded = bar.pop("_traded")
        bar["vwap"] = traded / float(bar["volume"]) if bar["volume"] else None
    return list(found.values())


def _number(row: Row) -> Decimal | None:
    if row["value_decimal"] is not None:
        found: Decimal = row["value_decimal"]
        return found
    if row["value_int"] is not None:
        return Decimal(row["value_int"])
    return None if row["value_real"] is None else Decimal(repr(row["value_real"]))


REPLAYS: dict[str, Callable[..., list[Row]]] = {
    "blaze_transactions": _transactions,
    "blaze_subscriptions": _subscriptions,
    "blaze_objects": _objects,
    "nais_exchanges": _exchanges,
    "nrep_sockets": _sockets,
    "last_values": _last_values,
    "bars": _bars,
}
"""The derived tables by name."""
