"""Blaze: a heartbeat, an event and a transaction request; headers, bit fields and bodies."""

from __future__ import annotations

import struct
from typing import Any

from construct import (
    BitsInteger,
    BitStruct,
    Bytes,
    Computed,
    If,
    Int32ub,
    Padding,
    Struct,
    Switch,
    this,
)
from kaitaistruct import BytesIO, KaitaiStream, KaitaiStruct

import wireloom
from benchmarks.cases import Case, Codec
from wireloom.formats.blaze import (
    Action,
    Encoding,
    EventType,
    Heartbeat,
    SubscriptionEvent,
    TransactionRequest,
    TransactionType,
)

BODY = bytes.fromhex("14000000 0100 2a000000 0200 04000000 61626364 0300 0100")

MESSAGES = (
    Heartbeat(tmstmp=1_700_000_000, connid=7),
    SubscriptionEvent(
        sbsrid=3,
        sevttp=EventType.DATALIVE,
        sbeact=Action.UPD,
        sevtid=99,
        tmstmp0=1_700_000_000,
        tmstmp1=4,
        body=BODY,
    ),
    TransactionRequest(
        txtype=TransactionType.NCLASS,
        txactn=Action.INS,
        rsclrq=1,
        txplid=1,
        txsvid=2,
        txcnid=3,
        txprid=4,
        enctyp=Encoding.INDEXNOTZERO,
        nclsid=302,
        connid=7,
        body=BODY,
    ),
)

FIELDS = {
    2: ("tmstmp", "connid"),
    10: ("sbsrid", "sevttp", "sbeact", "blzcod", "sevtid", "tmstmp0", "tmstmp1", "body"),
    6: (
        *("txtype", "txactn", "rsclrq", "txplid", "txsvid", "txcnid", "txprid"),
        *("enctyp", "nclsid", "connid", "body"),
    ),
}

# --- construct ------------------------------------------------------------------------------------

HEADER = BitStruct(
    "prover" / BitsInteger(6), "hdrlen" / BitsInteger(4), "pkttyp" / BitsInteger(6), Padding(16)
)
HEARTBEAT = Struct("tmstmp" / Int32ub, "connid" / If(this._.pkthdr.hdrlen == 3, Int32ub))
EVENT = Struct(
    "sbsrid" / Int32ub,
    "bits"
    / BitStruct(
        "sevttp" / BitsInteger(4), "sbeact" / BitsInteger(3), Padding(9), "blzcod" / BitsInteger(16)
    ),
    "sevtid" / Int32ub,
    "tmstmp0" / Int32ub,
    "tmstmp1" / Int32ub,
    "pktlen" / If(this._.pkthdr.hdrlen == 7, Int32ub),
    "body" / If(this._.pkthdr.hdrlen == 7, Bytes(this.pktlen - 28)),
)
REQUEST = Struct(
    "bits"
    / BitStruct(
        "txtype" / BitsInteger(4), "txactn" / BitsInteger(3), "rsclrq" / BitsInteger(1), Padding(24)
    ),
    "txplid" / Int32ub,
    "txsvid" / Int32ub,
    "txcnid" / Int32ub,
    "txprid" / Int32ub,
    "has_body" / Computed(this._.pkthdr.hdrlen == 9),
    "pktlen" / If(this.has_body, Int32ub),
    "clsenc"
    / If(
        this.has_body,
        BitStruct("enctyp" / BitsInteger(4), Padding(8), "nclsid" / BitsInteger(20)),
    ),
    "connid" / Int32ub,
    "body" / If(this.has_body, Bytes(this.pktlen - 36)),
)
PACKET = Struct(
    "pkthdr" / HEADER,
    "words" / Switch(this.pkthdr.pkttyp, {2: HEARTBEAT, 10: EVENT, 6: REQUEST}),
)


def view_construct(made: Any) -> list[Any]:
    words = made.words
    flat = {**words, **(words.get("bits") or {}), **(words.get("clsenc") or {})}
    return [flat[name] for name in FIELDS[made.pkthdr.pkttyp]]


# --- kaitai ---------------------------------------------------------------------------------------


class KaitaiPacket(KaitaiStruct):
    def __init__(self, _io: Any, _parent: Any = None, _root: Any = None) -> None:
        super().__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self) -> None:
        self.prover = self._io.read_bits_int_be(6)
        self.hdrlen = self._io.read_bits_int_be(4)
        self.pkttyp = self._io.read_bits_int_be(6)
        self.unused = self._io.read_bits_int_be(16)
        self._io.align_to_byte()
        _on = self.pkttyp
        if _on == 2:
            self.words: Any = KaitaiHeartbeat(self._io, self, self._root)
        elif _on == 10:
            self.words = KaitaiEvent(self._io, self, self._root)
        elif _on == 6:
            self.words = KaitaiRequest(self._io, self, self._root)


