"""The compiled scanners against the object path's, record for record."""

from __future__ import annotations

from random import Random

import pytest
from oracles.twins import check_scan, scanned, seeds

import wireloom
from wireloom import kernel as kernels
from wireloom.columnar.framing import MAX_FRAME, FrameScanner, scan_frames
from wireloom.errors import OptionError, UnknownProtocolError
from wireloom.formats import get, names
from wireloom.formats.nrep import SocketData
from wireloom.framing import MAX_PROBLEM, SUSPECT_STEPS, Frame, Problem, Text
from wireloom.testing.mutations import Mutator
from wireloom.wire import Limits

MUTANTS = {"compiled": 250, "interpreted": 40}


@pytest.fixture
def mutants(request, kernel):
    return MUTANTS["interpreted" if kernel is kernels.interpreted() else "compiled"]


def _sample(name):
    return next(iter(get(name).samples().values()))


@pytest.mark.parametrize("name", names())
def test_samples_back_to_back(name, kernel):
    samples = list(get(name).samples().values())
    records = check_scan(name, b"".join(samples), kernel=kernel)
    assert [record.data for record in records] == samples


@pytest.mark.parametrize("name", names())
def test_golden_vectors(name, kernel):
    for data in seeds(name):
        check_scan(name, data, kernel=kernel, chunked=len(data) < 200)


@pytest.mark.parametrize("name", names())
def test_mutants(name, kernel, mutants):
    mutator = Mutator(seeds(name, 600), seed=11)
    for _, data in mutator.mutants(0, mutants):
        check_scan(name, data, kernel=kernel)


@pytest.mark.parametrize("name", names())
def test_long_streams_with_damage(name, kernel, mutants):
    samples = list(get(name).samples().values())
    random = Random(5)
    for _ in range(mutants // 10):
        stream = bytearray(b"".join(random.choices(samples, k=60)))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(stream))
            if random.random() < 0.5:
                stream[at] ^= 1 << random.randrange(8)
            elif random.random() < 0.5:
                del stream[at : at + random.randint(1, 40)]
            else:
                stream[at:at] = random.randbytes(random.randint(1, 40))
        check_scan(name, stream, kernel=kernel, chunked=random.random() < 0.2)


