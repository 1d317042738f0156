from __future__ import annotations

import json
from random import Random

import pytest

from wireloom.errors import (
    DecodeError,
    FrameTooLargeError,
    InvalidFieldError,
    TruncatedError,
)
from wireloom.formats.blaze import FORMAT, FORMS, RULES, header_fields
from wireloom.formats.blaze.frames import form_at, measure
from wireloom.framing import Frame, Problem, Splitter, scan
from wireloom.testing.vectors.blaze import Verifier
from wireloom.wire import DEFAULT_LIMITS, Limits

SAMPLES = FORMAT.samples()
STREAM = b"".join(SAMPLES.values())

LENGTHS = {
    (1, 2): 8,
    (1, 3): 12,
    (2, 2): 8,
    (2, 3): 12,
    (3, 2): 8,
    (4, 2): 8,
    (4, 3): 12,
    (5, 2): 8,
    (5, 3): 12,
    (6, 7): 28,
    (6, 9): None,
    (7, 6): 24,
    (7, 8): None,
    (8, 5): 20,
    (8, 7): 28,
    (9, 3): 12,
    (9, 4): 16,
    (10, 6): 24,
    (10, 7): None,
    (11, 3): 12,
    (12, 2): 8,
    (13, 2): 8,
    (13, 3): 12,
}
"""Every legal pair of type and header length, and the packet's bytes where the header tells."""


def head(code: int, words: int, version: int = 1) -> bytes:
    return (version << 10 | words << 6 | code).to_bytes(2, "big") + b"\0\0"


def frames(data: bytes, chunk: int = 0) -> list[object]:
    chunks = [data[i : i + chunk] for i in range(0, len(data), chunk)] if chunk else data
    return list(scan(FORMAT.framer(limits=DEFAULT_LIMITS, strict=False), chunks))


def test_every_type_and_header_length() -> None:
    for code in range(64):
        for words in range(16):
            data = head(code, words) + bytes(20) + (40).to_bytes(4, "big") + bytes(12)
            if (code, words) in LENGTHS:
                assert measure(data, 0, len(data)) == (LENGTHS[code, words] or 40)
            else:
                with pytest.raises(InvalidFieldError) as caught:
                    measure(data, 0, len(data))
                assert caught.value.path == ("hdrlen" if 1 <= code <= 13 else "pkttyp")
    assert {(key & 63, key >> 6) for key in FORMS} == set(LENGTHS)


def test_every_version_but_zero_is_a_header() -> None:
    assert [measure(head(3, 2, version), 0, 4) for version in range(1, 64)] == [8] * 63
    with pytest.raises(InvalidFieldError, match="version 0") as caught:
        measure(b"xx" + head(3, 2, 0), 2, 6)
    assert (caught.value.path, caught.value.offset) == ("prover", 2)


def test_a_short_header_asks_for_more() -> None:
    data = SAMPLES["TXRQST/9"]
    for size in range(4):
        with pytest.raises(TruncatedError) as caught:
            measure(data, 0, size)
        assert (caught.value.needed, caught.value.available) == (4, size)
    for size in range(4, 28):
        with pytest.raises(TruncatedError) as caught:
            measure(b"x" + data, 1, size + 1)
        assert (caught.value.needed, caught.value.available) == (28, size)
        assert caught.value.offset == 1
    assert measure(data, 0, 28) == len(data)
    assert form_at(data, 0, 4).words == 9


@pytest.mark.parametrize("size", [0, 16, 35])
def test_a_packet_is_not_shorter_than_its_header(size: int) -> None:
    data = SAMPLES["TXRQST/9"][:24] + size.to_bytes(4, "big") + SAMPLES["TXRQST/9"][28:]
    with pytest.raises(InvalidFieldError, match=f"PKTLEN {size} is less") as caught:
        measure(data, 0, len(data))
    assert (caught.value.path, caught.value.offset, caught.value.code) == ("pktlen", 24, "pktlen")


def test_the_body_s_own_length_proves_a_frame() -> None:
    for name, data in SAMPLES.items():
        has_body = name in ("TXRQST/9", "TXRESP/8", "SBSEVT/7")
        assert RULES.check(b"xy" + data, 2, 2 + len(data), None) is has_body
    data = SAMPLES["TXRQST/9"]
    other = data[:36] + b"\x17" + data[37:]
    assert RULES.check(other, 0, len(other), 64) is False
    empty = data[:24] + (36).to_bytes(4, "big") + data[28:36]
    assert RULES.check(empty, 0, 36, None) is False


def test_find_gives_every_place_where_a_packet_might_start() -> None:
    rng = Random(3)
    for _ in range(300):
        junk = bytes(rng.choice((0, 4, 5, 6, 0x81, 0x46, 0x87, 0x9A)) for _ in range(24))
        for pos in (0, 1, 5):
            for end in (20, 24):
                expected = next(
                    (i for i in range(pos, end) if could_start(junk[i : min(end, i + 4)])), end
                )
                assert RULES.find(bytearray(junk), pos, end) == expected


def could_start(piece: bytes) -> bool:
    """Whether 1 to 4 bytes begin a header of version 1 without unused bits."""
    return any(
        (head(code, words) if len(piece) >= 2 else head(code, words)[: len(piece)]).startswith(
            piece
        )
        for code, words in LENGTHS
    )


