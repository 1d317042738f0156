from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import StateError
from wireloom.formats.nrep import (
    ZERO_ID,
    Hello,
    SocketControl,
    SocketData,
    SocketFlags,
    app_id,
)
from wireloom.formats.nrep.extensions import Feature, Reason
from wireloom.formats.nrep.quotas import Quotas
from wireloom.formats.nrep.session import (
    ClientSession,
    ClientState,
    Connected,
    DataReceived,
    Disconnected,
    InstancesFound,
    OpenFailed,
    PublishAnswered,
    RequestTimedOut,
    SocketEnded,
    SocketOffered,
    SocketOpened,
)
from wireloom.formats.nrep.table import Peer, Table
from wireloom.testing.playbook import EOF, Playbook, Wait

NOW = 1000.0
SOCKET = b"s" * 10
F = SocketFlags


class Net:
    """Clients wired to a table; bytes travel when `run` is called."""

    def __init__(self, clients: int, **table: Any) -> None:
        self.table = Table(**table)
        self.pairs: list[tuple[ClientSession, Peer]] = [
            (ClientSession(), self.table.connect(NOW)) for _ in range(clients)
        ]
        self.greeted = self.run()

    def run(self, now: float = NOW) -> list[list[Any]]:
        """The events of each client, until nothing moves."""
        events: list[list[Any]] = [[] for _ in self.pairs]
        is_moving = True
        while is_moving:
            is_moving = False
            for index, (client, peer) in enumerate(self.pairs):
                if data := client.data_to_send():
                    peer.receive(data, now)
                    is_moving = True
                if data := peer.data_to_send():
                    events[index] += client.receive(data, now)
                    is_moving = True
        return events

    def opened(self) -> tuple[bytes, bytes]:
        """An open socket from the second client to the first: its id at either."""
        (a, _), (b, _) = self.pairs
        a.publish("echo", NOW)
        (published,), _ = self.run()
        assert isinstance(published, PublishAnswered)
        assert published.instance_id
        b.open(published.instance_id, NOW)
        (offered,), nothing = self.run()
        assert isinstance(offered, SocketOffered)
        assert not nothing
        a.accept(offered.socket_id)
        _, (ready,) = self.run()
        assert isinstance(ready, SocketOpened)
        return offered.socket_id, ready.socket_id


@pytest.mark.parametrize("rules", ["recommended", "legacy"])
def test_publish_find_open_talk_and_close(rules: Any) -> None:
    net = Net(2, rules=rules)
    (a, _), (b, _) = net.pairs
    agreed = Feature(0) if rules == "legacy" else Feature.CLOSE_REASON
    assert net.greeted == [[Connected(agreed)]] * 2
    theirs, mine = net.opened()
    nonce = b.find(app_id("echo"), NOW)
    _, (found,) = net.run()
    assert isinstance(found, InstancesFound)
    assert (found.nonce, len(found.instance_ids)) == (nonce, 1)
    b.send(mine, b"ping")
    assert net.run() == [[DataReceived(theirs, b"ping")], []]
    a.send(theirs, b"pong")
    a.close_socket(theirs)
    a.close_socket(theirs)
    reason = None if rules == "legacy" else Reason.CLOSED
    assert net.run() == [[], [DataReceived(mine, b"pong"), SocketEnded(mine, reason)]]
    with pytest.raises(StateError, match="not open"):
        b.send(mine, b"late")
    assert net.table.sockets == 0


@pytest.mark.parametrize(
    ("act", "reason"), [("refuse", Reason.REFUSED), ("lost", Reason.PEER_LOST)]
)
def test_an_open_fails_with_its_reason(act: str, reason: Reason) -> None:
    net = Net(2)
    (a, at), (b, _) = net.pairs
    a.publish("x", NOW)
    (published,), _ = net.run()
    nonce = b.open(published.instance_id, NOW)
    (offered,), _ = net.run()
    if act == "refuse":
        a.refuse(offered.socket_id)
        with pytest.raises(StateError, match="not offered"):
            a.accept(offered.socket_id)
    else:
        at.receive(b"", NOW)
    assert net.run()[1] == [OpenFailed(nonce, reason)]


def test_unknown_instances_and_quotas_are_told_apart() -> None:
    net = Net(1, quotas=Quotas(instances=0))
    ((a, _),) = net.pairs
    opened, published = a.open(b"?" * 10, NOW), a.publish("x", NOW)
    assert net.run() == [
        [OpenFailed(opened, Reason.NO_INSTANCE), PublishAnswered(published, None, Reason.QUOTA)]
    ]


def control(flags: int, socket: bytes = SOCKET, **more: Any) -> bytes:
    return SocketControl(socket_id=socket, flags=F(flags), **more).encode()


