"""Checks of the QForm vectors, for the verifier of the TIB family and of messages inside others."""

from __future__ import annotations

import json
import struct
from typing import Any

import wireloom
from wireloom.errors import DecodeError, WireloomError
from wireloom.formats import qform
from wireloom.formats._tib.scalars import from_json
from wireloom.formats.qform.fields import KINDS
from wireloom.formats.qform.jsonform import field_to_dict
from wireloom.formats.qform.options import resolve
from wireloom.framing import Frame, scan
from wireloom.testing.vectors import Case
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["check_qform", "check_unwrapped", "from_vector", "to_vector"]

_GOOD_KEYS = frozenset(
    ("format", "name", "source", "canonical", "lenient", "note", "hex", "dict", "fields")
)
_BAD_KEYS = frozenset(
    ("format", "name", "malformed", "why", "hex", "dict", "reject_stage", "error", "fields_ok")
) | {"note", "quirk"}
_UNWRAPPED_KEYS = frozenset(("format", "dict", "fields"))

_CODES = {
    "BAD_FIELD_BOUNDS": "bounds",
    "UNKNOWN_FID": "unknown_fid",
    "NULL_FID": "null_fid",
    "NO_DICTIONARY": "no_dictionary",
}
"""What the vectors call an error → our code for it."""


class _Differs(Exception):
    """The codec does not agree with a case; the text says how."""


def check_qform(case: Case) -> str | None:
    """None when the codec agrees with a case of format ``qform``, else what differs."""
    return _guarded(_check_malformed if case.get("malformed") else _check_good, case)


def check_unwrapped(case: Case, data: bytes) -> str | None:
    """None when `data`, found in another message, is the QForm that ``unwrapped`` describes."""
    return _guarded(_check_inside, case, data)


def _guarded(check: Any, *arguments: Any) -> str | None:
    try:
        check(*arguments)
    except _Differs as difference:
        return str(difference)
    except WireloomError as error:
        return f"{type(error).__name__}: {error}"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"the case is not of the known schema: {error!r}"
    return None


def to_vector(field: qform.Field) -> Case:
    """The field as the vectors describe it, with every key that it can have."""
    own = field_to_dict(field)
    for key in ("max_size", "primitive", "meaning", "pad"):
        own.pop(key, None)
    own["wire_fid"] = field.wire_fid
    own["wire_len"] = field.wire_len
    if "value_hex" not in own or isinstance(field.wire_value, str):
        own["raw"] = field.data.hex()
    return own


def from_vector(dictionary: qform.Dictionary, vector: Case) -> qform.Field:
    """The field that a vector describes, made from its value and not from its bytes.

    Raises:
        KeyError: it has no value, or the dictionary no such field.
        EncodeError: the value does not fit.
    """
    entry = dictionary.by_fid[vector["fid"]]
    if entry.tss_type is None:
        raise KeyError(f"{entry.name} is a form")
    value: Any
    if "value_hex" in vector:
        value = bytes.fromhex(vector["value_hex"])
    else:
        value = from_json(KINDS[entry.tss_type], vector["value"])
    offset, hint = vector.get("partial_offset"), vector.get("hint")
    return qform.Field.of(entry, value, offset=offset, hint=hint)


def _equal(what: str, found: object, expected: object) -> None:
    if found != expected or type(found) is not type(expected):
        raise _Differs(f"{what}: expected {_brief(expected)}, got {_brief(found)}")


