"""What a generated capture holds, counted while it is written, so that readers can compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Manifest"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was written. Without faults, decoding finds exactly this.

    With faults, every frame that is not counted in `hit` can still be found, and `frames` counts
    only messages that were sent.
    """

    seed: int
    container: str
    compression: str
    size: int
    """Bytes of the capture, before compression."""
    packets: int = 0
    """Packets in the capture, those without payload included; 0 if it is raw."""
    streams: int = 0
    """Directions of TCP connections and pairs of UDP ports with payload; 1 if it is raw."""
    first_ns: int = 0
    """Time of the first packet."""
    last_ns: int = 0
    """Time of the last packet."""
    frames: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Format → name of the type → frames sent."""
    nested: Mapping[str, int] = field(default_factory=dict)
    """Format → messages inside those frames."""
    text_bytes: int = 0
    """Bytes of text between NAIS packets."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What was done to packets (or bytes, if raw): ``loss``, ``reorder``, … → how often."""
    hit: Mapping[str, int] = field(default_factory=dict)
    """Format → frames of which a lost, damaged or cut packet held a part."""
    ports: Mapping[int, str] = field(default_factory=dict)
    """Port of the server → format of the streams."""

    @property
    def messages(self) -> int:
        """All frames sent."""
        return sum(sum(types.values()) for types in self.frames.values())

    def count(self, format: str) -> int:
        """Frames of a format that were sent."""
        return sum(self.frames.get(format, {}).values())

    def to_dict(self) -> dict[str, Any]:
        """The manifest as a JSON object."""
        found = asdict(self)
        found["ports"] = {str(port): name for port, name in self.ports.items()}
        return {**found, "messages": self.messages}
