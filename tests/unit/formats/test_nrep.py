from __future__ import annotations

import datetime
import json
import pickle
import subprocess
import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wireloom
from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    OptionError,
    TruncatedError,
    WireloomError,
)
from wireloom.formats import nrep
from wireloom.formats.nrep import (
    Discover,
    DiscoverInstances,
    DiscoverReply,
    Hello,
    InstanceReply,
    NrepPacket,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
    Unknown,
    app_id,
    certificates,
)
from wireloom.formats.nrep.samples import CERTIFICATE
from wireloom.messages import Message
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages

A = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")
B = bytes.fromhex("b0b1b2b3b4b5b6b7b8b9")
ZERO = bytes(10)


def read(data: bytes, **options: Any) -> Message:
    return wireloom.decode(data, "nrep", **options)


def code_of(data: bytes, **options: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        read(data, **options)
    return caught.value.code


def raw(type_: int, content: bytes = b"", nonce: int = 0, size: int | None = None) -> bytes:
    """A packet by hand, without the codec."""
    length = len(content) if size is None else size
    return bytes([0, type_]) + nonce.to_bytes(4, "little") + length.to_bytes(4, "little") + content


BOTH_WAYS: list[tuple[str, NrepPacket]] = [
    ("00010403020100000000", Discover(nonce=0x01020304)),
    ("000204030201080000008f19000000000000", DiscoverReply(nonce=0x01020304, tcp_port=6543)),
    (
        "0002ffffffff0b000000010000000300000030310a",
        DiscoverReply(nonce=0xFFFFFFFF, tcp_port=1, x509=b"01\n"),
    ),
    ("00030000000000000000", Hello()),
    ("0003000000000100000001", Hello(trailing=b"\1")),
    ("00044433221108000000040000006563686f", Publish(nonce=0x11223344, description="echo")),
    (
        "0004463322110e0000000a00000063616665cc8120e29895",
        Publish(nonce=0x11223346, description="cafe\u0301 \u2615"),
    ),
    (
        "0005443322111500000001b2d21e771d9f86865c5eb0b1b2b3b4b5b6b7b8b9",
        PublishReply(nonce=0x11223344, success=1, app_id=app_id("echo"), instance_id=B),
    ),
    (
        "0006242322210a000000b2d21e771d9f86865c5e",
        DiscoverInstances(nonce=0x21222324, app_id=app_id("echo")),
    ),
    ("0007252322210100000000", InstanceReply(nonce=0x21222325)),
    (
        "0007242322211500000002b0b1b2b3b4b5b6b7b8b9a0a1a2a3a4a5a6a7a8a9",
        InstanceReply(nonce=0x21222324, instance_ids=(B, A)),
    ),
    ("0008343332310a000000b0b1b2b3b4b5b6b7b8b9", OpenSocket(nonce=0x31323334, instance_id=B)),
    (
        "00090000000015000000a0a1a2a3a4a5a6a7a8a940b0b1b2b3b4b5b6b7b8b9",
        SocketControl(socket_id=A, flags=SocketFlags.OPEN_REQUEST, instance_id=B),
    ),
    (
        "0009343332310b0000000000000000000000000084",
        SocketControl(
            nonce=0x31323334, socket_id=ZERO, flags=SocketFlags.OPEN_ACK | SocketFlags.CLOSE
        ),
    ),
    (
        "0009000000000b000000a0a1a2a3a4a5a6a7a8a907",
        SocketControl(socket_id=A, flags=SocketFlags(7)),
    ),
    (
        "000a0000000014000000a0a1a2a3a4a5a6a7a8a90600000068656c6c6f0a",
        SocketData(socket_id=A, data=b"hello\n"),
    ),
    ("000a000000000e000000a0a1a2a3a4a5a6a7a8a900000000", SocketData(socket_id=A)),
    (
        "000a0000000013000000a0a1a2a3a4a5a6a7a8a90200000068656c6c6f",
        SocketData(socket_id=A, data=b"he", trailing=b"llo"),
    ),
]


@pytest.mark.parametrize(("text", "packet"), BOTH_WAYS)
def test_bytes_and_packets_belong_together(text: str, packet: NrepPacket) -> None:
    data = bytes.fromhex(text)
    assert read(data) == packet
    assert packet.encode() == data
    assert wireloom.from_dict(json.loads(json.dumps(packet.to_dict()))) == packet
    assert pickle.loads(pickle.dumps(packet)) == packet
    assert packet.outline().length == len(data)
    assert packet.type_name == packet.name == wireloom.outline(data, "nrep").name


def test_every_type_is_in_the_table_and_among_the_samples() -> None:
    assert {packet.code for _, packet in BOTH_WAYS} == set(range(1, 11)) == set(nrep.PACKETS)
    assert {data[1] for data in nrep.FORMAT.samples().values()} == set(range(1, 11))
    flags = {data[20] for data in nrep.FORMAT.samples().values() if data[1] == 9}
    assert flags == {0x80, 0x84, 0x40, 0x20, 0x10, 0x08, 0x04}
    infos = nrep.FORMAT.types()
    assert [(info.code, info.name) for info in infos] == [
        (code, cls.name) for code, cls in nrep.PACKETS.items()
    ]
    assert all(info.rows[0][2] == "reserved" and info.summary for info in infos)


def test_only_discovery_uses_udp() -> None:
    assert {cls.name for cls in nrep.PACKETS.values() if cls.transport == "udp"} == {
        "DISCOVER",
        "DISCOVER_REPLY",
    }


# --- what packets say ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("echo", "b2d21e771d9f86865c5e"),
        ("", "da39a3ee5e6b4b0d3255"),
        ("cafe\u0301 \u2615", "30113ddaa98ee5f8748d"),
    ],
)
def test_the_app_id_is_the_start_of_the_sha_1_of_the_exact_text(
    description: str, expected: str
) -> None:
    assert app_id(description).hex() == expected
    assert Publish(description=description).app_id.hex() == expected
    assert app_id(description + " ") != app_id(description)


