"""A lake: a folder of Parquet files by table and day, with a log of commits.

One writer at a time holds the lake's lock. It writes files into staging, then commits: first a
record of the log is made durable, then the files named in it are moved to their places. Moving is
the only thing that a crash can leave undone, and the next writer does it first. Files in staging
that no record names are removed.

Readers need no lock. Those that read the tables' folders see only committed rows, each once; the
files of a commit appear one by one, within a moment. Those that use `Lake.files` see whole commits.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wireloom.columns import Table
from wireloom.errors import LakeError
from wireloom.lake import delta, log
from wireloom.lake.durable import exchange, publish, sync_folder
from wireloom.lake.layout import CONTROL, LOG, STAGING, folder_of
from wireloom.lake.log import CHECKPOINT_EVERY, Commit, DataFile, Derivation, Input, Swap

__all__ = ["Lake", "Writing"]

_LOCK: Final = f"{CONTROL}/lock"


class Lake:
    """A lake, as of when it was opened or refreshed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a lake that exists, for reading.

        Raises:
            LakeError: there is none, or its log is damaged.
        """
        self.path = Path(os.path.abspath(path))
        self.state = log.read(self.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Lake:
        """Open a lake; create it if there is none.

        Raises:
            LakeError: there are other files in that folder, or the log is damaged.
        """
        root = Path(path)
        if not (root / LOG).is_dir():
            if root.is_dir() and any(one.name != CONTROL for one in root.iterdir()):
                raise LakeError("there are files here that are no lake's", path=str(root))
            (root / LOG).mkdir(parents=True, exist_ok=True)
            sync_folder(root)
        return cls(root)

    def refresh(self) -> None:
        """Load what others have committed since.

        Raises:
            LakeError: the log is damaged.
        """
        self.state = log.read(self.path, self.state)

    @property
    def version(self) -> int:
        """Number of the last commit; 0 if there is none."""
        return self.state.version

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables: those that have rows, and those that could have had some."""
        return tuple(sorted({file.table for file in self.state.files.values()} | {*self.schemas}))

    @property
    def schemas(self) -> Mapping[str, Mapping[str, str]]:
        """By table, the types of its columns, as the last commit that was to write it had them."""
        return self.state.schemas

    def news(self, tables: Iterable[Table]) -> dict[str, dict[str, str]]:
        """The schemas of tables that the log does not have yet, for a commit's notes."""
        found = {each.name: {one.name: one.type for one in each.columns} for each in tables}
        return {name: types for name, types in found.items() if self.schemas.get(name) != types}

    def files(self, table: str) -> list[DataFile]:
        """The files of a table, those of the earliest day first."""
        found = [file for file in self.state.files.values() if file.table == table]
        return sorted(found, key=lambda file: (file.day or "", file.path))

    def files_in(self, folder: str) -> list[DataFile]:
        """The files of one folder, such as ``frames/date=2023-11-14``."""
        return [file for file in self.state.files.values() if _folder(file.path) == folder]

    def place(self, file: DataFile) -> Path:
        """Where a file is now; a crash may have left a committed file in staging."""
        final = self.path / file.path
        if not final.exists():
            for staged in (file.staged, *self._swapped(file)):
                if (self.path / staged).exists():
                    return self.path / staged
        return final

    def _swapped(self, file: DataFile) -> Iterator[str]:
        last = self.state.last
        for swap in last.swaps if last is not None else ():
            if _is_in(file.path, swap.folder):
                yield f"{swap.staged}{file.path.removeprefix(swap.folder)}"

    def history(self) -> list[Commit]:
        """All commits, the first one first.

        Raises:
            LakeError: the log is damaged.
        """
        return [log.read_record(self.path, number + 1) for number in range(self.version)]

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """Become the only writer; what a crash left undone is done first.

        Raises:
            LakeError: another process is writing.
        """
        with _locked(self.path):
            self.refresh()
            writing = Writing(self)
            writing.recover()
            try:
                yield writing
            finally:
                writing.clean()


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lake's lock. The system releases it when a process dies, however it dies."""
    with open(root / _LOCK, "a+b") as file:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - not POSIX: the log alone keeps writers apart
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakeError("another process is writing to it", path=str(root)) from None
        yield


