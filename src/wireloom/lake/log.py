"""The log of a lake: what was committed, in order, and what follows from it.

A commit is one JSON file, created whole and durably before anything it names is moved. All that is
known about a lake (its files, the captures that were read, totals) follows from reading the log in
order; now and then the result is saved as a checkpoint, so that opening stays fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from wireloom.errors import LakeError
from wireloom.lake.durable import create
from wireloom.lake.layout import LOG

__all__ = [
    "CHECKPOINT_EVERY",
    "Commit",
    "DataFile",
    "Derivation",
    "Input",
    "State",
    "Swap",
    "append",
    "read",
    "read_record",
    "write_checkpoint",
]

FORMAT: Final = 1
"""Version of the log's format."""

CHECKPOINT_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table."""

    table: str
    path: str
    """Its place, relative to the lake; empty until it is committed."""
    staged: str
    """Where it was written, relative to the lake."""
    rows: int
    bytes: int
    day: str | None
    """``YYYY-MM-DD``; None for tables without days."""
    sources: tuple[str, ...] | None
    """The captures whose rows it has; None if they are too many to list."""
    ts_min_ns: int | None
    ts_max_ns: int | None
    schema: str
    """Digest of its Arrow schema: files with the same one have the same columns."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DataFile:
        """The inverse of `asdict`."""
        sources = value["sources"]
        return cls(**{**value, "sources": None if sources is None else tuple(sources)})


@dataclass(frozen=True, slots=True)
class Input:
    """A capture that was read, and how far."""

    path: str
    size: int
    """Its size when it was read."""
    mtime_ns: int
    digest: str
    """Of its first and last bytes, see `wireloom.lake.inputs`."""
    kind: str = "raw"
    """``raw`` or ``packets``."""
    first: int = 0
    """Where the last commit began to read; 0: from its start, in place of what was read before."""
    end: int = 0
    """How far it was read; less than `size` if the rest was an unfinished frame of a capture that
    still grows."""
    is_open: bool = False
    """Whether more is expected behind `end`."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What the reader needs to continue from `end`."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a derived table was made of; making it from the same again gives the same rows."""

    version: int
    """The lake's version when it was made."""
    of: Mapping[str, int]
    """The tables it was made of, with the version that last changed rows of each; 0: none did."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that differ from the defaults."""


@dataclass(frozen=True, slots=True)
class Swap:
    """A folder of a table, or of a day of it, that is replaced by another one as a whole."""

    folder: str
    """The folder, relative to the lake."""
    staged: str
    """The folder that takes its place."""
    witness: str
    """A file that only the new one has, relative to the folder."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One step in the life of a lake."""

    version: int
    kind: str
    """``batch``, ``compact``, ``replace``, ``derive``."""
    time_ns: int
    """When, by the writer's clock; nothing depends on it."""
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
    """Paths of files that are no longer part of the lake."""
    swaps: tuple[Swap, ...] = ()
    inputs: tuple[Input, ...] = ()
    forget: tuple[str, ...] = ()
    """Paths of captures that are forgotten: they are known by another path now."""
    batch: tuple[str, int] | None = None
    """Its sender and the number of the sender's batch: no batch is committed twice."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    derived: Mapping[str, Derivation] = field(default_factory=dict)
    """The derived tables that it adds."""

    @property
    def tables(self) -> set[str]:
        """The tables that it touches."""
        return {file.table for file in self.add} | {path.partition("/")[0] for path in self.remove}

    def to_json(self) -> bytes:
        """The record as it is stored."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Commit:
        """Read a record.

        Raises:
            LakeError: it is damaged, or of a later version.
        """
        value = _parse(content, where)
        try:
            return cls(
                version=value["version"],
                kind=value["kind"],
                time_ns=value["time_ns"],
                add=tuple(DataFile.from_json(one) for one in value["add"]),
                remove=tuple(value["remove"]),
                swaps=tuple(Swap(**one) for one in value["swaps"]),
                inputs=tuple(Input(**one) for one in value["inputs"]),
                forget=tuple(value["forget"]),
                batch=None if value["batch"] is None else (value["batch"][0], value["batch"][1]),
                notes=value["notes"],
                derived=_derivations(value),
            )
        except (KeyError, TypeError, IndexError) as error:
            raise LakeError(f"a damaged record: {error!r}", path=where) from error


