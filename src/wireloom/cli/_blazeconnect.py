"""What the ``wireloom blaze`` commands share: where the broker is, the model, TLS."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._options import apply
from wireloom.errors import ConnectionClosed
from wireloom.view import escape

if TYPE_CHECKING:
    import ssl

    from wireloom.formats.blaze.model import Model, NClass
    from wireloom.services.blaze import Client

__all__ = [
    "Target",
    "address",
    "broker_options",
    "class_of",
    "host_port",
    "model_option",
    "note_connection",
]

_WATCH_S = 0.5
"""A connection that is made again sooner is not worth a word."""
_FILE = click.Path(exists=True, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A broker, and how to speak to it."""

    host: str
    port: int
    dialect: str
    timeout: float
    heartbeat: int
    tls: ssl.SSLContext | None

    @asynccontextmanager
    async def client(
        self,
        model: Model | None,
        told: Callable[[bool], None] | None = None,
        **options: Any,
    ) -> AsyncIterator[Client]:
        """A client that is connected to it.

        Args:
            model: of the objects.
            told: called with False when the connection is lost, with True when there is another.
            options: of `Client.connect`.

        Raises:
            ClickException: it cannot be; with the broker's address.
        """
        from wireloom.services.blaze import Client

        client = Client.connect(
            self.host,
            self.port,
            model=model,
            dialect=self.dialect,
            tls=self.tls,
            timeout=self.timeout,
            heartbeat=self.heartbeat,
            **options,
        )
        with self.named():
            await client.__aenter__()
        async with AsyncExitStack() as stack:
            stack.push_async_exit(client)
            if told is not None:
                import asyncio

                watch = asyncio.get_running_loop().create_task(_watch(client, told))
                stack.callback(watch.cancel)
            yield client

    @contextmanager
    def named(self) -> Iterator[None]:
        """What goes wrong with the connection is said with the broker's address.

        Raises:
            ClickException: something did.
        """
        try:
            yield
        except (ConnectionClosed, OSError) as error:
            told = _reason(error) if isinstance(error, OSError) else str(error)
            raise click.ClickException(escape(f"{self.host}:{self.port}: {told}")) from error


def note_connection(is_connected: bool) -> None:
    """Say what became of the connection."""
    told = "connected again" if is_connected else "the connection is lost; trying again"
    click.echo(told, err=True)


async def _watch(client: Client, told: Callable[[bool], None]) -> None:
    from asyncio import sleep

    was_connected = True
    while True:
        await sleep(_WATCH_S)
        if client.is_connected is not was_connected:
            was_connected = not was_connected
            told(was_connected)


def _reason(error: OSError) -> str:
    """Why there is no connection: asyncio says it in its own words, and of all addresses."""
    if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        return "what answers does not speak TLS"
    numbers = {int(number) for number in re.findall(r"\[Errno (\d+)\] Connect call", str(error))}
    return ", ".join(map(os.strerror, sorted(numbers))) or error.strerror or str(error)


def host_port(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, also [::1]:PORT.

    Raises:
        BadParameter: it is not.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise click.BadParameter(f"{escape(text)!r} is not HOST:PORT", param_hint=option)
    return host.removeprefix("[").removesuffix("]"), int(port)


def address(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """The value of ``--at``."""
    return host_port(value, "--at")


_CONNECTION = (
    click.option(
        "--at",
        metavar="HOST:PORT",
        required=True,
        callback=address,
        envvar="WIRELOOM_BLAZE",
        show_envvar=True,
        help="The broker.",
    ),
    click.option(
        "--dialect", metavar="NAME", default="document", help="document, 2017 or 2019: its variant."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an answer.",
    ),
    click.option(
        "--heartbeat",
        type=click.IntRange(0, 255),
        default=30,
        show_default=True,
        metavar="SECONDS",
        help="Silence that is promised not to be exceeded; 0: none.",
    ),
    click.option("--tls", is_flag=True, help="Encrypt, and trust the system's authorities."),
    click.option("--ca", type=_FILE, help="Encrypt, and trust the authorities in this PEM file."),
    click.option("--cert", type=_FILE, help="Our certificate, in PEM."),
    click.option("--key", type=_FILE, help="Its key, in PEM."),
    click.option("--insecure", is_flag=True, help="Encrypt, and do not ask who the broker is."),
)

model_option = click.option(
    "--model", type=_FILE, required=True, help="The .blz model of the objects."
)


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that connects; the command gets them as `target`."""

    @wraps(command)
    def collected(**values: Any) -> Any:
        host, port = values.pop("at")
        target = Target(
            host,
            port,
            values.pop("dialect"),
            values.pop("timeout"),
            values.pop("heartbeat"),
            _context(values),
        )
        return command(target=target, **values)

    return apply(_CONNECTION, collected)


def _context(values: dict[str, Any]) -> ssl.SSLContext | None:
    wanted, ca = values.pop("tls"), values.pop("ca")
    cert, key = values.pop("cert"), values.pop("key")
    insecure = values.pop("insecure")
    if key and not cert:
        raise click.UsageError("--key belongs to a --cert")
    if not (wanted or ca or cert or insecure):
        return None
    if ca and insecure:
        raise click.UsageError("--ca and --insecure exclude each other")
    from wireloom.services._shell.tls import client_context

    if insecure:
        click.echo("warning: nobody checks who the broker is (--insecure)", err=True)
    files = (None if file is None else Path(file) for file in (ca, cert, key))
    return client_context(*files, is_verified=not insecure)


def class_of(model: Model, name: str) -> NClass:
    """A class of the model, by its name or id.

    Raises:
        UsageError: there is none.
    """
    found = model.nclass(int(name) if name.isdecimal() else name)
    if found is None:
        known = ", ".join(nclass.name for nclass in model.nclasses)
        raise click.UsageError(f"the model has no class {escape(name)!r}; it has {known}")
    return found
