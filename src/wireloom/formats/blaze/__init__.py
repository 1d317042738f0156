"""Blaze: transactions and subscriptions on objects of a model's classes, over TCP.

>>> import wireloom
>>> from wireloom.formats.blaze import from_blz
>>> data = bytes.fromhex(
...     "06460000430000000000000100000002000000070a0b0c0d0000003e2000012d00000007"
...     "160000000100050000000200feffffff030004000000646f636b"
... )
>>> request = wireloom.decode(data, "blaze")
>>> request.type_name, request.txactn.name, request.nclsid
('TXRQST', 'INS', 301)
>>> model = from_blz('''
... nclass POINT
... {
...     @id 301
...     int_32 x
...     int_32 y
...     ascii[6] label
... }
... ''')
>>> wireloom.decode(data, "blaze", model=model).nclass
<POINT {'x': 5, 'y': -2, 'label': 'dock'}>
>>> request.encode() == data
True
"""

from __future__ import annotations

from wireloom.formats.blaze.blz import from_blz, load_blz, to_blz
from wireloom.formats.blaze.body import (
    apply_delta,
    decode_nclass,
    encode_nclass,
    make_delta,
    trimmed,
)
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
from wireloom.formats.blaze.declarations import (
    Define,
    EnumDecl,
    EnumMember,
    FieldDecl,
    Key,
    NClass,
)
from wireloom.formats.blaze.dialects import DIALECTS, Dialect, get_dialect
from wireloom.formats.blaze.format import FORMAT, Blaze, Subscription, decode_body
from wireloom.formats.blaze.frames import FORMS, RULES, Rules, header_fields
from wireloom.formats.blaze.model import Model, ModelBuilder
from wireloom.formats.blaze.nclass import NClassValue, Sparse, Value, new_value
from wireloom.formats.blaze.packets import (
    PACKETS,
    VERSION,
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
from wireloom.formats.blaze.samples import SAMPLE_MODEL

__all__ = [
    "DIALECTS",
    "FORMAT",
    "FORMS",
    "PACKETS",
    "RULES",
    "SAMPLE_MODEL",
    "VERSION",
    "Action",
    "Blaze",
    "BlazeCode",
    "BlazePacket",
    "ConnectionRequest",
    "ConnectionResponse",
    "ConnectionResult",
    "Define",
    "Dialect",
    "DisconnectReason",
    "Disconnected",
    "DownloadType",
    "Encoding",
    "EnumDecl",
    "EnumMember",
    "EventType",
    "FieldDecl",
    "FlowType",
    "Heartbeat",
    "Key",
    "Model",
    "ModelBuilder",
    "NClass",
    "NClassValue",
    "RefusalCode",
    "Rules",
    "Sparse",
    "Subscription",
    "SubscriptionAck",
    "SubscriptionEvent",
    "SubscriptionMode",
    "SubscriptionRequest",
    "SubscriptionResponse",
    "SubscriptionResult",
    "SubscriptionStop",
    "SubscriptionStopResponse",
    "SubscriptionType",
    "TestRequest",
    "TransactionRequest",
    "TransactionResponse",
    "TransactionResult",
    "TransactionType",
    "Value",
    "apply_delta",
    "decode_body",
    "decode_nclass",
    "encode_nclass",
    "from_blz",
    "get_dialect",
    "header_fields",
    "load_blz",
    "make_delta",
    "new_value",
    "to_blz",
    "trimmed",
]
