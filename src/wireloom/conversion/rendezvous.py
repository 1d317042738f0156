"""TibMsg ↔ TibrvMsg: the scalars have the same bytes; hints and partials exist on one side only."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from wireloom.conversion.losses import Losses, LossKind, fit_name, steps
from wireloom.formats import tibmsg, tibrv
from wireloom.formats._tib.decimals import HINT_NONE, scale
from wireloom.formats._tib.scalars import INT_SIZES, Kind, read, text_bytes, write
from wireloom.formats._tib.values import BLANK
from wireloom.formats.tibmsg.walk import MAX_DEPTH
from wireloom.formats.tibrv.types import ARRAY_CODES, KINDS
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["MAX_PADDED", "from_tibrv", "to_tibrv"]

MAX_PADDED: Final = DEFAULT_LIMITS.max_frame
"""Most bytes of an array of texts, each padded to the longest: one long text among many short ones
must not fill memory."""

_SINGLE: Final = 4
_LITERAL_MAX: Final = 255
"""Bytes of a TibrvMsg number: its size is one byte."""

_Tib, _Rv = tibmsg.FieldType, tibrv.FieldType

_TO_RV: Final[Mapping[int, tibrv.FieldType]] = {
    kind: code for code, kind in KINDS.items() if code != _Rv.ENCRYPTED
}
_ARRAYS: Final = {(kind, size): code for code, (kind, size, _) in ARRAY_CODES.items()}
_ADDRESSES: Final = {4: _Rv.ARRAY_U32, 2: _Rv.ARRAY_U16}

_DATES, _TIMES, _ENUM = (256, 258), (257, 259, 260), 261


# --- TibMsg → TibrvMsg -------------------------------------------------------------------------


def to_tibrv(message: tibmsg.Message, losses: Losses) -> tibrv.Message:
    """The message without its hints."""
    return tibrv.Message(_to_fields(message.fields, "", losses))


def _to_fields(
    fields: tuple[tibmsg.Field, ...], outer: str, losses: Losses
) -> tuple[tibrv.Field, ...]:
    made = []
    for path, field in steps(fields, outer):
        name = fit_name(field.name, path, losses)
        if field.type == _Tib.MESSAGE:
            inner = _to_fields(field.fields, path, losses)
            made.append(tibrv.Field(name, _Rv.MESSAGE, fields=inner))
        elif field.type == _Tib.ARRAY:
            made.append(_to_array(name, field, path, losses))
        elif field.type == _Tib.PARTIAL:
            losses.add(
                path, LossKind.PARTIAL, "the offset is lost: the patch becomes a whole value"
            )
            # A text ends at its first NUL; a patch does not.
            opaque = 0 in field.data
            data = field.data if opaque else field.data + b"\0"
            made.append(tibrv.Field(name, _Rv.OPAQUE if opaque else _Rv.STRING, data))
        else:
            made.append(_to_scalar(name, field, path, losses))
    return tuple(made)


def _to_scalar(name: str | None, field: tibmsg.Field, path: str, losses: Losses) -> tibrv.Field:
    kind, data = field.type, field.data
    if field.hint is not None:
        losses.add(path, LossKind.HINT, _about_hint(field))
        if (noise := _noise(field)) is not None:
            losses.add(path, LossKind.VALUE, noise)
    if field.value is BLANK:
        losses.add(path, LossKind.VALUE, "a blank becomes NaN")
        data = write(Kind.REAL, math.nan, len(data))
    elif kind == _Tib.STRING:
        data = _with_nul(data)
    elif kind == _Tib.BOOLEAN and len(data) in INT_SIZES:
        data = write(Kind.BOOLEAN, any(data))
    if len(data) > _LITERAL_MAX and kind not in (_Tib.STRING, _Tib.OPAQUE):
        what = f"{kind.name.lower()} of {len(data)} bytes becomes opaque"
        losses.add(path, LossKind.TYPE, what)
        return tibrv.Field(name, _Rv.OPAQUE, data)
    return tibrv.Field(name, _TO_RV[kind], data)


def _about_hint(field: tibmsg.Field) -> str:
    number = field.hint_number
    if number is None:
        return "a hint that is no number is lost"
    what = f"hint {number} is lost"
    if field.scaled is not None:
        return f"{what}: the decimal becomes a plain real"
    if field.type == _Tib.STRING and number in (*_DATES, *_TIMES, _ENUM):
        kind = "date" if number in _DATES else "time" if number in _TIMES else "enum"
        return f"{what}: the {kind} becomes plain text"
    return what


def _noise(field: tibmsg.Field) -> str | None:
    """What a hinted real has that its decimal does not, if the two differ."""
    stated = field.value
    if field.scaled is None or not isinstance(stated, Decimal) or not stated.is_finite():
        return None
    real = read(Kind.REAL, field.data)
    assert isinstance(real, float)  # otherwise there would be no decimal
    plain = scale(real, HINT_NONE, single=len(field.data) == _SINGLE)
    assert plain is not None  # that hint states a decimal
    if plain.value == stated:
        return None
    return f"the real is {plain.text}, where the decimal is {stated}"


def _with_nul(data: bytes) -> bytes:
    return data if data.endswith(b"\0") else data + b"\0"


def _to_array(name: str | None, field: tibmsg.Field, path: str, losses: Losses) -> tibrv.Field:
    kind, size, data = field.element_type, field.element_size or 0, field.data
    elements = field.elements
    used = len(elements) * size
    code = None if kind is None else _ARRAYS.get((Kind(kind), size))
    if code is not None:
        made = tibrv.Field(name, code, data[:used])
    elif kind == _Tib.STRING and size:
        texts = [text_bytes(str(element)) for element in elements]
        if b"".join(text.ljust(size, b"\0") for text in texts) != data[:used]:
            losses.add(path, LossKind.BYTES, "bytes after the end of a text are lost")
        made = tibrv.Field.of(name, elements, type=_Rv.ARRAY_STR)
    elif kind == _Tib.BOOLEAN and size in INT_SIZES:
        losses.add(path, LossKind.TYPE, "an array of booleans becomes one of numbers")
        made = tibrv.Field(name, _Rv.ARRAY_I8, bytes(map(bool, elements)))
    elif kind == _Tib.IPDATA and size in _ADDRESSES:
        losses.add(path, LossKind.TYPE, "an array of ip data becomes one of numbers")
        made = tibrv.Field(name, _ADDRESSES[size], data[:used])
    else:
        of = "nothing" if kind is None else kind.name.lower()
        losses.add(path, LossKind.TYPE, f"an array of {of} of {size} bytes becomes opaque")
        return tibrv.Field(name, _Rv.OPAQUE, data)
    if used < len(data):
        losses.add(path, LossKind.BYTES, "bytes after the last element are lost")
    return made


# --- TibrvMsg → TibMsg -------------------------------------------------------------------------


def from_tibrv(message: tibrv.Message, losses: Losses) -> tibmsg.Message:
    """The message without field ids, and with plain types for what TibMsg does not have."""
    return tibmsg.Message(_from_fields(message.fields, "", 0, losses))


def _from_fields(
    fields: tuple[tibrv.Field, ...], outer: str, depth: int, losses: Losses
) -> tuple[tibmsg.Field, ...]:
    made = []
    for path, field in steps(fields, outer):
        found = _from_field(field, path, depth, losses)
        if found is not None:
            made.append(found)
    return tuple(made)


def _from_field(field: tibrv.Field, path: str, depth: int, losses: Losses) -> tibmsg.Field | None:
    name, kind = fit_name(field.name, path, losses), field.type
    if field.fid is not None:
        losses.add(path, LossKind.FID, f"field id {field.fid} is lost")
    if kind in (_Rv.MESSAGE, _Rv.ARRAY_MSG):
        return _from_nested(name, field, path, depth, losses)
    if kind in ARRAY_CODES:
        return _from_numbers(name, field, path, losses)
    if kind == _Rv.ARRAY_STR:
        return _from_strings(name, field, path, losses)
    scalar = KINDS.get(kind)
    if scalar is not None and kind != _Rv.ENCRYPTED:
        data = _with_nul(field.data) if scalar is Kind.STRING else field.data
        return tibmsg.Field(name, _Tib(scalar), data)
    value = field.value
    if isinstance(value, dt.datetime):
        value = value.isoformat().replace("+00:00", "Z")
    # A text with a NUL inside would end there.
    if isinstance(value, str) and "\0" not in value:
        losses.add(path, LossKind.TYPE, f"{kind.name.lower()} becomes plain text")
        return tibmsg.Field(name, _Tib.STRING, text_bytes(value) + b"\0")
    losses.add(path, LossKind.TYPE, f"{kind.name.lower()} becomes opaque")
    return tibmsg.Field(name, _Tib.OPAQUE, field.data)


def _from_nested(
    name: str | None, field: tibrv.Field, path: str, depth: int, losses: Losses
) -> tibmsg.Field | None:
    is_array = field.type == _Rv.ARRAY_MSG
    if depth + 1 + is_array > MAX_DEPTH:
        losses.add(path, LossKind.FIELD, f"left out: nested deeper than {MAX_DEPTH}")
        return None
    if not is_array:
        return tibmsg.Field(
            name, _Tib.MESSAGE, fields=_from_fields(field.fields, path, depth + 1, losses)
        )
    losses.add(path, LossKind.TYPE, "an array of messages becomes a message of messages")
    inner = []
    for index, message in enumerate(field.messages):
        fields = _from_fields(message.fields, f"{path}.messages[{index}]", depth + 2, losses)
        inner.append(tibmsg.Field(None, _Tib.MESSAGE, fields=fields))
    return tibmsg.Field(name, _Tib.MESSAGE, fields=tuple(inner))


def _from_numbers(name: str | None, field: tibrv.Field, path: str, losses: Losses) -> tibmsg.Field:
    kind, size, _ = ARRAY_CODES[field.type]
    used = len(field.data) // size * size
    if used < len(field.data):
        losses.add(path, LossKind.BYTES, "bytes after the last element are lost")
    hint = tibmsg.Hint(_Tib(kind), size)
    return tibmsg.Field(name, _Tib.ARRAY, field.data[:used], hint)


def _from_strings(
    name: str | None, field: tibrv.Field, path: str, losses: Losses
) -> tibmsg.Field | None:
    texts = [text_bytes(text) for text in field.elements]
    size = max(map(len, texts), default=0) + 1
    if size * len(texts) > MAX_PADDED:
        losses.add(path, LossKind.FIELD, f"left out: padded it has more than {MAX_PADDED} bytes")
        return None
    data = b"".join(text.ljust(size, b"\0") for text in texts)
    return tibmsg.Field(name, _Tib.ARRAY, data, tibmsg.Hint(_Tib.STRING, size))
