"""``wireloom nrep``: a client of NREP entry points, and forwarders."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Group, examples
from wireloom.errors import WireloomError
from wireloom.view import escape

if TYPE_CHECKING:
    import asyncio

    from wireloom.services._shell.logs import LogLevel
    from wireloom.services.nrep import Client

__all__ = ["command"]

_POLICIES = ("random", "round-robin", "least-open")
_Function = Callable[..., None]


@click.group(
    cls=Group,
    epilog=examples(
        "wireloom nrep discover",
        "wireloom nrep publish --app db --to 127.0.0.1:5432",
        "wireloom nrep connect --app db --listen 127.0.0.1:15432",
    ),
)
def command() -> None:
    """Publish, find and reach apps at an NREP entry point."""


def _entry_options(function: _Function) -> _Function:
    """What every command needs to find and trust an entry point."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in reversed(
        [
            click.option(
                "--entry", metavar="HOST:PORT", help="The entry point; else it is discovered."
            ),
            click.option(
                "--discovery",
                metavar="HOST[:PORT]",
                help="Ask only there for an entry point, on UDP [default: all local networks].",
            ),
            click.option("--pin", metavar="SHA256", help="Trust only this certificate."),
            click.option("--ca", type=file, help="Trust certificates of these authorities."),
            click.option(
                "--known",
                type=click.Path(file_okay=False, path_type=Path),
                metavar="DIR",
                help="Certificates seen before, trusted on first use"
                " [default: ~/.local/state/wireloom/nrep/known].",
            ),
            click.option("--cert", type=file, help="This client's certificate, if one is needed."),
            click.option("--key", type=file, help="Its private key."),
            click.option(
                "--insecure",
                is_flag=True,
                help="Speak plain TCP: everybody on the way can read and change what is relayed.",
            ),
        ]
    ):
        function = option(function)
    return function


def _client(name: str, options: dict[str, Any], **more: Any) -> Client:
    from wireloom.services.nrep import Client, Trust

    kept = {key: options[key] for key in ("pin", "ca", "cert", "key")}
    if options["known"] is not None:
        kept["known"] = options["known"]
    if options["discovery"] is not None:
        more["asked"] = options["discovery"]
    trust = Trust(**kept, is_insecure=options["insecure"])
    return Client(options["entry"], trust=trust, name=name, **more)


def _ask(work: Callable[[Client], Coroutine[Any, Any, None]], options: dict[str, Any]) -> None:
    """Run one question to an entry point."""
    import asyncio

    _set_up_logs("warning")

    async def main() -> None:
        async with _client("wireloom nrep", options) as client:
            await work(client)

    asyncio.run(main())


def _set_up_logs(level: LogLevel) -> None:
    from wireloom.services._shell.logs import set_up_logs

    set_up_logs(level, "text")


def _table(heads: tuple[str, ...], rows: list[tuple[object, ...]], as_json: bool) -> None:
    """Rows for people, or one JSON object a line."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(heads, row, strict=True))))
        return
    shown = [heads, *(tuple(escape(str(cell)) for cell in row) for row in rows)]
    widths = [max(len(row[index]) for row in shown) for index in range(len(heads))]
    for row in shown:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@command.command(
    epilog=examples("wireloom nrep discover", "wireloom nrep discover 192.168.1.7 --json")
)
@click.argument("hosts", metavar="[HOST[:PORT]]...", nargs=-1)
@click.option("--within-s", type=float, default=1.0, help="Seconds to wait [default: 1].")
@_json
def discover(hosts: tuple[str, ...], within_s: float, as_json: bool) -> None:
    """List the entry points that answer.

    Without a host, all local networks are asked. Answers are not authenticated: compare the
    fingerprint with what the entry point's owner says.
    """
    import asyncio

    from wireloom.services._shell.addresses import Address
    from wireloom.services.nrep.discovery import BROADCAST, discover

    asked = [Address.parse(host, BROADCAST.port) for host in hosts] or [BROADCAST]
    found = asyncio.run(discover(asked, within_s=within_s))
    rows: list[tuple[object, ...]] = [
        (str(each.address), each.fingerprint or "none: plain TCP") for each in found
    ]
    _table(("address", "fingerprint"), rows, as_json)
    if not found:
        raise click.ClickException("no entry point answers")


@command.command(epilog=examples("wireloom nrep ls --entry 127.0.0.1:6700"))
@_entry_options
@_json
def ls(as_json: bool, **options: Any) -> None:
    """List the apps that are published, and how many instances each has."""

    async def work(client: Client) -> None:
        apps = sorted(await client.list_apps())
        _table(("app", "instances"), list(apps), as_json)

    _ask(work, options)


@command.command(epilog=examples("wireloom nrep find db --entry 127.0.0.1:6700"))
@click.argument("app")
@_entry_options
@_json
def find(app: str, as_json: bool, **options: Any) -> None:
    """List the ids of an app's instances."""

    async def work(client: Client) -> None:
        found = await client.find(app)
        _table(("instance",), [(each.hex(),) for each in found], as_json)
        if not found:
            raise click.ClickException(f"nobody publishes {escape(app)}")

    _ask(work, options)


