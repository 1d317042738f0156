"""``wireloom serve nais``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._serving import service_options
from wireloom.services.nais.settings import JunctionSettings

if TYPE_CHECKING:
    from wireloom.services._shell.program import Service

__all__ = ["nais"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom serve nais --line board=tcp://127.0.0.1:3001?board"
        " --line web=ws://127.0.0.1:3000 --route board-web",
        "wireloom serve nais --config junction.toml --metrics 127.0.0.1:9100",
        "wireloom serve nais --line usb=serial:///dev/ttyUSB0?board"
        " --line net=mqtt://broker.example/local/board --route usb-net",
    ),
)
@service_options(JunctionSettings, can_reload=True)
def nais(settings: JunctionSettings, again: Callable[[], JunctionSettings]) -> None:
    """Run a NAIS junction.

    When it serves, it writes one line to stdout: {"event": "ready", "lines": {NAME: ADDRESS, ...}}.
    SIGHUP reads the configuration again; lines that did not change keep their connections.
    """
    from wireloom.services._shell.program import run_program
    from wireloom.services.nais.junction import Junction

    made: list[Junction] = []

    async def make() -> Service:
        made.append(Junction(settings))
        return made[0]

    async def reload() -> None:
        await made[0].reload(again())

    run_program(make, settings.program, reload=reload)
