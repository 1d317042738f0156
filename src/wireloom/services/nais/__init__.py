"""NAIS on real connections: a junction, a client, a simulated board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wireloom.services.nais.blocking import SyncClient
from wireloom.services.nais.client import Answer, Client, Subscription
from wireloom.services.nais.settings import JunctionSettings, parse_line, parse_route

if TYPE_CHECKING:
    from wireloom.services.nais.junction import Junction

__all__ = [
    "Answer",
    "Client",
    "Junction",
    "JunctionSettings",
    "Subscription",
    "SyncClient",
    "parse_line",
    "parse_route",
]


def __getattr__(name: str) -> Any:
    # Clients need none of the packages that a junction does.
    if name == "Junction":
        from wireloom.services.nais.junction import Junction

        return Junction
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
