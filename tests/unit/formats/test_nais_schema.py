"""Schemas of NAIS payloads: built-in and loaded at run time, and the fields of any message."""

from __future__ import annotations

import copy
import os
import pickle
import struct
import subprocess
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import wireloom
from wireloom.errors import DecodeError, EncodeError, OptionError, SourceError
from wireloom.formats.nais import NaisPacket, NaisType, TypeRegistry, protoc
from wireloom.formats.nais.fields import byte_fields, is_repeated, walk
from wireloom.formats.nais.options import load_types
from wireloom.formats.nais.protoc import compile_file, compile_text
from wireloom.formats.nais.schema import BUILT_IN
from wireloom.formats.nais.tree import add_fields
from wireloom.outline import Node
from wireloom.wire import Limits

BOARD = """
syntax = "proto3";
package acme;
import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";

enum Colour { OFF = 0; RED = 1; GREEN = 4; }

message LedCommand {
  Colour colour = 1;
  optional int32 level = 2;
  repeated uint32 steps = 3;
  map<string, Part> parts = 4;
  google.protobuf.Timestamp at = 5;
  Part part = 6;
  bytes blob = 7;
  repeated Part more = 8;
  google.protobuf.Any any = 9;
  google.protobuf.Struct extra = 10;
  map<string, int32> counts = 11;
  message Part { string name = 1; string pin = 2 [debug_redact = true]; }
}
"""

NUMBERS = """
syntax = "proto2";
message Numbers {
  optional double a = 1; optional float b = 2; optional int64 c = 3; optional uint64 d = 4;
  optional int32 e = 5; optional fixed64 f = 6; optional fixed32 g = 7; optional bool h = 8;
  optional uint32 i = 13; optional sfixed32 j = 15; optional sfixed64 k = 16;
  optional sint32 l = 17; optional sint64 m = 18; optional Kind n = 14;
  repeated double o = 20; repeated Kind p = 21;
  optional group Inner = 22 { optional string name = 1; optional Inner inner = 22; }
  optional Numbers nested = 23;
  map<string, bytes> blobs = 24;
  map<string, string> texts = 25;
  map<string, Numbers> maps = 26;
  enum Kind { ZERO = 0; ONE = 1; MINUS = -1; }
}
"""


@pytest.fixture(scope="module")
def board() -> TypeRegistry:
    registry = TypeRegistry()
    registry.load_text(BOARD, name="board.proto")
    registry.bind(10, "LedCommand")
    return registry


@pytest.fixture(scope="module")
def numbers() -> TypeRegistry:
    registry = TypeRegistry()
    registry.load_text(NUMBERS)
    registry.bind(10, "Numbers")
    return registry


def tree(registry: TypeRegistry, payload: bytes, limits: Limits | None = None) -> Node:
    root = Node("payload", 0, len(payload))
    add_fields(root, payload, 0, len(payload), registry.schema(10), limits or Limits())
    return root


def values(root: Node) -> dict[str, str]:
    return {node.name: node.value for node in root.children}


# --- the built-in schema ------------------------------------------------------------------------


def test_the_bundled_set_is_what_its_source_says() -> None:
    source = files("wireloom.formats.nais")
    compiled = compile_text(source.joinpath("nais.proto").read_text("utf-8"), "nais.proto")
    made = FileDescriptorSet.FromString(compiled)
    bundled = FileDescriptorSet.FromString(source.joinpath("nais.binpb").read_bytes())
    assert made == bundled


def test_the_built_in_registry_knows_six_messages_and_cannot_change() -> None:
    names = ["Profile", "Config", "Ack", "Secret", "Command", "Event"]
    assert list(BUILT_IN.bindings.values()) == names
    assert list(BUILT_IN.bindings) == [1, 2, 3, 4, 5, 6] == list(NaisType)
    assert BUILT_IN.messages == tuple(sorted(names))
    assert BUILT_IN.type_of("Command") == 5
    with pytest.raises(OptionError, match="make a TypeRegistry"):
        BUILT_IN.bind(10, "Event")
    with pytest.raises(OptionError, match="make a TypeRegistry"):
        BUILT_IN.load_descriptor_set(b"")
    assert pickle.loads(pickle.dumps(BUILT_IN)) is BUILT_IN
    assert copy.deepcopy(BUILT_IN) is BUILT_IN


