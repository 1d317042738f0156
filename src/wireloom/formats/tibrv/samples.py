"""Canonical messages of every type, for tests, docs and the demo."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address

from wireloom.formats.tibrv.build import build
from wireloom.formats.tibrv.message import Field
from wireloom.formats.tibrv.types import ARRAY_CODES, FieldType

__all__ = ["samples"]

_TIBMSG = bytes.fromhex("ce13aa1f0100000017095452445052435f310047083ff2000000000000060113")
"""The TibMsg in the document's example: TRDPRC_1 is 1.125."""


def _fields() -> dict[str, list[Field]]:
    when = dt.datetime(2011, 10, 18, 19, 33, 0, 154979, tzinfo=dt.UTC)
    return {
        "empty": [],
        "message": [Field.of("data", {"field": "value"})],
        "subject": [Field.of("TO", "TEST.REC.XYZ.NaE", type=FieldType.SUBJECT)],
        "datetime": [Field.of("WHEN", when)],
        "opaque": [Field.of("DATA", b"\x00\x01\xfe\xff"), Field.of("LONG", bytes(200))],
        "string": [Field.of("SYMBOL", "ABC.N"), Field.of("TEXT", "")],
        "boolean": [Field.of("OPEN", True), Field.of("HALTED", False)],
        "ipdata": [
            Field.of("HOST", IPv4Address("127.0.0.1")),
            Field.of("PORT", 7500, type=FieldType.IPDATA),
        ],
        "int": [Field.of(f"I{8 * size}", -size, size=size) for size in (1, 2, 4, 8)],
        "uint": [
            Field.of(f"U{8 * size}", 2 ** (8 * size) - 1, type=FieldType.UINT, size=size)
            for size in (1, 2, 4, 8)
        ],
        "real": [Field.of("F64", 1.125), Field.of("F32", -0.5, size=4)],
        "encrypted": [Field.of("SECRET", b"\xb8\x15", type=FieldType.ENCRYPTED)],
        "array": [Field.of(code.name, [0, 1, 100], type=code) for code in ARRAY_CODES],
        # Stored, not compressed: the bytes must not depend on the installed zlib.
        "xml": [Field.of("DOC", _stored(b"<a><b>1</b></a>"), type=FieldType.XML)],
        "array_str": [Field.of("NAMES", ["one", "", "three"])],
        "array_msg": [Field.of("ROWS", [{"i": 0}, {"i": 10, "s": "elem"}, {}])],
        "fid": [Field.of("YRHIGH", 5, fid=4001)],
        "carrier": [Field.of("_data_", _TIBMSG)],
    }


def _stored(text: bytes) -> bytes:
    """An xml field's data whose zlib stream holds the text as it is."""
    size = len(text).to_bytes(2, "little")
    inverse = bytes(byte ^ 0xFF for byte in size)
    check = zlib.adler32(text).to_bytes(4, "big")
    return b"".join((bytes((len(text),)), b"\x78\x01\x01", size, inverse, text, check))


@cache
def samples() -> Mapping[str, bytes]:
    """Name → bytes."""
    return {name: build(fields).encode() for name, fields in _fields().items()}
