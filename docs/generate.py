"""The pages that are made from the code at every build, so that they cannot fall behind it.

A format's page is its SPEC.md followed by what its declaration says; the command line's page is the
help text of every command; the tables' page has their columns. A new format, command or table
appears here without any edit.
"""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import click

from wireloom import cli
from wireloom.format import COMMON_OPTIONS, Format, Option
from wireloom.formats import get, names
from wireloom.formats.nais.counters import DROPS, Counters
from wireloom.formats.nrep.extensions import REASONS, Reason
from wireloom.services._shell.declared import CONNECTION_METRICS
from wireloom.services._shell.settings import options as settings_of
from wireloom.services.blaze.declared import METRICS, code_rows
from wireloom.services.blaze.settings import BrokerSettings
from wireloom.services.nais import metrics as nais_metrics
from wireloom.services.nrep.metrics import METRICS as NREP_METRICS
from wireloom.services.nrep.settings import EntryPointSettings
from wireloom.tables import docs_rows, table_names
from wireloom.tables import table as base_table


def write_pages(folder: Path) -> None:
    """Write docs/cli.md, docs/tables.md, docs/nais-settings.md and docs/formats/ again."""
    shutil.rmtree(folder / "formats", ignore_errors=True)
    (folder / "formats").mkdir()
    known = [get(name) for name in names()]
    for format_ in known:
        (folder / "formats" / f"{format_.name}.md").write_text(format_page(format_), "utf-8")
    (folder / "formats" / "index.md").write_text(formats_page(known), "utf-8")
    (folder / "cli.md").write_text(cli_page(), "utf-8")
    (folder / "tables.md").write_text(tables_page(), "utf-8")
    (folder / "nrep-entry-point-reference.md").write_text(entry_point_page(), "utf-8")
    (folder / "blaze-broker-reference.md").write_text(broker_page(), "utf-8")
    (folder / "nais-settings.md").write_text(nais_settings_page(), "utf-8")


def formats_page(known: Iterable[Format]) -> str:
    rows = [(f"[{f.title}]({f.name}.md)", f"`{f.name}`", f.kind, f.summary) for f in known]
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *(f.name for f in known), "```"])
    return "\n\n".join(
        [
            "# Formats",
            "A *transport* carries packets over a connection; a *message* is found inside packets, "
            "files and captures.",
            table(("format", "name", "kind", "what it is"), rows),
            "## Options of every format",
            options_table(COMMON_OPTIONS),
            toctree,
            "",
        ]
    )


def format_page(format_: Format) -> str:
    spec = Path(inspect.getfile(type(format_))).with_name("SPEC.md").read_text("utf-8").rstrip()
    parts = [spec]
    if format_.options:
        parts += ["## Options", options_table(format_.options)]
    parts.append("## Types")
    types = format_.types()
    parts.append(
        table(("code", "name", "what it is"), [(t.code, t.name, t.summary) for t in types])
    )
    for info in types:
        if info.rows:
            parts += [f"### {info.name}", table(("offset", "size", "field", "meaning"), info.rows)]
    return "\n\n".join(parts) + "\n"


def options_table(options: Iterable[Option]) -> str:
    rows = [
        (f"`{o.name}`", o.type, f"`{o.default!r}`", ", ".join(f"`{c}`" for c in o.choices), o.doc)
        for o in options
    ]
    return table(("option", "type", "default", "choices", "what it does"), rows)


def broker_page() -> str:
    metrics = [
        (
            f"`wireloom_blaze_{info.name}{'_total' if info.kind == 'counter' else ''}`",
            info.kind,
            ", ".join(f"`{label}`" for label in info.labels),
            info.help,
        )
        for info in (*METRICS.values(), *CONNECTION_METRICS)
    ]
    codes = [(field, number, f"`{name}`", when) for field, number, name, when in code_rows()]
    return "\n\n".join(
        [
            "# Blaze broker: reference",
            "## Settings",
            "In a TOML file for `--config`, what stands before the dot is a table. What the command"
            " line says goes before.",
            settings_table(BrokerSettings),
            "## Metrics",
            table(("metric", "kind", "labels", "what it says"), metrics),
            "## Codes",
            "What the broker says, and when.",
            table(("field", "number", "name", "when"), codes),
            "",
        ]
    )


