"""`last_values`, one message after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oracles.replay.common import Row, Rows, last_holes, time_of
from oracles.replay.market import SUBJECT_FIELDS, WRAPPERS, Message, messages

__all__ = ["last_values"]

_BAD = {*range(1, 31), 66, 67, 74}
_HEADER = {"MSG_TYPE", "REC_TYPE", "SEQ_NO", "REC_STATUS"}
_MAX_FIELD = 1 << 16


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

    def apply(self, message: Message, subject_fields: Sequence[str]) -> None:
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
            if name in _HEADER or name in WRAPPERS or name in subject_fields:
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


def last_values(tables: Rows, *, subject_fields: Sequence[str] = SUBJECT_FIELDS) -> list[Row]:
    """The image of every subject, after all messages about it."""
    images: dict[tuple[str, str, str], _Image] = {}
    for message in messages(tables["fields"], subject_fields):
        if message.kind == "ignored":
            continue
        assert message.subject is not None
        key = (message.fields[0]["source"], message.fields[0]["stream"], message.subject)
        images.setdefault(key, _Image(*key)).apply(message, subject_fields)
    holes = last_holes(tables)
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
            "ts": time_of(value.place[1]),
        }
        for name, value in image.fields.items()
    ]
    return rows or [about]
