"""The broker's store: objects, stamps, transaction ids and the changes of all brokers, durable."""

from __future__ import annotations

from wireloom.services.blaze.store.api import (
    Outcome,
    Policy,
    Store,
    StoredChange,
    StoreSettings,
    StoreStatus,
    Write,
)

__all__ = [
    "Outcome",
    "Policy",
    "Store",
    "StoreSettings",
    "StoreStatus",
    "StoredChange",
    "Write",
]
