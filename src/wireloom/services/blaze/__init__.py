"""Blaze on real connections: the client for programs, and its twin without ``await``.

>>> from wireloom.services.blaze import Backoff
>>> [round(pause, 1) for pause in Backoff(jitter=0).pauses(4)]
[0.1, 0.2, 0.4, 0.8]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wireloom.services.blaze.backoff import Backoff
    from wireloom.services.blaze.client import Client
    from wireloom.services.blaze.errors import (
        ConnectionRefused,
        OutcomeUnknown,
        SubscriptionRefused,
        SubscriptionStopped,
        TransactionFailed,
        TransactionRefused,
    )
    from wireloom.services.blaze.events import Event, Result
    from wireloom.services.blaze.subscription import Subscription
    from wireloom.services.blaze.sync import SyncClient, SyncSubscription

__all__ = [
    "Backoff",
    "Client",
    "ConnectionRefused",
    "Event",
    "OutcomeUnknown",
    "Result",
    "Subscription",
    "SubscriptionRefused",
    "SubscriptionStopped",
    "SyncClient",
    "SyncSubscription",
    "TransactionFailed",
    "TransactionRefused",
]

_MODULES = {
    "Backoff": "backoff",
    "Client": "client",
    "ConnectionRefused": "errors",
    "Event": "events",
    "OutcomeUnknown": "errors",
    "Result": "events",
    "Subscription": "subscription",
    "SubscriptionRefused": "errors",
    "SubscriptionStopped": "errors",
    "SyncClient": "sync",
    "SyncSubscription": "sync",
    "TransactionFailed": "errors",
    "TransactionRefused": "errors",
}


def __getattr__(name: str) -> Any:
    # A client needs nothing of what a broker needs, and the other way round.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
