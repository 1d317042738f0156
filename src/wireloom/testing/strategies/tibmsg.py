"""Strategies for TibMsg: every field type, hint and spelling that the format's types declare."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wireloom.formats.tibmsg import Field, FieldType, Form, Hint, Message
from wireloom.messages import Message as BaseMessage
from wireloom.testing.strategies.declared import numbers
from wireloom.testing.strategies.scalars import ODD, SCALAR_DATA, names

__all__ = ["fields", "messages"]

SCALARS = tuple(kind for kind in FieldType if kind.name in SCALAR_DATA)

KNOWN_HINTS = (*range(9), *range(16, 32), 127, *range(256, 262))
"""Hints that mean something: fractions, decimal places, blank, dates, times, enums."""


def _hints() -> SearchStrategy[Hint]:
    known = st.sampled_from(KNOWN_HINTS).map(Hint.of)
    small = numbers(0xFFFF_FFFF).map(Hint.of)
    data = st.binary(max_size=9)
    other = st.builds(lambda kind, raw: Hint(kind, len(raw), raw), st.sampled_from(SCALARS), data)
    return known | known | small | other


@st.composite
def fields(draw: DrawFn, depth: int = 2) -> Field:
    """One field; messages nest to the given depth."""
    kinds = [kind for kind in FieldType if depth or kind is not FieldType.MESSAGE]
    kind = draw(st.sampled_from(kinds))
    name = draw(st.none() | names())
    hint: Hint | None = None
    nested: tuple[Field, ...] = ()
    data = b""
    if kind is FieldType.MESSAGE:
        nested = tuple(draw(st.lists(fields(depth - 1), max_size=3)))
    elif kind is FieldType.ARRAY:
        size = draw(st.sampled_from((0, 1, 2, 4, 8)) | numbers(0xFFFF_FFFF))
        hint = Hint(draw(st.sampled_from(SCALARS)), size)
        data = draw(st.binary(max_size=24))
    elif kind is FieldType.PARTIAL:
        hint = Hint(FieldType.UINT, draw(numbers(0xFFFF_FFFF)))
        data = draw(st.binary(max_size=24))
    else:
        data = draw(SCALAR_DATA[kind.name] | ODD)
        hint = draw(st.none() | _hints())
    form = draw(st.just(0) | _forms(kind, name, len(data), hint))
    return Field(name, kind, data, hint, nested, form)


def _forms(kind: FieldType, name: str | None, size: int, hint: Hint | None) -> SearchStrategy[int]:
    """Encodings that differ from what a writer would choose, where the field allows them."""
    bits = [1 << i for i in range(9) if 1 << i & Form.KEY_BITS]
    if kind is FieldType.MESSAGE:
        bits.append(Form.OTHER_FLAG)
    elif size <= 255:
        bits.append(Form.OTHER_SIZE)
    if kind in (FieldType.ARRAY, FieldType.PARTIAL):
        bits.append(Form.OTHER_FLAG)
    if name:
        bits.append(Form.NO_NUL)
    if hint is not None:
        bits += [1 << i for i in range(9) if 1 << i & Form.HINT_BITS]
        if hint.size <= 255:
            bits.append(Form.WIDE_HINT)
    return st.sets(st.sampled_from(bits)).map(sum)


def messages() -> SearchStrategy[BaseMessage]:
    """Any TibMsg."""
    return st.builds(Message, st.lists(fields(), max_size=6).map(tuple), st.just(1) | numbers(255))
