"""A junction's lines and routes, and the bounded queues between them (SPEC §6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from wireloom.errors import OptionError
from wireloom.formats.nais.rules import DEFAULT_RULES, MAX_PAYLOAD, LineRules
from wireloom.formats.nais.schema import FIRST_CUSTOM, NaisType
from wireloom.formats.nais.sessionids import MAX_SESSIONS
from wireloom.formats.nais.stream import IDLE_SERIAL_MS, IDLE_TCP_MS, MAX_TEXT
from wireloom.framing import Frame, Text
from wireloom.sessions import CLOCK_SLACK

__all__ = [
    "BOARD_TYPES",
    "Direction",
    "LineOptions",
    "Queue",
    "Transform",
    "board_line",
    "mqtt_board_payload",
]

BOARD_TYPES = frozenset(
    {NaisType.PROFILE, NaisType.CONFIG, NaisType.SECRET, NaisType.COMMAND}
) | frozenset(range(FIRST_CUSTOM, 256))
"""What may be sent to a board: firmware mistakes an Ack or an Event for a command (SPEC, E21)."""

MAX_QUEUE_RECORDS = 65_536
"""Records that wait for a slow session: many more than one read of 64 KiB can bring."""
MAX_QUEUE_BYTES = 4 << 20
"""Bytes that wait for a slow session: three of the largest frames."""
MAX_STORED = 256
"""Records that wait for the first session of a line (SPEC, E24)."""
MAX_AGE_S = 30.0
"""An older record is of no use to its receiver, and the ids in it may have been freed."""
MAX_VIRTUAL = 64
"""Peers behind one trunk connection: a quarter of all ids, so that two trunks leave room."""

BOARD_RULES = LineRules(max_payload=4096)
"""What may come from a board: known firmware sends 248 bytes at most. On a line that is never idle,
garbage that announces a megabyte would hold up everything after it."""
SERIAL_BOARD_PAYLOAD = 127
TCP_BOARD_PAYLOAD = 248
_MQTT_BUFFER = 256
_MQTT_OVERHEAD = 3 + 2 + 2
"""Fixed header, length of the topic, packet id."""

T = TypeVar("T")

Transform = Callable[[Frame | Text], bytes | None]
"""Turns a record into another: a whole frame, or else text. None discards it."""


@dataclass(frozen=True, slots=True)
class Direction:
    """What a route lets pass in one direction, and how it transforms it."""

    types: frozenset[int] | None = None
    """Only frames of these TYPEs pass; None: all."""
    blocked: frozenset[int] = frozenset()
    """Frames of these TYPEs do not pass."""
    has_text: bool = True
    """Whether text passes."""
    is_open: bool = True
    """Whether anything passes."""
    transform: Transform | None = None

    @property
    def is_plain(self) -> bool:
        """Whether everything passes."""
        return self.types is None and not self.blocked and self.has_text and self.is_open

    def passes(self, type: int | None) -> bool:
        """Whether a frame of this TYPE passes; None stands for text."""
        if not self.is_open:
            return False
        if type is None:
            return self.has_text
        return type not in self.blocked and (self.types is None or type in self.types)


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How one line behaves. The defaults suit a TCP line between programs."""

    rules: LineRules = DEFAULT_RULES
    """What may come in."""
    max_text: int = MAX_TEXT
    idle_s: float = IDLE_TCP_MS / 1000
    """Silence after which an unfinished frame is given up."""
    is_message_line: bool = False
    """Whether what is received at once is one frame or one text (WebSocket, MQTT)."""
    is_trunk: bool = False
    """Whether the other end is a junction, whose ids are translated (SPEC §6.4)."""
    send_types: frozenset[int] | None = None
    """TYPEs that may be sent to this line; None: all."""
    min_send_payload: int = 0
    max_send_payload: int = MAX_PAYLOAD
    """Payload bytes that the far end can accept."""
    max_queue_records: int = MAX_QUEUE_RECORDS
    max_queue_bytes: int = MAX_QUEUE_BYTES
    """How much may wait for one session; the oldest is dropped first."""
    max_stored: int = MAX_STORED
    """How many records may wait for a line without a session; the oldest is dropped first."""
    max_age_s: float = MAX_AGE_S
    """Records that waited longer are dropped, in both queues."""
    keeps_when_empty: bool = False
    """Whether records also wait if the line has had a session before."""
    max_sessions: int = MAX_SESSIONS
    """Connections at the same time; more are refused."""
    max_ids: int = MAX_SESSIONS
    """Ids in use or on hold (SPEC §6.2); further connections are refused."""
    max_virtual: int = MAX_VIRTUAL
    """Ids for the peers behind one trunk connection; the one silent longest is dropped first."""
    validates: bool = False
    """Whether frames that come in must hold the message that their TYPE asks for."""
    notify_undeliverable: Literal["", "text", "ack"] = ""
    """How a sender on this line is told that its addressee does not exist (SPEC, E12)."""
    is_broadcast: bool = False
    """Whether every session gets what is addressed to one: old pages rely on it (SPEC, E13)."""
    incoming: Transform | None = None
    """Transforms incoming data into a record before anything else: JSON → frame."""
    outgoing: Transform | None = None
    """Transforms a record into outgoing data after everything else: frame → JSON."""

    def __post_init__(self) -> None:
        least = {"max_text": 1, "max_queue_records": 1, "max_queue_bytes": 1, "max_virtual": 1}
        least |= {"max_sessions": 1, "max_ids": 1}
        for name in (*least, "max_stored", "min_send_payload", "max_send_payload"):
            if getattr(self, name) < least.get(name, 0):
                raise OptionError(
                    f"{name} must be at least {least.get(name, 0)}, not {getattr(self, name)}"
                )
        if not (self.idle_s > 0 and self.max_age_s > 0):
            raise OptionError("idle_s and max_age_s must be positive")
        if self.notify_undeliverable not in ("", "text", "ack"):
            raise OptionError("notify_undeliverable must be text, ack or empty")


