"""Following captures: what is added to them gets into the lake, in small commits.

There is no checkpoint other than the lake's log: every commit says how far each capture was read. A
pipeline that is killed continues from there, and the rows are the same as if it had not been.

A raw capture that still grows is read except for its last bytes, which may be an unfinished frame:
they wait until there are more, or until nothing is added for a while. Then the capture is *settled*
and read to its end. Packed ones are read when they are settled. The packet captures of a
folder are read as one; see `wireloom.pipeline.folders`.

Spark's streams have a follower of their own: `wireloom.spark.offsets` says why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from threading import Event
from typing import Final

from wireloom.captures.finding import is_remote
from wireloom.errors import OptionError, SourceError
from wireloom.lake import Change, Input, Lake, compare
from wireloom.pipeline.executor import Executor
from wireloom.pipeline.folders import is_pending
from wireloom.pipeline.options import PipelineOptions
from wireloom.pipeline.packetfollow import PacketStream
from wireloom.pipeline.plan import Range, Unit, Whole, can_split, cut, is_packets
from wireloom.pipeline.report import Report
from wireloom.pipeline.run import Group, Runner
from wireloom.pipeline.seams import Chain
from wireloom.tabulate import Settings

__all__ = ["MARGIN", "StreamOptions", "follow"]

MARGIN: Final = 1 << 16
"""Bytes at the end of a growing capture that wait: most frames are shorter."""
_HEADER: Final = 64
"""Bytes after a frame that may have been looked at to recognise it."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How captures are followed.

    Raises:
        OptionError: a value cannot be used; raised on creation.
    """

    every_s: float = 5.0
    """Seconds from the start of one round to the start of the next."""
    settle_s: float = 30.0
    """A capture to which nothing was added for that many seconds is complete."""
    max_bytes: int = 1 << 30
    """About how much one round reads."""

    def __post_init__(self) -> None:
        if self.every_s < 0 or self.settle_s < 0 or self.max_bytes < 1:
            raise OptionError("intervals are not negative, and a round reads something")


def follow(
    sources: Sequence[str | os.PathLike[str]],
    lake: str | os.PathLike[str],
    settings: Settings | None = None,
    options: PipelineOptions | None = None,
    following: StreamOptions | None = None,
    *,
    executor: Executor | None = None,
    stop: Event | None = None,
    told: Callable[[Report], None] | None = None,
) -> Report:
    """Load captures into a lake as they grow, until `stop` is set.

    Then the captures are read to their ends, as if they were complete, and it returns.

    Args:
        sources: files, folders or patterns; looked at in every round.
        lake: the folder of the lake, made if there is none.
        settings: which tables, formats and dictionaries.
        options: how the work is done.
        following: how often, and what is complete.
        executor: what runs the tasks; None: the calling process.
        stop: set by another thread.
        told: called after each round that read anything.

    Raises:
        OptionError: a source is an address, or the executor cannot do what the options ask for.
        LakeError: the lake is damaged, or another process is writing to it.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    how = following or StreamOptions()
    for source in sources:
        if is_remote(os.fspath(source)):
            reason = "only captures on this machine's file systems can be followed"
            raise OptionError(f"{os.fspath(source)}: {reason}")
    is_over = stop or Event()
    with Lake.create(lake).write() as writing:
        runner = Runner(writing, settings, options, executor)
        follower = _Follower(runner, list(sources), how)
        try:
            while not is_over.is_set():
                began = time.monotonic()
                if follower.round() and told is not None:
                    told(runner.report)
                is_over.wait(max(0.0, how.every_s - (time.monotonic() - began)))
            while follower.round(is_last=True):
                if told is not None:
                    told(runner.report)
        finally:
            follower.close()
        return runner.report


@dataclass(slots=True)
class _Step:
    """What one round does with one capture."""

    change: Change
    units: list[Unit]
    input: Input
    """The capture as the log knows it once this is committed."""
    chain: Chain | None = None
    is_settled: bool = True

    @property
    def size(self) -> int:
        """Bytes to read, about."""
        return sum(unit.size for unit in self.units)

    @property
    def replaced(self) -> str | None:
        """The capture whose rows are removed."""
        before = self.change.before
        return None if before is None or self.input.first else before.path

    @property
    def taken(self) -> Input | None:
        """How far the capture can be read now; None if growing might change what was read."""
        if self.chain is None or not self.input.is_open:
            return self.input
        if not self.is_settled and self.chain.end > self.input.size - _HEADER:
            return None
        return replace(self.input, end=self.chain.end)


