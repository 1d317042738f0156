"""``wireloom pipeline``: captures → a lake of Parquet tables, with or without Spark."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._derived import derived_tables, summarise_derived
from wireloom.cli._formatoptions import ReadingCommand, format_options_note, given_options
from wireloom.cli._help import Aliased, examples
from wireloom.cli._lake import accounting_table, bar, plain_table, size_text, spark_session
from wireloom.cli._output import make_console, show
from wireloom.errors import SourceError
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.pipeline import Executor, PipelineOptions, Report
    from wireloom.spark.derived.store import StoredTable
    from wireloom.tabulate import Settings

__all__ = ["command"]

_SETTINGS = (
    "tables",
    "formats",
    "ports",
    "columns",
    "mode",
    "include_raw",
)
"""Options of the command that are settings of the tables."""


@click.command(
    cls=ReadingCommand,
    epilog=examples(
        "wireloom pipeline captures/ --output lake",
        "wireloom pipeline 'captures/*.pcapng' --output lake --tables fields,errors",
        "wireloom pipeline quotes.bin --output lake --columns BID:double,ASK:double",
        "wireloom pipeline captures/ --output lake --stream",
        "wireloom pipeline captures/ --output lake --derive bars,last_values",
        "wireloom pipeline --output lake --reprocess errors --dictionary fixed.cf",
    ),
)
@click.argument("sources", metavar="[IN]...", nargs=-1, type=click.Path())
@click.option(
    "-o",
    "--output",
    "lake",
    cls=Aliased,
    aliases=("--out",),
    required=True,
    metavar="LAKE",
    type=click.Path(file_okay=False),
    help="Folder of the tables; created if there is none.",
)
@click.option(
    "--tables",
    metavar="A,B,…",
    help="Tables to write; all when left out. errors, gaps and accounting always are.",
)
@click.option(
    "--formats", metavar="A,B,…", help="Only these formats may be on a stream of a capture."
)
@click.option(
    "--ports",
    metavar="PORT=FORMAT,…",
    help="The formats on these ports; detected on all others.",
)
@click.option("--columns", metavar="A:TYPE,…", help="Fields that are columns of the table wide.")
@format_options_note
@click.option(
    "--mode",
    type=click.Choice(["permissive", "failfast", "dropmalformed"]),
    help="What cannot be read becomes rows of errors, stops everything, or is only counted.",
)
@click.option("--include-raw", is_flag=True, default=None, help="Keep the frames' bytes.")
@click.option(
    "-O",
    "other",
    multiple=True,
    metavar="NAME=VALUE",
    help="The same, also as FORMAT.NAME=VALUE, and other settings such as max_frame.",
)
@click.option(
    "--date",
    "dates",
    default="name",
    metavar="RULE",
    show_default=True,
    help="Day of raw captures, which have no times: name (the date in the file's name), none, or "
    "YYYY-MM-DD.",
)
@click.option("--stream", is_flag=True, help="Keep following captures, old and new; Ctrl-C ends.")
@click.option(
    "--every",
    "every_s",
    default=5.0,
    show_default=True,
    metavar="S",
    help="With --stream: seconds between two looks.",
)
@click.option(
    "--settle",
    "settle_s",
    default=30.0,
    show_default=True,
    metavar="S",
    help="With --stream: a capture without changes for this long is complete.",
)
@click.option(
    "--reprocess",
    type=click.Choice(["errors"]),
    help="Read the quarantine again, with other settings; no IN is needed.",
)
@click.option(
    "--derive",
    metavar="A,B,…",
    help="Then make these derived tables, as `wireloom derive` does without options; or all.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs; if left out, on all cores of this machine, if it is installed. none: "
    "without Spark, on one core.",
)
@click.option(
    "--writer",
    type=click.Choice(["arrow", "spark", "delta"]),
    default="arrow",
    show_default=True,
    help="What writes the files: the tasks, Spark, or the tasks with a Delta log.",
)
@click.option(
    "--route",
    type=click.Choice(["auto", "direct", "shuffle"]),
    default="auto",
    show_default=True,
    help="How packets find their connections.",
)
@click.option(
    "--split-bytes", type=click.IntRange(min=1), metavar="N", help="Bytes that one task reads."
)
@click.option(
    "--commit-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Bytes of raw captures in one commit.",
)
@click.option("--target-bytes", type=click.IntRange(min=1), metavar="N", help="Size of files.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON to stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
def command(sources: tuple[str, ...], lake: str, as_json: bool, quiet: bool, **given: Any) -> None:
    """Load captures into a lake: tables as Parquet files by day.

    IN are files, folders, patterns or addresses. Captures that the lake has already are not read
    again; those that have changed replace what was read of them. Whatever is killed on the way, a
    commit is there as a whole or not at all.
    """
    if not sources and not given["reprocess"]:
        raise click.UsageError("no captures: name files or folders, or use --reprocess")
    if given["derive"] and (given["stream"] or given["master"] == "none"):
        raise click.UsageError("--derive needs Spark, and comes after a batch: not --stream")
    settings = _settings(given)
    options = _options(given)
    _check(sources)

    from wireloom.spark.session import DEFAULT_MASTER

    needs_spark = given["derive"] or options.writer == "spark"
    master = given["master"] or (DEFAULT_MASTER if needs_spark else None)
    with spark_session(master, "wireloom pipeline") as spark:
        executor = _executor(spark)
        if given["reprocess"]:
            report = _reprocess(executor, lake, settings, options, quiet)
        elif given["stream"]:
            report = _follow(executor, sources, lake, settings, options, given, quiet)
        else:
            report = _run(executor, sources, lake, settings, options, quiet)
        derived = _derived(spark, lake, given, options, quiet) if given["derive"] else []
    if as_json:
        made = {"derived": [dataclasses.asdict(one) for one in derived]} if derived else {}
        click.echo(json.dumps({**dataclasses.asdict(report), **made}))
    if not quiet:
        _summarise(report)
        summarise_derived(derived)


def _check(sources: tuple[str, ...]) -> None:
    """Look for the captures: before Spark is started and a lake made for them.

    Raises:
        UsageError: there is no such file.
    """
    from wireloom.pipeline.plan import expand

    try:
        expand(sources)
    except SourceError as error:
        raise click.UsageError(escape(str(error))) from error


def _executor(spark: Any) -> Executor:
    from wireloom.pipeline import InProcess

    if spark is None:
        return InProcess()

    from wireloom.spark.executor import SparkExecutor

    return SparkExecutor(spark)


def _derived(
    spark: Any, lake: str, given: dict[str, Any], options: PipelineOptions, quiet: bool
) -> list[StoredTable]:
    from wireloom.spark.derived import derived_names, recipe
    from wireloom.spark.derived.store import store_derived

    names = derived_tables(given["derive"])
    # A derived table may need an option of a format; it is recorded with the table, so as text.
    wanted = {option for name in names or derived_names() for option in recipe(name).options}
    known = {
        name: Path(value).read_text("utf-8")
        for name, value in given_options().items()
        if name in wanted and isinstance(value, str)
    }
    with bar("deriving", quiet) as shown:
        return store_derived(
            spark,
            lake,
            names,
            known,
            writing=options.writing,
            progress=shown.done,
            planned=shown.total,
        )


def _settings(given: dict[str, Any]) -> Settings:
    from wireloom.tabulate import Settings

    found: dict[str, str] = {}
    for text in given["other"]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-O")
        found[name] = value
    for name, value in given_options().items():
        found[name] = _text(value)
    for name in _SETTINGS:
        if given[name] is not None:
            found[name] = _text(given[name])
    return Settings.from_options(found)


def _text(value: Any) -> str:
    """A value as settings read it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(given: dict[str, Any]) -> PipelineOptions:
    from wireloom.lake import WriteOptions
    from wireloom.lake.layout import DateRule
    from wireloom.pipeline import PipelineOptions

    DateRule(given["dates"])
    writing: dict[str, Any] = {"dates": given["dates"]}
    if given["target_bytes"]:
        writing["target_bytes"] = given["target_bytes"]
    sizes = {
        name: given[name] for name in ("split_bytes", "commit_bytes") if given[name] is not None
    }
    return PipelineOptions(
        writer=given["writer"], route=given["route"], writing=WriteOptions(**writing), **sizes
    )


