"""Packets ↔ a live peer: the board's side of a line, for simulators and tests (SPEC §7)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from wireloom.formats.nais.lines import LineOptions
from wireloom.formats.nais.packets import NaisPacket
from wireloom.formats.nais.schema import BUILT_IN, FIRST_CUSTOM, CommandId, NaisType, TypeRegistry
from wireloom.formats.nais.session import LineEvent, LineSession, PacketReceived, ProblemFound
from wireloom.messages import Json

__all__ = ["LEDS_TYPE", "UNKNOWN", "BoardSession", "Handler", "Leds"]

LEDS_TYPE = 10
"""TYPE of the demonstration with three LEDs."""
UNKNOWN = -1
"""Status for a command that the board does not know, or that failed."""
_REMEMBERED = 64
"""Answers kept for requests that come again."""
_DONE = {CommandId.REBOOT, CommandId.TOGGLE_WIFI_MODE, CommandId.FACTORY_RESET}
_SETTINGS = {NaisType.PROFILE, NaisType.CONFIG, NaisType.SECRET}
"""Types that have no `seq`."""

Handler = Callable[[Json], int]
"""Carries out a custom command: its message in JSON form → the status of the Ack."""


class Leds:
    """Three LEDs: ``ivals`` are a mask and values of bits, red 1, yellow 2, green 4."""

    def __init__(self) -> None:
        self.lit = 0

    def __call__(self, command: Json) -> int:
        """Switch the LEDs in the mask; the status is what is lit then. Without ivals: only read."""
        ivals: list[int] = command.get("ivals", [])
        mask, values, *_ = [*ivals, 0, 0]
        self.lit = (self.lit & ~mask | values & mask) & 7
        return self.lit


class BoardSession(LineSession):
    """Does what a board does: accepts settings, carries out commands, acknowledges.

    Each request is also reported as `PacketReceived`, once: a repetition from the same session with
    the same `seq` gets the same answer and is not carried out again.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler] | None = None,
        config: Json | None = None,
        line: LineOptions | None = None,
        types: TypeRegistry = BUILT_IN,
    ) -> None:
        """A board on a new connection.

        Args:
            handlers: custom TYPE → what carries it out; the LEDs by default.
            config: what it answers when asked for its Config, until it is given another.
            line: what may come in, and what the far end can accept.
            types: the schemas of custom types.
        """
        super().__init__(line, types)
        self.handlers: dict[int, Handler] = dict(
            {LEDS_TYPE: Leds()} if handlers is None else handlers
        )
        self.config = config
        self.profile: Json | None = None
        self._statuses: OrderedDict[tuple[int, int, int], int] = OrderedDict()

    def send_event(
        self,
        id: int,
        *,
        svals: Iterable[str] = (),
        fvals: Iterable[float] = (),
        ivals: Iterable[int] = (),
    ) -> None:
        """Send an Event to everyone.

        Raises:
            EncodeError: a value does not fit.
            StateError: the session is over.
        """
        values = {"svals": list(svals), "fvals": list(fvals), "ivals": list(ivals)}
        self.send_packet(NaisPacket.from_message(NaisType.EVENT, {"id": id, **values}))

    def send_raw(self, data: bytes) -> None:
        """Send any bytes, to simulate a fault.

        Raises:
            StateError: the session is over.
        """
        self._check_open()
        self._send(data)

    def _handle(self, packet: NaisPacket, now: float) -> list[LineEvent]:
        if packet.type in (0, NaisType.ACK, NaisType.EVENT):
            return [ProblemFound("not_for_boards", f"TYPE {packet.type} is not for boards")]
        message = packet.message
        if message is None:  # a custom TYPE without a schema, and no Command either
            self._acknowledge(packet, UNKNOWN, None)
            return [ProblemFound("bad_payload", packet.message_error)]
        seq = message.get("seq")
        seq = seq if isinstance(seq, int) and packet.type not in _SETTINGS else None
        key = (packet.sline, packet.type, seq) if seq is not None else None
        events: list[LineEvent] = []
        if key is not None and key in self._statuses:
            status = self._statuses[key]
        else:
            events.append(PacketReceived(packet))
            status = self._carry_out(packet, message, events)
            if key is not None:
                self._statuses[key] = status
                if len(self._statuses) > _REMEMBERED:
                    self._statuses.popitem(last=False)
        self._acknowledge(packet, status, seq)
        if packet.type == NaisType.COMMAND and message["id"] == CommandId.GET_CONFIG:
            self._tell_config(packet)
        return events

    def _carry_out(self, packet: NaisPacket, message: Json, events: list[LineEvent]) -> int:
        """Do what a packet asks for; returns the status."""
        if packet.type == NaisType.PROFILE:
            self.profile = message
        elif packet.type == NaisType.CONFIG:
            self.config = message
        elif packet.type == NaisType.COMMAND:
            if message["id"] == CommandId.GET_CONFIG:
                return UNKNOWN if self.config is None else 0
            return 0 if message["id"] in _DONE else UNKNOWN
        elif packet.type >= FIRST_CUSTOM:
            handler = self.handlers.get(packet.type)
            if handler is None:
                return UNKNOWN
            try:
                status = handler(message)
                if not -(1 << 31) <= status < 1 << 31:
                    raise ValueError(f"{status} is no status")
                return status
            except Exception as error:
                # A user's function: whatever it raises is its failure and must not stop the board.
                events.append(ProblemFound("handler", f"{error.__class__.__name__}: {error}"))
                return UNKNOWN
        return 0

    def _acknowledge(self, packet: NaisPacket, status: int, seq: int | None) -> None:
        ack = {"id": packet.type, "status": status} | ({} if seq is None else {"seq": seq})
        self.send_packet(NaisPacket.from_message(NaisType.ACK, ack, dline=packet.sline))

    def _tell_config(self, packet: NaisPacket) -> None:
        if self.config is not None:
            self.send_packet(
                NaisPacket.from_message(NaisType.CONFIG, self.config, dline=packet.sline)
            )
