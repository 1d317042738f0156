"""``wireloom serve blaze``: the broker."""

from __future__ import annotations

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._serving import service_options
from wireloom.services.blaze.settings import BrokerSettings

__all__ = ["blaze"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom serve blaze --model fleet.blz --store sqlite:///fleet.db",
        "wireloom serve blaze --config broker.toml --metrics 127.0.0.1:9100 --tap taps",
    ),
)
@service_options(BrokerSettings)
def blaze(settings: BrokerSettings) -> None:
    """Run a Blaze broker.

    When it serves, it writes one line to stdout:
    {"event": "ready", "listen": "HOST:PORT", "metrics": "HOST:PORT", ...}. SIGTERM lets
    transactions end and says goodbye to clients; a second one ends it at once.
    """
    from wireloom.services._shell.program import Service, run_program
    from wireloom.services.blaze.broker import Broker

    async def make() -> Service:
        return Broker(settings)

    run_program(make, settings.program)
