"""What a junction measures, declared once: for ``/metrics`` and the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wireloom.formats.nais.counters import DROPS

if TYPE_CHECKING:
    from wireloom.services.nais.junction import Junction

__all__ = ["METRICS", "LineCollector", "MetricInfo"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric of every line."""

    name: str
    """Without what all have in front, ``wireloom_nais_line_``."""
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


class LineCollector(Collector):
    """Reads the counters when somebody asks: counting costs the junction nothing."""

    def __init__(self, junction: Junction) -> None:
        self._junction = junction

    def collect(self) -> Iterator[Metric]:
        """All metrics of all lines."""
        values = {name: self._values(name) for name in self._junction.lines}
        for info in METRICS:
            labels = ["line", info.label] if info.label else ["line"]
            make = CounterMetricFamily if info.kind == "counter" else GaugeMetricFamily
            family = make(f"wireloom_nais_line_{info.name}", info.help, labels=labels)
            for line, found in values.items():
                for label, value in found[info.name].items():
                    family.add_metric([line, label] if info.label else [line], value)
            yield family

    def _values(self, name: str) -> dict[str, dict[str, float]]:
        line = self._junction.lines[name]
        counters = self._junction.router.line_counters(name)
        sessions = [each for each in self._junction.router.sessions() if each.line == name]
        return {
            "frames": {"in": counters.frames_in, "out": counters.frames_out},
            "texts": {"in": counters.texts_in, "out": counters.texts_out},
            "bytes": {"in": line.received_bytes, "out": line.sent_bytes},
            "dropped": {reason: getattr(counters, reason) for reason in DROPS},
            "stored": {"": counters.stored},
            "connects": {"": line.connects},
            "refused": {"": counters.refused},
            "sessions": {"": len(sessions)},
            "queued_bytes": {"": sum(each.queued for each in sessions)},
            "up": {"": line.state in ("listening", "connected")},
        }
