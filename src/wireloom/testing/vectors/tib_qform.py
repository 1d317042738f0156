"""What is particular to QForm vectors: every case brings the dictionary that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from wireloom.errors import DecodeError
from wireloom.formats._tib.scalars import from_json
from wireloom.formats.qform import FORMAT, Dictionary, Field
from wireloom.formats.qform import Message as QformMessage
from wireloom.formats.qform.fields import KINDS
from wireloom.formats.qform.jsonform import field_to_dict
from wireloom.formats.qform.options import resolve
from wireloom.framing import Frame, scan
from wireloom.messages import Json, Message
from wireloom.testing.vectors import Case
from wireloom.testing.vectors.tib import Family, need, without
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["FAMILY", "QformFamily"]

_CODES = {
    "BAD_FIELD_BOUNDS": "bounds",
    "UNKNOWN_FID": "unknown_fid",
    "NULL_FID": "null_fid",
    "NO_DICTIONARY": "no_dictionary",
}
"""What the vectors call an error → our code for it."""

_OWN = ("max_size", "primitive", "meaning", "pad")
"""Keys of our JSON that no case has."""


class QformFamily(Family):
    """QForm cases."""

    format: ClassVar[str] = "qform"

    def options(self, case: Case) -> dict[str, Any]:
        """The case's dictionary; None where it has none, which is an error of its own."""
        return {"dictionary": _dictionary(case)}

    def fields(self, message: Message) -> Sequence[Any]:
        """The fields of a decoded message."""
        assert isinstance(message, QformMessage)
        return message.fields

    def view(self, field: Any) -> Json:
        """A field with all the keys that a case may have."""
        assert isinstance(field, Field)
        out = without(field_to_dict(field), _OWN)
        out["wire_fid"] = field.wire_fid
        out["wire_len"] = field.wire_len
        out["raw"] = field.data.hex()
        return out

    def build(self, case: Case) -> Message:
        """The message made from the case's fields, by value and dictionary."""
        dictionary = _dictionary(case) or Dictionary()
        return QformMessage(tuple(_make(dictionary, field) for field in case["fields"]))

    def is_single(self, expected: Json) -> bool:
        """Whether the real of a field is four bytes, so that JSON has fewer digits."""
        return bool(expected["size"] == (5 if expected["type"] == "grocery" else 4))

    def check_good(self, case: Case, data: bytes) -> None:
        """Compare a case that must be read; strict readers must accept what writers produce."""
        super().check_good(case, data)
        if case.get("canonical"):
            options = self.options(case)
            FORMAT.decode(data, limits=DEFAULT_LIMITS, strict=True, **options)

    def check_framing(self, data: bytes, case: Case) -> None:
        """See that messages are cut out of a stream, with and without the case's dictionary."""
        super().check_framing(data, case)
        framer = FORMAT.framer(limits=DEFAULT_LIMITS, **self.options(case))
        records = list(scan(framer, data + data))
        wanted = [Frame("qform", 0, data), Frame("qform", len(data), data)]
        need(records == wanted, f"with the dictionary: {len(records)} records")

    def check_stage(self, case: Case, error: DecodeError) -> None:
        """See that the error is where the case says, and what it says."""
        code = _CODES.get(case.get("error", ""), error.code)
        need(error.code == code, f"refused as {error.code}, not {code}: {error}")
        if code == "no_dictionary":
            # Nothing was read, and no field is to blame.
            need(case["reject_stage"] == "iterate" and case["fields_ok"] == 0, "no dictionary")
        else:
            super().check_stage(case, error)


def _dictionary(case: Case) -> Dictionary | None:
    text = case.get("dict")
    # As bytes, which are always a text: a case never names a file.
    return None if text is None else resolve(text.encode())


def _make(dictionary: Dictionary, expected: Json) -> Field:
    """The field that a case describes, made from its value and not from its bytes."""
    entry = dictionary.by_fid[expected["fid"]]
    need(entry.tss_type is not None, f"{entry.name} is a form")
    assert entry.tss_type is not None
    value: Any
    if "value_hex" in expected:
        value = bytes.fromhex(expected["value_hex"])
    else:
        value = from_json(KINDS[entry.tss_type], expected["value"])
    offset, hint = expected.get("partial_offset"), expected.get("hint")
    return Field.of(entry, value, offset=offset, hint=hint)


FAMILY = QformFamily()
