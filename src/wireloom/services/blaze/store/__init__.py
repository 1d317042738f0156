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
from wireloom.services.blaze.store.store import SqlStore, open_store

__all__ = [
    "Outcome",
    "Policy",
    "SqlStore",
    "Store",
    "StoreSettings",
    "StoreStatus",
    "StoredChange",
    "Write",
    "open_store",
]
