"""Captures of kinds that are not read are named, and not taken for raw ones."""

from __future__ import annotations

import bz2
import io
import lzma

import pytest

from wireloom.captures import Capture
from wireloom.errors import SourceError
from wireloom.generate import traffic


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"snoop\0\0\0" + bytes(8), "snoop"),
        (bytes.fromhex("a1b2cd34") + bytes(40), "modified pcap"),
        (bytes.fromhex("34cdb2a1") + bytes(40), "modified pcap"),
        (lzma.compress(traffic.pcap_header()), "xz"),
        (bz2.compress(traffic.pcap_header()), "bzip2"),
        (b"PK\3\4" + bytes(40), "zip"),
        (bytes.fromhex("04224d18") + bytes(40), "lz4"),
        (b"GMBU" + bytes(40), "Network Monitor"),
        (b"TRSNIFF data    \x1a" + bytes(40), "Sniffer"),
    ],
)
def test_foreign_captures_are_named(data, name):
    with pytest.raises(SourceError, match=name):
        list(Capture(io.BytesIO(data)))
