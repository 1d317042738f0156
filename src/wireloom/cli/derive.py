"""``wireloom derive``: transactions, sockets, images and bars, made from a lake's tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._derived import derived_tables, summarise_derived
from wireloom.cli._help import Command, examples
from wireloom.cli._lake import bar, spark_session
from wireloom.errors import OptionError

if TYPE_CHECKING:
    from wireloom.lake import WriteOptions

__all__ = ["command"]

_LISTS = ("subject_fields",)
"""Options with several values."""


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom derive lake",
        "wireloom derive lake --tables bars,last_values --interval '10 seconds'",
        "wireloom derive lake --tables blaze_objects --model orders.blz",
        "wireloom derive lake --tables bars -O price=BID -O volume=BIDSIZE",
    ),
)
@click.argument("lake", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--tables",
    metavar="A,B,…",
    help="Which: blaze_transactions, blaze_subscriptions, blaze_objects, nais_exchanges, "
    "nrep_sockets, last_values, bars. When left out, all whose base tables the lake has.",
)
@click.option("--interval", metavar="TEXT", help="bars: length of one; 1 minute if left out.")
@click.option(
    "--model",
    type=click.Path(exists=True, dir_okay=False),
    help="blaze_objects: .blz model that says what a key is.",
)
@click.option(
    "-O",
    "other",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other option of the tables: price, volume, subject_fields, network, reset.",
)
@click.option(
    "--date",
    "dates",
    default="name",
    metavar="RULE",
    show_default=True,
    help="Day of rows without time: name (the date in the capture's name), none, or YYYY-MM-DD.",
)
@click.option(
    "--master", metavar="URL", help="Where Spark runs; all cores of this machine if left out."
)
@click.option("--target-bytes", type=click.IntRange(min=1), metavar="N", help="Size of files.")
@click.option("--force", is_flag=True, help="Make them again even if nothing has changed.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON to stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
def command(lake: str, as_json: bool, quiet: bool, **given: Any) -> None:
    """Make derived tables from a lake's tables, and keep them in it.

    Each is replaced as a whole, in one commit: whatever is killed on the way, either the old or the
    new one is there. One whose base tables have not changed since it was made is left alone.
    """
    from wireloom.lake import Lake
    from wireloom.spark.derived.store import as_stored, plan_derived, store_derived
    from wireloom.spark.session import DEFAULT_MASTER

    names = derived_tables(given["tables"])
    options = _options(given)
    how: dict[str, Any] = {"writing": _writing(given), "force": given["force"]}
    opened = Lake(lake)
    plans = plan_derived(opened, names, options, **how)
    if all(plan.is_current for plan in plans):
        # Spark takes longer to start than to find out that there is nothing to do.
        stored = [as_stored(opened, plan) for plan in plans]
    else:
        with spark_session(given["master"] or DEFAULT_MASTER, "wireloom derive") as spark:
            if spark is None:
                raise OptionError("this needs Spark")
            with bar("deriving", quiet) as shown:
                stored = store_derived(
                    spark, lake, names, options, **how, progress=shown.done, planned=shown.total
                )
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in stored]))
    if not quiet:
        summarise_derived(stored)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given["other"]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-O")
        found[name] = tuple(value.split(",")) if name in _LISTS else value
    if given["interval"] is not None:
        found["interval"] = given["interval"]
    if given["model"] is not None:
        found["model"] = Path(given["model"]).read_text("utf-8")
    return found


def _writing(given: dict[str, Any]) -> WriteOptions:
    from wireloom.lake import WriteOptions
    from wireloom.lake.layout import DateRule

    DateRule(given["dates"])  # or an error, before anything is started
    sizes = {"target_bytes": given["target_bytes"]} if given["target_bytes"] else {}
    return WriteOptions(dates=given["dates"], **sizes)
