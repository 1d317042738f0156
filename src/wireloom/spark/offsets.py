"""Captures that grow, are rotated, replaced and removed → how far each can be read, as an offset.

An offset is a flat dict: for each capture one text that says what it is and how far it is read.
The driver decides how far to go; `wireloom.tabulate.following` explains why the rows are those of a
batch over the same bytes. The rows of a task depend on the offsets alone:

* A raw capture from one seam to the next, by any worker.
* Packet captures of a folder are one capture, in the order in which they appeared. A task needs to
  know what came before. It has that from the last task in the same worker, or reads from the start.

This is not the follower of the pipeline (`wireloom.pipeline.follow`), though both go as far as
`wireloom.tabulate.following` says. Spark asks how far it can read before anything is read, keeps
the answer in its checkpoint and never takes back a row. So all state is in the offset, ranges are
cut at proven seams, and rows of open connections wait. The pipeline knows how far it got only when
the rows are written. It keeps that in the lake's log, closes a folder that no longer changes, and
takes rows back in the commit that replaces them. A follower for both could do only what both allow.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wireloom.arrow.arrays import from_rows
from wireloom.captures.finding import examine, find_paths, is_remote
from wireloom.errors import OptionError, SourceError
from wireloom.pipeline.plan import Whole
from wireloom.pipeline.splitting import even_split
from wireloom.spark.options import SourceOptions
from wireloom.spark.planning import Task, seams_in
from wireloom.tabulate import Settings
from wireloom.tabulate.following import (
    Follower,
    PacketWalk,
    Step,
    packet_frontier,
    raw_frontier,
)
from wireloom.tabulate.streams import error_row
from wireloom.tabulate.tabulation import splittable

__all__ = ["Follow", "Mark", "Notice", "Offset", "Tail", "follow", "notice"]

Offset = dict[str, str]
"""Path → `Mark`, as text."""

_HEAD: Final = 64
"""Bytes at the start of a capture by which it is recognised again."""
_LEAST: Final = 12
"""Bytes that show what kind of capture a file is."""
_STILL_S: Final = 2.0
"""Seconds without a change after which a compressed capture is complete."""
_MAX_PARTS: Final = 4
_MAX_KEPT: Final = 8
"""Followers that a worker keeps for the next micro-batch."""

RAW, MEMORY, PACKED, PACKETS, PACKED_PACKETS = "rmzpq"
"""Kinds of captures: raw; raw that needs what came before; raw and compressed; packets; both."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What an offset says about one capture."""

    kind: str
    is_done: bool
    """Whether it was read to its end, which was considered final."""
    order: int
    """Its position in the order in which captures were first seen."""
    turn: int
    """Which file of this name it is: 1, and one more each time it was replaced."""
    position: int
    """How far it is read."""
    head: str
    """Length and check value of its first bytes."""

    @classmethod
    def read(cls, text: str) -> Mark:
        """From an offset."""
        kind, done, order, turn, position, head = text.split(" ")
        return cls(kind, done == "1", int(order), int(turn), int(position), head)

    def __str__(self) -> str:
        done = int(self.is_done)
        return f"{self.kind} {done} {self.order} {self.turn} {self.position} {self.head}"

    @property
    def is_packets(self) -> bool:
        """Whether it is one of a folder's packet captures."""
        return self.kind in (PACKETS, PACKED_PACKETS)


