"""A subscription on the terminal: a table that follows the objects, or one JSON line per event."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Protocol

import click

from wireloom.cli._blazeconnect import note_connection
from wireloom.cli._flat import flatten, json_line
from wireloom.view import clip

if TYPE_CHECKING:
    from rich.console import Console, Group

    from wireloom.cli._blazeconnect import Target
    from wireloom.formats.blaze.model import Model, NClass
    from wireloom.formats.blaze.session import Stamp
    from wireloom.services.blaze import Event

__all__ = ["JsonLines", "LiveTable", "Shown", "follow"]

_MAX_CELL = 40
_MAX_ROWS = 10_000
"""Objects that a table remembers; those that changed longest ago go first."""
_EVERY = 0.1
"""Seconds between two pictures of the table."""


class Shown(Protocol):
    """Where events are shown."""

    def show(self, event: Event[Any]) -> None:
        """Take an event."""
        ...

    def connected(self, is_connected: bool) -> None:
        """The connection is lost, or there again."""
        ...

    def __enter__(self) -> Shown: ...

    def __exit__(self, *exc: object) -> None: ...


class JsonLines:
    """One JSON object an event, as soon as it comes."""

    def show(self, event: Event[Any]) -> None:
        """Write it."""
        click.echo(json_line(_row(event)))

    def connected(self, is_connected: bool) -> None:
        """Say it on stderr."""
        note_connection(is_connected)

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def _row(event: Event[Any]) -> dict[str, Any]:
    if event.is_gap or event.is_download_end:
        return {"event": "gap" if event.is_gap else "download_end"}
    assert event.kind is not None
    row: dict[str, Any] = {
        "event": event.kind.name,
        "action": getattr(event.action, "name", event.action),
        "stamp": list(event.stamp),
        "sevtid": event.sevtid,
        "object": event.value.to_values(),
    }
    if event.delta is not None:
        row["delta"] = event.delta.to_values()
    return row


class LiveTable:
    """The objects by their keys, those that changed last on top; drawn a few times a second."""

    def __init__(self, nclass: NClass, console: Console) -> None:
        from rich.live import Live

        self._nclass = nclass
        self._console = console
        self._rows: dict[Any, tuple[str, dict[str, str]]] = {}
        self._columns: dict[str, None] = {}
        self._counts = {"events": 0, "gaps": 0}
        self._is_complete = False
        self._is_connected = True
        self._live = Live(
            get_renderable=self.picture,
            console=console,
            refresh_per_second=1 / _EVERY,
            transient=False,
        )

    def show(self, event: Event[Any]) -> None:
        """Take an event."""
        if event.is_gap:
            self._counts["gaps"] += 1
            return
        if event.is_download_end:
            self._is_complete = True
            return
        self._counts["events"] += 1
        action = str(getattr(event.action, "name", event.action))
        if action in ("RST", "RESET"):
            self._rows.clear()  # no object of the class is left
            return
        key: Any = event.value.key()
        if key is None:
            key = self._counts["events"]
        self._rows.pop(key, None)
        flat = flatten(event.value.to_values())
        self._columns |= dict.fromkeys(flat)
        self._rows[key] = action, {name: clip(cell, _MAX_CELL) for name, cell in flat.items()}
        if len(self._rows) > _MAX_ROWS:
            del self._rows[next(iter(self._rows))]

    def connected(self, is_connected: bool) -> None:
        """Have it in the title."""
        self._is_connected = is_connected

    def picture(self) -> Group:
        """The table as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        state = "live" if self._is_complete else "downloading"
        if not self._is_connected:
            state = "no connection"
        title = f"{self._nclass.name}: {len(self._rows)} objects, {self._counts['events']} events"
        if self._counts["gaps"]:
            title += f", {self._counts['gaps']} gaps"
        table = Table()
        table.add_column("action")
        columns = list(self._columns)  # the picture is drawn in a thread of its own
        for name in columns:
            table.add_column(Text(name), overflow="ellipsis", no_wrap=True)
        room = max(1, self._console.height - 6)
        for action, cells in list(self._rows.values())[: -room - 1 : -1]:
            shown = [Text(cells.get(name, "")) for name in columns]
            style = "dim strike" if action in ("DEL", "REMOVE") else ""
            table.add_row(Text(action), *shown, style=style)
        return Group(Text(f"{title} ({state})"), table)

    def __enter__(self) -> LiveTable:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._live.__exit__(*exc)


def follow(
    target: Target,
    model: Model,
    nclass: NClass,
    shown: Shown,
    *,
    limit: int | None,
    options: dict[str, Any],
) -> Stamp:
    """Show events until there are no more, or enough; gives where to resume."""
    place: list[Stamp] = [options.get("resume") or (0, 0)]

    async def run() -> None:
        async with target.client(model, shown.connected) as client:
            events = client.subscribe(nclass.id, **options)
            left = limit
            async with events:
                async for event in events:
                    shown.show(event)
                    place[0] = events.position
                    if left is not None and not event.is_gap and not event.is_download_end:
                        left -= 1
                        if not left:
                            break

    try:
        with shown:
            asyncio.run(run())
    finally:
        seconds, number = place[0]
        if (seconds, number) > (0, 0):
            click.echo(f"go on from here with --since {seconds},{number}", err=True)
        sys.stdout.flush()
    return place[0]
