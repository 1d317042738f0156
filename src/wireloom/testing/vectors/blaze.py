"""Blaze vectors: a model, frames with all their fields, malformed frames, streams."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

from wireloom.errors import WireloomError
from wireloom.formats.blaze import (
    DIALECTS,
    FORMAT,
    PACKETS,
    BlazePacket,
    Encoding,
    Model,
    ModelBuilder,
    NClassValue,
    SubscriptionEvent,
    decode_nclass,
    encode_nclass,
    new_value,
)
from wireloom.formats.blaze.dialects import DOCUMENT
from wireloom.formats.blaze.frames import FORMS, RULES, form_at
from wireloom.formats.blaze.nclass import Slot
from wireloom.framing import Frame, Splitter, scan
from wireloom.testing.vectors import Case
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["Verifier", "model_of"]

_TYPES = {
    "bool": "bool",
    "int16": "int_16",
    "uint16": "uint_16",
    "int32": "int_32",
    "uint32": "uint_32",
    "int64": "int_64",
    "uint64": "uint_64",
    "float32": "float_32",
    "float64": "float_64",
    "char": "ascii",
    "str": "ascii",
    "byte": "byte",
}
_BY_NAME = {cls.name: cls for cls in PACKETS.values()}
_OF_A_SESSION = re.compile(r"TXKO 20[0-6]|SBSKO 40[01]|DSCOND|CONRES 3")
_NOT_FIELDS = {"prover", "unused", "dialect", "nclass", "body"}


class _Wrong(Exception):
    """What differs."""


class Verifier:
    """Checks the cases of one file, whose first line declares the model."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._dialect = DOCUMENT

    def accepts(self, case: Case) -> bool:
        """Whether the case belongs to this family."""
        match case.get("kind"):
            case "schema":
                return "nclasses" in case
            case "frame":
                return "pkthdr" in case
            case "malformed":
                return "why" in case and "transport" not in case and "format" not in case
            case "stream":
                return "frame_lens" in case
        return False

    def check(self, case: Case) -> str | None:
        """None when the codec agrees with the case, else what differs, in one line."""
        try:
            match case["kind"]:
                case "schema":
                    self._model = model_of(case)
                    self._dialect = _dialect(case, DOCUMENT)
                case "frame":
                    _check_frame(case, self._model, _dialect(case, self._dialect))
                case "malformed":
                    _check_malformed(case, self._model, _dialect(case, self._dialect))
                case _:
                    _check_stream(case)
        except _Wrong as wrong:
            return str(wrong)
        except (WireloomError, KeyError, TypeError, ValueError, AttributeError) as error:
            return f"{type(error).__name__}: {error}"
        return None


def _expect(what: str, got: object, wanted: object) -> None:
    if type(got) is not type(wanted) or got != wanted:
        raise _Wrong(f"{what}: got {got!r}, expected {wanted!r}")


def _dialect(case: Case, otherwise: str) -> str:
    """The dialect that a case names in its own words; "seed" is the document."""
    named = str(case.get("dialect", otherwise))
    return next((name for name in DIALECTS if name in named), DOCUMENT)


# --- the model ----------------------------------------------------------------------------------


def model_of(case: Case) -> Model:
    """The model that a case of the kind `schema` declares."""
    builder = ModelBuilder()
    enums = case.get("enums", {})
    for name, members in enums.items():
        enum = builder.enum(name)
        for member, value in members.items():
            enum.member(member, value)
    # Fields say only that they are enums; which one does not matter on the wire.
    any_enum = next(iter(enums), "int_32")
    base = case.get("index_base", 1)
    for name, declared in case["nclasses"].items():
        nclass = builder.nclass(name, declared["id"])
        for place, (index, field, kind, *size) in enumerate(sorted(declared["fields"]), base):
            _expect(f"index of {name}.{field}", index, place)
            kind = any_enum if kind.removesuffix("[]") == "enum" else kind.removesuffix("[]")
            nclass.field(field, _TYPES.get(kind, kind), *size)
        if "key" in declared:
            nclass.key(1, *declared["key"], primary=True)
    return builder.build(first_index=base)


