"""What captures, Arrow and Spark need to know about a format, declared by the format itself.

A format gives one `Columns` object (`Format.columns`). The defaults here serve any format of
declared packets or of messages with fields: its own framer cuts the stream, the word kernel reads
its packets, and the object path reads its messages. A format overrides what it can do faster or
differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, Protocol

from wireloom.errors import DecodeError, OptionError
from wireloom.layout import Attribute, Bits, Blob, Flat, Items, Packet, attributes
from wireloom.messages import Message
from wireloom.spelling import hint
from wireloom.wire import Limits

if TYPE_CHECKING:
    from wireloom.arrow.bodies import Bodies

__all__ = [
    "FIXED_TABLES",
    "Column",
    "Columns",
    "Enums",
    "Exchange",
    "ExtraReaders",
    "Failure",
    "Row",
    "Shape",
    "Table",
    "column_name",
    "declared_columns",
    "declared_shapes",
    "failure_row",
    "key_row",
    "numbers",
]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    """One of the words that ``wireloom.arrow.types.arrow_type`` knows."""
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    doc: str
    """What one row is."""
    columns: tuple[Column, ...]

    def __getitem__(self, name: str) -> Column:
        """The column of that name.

        Raises:
            KeyError: there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def select(self, wanted: Iterable[str] | None) -> Table:
        """The same table with the wanted columns only, in the table's order; None wants all.

        Raises:
            OptionError: the table has no such column.
        """
        if wanted is None:
            return self
        chosen = set(wanted)
        if unknown := sorted(chosen - set(self.names)):
            wrong = f"{unknown[0]!r}{hint(unknown[0], self.names)}"
            raise OptionError(f"{self.name} has no column {wrong}; it has {', '.join(self.names)}")
        kept = tuple(column for column in self.columns if column.name in chosen)
        return Table(self.name, self.doc, kept)


@dataclass(frozen=True, slots=True)
class Shape:
    """One form of a packet, as the kernel reads it."""

    cls: type[Packet]
    words: int
    """Header length, where it identifies the form."""
    parts: tuple[Flat, ...]
    codes: Sequence[int]
    """Its type codes: one, unless `type_field` holds the code."""
    name: str
    type_field: str = ""
    """The field that holds the type code, where the form alone does not determine it."""
    type_names: Mapping[int, str] = field(default_factory=dict)
    """Names of the values of that field; values that are not listed are called `name`."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A type of packet that is answered by another, on the same connection."""

    request: str
    """Name of the type."""
    answer: str
    key: tuple[str, ...]
    """The integer fields, present in both, that match an answer to its request."""


Row = dict[str, Any]
"""Values by column."""

Enums = Mapping[str, type[IntEnum] | None]
"""Enums that replace declared ones, by field; None: the numbers have no names."""

ExtraReaders = tuple[Callable[[memoryview, int, bytes], Any], Mapping[str, Callable[[Any], Any]]]
"""What reads a packet's payload (data, start of the frame, payload), and each column's value."""


class Failure(Protocol):
    """Why something could not be read: a `DecodeError`, or the `Problem` of a framer."""

    @property
    def code(self) -> str:
        """A fixed word for the kind of failure."""
        ...

    @property
    def reason(self) -> str:
        """The reason in words."""
        ...

    @property
    def path(self) -> str:
        """The field in which it was met."""
        ...


def key_row(
    source: str, stream: str, offset: int, length: int, ts_ns: int | None, path: str = ""
) -> Row:
    """The key columns of one frame, or of what lies in it at `path`."""
    return {
        "source": source,
        "stream": stream,
        "frame_offset": offset,
        "frame_length": length,
        "ts_ns": ts_ns,
        "ts": None if ts_ns is None else ts_ns // 1000,
        "path": path,
    }


def failure_row(
    layer: str, format: str | None, failure: Failure, raw: bytes, at: int | None
) -> Row:
    """The columns of `errors` after the key.

    Args:
        layer: where in the flow it failed.
        format: of what could not be read.
        failure: why.
        raw: the bytes.
        at: stream offset of the byte where reading failed; None inside a payload.
    """
    return {
        "layer": layer,
        "format": format,
        "code": failure.code,
        "reason": failure.reason,
        "failed_at": at,
        "field": failure.path,
        "raw": raw,
    }


