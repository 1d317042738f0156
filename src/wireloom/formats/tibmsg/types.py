"""The names of TibMsg's wire codes, and the hint that may follow a field's data (SPEC §2)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from wireloom.formats._tib.scalars import INT_SIZES, Kind, Scalar, read, write

__all__ = ["FieldType", "Form", "Hint"]


class FieldType(IntEnum):
    """The type in the low four bits of a field's key."""

    MESSAGE = 1
    STRING = 2
    OPAQUE = 3
    BOOLEAN = 4
    INT = 5
    UINT = 6
    REAL = 7
    ARRAY = 8
    PARTIAL = 9
    IPDATA = 10


class Form:
    """Bits of `Field.form`: where a field differs from what a writer would emit. 0: nowhere."""

    KEY_BITS = 0x003
    """The key's ignored bits 0x30, shifted down by four."""
    OTHER_SIZE = 0x004
    """Four size bytes where one would do; one instead of four for a message."""
    OTHER_FLAG = 0x008
    """The hint bit 0x40 missing on array or partial, or set on a message."""
    NO_NUL = 0x010
    """The name has no NUL."""
    WIDE_HINT = 0x020
    """Four bytes of hint size where one would do."""
    HINT_BITS = 0x1C0
    """The hint key's ignored bits 0x70, shifted up by two."""
    ALL = 0x1FF


class Hint(NamedTuple):
    """What follows the data: a scalar. For array and partial, only its type and size."""

    type: FieldType
    size: int
    """Bytes of `data`; for array the element size, for partial the offset."""
    data: bytes = b""

    @classmethod
    def of(cls, number: int, size: int | None = None) -> Hint:
        """An unsigned number as hint, in as few bytes as it needs unless `size` says otherwise.

        Raises:
            EncodeError: it is negative or does not fit.
        """
        if size is None:
            size = next((s for s in (1, 2, 4) if number < 1 << 8 * s), 8)
        return cls(FieldType.UINT, size, write(Kind.UINT, number, size))

    @property
    def value(self) -> Scalar:
        """The hint's value, read by its type."""
        return read(self.type, self.data)

    @property
    def number(self) -> int | None:
        """The hint as a number; None if it is not an int or uint of 1, 2, 4 or 8 bytes."""
        data = self.data
        if len(data) not in INT_SIZES or self.type not in (FieldType.UINT, FieldType.INT):
            return None
        return int.from_bytes(data, "big", signed=self.type == FieldType.INT)