class KaitaiHeartbeat(KaitaiPacket):
    def _read(self) -> None:
        self.tmstmp = self._io.read_u4be()
        if self._parent.hdrlen == 3:
            self.connid = self._io.read_u4be()


class KaitaiEvent(KaitaiPacket):
    def _read(self) -> None:
        self.sbsrid = self._io.read_u4be()
        self.sevttp = self._io.read_bits_int_be(4)
        self.sbeact = self._io.read_bits_int_be(3)
        self.unused = self._io.read_bits_int_be(9)
        self.blzcod = self._io.read_bits_int_be(16)
        self._io.align_to_byte()
        self.sevtid = self._io.read_u4be()
        self.tmstmp0 = self._io.read_u4be()
        self.tmstmp1 = self._io.read_u4be()
        if self._parent.hdrlen == 7:
            self.pktlen = self._io.read_u4be()
            self.body = self._io.read_bytes(self.pktlen - 28)


class KaitaiRequest(KaitaiPacket):
    def _read(self) -> None:
        self.txtype = self._io.read_bits_int_be(4)
        self.txactn = self._io.read_bits_int_be(3)
        self.rsclrq = self._io.read_bits_int_be(1)
        self.unused = self._io.read_bits_int_be(24)
        self._io.align_to_byte()
        self.txplid = self._io.read_u4be()
        self.txsvid = self._io.read_u4be()
        self.txcnid = self._io.read_u4be()
        self.txprid = self._io.read_u4be()
        if self._parent.hdrlen == 9:
            self.pktlen = self._io.read_u4be()
            self.enctyp = self._io.read_bits_int_be(4)
            self.unused2 = self._io.read_bits_int_be(8)
            self.nclsid = self._io.read_bits_int_be(20)
            self._io.align_to_byte()
        self.connid = self._io.read_u4be()
        if self._parent.hdrlen == 9:
            self.body = self._io.read_bytes(self.pktlen - 36)


def decode_kaitai(data: bytes) -> KaitaiPacket:
    return KaitaiPacket(KaitaiStream(BytesIO(data)))


# --- struct ---------------------------------------------------------------------------------------

WORD = struct.Struct(">I")
WORDS2, WORDS6, WORDS8 = (struct.Struct(f">{n}I") for n in (2, 6, 8))


def decode_struct(data: bytes) -> tuple[int, list[Any]]:
    (header,) = WORD.unpack_from(data)
    kind, words = header >> 16 & 63, header >> 22 & 15
    if kind == 2 and words == 3:
        return kind, list(WORDS2.unpack_from(data, 4))
    if kind == 10 and words == 7:
        sbsrid, bits, sevtid, t0, t1, size = WORDS6.unpack_from(data, 4)
        fields = [sbsrid, bits >> 28, bits >> 25 & 7, bits & 0xFFFF, sevtid, t0, t1, data[28:size]]
        return kind, fields
    bits, plid, svid, cnid, prid, size, enc, connid = WORDS8.unpack_from(data, 4)
    return kind, [
        *(bits >> 28, bits >> 25 & 7, bits >> 24 & 1, plid, svid, cnid, prid),
        *(enc >> 28, enc & 0xFFFFF, connid, data[36:size]),
    ]


def encode_struct(made: tuple[int, list[Any]]) -> bytes:
    kind, fields = made
    if kind == 2:
        return WORD.pack(1 << 26 | 3 << 22 | 2 << 16) + WORDS2.pack(*fields)
    if kind == 10:
        sbsrid, event, action, code, sevtid, t0, t1, body = fields
        bits = event << 28 | action << 25 | code
        head = WORD.pack(1 << 26 | 7 << 22 | 10 << 16)
        return head + WORDS6.pack(sbsrid, bits, sevtid, t0, t1, 28 + len(body)) + body
    what, action, wants, plid, svid, cnid, prid, enc, nclsid, connid, body = fields
    bits = what << 28 | action << 25 | wants << 24
    rest = (plid, svid, cnid, prid, 36 + len(body), enc << 28 | nclsid, connid)
    return WORD.pack(1 << 26 | 9 << 22 | 6 << 16) + WORDS8.pack(bits, *rest) + body


CASE = Case(
    "blaze",
    "heartbeat, event, transaction request",
    tuple(message.encode() for message in MESSAGES),
    Codec(
        lambda data: wireloom.decode(data, "blaze"),
        lambda made: [getattr(made, name) for name in FIELDS[made.code]],
        wireloom.encode,
    ),
    {
        "construct": Codec(PACKET.parse, view_construct, PACKET.build),
        "kaitai": Codec(
            decode_kaitai, lambda made: [getattr(made.words, n) for n in FIELDS[made.pkttyp]]
        ),
        "struct": Codec(decode_struct, lambda made: made[1], encode_struct),
    },
)
