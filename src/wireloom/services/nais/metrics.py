"""What a junction measures, declared once: for ``/metrics`` and the documentation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRICS", "PREFIX", "MetricInfo"]

PREFIX = "wireloom_nais_line_"


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric of every line."""

    name: str
    """Without `PREFIX`, and without the ``_total`` that Prometheus adds to counters."""
    kind: str
    help: str
    label: str = ""
    """Besides ``line``."""


METRICS = (
    MetricInfo("frames", "counter", "Frames that came in, and copies queued to go out.", "way"),
    MetricInfo("texts", "counter", "Texts that came in, and copies queued to go out.", "way"),
    MetricInfo("bytes", "counter", "Bytes that came in and went out.", "way"),
    MetricInfo("dropped", "counter", "Records that ended here, by why.", "reason"),
    MetricInfo("stored", "counter", "Records put aside while the line had no session."),
    MetricInfo("connects", "counter", "Sessions that began."),
    MetricInfo("refused", "counter", "Connections for which there was no id."),
    MetricInfo("sessions", "gauge", "Sessions now."),
    MetricInfo("queued_bytes", "gauge", "Bytes that wait for slow sessions."),
    MetricInfo("up", "gauge", "1 while the line listens or is connected."),
)
