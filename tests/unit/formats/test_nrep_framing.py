from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wireloom
from wireloom.errors import DecodeError
from wireloom.formats import nrep
from wireloom.formats.nrep import Discover, Hello, Publish, Rules, SocketData, Unknown
from wireloom.framing import Frame, Problem, Record
from wireloom.messages import Message
from wireloom.testing.strategies import messages

A = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")
DATA = SocketData(socket_id=A, data=b"some bytes of a socket").encode()
PUBLISH = Publish(nonce=5, description="echo").encode()
HELLO = Hello().encode()


def scan(data: bytes, **options: object) -> list[Record]:
    return list(wireloom.scan(data, "nrep", **options))


def frames(records: list[Record]) -> list[bytes]:
    return [record.data for record in records if isinstance(record, Frame)]


def codes(records: list[Record]) -> list[str]:
    return [record.code for record in records if isinstance(record, Problem)]


def test_packets_back_to_back() -> None:
    parts = list(nrep.FORMAT.samples().values())
    assert frames(scan(b"".join(parts))) == parts


def test_a_whole_packet_is_given_out_at_once() -> None:
    """A client waits for Hello before it sends anything: nothing may come behind it."""
    for data in nrep.FORMAT.samples().values():
        framer = nrep.FORMAT.framer()
        assert framer.feed(data[:-1]) == []
        assert framer.feed(data[-1:]) == [Frame("nrep", 0, data)]


def test_trailing_content_is_part_of_its_packet() -> None:
    parts = [Hello(trailing=b"\1\2\3").encode(), PUBLISH, Discover(trailing=b"\0").encode()]
    assert frames(scan(b"".join(parts))) == parts


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"\1\3\0\0\0\0\0\0\0\0", "reserved"),
        (b"\0\x0b\0\0\0\0\0\0\0\0", "type"),
        (b"\0\x0a\0\0\0\0\xff\xff\xff\xff", "too_large"),
        (b"\0\x04\0\0\0\0\x03\0\0\0abc", "payload_short"),
        (b"\0\x04\0\0\0\0\x06\0\0\0\xff\0\0\0ab", "inner_length"),
    ],
)
def test_a_bad_packet_is_a_problem_and_the_next_is_found(header: bytes, code: str) -> None:
    records = scan(PUBLISH + header + DATA)
    assert frames(records) == [PUBLISH, DATA]
    assert codes(records) == [code]
    problem = records[1]
    assert isinstance(problem, Problem)
    assert problem.data == header
    assert problem.path
    assert len(PUBLISH) <= problem.at < len(PUBLISH) + len(header)


def test_a_size_that_covers_the_next_packet_is_damage() -> None:
    """Also when it ends exactly where another packet begins."""
    for count in (1, 2):
        size = len(DATA) - 10 + count * len(PUBLISH)
        damaged = DATA[:6] + size.to_bytes(4, "little") + DATA[10:]
        records = scan(damaged + PUBLISH + PUBLISH + HELLO)
        assert frames(records) == [PUBLISH, PUBLISH, HELLO]
        assert codes(records) == ["length"]


def test_an_empty_packet_in_damage_needs_a_header_behind_it() -> None:
    """Zeros in the data of a damaged packet look like Discover or Hello."""
    zeros = b"\0\3" + bytes(30)
    damaged = b"\1" + SocketData(socket_id=A, data=zeros).encode()[1:]
    records = scan(damaged + DATA)
    assert frames(records) == [DATA]
    assert codes(records) == ["reserved"]
    assert frames(scan(b"\1" + HELLO + DATA)) == [HELLO, DATA]


def test_a_false_packet_made_of_two_others_stands_back() -> None:
    """The end of one whose inner length has a wrong bit is an OpenSocket with the next header."""
    reply = bytes.fromhex("000204030201 08000000 8f190000 08000000")
    packet = SocketData(socket_id=A, data=b"hello\n").encode()
    found = scan(reply + packet + DATA)
    assert frames(found) == [packet, DATA]
    assert codes(found) == ["inner_length"]


