"""The options of ``format("wireloom")``: texts → checked values, on the driver."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wireloom.captures.finding import find_paths, open_sample
from wireloom.errors import OptionError
from wireloom.pipeline.splitting import SPLIT_BYTES
from wireloom.spark.filters import Mask
from wireloom.tables import Table
from wireloom.tabulate import Settings

__all__ = ["OPTIONS", "Query", "SourceOptions"]

OPTIONS: Final = {
    "path": "a file, a folder, a pattern, or an address that pyarrow or fsspec can read",
    "table": "which table; frames if not given",
    "select": "columns of the table, with commas between; all if not given",
    "split_bytes": f"bytes of a partition; if not given, an even share, at most {SPLIT_BYTES}",
    "packet_parts": "into how many partitions the connections of packet captures are divided",
    "max_bytes_per_trigger": "streams: bytes of a micro-batch; as much as there is if not given",
    "finish_after": "streams: seconds without a change after which a capture has ended; else never",
    "query": "not for users: what one query needs, see wireloom.spark.paging",
}
"""The options of the source itself; all others are those of `wireloom.tabulate.Settings`."""

_LOOK: Final = 16
"""Captures from which the types of wide columns are inferred."""
_NOT_HERE: Final = frozenset({"tables"})
"""Settings that another option replaces."""


@dataclass(frozen=True, slots=True)
class Query:
    """What one scan of a query reads; ``paging/Paging.java`` writes it."""

    schema: str
    """Spark's schema of the columns, as JSON."""
    filters: tuple[Mask, ...]
    """Which rows are sent."""

    @classmethod
    def read(cls, text: str) -> Query:
        """Parse it from an option.

        Raises:
            OptionError: it is not what Wireloom writes there.
        """
        try:
            found = json.loads(text)
            filters = tuple((name, kind, value) for name, kind, value in found["filters"])
            return cls(found["schema"], filters)
        except (ValueError, TypeError, KeyError) as error:
            raise OptionError("the option query is not for users") from error


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a reader or a stream, checked."""

    paths: tuple[str, ...]
    table: str
    settings: Settings
    """With exactly that table, and its columns."""
    split_bytes: int | None = None
    """Bytes of a partition; None: an even share for every core."""
    packet_parts: int | None = None
    max_bytes_per_trigger: int | None = None
    finish_after: float | None = None
    query: Query | None = None
    """If given, rows are sent in pages."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check options as Spark hands them over.

        Raises:
            OptionError: an option is unknown, missing or has a bad value.
            SourceError: a file that one names cannot be found or read.
        """
        given = {name.lower(): value for name, value in options.items()}
        paths = _paths(given)
        table = given.pop("table", "frames").strip().lower()
        chosen = given.pop("select", None)
        numbers = {
            name: _number(name, given.pop(name))
            for name in ("split_bytes", "packet_parts", "max_bytes_per_trigger")
            if name in given
        }
        finish = given.pop("finish_after", None)
        query = given.pop("query", None)
        for name in given:
            if name in _NOT_HERE:
                raise OptionError(f"there is no option {name!r}; did you mean table?")
        try:
            settings = Settings.from_options({"tables": table, **given})
        except OptionError as error:
            if error.reason.startswith("there is no option"):
                own = ", ".join(OPTIONS)
                raise OptionError(f"{error.reason}; and of the source itself {own}") from error
            raise
        if chosen is not None:
            wanted = tuple(name.strip() for name in chosen.split(",") if name.strip())
            settings = dataclasses.replace(settings, select={table: wanted})
        return cls(
            paths,
            table,
            settings,
            finish_after=None if finish is None else _seconds("finish_after", finish),
            query=None if query is None else Query.read(query),
            **numbers,
        )

    def resolved(self) -> SourceOptions:
        """With everything that must be the same for all tasks: dictionaries read, types inferred.

        Raises:
            SourceError: a file that an option names cannot be found or read.
            OptionError: no file system is known for an address.
        """
        settings = self.settings
        if settings.is_typed:
            settings = settings.loaded()
        else:
            found = find_paths(self.paths, needed=False)
            settings = settings.resolved([open_sample(path) for path in found[:_LOOK]])
        return dataclasses.replace(self, settings=settings)

    @property
    def schema(self) -> Table:
        """The columns of the rows."""
        return self.settings.table(self.table)


def _paths(given: dict[str, str]) -> tuple[str, ...]:
    """The paths: Spark gives one as it is, and several as JSON."""
    several = given.pop("paths", None)
    one = given.pop("path", None)
    found = tuple(json.loads(several)) if several else ()
    if one:
        found = (one, *found)
    if not found:
        raise OptionError('no path: use load("…") or option("path", "…")')
    return found


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise OptionError(f"{name} must be a whole number over 0, not {text!r}")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise OptionError(f"{name} must be a number of seconds, not {text!r}")
    return found
