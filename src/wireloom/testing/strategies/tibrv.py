"""Strategies for TibrvMsg: every field type, size form and field id that the format declares."""

from __future__ import annotations

import struct
import zlib

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wireloom.formats.tibrv import Field, FieldType, Message
from wireloom.formats.tibrv.types import ARRAY_CODES, KINDS
from wireloom.messages import Message as BaseMessage
from wireloom.testing.strategies.declared import numbers
from wireloom.testing.strategies.scalars import ODD, SCALAR_DATA, names

__all__ = ["fields", "messages"]


def _subjects() -> SearchStrategy[bytes]:
    segment = st.text("ABCDEFxyz*>_", min_size=1, max_size=6).map(str.encode)
    return st.lists(segment, min_size=1, max_size=5).map(
        lambda parts: (
            bytes([len(parts)]) + b"".join(bytes([len(part) + 2]) + part + b"\0" for part in parts)
        )
    )


def _strings() -> SearchStrategy[bytes]:
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
    return st.lists(text, max_size=4).map(
        lambda texts: (
            len(texts).to_bytes(4, "big") + b"".join(text.encode() + b"\0" for text in texts)
        )
    )


def _documents() -> SearchStrategy[bytes]:
    return st.text(max_size=40).map(
        lambda text: (
            bytes([len(text.encode())]) + zlib.compress(text.encode())
            if len(text.encode()) < 120
            else b"\x79"
            + (len(text.encode()) + 2).to_bytes(2, "big")
            + zlib.compress(text.encode())
        )
    )


def _data(kind: FieldType) -> SearchStrategy[bytes]:
    if kind in KINDS:
        return SCALAR_DATA[KINDS[kind].name] | ODD
    if kind in ARRAY_CODES:
        size = ARRAY_CODES[kind][1]
        return st.lists(st.binary(min_size=size, max_size=size), max_size=5).map(b"".join) | ODD
    own = {
        FieldType.SUBJECT: _subjects(),
        FieldType.DATETIME: st.builds(
            struct.Struct(">II").pack, numbers(0xFFFF_FFFF), numbers(1_000_000)
        ),
        FieldType.XML: _documents(),
        FieldType.ARRAY_STR: _strings(),
    }
    return own[kind]


@st.composite
def fields(draw: DrawFn, depth: int = 2) -> Field:
    """One field; messages nest to the given depth."""
    nesting = (FieldType.MESSAGE, FieldType.ARRAY_MSG)
    kind = draw(st.sampled_from([kind for kind in FieldType if depth or kind not in nesting]))
    name = draw(st.none() | names())
    fid = draw(st.none() | numbers(0xFFFF)) if name is not None else None
    if kind is FieldType.MESSAGE:
        return Field(name, kind, fid=fid, fields=tuple(draw(_some(depth))))
    if kind is FieldType.ARRAY_MSG:
        inside = draw(st.lists(_some(depth), max_size=2))
        made = tuple(Message(tuple(one)) for one in inside)
        return Field(name, kind, fid=fid, messages=made)
    return Field(name, kind, draw(_data(kind)), fid)


def _some(depth: int) -> SearchStrategy[list[Field]]:
    return st.lists(fields(depth - 1), max_size=3)


def messages() -> SearchStrategy[BaseMessage]:
    """Any TibrvMsg."""
    return st.lists(fields(), max_size=6).map(lambda made: Message(tuple(made)))
