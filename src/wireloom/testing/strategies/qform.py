"""Strategies for QForm: fields of a dictionary that has every type in every variant."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wireloom.formats.qform import Dictionary, Entry, Field, Message, TssType
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES, Kind
from wireloom.formats.qform.fields import KINDS
from wireloom.messages import Message as BaseMessage
from wireloom.testing.strategies.declared import numbers
from wireloom.testing.strategies.scalars import SCALAR_DATA

__all__ = ["DICTIONARY", "OPTIONS", "fields", "messages"]


def _entries() -> tuple[Entry, ...]:
    made = []
    for kind in TssType:
        if kind is not TssType.NODATA:
            size = DEFAULT_SIZES.get(kind, 10)
            made.append(Entry(100 + kind, f"{kind.name}_FIELD", kind, size))
    made.append(Entry(200, "ODD_TEXT", TssType.STRING, 7))
    made.append(Entry(201, "SHORT_PRICE", TssType.GROCERY, 5))
    made.append(Entry(202, "ROW", TssType.STRING, 80, is_partial=True))
    for fid, (kind, size) in enumerate(
        [(TssType.STRING, 100), (TssType.OPAQUE, 255), (TssType.OPAQUE, 70_000)], 300
    ):
        made.append(Entry(fid, f"VARIABLE_{fid}", kind, size, is_fixed=False))
        made.append(Entry(fid + 50, f"OBJECT_{fid}", kind, size, False, is_primitive=False))
    return tuple(made)


DICTIONARY = Dictionary(_entries())
OPTIONS = {"dictionary": DICTIONARY}
"""How the messages made here are read."""


@st.composite
def fields(draw: DrawFn, entry: Entry) -> Field:
    """A field for a dictionary entry."""
    if entry.kind is Kind.FIXED:
        size = entry.size
        known = SCALAR_DATA[KINDS[entry.tss_type or TssType.NODATA].name]
        data = draw(known).ljust(size, b"\0")[:size]
        data = draw(st.just(data) | st.binary(min_size=size, max_size=size))
    else:
        data = draw(st.binary(max_size=min(entry.size, 60)))
    offset = draw(numbers(0xFFFF)) if entry.kind is Kind.PARTIAL else None
    flags = draw(st.just(-1) | st.sampled_from([0, 1, 2, 3]))
    wire_fid = -1 if flags < 0 else entry.fid | flags << 14
    pad = draw(st.just(0) | numbers(255)) if len(data) % 2 else 0
    return Field(entry, data, offset, wire_fid, pad)


def messages() -> SearchStrategy[BaseMessage]:
    """Any QForm of this module's dictionary."""
    one = st.sampled_from(DICTIONARY.entries).flatmap(fields)
    trailer = st.just(b"") | st.sampled_from([b"\0\0", b"\x40\0", b"\xc0\0"])
    return st.builds(Message, st.lists(one, max_size=8).map(tuple), trailer)
