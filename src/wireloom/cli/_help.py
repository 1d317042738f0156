"""What the commands and their help texts have in common."""

from __future__ import annotations

from typing import Any

import click

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

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Both names, however the help is asked for."""
        return _NAMES


def examples(*lines: str) -> str:
    """The end of a command's help text: lines to try."""
    # \b tells click to leave the line breaks alone.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
