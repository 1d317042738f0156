"""``wireloom dict``: field dictionaries, shown, checked and converted."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._capture import say_if_empty
from wireloom.cli._help import Group, examples
from wireloom.cli._input import chunks, file_size, lines, open_binary
from wireloom.cli._options import (
    JSON_SUFFIXES,
    Decorator,
    OutputOptions,
    apply,
    force_option,
    output_file,
    output_options,
    suffix_of,
)
from wireloom.cli._output import text_output
from wireloom.cli._rows import parse_row
from wireloom.cli._sinks import open_sink
from wireloom.errors import EncodeError, SourceError
from wireloom.messages import Json
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.formats.qform.dictionary import Dictionary, Entry, RdmEntry

__all__ = ["command"]

_source = click.argument("source", metavar="FILE", type=click.Path(exists=True))
_FLAGS = {"is_fixed": True, "is_primitive": True, "is_partial": False}
_KINDS = {".cf": "cfile", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COLUMNS = ("fid", "name", "type", "value", "kind", "size", "members")


@click.group(
    cls=Group,
    epilog=examples(
        "wireloom dict show tss_fields.cf --name 'BID*'",
        "wireloom dict check /etc/sass",
        "wireloom dict convert RDMFieldDictionary --to cfile -o tss_fields.cf",
    ),
)
def command() -> None:
    """Show, check and convert field dictionaries.

    FILE is a cfile (tss_fields.cf), an RDMFieldDictionary, or a directory that has them. An RDM
    dictionary is turned into the SASS fields that QForm messages use.
    """


def _source_options(function: Any) -> Any:
    """Where a dictionary is found, and how it is read."""
    options: tuple[Decorator, ...] = (
        _source,
        click.option("--enums", type=click.Path(exists=True), help="enumtype.def of an RDM file."),
        click.option("--path", metavar="DIRS", help="Where to look for included files."),
        click.option(
            "--dialect",
            type=click.Choice(["clean", "reference"]),
            default="clean",
            help="reference: with the quirks of the reference implementation.",
        ),
    )
    return apply(options, function)


@command.command(
    epilog=examples(
        "wireloom dict show tss_fields.cf",
        "wireloom dict show /etc/sass --name 'BID*' --json",
        "wireloom dict show RDMFieldDictionary --rdm --fid 22",
    )
)
@_source_options
@click.option("--name", metavar="PATTERN", help="Only names that match; * and ? as in a shell.")
@click.option("--fid", type=int, multiple=True, help="Only this id; may be repeated.")
@click.option("--rdm", is_flag=True, help="The RDM fields themselves, not the SASS fields.")
@output_options("table")
def show(
    source: str,
    name: str | None,
    fid: tuple[int, ...],
    rdm: bool,
    writing: OutputOptions,
    **how: Any,
) -> None:
    """List the fields and forms of a dictionary."""
    rows = _rdm_rows(source, **how) if rdm else map(_row, _load(source, **how))
    shown = 0
    with open_sink(writing, None if rdm else _COLUMNS, source) as sink:
        for row in rows:
            wanted = name is None or fnmatch.fnmatchcase(row["name"], name)
            if wanted and (not fid or row["fid"] in fid):
                sink.write(row)
                shown += 1
    if not shown:
        if name is None and not fid:
            say_if_empty(0)
            return
        click.echo("no such entry", err=True)
        raise click.exceptions.Exit(1)


@command.command(
    epilog=examples(
        "wireloom dict check tss_fields.cf", "wireloom dict check --errors-only /etc/sass"
    )
)
@_source_options
@click.option("--errors-only", is_flag=True, help="Only what cannot be read, not what is odd.")
def check(source: str, errors_only: bool, **how: Any) -> None:
    """List what is wrong or odd in a dictionary, with file and line.

    The exit status is 1 if there is anything to list. An enumtype.def or flistmapping can be
    checked alone.
    """
    from wireloom.formats.qform.dictionary import check as check_dictionary

    _say_if_empty(source)
    problems = check_dictionary(source, **how)
    listed = [problem for problem in problems if problem.is_error or not errors_only]
    for problem in listed:
        odd = "" if problem.is_error else " (odd, but readable)"
        click.echo(escape(str(problem)) + odd)
    if listed:
        raise click.exceptions.Exit(1)
    click.echo(f"{escape(source)}: nothing wrong", err=True)


@command.command(
    epilog=examples(
        "wireloom dict convert RDMFieldDictionary -o tss_fields.cf",
        "wireloom dict convert tss_fields.cf -o fields.jsonl",
        "wireloom dict convert fields.jsonl --to cfile",
    )
)
@_source_options
@click.option(
    "--to", type=click.Choice(["cfile", "json", "csv"]), help="As -o's suffix says when left out."
)
@output_file()
@force_option
def convert(source: str, to: str | None, output: str | None, force: bool, **how: Any) -> None:
    """Turn a dictionary into a cfile, JSON lines or CSV.

    A file of JSON lines that this command wrote is read as well.
    """
    kind = to or _KINDS.get(suffix_of(output))
    if kind is None:
        raise click.UsageError("say what to make: --to cfile, json or csv")
    _say_if_empty(source)
    dictionary = _load(source, **how)
    if kind == "cfile":
        from wireloom.formats.qform.dictionary import to_cfile

        text = to_cfile(dictionary)
        with text_output(output, force, source) as stream:
            stream.write(text)
    else:
        writing = OutputOptions("csv" if kind == "csv" else "json", output, force)
        with open_sink(writing, _COLUMNS, source) as sink:
            for entry in dictionary:
                sink.write(_row(entry))
    forms = len(dictionary.forms)
    click.echo(f"{len(dictionary) - forms} fields, {forms} forms", err=True)


def _say_if_empty(source: str) -> None:
    if file_size(source) == 0:
        say_if_empty(0)


def _load(source: str, **how: Any) -> Dictionary:
    from wireloom.formats.qform.dictionary import load

    if suffix_of(source) in JSON_SUFFIXES:
        return _from_json(source)
    return load(source, **how)


def _row(entry: Entry) -> Json:
    row: Json = {
        "fid": entry.fid,
        "name": entry.name,
        "type": None if entry.tss_type is None else entry.tss_type.name,
        "value": str(entry.md_type),
        "kind": str(entry.kind),
        "size": entry.size,
    }
    # The flags only where they say something: all three are rare.
    row |= {flag: value for flag, rest in _FLAGS.items() if (value := getattr(entry, flag)) != rest}
    if entry.members:
        row["members"] = [{"name": member.name, "fid": member.fid} for member in entry.members]
    return row


def _from_json(source: str) -> Dictionary:
    """A dictionary from the lines that `convert` writes."""
    from wireloom.formats.qform.dictionary import Dictionary

    entries = []
    with open_binary(source) as stream:
        for number, line in enumerate(lines(chunks(stream)), 1):
            try:
                row = parse_row(line)
                if row is not None:
                    entries.append(_entry(row))
            except EncodeError as error:
                raise SourceError(str(error), file=source, line=number) from None
    return Dictionary(tuple(entries))


def _entry(row: Json) -> Entry:
    from wireloom.formats.qform.dictionary import Entry, Member, TssType

    try:
        members = tuple(Member(str(m["name"]), int(m["fid"])) for m in row.get("members", ()))
        flags = {flag: bool(row.get(flag, rest)) for flag, rest in _FLAGS.items()}
        tss_type = None if row["type"] is None else TssType[row["type"]]
        fid, size = int(row["fid"]), int(row["size"])
        return Entry(fid, str(row["name"]), tss_type, size, members=members, **flags)
    except (KeyError, TypeError, ValueError) as error:
        raise EncodeError(f"not a dictionary entry: {type(error).__name__}: {error}") from None


def _rdm_rows(source: str, enums: str | None, dialect: Any, **_: Any) -> Iterator[Json]:
    from wireloom.formats.qform.dictionary import load_rdm

    rdm = load_rdm(source, enums=enums, dialect=dialect)
    for entry in rdm:
        row = _rdm_row(entry)
        table = rdm.enums.by_fid.get(entry.fid)
        if table is not None:
            row["enum"] = {str(value): table.display(value) for value, _ in table.rows}
        yield row


def _rdm_row(entry: RdmEntry) -> Json:
    return {
        "fid": entry.fid,
        "name": entry.name,
        "dde": entry.dde,
        "ripples_to": entry.ripples_to,
        "type": entry.field_type,
        "length": entry.length,
        "rwf_type": entry.rwf_type,
        "rwf_length": entry.rwf_length,
        "value": str(entry.md_type),
        "size": entry.size,
    }
