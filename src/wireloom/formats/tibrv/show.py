"""TibrvMsg bytes → a tree of named ranges, as far as they can be read."""

from __future__ import annotations

from wireloom.errors import DecodeError
from wireloom.formats._tib.show import add_error, brief
from wireloom.formats.tibrv.codec import DialectOption, decode, field_at
from wireloom.formats.tibrv.content import modest_xml
from wireloom.formats.tibrv.message import Field
from wireloom.formats.tibrv.types import FieldType
from wireloom.formats.tibrv.walk import ELEMENT, HEADER, HEADER_LEN, MAGIC, Slot, walk
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["outline"]


def outline(
    data: bytes,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = False,
    dialect: DialectOption = "auto",
) -> Node:
    """The field tree of the message at the start of `data`; the failing node says why."""
    root = Node("tibrv", 0, len(data))
    if data[4:8] == MAGIC:
        root.add("length", 0, 4, int.from_bytes(data[:4], "big"), "bytes of the whole message")
        root.add("magic", 4, 4, MAGIC.hex())
    # The decoder decides which dialect to show; an unreadable message is shown as standard.
    problem: DecodeError | None = None
    is_document = dialect == "document"
    try:
        is_document = decode(data, limits, strict=strict, dialect=dialect).dialect == "document"
    except DecodeError as error:
        problem = error
    if is_document:
        root.meaning = "document dialect: one-byte sizes count themselves"
    levels = [root]
    try:
        end = HEADER.body_end(data, limits)
        root.length = end
        for index, slot in enumerate(walk(data, HEADER_LEN, end, limits, document=is_document)):
            if slot is None:
                levels.pop()
            elif slot[2] == ELEMENT:
                start, stop = slot[0], slot[4]
                node = levels[-1].add("message", start, stop - start)
                _add_header(node, data, start)
                levels.append(node)
            else:
                field = field_at(data, slot, is_document)
                node = _add(levels[-1], data, slot, field, index)
                if field.type in (FieldType.MESSAGE, FieldType.ARRAY_MSG):
                    levels.append(node)
        if problem is not None:
            raise problem
    except DecodeError as error:
        add_error(levels[-1], error)
    return root


def _add_header(node: Node, data: bytes, start: int) -> None:
    node.add("length", start, 4, int.from_bytes(data[start : start + 4], "big"))
    node.add("magic", start + 4, 4, data[start + 4 : start + 8].hex())


def _add(parent: Node, data: bytes, slot: Slot, field: Field, index: int) -> Node:
    start, type_at, code, data_at, data_end = slot
    kind = field.type.name.lower()
    nested = field.type in (FieldType.MESSAGE, FieldType.ARRAY_MSG)
    meaning = kind if field.fid is None else f"{kind}, field id {field.fid}"
    name = field.name if field.name else f"field {index}"
    if field.type == FieldType.XML:
        text = modest_xml(field.data)
        value = "cannot be unpacked, or is very long" if text is None else brief(text)
    else:
        value = "" if nested else brief(field.value)
    node = parent.add(name, start, data_end - start, value, meaning)
    node.add("name", start, type_at - start, "none" if field.name is None else brief(field.name))
    node.add("type", type_at, 1, code, kind)
    node.add("size", type_at + 1, data_at - type_at - 1, data_end - data_at, "bytes of data")
    if field.type == FieldType.MESSAGE:
        _add_header(node, data, data_at)
    elif field.type == FieldType.ARRAY_MSG:
        node.add("count", data_at, 4, int.from_bytes(data[data_at : data_at + 4], "big"))
    else:
        node.add("data", data_at, data_end - data_at, brief(data[data_at:data_end]))
    return node
