"""The options that several commands share, each group as one decorator.

A decorator collects its options into one object, so that a command's signature stays short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem

from wireloom.cli._formatoptions import format_options_note, given_options
from wireloom.cli._input import PathOrDash
from wireloom.errors import OptionError
from wireloom.format import COMMON_OPTIONS, Format
from wireloom.formats import REGISTRY, get, names
from wireloom.view import escape

__all__ = [
    "JSON_SUFFIXES",
    "SUFFIXES",
    "TABLE_SUFFIXES",
    "DecodeOptions",
    "Decorator",
    "FormatName",
    "Listed",
    "OutputOptions",
    "Style",
    "apply",
    "decode_options",
    "force_option",
    "limit_option",
    "output_file",
    "output_options",
    "refuse_suffix",
    "suffix_of",
]

_Command = Callable[..., Any]
Decorator = Callable[[_Command], _Command]

Style = Literal["json", "csv", "table"]

SUFFIXES: Mapping[str, Style] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".txt": "table",
}
"""What a file's suffix says about its content."""

TABLE_SUFFIXES = (".parquet", ".arrow")
"""Suffixes of a single file with one table, which only some commands write."""

_FRAME_SUFFIXES = (".bin", ".raw", ".dat")
"""Suffixes of a file of frames back to back, besides the names of the formats."""

JSON_SUFFIXES = tuple(suffix for suffix, style in SUFFIXES.items() if style == "json")


def suffix_of(path: str | None) -> str:
    """A file's suffix in lower case, with its dot."""
    return os.path.splitext(path or "")[1].lower()


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to read: the format, or None to detect it, and its options."""

    format: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """Options by name, as the user typed them: as text if given with `-O`."""

    def for_format(self, found: Format) -> dict[str, Any]:
        """The options of one format, as it takes them; those named for others are left out.

        Raises:
            OptionError: it has no such option, or the value is of the wrong kind.
        """
        declared = {option.name: option for option in COMMON_OPTIONS}
        declared |= {option.name: option for option in found.options}
        given: dict[str, Any] = {}
        for spelling, value in sorted(self.given.items(), key=lambda item: "." in item[0]):
            owner, _, name = spelling.rpartition(".")
            if owner and owner != found.name:
                if owner not in names():
                    raise OptionError(f"{spelling}: there is no format {owner!r}")
                continue
            given[name] = declared[name].read(value) if name in declared else value
        return given

    def split(self, outer: Format) -> tuple[DecodeOptions, dict[str, Any]]:
        """The options for `outer`, and those for the formats of messages inside it.

        An option that only a format of messages has, such as a dictionary, is for what is inside.
        """
        declared = {option.name for option in (*outer.options, *COMMON_OPTIONS)}
        inner: dict[str, Any] = {}
        taken: set[str] = set()
        for found in (get(name) for name in names() if get(name).kind == "message"):
            for option in found.options:
                for spelling in {option.name, f"{found.name}.{option.name}"} & self.given.keys():
                    if spelling in declared or found is outer:
                        continue
                    value = self.given[spelling]
                    inner[f"{found.name}.{option.name}"] = option.read(value)
                    taken.add(spelling)
        rest = {name: value for name, value in self.given.items() if name not in taken}
        return DecodeOptions(self.format, rest), inner


def _pairs(values: tuple[str, ...], option: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = rest
    return pairs


def _collect(values: dict[str, Any]) -> DecodeOptions:
    """Take the shared options out of a command's arguments."""
    given = _pairs(values.pop("other"), "-O")
    given |= given_options()
    for name in ("strict", "max_frame"):
        value = values.pop(name)
        if value:
            given[name] = value
    return DecodeOptions(values.pop("format"), given)


if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType  # generic since click 8.4 only


class FormatName(_ParamType):
    """The name of a format. Looked up when needed: one that is registered later is known too."""

    name = "format"

    def __init__(self, *others: str) -> None:
        self._others = others

    def _choice(self) -> click.ParamType[str]:
        return click.Choice([*names(), *self._others])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, if there is such a format."""
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, *args: Any, **kwargs: Any) -> str | None:
        """The names, for the usage line."""
        # Only our own: to look for those of other packages takes as long as the rest of --help.
        own: click.ParamType[str] = click.Choice([*sorted(REGISTRY), *self._others])
        return own.get_metavar(*args, **kwargs)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The names that start like this."""
        return self._choice().shell_complete(ctx, param, incomplete)


class Listed(_ParamType):
    """Names with commas between them, checked where they are used."""

    name = "list"

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """What can come after the last comma."""
        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(before + comma + name)
            for name in self._known()
            if name.startswith(last) and name not in before.split(",")
        ]


_DECODE = (
    click.option(
        "-f",
        "--format",
        type=FormatName(),
        help="What the bytes are; detected when left out.",
    ),
    click.option("--strict", is_flag=True, help="Reject what a tolerant reader lets pass."),
    click.option("--max-frame", type=click.IntRange(min=1), help="Largest frame in bytes."),
    format_options_note,
    click.option(
        "-O",
        "other",
        multiple=True,
        metavar="NAME=VALUE",
        help="The same, also as FORMAT.NAME=VALUE, and limits such as max_depth.",
    ),
)


