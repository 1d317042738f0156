"""A message as hex beside its field tree, as a page for the browser.

In a notebook the message shows itself like this: just name it on the last line of a cell.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import wireloom
from wireloom.view import to_page

message = wireloom.decode(bytes.fromhex("ce13aa1f010000000c05444154410003040001feff"))
print(message.format, message.to_dict())

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "message.html"
    sections = [("one message", message.encode(), message.outline())]
    page.write_text("".join(to_page("Wireloom", sections)), encoding="utf-8")
    print(f"{page.name}: {page.stat().st_size} bytes")
