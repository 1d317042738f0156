"""TibMsg bytes → a tree of named ranges, as far as they can be read."""

from __future__ import annotations

from wireloom.errors import DecodeError
from wireloom.formats._tib.show import add_error, brief
from wireloom.formats.tibmsg.fields import Field
from wireloom.formats.tibmsg.message import decode, field_at
from wireloom.formats.tibmsg.types import FieldType
from wireloom.formats.tibmsg.walk import HEADER_LEN, MAGIC, Slot, body_end, walk
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["outline"]


def outline(data: bytes, limits: Limits = DEFAULT_LIMITS, *, strict: bool = False) -> Node:
    """The field tree of the message at the start of `data`; the failing node says why."""
    root = Node("tibmsg", 0, len(data))
    if data.startswith(MAGIC):
        root.add("magic", 0, 4, MAGIC.hex())
    if len(root.children) and len(data) >= HEADER_LEN:
        root.add("version", 4, 1, data[4])
        root.add("size", 5, 4, int.from_bytes(data[5:9], "big"), "bytes of fields")
    levels = [root]
    try:
        end = body_end(data, limits)
        root.length = end
        for index, slot in enumerate(walk(data, HEADER_LEN, end, limits)):
            if slot is None:
                levels.pop()
                continue
            field = field_at(data, slot)
            node = _add(levels[-1], data, slot, field, index)
            if field.type == FieldType.MESSAGE:
                levels.append(node)
        if strict:
            decode(data, limits, strict=True)
    except DecodeError as error:
        add_error(levels[-1], error)
    return root


def _add(parent: Node, data: bytes, slot: Slot, field: Field, index: int) -> Node:
    start, key_at, key, data_at, data_end, hint_key, hint_size, hint_at, end = slot
    kind = field.type.name.lower()
    hint = field.hint
    meaning = kind
    if field.type == FieldType.ARRAY and hint is not None:
        meaning = f"array of {hint.type.name.lower()} {hint.size}"
    elif field.type == FieldType.PARTIAL and hint is not None:
        meaning = f"partial at {hint.size}"
    elif hint is not None:
        meaning = f"{kind} <{brief(hint.value)}>"
    nested = field.type == FieldType.MESSAGE
    value = "" if nested else brief(field.value)
    name = field.name if field.name else f"field {index}"
    node = parent.add(name, start, end - start, value, meaning)
    node.add("name", start, key_at - start, "none" if field.name is None else brief(field.name))
    node.add("type", key_at, 1, f"{key:#04x}", kind)
    node.add("size", key_at + 1, data_at - key_at - 1, data_end - data_at, "bytes of data")
    if not nested:
        node.add("data", data_at, data_end - data_at, brief(data[data_at:data_end]))
    if hint is not None:
        node.add("hint type", data_end, 1, f"{hint_key:#04x}", hint.type.name.lower())
        node.add("hint size", data_end + 1, hint_at - data_end - 1, hint_size)
        if hint.data:
            node.add("hint", hint_at, end - hint_at, brief(hint.value))
    return node