@pytest.mark.parametrize(("success", "is_success"), [(1, True), (0, False), (2, False)])
def test_only_one_means_success(success: int, is_success: bool) -> None:
    packet = PublishReply(success=success, app_id=A, instance_id=B)
    assert packet.is_success is is_success


def test_flags_have_names_from_the_highest_bit_down_and_unassigned_bits_are_kept() -> None:
    packet = SocketControl(socket_id=A, flags=SocketFlags(0x8F))
    assert packet.flag_names == ("OPEN_ACK", "READY", "CLOSE")
    assert packet.unknown_bits == 3
    assert read(packet.encode()) == packet
    assert SocketControl(socket_id=A, flags=SocketFlags(0)).flag_names == ()


def test_only_socket_data_has_a_payload() -> None:
    assert list(SocketData(socket_id=A, data=b"xyz").payloads()) == [("data", b"xyz")]
    assert list(SocketData(socket_id=A).payloads()) == []
    assert list(Publish(description="xyz").payloads()) == []


def test_a_discover_reply_gives_its_certificate() -> None:
    packet = DiscoverReply(tcp_port=6000, x509=CERTIFICATE)
    certificate = packet.certificate
    assert certificate is not None
    assert certificate.subject.rfc4514_string() == "CN=nrep-test-p256"
    assert certificate.not_valid_before_utc == datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
    assert packet.is_secure
    assert packet.fingerprint == certificate.fingerprint(_sha256()).hex()


def _sha256() -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def test_without_a_certificate_an_entry_point_is_not_secure() -> None:
    packet = DiscoverReply(tcp_port=6000)
    assert not packet.is_secure
    assert packet.certificate is None
    assert packet.fingerprint is None


@pytest.mark.parametrize(
    "der", [b"\x30", b"no certificate", CERTIFICATE[:-1], CERTIFICATE + b"\0", b"\0" * 300]
)
def test_bad_certificate_bytes_make_an_error_only_when_they_are_parsed(der: bytes) -> None:
    packet = read(DiscoverReply(tcp_port=6000, x509=der).encode(), strict=True)
    assert isinstance(packet, DiscoverReply)
    assert packet.is_secure
    assert packet.fingerprint is not None
    with pytest.raises(DecodeError, match=r"not an X\.509 certificate") as caught:
        _ = packet.certificate
    assert (caught.value.code, caught.value.path) == ("certificate", "x509")
    (node,) = [node for node in packet.outline().children if node.name == "x509"]
    assert "not an X.509 certificate" in node.meaning
    assert node.error == ""


def test_the_outline_shows_subject_and_fingerprint() -> None:
    packet = DiscoverReply(tcp_port=6000, x509=CERTIFICATE)
    (node,) = [node for node in packet.outline().children if node.name == "x509"]
    assert node.meaning == f"CN=nrep-test-p256; SHA-256 {packet.fingerprint}"


def test_a_certificate_with_a_broken_subject_is_still_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        @property
        def subject(self) -> object:
            raise ValueError("bad name")

    monkeypatch.setattr(certificates, "load", lambda der: Broken())
    assert certificates.summary(CERTIFICATE).startswith("bad subject: bad name; SHA-256 9d07")


