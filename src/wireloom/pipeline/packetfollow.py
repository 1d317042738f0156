"""Following packet captures: their connections, from commit to commit.

The driver reads them itself, with threads that decode: what it knows of the connections is in its
memory, and the next commit continues with it. A new driver, or one that has closed a folder that
then grows, restores it by reading the folder's captures again from the first, without the rows that
are committed: the same bytes always give the same rows.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from wireloom.arrow.arrays import from_rows
from wireloom.errors import SourceError
from wireloom.lake import Change
from wireloom.pipeline.folders import Folder, Move, Planner, folders_in
from wireloom.pipeline.report import SUMS
from wireloom.pipeline.run import Group, Runner
from wireloom.pipeline.work import Outcome
from wireloom.rows import shown
from wireloom.tables import table
from wireloom.tabulate.following import Follower, Step
from wireloom.tabulate.streams import error_row

__all__ = ["PacketStream"]

_MAX_KEPT: Final = 4
"""Folders whose connections are in memory; others are read again when they grow."""
_MAX_WORKERS: Final = 4
"""Threads that decode: more have little to do, as one thread reassembles connections."""


class _GoneError(Exception):
    """Captures that would have to be read again are gone."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.paths = paths


class PacketStream:
    """Loads the packet captures of folders into a lake as they grow."""

    def __init__(
        self, runner: Runner, is_ours: Callable[[str], bool], settle_s: float, max_bytes: int
    ) -> None:
        """Nothing is read yet.

        Args:
            runner: what reads and commits.
            is_ours: whether a path, even of a capture that is gone, is one of the sources.
            settle_s: captures without a change for that many seconds are complete.
            max_bytes: about how much is read for one commit.
        """
        self._runner = runner
        self._is_ours = is_ours
        self._planner = Planner(settle_s, max_bytes)
        self._kept: OrderedDict[str, Follower] = OrderedDict()
        self._over: set[str] = set()

    def close(self) -> None:
        """End the followers and their threads."""
        while self._kept:
            self._kept.popitem()[1].close()

    def round(self, changes: Sequence[Change], *, is_last: bool) -> bool:
        """Read what is new, one commit per folder; return whether there was anything.

        Args:
            changes: all packet captures that exist, in order.
            is_last: treat everything as complete.

        Raises:
            SourceError: a capture cannot be read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        runner = self._runner
        folders: dict[str, list[Change]] = {}
        for change in changes:
            folders.setdefault(os.path.dirname(change.now.path), []).append(change)
        moved = {
            change.before.path
            for change in changes
            if change.kind == "moved" and change.before is not None
        }
        is_any = False
        known = folders_in(runner.known)
        for path, folder in known.items():
            if folder.last.is_open and path not in folders and self._is_ours(folder.last.path):
                folders[path] = []  # all of it is gone
        # Folders with captures that were moved there come first: they affect other folders.
        for path in sorted(folders, key=lambda path: all(c.kind != "moved" for c in folders[path])):
            if path in self._over:
                continue
            try:
                move = self._next(folders[path], known.get(path), moved, is_last)
            except SourceError:
                if all(Path(change.now.path).exists() for change in folders[path]):
                    raise
                continue  # one was just removed: left to the next round
            if move is None:
                continue
            is_any = True
            if is_last and move.is_end:
                self._over.add(path)  # whatever is added from now on is for the next run
            if move.replaced:
                break  # what is known of other captures may have changed
        return is_any

    def _next(
        self, changes: list[Change], folder: Folder | None, moved: set[str], is_last: bool
    ) -> Move | None:
        """Take the next step with a folder; return it."""
        runner = self._runner
        args = folder, runner.known, runner.files, moved, runner.version
        move = self._planner.plan(changes, *args, is_last=is_last)
        if move is None:
            return None
        runner.prepare([change.now.path for change in changes])
        try:
            self._do(move)
        except _GoneError as error:
            assert folder is not None
            self._leave(folder, error.paths)
            move.is_end = False  # the rest of it starts over
        return move

    # --- reading

    def _do(self, move: Move) -> None:
        """Read, and commit."""
        runner = self._runner
        group = Group(is_packets=True, replaced=move.replaced, withdrawn=move.withdrawn)
        group.size, group.files = move.size, move.files
        if not move.after:
            runner.commit(group, [], [])
            return
        follower = self._follower(move)
        try:
            before = _sums(follower)
            with runner.staged() as writer:
                for name, batch in follower.advance(move.steps):
                    writer.write(name, batch)
                unfinished = follower.unfinished
                for name, batch in follower.finish() if move.is_end else ():
                    writer.write(name, batch)
                files = tuple(writer.close())
        except BaseException:
            follower.close()
            raise
        totals = {name: count - before[name] for name, count in _sums(follower).items()}
        about: dict[str, Any] = {"open": unfinished}
        if move.is_end:
            about = {"closing": {"version": runner.version, "files": len(files), "sums": totals}}
            follower.close()
        else:
            self._kept[move.capture] = follower
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)[1].close()
        was_closed = move.folder.closing if move.folder is not None and move.before else None
        if was_closed is not None:
            totals = {name: totals[name] - was_closed["sums"][name] for name in totals}
        inputs = move.inputs(**about)
        number: int = inputs[0].state["batch"]
        done = Outcome(None, files, totals=totals)
        runner.commit(group, [done], inputs, (f"packets-{move.capture}", number))

    def _follower(self, move: Move) -> Follower:
        """A follower in the state after everything that was read.

        Raises:
            _GoneError: it is not in memory, and cannot be read again.
        """
        kept = self._kept.pop(move.capture, None)
        if kept is not None:
            if kept.positions == {one.path: one.end for one in move.before if one.end}:
                return kept
            kept.close()
        begun = [one for one in move.before if one.end > one.state["start"]]
        gone = [one.path for one in begun if not Path(one.path).exists()]
        if gone:
            raise _GoneError(gone)
        workers = min(os.cpu_count() or 1, _MAX_WORKERS)
        follower = Follower(self._runner.settings, workers=workers)
        try:
            for one in move.before:
                if one.state["start"]:
                    follower.begin(one.path, one.state["start"])
            for _ in follower.advance([Step(one.path, one.end) for one in begun]):
                pass  # they are committed
        except BaseException:
            follower.close()
            raise
        return follower

    # --- what cannot continue

    def _leave(self, folder: Folder, gone: list[str]) -> None:
        """End a folder's connections where they are, and start over after that.

        Raises:
            SourceError: in the mode ``failfast``.
        """
        runner = self._runner
        reason = "removed before its open connections had ended; they start over"
        if runner.settings.mode == "failfast":
            raise SourceError(reason, file=gone[0])
        what: dict[str, Any] = {"layer": "capture", "format": None, "code": "removed"}
        what |= {"reason": reason, "failed_at": None, "field": "", "raw": b""}
        errors = [error_row(shown(path), "", 0, 0, None, **what) for path in gone]
        rows = _rest(folder)
        with runner.staged() as writer:
            if runner.settings.mode == "permissive":
                writer.write("errors", from_rows(runner.settings.table("errors"), errors))
            if rows:
                writer.write("accounting", from_rows(table("accounting"), rows))
            files = tuple(writer.close())
        totals = {name: sum(row.get(name, 0) for row in rows) for name in SUMS}
        totals["errors"] = len(errors)
        done = Outcome(None, files, totals=totals)
        batch = (f"packets-{folder.capture}", folder.batch + 1)
        runner.commit(Group(is_packets=True), [done], folder.ended(str(runner.version)), batch)


def _sums(follower: Follower) -> dict[str, int]:
    return {name: getattr(follower.totals, name) for name in SUMS}


def _rest(folder: Folder) -> list[dict[str, Any]]:
    """The row of accounting for what has none yet: connections whose ends will never be read."""
    rest = folder.leader.state.get("open")
    if not rest:
        return []  # the folder was closed: they have rows
    lost = rest["quarantined"] + rest["waiting"]
    row = {"source": shown(folder.leader.path), "stream": "", "format": None}
    left_out = rest.get("left_out", 0)  # logs of earlier versions do not have it
    counts = {
        "captured": rest["decoded"] + lost + rest["gap"] + left_out,
        "decoded": rest["decoded"],
        "quarantined": lost,
        "gap": rest["gap"],
        "duplicate": 0,
        "left_out": left_out,
        "missing": 0,
        "frames": rest["frames"],
        "packets": 0,
        "conflict": 0,
        "bad_checksums": 0,
    }
    return [{**row, **counts}] if counts["captured"] else []
