"""What a broker counts. Plain numbers while it runs; made into metrics when somebody looks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from wireloom.services.blaze.declared import METRICS

if TYPE_CHECKING:
    from wireloom.services.blaze.broker import Broker

__all__ = ["LATENCY_BUCKETS", "BrokerMetrics"]

PREFIX = "wireloom_blaze_"

LATENCY_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
"""Seconds: from a fast disk's commit to the time after which transactions fail."""


class BrokerMetrics(Collector):
    """Counts, and gives them to Prometheus."""

    def __init__(self, broker: Broker, registry: CollectorRegistry) -> None:
        self._broker = broker
        self.transactions: Counter[tuple[str, ...]] = Counter()
        """By action and outcome."""
        self.handler_failures: Counter[str] = Counter()
        self.changes: Counter[int] = Counter()
        self.slow_consumers: Counter[str] = Counter()
        self.held_reads: Counter[str] = Counter()
        self.oddities: Counter[str] = Counter()
        """Of sessions that are over."""
        self.events = 0
        """Of sessions that are over."""
        self._latencies = [0] * (len(LATENCY_BUCKETS) + 1)
        self._latency_sum = 0.0
        registry.register(self)

    def answered(self, action: IntEnum, outcome: str, seconds: float, count: int = 1) -> None:
        """Transactions were answered."""
        # `name` takes many times as long.
        self.transactions[action._name_, outcome] += count
        self._latencies[bisect_left(LATENCY_BUCKETS, seconds)] += count
        self._latency_sum += seconds * count

    def all_oddities(self) -> Counter[str]:
        """Also of sessions that go on."""
        found = Counter(self.oddities)
        for peer in self._broker.sessions:
            found.update(peer.session.counts)
        return found

    def all_events(self) -> int:
        """Also of sessions that go on."""
        return self.events + sum(peer.session.events_sent for peer in self._broker.sessions)

    def collect(self) -> Iterable[Metric]:
        """Called by a registry."""
        broker = self._broker
        name_of = broker.class_name
        yield _counter("transactions", self.transactions)
        counts = list(accumulate(self._latencies))
        buckets = [*map(str, LATENCY_BUCKETS), "+Inf"]
        histogram = HistogramMetricFamily(
            PREFIX + "transaction_seconds", METRICS["transaction_seconds"].help
        )
        histogram.add_metric([], list(zip(buckets, counts, strict=True)), self._latency_sum)
        yield histogram
        yield _gauge("flying", {(): sum(peer.session.flying for peer in broker.sessions)})
        yield _counter("handler_failures", _labelled(self.handler_failures))
        states = Counter(peer.session.state.value for peer in broker.sessions)
        yield _gauge("sessions", _labelled(states))
        yield _counter("oddities", _labelled(self.all_oddities()))
        yield _gauge(
            "subscriptions", {(name_of(id),): n for id, n in broker.fanout.counts().items()}
        )
        yield _counter("changes", {(name_of(id),): n for id, n in self.changes.items()})
        yield _counter("events", {(): self.all_events()})
        queues = [
            len(subscription.live)
            for peer in broker.sessions
            for subscription in peer.session.subscriptions.values()
        ]
        yield _gauge("queued_changes", {(): sum(queues)})
        yield _gauge("longest_queue", {(): max(queues, default=0)})
        yield _counter("slow_consumers", _labelled(self.slow_consumers))
        yield _counter("held_reads", _labelled(self.held_reads))
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        status = self._broker.store_status
        if status is None:
            return
        yield _gauge("store_up", {(): int(status.is_up)})
        yield _gauge("store_pending", {(): self._broker.store.pending})
        yield _counter("store_writes", {(): status.writes})
        yield _counter("store_commits", {(): status.commits})
        yield _counter("store_failures", {(): status.failures})
        yield _gauge("store_commit_seconds", {(): status.latency})
        yield _counter("store_foreign_changes", {(): status.foreign_changes})
        yield _counter("store_gaps", {(): status.gaps})


def _labelled(counts: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(name,): count for name, count in counts.items()}


def _counter(name: str, values: Mapping[tuple[str, ...], int]) -> Metric:
    info = METRICS[name]
    family = CounterMetricFamily(PREFIX + name, info.help, labels=info.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _gauge(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    info = METRICS[name]
    family = GaugeMetricFamily(PREFIX + name, info.help, labels=info.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