def _run(
    executor: Executor,
    sources: Any,
    lake: str,
    settings: Settings,
    options: PipelineOptions,
    quiet: bool,
) -> Report:
    from wireloom.pipeline import run_pipeline

    with bar("reading", quiet) as shown:
        return run_pipeline(
            sources,
            lake,
            settings,
            options,
            executor=executor,
            progress=shown.done,
            planned=shown.total,
        )


def _follow(
    executor: Executor,
    sources: Any,
    lake: str,
    settings: Settings,
    options: PipelineOptions,
    given: dict[str, Any],
    quiet: bool,
) -> Report:
    import signal
    from threading import Event

    from wireloom.pipeline import StreamOptions, follow

    stop = Event()
    # The first Ctrl-C (or a service manager's signal) reads what is there to its end; a second
    # one interrupts as usual.
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def end(*_: Any, number: int = number, before: Any = before) -> None:
            stop.set()
            signal.signal(number, before)

        signal.signal(number, end)

    def told(report: Report) -> None:
        if not quiet:
            read = f"{report.files_read} reads, {size_text(report.bytes_read)}"
            click.echo(f"commit {report.commits}: {read}", err=True)

    following = StreamOptions(every_s=given["every_s"], settle_s=given["settle_s"])
    return follow(
        sources, lake, settings, options, following, executor=executor, stop=stop, told=told
    )


def _reprocess(
    executor: Executor, lake: str, settings: Settings, options: PipelineOptions, quiet: bool
) -> Report:
    from wireloom.pipeline import reprocess

    with bar("reading", quiet) as shown:
        return reprocess(
            lake,
            settings,
            options,
            executor=executor,
            progress=shown.done,
            planned=shown.total,
        )


def _summarise(report: Report) -> None:
    console = make_console(sys.stderr)
    rate = report.bytes_read / report.seconds if report.seconds else 0
    known = f", {report.files_known} known" if report.files_known else ""
    replaced = f", {report.files_replaced} of them again" if report.files_replaced else ""
    click.echo(
        f"{report.files_read} captures read{replaced}{known}: {size_text(report.bytes_read)} in "
        f"{report.seconds:.1f} s ({size_text(int(rate))}/s), {report.commits} commits",
        err=True,
    )
    if report.rows:
        rows = plain_table("table", "rows")
        for name, count in sorted(report.rows.items()):
            rows.add_row(name, f"{count:,}")
        show(console, rows)
    if report.totals:
        show(console, accounting_table(report.totals))
