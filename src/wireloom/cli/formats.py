"""``wireloom formats``: what each format is, from its declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._options import FormatName, OutputOptions, output_options
from wireloom.cli._output import make_console, show, text_output
from wireloom.cli._sinks import open_sink
from wireloom.format import COMMON_OPTIONS, Format, Option, TypeInfo
from wireloom.formats import get, names
from wireloom.messages import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom formats",
        "wireloom formats nrep",
        "wireloom formats nrep --type HELLO",
        "wireloom formats blaze --json",
    ),
)
@click.argument("name", metavar="[NAME]", required=False, type=FormatName())
@click.option("-t", "--type", "only", metavar="TYPE", help="Only this packet or field type.")
@output_options("table")
def command(name: str | None, only: str | None, writing: OutputOptions) -> None:
    """List the formats, or describe one: options, packets, bytes."""
    if name is None:
        if only:
            raise click.UsageError("--type needs the NAME of a format")
        with open_sink(writing) as sink:
            for each in names():
                sink.write(_overview(get(each)))
        return
    found = get(name)
    types = _choose(found, only)
    if writing.style == "table":
        with text_output(writing.path, writing.force) as stream:
            _draw(make_console(stream), found, types)
        return
    with open_sink(writing) as sink:
        if writing.style == "json":
            sink.write(_overview(found) | {"options": _options(found), "types": _types(types)})
        else:
            for row in _byte_rows(types):
                sink.write(row)


def _choose(found: Format, only: str | None) -> list[TypeInfo]:
    types = list(found.types())
    if only is None:
        return types
    chosen = [t for t in types if only.lower() in (t.name.lower(), str(t.code), hex(t.code))]
    if not chosen:
        known = ", ".join(t.name for t in types)
        raise click.UsageError(f"{found.name} has no type {only!r}; it has {known}")
    return chosen


def _overview(found: Format) -> Json:
    return {"name": found.name, "kind": found.kind, "title": found.title, "summary": found.summary}


def _options(found: Format) -> list[Json]:
    return [
        {
            "name": option.name,
            "type": option.type,
            "default": _default(option),
            "choices": list(option.choices),
            "doc": option.doc,
        }
        for option in (*found.options, *COMMON_OPTIONS)
    ]


def _default(option: Option) -> Any:
    # A default may be any object; what JSON cannot express is shown as text.
    plain = option.default is None or isinstance(option.default, (bool, int, float, str))
    return option.default if plain else repr(option.default)


_FIELD = ("offset", "size", "field", "meaning")


def _types(types: list[TypeInfo]) -> list[Json]:
    return [
        {
            "code": t.code,
            "name": t.name,
            "summary": t.summary,
            "fields": [dict(zip(_FIELD, row, strict=True)) for row in t.rows],
        }
        for t in types
    ]


def _byte_rows(types: list[TypeInfo]) -> Iterator[Json]:
    for t in types:
        for row in t.rows or [("", "", "", t.summary)]:
            yield {"code": t.code, "type": t.name} | dict(zip(_FIELD, row, strict=True))


def _draw(console: Console, found: Format, types: list[TypeInfo]) -> None:
    from rich.text import Text

    show(
        console,
        Text.assemble((f"{found.title} ", "bold"), (f"({found.name}, {found.kind})", "dim")),
    )
    show(console, Text(found.summary))
    show(console, Text())
    rows = [
        (o["name"], o["type"], _says(o["default"]), ", ".join(o["choices"]), o["doc"])
        for o in _options(found)
    ]
    show(console, _table(("option", "type", "default", "choices", "meaning"), rows))
    plain = [t for t in types if not t.rows]
    if plain:
        show(console, Text())
        show(console, _table(("code", "type", "meaning"), [_brief(t) for t in plain]))
    for t in types:
        if t.rows:
            show(console, Text())
            show(
                console,
                Text.assemble((t.name, "bold"), (f"  type {t.code} ({t.code:#04x})", "dim")),
            )
            show(console, Text(t.summary))
            show(console, _table(_FIELD, t.rows))


def _brief(t: TypeInfo) -> tuple[str, str, str]:
    return str(t.code), t.name, t.summary


def _says(default: Any) -> str:
    return "" if default is None else str(default)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        # Text, not str: a choice such as [n] is not markup.
        table.add_row(*[Text(cell) for cell in row])
    return table
