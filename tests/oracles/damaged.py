"""Damaged captures: nothing crashes, every byte is accounted for, every intact frame is found.

A capture of a few kilobytes is made for every format, container and compression. What happens to it
depends on a seed and a number alone: bits are flipped, ranges are lost, garbage gets in, the end is
missing.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from random import Random
from typing import Final

import wireloom
from oracles.captured import Rows, check_accounts
from oracles.tabled import plain_rows
from wireloom.captures import ReassemblyLimits
from wireloom.formats import get
from wireloom.framing import Frame
from wireloom.generate.traffic import (
    LINKS,
    START_NS,
    Conversation,
    Packet,
    interface_block,
    ip,
    packet_block,
    pcap_header,
    pcap_record,
    section_block,
    udp,
)
from wireloom.tables import arrow_schema
from wireloom.tabulate import Settings, tabulate

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["CONTAINERS", "Mutant", "check_mutant", "container_of", "make_mutant"]

CONTAINERS: Final = (
    "raw",
    "pcap",
    "pcapng",
    "raw.gz",
    "pcap.zst",
    "pcapng",
    "raw",
    "pcap",
    "pcapng.gz",
    "raw.zst",
    "pcap.gz",
    "pcapng.zst",
)
"""The kinds of capture that mutants of a format start from, in turn."""

_VARIANTS: Final = 16
"""Captures of a format and container that mutants start from."""

_MOST_LOST: Final = 300
"""Bytes by which a damaged packet may be too long or too short."""

_WAITING: Final = ReassemblyLimits(max_flow_packets=128)
"""Buffers that suffice for these captures, much smaller than the defaults."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A header of a container, or a packet in it."""

    data: bytes
    first: int = -1
    """Offset of its payload in the whole payload; -1: it carries none."""
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Base:
    """A capture before it is damaged."""

    frames: tuple[bytes, ...]
    pieces: tuple[_Piece, ...]
    opening: int
    """Bytes without which it may not be a capture, or may start somewhere else."""
    is_stream: bool
    """Whether frames go on from one packet to the next."""
    data: bytes
    pack: str
    """``gz``, ``zst`` or empty."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A damaged capture."""

    data: bytes
    whole: list[bytes]
    """Frames that must be found."""
    settings: Settings


def container_of(index: int) -> str:
    """The kind of capture that the mutant of that number starts from."""
    return CONTAINERS[index % len(CONTAINERS)]


def check_mutant(name: str, index: int, seed: int = 1) -> None:
    """Damage a capture of a format, and check that every frame left intact is found.

    Raises:
        AssertionError: a byte is not accounted for, or a frame that was not damaged is not found.
    """
    mutant = make_mutant(name, index, seed)
    missing = _missing(mutant.data, mutant.whole, mutant.settings)
    where = f"{name} {index} of seed {seed}, {container_of(index)}"
    assert not missing, f"{where}: {missing[0].hex()} is not found"


def make_mutant(name: str, index: int, seed: int = 1) -> Mutant:
    """The mutant of that number.

    Raises:
        AssertionError: frames are not found even without damage.
    """
    random = Random(f"{name} {seed} {index}")
    turn = index // len(CONTAINERS)
    base = _base(name, container_of(index), turn % _VARIANTS, seed)
    settings = _settings(name, random.choice((5, 100, 100, 100, 1 << 16)))
    data, first, last, lost = _damaged(base.data, random)
    if base.pack:
        whole = _whole_before(base, first)
    else:
        if len(base.pieces) == 1:
            first = _first_lost(base.data, first, last) if lost else first
            last = _believed(name, base, data, first, last)
        whole = _whole(base, first, last, lost)
    return Mutant(data, whole, settings)


@cache
def _settings(name: str, batch_rows: int) -> Settings:
    limits = ReassemblyLimits() if batch_rows == 1 << 16 else _WAITING
    return Settings(formats=(name,), include_raw=True, batch_rows=batch_rows, reassembly=limits)


def _missing(data: bytes, whole: Sequence[bytes], settings: Settings) -> list[bytes]:
    """Frames that are not found in a capture whose accounts are checked."""
    found: Rows = {}
    for name, batch in tabulate(io.BytesIO(data), settings):
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(settings.table(name))), name
        if name in ("frames", "errors", "accounting"):
            found.setdefault(name, []).extend(plain_rows(batch))
    check_accounts(found)
    left = Counter(whole)
    left.subtract(Counter(row["raw"] for row in found.get("frames", [])))
    return [frame for frame, count in left.items() if count > 0]


