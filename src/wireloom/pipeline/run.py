"""What is new among the captures → tasks → proof → commit."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wireloom.arrow.arrays import from_rows
from wireloom.captures.finding import is_there, open_sample
from wireloom.errors import OptionError, SourceError
from wireloom.lake import (
    Change,
    DataFile,
    Input,
    Lake,
    StagedWriter,
    Writing,
    compare,
    delta,
    without_sources,
)
from wireloom.lake.inputs import digest_of, look_at
from wireloom.pipeline.executor import Engine, Executor, InProcess, Progress, checked, watched
from wireloom.pipeline.options import PipelineOptions
from wireloom.pipeline.plan import (
    Range,
    Sized,
    Unit,
    can_split,
    cut,
    expand,
    is_packets,
    plan_packets,
    plan_raw,
)
from wireloom.pipeline.quarantine import Quarantine
from wireloom.pipeline.report import Report
from wireloom.pipeline.seams import Chain
from wireloom.pipeline.splitting import even_split
from wireloom.pipeline.work import Job, Outcome
from wireloom.rows import shown
from wireloom.tables import table, wide_column
from wireloom.tabulate import Settings
from wireloom.tabulate.accounting import COUNTS

__all__ = ["ALWAYS", "Group", "Runner", "run_pipeline"]

ALWAYS: Final = ("errors", "gaps", "accounting")
"""Tables that are always written: without them, what is missing could not be known."""

_FEW_PARTS: Final = 8
"""Tasks that may each read all packets: finding a packet's connection costs little."""
_MUCH: Final = 1 << 30
"""Bytes of packet captures that are worth a shuffle."""
_SMALL: Final = 8 << 20
"""Bytes of packet captures that one task reads faster than several."""


