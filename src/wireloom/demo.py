"""``python -m wireloom.demo``: what Wireloom does, in a few seconds and with real output.

Every part is one function that prints; a later stage adds its own to `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

import wireloom
from wireloom.cli._draw import draw
from wireloom.cli._flat import json_line
from wireloom.formats import get
from wireloom.framing import Frame, Problem
from wireloom.messages import Message
from wireloom.view import escape

__all__ = ["PARTS", "main"]

QUOTE = {
    "format": "tibmsg",
    "fields": [
        {"name": "SYMBOL", "type": "string", "value": "ABC.N"},
        {"name": "BID", "type": "real", "size": 8, "value": 175.92},
        {"name": "ASK", "type": "real", "size": 8, "value": 175.95},
        {"name": "SIZE", "type": "int", "size": 4, "value": 300},
    ],
}


COUNT = 300
"""Quotes in the damaged stream."""


def quote() -> Message:
    """A small market-data message."""
    return wireloom.from_dict(QUOTE)


def nested_frame() -> bytes:
    """An NREP packet that relays a Rendezvous message that carries a TibMsg."""
    opaque = {"name": "_data_", "type": "opaque", "value_hex": quote().encode().hex()}
    rendezvous = wireloom.from_dict({"format": "tibrv", "fields": [opaque]})
    data = {"socket_id": "a0a1a2a3a4a5a6a7a8a9", "data": rendezvous.encode().hex()}
    return wireloom.from_dict({"format": "nrep", "packet": "SOCKET_DATA", **data}).encode()


def damaged_stream(count: int = COUNT) -> bytes:
    """Many quotes: one with a wrong length, one cut short, and noise in front of a third."""
    one = quote().encode()
    parts = [one] * count
    parts[count // 4] = one[:7] + b"\xff" + one[8:]
    parts[count // 2] = b"noise on the line" + one
    parts[count * 3 // 4] = one[:20]
    return b"".join(parts)


def show_samples(console: Console) -> None:
    """Sample messages of all formats, decoded and written again."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("format", "samples", "bytes", "same bytes when written again", "kinds"):
        table.add_column(name, no_wrap=name != "kinds", overflow="ellipsis")
    for name in wireloom.formats():
        samples = get(name).samples()
        messages = [wireloom.decode(data) for data in samples.values()]
        same = sum(m.encode() == data for m, data in zip(messages, samples.values(), strict=True))
        kinds = ", ".join(dict.fromkeys(message.type_name for message in messages))
        size = sum(map(len, samples.values()))
        table.add_row(name, str(len(samples)), str(size), f"{same} of {len(samples)}", Text(kinds))
    console.print(table)


def show_nesting(console: Console) -> None:
    """A message in a message in a packet, each as hex beside its fields."""
    frame = nested_frame()
    packet = wireloom.decode(frame)
    console.print(Text(f"{packet.type_name}, {len(frame)} bytes", "bold"))
    console.print(draw(console, frame, packet.outline()))
    for inner in wireloom.nested(packet):
        console.print()
        console.print(Text(f"{inner.format} in {inner.path}", "bold"))
        console.print(draw(console, inner.message.encode(), inner.message.outline()))


def show_recovery(console: Console) -> None:
    """A damaged stream: every message after the damage is found, every byte accounted for."""
    stream = damaged_stream()
    decoded = quarantined = messages = 0
    # In pieces of any size: the records are the same.
    pieces = (stream[i : i + 1000] for i in range(0, len(stream), 1000))
    for record in wireloom.scan(pieces, "tibmsg"):
        if isinstance(record, Frame):
            messages += 1
            decoded += record.length
        else:
            assert isinstance(record, Problem)  # TibMsg streams hold nothing else
            quarantined += record.length
            where = f"bytes {record.offset:,} to {record.offset + record.length:,}"
            console.print(Text(f"{where}: {escape(record.reason)}", "red"))
    console.print(f"{messages} of {COUNT - 2} undamaged messages found")
    console.print(f"{len(stream):,} bytes = {decoded:,} decoded + {quarantined:,} quarantined")


def show_conversion(console: Console) -> None:
    """One message, from TibMsg to Rendezvous, and what that loses."""
    message = quote()
    made, losses = wireloom.convert(message, to="tibrv")
    for each in (message, made):
        console.print(
            Text(f"{each.format:7} {each.encode().hex()}"), overflow="ellipsis", no_wrap=True
        )
    console.print(Text(json_line(made.to_dict())))
    console.print(f"lost: {', '.join(map(str, losses)) or 'nothing'}")


PARTS: tuple[tuple[str, Callable[[Console], None]], ...] = (
    ("Six formats, read and written", show_samples),
    ("A TibMsg in a Rendezvous message in an NREP packet", show_nesting),
    ("A damaged stream", show_recovery),
    ("From one format to another", show_conversion),
)
"""Headings and what is shown under them, in order."""


def main(console: Console | None = None) -> None:
    """Show everything."""
    console = console or Console(highlight=False, markup=False, emoji=False)
    for number, (heading, show) in enumerate(PARTS, 1):
        console.rule(Text(f"{number}. {heading}", "bold"), align="left", style="dim")
        show(console)
        console.print()


if __name__ == "__main__":
    main()
