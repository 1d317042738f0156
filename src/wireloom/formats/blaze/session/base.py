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
from wireloom.formats.blaze.frames import RULES, frame_end, header_fields
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import PACKETS, BlazePacket
from wireloom.formats.blaze.session.behaviour import behaviour_of
from wireloom.formats.blaze.session.events import SessionEvent
from wireloom.formats.blaze.session.states import Act
from wireloom.framing import Splitter
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
                # Packets that are complete in the chunk, as nearly all are, are cut out here.
                pos, limit = 0, self._limits.max_frame
                while stop := frame_end(data, pos, limit):
                    events += self._handle(data[pos:stop], now)
                    pos = stop
                    if self.is_closed:
                        return events
                splitter.passed(pos)
                data = data[pos:]
            splitter.feed(data)
            for frame in splitter:
                events += self._handle(frame, now)
                if self.is_closed:
                    break
        except DecodeError as error:
            self.counts["unreadable"] += 1
            events += self._end(Act.VIOLATION, now, detail=str(error))
        return events

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
