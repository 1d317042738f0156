"""How a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wireloom.errors import OptionError
from wireloom.lake import WriteOptions
from wireloom.pipeline.splitting import SPLIT_BYTES

__all__ = ["PipelineOptions", "Route", "Writer"]

Writer = Literal["arrow", "spark", "delta"]
Route = Literal["auto", "direct", "shuffle"]


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How captures get into a lake; what is made of them is in `wireloom.tabulate.Settings`.

    Raises:
        OptionError: a value cannot be used; raised on creation.
    """

    writer: Writer = "arrow"
    """What writes Parquet: the tasks with pyarrow, Spark, or the tasks with a Delta log."""
    route: Route = "auto"
    """How packets find their connections: every task reads all and keeps its share (``direct``), or
    packets are sent to their task (``shuffle``). ``auto`` decides by size."""
    split_bytes: int = SPLIT_BYTES
    """Most bytes of raw captures that one task reads."""
    parts: int = 0
    """Tasks that share packet captures; 0: one per core."""
    commit_bytes: int = 32 << 30
    """Bytes of raw captures per commit: what has to be read again if the driver dies."""
    writing: WriteOptions = field(default_factory=WriteOptions)

    def __post_init__(self) -> None:
        if self.writer not in ("arrow", "spark", "delta"):
            raise OptionError(f"writer must be arrow, spark or delta, not {self.writer!r}")
        if self.route not in ("auto", "direct", "shuffle"):
            raise OptionError(f"route must be auto, direct or shuffle, not {self.route!r}")
        for name in ("split_bytes", "commit_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1")
