"""Settings of a service, declared once: the TOML file, the command line and the docs follow.

A service's settings are a frozen dataclass whose fields are made by `setting`; a field that is such
a dataclass itself is a section of the file. `options` lists what can be set, for the command line
and the documentation; `read_config` reads a file and says at which line it is wrong; `build` puts
file and command line together, of which the latter wins.

>>> @dataclass(frozen=True, slots=True)
... class Door:
...     width_cm: int = setting(90, "Between the posts.")
>>> [(option.path, option.flag) for option in options(Door)]
[('width_cm', '--width-cm')]
>>> build(Door, parse_config("width_cm = 80", Door), {})
Door(width_cm=80)
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wireloom.errors import OptionError, SourceError
from wireloom.services._shell.addresses import Address
from wireloom.spelling import nearest

__all__ = [
    "MisplacedError",
    "Option",
    "build",
    "line_of",
    "options",
    "parse_config",
    "parse_value",
    "read_config",
    "section",
    "setting",
]

T = TypeVar("T")
Given = Mapping[str, Any]
"""Values by path, ``door.width``."""

_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+)\s*([KMG]?B?)", re.IGNORECASE)


def setting(
    default: Any, help: str, *, flag: str | None = None, metavar: str = "", is_secret: bool = False
) -> Any:
    """A field of settings.

    Args:
        default: its value when nothing is said; `dataclasses.MISSING`: something must be said.
        help: one sentence, for the command line and the docs.
        flag: its option on the command line; made of its path by default, "" for none.
        metavar: what the option's value is called in the help.
        is_secret: never shown.
    """
    about = {"help": help, "flag": flag, "metavar": metavar, "is_secret": is_secret}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=default.copy, metadata=about)
    return dataclasses.field(default=default, metadata=about)


def section(cls: type[T]) -> T:
    """A field that holds further settings: a table of the file."""
    made: T = dataclasses.field(default_factory=cls, metadata={"help": "", "flag": ""})
    return made


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be set."""

    path: str
    """In the file: sections and name, with dots between."""
    type: Any
    default: Any
    help: str
    flag: str
    """On the command line; empty if it can be set in the file only."""
    metavar: str
    is_secret: bool

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not Address


def options(cls: type[Any], prefix: str = "") -> Iterator[Option]:
    """Everything that can be set, sections flattened, in the order of declaration."""
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        path, kind, about = prefix + field.name, hints[field.name], field.metadata
        if _is_settings(kind):
            yield from options(kind, f"{path}.")
            continue
        flag = about.get("flag")
        if flag is None:
            flag = "--" + path.replace(".", "-").replace("_", "-")
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        about_it = (about.get("help", ""), flag, about.get("metavar", ""))
        yield Option(path, kind, default, *about_it, about.get("is_secret", False))


# -- values


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def parse_value(value: Any, kind: Any) -> Any:
    """A value of a file or the command line, as the type that was declared.

    Raises:
        OptionError: it is not one; the text says what is needed.
    """
    kinds = _alternatives(kind)
    if value is None and type(None) in kinds:
        return None
    kind = next(each for each in kinds if each is not type(None))
    origin = get_origin(kind)
    if origin is Literal:
        if isinstance(value, str):
            value = value.lower()  # as the help shows it
        if value in get_args(kind):
            return value
        if type(value) is int and str(value) in get_args(kind):  # dialect = 2017
            return str(value)
        raise OptionError(f"{value!r} is not one of {', '.join(map(str, get_args(kind)))}")
    if origin is tuple:
        items = [value] if isinstance(value, str) else value
        if isinstance(items, (list, tuple)):
            return tuple(parse_value(item, get_args(kind)[0]) for item in items)
        raise OptionError(f"{value!r} is not a list")
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise OptionError(f"{value!r} is neither true nor false")
    if kind is int:
        return _integer(value)
    if kind is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
            return float(value)
        raise OptionError(f"{value!r} is not a number that is at least 0")
    if not isinstance(value, (str, kind) if isinstance(kind, type) else str):
        raise OptionError(f"{value!r} is not a text")
    if kind is Address and isinstance(value, str):
        return Address.parse(value)
    return Path(str(value)).expanduser() if kind is Path else value


def _integer(value: Any) -> int:
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        unit = match[2].upper()
        return int(match[1]) * _SIZES[unit if unit in _SIZES else unit + "B"]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise OptionError(f"{value!r} is not a whole number that is at least 0, such as 100 or '4 MB'")


# -- files


