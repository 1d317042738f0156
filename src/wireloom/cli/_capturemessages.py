"""The messages of captures, as objects: frames from the tables, decoded one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from wireloom.cli._accounts import ERROR_COLUMNS, Accounts
from wireloom.cli._capture import CaptureOptions, make_settings
from wireloom.cli._codec import Codec, Found, count
from wireloom.cli._options import DecodeOptions
from wireloom.cli._rows import nested_row, to_row
from wireloom.errors import DecodeError
from wireloom.format import COMMON_OPTIONS
from wireloom.formats import get, names
from wireloom.framing import Frame, Problem
from wireloom.messages import Json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CaptureMessages", "show_time"]

_TABLES = ("frames", "errors", "accounting")
_FRAME = ("source", "stream", "frame_offset", "frame_length", "ts_ns", "format", "raw")
_ERROR = (*ERROR_COLUMNS, "frame_length", "ts_ns", "at", "field", "raw")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show_time(ns: int) -> str:
    """A time in ISO 8601, exactly.

    >>> show_time(1_700_000_000_000_000_001)
    '2023-11-14T22:13:20.000000001Z'
    """
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


class CaptureMessages:
    """Turns the batches of captures into the rows that `wireloom decode` prints."""

    def __init__(
        self,
        reading: DecodeOptions,
        capturing: CaptureOptions,
        nested: bool,
        *,
        has_sources: bool,
    ) -> None:
        """Ready to read.

        Args:
            reading: how to decode.
            capturing: which formats are where.
            nested: whether messages inside payloads get rows too.
            has_sources: whether rows say which capture they are from.

        Raises:
            OptionError: an option is unknown, or its value cannot be used.
        """
        self.messages = 0
        self._reading = reading
        self._nested = nested
        self._where = ("source", "stream") if has_sources else ("stream",)
        self._codecs: dict[str, Codec] = {}
        self.accounts = Accounts()
        self._unread = 0
        # Bodies are read here, with the message that they are part of.
        rest = {key: value for key, value in reading.given.items() if key != "model"}
        self.settings = make_settings(
            DecodeOptions(reading.format, rest),
            capturing,
            _TABLES,
            select={"frames": _FRAME, "errors": _ERROR},
            include_raw=True,
            nested=False,
        )

    @property
    def problems(self) -> int:
        """What could not be read."""
        return self.accounts.errors + self._unread

    def rows(self, table: str, batch: pa.RecordBatch) -> Iterator[Json]:
        """The rows of a batch."""
        self.accounts.add(table, batch)
        if table == "frames":
            for frame in batch.to_pylist():
                yield from self._message(frame)
        elif table == "errors":
            for row in batch.to_pylist():
                yield self._key(row) | _problem(row)

    def _key(self, row: dict[str, Any]) -> Json:
        key = {name: row[name] for name in self._where}
        return key if row["ts_ns"] is None else key | {"ts": show_time(row["ts_ns"])}

    def _message(self, row: dict[str, Any]) -> Iterator[Json]:
        name = row["format"]
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = Codec(name, self._own(name), self._nested)
        frame = Frame(name, row["frame_offset"], row["raw"])
        key = self._key(row)
        try:
            found = Found(frame, codec.decode(frame.data))
        except DecodeError as error:
            self._unread += 1
            at = frame.offset + error.offset
            problem = Problem(
                name, frame.offset, frame.data, error.code, error.reason, error.path, at
            )
            yield key | to_row(Found(problem))
            return
        self.messages += 1
        yield key | to_row(found)
        if self._nested and found.message is not None:
            for inner in codec.nested(found.message):
                made = nested_row(found, inner)
                self._unread += "error" in made
                yield key | made

    def _own(self, name: str) -> DecodeOptions:
        """The options that concern a format, and the messages inside it: there are others here."""
        formats = [get(name)]
        if self._nested:
            formats += [get(other) for other in names() if get(other).kind == "message"]
        declared = {
            option.name: option
            for found in reversed(formats)
            for option in (*found.options, *COMMON_OPTIONS)
        }
        given = {
            key: value
            for key, value in self._reading.given.items()
            if key in declared and (not declared[key].choices or value in declared[key].choices)
        }
        return DecodeOptions(name, given)

    def summary(self) -> Iterator[str]:
        """A few lines for stderr."""
        yield f"{count(self.messages, 'message')}, {count(self.problems, 'problem')}"
        yield from self.accounts.lines()


def _problem(row: dict[str, Any]) -> Json:
    return {
        "frame_offset": row["frame_offset"],
        "frame_length": row["frame_length"],
        "format": row["format"],
        "error": row["code"],
        "reason": row["reason"],
        "field": row["field"],
        "at": row["at"],
        "raw": (row["raw"] or b"").hex(),
    }
