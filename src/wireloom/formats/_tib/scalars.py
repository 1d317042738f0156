"""The bytes of one scalar ↔ a Python value ↔ JSON. All numbers are big-endian.

Data of a size that its type does not allow (an int of three bytes, an address of sixteen) is not an
error: its value is the bytes themselves, and JSON shows them as ``0x…``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Any, Final, TypeGuard

from wireloom.errors import EncodeError

__all__ = [
    "INT_SIZES",
    "SCALARS",
    "Kind",
    "Scalar",
    "from_json",
    "get_text",
    "is_utf8",
    "padded",
    "put_text",
    "read",
    "text_bytes",
    "text_of",
    "to_json",
    "why_not_usual",
    "write",
]

Scalar = bool | int | float | str | bytes | IPv4Address
"""The values of scalar data; bytes also where the size does not fit the type."""

INT_SIZES: Final = (1, 2, 4, 8)

_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")


class Kind(IntEnum):
    """What scalar data is. The numbers are TibMsg's type codes."""

    STRING = 2
    OPAQUE = 3
    BOOLEAN = 4
    INT = 5
    UINT = 6
    REAL = 7
    IPDATA = 10


SCALARS: Final[frozenset[int]] = frozenset(Kind)
"""The codes of `Kind`, also for the enums that formats have of their own."""


def text_of(data: bytes) -> str:
    """The text up to the first NUL; bytes that are not UTF-8 are kept as lone surrogates."""
    end = data.find(0)
    return (data if end < 0 else data[:end]).decode("utf-8", "surrogateescape")


def text_bytes(text: str) -> bytes:
    """The bytes of a text that `text_of` gave.

    Raises:
        EncodeError: it has a lone surrogate that does not stand for a byte.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise EncodeError(f"no bytes for this text: {error.reason}") from error


def is_utf8(text: str) -> bool:
    """Whether the text came from bytes that are UTF-8, so that JSON can hold it."""
    # Lone surrogates are the only thing that makes the strict codec fail.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def padded(text: str, size: int) -> bytes:
    """The text NUL-padded to `size` bytes; it may fill them.

    Raises:
        EncodeError: it does not fit.
    """
    data = text_bytes(text)
    if len(data) > size:
        raise EncodeError(f"text of {len(data)} bytes does not fit in {size}")
    return data.ljust(size, b"\0")


def _read_int(data: bytes) -> Scalar:
    return int.from_bytes(data, "big", signed=True) if len(data) in INT_SIZES else data


def _read_uint(data: bytes) -> Scalar:
    return int.from_bytes(data, "big") if len(data) in INT_SIZES else data


def _read_boolean(data: bytes) -> Scalar:
    return any(data) if len(data) in INT_SIZES else data


def _read_real(data: bytes) -> Scalar:
    size = len(data)
    if size == 8:
        value: float = _F64.unpack(data)[0]
        return value
    if size == 4:
        value = _F32.unpack(data)[0]
        return value
    return data


def _read_ipdata(data: bytes) -> Scalar:
    size = len(data)
    if size == 4:
        return IPv4Address(data)
    return int.from_bytes(data, "big") if size == 2 else data


def _read_opaque(data: bytes) -> Scalar:
    return data


_READERS: Mapping[int, Callable[[bytes], Scalar]] = {
    Kind.STRING: text_of,
    Kind.OPAQUE: _read_opaque,
    Kind.BOOLEAN: _read_boolean,
    Kind.INT: _read_int,
    Kind.UINT: _read_uint,
    Kind.REAL: _read_real,
    Kind.IPDATA: _read_ipdata,
}


# By position: looking up an enum in a dict costs more than reading a number.
_BY_CODE = tuple(_READERS.get(code, _read_opaque) for code in range(max(Kind) + 1))


def read(kind: int, data: bytes) -> Scalar:
    """The value of scalar data; data of a size that the kind does not allow is its own value."""
    return _BY_CODE[kind](data)


def why_not_usual(kind: int, data: bytes) -> str | None:
    """How scalar data differs from what a writer would emit; None if it does not."""
    size = len(data)
    if kind == Kind.STRING and not data.endswith(b"\0"):
        return "a string without NUL"
    if kind == Kind.BOOLEAN and data not in (b"\0", b"\1"):
        return "a boolean that is not one byte 0 or 1"
    if kind in (Kind.INT, Kind.UINT) and size not in INT_SIZES:
        return f"an integer of {size} bytes"
    if kind == Kind.REAL and size not in (4, 8):
        return f"a real of {size} bytes"
    if kind == Kind.IPDATA and size not in (2, 4, 16):
        return f"ip data of {size} bytes"
    return None


def write(kind: int, value: object, size: int | None = None) -> bytes:
    """The data of a scalar.

    A string gets its NUL; bytes are taken as the data itself, whatever the kind.

    Args:
        kind: what it is.
        value: see `read`.
        size: bytes of a number; by default 4 for an int that fits, else 8, and 8 for a real. For a
            string or opaque it must be exact.

    Raises:
        EncodeError: the value is not of this kind, or does not fit.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    elif kind == Kind.STRING and isinstance(value, str):
        data = text_bytes(value)
        if not data.endswith(b"\0"):
            data += b"\0"
    elif kind == Kind.BOOLEAN and isinstance(value, bool):
        data = int(value).to_bytes(size or 1, "big")
    elif kind in (Kind.INT, Kind.UINT) and _is_int(value):
        return _write_int(value, size, signed=kind == Kind.INT)
    elif kind == Kind.REAL and (_is_int(value) or isinstance(value, float)):
        data = _write_real(value, size or 8)
    elif kind == Kind.IPDATA and isinstance(value, IPv4Address):
        data = value.packed
    elif kind == Kind.IPDATA and _is_int(value):
        data = _write_int(value, 2, signed=False)
    else:
        raise EncodeError(f"{value!r} is no {Kind(kind).name.lower()}")
    if size is not None and len(data) != size:
        raise EncodeError(f"{value!r} takes {len(data)} bytes, not {size}")
    return data


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _write_int(value: int, size: int | None, *, signed: bool) -> bytes:
    if size is None:
        size = 4 if (-(1 << 31) if signed else 0) <= value < 1 << (31 if signed else 32) else 8
    try:
        return int(value).to_bytes(size, "big", signed=signed)
    except OverflowError as error:
        kind = "int" if signed else "uint"
        raise EncodeError(f"{value} does not fit in a {kind} of {size} bytes") from error