def test_nothing_is_put_into_the_default_pool(board: TypeRegistry) -> None:
    pool = descriptor_pool.Default()
    for name in ("Profile", "acme.LedCommand"):
        with pytest.raises(KeyError):
            pool.FindMessageTypeByName(name)


def test_custom_types_are_read_as_commands_if_they_are() -> None:
    assert BUILT_IN.read(255, b"\x08\x64").name == "Command"
    assert BUILT_IN.read(60, b"").name is None
    assert BUILT_IN.schema(0) is None
    assert BUILT_IN.name_of(60) is None
    assert BUILT_IN.redacted(0, {"a": 1}) == {"a": 1}


# --- binding ------------------------------------------------------------------------------------


def test_bind_gives_a_type_away_once() -> None:
    registry = TypeRegistry()
    registry.bind(10, "Event")
    for code in (0, 256, -1, True, "10"):
        with pytest.raises(OptionError, match="from 1 to 255"):
            registry.bind(code, "Event")  # type: ignore[arg-type]
    for code in (1, 10):
        with pytest.raises(OptionError, match="is taken by"):
            registry.bind(code, "Ack")
    with pytest.raises(OptionError, match="starts a frame"):
        registry.bind(30, "Event")
    registry.bind(30, "Event", force=True)
    registry.bind(10, "Ack", force=True)
    assert registry.bindings[10] == "Ack"
    assert BUILT_IN.name_of(10) is None


def test_messages_are_found_by_their_last_name(board: TypeRegistry) -> None:
    registry = TypeRegistry()
    registry.load_text(
        'syntax = "proto3"; package a; message Led {message Sub {}} message X {message Led {}}'
    )
    registry.bind(40, "Sub")
    registry.bind(41, "a.Led")
    assert registry.bindings[40] == "a.Led.Sub"
    with pytest.raises(OptionError, match=r"'Led' may be a\.Led or a\.X\.Led"):
        registry.bind(42, "Led")
    with pytest.raises(OptionError, match=r"no message 'Nope'; there are Ack, .*a\.Led\.Sub"):
        registry.bind(42, "Nope")
    assert registry.type_of("Sub") == registry.type_of("a.Led.Sub") == 40
    assert "acme.LedCommand" in board.messages
    assert not any("google" in name or "Entry" in name for name in board.messages)


# --- loading ------------------------------------------------------------------------------------


def test_a_proto_file_with_imports_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "common.proto").write_text('syntax = "proto3"; message Pin {int32 no = 1;}')
    (tmp_path / "sibling.proto").write_text('syntax = "proto3"; message Sibling {}')
    path = tmp_path / "board.proto"
    path.write_text(
        'syntax = "proto3"; import "common.proto"; import "sibling.proto"; import "nais.proto";'
        "message Led { Pin pin = 1; Sibling s = 2; Command command = 3; }"
    )
    registry = TypeRegistry()
    registry.load(path, include=[str(tmp_path / "lib")])
    registry.bind(10, "Led")
    message = {"pin": {"no": 7}, "command": {"id": 0}}
    assert registry.read(10, registry.write(10, message)).value == message
    with pytest.raises(SourceError, match=r'Import "common.proto" was not found') as info:
        TypeRegistry().load(path)
    assert (info.value.file, info.value.line) == (str(path.resolve()), 1)


