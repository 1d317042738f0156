"""What a format is: the one object that its folder exports and the registry knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar, Literal

from wireloom.columns import Columns
from wireloom.errors import OptionError
from wireloom.framing import Framer
from wireloom.layout import Packet
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["Format", "Option", "OptionType", "TypeInfo"]


OptionType = Literal["text", "flag", "number", "list", "file", "files", "object"]

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of `decode` and `scan`, besides the limits and `strict` that every format has.

    It is also an option of tables, of the command line and of Spark's data source; see
    `wireloom.options`.
    """

    name: str
    doc: str
    choices: tuple[str, ...] = ()
    default: object = None
    type: OptionType = "text"
    """How its text is read. A default that is a flag or a number implies the kind, too. ``list``
    and ``files`` have commas between their parts; an ``object`` cannot be written as text."""
    is_for_tables: bool = True
    """Whether it makes sense where messages become rows."""

    def __post_init__(self) -> None:
        if isinstance(self.default, int):
            is_flag = isinstance(self.default, bool)
            object.__setattr__(self, "type", "flag" if is_flag else "number")

    def read(self, value: Any) -> Any:
        """A value as the format takes it.

        Args:
            value: a text, or already of that type.

        Raises:
            OptionError: it cannot be used.
        """
        if self.choices and value not in self.choices and value is not None:
            raise OptionError(
                f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}"
            )
        if self.type in ("list", "files") and not isinstance(value, Mapping):
            return _several(self.name, value)
        if not isinstance(value, str):
            return value
        if self.type == "flag":
            if value.strip().lower() not in _FLAGS:
                raise OptionError(f"{self.name} must be true or false, not {value!r}")
            return _FLAGS[value.strip().lower()]
        if self.type == "number":
            try:
                return int(value, 0)
            except ValueError:
                raise OptionError(f"{self.name} must be a number, not {value!r}") from None
        return value


def _several(name: str, value: object) -> tuple[str, ...]:
    """The parts of a list; commas may stand between them in each of its texts."""
    if value is None:
        return ()
    parts = (value,) if isinstance(value, str | PathLike) else value
    if not isinstance(parts, Iterable):
        raise OptionError(f"{name} must be a text or a list of texts, not {value!r}")
    found: list[str] = []
    for part in parts:
        if not isinstance(part, str | PathLike):
            raise OptionError(f"{name} must be a text or a list of texts, not {value!r}")
        found += (each.strip() for each in fspath(part).split(","))
    return tuple(each for each in found if each)


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One packet or field type of a format, for `wireloom formats` and the docs."""

    code: int
    name: str
    summary: str
    rows: Sequence[tuple[str, str, str, str]] = ()
    """Byte table (offset, size, field, meaning), from the declaration."""


COMMON_OPTIONS = (
    Option(
        "strict",
        "reject what a tolerant reader lets pass: unused bits, trailing bytes, non-canonical forms",
        default=False,
    ),
    Option("max_frame", "largest frame in bytes", default=Limits().max_frame),
    Option("max_depth", "deepest nesting of messages", default=Limits().max_depth),
    Option("max_fields", "most fields in one message", default=Limits().max_fields),
)


_PLAIN = Columns()


class Format(ABC):
    """A wire format: how to read, frame, recognise and describe it. Stateless, one instance."""

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[Literal["transport", "message"]]
    summary: ClassVar[str]
    """One sentence: what it is and where it is used."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Its own options; it has `COMMON_OPTIONS` as well."""
    magic: ClassVar[bytes] = b""
    """Bytes that every message has near its start and other data hardly ever has; may be empty."""
    has_text: ClassVar[bool] = False
    """Whether text may lie between its frames."""
    rank: ClassVar[int] = 50
    """Breaks the tie where two formats explain a stream equally well: the lower rank wins. Formats
    that carry others come before those that are carried."""

    @abstractmethod
    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        """The message at the start of `data`; bytes after it are ignored unless `strict`.

        Raises:
            DecodeError: the bytes are not such a message.
        """

    @abstractmethod
    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        """A new framer for one stream whose first byte has the given offset."""

    @abstractmethod
    def detect(self, data: bytes) -> int:
        """How sure it is that `data` starts with a message of this format, from 0 to 100.

        90 and more: magic or exact structure. 50 to 89: plausible, no magic. Below 50 is not taken.
        """

    @abstractmethod
    def from_dict(self, d: Json) -> Message:
        """The message that `to_dict` described.

        Raises:
            EncodeError: the object is not such a message.
        """

    @abstractmethod
    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        """The field tree of the message at the start of `data`, as far as it can be read.

        Never raises `DecodeError`: the node where reading failed says why.
        """

    @abstractmethod
    def types(self) -> Sequence[TypeInfo]:
        """Its packets or field types, from the declarations."""

    def packets(self) -> Sequence[type[Packet]]:
        """Its declared packets, by type code; none for a format that describes itself."""
        return ()

    @property
    def precedence(self) -> tuple[bool, int, str]:
        """Where it stands when formats are tried in turn: transports first, then by `rank`."""
        return self.kind != "transport", self.rank, self.name

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        return _PLAIN

    @abstractmethod
    def samples(self) -> Mapping[str, bytes]:
        """Named canonical messages that decode without options and encode to the same bytes."""

    def check_options(self, given: Mapping[str, Any]) -> tuple[Limits, bool, dict[str, Any]]:
        """Sort options into limits, `strict` and the format's own.

        Raises:
            OptionError: one is unknown, or its value cannot be used.
            SourceError: a file that an option names is missing or wrong.
        """
        if not given:
            return DEFAULT_LIMITS, False, {}
        own = {option.name: option for option in self.options}
        rest: dict[str, Any] = {}
        limits: dict[str, int] = {}
        strict = False
        for name, value in given.items():
            if name == "strict":
                strict = bool(value)
            elif name in ("max_frame", "max_depth", "max_fields"):
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise OptionError(f"{name} must be a positive number, not {value!r}")
                limits[name] = value
            elif name not in own:
                known = ", ".join([*own, *(option.name for option in COMMON_OPTIONS)])
                raise OptionError(f"{self.name} has no option {name!r}; it has {known}")
            else:
                rest[name] = own[name].read(value)
        return Limits(**limits), strict, self.load_options(rest)

    def load_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Its own options with the files they name already read, so that other processes need none.

        Raises:
            OptionError: a value cannot be used.
            SourceError: a file is missing or wrong.
        """
        return given
