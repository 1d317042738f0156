"""The command line: one file per command in this package.

A module here whose name has no leading underscore is a command: its `command` is what runs. Modules
are imported when their command is used, and import what is heavy only when it runs, so that
``wireloom --help`` is instant.

Data goes to stdout, notes to stderr. Exit status: 0 all well, 1 something is wrong with the data,
2 wrong usage, 130 interrupted, 141 the reader of the output is gone.
"""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from wireloom.cli._help import Group, examples
from wireloom.errors import OptionError, WireloomError
from wireloom.view import escape

__all__ = ["main"]

INTERRUPTED = 130
CLOSED_PIPE = 141


@contextlib.contextmanager
def _quiet_exits() -> Iterator[None]:
    """Turn the errors a user can cause into a message and an exit status, never a traceback."""
    # A character that the locale lacks must not be an error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        yield
        # Here and not at interpreter exit, where a closed pipe could no longer be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered must go somewhere, or Python complains at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OptionError as error:
        raise click.UsageError(escape(str(error))) from error
    except WireloomError as error:
        raise click.ClickException(escape(str(error))) from error
    except OSError as error:
        where = f"{os.fspath(error.filename)}: " if error.filename else ""
        raise click.ClickException(escape(f"{where}{error.strerror or error}")) from error
    finally:
        sys.unraisablehook = hook


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """An interrupt that came where nothing can be raised, such as a destructor, is repeated."""
    if unraisable.exc_type is KeyboardInterrupt:
        threading.Timer(0.05, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


class _Commands(Group):
    """The commands are the files of this package."""

    is_program = False
    """Whether this process runs one command, and nothing else."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run as a program; library code and tests call `main`."""
        self.is_program = True
        # NumPy, which Arrow imports, starts threads for linear algebra. They spin at first, which
        # is a tenth of the CPU time of a short command, and nothing here uses them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return super().__call__(*args, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in iter_modules(__path__) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return found

    def invoke(self, ctx: click.Context) -> Any:
        with _quiet_exits():
            return super().invoke(ctx)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # its import takes as long as that of all commands

        click.echo(f"wireloom {version('wireloom')}")
        ctx.exit()


@click.group(
    cls=_Commands,
    epilog=examples(
        "wireloom inspect 0003 0000 0000 0000 0000",
        "wireloom decode capture.bin --csv -o capture.csv",
        "wireloom decode day1.pcapng.zst -o day1/ --tables fields,errors",
        "wireloom formats nrep",
    ),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Read, write and convert six binary wire formats.

    FILE is a path, or - for stdin. Data goes to stdout, notes and summaries go to stderr.
    """
