"""TibMsg ↔ QForm: fields are matched by name, and converted to the type that the dictionary has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any, Final

from wireloom.conversion.losses import Losses, LossKind, cut_text, fit_name, steps
from wireloom.errors import EncodeError
from wireloom.formats import qform, tibmsg
from wireloom.formats._tib.scalars import Kind, text_bytes, text_of
from wireloom.formats._tib.texts import parse_time
from wireloom.formats._tib.values import BLANK, Date, Resolution, Time
from wireloom.formats.qform.dictionary.model import MAX_FID
from wireloom.formats.qform.fields import KINDS

__all__ = ["from_qform", "to_qform"]

_Tib, _Tss = tibmsg.FieldType, qform.TssType

_DATE, _TIME, _TIME_SECONDS = (tibmsg.Hint.of(number, 2) for number in (258, 259, 260))
_DATES, _TIMES = (256, 258), (257, 259, 260)

_INT, _REAL, _DECIMAL, _BOOLEAN = "int", "real", "decimal", "boolean"
_STRING, _DATE_TEXT, _TIME_TEXT, _OPAQUE, _IP = "string", "date", "time", "opaque", "ip data"
_NUMBERS: Final = (_INT, _REAL, _DECIMAL)
"""Types between which a number stays the same number."""

_OF_KIND: Final[Mapping[Kind, str]] = {
    Kind.STRING: _STRING,
    Kind.OPAQUE: _OPAQUE,
    Kind.BOOLEAN: _BOOLEAN,
    Kind.INT: _INT,
    Kind.UINT: _INT,
    Kind.REAL: _REAL,
    Kind.IPDATA: _IP,
}
_OF_TYPE: Final[Mapping[qform.TssType, str]] = {
    _Tss.GROCERY: _DECIMAL,
    _Tss.SDATE: _DATE_TEXT,
    _Tss.STIME: _TIME_TEXT,
}


# --- QForm → TibMsg ----------------------------------------------------------------------------


def from_qform(message: qform.Message, losses: Losses) -> tibmsg.Message:
    """The message with hints for what the dictionary says."""
    made = []
    for path, field in steps(message.fields):
        name = fit_name(field.name, path, losses)
        made.append(_from_field(name, field, path, losses))
    return tibmsg.Message(tuple(made))


def _from_field(name: str | None, field: qform.Field, path: str, losses: Losses) -> tibmsg.Field:
    kind, data = KINDS[field.type], field.data
    if field.partial_offset is not None:
        return tibmsg.Field.partial(name, data, field.partial_offset)
    if field.type is _Tss.GROCERY:
        if field.hint is None:
            losses.add(path, LossKind.TYPE, f"a GROCERY of {len(data)} bytes becomes opaque")
            return tibmsg.Field(name, _Tib.OPAQUE, data)
        return tibmsg.Field(name, _Tib.REAL, data[:-1], tibmsg.Hint.of(field.hint, 1))
    if kind is not Kind.STRING:
        return tibmsg.Field(name, _Tib(kind), data)
    text = data.split(b"\0", 1)[0]
    if any(data[len(text) :]):
        losses.add(path, LossKind.BYTES, "bytes after the end of the text are lost")
    hint = None
    if field.type is _Tss.SDATE:
        hint = _DATE
    elif field.type is _Tss.STIME:
        time = field.value
        minutes = isinstance(time, Time) and time.resolution is Resolution.MINUTE
        hint = _TIME if minutes else _TIME_SECONDS
    return tibmsg.Field(name, _Tib.STRING, text + b"\0", hint)


# --- TibMsg → QForm ----------------------------------------------------------------------------


def to_qform(
    message: tibmsg.Message, dictionary: qform.Dictionary, losses: Losses
) -> qform.Message:
    """The fields that are in the dictionary, in its types."""
    made = []
    for path, field in steps(message.fields):
        before = len(losses)
        try:
            made.append(_to_field(field, _entry(field, dictionary), path, losses))
        except EncodeError as error:
            del losses[before:]  # losses within a field that is left out do not matter
            losses.add(path, LossKind.FIELD, f"left out: {error.reason}")
    return qform.Message(tuple(made))


def _entry(field: tibmsg.Field, dictionary: qform.Dictionary) -> qform.Entry:
    entry = None if field.name is None else dictionary.by_name.get(field.name)
    if entry is None:
        raise EncodeError("it is not in the dictionary")
    if entry.tss_type is None:
        raise EncodeError("the dictionary has a form of this name")
    if not 0 <= entry.fid <= MAX_FID or dictionary.by_fid[entry.fid] != entry:
        raise EncodeError(f"its fid {entry.fid} means another field, or none")
    return entry


def _to_field(field: tibmsg.Field, entry: qform.Entry, path: str, losses: Losses) -> qform.Field:
    if field.type in (_Tib.MESSAGE, _Tib.ARRAY):
        raise EncodeError(f"a QForm has no {field.type.name.lower()}")
    if field.type == _Tib.PARTIAL:
        if not entry.is_partial:
            raise EncodeError("a patch, for which the dictionary has a whole value")
        return qform.Field.of(entry, field.data, offset=field.partial_offset)
    if entry.is_partial:
        if field.type not in (_Tib.STRING, _Tib.OPAQUE):
            raise EncodeError("no text, for which the dictionary has a patch")
        losses.add(path, LossKind.PARTIAL, "a whole value becomes a patch at offset 0")
        data = field.data.split(b"\0", 1)[0] if field.type == _Tib.STRING else field.data
        return qform.Field.of(entry, data)
    before = len(losses)
    made = _Fit(field, entry, path, losses).make()
    if len(losses) == before and not _same(made.value, field.value):
        losses.add(path, LossKind.VALUE, "the value has changed")
    return made


class _Fit:
    """One field on its way into a dictionary entry."""

    def __init__(self, field: tibmsg.Field, entry: qform.Entry, path: str, losses: Losses) -> None:
        assert entry.tss_type is not None
        self.field = field
        self.entry = entry
        self.path = path
        self.losses = losses
        self.kind = entry.tss_type
        self.target = _OF_TYPE.get(entry.tss_type) or _OF_KIND[KINDS[entry.tss_type]]
        self.source = _family(field)

    def lost(self, kind: LossKind, text: str) -> None:
        self.losses.add(self.path, kind, text)

    def make(self) -> qform.Field:
        """The field in the target's type.

        Raises:
            EncodeError: there is nothing sensible to write.
        """
        field, entry, number = self.field, self.entry, self.field.hint_number
        is_real = field.type == _Tib.REAL and len(field.data) == entry.size - 1
        if is_real and self.kind is _Tss.GROCERY and number is not None and 0 <= number <= 0xFF:
            return qform.Field(entry, field.data + bytes((number,)))
        self.note_type()
        self.note_hint()
        same = KINDS[self.kind].value == field.type and len(field.data) == entry.size
        if same and self.target in (_INT, _REAL) and field.value is not BLANK:
            return qform.Field(entry, field.data)  # also what has no value; a NaN keeps its bits
        value = self.value()
        if self.target == _OPAQUE:
            return self.opaque(value)
        try:
            return qform.Field.of(entry, value)
        except EncodeError as error:
            return self.approximate(value, error)

    def note_type(self) -> None:
        numbers = self.source in _NUMBERS and self.target in _NUMBERS
        texts = self.source in (_DATE_TEXT, _TIME_TEXT) and self.target == _STRING
        if self.source != self.target and not numbers and not texts:
            self.lost(LossKind.TYPE, f"{self.source} becomes {self.kind.name}")

    def note_hint(self) -> None:
        field = self.field
        typed = self.source == self.target and self.source in (_DECIMAL, _DATE_TEXT, _TIME_TEXT)
        if field.hint is not None and not typed:
            number = field.hint_number
            what = "a hint that is no number" if number is None else f"hint {number}"
            self.lost(LossKind.HINT, f"{what} is lost: the dictionary has {self.kind.name}")
        if field.type == _Tib.STRING and any(field.data[len(text_bytes(text_of(field.data))) :]):
            self.lost(LossKind.BYTES, "bytes after the end of the text are lost")

    def value(self) -> Any:
        """What to write, of a type that `qform.Field.of` takes."""
        value, source, target = self.field.value, self.source, self.target
        if isinstance(value, bytes):
            if source != _OPAQUE and target != _OPAQUE:
                raise EncodeError(f"{source} of {len(value)} bytes has no value")
            if target not in (_OPAQUE, _STRING):
                raise EncodeError(f"opaque bytes are no {target}")
        elif isinstance(value, IPv4Address):
            value = int(value) if target == _INT else str(value)
        elif value is BLANK and target == _REAL:
            self.lost(LossKind.VALUE, "a blank becomes NaN")
            value = math.nan
        elif isinstance(value, Date):
            # As it is spelled, if there is room for that.
            text = text_of(self.field.data)
            fits = target == _STRING or len(text) <= self.entry.size
            value = text if fits and target != _TIME_TEXT else value
        elif isinstance(value, Time) and target == _STRING:
            value = text_of(self.field.data)
        elif isinstance(value, str) and target == _TIME_TEXT and len(value) > self.entry.size:
            value = parse_time(value) or value  # a time can be cut, a text cannot
        return value

    def opaque(self, value: Any) -> qform.Field:
        """Bytes in a field of bytes.

        Raises:
            EncodeError: it is not bytes, or too long: a part of it would be worthless.
        """
        data = self.field.data if self.source == _IP else value
        if isinstance(data, str):
            data = text_bytes(data)
        if not isinstance(data, bytes):
            raise EncodeError(f"{self.source} is no opaque")
        if len(data) < self.entry.size and self.entry.is_fixed:
            self.lost(LossKind.BYTES, "zero bytes are added up to the dictionary's size")
        return qform.Field.of(self.entry, data)

    def approximate(self, value: Any, error: EncodeError) -> qform.Field:
        """The nearest thing to a value that does not fit.

        Raises:
            EncodeError: a part of it would be worse than nothing.
        """
        entry = self.entry
        if isinstance(value, str) and self.target == _STRING and self.source != _IP:
            self.lost(LossKind.TEXT, f"the text is cut to {entry.size} bytes")
            return qform.Field.of(entry, cut_text(text_bytes(value), entry.size))
        if isinstance(value, Time):
            self.lost(LossKind.VALUE, f"a time is cut to {entry.size} bytes")
            return qform.Field.of(entry, value, lenient=True)
        if isinstance(value, (int, Decimal)) and self.target in (_REAL, _DECIMAL):
            self.lost(LossKind.VALUE, f"a number is rounded to {self.kind.name}")
            return qform.Field.of(entry, value, lenient=True)
        raise error


def _family(field: tibmsg.Field) -> str:
    """The kind of value in a field, by its type and hint."""
    if field.type == _Tib.REAL and field.scaled is not None:
        return _DECIMAL
    if field.type == _Tib.STRING and field.hint_number in (*_DATES, *_TIMES):
        return _DATE_TEXT if field.hint_number in _DATES else _TIME_TEXT
    return _OF_KIND[Kind(field.type)]


def _same(made: Any, given: Any) -> bool:
    """Whether two values are the same number, text, bytes, date or time."""
    if isinstance(made, Time) and isinstance(given, Time):
        return (made.is_null, made.day_ns) == (given.is_null, given.day_ns)
    if isinstance(made, (float, Decimal)) and isinstance(given, (int, float, Decimal)):
        if math.isnan(made) or math.isnan(given):
            return math.isnan(made) and math.isnan(given)
        if isinstance(made, Decimal) != isinstance(given, Decimal):
            return float(made) == float(given)
        return made == given
    return isinstance(made, bytes) == isinstance(given, bytes) and bool(made == given)
