"""NREP live: entry point, client, forwarder.

Clients and forwarders need nothing but the base install; `EntryPoint`, in
`wireloom.services.nrep.entrypoint`, needs the extra ``serve``.
"""

from __future__ import annotations

from wireloom.services.nrep.blocking import BlockingClient, BlockingSocket
from wireloom.services.nrep.client import Client, ClientCounts, Publication
from wireloom.services.nrep.discovery import Found, discover
from wireloom.services.nrep.forward import (
    ConnectForwarder,
    ForwardCounts,
    PublishForwarder,
    parse_local,
)
from wireloom.services.nrep.streams import SocketWriter
from wireloom.services.nrep.trust import Trust

__all__ = [
    "BlockingClient",
    "BlockingSocket",
    "Client",
    "ClientCounts",
    "ConnectForwarder",
    "ForwardCounts",
    "Found",
    "Publication",
    "PublishForwarder",
    "SocketWriter",
    "Trust",
    "discover",
    "parse_local",
]
