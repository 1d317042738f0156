"""Captures → a lake of tables: incremental, and all or nothing at every step.

`run_pipeline` brings in what is new, `follow` goes on doing so, `reprocess` reads the quarantine
again. Tasks decode and write Parquet into the lake's staging place; the caller proves that their
shares meet, and commits. Who runs the tasks is an `Executor`: the calling process (`InProcess`), or
Spark (`wireloom.spark.executor.SparkExecutor`). Nothing here knows Spark.
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
