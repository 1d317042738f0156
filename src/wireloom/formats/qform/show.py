"""QForm → a tree of named ranges: of bytes as far as they can be read, or of a message."""

from __future__ import annotations

from wireloom.errors import DecodeError
from wireloom.formats._tib.show import add_error, brief
from wireloom.formats.qform.dictionary.model import Dictionary
from wireloom.formats.qform.fields import Field, prefix_len
from wireloom.formats.qform.message import Message, decode, field_at, slots
from wireloom.formats.qform.walk import HEADER_LEN, MAGIC, body_end
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["message_outline", "outline"]


def outline(
    data: bytes,
    dictionary: Dictionary | None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = False,
) -> Node:
    """The field tree of the message at the start of `data`; the failing node says why."""
    root = Node("qform", 0, len(data))
    if data.startswith(MAGIC):
        root.add("magic", 0, 4, MAGIC.hex())
        if len(data) >= HEADER_LEN:
            _add_size(root, int.from_bytes(data[4:8], "big"))
    try:
        end = body_end(data, limits)
        root.length = end
        last = HEADER_LEN
        for slot in slots(data, end, dictionary, limits):
            _add_field(root, field_at(data, slot), slot[0])
            last = slot[-1]
        _add_trailer(root, data[last:end], last)
        if strict:
            decode(data, dictionary, limits, strict=True)
    except DecodeError as error:
        add_error(root, error)
    return root


def message_outline(message: Message) -> Node:
    """Where each field lies in ``message.encode()``.

    Raises:
        EncodeError: the message cannot be written.
    """
    size = len(message.encode())
    root = Node("qform", 0, size)
    root.add("magic", 0, 4, MAGIC.hex())
    _add_size(root, size - HEADER_LEN)
    at = HEADER_LEN
    for field in message.fields:
        _add_field(root, field, at)
        at += field.wire_len
    _add_trailer(root, message.trailer, at)
    return root


def _add_size(root: Node, size: int) -> None:
    root.add("size", 4, 4, size, "bytes of fields")


def _add_trailer(root: Node, trailer: bytes, at: int) -> None:
    if trailer:
        root.add("trailer", at, 2, trailer.hex(), "fid 0, ignored")


def _add_field(root: Node, field: Field, start: int) -> None:
    entry, data, offset = field.entry, field.data, field.partial_offset
    kind = f"{field.type.name.lower()} {len(data)}"
    if offset is not None:
        kind += f", partial at {offset}"
    elif field.is_variable:
        kind += f", variable, {entry.size} at most"
    if field.hint is not None:
        kind += f" <{field.hint}>"
    code = field.meaning
    node = root.add(
        entry.name, start, field.wire_len, brief(field.value), f"{code}, {kind}" if code else kind
    )
    flags = [name for bit, name in ((2, "fixed"), (1, "primitive")) if field.wire_fid >> 14 & bit]
    node.add("fid", start, 2, field.fid, ", ".join(flags) or "no flags")
    at = start + prefix_len(entry)
    if offset is not None:
        node.add("offset", start + 2, 2, offset, "where the data goes")
        node.add("length", start + 4, 2, len(data), "bytes of data")
    elif field.is_variable:
        node.add("length", start + 2, at - start - 2, len(data), "bytes of data")
    hinted = field.hint is not None
    stop = at + len(data) - hinted
    node.add("data", at, stop - at, brief(data[: stop - at]))
    if hinted:
        node.add("hint", stop, 1, field.hint)
        stop += 1
    if len(data) & 1:
        node.add("pad", stop, 1, f"{field.pad:#04x}")
