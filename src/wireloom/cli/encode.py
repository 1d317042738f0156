"""``wireloom encode``: JSON lines → bytes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import IO

import click

from wireloom.cli._capture import say_if_empty
from wireloom.cli._help import Command, examples
from wireloom.cli._input import chunks, file_argument, lines, open_binary
from wireloom.cli._options import force_option, output_file, refuse_suffix
from wireloom.cli._output import binary_output, text_output
from wireloom.cli._rows import from_row, parse_row
from wireloom.errors import WireloomError
from wireloom.messages import Message
from wireloom.view import escape

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom encode messages.jsonl -o messages.bin",
        'echo \'{"format":"nrep","packet":"HELLO","nonce":0}\' | wireloom encode --hex',
        "wireloom decode a.bin | jq -c 'select(.packet==\"HELLO\")' | wireloom encode > hello.bin",
    ),
)
@file_argument
@output_file()
@click.option("--hex", "as_hex", is_flag=True, help="Write hex, one message per line.")
@force_option
def command(source: str, output: str | None, as_hex: bool, force: bool) -> None:
    """Encode messages from JSON lines, as decode prints them.

    Lines that cannot be encoded are named on stderr, the others are written; the exit status is
    then 1. Problems and nested messages among decode's lines are left out.
    """
    if not as_hex:
        refuse_suffix(output)
    failures = number = 0
    with ExitStack() as stack:
        stream = stack.enter_context(open_binary(source))
        out: IO[bytes] | None = None
        text: IO[str] | None = None
        if as_hex:
            text = stack.enter_context(text_output(output, force, source))
        else:
            out = stack.enter_context(binary_output(output, force, source))
        for number, line in enumerate(lines(chunks(stream)), 1):
            try:
                data = _encode(line)
            except WireloomError as error:
                failures += 1
                click.echo(f"{escape(source)}:{number}: {escape(str(error))}", err=True)
                continue
            if out is not None:
                out.write(data)
            elif text is not None and data:
                text.write(data.hex() + "\n")
    if not number:
        say_if_empty(0)
    if failures:
        raise click.exceptions.Exit(1)


def _encode(line: str) -> bytes:
    """The bytes of one line; none for a line without a message of its own."""
    row = parse_row(line)
    made = None if row is None else from_row(row)
    return made.encode() if isinstance(made, Message) else made or b""