class _Follower:
    def __init__(
        self, runner: Runner, sources: list[str | os.PathLike[str]], how: StreamOptions
    ) -> None:
        self._runner = runner
        self._sources = sources
        self._how = how
        self._packets = PacketStream(runner, self._is_ours, how.settle_s, how.max_bytes)
        self._over: set[str] = set()

    def close(self) -> None:
        self._packets.close()

    def _is_ours(self, path: str) -> bool:
        """Whether a file with that path would be a source."""
        sources = (os.path.abspath(source) for source in self._sources)
        return any(path.startswith(f"{one}{os.sep}") or fnmatch(path, one) for one in sources)

    def round(self, *, is_last: bool = False) -> bool:
        """Read what is new, up to the limit; whether there was anything."""
        try:
            changes = compare(self._runner.expand(self._sources), self._runner.known)
            raw, packets = _by_kind(changes)
        except SourceError:
            return False  # nothing there yet, or it is being rotated: left to the next round
        pending = [change.now.path for change in changes if is_pending(change)]
        if pending:
            self._runner.prepare(pending)
        is_any = self._raw(raw, is_last)
        return self._packets.round(packets, is_last=is_last) or is_any

    def _raw(self, changes: Sequence[Change], is_last: bool) -> bool:
        steps: list[_Step] = []
        size = 0
        for step in self._steps(changes, is_last):
            if steps and size + step.size > self._how.max_bytes:
                break
            steps.append(step)
            size += step.size
        if not steps:
            return False
        runner = self._runner
        outcomes = runner.do([unit for step in steps for unit in step.units])
        chains = {step.input.path: step.chain for step in steps if step.chain is not None}
        done = runner.prove(outcomes, chains)
        group = Group()
        inputs = []
        for step in steps:
            taken = step.taken
            if taken is None:
                done = [one for one in done if not _is_of(one.unit, step.input.path)]
                continue
            inputs.append(taken)
            group.size += step.size
            if step.replaced is not None:
                group.replaced.add(step.replaced)
            if is_last and not taken.is_open:
                self._over.add(taken.path)  # what is added from now on is for the next run
        if inputs:
            runner.commit(group, done, inputs)
        return bool(inputs)

    def _steps(self, changes: Sequence[Change], is_last: bool) -> Iterator[_Step]:
        now = time.time_ns()
        for change in changes:
            if is_pending(change) and change.now.path not in self._over:
                idle_s = (now - change.now.mtime_ns) / 1e9
                step = self._step(change, is_last or idle_s >= self._how.settle_s)
                if step is not None:
                    yield step

    def _step(self, change: Change, is_settled: bool) -> _Step | None:
        before, now = change.before, change.now
        # One that was read to its end, was moved or rewritten is read again from its start.
        is_on = before is not None and before.is_open and change.kind in ("same", "grown")
        first = before.end if is_on and before is not None else 0
        known = replace(now, kind="raw", end=now.size, first=first, is_open=False, state={})
        if not now.size or not can_split(now.path, self._runner.settings):
            return _Step(change, [Whole((now.path,), now.size)], known) if is_settled else None
        last = now.size if is_settled else now.size - MARGIN
        if not is_settled and last - first < MARGIN:
            return None
        last = min(last, first + self._how.max_bytes)
        known = replace(known, is_open=last < now.size)
        units: list[Unit] = list(cut(now.path, first, last, self._runner.split_bytes(last - first)))
        return _Step(change, units, known, Chain(now.path, first, last), is_settled)


def _by_kind(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Raw captures, and packet captures."""
    raw: list[Change] = []
    packets: list[Change] = []
    for change in changes:
        is_known = change.kind == "same"
        kind = change.now.kind == "packets" if is_known else is_packets(change.now.path)
        (packets if kind else raw).append(change)
    return raw, packets


def _is_of(unit: object, path: str) -> bool:
    return isinstance(unit, Range) and unit.path == path
