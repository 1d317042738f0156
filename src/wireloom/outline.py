"""The shape of a message for people: named byte ranges, their meaning, where reading failed.

Formats build `Node` trees; `wireloom.view` and the command line draw them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Node"]


@dataclass(slots=True)
class Node:
    """One named range of bytes."""

    name: str
    offset: int
    """Where it starts, in bytes from the start of the data shown."""
    length: int
    value: str = ""
    """The value as text; anything from the wire is escaped when it is drawn, not here."""
    meaning: str = ""
    """What the value stands for: an enum's name, a unit, a type."""
    error: str = ""
    """Why reading stopped here; empty for a good node."""
    children: list[Node] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.offset + self.length

    def add(
        self,
        name: str,
        offset: int,
        length: int,
        value: object = "",
        meaning: str = "",
        error: str = "",
    ) -> Node:
        """Append a child and return it; a value of bytes is shown in hex."""
        text = value.hex() if isinstance(value, bytes) else str(value)
        node = Node(name, offset, length, text, meaning, error)
        self.children.append(node)
        return node

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """This node and all below it, in order, each with its depth."""
        # A stack instead of recursion: hostile nesting must not reach Python's stack limit.
        stack = [(depth, self)]
        while stack:
            level, node = stack.pop()
            yield level, node
            stack.extend((level + 1, child) for child in reversed(node.children))
