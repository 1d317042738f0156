"""The words of Blaze headers: 32 bits each, big-endian (SPEC §3).

Bits that no field covers are unused: written as zero, kept when they are set on the wire.
"""

from __future__ import annotations

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
from wireloom.layout import Bits, Rest, Word

__all__ = [
    "BODY",
    "CLIHBT",
    "CLSENC",
    "CONNID",
    "DISWRD",
    "PKTHDR",
    "PKTLEN",
    "RQSTID",
    "SBREQW",
    "SBRESW",
    "SBSRID",
    "SEVTID",
    "SEVTTP",
    "SRVCRS",
    "TMSTMP",
    "TMSTMP0",
    "TMSTMP1",
    "TXCNID",
    "TXPLID",
    "TXPRID",
    "TXREQW",
    "TXRESW",
    "TXSVID",
]

PKTHDR = Word(
    "pkthdr",
    Bits("prover", 26, 31, least=1, doc="protocol version"),
    Bits("hdrlen", 22, 25, derived="words", doc="header length in words"),
    Bits("pkttyp", 16, 21, derived="code", doc="packet type"),
    doc="packet header",
)
PKTLEN = Word("pktlen", derived="frame", doc="bytes of the packet, header and body")
TMSTMP = Word("tmstmp", doc="Unix seconds, by the sender's clock")
TMSTMP0 = Word("tmstmp0", doc="Unix seconds of the change")
TMSTMP1 = Word("tmstmp1", doc="counter of the change inside that second")
CLIHBT = Word(
    "clihbt",
    Bits("hbtsec", 24, 31, doc="requested heartbeat interval in seconds, 0 for no duty"),
    doc="client heartbeat",
)
SRVCRS = Word(
    "srvcrs",
    Bits("conres", 29, 31, ConnectionResult, least=1),
    Bits("errcod", 25, 28, RefusalCode),
    Bits("agrhbt", 16, 23, doc="agreed heartbeat interval in seconds"),
    doc="server's answer to a connection request",
)
DISWRD = Word(
    "diswrd", Bits("disres", 28, 31, DisconnectReason, least=1), doc="disconnection reason"
)
TXREQW = Word(
    "txreqw",
    Bits("txtype", 28, 31, TransactionType, least=1),
    Bits("txactn", 25, 27, Action, least=1),
    Bits("rsclrq", 24, 24, doc="the client wants a result nclass"),
    doc="transaction request",
)
TXRESW = Word(
    "txresw",
    Bits("txresl", 29, 31, TransactionResult, least=1),
    Bits("rescls", 28, 28, doc="a result nclass follows"),
    Bits("blzcod", 0, 15, BlazeCode),
    doc="transaction result",
)
# Zero is excluded in all four, but a known client sends it in the first two (erratum E35).
TXPLID = Word("txplid", strict_least=1, doc="transaction id: platform")
TXSVID = Word("txsvid", strict_least=1, doc="transaction id: service")
TXCNID = Word("txcnid", least=1, doc="transaction id: connection")
TXPRID = Word("txprid", least=1, doc="transaction id: progressive number")
CLSENC = Word(
    "clsenc",
    Bits("enctyp", 28, 31, Encoding, least=1),
    Bits("nclsid", 0, 19, least=1, doc="class of the body"),
    doc="nclass and its encoding",
)
SBREQW = Word(
    "sbreqw",
    Bits("sbstyp", 28, 29, SubscriptionType, least=1),
    Bits("sbsmod", 24, 27, SubscriptionMode, least=1),
    Bits("flotyp", 20, 22, FlowType, least=1),
    Bits("dwltyp", 16, 18, DownloadType, least=1),
    doc="subscription request",
)
SBRESW = Word(
    "sbresw",
    Bits("sbresl", 29, 31, SubscriptionResult, least=1),
    Bits("blzcod", 0, 15, BlazeCode),
    doc="subscription result",
)
SEVTTP = Word(
    "sevttp",
    Bits("sevttp", 28, 31, EventType, least=1),
    Bits("sbeact", 25, 27, Action),
    Bits("blzcod", 0, 15, BlazeCode),
    doc="subscription event",
)
SBSRID = Word("sbsrid", least=1, doc="subscription id, given by the server")
SEVTID = Word("sevtid", least=1, doc="event id")
CONNID = Word("connid", least=1, doc="connection id, given by the server")
RQSTID = Word("rqstid", least=1, doc="request id, given by the client")
BODY = Rest("body", doc="an nclass")
