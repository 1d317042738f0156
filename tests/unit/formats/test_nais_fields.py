"""Where the fields of a protobuf message lie: the walker, the field tree, byte strings inside."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from wireloom.errors import DecodeError
from wireloom.formats.nais import TypeRegistry
from wireloom.formats.nais.fields import byte_fields, is_repeated, walk
from wireloom.formats.nais.schema import BUILT_IN
from wireloom.formats.nais.tree import add_fields
from wireloom.outline import Node
from wireloom.wire import Limits

BOARD = """
syntax = "proto3";
message Board {
  repeated uint32 steps = 3;
  Part part = 6;
  bytes blob = 7;
  repeated Part more = 8;
  message Part { string name = 1; string pin = 2; }
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
    registry.load_text(BOARD)
    registry.bind(10, "Board")
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
