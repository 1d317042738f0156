"""The words of the declaration language: what a packet on the wire is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Literal

__all__ = [
    "Attribute",
    "Bits",
    "Blob",
    "Flat",
    "Items",
    "Optional",
    "Part",
    "Rest",
    "Varint",
    "When",
    "Word",
    "attributes",
    "flatten",
    "member",
    "optional",
    "words_in",
]


@dataclass(frozen=True, slots=True)
class Bits:
    """A field inside a word: bits `low`..`high`, where 0 is the least significant."""

    name: str
    low: int
    high: int
    enum: type[IntEnum] | type[IntFlag] | None = None
    doc: str = ""
    least: int = 0
    """Smallest legal value; 1 where the document says "zero excluded"."""
    strict_least: int = 0
    """Smallest legal value in strict mode."""
    const: int | None = None
    """The only legal value. Such a field is not an attribute of the packet."""
    derived: str = ""
    """How the field is computed when writing; such a field is not an attribute either.

    ``code``: the packet's type code. ``words``: header length in words. ``frame``: bytes of the
    whole frame. ``content``: bytes after this word. ``len NAME``, ``count NAME``: size of a part.
    """

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.high - self.low + 1

    @property
    def mask(self) -> int:
        """The largest value that fits."""
        return (1 << self.width) - 1

    @property
    def is_attribute(self) -> bool:
        """Whether packets have an attribute of this name."""
        return self.const is None and not self.derived


@dataclass(frozen=True, slots=True, init=False)
class Word:
    """A fixed-width unsigned number, whole or made of bit fields."""

    name: str
    bits: tuple[Bits, ...]
    size: int
    order: Literal["big", "little"]
    doc: str

    def __init__(
        self,
        name: str,
        *bits: Bits,
        size: int = 4,
        order: Literal["big", "little"] = "big",
        doc: str = "",
        **whole: Any,
    ) -> None:
        """A word of the given bit fields.

        Without any, one field of the word's own name fills it; `whole` are its `Bits` options.
        """
        put = object.__setattr__
        put(self, "name", name)
        put(self, "bits", bits or (Bits(name, 0, 8 * size - 1, doc=doc, **whole),))
        put(self, "size", size)
        put(self, "order", order)
        put(self, "doc", doc)

    @property
    def unused(self) -> int:
        """Mask of the bits that no field covers; written as zero."""
        mask = (1 << 8 * self.size) - 1
        for bits in self.bits:
            mask &= ~(bits.mask << bits.low)
        return mask

    def named(self, name: str) -> Word:
        """The same single-field word under another name."""
        bits = dataclasses.replace(self.bits[0], name=name)
        return Word(name, bits, size=self.size, order=self.order, doc=self.doc)


@dataclass(frozen=True, slots=True)
class When:
    """A condition on an earlier field: present if any bit of `mask` is set there."""

    field: str
    mask: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A byte string: of fixed length, or as long as an earlier field (``len NAME``) says."""

    name: str
    length: int | str
    """Number of bytes, or the name of the field that holds it."""
    text: bool = False
    """UTF-8 text: the attribute is a str."""
    when: When | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of byte strings of one size, as many as an earlier field (``count NAME``) says."""

    name: str
    size: int
    count: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Varint:
    """The length of the next blob in base 128, least significant group first."""

    name: str
    derived: str
    max_bytes: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Rest:
    """Everything up to the end of the frame."""

    name: str
    doc: str = ""
    strict_empty: bool = False
    """Rejected in strict mode unless empty."""


@dataclass(frozen=True, slots=True)
class Optional:
    """Parts that are present together or not at all, as the header's length tells."""

    parts: tuple[Part, ...]


Flat = Word | Blob | Items | Varint | Rest
"""A part of one form of a packet; a form settles which optional parts are present."""
Part = Flat | Optional
Attribute = Bits | Blob | Items | Rest
"""What an attribute of a packet is on the wire."""


def optional(*parts: Part) -> Optional:
    """Parts of the long form only."""
    return Optional(parts)


def flatten(parts: tuple[Part, ...], *, long: bool) -> tuple[Flat, ...]:
    """The parts of the long or the short form, in wire order."""
    flat: list[Flat] = []
    for part in parts:
        if not isinstance(part, Optional):
            flat.append(part)
        elif long:
            flat.extend(flatten(part.parts, long=long))
    return tuple(flat)


def attributes(parts: tuple[Part, ...]) -> Iterator[tuple[str, Attribute]]:
    """Every attribute that a packet has from these parts, in wire order."""
    for part in flatten(parts, long=True):
        if isinstance(part, Word):
            for bits in part.bits:
                if bits.is_attribute:
                    yield bits.name, bits
        elif not isinstance(part, Varint):
            yield part.name, part


def words_in(flat: tuple[Flat, ...]) -> int:
    """Length of the header in 32-bit words, for formats whose headers are words."""
    return sum(part.size for part in flat if isinstance(part, Word)) // 4


def member(enum: type[IntEnum] | type[IntFlag], value: int) -> int:
    """The enum's member, or the plain number if it has none: an unknown code is not an error."""
    if issubclass(enum, IntFlag):
        return enum(value)
    found = enum._value2member_map_.get(value, value)
    assert isinstance(found, int)
    return found
