"""What an entry point counts, declared once for Prometheus and the docs."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from wireloom.formats.nrep.events import (
    Happening,
    InstancePublished,
    InstanceRemoved,
    OpenRejected,
    PacketIgnored,
    PeerFailed,
    PublishRejected,
    SocketEnded,
    SocketReady,
    SocketRequested,
)
from wireloom.formats.nrep.extensions import reason_name
from wireloom.formats.nrep.table import Table
from wireloom.services._shell.declared import MetricInfo

__all__ = ["METRICS", "EntryPointMetrics"]

METRICS = (
    MetricInfo("sockets", "gauge", "Sockets that are open or wait to be accepted."),
    MetricInfo("instances", "gauge", "Publications that can be found."),
    MetricInfo("apps", "gauge", "Apps with at least one instance."),
    MetricInfo(
        "held_connections", "gauge", "Connections that are not read, because others are slow."
    ),
    MetricInfo("relayed_bytes", "counter", "Bytes of sockets that were relayed."),
    MetricInfo("finds", "counter", "Questions for the instances of an app."),
    MetricInfo("publishes", "counter", "Publications."),
    MetricInfo("unpublishes", "counter", "Publications that have ended."),
    MetricInfo("publishes_refused", "counter", "Publications that were refused.", ("reason",)),
    MetricInfo("opens", "counter", "Sockets that publishers were asked for."),
    MetricInfo(
        "opens_refused",
        "counter",
        "Sockets that were refused before a publisher was asked.",
        ("reason",),
    ),
    MetricInfo("sockets_ready", "counter", "Sockets that publishers accepted."),
    MetricInfo(
        "sockets_closed",
        "counter",
        "Sockets that have ended, refused and late ones too.",
        ("reason",),
    ),
    MetricInfo("packets_ignored", "counter", "Packets that had no effect.", ("why",)),
    MetricInfo(
        "peers_failed",
        "counter",
        "Connections that were closed for breaking the protocol.",
        ("why",),
    ),
    MetricInfo(
        "peers_cut_off",
        "counter",
        "Connections that were closed for being slow, idle or greedy.",
        ("why",),
    ),
    MetricInfo("discovery_datagrams", "counter", "Datagrams on the discovery port.", ("outcome",)),
)
"""Those of an entry point, beside the ones that every service has."""


class EntryPointMetrics:
    """The counters of one entry point."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._made: dict[str, Counter | Gauge] = {
            metric.name: (Gauge if metric.kind == "gauge" else Counter)(
                f"wireloom_nrep_{metric.name}", metric.help, metric.labels, registry=registry
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
                self.count("publishes_refused", reason_name(happening.reason))
            case SocketRequested():
                self.count("opens")
            case OpenRejected():
                self.count("opens_refused", reason_name(happening.reason))
            case SocketReady():
                self.count("sockets_ready")
            case SocketEnded():
                self.count("sockets_closed", reason_name(happening.reason))
            case PacketIgnored():
                self.count("packets_ignored", happening.why.replace(" ", "_"))
            case PeerFailed():
                self.count("peers_failed", happening.why)
