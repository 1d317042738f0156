"""The packet tables of blaze, nais and nrep against the object path, row for row."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from oracles.twins import batch_of, check_packets, seeds

from wireloom import kernel as kernels
from wireloom.columnar import packettables
from wireloom.columnar.framing import scan_frames
from wireloom.columnar.packettables import PacketDecoder
from wireloom.errors import OptionError
from wireloom.formats import get
from wireloom.tables import table
from wireloom.testing.mutations import Mutator

NAMES = ("blaze", "nais", "nrep")
OPTIONS = [
    ("blaze", {}),
    ("blaze", {"dialect": "2017"}),
    ("blaze", {"dialect": "2019"}),
    ("blaze", {"strict": True}),
    ("nais", {}),
    ("nais", {"max_len_bytes": 10}),
    ("nais", {"strict": True}),
    ("nrep", {}),
    ("nrep", {"extensions": True}),
    ("nrep", {"strict": True}),
]


@pytest.fixture
def mutants(kernel):
    return 150 if kernel is kernels.interpreted() else 1500


def _decoder(name, kernel, columns=None, **options):
    limits, strict, own = get(name).check_options(options)
    return PacketDecoder(name, columns=columns, limits=limits, strict=strict, kernel=kernel, **own)


def _samples(name):
    return list(get(name).samples().values())


def _rows(decoder, batch, **keys):
    made = list(decoder.decode(batch, **keys))
    return pa.Table.from_batches([each.rows for each in made], decoder.schema)


@pytest.mark.parametrize("name", NAMES)
def test_samples(name, kernel):
    batch = batch_of(name, _samples(name), base=1 << 40)
    rows, refused = check_packets(name, batch, decoder=_decoder(name, kernel))
    assert len(rows) == len(_samples(name))
    assert not refused


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_golden_vectors_and_mutants_as_frames(name, options, kernel, mutants):
    """Any bytes are taken for frames here, so that kernel and object path may disagree on them."""
    mutator = Mutator(seeds(name, 600), seed=21)
    frames = seeds(name) + [data for _, data in mutator.mutants(0, mutants)]
    batch = batch_of(name, frames)
    rows, refused = check_packets(name, batch, decoder=_decoder(name, kernel, **options), **options)
    assert rows
    assert refused


@pytest.mark.parametrize("name", NAMES)
def test_every_bit_of_every_header(name, kernel):
    frames = []
    for sample in _samples(name):
        for bit in range(8 * min(len(sample), 40)):
            damaged = bytearray(sample)
            damaged[bit // 8] ^= 1 << bit % 8
            frames.append(bytes(damaged))
    if kernel is kernels.interpreted():
        frames = frames[::10]
    check_packets(name, batch_of(name, frames), decoder=_decoder(name, kernel))


def test_every_combination_that_a_blaze_packet_may_refuse(kernel):
    """The fields that packets' own checks look at lie in the second and third word."""
    frames = []
    for sample in _samples("blaze"):
        for at in range(4, min(9, len(sample)), 4):
            frames += [sample[:at] + bytes([byte]) + sample[at + 1 :] for byte in range(256)]
    if kernel is kernels.interpreted():
        frames = frames[::20]
    check_packets("blaze", batch_of("blaze", frames), decoder=_decoder("blaze", kernel))


@pytest.mark.parametrize("name", NAMES)
def test_each_column_alone_is_the_same(name, kernel):
    mutator = Mutator(_samples(name), seed=22)
    frames = _samples(name) + [data for _, data in mutator.mutants(0, 100)]
    batch = batch_of(name, frames)
    whole = _rows(_decoder(name, kernel), batch)
    for column in table(name).names:
        alone = _rows(_decoder(name, kernel, [column]), batch)
        assert alone.column_names == [column]
        assert alone[column].to_pylist() == whole[column].to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_streams_with_damage_from_bytes_to_rows(name, kernel):
    random = Random(3)
    stream = bytearray(b"".join(random.choices(_samples(name), k=300)))
    for _ in range(40):
        stream[random.randrange(len(stream))] = random.randrange(256)
    decoder = _decoder(name, kernel)
    found = refused = 0
    for batch in scan_frames(name, bytes(stream), kernel=kernel, batch=50):
        rows, wrong = check_packets(name, batch, decoder=decoder)
        found += len(rows)
        refused += len(wrong)
        assert len(rows) + len(wrong) == batch.count
    assert found > 150


