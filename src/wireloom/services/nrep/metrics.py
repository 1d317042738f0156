"""What an entry point counts, declared once for Prometheus and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from wireloom.formats.nrep.happenings import (
    Happening,
    InstancePublished,
    InstanceRemoved,
    OpenRejected,
    PacketIgnored,
    PeerFailed,
    PublishRejected,
    SocketClosed,
    SocketReady,
    SocketRequested,
)
from wireloom.formats.nrep.table import Table

__all__ = ["METRICS", "EntryPointMetrics", "Metric"]

_PREFIX = "wireloom_nrep_"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is counted."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    is_gauge: bool = False

    @property
    def full_name(self) -> str:
        """As Prometheus shows it."""
        return _PREFIX + self.name + ("" if self.is_gauge else "_total")


METRICS = (
    Metric("sockets", "Sockets that are open or wait to be accepted.", is_gauge=True),
    Metric("instances", "Publications that can be found.", is_gauge=True),
    Metric("apps", "Apps with at least one instance.", is_gauge=True),
    Metric("held_connections", "Connections that are not read, because others are slow.",
           is_gauge=True),
    Metric("relayed_bytes", "Bytes of sockets that were relayed."),
    Metric("finds", "Questions for the instances of an app."),
    Metric("publishes", "Publications."),
    Metric("unpublishes", "Publications that have ended."),
    Metric("publishes_refused", "Publications that were refused.", ("reason",)),
    Metric("opens", "Sockets that publishers were asked for."),
    Metric("opens_refused", "Sockets that were refused before a publisher was asked.", ("reason",)),
    Metric("sockets_ready", "Sockets that publishers accepted."),
    Metric("sockets_closed", "Sockets that have ended, refused and late ones too.", ("reason",)),
    Metric("packets_ignored", "Packets that had no effect.", ("why",)),
    Metric("peers_failed", "Connections that were closed for breaking the protocol.", ("why",)),
    Metric("peers_cut_off", "Connections that were closed for being slow, idle or greedy.",
           ("why",)),
    Metric("discovery_datagrams", "Datagrams on the discovery port.", ("outcome",)),
)  # fmt: skip
"""Those of an entry point, beside the ones that every service has."""


class EntryPointMetrics:
    """The counters of one entry point."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._made: dict[str, Counter | Gauge] = {
            metric.name: (Gauge if metric.is_gauge else Counter)(
                _PREFIX + metric.name, metric.text, metric.labels, registry=registry
            )
            for metric in METRICS
        }
        self._relayed = self._finds = 0

    def count(self, name: str, *labels: str) -> None:
        """One more."""
        found = self._made[name]
        (found.labels(*labels) if labels else found).inc()

    def watch(self, table: Table) -> None:
        """Have the gauges ask a table."""
        apps, instances, sockets = (self._gauge(name) for name in ("apps", "instances", "sockets"))
        apps.set_function(lambda: len(table.apps()))
        instances.set_function(lambda: table.instances)
        sockets.set_function(lambda: table.sockets)

    def set_held(self, count: int) -> None:
        """How many connections are not read."""
        self._gauge("held_connections").set(count)

    def _gauge(self, name: str) -> Gauge:
        found = self._made[name]
        assert isinstance(found, Gauge)
        return found

    def totals(self, table: Table) -> None:
        """Take over what the table counts by itself."""
        self._made["relayed_bytes"].inc(table.relayed_bytes - self._relayed)
        self._made["finds"].inc(table.finds - self._finds)
        self._relayed, self._finds = table.relayed_bytes, table.finds

    def happened(self, happening: Happening) -> None:
        """Count what a table tells."""
        match happening:
            case InstancePublished():
                self.count("publishes")
            case InstanceRemoved():
                self.count("unpublishes")
            case PublishRejected():
                self.count("publishes_refused", happening.reason.name.lower())
            case SocketRequested():
                self.count("opens")
            case OpenRejected():
                self.count("opens_refused", happening.reason.name.lower())
            case SocketReady():
                self.count("sockets_ready")
            case SocketClosed():
                self.count("sockets_closed", happening.reason.name.lower())
            case PacketIgnored():
                self.count("packets_ignored", happening.why.replace(" ", "_"))
            case PeerFailed():
                self.count("peers_failed", happening.why)
