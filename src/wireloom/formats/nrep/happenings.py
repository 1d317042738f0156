"""What an entry point's table reports to its shell, for logs and counters only."""

from __future__ import annotations

from dataclasses import dataclass

from wireloom.formats.nrep.extensions import Reason

__all__ = [
    "Happening",
    "InstancePublished",
    "InstanceRemoved",
    "OpenRejected",
    "PacketIgnored",
    "PeerFailed",
    "PublishRejected",
    "SocketClosed",
    "SocketReady",
    "SocketRequested",
]


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
class SocketClosed:
    """A socket is gone."""

    socket_id: bytes
    reason: Reason
    to_receiver: int
    """Bytes relayed from the requester to the receiver."""
    to_requester: int


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
    | SocketClosed
    | PacketIgnored
    | PeerFailed
)
"""One of them."""
