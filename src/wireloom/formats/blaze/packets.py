"""The 13 packets of Blaze, declared once: their words, and which of them are conditional (SPEC §2).

The codec, the framing table (`wireloom.formats.blaze.frames`) and the tables in SPEC.md are derived
from these declarations and those of the words. Attributes are the document's field names in lower
case. A packet's long form is used when the attributes that only it has are given; whether that
agrees with the field that announces it (TXTYPE, RESCLS, DWLTYP, CONRES, SBRESL, SEVTTP) is checked
in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Self

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats.blaze import dialects
from wireloom.formats.blaze.body import decode_below
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    ConnectionResult,
    DisconnectReason,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    RefusalCode,
    SubscriptionMode,
    SubscriptionResult,
    SubscriptionType,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.words import (
    BODY,
    CLIHBT,
    CLSENC,
    CONNID,
    DISWRD,
    PKTHDR,
    PKTLEN,
    RQSTID,
    SBREQW,
    SBRESW,
    SBSRID,
    SEVTID,
    SEVTTP,
    SRVCRS,
    TMSTMP,
    TMSTMP0,
    TMSTMP1,
    TXCNID,
    TXPLID,
    TXPRID,
    TXREQW,
    TXRESW,
    TXSVID,
)
from wireloom.layout import Packet, optional, packet
from wireloom.messages import Json
from wireloom.outline import Node

__all__ = [
    "PACKETS",
    "VERSION",
    "BlazePacket",
    "ConnectionRequest",
    "ConnectionResponse",
    "Disconnected",
    "Heartbeat",
    "SubscriptionAck",
    "SubscriptionEvent",
    "SubscriptionRequest",
    "SubscriptionResponse",
    "SubscriptionStop",
    "SubscriptionStopResponse",
    "TestRequest",
    "TransactionRequest",
    "TransactionResponse",
]

VERSION = 1
"""PROVER on the wire; the document, at 0.5, gives no value (erratum E4)."""

Flaw = tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlazePacket(Packet):
    """Any Blaze packet."""

    format: ClassVar[str] = "blaze"

    prover: int = VERSION
    """Protocol version, 1..63."""
    unused: tuple[int, ...] = ()
    """Unused bits that were set on the wire, word by word; empty when none was."""
    dialect: str = field(default=dialects.DOCUMENT, compare=False)
    """Whose numbering the enums follow; see `wireloom.formats.blaze.dialects`."""
    nclass: NClassValue | None = field(default=None, compare=False)
    """The body's values when it was decoded with a model. `body` is what is written."""

    def strict_flaw(self) -> Flaw:
        """Like `flaw`, for what only strict mode rejects."""
        return None

    def encode(self) -> bytes:
        """The bytes of the packet.

        Raises:
            EncodeError: a value does not fit its field, or the fields do not agree.
        """
        if self.dialect != dialects.DOCUMENT:
            if self.dialect not in dialects.DIALECTS:
                raise EncodeError(f"no dialect {self.dialect!r}", path="dialect")
            dialects.check_names(self, dialects.DIALECTS[self.dialect])
        return self.codec.encode(self)

    def in_dialect(self, name: str) -> Self:
        """The packet as that dialect writes it: its meaning stays, its numbers may change.

        A number that has no name stays as it is, and so do ERRCOD and DISRES in 2019.

        Raises:
            EncodeError: the dialect has no number for something in the packet.
            OptionError: there is no such dialect.
        """
        return dialects.translate(self, dialects.get_dialect(name))

    def to_dict(self) -> Json:
        """The packet as a JSON object: enums by name, bytes in hex; what is absent is left out.

        `nclass` is for reading only: `from_dict` uses `body`.
        """
        # A dataclass with slots is not the class that this source defines: no bare super().
        out = super(BlazePacket, self).to_dict()
        if self.dialect == dialects.DOCUMENT:
            del out["dialect"]
        if self.nclass is not None:
            out["nclass"] = self.nclass.to_dict()
        return out

    @classmethod
    def from_dict(cls, d: Json) -> Self:
        """The packet that `to_dict` described. `nclass` is ignored, `body` counts.

        Raises:
            EncodeError: a name is unknown or missing, or its value is not of the right kind.
        """
        name = d.get("dialect", dialects.DOCUMENT)
        if not isinstance(name, str) or name not in dialects.DIALECTS:
            raise EncodeError(f"no dialect {name!r}", path="dialect")
        given = {key: value for key, value in d.items() if key not in ("dialect", "nclass")}
        if name == dialects.DOCUMENT:
            return cls._from_dict(given)
        for field_name in dialects.DOCUMENT_ENUMS.keys() & given.keys():
            enum, value = dialects.enum_of(dialects.DIALECTS[name], field_name), given[field_name]
            if isinstance(value, str):
                if enum is None or value not in enum.__members__:
                    raise EncodeError(f"{value!r} is not a value of {field_name}", path=field_name)
                given[field_name] = int(enum[value])
        return dialects.rename(cls._from_dict(given), dialects.DIALECTS[name])

    @classmethod
    def _from_dict(cls, given: Json) -> Self:
        made = super(BlazePacket, cls).from_dict(given)
        unused: object = made.unused
        if not isinstance(unused, tuple) or not all(isinstance(bits, int) for bits in unused):
            raise EncodeError("unused must be a list of numbers", path="unused")
        return made

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        data = self.encode()
        root = self.codec.outline(data, 0, len(data))
        dialect = dialects.DIALECTS[self.dialect]
        dialects.rename_nodes(root, dialect)
        if self.nclass is not None:
            value = self.nclass
            first = dialect.first_index_of(value.model)
            body: bytes = getattr(self, "body", None) or b""
            with suppress(DecodeError):  # the tree shows why
                decode_below(
                    root, value.model, value.nclass, body, value.encoding, first_index=first
                )
        return root

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """The byte strings of the body if it was decoded with a model, else the whole body."""
        body: bytes = getattr(self, "body", None) or b""
        if self.nclass is not None:
            for path, data in self.nclass.payloads():
                yield f"body.{path}", data
        elif body:
            yield "body", body