def _parse(content: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise LakeError(f"a damaged record: {error}", path=where) from error
    if not isinstance(value, dict) or "format" not in value:
        raise LakeError("a damaged record", path=where)
    if value["format"] != FORMAT:
        raise LakeError(f"written by a later version (format {value['format']})", path=where)
    return value


def _derivations(value: Mapping[str, Any]) -> dict[str, Derivation]:
    return {name: Derivation(**one) for name, one in value.get("derived", {}).items()}


@dataclass(slots=True)
class State:
    """A lake after a number of commits."""

    version: int = 0
    files: dict[str, DataFile] = field(default_factory=dict)
    """Live files, by path."""
    inputs: dict[str, Input] = field(default_factory=dict)
    """Captures that were read, by path."""
    batches: dict[str, int] = field(default_factory=dict)
    """The last batch of every sender that numbers them."""
    columns: dict[str, str] = field(default_factory=dict)
    """Types of the wide table's columns, which never change."""
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    """By table, the types of its columns, as declared: also of tables that have no rows yet."""
    changed: dict[str, int] = field(default_factory=dict)
    """By table, the version that last changed its rows; compacting changes none."""
    derived: dict[str, Derivation] = field(default_factory=dict)
    """By name, the tables that were derived from others."""
    last: Commit | None = None
    """The last commit; the only one that may not have been carried out to its end."""

    def apply(self, commit: Commit) -> None:
        """Apply one commit."""
        for path in commit.remove:
            self.files.pop(path, None)
        for added in commit.add:
            self.files[added.path] = added
        for path in commit.forget:
            self.inputs.pop(path, None)
        for read in commit.inputs:
            self.inputs[read.path] = read
        if commit.batch is not None:
            sender, number = commit.batch
            self.batches[sender] = max(number, self.batches.get(sender, number))
        for name, type in commit.notes.get("columns", {}).items():
            self.columns.setdefault(name, type)
        self.schemas.update(commit.notes.get("schemas", {}))
        if commit.kind != "compact":
            self.changed.update(dict.fromkeys(commit.tables, commit.version))
        self.derived.update(commit.derived)
        self.version = commit.version
        self.last = commit

    def changed_since(self, name: str) -> list[str]:
        """The base tables of a derived one whose rows have changed since it was made."""
        of = self.derived[name].of
        return [table for table, version in of.items() if self.changed.get(table, 0) != version]

    def to_json(self) -> bytes:
        """The checkpoint as it is stored."""
        value = {
            "format": FORMAT,
            "version": self.version,
            "files": [asdict(one) for one in self.files.values()],
            "inputs": [asdict(one) for one in self.inputs.values()],
            "batches": self.batches,
            "columns": self.columns,
            "schemas": self.schemas,
            "changed": self.changed,
            "derived": {name: asdict(one) for name, one in self.derived.items()},
        }
        return (json.dumps(value) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> State:
        """Read a checkpoint.

        Raises:
            LakeError: it is damaged, or of a later version.
        """
        value = _parse(content, where)
        try:
            files = [DataFile.from_json(one) for one in value["files"]]
            inputs = [Input(**one) for one in value["inputs"]]
            return cls(
                version=value["version"],
                files={one.path: one for one in files},
                inputs={one.path: one for one in inputs},
                batches=dict(value["batches"]),
                columns=dict(value["columns"]),
                schemas=dict(value.get("schemas", {})),
                changed=dict(value.get("changed", {})),
                derived=_derivations(value),
            )
        except (KeyError, TypeError) as error:
            raise LakeError(f"a damaged checkpoint: {error!r}", path=where) from error


def _record(root: Path, version: int) -> Path:
    return root / LOG / f"{version:020d}.json"


def _checkpoint(root: Path, version: int) -> Path:
    return root / LOG / f"{version:020d}.checkpoint.json"


def _versions(root: Path) -> tuple[list[int], list[int]]:
    """Versions of the records and of the checkpoints there are, ascending."""
    records, checkpoints = [], []
    for path in (root / LOG).iterdir():
        number, _, rest = path.name.partition(".")
        if number.isdigit() and rest == "json":
            records.append(int(number))
        elif number.isdigit() and rest == "checkpoint.json":
            checkpoints.append(int(number))
    return sorted(records), sorted(checkpoints)


def read(root: Path, since: State | None = None) -> State:
    """What the log says now; with `since`, only what is new is read, and `since` is updated.

    Raises:
        LakeError: there is no log, or it is damaged.
    """
    try:
        records, checkpoints = _versions(root)
    except (FileNotFoundError, NotADirectoryError):
        raise LakeError("no lake", path=str(root)) from None
    state = since if since is not None else State()
    if checkpoints and checkpoints[-1] > state.version:
        path = _checkpoint(root, checkpoints[-1])
        state = State.from_json(path.read_bytes(), str(path))
        # Its own record is read again: it may not have been carried out to its end.
        state.last = read_record(root, state.version)
    new: Iterable[int] = [number for number in records if number > state.version]
    for number in new:
        if number != state.version + 1:
            raise LakeError("a record is lost", path=str(_record(root, state.version + 1)))
        state.apply(read_record(root, number))
    return state


def read_record(root: Path, version: int) -> Commit:
    """One commit.

    Raises:
        LakeError: it is lost or damaged.
    """
    path = _record(root, version)
    try:
        return Commit.from_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise LakeError("a record is lost", path=str(path)) from None


def append(root: Path, commit: Commit) -> None:
    """Make a commit durable. From then on it is valid, whatever happens.

    Raises:
        LakeError: another writer has made this version.
    """
    create(_record(root, commit.version), commit.to_json())


def write_checkpoint(root: Path, state: State) -> None:
    """Save the state, so that readers need not start at the first record."""
    path = _checkpoint(root, state.version)
    if not path.exists():
        create(path, state.to_json())
