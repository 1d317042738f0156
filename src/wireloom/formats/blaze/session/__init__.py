"""Blaze, live: both sides of a connection, without sockets, clocks or a store (SPEC §8).

>>> from wireloom.formats.blaze.session import ClientSession, ServerSession
>>> client, server = ClientSession(), ServerSession(now=0.0)
>>> client.connect(now=0.0)
>>> server.receive(client.data_to_send(), now=0.1)
[ConnectionRequested(hbtsec=30)]
>>> server.accept(connid=7, now=0.1)
[Connected(connid=7, heartbeat=30, is_reserved=False)]
>>> client.receive(server.data_to_send(), now=0.2)
[Connected(connid=7, heartbeat=30, is_reserved=False)]
"""

from __future__ import annotations

from wireloom.formats.blaze.session.behaviour import BEHAVIOURS, Behaviour, behaviour_of
from wireloom.formats.blaze.session.client import ClientSession, ClientSettings
from wireloom.formats.blaze.session.events import (
    Connected,
    ConnectionRefused,
    ConnectionRequested,
    DownloadEnded,
    DownloadWanted,
    ObjectReceived,
    RequestRejected,
    SessionClosed,
    SessionEvent,
    Stamp,
    SubscriptionEnded,
    SubscriptionRefused,
    SubscriptionRequested,
    SubscriptionStarted,
    TransactionAborted,
    TransactionFinished,
    TransactionRequested,
    TransactionsFinished,
    TxId,
)
from wireloom.formats.blaze.session.server import ServerSession, ServerSettings
from wireloom.formats.blaze.session.states import TABLES, ClientState, ServerState
from wireloom.formats.blaze.session.subscriptions import (
    Batch,
    Change,
    EventIds,
    ServerSubscription,
)

__all__ = [
    "BEHAVIOURS",
    "TABLES",
    "Batch",
    "Behaviour",
    "Change",
    "ClientSession",
    "ClientSettings",
    "ClientState",
    "Connected",
    "ConnectionRefused",
    "ConnectionRequested",
    "DownloadEnded",
    "DownloadWanted",
    "EventIds",
    "ObjectReceived",
    "RequestRejected",
    "ServerSession",
    "ServerSettings",
    "ServerState",
    "ServerSubscription",
    "SessionClosed",
    "SessionEvent",
    "Stamp",
    "SubscriptionEnded",
    "SubscriptionRefused",
    "SubscriptionRequested",
    "SubscriptionStarted",
    "TransactionAborted",
    "TransactionFinished",
    "TransactionRequested",
    "TransactionsFinished",
    "TxId",
    "behaviour_of",
]
