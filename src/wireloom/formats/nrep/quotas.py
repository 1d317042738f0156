"""What an entry point grants its clients, and how it behaves towards them (SPEC §12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wireloom.formats.nrep.rules import DEFAULT_MAX_CONTENT

__all__ = ["Behaviour", "Quotas"]

Behaviour = Literal["recommended", "legacy"]
"""`recommended`: the rules of SPEC §12. `legacy`: what the first implementation did, faults
included, for testing clients against it."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of an entry point; all of them hold by default."""

    connections: int = 4096
    """Clients at the same time. An idle connection costs some kilobytes."""
    instances: int = 256
    """Publications of one connection: more cannot be listed in one answer anyway."""
    sockets: int = 8192
    """Sockets that have one connection as either end."""
    requests: int = 2048
    """Sockets that one connection opened: less than `sockets`, so that no single requester can use
    up a publisher's."""
    all_sockets: int = 65_536
    """Sockets of all connections."""
    watches: int = 64
    """Apps that one connection watches."""
    socket_bytes: int | None = None
    """Bytes relayed for one socket, both ways together; None for no limit."""
    description_bytes: int = 1024
    """Length of an app's description: a name, not a document."""
    max_content: int = DEFAULT_MAX_CONTENT
    """Content of one packet."""
    accept_seconds: float = 15.0
    """How long a publisher may take to accept: the requester waits without any news."""
    retired_seconds: float = 60.0
    """How long the id of a closed socket is not reused: late packets may carry it."""