def test_a_wrong_proto_says_where(tmp_path: Path) -> None:
    path = tmp_path / "bad.proto"
    path.write_text('syntax = "proto3";\nmessage A {\n  int32 x = 1\n}\n')
    with pytest.raises(SourceError, match='Expected ";"') as info:
        TypeRegistry().load(str(path))
    assert (info.value.file, info.value.line) == (str(path), 4)
    with pytest.raises(SourceError, match="is not defined") as info:
        TypeRegistry().load_text('syntax = "proto3";\nmessage A { Nope x = 1; }', name="mine.proto")
    assert (info.value.file, info.value.line) == ("mine.proto", 2)
    (tmp_path / "user.proto").write_text('syntax = "proto3"; import "bad.proto"; message B {}')
    with pytest.raises(SourceError) as info:
        TypeRegistry().load(tmp_path / "user.proto")
    assert (info.value.file, info.value.line) == (str(path), 4)
    with pytest.raises(SourceError) as info:
        TypeRegistry().load_text('syntax = "proto3"; import "bad.proto";', include=[tmp_path])
    assert (info.value.file, info.value.line) == (str(path), 4)
    with pytest.raises(SourceError, match="no such file") as info:
        compile_file(tmp_path / "none.proto")
    assert info.value.line == 0


def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compile_text('syntax = "proto3"; message A {}')
    with pytest.raises(SourceError):
        compile_text("nonsense")
    assert list(tmp_path.iterdir()) == []


def test_any_protoc_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "protoc"
    fake.write_text("#!/bin/sh\necho 'something without a place' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(protoc, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    with pytest.raises(SourceError, match="something without a place"):
        compile_text('syntax = "proto3";')
    fake.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SourceError, match="without a word"):
        compile_text('syntax = "proto3";')
    fake.write_text("this cannot be executed\0")
    with pytest.raises(SourceError, match="did not run"):
        compile_text('syntax = "proto3";')
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(SourceError, match=r"install wireloom\[proto\]"):
        compile_text('syntax = "proto3";')


def test_a_compiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: object, **kwargs: object) -> None:
        raise subprocess.TimeoutExpired("protoc", 60)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(SourceError, match="did not run"):
        compile_text('syntax = "proto3";')


def test_descriptor_sets_load_from_files_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "board.binpb"
    path.write_bytes(compile_text(BOARD, "board.proto"))
    registry = load_types([str(path)], [(10, "acme.LedCommand")])
    assert registry.bindings[10] == "acme.LedCommand"
    assert load_types([str(path)], [(10, "acme.LedCommand")]) is registry
    path.write_bytes(compile_text('syntax = "proto3"; message LedCommand {}'))
    assert load_types([str(path)], [(10, "LedCommand")]).bindings[10] == "LedCommand"
    data = NaisPacket(type=10, payload=b"").encode()
    packet = wireloom.decode(data, "nais", proto=path, bind="10=LedCommand", include=str(tmp_path))
    assert packet.to_dict()["message"] == {}
    with pytest.raises(SourceError, match="No such file") as info:
        wireloom.decode(data, "nais", proto=[tmp_path / "none.binpb"], bind={10: "A"})
    assert info.value.file == str(tmp_path / "none.binpb")


def described(name: str, *imports: str, messages: tuple[str, ...] = ()) -> FileDescriptorProto:
    made = FileDescriptorProto(name=name, syntax="proto3", dependency=imports)
    for message in messages:
        made.message_type.add(name=message)
    return made


def in_set(*described: FileDescriptorProto) -> bytes:
    return FileDescriptorSet(file=described).SerializeToString()


def test_a_set_may_be_in_any_order_and_leave_out_the_well_known_types() -> None:
    registry = TypeRegistry()
    registry.load_descriptor_set(
        in_set(
            described(
                "c.proto", "b.proto", "a.proto", "google/protobuf/any.proto", messages=("C",)
            ),
            described("b.proto", "a.proto", messages=("B",)),
            described("a.proto", messages=("A",)),
        )
    )
    assert {"A", "B", "C"} <= set(registry.messages)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff", "not a descriptor set"),
        (b"", "without files"),
        (in_set(described("a.proto", "b.proto")), "b.proto is imported but missing"),
        (in_set(described("a.proto", "google/protobuf/nope.proto")), "imported but missing"),
        (in_set(described("a.proto", "b.proto"), described("b.proto", "a.proto")), "itself"),
        (in_set(described("a.proto", messages=("A", "A"))), "duplicate symbol"),
    ],
)
def test_sets_that_are_none(data: bytes, reason: str) -> None:
    registry = TypeRegistry()
    with pytest.raises(SourceError, match=reason):
        registry.load_descriptor_set(data)
    assert registry.messages == BUILT_IN.messages


