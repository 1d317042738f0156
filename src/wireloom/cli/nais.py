"""``wireloom nais``: ask NAIS boards, hear them, look at a junction, be a board."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Group, examples
from wireloom.errors import OptionError

if TYPE_CHECKING:
    from wireloom.services.nais import Answer, Client

__all__ = ["command"]

_Command = Callable[..., Any]
_HTTP_S = 10.0


@click.group(
    cls=Group,
    late={"board": "wireloom.cli._nais_board"},
    epilog=examples(
        "wireloom nais board --connect tcp://127.0.0.1:3001",
        "wireloom nais command tcp://127.0.0.1:3002 1 --type 10 --ival 7 --ival 5",
        "wireloom nais events tcp://127.0.0.1:3002",
    ),
)
def command() -> None:
    """Talk to NAIS boards, directly or through a junction.

    URL is tcp://HOST:PORT, ws://HOST:PORT, serial:///dev/ttyUSB0 or mqtt://HOST/TOPIC; with TLS
    tls://, wss:// or mqtts://.
    """


def _connecting(function: _Command) -> _Command:
    """The options of commands that connect."""
    for option in reversed(
        [
            click.argument("url"),
            click.option(
                "--token-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="A file with the token that the other end wants to hear.",
            ),
            click.option(
                "--tls-ca",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="Check the certificate with these authorities in PEM.",
            ),
            click.option(
                "--proto",
                multiple=True,
                metavar="FILE",
                help="A .proto file or descriptor set with your own messages.",
            ),
            click.option(
                "--bind",
                multiple=True,
                metavar="TYPE=MESSAGE",
                help="Which TYPE carries which of them.",
            ),
        ]
    ):
        function = option(function)
    return function


def _asking(function: _Command) -> _Command:
    """The options of commands that ask."""
    for option in reversed(
        [
            click.option(
                "--board",
                type=click.IntRange(0, 255),
                default=0,
                metavar="SESSION",
                help="Session id of the board at the junction; 0: all.",
            ),
            click.option(
                "--no-answer",
                is_flag=True,
                help="Do not wait: old boards do not answer everything.",
            ),
            click.option(
                "--timeout-s",
                type=click.FloatRange(min=0, min_open=True),
                default=5.0,
                show_default=True,
                help="How long to wait for one answer.",
            ),
            click.option(
                "--retries",
                type=click.IntRange(min=0),
                default=2,
                show_default=True,
                help="How often to ask again.",
            ),
        ]
    ):
        function = option(function)
    return _connecting(function)


def _client(
    url: str,
    token_file: Path | None,
    tls_ca: Path | None,
    proto: tuple[str, ...],
    bind: tuple[str, ...],
    **options: Any,
) -> Client:
    from wireloom.formats.nais.options import types_from
    from wireloom.services._shell.tls import client_context
    from wireloom.services.nais import Client

    token = token_file.read_text("utf-8").strip() if token_file is not None else ""
    tls = client_context(tls_ca) if tls_ca is not None else None
    types = types_from({"proto": proto, "bind": bind} if proto or bind else {})
    return Client(url, token=token, tls=tls, types=types, **options)


def _ask(
    ask: Callable[[Client], Coroutine[Any, Any, Answer | None]],
    *,
    timeout_s: float,
    retries: int,
    **how: Any,
) -> None:
    """Connect, ask, show the answer; exit status 1 when the board could not do it."""

    async def main() -> Answer | None:
        async with _client(**how, timeout_s=timeout_s, retries=retries) as client:
            return await ask(client)

    import asyncio

    answer = asyncio.run(main())
    if answer is None:
        return
    shown: dict[str, object] = {"status": answer.status, "board": answer.board}
    if answer.config is not None:
        shown["config"] = answer.config
    click.echo(json.dumps(shown))
    if not answer.is_success:
        raise click.exceptions.Exit(1)


@command.command(
    epilog=examples(
        """wireloom nais send tcp://127.0.0.1:3002 Profile '{"uid": "net", "pwd": "word"}'""",
        """wireloom nais send tcp://127.0.0.1:3002 Secret '{"key": "word"}' --no-answer""",
        """wireloom nais send ws://127.0.0.1:3000 10 '{"id": 1, "ivals": [7, 5]}' --board 3""",
    )
)
@_asking
@click.argument("type")
@click.argument("message")
def send(type: str, message: str, board: int, no_answer: bool, **how: Any) -> None:
    """Send any message, and show the answer.

    TYPE is a number or the name of a message, MESSAGE is JSON.
    """
    try:
        content = json.loads(message)
    except ValueError as error:
        raise OptionError(f"MESSAGE is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise OptionError("MESSAGE is not a JSON object")
    code = int(type) if type.isdecimal() else type

    async def ask(client: Client) -> Answer | None:
        return await client.request(code, content, board=board, expects_answer=not no_answer)

    _ask(ask, **how)


@command.command(
    name="command",
    epilog=examples(
        "wireloom nais command tcp://127.0.0.1:3002 reboot",
        "wireloom nais command tcp://127.0.0.1:3002 1 --type 10 --ival 7 --ival 5",
        "wireloom nais command serial:///dev/ttyUSB0 get-config",
    ),
)
@_asking
@click.argument("id")
@click.option(
    "--type",
    "type_",
    type=click.IntRange(1, 255),
    default=5,
    show_default=True,
    help="TYPE of a custom command.",
)
@click.option("--ival", "ivals", type=int, multiple=True, help="A number; may be repeated.")
@click.option("--sval", "svals", multiple=True, help="A text; may be repeated.")
def command_(
    id: str,
    type_: int,
    ivals: tuple[int, ...],
    svals: tuple[str, ...],
    board: int,
    no_answer: bool,
    **how: Any,
) -> None:
    """Have a board do something, and show the answer.

    ID is a number, or one of reboot, toggle-wifi-mode, factory-reset, ota, get-config.
    """
    from wireloom.formats.nais import CommandId

    names = {each.name.lower().replace("_", "-"): int(each) for each in CommandId}
    number = names.get(id)
    if number is None:
        if not id.removeprefix("-").isdecimal():
            raise OptionError(f"ID {id!r} is no number, and none of {', '.join(names)}")
        number = int(id)
    is_config = type_ == 5 and number == CommandId.GET_CONFIG

    async def ask(client: Client) -> Answer | None:
        if is_config and not no_answer:
            return await client.get_config(board=board)
        return await client.command(
            number,
            type=type_,
            ivals=ivals,
            svals=svals,
            board=board,
            expects_answer=not no_answer,
        )

    _ask(ask, **how)


@command.command(
    epilog=examples(
        "wireloom nais config tcp://127.0.0.1:3002",
        "wireloom nais config tcp://127.0.0.1:3002 network=local board=hall host=10.0.0.2",
    )
)
@_asking
@click.argument("settings", metavar="[NAME=VALUE]...", nargs=-1)
def config(settings: tuple[str, ...], board: int, no_answer: bool, **how: Any) -> None:
    """Show a board's Config, or tell it another.

    Names are network, board and host, which are needed, and port, alive_period and secure.
    """
    chosen = _config(settings)

    async def ask(client: Client) -> Answer | None:
        if not chosen:
            return await client.get_config(board=board)
        return await client.request("Config", chosen, board=board, expects_answer=not no_answer)

    _ask(ask, **how)


def _config(settings: Iterable[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"{text!r} is not NAME=VALUE")
        if name in ("port", "alive_period"):
            if not value.isdecimal():
                raise OptionError(f"{name} is a number, not {value!r}")
            found[name] = int(value)
        elif name == "secure":
            if value not in ("true", "false"):
                raise OptionError(f"secure is true or false, not {value!r}")
            found[name] = value == "true"
        else:
            found[name] = value
    return found


def _listening(function: _Command) -> _Command:
    """The options of commands that hear."""
    for option in reversed(
        [
            click.option(
                "--count", type=click.IntRange(min=1), help="Stop after this many of them."
            ),
            click.option(
                "--seconds",
                type=click.FloatRange(min=0, min_open=True),
                help="Stop after this long.",
            ),
        ]
    ):
        function = option(function)
    return _connecting(function)


def _hear(
    subscribe: Callable[[Client], Any],
    show: Callable[[Any], str],
    count: int | None,
    seconds: float | None,
    **how: Any,
) -> None:
    import asyncio

    async def main() -> None:
        async with _client(**how) as client:
            with subscribe(client) as heard:
                left = count
                try:
                    async with asyncio.timeout(seconds):
                        async for each in heard:
                            click.echo(show(each))
                            left = left and left - 1
                            if left == 0:
                                break
                except TimeoutError:
                    pass
                if heard.dropped:
                    click.echo(f"{heard.dropped} were lost: too slow", err=True)

    asyncio.run(main())


@command.command(
    epilog=examples(
        "wireloom nais events tcp://127.0.0.1:3002",
        "wireloom nais events ws://127.0.0.1:3000 --id 12 --count 5",
    )
)
@_listening
@click.option("--id", "ids", type=int, multiple=True, help="Only these events; may be repeated.")
def events(ids: tuple[int, ...], **how: Any) -> None:
    """Show events that boards report, one JSON object a line."""

    def show(event: Any) -> str:
        return json.dumps({"board": event.board, **event.event})

    _hear(lambda client: client.events(*ids), show, **how)


@command.command(
    epilog=examples(
        "wireloom nais log tcp://127.0.0.1:3002", "wireloom nais log serial:///dev/ttyUSB0"
    )
)
@_listening
def log(**how: Any) -> None:
    """Show the lines of text that boards print."""
    from wireloom.view import escape

    _hear(lambda client: client.texts(), escape, **how)


@command.command(epilog=examples("wireloom nais sessions 127.0.0.1:9100"))
@click.argument("address", metavar="HOST:PORT")
@click.option("--json", "as_json", is_flag=True, help="All that the junction says, as JSON.")
def sessions(address: str, as_json: bool) -> None:
    """Show the sessions and lines of a junction.

    HOST:PORT is what the junction was told with --metrics.
    """
    from urllib.request import ProxyHandler, build_opener

    from wireloom.services._shell.addresses import Address

    url = f"http://{Address.parse(address)}/status"
    with build_opener(ProxyHandler({})).open(url, timeout=_HTTP_S) as response:
        status = json.loads(response.read())
    if as_json:
        click.echo(json.dumps(status))
        return
    _show(
        ("session", "line", "peer", "seconds", "waiting bytes", "via"),
        [
            (s["id"], s["line"], s["peer"], s["age_s"], s["queued_bytes"], s["via"] or "")
            for s in status["sessions"]
        ],
    )
    click.echo()
    _show(
        ("line", "address", "state", "sessions", "frames in", "frames out"),
        [
            (
                name,
                line["address"],
                line["state"],
                line["sessions"],
                line["counters"]["frames_in"],
                line["counters"]["frames_out"],
            )
            for name, line in status["lines"].items()
        ],
    )


def _show(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    from wireloom.view import escape

    table = [heads, *(tuple(escape(str(cell)) for cell in row) for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(heads))]
    for row in table:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
