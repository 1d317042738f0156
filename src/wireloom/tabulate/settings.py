"""How captures become tables: which tables and columns, how strictly, with which dictionaries."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, cast

from wireloom.captures import ReassemblyLimits, Source
from wireloom.columnar.framing import MAX_FRAME
from wireloom.columnar.wide import Choice, choose
from wireloom.errors import OptionError
from wireloom.format import Option
from wireloom.formats import get, names
from wireloom.options import by_format
from wireloom.spelling import missing
from wireloom.tables import Table, table, table_names, wide_column
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["MODES", "TABLES", "Mode", "Settings"]

TABLES: Final = table_names()
"""The tables that are made when none are named."""

Mode = Literal["permissive", "failfast", "dropmalformed"]
MODES: Final = ("permissive", "failfast", "dropmalformed")

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How captures become tables; it can be sent to workers.

    Raises:
        OptionError: a value cannot be used; raised on creation.
        SourceError: a dictionary, model or schema cannot be found or read.
    """

    tables: tuple[str, ...] = field(default_factory=table_names)
    """Those that are wanted; ``wide`` goes with `columns`."""
    formats: tuple[str, ...] | None = None
    """Formats that streams may be in; if there is only one, nothing is detected. None: all."""
    ports: Mapping[int, str] = field(default_factory=dict)
    """Formats by TCP or UDP port, which need no detection."""
    columns: tuple[str, ...] | None = None
    """Fields of the table ``wide``: ``BID``, ``BID:decimal(18,4)``."""
    select: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that are wanted of a table; all of a table that is not named."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the formats, spelled as in `wireloom.options`: ``model``, ``blaze.model``. They
    are stored under their full names."""
    strict: bool = False
    """Refuse what a tolerant reader lets pass; slow, since every frame is read twice."""
    mode: Mode = "permissive"
    """What happens when something cannot be read: a row in ``errors``, an exception, or a count."""
    include_raw: bool = False
    """Whether ``frames.raw`` has the bytes of frames; otherwise it is null."""
    nested: bool = True
    """Whether messages inside messages and packets get rows."""
    limits: Limits = DEFAULT_LIMITS
    reassembly: ReassemblyLimits = field(default_factory=ReassemblyLimits)
    batch_rows: int = 1 << 16
    """About how many rows a record batch has."""
    _loaded: Mapping[str, dict[str, Any]] = field(init=False, repr=False, compare=False)
    """The options by format, with the files that they name read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _texts("tables", self.tables))
        for name in ("formats", "columns"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _texts(name, getattr(self, name)))
        object.__setattr__(self, "ports", dict(self.ports))
        chosen = {name: _texts("select", wanted) for name, wanted in self.select.items()}
        object.__setattr__(self, "select", chosen)
        own = by_format(self.options)
        object.__setattr__(self, "options", _with_formats(own))
        loaded = {format: get(format).check_options(given)[2] for format, given in own.items()}
        object.__setattr__(self, "_loaded", loaded)
        self._check()

    def _check(self) -> None:
        known = (*table_names(), "wide")
        for name in (*self.tables, *self.select):
            if name not in known:
                raise OptionError(missing("table", name, known))
        if ("wide" in self.tables) != (self.columns is not None):
            raise OptionError("the table wide and its columns go together: name both or none")
        for format in (*(self.formats or ()), *self.ports.values()):
            if format not in names():
                raise OptionError(missing("format", format, names()))
        for port in self.ports:
            if not isinstance(port, int) or not 0 <= port <= 0xFFFF:
                raise OptionError(f"a port is a number from 0 to 65535, not {port!r}")
        _among("mode", self.mode, MODES)
        for name in self.options.keys() - set(_table_options() if self.options else ()):
            raise OptionError(f"the option {name} makes no sense for tables")
        if not 1 <= self.batch_rows <= 1 << 24:
            raise OptionError(f"batch_rows must be from 1 to {1 << 24}, not {self.batch_rows!r}")
        if not 1 <= self.limits.max_frame <= MAX_FRAME:
            raise OptionError(f"max_frame must be from 1 to {MAX_FRAME}")
        for name in self.tables:
            self.table(name)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Settings:
        """Settings from texts, such as the options of a Spark data source.

        >>> Settings.from_options({"tables": "fields,errors", "ports": "7001=blaze"}).ports
        {7001: 'blaze'}

        Raises:
            OptionError: an option is unknown, or its value cannot be used.
            SourceError: a file that one names cannot be found or read.
        """
        found: dict[str, Any] = {}
        limits: dict[str, int] = {}
        reassembly: dict[str, Any] = {}
        for name, text in options.items():
            if name in _READERS:
                found[name] = _READERS[name](name, text)
            elif name in _LIMITS:
                limits[name] = _number(name, text)
            elif name in _REASSEMBLY:
                reader = _list if name == "tunnels" else _number
                reassembly[name] = reader(name, text)
            else:
                _check_name(name)
                found.setdefault("options", {})[name] = text
        if limits:
            found["limits"] = Limits(**limits)
        if reassembly:
            found["reassembly"] = ReassemblyLimits(**reassembly)
        if "columns" in found and "tables" not in found:
            found["tables"] = (*table_names(), "wide")
        return cls(**found)

    @property
    def choice(self) -> Choice | None:
        """The columns of ``wide`` with their types; those without one become text."""
        if self.columns is None:
            return None
        wanted = self.select.get("wide")
        given = choose(self.columns, {})
        if wanted is None:
            return given
        pairs = list(zip(given.names, given.types, strict=True))
        # Without any field there would be no wide table at all.
        kept = [pair for pair in pairs if pair[0] in wanted] or pairs[:1]
        return Choice(tuple(name for name, _ in kept), tuple(type for _, type in kept))

    def table(self, name: str) -> Table:
        """The schema of a table's batches under these settings.

        Raises:
            OptionError: there is no such table or column.
        """
        if name == "wide":
            if self.columns is None:
                raise OptionError("the table wide and its columns go together: name both or none")
            return choose(self.columns, {}).table.select(self.select.get(name))
        return table(name).select(self.select.get(name))

    def format_options(self, format: str) -> dict[str, Any]:
        """The given options of a format, with the files that they name read."""
        return dict(self._loaded.get(format, {}))

    def packet_options(self, format: str) -> dict[str, Any]:
        """The same without those for the bodies in its packets."""
        bodily = get(format).columns().body_options
        found = self.format_options(format)
        return {name: value for name, value in found.items() if name not in bodily}

    def message_options(self) -> dict[str, Any]:
        """The options of all formats of messages, with their names."""
        found = {each: own for each, own in self._loaded.items() if get(each).kind == "message"}
        return _with_formats(found)

    def changed(self, **given: Any) -> Settings:
        """The same with changes: settings by their names, options of formats by theirs.

        Raises:
            OptionError: there is no such setting or option, or a value cannot be used.
            SourceError: a file that one names cannot be found or read.
        """
        known = {each.name for each in dataclasses.fields(self) if each.init}
        changes = {name: value for name, value in given.items() if name in known}
        own = {name: value for name, value in given.items() if name not in known}
        for name in own:
            _check_name(name)
        if own:
            # With their formats' names, so that what is given now wins.
            before = _with_formats(by_format(changes.get("options", {})))
            changes["options"] = {**self.options, **before, **_with_formats(by_format(own))}
        if "columns" in given and "tables" not in given:
            changes["tables"] = tuple(dict.fromkeys((*self.tables, "wide")))
        return dataclasses.replace(self, **changes) if changes else self

    def field_types(self) -> dict[str, str]:
        """Types of wide columns by field, as far as dictionaries have them."""
        found: dict[str, str] = {}
        for each in map(get, names()):
            if each.columns().knows_fields:
                found |= each.columns().wide_types(self.format_options(each.name))
        return found

    def resolved(self, sources: Iterable[Source]) -> Settings:
        """The same settings with everything in them that workers need.

        Files that they name are read. Wide columns without a type get the one that the first
        frames of the sources have.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        from wireloom.tabulate.tabulation import resolved

        return resolved(self, sources)

    def loaded(self) -> Settings:
        """The same with the content of the files that it names, so that workers need none.

        Raises:
            SourceError: a file cannot be found or read.
        """
        return dataclasses.replace(self, options=_with_formats(self._loaded))

    @property
    def is_typed(self) -> bool:
        """Whether every column of ``wide`` has a type."""
        return all(wide_column(text)[1] is not None for text in self.columns or ())


def _with_formats(own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Options by format, as one mapping."""
    return {f"{format}.{name}": own[format][name] for format in own for name in own[format]}


