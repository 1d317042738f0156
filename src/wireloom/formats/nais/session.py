"""Packets ↔ a live peer: what both ends of a NAIS line share, and the client (SPEC §7).

A client talks to boards, directly or through a junction. It numbers its requests, matches answers
to them, retries what is not answered, and reports everything else as events. The board's side is in
`board`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from wireloom.errors import EncodeError, OptionError, StateError
from wireloom.formats.nais.lines import LineOptions
from wireloom.formats.nais.packets import NaisPacket, read_packet
from wireloom.formats.nais.schema import BUILT_IN, CommandId, NaisType, TypeRegistry
from wireloom.formats.nais.stream import StreamDecoder
from wireloom.framing import Frame, Record, Text
from wireloom.sessions import CLOCK_SLACK, BaseSession, Transitions

__all__ = [
    "Acknowledged",
    "ClientSession",
    "ConfigReceived",
    "EventReceived",
    "LineEvent",
    "LineSession",
    "LineState",
    "LineTrigger",
    "PacketReceived",
    "PeerClosed",
    "ProblemFound",
    "RequestFailed",
    "TextReceived",
]

TIMEOUT_S = 5.0
"""Seconds for one answer; a board on a serial line answers within a fraction of one."""
RETRIES = 2
MAX_REQUESTS = 64
"""Requests that may wait for an answer at the same time."""
_MAX_SEQ = (1 << 31) - 1


class LineState(Enum):
    """A NAIS line has no handshake and no goodbye."""

    OPEN = "open"
    CLOSED = "closed"


class LineTrigger(Enum):
    """What happens to a line; the first two are also its timers."""

    LINE_IDLE = "line_idle"
    ANSWER_DUE = "answer_due"
    PEER_CLOSED = "peer_closed"
    CLOSE = "close"


# --- events


@dataclass(frozen=True, slots=True)
class TextReceived:
    """A line of text, or a piece of one: what a board prints."""

    data: bytes
    eol: bool


@dataclass(frozen=True, slots=True)
class PacketReceived:
    """A packet that answers no request, and is not a subscribed event."""

    packet: NaisPacket


@dataclass(frozen=True, slots=True)
class ProblemFound:
    """Bytes that are not a frame, or a frame whose payload does not fit its TYPE; dropped."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class PeerClosed:
    """The peer sends no more; the session is over."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A request was answered by an Ack."""

    request: int
    status: int
    """0 if the Ack has none: that is success (SPEC, E19)."""
    board: int
    """Session id of the board that answered; 0 without a junction."""

    @property
    def is_success(self) -> bool:
        """Whether the board did it; a custom command may answer with a value above 0."""
        return self.status >= 0


