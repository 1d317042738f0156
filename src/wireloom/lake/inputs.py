"""Which captures are new, and which have changed since they were read.

A capture is known by its path, its size and a digest of its first and last bytes. The rules:

* same size and same digest: it is not read again, whatever its modification time says;
* larger, and what was there before is unchanged: it has *grown*;
* anything else: it was *rewritten*;
* the same as one that was read under another path, where nothing is now: it has *moved*. If that
  one was still growing, it may have grown as well.

A capture that has changed in any way is read again and replaces what was read before: the rows of a
lake are those of the captures as they are now. Only one that is being followed is read on when it
grows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from wireloom.captures.finding import is_there, open_file, size_and_time
from wireloom.errors import SourceError
from wireloom.lake.log import Input

__all__ = ["PIECE", "Change", "compare", "digest_of", "look_at"]

PIECE: Final = 1 << 16
"""Bytes at either end of a capture that its digest covers."""

Kind = Literal["new", "same", "grown", "rewritten", "moved"]


@dataclass(frozen=True, slots=True)
class Change:
    """How a capture differs from what was read of it."""

    kind: Kind
    now: Input
    """The capture as it is now; `end` and the reader's state are those of `before`."""
    before: Input | None = None


def digest_of(path: str | os.PathLike[str], size: int) -> str:
    """Digest of the first and the last of the first `size` bytes.

    Raises:
        SourceError: the file cannot be read, or is shorter.
    """
    found = hashlib.sha256()
    try:
        with open_file(os.fspath(path)) as file:
            got = file.read(min(size, PIECE))
            found.update(got)
            length = len(got)
            if size > PIECE:
                start = max(PIECE, size - PIECE)
                file.seek(start)
                got = file.read(size - start)
                found.update(got)
                length = start + len(got)
    except OSError as error:
        raise SourceError(error.strerror or str(error), file=os.fspath(path)) from error
    if length != size:
        raise SourceError("it became shorter while it was read", file=os.fspath(path))
    return found.hexdigest()[:32]


def look_at(path: str | os.PathLike[str]) -> Input:
    """A capture as it is now, without its digest, for which it would have to be read.

    Raises:
        SourceError: there is no such file.
    """
    name = os.fspath(path)
    return Input(name, *size_and_time(name), "")


def compare(paths: Iterable[str], known: Mapping[str, Input]) -> list[Change]:
    """What became of each capture since it was read.

    Args:
        paths: absolute paths of files, or addresses.
        known: what was read, by path.

    Raises:
        SourceError: a file cannot be read.
    """
    gone = [one for one in known.values() if one.size and not is_there(one.path)]
    return [_compare(look_at(path), known, gone) for path in paths]


def _compare(now: Input, known: Mapping[str, Input], gone: list[Input]) -> Change:
    before = known.get(now.path)
    if before is None:
        now = replace(now, digest=digest_of(now.path, now.size))
        for other in gone:
            if (other.size, other.digest) == (now.size, now.digest) or (
                other.is_open
                and other.size < now.size
                and digest_of(now.path, other.size) == other.digest
            ):
                return Change("moved", now, other)
        return Change("new", now)
    if (now.size, now.mtime_ns) == (before.size, before.mtime_ns):
        return Change("same", before, before)
    if now.size >= before.size and digest_of(now.path, before.size) == before.digest:
        if now.size == before.size:
            return Change("same", replace(before, mtime_ns=now.mtime_ns), before)
        digest = digest_of(now.path, now.size)
        return Change(
            "grown", replace(before, size=now.size, mtime_ns=now.mtime_ns, digest=digest), before
        )
    return Change("rewritten", replace(now, digest=digest_of(now.path, now.size)), before)
