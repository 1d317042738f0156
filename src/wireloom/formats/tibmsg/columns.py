"""TibMsg in columns: the kernel's scanner."""

from __future__ import annotations

from typing import Any

from wireloom.columns import Columns, numbers
from wireloom.kernel.frames import framerules
from wireloom.wire import Limits

__all__ = ["COLUMNS", "TibMsgColumns"]


class TibMsgColumns(Columns):
    """How TibMsg becomes columns."""

    least_frame = 4

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """The kernel knows all that there is to know."""
        made = (framerules.FORMAT_TIBMSG, numbers(1), 0)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, True))


COLUMNS = TibMsgColumns()
