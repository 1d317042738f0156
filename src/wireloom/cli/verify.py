"""``wireloom verify``: golden vector files against the codecs, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wireloom.cli._help import examples
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.testing.vectors import Outcome

__all__ = ["command"]


@click.command(
    epilog=examples(
        "wireloom verify vectors/nrep.jsonl",
        "wireloom verify -v vectors/*.jsonl",
    )
)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("-v", "--verbose", is_flag=True, help="Also list the cases that pass.")
def command(files: tuple[Path, ...], verbose: bool) -> None:
    """Check the codecs against golden vectors, in both directions.

    Each line of FILE is a case: decoding its bytes must give what it says, and encoding that must
    give the bytes. One line for each failure; the last line counts. A case that no codec knows is a
    failure, and so is a file that cannot be read.
    """
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
        # Whatever a codec under test throws is its failure, and the other files still count.
        yield Outcome(str(file), line + 1, "stopped", f"{type(error).__name__}: {error}")
