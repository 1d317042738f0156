"""What the help texts have in common."""

from __future__ import annotations

__all__ = ["examples"]


def examples(*lines: str) -> str:
    """The end of a command's help text: lines to try."""
    # \b tells click to leave the line breaks alone.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
