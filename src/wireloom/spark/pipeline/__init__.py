"""Captures → a lake of tables, on Spark: incremental, and all or nothing at every step.

`run_pipeline` brings in what is new, `follow` goes on doing so, `reprocess` reads the quarantine
again. Tasks decode and write Parquet into the lake's staging place; the driver proves that their
shares meet, and commits. What Spark moves are descriptions of files.
"""

from __future__ import annotations

from wireloom.spark.pipeline.options import DEFAULT_MASTER, PipelineOptions
from wireloom.spark.pipeline.report import Report
from wireloom.spark.pipeline.reprocess import reprocess
from wireloom.spark.pipeline.run import run_pipeline
from wireloom.spark.pipeline.stream import StreamOptions, follow

__all__ = [
    "DEFAULT_MASTER",
    "PipelineOptions",
    "Report",
    "StreamOptions",
    "follow",
    "reprocess",
    "run_pipeline",
]
