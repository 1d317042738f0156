"""``wireloom blaze``: a client of Blaze brokers on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from wireloom.cli._blazeconnect import Target, broker_options, class_of, model_option
from wireloom.cli._help import Group, examples
from wireloom.cli._options import OutputOptions, force_option, limit_option, output_options
from wireloom.errors import EncodeError
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.formats.blaze.nclass import ClassLayout, NClassValue

__all__ = ["command"]

_HERE = "--model fleet.blz --at 127.0.0.1:12345"
_class = click.argument("nclass", metavar="CLASS")
_path = click.option(
    "-I", "--include", "paths", multiple=True, metavar="DIR", help="Where included files may be."
)


@click.group(
    cls=Group,
    epilog=examples(
        f"wireloom blaze tx ins TRUCK truck_id=7 name=seven {_HERE}",
        f"wireloom blaze sub TRUCK {_HERE}",
        "wireloom blaze status http://127.0.0.1:12346",
    ),
)
def command() -> None:
    """Send transactions to a Blaze broker, follow its objects, load files, replay captures."""


def _layout(model: str, paths: tuple[str, ...], nclass: str) -> ClassLayout:
    from wireloom.formats.blaze.blz import load_blz
    from wireloom.formats.blaze.nclass import layout_of

    loaded = load_blz(model, paths=paths)
    return layout_of(loaded, class_of(loaded, nclass).name)


@command.command(
    epilog=examples(
        f"wireloom blaze tx ins TRUCK truck_id=7 name=seven home.x=5 {_HERE}",
        f"wireloom blaze tx dlt TRUCK truck_id=7 'temps[0]=21' {_HERE}",
        f"wireloom blaze tx upd TRUCK --json {_HERE} < trucks.jsonl",
    )
)
@click.argument("action", type=click.Choice(["ins", "upd", "dlt", "del", "rst"]))
@_class
@click.argument("fields", metavar="[FIELD=VALUE]...", nargs=-1)
@model_option
@_path
@broker_options
@click.option("--result", "wants_result", is_flag=True, help="Ask for the stored object.")
@click.option("--json", "is_json", is_flag=True, help="Write one JSON object a transaction.")
def tx(
    action: str,
    nclass: str,
    fields: tuple[str, ...],
    model: str,
    paths: tuple[str, ...],
    target: Target,
    wants_result: bool,
    is_json: bool,
) -> None:
    """Insert, update, change (dlt), delete or reset objects.

    FIELD may go into objects and arrays: home.x, temps[0], stops[1].label; a whole array or object
    is given as JSON. Without fields, JSON objects are read from stdin, one per line: as many
    transactions as there are lines, many at a time. With dlt only the given fields are changed;
    rst without fields resets the class. The exit status is 1 when one of them was refused.
    """
    from wireloom.cli._blazetx import ACTIONS, objects_in, transact, value_of, values_of
    from wireloom.cli._blazevalues import from_pairs

    layout = _layout(model, paths, nclass)
    values: Iterable[NClassValue]
    if fields or action == "rst":
        try:
            values = [value_of(layout, from_pairs(layout, fields), action)]
        except EncodeError as error:
            raise click.UsageError(escape(str(error))) from error
    else:
        if sys.stdin.isatty():
            click.echo("reading JSON objects, one a line", err=True)
        values = values_of(layout, objects_in(sys.stdin), action)
    failed = transact(
        target, layout, ACTIONS[action], values, wants_result=wants_result, is_json=is_json
    )
    if failed:
        raise click.exceptions.Exit(1)


def _stamp(_: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    seconds, _comma, number = value.partition(",")
    if not (seconds.isdecimal() and (number or "0").isdecimal()):
        raise click.BadParameter(f"{escape(value)!r} is not SECONDS,COUNTER", param=param)
    stamp = int(seconds), int(number or 0)
    if max(stamp) >= 1 << 32:
        raise click.BadParameter("stamps have 32 bits", param=param)
    return stamp


@command.command(
    epilog=examples(
        f"wireloom blaze sub TRUCK {_HERE}",
        f"wireloom blaze sub TRUCK --past --json {_HERE} > trucks.jsonl",
        f"wireloom blaze sub TRUCK --since 1700000000,3 --json {_HERE}",
    )
)
@_class
@model_option
@_path
@broker_options
@click.option(
    "--all", "mode", flag_value="ALL", default="ALL", help="Stored, then changed objects."
)
@click.option("--past", "mode", flag_value="PAST", help="Only what is stored; then it ends.")
@click.option("--live", "mode", flag_value="LIVE", help="Only what changes.")
@click.option("--last", is_flag=True, help="Only the last of several changes that wait.")
@click.option("--deltas", is_flag=True, help="Let the broker send only what has changed.")
@click.option(
    "--since",
    metavar="SECONDS,COUNTER",
    callback=_stamp,
    help="Only what is newer than this stamp.",
)
@limit_option(text="Stop after N objects.")
@click.option("--json", "is_json", is_flag=True, help="Write one JSON object an event.")
def sub(
    nclass: str,
    model: str,
    paths: tuple[str, ...],
    target: Target,
    mode: str,
    last: bool,
    deltas: bool,
    since: tuple[int, int] | None,
    limit: int | None,
    is_json: bool,
) -> None:
    """Follow the objects of a class.

    On a terminal a table shows the objects as they are, those that changed last on top. Elsewhere,
    or with --json, each event is a line: its action, stamp and object. A lost connection is made
    again, and nothing is missed. At the end stderr says where to go on with --since.
    """
    from wireloom.cli._blazesub import JsonLines, LiveTable, Shown, follow
    from wireloom.formats.blaze.codes import FlowType, SubscriptionMode, SubscriptionType
    from wireloom.formats.blaze.session.behaviour import behaviour_of

    if mode == "PAST" and not behaviour_of(target.dialect).has_download_end:
        click.echo("brokers of this dialect do not say when that is all: end it yourself", err=True)
    layout = _layout(model, paths, nclass)
    shown: Shown = JsonLines()
    if not is_json and sys.stdout.isatty():
        from rich.console import Console

        shown = LiveTable(layout.nclass, Console())
    options = {
        "mode": SubscriptionMode[mode],
        "flow": FlowType.LAST if last else FlowType.ALL,
        "kind": SubscriptionType.INCREMENTAL if deltas else SubscriptionType.SNAPSHOT,
        "resume": since,
    }
    follow(target, layout.model, layout.nclass, shown, limit=limit, options=options)


@command.command(
    epilog=examples(
        f"wireloom blaze load trucks.csv TRUCK {_HERE}",
        f"wireloom blaze load trucks.parquet TRUCK --upsert {_HERE}",
    )
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@_class
@model_option
@_path
@broker_options
@click.option("--upsert", is_flag=True, help="Update objects that are there already.")
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False),
    help="Where to write rows that are not taken, and why; FILE.rejects.jsonl here if left out.",
)
@click.option(
    "--flying",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    metavar="N",
    help="Transactions under way at a time.",
)
@force_option
def load(
    source: str,
    nclass: str,
    model: str,
    paths: tuple[str, ...],
    target: Target,
    upsert: bool,
    rejects: str | None,
    flying: int,
    force: bool,
) -> None:
    """Insert the rows of a CSV or Parquet file.

    Columns are fields: name, home.x or home_x, temps[0] or temps_0; an empty cell is left out. Rows
    that are no object of the class, or that the broker refuses, are counted and written to a file,
    and the exit status is 1. A lost connection is made again; if that takes longer than --timeout,
    loading ends there.
    """
    from time import monotonic

    from wireloom.cli._blazeload import load as load_file

    started = monotonic()
    totals = load_file(
        target,
        _layout(model, paths, nclass),
        source,
        is_upsert=upsert,
        rejects=rejects,
        force=force,
        max_flying=flying,
    )
    seconds = max(monotonic() - started, 1e-9)
    told = f"{totals.loaded} of {totals.rows} rows loaded"
    if totals.updated:
        told += f", {totals.updated} of them updates"
    click.echo(f"{told}; {seconds:.1f} s, {totals.loaded / seconds:.0f} a second", err=True)
    if totals.rejects is not None:
        told = "1 row was" if totals.rejected == 1 else f"{totals.rejected} rows were"
        told += " rejected"
        if totals.unknown:
            told += f", {totals.unknown} were lost on the way and may or may not be there"
        click.echo(f"{told}: {escape(totals.rejects)}", err=True)
        if totals.is_cut:
            told = (
                f"no connection within {target.timeout:g} s; rows after {totals.rows} were not read"
            )
            click.echo(told, err=True)
        raise click.exceptions.Exit(1)


@command.command(
    epilog=examples(
        "wireloom blaze status http://127.0.0.1:12346",
        "wireloom blaze status 127.0.0.1:12346 --json",
    )
)
@click.argument("url")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer.",
)
@output_options("table")
def status(url: str, timeout: float, writing: OutputOptions) -> None:
    """Ask a broker's side port how it is.

    URL is where its metrics are: http://HOST:PORT.
    """
    from wireloom.cli._blazestatus import fetch, rows_of
    from wireloom.cli._sinks import open_sink

    found = fetch(url, timeout)
    columns = None if writing.style == "json" else ("name", "value")
    with open_sink(writing, columns) as sink:
        for row in [found] if writing.style == "json" else rows_of(found):
            sink.write(row)


@command.command(
    epilog=examples(
        "wireloom blaze replay day1.pcapng --at 127.0.0.1:12345",
        "wireloom blaze replay day1.pcapng --speed 0 --json --at 127.0.0.1:12345",
    )
)
@click.argument("source", metavar="CAPTURE", type=click.Path(exists=True, dir_okay=False))
@broker_options
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="2 is twice as fast as it was; 0: as fast as answers come.",
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an answer that was there in the recording.",
)
@click.option("--show", type=click.IntRange(min=0), default=20, help="Differences to show.")
@click.option("--json", "is_json", is_flag=True, help="Write the report as JSON.")
def replay(
    source: str, target: Target, speed: float, wait: float, show: int, is_json: bool
) -> None:
    """Send the client side of recorded connections again, and compare the answers.

    Each connection that is recorded from its start gets a connection of its own. Ids that a broker
    gives, and stamps from which downloads go on, are replaced by those of this broker. The exit
    status is 1 when an answer is not as it was; heartbeats are not compared.
    """
    import asyncio

    from wireloom.cli._blazereplay import show_report
    from wireloom.services.blaze.recordings import read_recordings
    from wireloom.services.blaze.replay import replay as run

    recordings, others = read_recordings(source)
    for recording in recordings:
        if recording.problem:
            told = f"{recording.name}: replayed as far as it goes: {recording.problem}"
            click.echo(escape(told), err=True)
    if others:
        click.echo(f"{others} streams are no Blaze connections with their start", err=True)
    if not recordings:
        raise click.ClickException(f"{escape(source)}: no Blaze connection to replay")
    with target.named():
        report = asyncio.run(
            run(recordings, target.host, target.port, speed=speed, wait=wait, tls=target.tls)
        )
    show_report(report, show, is_json)
    if not report.is_equal:
        raise click.exceptions.Exit(1)
