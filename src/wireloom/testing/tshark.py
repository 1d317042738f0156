"""Compare our TCP streams with those of tshark, where it is installed.

``tshark -z follow,tcp,raw,N`` reassembles connections by rules of its own. Where bytes were never
captured it writes a text in their place, so holes can be compared, too. It gives up a hole as soon
as the receiver has acknowledged it, so a segment that was only captured late is lost, and never
before, so a one-way capture ends at its first hole. It takes the first copy of a segment, even if
its checksum is bad and that of the next copy is good. Streams that differ only in this are not
equal, but `Comparison.is_explained`: every byte that tshark has is compared.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wireloom.captures import Capture, Dropped, Gap, Stream, StreamData
from wireloom.errors import OptionError, SourceError

__all__ = ["Comparison", "Followed", "compare", "follow", "is_installed", "parse"]

_AT_ONCE = 64
"""Connections followed in one run over the capture."""
_TIMEOUT_S = 600
_NODE = re.compile(r"Node [01]: (.*)")
_HEX = re.compile(r"\t?([0-9a-f]+)")
_MISSING = re.compile(rb"\[(\d+) bytes missing in capture file\]\0")
_CUT_SHORT = "cut short"
"""What tshark prints when it fails because the last packet is cut; it has read the others."""

End = tuple[str, int]
"""An address, as `ipaddress` writes it in full, and a port."""
Piece = tuple[int, bytes | None, int]
"""Offset, bytes and their number; None: they are missing."""


class Followed(NamedTuple):
    """One connection as tshark has it."""

    number: int
    ends: tuple[str, str]
    """Address and port of both sides; the one that was seen first comes first."""
    data: tuple[bytes, bytes]
    """What each of them sent."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One direction of one connection, on both sides."""

    name: str
    """Name of the stream, as in `wireloom.captures.Stream`."""
    size: int
    """Bytes that we have, holes not counted."""
    gap: int
    """Bytes that were never captured."""
    difference: int
    """Stream offset of the first difference; -1 if there is none."""
    reason: str = ""
    """What is different."""
    is_explained: bool = False
    """Whether that follows from tshark's own rules, so nobody needs to investigate it."""

    @property
    def is_same(self) -> bool:
        """Whether both have the same bytes and the same holes."""
        return self.difference < 0


@dataclass(slots=True)
class _Ours:
    stream: Stream
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    gap: int = 0
    replaced: list[bytes] = field(default_factory=list)
    """Payloads with bad checksums, of which there was a good copy."""


def is_installed() -> bool:
    """Whether there is a tshark to compare with."""
    return shutil.which("tshark") is not None


def parse(output: str) -> Iterator[Followed]:
    """The connections in what ``tshark -q -z follow,tcp,raw,…`` prints."""
    number = -1
    ends: list[str] = []
    sides = [bytearray(), bytearray()]
    for line in output.splitlines():
        if line.startswith("Filter: tcp.stream eq "):
            number, ends = int(line.rpartition(" ")[2]), []
            sides = [bytearray(), bytearray()]
        elif found := _NODE.fullmatch(line):
            ends.append(found[1])
        elif line.startswith("====="):
            if len(ends) == 2:
                yield Followed(number, (ends[0], ends[1]), (bytes(sides[0]), bytes(sides[1])))
            ends = []
        elif len(ends) == 2 and (found := _HEX.fullmatch(line)):
            sides[line[0] == "\t"] += bytes.fromhex(found[1])


def follow(path: str | os.PathLike[str], *, timeout_s: float = _TIMEOUT_S) -> Iterator[Followed]:
    """All TCP connections of a capture, as tshark reassembles them.

    Raises:
        OptionError: tshark is not installed.
        SourceError: it cannot read the capture, or takes longer than `timeout_s`.
    """
    if not is_installed():
        raise OptionError("tshark is not installed (Debian, Ubuntu: apt install tshark)")
    count = _connections(path, timeout_s)
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        found = {each.number: each for each in parse(_follow(path, numbers, timeout_s))}
        for number in numbers:
            # One without data is shown without addresses.
            if number in found and found[number].ends != (":0", ":0"):
                yield found[number]


