"""``wireloom verify``: golden vectors against the codecs, and TCP streams against tshark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wireloom.cli._capture import say_if_empty
from wireloom.cli._help import Command, examples
from wireloom.cli._progress import total_size
from wireloom.cli._sizes import count
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from wireloom.testing.vectors import Outcome

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom verify vectors/nrep.jsonl",
        "wireloom verify -v vectors/*.jsonl",
        "wireloom verify --tshark day1.pcapng",
    ),
)
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("-v", "--verbose", is_flag=True, help="Also list the cases that pass.")
@click.option(
    "--tshark",
    is_flag=True,
    help="FILE is a capture: compare its TCP streams with those that tshark reassembles.",
)
def command(files: tuple[Path, ...], verbose: bool, tshark: bool) -> None:
    """Check codecs with golden vectors, or captures with tshark.

    Each line of FILE is a case: decoding its bytes must give what it says, and encoding that must
    give the bytes. One line for each failure; the last line counts. A case that no codec knows is a
    failure, and so is a line that cannot be read.

    With --tshark each line is a TCP stream. tshark gives up a hole once it is acknowledged, even
    if the missing bytes come later, and never before; and it takes the first copy of a segment,
    even if its checksum is bad. Where nothing else is different, that is noted and does not count
    as a failure.
    """
    if total_size([str(file) for file in files]) == 0:
        say_if_empty(0)
    if tshark:
        _compare(files, verbose)
        return
    passed = failed = 0
    for file in files:
        for outcome in _outcomes(file):
            where = f"{outcome.file}:{outcome.line}: {outcome.name}"
            if outcome.failure is None:
                passed += 1
                if verbose:
                    click.echo(f"ok   {escape(where)}")
            else:
                failed += 1
                click.echo(f"FAIL {escape(where)}: {escape(outcome.failure)}")
    click.echo(f"{passed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _outcomes(file: Path) -> Iterator[Outcome]:
    """The outcomes of a file; one more failure if it cannot be read to its end."""
    from wireloom.testing.vectors import Outcome, verify

    line = 0
    try:
        for outcome in verify(file):
            line = outcome.line
            yield outcome
    except OSError as error:
        yield Outcome(str(file), line, "cannot read", str(error.strerror or error))
    except Exception as error:
        # Whatever a codec under test raises is its failure, and the other files still count.
        yield Outcome(str(file), line + 1, "stopped", f"{type(error).__name__}: {error}")


def _compare(files: tuple[Path, ...], verbose: bool) -> None:
    """Our streams beside tshark's."""
    from wireloom.testing.tshark import compare

    same = noted = failed = 0
    for file in files:
        for found in compare(file):
            where = clip(f"{file}: {found.name}: {found.size:,} bytes, {found.gap:,} missing", 300)
            if found.is_same:
                same += 1
                if verbose:
                    click.echo(f"ok   {where}")
            elif found.is_explained:
                noted += 1
                click.echo(f"note {where}: {clip(found.reason, 200)}")
            else:
                failed += 1
                click.echo(f"FAIL {where}: {clip(found.reason, 200)}")
    notes = f", {noted} different by tshark's own rules" if noted else ""
    click.echo(f"{count(same, 'stream')} the same{notes}, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)