# --- frames -------------------------------------------------------------------------------------


def _check_frame(case: Case, model: Model | None, dialect: str) -> None:
    data = bytes.fromhex(case["hex"])
    _expect("total_len", len(data), case["total_len"])
    _check_header(data, case)
    packet = FORMAT.decode(data, dialect=dialect)
    _expect("packet", packet.type_name, case["packet"])
    _check_fields(packet, case, data)
    _check_sender(packet, case)
    _expect("encode", packet.encode().hex(), data.hex())
    _check_dict(packet)
    body = case.get("body")
    given = None
    if body is not None:
        given = _check_body(packet, body, data, model)
    elif getattr(packet, "body", None):
        raise _Wrong("the packet has a body, the case has none")
    _expect("encode from fields", _build(case, given).encode().hex(), data.hex())
    for chunks in _chunkings(data):
        _expect_frames(chunks, [data])


def _check_header(data: bytes, case: Case) -> None:
    form = form_at(data, 0, len(data))
    word = int.from_bytes(data[:4], "big")
    for name, wanted in case["pkthdr"].items():
        _, low, mask = form.fields[name.lower()]
        _expect(name, word >> low & mask, wanted)


def _check_fields(packet: BlazePacket, case: Case, data: bytes) -> None:
    fields = {name.lower(): wanted for name, wanted in case["fields"].items()}
    for name, wanted in fields.items():
        if name == "pktlen":
            _expect(name, len(data), wanted)
            continue
        got = getattr(packet, name)
        if isinstance(wanted, list):
            number, label = wanted
            _expect(name, int(got), number)
            _check_label(name, got, label)
        else:
            _expect(name, int(got), wanted)
    present = {name for name in packet.codec.attributes if getattr(packet, name) is not None}
    if unchecked := present - _NOT_FIELDS - set(fields):
        raise _Wrong(f"the case does not have {sorted(unchecked)}")


def _check_label(name: str, got: int, label: str | None) -> None:
    """Compare a number's name; where the document's wording is longer, one word of it suffices."""
    if not isinstance(got, IntEnum) or label is None or got.name == label:
        return
    others = {member.name for member in type(got)} - {got.name}
    if label in others or not set(label.split("_")) & set(got.name.split("_")):
        raise _Wrong(f"{name}: {int(got)} is {got.name}, expected {label}")


def _check_sender(packet: BlazePacket, case: Case) -> None:
    sender = case.get("sender")
    if sender is None:
        return
    if packet.sender == "both":
        connid = getattr(packet, "connid", None)
        _expect("sender", "server" if connid is None else "client", sender)
    else:
        _expect("sender", packet.sender, sender)


def _check_dict(packet: BlazePacket) -> None:
    again = FORMAT.from_dict(packet.to_dict())
    _expect("from_dict(to_dict())", again, packet)
    _expect("encode after to_dict", again.encode().hex(), packet.encode().hex())


def _encoding(packet: BlazePacket, body: Mapping[str, Any]) -> Encoding:
    number, name = body.get("enctyp_from_sbsreq") or (getattr(packet, "enctyp", 0), None)
    encoding = DIALECTS[packet.dialect].encoding(number)
    if encoding is None:
        raise _Wrong(f"{number} is not an encoding")
    if name is not None:
        _expect("encoding", encoding.name, name)
    return encoding