def test_cryptography_is_imported_only_for_certificates() -> None:
    code = (
        "import sys\nfrom wireloom.formats import nrep\n"
        "assert all(nrep.FORMAT.decode(data) for data in nrep.FORMAT.samples().values())\n"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- what cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        (b"", "short_header", "", 0),
        (bytes(9), "short_header", "", 0),
        (b"\1" * 9, "short_header", "", 0),
        (b"\1" + raw(3)[1:], "reserved", "reserved", 0),
        (raw(0), "type", "type", 1),
        (raw(11), "type", "type", 1),
        (raw(0x40), "type", "type", 1),
        (raw(0xFF), "type", "type", 1),
        (raw(3, size=(1 << 20) + 1), "too_large", "content_size", 6),
        (raw(10, size=0xFFFFFFFF), "too_large", "content_size", 6),
        (raw(3, size=1), "truncated", "", 0),
        (raw(2, bytes(3)), "payload_short", "tcp_port", 10),
        (raw(2, bytes(7)), "payload_short", "x509_length", 14),
        (raw(2, b"\1\0\0\0\5\0\0\0abcd"), "inner_length", "x509", 18),
        (raw(4, b"\4\0\0"), "payload_short", "description_length", 10),
        (raw(4, b"\4\0\0\0ech"), "inner_length", "description", 14),
        (raw(4, b"\xff\xff\xff\xffecho"), "inner_length", "description", 14),
        (raw(4, b"\2\0\0\0\xc3\x28"), "utf8", "description", 14),
        (raw(4, b"\3\0\0\0\xed\xa0\x80"), "utf8", "description", 14),
        (raw(5), "payload_short", "success", 10),
        (raw(5, bytes(10)), "payload_short", "app_id", 11),
        (raw(5, bytes(20)), "payload_short", "instance_id", 21),
        (raw(6, bytes(9)), "payload_short", "app_id", 10),
        (raw(7), "payload_short", "count", 10),
        (raw(7, b"\2" + bytes(19)), "inner_length", "instance_ids", 11),
        (raw(8, bytes(9)), "payload_short", "instance_id", 10),
        (raw(9, bytes(9)), "payload_short", "socket_id", 10),
        (raw(9, bytes(10)), "payload_short", "flags", 20),
        (raw(9, bytes(10) + b"\x40" + bytes(9)), "payload_short", "instance_id", 21),
        (raw(10, bytes(9)), "payload_short", "socket_id", 10),
        (raw(10, bytes(13)), "payload_short", "data_length", 20),
        (raw(10, bytes(10) + b"\2\0\0\0x"), "inner_length", "data", 24),
    ],
)
def test_an_error_has_its_code_its_field_and_its_offset(
    data: bytes, code: str, path: str, offset: int
) -> None:
    for options in ({}, {"strict": True}, {"transport": "udp"}, {"transport": None}):
        with pytest.raises(DecodeError) as caught:
            read(data, **options)
        error = caught.value
        assert (error.code, error.path, error.offset) == (code, path, offset)
    tree = wireloom.outline(data, "nrep")
    assert tree.length == len(data)
    assert any(node.error for _, node in tree.walk())


def test_what_is_missing_is_counted() -> None:
    with pytest.raises(TruncatedError) as caught:
        read(raw(3, b"abc", size=8))
    assert (caught.value.needed, caught.value.available) == (18, 13)


def test_a_header_error_is_found_before_the_content_is_there() -> None:
    with pytest.raises(FrameTooLargeError) as caught:
        read(raw(10, size=1 << 31))
    assert (caught.value.value, caught.value.limit) == ((1 << 31) + 10, (1 << 20) + 10)


# --- strict and tolerant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "code", "path"),
    [
        (Hello(trailing=b"\1"), "trailing", "trailing"),
        (Hello(nonce=1), "illegal_value", "nonce"),
        (DiscoverReply(tcp_port=0), "illegal_value", "tcp_port"),
        (DiscoverReply(tcp_port=65536), "illegal_value", "tcp_port"),
        (PublishReply(success=2, app_id=A, instance_id=B), "illegal_value", "success"),
        (Publish(description="x", trailing=b"more"), "trailing", "trailing"),
        (SocketControl(socket_id=A, flags=SocketFlags(0)), "illegal_value", "flags"),
        (SocketControl(socket_id=A, flags=SocketFlags(0x0C)), "illegal_value", "flags"),
        (SocketControl(socket_id=A, flags=SocketFlags(0x05)), "illegal_value", "flags"),
        (SocketControl(socket_id=A, flags=SocketFlags(4), nonce=9), "illegal_value", "nonce"),
        (SocketData(socket_id=A, nonce=9), "illegal_value", "nonce"),
    ],
)
def test_a_tolerant_reader_keeps_what_a_strict_one_rejects(
    packet: NrepPacket, code: str, path: str
) -> None:
    data = packet.encode()
    assert read(data) == packet
    with pytest.raises(DecodeError) as caught:
        read(data, strict=True)
    assert (caught.value.code, caught.value.path) == (code, path)
    tree = wireloom.outline(data, "nrep", strict=True)
    assert [node.name for node in tree.children if node.error] == [path]
    assert tree.children[[n.name for n in tree.children].index(path)].offset == caught.value.offset


