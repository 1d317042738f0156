"""TibMsg ↔ JSON objects, with the keys of the vectors (SPEC §5)."""

from __future__ import annotations

from wireloom.errors import EncodeError
from wireloom.formats._tib.jsonform import (
    check_depth,
    check_keys,
    check_message,
    elements_from_json,
    elements_to_json,
    fields_from_json,
    get_int,
    get_list,
    get_scalar,
    get_type,
    hex_bytes,
    put_scalar,
    typed_view,
)
from wireloom.formats._tib.scalars import SCALARS, get_text, put_text
from wireloom.formats.tibmsg.fields import Field
from wireloom.formats.tibmsg.message import Message
from wireloom.formats.tibmsg.types import FieldType, Form, Hint
from wireloom.messages import Json

__all__ = ["field_from_dict", "field_to_dict", "message_from_dict", "message_to_dict"]

_MESSAGE_KEYS = frozenset(("format", "version", "fields"))
_FIELD_KEYS = frozenset(
    (
        *("name", "name_hex", "name_nul", "type", "size", "value", "value_hex", "raw", "form"),
        *("hint", "hint_hex", "hint_type", "hint_size", "hint_raw", "partial_offset", "md"),
        *("elem_type", "elem_size", "values", "fields"),
    )
)
_TYPES = {kind.name.lower(): kind for kind in FieldType}


def message_to_dict(message: Message) -> Json:
    """See `Message.to_dict`.

    Raises:
        EncodeError: messages are nested too deep to be written.
    """
    out: Json = {"format": "tibmsg"}
    if message.version != 1:
        out["version"] = message.version
    out["fields"] = [field_to_dict(field) for field in message.fields]
    return out


def message_from_dict(d: Json) -> Message:
    """The message that `message_to_dict` described.

    Raises:
        EncodeError: the object is not such a message; the path is that of the failing field.
    """
    check_message(d, "tibmsg", _MESSAGE_KEYS)
    version = get_int(d, "version", 1)
    return Message(_fields_from(d, 0), 1 if version is None else version)


def _fields_from(d: Json, depth: int) -> tuple[Field, ...]:
    check_depth(depth)
    return fields_from_json(d.get("fields", []), lambda item: field_from_dict(item, depth))


def field_to_dict(field: Field, depth: int = 0) -> Json:
    """One field as a JSON object.

    Raises:
        EncodeError: messages are nested too deep to be written.
    """
    check_depth(depth)
    out: Json = {}
    put_text(out, "name", field.name)
    if field.form & Form.NO_NUL:
        out["name_nul"] = False
    kind, data, hint = field.type, field.data, field.hint
    out["type"] = kind.name.lower()
    if kind == FieldType.MESSAGE:
        out["fields"] = [field_to_dict(nested, depth + 1) for nested in field.fields]
    elif kind == FieldType.ARRAY and hint is not None:
        out["size"] = len(data)
        out["elem_type"] = hint.type.name.lower()
        out["elem_size"] = hint.size
        out["values"] = elements_to_json(field.elements)
        if b"".join(elements_from_json(hint.type, out["values"], hint.size)) != data:
            out["raw"] = data.hex()
    elif kind == FieldType.PARTIAL and hint is not None:
        out["size"] = len(data)
        out["partial_offset"] = hint.size
        out["hint_type"] = hint.type.name.lower()
        put_text(out, "value", data.decode("utf-8", "surrogateescape"))
    else:
        put_scalar(out, kind, data)
        if hint is not None:
            _put_hint(out, hint)
            view = typed_view(field)
            if view is not None:
                out["md"] = view
    form = field.form & ~Form.NO_NUL
    if form:
        out["form"] = form
    return out


def _put_hint(out: Json, hint: Hint) -> None:
    coded: Json = {}
    put_scalar(coded, hint.type, hint.data)
    out["hint_type"] = hint.type.name.lower()
    out["hint_size"] = hint.size
    if "value" in coded:
        out["hint"] = coded["value"]
    elif hint.type == FieldType.OPAQUE:
        out["hint"] = "0x" + coded["value_hex"]
    else:
        out["hint_hex"] = coded["value_hex"]
    if "raw" in coded:
        out["hint_raw"] = coded["raw"]


def field_from_dict(d: Json, depth: int = 0) -> Field:
    """The field that `field_to_dict` described; ``md`` is ignored, it follows from the rest.

    Raises:
        EncodeError: the object is not such a field.
    """
    check_keys(d, _FIELD_KEYS)
    kind = _type(d, "type")
    form = get_int(d, "form", 0) or 0
    if d.get("name_nul") is False:
        form |= Form.NO_NUL
    name = get_text(d, "name")
    if kind == FieldType.MESSAGE:
        return Field(name, kind, fields=_fields_from(d, depth + 1), form=form)
    if kind == FieldType.ARRAY:
        hint = Hint(_type(d, "elem_type"), _need_int(d, "elem_size"))
        data = hex_bytes(d, "raw")
        if data is None:
            data = b"".join(elements_from_json(hint.type, get_list(d, "values"), hint.size))
        return Field(name, kind, data, hint, form=form)
    if kind == FieldType.PARTIAL:
        hint_type = _type(d, "hint_type") if "hint_type" in d else FieldType.UINT
        hint = Hint(hint_type, _need_int(d, "partial_offset"))
        # A partial is text without a NUL, or with those that it has.
        data = hex_bytes(d, "raw")
        if data is None:
            data = (get_text(d, "value") or "").encode("utf-8", "surrogateescape")
        return Field(name, kind, data, hint, form=form)
    return Field(name, kind, get_scalar(d, kind), _get_hint(d), form=form)


def _get_hint(d: Json) -> Hint | None:
    if "hint_type" not in d:
        return None
    kind = _type(d, "hint_type")
    if kind not in SCALARS:
        raise EncodeError(f"hint type {kind.name.lower()} is not a scalar type")
    coded: Json = {"size": _need_int(d, "hint_size"), "value": d.get("hint")}
    if "hint_raw" in d:
        coded["raw"] = d["hint_raw"]
    if kind == FieldType.OPAQUE:
        coded["value_hex"] = str(d.get("hint")).removeprefix("0x")
    elif "hint_hex" in d:
        coded["value_hex"] = d["hint_hex"]
    data = get_scalar(coded, kind)
    return Hint(kind, len(data), data)


def _type(d: Json, key: str) -> FieldType:
    return get_type(d, key, _TYPES)


def _need_int(d: Json, key: str) -> int:
    value = get_int(d, key)
    if value is None:
        raise EncodeError(f"{key} is missing")
    return value