@pytest.mark.parametrize("chunk", [0, 1, 2, 3, 7, 64])
def test_a_stream_is_cut_in_the_same_way_for_every_chunking(chunk: int) -> None:
    records = frames(STREAM, chunk)
    offset = 0
    for record, data in zip(records, SAMPLES.values(), strict=True):
        assert record == Frame("blaze", offset, data)
        offset += len(data)


@pytest.mark.parametrize("chunk", [0, 1, 5])
def test_only_the_damaged_packet_is_lost(chunk: int) -> None:
    samples = list(SAMPLES.values())
    for bad in range(1, len(samples) - 1):
        # The type becomes one that does not exist.
        damaged = samples[bad][:1] + b"\xff" + samples[bad][2:]
        stream = b"".join([*samples[:bad], damaged, *samples[bad + 1 :]])
        records = frames(stream, chunk)
        problems = [r for r in records if isinstance(r, Problem)]
        assert [p.data for p in problems] == [damaged]
        assert [r.data for r in records if isinstance(r, Frame)] == [
            *samples[:bad],
            *samples[bad + 1 :],
        ]


@pytest.mark.parametrize("size", [1 << 20, 1 << 31, 70, 60, 36, 12])
def test_a_wrong_pktlen_does_not_swallow_the_packets_behind_it(size: int) -> None:
    good = SAMPLES["TXRQST/9"]
    behind = [SAMPLES["TXRESP/8"], SAMPLES["SBSRES/4"], SAMPLES["SBSEVT/7"], SAMPLES["TSTREQ/3"]]
    damaged = good[:24] + size.to_bytes(4, "big") + good[28:]
    records = frames(b"".join([good, damaged, *behind]))
    found = [r.data for r in records if isinstance(r, Frame)]
    assert found[0] == good
    assert found[-4:] == behind
    # One that is too short for its body is taken for a frame, with the rest of it as a problem.
    assert found[1:-4] == ([damaged[:size]] if 36 <= size < 62 else [])


def test_noise_costs_linear_time_and_loses_no_byte() -> None:
    rng = Random(1)
    noise = bytes(rng.choice((0, 0, 0, 4, 0x81, 0x83, 8, 40)) for _ in range(20_000))
    for data in (noise, noise + STREAM, STREAM[:-3]):
        records = list(scan(FORMAT.framer(limits=DEFAULT_LIMITS, strict=False), data))
        assert b"".join(r.data for r in records) == data


# --- live -----------------------------------------------------------------------------------------


def test_a_live_packet_is_given_at_its_last_byte() -> None:
    splitter = Splitter(RULES)
    for data in SAMPLES.values():
        for i, byte in enumerate(data):
            assert splitter.pending == i
            splitter.feed(bytes([byte]))
            found = list(splitter)
            assert found == ([data] if i == len(data) - 1 else [])
    splitter.feed(STREAM)
    assert list(splitter) == list(SAMPLES.values())
    assert splitter.pending == 0


def test_good_packets_before_a_bad_header_are_given() -> None:
    splitter = Splitter(RULES)
    splitter.feed(bytearray(SAMPLES["CONREQ/2"] + b"\xff\xff\xff\xff"))
    assert next(splitter) == SAMPLES["CONREQ/2"]
    for _ in range(2):
        with pytest.raises(DecodeError, match="no packet type 63"):
            next(splitter)


def test_a_live_packet_that_is_too_large_is_refused_at_its_header() -> None:
    splitter = Splitter(RULES, Limits(max_frame=61))
    splitter.feed(SAMPLES["TXRQST/9"][:28])
    with pytest.raises(FrameTooLargeError) as caught:
        next(splitter)
    assert (caught.value.value, caught.value.limit) == (62, 61)


# --- raw headers ----------------------------------------------------------------------------------


def test_the_numbers_of_an_illegal_header_can_be_read() -> None:
    data = bytes.fromhex("05c60000000000000000000100000002000000070a0b0c0d00000000")
    with pytest.raises(DecodeError):
        FORMAT.decode(data)
    assert header_fields(data) == {
        "prover": 1,
        "hdrlen": 7,
        "pkttyp": 6,
        "txtype": 0,
        "txactn": 0,
        "rsclrq": 0,
        "txplid": 1,
        "txsvid": 2,
        "txcnid": 7,
        "txprid": 168496141,
        "connid": 0,
    }
    assert header_fields(memoryview(SAMPLES["SBSEVT/7"]))["pktlen"] == 54
    with pytest.raises(TruncatedError):
        header_fields(data[:-1])
    with pytest.raises(InvalidFieldError):
        header_fields(bytes(8))


def test_the_verifier_sees_a_stream_that_differs() -> None:
    case = {"kind": "stream", "hex": STREAM.hex(), "frame_lens": [len(d) for d in SAMPLES.values()]}
    case["packets"] = [name.partition("/")[0] for name in SAMPLES]
    assert Verifier().check(json.loads(json.dumps(case))) is None
    assert Verifier().check({**case, "frame_lens": [len(STREAM)]}) is not None
