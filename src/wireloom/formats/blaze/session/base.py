"""What both sides of a Blaze connection share: packets in and out, dialect, counts (SPEC §8)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Any

from wireloom.errors import DecodeError
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.dialects import get_dialect, translate
from wireloom.formats.blaze.format import FORMAT
from wireloom.formats.blaze.frames import LENGTHS, RULES, header_fields
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import PACKETS, BlazePacket
from wireloom.formats.blaze.session.behaviour import behaviour_of
from wireloom.formats.blaze.session.events import SessionEvent
from wireloom.formats.blaze.session.quick import Columns
from wireloom.formats.blaze.session.runs import COUNTERS, Run, frame_of
from wireloom.formats.blaze.session.states import Act
from wireloom.framing import Splitter
from wireloom.kernel import either
from wireloom.sessions import BaseSession
from wireloom.wire import Limits

__all__ = ["BlazeSession"]


_SMALL = 4096
"""Bytes of an incomplete packet that are joined to the next chunk; larger ones are gathered, or
many small chunks would each copy everything before them."""


class BlazeSession(BaseSession[Any, Act, SessionEvent]):
    """One side of a connection."""

    def __init__(
        self, dialect: str, model: Model | None, limits: Limits, clock_offset: float
    ) -> None:
        super().__init__()
        self.dialect = get_dialect(dialect)
        self.behaviour = behaviour_of(dialect)
        self.model = model
        self.connid = 0
        """Id of the connection; 0 until the handshake is complete."""
        self.heartbeat = 0
        """Agreed interval in seconds; 0: none."""
        self.counts: Counter[str] = Counter()
        """How often something odd but harmless happened, by its name."""
        self._limits = limits
        self._clock_offset = clock_offset
        self._splitter = Splitter(RULES, limits)
        kernel = either()
        self._cut, self._join = kernel.cut_runs, kernel.join_packets
        self._first_index = None if model is None else self.dialect.first_index_of(model)

    def _received(self, data: bytes, now: float) -> list[SessionEvent]:
        if not data:
            return self._end(Act.LOST, now, detail="the peer has closed the connection")
        events: list[SessionEvent] = []
        splitter = self._splitter
        try:
            if 0 < splitter.pending <= _SMALL:
                data = splitter.withdraw() + data
            if not splitter.pending:
                # Packets that are complete in the chunk, as nearly all are, are cut out at once.
                pos = self._take(data, now, events)
                if self._is_closed:
                    return events
                splitter.passed(pos)
                data = data[pos:]
            splitter.feed(data)
            for frame in splitter:
                self._take(frame, now, events)
                if self._is_closed:
                    break
        except DecodeError as error:
            self.counts["unreadable"] += 1
            events += self._unreadable(error, now)
        return events

    def _unreadable(self, error: DecodeError, now: float) -> list[SessionEvent]:
        """React to bytes that are no packet: where the next one starts is not known."""
        return self._end(Act.VIOLATION, now, detail=str(error))

    def _take(self, data: bytes, now: float, events: list[SessionEvent]) -> int:
        """React to the packets that are complete in `data`; gives where they end."""
        runs: list[Run]
        pos: int
        runs, pos = self._cut(data, 0, self._limits.max_frame, LENGTHS, COUNTERS)
        for run in runs:
            # What is behind an unusual packet is hardly usual: each would be tried in vain.
            for place in range(self._take_run(run, now, events), run[3]):
                if self._is_closed:
                    return pos
                events += self._handle(frame_of(run, place), now)
        return pos

    def _take_run(self, run: Run, now: float, events: list[SessionEvent]) -> int:
        """React to packets up to one about which something is unusual; gives its place.

        Args:
            run: the packets.
            now: the time.
            events: gets what happened.
        """
        return 0

    def _handle(self, frame: bytes, now: float) -> list[SessionEvent]:
        """React to one packet."""
        fields = header_fields(frame)
        name = PACKETS[fields["pkttyp"]].name
        self._alive(now)
        try:
            packet: BlazePacket | None = FORMAT.decode(
                frame, limits=self._limits, dialect=self.dialect.name
            )
            reason = ""
        except DecodeError as error:
            self.counts["malformed"] += 1
            packet, reason = None, str(error)
        return self._react(name, fields, packet, reason, now)

    @abstractmethod
    def _react(
        self, name: str, fields: dict[str, int], packet: Any, reason: str, now: float
    ) -> list[SessionEvent]:
        """React to the packet `name`; `packet` is None if `reason` says why it is not legal."""

    @abstractmethod
    def _alive(self, now: float) -> None:
        """The peer has sent a packet."""

    @abstractmethod
    def _end(self, act: Act, now: float, *, detail: str = "") -> list[SessionEvent]:
        """End the connection by `act`, and all that depends on it."""

    def _write(self, packet: BlazePacket) -> None:
        """Queue a packet, with the numbers of the dialect."""
        self._send(translate(packet, self.dialect).encode())

    def _send_packets(self, columns: Columns, count: int = 1) -> None:
        """Queue packets that have the numbers of the dialect."""
        self._send(self._join(columns, count))

    def _tmstmp(self, now: float) -> int:
        return int(now + self._clock_offset) & 0xFFFFFFFF

    def _object(
        self, nclsid: int, encoding: Encoding, body: bytes | None, strict: bool = False
    ) -> NClassValue | None:
        """The object in a body; None without a model.

        Raises:
            DecodeError: it is not of that class, or with `strict` not as a writer would encode it.
        """
        if self.model is None or body is None:
            return None
        return decode_nclass(
            self.model,
            nclsid,
            body,
            encoding,
            first_index=self._first_index,
            limits=self._limits,
            strict=strict,
        )