def _check_body(
    packet: BlazePacket, body: Mapping[str, Any], data: bytes, model: Model | None
) -> bytes:
    """Check the body in both directions; gives what was written from the values."""
    if model is None:
        raise _Wrong("a body, but no schema line before it")
    if unknown := set(body) - {"nclass", "hex", "values", "enctyp_from_sbsreq", "note"}:
        raise _Wrong(f"unknown keys in the body: {sorted(unknown)}")
    name, raw = body["nclass"], bytes.fromhex(body["hex"])
    encoding = _encoding(packet, body)
    subscriptions = {getattr(packet, "sbsrid", 0): (name, encoding)}
    options: Any = {"model": model, "dialect": packet.dialect, "subscriptions": subscriptions}
    value = FORMAT.decode(data, **options).nclass
    if value is None:
        raise _Wrong("the body was not decoded")
    _expect("nclass", value.nclass.name, name)
    _expect("body", getattr(packet, "body", None), raw)
    _check_values(name, value, body["values"], encoding)
    written = encode_nclass(new_value(model, name, _plain(value, body["values"]), encoding))
    _expect("body from values", written.hex(), raw.hex())
    again = new_value(model, name, value.to_values(), encoding)
    _expect("body from JSON", encode_nclass(again).hex(), raw.hex())
    _expect("body again", encode_nclass(decode_nclass(model, name, raw, encoding)), raw)
    return written