@pytest.mark.parametrize(
    "packet",
    [
        DiscoverReply(tcp_port=1),
        DiscoverReply(tcp_port=65535),
        SocketControl(socket_id=A, flags=SocketFlags.OPEN_ACK, nonce=9),
        PublishReply(success=0, app_id=ZERO, instance_id=ZERO, nonce=0xFFFFFFFF),
    ],
)
def test_a_strict_reader_takes_what_conforming_peers_send(packet: NrepPacket) -> None:
    assert read(packet.encode(), strict=True) == packet


def test_bytes_behind_a_packet_are_an_error_only_for_a_strict_reader_of_a_stream() -> None:
    data = Hello().encode() + b"more"
    for options in ({}, {"transport": "udp"}, {"transport": "udp", "strict": True}):
        assert read(data, **options) == Hello()
    assert read(data, transport=None, strict=True) == Hello()
    with pytest.raises(DecodeError) as caught:
        read(data, transport="tcp", strict=True)
    assert (caught.value.code, caught.value.offset) == ("trailing", 10)
    tree = wireloom.outline(data, "nrep", strict=True)
    assert tree.error == "4 bytes after the packet"


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"max_content": 81_933},
        {"max_content": 1 << 32},
        {"max_content": 1e6},
        {"max_content": None},
        {"transport": "sctp"},
        {"extensions": "maybe"},
        {"dialect": 1},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    for call in (read, lambda data, **o: wireloom.outline(data, "nrep", **o)):
        with pytest.raises(OptionError):
            call(Hello().encode(), **options)
    with pytest.raises(OptionError):
        wireloom.scan(b"", "nrep", **options)


def test_a_bad_transport_is_refused_by_the_format_itself_too() -> None:
    with pytest.raises(OptionError, match="transport"):
        nrep.FORMAT.decode(Hello().encode(), transport="sctp")


def test_the_largest_frame_of_existing_forwarders_passes_under_the_lowest_limit() -> None:
    packet = SocketData(socket_id=A, data=bytes(81_920))
    data = packet.encode()
    assert len(data) == 10 + nrep.LEAST_MAX_CONTENT
    assert read(data, max_content=nrep.LEAST_MAX_CONTENT) == packet
    assert code_of(raw(10, bytes(81_935)), max_content=nrep.LEAST_MAX_CONTENT) == "too_large"


def test_the_default_limit_is_one_mebibyte_and_can_be_raised() -> None:
    content = bytes(1 << 20)
    assert isinstance(read(raw(3, content)), Hello)
    assert code_of(raw(3, content + b"\0")) == "too_large"
    assert isinstance(read(raw(3, content + b"\0"), max_content=1 << 21), Hello)
    assert code_of(raw(3, bytes(91)), max_frame=100) == "too_large"
    assert isinstance(read(raw(3, bytes(90)), max_frame=100), Hello)


def test_extension_types_are_kept_when_asked_for() -> None:
    for code in (0x40, 0x41, 0xFF):
        data = raw(code, b"content", nonce=0x01020304)
        packet = read(data, extensions=True, strict=True)
        assert packet == Unknown(code=code, nonce=0x01020304, content=b"content")
        assert packet.encode() == data
        assert packet.type_name == "UNKNOWN"
        assert wireloom.from_dict(json.loads(json.dumps(packet.to_dict()))) == packet
        assert pickle.loads(pickle.dumps(packet)) == packet
        for tree in (packet.outline(), wireloom.outline(data, "nrep", extensions=True)):
            assert tree.name == "UNKNOWN"
            assert [node.name for node in tree.children][-2:] == ["content_size", "content"]
            assert not any(node.error for _, node in tree.walk())
        assert [r.data for r in wireloom.scan(data * 2, "nrep", extensions=True)] == [data] * 2
    empty = Unknown(code=0x40)
    assert read(empty.encode(), extensions=True) == empty
    assert empty.outline().children[-1].name == "content_size"


