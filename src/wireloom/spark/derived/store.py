"""Derived tables kept in a lake, made from its tables with Spark.

Tasks write the rows into the lake's staging folder, as those of the pipeline do; the driver
replaces the table as a whole, in one commit. The log says what a table was made of, so that making
it again from the same rows does nothing.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from wireloom.errors import LakeError, OptionError, WireloomError
from wireloom.lake import DataFile, Derivation, Lake, StagedWriter, WriteOptions, Writing
from wireloom.pipeline.executor import Progress
from wireloom.spark.arrowmap import map_batches
from wireloom.spark.derived import derive, derived_names, recipe, tables_of
from wireloom.tables import arrow_schema

__all__ = ["Planned", "StoredTable", "as_stored", "plan_derived", "store_derived"]

_LOOK_S: Final = 0.5
_SHORT: Final = 200
"""Longest option, in characters, that the log has as it is."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A derived table, and whether it has to be made."""

    name: str
    options: Mapping[str, Any]
    made: Derivation
    """What it would be made of."""
    is_current: bool
    """Whether the lake has it already, made of exactly that."""
    size: int
    """Bytes of the table that it is made of."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A derived table, as the lake has it."""

    name: str
    rows: int
    files: int
    bytes: int
    made_of: int
    """The version of the lake that it was made of."""
    is_new: bool
    """Whether it was made now, not earlier from the same rows."""


def plan_derived(
    lake: Lake,
    names: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    *,
    writing: WriteOptions | None = None,
    force: bool = False,
) -> list[Planned]:
    """Which derived tables are to be made from a lake; only its log is read.

    The arguments are those of `store_derived`.

    Raises:
        OptionError: there is no such table or option, or an option is missing.
        LakeError: the lake does not have the tables that are needed.
    """
    given = dict(options or {})
    chosen = list(dict.fromkeys(names or derived_names()))
    if unknown := sorted(set(given) - {key for each in chosen for key in recipe(each).options}):
        raise OptionError(f"no option {unknown[0]!r} of {', '.join(chosen)}")
    possible = [each for each in chosen if _is_possible(lake, each, given)]
    if not possible or (names and len(possible) < len(chosen)):
        raise _impossible(lake, [each for each in chosen if each not in possible], given)
    return [_plan(lake, each, given, writing or WriteOptions(), force) for each in possible]


def _is_possible(lake: Lake, name: str, given: Mapping[str, Any]) -> bool:
    """Whether there is anything to make it of, or was when it was last made."""
    found = recipe(name)
    has_options = all(each in given for each in found.required)
    return has_options and (found.needs in lake.tables or name in lake.tables)


def _impossible(lake: Lake, names: Sequence[str], given: Mapping[str, Any]) -> WireloomError:
    for name in names:
        for option in recipe(name).required:
            if recipe(name).needs in lake.tables and option not in given:
                return OptionError(f"{name} needs the option {option!r}")
    needs = ", ".join(f"{name} is made of {recipe(name).needs}" for name in names)
    known = ", ".join(lake.tables) or "none"
    return LakeError(f"{needs}: no such table here; there are: {known}", path=str(lake.path))


def _plan(
    lake: Lake, name: str, given: Mapping[str, Any], how: WriteOptions, force: bool
) -> Planned:
    found = recipe(name)
    own = {key: value for key, value in given.items() if key in found.options}
    noted = {key: _noted(value) for key, value in own.items() if value != found.options[key]}
    if how.dates != "name":
        noted["date"] = how.dates
    of = {each: lake.state.changed.get(each, 0) for each in (found.needs, *found.uses)}
    before = lake.state.derived.get(name)
    is_current = before is not None and (before.of, before.options) == (of, noted)
    size = sum(file.bytes for file in lake.files(found.needs))
    made = Derivation(lake.version, of, noted)
    return Planned(name, own, made, is_current and not force, size)