def _plain(value: NClassValue, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The case's values as `new_value` takes them: byte arrays may be in hex, enums be pairs."""
    out: dict[str, Any] = {}
    for name, item in wanted.items():
        slot = value.layout.by_name.get(name)
        if slot is not None and slot.is_array and isinstance(item, str):
            item = bytes.fromhex(item)
        elif slot is not None and slot.enum is not None and not slot.is_array:
            item = item[0] if isinstance(item, list) else item
        elif slot is not None and slot.layout is not None:
            zero = NClassValue(slot.layout, {}, value.encoding)
            if slot.is_array:
                items = item.items() if isinstance(item, dict) else enumerate(item)
                item = {index: _plain(zero, element) for index, element in items}
            else:
                item = _plain(zero, item)
        out[name] = item
    return out


def _check_values(path: str, value: NClassValue, wanted: Mapping[str, Any], kind: Encoding) -> None:
    """Compare an object with the case. Only a delta distinguishes absent from zero."""
    slots = value.layout.by_name
    keys = {key if key in slots else key.removesuffix("_hex"): key for key in wanted}
    for name in dict.fromkeys([*value, *keys]):
        where = f"{path}.{name}"
        if kind is Encoding.INDEXDELTA:
            _expect(f"{where} is present", name in value, name in keys)
        got = value.read(name)
        expected = wanted[keys[name]] if name in keys else slots[name].zero(kind)
        if slots[name].is_array:
            _check_array(where, slots[name], got, expected, kind)
        else:
            _check_item(where, slots[name], got, expected, kind)


def _check_array(path: str, slot: Slot, got: Any, wanted: Any, kind: Encoding) -> None:
    if isinstance(wanted, str):
        wanted = dict(enumerate(bytes.fromhex(wanted)))
    elif isinstance(wanted, list):
        wanted = dict(enumerate(wanted))
    elements = {int(index): item for index, item in wanted.items()}
    for index in {*got, *elements}:
        where = f"{path}[{index}]"
        if kind is Encoding.INDEXDELTA:
            _expect(f"{where} is present", index in got, index in elements)
        zero = slot.zero_item(kind)
        _check_item(where, slot, got.get(index, zero), elements.get(index, zero), kind)


def _check_item(path: str, slot: Slot, got: Any, wanted: Any, kind: Encoding) -> None:
    if isinstance(got, NClassValue):
        _check_values(path, got, wanted, kind)
    elif isinstance(got, float):
        value = float(wanted)  # also from "NaN", "Infinity"
        if not (got == value or math.isclose(got, value, rel_tol=1e-6) or got != got != value):
            raise _Wrong(f"{path}: got {got!r}, expected {wanted!r}")
        if math.copysign(1, got) != math.copysign(1, value):
            raise _Wrong(f"{path}: got {got!r}, expected {wanted!r}")
    elif isinstance(got, str):
        # A zero character may be written as one; bytes that are not text are in hex.
        same = got == wanted or (not got and wanted == "\0")
        if not same and got.encode("utf-8", "surrogateescape").hex() != wanted:
            raise _Wrong(f"{path}: got {got!r}, expected {wanted!r}")
    elif slot.enum is not None and isinstance(wanted, (str, list)):
        number, name = wanted if isinstance(wanted, list) else (got, wanted)
        _expect(path, got, number)
        _expect(path, slot.to_json(got), name)
    else:
        _expect(path, got, wanted)


def _build(case: Case, body: bytes | None) -> BlazePacket:
    """The packet from the case's fields alone."""
    cls = _BY_NAME[case["packet"]]
    values: dict[str, Any] = {"prover": case["pkthdr"].get("PROVER", 1)}
    for name, wanted in case["fields"].items():
        if name != "PKTLEN":
            values[name.lower()] = wanted[0] if isinstance(wanted, list) else wanted
    if body is None and "PKTLEN" in case["fields"]:
        body = b""
    if body is not None:
        values["body"] = body
    return cls(**values)


# --- malformed ----------------------------------------------------------------------------------


def _check_malformed(case: Case, model: Model | None, dialect: str) -> None:
    data = bytes.fromhex(case["hex"])
    reaction = case.get("expect", "")
    if "connection error" in reaction:
        _expect_error(data, {})
        return
    if model is None:
        raise _Wrong("a malformed case, but no schema line before it")
    if _OF_A_SESSION.search(reaction):
        # Wrong only in the state of a session: the packet as such may be well formed.
        try:
            packet = FORMAT.decode(data, model=model, dialect=dialect)
        except WireloomError:
            return
        _expect("encode", packet.encode().hex(), data.hex())
    elif len(data) >= 8 and data[1] & 0x3F == SubscriptionEvent.code and _is_form(data):
        # The case does not say what the subscription is about: it must fail for every class.
        sbsrid = int.from_bytes(data[4:8], "big")
        for nclass in model.nclasses:
            subscriptions = {sbsrid: nclass.name}
            _expect_error(
                data, {"model": model, "dialect": dialect, "subscriptions": subscriptions}
            )
    else:
        _expect_error(data, {"model": model, "dialect": dialect})


def _is_form(data: bytes) -> bool:
    return (data[0] << 8 | data[1]) & 0x3FF in FORMS


def _expect_error(data: bytes, options: dict[str, Any]) -> None:
    try:
        packet = FORMAT.decode(data, **options)
    except WireloomError:
        return
    raise _Wrong(f"decoded without an error: {packet!r}")


# --- streams ------------------------------------------------------------------------------------


def _check_stream(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    frames: list[bytes] = []
    for size in case["frame_lens"]:
        start = sum(len(frame) for frame in frames)
        frames.append(data[start : start + size])
    _expect("stream length", len(data), sum(case["frame_lens"]))
    names = [FORMAT.decode(frame).type_name for frame in frames]
    _expect("packets", names, case["packets"])
    for chunks in _chunkings(data):
        _expect_frames(chunks, frames)


def _chunkings(data: bytes) -> Iterator[list[bytes]]:
    for size in (1, 2, 3, 5, 7, 16, 64, max(1, len(data))):
        yield [data[i : i + size] for i in range(0, len(data), size)]
    for cut in range(1, len(data)):
        yield [data[:cut], data[cut:]]


def _expect_frames(chunks: list[bytes], frames: list[bytes]) -> None:
    records = list(scan(FORMAT.framer(limits=DEFAULT_LIMITS, strict=False), chunks))
    got = [record.data for record in records if isinstance(record, Frame)]
    if got != frames or len(got) != len(records):
        raise _Wrong(f"chunks of {[len(chunk) for chunk in chunks]} bytes give {records!r}")
    splitter = Splitter(RULES)
    live: list[bytes] = []
    for chunk in chunks:
        splitter.feed(chunk)
        live.extend(splitter)
    _expect("frames of a live stream", live, frames)
