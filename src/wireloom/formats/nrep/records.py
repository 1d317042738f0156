"""What an entry point's table is made of: connections, instances, sockets and their legs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wireloom.formats.nrep.events import Happening
from wireloom.formats.nrep.extensions import NO_FEATURES, Feature
from wireloom.framing import Splitter
from wireloom.wire import Buffer

if TYPE_CHECKING:
    from wireloom.formats.nrep.table import Table

__all__ = ["Instance", "Leg", "Peer", "Socket"]


@dataclass(slots=True, eq=False)
class Instance:
    """One publication."""

    owner: Peer
    app_id: bytes
    instance_id: bytes
    description: str


@dataclass(slots=True, eq=False)
class Leg:
    """One end of a socket."""

    peer: Peer
    socket_id: bytes
    is_receiver: bool
    credit: int | None = None
    """Bytes that this leg may still send; None if windows were not negotiated."""
    owed: int = 0
    """Bytes from this leg that the far end has no way to grant again."""
    relayed: int = 0
    """Bytes that were sent to this leg."""


@dataclass(slots=True, eq=False)
class Socket:
    """Two legs, from the request to the end."""

    requester: Leg
    receiver: Leg
    deadline: float
    is_open: bool = False
    can_half_close: bool = False
    is_gone: bool = False

    def other(self, leg: Leg) -> Leg:
        """The leg that is not `leg`."""
        return self.requester if leg.is_receiver else self.receiver


@dataclass(slots=True, eq=False)
class Peer:
    """One connection at the entry point; made by `Table.connect`."""

    table: Table
    number: int
    """Identifies the connection in happenings."""
    _splitter: Splitter
    features: Feature = NO_FEATURES
    """What it agreed to; none for a legacy client."""
    is_extended: bool = False
    """Whether it has sent a Client Hello, and may send other extensions."""
    is_closed: bool = False
    """No more is read from it; the shell sends what is left and closes the connection."""
    name: str = ""
    """What it calls itself."""
    destinations: set[Peer] = field(default_factory=set)
    """Whom the last `receive` gave something to send, itself included: while one of them is
    congested, no more is read from a peer without windows."""
    is_congested: bool = False
    """Whether its connection accepts no more for now; see `set_congested`."""
    _out: list[bytes] = field(default_factory=list)
    _instances: list[Instance] = field(default_factory=list)
    _legs: dict[bytes, tuple[Socket, Leg]] = field(default_factory=dict)
    _requested: int = 0
    _watched: dict[bytes, int] = field(default_factory=dict)

    @property
    def sockets(self) -> int:
        """Sockets that have this connection as an end."""
        return len(self._legs)

    @property
    def instances(self) -> int:
        """What it publishes."""
        return len(self._instances)

    @property
    def watches(self) -> int:
        """Apps that it watches."""
        return len(self._watched)

    @property
    def has_begun_packet(self) -> bool:
        """Whether a packet is incomplete."""
        return self._splitter.pending > 0

    @property
    def packet_offset(self) -> int:
        """Stream offset of the packet that is not complete yet."""
        return self._splitter.offset

    def set_congested(self, is_congested: bool) -> None:
        """Set whether the connection is congested; if not any more, others are granted more."""
        self.is_congested = is_congested
        if not is_congested:
            self.table._repay_all(self)

    def receive(self, data: Buffer, now: float) -> list[Happening]:
        """What the next bytes of the connection did; ``b""`` says that it has ended."""
        return self.table._receive(self, data, now)

    def data_to_send(self) -> bytes:
        """The bytes to send to this client, once."""
        return b"".join(self.parts_to_send())

    def parts_to_send(self) -> list[bytes]:
        """The same as a list of parts, without joining them."""
        out, self._out = self._out, []
        return out

    def next_timeout(self, now: float) -> float | None:
        """See `Table.next_timeout`: the table has one clock for all."""
        return self.table.next_timeout(now)

    def handle_timeout(self, now: float) -> list[Happening]:
        """See `Table.handle_timeout`."""
        return self.table.handle_timeout(now)

    def close(self) -> None:
        """End the connection from this side: its sockets and instances go.

        The next call that returns happenings reports what this does to others.
        """
        self.table._lose(self)

    def _send(self, data: bytes) -> None:
        if not self.is_closed:
            if not self._out:
                self.table._unsent.append(self)
            self._out.append(data)
