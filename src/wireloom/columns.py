"""What captures, Arrow and Spark need to know about a format, said by the format itself.

A format gives one `Columns` object (`Format.columns`). What is said here serves any format of
declared packets or of messages with fields: its frames are cut by its own framer, its packets are
read by the kernel of words, its messages by the object path. A format overrides what it can do
faster or differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from wireloom.errors import DecodeError
from wireloom.layout import Bits, Flat, Packet
from wireloom.messages import Message
from wireloom.wire import Limits

__all__ = ["Column", "Columns", "Enums", "ExtraReaders", "Shape", "declared_shapes", "numbers"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    """See `wireloom.tables.arrow_type`."""
    doc: str


@dataclass(frozen=True, slots=True)
class Shape:
    """One form of a packet, as the kernel is to read it."""

    cls: type[Packet]
    words: int
    """Header length, where that tells the form."""
    parts: tuple[Flat, ...]
    codes: Sequence[int]
    """Its type codes: one, unless `type_field` has them."""
    name: str
    type_field: str = ""
    """The field that has the type code, where the form does not tell it."""
    type_names: Mapping[int, str] = field(default_factory=dict)
    """Names of the values of that field; `name` for those that are not here."""


Enums = Mapping[str, type[IntEnum] | None]
"""Enums that replace declared ones, by field; None: the numbers have no names."""

ExtraReaders = tuple[Callable[[memoryview, int, bytes], Any], Mapping[str, Callable[[Any], Any]]]
"""What reads a packet's payload (data, start of the frame, payload), and each column's value."""


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
    """The column of its packet table that may hold messages; also their path. None: its packets
    are asked (`Message.payloads`), one by one, which is slower."""
    payloads_in_messages: bool = False
    """Whether messages may also lie in parts of that payload, which only its packets know."""
    extra: tuple[Column, ...] = ()
    """Columns of its packet table that come from no part of its packets."""
    body: str = ""
    """The one of these that is filled from a model of its bodies."""
    least_frame: int = 1
    """Bytes of its shortest frame."""
    max_header: int = 64
    """Bytes that are enough to see why no header stands somewhere."""

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """The kernel's scanner for its streams; None: there is none, its framer is used."""
        return None

    def is_fresh(self, scan: Any) -> bool:
        """Whether a scanner of the kernel decides what is left as if nothing came before it."""
        return bool(scan.bad == 0 and scan.suspect <= scan.pos)

    def why(self, framer: Any, data: memoryview, kind: int, pos: int) -> DecodeError | None:
        """Why the kernel's scanner found no frame at `pos`; None: its frame rules say."""
        return None

    def shapes(
        self, packets: Sequence[type[Packet]], limits: Limits, strict: bool, options: Any
    ) -> tuple[list[Shape], Enums]:
        """Every form of its packets, and the enums that replace declared ones."""
        return declared_shapes(packets), {}

    def row(self, packet: Message) -> dict[str, Any]:
        """The values of a packet's own columns, as the object path has them."""
        assert isinstance(packet, Packet)
        row: dict[str, Any] = {"type_code": packet.code, "type_name": packet.type_name}
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
            row["type_code" if name == "type" else name] = value
        return row

    def extra_readers(self, options: Mapping[str, Any]) -> ExtraReaders | None:
        """What fills columns of `extra` from the payload; None: nothing does."""
        return None
