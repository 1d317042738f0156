"""TibrvMsg ↔ JSON objects, with the keys of the vectors (SPEC §5)."""

from __future__ import annotations

import datetime as dt

from wireloom.errors import EncodeError
from wireloom.formats._tib.jsonform import (
    check_keys,
    elements_from_json,
    elements_to_json,
    get_int,
    get_list,
    get_scalar,
    hex_bytes,
    put_scalar,
)
from wireloom.formats._tib.scalars import Kind, get_text, put_text
from wireloom.formats.tibrv.content import datetime_text, subject_data, xml_data
from wireloom.formats.tibrv.message import Dialect, Field, Message
from wireloom.formats.tibrv.types import ARRAY_CODES, KINDS, FieldType, Form
from wireloom.formats.tibrv.walk import MAX_DEPTH
from wireloom.messages import Json

__all__ = ["field_from_dict", "field_to_dict", "message_from_dict", "message_to_dict"]

_MESSAGE_KEYS = frozenset(("format", "dialect", "fields"))
_FIELD_KEYS = frozenset(
    (
        *("name", "name_hex", "name_nul", "fid", "type", "size", "value", "value_hex", "raw"),
        *("sec", "usec", "values", "messages", "fields", "form"),
    )
)
_TYPES = {kind.name.lower(): kind for kind in FieldType}


def message_to_dict(message: Message) -> Json:
    """See `Message.to_dict`.

    Raises:
        EncodeError: messages are nested too deep to be written.
    """
    out: Json = {"format": "tibrv"}
    if message.dialect != "standard":
        out["dialect"] = message.dialect
    out["fields"] = [field_to_dict(field) for field in message.fields]
    return out


def message_from_dict(d: Json) -> Message:
    """The message that `message_to_dict` described.

    Raises:
        EncodeError: the object is not such a message; the path is that of the failing field.
    """
    check_keys(d, _MESSAGE_KEYS)
    if d.get("format") != "tibrv":
        raise EncodeError(f"expected a tibrv, not {d.get('format')!r}")
    given = d.get("dialect", "standard")
    if given not in ("standard", "document"):
        raise EncodeError(f"dialect {given!r} is not known")
    dialect: Dialect = given
    return Message(_fields_from(get_list(d, "fields"), 0), dialect)


def _fields_from(items: object, depth: int) -> tuple[Field, ...]:
    if depth > MAX_DEPTH:
        raise EncodeError(f"messages nested deeper than {MAX_DEPTH}")
    if not isinstance(items, list):
        raise EncodeError(f"fields must be a list, not {type(items).__name__}")
    fields = []
    for index, item in enumerate(items):
        try:
            fields.append(field_from_dict(item, depth))
        except EncodeError as error:
            error.within(f"fields[{index}]")
            raise
    return tuple(fields)


def field_to_dict(field: Field, depth: int = 0) -> Json:
    """One field as a JSON object.

    Raises:
        EncodeError: messages are nested too deep to be written.
    """
    if depth > MAX_DEPTH:
        raise EncodeError(f"messages nested deeper than {MAX_DEPTH}")
    out: Json = {}
    put_text(out, "name", field.name)
    if field.form & Form.NO_NUL:
        out["name_nul"] = False
    if field.fid is not None:
        out["fid"] = field.fid
    kind, data = field.type, field.data
    out["type"] = kind.name.lower()
    if kind == FieldType.MESSAGE:
        out["fields"] = [field_to_dict(nested, depth + 1) for nested in field.fields]
    elif kind == FieldType.ARRAY_MSG:
        out["messages"] = [
            [field_to_dict(nested, depth + 1) for nested in message.fields]
            for message in field.messages
        ]
    elif kind in KINDS:
        put_scalar(out, KINDS[kind], data)
    else:
        out["size"] = len(data)
        _put_content(out, field)
        # The bytes of a zlib stream depend on who packed it.
        if kind == FieldType.XML or not _says(out, kind, data):
            out["raw"] = data.hex()
    form = field.form & ~Form.NO_NUL
    if form:
        out["form"] = form
    return out


def _says(out: Json, kind: FieldType, data: bytes) -> bool:
    """Whether the values written down give the same data again."""
    try:
        return _content(out, kind) == data
    except EncodeError:
        return False


def _put_content(out: Json, field: Field) -> None:
    value = field.value
    parts = field.time_parts
    if isinstance(value, dt.datetime) and parts is not None:
        out["sec"], out["usec"] = parts
        out["value"] = datetime_text(value)
    elif isinstance(value, str):
        put_text(out, "value", value)
    elif isinstance(value, tuple):
        out["values"] = elements_to_json(value)
    else:
        out["value"] = "0x" + field.data.hex()


def field_from_dict(d: Json, depth: int = 0) -> Field:
    """The field that `field_to_dict` described.

    Raises:
        EncodeError: the object is not such a field.
    """
    check_keys(d, _FIELD_KEYS)
    kind = _TYPES.get(d["type"]) if isinstance(d.get("type"), str) else None
    if kind is None:
        raise EncodeError(f"type {d.get('type')!r} is not known")
    form = get_int(d, "form", 0) or 0
    if d.get("name_nul") is False:
        form |= Form.NO_NUL
    name, fid = get_text(d, "name"), get_int(d, "fid")
    if kind == FieldType.MESSAGE:
        fields = _fields_from(get_list(d, "fields"), depth + 1)
        return Field(name, kind, fid=fid, fields=fields, form=form)
    if kind == FieldType.ARRAY_MSG:
        messages = []
        for index, items in enumerate(get_list(d, "messages")):
            try:
                messages.append(Message(_fields_from(items, depth + 1)))
            except EncodeError as error:
                error.within(f"messages[{index}]")
                raise
        return Field(name, kind, fid=fid, messages=tuple(messages), form=form)
    data = get_scalar(d, KINDS[kind]) if kind in KINDS else _content(d, kind)
    return Field(name, kind, data, fid, form=form)


def _content(d: Json, kind: FieldType) -> bytes:
    """The data of a structured type."""
    raw = hex_bytes(d, "raw")
    if raw is not None:
        return raw
    if kind in ARRAY_CODES:
        element, size, _ = ARRAY_CODES[kind]
        return b"".join(elements_from_json(element, get_list(d, "values"), size))
    if kind == FieldType.ARRAY_STR:
        parts = elements_from_json(Kind.STRING, get_list(d, "values"), None)
        return len(parts).to_bytes(4, "big") + b"".join(parts)
    if kind == FieldType.DATETIME and "sec" in d:
        return b"".join((get_int(d, key, 0) or 0).to_bytes(4, "big") for key in ("sec", "usec"))
    text = get_text(d, "value")
    if text is None:
        raise EncodeError(f"a {kind.name.lower()} needs a value")
    if kind == FieldType.SUBJECT:
        return subject_data(text)
    if kind == FieldType.XML:
        return xml_data(text)
    found = hex_bytes({"value": text.removeprefix("0x")}, "value")
    assert found is not None  # it was given
    return found
