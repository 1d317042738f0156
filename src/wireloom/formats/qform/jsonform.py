"""A QForm message ↔ JSON, with the keys that the vectors use (SPEC §6).

``value`` is for people and for writing by hand; ``raw`` is added where the value alone would not
give the same bytes again. Every field has what the dictionary said about it, so reading the JSON
back needs no dictionary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wireloom.errors import EncodeError
from wireloom.formats._tib.jsonform import (
    check_keys,
    check_message,
    fields_from_json,
    get_int,
    hex_bytes,
    typed_view,
)
from wireloom.formats._tib.scalars import (
    Kind,
    from_json,
    get_text,
    put_text,
    text_bytes,
    text_of,
    to_json,
    write,
)
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES, Entry, TssType
from wireloom.formats.qform.fields import KINDS, Field, canonical_fid
from wireloom.formats.qform.message import Message
from wireloom.messages import Json

__all__ = [
    "field_from_dict",
    "field_to_dict",
    "message_from_dict",
    "message_to_dict",
]

_TYPES = {kind.name.lower(): kind for kind in TssType}

_KEYS = frozenset(
    (
        "fid",
        "name",
        "name_hex",
        "type",
        "size",
        "max_size",
        "primitive",
        "variable",
        "partial_offset",
        "value",
        "value_hex",
        "raw",
        "hint",
        "md",
        "meaning",
        "wire_fid",
        "pad",
    )
)


def message_to_dict(message: Message) -> Json:
    """The message as a JSON object."""
    out: Json = {"format": "qform", "fields": [field_to_dict(field) for field in message.fields]}
    if message.trailer:
        out["trailer"] = message.trailer.hex()
    return out


def message_from_dict(d: Json) -> Message:
    """The message that `message_to_dict` described.

    Raises:
        EncodeError: the object is not such a message.
    """
    check_message(d, "qform", frozenset(("format", "fields", "trailer")))
    fields = fields_from_json(d.get("fields", []), field_from_dict)
    return Message(fields, hex_bytes(d, "trailer") or b"")


def field_to_dict(field: Field) -> Json:
    """The field as a JSON object."""
    entry = field.entry
    out: Json = {"fid": entry.fid}
    put_text(out, "name", entry.name)
    out["type"] = field.type.name.lower()
    out["size"] = len(field.data)
    if field.partial_offset is not None:
        out["partial_offset"] = field.partial_offset
    if not entry.is_fixed:
        out["variable"] = True
    if not entry.is_primitive:
        out["primitive"] = False
    if entry.size != len(field.data):
        out["max_size"] = entry.size
    _put_value(out, field)
    if field.wire_fid != canonical_fid(entry):
        out["wire_fid"] = field.wire_fid
    if field.pad:
        out["pad"] = field.pad
    if field.meaning:
        out["meaning"] = field.meaning
    typed = typed_view(field)
    if typed is not None:
        out["md"] = typed
    return out


def _put_value(out: Json, field: Field) -> None:
    value, data = field.wire_value, field.data
    if field.entry.is_partial and field.type is TssType.STRING:
        value = text_of(data)  # a patch is bytes, but easier to read as text
    if isinstance(value, str):
        put_text(out, "value", value)
    elif isinstance(value, bytes) and (field.entry.is_partial or _is_opaque(field.type)):
        out["value_hex"] = data.hex()
    else:
        out["value"] = to_json(value)
        if field.hint is not None:
            out["hint"] = field.hint
    if _get_data(out, field.entry) != data:
        out["raw"] = data.hex()


def _is_opaque(kind: TssType) -> bool:
    return KINDS[kind] is Kind.OPAQUE


def field_from_dict(d: Any) -> Field:
    """The field that `field_to_dict` described.

    Raises:
        EncodeError: the object is not such a field.
    """
    check_keys(d, _KEYS)
    fid, name, size = get_int(d, "fid"), get_text(d, "name"), get_int(d, "size")
    kind = _TYPES.get(str(d.get("type")))
    if fid is None or name is None or kind is None:
        raise EncodeError("a field needs a fid, a name and a type of the dictionary")
    offset = get_int(d, "partial_offset")
    most = get_int(d, "max_size", DEFAULT_SIZES.get(kind) if size is None else size)
    entry = Entry(
        fid,
        name,
        kind,
        0 if most is None else most,
        is_fixed=not _get_flag(d, "variable", False),
        is_primitive=_get_flag(d, "primitive", True),
        is_partial=offset is not None,
    )
    data = _get_data(d, entry)
    if size is not None and len(data) != size:
        raise EncodeError(f"the value has {len(data)} bytes, not {size}")
    if most is None:
        entry = replace(entry, size=len(data))
    wire_fid = get_int(d, "wire_fid")
    return Field(entry, data, offset, -1 if wire_fid is None else wire_fid, get_int(d, "pad") or 0)


def _get_flag(d: Json, key: str, default: bool) -> bool:
    value = d.get(key, default)
    if isinstance(value, bool):
        return value
    raise EncodeError(f"{key} must be true or false, not {value!r}")


def _get_data(d: Json, entry: Entry) -> bytes:
    """The data that a JSON object describes."""
    kind = entry.tss_type
    assert kind is not None
    raw = hex_bytes(d, "raw")
    if raw is not None:
        return raw
    if KINDS[kind] is Kind.STRING and not (entry.is_partial and kind is not TssType.STRING):
        text = get_text(d, "value")
        if text is None:
            raise EncodeError(f"a {kind.name} needs a value")
        data = text_bytes(text)
        fixed = entry.is_fixed and not entry.is_partial
        return data.ljust(entry.size, b"\0") if fixed else data
    if entry.is_partial or _is_opaque(kind):
        data_or_none = hex_bytes(d, "value_hex")
        if data_or_none is None:
            raise EncodeError(f"a {kind.name} needs a value_hex")
        return data_or_none
    hint = get_int(d, "hint")
    tail = b"" if hint is None else write(Kind.UINT, hint, 1)
    value = from_json(KINDS[kind], d.get("value"))
    return write(KINDS[kind], value, entry.size - len(tail)) + tail
