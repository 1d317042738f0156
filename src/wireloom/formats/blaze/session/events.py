"""What a Blaze session reports to its owner (SPEC §8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from wireloom.formats.blaze.codes import (
    BlazeCode,
    DisconnectReason,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    RefusalCode,
    SubscriptionMode,
    SubscriptionType,
    TransactionType,
)
from wireloom.formats.blaze.nclass import NClassValue

__all__ = [
    "Connected",
    "ConnectionRefused",
    "ConnectionRequested",
    "DownloadEnded",
    "DownloadWanted",
    "ObjectReceived",
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
]

TxId = tuple[int, int, int, int]
"""A transaction's id: platform, service, connection, progressive number."""

Stamp = tuple[int, int]
"""When an object changed: Unix seconds, and a counter inside that second."""

Code = BlazeCode | IntEnum | int


class SessionEvent:
    """Any event of a session."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConnectionRequested(SessionEvent):
    """To the server: a client asks to connect; `accept` or `refuse` it."""

    hbtsec: int
    """Heartbeat interval that it proposes, in seconds."""


@dataclass(frozen=True, slots=True)
class Connected(SessionEvent):
    """The connection is established."""

    connid: int
    heartbeat: int
    """Agreed interval in seconds, 0 for no duty."""
    is_reserved: bool = False
    """Whether the server accepted with reserve."""


@dataclass(frozen=True, slots=True)
class ConnectionRefused(SessionEvent):
    """To the client: the server refused the connection."""

    code: RefusalCode | IntEnum | int


@dataclass(frozen=True, slots=True)
class SessionClosed(SessionEvent):
    """The session is over; flush what is to be sent, and close the connection."""

    reason: DisconnectReason | IntEnum | int | None
    """What DSCOND said, in either direction; None when there was none."""
    by: Literal["peer", "us", "lost"]
    detail: str = ""
    """What went wrong, in words."""


@dataclass(slots=True)  # not frozen, which would take three times as long
class TransactionRequested(SessionEvent):
    """To the server: do this, and `respond`."""

    txid: TxId
    type: TransactionType | int
    action: IntEnum
    """Compare it by name: 2017 and 2019 have REMOVE and RESET where the document has RST."""
    wants_result: bool
    nclsid: int | None = None
    encoding: Encoding | None = None
    body: bytes | None = None
    nclass: NClassValue | None = None
    """The object, if the session has a model."""
    is_canonical: bool = field(default=False, compare=False)
    """Whether `body` is known to be what `encode_nclass` makes of the object."""


@dataclass(frozen=True, slots=True)
class TransactionAborted(SessionEvent):
    """To the server: nobody waits for this transaction any more; a late answer is dropped."""

    txid: TxId
    code: BlazeCode


@dataclass(frozen=True, slots=True)
class RequestRejected(SessionEvent):
    """To the server: a request was refused without asking; the client has its answer."""

    packet: Literal["TXRQST", "SBSREQ"]
    id: TxId | int
    """TxId, or RQSTID."""
    code: BlazeCode
    reason: str = ""
    """Why a packet or its body cannot be read, and at which byte."""


@dataclass(slots=True)
class TransactionFinished(SessionEvent):
    """To the client: how a transaction ended."""

    txid: TxId
    is_ok: bool
    code: Code = BlazeCode.NO_ERROR
    is_local: bool = False
    """Whether this side gave up; then it is not known what the server did."""
    nclsid: int | None = None
    encoding: Encoding | None = None
    body: bytes | None = None
    nclass: NClassValue | None = None


@dataclass(slots=True)
class TransactionsFinished(SessionEvent):
    """To the client: several transactions ended alike, without results.

    It stands for the `TransactionFinished` of each, which it gives when it is iterated over.
    """

    sender: tuple[int, int, int]
    """What their ids begin with."""
    numbers: Sequence[int]
    """The last part of their ids, in the order of the answers."""
    is_ok: bool
    code: Code = BlazeCode.NO_ERROR

    def of(self, number: int) -> TransactionFinished:
        """What has become of one of them."""
        return TransactionFinished((*self.sender, number), self.is_ok, self.code)

    def __iter__(self) -> Iterator[TransactionFinished]:
        return map(self.of, self.numbers)


@dataclass(frozen=True, slots=True)
class SubscriptionRequested(SessionEvent):
    """To the server: `start` or `refuse_subscription`."""

    rqstid: int
    nclsid: int
    encoding: Encoding
    kind: SubscriptionType
    mode: SubscriptionMode
    flow: FlowType
    download: DownloadType
    since: Stamp
    """Send what is newer; (0, 0) for everything."""


@dataclass(frozen=True, slots=True)
class DownloadWanted(SessionEvent):
    """To the server: give up to `count` rows newer than `after` to `download`, by their stamps."""

    sbsrid: int
    nclsid: int
    after: Stamp
    count: int
    deleted_after: Stamp | None = None
    """Deleted rows are wanted, too, if they are newer than this; None: they are not."""


@dataclass(frozen=True, slots=True)
class SubscriptionStarted(SessionEvent):
    """To the client: events will come."""

    rqstid: int
    sbsrid: int
    is_partial: bool = False
    """SBSPART: nothing is stored of this class, only changes will come."""


@dataclass(frozen=True, slots=True)
class SubscriptionRefused(SessionEvent):
    """To the client: no events will come."""

    rqstid: int
    code: Code
    is_local: bool = False


@dataclass(slots=True)
class ObjectReceived(SessionEvent):
    """To the client: an object that is stored, or has changed."""

    rqstid: int
    sevtid: int
    kind: EventType
    action: IntEnum | int
    stamp: Stamp
    body: bytes
    nclass: NClassValue | None = None


@dataclass(frozen=True, slots=True)
class DownloadEnded(SessionEvent):
    """To the client: all stored objects have arrived; changes follow."""

    rqstid: int
    sevtid: int


@dataclass(frozen=True, slots=True)
class SubscriptionEnded(SessionEvent):
    """A subscription that was started is over: RQSTID for the client, SBSRID for the server."""

    id: int
    cause: Literal["client", "server", "lost"]
    code: Code = BlazeCode.NO_ERROR
