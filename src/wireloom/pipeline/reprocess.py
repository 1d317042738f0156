"""The quarantine of a lake, read again: what succeeds moves into the tables, in one commit."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.lake import DataFile, Input, Lake, StagedWriter, Writing
from wireloom.lake.layout import NO_DATE
from wireloom.lake.rewriting import read_batches
from wireloom.pipeline.executor import Executor, Progress
from wireloom.pipeline.options import PipelineOptions
from wireloom.pipeline.quarantine import Quarantine
from wireloom.pipeline.report import Report
from wireloom.pipeline.run import Runner
from wireloom.pipeline.work import Outcome
from wireloom.rows import shown
from wireloom.tabulate import Settings

__all__ = ["reprocess"]

Mended = Mapping[tuple[str, str], tuple[int, int]]
"""By source and stream: bytes now decoded, and frames."""


def reprocess(
    lake: str | os.PathLike[str],
    settings: Settings | None = None,
    options: PipelineOptions | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    planned: Progress | None = None,
) -> Report:
    """Read the errors of a lake again, with other settings: a better dictionary, model, limit.

    Rows of `errors` whose bytes can be read now become rows of the other tables, and the accounting
    is brought up to date, all in one commit. The captures are not needed.

    Args:
        lake: the folder of the lake.
        settings: how to read now.
        options: how the work is done.
        executor: what runs the tasks; None: the calling process.
        progress: called from time to time with the number of bytes done.
        planned: called with the number of bytes there are.

    Raises:
        OptionError: the executor cannot do what the options ask for.
        LakeError: there is no lake, it is damaged, or another process is writing to it.
    """
    began = time.monotonic()
    how = options or PipelineOptions()
    with Lake(lake).write() as writing:
        runner = Runner(writing, settings, how, executor)
        runner.progress = progress
        opened = writing.lake
        units = [
            Quarantine(str(opened.place(file)), file.path, file.day or NO_DATE, file.bytes)
            for file in opened.files("errors")
        ]
        if planned is not None:
            planned(sum(unit.size for unit in units))
        if units:
            runner.prepare([])
            _commit(writing, how, runner.do(units), runner.report)
    runner.report.seconds = time.monotonic() - began
    return runner.report


def _commit(
    writing: Writing, how: PipelineOptions, outcomes: Sequence[Outcome], report: Report
) -> None:
    done = [one for one in outcomes if one.reread is not None and one.reread.mended]
    report.bytes_read = sum(one.reread.read for one in outcomes if one.reread is not None)
    if not done:
        return
    mended: dict[tuple[str, str], tuple[int, int]] = {}
    for one in done:
        for source, stream, size, frames in one.reread.accounts if one.reread else ():
            before = mended.get((source, stream), (0, 0))
            mended[source, stream] = (before[0] + size, before[1] + frames)
    files = [file for one in done for file in one.files]
    accounts, gone = _accounting(writing, how, mended)
    gone += [one.unit.file for one in done if isinstance(one.unit, Quarantine)]
    count = sum(one.reread.mended for one in done if one.reread is not None)
    writing.commit(
        [*files, *accounts],
        remove=gone,
        inputs=_followed(writing, mended),
        kind="reprocess",
        notes={"mended": count},
    )
    report.wrote(file for file in files if file.table != "errors")
    report.commits += 1
    report.totals = {"mended": count, "decoded": sum(size for size, _ in mended.values())}


def _accounting(
    writing: Writing, how: PipelineOptions, mended: Mended
) -> tuple[list[DataFile], list[str]]:
    """Files of the accounting with the new numbers, and the paths of those that they replace."""
    sources = {source for source, _ in mended}
    gone = []
    wanted = pa.array(sorted(sources), pa.string())
    with StagedWriter(writing.root, writing.run, how.writing) as writer:
        for file in writing.lake.files("accounting"):
            if file.sources is not None and not sources & set(file.sources):
                continue
            gone.append(file.path)
            for batch in read_batches(writing.lake, file):
                is_meant = pc.is_in(batch.column("source").cast(pa.string()), wanted)
                writer.put("accounting", None, batch.filter(pc.invert(is_meant)))
                rows = [_corrected(row, mended) for row in batch.filter(is_meant).to_pylist()]
                if rows:
                    writer.put("accounting", None, pa.RecordBatch.from_pylist(rows, batch.schema))
        return writer.close(), gone


def _corrected(row: Mapping[str, Any], mended: Mended) -> dict[str, Any]:
    size, frames = mended.get((row["source"], row["stream"]), (0, 0))
    return {
        **row,
        "decoded": row["decoded"] + size,
        "quarantined": row["quarantined"] - size,
        "frames": row["frames"] + frames,
    }


def _followed(writing: Writing, mended: Mended) -> list[Input]:
    """Captures that are still followed, whose accounting is not in the table yet."""
    found = []
    for one in writing.lake.state.inputs.values():
        if one.is_open and (shown(one.path), shown(one.path)) in mended:
            accounting = _corrected(one.state["accounting"], mended)
            found.append(dataclasses.replace(one, state={**one.state, "accounting": accounting}))
    return found
