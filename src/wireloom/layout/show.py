"""Declarations for people: the field tree of a packet's bytes, and the byte table of its docs."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from wireloom.layout.parts import (
    Bits,
    Blob,
    Flat,
    Items,
    Optional,
    Part,
    Varint,
    Word,
    member,
)
from wireloom.outline import Node

__all__ = ["byte_table", "fill_outline"]

Row = tuple[str, str, str, str]

_SHORT_BLOB = 32
"""Most bytes of a blob that the tree shows in hex."""


def fill_outline(root: Node, flat: tuple[Flat, ...], data: bytes, pos: int, end: int) -> None:
    """Add a node to `root` for every field of ``data[pos:end]``, as far as it can be read."""
    values: dict[str, int] = {}
    for part in flat:
        size = _size_in(part, data, pos, end, values)
        if size is None:
            continue
        if pos + size > end:
            missing = f"{size} bytes needed, {end - pos} available"
            root.add(part.name, pos, end - pos, error=missing)
            return
        _add(root, part, data, pos, size, values)
        pos += size


def _size_in(part: Flat, data: bytes, at: int, end: int, values: dict[str, int]) -> int | None:
    """Bytes of the part at `at`; None when it is absent."""
    match part:
        case Word():
            return part.size
        case Blob():
            if part.when is not None and not values.get(part.when.field, 0) & part.when.mask:
                return None
            return part.length if isinstance(part.length, int) else values.get(part.length, 0)
        case Items():
            return part.size * values.get(part.count, 0)
        case Varint():
            size = 1
            while size < part.max_bytes and at + size <= end and data[at + size - 1] >= 0x80:
                size += 1
            return size
        case _:  # the rest
            return end - at


def _add(root: Node, part: Flat, data: bytes, at: int, size: int, values: dict[str, int]) -> None:
    raw = data[at : at + size]
    match part:
        case Word():
            word = int.from_bytes(raw, part.order)
            whole = len(part.bits) == 1 and part.bits[0].width == 8 * part.size
            node = root
            if not whole:
                node = root.add(part.name.upper(), at, size, f"{word:#0{2 * size + 2}x}", part.doc)
            for bits in part.bits:
                value = values[bits.name] = word >> bits.low & bits.mask
                node.add(bits.name, at, size, value, _meaning(bits, value), _illegal(bits, value))
        case Varint():
            value = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(raw))
            values[part.name] = value
            root.add(part.name, at, size, value, part.doc)
        case Items():
            node = root.add(part.name, at, size, f"{size // part.size} items", part.doc)
            for i in range(0, size, part.size):
                node.add(f"[{i // part.size}]", at + i, part.size, raw[i : i + part.size].hex())
        case Blob(text=True):
            root.add(part.name, at, size, raw.decode("utf-8", "backslashreplace"), part.doc)
        case _:  # other bytes
            if size:
                value_text = raw.hex() if size <= _SHORT_BLOB else f"{size} bytes"
                root.add(part.name, at, size, value_text, part.doc)


def _meaning(bits: Bits, value: int) -> str:
    if bits.enum is None:
        return bits.doc
    if issubclass(bits.enum, IntFlag):
        names = [str(flag.name) for flag in bits.enum if value & flag]
        if unknown := value & ~sum(bits.enum):
            names.append(f"{unknown:#x}")
        return "|".join(names) or "none"
    found = member(bits.enum, value)
    return found.name if isinstance(found, IntEnum) else "unknown"


def _illegal(bits: Bits, value: int) -> str:
    if bits.const is not None and value != bits.const:
        return f"must be {bits.const:#x}"
    return f"must be at least {bits.least}" if value < bits.least else ""


def byte_table(parts: tuple[Part, ...]) -> list[Row]:
    """Rows (offset, size, field, meaning).

    The offset is "…" after parts of variable length, and two numbers (short form, long form) where
    the forms differ.
    """
    rows: list[Row] = []
    at: int | None = 0
    extra = 0  # additional bytes of the long form up to here
    for part in parts:
        if isinstance(part, Optional):
            start, at = at, _describe(part.parts, at, 0, "long form; ", rows)
            extra += at - start if start is not None and at is not None else 0
        else:
            at = _describe((part,), at, extra, "", rows)
    return rows


def _describe(
    parts: tuple[Part, ...], at: int | None, extra: int, mark: str, rows: list[Row]
) -> int | None:
    for part in parts:
        if isinstance(part, Optional):
            at = _describe(part.parts, at, extra, mark, rows)
            continue
        offset = "…" if at is None else f"{at - extra}, {at}" if extra else str(at)
        match part:
            case Word():
                rows.extend((offset, _extent(part, b), b.name, mark + _says(b)) for b in part.bits)
            case Blob():
                condition = f"if {part.when.field} & {part.when.mask:#x}; " if part.when else ""
                rows.append((offset, str(part.length), part.name, mark + condition + part.doc))
            case Items():
                rows.append((offset, f"{part.size} × {part.count}", part.name, mark + part.doc))
            case Varint():
                rows.append((offset, f"1..{part.max_bytes}", part.name, mark + part.doc))
            case _:  # the rest
                rows.append((offset, "rest", part.name, mark + part.doc))
        at = _behind(part, at)
    return at


def _behind(part: Flat, at: int | None) -> int | None:
    if at is None:
        return None
    if isinstance(part, Word):
        return at + part.size
    if isinstance(part, Blob) and part.when is None and isinstance(part.length, int):
        return at + part.length
    return None


def _extent(word: Word, bits: Bits) -> str:
    if bits.width == 8 * word.size:
        return str(word.size)
    return f"bits {bits.low}..{bits.high}" if bits.width > 1 else f"bit {bits.low}"


def _says(bits: Bits) -> str:
    words = [bits.doc] if bits.doc else []
    if bits.const is not None:
        words.append(f"always {bits.const:#04x}")
    if bits.least:
        words.append("0 is illegal")
    if bits.enum is not None:
        legal = [item for item in bits.enum if item >= bits.least]
        words.append(", ".join(f"{int(item)} {item.name}" for item in legal))
    return "; ".join(words)
