"""`blaze_subscriptions`, one packet after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oracles.replay.common import (
    Doubts,
    Row,
    Rows,
    connection_of,
    less,
    place_of,
    time_of,
)
from oracles.replay.pairs import Dialogue, pairs

__all__ = ["asked_for", "blaze_subscriptions", "granting"]

_SUBSCRIBED = ("nclsid", "enctyp", "sbstyp", "sbsmod", "flotyp", "dwltyp")


def asked_for(rows: Sequence[Row]) -> list[Dialogue]:
    """Requests for subscriptions with their answers."""
    return pairs(
        [row for row in rows if row["type_name"] in ("SBSREQ", "SBSRES")],
        lambda row: (connection_of(row), row["rqstid"]),
        lambda row: row["type_name"] == "SBSREQ",
    )


def granting(dialogues: Sequence[Dialogue]) -> dict[tuple[str, str, int], Dialogue]:
    """The dialogues that start a subscription, by the answer's place."""
    return {
        (each.response["source"], each.response["stream"], each.response["frame_offset"]): each
        for each in dialogues
        if each.response is not None
        and each.response["sbresl"] in ("SBSOK", "SBSPART")
        and each.response["sbsrid"] is not None
    }


class _Life:
    """A subscription while its packets go by."""

    def __init__(self, row: Row, start: Dialogue | None) -> None:
        self.rows = [row]
        self.start = start


def blaze_subscriptions(tables: Rows) -> list[Row]:
    """The lives of subscriptions, and requests that failed."""
    rows = tables["blaze"]
    doubts = Doubts(tables)
    dialogues = asked_for(rows)
    starts = granting(dialogues)
    acks = {
        place_of(each.request): each.response
        for each in pairs(
            [row for row in rows if row["type_name"] in ("SBSEVT", "SBSACK")],
            lambda row: (connection_of(row), row["sbsrid"], row["sevtid"]),
            lambda row: row["type_name"] == "SBSEVT",
        )
        if each.request is not None
    }
    lives: list[_Life] = []
    current: dict[tuple[str, str, int], _Life] = {}
    for row in sorted(rows, key=place_of):
        start = starts.get(place_of(row))
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
        granted = each.response is not None and place_of(each.response) in starts
        if not granted and not each.is_repeated:
            found.append(_refusal(each, doubts))
    return found


def _subscription(
    life: _Life,
    acks: Mapping[tuple[str, str, int], Row | None],
    breaks: Mapping[str, list[int]],
    tables: Rows,
    doubts: Doubts,
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
    answers = [(row, acks[place_of(row)]) for row in events]
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
        "ts": time_of(ts_ns),
        "stream": first["stream"],
        "rqstid": first["rqstid"] if life.start else None,
        "sbsrid": first["sbsrid"],
        **{name: life.start.asked(name) if life.start else None for name in _SUBSCRIBED},
        "outcome": outcome,
        "blzcod": ends[0]["blzcod"] if ends else None,
        "started_ns": started,
        "ended_ns": ended,
        "duration_ns": less(ended, started),
        "events": len(data),
        "live": sum(row["sevttp"] == "DATALIVE" for row in data),
        "downloaded": sum(row["sevttp"] == "DATADWNL" for row in data),
        "event_bytes": sum(row["frame_length"] for row in events),
        "first_event_ns": _earliest(data),
        "last_event_ns": _latest(data),
        "download_ns": less(
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


def _refusal(each: Dialogue, doubts: Doubts) -> Row:
    first = each.first
    connection = connection_of(first)
    return {
        "source": first["source"],
        "connection": connection,
        "ts_ns": first["ts_ns"],
        "ts": time_of(first["ts_ns"]),
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
