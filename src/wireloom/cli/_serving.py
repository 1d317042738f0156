"""What the commands of ``wireloom serve`` share: options made from a service's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_origin, runtime_checkable

import click

from wireloom.cli._input import PathOrDash
from wireloom.errors import OptionError, SourceError

if TYPE_CHECKING:
    from wireloom.services._shell.settings import Option

__all__ = ["service_options"]

T = TypeVar("T")
_Command = Callable[..., Any]


def _needs_serve() -> None:
    """Check that what live services need is installed.

    Raises:
        ClickException: it is missing.
    """
    try:
        import wireloom.services._shell.program  # noqa: F401
    except ImportError as error:
        raise click.ClickException(
            f"live services need the extra 'serve' ({error.name} is missing):"
            " pip install 'wireloom[serve]'"
        ) from error


@runtime_checkable
class Checked(Protocol):
    """Settings that can check whether they are consistent."""

    def check(self) -> None:
        """Check them.

        Raises:
            OptionError: they are not consistent.
            SourceError: a file that they name cannot be used.
        """
        ...


class _Value(click.ParamType[Any]):
    """A value of the type that a setting has."""

    def __init__(self, option: Option) -> None:
        self._type = option.type
        self.name = option.metavar or option.path.rpartition(".")[2].upper()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from wireloom.services._shell.settings import parse_value

        if isinstance(value, str) and self._type is float:
            try:
                value = float(value)
            except ValueError:
                self.fail(f"{value!r} is not a number", param, ctx)
        try:
            return parse_value(value, self._type)
        except OptionError as error:
            self.fail(error.reason, param, ctx)


def _decorate(command: _Command, option: Option) -> _Command:
    """Add the click option of a setting."""
    name = option.path.replace(".", "__")
    shown: Any = {"help": option.help, "default": None}
    if option.type is bool:
        return click.option(f"{option.flag}/--no-{option.flag[2:]}", name, **shown)(command)
    if option.default and not option.is_required and not option.is_secret:
        shown["help"] += f" [default: {option.default}]"
    if get_origin(option.type) is tuple:
        from typing import get_args

        from wireloom.services._shell.settings import Option as Declared

        one = Declared(option.path, get_args(option.type)[0], *_rest(option))
        return click.option(option.flag, name, type=_Value(one), multiple=True, **shown)(command)
    return click.option(option.flag, name, type=_Value(option), **shown)(command)


def _rest(option: Option) -> tuple[Any, ...]:
    return (option.default, option.help, option.flag, option.metavar, option.is_secret)


def service_options(
    cls: type[T], *, can_reload: bool = False
) -> Callable[[Callable[..., None]], _Command]:
    """A decorator: an option for each setting of a service, ``--config`` and ``--check-config``.

    The command gets the settings from file and command line combined; with `can_reload` also a
    function that reads the file again and returns the new ones.
    """

    def decorate(function: Callable[..., None]) -> _Command:
        from wireloom.services._shell.settings import (
            MisplacedError,
            build,
            line_of,
            options,
            read_config,
        )

        def command(config: str | None, check_config: bool, **given: Any) -> None:
            chosen = {
                name.replace("__", "."): value
                for name, value in given.items()
                if value is not None and value != ()
            }

            def settings() -> T:
                read: dict[str, Any] = {}
                if config is not None:
                    read = read_config(Path(config), cls)
                try:
                    made = build(cls, read, chosen)
                    if isinstance(made, Checked):
                        made.check()
                    return made
                except OptionError as error:
                    if config is None:
                        raise
                    line = 0
                    if isinstance(error, MisplacedError):
                        line = line_of(Path(config).read_text("utf-8"), error.path)
                    raise SourceError(error.reason, file=config, line=line) from error

            _needs_serve()
            if check_config and config is None:
                raise click.UsageError("--check-config needs --config")
            found = settings()
            if check_config:
                click.echo(f"{config}: it is well formed")
            elif can_reload:
                function(found, settings)
            else:
                function(found)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        made: _Command = command
        for option in reversed([each for each in options(cls) if each.flag]):
            made = _decorate(made, option)
        made = click.option(
            "--check-config",
            is_flag=True,
            help="Check --config, say what is wrong with it, and exit.",
        )(made)
        return click.option(
            "--config",
            type=PathOrDash(exists=True, dir_okay=False),
            metavar="FILE",
            help="Settings in TOML; the command line takes precedence.",
        )(made)

    return decorate
