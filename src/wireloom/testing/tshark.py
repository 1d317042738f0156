"""Our TCP streams beside those of tshark, where it is installed.

``tshark -z follow,tcp,raw,N`` puts connections together by rules of its own. Where a byte was never
captured it writes a text in its place, so that holes can be compared, too. It gives a hole up as
soon as the receiver has acknowledged it, so that a segment that was only captured late is lost, and
never before, so that a one-way capture ends at its first hole. Streams where that is the first
difference are not equal, but `Comparison.is_explained`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from wireloom.captures import Capture, Gap, Stream, StreamData
from wireloom.errors import OptionError, SourceError

__all__ = ["Comparison", "Followed", "compare", "follow", "is_installed", "parse"]

_AT_ONCE = 64
"""Connections followed in one run over the capture."""
_TIMEOUT_S = 600
_NODE = re.compile(r"Node [01]: (.*)")
_HEX = re.compile(r"\t?([0-9a-f]+)")
_MISSING = re.compile(rb"\[\d+ bytes missing in capture file\]\0")


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
    """Of the stream, as `wireloom.captures.Stream` has it."""
    size: int
    """Bytes that we have, holes not counted."""
    gap: int
    """Bytes that were never captured."""
    difference: int
    """Offset in tshark's output of the first difference; -1 if there is none."""
    reason: str = ""
    """What is different."""
    is_explained: bool = False
    """Whether that follows from tshark's rule about holes, so that nobody need look into it."""

    @property
    def is_same(self) -> bool:
        """Whether both have the same bytes and the same holes."""
        return self.difference < 0


@dataclass(slots=True)
class _Ours:
    stream: Stream
    data: bytearray = field(default_factory=bytearray)
    """With tshark's text in the place of holes."""
    size: int = 0
    gap: int = 0


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
    """All TCP connections of a capture, as tshark puts them together.

    Raises:
        OptionError: tshark is not installed.
        SourceError: it cannot read the capture, or takes longer than `timeout_s`.
    """
    if not is_installed():
        raise OptionError("tshark is not installed (Debian, Ubuntu: apt install tshark)")
    first = 0
    while True:
        numbers = range(first, first + _AT_ONCE)
        found = {each.number: each for each in parse(_run(path, numbers, timeout_s))}
        for number in numbers:
            # One that does not exist is shown without addresses.
            if number not in found or found[number].ends == (":0", ":0"):
                return
            yield found[number]
        first += _AT_ONCE


def _run(path: str | os.PathLike[str], numbers: Iterable[int], timeout_s: float) -> str:
    command = ["tshark", "-n", "-r", os.fspath(path), "-q"]
    for number in numbers:
        command += ["-z", f"follow,tcp,raw,{number}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        reason = f"tshark did not finish within {timeout_s:g} s"
        raise SourceError(reason, file=os.fspath(path)) from error
    if done.returncode:
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
    turns: dict[frozenset[str], int] = {}
    for connection in follow(path, timeout_s=timeout_s):
        pair = frozenset(connection.ends)
        turn = turns[pair] = turns.get(pair, 0) + 1
        a, b = connection.ends
        for ends, theirs in (((a, b), connection.data[0]), ((b, a), connection.data[1])):
            own = ours.pop((*ends, turn), None)
            if own is not None:
                yield _compared(own, theirs)
            elif theirs:
                name = f"tcp {ends[0]} > {ends[1]} #{turn}"
                yield Comparison(name, 0, 0, 0, "only tshark has this stream")
    for own in ours.values():
        if own.data:
            reason = "tshark does not have this stream"
            yield Comparison(own.stream.name, own.size, own.gap, 0, reason)


def _streams(path: str | os.PathLike[str]) -> dict[tuple[str, str, int], _Ours]:
    found: dict[tuple[str, str, int], _Ours] = {}
    for event in Capture(path):
        if not isinstance(event, (StreamData, Gap)) or event.stream.protocol != "tcp":
            continue
        stream = event.stream
        key = (_end(stream.src, stream.src_port), _end(stream.dst, stream.dst_port), stream.turn)
        own = found.setdefault(key, _Ours(stream))
        if isinstance(event, Gap):
            own.gap += event.length
            own.data += b"[%d bytes missing in capture file]\0" % event.length
        else:
            own.size += len(event.data)
            own.data += event.data
    return found


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _compared(own: _Ours, theirs: bytes) -> Comparison:
    name, data = own.stream.name, bytes(own.data)
    if data == theirs:
        return Comparison(name, own.size, own.gap, -1)
    at = _first_difference(data, theirs)
    # The text may start with what stands there in our bytes, too.
    text = theirs.rfind(b"[", max(0, at - 40), at + 1)
    reason = ""
    if text >= 0 and _MISSING.match(theirs, text):
        reason = f"tshark gave up a hole at {text} that was filled later"
    elif at == len(theirs) and _MISSING.match(data, at):
        reason = f"tshark did not get beyond a hole at {at} that nobody acknowledged"
    is_explained = bool(reason)
    reason = reason or f"{len(data)} bytes here, {len(theirs)} there, different from {at} on"
    return Comparison(name, own.size, own.gap, at, reason, is_explained)


def _first_difference(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
