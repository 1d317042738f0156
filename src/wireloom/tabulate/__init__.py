"""Captures → tables: every frame of every stream as Arrow record batches, every byte accounted for.

>>> import io
>>> from wireloom.formats import tibmsg
>>> from wireloom.tabulate import tabulate
>>> capture = io.BytesIO(tibmsg.build({"SYM": "ABC", "BIDSIZE": 10}).encode())
>>> for table, batch in tabulate(capture, tables="fields", select={"fields": ["name", "size"]}):
...     print(table, batch.to_pylist())
fields [{'name': 'SYM', 'size': 4}, {'name': 'BIDSIZE', 'size': 4}]
"""

from __future__ import annotations

from wireloom.tabulate.accounting import Totals
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.tabulation import RangeTabulator, splittable, tabulate, tabulate_range
from wireloom.tabulate.tabulator import Batches, Tabulator

__all__ = [
    "Batches",
    "RangeTabulator",
    "Settings",
    "Tabulator",
    "Totals",
    "splittable",
    "tabulate",
    "tabulate_range",
]
