"""Blaze on real connections: the broker, its hooks and its store; clients, with or without await.

>>> from wireloom.services.blaze import Backoff
>>> [round(pause, 1) for pause in Backoff(jitter=0).pauses(4)]
[0.1, 0.2, 0.4, 0.8]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wireloom.services.blaze.backoff import Backoff
    from wireloom.services.blaze.broker import Broker
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
    from wireloom.services.blaze.hooks import Caller, Done, Hooks, Intent, Refused, Transaction
    from wireloom.services.blaze.settings import BrokerSettings
    from wireloom.services.blaze.subscription import Subscription
    from wireloom.services.blaze.sync import SyncClient, SyncSubscription

__all__ = [
    "Backoff",
    "Broker",
    "BrokerSettings",
    "Caller",
    "Client",
    "ConnectionRefused",
    "Done",
    "Event",
    "Hooks",
    "Intent",
    "OutcomeUnknown",
    "Refused",
    "Result",
    "Subscription",
    "SubscriptionRefused",
    "SubscriptionStopped",
    "SyncClient",
    "SyncSubscription",
    "Transaction",
    "TransactionFailed",
    "TransactionRefused",
]

_MODULES = {
    "Backoff": "backoff",
    "Broker": "broker",
    "BrokerSettings": "settings",
    "Caller": "hooks",
    "Client": "client",
    "ConnectionRefused": "errors",
    "Done": "hooks",
    "Event": "events",
    "Hooks": "hooks",
    "Intent": "hooks",
    "OutcomeUnknown": "errors",
    "Refused": "hooks",
    "Result": "events",
    "Subscription": "subscription",
    "SubscriptionRefused": "errors",
    "SubscriptionStopped": "errors",
    "SyncClient": "sync",
    "SyncSubscription": "sync",
    "Transaction": "hooks",
    "TransactionFailed": "errors",
    "TransactionRefused": "errors",
}


def __getattr__(name: str) -> Any:
    # A client needs nothing of what a broker needs, and the other way round.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