def _brief(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


def _known(what: str, found: Any, known: frozenset[str]) -> None:
    unknown = set(found) - known
    if unknown:
        raise _Differs(f"{what} has an unknown key {min(unknown)!r}")


def _dictionary(case: Case) -> qform.Dictionary | None:
    text = case.get("dict")
    if text is None:
        return None
    # As text, whatever it looks like: a case never names a file.
    return resolve(text.encode())


def _check_good(case: Case) -> None:
    _known("the case", case, _GOOD_KEYS)
    data = bytes.fromhex(case["hex"])
    dictionary = _dictionary(case)
    message = _check_message(data, dictionary, case["fields"])
    encoded = message.encode()
    if case["canonical"]:
        _equal("encode(decode)", encoded, data)
        _check_canonical(data, dictionary, case["fields"])


def _check_inside(case: Case, data: bytes) -> None:
    _known("unwrapped", case, _UNWRAPPED_KEYS)
    _equal("format", case["format"], "qform")
    message = _check_message(data, _dictionary(case), case["fields"])
    _equal("encode(decode)", message.encode(), data)


def _check_message(
    data: bytes, dictionary: qform.Dictionary | None, vectors: list[Case]
) -> qform.Message:
    """Decode, encode, JSON, outline and framing all agree with the expected fields."""
    message = wireloom.decode(data, "qform", dictionary=dictionary)
    assert isinstance(message, qform.Message)
    _equal("number of fields", len(message.fields), len(vectors))
    for index, (field, vector) in enumerate(zip(message.fields, vectors, strict=True)):
        _check_field(f"fields[{index}]", field, vector)
    size = 8 + int.from_bytes(data[4:8], "big")
    _equal("encode(decode)", message.encode(), data[:size])
    again = wireloom.from_dict(json.loads(json.dumps(message.to_dict())))
    _equal("from_dict(to_dict)", again, message)
    tree = wireloom.outline(data, "qform", dictionary=dictionary)
    if any(node.error for _, node in tree.walk()):
        raise _Differs("the outline shows an error")
    framer = qform.FORMAT.framer(limits=DEFAULT_LIMITS, strict=False, dictionary=dictionary)
    frames = list(scan(framer, data[:size]))
    _equal("frames", frames, [Frame("qform", 0, data[:size])])
    return message


def _check_field(path: str, field: qform.Field, vector: Case) -> None:
    found = to_vector(field)
    for key in sorted({*found, *vector}):
        if key not in vector:
            if key != "raw":  # given for short data only
                raise _Differs(f"{path}.{key} is not in the vector")
        elif key not in found:
            raise _Differs(f"{path}.{key} is not in the field")
        elif key == "value":
            _check_value(f"{path}.value", field, found["value"], vector["value"])
        elif key == "md":
            # What the reference got wrong is for information only.
            expected = {k: v for k, v in vector["md"].items() if not k.startswith("raimd_")}
            _equal(f"{path}.md", found["md"], expected)
        else:
            _equal(f"{path}.{key}", found[key], vector[key])


def _check_value(path: str, field: qform.Field, found: Any, expected: Any) -> None:
    if isinstance(found, float) and isinstance(expected, (int, float)):
        # Bit for bit, so that -0.0 differs from 0.0; a single is given in single's digits.
        code = ">f" if field.size in (4, 5) else ">d"
        if struct.pack(code, found) == struct.pack(code, expected):
            return
    _equal(path, found, expected)


def _check_canonical(data: bytes, dictionary: qform.Dictionary | None, vectors: list[Case]) -> None:
    if dictionary is None:
        raise _Differs("a canonical case needs a dictionary")
    built = qform.Message(tuple(from_vector(dictionary, vector) for vector in vectors))
    _equal("encode(fields)", built.encode(), data)
    wireloom.decode(data, "qform", dictionary=dictionary, strict=True)


def _check_malformed(case: Case) -> None:
    _known("the case", case, _BAD_KEYS)
    data = bytes.fromhex(case["hex"])
    dictionary = _dictionary(case)
    try:
        wireloom.decode(data, "qform", dictionary=dictionary)
    except DecodeError as error:
        _check_error(case, error)
    else:
        if case.get("quirk"):
            return
        raise _Differs(f"accepted, expected {case.get('error')} at {case['reject_stage']}")
    tree = wireloom.outline(data, "qform", dictionary=dictionary)
    if not any(node.error for _, node in tree.walk()):
        raise _Differs("the outline shows no error")
    shown = [node for node in tree.children if node.children]
    _equal("fields before the error", len(shown), case["fields_ok"])


def _check_error(case: Case, error: DecodeError) -> None:
    stage, code = case["reject_stage"], _CODES.get(case.get("error", ""))
    if code is not None:
        _equal("error code", error.code, code)
    inside = error.path.startswith("fields[") or error.code == "no_dictionary"
    if inside == (stage == "header"):
        raise _Differs(f"rejected at {error.path or 'the header'}, expected stage {stage}: {error}")
    if error.path:
        _equal("failing field", error.path, f"fields[{case['fields_ok']}]")
