"""Where things are in a lake.

::

    LAKE/frames/date=2023-11-14/part-00000001-00000.parquet     rows: a folder per table and day
    LAKE/accounting/part-00000001-00004.parquet                 tables without times: no days
    LAKE/_wireloom/log/00000000000000000001.json                commits, in order
    LAKE/_wireloom/staging/RUN/frames/date=2023-11-14/….parquet what is being written
    LAKE/_wireloom/lock                                         held by the one writer

Engines that read Parquet skip folders whose names start with an underscore, so that the folder of a
table can be given to them as it is.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from wireloom.errors import OptionError

__all__ = [
    "CONTROL",
    "DAY_NS",
    "LOG",
    "NO_DATE",
    "STAGING",
    "TIME_COLUMNS",
    "DateRule",
    "day_text",
    "folder_of",
]

CONTROL: Final = "_wireloom"
LOG: Final = f"{CONTROL}/log"
STAGING: Final = f"{CONTROL}/staging"

NO_DATE: Final = "1970-01-01"
"""The day of rows without one. A real day, since some readers fail on a table whose only folder is
that of a null."""

DAY_NS: Final = 86_400_000_000_000

TIME_COLUMNS: Final = {
    "gaps": "ts_before_ns",
    "accounting": None,
    "bars": "ts",
    # It has what is known at the end; a day would only say when that was last updated.
    "blaze_objects": None,
    "last_values": None,
}
"""The column with a table's times where it is not ``ts_ns``. Without one there are no days."""

_EPOCH: Final = date(1970, 1, 1)
_IN_NAME: Final = re.compile(
    r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<s>[-_.]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)(?!\d)"
)


def day_text(day: int) -> str:
    """A number of days since 1970 as ``YYYY-MM-DD``."""
    try:
        return (_EPOCH + timedelta(days=day)).isoformat()
    except OverflowError:  # a capture may claim any time
        return NO_DATE


def folder_of(table: str, day: str | None) -> str:
    """The folder of a table's day, relative to the lake; None: the table has no days."""
    return table if day is None else f"{table}/date={day}"


class DateRule:
    """Which day rows without a capture time belong to: those of raw captures.

    >>> DateRule("name").day_of("/captures/ticks-20240105.bin")
    '2024-01-05'

    The rule uses nothing but the name of the capture, so its result never changes.
    """

    def __init__(self, rule: str = "name") -> None:
        """Choose the rule.

        Args:
            rule: ``name`` (the first date in the capture's name), ``none`` (`NO_DATE`), or a
                date, which is then the day of all such rows.

        Raises:
            OptionError: it is none of these.
        """
        self.rule = rule
        if rule not in ("name", "none"):
            try:
                self.rule = date.fromisoformat(rule).isoformat()
            except ValueError:
                raise OptionError(f"date must be name, none or YYYY-MM-DD, not {rule!r}") from None
        self._known: dict[str, str] = {}

    def day_of(self, source: str) -> str:
        """The day, or `NO_DATE`."""
        if self.rule == "none":
            return NO_DATE
        if self.rule != "name":
            return self.rule
        found = self._known.get(source)
        if found is None:
            found = self._known[source] = _date_in(Path(source).name)
        return found


def _date_in(name: str) -> str:
    for match in _IN_NAME.finditer(name):
        try:
            return date(int(match["y"]), int(match["m"]), int(match["d"])).isoformat()
        except ValueError:
            continue
    return NO_DATE