def _write_real(value: float, size: int) -> bytes:
    packer = {4: _F32, 8: _F64}.get(size)
    if packer is None:
        raise EncodeError(f"a real has 4 or 8 bytes, not {size}")
    try:
        return packer.pack(value)
    except (OverflowError, struct.error) as error:
        raise EncodeError(f"{value!r} does not fit in a real of {size} bytes") from error


def to_json(value: Scalar) -> Any:
    """The value in JSON: bytes as ``0x…``, an address dotted, NaN and infinities by name."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, IPv4Address) else value


_REALS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(kind: int, value: Any) -> Scalar:
    """The value that `to_json` wrote, given what kind of scalar it is.

    Raises:
        EncodeError: it is not a value of that kind.
    """
    if isinstance(value, str) and kind != Kind.STRING:
        if kind == Kind.REAL and value in _REALS:
            return _REALS[value]
        try:
            return bytes.fromhex(value[2:]) if value.startswith("0x") else IPv4Address(value)
        except ValueError as error:
            raise EncodeError(f"{value!r} is no {Kind(kind).name.lower()}") from error
    if isinstance(value, (str, bool, int, float)):
        return value
    raise EncodeError(f"{value!r} is no {Kind(kind).name.lower()}")


def put_text(out: dict[str, Any], key: str, text: str | None) -> None:
    """Put a text into a JSON object, under ``KEY_hex`` if its bytes are not UTF-8."""
    if text is None or is_utf8(text):
        out[key] = text
    else:
        out[f"{key}_hex"] = text_bytes(text).hex()


def get_text(d: Mapping[str, Any], key: str) -> str | None:
    """The text that `put_text` put there; None if there is none.

    Raises:
        EncodeError: it is not a text, or its hex is wrong.
    """
    coded = d.get(f"{key}_hex")
    if coded is None:
        text = d.get(key)
        if text is not None and not isinstance(text, str):
            raise EncodeError(f"{key} must be a text, not {text!r}")
        return text
    try:
        return bytes.fromhex(coded).decode("utf-8", "surrogateescape")
    except (ValueError, TypeError) as error:
        raise EncodeError(f"{key}_hex is not hex: {coded!r}") from error