_CLIENT_ONLY = "CONNID if the sender is the client"


@packet(code=1, name="TSTREQ", parts=(PKTHDR, TMSTMP, optional(CONNID)), note=_CLIENT_ONLY)
class TestRequest(BlazePacket):
    """Asks the peer for a heartbeat."""

    __test__: ClassVar[bool] = False  # the name is the document's; pytest would take it for a test

    tmstmp: int
    connid: int | None = None


@packet(code=2, name="HRTBET", parts=(PKTHDR, TMSTMP, optional(CONNID)), note=_CLIENT_ONLY)
class Heartbeat(BlazePacket):
    """Tells that the sender is alive."""

    tmstmp: int
    connid: int | None = None


@packet(code=3, name="CONREQ", parts=(PKTHDR, CLIHBT), sender="client")
class ConnectionRequest(BlazePacket):
    """Opens a session, and proposes a heartbeat interval."""

    hbtsec: int = 0


@packet(
    code=4,
    name="CONRES",
    parts=(PKTHDR, SRVCRS, optional(CONNID)),
    sender="server",
    note="CONNID if CONRES is ACCEPTED or ACCEPTED_WITH_RESERVE",
)
class ConnectionResponse(BlazePacket):
    """Accepts or refuses a connection request."""

    conres: ConnectionResult | int
    errcod: RefusalCode | int = RefusalCode.NO_ERROR
    agrhbt: int = 0
    connid: int | None = None

    def flaw(self) -> Flaw:
        """An accepted connection has a CONNID. A refused one may have one too (erratum E7)."""
        if self.connid is None and self.conres in (1, 2):
            return "connid", "an accepted connection needs a CONNID"
        return None

    def strict_flaw(self) -> Flaw:
        """A refused connection has no CONNID."""
        if self.connid is not None and self.conres == ConnectionResult.REFUSED:
            return "connid", "a refused connection has no CONNID"
        return None


