"""QForm in columns: how each field's data is written, for the kernel's scanner."""

from __future__ import annotations

from typing import Any

from wireloom.columns import Columns, numbers
from wireloom.formats.qform.walk import FID_MASK, MAX_SHORT
from wireloom.kernel.frames import framecheck, framerules
from wireloom.wire import Limits

__all__ = ["COLUMNS", "QformColumns"]


class QformColumns(Columns):
    """How QForm becomes columns."""

    least_frame = 4

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """How each fid's data is written, and its size."""
        table = numbers(FID_MASK + 1)
        for fid, entry in framer._rules.entries.items():
            if entry.tss_type is None:
                kind = framecheck.QF_FORM
            elif entry.is_partial:
                kind = framecheck.QF_PARTIAL
            elif entry.is_fixed:
                kind = framecheck.QF_FIXED
            else:
                kind = framecheck.QF_SHORT if entry.size <= MAX_SHORT else framecheck.QF_LONG
            table[fid] = entry.size << framecheck.QF_SIZE_SHIFT | kind
        made = (framerules.FORMAT_QFORM, table, 0)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, True))


COLUMNS = QformColumns()
