"""Hex beside a field tree, as text for terminals and as HTML for notebooks.

Everything that comes from the wire is escaped here, before it reaches a terminal or a page.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from wireloom.outline import Node

__all__ = ["MAX_ROWS", "escape", "hex_rows", "to_html", "tree_rows"]

MAX_ROWS = 2000
"""Rows of hex or tree that a view shows; a hostile message must not fill a screen or a notebook for ever."""

_ROW = 16
_COLOURS = 6


def escape(text: str) -> str:
    r"""`text` with control characters, direction marks and lone surrogates written as ``\x1b``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def hex_rows(data: bytes) -> Iterator[tuple[int, str, str]]:
    """Offset, hex and printable characters of every 16 bytes."""
    for offset in range(0, len(data), _ROW):
        row = data[offset : offset + _ROW]
        yield offset, row.hex(" "), "".join(chr(b) if 32 <= b < 127 else "·" for b in row)


def tree_rows(root: Node) -> Iterator[tuple[int, Node, int]]:
    """Depth, node and colour number of every node; the fields of one level alternate in colour."""
    colour = -1
    for depth, node in root.walk():
        if depth == 1:
            colour += 1
        yield depth, node, max(colour, 0) % _COLOURS


def _owners(data: bytes, root: Node) -> list[int | None]:
    """Colour number of every byte: that of the first-level field it belongs to."""
    owners: list[int | None] = [None] * min(len(data), _ROW * MAX_ROWS)
    for depth, node, colour in tree_rows(root):
        if depth == 1:
            for i in range(max(node.offset, 0), min(node.end, len(owners))):
                owners[i] = colour
    return owners


_STYLE = """<style>.wireloom{display:flex;gap:1.5em;font:12px/1.4 monospace;align-items:flex-start}
.wireloom td{text-align:left;padding:0 .5em;white-space:pre-wrap}.wireloom .e{color:#b00020;font-weight:bold}
.wireloom .m{opacity:.65}.wireloom .c0{color:#1f77b4}.wireloom .c1{color:#d35400}.wireloom .c2{color:#2a8c4a}
.wireloom .c3{color:#a8328f}.wireloom .c4{color:#7a6a00}.wireloom .c5{color:#00808c}</style>"""


def to_html(data: bytes, root: Node) -> str:
    """Hex dump and field tree side by side, for a notebook."""
    owners = _owners(data, root)
    dump = []
    for offset, _, chars in hex_rows(data):
        if offset >= len(owners):
            dump.append(f"<tr><td colspan=3>… {len(data) - offset} more bytes</td></tr>")
            break
        cells = " ".join(
            f'<span class="c{owners[i]}">{data[i]:02x}</span>' if owners[i] is not None else f"{data[i]:02x}"
            for i in range(offset, min(offset + _ROW, len(data)))
        )
        dump.append(f"<tr><td class=m>{offset:06x}</td><td>{cells}</td><td>{html.escape(chars)}</td></tr>")
    tree = []
    for count, (depth, node, colour) in enumerate(tree_rows(root)):
        if count >= MAX_ROWS:
            tree.append("<tr><td colspan=4>… more fields</td></tr>")
            break
        cells = [
            f"<td class=m>{node.offset}</td><td class=m>{node.length}</td>",
            f'<td class="c{colour}">{"  " * depth}{html.escape(escape(node.name))}</td>',
            f"<td>{html.escape(escape(node.value))} <span class=m>{html.escape(escape(node.meaning))}</span>",
            f" <span class=e>{html.escape(escape(node.error))}</span></td>" if node.error else "</td>",
        ]
        tree.append(f"<tr>{''.join(cells)}</tr>")
    return f"{_STYLE}<div class=wireloom><table>{''.join(dump)}</table><table>{''.join(tree)}</table></div>"
