"""The part of an entry point's table that only negotiated clients use (SPEC §11)."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod

from wireloom.formats.nrep.extensions import (
    Extension,
    Feature,
    Tag,
    features_in,
    number,
    packet,
    read_tags,
)
from wireloom.formats.nrep.ids import ID_LEN
from wireloom.formats.nrep.quotas import Quotas
from wireloom.formats.nrep.records import Instance, Leg, Peer

__all__ = ["INITIAL_WINDOW", "Negotiated"]

INITIAL_WINDOW = 512 * 1024
"""Bytes a negotiated socket may send before its far end grants more: eight full packets."""

_MAX_CREDIT = 1 << 30
"""Bytes that may be granted ahead: a far end that grants more gains nothing."""

_LIST_BYTES = 48 * 1024
"""Most bytes of one answer to List; another List asks for the rest."""

_MAX_NAME = 64
"""Bytes of a client's name that are kept."""

_LISTED = struct.Struct("<HH")


class Negotiated(ABC):
    """What `Table` does with extensions."""

    quotas: Quotas
    _features: Feature
    _instances: dict[bytes, Instance]
    _apps: dict[bytes, list[Instance]]
    _watchers: dict[bytes, set[Peer]]

    @abstractmethod
    def _fail(self, peer: Peer, why: str) -> None:
        """End a connection that has broken the rules."""

    @abstractmethod
    def _ignore(self, peer: Peer, why: str) -> None:
        """Count what has no effect."""

    @abstractmethod
    def _remove(self, instance: Instance) -> None:
        """Forget an instance."""

    def _extension(self, peer: Peer, code: int, content: bytes, nonce: int, now: float) -> None:
        if code == Extension.CLIENT_HELLO:
            tags = read_tags(content)
            peer.is_extended = True
            peer.features = features_in(tags) & self._features
            peer.name = tags.get(Tag.NAME, b"")[:_MAX_NAME].decode("utf-8", "replace")
        elif code == Extension.PING and peer.features & Feature.PING:
            peer.destinations.add(peer)
            peer._send(packet(Extension.PONG, content[:64], nonce))
        elif code == Extension.UNPUBLISH and peer.features & Feature.UNPUBLISH:
            self._unpublish(peer, content[:ID_LEN], nonce)
        elif code == Extension.WATCH and peer.features & Feature.WATCH:
            self._watch(peer, content[:ID_LEN], nonce)
        elif code == Extension.WINDOW and peer.features & Feature.WINDOW:
            self._grant(peer, content)
        elif code == Extension.LIST and peer.features & Feature.LIST:
            peer.destinations.add(peer)
            self._list(peer, content, nonce)
        elif not peer.is_extended:
            self._fail(peer, "type")
        else:
            self._ignore(peer, "extension not agreed on")

    def _unpublish(self, peer: Peer, instance_id: bytes, nonce: int) -> None:
        peer.destinations.add(peer)
        instance = self._instances.get(instance_id)
        is_own = instance is not None and instance.owner is peer
        if instance is not None and is_own:
            peer._instances.remove(instance)
            self._remove(instance)
        peer._send(packet(Extension.UNPUBLISH, bytes([is_own]) + instance_id, nonce))

    def _watch(self, peer: Peer, wanted: bytes, nonce: int) -> None:
        is_new = wanted not in peer._watched
        if len(wanted) < ID_LEN or (is_new and len(peer._watched) >= self.quotas.watches):
            self._ignore(peer, "watch refused")
            return
        peer.destinations.add(peer)
        peer._watched[wanted] = nonce
        self._watchers.setdefault(wanted, set()).add(peer)
        for instance in self._apps.get(wanted, ()):
            peer._send(_event(instance, nonce, is_there=True))

    def _grant(self, peer: Peer, content: bytes) -> None:
        found = peer._legs.get(content[:ID_LEN])
        if found is None or len(content) < ID_LEN + 4:
            self._ignore(peer, "window without effect")
            return
        socket, leg = found
        target = socket.other(leg)
        if target.credit is None:
            self._ignore(peer, "window without effect")
            return
        self._credit(target, int.from_bytes(content[ID_LEN : ID_LEN + 4], "little"))

    def _repay(self, leg: Leg) -> None:
        owed, leg.owed = leg.owed, 0
        self._credit(leg, owed)

    def _repay_all(self, peer: Peer) -> None:
        """The connection accepts bytes again: whoever sends to it through windows may continue."""
        for socket, leg in peer._legs.values():
            other = socket.other(leg)
            if leg.credit is None and other.owed >= INITIAL_WINDOW // 2:
                self._repay(other)

    def _credit(self, leg: Leg, size: int) -> None:
        assert leg.credit is not None
        size = min(size, _MAX_CREDIT - leg.credit)
        if size > 0:
            leg.credit += size
            leg.peer._send(packet(Extension.WINDOW, leg.socket_id + number(size)))

    def _list(self, peer: Peer, content: bytes, nonce: int) -> None:
        """Answer with the apps from one on: their total, then (instances, description) of each."""
        first = int.from_bytes(content[:4], "little")
        apps = [found[0].description.encode() for found in self._apps.values()]
        counts = [len(found) for found in self._apps.values()]
        out = [number(len(apps))]
        size = 0
        for name, count in zip(apps[first:], counts[first:], strict=True):
            size += _LISTED.size + len(name)
            if size > _LIST_BYTES:
                break
            out.append(_LISTED.pack(min(count, 0xFFFF), len(name)) + name)
        peer._send(packet(Extension.LIST, b"".join(out), nonce))

    def _tell_watchers(self, instance: Instance, *, is_there: bool) -> None:
        for peer in self._watchers.get(instance.app_id, ()):
            peer._send(_event(instance, peer._watched[instance.app_id], is_there=is_there))


def _event(instance: Instance, nonce: int, *, is_there: bool) -> bytes:
    content = instance.app_id + bytes([is_there]) + instance.instance_id
    return packet(Extension.EVENT, content, nonce)
