"""Captures → a lake of tables: incremental, and all or nothing at every step.

`run_pipeline` loads what is new, `follow` keeps doing so, `reprocess` reads the quarantine again.
Tasks decode and write Parquet into the lake's staging folder; the caller proves that their ranges
meet, and commits. An `Executor` runs the tasks: the calling process (`InProcess`), or Spark
(`wireloom.spark.executor.SparkExecutor`). Nothing here knows Spark.
"""

from __future__ import annotations

from wireloom.pipeline.executor import Engine, Executor, InProcess
from wireloom.pipeline.follow import StreamOptions, follow
from wireloom.pipeline.options import PipelineOptions
from wireloom.pipeline.report import Report
from wireloom.pipeline.reprocess import reprocess
from wireloom.pipeline.run import run_pipeline

__all__ = [
    "Engine",
    "Executor",
    "InProcess",
    "PipelineOptions",
    "Report",
    "StreamOptions",
    "follow",
    "reprocess",
    "run_pipeline",
]
