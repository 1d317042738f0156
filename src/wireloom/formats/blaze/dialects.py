"""Which peer one speaks to: the document's, or the implementation of 2017 or 2019 (SPEC §6).

The implementations number a few things differently. Enums of a dialect are `IntEnum` too: the
number is what is on the wire, the name is what it means in that dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeVar, cast

from wireloom.errors import EncodeError, OptionError
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    DisconnectReason,
    Encoding,
    RefusalCode,
    TransactionResult,
)
from wireloom.formats.blaze.model import Model
from wireloom.layout import Packet
from wireloom.outline import Node
from wireloom.spelling import missing

__all__ = [
    "DIALECTS",
    "DOCUMENT",
    "DOCUMENT_ENUMS",
    "Action2017",
    "BlazeCode2019",
    "Dialect",
    "Encoding2017",
    "RefusalCode2017",
    "TransactionResult2017",
    "check_names",
    "enum_of",
    "get_dialect",
    "rename",
    "rename_nodes",
    "translate",
]

DOCUMENT = "document"
"""The default dialect."""


def _enum(name: str, members: dict[str, int]) -> type[IntEnum]:
    return cast("type[IntEnum]", IntEnum(name, members, module=__name__))


class Encoding2017(IntEnum):
    """ENCTYP in both implementations; ALL does not exist there."""

    INDEXNOTZERO = 1
    INDEXDELTA = 2


class Action2017(IntEnum):
    """TXACTN and SBEACT in both implementations."""

    NONE = 0
    INS = 1
    UPD = 2
    DLT = 3
    DEL = 4
    REMOVE = 5
    """Physical delete; 5 is RST in the document."""
    RESET = 6


class TransactionResult2017(IntEnum):
    """TXRESL in both implementations."""

    TXOK = 1
    TXKO = 2
    ABORTED = 3


RefusalCode2017 = _enum(
    "RefusalCode2017", {**{code.name: code for code in RefusalCode}, "APPLICATION_REFUSED": 10}
)
"""ERRCOD in 2017: the document's, and one more."""

BlazeCode2019 = _enum(
    "BlazeCode2019", {code.name: code - 100 if code >= 400 else code for code in BlazeCode}
)
"""BLZCOD in 2019: the document's, but the subscription codes start at 300."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one implementation does differently from the document."""

    name: str
    summary: str
    first_index: int
    """INDEX of a class's first field, for models that do not say."""
    enums: Mapping[str, type[IntEnum] | None]
    """Enums that replace the document's, by field; None: the numbers have no names."""

    def first_index_of(self, model: Model) -> int:
        """INDEX of the first field of that model's classes here."""
        return self.first_index if model.first_index is None else model.first_index

    def encoding(self, enctyp: int) -> Encoding | None:
        """What an ENCTYP stands for here."""
        enum = self.enums.get("enctyp") or Encoding
        found = enum._value2member_map_.get(enctyp)
        return None if found is None else Encoding[found.name]

    def enctyp(self, encoding: Encoding) -> int:
        """The ENCTYP of an encoding here.

        Raises:
            EncodeError: the dialect does not have it.
        """
        enum = self.enums.get("enctyp") or Encoding
        if encoding.name not in enum.__members__:
            raise EncodeError(f"dialect {self.name} has no encoding {encoding.name}", path="enctyp")
        return enum[encoding.name]


_IMPLEMENTATION: dict[str, type[IntEnum] | None] = {
    "enctyp": Encoding2017,
    "txactn": Action2017,
    "sbeact": Action2017,
    "txresl": TransactionResult2017,
}

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(DOCUMENT, "the document, with the errata of SPEC §7", 1, {}),
        Dialect(
            "2017",
            "the implementation of October 2017",
            2,
            {**_IMPLEMENTATION, "errcod": RefusalCode2017},
        ),
        Dialect(
            "2019",
            "the implementation of February 2019",
            1,
            # Its ERRCOD and DISRES are general codes truncated to 4 bits: names would mislead.
            {**_IMPLEMENTATION, "blzcod": BlazeCode2019, "errcod": None, "disres": None},
        ),
    )
}

DOCUMENT_ENUMS: Mapping[str, type[IntEnum]] = {
    "enctyp": Encoding,
    "txactn": Action,
    "sbeact": Action,
    "txresl": TransactionResult,
    "blzcod": BlazeCode,
    "errcod": RefusalCode,
    "disres": DisconnectReason,
}
"""The document's enums of the fields that a dialect may number differently."""

_SAME_MEANING = {"RST": "RESET", "RESET": "RST"}
"""Names that differ between the document and the implementations."""

_P = TypeVar("_P", bound=Packet)


def get_dialect(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        OptionError: there is none.
    """
    if name not in DIALECTS:
        raise OptionError(missing("dialect", name, tuple(DIALECTS)))
    return DIALECTS[name]


def enum_of(dialect: Dialect, field: str) -> type[IntEnum] | None:
    """The enum of one of the `DOCUMENT_ENUMS` fields; None: its numbers have no names."""
    return dialect.enums[field] if field in dialect.enums else DOCUMENT_ENUMS[field]


def _changed(packet: _P, dialect: Dialect, changes: dict[str, int]) -> _P:
    return cast("_P", replace(cast("Any", packet), dialect=dialect.name, **changes))


def rename(packet: _P, dialect: Dialect) -> _P:
    """The packet with the same numbers, under the names that they have in the dialect."""
    changes: dict[str, int] = {}
    for field in DOCUMENT_ENUMS:
        value = getattr(packet, field, None)
        if value is not None:
            enum, number = enum_of(dialect, field), int(value)
            changes[field] = number
            if enum is not None and number in enum._value2member_map_:
                changes[field] = enum(number)
    return _changed(packet, dialect, changes)


def rename_nodes(root: Node, dialect: Dialect) -> None:
    """Give the fields of a packet's tree the names that their numbers have in the dialect."""
    for _, node in root.walk():
        if node.name in dialect.enums and node.value.isdigit():
            enum = dialect.enums[node.name]
            found = None if enum is None else enum._value2member_map_.get(int(node.value))
            node.meaning = "unknown" if found is None else found.name


def translate(packet: _P, dialect: Dialect) -> _P:
    """The packet with the same names, under the numbers that they have in the dialect.

    Raises:
        EncodeError: the dialect has no number for a name.
    """
    changes: dict[str, int] = {}
    for field in DOCUMENT_ENUMS:
        value = getattr(packet, field, None)
        if not isinstance(value, IntEnum):
            continue
        enum = enum_of(dialect, field)
        if enum is None:
            changes[field] = int(value)
            continue
        names = (value.name, _SAME_MEANING.get(value.name, value.name))
        found = next((name for name in names if name in enum.__members__), None)
        if found is None:
            raise EncodeError(f"dialect {dialect.name} has no {value.name}", path=field)
        changes[field] = enum[found]
    return _changed(packet, dialect, changes)


def check_names(packet: Packet, dialect: Dialect) -> None:
    """Check that every name in a packet is one of its dialect.

    Raises:
        EncodeError: one is not, so that its number would mean something else.
    """
    for field in DOCUMENT_ENUMS:
        value = getattr(packet, field, None)
        if isinstance(value, IntEnum) and type(value) is not enum_of(dialect, field):
            raise EncodeError(
                f"{value.name} is a name of another dialect than {dialect.name}", path=field
            )
