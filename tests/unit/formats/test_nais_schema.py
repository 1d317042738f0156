"""Schemas of NAIS payloads: built-in and loaded at run time."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import wireloom
from wireloom.errors import EncodeError, OptionError, SourceError
from wireloom.formats.nais import NaisPacket, NaisType, TypeRegistry, protoc
from wireloom.formats.nais.options import load_types
from wireloom.formats.nais.protoc import compile_file, compile_text
from wireloom.formats.nais.schema import BUILT_IN

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

TEXTS = """
syntax = "proto2";
message Texts {
  optional int32 e = 5;
  optional group Inner = 22 { optional string name = 1; }
  optional Texts nested = 23;
  map<string, bytes> blobs = 24;
  map<string, string> texts = 25;
  map<string, Texts> maps = 26;
  map<string, float> floats = 27;
  optional float one_float = 28;
}
"""


@pytest.fixture(scope="module")
def board() -> TypeRegistry:
    registry = TypeRegistry()
    registry.load_text(BOARD, name="board.proto")
    registry.bind(10, "LedCommand")
    return registry


@pytest.fixture(scope="module")
def texts() -> TypeRegistry:
    registry = TypeRegistry()
    registry.load_text(TEXTS)
    registry.bind(10, "Texts")
    return registry


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


def test_text_that_is_not_utf_8_is_found_anywhere(board: TypeRegistry, texts: TypeRegistry) -> None:
    assert board.read(10, b"\x32\x03\x0a\x01\xff").error.endswith("the wire form is wrong")
    inner = b"\xb3\x01\x0a\x01\xff\xb4\x01"
    for payload, path in [
        (inner, "inner.name"),
        (b"\xba\x01" + bytes([len(inner)]) + inner, "nested.inner.name"),
        (b"\xc2\x01\x03\x0a\x01\xff", "blobs.key"),
        (b"\xca\x01\x03\x12\x01\xff", "texts.value"),
        (b"\xd2\x01" + bytes([len(inner) + 2, 0x12, len(inner)]) + inner, "maps.value.inner.name"),
    ]:
        assert texts.read(10, payload).error == f"not a Texts: {path} is not UTF-8"
    # Bytes may be anything.
    assert texts.read(10, b"\xc2\x01\x03\x12\x01\xff").value == {"blobs": {"": "/w=="}}
    assert texts.read(10, b"\x28\xff\x01").value == {"e": 255}


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


def test_the_largest_float_is_written_wherever_it_stands(texts: TypeRegistry) -> None:
    most = 3.4028235e38
    message = {"floats": {"a": most}, "one_float": -most, "nested": {"one_float": most}}
    payload = texts.write(10, message | {"maps": {"k": {"oneFloat": most}}})
    assert texts.read(10, payload).value == message | {"maps": {"k": {"one_float": most}}}
    assert texts.read(10, texts.write(10, {"oneFloat": 1})).value == {"one_float": 1.0}


def test_redaction_leaves_extensions_alone() -> None:
    assert BUILT_IN.redacted(1, {"[ext]": 1, "pwd": "x"}) == {"[ext]": 1, "pwd": "***"}
