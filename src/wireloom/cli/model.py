"""``wireloom model``: the classes that Blaze bodies are made of, checked and shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._capture import say_if_empty
from wireloom.cli._help import Group, examples
from wireloom.cli._options import OutputOptions, force_option, output_file, output_options
from wireloom.cli._output import text_output
from wireloom.cli._sinks import open_sink
from wireloom.errors import SourceError
from wireloom.messages import Json
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.formats.blaze.model import EnumDecl, FieldDecl, Model, NClass

__all__ = ["command"]

_COLUMNS = ("kind", "name", "id", "member", "type", "count", "key", "text")
_path = click.option(
    "-I", "--include", "paths", multiple=True, metavar="DIR", help="Where included files may be."
)


@click.group(
    cls=Group,
    epilog=examples("wireloom model check fleet.blz", "wireloom model show fleet.blz --name TRUCK"),
)
def command() -> None:
    """Check and show .blz models, which declare Blaze bodies."""


@command.command(
    epilog=examples("wireloom model check fleet.blz", "wireloom model check -I common *.blz")
)
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
)
@_path
def check(files: tuple[str, ...], paths: tuple[str, ...]) -> None:
    """Check models. Each that is wrong gets one line: file, line number and reason."""
    failed = False
    for file in files:
        try:
            model = _load(file, paths)
        except SourceError as error:
            failed = True
            click.echo(escape(str(error)))
        else:
            say_if_empty(os.path.getsize(file))
            counts = f"{len(model.nclasses)} classes, {len(model.enums)} enums"
            click.echo(f"{escape(file)}: {counts}, nothing wrong", err=True)
    if failed:
        raise click.exceptions.Exit(1)


@command.command(
    epilog=examples(
        "wireloom model show fleet.blz",
        "wireloom model show fleet.blz --name TRUCK --json",
    )
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@_path
@click.option("--name", metavar="NAME", help="Only the class or enum of this name.")
@output_options("table")
def show(source: str, paths: tuple[str, ...], name: str | None, writing: OutputOptions) -> None:
    """List the classes and enums of a model.

    A table or CSV has a row for each field, JSON an object for each class.
    """
    model = _load(source, paths)
    entities = [entity for entity in model.entities if name in (None, entity.name)]
    if not model.entities:
        say_if_empty(os.path.getsize(source))
    elif not entities:
        known = ", ".join(entity.name for entity in model.entities)
        raise click.UsageError(f"the model has no {escape(str(name))!r}; it has {known}")
    with open_sink(writing, _COLUMNS, source) as sink:
        for entity in entities:
            for row in [_object(entity)] if writing.style == "json" else _rows(entity):
                sink.write(row)


@command.command(
    epilog=examples(
        "wireloom model stub fleet.blz -o fleet.pyi",
        "wireloom model stub fleet.blz -o fleet.pyi --module",
    )
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@_path
@output_file("Write to this file, ending in .pyi.")
@click.option(
    "--module",
    "is_module",
    is_flag=True,
    help="Also write the .py beside it, which makes the classes when it is imported.",
)
@force_option
def stub(
    source: str, paths: tuple[str, ...], output: str | None, is_module: bool, force: bool
) -> None:
    """Write the types of a model's Python classes, for type checkers.

    With fleet.pyi and fleet.py (--module) beside each other, `import fleet` has the classes, and
    mypy and editors know their fields.
    """
    from wireloom.formats.blaze.stub import stub_of

    output = None if output == "-" else output
    if output is not None and not output.endswith(".pyi"):
        raise click.UsageError("a stub ends in .pyi")
    if is_module and (output is None or paths):
        raise click.UsageError("--module needs --output, and a model without --include")
    text = stub_of(_load(source, paths), os.path.basename(source))
    with text_output(output, force, source) as file:
        file.write(text)
    if is_module and output is not None:
        place = os.path.relpath(source, os.path.dirname(os.path.abspath(output)))
        with text_output(output.removesuffix("i"), force, source) as file:
            file.write(
                "from wireloom.formats.blaze.classes import install\n\n"
                f"install(__name__, {place!r})\n"
            )


def _load(file: str, paths: tuple[str, ...]) -> Model:
    from wireloom.formats.blaze.blz import load_blz

    return load_blz(file, paths=paths)


def _object(entity: EnumDecl | NClass) -> Json:
    from wireloom.formats.blaze.model import EnumDecl

    row: Json = {"kind": _kind(entity), "name": entity.name}
    if entity.namespace:
        row["namespace"] = ".".join(entity.namespace)
    if isinstance(entity, EnumDecl):
        row["members"] = [_present(name=m.name, value=m.value, text=m.text) for m in entity.members]
        return row
    row["id"] = entity.id
    if entity.persistent:
        row["persistent"] = True
    row["fields"] = [_present(name=f.name, type=_type(f), text=f.text) for f in entity.fields]
    if entity.keys:
        row["keys"] = [
            {"id": key.id, "primary": key.primary, "fields": list(key.fields)}
            for key in entity.keys
        ]
    return row


def _rows(entity: EnumDecl | NClass) -> Iterator[Json]:
    from wireloom.formats.blaze.model import EnumDecl

    row: Json = {"kind": _kind(entity), "name": entity.name}
    if isinstance(entity, EnumDecl):
        for member in entity.members:
            yield row | {"id": member.value, "member": member.name, "text": member.text}
        return
    row["id"] = entity.id
    for decl in entity.fields:
        keys = [key for key in entity.keys if decl.name in key.fields]
        named = " ".join("primary" if key.primary else str(key.id) for key in keys)
        yield row | {
            "member": decl.name,
            "type": decl.type,
            "count": decl.count,
            "key": named,
            "text": decl.text,
        }


def _kind(entity: EnumDecl | NClass) -> str:
    from wireloom.formats.blaze.model import EnumDecl

    return "enum" if isinstance(entity, EnumDecl) else "nclass"


def _type(decl: FieldDecl) -> str:
    """As in the model language: ``ascii[6]``."""
    return decl.type if decl.count == 1 else f"{decl.type}[{decl.count}]"


def _present(**values: Any) -> Json:
    """Without the entries that are empty."""
    return {name: value for name, value in values.items() if value != ""}