@dataclass(frozen=True, slots=True)
class ConfigReceived:
    """A board answered with its Config."""

    request: int
    config: Mapping[str, object]
    board: int


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer came after all retries, or the line was closed before."""

    request: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class EventReceived:
    """A board reports an Event."""

    id: int
    event: Mapping[str, object]
    board: int


LineEvent = (
    TextReceived
    | PacketReceived
    | ProblemFound
    | PeerClosed
    | Acknowledged
    | ConfigReceived
    | RequestFailed
    | EventReceived
)


class LineSession(BaseSession[LineState, LineTrigger, LineEvent]):
    """One end of a line that carries frames and text."""

    transitions: ClassVar[Transitions[LineState, LineTrigger]] = Transitions(
        LineState.OPEN,
        [
            (LineState.OPEN, LineTrigger.LINE_IDLE, LineState.OPEN),
            (LineState.OPEN, LineTrigger.ANSWER_DUE, LineState.OPEN),
            (LineState.OPEN, LineTrigger.PEER_CLOSED, LineState.CLOSED),
            (LineState.OPEN, LineTrigger.CLOSE, LineState.CLOSED),
        ],
        final=[LineState.CLOSED],
    )

    def __init__(self, line: LineOptions | None = None, types: TypeRegistry = BUILT_IN) -> None:
        """A session on a new connection.

        Args:
            line: what may come in, and what the far end can accept.
            types: the schemas of custom types.
        """
        super().__init__()
        self.line = line or LineOptions()
        self.types = types
        self._decoder = StreamDecoder(self.line.rules, max_text=self.line.max_text)

    def send_packet(self, packet: NaisPacket) -> None:
        """Send any packet.

        Raises:
            EncodeError: the far end cannot accept it.
            StateError: the session is over.
        """
        self._check_open()
        size, line = len(packet.payload), self.line
        if not line.min_send_payload <= size <= line.max_send_payload:
            limits = f"{line.min_send_payload} to {line.max_send_payload}"
            raise EncodeError(f"{size} bytes, and the line takes {limits}", path="payload")
        if line.send_types is not None and packet.type not in line.send_types:
            raise EncodeError(f"the line takes no TYPE {packet.type}", path="type")
        if packet.type == 0:
            raise EncodeError("TYPE 0 is never sent", path="type")
        self._send(packet.encode())

    def send_text(self, text: str) -> None:
        """Send a line of text; a newline is added if there is none.

        Raises:
            EncodeError: it holds the byte that starts a frame.
            StateError: the session is over.
        """
        self._check_open()
        if "\x1e" in text:
            raise EncodeError("text cannot hold the byte 0x1e", path="text")
        self._send((text if text.endswith("\n") else text + "\n").encode())

    def close(self) -> None:
        """End it. NAIS has no goodbye: what is queued is still sent, and that is all."""
        if not self.is_closed:
            self._move(LineTrigger.CLOSE)

    def _check_open(self) -> None:
        if self.is_closed:
            raise StateError("the session is over")

    def _received(self, data: bytes, now: float) -> list[LineEvent]:
        records = self._decoder.feed(data) if data else self._decoder.close()
        events = self._read(records, now)
        if not data:
            self._move(LineTrigger.PEER_CLOSED)
            return [*events, *self._ended(), PeerClosed()]
        self._watch_idle(now)
        return events

    def _watch_idle(self, now: float) -> None:
        if self._decoder.is_in_frame:
            self._timers.set(LineTrigger.LINE_IDLE, now + self.line.idle_s)
        else:
            self._timers.cancel(LineTrigger.LINE_IDLE)

    def _timed_out(self, name: LineTrigger, now: float) -> list[LineEvent]:
        self._move(name)
        return self._read(self._decoder.idle(), now)

    def _read(self, records: Iterable[Record], now: float) -> list[LineEvent]:
        events: list[LineEvent] = []
        for record in records:
            if isinstance(record, Text):
                events.append(TextReceived(record.data, record.eol))
            elif isinstance(record, Frame):
                packet = read_packet(record.data, self.line.rules, types=self.types)
                if packet.is_bad_payload:
                    events.append(ProblemFound("bad_payload", packet.message_error))
                else:
                    events += self._handle(packet, now)
            else:
                events.append(ProblemFound(record.code, record.reason))
        return events

    def _handle(self, packet: NaisPacket, now: float) -> list[LineEvent]:
        """What a packet means whose payload fits its TYPE."""
        return [PacketReceived(packet)]

    def _ended(self) -> list[LineEvent]:
        """What the end of the line means for pending requests."""
        return []


@dataclass(slots=True)
class _Request:
    number: int
    packet: NaisPacket
    seq: int | None
    wants_config: bool
    timeout_s: float
    left: int
    """How often it may be sent again."""
    deadline: float
    attempts: int = 1

    def is_from(self, packet: NaisPacket) -> bool:
        """Whether the packet may be from the board that was asked; without a junction, always."""
        return not (self.packet.dline and packet.sline) or self.packet.dline == packet.sline


class ClientSession(LineSession):
    """Sends requests to boards, and receives what they report.

    Each request has a number, which the events about it carry. Answers are matched by the TYPE that
    was sent, by `seq` when both have one, and by the board when one was addressed; the oldest
    request goes first. A request that is sent again has the same `seq`.
    """

    def __init__(
        self,
        line: LineOptions | None = None,
        types: TypeRegistry = BUILT_IN,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        """A client on a new connection.

        Args:
            line: what may come in, and what the boards can accept.
            types: the schemas of custom types.
            timeout_s: how long to wait for one answer.
            retries: how often to send again.
            max_requests: how many may wait for answers at the same time.

        Raises:
            OptionError: one of these makes no sense.
        """
        super().__init__(line, types)
        if not timeout_s > 0 or retries < 0 or max_requests < 1:
            raise OptionError("timeout_s and max_requests must be positive, retries not negative")
        self._timeout_s = timeout_s
        self._retries = retries
        self._max_requests = max_requests
        self._number = 0
        self._waiting: dict[int, _Request] = {}
        self._subscribed: set[int] | None = None

    @property
    def waiting(self) -> tuple[int, ...]:
        """Numbers of the requests without an answer, oldest first."""
        return tuple(self._waiting)

    def subscribe(self, *ids: int) -> None:
        """Also report Events with these ids; without ids: all."""
        self._subscribed = {*(self._subscribed or ()), *ids} if ids else None

    def unsubscribe(self, *ids: int) -> None:
        """Stop reporting Events with these ids; without ids: report none.

        Raises:
            StateError: all are reported, and single ones cannot be excluded from that.
        """
        if ids and self._subscribed is None:
            raise StateError("all events are subscribed; subscribe to some first")
        self._subscribed = (self._subscribed or set()) - set(ids) if ids else set()

    # --- requests

    def request(
        self,
        type: int | str,
        message: Mapping[str, object],
        now: float,
        *,
        board: int = 0,
        expects_answer: bool = True,
        wants_config: bool = False,
        timeout_s: float | None = None,
        retries: int | None = None,
    ) -> int:
        """Send a message that asks for an answer; returns the number of the request.

        Args:
            type: TYPE, or the name of the message bound to it.
            message: in protobuf's JSON form. A Command without ``seq`` gets one.
            now: the time.
            board: session id of the one to ask; 0: all.
            expects_answer: False for what old boards do not answer (SPEC, E16).
            wants_config: whether the answer is a Config; a successful Ack is then not the end.
            timeout_s: for this one.
            retries: for this one.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            StateError: the session is over, or too many requests wait.
        """
        self._check_open()
        if expects_answer and len(self._waiting) >= self._max_requests:
            raise StateError(f"{len(self._waiting)} requests wait for an answer")
        code = self.types.type_of(type) if isinstance(type, str) else type
        number = self._number + 1
        schema = self.types.schema(code)
        if schema is not None and schema.full_name == "Command" and "seq" not in message:
            message = {**message, "seq": number & _MAX_SEQ}
        seq = message.get("seq")
        packet = NaisPacket.from_message(code, message, dline=board, types=self.types)
        self.send_packet(packet)
        self._number = number
        if expects_answer:
            limit = self._timeout_s if timeout_s is None else timeout_s
            self._waiting[number] = _Request(
                number,
                packet,
                seq if isinstance(seq, int) else None,
                wants_config,
                limit,
                self._retries if retries is None else retries,
                now + limit,
            )
            self._watch_answers()
        return number

    def profile(self, uid: str, pwd: str, now: float, *, board: int = 0) -> int:
        """Send a board the name and password of a WLAN.

        Raises:
            EncodeError: see `request`.
            StateError: see `request`.
        """
        return self.request(NaisType.PROFILE, {"uid": uid, "pwd": pwd}, now, board=board)

    def config(self, config: Mapping[str, object], now: float, *, board: int = 0) -> int:
        """Send a board its Config: where to report to.

        Raises:
            EncodeError: see `request`.
            StateError: see `request`.
        """
        return self.request(NaisType.CONFIG, config, now, board=board)

    def secret(self, key: str, now: float, *, board: int = 0, expects_answer: bool = False) -> int:
        """Set the password of a board's access point; known boards restart without an answer.

        Raises:
            EncodeError: see `request`.
            StateError: see `request`.
        """
        return self.request(
            NaisType.SECRET, {"key": key}, now, board=board, expects_answer=expects_answer
        )

    def command(
        self,
        id: int,
        now: float,
        *,
        type: int = NaisType.COMMAND,
        svals: Iterable[str] = (),
        ivals: Iterable[int] = (),
        board: int = 0,
        expects_answer: bool = True,
    ) -> int:
        """Send a board a command: a built-in one, or a custom one by its `type`.

        Raises:
            EncodeError: see `request`.
            StateError: see `request`.
        """
        message: dict[str, object] = {"id": int(id)}
        message |= {key: list(each) for key, each in (("svals", svals), ("ivals", ivals))}
        return self.request(type, message, now, board=board, expects_answer=expects_answer)

    def get_config(self, now: float, *, board: int = 0) -> int:
        """Ask a board for its Config.

        Raises:
            EncodeError: see `request`.
            StateError: see `request`.
        """
        message = {"id": int(CommandId.GET_CONFIG)}
        return self.request(NaisType.COMMAND, message, now, board=board, wants_config=True)

    # --- answers

    def _handle(self, packet: NaisPacket, now: float) -> list[LineEvent]:
        message = packet.message or {}
        if packet.type == NaisType.EVENT:
            if self._subscribed is not None and message["id"] not in self._subscribed:
                return []
            return [EventReceived(message["id"], message, packet.sline)]
        request = self._match(packet)
        if request is None:
            return [PacketReceived(packet)]
        if packet.type == NaisType.CONFIG:
            self._answered(request)
            return [ConfigReceived(request.number, message, packet.sline)]
        status = message.get("status", 0)
        if request.wants_config and status >= 0:
            return []  # the Config follows
        self._answered(request)
        return [Acknowledged(request.number, status, packet.sline)]

    def _match(self, packet: NaisPacket) -> _Request | None:
        """The oldest request that a packet can answer."""
        message = packet.message or {}
        for request in self._waiting.values():
            if not request.is_from(packet):
                continue
            if packet.type == NaisType.CONFIG and request.wants_config:
                return request
            if packet.type == NaisType.ACK and message["id"] == request.packet.type:
                seq = message.get("seq")
                if seq is None or request.seq is None or seq == request.seq:
                    return request
        return None

    def _answered(self, request: _Request) -> None:
        del self._waiting[request.number]
        self._watch_answers()

    # --- time

    def _watch_answers(self) -> None:
        if self._waiting:
            first = min(request.deadline for request in self._waiting.values())
            self._timers.set(LineTrigger.ANSWER_DUE, first)
        else:
            self._timers.cancel(LineTrigger.ANSWER_DUE)

    def _timed_out(self, name: LineTrigger, now: float) -> list[LineEvent]:
        if name is not LineTrigger.ANSWER_DUE:
            return super()._timed_out(name, now)
        self._move(name)
        events: list[LineEvent] = []
        for request in list(self._waiting.values()):
            if request.deadline > now + CLOCK_SLACK:
                continue
            if request.left:
                request.left -= 1
                request.attempts += 1
                request.deadline = now + request.timeout_s
                self.send_packet(request.packet)
            else:
                del self._waiting[request.number]
                events.append(RequestFailed(request.number, request.attempts, "no answer"))
        self._watch_answers()
        return events

    def _ended(self) -> list[LineEvent]:
        ended = [
            RequestFailed(request.number, request.attempts, "the line was closed")
            for request in self._waiting.values()
        ]
        self._waiting.clear()
        return list(ended)
