"""``wireloom doctor``: what this machine and the workers of a cluster have, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._options import OutputOptions, output_options
from wireloom.cli._sinks import open_sink

if TYPE_CHECKING:
    from wireloom.messages import Json

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom doctor",
        "wireloom doctor --master 'local[*]'",
        "wireloom doctor --master spark://host:7077 --json",
    ),
)
@click.option(
    "--master",
    metavar="URL",
    help="Also start Spark there and ask every worker what it has.",
)
@output_options("table")
def command(master: str | None, writing: OutputOptions) -> None:
    """Show what Wireloom finds here: Python, kernel, Java and Spark.

    For Java it also says why that one is used. With --master, every worker of a cluster is asked,
    too, and what it lacks is listed.

    The exit status is 1 if something is missing or does not work.
    """
    has_fault = False
    with open_sink(writing) as sink:
        for row in _rows(master):
            has_fault |= row["state"] == "bad"
            sink.write(row)
    if has_fault:
        raise click.exceptions.Exit(1)


def _rows(master: str | None) -> Iterator[Json]:
    from wireloom.errors import StateError
    from wireloom.formats import failures
    from wireloom.spark.probe import look_around, probe_workers

    for found in look_around():
        yield {"where": "here", "what": found.what, "state": found.state, "found": found.found}
    for name, why in failures().items():
        yield {"where": "here", "what": f"format {name}", "state": "bad", "found": why}
    if master is None:
        return
    from wireloom.spark.session import session

    try:
        spark = session(master, name="wireloom doctor")
        reports = probe_workers(spark)
    except StateError as error:
        yield {"where": master, "what": "workers", "state": "bad", "found": str(error)}
        return
    for report in reports:
        lacks = "; ".join(report.lacks)
        shown = ", ".join(f"{name} {value}" for name, value in report.facts.items())
        yield {
            "where": f"{report.host} {report.executor}",
            "what": "worker",
            "state": "bad" if report.lacks else "ok",
            "found": lacks or shown,
        }
