"""Compression: by content, streaming, several members, truncation, damage, bombs."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from random import Random

import pytest

from wireloom.captures import Capture
from wireloom.captures.bytesource import ByteSource
from wireloom.errors import SourceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def checked_zstd(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


PACK = {"gzip": gzip.compress, "zstd": checked_zstd}
DATA = Random(1).randbytes(100_000) + bytes(100_000)


class Drip(io.RawIOBase):
    """A pipe that gives a few bytes at a time, and knows no size."""

    def __init__(self, data: bytes, step: int) -> None:
        self._inner = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(min(self._step, len(room)))
        room[: len(data)] = data
        return len(data)


def unpack(source: ByteSource, room: int = 10_000) -> bytes:
    found = bytearray()
    buffer = memoryview(bytearray(room))
    while count := source.read_into(buffer):
        found += buffer[:count]
        assert count == room or source.read_into(buffer) == 0
    return bytes(found)


@pytest.mark.parametrize("step", [1, 3, 1000, 1 << 20])
@pytest.mark.parametrize("name", PACK)
def test_unpacks_whatever_the_pipe_gives(name, step):
    source = ByteSource(Drip(PACK[name](DATA[:5000]), step))  # type: ignore[arg-type]
    assert source.compression == name
    assert unpack(source, 77) == DATA[:5000]
    assert source.fault is None


@pytest.mark.parametrize("name", PACK)
def test_members_in_a_row_are_one_file(name):
    pack = PACK[name]
    source = ByteSource(io.BytesIO(pack(DATA) + pack(b"") + pack(b"more")))
    assert unpack(source) == DATA + b"more"
    assert source.fault is None


def test_zeros_behind_gzip_are_padding():
    source = ByteSource(io.BytesIO(gzip.compress(DATA) + bytes(1 << 20)))
    assert unpack(source) == DATA
    assert source.fault is None


def test_a_skippable_frame_first():
    frame = (0x184D2A50).to_bytes(4, "little") + (4).to_bytes(4, "little") + b"\1\2\3\4"
    source = ByteSource(io.BytesIO(frame + zstd.compress(DATA)))
    assert unpack(source) == DATA


@pytest.mark.parametrize("name", PACK)
def test_a_truncated_file_gives_what_it_has(name):
    packed = PACK[name](DATA)
    for size in (5, len(packed) // 2, len(packed) - 1):
        source = ByteSource(io.BytesIO(packed[:size]))
        assert DATA.startswith(unpack(source))
        assert source.fault is not None
        assert "ends early" in source.fault.reason


@pytest.mark.parametrize("name", PACK)
def test_damage_ends_the_bytes_and_is_told(name):
    packed = bytearray(PACK[name](DATA))
    packed[len(packed) // 2] ^= 0xFF
    events = list(Capture(io.BytesIO(bytes(packed))))
    (damage,) = [e for e in events if type(e).__name__ == "Damage"]
    assert (damage.layer, damage.code) == ("compression", name)


@pytest.mark.parametrize("name", PACK)
def test_a_wrong_check_value_takes_nothing_away(name):
    packed = bytearray(PACK[name](DATA))
    packed[-6 if name == "gzip" else -1] ^= 1
    for step in (77, 1 << 20):
        source = ByteSource(io.BytesIO(bytes(packed)))
        assert unpack(source, step) == DATA
        assert source.fault is not None


@pytest.mark.parametrize("at", [0.3, 0.9])
def test_what_comes_before_a_fault_of_gzip_is_kept(at):
    data = Random(2).randbytes(1 << 20)  # packed it is as long, in blocks that say so
    packed = bytearray(gzip.compress(data, 1))
    place = int(len(packed) * at)
    good = zlib.decompressobj(wbits=31).decompress(bytes(packed[:place]))
    packed[place : place + 40_000] = b"\xff" * 40_000
    source = ByteSource(io.BytesIO(bytes(packed)))
    assert unpack(source).startswith(good)
    assert source.fault is not None


@pytest.mark.parametrize("name", PACK)
def test_garbage_behind_the_last_member_is_told(name):
    source = ByteSource(io.BytesIO(PACK[name](DATA) + b"garbage"))
    assert unpack(source) == DATA
    assert source.fault is not None


def test_a_bomb_costs_no_memory():
    # 1 GB of zeros in 1 MB; the first 64 MB are enough to see that nothing piles up.
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    packed = b"".join(packer.compress(block) for _ in range(64)) + packer.flush()
    for data in (packed, zstd.compress(bytes(64 << 20))):
        source = ByteSource(io.BytesIO(data))
        buffer = memoryview(bytearray(1 << 16))
        total = 0
        while count := source.read_into(buffer):
            total += count
        assert total == 64 << 20


def test_plain_files_are_not_copied(tmp_path: Path):
    path = tmp_path / "raw.bin"
    path.write_bytes(DATA)
    with ByteSource(path) as source:
        assert source.size == len(DATA)
        assert source.compression == ""
        assert unpack(source) == DATA
        assert source.consumed == len(DATA)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(SourceError, match="No such file"):
        ByteSource(tmp_path / "missing")
    with pytest.raises(SourceError):
        list(Capture([tmp_path / "missing"]))


class Broken(io.RawIOBase):
    """A disk that fails after some bytes."""

    def __init__(self, good: bytes) -> None:
        self._good = good

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        if not self._good:
            raise OSError(5, "Input/output error")
        count = min(len(room), len(self._good), 4)
        room[:count] = self._good[:count]
        self._good = self._good[count:]
        return count


@pytest.mark.parametrize(
    "good", [b"", b"raw bytes", gzip.compress(DATA)[:100]], ids=["empty", "raw", "gzip"]
)
def test_a_disk_that_fails(good):
    with pytest.raises(SourceError, match="Input/output error"):
        list(Capture(Broken(good)))  # type: ignore[arg-type]


def test_anything_with_read_will_do():
    class Plain:
        def __init__(self, data: bytes) -> None:
            self.read = io.BytesIO(data).read

    assert unpack(ByteSource(Plain(DATA))) == DATA  # type: ignore[arg-type]


def test_a_directory(tmp_path: Path):
    with pytest.raises(SourceError):
        ByteSource(tmp_path)


@pytest.mark.parametrize("size", range(6))
def test_files_shorter_than_a_magic(size):
    data = gzip.compress(b"")[:size]
    source = ByteSource(io.BytesIO(data))
    unpack(source)
