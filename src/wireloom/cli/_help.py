"""What the commands and their help texts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from wireloom.spelling import missing
from wireloom.view import escape

__all__ = ["Aliased", "Command", "Group", "examples"]

_NAMES = ["-h", "--help"]


# A method, because click's `help_option_names` is a property of one call: code that asks a command
# for its help in another way, as the documentation does, would get another text.
class Command(click.Command):
    """A command that also takes ``-h``."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Both names, however the help is asked for."""
        return _NAMES


class Aliased(click.Option):
    """An option with older spellings, which work but are not in the help text."""

    def __init__(self, *args: Any, aliases: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._aliases = aliases

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Tell the parser all spellings."""
        shown = self.opts
        self.opts = [*shown, *self._aliases]
        super().add_to_parser(parser, ctx)
        self.opts = shown


class Group(click.Group):
    """A command with sub-commands that all take ``-h``."""

    command_class = Command

    def __init__(self, *args: Any, late: Mapping[str, str] | None = None, **settings: Any) -> None:
        """A group.

        Args:
            args: as click has them.
            late: names of sub-commands, and the modules that have them as a function of the same
                name; imported when they are asked for.
            settings: as click has them.
        """
        super().__init__(*args, **settings)
        self._late = dict(late or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted({*super().list_commands(ctx), *self._late})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A sub-command; its module is imported now if it was not."""
        if cmd_name in self._late:
            found: click.Command = getattr(import_module(self._late[cmd_name]), cmd_name)
            return found
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command that was named.

        Raises:
            UsageError: there is none of that name.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if not args[0][:1].isalnum():  # an option
                raise
        # Click knows of no late ones that might be meant.
        ctx.fail(missing("command", escape(args[0]), self.list_commands(ctx)))

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Both names, however the help is asked for."""
        return _NAMES


def examples(*lines: str) -> str:
    """The end of a command's help text: lines to try."""
    # \b tells click to leave the line breaks alone.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