def test_a_registry_pickles_with_what_was_loaded() -> None:
    first = compile_text('syntax = "proto3"; message Led { int32 a = 1; }')
    second = compile_text('syntax = "proto3"; message Led { int32 b = 1; } message Ack {}')
    registry = TypeRegistry()
    registry.bind(20, "Ack")
    registry.load_descriptor_set(first)
    registry.bind(10, "Led")
    registry.load_descriptor_set(second)
    registry.bind(11, "Led")
    registry.bind(12, "Ack")
    for again in (registry, pickle.loads(pickle.dumps(registry)), copy.deepcopy(registry)):
        assert again.bindings == registry.bindings
        assert again.messages == registry.messages
        assert again.read(10, b"\x08\x01").value == {"a": 1}
        assert again.read(11, b"\x08\x01").value == {"b": 1}
        assert again.read(12, b"\x08\x01").value == {}
        assert again.read(20, b"\x08\x01").value == {"id": 1}


# --- reading and writing ------------------------------------------------------------------------


def test_a_schema_of_ones_own_both_ways(board: TypeRegistry) -> None:
    message: dict[str, Any] = {
        "colour": "GREEN",
        "level": 0,
        "steps": [1, 2, 300],
        "parts": {"left": {"name": "l", "pin": "1234"}},
        "at": "2024-02-29T12:00:00Z",
        "part": {"pin": "secret", "name": "p"},
        "blob": "AAE=",
        "more": [{"pin": "x"}, {}],
        "any": {"@type": "type.googleapis.com/acme.LedCommand.Part", "name": "inside"},
        "extra": {"k": [1.0, None, "t"]},
        "counts": {"a": 1},
    }
    packet = NaisPacket.from_message("LedCommand", message, types=board)
    assert packet.message == message
    assert packet.type_name == "acme.LedCommand"
    assert "AAE=" in repr(packet)
    assert "1234" not in repr(packet)
    assert "secret" not in repr(packet)
    assert "2024-02-29" in repr(packet)
    again = NaisPacket.from_dict(packet.to_dict(), types=board)
    assert again == packet
    assert again.types is board
    # Who does not have the schema keeps the payload.
    assert wireloom.from_dict(packet.to_dict()) == packet
    proto = packet.proto
    assert proto is not None
    assert board.write(10, proto) == packet.payload


def test_missing_and_zero_differ_where_the_schema_says_so(board: TypeRegistry) -> None:
    assert board.read(10, b"\x10\x00").value == {"level": 0}
    assert board.read(10, b"\x08\x00").value == {}  # proto3 without "optional"
    assert board.read(10, b"").value == {}
    assert board.read(10, b"\x08\x63").value == {"colour": 99}


def test_what_has_no_json_form_is_no_message(board: TypeRegistry) -> None:
    late = b"\x2a\x07\x08\xff\xff\xff\xff\xff\x7f"  # a time far after the year 9999
    reading = board.read(10, late)
    assert reading.name is None
    assert reading.error.startswith("acme.LedCommand without a JSON form: ")
    url = b"type.googleapis.com/no.Such"
    anything = bytes([0x4A, len(url) + 2, 0x0A, len(url)]) + url
    assert "without a JSON form" in board.read(10, anything).error
    known = b"type.googleapis.com/acme.LedCommand"
    damaged = bytes([0x4A, len(known) + 5, 0x0A, len(known)]) + known + b"\x12\x01\xff"
    assert "without a JSON form" in board.read(10, damaged).error
    packet = NaisPacket(type=10, payload=late, types=board)
    assert packet.proto is not None
    assert packet.is_bad_payload