@dataclass(frozen=True)
class Follow(InputPartition):
    """Captures to read from where another task ended."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    is_end: bool
    """Whether nothing more will come."""
    part: int
    parts: int
    token: str
    """Tells the followers of different queries apart."""


@dataclass(frozen=True)
class Notice(InputPartition):
    """Something to report about a capture."""

    path: str
    code: str
    reason: str


class Tail:
    """Plans the micro-batches of a stream; on the driver."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is looked at yet.

        Raises:
            OptionError: a path cannot be followed.
        """
        for path in options.paths:
            if is_remote(path):
                raise OptionError(f"{path}: streams follow captures on this machine's file systems")
        self._options = options
        self._token = uuid.uuid4().hex
        self._walks: dict[tuple[str, int], PacketWalk] = {}
        self._bounds: dict[str, int] | None = None

    def bound(self) -> None:
        """From now on, read only what is available now."""
        self._bounds = {path: size for path, (size, _) in self._listed().items()}

    def advance(self, start: Mapping[str, str], limit: int | None, now: float) -> Offset:
        """How far everything can be read.

        Args:
            start: where the last micro-batch ended.
            limit: about how many bytes are wanted at most.
            now: the time, in seconds since 1970.

        Raises:
            SourceError: a capture cannot be read.
        """
        files = self._listed()
        marks = self._known({path: Mark.read(text) for path, text in start.items()}, files)
        budget = _Budget(limit)
        groups: dict[PurePath, list[str]] = {}
        for path, mark in sorted(marks.items(), key=lambda item: item[1].order):
            if mark.is_packets:
                groups.setdefault(PurePath(path).parent, []).append(path)
            elif path in files and not budget.is_spent:
                size, changed = files[path]
                is_still = now - changed >= _STILL_S
                is_final = self._is_final(changed, now)
                try:
                    marks[path] = self._raw(path, mark, size, is_final, is_still, budget)
                except SourceError:
                    continue  # just removed: the next look will show
        for paths in groups.values():
            self._packets(
                [path for path in paths if not marks[path].is_done], marks, files, now, budget
            )
        ordered = sorted(marks.items(), key=lambda item: item[1].order)
        return {path: str(mark) for path, mark in ordered}

    def partitions(self, start: Mapping[str, str], end: Mapping[str, str]) -> list[InputPartition]:
        """The tasks of a micro-batch.

        Raises:
            SourceError: a capture cannot be read.
        """
        found: list[InputPartition] = []
        groups: dict[PurePath, list[tuple[str, Mark, Mark]]] = {}
        for path, text in end.items():
            last = Mark.read(text)
            first = replace(last, position=0, is_done=False)
            if path in start and (before := Mark.read(start[path])).turn == last.turn:
                first = before
            elif last.turn > 1:
                found.append(Notice(path, "replaced", "the capture was cut or replaced by another"))
            if last.is_packets:
                if not first.is_done:
                    groups.setdefault(PurePath(path).parent, []).append((path, first, last))
            elif last.kind == MEMORY:
                found += self._follow([(path, first, last)], 1)
            elif last.position > first.position:
                found += self._ranges(path, last.kind, first.position, last.position)
        parts = self._options.packet_parts or min(os.cpu_count() or 1, _MAX_PARTS)
        for members in groups.values():
            found += self._follow(members, parts)
        return found

    # --- which captures exist

    def _listed(self) -> dict[str, tuple[int, float]]:
        """Size and modification time of every capture."""
        found = {}
        for path in find_paths(self._options.paths, needed=False):
            try:
                stat = Path(path).stat()
            except OSError:
                continue  # just removed
            size = stat.st_size
            if self._bounds is not None:
                size = min(size, self._bounds.get(path, 0))
            found[path] = (size, stat.st_mtime)
        return found

    def _is_final(self, changed: float, now: float) -> bool:
        after = self._options.finish_after
        return after is not None and now - changed >= after

    def _known(
        self, marks: dict[str, Mark], files: dict[str, tuple[int, float]]
    ) -> dict[str, Mark]:
        """The marks of the captures that exist, new and replaced ones included."""
        order = max((mark.order for mark in marks.values()), default=0)
        # Packets of a removed capture are still part of connections that continue.
        found = {
            path: mark
            for path, mark in marks.items()
            if path in files or (mark.is_packets and not mark.is_done)
        }
        for path, (size, _) in files.items():
            mark = found.get(path)
            try:
                if mark is not None and size >= mark.position and _is_head(path, mark.head):
                    found[path] = replace(mark, head=_head(path, mark.head))
                elif size >= _LEAST:
                    order += 1
                    turn = 1 if mark is None else mark.turn + 1
                    found[path] = Mark(self._kind(path), False, order, turn, 0, _head(path, ""))
            except (OSError, SourceError):
                continue  # just removed, or unreadable: the next look will show
        return found

    def _kind(self, path: str) -> str:
        file = examine(path)
        if file.is_packets:
            return PACKED_PACKETS if file.is_packed else PACKETS
        if file.is_packed:
            return PACKED
        return RAW if splittable(path, self._options.settings) else MEMORY

    # --- how far

    def _raw(
        self,
        path: str,
        mark: Mark,
        size: int,
        is_final: bool,
        is_still: bool,
        budget: _Budget,
    ) -> Mark:
        if size == mark.position:
            return replace(mark, is_done=mark.is_done or is_final)
        if mark.kind == PACKED:
            end = size if is_still or is_final else mark.position
        elif mark.kind == MEMORY:
            end = size if budget.left is None else min(size, mark.position + budget.left)
        else:
            limit = size - mark.position
            limit = limit if budget.left is None else min(limit, budget.left)
            end = raw_frontier(
                path, self._options.settings, mark.position, limit, is_final=is_final
            )
        budget.spend(end - mark.position)
        return replace(mark, position=end, is_done=is_final and end >= size)

    def _packets(
        self,
        paths: list[str],
        marks: dict[str, Mark],
        files: dict[str, tuple[int, float]],
        now: float,
        budget: _Budget,
    ) -> None:
        """Advance the marks of packet captures that follow one another."""
        there = [path for path in paths if path in files]
        is_over = all(self._is_final(files[path][1], now) for path in there)
        for path in there:
            mark, (size, _) = marks[path], files[path]
            # A capture with a successor is no longer written.
            is_final = is_over or path != there[-1]
            if size > mark.position and not budget.is_spent:
                if mark.kind == PACKETS:
                    end = self._packet_end(path, mark, size, is_final, budget)
                else:
                    end = size if now - files[path][1] >= _STILL_S or is_final else mark.position
                budget.spend(end - mark.position)
                mark = marks[path] = replace(mark, position=end)
            if mark.position < size:
                return  # the order of packets matters
        if is_over and there:
            for path in paths:
                marks[path] = replace(marks[path], is_done=True)

    def _packet_end(self, path: str, mark: Mark, size: int, is_final: bool, budget: _Budget) -> int:
        walk = self._walks.setdefault((path, mark.turn), PacketWalk())
        try:
            if walk.position < mark.position:
                packet_frontier(path, walk, mark.position - walk.position, is_final=True)
            ahead = walk.position - mark.position
            limit = size - walk.position
            if budget.left is not None:
                limit = min(limit, budget.left - ahead)
            if limit > 0:
                is_whole = limit == size - walk.position
                packet_frontier(
                    path, walk, None if is_whole else limit, is_final=is_final and is_whole
                )
        except (OSError, SourceError):
            return mark.position
        return max(walk.position, mark.position)

    # --- tasks

    def _ranges(self, path: str, kind: str, first: int, last: int) -> Iterator[InputPartition]:
        size = last - first
        if kind == PACKED:
            yield Task(Whole((path,), size))
            return
        split = self._options.split_bytes or even_split(size, os.cpu_count() or 1)
        for unit in seams_in(path, self._options.settings, split, first, last):
            yield Task(unit)

    def _follow(
        self, members: list[tuple[str, Mark, Mark]], parts: int
    ) -> Iterator[InputPartition]:
        """Tasks for captures that need what came before, in the order in which they appeared."""
        members = sorted(members, key=lambda member: member[2].order)
        is_end = any(last.is_done and not first.is_done for _, first, last in members)
        if not is_end and all(first.position == last.position for _, first, last in members):
            return
        before = tuple(_step(path, first) for path, first, _ in members if first.position)
        after = tuple(_step(path, last) for path, _, last in members if last.position)
        for part in range(parts):
            yield Follow(before, after, is_end, part, parts, self._token)


class _Budget:
    """Bytes that are left for a micro-batch."""

    def __init__(self, limit: int | None) -> None:
        self.left = limit

    @property
    def is_spent(self) -> bool:
        return self.left is not None and self.left <= 0

    def spend(self, count: int) -> None:
        if self.left is not None:
            self.left -= count


def _step(path: str, mark: Mark) -> Step:
    return Step(path, mark.position, is_packets=mark.is_packets)


def _head(path: str, known: str) -> str:
    """Length and check value of the first bytes, of more than before if there are more."""
    if known.startswith(f"{_HEAD}-"):
        return known
    with Path(path).open("rb") as file:
        data = file.read(_HEAD)
    return f"{len(data)}-{zlib.crc32(data):08x}"


def _is_head(path: str, known: str) -> bool:
    """Whether a capture still begins with the same bytes."""
    length, _, value = known.partition("-")
    with Path(path).open("rb") as file:
        data = file.read(int(length))
    return len(data) == int(length) and f"{zlib.crc32(data):08x}" == value


# --- on the workers -------------------------------------------------------------------------------

_KEPT: OrderedDict[tuple[Any, ...], Follower] = OrderedDict()
"""Followers of the last micro-batches in this process."""


def follow(task: Follow, settings: Settings) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a task, with what this worker remembers, or from the start.

    Raises:
        SourceError: a capture cannot be opened or read.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    first = task.after[0].path if task.after else ""
    key = (task.token, settings.tables, first, task.part, task.parts)
    follower = _KEPT.pop(key, None)
    places = {step.path: step.end for step in task.before}
    if follower is None or not follower.can_reach(places):
        follower = Follower(settings, part=task.part, parts=task.parts)
    reached = follower.positions
    lost = [
        step.path
        for step in task.before
        if reached.get(step.path, 0) < step.end and not Path(step.path).exists()
    ]
    if lost and task.part == 0:
        for path in lost:
            reason = "removed before its open connections had ended; they start over"
            yield from notice(Notice(path, "removed", reason), settings)
    for _ in follower.advance(step for step in task.before if step.path not in lost):
        pass  # given out by the tasks before this one
    yield from follower.advance(step for step in task.after if step.path not in lost)
    if task.is_end:
        yield from follower.finish()
        return
    _KEPT[key] = follower
    while len(_KEPT) > _MAX_KEPT:
        _KEPT.popitem(last=False)


def notice(task: Notice, settings: Settings) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The row of `errors` about a capture.

    Raises:
        SourceError: in the mode ``failfast``.
    """
    if settings.mode == "failfast":
        raise SourceError(task.reason, file=task.path)
    if settings.mode == "permissive" and "errors" in settings.tables:
        what = {"layer": "capture", "format": None, "code": task.code, "reason": task.reason}
        row = error_row(task.path, "", 0, 0, None, failed_at=None, field="", raw=b"", **what)
        yield "errors", from_rows(settings.table("errors"), [row])