def entry_point_page() -> str:
    metrics = [
        (
            f"`wireloom_nrep_{info.name}{'_total' if info.kind == 'counter' else ''}`",
            info.kind,
            ", ".join(f"`{label}`" for label in info.labels),
            info.help,
        )
        for info in (*NREP_METRICS, *CONNECTION_METRICS)
    ]
    reasons = [(int(each), f"`{each.name.lower()}`", REASONS[each]) for each in Reason]
    return "\n\n".join(
        [
            "# NREP entry point: reference",
            "Made from the declarations that {doc}`the program <nrep-entry-point>` itself uses.",
            "## Settings",
            "In a TOML file for `--config`, what stands before the dot is a table. What the command"
            " line says goes before.",
            settings_table(EntryPointSettings),
            "## Metrics",
            table(("metric", "kind", "labels", "what it says"), metrics),
            "## Reasons",
            "Why a socket ended or something was refused: labels of metrics, codes of the client's"
            " errors, and numbers on the wire between peers that negotiated them.",
            table(("number", "name", "when"), reasons),
            "",
        ]
    )


def cli_page() -> str:
    parts = [
        "# Command line",
        "Data goes to standard output, notes to standard error. The exit status is 0 when all is "
        "well, 1 when something is wrong with the data, 2 when the command was called wrongly, "
        "130 when it was interrupted and 141 when nobody reads its output any more.",
    ]
    for path, text in commands(cli.main, click.Context(cli.main, info_name="wireloom")):
        parts += [f"## {path}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def tables_page() -> str:
    parts = [
        "# Columns of the tables",
        "The table `wide` has the key, the fields that were asked for, and `misfits`.",
    ]
    for name in table_names():
        heads = ("column", "Arrow", "Spark", "meaning")
        rows = [(f"`{c}`", f"`{arrow}`", spark, doc) for c, arrow, spark, doc in docs_rows(name)]
        parts += [f"## {name}", f"One row is {base_table(name).doc}.", table(heads, rows)]
    return "\n\n".join(parts) + "\n"


def settings_table(cls: type, *, has_flags: bool = True) -> str:
    """What a service can be told, from the declarations of its settings."""
    rows = []
    for option in settings_of(cls):
        is_shown = not option.is_required and option.default not in (None, "", (), [], {})
        default = f"`{str(option.default).replace('True', 'true').replace('False', 'false')}`"
        flag = f"`{option.flag}`" if option.flag else ""
        flags = [flag] if has_flags else []
        rows.append((f"`{option.path}`", default if is_shown else "", *flags, option.help))
    heads = ("setting", "default", *(["option"] if has_flags else []), "what it does")
    return table(heads, rows)


def nais_settings_page() -> str:
    from wireloom.services.nais.settings import DirectionSettings, JunctionSettings, LineSettings
    from wireloom.services.nais.simulator_settings import BoardSettings

    metrics = [
        (
            f"`{nais_metrics.PREFIX}{info.name}{'_total' if info.kind == 'counter' else ''}`",
            info.kind,
            ", ".join(f"`{label}`" for label in info.labels),
            info.help,
        )
        for info in nais_metrics.METRICS
    ]
    docs = field_docs(Counters)
    reasons = [(f"`{reason}`", docs.get(reason, "")) for reason in DROPS]
    return "\n\n".join(
        [
            "# Settings and metrics of a junction",
            "Of {doc}`nais-junction`: made from the declarations that the program itself uses.",
            "## Junction",
            settings_table(JunctionSettings),
            "## A line: `[lines.NAME]`",
            "On the command line these follow the URL: `--line NAME=URL?board&max-age-s=5`.",
            settings_table(LineSettings, has_flags=False),
            "## A direction of a route: `[routes.forward]`, `[routes.backward]`",
            settings_table(DirectionSettings, has_flags=False),
            "## Metrics of every line",
            table(("metric", "kind", "labels", "what it is"), metrics),
            "Besides these there are those of the connections of every service: "
            + ", ".join(f"`wireloom_nais_{info.name}`" for info in CONNECTION_METRICS)
            + ".",
            "## Why records are dropped",
            table(("`reason`", "what it counts"), reasons),
            "## Simulated board",
            settings_table(BoardSettings),
            "",
        ]
    )


def field_docs(cls: type) -> dict[str, str]:
    """The texts under the fields of a class."""
    tree = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in pairwise(tree.body):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = str(below.value.value)  # type: ignore[attr-defined]
    return found


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Each command's full name and help text, groups before their members."""
    context.terminal_width = 80
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from commands(child, click.Context(child, parent=context, info_name=name))


def table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cell(c) for c in line)} |" for line in lines)


def cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
