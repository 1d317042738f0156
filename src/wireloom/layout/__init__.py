"""The declaration language: a packet's words, bits, enums and conditions are written down once.

From that one declaration come the codec (`PacketCodec`), the framing table (its ``forms``), the
field tree (its ``outline``), the byte tables of the docs (`describe`) and, later in the flow, the
columnar program and the table schemas.

A packet class lists its Python attributes with their types, and `@packet` says which parts of the
wire they come from; that the two agree is checked when the class is made::

    CONNID = Word("connid", doc="server-assigned connection id")

    @packet(code=2, name="HRTBET", parts=(PKTHDR, TMSTMP, optional(CONNID)), sender="both")
    class Heartbeat(BlazePacket):
        tmstmp: int
        connid: int | None = None
"""

from __future__ import annotations

from wireloom.layout.packet import Packet, PacketCodec, describe, packet
from wireloom.layout.parts import (
    Attribute,
    Bits,
    Blob,
    Flat,
    Items,
    Optional,
    Part,
    Rest,
    Varint,
    When,
    Word,
    attributes,
    member,
    optional,
)

__all__ = [
    "Attribute",
    "Bits",
    "Blob",
    "Flat",
    "Items",
    "Optional",
    "Packet",
    "PacketCodec",
    "Part",
    "Rest",
    "Varint",
    "When",
    "Word",
    "attributes",
    "describe",
    "member",
    "optional",
    "packet",
]
