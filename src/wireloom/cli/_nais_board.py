"""``wireloom nais board``: its options are made of the simulator's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._serving import service_options
from wireloom.services.nais.simulator_settings import BoardSettings

if TYPE_CHECKING:
    from wireloom.services._shell.program import Service

__all__ = ["board"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom nais board --connect tcp://127.0.0.1:3001 --page 127.0.0.1:8000",
        "wireloom nais board --listen 127.0.0.1:3001 --event-every-s 1",
        "wireloom nais board --connect mqtt://127.0.0.1/local/board --fault garbage --fault slow",
    ),
)
@service_options(BoardSettings)
def board(settings: BoardSettings) -> None:
    """Be a board: take all types, switch LEDs, report events, and have faults on request."""
    from wireloom.services._shell.program import run_program
    from wireloom.services.nais.simulator import Board

    async def make() -> Service:
        return Board(settings)

    run_program(make, settings.program)
