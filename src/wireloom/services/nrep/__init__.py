"""NREP live: entry point, client, forwarder.

`Client` and `discover` need nothing but the base install; `EntryPoint`, in
`wireloom.services.nrep.entrypoint`, needs the extra ``serve``.
"""

from __future__ import annotations

from wireloom.services.nrep.client import Client, ClientCounts, Publication
from wireloom.services.nrep.discovery import Found, discover
from wireloom.services.nrep.streams import SocketWriter
from wireloom.services.nrep.trust import Trust

__all__ = [
    "Client",
    "ClientCounts",
    "Found",
    "Publication",
    "SocketWriter",
    "Trust",
    "discover",
]
