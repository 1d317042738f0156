"""A hex dump beside its field tree, on a terminal."""

from __future__ import annotations

from itertools import groupby, islice

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from wireloom.outline import Node
from wireloom.view import ERROR, MAX_ROWS, byte_colours, clip, hex_rows, tree_rows

__all__ = ["draw"]

_STYLES = ("cyan", "yellow", "green", "magenta", "bright_blue", "orange3")
_ERROR = "bold white on red"

# Columns of a dump: 8 bytes take 6 + 2 + 23 + 2 + 8, 16 bytes take 6 + 2 + 47 + 2 + 16.
_WIDE = 140
"""Console width from which 16 bytes per row leave the tree enough room."""
_NARROW = 100
"""Console width from which 8 bytes per row do; below it, the tree goes under the dump."""

_MAX_VALUE = 200
_MAX_INDENT = 16


def _style(colour: int | None) -> str:
    return "" if colour is None else _ERROR if colour == ERROR else _STYLES[colour]


def _dump(data: bytes, root: Node, width: int) -> Text:
    colours = byte_colours(data, root)
    lines = []
    for offset, _, chars in hex_rows(data[: len(colours)], width):
        line = Text(f"{offset:06x}  ", style="", end="", no_wrap=True)
        line.stylize("dim")
        at = offset
        for colour, run in groupby(colours[offset : offset + width]):
            end = at + len(list(run))
            line.append(data[at:end].hex(" "), _style(colour))
            line.append(" ")
            at = end
        line.append(" " * (3 * (width - (at - offset)) + 1))
        line.append(chars, "dim")
        lines.append(line)
    if len(data) > len(colours):
        lines.append(Text(f"… {len(data) - len(colours):,} more bytes", "dim"))
    return Text("\n", no_wrap=True).join(lines)


def _tree(root: Node) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("offset", justify="right", style="dim", no_wrap=True)
    table.add_column("len", justify="right", style="dim", no_wrap=True)
    table.add_column("field", overflow="fold")
    table.add_column("value", overflow="fold")
    rows = tree_rows(root)
    for depth, node, colour in islice(rows, MAX_ROWS):
        style = _ERROR if node.error and not node.children else _style(colour) or "bold"
        name = Text("  " * min(depth, _MAX_INDENT)).append(clip(node.name, _MAX_VALUE), style)
        table.add_row(str(node.offset), str(node.length), name, _value(node))
    if next(rows, None) is not None:
        table.add_row("", "", Text("… more fields", "dim"), "")
    return table


def _value(node: Node) -> Text:
    parts = [Text(clip(node.value, _MAX_VALUE))] if node.value else []
    if node.meaning:
        parts.append(Text(clip(node.meaning, _MAX_VALUE), "dim"))
    if node.error:
        parts.append(Text("✗ " + clip(node.error, _MAX_VALUE), "bold red"))
    return Text("  ").join(parts)


def draw(console: Console, data: bytes, root: Node) -> RenderableType:
    """The dump and the tree: side by side on a wide console, else one under the other."""
    if console.width < _NARROW:
        return Group(_dump(data, root, 16), Text(), _tree(root))
    both = Table.grid(padding=(0, 3))
    both.add_column(no_wrap=True)
    both.add_column()
    both.add_row(_dump(data, root, 16 if console.width >= _WIDE else 8), _tree(root))
    return both