def test_text_that_is_not_utf_8_is_found_anywhere(
    board: TypeRegistry, numbers: TypeRegistry
) -> None:
    assert board.read(10, b"\x32\x03\x0a\x01\xff").error.endswith("the wire form is wrong")
    inner = b"\xb3\x01\x0a\x01\xff\xb4\x01"
    for payload, path in [
        (inner, "inner.name"),
        (b"\xba\x01" + bytes([len(inner)]) + inner, "nested.inner.name"),
        (b"\xc2\x01\x03\x0a\x01\xff", "blobs.key"),
        (b"\xca\x01\x03\x12\x01\xff", "texts.value"),
        (b"\xd2\x01" + bytes([len(inner) + 2, 0x12, len(inner)]) + inner, "maps.value.inner.name"),
    ]:
        assert numbers.read(10, payload).error == f"not a Numbers: {path} is not UTF-8"
    # Bytes may be anything.
    assert numbers.read(10, b"\xc2\x01\x03\x12\x01\xff").value == {"blobs": {"": "/w=="}}
    assert numbers.read(10, b"\x28\xff\x01").value == {"e": 255}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"level": "x"}, "level"),
        ({"part": 5}, "part"),
        ({"parts": []}, "parts"),
        ({"at": "yesterday"}, "at"),
        ({"blob": 5}, "blob"),
        ({"any": {"@type": "x/no.Such"}}, "any"),
        ({"colour": "MAUVE"}, "colour"),
        ({5: 5}, "5"),
        (None, "object of fields"),
        ("text", "object of fields"),
    ],
)
def test_messages_that_do_not_fit(board: TypeRegistry, message: Any, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason) as info:
        board.write(10, message)
    assert info.value.path == "message"


def test_a_protobuf_message_must_be_of_the_right_kind(board: TypeRegistry) -> None:
    ack, _ = BUILT_IN.parse(3, b"\x08\x01")
    with pytest.raises(EncodeError, match=r"Ack given, acme.LedCommand needed"):
        board.write(10, ack)
    with pytest.raises(EncodeError, match="TYPE 0 has no message"):
        board.write(0, {})
    with pytest.raises(EncodeError, match="no message"):
        board.write(10, {}, name="Nope")
    assert board.write(10, {"id": 1}, name="Ack") == b"\x08\x01"
    assert board.write(10, {"level": 1}, name="acme.LedCommand") == b"\x10\x01"
    assert ack is not None
    ack.Clear()
    with pytest.raises(EncodeError, match="missing required fields"):
        BUILT_IN.write(3, ack)


def test_redaction_leaves_extensions_alone() -> None:
    assert BUILT_IN.redacted(1, {"[ext]": 1, "pwd": "x"}) == {"[ext]": 1, "pwd": "***"}


# --- the fields of a message --------------------------------------------------------------------


def test_every_kind_of_number_is_shown(numbers: TypeRegistry) -> None:
    message: dict[str, Any] = {
        "a": 1.5, "b": -0.5, "c": "-3", "d": "4", "e": -5, "f": "6", "g": 7, "h": True, "i": 13,
        "j": -15, "k": "-16", "l": -17, "m": "-18", "n": "MINUS",
    }  # fmt: skip
    shown = values(tree(numbers, numbers.write(10, message)))
    assert shown == {k: str(v) for k, v in message.items()} | {"h": "true", "n": "-1 MINUS"}
    assert values(tree(numbers, b"\x70\x07\x40\x00")) == {"n": "7", "h": "false"}