# --- captures -------------------------------------------------------------------------------------


@cache
def _base(name: str, container: str, variant: int, seed: int) -> _Base:
    """A capture in which everything is found while it is undamaged."""
    random = Random(f"{name} {container} {variant} {seed}")
    kind, _, pack = container.partition(".")
    samples = list(get(name).samples().values())
    frames = tuple(random.choices(samples, k=random.randint(5, 40)))
    is_stream, opening = True, 0
    if kind == "raw":
        payload = b"".join(frames)
        pieces = [_Piece(payload, 0, len(payload))]
    else:
        link = random.choice(list(LINKS))
        is_stream = random.random() < 0.7
        carried = _segments(frames, link, random) if is_stream else _datagrams(frames, link, random)
        heads, wrap = (_pcap if kind == "pcap" else _pcapng)(LINKS[link][0], random)
        pieces = [*map(_Piece, heads)]
        pieces += [_Piece(wrap(packet), *where) for packet, where in carried]
        before = next(index for index, piece in enumerate(pieces) if piece.first >= 0)
        # The first record also tells how strictly the headers of the others can be read.
        opening = sum(len(piece.data) for piece in pieces[:before]) + _HEADER
    data = _packed(b"".join(piece.data for piece in pieces), pack, random)
    made = _Base(frames, tuple(pieces), opening, is_stream, data, pack)
    missing = _missing(data, frames, _settings(name, 100))
    assert not missing, f"{name} {container} {variant} {seed}: {missing[0].hex()} is not found"
    return made


Carried = list[tuple[Packet, tuple[int, int]]]
"""Packets, each with the position and the size of its payload; -1: it has none."""


def _segments(frames: Sequence[bytes], link: str, random: Random) -> Carried:
    """A connection that carries the frames one way."""
    mss = random.choice((40, 200, 1460))
    ends = random.choice((("10.0.0.1:1000", "10.0.0.2:80"), ("[fd00::1]:1000", "[fd00::2]:80")))
    first_seq = random.choice((0, (1 << 32) - 200)), random.randrange(1 << 32)
    talk = Conversation(*ends, first_seq=first_seq, mss=mss, link=link)
    payload = b"".join(frames)
    found: Carried = [(packet, (-1, 0)) for packet in talk.open()]
    for number, packet in enumerate(talk.send(payload)):
        found.append((packet, (mss * number, min(mss, len(payload) - mss * number))))
    return found + [(packet, (-1, 0)) for packet in talk.close()]


def _datagrams(frames: Sequence[bytes], link: str, random: Random) -> Carried:
    """Datagrams with some whole frames each."""
    ends = random.choice((("10.0.0.3", "10.0.0.4"), ("fd00::3", "fd00::4")))
    found: Carried = []
    at = place = 0
    while at < len(frames):
        some = b"".join(frames[at : at + random.randint(1, 4)])
        at = bisect_right(list(accumulate(map(len, frames))), place + len(some))
        data = LINKS[link][1](ip(*ends, 17, udp(*ends, 5, 6, some)))
        found.append((Packet(START_NS + 1000 * at, data), (place, len(some))))
        place += len(some)
    return found


Wrap = Callable[[Packet], bytes]


def _pcap(link_type: int, random: Random) -> tuple[list[bytes], Wrap]:
    is_big, is_nano = random.random() < 0.3, random.random() < 0.3
    head = pcap_header(is_big=is_big, is_nano=is_nano, link_type=link_type)
    return [head], partial(pcap_record, is_big=is_big, is_nano=is_nano)


def _pcapng(link_type: int, random: Random) -> tuple[list[bytes], Wrap]:
    is_big = random.random() < 0.3
    heads = [section_block(is_big=is_big), interface_block(link_type, is_big=is_big)]
    return heads, partial(packet_block, is_big=is_big, is_old=random.random() < 0.2)


