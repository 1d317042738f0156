"""Changes → the subscribers of their classes. An event's bytes are made once and shared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from wireloom.formats.blaze.codes import BlazeCode
from wireloom.formats.blaze.session.subscriptions import Batch, Change, EventIds
from wireloom.services._shell.logs import get_log

if TYPE_CHECKING:
    from wireloom.services.blaze.metrics import BrokerMetrics
    from wireloom.services.blaze.peer import BlazePeer

__all__ = ["Fanout"]

log = get_log("blaze.fanout")

_class_of = attrgetter("nclsid")


class Fanout:
    """Who has subscribed to what; a connection subscribes to a class once."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._peers: dict[int, dict[BlazePeer, None]] = {}
        self.event_ids = EventIds()

    def add(self, nclsid: int, peer: BlazePeer) -> None:
        """A connection has subscribed to a class."""
        self._peers.setdefault(nclsid, {})[peer] = None

    def remove(self, nclsid: int, peer: BlazePeer) -> None:
        """Its subscription is over."""
        peers = self._peers.get(nclsid, {})
        peers.pop(peer, None)
        if not peers:
            self._peers.pop(nclsid, None)

    def subscribers(self, nclsid: int) -> list[BlazePeer]:
        """The connections that have subscribed to a class."""
        return list(self._peers.get(nclsid, ()))

    def counts(self) -> dict[int, int]:
        """Subscriptions of each class."""
        return {nclsid: len(peers) for nclsid, peers in self._peers.items()}

    def publish(self, changes: Sequence[Change]) -> None:
        """Hand changes to the subscribers of their classes, in this order."""
        for nclsid, group in groupby(changes, _class_of):
            batch = list(group)
            self._metrics.changes[nclsid] += len(batch)
            peers = self._peers.get(nclsid)
            if peers:
                made = Batch(batch, self.event_ids)
                for peer in list(peers):
                    try:
                        peer.publish(made)
                    except Exception as error:
                        peer.fail(error)

    def gap(self, nclsid: int) -> None:
        """Changes of a class were lost: its subscribers must resume."""
        peers = self.subscribers(nclsid)
        log.warning("changes_lost", nclass=nclsid, subscriptions=len(peers))
        for peer in peers:
            peer.stop_subscription(nclsid, BlazeCode.SERVER_ERROR)