def _connections(path: str | os.PathLike[str], timeout_s: float) -> int:
    """How many connections tshark has numbered."""
    numbers = _run(path, ["-Y", "tcp", "-T", "fields", "-e", "tcp.stream"], timeout_s)
    # A tunnelled packet has two.
    found = [int(number) for number in re.findall(r"\d+", numbers)]
    return max(found, default=-1) + 1


def _follow(path: str | os.PathLike[str], numbers: Iterable[int], timeout_s: float) -> str:
    wanted = ["-q"]
    for number in numbers:
        wanted += ["-z", f"follow,tcp,raw,{number}"]
    return _run(path, wanted, timeout_s)


def _run(path: str | os.PathLike[str], wanted: Sequence[str], timeout_s: float) -> str:
    command = ["tshark", "-n", "-r", os.fspath(path), *wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        reason = f"tshark did not finish within {timeout_s:g} s"
        raise SourceError(reason, file=os.fspath(path)) from error
    if done.returncode and _CUT_SHORT not in done.stderr:
        lines = done.stderr.strip().splitlines() or ["it failed"]
        raise SourceError(f"tshark: {lines[-1]}", file=os.fspath(path))
    return done.stdout


def compare(path: str | os.PathLike[str], *, timeout_s: float = _TIMEOUT_S) -> Iterator[Comparison]:
    """Compare all TCP streams of a capture; both sides are held in memory.

    Raises:
        OptionError: tshark is not installed.
        SourceError: the capture cannot be read by one of the two.
    """
    ours = _streams(path)
    turns: dict[tuple[End, End], int] = {}
    for connection in follow(path, timeout_s=timeout_s):
        a, b = map(_end, connection.ends)
        for ends, theirs in (((a, b), connection.data[0]), ((b, a), connection.data[1])):
            if not theirs:
                continue  # only directions with data are streams here
            turn = turns[ends] = turns.get(ends, 0) + 1
            own = ours.pop((*ends, turn), None)
            if own is not None and own.pieces:
                yield _compared(own, theirs)
            else:
                (src, src_port), (dst, dst_port) = ends
                name = f"tcp {src}:{src_port} > {dst}:{dst_port} #{turn}"
                yield Comparison(name, 0, 0, 0, "only tshark has this stream")
    for own in ours.values():
        if own.size:
            reason = "tshark does not have this stream"
            yield Comparison(own.stream.name, own.size, own.gap, 0, reason)


def _streams(path: str | os.PathLike[str]) -> dict[tuple[End, End, int], _Ours]:
    found: dict[tuple[End, End, int], _Ours] = {}
    for event in Capture(path):
        if not isinstance(event, (StreamData, Gap, Dropped)) or event.stream.protocol != "tcp":
            continue
        if isinstance(event, Dropped) and event.code != "checksum":
            continue
        stream = event.stream
        src, dst = _address(stream.src), _address(stream.dst)
        key = ((src, stream.src_port), (dst, stream.dst_port), stream.turn)
        own = found.setdefault(key, _Ours(stream))
        if isinstance(event, Dropped):
            own.replaced.append(event.data)
        elif isinstance(event, Gap):
            own.gap += event.length
            own.pieces.append((event.offset, None, event.length))
        else:
            own.size += len(event.data)
            own.pieces.append((event.offset, bytes(event.data), len(event.data)))
    return found


def _address(text: str) -> str:
    """An address in one of the ways in which it can be written: IPv4 in IPv6 has two."""
    return ipaddress.ip_address(text).exploded


def _end(text: str) -> End:
    address, _, port = text.rpartition(":")
    return _address(address.strip("[]")), int(port)


def _compared(own: _Ours, theirs: bytes) -> Comparison:
    """Compare what tshark has, piece by piece, with what is at the same offsets here."""
    found = list(_pieces(theirs))
    end = sum(size for _, _, size in found)
    name, difference, reason = own.stream.name, -1, ""
    for offset, raw, size in found:
        data = raw if raw is None else _with_good_copies(own, offset, raw)
        if raw is not None and data is not None and data != raw and difference < 0:
            difference = offset + _first_difference(data, raw)
            reason = f"tshark took a copy with a bad checksum at {difference}"
        for at, ours, length in _between(own.pieces, offset, offset + size):
            if data is None and ours is None:
                continue
            there = None if data is None else data[at - offset : at - offset + length]
            if there == ours:
                continue
            if data is None:
                # The first of these, unless something is worse.
                if difference < 0:
                    difference = at
                    reason = f"tshark gave up a hole at {at} that was filled later"
                continue
            if ours is None:
                worse = f"{length} bytes from {at} on are missing here, which tshark has"
                return Comparison(name, own.size, own.gap, at, worse)
            assert there is not None
            at += _first_difference(ours, there)
            worse = f"{_length(own)} bytes here, {end} there, different from {at} on"
            return Comparison(name, own.size, own.gap, at, worse)
    if _length(own) < end:
        worse = f"{_length(own)} bytes here, {end} there"
        return Comparison(name, own.size, own.gap, _length(own), worse)
    if _length(own) > end:
        rest = next(_between(own.pieces, end, _length(own)))
        if rest[1] is not None:
            worse = f"{_length(own)} bytes here, {end} there"
            return Comparison(name, own.size, own.gap, end, worse)
        if difference < 0:
            difference = end
            reason = f"tshark did not get beyond a hole at {end} that nobody acknowledged"
    return Comparison(name, own.size, own.gap, difference, reason, bool(reason))


def _with_good_copies(own: _Ours, offset: int, theirs: bytes) -> bytes:
    """What tshark has at an offset, with our copies of segments in place of those with errors."""
    if not own.replaced:
        return theirs
    mine = bytearray(len(theirs))
    for at, ours, length in _between(own.pieces, offset, offset + len(theirs)):
        if ours is not None:
            mine[at - offset : at - offset + length] = ours
    data = bytearray(theirs)
    for bad in own.replaced:
        at = theirs.find(bad)
        while at >= 0 and mine[at : at + len(bad)] == bad:
            at = theirs.find(bad, at + 1)
        if at >= 0:
            data[at : at + len(bad)] = mine[at : at + len(bad)]
    return bytes(data)


def _length(own: _Ours) -> int:
    offset, _, size = own.pieces[-1]
    return offset + size


def _pieces(theirs: bytes) -> Iterator[Piece]:
    """What tshark prints: bytes, and the texts that stand for holes."""
    at = offset = 0
    for found in _MISSING.finditer(theirs):
        if found.start() > at:
            yield offset, theirs[at : found.start()], found.start() - at
            offset += found.start() - at
        yield offset, None, int(found[1])
        offset += int(found[1])
        at = found.end()
    if at < len(theirs):
        yield offset, theirs[at:], len(theirs) - at


def _between(pieces: list[Piece], first: int, last: int) -> Iterator[Piece]:
    """What lies between two offsets."""
    for offset, data, size in pieces[_before(pieces, first) :]:
        start, stop = max(first, offset), min(last, offset + size)
        if offset >= last:
            return
        if start < stop:
            part = None if data is None else data[start - offset : stop - offset]
            yield start, part, stop - start


def _before(pieces: list[Piece], offset: int) -> int:
    return max(bisect_right(pieces, offset, key=lambda piece: piece[0]) - 1, 0)


def _first_difference(a: bytes, b: bytes) -> int:
    """Where two unequal byte strings first differ."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
