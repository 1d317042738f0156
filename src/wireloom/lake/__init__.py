"""Tables in a folder: Parquet files by table and day, written all or nothing.

`Lake` opens one; `Lake.write` commits; `wireloom.lake.writing` makes files out of record batches in
workers; `wireloom.lake.datasets` reads them back. The layout is in `wireloom.lake.layout`.
"""

from __future__ import annotations

from wireloom.lake.datasets import dataset, read, schema_of, totals
from wireloom.lake.inputs import Change, compare
from wireloom.lake.lake import Lake, Writing
from wireloom.lake.log import Commit, DataFile, Derivation, Input, State
from wireloom.lake.rewriting import Compaction, compact, without_sources
from wireloom.lake.writing import StagedWriter, WriteOptions

__all__ = [
    "Change",
    "Commit",
    "Compaction",
    "DataFile",
    "Derivation",
    "Input",
    "Lake",
    "StagedWriter",
    "State",
    "WriteOptions",
    "Writing",
    "compact",
    "compare",
    "dataset",
    "read",
    "schema_of",
    "totals",
    "without_sources",
]
