"""``wireloom serve nrep``: the entry point."""

from __future__ import annotations

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._serving import service_options
from wireloom.services.nrep.settings import EntryPointSettings

__all__ = ["nrep"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom serve nrep --listen 127.0.0.1:6700 --discovery 127.0.0.1:2888",
        "wireloom serve nrep --tls-cert entry.pem --tls-key entry.key --client-ca clients.pem",
        "wireloom serve nrep --config entry.toml --metrics 127.0.0.1:9100 --tap taps",
    ),
)
@service_options(EntryPointSettings)
def nrep(settings: EntryPointSettings) -> None:
    """Run an NREP entry point.

    When it serves, it writes one line to stdout: {"event": "ready", "listen": "HOST:PORT",
    "discovery": "HOST:PORT", "fingerprint": "SHA-256 of the certificate", ...}. SIGTERM takes
    nothing new and lets open sockets end; a second one ends it at once.
    """
    from wireloom.services._shell.program import Service, run_program
    from wireloom.services.nrep.entrypoint import EntryPoint

    async def make() -> Service:
        return EntryPoint(settings)

    run_program(make, settings.program)
