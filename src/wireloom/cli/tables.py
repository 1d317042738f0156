"""``wireloom tables``: what is in a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._lake import accounting_table, plain_table, size_text
from wireloom.cli._options import OutputOptions, output_options
from wireloom.cli._output import make_console, show, text_output
from wireloom.cli._sinks import open_sink

if TYPE_CHECKING:
    from wireloom.lake import Lake

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom tables lake", "wireloom tables lake fields", "wireloom tables lake --json"
    ),
)
@click.argument("lake", type=click.Path(exists=True, file_okay=False))
@click.argument("name", metavar="[TABLE]", required=False)
@output_options("table")
def command(lake: str, name: str | None, writing: OutputOptions) -> None:
    """List the tables of a lake, or the columns of one.

    The list has rows, files and the accounting of bytes.
    """
    from wireloom.lake import Lake

    opened = Lake(lake)
    if name is not None:
        with open_sink(writing, ["column", "type"]) as sink:
            for row in _columns(opened, name):
                sink.write(row)
        return
    rows = [_table(opened, each) for each in opened.tables]
    if writing.style != "table":
        with open_sink(writing) as sink:
            for row in rows:
                sink.write(row)
        return
    with text_output(writing.path, writing.force) as stream:
        console = make_console(stream)
        made = plain_table("table", "rows", "files", "size", "first day", "last day")
        for row in rows:
            made.add_row(
                row["table"],
                f"{row['rows']:,}",
                f"{row['files']:,}",
                size_text(row["bytes"]),
                row["first_day"] or "",
                row["last_day"] or "",
            )
        show(console, made)
        show(console, "")
        show(console, accounting_table(_totals(opened)))
        read = opened.state.inputs.values()
        following = sum(one.is_open for one in read)
        note = f", {following} of them still followed" if following else ""
        show(console, f"\n{len(read)} captures{note}, {opened.version} commits")
        for row in rows:
            if row["made_of"] is not None:
                changed = ", ".join(opened.state.changed_since(row["table"]))
                state = f"; changed since: {changed} (wireloom derive)" if changed else ""
                show(console, f"{row['table']} was made of commit {row['made_of']}{state}")


def _table(lake: Lake, name: str) -> dict[str, Any]:
    files = lake.files(name)
    days = sorted({file.day for file in files if file.day is not None})
    made = lake.state.derived.get(name)
    return {
        "table": name,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.bytes for file in files),
        "first_day": days[0] if days else None,
        "last_day": days[-1] if days else None,
        "made_of": None if made is None else made.version,
        "is_current": None if made is None else not lake.state.changed_since(name),
    }


def _columns(lake: Lake, name: str) -> list[dict[str, Any]]:
    from wireloom.lake import schema_of

    return [{"column": each.name, "type": str(each.type)} for each in schema_of(lake, name)]


def _totals(lake: Lake) -> dict[str, int]:
    from wireloom.lake import totals

    return totals(lake)
