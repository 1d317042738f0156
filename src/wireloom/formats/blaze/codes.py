"""The numbers in Blaze headers that have names, as the document gives them (SPEC §3).

A number without a name here stays a plain `int`. Zero is illegal in every one of these fields but
ERRCOD, BLZCOD and, in events that carry no object, SBEACT.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "Action",
    "BlazeCode",
    "ConnectionResult",
    "DisconnectReason",
    "DownloadType",
    "Encoding",
    "EventType",
    "FlowType",
    "RefusalCode",
    "SubscriptionMode",
    "SubscriptionResult",
    "SubscriptionType",
    "TransactionResult",
    "TransactionType",
]


class ConnectionResult(IntEnum):
    """CONRES: what became of a connection request."""

    ACCEPTED = 1
    ACCEPTED_WITH_RESERVE = 2
    REFUSED = 3


class RefusalCode(IntEnum):
    """ERRCOD: why a connection was refused, or accepted with reserve."""

    NO_ERROR = 0
    UNSPECIFIED_REASON = 1
    SERVER_ERROR = 2
    SERVER_STATUS_INVALID = 3
    SERVER_IS_GOING_DOWN = 4
    TOO_MANY_CONNECTIONS = 5
    PROTOCOL_VERSION_TOO_OLD = 6
    ALREADY_CONNECTED = 7
    SERVER_HAS_CHANGED_HEARTBEAT_INTERVAL = 8
    INVALID_CONNECTION_STATUS = 9


class DisconnectReason(IntEnum):
    """DISRES: why a peer disconnects."""

    UNSPECIFIED_REASON = 1
    SERVER_ERROR = 2
    SERVER_STATUS_INVALID = 3
    SERVER_IS_GOING_DOWN = 4
    TOO_MANY_CONNECTIONS = 5
    PEER_INACTIVITY = 6
    APPLICATION_REQUEST = 7
    INVALID_CONNECTION_STATUS = 8


class TransactionType(IntEnum):
    """TXTYPE: what a transaction is about; only NCLASS carries a body."""

    RESERVED = 1
    SYSTEM = 2
    SPECIAL = 3
    NCLASS = 4


class Action(IntEnum):
    """TXACTN and SBEACT: what is done to the object in the body."""

    NONE = 0
    """Only in events that carry no object (erratum E30)."""
    INS = 1
    UPD = 2
    DLT = 3
    """Delta: the body holds what has changed."""
    DEL = 4
    RST = 5


class Encoding(IntEnum):
    """ENCTYP: what an absent field of the body means (SPEC §4)."""

    ALL = 1
    """Every field and element is there."""
    INDEXNOTZERO = 2
    """What is absent is zero."""
    INDEXDELTA = 3
    """What is absent is unchanged."""


class TransactionResult(IntEnum):
    """TXRESL: how a transaction ended."""

    TXOK = 1
    TXKO = 2


class BlazeCode(IntEnum):
    """BLZCOD: the reason behind a result."""

    NO_ERROR = 0
    UNKNOWN_ERROR = 1
    PROTOCOL_ERROR = 2
    SERVER_ERROR = 3
    APPLICATION_ERROR = 4
    REQUEST_MALFORMED = 5
    REQUEST_UNSUPPORTED = 6
    REASON_IN_RESULT_NCLASS = 7
    SECURITY_ERROR = 8
    UNAUTHENTICATED = 9
    UNAUTHORIZED = 10
    INVALID_TRANSACTION_ID = 200
    DUPLICATED_TRANSACTION_ID = 201
    TRANSACTION_ALREADY_FLYING = 202
    TRANSACTION_TIMEOUT = 203
    TRANSACTION_LOST = 204
    CLIENT_ABORTED = 205
    SERVER_ABORTED = 206
    SBS_ALREADY_STARTED = 400
    SBS_NOT_FOUND = 401


class SubscriptionType(IntEnum):
    """SBSTYP: whether events carry whole objects or may carry deltas."""

    SNAPSHOT = 1
    INCREMENTAL = 2


class SubscriptionMode(IntEnum):
    """SBSMOD: stored objects, live changes, or the first and then the second."""

    ALL = 1
    PAST = 2
    LIVE = 3


class FlowType(IntEnum):
    """FLOTYP: every event, or only the last one of each object that waits to be sent."""

    ALL = 1
    LAST = 2


class DownloadType(IntEnum):
    """DWLTYP: every stored object, or those newer than the two stamps."""

    ALL = 1
    PARTIAL = 2


class SubscriptionResult(IntEnum):
    """SBRESL: what became of a subscription or stop request."""

    SBSOK = 1
    SBSPART = 2
    SBSKO = 3


class EventType(IntEnum):
    """SEVTTP: what an event tells; DATALIVE and DATADWNL carry an object."""

    DATALIVE = 1
    DATADWNL = 2
    DWNLEND = 3
    STOP = 4
