"""Strategies for what the TIB formats share: names, texts and the data of scalar fields."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["ODD", "SCALAR_DATA", "names"]

_LONG = 300
"""Past the point where a size needs more than one byte."""


def names() -> SearchStrategy[str]:
    """Field names: plain ones, any text without NUL, and bytes that are not UTF-8."""
    plain = st.sampled_from(["BID", "ASK", "", "TRDPRC_1", "_data_", "x" * 40])
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
    raw = st.binary(min_size=1, max_size=8).map(lambda b: b.replace(b"\0", b"\xff"))
    return plain | text | raw.map(lambda b: b.decode("utf-8", "surrogateescape"))


def _texts() -> SearchStrategy[bytes]:
    dates = [b"25 DEC 1998", b"2024-02-30", b"36526", b"12:34", b"12:34:56.789"]
    markup = [b"<b>&", b"\x1b[0m"]
    text = st.sampled_from(dates + markup) | st.text(max_size=12).map(str.encode)
    long = st.integers(100, _LONG).map(lambda size: b"y" * size)
    return (text | long).map(lambda raw: raw + b"\0")


def _words(*sizes: int) -> SearchStrategy[bytes]:
    size = st.sampled_from(sizes)
    first = st.sampled_from([b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"])
    ends = st.builds(lambda size, first: first + b"\xff" * (size - 1), size, first)
    return ends | size.flatmap(lambda n: st.binary(min_size=n, max_size=n))


def _reals() -> SearchStrategy[bytes]:
    single = st.floats(width=32).map(struct.Struct(">f").pack)
    double = st.floats().map(struct.Struct(">d").pack)
    prices = st.integers(-(10**9), 10**9).map(lambda n: struct.pack(">d", n / 100))
    return single | double | prices | _words(4, 8)


SCALAR_DATA: Mapping[str, SearchStrategy[bytes]] = {
    "STRING": _texts(),
    "OPAQUE": st.binary(max_size=40) | st.integers(100, _LONG).map(bytes),
    "BOOLEAN": st.sampled_from([b"\0", b"\1"]),
    "INT": _words(1, 2, 4, 8),
    "UINT": _words(1, 2, 4, 8),
    "REAL": _reals(),
    "IPDATA": _words(2, 4, 16),
}
"""Data of a scalar field as writers encode it, by the name of its type."""

ODD: SearchStrategy[bytes] = st.binary(max_size=17)
"""Data of a size that no writer uses, but that readers must keep."""