def test_packed_numbers_are_shown_one_by_one(numbers: TypeRegistry) -> None:
    doubles = struct.pack("<dd", 0.5, 2.0)
    payload = b"\xa2\x01\x10" + doubles + b"\xaa\x01\x0b\x01" + b"\xff" * 9 + b"\x01"
    o, p = tree(numbers, payload).children
    assert (o.name, o.meaning) == ("o", "#20 double, packed")
    assert [(n.name, n.offset, n.value) for n in o.children] == [
        ("[0]", 3, "0.5"),
        ("[1]", 11, "2.0"),
    ]
    assert [n.value for n in p.children] == ["1 ONE", "-1 MINUS"]
    plain = b"\xa8\x01\x01\xa8\x01\x00"
    assert values(tree(numbers, plain)) == {"p[0]": "1 ONE", "p[1]": "0 ZERO"}
    broken = tree(numbers, b"\xa2\x01\x09" + bytes(9) + b"\xaa\x01\x01\x80")
    assert [n.error for n in broken.children[0].children] == [
        "",
        "not a field: 8 bytes needed, 1 available",
    ]
    assert "not a field" in broken.children[1].children[0].error


def test_groups_and_nested_messages_are_shown(numbers: TypeRegistry) -> None:
    payload = b"\xb3\x01\x0a\x01x\xb2\x01\x03\x0a\x01y\xb4\x01\xba\x01\x02\x28\x05"
    inner, nested = tree(numbers, payload).children
    assert (inner.name, inner.offset, inner.length) == ("inner", 0, 13)
    assert values(inner) == {"name": "x", "inner": ""}
    assert values(inner.children[1]) == {"name": "y"}
    assert values(nested) == {"e": "5"}


def test_unknown_fields_are_shown_by_number(numbers: TypeRegistry) -> None:
    payload = b"\xf8\x07\x05\xfa\x07\x02hi\xf9\x07" + bytes(8) + b"\xfd\x07" + bytes(4)
    payload += b"\xfb\x07\x08\x01\xfc\x07\xf8\x07\x06"
    root = tree(numbers, payload)
    assert [(n.name, n.value) for n in root.children] == [
        ("#127[0]", "5"),
        ("#127[1]", "6869"),
        ("#127[2]", "0" * 16),
        ("#127[3]", "0" * 8),
        ("#127[4]", ""),
        ("#127[5]", "6"),
    ]
    assert root.children[1].meaning == "unknown field, bytes"
    assert values(root.children[4]) == {"#1[0]": "1"}
    bare = Node("payload", 0, 2)
    add_fields(bare, b"\x08\x01", 0, 2, None)
    assert values(bare) == {"#1[0]": "1"}


def test_fields_of_another_kind_than_declared_are_marked(numbers: TypeRegistry) -> None:
    root = tree(numbers, b"\x0a\x01x\xb8\x01\x05")
    assert [(n.name, n.value, n.error) for n in root.children] == [
        ("a", "78", "bytes where double is expected"),
        ("nested", "5", "varint where Numbers is expected"),
    ]
    board = tree(BUILT_IN, b"\x18\x01")
    assert board.children[0].error == "varint where string is expected"


def test_long_values_are_cut(board: TypeRegistry) -> None:
    payload = board.write(10, {"part": {"name": "n" * 500}, "blob": "A" * 400})
    part, blob = tree(board, payload).children
    assert part.children[0].value == "n" * 96 + "… (500 characters)"
    assert blob.value == "300 bytes"


