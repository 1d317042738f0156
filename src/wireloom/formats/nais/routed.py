"""What a junction's router keeps about lines and sessions, and what it does to their bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from wireloom.errors import DecodeError
from wireloom.formats.nais.counters import Counters
from wireloom.formats.nais.lines import Direction, LineOptions, Queue
from wireloom.formats.nais.packets import read_packet
from wireloom.formats.nais.rules import HEADER_LEN, SYNC_END, SYNC_START, LineRules
from wireloom.formats.nais.stream import StreamDecoder
from wireloom.framing import Frame, Problem, Record, Text
from wireloom.wire import varint

__all__ = [
    "Address",
    "Item",
    "Line",
    "Session",
    "is_one_frame",
    "is_plain",
    "payload_len",
    "record_of",
    "stamped",
    "whole",
]

_FORMAT = "nais"
_ONE_BYTE_LEN = 127
"""Largest payload whose LEN is one byte."""
_OWN_RULES = LineRules(max_payload=(1 << 28) - 1, max_frame=1 << 30)
"""The output of a transform is our own: only the receiving line limits it."""


class Session:
    """One connection."""

    def __init__(self, id: int, line: Line, now: float) -> None:
        options = line.options
        self.id = id
        self.line = line
        self.since = self.heard = now
        self.decoder = StreamDecoder(options.rules, max_text=options.max_text)
        self.offset = 0  # of the next message, on message lines
        self.queue: Queue[bytes] = Queue(
            options.max_queue_records, options.max_queue_bytes, options.max_age_s
        )
        # The peers behind a trunk connection: remote id → id here, the one silent longest first.
        self.virtual: OrderedDict[int, int] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Address:
    """Where an id leads: to a connection, and on from there to `remote` if that is not 0."""

    session: Session
    remote: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Item:
    """A record on its way to a line."""

    data: bytes
    """The bytes, with the SLINE of its sender if it is a frame."""
    is_frame: bool
    dline: int
    """DLINE of the record before any transform: 0 for text."""
    sender: int


class Line:
    """One configured endpoint."""

    def __init__(self, name: str, options: LineOptions) -> None:
        self.name = name
        self.options = options
        self.peers: list[tuple[Line, Direction]] = []
        self.sessions: dict[int, Session] = {}
        self.had_session = False
        self.is_plain: bool | None = None
        """Whether all that comes in passes unchanged; None: not known since routes changed."""
        self.plain_payload = 0
        """Largest payload that then passes unchecked."""
        self.counters = Counters()
        self.resting: deque[float] = deque()  # until when the ids of closed sessions are on hold
        self.store: Queue[Item] = Queue(
            options.max_stored, options.max_queue_bytes, options.max_age_s
        )


def is_plain(line: Line) -> bool:
    """Whether frames from this line go to all its peers unchecked; sets up to which size."""
    own = line.options
    limits = [own.rules.max_payload, _ONE_BYTE_LEN]
    for peer, direction in line.peers:
        there = peer.options
        if not direction.is_plain or direction.transform is not None:
            return False
        if there.send_types is not None or there.min_send_payload or there.outgoing is not None:
            return False
        limits.append(there.max_send_payload)
    line.plain_payload = min(limits)
    is_odd = own.validates or own.is_trunk or own.incoming is not None or own.rules.strict_rsv
    return bool(line.peers) and not is_odd


def whole(source: Session, data: bytes) -> Record:
    """A message as one record."""
    if not data.startswith(bytes([SYNC_START])):
        return Text(_FORMAT, source.offset, data, data.endswith(b"\n"))
    try:
        read_packet(data, source.line.options.rules, exact=True)
    except DecodeError as error:
        at = source.offset + error.offset
        return Problem(_FORMAT, source.offset, data, error.code, error.reason, error.path, at)
    return Frame(_FORMAT, source.offset, data)


def record_of(data: bytes, offset: int) -> Frame | Text:
    """Our own bytes as a record: a frame if they are exactly one, else text."""
    if is_one_frame(data):
        return Frame(_FORMAT, offset, data)
    return Text(_FORMAT, offset, data, data.endswith(b"\n"))


def is_one_frame(data: bytes) -> bool:
    """Whether the bytes are exactly one frame."""
    if data[0] != SYNC_START or data[-1] != SYNC_END:
        return False
    return _OWN_RULES.measure(data, 0, len(data)) == len(data)


def _len_end(data: bytes) -> int:
    at = HEADER_LEN
    while data[at] >= 0x80:
        at += 1
    return at + 1


def payload_len(data: bytes) -> int:
    """Bytes of the payload of a frame."""
    return len(data) - _len_end(data) - 1


def stamped(data: bytes, sline: int) -> bytes:
    """The frame with its sender's id, and the shortest possible LEN (SPEC §1)."""
    length = data[HEADER_LEN : HEADER_LEN + 1]
    if length >= b"\x80":
        end = _len_end(data)
        length = varint(len(data) - end - 1)
        return data[:2] + bytes([sline]) + data[3:HEADER_LEN] + length + data[end:]
    return data[:2] + bytes([sline]) + data[3:]
