"""Blaze bodies read by the object path → the same rows that the kernel makes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from wireloom.formats.blaze.bodies.tables import array_type_name, item_type_name
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.dialects import Dialect
from wireloom.formats.blaze.nclass import NClassValue, Slot, Sparse, bytes_of
from wireloom.outline import Node

__all__ = ["object_rows"]

_LEN = 4
_INDEX = 2


def object_rows(value: NClassValue, body: bytes, dialect: Dialect) -> list[dict[str, Any]]:
    """The rows of a body by the object path: slow, and what the kernel's rows must equal."""
    tree = Node("body", 0, len(body))
    first = dialect.first_index_of(value.model)
    decode_nclass(value.model, value.nclass, body, value.encoding, first_index=first, node=tree)
    return list(_object(value, tree.children[1:], "body", first))


def _object(
    value: NClassValue, nodes: list[Node], path: str, first: int
) -> Iterator[dict[str, Any]]:
    for node, (name, item) in zip(nodes, value.items(), strict=True):
        slot = value.layout.by_name[name]
        row = {"path": path, "position": first + slot.place, "name": name}
        size = node.length - _INDEX
        if isinstance(item, Sparse):
            yield row | {"type": array_type_name(slot), "size": size - _LEN}
            for child, (index, element) in zip(node.children, item.items(), strict=True):
                inner = f"{path}.{name}"
                yield from _item(
                    slot,
                    element,
                    child,
                    {"path": inner, "position": index, "name": None},
                    f"{inner}[{index}]",
                    first,
                )
        else:
            yield from _item(slot, item, node, row, f"{path}.{name}", first)


def _item(
    slot: Slot, item: Any, node: Node, row: dict[str, Any], path: str, first: int
) -> Iterator[dict[str, Any]]:
    size = node.length - _INDEX - (0 if slot.width else _LEN)
    row = row | {"type": item_type_name(slot), "size": size}
    if isinstance(item, NClassValue):
        yield row
        yield from _object(item, node.children, path, first)
        return
    if isinstance(item, float):
        row["value_real"] = item
    elif isinstance(item, str):
        raw = bytes_of(item)
        try:
            row["value_text"] = raw.decode()
        except UnicodeDecodeError:
            row["value_binary"] = raw
    elif item >> 63 > 0:
        row["value_decimal"] = Decimal(item)
    else:
        row["value_int"] = int(item)
        if slot.enum is not None and (name := slot.enum.name_of(item)) is not None:
            row["value_text"] = name
    yield row
