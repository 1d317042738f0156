"""Where Spark finds ``format("wireloom")``: it looks into packages named ``pyspark_*``."""

from __future__ import annotations

from wireloom.spark.source import WireloomSource as DefaultSource

__all__ = ["DefaultSource"]