def _packed(data: bytes, pack: str, random: Random) -> bytes:
    """Packed in one go, or in two that follow each other."""
    if not pack:
        return data
    cut = random.choice((0, len(data) // 2))
    if pack == "gz":
        return b"".join(gzip.compress(part, mtime=0) for part in (data[:cut], data[cut:]) if part)
    return b"".join(_zstd(part) for part in (data[:cut], data[cut:]) if part)


def _zstd(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


# --- damage ---------------------------------------------------------------------------------------


def _damaged(data: bytes, random: Random) -> tuple[bytes, int, int, int]:
    """The damaged data, the range that was hit, and how many bytes are lost."""
    first = random.randrange(len(data))
    last = min(len(data), first + random.choice((1, 1, 4, 60)))
    kind = random.randrange(4)
    if kind == 0:
        bad = bytearray(data[first : first + 1])
        bad[0] ^= 1 << random.randrange(8)
        return data[:first] + bad + data[first + 1 :], first, first + 1, 0
    if kind == 1:
        return data[:first] + data[last:], first, last, last - first
    if kind == 2:
        garbage = random.randbytes(random.choice((1, 3, 50, 300)))
        return data[:first] + garbage + data[first:], first, first, 0
    return data[:first], first, len(data), 0


def _whole(base: _Base, first: int, last: int, lost: int) -> list[bytes]:
    """The frames without a byte in a damaged packet.

    A damaged header makes its packet seem longer or shorter. A record is accepted only if another
    one follows it, so the one before a damaged header is affected too.
    """
    if len(base.pieces) == 1:
        return _unhurt(base.frames, [(first, last)], lost)
    if first < base.opening:
        return []
    hurt: list[tuple[int, int]] = []
    at = reach = 0
    for piece in base.pieces:
        end = at + len(piece.data)
        is_hit = end + _HEADER > first and at < max(last, first + 1)
        if (is_hit or at < reach) and piece.first >= 0:
            hurt.append((piece.first, piece.first + piece.size))
        if is_hit:
            reach = end + lost
        at = end
    return _unhurt(base.frames, hurt, _MOST_LOST if base.is_stream else 0)


_HEADER: Final = 16
"""Bytes of the header of a record, or of what is looked at of a block's."""


def _unhurt(frames: Sequence[bytes], hurt: list[tuple[int, int]], lost: int) -> list[bytes]:
    """The frames outside damaged ranges.

    For all that a reader can know, a frame that has lost bytes is legal with as many bytes of the
    next frames in their place: so those are affected, too.
    """
    whole = []
    at = reach = 0
    for frame in frames:
        end = at + len(frame)
        if any(end > low and at < max(high, low + 1) for low, high in hurt):
            reach = end + lost
        elif at >= reach:
            whole.append(frame)
        at = end
    return whole


def _first_lost(data: bytes, first: int, last: int) -> int:
    """The first byte that may be lost, as far as the remaining bytes can tell.

    Where a frame ends with the bytes that the next one has lost, they may as well be its own.
    """
    while first and data[first - 1] == data[last - 1]:
        first, last = first - 1, last - 1
    return first


def _believed(name: str, base: _Base, data: bytes, first: int, last: int) -> int:
    """Where the affected range ends: at `last`, or where a frame of the damaged bytes leads to.

    If a damaged length leads to the start of a frame, or to the end, nobody can know better.
    """
    shift = len(data) - len(base.data)
    starts = [0, *accumulate(map(len, base.frames))]
    hit = bisect_right(starts, first) - 1
    bounds = {start if start <= first else start + shift for start in starts}
    behind = starts[min(bisect_right(starts, max(last - 1, first)), len(starts) - 1)] + shift
    for record in wireloom.scan(data[starts[hit] :], name):
        at = starts[hit] + record.offset
        if at >= behind:
            break
        end = at + len(record.data)
        if isinstance(record, Frame) and end in bounds:
            last = max(last, end - shift)
    return last


def _whole_before(base: _Base, first: int) -> list[bytes]:
    """The frames of a packed capture that are in the bytes before the damage.

    What follows depends on what is before it. The last record is not accepted.
    """
    size = len(_unpacked(base.data[:first], base.pack))
    total = sum(len(piece.data) for piece in base.pieces)
    return _whole(base, size, total, 0)


def _unpacked(data: bytes, pack: str) -> bytes:
    """As much as the beginning of a packed file unpacks to."""
    found = b""
    while data:
        if pack == "gz":
            unzip = zlib.decompressobj(wbits=31)
            found += unzip.decompress(data)
            data = unzip.unused_data
        else:
            plain = zstd.ZstdDecompressor()
            found += plain.decompress(data)
            data = plain.unused_data if plain.eof else b""
    return found
