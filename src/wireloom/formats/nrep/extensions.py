"""What two peers of this implementation exchange beyond the document (SPEC §11).

Legacy peers never notice: the entry point advertises extensions in the content of Hello, which they
ignore, and uses none of them before the client has answered with a Client Hello.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum, IntFlag

from wireloom.formats.nrep.packets import SocketFlags, Unknown

__all__ = [
    "ALL_FEATURES",
    "END",
    "MAGIC",
    "NO_FEATURES",
    "REASONS",
    "Extension",
    "Feature",
    "Reason",
    "Tag",
    "features_in",
    "number",
    "packet",
    "read_tags",
    "reason_in",
    "reason_name",
    "write_tags",
]

MAGIC = b"WL"
"""Starts our trailing content, so that another's is not taken for it."""

_TAG = struct.Struct("<BH")


class Extension(IntEnum):
    """Packet types that only negotiated peers exchange."""

    CLIENT_HELLO = 0x40
    PING = 0x41
    PONG = 0x42
    UNPUBLISH = 0x43
    WATCH = 0x44
    EVENT = 0x45
    WINDOW = 0x46
    GOAWAY = 0x47
    LIST = 0x48


class Feature(IntFlag):
    """What a peer is ready to use."""

    PING = 0x01
    UNPUBLISH = 0x02
    WATCH = 0x04
    WINDOW = 0x08
    CLOSE_REASON = 0x10
    HALF_CLOSE = 0x20
    LIST = 0x40


ALL_FEATURES = Feature(0x7F)
NO_FEATURES = Feature(0)

END = SocketFlags(0x02)
"""In Socket Control between peers that negotiated half-close: the sender sends no more data."""


class Tag(IntEnum):
    """Names of the values in trailing content."""

    FEATURES = 1
    NAME = 2
    MAX_CONTENT = 3
    REASON = 4
    WINDOW = 5
    HALF_CLOSE = 6


class Reason(IntEnum):
    """Why a socket or a connection ended, or was refused."""

    CLOSED = 0
    REFUSED = 1
    PEER_LOST = 2
    TIMEOUT = 3
    NO_INSTANCE = 4
    QUOTA = 5
    BAD_DATA = 6
    DRAINING = 7
    UNPUBLISHED = 8


REASONS = {
    Reason.CLOSED: "The other side has closed it.",
    Reason.REFUSED: "The publisher did not accept it.",
    Reason.PEER_LOST: "The connection of the other side, or to the entry point, is lost.",
    Reason.TIMEOUT: "The publisher did not answer in time.",
    Reason.NO_INSTANCE: "There is no such instance.",
    Reason.QUOTA: "A quota of the connection, the publisher or the entry point is used up.",
    Reason.BAD_DATA: "What was sent breaks the rules: a wrong length, or more than was granted.",
    Reason.DRAINING: "The entry point is about to end, and takes nothing new.",
    Reason.UNPUBLISHED: "The publication was taken back.",
}
"""What each means."""


def packet(kind: Extension, content: bytes = b"", nonce: int = 0) -> bytes:
    """The bytes of an extension packet.

    Raises:
        EncodeError: the nonce does not fit.
    """
    return Unknown(code=kind, nonce=nonce, content=content).encode()


def number(value: int) -> bytes:
    """A tag's value that is a number."""
    return value.to_bytes(4, "little")


def write_tags(tags: Mapping[Tag, bytes]) -> bytes:
    """Trailing content that holds these values.

    >>> write_tags({Tag.REASON: number(Reason.REFUSED)}).hex()
    '574c04040001000000'
    """
    return MAGIC + b"".join(_TAG.pack(tag, len(value)) + value for tag, value in tags.items())


def read_tags(data: bytes) -> dict[int, bytes]:
    """The values in trailing content, up to one that is cut off; none if it is not ours."""
    found: dict[int, bytes] = {}
    if not data.startswith(MAGIC):
        return found
    at = len(MAGIC)
    while at + _TAG.size <= len(data):
        tag, size = _TAG.unpack_from(data, at)
        at += _TAG.size
        if at + size > len(data):
            break
        found[tag] = data[at : at + size]
        at += size
    return found


def features_in(tags: Mapping[int, bytes]) -> Feature:
    """The features that both the sender of `tags` and this version know."""
    return Feature(int.from_bytes(tags.get(Tag.FEATURES, b"")[:4], "little") & ALL_FEATURES)


def reason_in(trailing: bytes) -> Reason | None:
    """The reason in trailing content; None if there is none, or it is not known."""
    value = read_tags(trailing).get(Tag.REASON)
    code = int.from_bytes(value, "little") if value else -1
    return Reason(code) if code in Reason._value2member_map_ else None


def reason_name(reason: Reason | None) -> str:
    """How logs, counters and errors call it.

    >>> reason_name(Reason.PEER_LOST)
    'peer_lost'
    """
    return reason.name.lower() if reason is not None else "unknown"
