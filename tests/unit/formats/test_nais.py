"""The NAIS format: packets, LEN, JSON, trees, options, detection, and its specification."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    InvalidFieldError,
    LimitError,
    OptionError,
    TruncatedError,
)
from wireloom.formats import nais
from wireloom.formats.nais import (
    FORMAT,
    LineRules,
    NaisPacket,
    TypeRegistry,
)
from wireloom.formats.nais.packets import read_packet
from wireloom.formats.nais.rules import read_len, write_len
from wireloom.layout import describe
from wireloom.outline import Node
from wireloom.testing import conformance

ACK = bytes.fromhex("1e0300030004080a180517")
SPEC = Path(nais.__file__).with_name("SPEC.md").read_text("utf-8")


def frame(payload: bytes, type: int = 60) -> bytes:
    return NaisPacket(type=type, payload=payload).encode()


def tree(data: bytes) -> Node:
    return wireloom.outline(data, "nais")


def node(root: Node, name: str) -> Node:
    return next(found for _, found in root.walk() if found.name == name)


def errors(root: Node) -> dict[str, str]:
    return {found.name: found.error for _, found in root.walk() if found.error}


# --- frames -------------------------------------------------------------------------------------


def test_a_packet_has_the_fields_of_its_frame() -> None:
    packet = wireloom.decode(ACK)
    assert packet == NaisPacket(type=3, dline=3, payload=bytes.fromhex("080a1805"))
    assert isinstance(packet, NaisPacket)
    assert (packet.format, packet.type_name) == ("nais", "Ack")
    assert packet.message == {"id": 10, "status": 5}
    assert (packet.message_name, packet.message_error) == ("Ack", "")
    assert packet.encode() == ACK


def test_bytes_after_the_frame_are_ignored_unless_strict_or_exact() -> None:
    assert wireloom.decode(ACK + b"\x1e", "nais") == wireloom.decode(ACK)
    for options in ({"strict": True}, {"exact": True}):
        with pytest.raises(InvalidFieldError, match="1 bytes are left over") as info:
            read_packet(ACK + b"\x1e", **options)  # type: ignore[arg-type]
        assert (info.value.code, info.value.offset) == ("trailing", 11)


def test_every_truncation_asks_for_more() -> None:
    data = frame(bytes(200))
    for size in range(len(data)):
        with pytest.raises(TruncatedError) as info:
            read_packet(data[:size])
        assert (info.value.available, info.value.code) == (size, "truncated")
        assert size < info.value.needed <= len(data)


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        ("1f0300000002080117", "bad_start", "sync_start", 0),
        ("1e0300000002080118", "bad_end", "sync_end", 8),
        ("1e03000000ffffffff7f", "len_overflow", "len", 5),
        ("1e0300000080808001", "too_long", "len", 5),
    ],
)
def test_what_is_no_frame_is_refused(data: str, code: str, path: str, offset: int) -> None:
    with pytest.raises(DecodeError) as info:
        wireloom.decode(bytes.fromhex(data), "nais")
    assert (info.value.code, info.value.path, info.value.offset) == (code, path, offset)
    assert pickle.loads(pickle.dumps(info.value)).code == code


@pytest.mark.parametrize(
    ("data", "code", "path"),
    [
        ("1e0000000002080117", "illegal_value", "type"),
        ("1e0300000202080117", "bad_rsv", "rsv"),
        ("1e030000008200080117", "len_not_minimal", "len"),
        ("1e0300000002100117", "bad_payload", "payload"),
    ],
)
def test_a_strict_reader_refuses_more(data: str, code: str, path: str) -> None:
    raw = bytes.fromhex(data)
    wireloom.decode(raw, "nais")
    with pytest.raises(DecodeError) as info:
        wireloom.decode(raw, "nais", strict=True)
    assert (info.value.code, info.value.path) == (code, path)


@settings(derandomize=True, max_examples=100, deadline=None, database=None)
@given(st.binary(min_size=4, max_size=4), st.binary(max_size=300), st.booleans())
def test_the_quick_reader_gives_what_the_declared_one_gives(
    header: bytes, payload: bytes, padded: bool
) -> None:
    length = write_len(len(payload))
    if padded:
        length = length[:-1] + bytes([length[-1] | 0x80, 0])
    frame = b"\x1e" + header + length + payload + b"\x17"
    declared = NaisPacket.codec.decode(frame, 0, len(frame))
    quick = read_packet(frame + b"more")
    assert quick == declared
    assert quick.types is declared.types
    assert quick.encode() == declared.encode()


def test_a_strict_reader_takes_custom_payloads_as_they_are() -> None:
    packet = wireloom.decode(frame(b"\xff\x00"), "nais", strict=True)
    assert packet.type_name == "Custom"


def test_limits_hold_before_the_payload_is_there() -> None:
    header = bytes.fromhex("1e0300000080808001")
    with pytest.raises(LimitError) as info:
        wireloom.decode(header, "nais")
    assert (info.value.what, info.value.value, info.value.limit) == ("payload", 1 << 21, 1 << 20)
    with pytest.raises(FrameTooLargeError) as large:
        wireloom.decode(ACK, "nais", max_frame=10)
    assert (large.value.code, large.value.value) == ("too_long", 11)
    with pytest.raises(LimitError):
        wireloom.decode(ACK, "nais", max_payload=3)
    assert wireloom.decode(ACK, "nais", max_payload="4", max_frame=11).encode() == ACK


def test_a_long_len_is_read_where_the_line_allows_it_and_written_short() -> None:
    data = bytes.fromhex("1e03000000828080800008011700")
    with pytest.raises(DecodeError, match="longer than 4 bytes"):
        wireloom.decode(data, "nais")
    packet = wireloom.decode(data, "nais", max_len_bytes=5)
    assert packet.encode() == bytes.fromhex("1e0300000002080117")
    assert node(wireloom.outline(data, "nais", max_len_bytes=5), "payload").offset == 10


def test_type_0_and_rsv_are_kept() -> None:
    data = bytes.fromhex("1e00000042020801") + b"\x17"
    packet = wireloom.decode(data, "nais")
    assert isinstance(packet, NaisPacket)
    assert (packet.rsv, packet.type_name, packet.message) == (0x42, "Reserved", None)
    assert packet.message_error == "TYPE 0 has no message"
    assert not packet.is_bad_payload
    assert packet.encode() == data


@pytest.mark.parametrize("field", ["type", "sline", "dline", "rsv"])
def test_a_number_that_does_not_fit_is_not_written(field: str) -> None:
    for value in (256, -1, "1", None):
        given: dict[str, Any] = {"type": 1, field: value}
        with pytest.raises(EncodeError):
            NaisPacket(**given).encode()


def test_a_payload_must_be_bytes() -> None:
    with pytest.raises(EncodeError, match="expected bytes"):
        NaisPacket(type=1, payload="text").encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16384, "808001"), (268435455, "ffffff7f")],
)
def test_len_codes(value: int, code: str) -> None:
    assert write_len(value).hex() == code
    assert read_len(bytes.fromhex(code) + b"x") == (value, len(code) // 2)


def test_len_codes_that_are_none() -> None:
    assert read_len(b"\x83\x00") == (3, 2)
    with pytest.raises(TruncatedError):
        read_len(b"\x80\x80")
    with pytest.raises(DecodeError) as info:
        read_len(b"\x80" * 4 + b"\x00")
    assert info.value.code == "len_overflow"
    for value in (1 << 28, -1):
        with pytest.raises(EncodeError):
            write_len(value)


# --- trees --------------------------------------------------------------------------------------


def test_the_tree_shows_the_fields_of_the_message() -> None:
    data = FORMAT.samples()["event"]
    root = wireloom.outline(data)
    assert (root.name, root.meaning, root.length) == ("NAIS", "Event", len(data))
    payload = node(root, "payload")
    assert (payload.value, payload.meaning) == ("24 bytes", "Event")
    shown = [(n.name, n.offset, n.length, n.value, n.meaning) for n in payload.children]
    assert shown[:3] == [
        ("id", 6, 2, "12", "#1 int32"),
        ("svals[0]", 8, 6, "hall", "#2 string"),
        ("fvals[0]", 14, 5, "21.5", "#3 float"),
    ]
    assert not errors(root)
    assert wireloom.decode(data).outline() == root


def test_the_tree_says_what_is_wrong() -> None:
    assert errors(tree(b"")) == {"sync_start": "1 bytes needed, 0 available"}
    assert errors(tree(b"\x1f")) == {
        "sync_start": "must be 0x1e",
        "type": "1 bytes needed, 0 available",
    }
    assert errors(tree(ACK[:-1] + b"\x00")) == {"sync_end": "must be 0x17"}
    short = errors(tree(ACK[:8]))
    assert short["payload"] == "4 bytes needed, 2 available"
    assert "number longer than 4 bytes" in errors(tree(ACK[:5] + b"\xff" * 5))["len"]
    long = errors(tree(bytes.fromhex("1e0300000080808001")))
    assert "over the limit" in long["len"]
    assert errors(tree(frame(b"\xff", type=1)))["payload"].startswith("not a Profile")
    assert errors(tree(frame(b"", type=1))) == {"len": "not a Profile: no uid, pwd"}
    strict = wireloom.outline(b"\x1e\x03\x00\x00\xf0", "nais", strict=True)
    assert "reserved bits" in errors(strict)["rsv"]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("1e0300000002080117 00", "NAIS"),
        ("1e0000000002080117", "type"),
        ("1e030000008200080117", "len"),
    ],
)
def test_the_tree_says_what_only_a_strict_reader_refuses(data: str, name: str) -> None:
    raw = bytes.fromhex(data)
    assert not any(found.error for _, found in wireloom.outline(raw, "nais").walk())
    tree = wireloom.outline(raw, "nais", strict=True)
    assert [found.name for _, found in tree.walk() if found.error] == [name]


def test_the_tree_of_a_truncated_payload_shows_the_fields_that_are_there() -> None:
    payload = node(tree(FORMAT.samples()["event"][:16]), "payload")
    assert [child.name for child in payload.children] == ["id", "svals[0]", "?"]
    assert "bytes needed" in payload.children[-1].error


def test_the_tree_of_an_opaque_payload_has_no_fields() -> None:
    for data in (frame(b"\x08\x01x"), frame(b"abcdefgh")[:9], frame(b"\x08\x01", type=0)):
        root = tree(data)
        assert node(root, "payload").children == []


# --- the format ---------------------------------------------------------------------------------


def test_detect() -> None:
    for name, data in FORMAT.samples().items():
        expected = 60 if name in ("custom", "empty_payload") else 95
        assert FORMAT.detect(data) == expected, name
        assert wireloom.detect(data) == "nais"
    assert FORMAT.detect(ACK + b"text") == 95
    assert FORMAT.detect(frame(b"\xff", type=1)) == 60
    for data in (b"", b"\x1e", b"text", ACK[:-1], ACK[:-1] + b"\x00", ACK[:5] + b"\xff" * 9):
        assert FORMAT.detect(data) == 0, data
    assert FORMAT.detect(frame(b"\xff") + b"x") == 0
    assert FORMAT.detect(frame(b"", type=0)) == 0


def test_the_specification_has_the_tables_of_the_declarations() -> None:
    assert table("FRAME") == [list(row) for row in describe(NaisPacket)]
    fields = [[info.name, *row] for info in FORMAT.types() for row in info.rows]
    assert table("MESSAGES") == fields


def table(name: str) -> list[list[str]]:
    lines = SPEC.split(f"<!-- table: {name} -->\n")[1].split("<!-- end -->")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_options_may_be_text() -> None:
    data = bytes.fromhex("1e0300000202080117")
    for value in (True, "true", "TRUE"):
        with pytest.raises(DecodeError, match="reserved bits"):
            wireloom.decode(data, "nais", strict_rsv=value)
    for allowed in (False, "false", None):
        wireloom.decode(data, "nais", strict_rsv=allowed, max_payload=None)


@pytest.mark.parametrize(
    "options",
    [
        {"strict_rsv": "perhaps"},
        {"strict_rsv": 1},
        {"max_payload": "many"},
        {"max_payload": True},
        {"max_payload": 1.5},
        {"max_payload": -1},
        {"max_len_bytes": 11},
        {"types": "board.proto"},
        {"bind": "ten=Event"},
        {"bind": "10"},
        {"bind": "10="},
        {"bind": 10},
        {"bind": "10=Nonsense"},
        {"bind": "300=Event"},
        {"bind": {"10": "Event"}},
        {"proto": ["board.proto"]},
        {"include": "."},
        {"types": TypeRegistry(), "bind": "10=Event"},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        wireloom.decode(ACK, "nais", **options)


def test_a_type_can_be_bound_to_a_built_in_message() -> None:
    data = frame(b"\x08\x01\x10\x02", type=10)
    bound: list[Any] = ["10=Ack", "10=Ack, 11=Event", ["10=Ack", "11=Event"], {10: "Ack"}]
    for bind in bound:
        packet = wireloom.decode(data, "nais", bind=bind)
        assert isinstance(packet, NaisPacket)
        assert packet.message_name == "Ack"
        assert wireloom.outline(data, "nais", bind=bind).meaning == "Ack"


def test_the_same_options_give_the_same_registry() -> None:
    first, second = (wireloom.decode(ACK, "nais", bind="10=Ack") for _ in range(2))
    assert isinstance(first, NaisPacket)
    assert isinstance(second, NaisPacket)
    assert first.types is second.types


def test_rules_of_a_line_are_checked_where_they_are_made() -> None:
    assert LineRules(max_payload=0).measure(b"\x1e\x01\x00\x00\x00\x00", 0, 6) == 7


# --- anything -----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        NaisPacket,
        type=st.integers(0, 255),
        sline=st.integers(0, 255),
        dline=st.integers(0, 255),
        rsv=st.integers(0, 255),
        payload=st.binary(max_size=300),
    )
)
def test_every_packet_survives_bytes_and_json(packet: NaisPacket) -> None:
    assert read_packet(packet.encode()) == packet
    assert wireloom.from_dict(json.loads(json.dumps(packet.to_dict(), allow_nan=False))) == packet
    assert packet.outline().length == len(packet.encode())
    assert repr(packet).startswith("NaisPacket(")


def test_mutants_with_a_schema_of_their_own() -> None:
    samples = list(FORMAT.samples().values())
    random = Random(5)
    for _ in range(300):
        data = bytearray(random.choice(samples))
        for _ in range(random.randint(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        conformance.examine(FORMAT, bytes(data), random, bind={10: "Event", 60: "Config"})