@packet(code=5, name="DSCOND", parts=(PKTHDR, DISWRD, optional(CONNID)), note=_CLIENT_ONLY)
class Disconnected(BlazePacket):
    """Tells that the sender disconnects, and why. There is no answer."""

    disres: DisconnectReason | int
    connid: int | None = None


@packet(
    code=6,
    name="TXRQST",
    parts=(
        *(PKTHDR, TXREQW, TXPLID, TXSVID, TXCNID, TXPRID),
        optional(PKTLEN, CLSENC),
        CONNID,
        optional(BODY),
    ),
    sender="client",
    note="PKTLEN, CLSENC and the body if TXTYPE is NCLASS",
)
class TransactionRequest(BlazePacket):
    """Asks the server to do something, mostly to an object."""

    txtype: TransactionType | int
    txactn: Action | int
    rsclrq: int = 0
    txplid: int
    txsvid: int
    txcnid: int
    txprid: int
    enctyp: Encoding | int | None = None
    nclsid: int | None = None
    connid: int
    body: bytes | None = None

    @property
    def txid(self) -> tuple[int, int, int, int]:
        """The transaction's id: platform, service, connection, progressive number."""
        return self.txplid, self.txsvid, self.txcnid, self.txprid

    def flaw(self) -> Flaw:
        """An NCLASS transaction has a body; the other known types have none (erratum E8)."""
        if self.body is None:
            if self.txtype == TransactionType.NCLASS:
                return "txtype", "an NCLASS transaction needs PKTLEN, CLSENC and a body"
        elif self.txtype in (1, 2, 3):
            return "txtype", "only an NCLASS transaction has PKTLEN, CLSENC and a body"
        return None


@packet(
    code=7,
    name="TXRESP",
    parts=(
        *(PKTHDR, TXRESW, TXPLID, TXSVID, TXCNID, TXPRID),
        optional(PKTLEN, CLSENC, BODY),
    ),
    sender="server",
    note="PKTLEN, CLSENC and the body if RESCLS is 1",
)
class TransactionResponse(BlazePacket):
    """How a transaction ended, with a result object if there is one."""

    txresl: TransactionResult | int
    rescls: int = 0
    blzcod: BlazeCode | int = BlazeCode.NO_ERROR
    txplid: int
    txsvid: int
    txcnid: int
    txprid: int
    enctyp: Encoding | int | None = None
    nclsid: int | None = None
    body: bytes | None = None

    @property
    def txid(self) -> tuple[int, int, int, int]:
        """The transaction's id: platform, service, connection, progressive number."""
        return self.txplid, self.txsvid, self.txcnid, self.txprid

    def flaw(self) -> Flaw:
        """RESCLS tells whether there is a result object."""
        if self.rescls:
            if self.body is None:
                return "rescls", "RESCLS announces a result nclass, and there is none"
        elif self.body is not None:
            return "rescls", "a result nclass needs RESCLS"
        return None


@packet(
    code=8,
    name="SBSREQ",
    parts=(PKTHDR, SBREQW, CLSENC, CONNID, RQSTID, optional(TMSTMP0, TMSTMP1)),
    sender="client",
    note="both stamps if DWLTYP is PARTIAL",
)
class SubscriptionRequest(BlazePacket):
    """Asks for the objects of a class: those stored, the changes to come, or both."""

    sbstyp: SubscriptionType | int
    sbsmod: SubscriptionMode | int
    flotyp: FlowType | int
    dwltyp: DownloadType | int
    enctyp: Encoding | int
    nclsid: int
    connid: int
    rqstid: int
    tmstmp0: int | None = None
    tmstmp1: int | None = None

    def flaw(self) -> Flaw:
        """A PARTIAL download has both stamps, an ALL download has none (erratum E10)."""
        if self.tmstmp0 is None:
            if self.dwltyp == DownloadType.PARTIAL:
                return "dwltyp", "a PARTIAL download needs TMSTMP0 and TMSTMP1"
        elif self.dwltyp == DownloadType.ALL:
            return "dwltyp", "only a PARTIAL download has TMSTMP0 and TMSTMP1"
        return None


