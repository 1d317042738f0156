"""NREP live: entry point, client, forwarder.

Clients and forwarders need nothing but the base install; `EntryPoint`, in
`wireloom.services.nrep.entrypoint`, needs the extra ``serve``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "BlockingClient": "blocking",
    "BlockingSocket": "blocking",
    "Client": "client",
    "ClientCounts": "client",
    "ConnectForwarder": "forward",
    "ForwardCounts": "forward",
    "Found": "discovery",
    "Publication": "client",
    "PublishForwarder": "forward",
    "SocketWriter": "streams",
    "Trust": "trust",
    "discover": "discovery",
    "parse_local": "forward",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: the command line's help needs only the settings, and no asyncio."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