@command.command(epilog=examples("wireloom nrep status --entry 127.0.0.1:6700"))
@_entry_options
def status(**options: Any) -> None:
    """Connect to the entry point, and say what it is like, as JSON."""

    async def work(client: Client) -> None:
        from wireloom.formats.nrep.certificates import fingerprint
        from wireloom.formats.nrep.extensions import Feature
        from wireloom.services._shell.addresses import Address

        connection = await client.connected()
        features = connection.session.features
        assert connection.transport is not None
        tls = connection.transport.get_extra_info("ssl_object")
        peer = connection.transport.get_extra_info("peername")
        said: dict[str, Any] = {
            "entry": str(Address.of_socket(peer)),
            "tls": tls.version() if tls is not None else None,
            "fingerprint": fingerprint(tls.getpeercert(True)) if tls is not None else None,
            "features": [each.name.lower() for each in features if each.name],
            "is_draining": connection.is_going_away,
        }
        if features & Feature.PING:
            said["ping_ms"] = round(1000 * await client.ping(), 3)
        if features & Feature.LIST:
            apps = await client.list_apps()
            said["apps"], said["instances"] = len(apps), sum(count for _, count in apps)
        click.echo(json.dumps(said, indent=2))

    _ask(work, options)


_level = click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    help="What is said on stderr [default: info].",
)
_most = click.option(
    "--max-sockets",
    type=click.IntRange(1),
    default=1024,
    help="Sockets at the same time; more are refused [default: 1024].",
)


@command.command(
    epilog=examples(
        "wireloom nrep publish --app db --to 127.0.0.1:5432",
        "wireloom nrep publish --app db --to unix:/run/postgresql/.s.PGSQL.5432 --pin 3f5c...",
    )
)
@click.option("--app", required=True, help="Its name.")
@click.option("--to", "target", required=True, metavar="HOST:PORT|unix:PATH", help="The server.")
@_most
@_entry_options
@_level
def publish(app: str, target: str, max_sockets: int, log_level: LogLevel, **options: Any) -> None:
    """Make a local server reachable as an app, until it is told to stop.

    When it is published, one line goes to stdout: {"event": "ready", "app": ..., "instance": ...}.
    An entry point that is lost is looked for again, and the app is published again.
    """
    from wireloom.services.nrep import PublishForwarder, parse_local

    local = parse_local(target)

    async def forward(client: Client, stop: asyncio.Event) -> dict[str, int]:
        forwarder = PublishForwarder(client, app, local, max_sockets)
        try:
            await _patient(forwarder.start, stop)
            publication = forwarder.publication
            if publication is not None:
                instance = publication.instance_id.hex() if publication.instance_id else None
                _say({"event": "ready", "app": app, "instance": instance})
                await stop.wait()
        finally:
            await forwarder.close()
        return forwarder.counts.to_dict()

    _forward(forward, f"publish {app}", log_level, options)


@command.command(
    epilog=examples(
        "wireloom nrep connect --app db --listen 127.0.0.1:15432",
        "wireloom nrep connect --app db --listen unix:/tmp/db.sock --balance least-open",
    )
)
@click.option("--app", required=True, help="Its name.")
@click.option("--listen", required=True, metavar="HOST:PORT|unix:PATH", help="Listen there.")
@click.option(
    "--balance",
    type=click.Choice(_POLICIES),
    default="random",
    help="Which instance is asked first [default: random].",
)
@_most
@_entry_options
@_level
def connect(
    app: str, listen: str, balance: str, max_sockets: int, log_level: LogLevel, **options: Any
) -> None:
    """Make an app reachable on a local address, until it is told to stop.

    When it listens, one line goes to stdout: {"event": "ready", "app": ..., "listen": ...}.
    """
    from wireloom.services.nrep import ConnectForwarder, parse_local

    local = parse_local(listen)

    async def forward(client: Client, stop: asyncio.Event) -> dict[str, int]:
        forwarder = ConnectForwarder(client, app, local, max_sockets)
        try:
            where = await forwarder.start()
            _say({"event": "ready", "app": app, "listen": where})
            await stop.wait()
        finally:
            await forwarder.close()
        return forwarder.counts.to_dict()

    _forward(forward, f"connect {app}", log_level, options, balance=balance)


async def _patient(start: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Try until it is done, or nobody wants it any more."""
    import asyncio

    from wireloom.errors import ConnectionClosed

    while not stop.is_set():
        try:
            await start()
        except ConnectionClosed:
            await asyncio.sleep(0)  # the client waits between its attempts
        else:
            return


def _say(said: dict[str, Any]) -> None:
    click.echo(json.dumps(said))  # which flushes


def _forward(
    forward: Callable[[Client, asyncio.Event], Coroutine[Any, Any, dict[str, int]]],
    name: str,
    log_level: LogLevel,
    options: dict[str, Any],
    **more: Any,
) -> None:
    """Run a forwarder as this process."""
    from wireloom.services._shell.loops import run_until_stopped

    _set_up_logs(log_level)

    async def main(stop: asyncio.Event) -> None:
        client = _client(f"wireloom nrep {name}", options, **more)
        try:
            await client.start(is_patient=True)
            counts = await forward(client, stop)
        finally:
            await client.close()
        said = {"event": "stopped", **counts, "client": client.counts.to_dict()}
        click.echo(json.dumps(said), err=True)

    try:
        run_until_stopped(main)
    except WireloomError as error:
        raise click.ClickException(escape(str(error))) from error