@pytest.mark.parametrize("name", names())
def test_noise(name, kernel, mutants):
    random = Random(6)
    alphabet = bytes(set(b"".join(get(name).samples().values())[:64]))
    for _ in range(mutants // 4):
        check_scan(name, random.randbytes(random.randint(0, 300)), kernel=kernel)
        # Bytes that headers are made of come closer to a frame.
        check_scan(name, bytes(random.choices(alphabet, k=200)), kernel=kernel)


@pytest.mark.parametrize("name", names())
def test_limits_hold_as_on_the_object_path(name, kernel, mutants):
    mutator = Mutator(seeds(name, 300), seed=12)
    for _, data in mutator.mutants(0, mutants // 4):
        check_scan(name, data, kernel=kernel, chunked=False, max_frame=40)
        check_scan(name, data, kernel=kernel, chunked=False, strict=True)


@pytest.mark.parametrize("name", ["blaze", "nrep"])
def test_without_a_magic_a_frame_that_runs_into_the_next_stands_back(name, kernel):
    samples = [data for data in get(name).samples().values() if _is_proven(name, data)]
    good = min(samples, key=len)
    for torn in samples:
        for lost in (1, 2, len(good) - 1):
            start = b"\xff" + torn[: len(torn) - lost]
            records = check_scan(name, start + good + good, kernel=kernel)
            assert [record.offset for record in records] == [0, len(start), len(start + good)]
            check_scan(name, start + good + b"\xff" + good, kernel=kernel)
            check_scan(name, start + good + good[:3], kernel=kernel)
        # Between two damaged ones, a whole frame is found by its content alone.
        records = check_scan(name, b"\xff" + torn + b"\xff" + good, kernel=kernel)
        assert [record.data for record in records] == [b"\xff", torn, b"\xff", good]


def _is_proven(name, data):
    return get(name).framer()._rules.check(data, 0, len(data), SUSPECT_STEPS)


def test_a_bad_region_that_ends_inside_a_frame_is_given_out_in_pieces(kernel):
    if kernel is kernels.interpreted():
        pytest.skip("slow")
    good = SocketData(socket_id=bytes(10), data=b"good").encode()
    torn = SocketData(socket_id=bytes(10), data=b"\xff" * (MAX_PROBLEM - 100)).encode()[:-1]
    for before in (1, 2000, MAX_PROBLEM):
        data = b"\xff" * before + torn + good + good
        records = check_scan("nrep", data, kernel=kernel, chunked=False)
        assert [record.data for record in records if isinstance(record, Frame)] == [good, good]
        for size in (1000, 65536, 1 << 20):
            chunks = [data[at : at + size] for at in range(0, len(data), size)]
            assert scanned("nrep", chunks, kernel=kernel) == records


OPTIONS = [
    ("nrep", {"extensions": True}),
    ("tibrv", {"dialect": "document"}),
    ("tibrv", {"dialect": "standard"}),
    ("nais", {"max_len_bytes": 1}),
    ("nais", {"max_len_bytes": 10}),
    ("nais", {"max_payload": 5}),
    ("nais", {"max_text": 3}),
    ("nais", {"strict_rsv": True}),
    ("qform", {"dictionary": None}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_options_change_framing_as_on_the_object_path(name, options, kernel, mutants):
    mutator = Mutator(seeds(name, 300), seed=13)
    for _, data in mutator.mutants(0, mutants // 2):
        check_scan(name, data, kernel=kernel, **options)


def test_a_dictionary_tells_the_lengths_of_qform_fields(kernel, mutants):
    text = """{
        A { CLASS_ID 1; DATA_SIZE 3; DATA_TYPE 2; }
        B { CLASS_ID 2; IS_FIXED false; DATA_SIZE 200; DATA_TYPE 2; }
        C { CLASS_ID 3; IS_FIXED false; DATA_SIZE 70000; DATA_TYPE 11; }
        D { CLASS_ID 4; IS_PARTIAL true; DATA_SIZE 80; DATA_TYPE 2; }
        E { CLASS_ID 5; DATA_SIZE 8; DATA_TYPE 10; }
        F { CLASS_ID 6; IS_PRIMITIVE false; FIELDS { "a" { FIELD_CLASS_NAME A; } } }
    }"""
    fields = ("c001616263 00", "c0020005 6162636465 00", "c003 00000002 0102")
    more = ("c004 0007 0003 616263 00", "c005 3ff0000000000000", "c006", "0000", "c123 0000")
    random = Random(7)
    frames = []
    for _ in range(30):
        body = bytes.fromhex("".join(random.choices(fields + more, k=random.randint(0, 5))))
        frames.append(bytes.fromhex("11111112") + len(body).to_bytes(4, "big") + body)
    mutator = Mutator(frames, seed=14)
    for _, data in mutator.mutants(0, mutants):
        check_scan("qform", data, kernel=kernel, dictionary=text)


def test_deep_nesting_is_broken_at_the_same_depth(kernel):
    for depth in (199, 200, 201, 202):
        body = b""
        for _ in range(depth):
            body = b"\0\x81" + len(body).to_bytes(4, "big") + body
        data = b"\xce\x13\xaa\x1f\0" + len(body).to_bytes(4, "big") + body
        check_scan("tibmsg", data + _sample("tibmsg"), kernel=kernel, chunked=False)
        body = b""
        for _ in range(depth):
            size = 4 + 4 + len(body)
            body = b"\0\x01\x7a" + size.to_bytes(4, "big") + b"\x99\x55\xee\xaa" + body
        data = (8 + len(body)).to_bytes(4, "big") + b"\x99\x55\xee\xaa" + body
        check_scan("tibrv", data + _sample("tibrv"), kernel=kernel, chunked=False)


@pytest.mark.parametrize("name", ["blaze", "nrep", "qform", "tibmsg", "tibrv"])
def test_a_long_bad_region_is_given_out_in_pieces(name, kernel):
    if kernel is kernels.interpreted():
        pytest.skip("slow")
    data = _sample(name) + b"\x01" * (2 * MAX_PROBLEM + 100) + 3 * _sample(name)
    records = check_scan(name, data, kernel=kernel, chunked=False)
    assert [record.length for record in records if isinstance(record, Problem)][:2] == [
        MAX_PROBLEM,
        MAX_PROBLEM,
    ]
    for size in (1000, 65536, 1 << 20):
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert scanned(name, chunks, kernel=kernel) == records


@pytest.mark.parametrize("name", names())
def test_offsets_count_from_where_the_stream_starts(name, kernel):
    data = b"\xfe\xfe" + _sample(name)
    far = 3 << 32
    batches = scan_frames(name, [data[:5], data[5:]], offset=far, kernel=kernel)
    records = [record for batch in batches for record in batch.records()]
    framer = get(name).framer(limits=Limits(), strict=False, offset=far)
    assert records == [*framer.feed(data), *framer.close()]
    assert records[0].offset == far


def test_text_between_frames(kernel):
    frame = _sample("nais")
    data = b"boot\n" + frame + b"half a line" + frame + b"rest"
    records = check_scan("nais", data, kernel=kernel)
    kinds = [type(record) for record in records]
    assert kinds == [Text, Frame, Text, Frame, Text]
    assert [record.eol for record in records if isinstance(record, Text)] == [True, False, False]


def test_arrays_and_views_are_accepted_and_not_copied(kernel):
    data = 5 * _sample("tibmsg")
    (batch,) = list(scan_frames("tibmsg", memoryview(data), kernel=kernel))[:1]
    assert batch.data.obj is data
    assert scanned("tibmsg", bytearray(data), kernel=kernel) == list(wireloom.scan(data, "tibmsg"))


def test_frames_and_their_arrays_agree(kernel):
    data = b"\xff" + 3 * _sample("blaze")
    first, *_ = scan_frames("blaze", data, kernel=kernel)
    assert first.frame(0) == _sample("blaze")
    assert (first.offsets.format, first.lengths.format) == ("q", "i")
    assert len(first.others) == len(first.reaches) == 1


def test_many_marks_do_not_fit_one_batch(kernel):
    if kernel is kernels.interpreted():
        pytest.skip("slow")
    data = (b"\x1e" * 5000) + _sample("nais")
    check_scan("nais", data, kernel=kernel, chunked=False)
    data = (_sample("tibmsg") + b"x") * 3000
    check_scan("tibmsg", data, kernel=kernel, chunked=False)


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match="max_frame"):
        FrameScanner("tibmsg", limits=Limits(max_frame=MAX_FRAME + 1))
    with pytest.raises(UnknownProtocolError):
        FrameScanner("morse")


def test_an_empty_stream_has_no_batches(kernel):
    for name in names():
        assert list(scan_frames(name, b"", kernel=kernel)) == []
        assert list(scan_frames(name, [], kernel=kernel)) == []
        assert list(scan_frames(name, [b"", b""], kernel=kernel)) == []
