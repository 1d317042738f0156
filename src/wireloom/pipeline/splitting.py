"""How much of a capture one task reads."""

from __future__ import annotations

from typing import Final

__all__ = ["SPLIT_BYTES", "even_split"]

SPLIT_BYTES: Final = 128 << 20
"""Most bytes per task: many, so that the cost of a task does not matter; few, for an even load and
for rows that fit into an executor's memory many times."""

_ROUNDS: Final = 2
"""Least tasks per core: a core that is done early takes another one."""
_LEAST: Final = 8 << 20
"""Fewest bytes that are worth a task."""


def even_split(size: int, cores: int, most: int = SPLIT_BYTES) -> int:
    """Bytes that one task reads of `size` bytes: few enough for every core to have some.

    Args:
        size: bytes of all captures.
        cores: tasks that can run at the same time.
        most: most bytes per task.
    """
    share = -(-size // (_ROUNDS * cores))
    return min(most, max(share, _LEAST))
