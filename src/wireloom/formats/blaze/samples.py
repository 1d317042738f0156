"""One packet of each of the 23 forms; their bodies are objects of a class POINT (x, y, label)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

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
from wireloom.formats.blaze.packets import (
    BlazePacket,
    ConnectionRequest,
    ConnectionResponse,
    Disconnected,
    Heartbeat,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStop,
    SubscriptionStopResponse,
    TestRequest,
    TransactionRequest,
    TransactionResponse,
)

__all__ = ["SAMPLE_MODEL", "samples"]

SAMPLE_MODEL = """\
@model_name "samples"
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label "short label"
}
"""
"""The model of the samples' bodies, in the model language."""

_NOW = 1507112064
"""4 October 2017, the date of the document."""
_POINT = bytes.fromhex("160000000100050000000200feffffff030004000000646f636b")
"""x = 5, y = -2, label = dock."""
_REASON = bytes.fromhex("0a0000000300040000006e6f7065")
"""label = nope."""


def _packets() -> tuple[BlazePacket, ...]:
    tx: dict[str, Any] = {"txplid": 1, "txsvid": 2, "txcnid": 7, "txprid": 3}
    subscription: dict[str, Any] = {
        "sbstyp": SubscriptionType.SNAPSHOT,
        "sbsmod": SubscriptionMode.ALL,
        "flotyp": FlowType.ALL,
        "enctyp": Encoding.INDEXNOTZERO,
        "nclsid": 301,
        "connid": 7,
        "rqstid": 11,
    }
    return (
        TestRequest(tmstmp=_NOW),
        TestRequest(tmstmp=_NOW, connid=7),
        Heartbeat(tmstmp=_NOW),
        Heartbeat(tmstmp=_NOW, connid=7),
        ConnectionRequest(hbtsec=30),
        ConnectionResponse(
            conres=ConnectionResult.REFUSED, errcod=RefusalCode.TOO_MANY_CONNECTIONS
        ),
        ConnectionResponse(conres=ConnectionResult.ACCEPTED, agrhbt=30, connid=7),
        Disconnected(disres=DisconnectReason.SERVER_IS_GOING_DOWN),
        Disconnected(disres=DisconnectReason.APPLICATION_REQUEST, connid=7),
        TransactionRequest(txtype=TransactionType.SYSTEM, txactn=Action.RST, connid=7, **tx),
        TransactionRequest(
            txtype=TransactionType.NCLASS,
            txactn=Action.INS,
            rsclrq=1,
            enctyp=Encoding.INDEXNOTZERO,
            nclsid=301,
            connid=7,
            body=_POINT,
            **tx,
        ),
        TransactionResponse(
            txresl=TransactionResult.TXKO, blzcod=BlazeCode.TRANSACTION_TIMEOUT, **tx
        ),
        TransactionResponse(
            txresl=TransactionResult.TXKO,
            rescls=1,
            blzcod=BlazeCode.REASON_IN_RESULT_NCLASS,
            enctyp=Encoding.INDEXNOTZERO,
            nclsid=301,
            body=_REASON,
            **tx,
        ),
        SubscriptionRequest(dwltyp=DownloadType.ALL, **subscription),
        SubscriptionRequest(dwltyp=DownloadType.PARTIAL, tmstmp0=_NOW, tmstmp1=5, **subscription),
        SubscriptionResponse(
            sbresl=SubscriptionResult.SBSKO, blzcod=BlazeCode.SBS_ALREADY_STARTED, rqstid=11
        ),
        SubscriptionResponse(sbresl=SubscriptionResult.SBSOK, rqstid=11, sbsrid=3),
        SubscriptionEvent(sbsrid=3, sevttp=EventType.DWNLEND, sevtid=42),
        SubscriptionEvent(
            sbsrid=3,
            sevttp=EventType.DATALIVE,
            sbeact=Action.UPD,
            sevtid=43,
            tmstmp0=_NOW,
            tmstmp1=1,
            body=_POINT,
        ),
        SubscriptionAck(sbsrid=3, sevtid=43),
        SubscriptionStop(sbsrid=3),
        SubscriptionStopResponse(sbresl=SubscriptionResult.SBSOK),
        SubscriptionStopResponse(
            sbresl=SubscriptionResult.SBSKO, blzcod=BlazeCode.SBS_NOT_FOUND, sbsrid=3
        ),
    )


@cache
def samples() -> Mapping[str, bytes]:
    """A canonical packet of each form, by the packet's name and its header words: ``TXRQST/9``."""
    frames = [(packet.name, packet.encode()) for packet in _packets()]
    # HDRLEN is in bits 22..25 of the first word.
    return MappingProxyType(
        {f"{name}/{int.from_bytes(data[:2], 'big') >> 6 & 0xF}": data for name, data in frames}
    )
