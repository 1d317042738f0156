"""The names of TibrvMsg's wire codes (SPEC §2)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from wireloom.formats._tib.scalars import Kind

__all__ = ["ARRAY_CODES", "KINDS", "LITERAL_SIZED", "FieldType", "Form", "canonical_size_form"]


class FieldType(IntEnum):
    """The type byte of a field."""

    MESSAGE = 1
    SUBJECT = 2
    DATETIME = 3
    OPAQUE = 7
    STRING = 8
    BOOLEAN = 9
    IPDATA = 10
    INT = 11
    UINT = 12
    REAL = 13
    ENCRYPTED = 32
    ARRAY_I8 = 34
    ARRAY_U8 = 35
    ARRAY_I16 = 36
    ARRAY_U16 = 37
    ARRAY_I32 = 38
    ARRAY_U32 = 39
    ARRAY_I64 = 40
    ARRAY_U64 = 41
    ARRAY_F32 = 44
    ARRAY_F64 = 45
    XML = 47
    ARRAY_STR = 48
    ARRAY_MSG = 49


KINDS: Final = {
    FieldType.OPAQUE: Kind.OPAQUE,
    FieldType.STRING: Kind.STRING,
    FieldType.BOOLEAN: Kind.BOOLEAN,
    FieldType.IPDATA: Kind.IPDATA,
    FieldType.INT: Kind.INT,
    FieldType.UINT: Kind.UINT,
    FieldType.REAL: Kind.REAL,
    FieldType.ENCRYPTED: Kind.OPAQUE,
}
"""The types that hold one scalar, and its kind."""

ARRAY_CODES: Final = {
    FieldType.ARRAY_I8: (Kind.INT, 1, "b"),
    FieldType.ARRAY_U8: (Kind.UINT, 1, "B"),
    FieldType.ARRAY_I16: (Kind.INT, 2, "h"),
    FieldType.ARRAY_U16: (Kind.UINT, 2, "H"),
    FieldType.ARRAY_I32: (Kind.INT, 4, "i"),
    FieldType.ARRAY_U32: (Kind.UINT, 4, "I"),
    FieldType.ARRAY_I64: (Kind.INT, 8, "q"),
    FieldType.ARRAY_U64: (Kind.UINT, 8, "Q"),
    FieldType.ARRAY_F32: (Kind.REAL, 4, "f"),
    FieldType.ARRAY_F64: (Kind.REAL, 8, "d"),
}
"""The numeric arrays: kind, element size and `struct` code."""

LITERAL_SIZED: Final = frozenset(
    (
        FieldType.DATETIME,
        FieldType.BOOLEAN,
        FieldType.IPDATA,
        FieldType.INT,
        FieldType.UINT,
        FieldType.REAL,
    )
)
"""Types whose size is always one byte, even when that byte is a marker elsewhere."""


class Form:
    """Bits of `Field.form`: where a field differs from what a writer would emit. 0: nowhere."""

    SIZE = 0x003
    """The form of the size: 1 one byte, 2 marker 79, 3 marker 7a; 0 the one that writers use."""
    NO_NUL = 0x004
    """The name has no NUL."""
    MAGIC_SHIFT = 8
    """From here on, for a nested message: its magic XOR the right one."""


_SUBJECT, _ARRAY_MSG = FieldType.SUBJECT.value, FieldType.ARRAY_MSG.value


def canonical_size_form(code: int, size: int) -> int:
    """The form of the size that writers use for data of that length: 1, 2 or 3 (SPEC §2.1)."""
    if code == _SUBJECT:
        return 2
    if code == _ARRAY_MSG or size >= 30_000:
        return 3
    return 1 if size < 120 else 2