@pytest.mark.parametrize("code", [0x00, 0x0B, 0x3F])
def test_unassigned_types_below_the_extensions_stay_errors(code: int) -> None:
    assert code_of(raw(code), extensions=True) == "type"


# --- what cannot be written ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "path"),
    [
        (Hello(nonce=-1), "nonce"),
        (Hello(nonce=1 << 32), "nonce"),
        (Hello(trailing="x"), "trailing"),  # type: ignore[arg-type]
        (DiscoverReply(tcp_port=1 << 32), "tcp_port"),
        (Publish(description=b"x"), "description"),  # type: ignore[arg-type]
        (Publish(description="\ud800"), "description"),
        (PublishReply(success=256, app_id=A, instance_id=B), "success"),
        (PublishReply(success=1, app_id=A[:9], instance_id=B), "app_id"),
        (OpenSocket(instance_id=B + b"\0"), "instance_id"),
        (InstanceReply(instance_ids=(A,) * 256), "count"),
        (InstanceReply(instance_ids=(A, b"")), "instance_ids"),
        (SocketControl(socket_id=A, flags=SocketFlags(0x40)), "instance_id"),
        (SocketControl(socket_id=A, flags=SocketFlags(0x80), instance_id=B), "instance_id"),
        (SocketControl(socket_id=A, flags=SocketFlags(0x104)), "flags"),
        (Unknown(code=9), "code"),
        (Unknown(code=256), "code"),
        (Unknown(code="x"), "code"),  # type: ignore[arg-type]
        (Unknown(code=64, content="x"), "content"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_names_its_field(packet: Message, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        packet.encode()
    assert caught.value.path == path


@pytest.mark.parametrize(
    "d",
    [
        {},
        {"packet": "PING"},
        {"packet": 3},
        {"packet": "HELLO", "color": 1},
        {"packet": "HELLO", "nonce": "1"},
        {"packet": "HELLO", "nonce": 1.5},
        {"packet": "HELLO", "trailing": "xx"},
        {"packet": "PUBLISH"},
        {"packet": "PUBLISH", "description": 5},
        {"packet": "INSTANCE_REPLY", "instance_ids": ["zz"]},
        {"packet": "INSTANCE_REPLY", "instance_ids": 5},
        {"packet": "SOCKET_CONTROL", "socket_id": A.hex(), "flags": "PING"},
        {"packet": "UNKNOWN"},
        {"packet": "UNKNOWN", "code": 64, "content": 5},
        {"packet": "UNKNOWN", "code": 64, "content": "", "color": 1},
        {"packet": "UNKNOWN", "code": 64, "content": "", "nonce": -1},
        {"packet": "UNKNOWN", "code": 9, "content": ""},
    ],
)
def test_a_foreign_object_is_no_packet(d: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        wireloom.from_dict({"format": "nrep", **d})


def test_flags_may_be_named_in_json() -> None:
    d = {"format": "nrep", "packet": "SOCKET_CONTROL", "socket_id": A.hex(), "flags": "CLOSE"}
    assert wireloom.from_dict(d) == SocketControl(socket_id=A, flags=SocketFlags.CLOSE)


# --- properties ---------------------------------------------------------------------------------


@given(messages("nrep"))
def test_every_packet_survives_bytes_and_json(packet: Message) -> None:
    data = packet.encode()
    assert read(data) == packet
    assert wireloom.from_dict(json.loads(json.dumps(packet.to_dict()))) == packet
    assert len(data) == 10 + int.from_bytes(data[6:10], "little")


@given(st.integers(0, 255), st.binary(max_size=80), st.integers(0, 0xFFFFFFFF), st.booleans())
def test_what_is_accepted_is_written_back_to_the_same_bytes(
    code: int, content: bytes, nonce: int, extensions: bool
) -> None:
    data = raw(code, content, nonce)
    try:
        packet = read(data, extensions=extensions)
    except WireloomError:
        return
    assert packet.encode() == data


def test_mutants_make_packets_or_decode_errors_with_extensions_too() -> None:
    samples = [*nrep.FORMAT.samples().values(), raw(0x40, b"extension"), raw(0xFE)]
    accepted = 0
    for index, data in Mutator(samples, seed=3).mutants(0, 1500):
        accepted += examine(nrep.FORMAT, data, Random(index), thorough=False, extensions=True)
        try:
            packet = read(data, extensions=True)
        except DecodeError:
            continue
        encoded = packet.encode()
        assert encoded == data[: len(encoded)]
    assert accepted > 100
