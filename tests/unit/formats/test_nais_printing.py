"""The quick way to JSON against the protobuf library's own."""

from __future__ import annotations

import json
import math
import struct
from random import Random
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool

from wireloom.formats.nais.printing import NotText, converter

_PROTO = descriptor_pb2.FieldDescriptorProto
_WHOLE = ("INT", "UINT", "SINT", "FIXED", "SFIXED")
_NUMBERS = [*(f"{kind}{bits}" for kind in _WHOLE for bits in (32, 64)), "BOOL", "FLOAT", "DOUBLE"]


def _schemas(syntax: str) -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="p", syntax=syntax)
    enum = file.enum_type.add(name="Side")
    enum.options.allow_alias = True
    for name, number in (("NONE", 0), ("BUY", 1), ("BID", 1), ("SELL", 7)):
        enum.value.add(name=name, number=number)
    message = file.message_type.add(name="All")
    kinds = [*_NUMBERS, "STRING", "BYTES", "ENUM", "MESSAGE"]
    for number, (kind, label) in enumerate(((k, m) for k in kinds for m in (1, 3)), 1):
        field = message.field.add(name=f"f{number}_{kind.lower()}", number=number, label=label)
        field.type = _PROTO.Type.Value(f"TYPE_{kind}")
        if kind in ("ENUM", "MESSAGE"):
            field.type_name = ".p.Side" if kind == "ENUM" else ".p.All"
    wide = file.message_type.add(name="Wide")
    entry = wide.nested_type.add(name="SomeEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=1, type=9)
    wide.field.add(name="some", number=1, label=3, type=11, type_name=".p.Wide.SomeEntry")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: pool.FindMessageTypeByName(f"p.{name}") for name in ("All", "Wide")}


def _value(field: Any, random: Random) -> Any:
    kind = _PROTO.Type.Name(field.type).removeprefix("TYPE_").lower()
    if kind == "float":
        return struct.unpack("<f", random.randbytes(4))[0]
    if kind == "double":
        return struct.unpack("<d", random.randbytes(8))[0]
    if kind == "bool":
        return random.random() < 0.5
    if kind == "enum":
        return random.choice([0, 1, 7])
    if kind == "string":
        return random.choice(["", "plain", 'é"\\\n', "𝄞"])
    if kind == "bytes":
        return random.randbytes(random.randrange(6))
    bits = 64 if "64" in kind else 32
    number = random.choice([0, 1, random.getrandbits(bits), (1 << bits) - 1, 1 << bits - 1])
    return number if kind.startswith(("u", "fixed")) else number - (1 << bits - 1)


def _fill(message: Any, random: Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.6:
            continue
        is_list = int(field.name[1:].partition("_")[0]) % 2 == 0
        for _ in range(random.randrange(4) if is_list else 1):
            if field.message_type is not None:
                if depth:
                    inner = getattr(message, field.name)
                    _fill(inner.add() if is_list else inner, random, depth - 1)
            elif is_list:
                getattr(message, field.name).append(_value(field, random))
            else:
                setattr(message, field.name, _value(field, random))


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_every_kind_of_field_is_as_the_library_has_it(syntax: str) -> None:
    schema = _schemas(syntax)["All"]
    made = message_factory.GetMessageClass(schema)
    convert = converter(schema)
    assert convert is not None
    random = Random(7)
    for _ in range(300):
        message = made()
        _fill(message, random, 2)
        again = made.FromString(message.SerializeToString())
        wanted = json_format.MessageToDict(again, preserving_proto_field_name=True)
        # As texts: NaN is not equal to itself, and 1 is equal to 1.0.
        assert json.dumps(convert(again)) == json.dumps(wanted)


def test_both_zeros_and_what_is_not_finite() -> None:
    schema = _schemas("proto2")["All"]
    convert = converter(schema)
    assert convert is not None
    name = next(field.name for field in schema.fields if field.name.endswith("_float"))
    for value in (0.0, -0.0, 0.0, math.inf, -math.inf, math.nan, 3.4028234663852886e38, 1e-45, 0.1):
        message = message_factory.GetMessageClass(schema)()
        setattr(message, name, value)
        wanted = json_format.MessageToDict(message, preserving_proto_field_name=True)
        assert json.dumps(convert(message)) == json.dumps(wanted)


def test_an_unknown_number_of_an_open_enum_stays_a_number() -> None:
    schema = _schemas("proto3")["All"]
    convert = converter(schema)
    assert convert is not None
    name = next(field.name for field in schema.fields if field.name.endswith("_enum"))
    message = message_factory.GetMessageClass(schema)()
    setattr(message, name, 55)
    assert convert(message) == {name: 55}


def test_a_string_that_is_no_text_is_told() -> None:
    schema = _schemas("proto2")["All"]
    convert = converter(schema)
    assert convert is not None
    field = next(field for field in schema.fields if field.name.endswith("_string"))
    raw = bytes([(field.number << 3 | 2) & 0x7F | 0x80, field.number >> 4, 1, 0xFF])
    message = message_factory.GetMessageClass(schema).FromString(raw)
    with pytest.raises(NotText):
        convert(message)


def test_what_the_library_has_rules_for_is_left_to_it() -> None:
    assert converter(_schemas("proto3")["Wide"]) is None
    timestamp = descriptor_pb2.DescriptorProto.DESCRIPTOR
    assert converter(timestamp) is None