def test_numbers_without_a_name_stay_numbers(kernel):
    decoder = _decoder("blaze", kernel)
    # TXRESP in the short form, with BLZCOD from 0 to 999.
    head = bytes.fromhex("05870000")
    ids = bytes.fromhex("00000001000000020000000300000004")
    frames = [
        head + (1 << 29 | code).to_bytes(4, "big") + ids for code in (*range(1000), 65535, 700)
    ]
    for _ in range(2):  # the second time, they are known
        rows, _ = check_packets("blaze", batch_of("blaze", frames), decoder=decoder)
        assert rows[200]["blzcod"] == "INVALID_TRANSACTION_ID"
        assert rows[999]["blzcod"] == "999"


def test_capture_times(kernel):
    frames = _samples("nrep")[:4]
    times = memoryview(bytearray(8 * 4)).cast("q")
    for index, ns in enumerate((1_700_000_000_123_456_789, 999, -1, 0)):
        times[index] = ns
    decoder = _decoder("nrep", kernel, ["ts_ns", "ts", "source", "stream", "path"])
    rows = _rows(decoder, batch_of("nrep", frames), ts_ns=times, source="f", stream="s")
    assert rows["ts_ns"].to_pylist() == [1_700_000_000_123_456_789, 999, -1, 0]
    assert rows["ts"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456, 0, -1, 0]
    assert rows["source"].to_pylist() == ["f"] * 4
    assert rows["stream"].to_pylist() == ["s"] * 4
    assert rows["path"].to_pylist() == [""] * 4


def test_capture_times_of_rows_that_only_the_object_path_has(kernel):
    sample = _samples("blaze")[0]
    times = memoryview(bytearray(8 * 3)).cast("q")
    times[1] = 5001
    frames = [sample, sample + b"behind it", sample]
    rows = _rows(_decoder("blaze", kernel), batch_of("blaze", frames), ts_ns=times)
    assert rows["ts_ns"].to_pylist() == [0, 5001, 0]
    assert rows["ts"].cast(pa.int64()).to_pylist() == [0, 5, 0]
    assert rows["frame_length"].to_pylist() == [len(frame) for frame in frames]


def test_large_payloads_make_smaller_batches(kernel, monkeypatch):
    monkeypatch.setattr(packettables, "MAX_BATCH_BYTES", 200)
    frames = _samples("nrep") * 3
    decoder = _decoder("nrep", kernel)
    made = list(decoder.decode(batch_of("nrep", frames)))
    assert len(made) > 3
    assert sum(each.rows.num_rows for each in made) == len(frames)
    check_packets("nrep", batch_of("nrep", frames), decoder=decoder)


def test_pieces_of_a_batch_keep_their_places(kernel, monkeypatch):
    monkeypatch.setattr(packettables, "MAX_BATCH_BYTES", 100)
    good, *_ = _samples("blaze")
    frames = [good, b"\0" * 12, good + b"more", good] * 5
    rows, refused = check_packets(
        "blaze", batch_of("blaze", frames), decoder=_decoder("blaze", kernel)
    )
    assert [each.index for each in refused] == [1, 5, 9, 13, 17]
    assert len(rows) == 15


def test_the_schema_is_that_of_the_table(kernel):
    for name in NAMES:
        decoder = _decoder(name, kernel)
        assert decoder.schema.names == list(table(name).names)
        (made,) = decoder.decode(batch_of(name, _samples(name)))
        assert made.rows.schema == decoder.schema


def test_no_frames_make_no_rows(kernel):
    for name in NAMES:
        assert list(_decoder(name, kernel).decode(batch_of(name, []))) == []


def test_what_is_not_there_is_refused(kernel):
    with pytest.raises(OptionError, match="no column"):
        PacketDecoder("blaze", columns=["colour"], kernel=kernel)
    with pytest.raises(OptionError, match="no packet table"):
        PacketDecoder("tibmsg", kernel=kernel)
