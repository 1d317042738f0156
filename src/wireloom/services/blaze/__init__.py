"""Blaze, live: the broker, its store, and clients.

The parts are imported when they are asked for: settings and help need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wireloom.services.blaze.broker import Broker
    from wireloom.services.blaze.hooks import Caller, Done, Hooks, Intent, Refused, Transaction
    from wireloom.services.blaze.settings import BrokerSettings

__all__ = [
    "Broker",
    "BrokerSettings",
    "Caller",
    "Done",
    "Hooks",
    "Intent",
    "Refused",
    "Transaction",
]

_PLACES = {
    "Broker": "broker",
    "BrokerSettings": "settings",
    "Caller": "hooks",
    "Done": "hooks",
    "Hooks": "hooks",
    "Intent": "hooks",
    "Refused": "hooks",
    "Transaction": "hooks",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