def test_nothing_is_asked_before_hello() -> None:
    book = Playbook(ClientSession) >> control(F.CLOSE) >> Hello().encode() << Connected(Feature(0))
    assert book
    assert book.session.state is ClientState.READY
    with pytest.raises(StateError, match="waiting for Hello"):
        ClientSession().publish("x", NOW)


def test_a_publisher_on_a_legacy_entry_point_however_the_bytes_are_cut() -> None:
    assert (
        Playbook(ClientSession)
        >> Hello().encode()
        << Connected(Feature(0))
        >> control(F.OPEN_REQUEST, instance_id=b"i" * 10) + control(0)
        << SocketOffered(SOCKET, b"i" * 10)
        >> (lambda session, now: session.accept(SOCKET))
        << control(F.ACCEPT)
        >> SocketData(socket_id=SOCKET, data=b"x").encode()
        << DataReceived(SOCKET, b"x")
        >> SocketData(socket_id=SOCKET).encode() + control(F.CLOSE) + control(F.CLOSE)
        << SocketEnded(SOCKET, None)
        >> SocketData(socket_id=SOCKET, data=b"late").encode()
        >> EOF
        << Disconnected
    )


def test_requests_without_an_answer_end() -> None:
    session = ClientSession(request_seconds=5)
    session.receive(Hello().encode(), NOW)
    found, opened, other = (
        session.find(app_id("x"), NOW),
        session.open(b"i" * 10, NOW),
        session.open(b"i" * 10, NOW),
    )
    session.receive(control(F.OPEN_ACK, nonce=opened), NOW)
    session.data_to_send()
    assert session.next_timeout(NOW + 1) == pytest.approx(4)
    assert session.handle_timeout(NOW + 4) == []
    assert session.handle_timeout(NOW + 5) == [
        RequestTimedOut(found),
        OpenFailed(opened, Reason.TIMEOUT),
        OpenFailed(other, Reason.TIMEOUT),
    ]
    assert session.data_to_send() == control(F.CLOSE)
    # Acknowledged too late: the publisher is not left with a socket that nobody wants.
    assert session.receive(control(F.OPEN_ACK, b"t" * 10, nonce=other), NOW + 6) == []
    assert session.data_to_send() == control(F.CLOSE, b"t" * 10)
    assert session.next_timeout(NOW) is None


def test_failed_opens_with_the_zero_id_do_not_meet() -> None:
    session = ClientSession()
    session.receive(Hello().encode(), NOW)
    nonces = [session.open(b"i" * 10, NOW) for _ in range(2)]
    for nonce in nonces:
        answer = control(F.OPEN_ACK | F.CLOSE, ZERO_ID, nonce=nonce)
        assert session.receive(answer + answer, NOW) == [OpenFailed(nonce, None)]


@pytest.mark.parametrize("data", [b"\1", b"\0\x0b", b"\0\x05" + bytes(8)])
def test_a_broken_entry_point_ends_the_session(data: bytes) -> None:
    session = ClientSession()
    session.receive(Hello().encode(), NOW)
    (event,) = session.receive(data, NOW)
    assert isinstance(event, Disconnected)
    assert session.is_closed
    assert session.receive(Hello().encode(), NOW) == []
    session.close()


def test_a_lost_connection_takes_its_sockets_along() -> None:
    net = Net(2)
    theirs, mine = net.opened()
    (a, _), (b, _) = net.pairs
    assert isinstance(b.receive(b"", NOW)[0], Disconnected)
    with pytest.raises(StateError, match="not open"):
        b.send(mine, b"x")
    b.close_socket(mine)
    assert b.data_to_send() == b""
    net.pairs[1][1].receive(b"", NOW)
    assert net.run()[0] == [SocketEnded(theirs, Reason.PEER_LOST)]
    a.close_socket(theirs)
    assert a.data_to_send() == b""


def test_closing_is_final() -> None:
    assert Playbook(ClientSession) >> (lambda session, now: session.close()) >> Wait(99) >> EOF


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200_000)), max_size=8), st.integers())
def test_both_ways_every_byte_arrives_in_order(sends: list[tuple[bool, int]], seed: int) -> None:
    net = Net(2)
    theirs, mine = net.opened()
    noise = random.Random(seed)
    sent, got = [b"", b""], [b"", b""]
    for is_back, size in sends:
        data = noise.randbytes(size)
        net.pairs[0 if is_back else 1][0].send(theirs if is_back else mine, data)
        sent[1 if is_back else 0] += data
        if noise.random() < 0.5:
            for index, events in enumerate(net.run()):
                got[index] += b"".join(event.data for event in events)
    for index, events in enumerate(net.run()):
        got[index] += b"".join(event.data for event in events)
    assert got == sent
