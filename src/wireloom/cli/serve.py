"""``wireloom serve``: live services. One JSON line on stdout says that they are ready."""

from __future__ import annotations

import json

import click

from wireloom.cli._help import Group, examples
from wireloom.cli._serve_blaze import blaze

__all__ = ["command"]


@click.group(
    cls=Group,
    epilog=examples(
        "wireloom serve blaze --model fleet.blz --store sqlite:///fleet.db",
        "wireloom serve nais --line board=tcp://127.0.0.1:3001 --line web=tcp://127.0.0.1:3002"
        " --route board-web",
    ),
)
def command() -> None:
    """Run a live service until it is told to stop (Ctrl-C or SIGTERM)."""


@command.command(
    epilog=examples(
        "wireloom serve nais --line board=tcp://127.0.0.1:0?board --line app=tcp://127.0.0.1:0"
        " --route board-app",
    )
)
@click.option(
    "--line",
    "lines",
    metavar="NAME=URL",
    multiple=True,
    required=True,
    help="A line: tcp://HOST:PORT listens, tcp-client://HOST:PORT connects and connects again."
    " With ?board only what old boards can take is sent; with ?trunk the other end is a junction.",
)
@click.option(
    "--route", "routes", metavar="A-B", multiple=True, help="Connect two lines, both ways."
)
def nais(lines: tuple[str, ...], routes: tuple[str, ...]) -> None:
    """Run a NAIS junction.

    When it serves, it writes one line to stdout: {"event": "ready", "lines": {NAME: ADDRESS, ...}}.
    When it has stopped, the counters go to stderr.
    """
    import asyncio
    import signal

    from wireloom.services.nais import Junction, parse_line, parse_route

    junction = Junction(map(parse_line, lines), map(parse_route, routes))

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await junction.start()
        click.echo(json.dumps({"event": "ready", "lines": junction.addresses}))
        await junction.run(stop)

    asyncio.run(serve())
    click.echo(json.dumps({"event": "stopped", **junction.router.counters.to_dict()}), err=True)


command.add_command(blaze)
