"""Captures → what the clients of Blaze connections sent, what came back, and when."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, field

from wireloom.captures import NO_TIME, Capture, Gap, Stream, StreamData
from wireloom.errors import DecodeError
from wireloom.formats.blaze.frames import RULES, header_fields
from wireloom.formats.blaze.packets import ConnectionRequest
from wireloom.framing import Splitter
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["Frame", "Recording", "read_recordings"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A packet as it was recorded."""

    ts_ns: int
    """When its last byte was there."""
    is_client: bool
    data: bytes
    fields: dict[str, int]
    """The numbers in its header."""

    @property
    def body(self) -> bytes:
        """What is behind the header."""
        return self.data[4 * self.fields["hdrlen"] :]


@dataclass(slots=True)
class Recording:
    """One connection, from its CONREQ on."""

    name: str
    frames: list[Frame] = field(default_factory=list)
    """Both directions, by their times."""
    problem: str = ""
    """Why the rest of it is missing."""


class _Side:
    """One direction: its frames, and the time of each."""

    def __init__(self, stream: Stream, limits: Limits) -> None:
        self.stream = stream
        self.frames: list[tuple[int, bytes]] = []
        self.problem = ""
        self._splitter = Splitter(RULES, limits)
        self._marks: list[int] = []
        self._times: list[int] = []

    def feed(self, event: StreamData) -> None:
        if self.problem:
            return
        self._marks += event.mark_offsets.tolist()
        self._times += event.mark_times.tolist()
        try:
            self._splitter.feed(event.data)
            for frame in self._splitter:
                self.frames.append((self._time(self._splitter.offset - 1), frame))
        except DecodeError as error:
            self.problem = str(error)

    def _time(self, offset: int) -> int:
        place = bisect_right(self._marks, offset) - 1
        found = self._times[place] if place >= 0 else NO_TIME
        last = self.frames[-1][0] if self.frames else 0
        return last if found == NO_TIME else max(found, last)

    @property
    def is_client(self) -> bool:
        """Whether it starts with a connection request."""
        if not self.frames:
            return False
        return header_fields(self.frames[0][1])["pkttyp"] == ConnectionRequest.code


def read_recordings(
    path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS
) -> tuple[list[Recording], int]:
    """The Blaze connections in a capture, by their start, and how many others there are.

    A connection whose beginning was not captured is one of the others: what it was agreed on is
    not known. All frames are kept in memory.

    Raises:
        SourceError: the capture cannot be read.
    """
    sides: dict[int, _Side] = {}
    for event in Capture(path):
        if isinstance(event, StreamData):
            number = event.stream.number
            if number not in sides:
                sides[number] = _Side(event.stream, limits)
            sides[number].feed(event)
        elif isinstance(event, Gap) and event.stream.number in sides:
            side = sides[event.stream.number]
            side.problem = side.problem or f"{event.length} bytes were not captured"
    answers = {_ends(side.stream): side for side in sides.values() if not side.is_client}
    found = []
    used = 0
    for side in sides.values():
        if side.is_client and side.stream.protocol == "tcp":
            back = answers.get(_ends(side.stream, is_back=True))
            found.append(_joined(side, back))
            used += 1 if back is None else 2
    found.sort(key=lambda recording: recording.frames[0].ts_ns)
    return found, len(sides) - used


def _ends(stream: Stream, is_back: bool = False) -> tuple[str, int, str, int, int]:
    ends = [(stream.src, stream.src_port), (stream.dst, stream.dst_port)]
    (src, src_port), (dst, dst_port) = reversed(ends) if is_back else ends
    return src, src_port, dst, dst_port, stream.turn


def _joined(client: _Side, server: _Side | None) -> Recording:
    frames = [Frame(ts, True, data, header_fields(data)) for ts, data in client.frames]
    if server is not None:
        frames += [Frame(ts, False, data, header_fields(data)) for ts, data in server.frames]
    # At the same time the client was first: an answer cannot precede its request.
    frames.sort(key=lambda frame: (frame.ts_ns, not frame.is_client))
    problem = client.problem or ("" if server is None else server.problem)
    return Recording(client.stream.name, frames, problem)