class Writing:
    """What the only writer of a lake can do."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.run = uuid.uuid4().hex
        """Name of this writer's staging folder."""
        self._parts = 0
        self._is_pending = False

    @property
    def root(self) -> Path:
        """The lake's folder."""
        return self.lake.path

    @property
    def staging(self) -> Path:
        """This writer's staging folder."""
        return self.root / STAGING / self.run

    # --- committing

    def commit(
        self,
        add: Iterable[DataFile] = (),
        *,
        kind: str = "batch",
        remove: Iterable[str] = (),
        whole: Collection[str] = (),
        inputs: Sequence[Input] = (),
        forget: Iterable[str] = (),
        batch: tuple[str, int] | None = None,
        notes: Mapping[str, Any] | None = None,
        derived: Mapping[str, Derivation] | None = None,
    ) -> int | None:
        """Make staged files part of the lake, all of them or none.

        A folder that gains and loses files is replaced as a whole: its readers see the old ones or
        the new ones, where the system can swap folders in one step (Linux, on most local file
        systems). Elsewhere the folder is gone for a moment. It is the folder of a day, or that of
        the table if all of it is replaced.

        Args:
            add: files in staging.
            kind: what is being done.
            remove: paths of files that are no longer part of the lake.
            whole: tables that are replaced by what is in `add`.
            inputs: captures as known from now on.
            forget: paths of captures to forget.
            batch: name of the sender and number of its batch. A batch that was committed before is
                skipped, and its files are removed.
            notes: kept with the commit.
            derived: what derived tables in `add` were made of.

        Returns:
            The version of the commit; None if this batch was committed before.

        Raises:
            LakeError: another writer was here first, or a staged file is lost.
        """
        staged = list(add)
        if batch is not None and batch[1] <= self.lake.state.batches.get(batch[0], -1):
            for file in staged:
                (self.root / file.staged).unlink(missing_ok=True)
            return None
        added = [self._named(file, index) for index, file in enumerate(staged)]
        for folder in {(self.root / file.staged).parent for file in added}:
            sync_folder(folder)
        gone = {*remove, *(file.path for table in whole for file in self.lake.files(table))}
        commit = Commit(
            version=self.lake.version + 1,
            kind=kind,
            time_ns=time.time_ns(),
            add=tuple(added),
            remove=tuple(sorted(gone)),
            swaps=self._prepare_all(gone, added, whole),
            inputs=tuple(inputs),
            forget=tuple(forget),
            batch=batch,
            notes=notes or {},
            derived=derived or {},
        )
        self._is_pending = True
        log.append(self.root, commit)
        self.lake.state.apply(commit)
        self._carry_out(commit)
        self._is_pending = False
        if commit.version % CHECKPOINT_EVERY == 0:
            log.write_checkpoint(self.root, self.lake.state)
        return commit.version

    def _named(self, file: DataFile, index: int) -> DataFile:
        if not (self.root / file.staged).exists():
            raise LakeError("a staged file is lost", path=file.staged)
        name = f"part-{self.lake.version + 1:08d}-{index:05d}.parquet"
        return replace(file, path=f"{folder_of(file.table, file.day)}/{name}")

    def _prepare_all(
        self, gone: set[str], added: Sequence[DataFile], whole: Collection[str]
    ) -> tuple[Swap, ...]:
        """The folders that are replaced; one with a Delta log never is."""
        folders = {_folder(path) for path in gone} & {_folder(file.path) for file in added}
        folders |= {file.table for file in added if file.table in whole}
        folders = {each for each in folders if not (self.root / each / "_delta_log").exists()}
        # A table's folder contains those of its days.
        folders = {each for each in folders if each.partition("/")[0] not in folders - {each}}
        return tuple(self._prepare(folder, gone, added) for folder in sorted(folders))

    def _prepare(self, folder: str, gone: set[str], added: Sequence[DataFile]) -> Swap:
        """A folder in staging with everything that the lake's folder is to hold."""
        self._parts += 1
        staged = f"{STAGING}/{self.run}/swap-{self._parts:05d}"
        place = self.root / staged
        place.mkdir(parents=True)
        witness = ""
        for file in added:
            if _is_in(file.path, folder):
                witness = file.path.removeprefix(f"{folder}/")
                (place / witness).parent.mkdir(exist_ok=True)
                os.rename(self.root / file.staged, place / witness)
        for file in self.lake.files_in(folder):
            if file.path not in gone:
                _link(self.root / file.path, place / _name(file.path))
        for inner in (place, *(one for one in place.iterdir() if one.is_dir())):
            sync_folder(inner)
        return Swap(folder, staged, witness)

    # --- carrying out, which may be repeated any number of times

    def recover(self) -> None:
        """Finish what a crash left undone, and remove what was never committed.

        Raises:
            LakeError: a committed file is lost.
        """
        last = self.lake.state.last
        if last is not None:
            self._carry_out(last)
        shutil.rmtree(self.root / STAGING, ignore_errors=True)

    def _carry_out(self, commit: Commit) -> None:
        for swap in commit.swaps:
            self._swap(swap)
        swapped = {swap.folder for swap in commit.swaps}
        folders: set[Path] = set()
        for file in commit.add:
            if not _is_swapped(file.path, swapped):
                final = self.root / file.path
                publish(self.root / file.staged, final)
                folders.add(final.parent)
        for path in commit.remove:
            if not _is_swapped(path, swapped):
                (self.root / path).unlink(missing_ok=True)
                with suppress(OSError):  # there are other files
                    (self.root / path).parent.rmdir()
                    (self.root / path.partition("/")[0]).rmdir()
        for folder in folders:
            sync_folder(folder)
            sync_folder(folder.parent)
        if delta.is_enabled(self.root):
            delta.tell(self.lake, commit)

    def _swap(self, swap: Swap) -> None:
        folder, staged = self.root / swap.folder, self.root / swap.staged
        away = staged.with_name(f"{staged.name}-old")
        if not (folder / swap.witness).exists():
            if folder.exists() and not exchange(staged, folder):
                os.rename(folder, away)
            if not folder.exists():
                os.rename(staged, folder)
            sync_folder(folder.parent)
        for old in (staged, away):
            shutil.rmtree(old, ignore_errors=True)

    def clean(self) -> None:
        """Remove this writer's staging folder, unless a commit was interrupted and needs it."""
        if not self._is_pending:
            shutil.rmtree(self.staging, ignore_errors=True)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _is_swapped(path: str, folders: set[str]) -> bool:
    return _folder(path) in folders or path.partition("/")[0] in folders


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError:  # a file system without links
        shutil.copy2(old, new)
