"""One stream cut into many parts: the records and rows of one pass, whatever the seams hit."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

import wireloom
from wireloom import kernel as kernels
from wireloom.columnar.framing import FrameScanner
from wireloom.columnar.packettables import PacketDecoder
from wireloom.columnar.split import map_frames, scan_parallel, seams
from wireloom.formats import get, names
from wireloom.formats.nrep import SocketData

PARTS = (1, 2, 3, 4, 7, 16, 31, 64)


def _samples(name):
    return list(get(name).samples().values())


def _records(batches):
    return [record for batch in batches for record in batch.records()]


def check(name, data, kernel, parts=PARTS, **options):
    """Any number of parts gives the records of the object path, and so does reading by seams."""
    one = list(wireloom.scan(data, name, **options))
    _, _, own = get(name).check_options(options)
    for count in parts:
        segment = max(1, -(-len(data) // count))
        settings = {"kernel": kernel, **own}
        found = _records(scan_parallel(name, data, segment=segment, workers=3, **settings))
        assert found == one, f"{name} in {count} parts"
        places = seams(name, data, count, **settings)
        assert (places[0], places[-1]) == (0, len(data))
        scanner = FrameScanner(name, **settings)
        found = []
        for start, stop in pairwise(places):
            found += _records(scanner.scan_range(memoryview(data), start, stop))
            assert scanner.position == stop
        assert found == one
    return one


@pytest.mark.parametrize("name", names())
def test_whole_streams(name, kernel):
    data = b"".join(Random(1).choices(_samples(name), k=200))
    check(name, data, kernel)


@pytest.mark.parametrize("name", names())
def test_damage_everywhere(name, kernel):
    random = Random(2)
    rounds = 12 if kernel is not kernels.interpreted() else 2
    for _ in range(rounds):
        data = bytearray(b"".join(random.choices(_samples(name), k=100)))
        for _ in range(random.choice((1, 5, 20))):
            at = random.randrange(len(data))
            kind = random.random()
            if kind < 0.4:
                data[at] ^= 1 << random.randrange(8)
            elif kind < 0.6:
                del data[at : at + random.randint(1, 60)]
            elif kind < 0.8:
                data[at:at] = random.randbytes(random.randint(1, 200))
            else:
                data[at:at] = random.choice(_samples(name))[:20] * random.randint(1, 20)
        check(name, bytes(data), kernel, (2, 5, 33, 64))


@pytest.mark.parametrize("name", names())
def test_nothing_but_noise(name, kernel):
    size = 3000 if kernel is not kernels.interpreted() else 600
    check(name, Random(3).randbytes(size), kernel, (1, 3, 17))
    check(name, b"\x1e" * size, kernel, (1, 3))
    check(name, bytes(size), kernel, (1, 3))


def _opaque(name, payload):
    """A frame that carries `payload` as it is."""
    if name == "nrep":
        return SocketData(socket_id=bytes(10), data=payload).encode()
    if name == "tibmsg":
        field = b"\0\x83" + len(payload).to_bytes(4, "big") + payload
        return b"\xce\x13\xaa\x1f\0" + len(field).to_bytes(4, "big") + field
    if name == "tibrv":
        field = b"\0\x07\x7a" + (len(payload) + 4).to_bytes(4, "big") + payload
        return (8 + len(field)).to_bytes(4, "big") + b"\x99\x55\xee\xaa" + field
    if name == "nais":
        return b"\x1e\x0a\0\0\0" + wireloom.wire.varint(len(payload)) + payload + b"\x17"
    head = bytes.fromhex("06460000430000000000000100000002000000070a0b0c0d")
    body = len(payload).to_bytes(4, "little") + payload
    return head + (36 + len(body)).to_bytes(4, "big") + bytes.fromhex("2000012d00000007") + body


@pytest.mark.parametrize("name", ["blaze", "nais", "nrep", "tibmsg", "tibrv"])
def test_payloads_full_of_frames_that_are_none(name, kernel):
    samples = _samples(name)
    fake = b"".join(samples)
    once = _opaque(name, fake * 3)
    odd = _opaque(name, (b"x" + fake) * 2)  # these do not end where the payload does
    twice = _opaque(name, once + odd + fake[:-3])
    data = b"".join([fake, once, fake, odd, once, twice, odd, fake])
    records = check(name, data, kernel)
    assert sum(type(record).__name__ == "Frame" for record in records) == 3 * len(samples) + 5


@pytest.mark.parametrize("name", ["blaze", "nrep", "tibmsg", "tibrv"])
def test_one_frame_longer_than_many_parts(name, kernel):
    big = _opaque(name, b"".join(_samples(name)) * 30)
    data = _samples(name)[0] + big + b"".join(_samples(name)) + big[:-5]
    check(name, data, kernel, (2, 9, 64))


def test_lines_of_text_between_frames(kernel):
    random = Random(4)
    pieces = [*_samples("nais"), b"a line of text\n", b"half a line", b"\x1e", b"\n\n", b"\x1e\x0a"]
    for _ in range(5):
        check("nais", b"".join(random.choices(pieces, k=200)), kernel, (1, 2, 7, 40))
    check("nais", b"only text, " * 100, kernel, (1, 5))
    check("nais", b"only lines\n" * 100, kernel, (1, 5))


@pytest.mark.slow
def test_every_cut_of_a_short_stream(kernel):
    for name in names():
        data = b"".join(_samples(name)[:4]) + b"\xff\0" + b"".join(_samples(name)[:3])
        step = 1 if kernel is not kernels.interpreted() else 17
        one = list(wireloom.scan(data, name))
        for segment in range(1, len(data), step):
            found = scan_parallel(name, data, segment=segment, workers=2, kernel=kernel)
            assert _records(found) == one


@pytest.mark.parametrize("name", ["blaze", "nais", "nrep"])
def test_rows_are_those_of_one_pass(name, kernel):
    random = Random(5)
    data = bytearray(b"".join(random.choices(_samples(name), k=300)))
    for _ in range(10):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    raw = bytes(data)

    def make_work():
        decoder = PacketDecoder(name, kernel=kernel)
        return lambda batch: list(decoder.decode(batch, source="file"))

    schema = PacketDecoder(name, kernel=kernel).schema

    def rows(segment):
        made = [
            each
            for _, found in map_frames(name, raw, make_work, segment=segment, kernel=kernel)
            for each in found
        ]
        table = pa.Table.from_batches([each.rows for each in made], schema)
        return table.to_pylist(), [each.offset for every in made for each in every.refused]

    one = rows(len(raw))
    for parts in (2, 5, 23):
        assert rows(len(raw) // parts) == one


def test_stopping_early_does_not_wait_for_the_rest(kernel):
    data = b"".join(_samples("blaze")) * 50
    batches = scan_parallel("blaze", data, segment=100, kernel=kernel)
    next(batches)
    batches.close()


def test_an_error_in_a_worker_reaches_the_caller(kernel):
    def make_work():
        def work(batch):
            raise ZeroDivisionError

        return work

    with pytest.raises(ZeroDivisionError):
        list(map_frames("blaze", _samples("blaze")[0], make_work, kernel=kernel))


def test_an_empty_stream(kernel):
    assert list(scan_parallel("blaze", b"", kernel=kernel)) == []
    assert seams("blaze", b"", 5, kernel=kernel) == [0]


def test_offsets_count_from_where_the_stream_starts(kernel):
    data = b"\xff" * 3 + b"".join(_samples("tibmsg")) * 3
    far = 1 << 40
    framer = get("tibmsg").framer(limits=wireloom.wire.DEFAULT_LIMITS, strict=False, offset=far)
    wanted = [*framer.feed(data), *framer.close()]
    for segment in (50, 333, 1000):
        found = scan_parallel("tibmsg", data, segment=segment, offset=far, kernel=kernel)
        assert _records(found) == wanted
