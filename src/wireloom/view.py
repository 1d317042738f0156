"""Hex beside a field tree: what terminals and notebooks have in common, and the notebook's HTML.

Everything that comes from the wire is escaped here, before it reaches a terminal or a page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from wireloom.outline import Node

__all__ = [
    "COLOURS",
    "ERROR",
    "MAX_ROWS",
    "MAX_TEXT",
    "byte_colours",
    "clip",
    "escape",
    "hex_rows",
    "to_html",
    "to_page",
    "tree_rows",
]

MAX_ROWS = 2000
"""Rows of hex or tree that a view shows; a hostile message must not flood the screen."""

MAX_TEXT = 1000
"""Characters of one value that a view shows."""

COLOURS = 6
"""How many colours the fields alternate between."""

ERROR = -1
"""The colour number of bytes where reading failed."""

ROW = 16


def escape(text: str) -> str:
    r"""`text` with control characters, direction marks and surrogates as ``\x1b``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def clip(text: str, most: int = MAX_TEXT) -> str:
    """At most `most` characters of `text`, escaped; an ellipsis says that there was more."""
    # Cut first: escaping 16 MiB to show one line would be slow.
    shown = escape(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def hex_rows(data: bytes, width: int = ROW) -> Iterator[tuple[int, str, str]]:
    """Offset, hex and printable characters of every `width` bytes."""
    for offset in range(0, len(data), width):
        row = data[offset : offset + width]
        yield offset, row.hex(" "), "".join(chr(b) if 32 <= b < 127 else "·" for b in row)


def tree_rows(root: Node) -> Iterator[tuple[int, Node, int | None]]:
    """Depth, node and colour number of every node.

    Leaves take the colours in turn, so that neighbours differ; leaves that share their bytes (the
    bit fields of one word) share the colour. Nodes with children or without bytes have none.
    """
    colour = -1
    last: tuple[int, int] | None = None
    for depth, node in root.walk():
        if node.children or not node.length:
            yield depth, node, None
            continue
        if (node.offset, node.length) != last:
            last = node.offset, node.length
            colour = (colour + 1) % COLOURS
        yield depth, node, colour


def byte_colours(data: bytes, root: Node) -> list[int | None]:
    """Colour number of every byte shown: that of its leaf, or `ERROR` where reading failed."""
    colours: list[int | None] = [None] * min(len(data), ROW * MAX_ROWS)
    failed: list[Node] = []
    for _, node, colour in tree_rows(root):
        if colour is not None:
            _paint(colours, node.offset, node.end, colour)
        if node.error:
            failed.append(node)
    for node in failed:
        if node.children:
            # The fields that could be read keep their colours; the rest is what went wrong.
            for i in range(max(node.offset, 0), min(node.end, len(colours))):
                colours[i] = ERROR if colours[i] is None else colours[i]
        else:
            # An error without bytes is "something should be here": the byte there shows it.
            _paint(colours, node.offset, max(node.end, node.offset + 1), ERROR)
    return colours


def _paint(colours: list[int | None], start: int, stop: int, colour: int) -> None:
    for i in range(max(start, 0), min(stop, len(colours))):
        colours[i] = colour


# Colours that are distinguishable on a light and on a dark page.
_STYLE = """<style>
.wireloom{display:flex;flex-wrap:wrap;gap:1.5em;font:12px/1.4 monospace;align-items:flex-start}
.wireloom table{border-collapse:collapse;border:0}
.wireloom td{text-align:left;vertical-align:top;padding:0 .5em;white-space:pre-wrap;border:0}
.wireloom .m{opacity:.65}.wireloom .e{color:#fff;background:#b00020}
.wireloom .c0{color:#1f77b4}.wireloom .c1{color:#d35400}.wireloom .c2{color:#2a8c4a}
.wireloom .c3{color:#a8328f}.wireloom .c4{color:#8a7500}.wireloom .c5{color:#00808c}
</style>"""


def to_html(data: bytes, root: Node) -> str:
    """Hex dump and field tree side by side, for a notebook."""
    colours = byte_colours(data, root)
    dump = [_dump_row(data, colours, offset) for offset in range(0, len(colours), ROW)]
    if len(data) > len(colours):
        dump.append(f"<tr><td colspan=3>… {len(data) - len(colours)} more bytes</td></tr>")
    rows = tree_rows(root)
    tree = [_tree_row(*row) for row in islice(rows, MAX_ROWS)]
    if next(rows, None) is not None:
        tree.append("<tr><td colspan=4>… more fields</td></tr>")
    body = f"<table>{''.join(dump)}</table><table>{''.join(tree)}</table>"
    return f"{_STYLE}<div class=wireloom>{body}</div>"


def to_page(title: str, sections: Iterable[tuple[str, bytes, Node]]) -> Iterator[str]:
    """The pieces of a whole page with the view of each section under its heading."""
    yield f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{_text(title)}</title>\n"
    yield "<body style='font-family:sans-serif'>\n"
    for heading, data, root in sections:
        yield f"<h3>{_text(heading)}</h3>\n{to_html(data, root)}\n"
    yield "</body></html>\n"


def _text(text: str) -> str:
    return html.escape(clip(text))


def _class(colour: int | None) -> str:
    return "" if colour is None else " class=e" if colour == ERROR else f" class=c{colour}"


def _dump_row(data: bytes, colours: list[int | None], offset: int) -> str:
    ((_, _, chars),) = hex_rows(data[offset : offset + ROW])
    cells = []
    at = offset
    for colour, run in groupby(colours[offset : offset + ROW]):
        end = at + len(list(run))
        cells.append(f"<span{_class(colour)}>{data[at:end].hex(' ')}</span>")
        at = end
    start = f"<td class=m>{offset:06x}</td>"
    return f"<tr>{start}<td>{' '.join(cells)}</td><td class=m>{html.escape(chars)}</td></tr>"


def _tree_row(depth: int, node: Node, colour: int | None) -> str:
    # Indentation is bounded: a message may nest deeper than a page is wide.
    name = "  " * min(depth, 32) + _text(node.name)
    error = f" <span class=e>{_text(node.error)}</span>" if node.error else ""
    return (
        f"<tr><td class=m>{node.offset}</td><td class=m>{node.length}</td>"
        f"<td{_class(colour)}>{name}</td>"
        f"<td>{_text(node.value)} <span class=m>{_text(node.meaning)}</span>{error}</td></tr>"
    )
