"""`bars`, one trade after the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from oracles.replay.common import EPOCH, Row, Rows
from oracles.replay.market import SUBJECT_FIELDS, messages

__all__ = ["bars"]

_TRADES = {None, 1, 25, 27}


def bars(
    tables: Rows,
    *,
    seconds: int = 60,
    price: str = "TRDPRC_1",
    volume: str = "TRDVOL_1",
    subject_fields: Sequence[str] = SUBJECT_FIELDS,
) -> list[Row]:
    """Open, high, low, close and volume of each interval."""
    found: dict[tuple[Any, ...], Row] = {}
    for message in messages(tables["fields"], subject_fields):
        values = {row["name"]: _number(row) for row in message.fields}
        cost, size = values.get(price), values.get(volume)
        if message.msg_type not in _TRADES or cost is None or message.ts_ns is None:
            continue
        start = message.ts_ns // (seconds * 10**9) * seconds
        first = message.fields[0]
        key = (first["source"], first["stream"], message.subject, start)
        begin = EPOCH + dt.timedelta(seconds=start)
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