def run_pipeline(
    sources: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    lake: str | os.PathLike[str],
    settings: Settings | None = None,
    options: PipelineOptions | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    planned: Progress | None = None,
) -> Report:
    """Load captures into a lake: those that are new to it, and those that have changed.

    Running it again with the same captures changes nothing. The packet captures of a folder that
    are new in one run are read as one, so that connections go on from file to file.

    Args:
        sources: files, folders, patterns or addresses.
        lake: the folder of the lake, made if there is none.
        settings: which tables, formats and dictionaries.
        options: how the work is done.
        executor: what runs the tasks; None: the calling process.
        progress: called from time to time with the number of bytes done.
        planned: called with the number of bytes there are, once that is known.

    Raises:
        OptionError: the executor cannot do what the options ask for.
        SourceError: a capture cannot be found or read.
        LakeError: the lake is damaged, or another process is writing to it.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    given = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    began = time.monotonic()
    with Lake.create(lake).write() as writing:
        runner = Runner(writing, settings, options, executor)
        runner.progress = progress
        runner.run(given, planned)
    runner.report.seconds = time.monotonic() - began
    return runner.report


class Runner:
    """One run of a pipeline, by the writer of a lake."""

    def __init__(
        self,
        writing: Writing,
        settings: Settings | None = None,
        options: PipelineOptions | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            writing: the lake, held by this process alone.
            settings: which tables, formats and dictionaries.
            options: how the work is done.
            executor: what runs the tasks; None: the calling process.

        Raises:
            OptionError: the executor cannot do what the options ask for.
        """
        settings, options = settings or Settings(), options or PipelineOptions()
        executor = executor or InProcess()
        if options.writer == "spark" and not isinstance(executor, Engine):
            raise OptionError("the writer spark needs Spark: the calling process has arrow, delta")
        if options.writer == "delta":
            delta.enable(writing.lake)
        self.report = Report()
        self.progress: Progress | None = None
        self._executor = executor
        self._writing = writing
        self._options = options
        self._settings = dataclasses.replace(
            settings, tables=tuple(dict.fromkeys((*settings.tables, *ALWAYS)))
        )
        self._job: Job | None = None
        self._steps = 0
        self._done = 0

    # --- what is to be done

    def run(
        self, sources: Sequence[str | os.PathLike[str]], planned: Progress | None = None
    ) -> None:
        """Read what is new."""
        changes = compare(self.expand(sources), self.known)
        # One that a stream was following is read to its end now, from its start.
        changed = [change for change in changes if change.kind != "same" or change.now.is_open]
        self.report.files_known = len(changes) - len(changed)
        raw, packets = _by_kind(changed)
        order = {change.now.path: number for number, change in enumerate(changes)}
        groups = [*self._packet_groups(packets, order), *self._raw_groups(raw)]
        if planned is not None:
            planned(sum(one.size for group in groups for one in group.inputs))
        if groups:
            self.prepare([one.path for group in groups for one in group.inputs])
        for group in groups:
            if group.is_packets:
                self._read_packets(group)
            else:
                self._read_raw(group)

    @property
    def known(self) -> Mapping[str, Input]:
        """Captures that the lake knows, by path."""
        return self._writing.lake.state.inputs

    @property
    def files(self) -> Mapping[str, DataFile]:
        """Files that the lake has, by path."""
        return self._writing.lake.state.files

    def staged(self) -> StagedWriter:
        """What writes files for a commit, in this process."""
        return StagedWriter(self._writing.root, self._writing.run, self._options.writing)

    def expand(self, sources: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The captures that the sources stand for, without what is in the lake itself.

        Raises:
            SourceError: there is no such file.
        """
        inside = f"{self._writing.root}{os.sep}"
        return [path for path in expand(sources) if not path.startswith(inside)]

    def prepare(self, paths: Sequence[str]) -> None:
        """Complete the settings, with the same types of wide columns as before.

        Raises:
            SourceError: a capture or a file that the settings name cannot be read.
        """
        if self._job is not None:
            return
        known = self._writing.lake.state.columns
        columns = self._settings.columns
        if columns is not None:
            typed = [wide_column(text) for text in columns]
            columns = tuple(
                f"{name}:{type or known[name]}" if type or name in known else name
                for name, type in typed
            )
        sources = [open_sample(path) for path in paths]
        settings = dataclasses.replace(self._settings, columns=columns).resolved(sources)
        writing = self._options.writing
        self._job = Job(str(self._writing.root), self._writing.run, settings, writing)

    def _raw_groups(self, changes: Sequence[Change]) -> Iterator[Group]:
        group = Group()
        for change in changes:
            if group.inputs and group.size + change.now.size > self._options.commit_bytes:
                yield group
                group = Group()
            group.add(change)
        if group.inputs:
            yield group

    def _packet_groups(
        self, changes: Sequence[Change], order: Mapping[str, int]
    ) -> Iterator[Group]:
        """New captures of a folder as one group; changed ones with those they were read with."""
        new: dict[str, Group] = {}
        together: dict[str, dict[str, Change]] = {}
        for change in changes:
            if change.before is None or change.before.kind != "packets":
                folder = os.path.dirname(change.now.path)
                new.setdefault(folder, Group(is_packets=True)).add(change)
            else:
                before = change.before
                together.setdefault(before.state["capture"], {})[before.path] = change
        for capture, changed in together.items():
            group = Group(is_packets=True)
            for before in self.known.values():
                if before.state.get("capture") == capture:
                    group.add(changed.get(before.path) or _again(before, changed))
            if all(one.path in order for one in group.inputs):
                group.inputs.sort(key=lambda one: order[one.path])
            yield group
        yield from new.values()

    # --- doing the work

    def do(self, units: Sequence[Unit | Quarantine]) -> list[Outcome]:
        """Have units run by tasks.

        Raises:
            WireloomError: a task gave up because of the captures or the settings.
        """
        if not units:
            return []
        job, progress = self._next()
        # The largest begin first, so that none is left over when all the others are done.
        ordered = sorted(units, key=lambda unit: unit.size, reverse=True)
        with watched(job, progress):
            return checked(self._executor.run(job, ordered))

    def _next(self) -> tuple[Job, Progress | None]:
        """What the tasks of the next step share, and what is called with their progress."""
        assert self._job is not None
        self._steps += 1
        job = replace(self._job, step=self._steps)
        if self._options.writer == "spark":
            only = dataclasses.replace(job.settings, tables=("accounting",), columns=None)
            job = replace(job, settings=only)
        before, told = self._done, self.progress
        if told is None:
            return job, None
        return job, lambda done: told(before + done)

    def _finish(self, size: int) -> None:
        self._done += size
        if self.progress is not None:
            self.progress(self._done)

    def _read_raw(self, group: Group) -> None:
        split = self.split_bytes(group.size)

        def blindly(one: Sized) -> list[Range]:
            is_cut = can_split(one.path, self.settings)
            return list(cut(one.path, 0, one.size, split)) if is_cut else []

        units = plan_raw(group.inputs, blindly, split)
        chains = {
            one.path: Chain(one.path, 0, one.size)
            for one in group.inputs
            if any(isinstance(unit, Range) and unit.path == one.path for unit in units)
        }
        outcomes = self.do(units)
        done = self.prove(outcomes, chains)
        self.commit(group, done, [replace(one, end=one.size) for one in group.inputs])

    def prove(self, outcomes: Sequence[Outcome], chains: dict[str, Chain]) -> list[Outcome]:
        """The outcomes that fit together; what does not fit is read again."""
        whole = [one for one in outcomes if not isinstance(one.unit, Range)]
        found: Sequence[Outcome] = outcomes
        while True:
            holes: list[Unit] = []
            for path, chain in chains.items():
                holes += chain.add(
                    one for one in found if isinstance(one.unit, Range) and one.unit.path == path
                )
            if not holes:
                break
            found = self.do(holes)
        self.report.repairs += sum(chain.repairs for chain in chains.values())
        return [*whole, *(one for chain in chains.values() for one in chain.proven)]

    def _read_packets(self, group: Group) -> None:
        parts = self._options.parts or (self._executor.cores if group.size > _SMALL else 1)
        engine = self._exchanging(parts, group.size)
        if engine is not None:
            job, progress = self._next()
            with watched(job, progress):
                split = self._options.split_bytes
                outcomes = checked(engine.exchange(job, group.inputs, parts, split))
        else:
            outcomes = self.do(plan_packets(group.inputs, parts))
        state = {"capture": str(self.version)}
        read = [replace(one, end=one.size, kind="packets", state=state) for one in group.inputs]
        self.commit(group, outcomes, read)

    def _exchanging(self, parts: int, size: int) -> Engine | None:
        """The executor that sends packets to their tasks; None if each task reads all packets."""
        route, engine = self._options.route, self._executor
        if not isinstance(engine, Engine) or self._options.writer == "spark":
            return None
        is_worth_it = parts > _FEW_PARTS and size > _MUCH
        return engine if route == "shuffle" or (route == "auto" and is_worth_it) else None

    @property
    def version(self) -> int:
        """Number of the next commit."""
        return self._writing.lake.version + 1

    def split_bytes(self, size: int) -> int:
        """Bytes per task when there are that many: few enough for every core to have some."""
        return even_split(size, self._executor.cores, self._options.split_bytes)

    @property
    def settings(self) -> Settings:
        """The settings as tasks get them."""
        assert self._job is not None
        return self._job.settings

    def commit(
        self,
        group: Group,
        outcomes: Sequence[Outcome],
        inputs: Sequence[Input],
        batch: tuple[str, int] | None = None,
    ) -> None:
        """Commit what was made of a group, replacing what the lake had of it, in one step.

        Args:
            group: what was read.
            outcomes: what was made of it.
            inputs: captures as they are known from now on.
            batch: the sender, and the number of its batch.
        """
        writing = self._writing
        kept: list[DataFile] = []
        gone: list[str] = []
        if group.replaced:
            names = {shown(path) for path in group.replaced}
            kept, gone = without_sources(writing, names, self._options.writing)
        new = [file for outcome in outcomes for file in outcome.files]
        new += self._by_engine(outcomes)
        accounts, inputs = self._accounts(outcomes, inputs)
        new += accounts
        self.report.add(outcomes)
        notes = {
            "rows": sum(file.rows for file in new),
            "columns": self._columns(),
            "schemas": writing.lake.news(map(self.settings.table, self.settings.tables)),
        }
        now = {one.path for one in inputs}
        self.report.withdrew([self.files[path] for path in group.withdrawn])
        writing.commit(
            [*kept, *new],
            remove=[*gone, *group.withdrawn],
            inputs=inputs,
            forget=group.replaced - now,
            batch=batch,
            notes=notes,
        )
        self.report.wrote(new)
        self.report.commits += 1
        self.report.files_read += len(inputs) if group.files is None else group.files
        self.report.files_replaced += len(group.replaced)
        self.report.bytes_read += group.size
        self._finish(group.size)

    def _by_engine(self, outcomes: Sequence[Outcome]) -> list[DataFile]:
        """The files that the engine writes, after tasks have found the seams and the accounting."""
        engine = self._executor
        if self._options.writer != "spark" or not isinstance(engine, Engine):
            return []
        job, _ = self._next()
        units: list[Unit] = []
        for one in outcomes:
            unit = one.unit
            if unit is None:
                continue  # its rows are written
            assert not isinstance(unit, Quarantine)
            if isinstance(unit, Range):
                unit = Range(unit.path, one.start, one.end, is_seam=True)
            units.append(unit)
        tables = [name for name in self._settings.tables if name != "accounting"]
        return engine.write_tables(replace(job, settings=self.settings), units, tables)

    def _columns(self) -> dict[str, str]:
        typed = (wide_column(text) for text in self.settings.columns or ())
        return {name: type for name, type in typed if type is not None}

    def _accounts(
        self, outcomes: Iterable[Outcome], inputs: Sequence[Input]
    ) -> tuple[list[DataFile], list[Input]]:
        """Add up the accounting of captures that several tasks, or several commits, have read.

        The sums of a capture of which more is expected go into the log with its state; the others
        become rows.
        """
        rows: dict[str, dict[str, Any]] = {}
        for outcome in outcomes:
            for row in outcome.accounting:
                _add(rows, row)
        known = []
        for one in inputs:
            before = self.known.get(one.path)
            if one.kind == "packets":
                known.append(one)
                continue
            if one.first and before is not None:
                _add(rows, before.state["accounting"])
            if one.is_open:
                one = replace(one, state={**one.state, "accounting": rows.pop(shown(one.path))})
            known.append(one)
        if not rows:
            return [], known
        with self.staged() as writer:
            writer.write("accounting", from_rows(table("accounting"), list(rows.values())))
            return writer.close(), known


def _add(rows: dict[str, dict[str, Any]], row: Mapping[str, Any]) -> None:
    total = rows.setdefault(row["source"], {**row, **_ZERO})
    for name in COUNTS:
        total[name] += row.get(name, 0)  # logs of earlier versions have fewer


_ZERO: Final = dict.fromkeys(COUNTS, 0)


@dataclass(slots=True)
class Group:
    """Captures that are committed together."""

    is_packets: bool = False
    inputs: list[Input] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Captures whose rows in the lake are removed."""
    withdrawn: list[str] = field(default_factory=list)
    """Files that are removed."""
    files: int | None = None
    """How many captures count as read; None: those in `inputs`."""
    size: int = 0

    def add(self, change: Change) -> None:
        """Add a capture, which is read from its start."""
        self.inputs.append(replace(change.now, kind="raw", end=0, is_open=False, state={}))
        self.size += change.now.size
        if change.before is not None:
            self.replaced.add(change.before.path)


def _by_kind(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    raw: list[Change] = []
    packets: list[Change] = []
    for change in changes:
        (packets if is_packets(change.now.path) else raw).append(change)
    return raw, packets


def _again(before: Input, changed: Collection[str]) -> Change:
    """A packet capture that is read again because one that was read with it has changed.

    Raises:
        SourceError: it is not there any more.
    """
    if not is_there(before.path):
        other = min(changed)
        raise SourceError(
            f"it was read together with {other}, which has changed, and is gone: connections may "
            f"go from one to the other",
            file=before.path,
        )
    now = look_at(before.path)
    return Change("rewritten", replace(now, digest=digest_of(now.path, now.size)), before)
