"""Strategies for declared packets: every form, fields within their bits, unknown codes too."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from functools import partial
from operator import and_
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wireloom.formats import REGISTRY
from wireloom.layout import Attribute, Bits, Blob, Flat, Items, Packet, Rest, Word
from wireloom.layout.parts import attributes, member
from wireloom.messages import Message

__all__ = ["numbers", "packet_classes", "packets", "packets_of"]

_MOST_BYTES = 48
"""Bytes of a body or blob: enough for its length to matter, few enough to shrink and to read."""


def packet_classes(format_name: str) -> list[type[Packet]]:
    """The declared packets of an imported format, by type code."""
    package = REGISTRY[format_name]
    found = [cls for cls in _below(Packet) if f"{cls.__module__}.".startswith(f"{package}.")]
    # A packet class has its own codec; the class that `dataclass(slots=True)` replaced does not.
    return sorted((cls for cls in found if "codec" in vars(cls)), key=lambda cls: cls.code)


def _below(cls: type[Packet]) -> Iterator[type[Packet]]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)


def packets_of(format_name: str) -> SearchStrategy[Message]:
    """Any packet of a declared format."""
    return st.one_of([packets(cls) for cls in packet_classes(format_name)])


def numbers(most: int, least: int = 0) -> SearchStrategy[int]:
    """Numbers, biased towards the ends of their range."""
    ends = sorted({least, min(least + 1, most), most // 2, max(most - 1, least), most})
    return st.sampled_from(ends) | st.integers(least, most)


@st.composite
def packets(draw: DrawFn, cls: type[Packet]) -> Message:
    """Valid packets of one class."""
    codec = cls.codec
    values = {name: draw(_attribute(codec.attributes, part)) for name, part in _bits_first(codec)}
    for name, part in codec.attributes.items():
        if isinstance(part, Blob) and part.when is not None:
            wanted = values[part.when.field] & part.when.mask
            values[name] = values[name] if wanted else None
    made = []
    for form in codec.forms.values():
        given = {name: values[name] for name, _ in attributes(form)}
        if codec.keeps_unused and (unused := draw(_unused(form))):
            given["unused"] = unused
        message = cls(**given)
        # Which form it is follows from the fields: take the form that agrees with them.
        if message.flaw() is None:
            made.append(message)
    assume(made)
    return draw(st.sampled_from(made))


def _bits_first(codec: Any) -> list[tuple[str, Attribute]]:
    return sorted(codec.attributes.items(), key=lambda item: not isinstance(item[1], Bits))


def _attribute(known: Any, part: Attribute) -> SearchStrategy[Any]:
    match part:
        case Bits(enum=None):
            return numbers(part.mask, part.least)
        case Bits(enum=enum) if enum is not None:
            values = numbers(part.mask, part.least).map(lambda value: member(enum, value))
            if issubclass(enum, IntFlag):
                return values
            legal = [item for item in enum if part.least <= item <= part.mask]
            return st.sampled_from(legal) | values if legal else values
        case Blob(text=True):
            return st.text(max_size=_MOST_BYTES // 4)
        case Blob(length=int() as size):
            return st.binary(min_size=size, max_size=size)
        case Items():
            item = st.binary(min_size=part.size, max_size=part.size)
            return st.lists(item, max_size=4).map(tuple)
        case Blob() | Rest():
            return st.binary(max_size=_MOST_BYTES)
    raise TypeError(f"no strategy for {part}")


def _unused(form: tuple[Flat, ...]) -> SearchStrategy[tuple[int, ...]]:
    """Values of the bits that no field covers, one for each word that has some; mostly none set."""
    masks = [part.unused for part in form if isinstance(part, Word) and part.unused]
    words = [numbers((1 << 64) - 1).map(partial(and_, mask)) for mask in masks]
    return st.just(()) | st.tuples(*words).filter(any) if words else st.just(())