def read_config(path: Path, cls: type[Any]) -> dict[str, Any]:
    """What a TOML file sets, by path.

    Raises:
        SourceError: it cannot be read, or says something that cannot be; with the line.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"it cannot be read: {error}", file=str(path)) from error
    return parse_config(text, cls, str(path))


def parse_config(text: str, cls: type[Any], file: str = "<text>") -> dict[str, Any]:
    """The same for a text.

    Raises:
        SourceError: it says something that cannot be; with the line.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise SourceError(str(error), file=file, line=int(found[1]) if found else 0) from error
    given: dict[str, Any] = {}
    for path, value, problem in _given(tree, cls, ""):
        if problem:
            raise SourceError(f"{path}: {problem}", file=file, line=line_of(text, path))
        given[path] = value
    return given


def _given(tree: Mapping[str, Any], cls: type[Any], prefix: str) -> Iterator[tuple[str, Any, str]]:
    """(path, value, what is wrong) of everything that a table says."""
    hints = get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    for key, value in tree.items():
        name = key.replace("-", "_")
        path = prefix + key
        if name not in names:
            near = nearest(name, names)
            yield path, None, "no such setting" + (f"; did you mean {near}?" if near else "")
            continue
        kind, path = hints[name], prefix + name
        if _is_settings(kind):
            if isinstance(value, dict):
                yield from _given(value, kind, f"{path}.")
            else:
                yield path, None, "it is a section: write [" + path + "]"
            continue
        try:
            if get_origin(kind) is dict and _is_settings(item := get_args(kind)[1]):
                yield path, _tables(value, item, path), ""
            elif get_origin(kind) is list and _is_settings(item := get_args(kind)[0]):
                if not isinstance(value, list):
                    raise OptionError("write [[" + path + "]]")
                made = [_table(each, item, f"{path}.{at}") for at, each in enumerate(value)]
                yield path, made, ""
            else:
                yield path, parse_value(value, kind), ""
        except MisplacedError as error:
            yield error.path, None, error.reason
        except OptionError as error:
            yield prefix + key, None, error.reason


class MisplacedError(OptionError):
    """What one setting says is wrong: `path` is where it is in the file, the reason names it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def _tables(value: Any, cls: type[Any], path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OptionError("write [" + path + ".NAME]")
    return {name: _table(each, cls, f"{path}.{name}") for name, each in value.items()}


def _table(value: Any, cls: type[Any], path: str) -> Any:
    if not isinstance(value, dict):
        raise MisplacedError(path, "it is a table")
    given: dict[str, Any] = {}
    for inner, found, problem in _given(value, cls, ""):
        if problem:
            raise MisplacedError(f"{path}.{inner}", problem)
        given[inner] = found
    try:
        return build(cls, given, {})
    except OptionError as error:
        raise MisplacedError(path, error.reason) from error


_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def line_of(text: str, path: str) -> int:
    """The line that sets `path`, or the nearest table around it; 0 if there is none.

    A table of several, ``[[routes]]``, has its number behind its name: ``routes.0.types``.
    """
    wanted = path.replace("-", "_")
    table, best, last = "", (0, 0), dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            table = match[1].replace('"', "").replace("'", "").replace("-", "_")
            if line.lstrip().startswith("[["):
                last[table] = last.get(table, -1) + 1
            first, *rest = table.split(".")
            if first in last:
                rest.insert(0, str(last[first]))
            here = table = ".".join((first, *rest))
        elif match := _KEY.match(line):
            key = match[1].replace('"', "").replace("'", "").replace("-", "_")
            here = f"{table}.{key}" if table else key
        else:
            continue
        if wanted == here or wanted.startswith(f"{here}."):
            best = max(best, (len(here), number), key=lambda pair: pair[0])
    return best[1]


# -- both together


def build(cls: type[T], given: Given, chosen: Given) -> T:
    """Settings of what the file gives and the command line chooses; the latter wins.

    Raises:
        OptionError: something that must be said is missing.
    """
    return _build(cls, {**given, **chosen}, "")


def _build(cls: type[T], values: Given, prefix: str) -> T:
    hints = get_type_hints(cls)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        path = prefix + field.name
        if _is_settings(hints[field.name]):
            found[field.name] = _build(hints[field.name], values, f"{path}.")
        elif path in values:
            found[field.name] = values[path]
        elif field.default is dataclasses.MISSING and (
            field.default_factory is dataclasses.MISSING
        ):
            raise OptionError(f"{path} is missing")
    try:
        return cls(**found)
    except OptionError as error:
        raise MisplacedError(prefix.removesuffix("."), error.reason) from error
