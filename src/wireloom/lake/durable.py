"""Files that survive a crash or a power cut: written whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from pathlib import Path

from wireloom.errors import LakeError

__all__ = ["create", "exchange", "publish", "sync_file", "sync_folder"]

_EXCHANGE = 2
_AT_FDCWD = -100
_NOT_SUPPORTED = {
    errno.ENOSYS,
    errno.EINVAL,
    errno.ENOTSUP,
    errno.EPERM,
    errno.EXDEV,
    errno.EOPNOTSUPP,
}


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Make what was created, renamed and removed in a folder durable."""
    if os.name == "nt":  # pragma: no cover - folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(path: Path, content: bytes) -> None:
    """A new file with this content, durable when this returns.

    Nobody ever sees a part of it, and if two processes create the same file, one fails.

    Raises:
        LakeError: it exists.
    """
    waiting = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with waiting.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        # Unlike a rename, a link never replaces what is there.
        os.link(waiting, path)
    except FileExistsError:
        raise LakeError("another writer was here first", path=str(path)) from None
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        if path.exists():
            raise LakeError("another writer was here first", path=str(path)) from None
        os.rename(waiting, path)
    else:
        os.unlink(waiting)
    finally:
        waiting.unlink(missing_ok=True)
    sync_folder(path.parent)


def publish(staged: Path, final: Path) -> None:
    """Move a file to its final place, unless that was done before.

    Raises:
        LakeError: it is in neither place.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(staged, final)
    except FileNotFoundError:
        if not final.exists():
            raise LakeError("a committed file is lost", path=str(final)) from None


def exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False if this system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one))
