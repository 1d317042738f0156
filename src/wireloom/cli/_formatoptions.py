"""The formats' own options on the command line: ``--NAME`` for each that a format declares.

To know them, all formats must be imported, which takes longer than the rest of a short command. So
that is done only when there is an option that the command itself does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from wireloom.cli._help import Command

if TYPE_CHECKING:
    from wireloom.format import Format, Option

__all__ = ["ReadingCommand", "format_options_note", "given_options"]

_GIVEN = "wireloom.format_options"
_IS_WANTED = "wireloom.has_format_options"

_HELP = (
    "Options of the formats by their names: --dictionary FILE (qform), --model FILE (blaze), "
    "--proto FILE,… and --bind TYPE=MESSAGE,… (nais), --dialect NAME (blaze, tibrv), and others: "
    "see `wireloom formats NAME`."
)


class _Note(click.Option):
    """A line of the help, not an option."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """The placeholder for all of them."""
        return "--NAME VALUE", _HELP

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """It cannot be given."""


format_options_note = click.option(
    "--NAME", "format_options", cls=_Note, expose_value=False, help=_HELP
)
"""What the help says instead of importing all formats."""


class ReadingCommand(Command):
    """A command that reads frames, and so has the options of all formats."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the options of the formats if the arguments may have one."""
        own = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        own.update(self.get_help_option_names(ctx))
        long = {arg.partition("=")[0] for arg in args if arg.startswith("--") and arg != "--"}
        ctx.meta[_IS_WANTED] = not long <= own
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own, and those of the formats."""
        found = super().get_params(ctx)
        if not ctx.meta.get(_IS_WANTED):
            return found
        from wireloom.options import declared

        taken = {name for param in found for name in param.opts}
        made = (_made(name, each) for name, each in declared().items())
        return [*found, *(each for each in made if each is not None and each.opts[0] not in taken)]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the options of the formats, too."""
        ctx.meta[_IS_WANTED] = incomplete.startswith("-")
        return super().shell_complete(ctx, incomplete)


def given_options(ctx: click.Context | None = None) -> dict[str, Any]:
    """The options of formats that the user has given, as text, lists of texts, or flags."""
    found = (ctx or click.get_current_context()).meta.get(_GIVEN, {})
    return dict(cast("dict[str, Any]", found))


def _made(name: str, owners: Sequence[tuple[Format, Option]]) -> click.Option | None:
    """The option of a name; None if it cannot be written as text."""
    owners = [each for each in owners if each[1].type != "object"]
    if not owners:
        return None
    types = {option.type for _, option in owners}
    type = types.pop() if len(types) == 1 else "text"
    choices = list(dict.fromkeys(each for _, option in owners for each in option.choices))
    given: dict[str, Any] = {"metavar": {"number": "N", "list": "A,B,…"}.get(type)}
    flag = f"--{name.replace('_', '-')}"
    if type == "flag":
        flag = f"{flag}/--no-{flag[2:]}"
    elif type in ("file", "files"):
        given["type"] = _Files([option.default for _, option in owners])
    elif choices:
        # The format that is read checks the choice: others may have other choices.
        given["shell_complete"] = lambda ctx, param, text: [
            x for x in choices if x.startswith(text)
        ]
    return click.Option(
        [flag, f"format_{name}"],
        help="; ".join(f"{format.name}: {option.doc}" for format, option in owners),
        multiple=type in ("list", "files"),
        default=None,
        expose_value=False,
        callback=_keep(name),
        **given,
    )


if TYPE_CHECKING:
    _Path = click.Path[str]
else:
    _Path = click.Path  # generic since click 8.4 only


class _Files(_Path):
    """Files that exist, with commas between them; or a word that stands for one."""

    def __init__(self, words: Sequence[object]) -> None:
        super().__init__(exists=True)
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is, if all files exist."""
        for part in value.split(","):
            if part not in self._words:
                super().convert(part, param, ctx)
        return value


def _keep(name: str) -> Any:
    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value != ():
            ctx.meta.setdefault(_GIVEN, {})[name] = value

    return keep
