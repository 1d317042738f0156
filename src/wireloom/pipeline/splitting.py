"""How much of a capture one task reads."""

from __future__ import annotations

from typing import Final

__all__ = ["SPLIT_BYTES", "even_split"]

SPLIT_BYTES: Final = 128 << 20
"""Bytes of a task, at most: many for the cost of a task not to matter, few for an even load and for
rows that fit an executor's memory many times."""

_ROUNDS: Final = 2
"""Tasks a core, at least: one that is done early takes another one."""
_LEAST: Final = 8 << 20
"""Bytes that a task is worth, at least."""


def even_split(size: int, cores: int, most: int = SPLIT_BYTES) -> int:
    """Bytes that one task reads of `size` bytes: few enough for every core to have some.

    Args:
        size: bytes of all captures.
        cores: tasks that can run at the same time.
        most: bytes of a task, at most.
    """
    share = -(-size // (_ROUNDS * cores))
    return min(most, max(share, _LEAST))