FIXED_TABLES = frozenset(("frames", "messages", "fields", "wide", "errors", "gaps", "accounting"))
"""Names of tables, which a format cannot have."""

_KEY_NAMES = frozenset(key_row("", "", 0, 0, None)) | {"type_code", "type_name"}


def column_name(field: str) -> str:
    """The column of a packet's field; one named like a column of every packet table gets a prefix.

    >>> column_name("price"), column_name("source")
    ('price', 'field_source')
    """
    return f"field_{field}" if field in _KEY_NAMES else field


def _column_type(part: Attribute) -> str:
    if isinstance(part, Bits):
        if part.enum is not None and not issubclass(part.enum, IntFlag):
            return "name"
        return "i32" if part.width < 32 else "i64" if part.width < 64 else "decimal"
    if isinstance(part, Items):
        return "texts"
    # Blobs of fixed length are ids: hex reads and joins better than bytes.
    if isinstance(part, Blob) and (part.text or isinstance(part.length, int)):
        return "text"
    return "binary"


def _column_doc(part: Attribute) -> str:
    doc = part.doc
    if isinstance(part, Bits) and _column_type(part) == "name":
        return f"{doc}; a number that has no name stays a number" if doc else "by name, else number"
    if isinstance(part, Items) or (isinstance(part, Blob) and isinstance(part.length, int)):
        return f"{doc}, in hex" if doc else "in hex"
    return doc


_WIDER = ("i32", "i64", "decimal", "name")


def declared_columns(packets: Iterable[type[Packet]]) -> tuple[Column, ...]:
    """A column for every attribute of some packets, in wire order.

    Numbers of several widths share the widest column, numbers and names one of names.

    Raises:
        TypeError: packets have an attribute of one name whose values do not fit one column.
    """
    columns: dict[str, Column] = {}
    for packet in packets:
        for attribute, part in attributes(packet.parts):
            if attribute == "type":
                continue  # it is the column type_code
            name, type = column_name(attribute), _column_type(part)
            before = columns.setdefault(name, Column(name, type, _column_doc(part)))
            if type in _WIDER and before.type in _WIDER:
                columns[name] = replace(before, type=max(type, before.type, key=_WIDER.index))
            elif type != before.type:
                reason = f"{attribute} is {type}, in another packet {before.type}; rename one"
                raise TypeError(f"{packet.__name__}: {reason}")
    return tuple(columns.values())


def declared_shapes(packets: Sequence[type[Packet]]) -> list[Shape]:
    """Every form of some packets, as they are declared."""
    return [
        Shape(cls, words, parts, (cls.code,), cls.name)
        for cls in packets
        for words, parts in cls.codec.forms.items()
    ]


def numbers(count: int) -> memoryview:
    """A table of that many 64-bit zeros, for the kernel."""
    return memoryview(bytearray(8 * count)).cast("q")


