"""Which reader the packets of a capture need."""

from __future__ import annotations

from wireloom.captures.container import NO_END
from wireloom.captures.pcap import PcapReader, PcapState, is_pcap
from wireloom.captures.pcapng import PcapngReader, PcapngState, is_pcapng
from wireloom.captures.window import Window
from wireloom.errors import SourceError
from wireloom.kernel import Kernel

__all__ = ["packet_reader"]

_CAPTURES = {
    b"snoop\0\0\0": "a snoop",
    b"btsnoop\0": "a btsnoop",
    b"\xa1\xb2\xcd\x34": "a modified pcap",
    b"\x34\xcd\xb2\xa1": "a modified pcap",
    b"RTSS": "a Network Monitor",
    b"GMBU": "a Network Monitor",
    b"TRSNIFF data": "a Sniffer",
    b"XCP\0": "a NetXRay",
    b"\x05VNF": "a Visual Networks",
}
_PACKED = {
    b"\xfd7zXZ\0": ("xz", "xz -d"),
    b"BZh": ("bzip2", "bzip2 -d"),
    b"PK\3\4": ("zip", "unzip"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
}
_FOREIGN = {
    magic: f"{kind} capture, which cannot be read; editcap -F pcap converts it"
    for magic, kind in _CAPTURES.items()
} | {
    magic: f"a file packed with {how}, which cannot be read; unpack it with {command}"
    for magic, (how, command) in _PACKED.items()
}
"""First bytes of unsupported files that would be taken for raw captures, and what they are."""


def packet_reader(
    window: Window,
    kernel: Kernel,
    state: PcapState | PcapngState | None = None,
    until: int = NO_END,
) -> PcapReader | PcapngReader | None:
    """The reader of the packets in a window; None if it is not a packet capture.

    Args:
        window: whose first byte is that of the file, or of a record if `state` is given.
        kernel: compiled or interpreted.
        state: of another reader that came to this record.
        until: offset in the file; records that start at or after it are left out.

    Raises:
        SourceError: the file cannot be read, or is a capture of a kind that is not supported.
    """
    while state is None and len(window.data) < 12 and not window.is_end:
        window.advance(0)
    if isinstance(state, PcapState) or (state is None and is_pcap(window.data)):
        return PcapReader(window, kernel, state, until)
    if isinstance(state, PcapngState) or is_pcapng(window.data):
        return PcapngReader(window, kernel, state, until)
    head = bytes(window.data[:12])
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise SourceError(f"this is {what}", file=window.source.name)
    return None
