"""The part of the demo that needs Spark."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from wireloom import demo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_captures_become_tables_that_answer_questions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "MESSAGES", 4000)
    out = io.StringIO()
    console = Console(file=out, width=120, highlight=False, markup=False, emoji=False)
    demo.show_lake(console, spark)
    shown = out.getvalue()
    assert shown.startswith("4,000 frames")
    assert "the sum is right" in shown
    for line in ("blaze ", "nais ", "nrep ", "fields ", "ok  ", "live  ", "requester  "):
        assert f"\n{line}" in shown