class Columns:
    """How a format becomes columns; stateless."""

    payload: str | None = None
    """The field of its packets that may hold messages; also their path. None: its packets
    are asked (`Message.payloads`), one by one, which is slower."""
    payloads_in_messages: bool = False
    """Whether messages may also lie in parts of that payload, which only its packets know."""
    extra: tuple[Column, ...] = ()
    """Columns of its packet table that are not parts of its packets."""
    body: str = ""
    """The column of `extra` that `bodies` fills; empty if there is none."""
    body_options: tuple[str, ...] = ()
    """Its options that concern bodies only: packets are read without them."""
    exchanges: tuple[Exchange, ...] = ()
    """Requests and their answers, whose response times are measured."""
    least_frame: int = 1
    """Bytes of its shortest frame."""
    max_header: int = 64
    """Bytes that are enough to tell why there is no header at a position."""

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """The kernel's scanner for its streams; None: there is none, its framer is used."""
        return None

    def is_fresh(self, scan: Any) -> bool:
        """Whether a kernel scanner decides the remaining bytes as if nothing came before them."""
        return bool(scan.bad == 0 and scan.suspect <= scan.pos)

    def why(self, framer: Any, data: memoryview, kind: int, pos: int) -> DecodeError | None:
        """Why the kernel's scanner found no frame at `pos`; None: ask the frame rules."""
        return None

    def is_line(self, kind: int) -> bool | None:
        """Whether a mark of the kernel's scanner is a whole line of text; None: it is not text."""
        return None

    def shapes(
        self, packets: Sequence[type[Packet]], limits: Limits, strict: bool, options: Any
    ) -> tuple[list[Shape], Enums]:
        """Every form of its packets, and the enums that replace declared ones."""
        return declared_shapes(packets), {}

    def row(self, packet: Message) -> dict[str, Any]:
        """The values of a packet's own columns, as the object path has them.

        A message that is not declared has its attributes in the columns of `extra`.
        """
        code = getattr(packet, "code", None)
        row: dict[str, Any] = {"type_code": code, "type_name": packet.type_name}
        if not isinstance(packet, Packet):
            return row | {each.name: getattr(packet, each.name, None) for each in self.extra}
        for name, part in packet.codec.attributes.items():
            value = getattr(packet, name)
            if isinstance(value, IntEnum):
                value = value.name
            elif isinstance(part, Bits):
                has_names = part.enum is not None and issubclass(part.enum, IntEnum)
                value = str(int(value)) if has_names and value is not None else value
            elif isinstance(value, bytes) and isinstance(getattr(part, "length", None), int):
                value = value.hex()
            elif isinstance(value, tuple):
                value = [item.hex() for item in value]
            row["type_code" if name == "type" else column_name(name)] = value
        return row

    def extra_readers(self, options: Mapping[str, Any]) -> ExtraReaders | None:
        """What fills columns of `extra` from the payload; None: nothing does."""
        return None

    def bodies(
        self,
        options: Mapping[str, Any],
        *,
        table: Table,
        limits: Limits,
        strict: bool,
        kernel: Any,
    ) -> Bodies | None:
        """What reads its packets' bodies; None: nothing does, with these options.

        Args:
            options: its own, with what they name loaded.
            table: the table `fields`, with the columns that are wanted.
            limits: as for the object path.
            strict: as for the object path.
            kernel: the kernel to use.
        """
        return None

    def is_told(self, options: Mapping[str, Any]) -> bool:
        """Whether what a body is may depend on earlier packets, of either direction.

        Then a raw capture is read in one piece, and both directions of a connection together.
        """
        return False

    # --- messages: the defaults serve any message with `fields` (see `wireloom.rows`)

    walker: int | None = None
    """The number of its walker in the kernel; None: its messages go the object path."""
    has_hints: bool = True
    """Whether its fields often have decimals and hints; they get dense columns then."""

    knows_fields: bool = False
    """Whether something besides its messages, such as a dictionary, gives the types of fields."""

    def is_walked(self, options: Mapping[str, Any]) -> bool:
        """Whether the walker reads messages with these options; else the object path does."""
        return True

    def prepare(self, walk: Any, options: Mapping[str, Any]) -> None:
        """Give the walker what it needs from these options."""

    def type_slots(self) -> Mapping[int, str]:
        """Names of its field types by their numbers for the kernel's walkers."""
        return {}

    def wide_types(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """The column types of fields by name, if `knows_fields`."""
        return {}

    def dialect_of(self, message: Message) -> str | None:
        """The dialect that fitted; None for formats that have only one."""
        return None

    def field_row(self, item: Any) -> Row | None:
        """The value columns of a field, after `type` and `size`; None: the value's type decides."""
        return None

    def nested(self, item: Any) -> list[tuple[str, Sequence[Any]]] | None:
        """The fields of the messages that are a field's value, with the rest of their paths.

        None: the value is no message, or its fields are in `fields` or `value`.
        """
        return None

    def payload_of(self, item: Any) -> bytes:
        """The bytes of a field that may hold a message of another format."""
        return item.value if isinstance(item.value, bytes) else b""

    def unpacker(self, item: Any) -> Callable[[int], str] | None:
        """What unpacks a field's text, if it has at most so many bytes; None: it is not packed."""
        return None
