"""What outlines of the TIB formats have in common."""

from __future__ import annotations

from wireloom.errors import DecodeError
from wireloom.outline import Node

__all__ = ["MAX_SHOWN", "add_error", "brief"]

MAX_SHOWN = 80
"""Characters of a value that an outline shows; the hex beside it has the rest."""

_MAX_ITEMS = 8


def brief(value: object) -> str:
    """The value on one line, cut to `MAX_SHOWN` characters."""
    if isinstance(value, bytes):
        return value[: MAX_SHOWN // 2].hex() + ("…" if len(value) > MAX_SHOWN // 2 else "")
    if isinstance(value, tuple):
        shown = ", ".join(brief(item) for item in value[:_MAX_ITEMS])
        text = f"[{shown}]" if len(value) <= _MAX_ITEMS else f"[{shown}, … {len(value)} in all]"
    else:
        text = str(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def add_error(parent: Node, error: DecodeError) -> None:
    """A node for what could not be read, up to the end of the enclosing structure."""
    length = max(0, parent.end - error.offset)
    parent.add("error", error.offset, length, error.path, error.code, error.reason)
