"""The metrics of a junction's lines, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wireloom.formats.nais.counters import DROPS
from wireloom.services.nais.metrics import METRICS, PREFIX

if TYPE_CHECKING:
    from wireloom.services.nais.junction import Junction

__all__ = ["LineCollector"]


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
            family = make(PREFIX + info.name, info.help, labels=labels)
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
