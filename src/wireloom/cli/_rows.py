"""Records → the rows that commands print, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import wireloom
from wireloom.cli._flat import flatten
from wireloom.cli._sizes import show_time
from wireloom.errors import EncodeError
from wireloom.framing import Problem
from wireloom.messages import Json, Message

if TYPE_CHECKING:
    from wireloom.nesting import Nested, Unreadable
    from wireloom.tabulate.opening import Captured

__all__ = ["KEY", "WHERE", "from_row", "nested_row", "parse_row", "summarise", "to_row"]

KEY = ("frame_offset", "frame_length")
"""Columns before the message: where its frame is in the stream."""


WHERE = ("source", "stream", "ts")
"""Columns before these in a row of a capture."""


def _key(found: Captured, has_sources: bool) -> Json:
    """The key; a raw capture is its own stream, named only if there are others."""
    key: Json = {}
    if has_sources:
        key = {"source": found.source, "stream": found.stream}
    elif not found.is_raw:
        key = {"stream": found.stream}
    if found.ts_ns is not None:
        key["ts"] = show_time(found.ts_ns)
    return key | {"frame_offset": found.offset, "frame_length": found.length}


def to_row(found: Captured, has_sources: bool = False) -> Json:
    """One line of JSON: the key, then the message, the problem or the text.

    Args:
        found: what is to be shown.
        has_sources: whether there are several captures, so that rows must name theirs.
    """
    record = found.record
    row = _key(found, has_sources)
    if found.message is not None:
        return row | found.message.to_dict()
    row["format"] = record.format or None
    if isinstance(record, Problem):
        return row | {
            "error": record.code,
            "reason": record.reason,
            "field": record.path,
            "at": record.at,
            "raw": record.data.hex(),
        }
    try:
        return row | {"text": record.data.decode()}
    except UnicodeDecodeError:
        return row | {"text_hex": record.data.hex()}


def nested_row(found: Captured, inner: Nested | Unreadable, has_sources: bool = False) -> Json:
    """A row for a nested message, with its path."""
    from wireloom.nesting import Unreadable

    row = _key(found, has_sources) | {"path": inner.path}
    if not isinstance(inner, Unreadable):
        return row | inner.message.to_dict()
    error = inner.error
    return row | {
        "format": inner.format,
        "error": error.code,
        "reason": error.reason,
        "field": error.path,
        "at": error.offset,
        "raw": inner.data.hex(),
    }


def summarise(row: Json) -> Json:
    """A row for a table: the key, what it is, and the content as one text."""
    rest = {
        key: value
        for key, value in row.items()
        if key not in (*WHERE, *KEY, "format", "packet", "path")
    }
    kind = row.get("packet", row["format"])
    if "error" in row:
        kind, content = "ERROR", f"{row['error']}: {row['reason']}"
    elif "text" in rest or "text_hex" in rest:
        kind, content = "text", str(rest.get("text", rest.get("text_hex")))
    else:
        content = " ".join(f"{name}={value}" for name, value in flatten(rest).items())
    if "path" in row:
        content = f"in {row['path']}: {content}"
    key = {key: row[key] for key in (*WHERE, *KEY) if key in row}
    return key | {"type": kind, "content": content}


def parse_row(line: str) -> Json | None:
    """The object on a line of JSON; None for an empty line.

    Raises:
        EncodeError: it is not a JSON object.
    """
    if not line.strip():
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise EncodeError("not a JSON object")
    return row


def from_row(row: Json) -> Message | bytes | None:
    """What a row stands for: a message, text between frames as bytes, or None for nothing to write.

    Raises:
        EncodeError: it is not such a row.
        UnknownProtocolError: its format is not known.
    """
    if "error" in row or "path" in row:
        return None  # a problem, or a message that its outer one contains already
    message = {key: value for key, value in row.items() if key not in (*WHERE, *KEY)}
    if message.keys() == {"format", "text"} and isinstance(message["text"], str):
        return message["text"].encode(errors="replace")
    if message.keys() == {"format", "text_hex"}:
        try:
            return bytes.fromhex(message["text_hex"])
        except (TypeError, ValueError):
            raise EncodeError("it is not hex", path="text_hex") from None
    return wireloom.from_dict(message)