def test_limits_hold_in_trees(numbers: TypeRegistry) -> None:
    few = tree(numbers, b"\x28\x01" * 5, Limits(max_fields=3))
    assert [n.error for n in few.children] == ["", "", "", "more than 3 fields"]
    packed = tree(numbers, b"\xaa\x01\x05" + bytes(5), Limits(max_fields=3))
    assert [n.name for n in packed.children[0].children] == ["[0]", "[1]", "…"]
    deep = b""
    for _ in range(5):
        deep = b"\xba\x01" + bytes([len(deep)]) + deep
    flat = [n for _, n in tree(numbers, deep, Limits(max_depth=3)).walk()]
    assert [n.error for n in flat if n.error] == ["nested deeper than 3"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00", "0 is no field number"),
        (b"\x80\x80\x80\x80\x20\x00", "is no field number"),
        (b"\x0c", "this end of a group is not legal"),
        (b"\x0e", "wire type 6 is not legal"),
        (b"\x08", "1 bytes needed, 0 available"),
        (b"\x08" + b"\x80" * 10, "longer than 10 bytes"),
        (b"\x0a\x02a", "2 bytes needed, 1 available"),
        (b"\x0d\x00", "4 bytes needed, 1 available"),
        (b"\x09", "8 bytes needed, 0 available"),
        (b"\x0b\x14", "this end of a group is not legal"),
        (b"\x0b\x08\x01", "1 bytes needed, 0 available"),
    ],
)
def test_what_is_no_field(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        list(walk(data, 0, len(data), None, 9))
    root = Node("payload", 0, len(data))
    add_fields(root, data, 0, len(data), None)
    assert [reason in node.error for _, node in root.walk()][-1]


def test_twenty_thousand_groups_do_not_reach_pythons_stack() -> None:
    data = b"\x0b" * 20_000 + b"\x0c" * 20_000
    root = Node("payload", 0, len(data))
    add_fields(root, data, 0, len(data), None)
    nodes = [node for _, node in root.walk()]
    assert len(nodes) == 33
    assert [(n.offset, n.end) for n in nodes[1:]] == [(i, len(data) - i) for i in range(32)]
    assert [n.error for n in nodes if n.error] == ["nested deeper than 32"]
    open_ended = Node("payload", 0, len(data) - 1)
    add_fields(open_ended, data, 0, len(data) - 1, None)
    assert [n.error for _, n in open_ended.walk()][-1] == "not a field: 1 bytes needed, 0 available"


def test_groups_that_are_not_closed_reach_as_far_as_what_they_are_in(
    numbers: TypeRegistry,
) -> None:
    root = tree(numbers, b"\xba\x01\x05\xb3\x01\x0a\x01x\x28\x05")
    assert [(n.name, n.offset, n.end) for _, n in root.walk()][1:] == [
        ("nested", 0, 8),
        ("inner", 3, 8),
        ("name", 5, 8),
        ("?", 8, 8),
    ]


def test_the_content_of_nested_groups_is_read_once() -> None:
    # Thirty levels, then much content: finding each end first would cost thirty times as much.
    content = b"\x08\x01" * 1000
    data = b"\x0b" * 30 + content + b"\x0c" * 30
    assert len(list(walk(data, 0, len(data), None, 32))) == 30 + 1000 + 30
    counted = Counted(data)
    assert len(list(walk(counted, 0, len(data), None, 32))) == 1060
    assert counted.reads <= 3 * len(data)


class Counted(bytes):
    """Bytes that count how often one of them is looked at."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)


def test_byte_fields_have_paths(board: TypeRegistry, numbers: TypeRegistry) -> None:
    schema = board.schema(10)
    assert schema is not None
    payload = board.write(10, {"part": {"name": "n"}, "more": [{}, {"pin": "p"}], "steps": [1]})
    payload += b"\xfa\x07\x01u\xfb\x07\x0a\x01g\xfc\x07\x28\x05"
    assert list(byte_fields(payload, schema)) == [
        ("part.name", b"n"),
        ("more[1].pin", b"p"),
        ("#127[0]", b"u"),
        ("#127[1].#1[0]", b"g"),
    ]
    assert list(byte_fields(payload, schema, max_depth=1)) == [("#127[0]", b"u")]
    assert [path for path, *_ in byte_fields(b"\x3a\x01x\xff", schema)] == ["blob"]


def test_labels_of_older_library_releases_are_understood() -> None:
    assert is_repeated(SimpleNamespace(label=3))  # type: ignore[arg-type]
    assert not is_repeated(SimpleNamespace(label=1))  # type: ignore[arg-type]
