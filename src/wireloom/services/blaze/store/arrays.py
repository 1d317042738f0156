"""Columns of values → PostgreSQL's arrays in their binary form.

The driver looks at each element to find out what it is, which takes most of the time of a commit in
which thousands of values of known types are sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from wireloom.kernel import either

__all__ = ["as_array"]

_HEAD = struct.Struct(">5i")
"""Dimensions, whether there are nulls, the type of the elements, how many, and the first index."""
_NULL = 0xFFFFFFFF
"""The length of a null."""


class _Encoded:
    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class _EncodedDumper(Dumper):
    # No type is told: the statement has a cast.
    format = Format.BINARY

    def dump(self, obj: _Encoded) -> bytes:
        return obj.raw


psycopg.adapters.register_dumper(_Encoded, _EncodedDumper)


def as_array(type_: str, values: Sequence[Any]) -> Any:
    """Values of a type of PostgreSQL, as a parameter; a list, if the driver is to write it."""
    encode = _ENCODERS.get(type_.lower())
    if encode is None:
        return list(values)
    return _Encoded(encode(values))


@lru_cache(maxsize=256)
def _numbers(code: str, count: int) -> struct.Struct:
    return struct.Struct(">" + f"i{code}" * count)


def _fixed(code: str, size: int, oid: int, values: Sequence[Any]) -> bytes:
    count = len(values)
    flat: list[Any] = [size] * (2 * count)
    flat[1::2] = values
    return _HEAD.pack(1, 0, oid, count, 1) + _numbers(code, count).pack(*flat)


def _texts(oid: int, values: Sequence[str | None]) -> bytes:
    return _bytes(oid, [None if value is None else value.encode() for value in values])


def _bytes(oid: int, values: Sequence[bytes | None]) -> bytes:
    sizes = [_NULL if value is None else len(value) for value in values]
    head = _HEAD.pack(1, int(None in values), oid, len(values), 1)
    content = [value or b"" for value in values]
    return head + either().join_packets((sizes, content), len(sizes))


_ENCODERS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "smallint": partial(_fixed, "h", 2, 21),
    "integer": partial(_fixed, "i", 4, 23),
    "bigint": partial(_fixed, "q", 8, 20),
    "double precision": partial(_fixed, "d", 8, 701),
    "text": partial(_texts, 25),
    "bytea": partial(_bytes, 17),
}
"""Types without nulls where they are numbers, and their numbers in PostgreSQL."""
