"""NREP: an app is published and found, sockets are opened to it, data is relayed, sockets close.

The bytes are those inside the TLS, as a capture on the entry point itself has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from wireloom.formats.nrep import packets as nrep
from wireloom.formats.nrep.ids import app_id
from wireloom.formats.nrep.packets import SocketFlags
from wireloom.generate.market import ENCODERS, Feed, Spec, clock_text, steps
from wireloom.generate.templates import Slot, template
from wireloom.generate.wire import CLIENT, SERVER, Burst, Channel, Kind, Stage

__all__ = ["feed_encoder", "nrep_session"]

_MARK = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")
_PACKETS = (
    nrep.Discover,
    nrep.DiscoverReply,
    nrep.Hello,
    nrep.Publish,
    nrep.PublishReply,
    nrep.DiscoverInstances,
    nrep.InstanceReply,
    nrep.OpenSocket,
    nrep.SocketControl,
    nrep.SocketData,
)
_KINDS = {packet: Kind("nrep", packet.name) for packet in _PACKETS}
_NESTED = Kind("nrep", nrep.SocketData.name, "tibrv")
_ROUNDS = 400
"""Bursts of data on one socket before it is closed and the next one is opened."""


def _data(payload: bytes) -> bytes:
    return nrep.SocketData(socket_id=_MARK, data=payload).encode()


def feed_encoder(fields: Sequence[Spec]) -> tuple[bytes, list[Slot]]:
    """Rendezvous messages in socket data."""
    inner, slots = ENCODERS["tibrv"](fields)
    return _data(inner), [(_MARK, "10s"), *slots]


def _send(now: int, channel: Channel, side: int, *packets: Any) -> Burst:
    parts = [packet.encode() for packet in packets]
    return Burst(now, channel, side, parts, [_KINDS[type(packet)] for packet in packets])


def nrep_session(
    stage: Stage, search: Channel, maker: Channel, user: Channel, feed: Feed | None
) -> Iterator[Burst]:
    """A maker that publishes an app and a user that opens sockets to it, at one entry point.

    Args:
        stage: what the session plays on.
        search: where the entry point is looked for, over UDP.
        maker: connection of the maker to the entry point.
        user: connection of the user to it.
        feed: what flows through the sockets; lines of text if there is none.
    """
    random, now = stage.random, stage.start_ns
    name = f"quotes {random.randrange(10_000)}"
    nonces = iter(range(random.randrange(1, 1 << 30), 1 << 31))
    nonce = next(nonces)
    yield _send(now, search, CLIENT, nrep.Discover(nonce=nonce))
    yield _send(now + 500_000, search, SERVER, nrep.DiscoverReply(nonce=nonce, tcp_port=maker.port))
    now += 2_000_000
    instance = random.randbytes(10)
    for channel in (maker, user):
        yield _send(now, channel, SERVER, nrep.Hello())
        now += 300_000
    nonce = next(nonces)
    yield _send(now, maker, CLIENT, nrep.Publish(nonce=nonce, description=name))
    reply = nrep.PublishReply(nonce=nonce, success=1, app_id=app_id(name), instance_id=instance)
    yield _send(now + 400_000, maker, SERVER, reply)
    now += 1_000_000
    nonce = next(nonces)
    yield _send(now, user, CLIENT, nrep.DiscoverInstances(nonce=nonce, app_id=app_id(name)))
    found = nrep.InstanceReply(nonce=nonce, instance_ids=(instance,))
    yield _send(now + 300_000, user, SERVER, found)
    while not stage.is_over:
        now += 1_000_000
        socket = random.randbytes(10)
        yield from _open(now, maker, user, socket, instance, next(nonces))
        now += 3_000_000
        for burst in _flow(stage, maker, user, now, socket, feed):
            now = burst.ts_ns
            yield burst
        close = nrep.SocketControl(socket_id=socket, flags=SocketFlags.CLOSE)
        yield _send(now + 200_000, user, CLIENT, close)
        yield _send(now + 400_000, maker, SERVER, close)


def _open(
    now: int, maker: Channel, user: Channel, socket: bytes, instance: bytes, nonce: int
) -> Iterator[Burst]:
    """A socket from the user to the maker."""

    def control(flags: SocketFlags, nonce: int = 0, to: bytes | None = None) -> nrep.SocketControl:
        return nrep.SocketControl(nonce=nonce, socket_id=socket, flags=flags, instance_id=to)

    yield _send(now, user, CLIENT, nrep.OpenSocket(nonce=nonce, instance_id=instance))
    yield _send(now + 200_000, user, SERVER, control(SocketFlags.OPEN_ACK, nonce))
    asked = control(SocketFlags.OPEN_REQUEST, to=instance)
    yield _send(now + 220_000, maker, SERVER, asked)
    yield _send(now + 700_000, maker, CLIENT, control(SocketFlags.ACCEPT))
    yield _send(now + 900_000, maker, SERVER, control(SocketFlags.READY))
    yield _send(now + 920_000, user, SERVER, control(SocketFlags.READY))


def _flow(
    stage: Stage, maker: Channel, user: Channel, now: int, socket: bytes, feed: Feed | None
) -> Iterator[Burst]:
    """Data of the maker, relayed to the user."""
    random = stage.random
    gaps = steps(lambda: int(random.expovariate(1 / 1_800_000)) + 50_000, 1013)
    sizes = steps(lambda: random.randint(1, 16), 251)
    texts = [_lines(random) for _ in range(16)]
    lines = [template(_data(text), [(_MARK, "10s")]) for text in texts]
    kind = _KINDS[nrep.SocketData] if feed is None else _NESTED
    number = 0
    for _ in range(_ROUNDS):
        if stage.is_over:
            return
        count = next(sizes)
        if feed is None:
            parts = [lines[(number + index) % 16](socket) for index in range(count)]
        else:
            clock = clock_text(now)
            parts = feed.messages(clock, [(socket,)] * count)
        number += count
        yield Burst(now, maker, CLIENT, parts, [kind] * count)
        yield Burst(now + 150_000, user, SERVER, parts, [kind] * count)
        now += 150_000 + next(gaps)


def _lines(random: Random) -> bytes:
    words = ["price", "of", "the", "day", "is", "up", "down", "unchanged", "volume", "at", "close"]
    count = random.randint(10, 120)
    return " ".join(random.choices(words, k=count)).encode() + b"\n"
