"""What a junction measures, declared once: for ``/metrics`` and the documentation."""

from __future__ import annotations

from wireloom.services._shell.declared import MetricInfo

__all__ = ["METRICS", "PREFIX"]

PREFIX = "wireloom_nais_line_"

METRICS = (
    MetricInfo(
        "frames", "counter", "Frames that came in, and copies queued to go out.", ("line", "way")
    ),
    MetricInfo(
        "texts", "counter", "Texts that came in, and copies queued to go out.", ("line", "way")
    ),
    MetricInfo("bytes", "counter", "Bytes that came in and went out.", ("line", "way")),
    MetricInfo("dropped", "counter", "Records that ended here, by why.", ("line", "reason")),
    MetricInfo("stored", "counter", "Records put aside while the line had no session.", ("line",)),
    MetricInfo("connects", "counter", "Sessions that began.", ("line",)),
    MetricInfo("refused", "counter", "Connections for which there was no id.", ("line",)),
    MetricInfo("sessions", "gauge", "Sessions now.", ("line",)),
    MetricInfo("queued_bytes", "gauge", "Bytes that wait for slow sessions.", ("line",)),
    MetricInfo("up", "gauge", "1 while the line listens or is connected.", ("line",)),
)
"""Of every line; without `PREFIX`, and without the ``_total`` that Prometheus adds to counters."""
