"""Messages in NAIS payloads: reading, writing, JSON both ways, and what stays out of logs."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.errors import EncodeError
from wireloom.formats.nais import FORMAT, CommandId, NaisPacket, NaisType, TypeRegistry

ACK = bytes.fromhex("1e0300030004080a180517")


def test_a_packet_is_made_from_a_message() -> None:
    made = NaisPacket.from_message("Ack", {"id": 10, "status": 5}, dline=3)
    assert made.encode() == ACK
    assert NaisPacket.from_message(NaisType.ACK, made.proto or {}, dline=3) == made
    reboot = NaisPacket.from_message(5, {"id": CommandId.REBOOT}, sline=1, rsv=1)
    assert reboot.encode().hex() == "1e0501000102080117"
    custom = NaisPacket.from_message(10, {"id": 1, "ivals": [1, -1]})
    assert custom.message_name == "Command"
    with pytest.raises(EncodeError, match="no TYPE carries"):
        NaisPacket.from_message("Nonsense", {})


def test_a_payload_that_cannot_be_read_is_no_error() -> None:
    packet = NaisPacket(type=1, payload=bytes.fromhex("0a041e03000000020801"))
    assert packet.is_bad_payload
    assert (packet.message, packet.message_name, packet.proto) == (None, None, None)
    assert packet.message_error == "not a Profile: the wire form is wrong"
    assert NaisPacket(type=1).message_error == "not a Profile: no uid, pwd"
    assert NaisPacket(type=60).message_error == "not a Command: no id"
    assert not NaisPacket(type=60).is_bad_payload


def test_the_message_is_read_once_and_follows_changes() -> None:
    packet = wireloom.decode(ACK)
    assert isinstance(packet, NaisPacket)
    assert packet.message is packet.message
    other = dataclasses.replace(packet, payload=b"\x08\x02", sline=4)
    assert other.message == {"id": 2}
    assert (other.sline, other.dline) == (4, 3)


def test_zero_and_missing_differ() -> None:
    assert NaisPacket(type=3, payload=b"\x08\x02\x18\x00").message == {"id": 2, "status": 0}
    assert NaisPacket(type=3, payload=b"\x08\x02").message == {"id": 2}
    for message in ({"id": 2, "status": 0}, {"id": 2}):
        assert NaisPacket.from_message(3, message).message == message


def test_packed_numbers_are_read_and_kept_but_not_written() -> None:
    packed = NaisPacket(type=6, payload=bytes.fromhex("080a2204010280011a080000ac410000003f"))
    assert packed.message == {"id": 10, "fvals": [21.5, 0.5], "ivals": [-1, 1, 64]}
    assert packed.encode()[6:-1] == packed.payload
    plain = NaisPacket.from_message(6, packed.message)
    assert plain.payload.hex() == "080a1d0000ac411d0000003f20012002208001"


def test_negative_numbers_take_ten_bytes() -> None:
    made = NaisPacket.from_message(3, {"id": 200, "seq": 7, "status": -1})
    assert made.payload.hex() == "08c801100718ffffffffffffffffff01"
    assert made.message == {"id": 200, "seq": 7, "status": -1}


def test_floats_that_are_no_numbers_are_text() -> None:
    made = NaisPacket.from_message(6, {"id": 1, "fvals": ["NaN", "-Infinity", 0.1]})
    assert made.message == {"id": 1, "fvals": ["NaN", "-Infinity", 0.1]}
    text = json.dumps(made.to_dict(), allow_nan=False)
    assert wireloom.from_dict(json.loads(text)) == made


@pytest.mark.parametrize("raw", ["ffff7f7f", "ffff7fff", "01000000", "cdcccc3d"])
def test_every_float_survives_json(raw: str) -> None:
    packet = NaisPacket(type=6, payload=bytes.fromhex("08011d" + raw))
    assert packet.message is not None
    assert NaisPacket.from_message(6, packet.message) == packet


def test_a_float_that_is_too_large_is_refused() -> None:
    for value in (3.5e38, 1e300):
        with pytest.raises(EncodeError, match="too large"):
            NaisPacket.from_message(6, {"id": 1, "fvals": [value]})


def test_unknown_fields_stay_in_the_payload() -> None:
    packet = NaisPacket(type=3, payload=bytes.fromhex("0802f80105"))
    assert packet.message == {"id": 2}
    assert wireloom.from_dict(packet.to_dict()) == packet


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xe9t\xe9"])
def test_text_that_is_not_utf_8_is_no_message(raw: bytes) -> None:
    payload = b"\x0a" + bytes([len(raw)]) + raw + b"\x12\x01p"
    assert NaisPacket(type=1, payload=payload).message_error == "not a Profile: uid is not UTF-8"
    listed = b"\x08\x01\x1a\x01a\x1a" + bytes([len(raw)]) + raw
    assert NaisPacket(type=5, payload=listed).message_error == "not a Command: svals is not UTF-8"


def test_text_may_be_any_utf_8() -> None:
    made = NaisPacket.from_message("Profile", {"uid": "café \U0001f4e1\x00\x1e", "pwd": ""})
    assert made.message == {"uid": "café \U0001f4e1\x00\x1e", "pwd": ""}


def test_passwords_are_not_in_repr() -> None:
    profile = NaisPacket.from_message("Profile", {"uid": "ssid", "pwd": "swordfish"})
    assert repr(profile) == (
        "NaisPacket(type=1, sline=0, dline=0, rsv=0, Profile={'uid': 'ssid', 'pwd': '***'})"
    )
    secret = NaisPacket.from_message("Secret", {"key": "swordfish"})
    broken = NaisPacket(type=1, payload=profile.payload[:-1])
    for packet in (profile, secret, broken):
        assert "swordf" not in repr(packet)
        assert "swordf" not in str([packet])
    assert repr(broken).endswith(f"payload=<{len(broken.payload)} bytes>)")
    assert profile.to_dict()["message"] == {"uid": "ssid", "pwd": "swordfish"}


def test_payloads_inside() -> None:
    event = NaisPacket.from_message("Event", {"id": 1, "svals": ["a", "", "b"]})
    assert list(event.payloads()) == [("message.svals[0]", b"a"), ("message.svals[2]", b"b")]
    assert list(NaisPacket(type=60, payload=b"\x99\x55").payloads()) == [("payload", b"\x99\x55")]
    assert list(NaisPacket(type=60).payloads()) == []
    assert list(NaisPacket(type=0, payload=b"x").payloads()) == [("payload", b"x")]


def test_packets_pickle_with_their_schemas() -> None:
    registry = TypeRegistry()
    registry.bind(10, "Event")
    data = NaisPacket(type=10, payload=b"\x08\x01").encode()
    packet = wireloom.decode(data, "nais", types=registry)
    again = pickle.loads(pickle.dumps(packet))
    assert again == packet
    assert again.message_name == "Event"
    assert pickle.loads(pickle.dumps(wireloom.decode(data, "nais"))).message_name == "Command"


# --- JSON ---------------------------------------------------------------------------------------


def test_to_dict_has_everything() -> None:
    assert wireloom.decode(ACK).to_dict() == {
        "format": "nais",
        "packet": "Ack",
        "type": 3,
        "sline": 0,
        "dline": 3,
        "rsv": 0,
        "payload": "080a1805",
        "message_name": "Ack",
        "message": {"id": 10, "status": 5},
    }
    assert NaisPacket(type=60).to_dict()["message_error"] == "not a Command: no id"


def test_changing_the_object_does_not_change_the_packet() -> None:
    packet = wireloom.decode(ACK)
    made = packet.to_dict()
    made["message"]["id"] = 99
    assert packet.to_dict()["message"]["id"] == 10
    with pytest.raises(EncodeError, match="payload and message differ"):
        wireloom.from_dict(made)
    del made["payload"]
    assert FORMAT.from_dict(made).message == {"id": 99, "status": 5}


@pytest.mark.parametrize(
    "given",
    [
        {"type": 3, "dline": 3, "payload": "080a1805"},
        {"type": 3, "dline": 3, "message": {"id": 10, "status": 5}},
        {"message_name": "Ack", "dline": 3, "message": {"id": 10, "status": 5}},
        {"message_name": "Ack", "dline": 3, "payload": "080a1805"},
        {"type": 3, "dline": 3, "payload": "080a1805", "message": None},
    ],
)
def test_from_dict_needs_a_type_and_a_content(given: dict[str, Any]) -> None:
    assert FORMAT.from_dict({"format": "nais"} | given).encode() == ACK


def test_a_message_may_name_another_schema_than_its_type() -> None:
    made = FORMAT.from_dict({"type": 10, "message_name": "Ack", "message": {"id": 1, "status": 2}})
    assert made.payload == b"\x08\x01\x18\x02"


def test_a_message_of_a_schema_that_is_not_known_here_is_not_compared() -> None:
    given = {"type": 10, "payload": "0801", "message_name": "acme.Led", "message": {"on": True}}
    assert FORMAT.from_dict(given).payload == b"\x08\x01"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "type"),
        ({"type": 3}, "payload"),
        ({"type": 3, "payload": None, "message": None}, "payload"),
        ({"type": 3, "payload": "xyz"}, "payload"),
        ({"type": 3, "payload": 5}, "payload"),
        ({"type": True, "payload": ""}, "type"),
        ({"type": 256, "payload": ""}, "type"),
        ({"type": 3, "sline": -1, "payload": ""}, "sline"),
        ({"type": 3, "dline": "3", "payload": ""}, "dline"),
        ({"type": 3, "rsv": 0.0, "payload": ""}, "rsv"),
        ({"type": 3, "colour": 1, "payload": ""}, "colour"),
        ({"type": 0, "message": {"id": 1}}, "type"),
        ({"type": 3, "message": {"status": 1}}, "message"),
        ({"type": 3, "message": {"id": "x"}}, "message"),
        ({"type": 3, "message": {"colour": 1}}, "message"),
        ({"type": 3, "message": [1]}, "message"),
        ({"type": 3, "message": {"id": 1}, "message_name": "Nonsense"}, "message_name"),
        ({"message": {"id": 1}, "message_name": "Nonsense"}, "message_name"),
        ({"message": {"id": 1}, "message_name": 5}, "message_name"),
        ({"type": 3, "payload": "0801", "message": {"id": 2}}, "message"),
        ({"type": 3, "payload": "08", "message": {"id": 2}}, "message"),
    ],
)
def test_objects_that_are_no_packets(given: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as info:
        FORMAT.from_dict(given)
    assert info.value.path == path


# --- any message --------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
events = st.fixed_dictionaries(
    {"id": int32},
    optional={
        "svals": st.lists(text, min_size=1, max_size=5),
        "fvals": st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5
        ),
        "ivals": st.lists(int32, min_size=1, max_size=5),
    },
)


@settings(max_examples=100, deadline=None)
@given(events)
def test_every_message_survives_protobuf(event: dict[str, Any]) -> None:
    packet = NaisPacket.from_message("Event", event)
    assert packet.message is not None
    assert NaisPacket.from_message("Event", packet.message) == packet
    assert packet.message.keys() == event.keys()
    assert not any(node.error for _, node in packet.outline().walk())
