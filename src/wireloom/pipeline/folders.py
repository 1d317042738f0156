"""Following packet captures: what is to be read of those of a folder, which count as one capture.

They are read in the order of their names, each up to its last whole record, then the next one once
it is no longer written. Rows that depend only on what was read are committed for good. When nothing
more comes, a commit of its own *closes* the folder: it has the rest of the open connections, as if
they ended there, so that the lake is what a batch over the same bytes gives. If there is more after
all, the next commit takes these rows back.

When something changes that was read for good (a capture is replaced, cut or moved, an earlier one
grows, one turns up that belongs before others), the whole folder is read again and replaces what
was there, in one commit.

All this is decided by the log and the captures alone, so that any process can continue.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from wireloom.captures.bytesource import ByteSource
from wireloom.errors import SourceError
from wireloom.lake import Change, DataFile, Input
from wireloom.lake.inputs import digest_of, look_at
from wireloom.tabulate.following import PacketWalk, Step, packet_frontier

__all__ = ["STILL_S", "Folder", "Move", "Planner", "folders_in", "is_pending"]

STILL_S: Final = 2.0
"""Seconds without a change after which a capture with a successor is complete."""


def is_pending(change: Change) -> bool:
    """Whether a capture needs work, or may need it."""
    return change.kind != "same" or change.now.is_open


@dataclass(frozen=True, slots=True)
class Folder:
    """Packet captures that are followed as one, as the log knows them."""

    members: tuple[Input, ...]
    """In the order in which they are read."""

    @property
    def capture(self) -> str:
        """What its members have in common."""
        found: str = self.leader.state["capture"]
        return found

    @property
    def leader(self) -> Input:
        """The first member, whose state holds what concerns all."""
        return self.members[0]

    @property
    def last(self) -> Input:
        """The last member, the only one that may still grow."""
        return self.members[-1]

    @property
    def batch(self) -> int:
        """Number of its last commit."""
        found: int = self.leader.state["batch"]
        return found

    @property
    def closing(self) -> Mapping[str, Any] | None:
        """The commit that closed it, if it is closed."""
        return self.leader.state.get("closing")

    def closing_files(self, files: Iterable[str]) -> list[str] | None:
        """The files of the lake that the closing commit added; None if any has changed since.

        Other commits compact files, or take rows out of them.
        """
        if self.closing is None:
            return []
        name = f"part-{self.closing['version']:08d}-"
        found = [path for path in files if path.rpartition("/")[2].startswith(name)]
        return found if len(found) == self.closing["files"] else None

    def ended(self, capture: str) -> list[Input]:
        """What the log must know if it cannot continue; its last capture begins another one."""
        leader = self.leader
        kept = {name: leader.state[name] for name in ("capture", "order", "start", "batch")}
        found = [replace(leader, is_open=False, state={**kept, "ended": True})]
        if _is_there(self.last):
            state = {"capture": capture, "order": 0, "start": self.last.end, "batch": 0}
            found.append(replace(self.last, is_open=True, state=state))
        elif self.last is not leader:
            found.append(replace(self.last, is_open=False))
        return found


def folders_in(known: Mapping[str, Input]) -> dict[str, Folder]:
    """The folders that are followed, by their paths."""
    captures: dict[tuple[str, int], list[Input]] = {}
    for one in known.values():
        if one.kind == "packets" and "order" in one.state:
            key = os.path.dirname(one.path), int(one.state["capture"])
            captures.setdefault(key, []).append(one)
    found = {}
    for (path, _), members in sorted(captures.items()):
        members.sort(key=lambda one: int(one.state["order"]))
        found[path] = Folder(tuple(members))  # the last capture is the one that continues
    return {path: one for path, one in found.items() if "ended" not in one.leader.state}


@dataclass(slots=True)
class Move:
    """What to do next with the captures of a folder."""

    capture: str
    before: tuple[Input, ...]
    """Its members as they were read; none if it is read from the start."""
    after: list[Input]
    """Its members when this is done."""
    is_end: bool = False
    """Whether connections end there, until there is more."""
    replaced: set[str] = field(default_factory=set)
    """Captures whose rows are removed."""
    withdrawn: list[str] = field(default_factory=list)
    """Files of the lake that are removed: rows of connections that continue after all."""
    folder: Folder | None = None
    """The folder as it was."""

    @property
    def steps(self) -> list[Step]:
        """How far the captures are read."""
        return [Step(one.path, self._end(one)) for one in self.after if self._end(one)]

    def _end(self, one: Input) -> int:
        # A folder is closed with whatever is at the end of its last capture, if that exists.
        is_whole = self.is_end and one is self.after[-1] and _is_there(one)
        return one.size if is_whole else one.end

    @property
    def size(self) -> int:
        """Bytes to read for the first time."""
        done = sum(one.end for one in self.before)
        return max(0, sum(one.end for one in self.after) - done)

    @property
    def files(self) -> int:
        """Captures that are read for the first time."""
        return len({one.path for one in self.after} - {one.path for one in self.before})

    def inputs(self, **more: Any) -> list[Input]:
        """What the log must know; `more` concerns the folder."""
        last = len(self.after) - 1
        old = {one.path: one for one in self.before}
        found = []
        for order, one in enumerate(self.after):
            state = {"capture": self.capture, "order": order, "start": one.state["start"]}
            if order == 0:
                batch = self.folder.batch + 1 if self.before and self.folder else 1
                state = {**state, "batch": batch, **more}
            made = replace(one, is_open=order == last and not self.is_end, state=state)
            if made != old.get(one.path):
                found.append(made)
        return found


class Planner:
    """Decides how far the captures of folders are read."""

    def __init__(self, settle_s: float, max_bytes: int) -> None:
        """Nothing is known yet.

        Args:
            settle_s: captures without a change for that many seconds are complete.
            max_bytes: about how much is read for one commit.
        """
        self._settle_s = settle_s
        self._still_s = min(settle_s, STILL_S)
        self._max_bytes = max_bytes
        self._walks: dict[str, PacketWalk] = {}

    def plan(
        self,
        changes: Sequence[Change],
        folder: Folder | None,
        known: Mapping[str, Input],
        files: Mapping[str, DataFile],
        moved: Collection[str],
        version: int,
        *,
        is_last: bool,
    ) -> Move | None:
        """What to do next with the packet captures of one folder; None: nothing.

        Args:
            changes: the packet captures that exist, in order.
            folder: what is known of it, if it is followed.
            known: all captures that the lake knows.
            files: all files that the lake has.
            moved: paths of captures that are elsewhere now.
            version: number of the next commit.
            is_last: treat everything as complete.

        Raises:
            SourceError: a capture cannot be read, or one that would have to be read again is gone.
        """
        now_ns = time.time_ns()
        pending = [change for change in changes if is_pending(change)]
        is_lost = folder is not None and folder.last.is_open and not _is_there(folder.last)
        if not pending and not is_lost:
            return None
        stale = _stale(changes, folder)
        withdrawn = [] if folder is None else folder.closing_files(files)
        if folder is not None and (stale or (pending and withdrawn is None)):
            stale.add(folder.capture)
        if stale:
            old = [one for one in known.values() if one.state.get("capture") in stale]
            _check_there(old, moved)
            move = Move(str(version), (), [])
            move.replaced = {one.path for one in old}
            queue = [one for one in changes if is_pending(one) or one.now.path in move.replaced]
            if not queue:
                return move  # all of it is elsewhere now
        elif folder is None:
            move = Move(str(version), (), [])
            queue = pending
        else:
            move = Move(folder.capture, folder.members, list(folder.members), folder=folder)
            move.withdrawn = withdrawn or []
            queue = [one for one in changes if is_pending(one) or one.now.path == folder.last.path]
        move.replaced |= {
            change.before.path
            for change in queue
            if change.before is not None and change.before.kind != "packets"
        }
        is_through = self._read_on(move, queue, now_ns, is_last)
        if move.after != list(move.before):
            return move
        idle_s = min(((now_ns - one.now.mtime_ns) / 1e9 for one in queue), default=float("inf"))
        if not is_through or not (is_last or idle_s >= self._settle_s):
            return None
        for change in queue:  # what is after these places is read, but not for good
            _put(move, change.now, _end_of(move, change.now))
        move.is_end = True
        return move

    def _read_on(self, move: Move, queue: Sequence[Change], now_ns: int, is_last: bool) -> bool:
        """Advance as far as possible; True if only the end of the last capture is left."""
        # Rows are replaced in one step.
        left = sys.maxsize if move.replaced else self._max_bytes
        for number, change in enumerate(queue):
            now = change.now
            is_newest = number == len(queue) - 1
            is_still = is_last or (now_ns - now.mtime_ns) / 1e9 >= self._still_s
            is_over = not is_newest and is_still
            first = _end_of(move, now)
            end = self._end(now, first, is_over, left)
            left -= end - first
            if end > now.size:  # it grew meanwhile
                now = look_at(now.path)
                now = replace(now, digest=digest_of(now.path, now.size))
            if end > first:
                _put(move, now, end)
            if is_newest:
                return left > 0
            if not is_over or end < now.size:
                return False
            self._walks.pop(now.path, None)
        return True

    def _end(self, now: Input, first: int, is_over: bool, left: int) -> int:
        """How far a capture can be read for good."""
        if left <= 0 or first >= now.size:
            return first
        with ByteSource(now.path) as source:
            is_packed = bool(source.compression)
        if is_packed:
            return now.size if is_over else first
        walk = self._walks.get(now.path)
        if walk is None or walk.position != first:
            walk = self._walks[now.path] = PacketWalk()
            if first:
                packet_frontier(now.path, walk, first, is_final=True)
        is_whole = now.size - first <= left
        limit = None if is_whole else left
        return packet_frontier(now.path, walk, limit, is_final=is_over and is_whole)


def _end_of(move: Move, now: Input) -> int:
    """How far a capture is read: the last one, or one that comes after it."""
    return move.after[-1].end if move.after and move.after[-1].path == now.path else 0


def _put(move: Move, now: Input, end: int) -> None:
    """The capture as it is now, read up to that place."""
    first, state = 0, {"start": 0}
    if move.after and move.after[-1].path == now.path:
        last = move.after.pop()
        first, state = last.end, dict(last.state)
    move.after.append(replace(now, kind="packets", first=first, end=end, state=state))


def _stale(changes: Sequence[Change], folder: Folder | None) -> set[str]:
    """Captures in which something has changed that was read for good."""
    found: set[str] = set()
    members = {one.path for one in folder.members} if folder is not None else set()
    places = [index for index, change in enumerate(changes) if change.now.path in members]
    last = max(places, default=-1)
    for index, change in enumerate(changes):
        if not is_pending(change):
            continue
        before = change.before
        if before is not None and before.kind == "packets":
            is_last = folder is not None and change.now.path == folder.last.path
            if not is_last or change.kind not in ("same", "grown"):
                found.add(before.state["capture"])
        elif folder is not None and (
            # It belongs before others, or its rows and those of the folder's end would go at once.
            index < last or (before is not None and folder.closing is not None)
        ):
            found.add(folder.capture)
    return found


def _check_there(members: Sequence[Input], moved: Collection[str]) -> None:
    """Check that all members exist, or have moved.

    Raises:
        SourceError: one is gone.
    """
    for one in members:
        if one.path not in moved and not _is_there(one):
            raise SourceError(
                "it was read together with captures that have changed, and is gone: connections "
                "may go from one to the other",
                file=one.path,
            )


def _is_there(one: Input) -> bool:
    return Path(one.path).exists()
