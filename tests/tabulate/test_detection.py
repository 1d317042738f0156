"""Which format is on a stream: from its start, its middle, a few bytes, or among text."""

from __future__ import annotations

import io
from random import Random

import pytest

from wireloom.formats import get, names
from wireloom.formats.nrep import SocketData
from wireloom.generate.traffic import Conversation, pcap
from wireloom.kernel import load
from wireloom.tabulate import Settings, tabulate
from wireloom.tabulate.detection import PREFIX
from wireloom.tabulate.scannerpool import ScannerPool


def _detector(**options):
    return ScannerPool(Settings(**options), load(), print).detector


def _samples(name):
    return list(get(name).samples().values())


@pytest.mark.parametrize("name", names())
def test_whole_streams(name):
    detector = _detector()
    for seed in range(20):
        data = b"".join(Random(seed).choices(_samples(name), k=30))
        assert detector.by_prefix(data) == name


@pytest.mark.parametrize("name", names())
def test_streams_that_begin_in_the_middle(name):
    detector = _detector()
    for seed in range(30):
        random = Random(seed)
        data = b"".join(random.choices(_samples(name), k=40))
        assert detector.by_prefix(data[random.randrange(1, 100) :]) == name, seed


@pytest.mark.parametrize("name", names())
def test_streams_with_damage(name):
    detector = _detector()
    for seed in range(20):
        random = Random(seed)
        frames = random.choices(_samples(name), k=40)
        frames.insert(random.randrange(40), random.randbytes(50))
        assert detector.by_prefix(b"".join(frames)) == name, seed


def test_a_single_message_is_enough_where_there_is_a_magic():
    detector = _detector()
    for name in ("qform", "tibmsg", "tibrv"):
        for sample in _samples(name):
            assert detector.by_prefix(sample) == name
            assert detector.by_prefix(sample[:9]) in (name, None)


def test_messages_in_packets_do_not_hide_the_packets():
    detector = _detector()
    inner = _samples("tibmsg")[1] * 12
    packet = SocketData(socket_id=bytes(10), data=inner).encode()
    assert detector.by_prefix(packet * 5) == "nrep"
    # It begins exactly with a message in a packet.
    assert detector.by_prefix((packet * 5)[len(packet) - len(inner) :]) == "nrep"


def test_a_message_larger_than_what_is_looked_at():
    field = b"\0\x07\x7a" + (2 * PREFIX + 4).to_bytes(4, "big") + bytes(2 * PREFIX)
    large = (8 + len(field)).to_bytes(4, "big") + b"\x99\x55\xee\xaa" + field
    assert _detector().by_prefix(large[:PREFIX]) == "tibrv"


def test_text_with_frames_is_nais_and_text_alone_is_not():
    detector = _detector()
    text = b"boot: ok\nlink up\n" * 40
    assert detector.by_prefix(text + _samples("nais")[0] + text) == "nais"
    assert detector.by_prefix(text) is None
    assert detector.by_prefix(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n") is None


def test_noise_is_no_format():
    detector = _detector()
    for seed in range(20):
        assert detector.by_prefix(Random(seed).randbytes(5000)) is None, seed
    assert detector.by_prefix(b"") is None
    assert detector.by_prefix(b"\0") is None


def test_words_of_zero_and_one_are_no_format():
    detector = _detector()
    for seed in range(300):
        random = Random(seed)
        words = (random.randrange(2).to_bytes(2, "big") for _ in range(random.randrange(10, 3000)))
        assert detector.by_prefix(b"".join(words)) is None, seed


def test_ports_beat_detection():
    detector = _detector(ports={7001: "blaze", 80: "nais"})
    assert detector.by_port(5, 7001) == "blaze"
    assert detector.by_port(7001, 5) == "blaze"
    assert detector.by_port(80, 7001) == "blaze"
    assert detector.by_port(5, 6) is None
    assert _detector(formats=("nrep",)).by_port(5, 6) == "nrep"


@pytest.mark.parametrize("name", names())
def test_the_decision_does_not_depend_on_chunks(name):
    data = b"".join(Random(1).choices(_samples(name), k=200))
    for mss in (7, 300, 1460):
        talk = Conversation("10.0.0.1:1", "10.0.0.2:2", mss=mss)
        capture = io.BytesIO(pcap([*talk.send(data[11:])]))
        batches = [batch for _, batch in tabulate(capture, tables="accounting")]
        assert batches[0].to_pylist()[0]["format"] == name


def test_only_allowed_formats_are_found():
    data = b"".join(_samples("tibmsg")) * 3
    assert _detector(formats=("blaze", "nrep", "tibrv")).by_prefix(data) is None