@packet(
    code=9,
    name="SBSRES",
    parts=(PKTHDR, SBRESW, RQSTID, optional(SBSRID)),
    sender="server",
    note="SBSRID if SBRESL is SBSOK or SBSPART",
)
class SubscriptionResponse(BlazePacket):
    """Answers a subscription request."""

    sbresl: SubscriptionResult | int
    blzcod: BlazeCode | int = BlazeCode.NO_ERROR
    rqstid: int
    sbsrid: int | None = None

    def flaw(self) -> Flaw:
        """A subscription that was started has an id, a refused one has none (erratum E11)."""
        if self.sbsrid is None:
            if self.sbresl in (1, 2):
                return "sbresl", "a started subscription needs an SBSRID"
        elif self.sbresl == SubscriptionResult.SBSKO:
            return "sbresl", "a refused subscription has no SBSRID"
        return None


@packet(
    code=10,
    name="SBSEVT",
    parts=(PKTHDR, SBSRID, SEVTTP, SEVTID, TMSTMP0, TMSTMP1, optional(PKTLEN, BODY)),
    sender="server",
    note="PKTLEN and the body if SEVTTP is DATALIVE or DATADWNL",
)
class SubscriptionEvent(BlazePacket):
    """A stored or changed object, the end of the download, or the end of the subscription.

    Class and encoding of the body are those of the subscription request (erratum E13).
    """

    sbsrid: int
    sevttp: EventType | int
    sbeact: Action | int = Action.NONE
    blzcod: BlazeCode | int = BlazeCode.NO_ERROR
    sevtid: int
    tmstmp0: int = 0
    tmstmp1: int = 0
    body: bytes | None = None

    def flaw(self) -> Flaw:
        """Data events have an action and a body, the others no body; see erratum E12 for STOP."""
        if self.sevttp in (1, 2):
            if self.body is None:
                return "sevttp", "a data event needs PKTLEN and a body"
            if self.sbeact == Action.NONE:
                return "sbeact", "a data event needs an action"
        elif self.body is not None and (
            self.sevttp == EventType.DWNLEND or (self.sevttp == EventType.STOP and self.body)
        ):
            return "sevttp", "only a data event has a body"
        return None

    def strict_flaw(self) -> Flaw:
        """A STOP has the short form."""
        if self.sevttp == EventType.STOP and self.body is not None:
            return "sevttp", "a STOP has no PKTLEN"
        return None


@packet(code=11, name="SBSACK", parts=(PKTHDR, SBSRID, SEVTID), sender="client")
class SubscriptionAck(BlazePacket):
    """Acknowledges an event."""

    sbsrid: int
    sevtid: int


@packet(code=12, name="SBSTOP", parts=(PKTHDR, SBSRID), sender="client")
class SubscriptionStop(BlazePacket):
    """Asks the server to end a subscription."""

    sbsrid: int


@packet(
    code=13,
    name="SBSSPR",
    parts=(PKTHDR, SBRESW, optional(SBSRID)),
    sender="server",
    note="SBSRID always when written; read without it too",
)
class SubscriptionStopResponse(BlazePacket):
    """Answers a stop request."""

    sbresl: SubscriptionResult | int
    blzcod: BlazeCode | int = BlazeCode.NO_ERROR
    sbsrid: int | None = None


PACKETS: dict[int, type[BlazePacket]] = {
    cls.code: cls
    for cls in (
        TestRequest,
        Heartbeat,
        ConnectionRequest,
        ConnectionResponse,
        Disconnected,
        TransactionRequest,
        TransactionResponse,
        SubscriptionRequest,
        SubscriptionResponse,
        SubscriptionEvent,
        SubscriptionAck,
        SubscriptionStop,
        SubscriptionStopResponse,
    )
}
"""Every packet class, by type code."""