def test_bad_text_is_left_to_the_decoder() -> None:
    data = b"\0\4\0\0\0\0\6\0\0\0\2\0\0\0\xc3\x28"
    assert frames(scan(data + DATA)) == [data, DATA]
    with pytest.raises(DecodeError):
        wireloom.decode(data, "nrep")


def test_limits_hold_in_streams() -> None:
    large = SocketData(socket_id=A, data=bytes(1 << 20)).encode()
    assert codes(scan(large))[0] == "too_large"
    assert frames(scan(large, max_content=1 << 21)) == [large]
    assert codes(scan(DATA + HELLO, max_frame=20)) == ["too_large"]


def test_extension_types_are_frames_only_when_asked_for() -> None:
    extension = Unknown(code=0x7F, content=b"new").encode()
    stream = HELLO + extension + DATA
    assert frames(scan(stream)) == [HELLO, DATA]
    assert codes(scan(stream)) == ["type"]
    assert frames(scan(stream, extensions=True)) == [HELLO, extension, DATA]
    assert frames(scan(b"?" + extension + DATA, extensions=True)) == [extension, DATA]
    # What it covers is unknown, so nothing inside can contradict its size.
    hidden = Hello(trailing=extension).encode()
    assert frames(scan(hidden + DATA, extensions=True)) == [hidden, DATA]


@given(st.lists(messages("nrep"), max_size=6), st.binary(max_size=30), st.integers(1, 40))
def test_records_do_not_depend_on_the_chunks(
    packets: list[Message], noise: bytes, size: int
) -> None:
    stream = noise.join(packet.encode() for packet in packets)
    whole = scan(stream)
    assert sum(record.length for record in whole) == len(stream)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert list(wireloom.scan(pieces, "nrep")) == whole


@given(st.integers(1, 10), st.binary(max_size=60))
def test_framing_refuses_exactly_the_contents_that_are_too_short(code: int, content: bytes) -> None:
    data = bytes([0, code, 0, 0, 0, 0]) + len(content).to_bytes(4, "little") + content
    try:
        wireloom.decode(data, "nrep")
        expected = ""
    except DecodeError as error:
        expected = error.code
    try:
        proven = Rules(1 << 20).check(bytearray(data), 0, len(data), None)
        found = ""
    except DecodeError as error:
        proven, found = False, error.code
    if expected in ("", "utf8"):
        assert found in ("", "length")
    else:
        assert found == expected
    if proven and expected == "":
        packet = wireloom.decode(data, "nrep", transport="tcp")
        assert isinstance(packet, nrep.NrepPacket)
        assert packet.trailing == b""


# --- detection ----------------------------------------------------------------------------------

MANY = b"".join(nrep.FORMAT.samples().values())


@pytest.mark.parametrize(
    ("data", "sure"),
    [
        (HELLO, 95),
        (DATA, 95),
        (MANY, 95),
        (HELLO * 1000 + b"?", 95),
        (DATA + PUBLISH + DATA[:-1], 95),
        (DATA + PUBLISH + DATA[:3], 95),
        # Cut short, but the length inside agrees with that of the packet.
        (DATA + PUBLISH[:-1], 95),
        (DATA[:-1], 95),
        (DATA + PUBLISH[:5], 60),
        (HELLO[:10] + b"garbage", 60),
        (DATA + b"\0\4\0\0\0\0\3\0\0\0abc", 60),
        (Hello(trailing=b"x").encode(), 60),
        (b"", 0),
        (HELLO[:9], 0),
        (b"\0", 0),
        (bytes(100), 0),
        (b"GET / HTTP/1.1\r\n\r\n", 0),
        (b"\0\4\0\0\0\0\3\0\0\0abc", 0),
        (b"\0\4\0\0\0\0\6\0\0\0\xff\0\0\0ab", 0),
        (b"\0\x0a\0\0\0\0\xff\xff\xff\xff", 0),
        (Unknown(code=0x40).encode(), 0),
        # The first packet of a client that negotiates extensions.
        (bytes.fromhex("00400000000009000000574c0104007f000000"), 95),
        (bytes.fromhex("0040000000000900000000000104007f000000"), 0),
    ],
)
def test_certainty(data: bytes, sure: int) -> None:
    assert nrep.FORMAT.detect(data) == sure