def board_line(kind: Literal["serial", "tcp", "mqtt"], topic: str = "") -> LineOptions:
    """The options for a line to a board with the known firmware (SPEC §6.5).

    Args:
        kind: how the board is connected.
        topic: the topic that the board listens to, for ``mqtt``.

    Raises:
        OptionError: no such kind, or a topic that leaves no room.
    """
    if kind == "serial":
        return LineOptions(
            rules=BOARD_RULES,
            idle_s=IDLE_SERIAL_MS / 1000,
            send_types=BOARD_TYPES,
            min_send_payload=1,
            max_send_payload=SERIAL_BOARD_PAYLOAD,
        )
    if kind == "tcp":
        return LineOptions(
            rules=BOARD_RULES, send_types=BOARD_TYPES, max_send_payload=TCP_BOARD_PAYLOAD
        )
    if kind == "mqtt":
        return LineOptions(
            rules=BOARD_RULES,
            is_message_line=True,
            send_types=BOARD_TYPES,
            max_send_payload=mqtt_board_payload(topic),
        )
    raise OptionError(f"a board is on a serial, tcp or mqtt line, not {kind!r}")


def mqtt_board_payload(topic: str) -> int:
    """Payload bytes that fit the MQTT packet buffer of a board with this topic.

    Raises:
        OptionError: none would.
    """
    frame = _MQTT_BUFFER - _MQTT_OVERHEAD - len(topic.encode())
    # Header, LEN and SYNC_END are 7 bytes; with more than 127 of payload LEN has two.
    payload = min(frame - 7, SERIAL_BOARD_PAYLOAD) if frame - 8 <= 127 else frame - 8
    if payload < 1:
        raise OptionError(f"a topic of {len(topic.encode())} bytes leaves no room for a frame")
    return payload


class Queue(Generic[T]):
    """Records that wait, bounded in number, bytes and age; the oldest is dropped first."""

    def __init__(self, max_records: int, max_bytes: int, max_age_s: float) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._waiting: deque[tuple[float, int, T]] = deque()
        self.size = 0
        """Bytes that wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_expiry(self) -> float | None:
        """When the oldest is too old; None when nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, item: T, size: int, now: float) -> int:
        """Add one; returns how many were dropped for it, itself included if it is too large."""
        self._waiting.append((now + self._max_age_s, size, item))
        self.size += size
        return self._shrink()

    def put_all(self, items: list[tuple[float, int, T]], size: int) -> int:
        """Add several, each with its expiry time and its size; `size` is their sum."""
        self._waiting.extend(items)
        self.size += size
        return self._shrink()

    def _shrink(self) -> int:
        dropped = 0
        while len(self._waiting) > self._max_records or self.size > self._max_bytes:
            self.size -= self._waiting.popleft()[1]
            dropped += 1
        return dropped

    def expire(self, now: float) -> int:
        """Drop what is too old; returns how many were dropped."""
        dropped = 0
        while self._waiting and self._waiting[0][0] <= now + CLOCK_SLACK:
            self.size -= self._waiting.popleft()[1]
            dropped += 1
        return dropped

    def take(self, most: int | None = None) -> list[T]:
        """Take the oldest out of the queue: all, or as many as fit `most` bytes, at least one."""
        if most is None or self.size <= most:
            taken = [item for _, _, item in self._waiting]
            self._waiting.clear()
            self.size = 0
            return taken
        taken = []
        while self._waiting and (not taken or self._waiting[0][1] <= most):
            _, size, item = self._waiting.popleft()
            self.size -= size
            most -= size
            taken.append(item)
        return taken
