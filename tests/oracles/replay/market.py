"""Messages of market data: what they are about and what they do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from oracles.replay.common import Row, place_of

__all__ = ["SUBJECT_FIELDS", "WRAPPERS", "Message", "messages"]

_REFRESHES = {8, 12, 13, 24, 26}
_DROPS = {4, 7, 11}
_STATUS = 6
_IGNORED = {9, *range(14, 24)}
WRAPPERS = {"_data_", "_TIBMSG", "_RAIMSG", "_QFORM"}
"""Fields that only hold another message."""
SUBJECT_FIELDS = ("SUBJECT", "SYMBOL", "RIC")
"""Fields that name the subject of a message, by precedence."""


class Message:
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
    """A sort key that compares the numbers in a path by value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def messages(fields: Sequence[Row], subject_fields: Sequence[str]) -> list[Message]:
    """The messages with a subject, in the order of each stream."""
    frames: dict[tuple[str, str, int], dict[str, list[Row]]] = {}
    for row in fields:
        frames.setdefault(place_of(row), {}).setdefault(row["path"], []).append(row)
    found: list[Message] = []
    for _, paths in sorted(frames.items(), key=lambda item: item[0]):
        messages = [Message(rows, subject_fields) for rows in paths.values()]
        messages.sort(key=lambda each: each.place)
        for each in messages:
            if each.own is None:
                _inherit(each, messages)
        found += [each for each in messages if each.subject is not None]
    return found


def _inherit(message: Message, others: Sequence[Message]) -> None:
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
    kept = [step for step in steps if re.sub(r"\[\d+\]$", "", step) not in WRAPPERS]
    message.within = ".".join(kept).strip(".")
