"""What services count, declared: for them and for the documentation; light to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CONNECTION_METRICS", "MetricInfo"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric's declaration, of which the documentation is made."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


CONNECTION_METRICS = (
    MetricInfo("connections", "gauge", "Open now."),
    MetricInfo("connections_opened", "counter", "Connections that were let in."),
    MetricInfo("connections_refused", "counter", "Connections that were not.", ("reason",)),
    MetricInfo("received_bytes", "counter", "Bytes that peers sent."),
    MetricInfo("sent_bytes", "counter", "Bytes that were sent to peers."),
    MetricInfo("slowed_reads", "counter", "How often a peer was over its quota."),
)
"""What the connections of every service count."""