def _noted(value: Any) -> Any:
    """An option as the log has it: the text if it is short, else a digest."""
    if isinstance(value, (list, tuple)):
        return [_noted(each) for each in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= _SHORT:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def store_derived(
    spark: SparkSession,
    lake: str | os.PathLike[str],
    names: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    *,
    writing: WriteOptions | None = None,
    force: bool = False,
    progress: Progress | None = None,
    planned: Progress | None = None,
) -> list[StoredTable]:
    """Make derived tables of a lake's tables, and keep them in it, each in one commit.

    One that was made of the same rows with the same options is left alone. Nobody else can write to
    the lake meanwhile.

    Args:
        spark: a session; `wireloom.spark.session` makes one.
        lake: the folder of the lake.
        names: which; if empty, all for which there are base tables and options.
        options: of `wireloom.spark.derived.derive`, each for the tables that have it.
        writing: how files are made.
        force: make them again in any case.
        progress: called from time to time with the number of bytes done.
        planned: called with the number of bytes there are.

    Raises:
        OptionError: there is no such table or option, or an option is missing.
        LakeError: there is no such lake, it does not have the tables that are needed, it is damaged
            or another process is writing to it.
        WireloomError: Spark cannot make one.
    """
    how = writing or WriteOptions()
    with Lake(lake).write() as writer:
        plans = plan_derived(writer.lake, names, options, writing=how, force=force)
        todo = [plan for plan in plans if not plan.is_current]
        if planned is not None:
            planned(sum(plan.size for plan in todo))
        done = 0
        for plan in todo:
            with _followed(spark, _share(progress, done, plan.size)):
                # Nothing is made of nothing, and takes no Spark.
                has_rows = writer.lake.files(recipe(plan.name).needs)
                files = _make(spark, writer, plan, how) if has_rows else []
            writer.commit(
                files,
                kind="derive",
                whole=[plan.name],
                notes={"schemas": writer.lake.news([recipe(plan.name).table])},
                derived={plan.name: plan.made},
            )
            done += plan.size
            if progress is not None:
                progress(done)
        return [as_stored(writer.lake, plan) for plan in plans]


def as_stored(lake: Lake, plan: Planned) -> StoredTable:
    """What the lake has of a derived table that was made."""
    files = lake.files(plan.name)
    return StoredTable(
        plan.name,
        rows=sum(file.rows for file in files),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        made_of=lake.state.derived[plan.name].version,
        is_new=not plan.is_current,
    )


def _make(spark: SparkSession, writer: Writing, plan: Planned, how: WriteOptions) -> list[DataFile]:
    """The files of a derived table, in staging.

    Raises:
        WireloomError: Spark cannot make it.
    """
    schema = arrow_schema(recipe(plan.name).table, spark=True)
    task = _task(str(writer.root), writer.run, plan.name, schema, how)
    try:
        frame = derive(plan.name, tables_of(spark, writer.lake), **plan.options)
        rows = map_batches(frame, task, "files binary").collect()
    except PySparkException as error:
        text = str(error).partition("\n\nJVM")[0]
        raise WireloomError(f"{plan.name} cannot be made: {text}") from error
    return [file for row in rows for file in pickle.loads(row[0])]


def _task(
    root: str, run: str, name: str, schema: pa.Schema, how: WriteOptions
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with StagedWriter(root, run, how) as writer:
            for batch in batches:
                writer.write(name, batch.cast(schema))
            files = writer.close()
        yield pa.record_batch([pa.array([pickle.dumps(files)], pa.binary())], names=["files"])

    return write


# --- progress -------------------------------------------------------------------------------------


def _share(progress: Progress | None, before: int, size: int) -> Callable[[float], None] | None:
    """Converts the finished part of a table into a number of bytes, and reports it."""
    if progress is None:
        return None
    return lambda part: progress(before + int(size * part))


@contextmanager
def _followed(spark: SparkSession, told: Callable[[float], None] | None) -> Iterator[None]:
    """Report the finished part of Spark's known tasks, while the block runs."""
    if told is None or not hasattr(spark, "sparkContext"):
        yield
        return
    context = spark.sparkContext
    group = f"wireloom-derive-{os.urandom(8).hex()}"
    is_over = Event()

    def follow() -> None:
        most = 0.0
        while not is_over.wait(_LOOK_S):
            most = max(most, _done(context, group))
            told(most)

    context.setJobGroup(group, "wireloom derive")
    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        # None removes it, whatever type PySpark declares.
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _done(context: Any, group: str) -> float:
    """The finished part of the tasks of a job group; Spark plans more of them as it goes."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    numbers = {number for job in jobs if job is not None for number in job.stageIds}
    stages = [stage for each in numbers if (stage := tracker.getStageInfo(each)) is not None]
    tasks = sum(stage.numTasks for stage in stages)
    return sum(stage.numCompletedTasks for stage in stages) / tasks if tasks else 0.0
