"""Canonical messages of every type, for tests, docs and the demo."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from ipaddress import IPv4Address

from wireloom.formats._tib.values import BLANK, Date, EnumNumber, EnumText, Resolution, Time
from wireloom.formats.tibmsg.build import build
from wireloom.formats.tibmsg.fields import Field
from wireloom.formats.tibmsg.types import FieldType

__all__ = ["samples"]


def _fields() -> dict[str, list[Field]]:
    return {
        "empty": [],
        "string": [Field.of("SYMBOL", "ABC.N"), Field.of("TEXT", "")],
        "opaque": [Field.of("DATA", b"\x00\x01\xfe\xff")],
        "boolean": [Field.of("OPEN", True), Field.of("HALTED", False)],
        "int": [Field.of(f"I{8 * size}", -size, size=size) for size in (1, 2, 4, 8)],
        "uint": [
            Field.of(f"U{8 * size}", 2 ** (8 * size) - 1, type=FieldType.UINT, size=size)
            for size in (1, 2, 4, 8)
        ],
        "real": [Field.of("F64", 1.125), Field.of("F32", -0.5, size=4)],
        "decimal": [
            Field.of("BID", Decimal("0.29")),
            Field.of("ASK", Decimal("0.375"), hint=3),
            Field.of("VOLUME", Decimal(1024)),
            Field.of("LAST", BLANK),
        ],
        "date": [Field.of("TRADE_DATE", Date(1994, 4, 25)), Field.of("EXPIRY", Date())],
        "time": [
            Field.of("TIMACT", Time(19, 33, resolution=Resolution.MINUTE)),
            Field.of("SALTIM", Time(1, 2, 3, 999, Resolution.MILLISECOND)),
            Field.of("CLOSED", Time(is_null=True)),
        ],
        "enum": [Field.of("RDN_EXCHID", EnumText("NYS")), Field.of("PRCTCK_1", EnumNumber(2))],
        "array": [
            Field.array("SIZES", [1, 2, 3], FieldType.INT, 2),
            Field.of("TAGS", ["ab", "cde"]),
        ],
        "partial": [Field.partial("ROW64_4", b"AAUU", 60)],
        "ipdata": [
            Field.of("HOST", IPv4Address("127.0.0.1")),
            Field.of("PORT", b"\x1d\x4c", type=FieldType.IPDATA),
        ],
        "message": [Field.of("INFO", {"NAME": "inner", "COUNT": 2}), Field.of("AFTER", 1)],
        "unnamed": [Field.of(None, 42), Field.of("", 1)],
        "quote": [
            Field.of("SYMBOL", "ABC.N"),
            Field.of("BID", Decimal("175.9253")),
            Field.of("ASK", Decimal("175.9301")),
            Field.of("BIDSIZE", 10),
            Field.of("ASKSIZE", 12),
            Field.of("QUOTIM", Time(13, 15, 2)),
            Field.of("ACTIV_DATE", Date(2011, 10, 18)),
        ],
    }


@cache
def samples() -> Mapping[str, bytes]:
    """Name → bytes."""
    return {name: build(fields).encode() for name, fields in _fields().items()}
