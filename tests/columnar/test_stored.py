"""Files that are read by blocks: the records of one pass, and an error where bytes are missing."""

from __future__ import annotations

import os
from random import Random

import pytest

import wireloom
from wireloom.columnar.framing import FrameScanner
from wireloom.columnar.split import scan_parallel, seams
from wireloom.columnar.stored import InMemory, StoredFile
from wireloom.errors import SourceError
from wireloom.formats import get, names


def damaged(name: str, count: int = 200) -> bytes:
    random = Random(name)
    data = bytearray(b"".join(random.choices(list(get(name).samples().values()), k=count)))
    for _ in range(6):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


@pytest.mark.parametrize(("block", "ahead"), [(1, 1), (50, 20), (500, 1000)])
@pytest.mark.parametrize("name", names())
def test_blocks_of_any_size_give_the_records_of_one_pass(name, block, ahead, tmp_path):
    data = damaged(name)
    path = tmp_path / "raw"
    path.write_bytes(data)
    wanted = list(wireloom.scan(data, name))
    with StoredFile(path) as stored:
        stored.block, stored.ahead = block, ahead
        for segment in (97, 1000, len(data)):
            batches = scan_parallel(name, stored, segment=segment)
            assert [record for batch in batches for record in batch.records()] == wanted
        assert seams(name, stored, 7) == seams(name, data, 7)
        cut = seams(name, data, 3)[1]
        assert seams(name, stored.part(cut, len(data)), 4) == seams(name, data[cut:], 4)


@pytest.mark.parametrize("name", names())
def test_a_range_begins_at_the_chain_that_memory_has(name, tmp_path):
    data = damaged(name)
    path = tmp_path / "raw"
    path.write_bytes(data)
    one, other = FrameScanner(name), FrameScanner(name)
    with StoredFile(path) as stored:
        for first in range(0, len(data), 333):
            ranges = (first, min(first + 500, len(data)))
            here = one.scan_range(stored, *ranges, chain=4)
            found = [record for batch in here for record in batch.records()]
            there = other.scan_range(memoryview(data), *ranges, chain=4)
            wanted = [record for batch in there for record in batch.records()]
            assert found == wanted
            assert one.start == other.start
            assert one.start < 0 or one.position == other.position


def test_parts_of_a_file_are_those_of_its_bytes(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(bytes(range(200)))
    with StoredFile(path) as file:
        for stored in (file, InMemory(bytes(range(200)))):
            assert stored.size == 200
            assert bytes(stored.read(10, 20)) == bytes(range(10, 20))
            assert bytes(stored.read(190, 500)) == bytes(range(190, 200))
            assert bytes(stored.read(200, 500)) == b""
            part = stored.part(50, 60)
            assert part.size == 10
            assert bytes(part.read(3, 100)) == bytes(range(53, 60))


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(bytes(1000))
    with StoredFile(path) as stored:
        os.truncate(path, 300)
        assert bytes(stored.read(0, 300)) == bytes(300)
        with pytest.raises(SourceError, match="had 1000 bytes, and ends at 300 now"):
            stored.read(0, 301)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        StoredFile(tmp_path / "missing")
    with pytest.raises(SourceError):
        StoredFile(tmp_path)