def decode_options(command: _Command) -> _Command:
    """Options of every command that reads frames; the command gets them as `reading`."""

    @wraps(command)
    def collected(**values: Any) -> Any:
        return command(reading=_collect(values), **values)

    return apply(_DECODE, collected)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the output goes and what it looks like."""

    style: Style
    path: str | None
    """None is stdout."""
    force: bool
    is_chosen: bool = False
    """Whether the user named the style, so that the suffix of the file does not matter."""

    @property
    def is_binary(self) -> bool:
        """Whether it is a Parquet or Arrow file, and the style does not matter."""
        return not self.is_chosen and suffix_of(self.path) in TABLE_SUFFIXES

    @property
    def is_folder(self) -> bool:
        """Whether the path is that of a folder, or ends like one."""
        return self.path is not None and (
            self.path.endswith(("/", os.sep)) or os.path.isdir(self.path)
        )


def _style(values: dict[str, Any], default: Style, folder: bool, files: bool) -> Style:
    """What the output looks like: as asked for, or as the suffix of the file says.

    Raises:
        UsageError: nothing was asked for, and the suffix says nothing that this command writes; or
            rows of text were asked for, and a folder.
    """
    style: Style | None = values.pop("style")
    path: str = values["output"] or ""
    suffix = suffix_of(path)
    is_device = os.path.exists(path) and not os.path.isfile(path)  # and folders
    if style is not None:
        if folder and (os.path.isdir(path) or path.endswith(("/", os.sep))):
            raise click.UsageError(
                f"{escape(path)} is a folder, which gets Parquet files: leave --{style} out"
            )
        return style
    if not suffix or suffix in SUFFIXES or is_device or (folder and path.endswith(("/", os.sep))):
        return SUFFIXES.get(suffix, default)
    if files and suffix in TABLE_SUFFIXES:
        return default
    if path in (values.get("sources") or ()):
        return default  # the command refuses to overwrite its input, which matters more
    known = ", ".join((*SUFFIXES, *(TABLE_SUFFIXES if files else ())))
    hint = ", or end the name of a folder with /" if folder else ""
    raise click.UsageError(
        f"{escape(path)}: {escape(suffix)} is no suffix that this command writes; there are "
        f"{known}, or choose with --json, --csv or --table{hint}"
    )


def output_options(default: Style, folder: bool = False, files: bool = False) -> Decorator:
    """``--json --csv --table -o --force``; the command gets them as `writing`.

    Args:
        default: the style when nothing says otherwise.
        folder: whether the output may also be a folder of tables, or a file of one.
        files: whether it may also be a Parquet or Arrow file.
    """
    files = files or folder
    text = "Write to this file; its suffix chooses json, csv or table."
    if files:
        text = "Write to this file; its suffix chooses json, csv, table, parquet or arrow."
    if folder:
        text += " A folder, or a name that ends with /, gets Parquet files."
    options = (
        click.option("--json", "style", flag_value="json", help="Write one JSON object per line."),
        click.option("--csv", "style", flag_value="csv", help="Write comma-separated values."),
        click.option("--table", "style", flag_value="table", help="Write a table for people."),
        click.option(
            "-o",
            "--output",
            type=PathOrDash(dir_okay=folder, readable=False),
            help=text,
        ),
        force_option,
    )

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def collected(**values: Any) -> Any:
            is_chosen = values["style"] is not None
            style = _style(values, default, folder, files)
            path = values.pop("output")
            where = None if path == "-" else path
            writing = OutputOptions(style, where, values.pop("force"), is_chosen)
            return command(writing=writing, **values)

        return apply(options, collected)

    return decorate


def output_file(text: str = "Write to this file.") -> Decorator:
    """``-o FILE`` of a command that writes one kind of thing."""
    return click.option(
        "-o", "--output", type=PathOrDash(dir_okay=False, readable=False), help=text
    )


def refuse_suffix(path: str | None) -> None:
    """Refuse a suffix that promises something else than frames back to back.

    Raises:
        UsageError: it is neither a usual one nor the name of a format.
    """
    suffix = suffix_of(path)
    if suffix and suffix not in _FRAME_SUFFIXES and suffix[1:] not in names():
        raise click.UsageError(
            f"{escape(str(path))}: this command writes frames back to back, and {escape(suffix)} "
            f"says something else; take {', '.join(_FRAME_SUFFIXES)} or the name of a format"
        )


force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")


def limit_option(default: int | None = None, text: str = "Stop after N messages.") -> Decorator:
    """``-n N``: how many messages at most."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=text,
    )


def apply(options: tuple[Decorator, ...], command: _Command) -> _Command:
    """`command` with all the options, in this order."""
    # Decorators nest: the last one applied is the first one listed in --help.
    for option in reversed(options):
        command = option(command)
    return command
