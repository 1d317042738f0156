"""Which reader the packets of a capture need."""

from __future__ import annotations

from wireloom.captures.container import NO_END, Kernel
from wireloom.captures.pcap import PcapReader, PcapState, is_pcap
from wireloom.captures.pcapng import PcapngReader, PcapngState, is_pcapng
from wireloom.captures.window import Window

__all__ = ["packet_reader"]


def packet_reader(
    window: Window,
    kernel: Kernel,
    state: PcapState | PcapngState | None = None,
    until: int = NO_END,
) -> PcapReader | PcapngReader | None:
    """What reads the packets in a window; None if it shows no packet capture.

    Args:
        window: whose first byte is that of the file, or of a record if `state` is given.
        kernel: compiled or interpreted.
        state: of another reader that came to this record.
        until: offset in the file; records that start there or behind it are left out.

    Raises:
        SourceError: the file cannot be read.
    """
    while state is None and len(window.data) < 12 and not window.is_end:
        window.advance(0)
    if isinstance(state, PcapState) or (state is None and is_pcap(window.data)):
        return PcapReader(window, kernel, state, until)
    if isinstance(state, PcapngState) or is_pcapng(window.data):
        return PcapngReader(window, kernel, state, until)
    return None
