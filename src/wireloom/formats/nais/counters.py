"""What a junction counts, and what it reports about its sessions and dropped records."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["DROPS", "Counters", "Dropped", "SessionInfo"]

_PASSED = ("frames_in", "texts_in", "frames_out", "texts_out", "stored")


@dataclass(slots=True)
class Counters:
    """Records received, sent and dropped; each counter only ever grows."""

    frames_in: int = 0
    texts_in: int = 0
    frames_out: int = 0
    """Copies put into the queue of a session; the same for texts."""
    texts_out: int = 0
    stored: int = 0
    """Records stored for a line without a session."""
    problems: int = 0
    """Pieces of a stream that are neither frame nor text; dropped."""
    type_zero: int = 0
    """Frames of TYPE 0; dropped."""
    bad_payload: int = 0
    """Frames without the message that their TYPE asks for, on lines that validate; dropped."""
    unrouted: int = 0
    """Records from a line without a route; dropped."""
    undeliverable: int = 0
    """Frames to a session that is on none of the peer lines; dropped."""
    filtered: int = 0
    """Records that a route or line does not let pass, counted once per such line."""
    discarded: int = 0
    """Records for which a transform gave nothing."""
    transform_errors: int = 0
    """Records on which a transform failed; dropped."""
    wrong_size: int = 0
    """Frames too large or too small for their target line; dropped there."""
    no_session: int = 0
    """Records for a line that has no session any more; dropped there."""
    overflow: int = 0
    """Records that had to leave a full queue."""
    expired: int = 0
    """Records that got too old in a queue."""
    lost_on_close: int = 0
    """Records that waited for a session when it went."""
    refused: int = 0
    """Connections for which there was no id, or that exceeded the limit of their line."""
    no_virtual_id: int = 0
    """Frames of a peer behind a trunk for which there was no id; dropped."""

    def to_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in _NAMES}

    def add(self, other: Counters) -> None:
        """Add the counts of another."""
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NAMES = tuple(field.name for field in fields(Counters))
DROPS = tuple(name for name in _NAMES if name not in (*_PASSED, "refused"))
"""The names of what was dropped."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A record was not delivered at all, or not to one line; for logs."""

    reason: str
    """Name of the counter that counted it."""
    session: int
    """Who sent it."""
    line: str = ""
    """The line that it did not reach; empty when it reached none."""
    type: int | None = None
    """TYPE of the frame; None for text."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A connection, or a peer behind a trunk connection."""

    id: int
    line: str
    since: float
    queued: int = 0
    """Bytes that wait for it."""
    via: int = 0
    """Session id of the trunk connection that leads to it; 0 for none."""
    remote: int = 0
    """Its id at the far junction."""