def _table_options() -> list[str]:
    """The options of formats that settings may have."""
    return [
        f"{format}.{option.name}"
        for format in names()
        for option in get(format).options
        if option.is_for_tables
    ]


def _check_name(name: str) -> None:
    """Check that a name that is not a setting is an option of a format.

    Raises:
        OptionError: it is not.
    """
    known = _table_options()
    if name not in known and name not in (each.partition(".")[2] for each in known):
        own = ", ".join((*_READERS, *_LIMITS, *_REASSEMBLY))
        raise OptionError(
            f"there is no option {name!r}; there are {own}, and of the formats {', '.join(known)}"
        )


def _among(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise OptionError(f"{name} must be one of {', '.join(known)}, not {value!r}")


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return _list(name, value)
    try:
        found = tuple(cast("Iterable[str]", value))
    except TypeError:
        found = (cast("str", None),)
    if not all(isinstance(text, str) for text in found):
        raise OptionError(f"{name} must be texts, not {value!r}")
    return tuple(dict.fromkeys(found))


def _list(name: str, text: str) -> tuple[str, ...]:
    """Splits at commas, except those inside parentheses."""
    found = (part.strip() for part in re.split(r",(?![^(]*\))", text))
    return tuple(dict.fromkeys(part for part in found if part))


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"{name} must be a number, not {text!r}")
    return int(text)


def _flag(name: str, text: str) -> bool:
    found: bool = Option(name, "", default=False).read(text)
    return found


def _text(name: str, text: str) -> str:
    return text


def _ports(name: str, text: str) -> dict[int, str]:
    """From ``7001=blaze,7002=nais``."""
    found = {}
    for part in _list(name, text):
        port, equals, format = part.partition("=")
        if not equals or not port.strip().isdecimal():
            raise OptionError(f"{name} must be like 7001=blaze,7002=nais, not {text!r}")
        found[int(port)] = format.strip()
    return found


def _select(name: str, text: str) -> dict[str, tuple[str, ...]]:
    """From ``fields.name,fields.value_int``."""
    found: dict[str, tuple[str, ...]] = {}
    for part in _list(name, text):
        wanted, dot, column = part.partition(".")
        if not dot:
            raise OptionError(f"{name} must be like fields.name,fields.value_int, not {text!r}")
        found[wanted] = (*found.get(wanted, ()), column)
    return found


_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "tables": _list,
    "formats": _list,
    "ports": _ports,
    "columns": _list,
    "select": _select,
    "strict": _flag,
    "mode": _text,
    "include_raw": _flag,
    "nested": _flag,
    "batch_rows": _number,
}
_LIMITS: Final = tuple(each.name for each in dataclasses.fields(Limits))
_REASSEMBLY: Final = tuple(each.name for each in dataclasses.fields(ReassemblyLimits))
