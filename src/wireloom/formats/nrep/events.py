"""What the two sides of a connection report to their owners.

`Event` is what a client's session reports: answers, sockets and the end. `Happening` is what an
entry point's table reports, for logs and counters only.
"""

from __future__ import annotations

from dataclasses import dataclass

from wireloom.formats.nrep.extensions import Feature, Reason

__all__ = [
    "AppsListed",
    "Connected",
    "DataReceived",
    "Disconnected",
    "Event",
    "GoingAway",
    "Happening",
    "InstanceChanged",
    "InstancePublished",
    "InstanceRemoved",
    "InstancesFound",
    "OpenFailed",
    "OpenRejected",
    "PacketIgnored",
    "PeerFailed",
    "PongReceived",
    "PublishAnswered",
    "PublishRejected",
    "RequestTimedOut",
    "SocketEnded",
    "SocketFreed",
    "SocketHalfEnded",
    "SocketOffered",
    "SocketOpened",
    "SocketReady",
    "SocketRequested",
    "Unpublished",
]


@dataclass(frozen=True, slots=True)
class Connected:
    """The entry point has sent Hello; `features` are those that both sides have."""

    features: Feature


@dataclass(frozen=True, slots=True)
class PublishAnswered:
    """The answer to `publish`; without an instance id it was refused."""

    nonce: int
    instance_id: bytes | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class InstancesFound:
    """The answer to `find`."""

    nonce: int
    instance_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SocketOpened:
    """The answer to `open`: data may flow."""

    nonce: int
    socket_id: bytes


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The answer to `open`: there is no socket. The reason is known if reasons were negotiated."""

    nonce: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class SocketOffered:
    """Somebody wants to connect to an instance: `accept` or `refuse`."""

    socket_id: bytes
    instance_id: bytes


@dataclass(frozen=True, slots=True)
class DataReceived:
    """Bytes of a socket."""

    socket_id: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class SocketEnded:
    """A socket is gone; at a client: the other side closed it, and all its data was delivered."""

    socket_id: bytes
    reason: Reason | None
    """At a client, None if it was not told."""
    to_receiver: int = 0
    """Bytes relayed from the requester to the receiver; only the entry point counts them."""
    to_requester: int = 0


@dataclass(frozen=True, slots=True)
class SocketHalfEnded:
    """The other side sends no more on a socket; it still reads."""

    socket_id: bytes


@dataclass(frozen=True, slots=True)
class SocketFreed:
    """All that waited for the far end's grant has been sent."""

    socket_id: bytes


@dataclass(frozen=True, slots=True)
class Unpublished:
    """The answer to `unpublish`; false if the instance was not this client's own."""

    nonce: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class InstanceChanged:
    """An instance of a watched app has appeared or gone."""

    app_id: bytes
    instance_id: bytes
    is_there: bool


@dataclass(frozen=True, slots=True)
class AppsListed:
    """The answer to `list_apps`: some apps, starting with the one that was asked for."""

    nonce: int
    total: int
    apps: tuple[tuple[str, int], ...]
    """Descriptions, and how many instances each has."""


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The answer to `ping`."""

    nonce: int


@dataclass(frozen=True, slots=True)
class GoingAway:
    """The entry point accepts nothing new, and will end once its open sockets have."""


@dataclass(frozen=True, slots=True)
class RequestTimedOut:
    """No answer to a request other than `open`."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is over, and all sockets with it."""

    why: str


Event = (
    Connected
    | PublishAnswered
    | InstancesFound
    | SocketOpened
    | OpenFailed
    | SocketOffered
    | DataReceived
    | SocketEnded
    | SocketHalfEnded
    | SocketFreed
    | Unpublished
    | InstanceChanged
    | AppsListed
    | PongReceived
    | GoingAway
    | RequestTimedOut
    | Disconnected
)
"""What a client's session reports."""


@dataclass(frozen=True, slots=True)
class InstancePublished:
    """An app has a new instance."""

    peer: int
    app_id: bytes
    instance_id: bytes
    description: str


@dataclass(frozen=True, slots=True)
class PublishRejected:
    """A publication was refused."""

    peer: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class InstanceRemoved:
    """An instance is gone."""

    peer: int
    app_id: bytes
    instance_id: bytes


@dataclass(frozen=True, slots=True)
class SocketRequested:
    """A socket waits for the publisher to accept it."""

    requester: int
    receiver: int
    socket_id: bytes
    instance_id: bytes


@dataclass(frozen=True, slots=True)
class OpenRejected:
    """A socket was refused before the publisher was asked."""

    peer: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class SocketReady:
    """The publisher accepted."""

    socket_id: bytes


@dataclass(frozen=True, slots=True)
class PacketIgnored:
    """A packet had no effect."""

    peer: int
    why: str
    """Short and stable, for a counter."""


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A client broke the protocol: its connection must be closed once its bytes are sent."""

    peer: int
    why: str


Happening = (
    InstancePublished
    | PublishRejected
    | InstanceRemoved
    | SocketRequested
    | OpenRejected
    | SocketReady
    | SocketEnded
    | PacketIgnored
    | PeerFailed
)
"""What an entry point's table reports."""
