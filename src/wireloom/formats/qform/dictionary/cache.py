"""Parsed dictionaries kept on disk, so that the second load of a large one is fast.

One file per dictionary, named by the SHA-256 of all bytes it was made from. The content is JSON
and nothing else: it is checked column by column before it is used, and a file that is damaged, has
loose permissions, another owner or an unknown layout is treated as missing. Nothing here raises: a
cache that cannot be used only costs time.

`WIRELOOM_CACHE` moves the cache to another directory, or switches it off (``off``).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from wireloom.formats.qform.dictionary.model import (
    MAX_NAME_LEN,
    MAX_SIZE,
    Dictionary,
    Entry,
    TssType,
)
from wireloom.formats.qform.dictionary.source import Source
from wireloom.formats.qform.dictionary.table import FORM, EntryTable

__all__ = ["PARSER_VERSION", "cache_directory", "cache_key", "fetch", "store"]

PARSER_VERSION: Final = 2
"""Raised whenever the same text would give another dictionary, or the layout below changes."""

_MAX_BYTES: Final = 64 << 20
_MAX_FILES: Final = 64
"""Dictionaries change a few times a year; this many keep several sets for years."""
_STALE_SECONDS: Final = 3600.0
"""Seconds after which a temporary file is stale: no writer takes that long."""
_effective_user: Final[Callable[[], int] | None] = getattr(os, "geteuid", None)


def cache_directory() -> Path | None:
    """Where dictionaries are kept; None when the cache is off or no place is known."""
    chosen = os.environ.get("WIRELOOM_CACHE", "")
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Path(chosen)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG rules say to ignore it then
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "wireloom" / "dictionaries"


def cache_key(kind: str, sources: Iterable[Source]) -> str:
    """The name under which the dictionary made of these texts is kept.

    The texts' names are part of it, because problems refer to them.
    """
    digest = hashlib.sha256(f"{PARSER_VERSION} {kind}\n".encode())
    for source in sources:
        name = os.fsencode(source.name)
        digest.update(b"%d %d\n%b%b" % (len(name), len(source.data), name, source.data))
    return digest.hexdigest()


def fetch(key: str, directory: Path | None) -> Dictionary | None:
    """The dictionary kept under `key`, or None if there is none that can be trusted."""
    if directory is None:
        return None
    data = _read_private(directory / f"{key}.json")
    if data is None:
        return None
    header, _, body = data.partition(b"\n")
    if header != _header(key, body):
        return None
    try:
        return _from_json(json.loads(body))
    except (ValueError, RecursionError):
        return None


def store(key: str, dictionary: Dictionary, directory: Path | None) -> bool:
    """Keep a dictionary under `key`; returns whether that worked.

    The file appears whole or not at all, so writers may run side by side.
    """
    if directory is None:
        return False
    body = json.dumps(_to_json(dictionary), separators=(",", ":")).encode("ascii")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if not _is_private(os.lstat(directory), stat.S_ISDIR):
            return False
        # mkstemp: a new file for this user only, never through a planted link.
        handle, temporary = tempfile.mkstemp(dir=directory, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(key, body) + b"\n" + body)
            os.replace(temporary, directory / f"{key}.json")
        except OSError:
            os.unlink(temporary)
            raise
        _prune(directory)
    except OSError:
        return False
    return True


def _header(key: str, body: bytes) -> bytes:
    checksum = hashlib.sha256(body).hexdigest()
    return f"wireloom dictionary {PARSER_VERSION} {key} {checksum}".encode("ascii")


def _read_private(path: Path) -> bytes | None:
    """The content of a regular file that only this user can have written."""
    # O_NOFOLLOW: not what a link points to. O_NONBLOCK: a pipe must not stop us.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not _is_private(os.lstat(path.parent), stat.S_ISDIR):
            return None
        handle = os.open(path, flags)
        try:
            status = os.fstat(handle)
            if not _is_private(status, stat.S_ISREG) or status.st_size > _MAX_BYTES:
                return None
            with open(handle, "rb", closefd=False) as file:
                return file.read(_MAX_BYTES)
        finally:
            os.close(handle)
    except OSError:
        return None


def _is_private(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Of that kind and, where files have owners, ours and not writable by others."""
    is_ours = _effective_user is None or (
        status.st_uid == _effective_user() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    return is_kind(status.st_mode) and is_ours


def _prune(directory: Path) -> None:
    """Remove the oldest dictionaries, and the leftovers of writers that never finished."""
    dated: dict[Path, float] = {}
    for path in directory.iterdir():
        with suppress(OSError):  # another process may be pruning too
            dated[path] = os.lstat(path).st_mtime
    kept = sorted((p for p in dated if p.suffix == ".json"), key=dated.__getitem__)
    long_ago = time.time() - _STALE_SECONDS
    stale = [p for p, date in dated.items() if p.suffix == ".tmp" and date < long_ago]
    for path in (*kept[:-_MAX_FILES], *stale):
        with suppress(OSError):
            path.unlink()


def _to_json(dictionary: Dictionary) -> dict[str, object]:
    entries, problems = dictionary.entries, dictionary.problems
    # The same few kinds for thousands of entries: a number each is quicker to read than three.
    kinds: dict[tuple[int, int, int], int] = {}
    return {
        "fids": [entry.fid for entry in entries],
        "names": [entry.name for entry in entries],
        "kind": [kinds.setdefault(_kind(entry), len(kinds)) for entry in entries],
        "kinds": list(map(list, kinds)),
        "members": [
            [index, member.name, member.fid]
            for index, entry in enumerate(entries)
            for member in entry.members
        ],
        "reasons": [problem.reason for problem in problems],
        "files": [problem.file for problem in problems],
        "lines": [problem.line for problem in problems],
        "errors": [problem.is_error for problem in problems],
    }


def _kind(entry: Entry) -> tuple[int, int, int]:
    number = FORM if entry.tss_type is None else entry.tss_type.value
    flags = entry.is_fixed | entry.is_primitive << 1 | entry.is_partial << 2
    return number, entry.size, flags


def _from_json(data: object) -> Dictionary:
    """The dictionary again; its entries are made when they are used.

    Raises:
        ValueError: the data is not what `_to_json` gives.
    """
    if not isinstance(data, dict):
        raise ValueError("not an object")
    types, sizes, flags = _columns(data.get("kinds"), 3)
    kinds = zip(
        _numbers(types, FORM, max(TssType)),
        _numbers(sizes, 0, MAX_SIZE),
        _numbers(flags, 0, 7),
        strict=True,
    )
    fids = _numbers(data.get("fids"), -(1 << 31), (1 << 31) - 1)
    names = _strings(data.get("names"))
    kind = _numbers(data.get("kind"), 0, len(types) - 1)
    _require(len(fids) == len(kind) == len(names))
    lengths = set(map(len, names))
    _require(not lengths or (min(lengths) > 0 and max(lengths) <= MAX_NAME_LEN))
    members: dict[int, list[tuple[str, int]]] = {}
    indexes, member_names, member_fids = _columns(data.get("members"), 3)
    for index, name, fid in zip(
        _numbers(indexes, 0, len(fids) - 1),
        _strings(member_names),
        _numbers(member_fids, -(1 << 31), (1 << 31) - 1),
        strict=True,
    ):
        members.setdefault(index, []).append((name, fid))
    reasons, files = _strings(data.get("reasons")), _strings(data.get("files"))
    lines, errors = _numbers(data.get("lines"), 0, 1 << 31), _list(data.get("errors"))
    _require(set(map(type, errors)) <= {bool})
    _require(len(reasons) == len(files) == len(lines) == len(errors))
    notes = (reasons, files, lines, errors)
    return Dictionary.lazy(EntryTable(fids, names, list(kinds), kind, members, notes))


def _columns(data: object, width: int) -> list[list[Any]]:
    """Rows of `width` values, transposed."""
    rows = _list(data)
    _require(all(isinstance(row, list) and len(row) == width for row in rows))
    return [[row[column] for row in rows] for column in range(width)]


def _numbers(data: object, low: int, high: int) -> list[int]:
    numbers = _list(data)
    # By type and not by isinstance: a bool is not a number here.
    _require(set(map(type, numbers)) <= {int})
    _require(not numbers or (min(numbers) >= low and max(numbers) <= high))
    return numbers


def _strings(data: object) -> list[str]:
    strings = _list(data)
    _require(set(map(type, strings)) <= {str})
    return strings


def _list(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError("not a list")
    return data


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError("not a dictionary")
