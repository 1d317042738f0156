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
from wireloom.formats.nrep.events import (
    AppsListed,
    Connected,
    DataReceived,
    Disconnected,
    GoingAway,
    InstanceChanged,
    InstancesFound,
    OpenFailed,
    PongReceived,
    PublishAnswered,
    RequestTimedOut,
    SocketEnded,
    SocketFreed,
    SocketHalfEnded,
    SocketOffered,
    SocketOpened,
    Unpublished,
)
from wireloom.formats.nrep.extensions import ALL_FEATURES, END, Feature, Reason
from wireloom.formats.nrep.quotas import Quotas
from wireloom.formats.nrep.session import ClientSession, ClientState
from wireloom.formats.nrep.table import INITIAL_WINDOW, Peer, Table
from wireloom.testing.playbook import EOF, Playbook, Wait

NOW = 1000.0
SOCKET = b"s" * 10
F = SocketFlags


class Net:
    """Clients wired to a table; bytes travel when `run` is called."""

    def __init__(self, clients: int, **table: Any) -> None:
        self.table = Table(**table)
        self.is_reading = True
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
                    new = client.receive(data, now)
                    for event in new:
                        if self.is_reading and isinstance(event, DataReceived):
                            client.consumed(event.socket_id, len(event.data))
                    events[index] += new
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
    agreed = Feature(0) if rules == "legacy" else ALL_FEATURES
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


@pytest.mark.parametrize("data", [b"\1", b"\0\x0b"])
def test_a_broken_entry_point_ends_the_session(data: bytes) -> None:
    session = ClientSession()
    session.receive(Hello().encode(), NOW)
    (event,) = session.receive(data, NOW)
    assert isinstance(event, Disconnected)
    assert session.is_closed
    assert session.receive(Hello().encode(), NOW) == []
    session.close()


def test_a_packet_whose_content_is_wrong_costs_no_more_than_its_socket() -> None:
    session = ClientSession()
    session.receive(Hello().encode(), NOW)
    session.receive(control(F.OPEN_REQUEST, instance_id=b"i" * 10), NOW)
    session.accept(SOCKET)
    session.data_to_send()
    short_request = bytes.fromhex("0009000000000b000000") + b"t" * 10 + b"\x40"
    short_reply = b"\0\x05" + bytes(8)
    short_data = bytes.fromhex("000a000000000d000000") + SOCKET + bytes(3)
    assert session.receive(short_request + short_reply + short_data, NOW) == []
    assert session.data_to_send() == b""
    too_long = bytes.fromhex("000a0000000013000000") + SOCKET + b"\x64\0\0\0hello"
    assert session.receive(too_long, NOW) == [SocketEnded(SOCKET, Reason.BAD_DATA)]
    assert session.data_to_send() == control(F.CLOSE)
    assert not session.is_closed


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
                got[index] += b"".join(e.data for e in events if isinstance(e, DataReceived))
    for index, events in enumerate(net.run()):
        got[index] += b"".join(event.data for event in events)
    assert got == sent


# --- extensions ---------------------------------------------------------------------------------


def test_one_socket_that_nobody_reads_waits_for_itself_alone() -> None:
    net = Net(2)
    theirs, mine = net.opened()
    (a, _), (b, _) = net.pairs
    net.is_reading = False
    b.send(mine, bytes(INITIAL_WINDOW + 7))
    b.close_socket(mine)
    assert b.waiting_bytes(mine) == 7
    given, _ = net.run()
    assert sum(len(each.data) for each in given) == INITIAL_WINDOW
    with pytest.raises(StateError, match="not open"):
        b.send(mine, b"late")
    a.consumed(theirs, INITIAL_WINDOW)
    assert net.run()[0] == [DataReceived(theirs, bytes(7)), SocketEnded(theirs, Reason.CLOSED)]


def test_who_waited_is_told_when_all_is_sent() -> None:
    net = Net(2)
    theirs, mine = net.opened()
    net.is_reading = False
    net.pairs[1][0].send(mine, bytes(INITIAL_WINDOW + 7))
    net.run()
    net.pairs[0][0].consumed(theirs, INITIAL_WINDOW)
    assert net.run()[1] == [SocketFreed(mine)]


@pytest.mark.parametrize("is_at_client", [False, True])
def test_more_than_was_granted_ends_the_socket(is_at_client: bool) -> None:
    net = Net(2)
    theirs, mine = net.opened()
    (a, at), (b, bt) = net.pairs
    net.is_reading = False
    much = SocketData(socket_id=theirs if is_at_client else mine, data=bytes(60_000)).encode() * 9
    if is_at_client:
        ended = a.receive(much, NOW)[-1]
        assert ended == SocketEnded(theirs, Reason.BAD_DATA)
    else:
        bt.receive(much, NOW)
        assert SocketEnded(mine, Reason.BAD_DATA) in net.run()[1]
    net.run()
    assert net.table.sockets == 0
    assert not any(each.is_closed for each in (a, b, at, bt))


def test_towards_a_legacy_publisher_the_entry_point_grants() -> None:
    net = Net(2)
    net.pairs[0] = (ClientSession(features=Feature(0)), net.table.connect(NOW))
    net.run()
    _, mine = net.opened()
    (_, at), (b, _) = net.pairs
    b.send(mine, bytes(INITIAL_WINDOW * 3))
    received = net.run()[0]
    assert sum(len(each.data) for each in received) == INITIAL_WINDOW * 3
    at.set_congested(True)
    b.send(mine, bytes(INITIAL_WINDOW * 2))
    net.run()
    assert b.waiting_bytes(mine) > 0
    at.set_congested(False)
    net.run()
    assert b.waiting_bytes(mine) == 0


def test_half_of_a_socket_ends_behind_its_data() -> None:
    net = Net(2)
    theirs, mine = net.opened()
    (a, _), (b, _) = net.pairs
    assert b.can_half_close(mine)
    b.send(mine, b"question")
    b.half_close(mine)
    b.half_close(mine)
    assert net.run()[0] == [DataReceived(theirs, b"question"), SocketHalfEnded(theirs)]
    with pytest.raises(StateError, match="not open"):
        b.send(mine, b"late")
    a.send(theirs, b"answer")
    a.close_socket(theirs)
    assert net.run()[1] == [DataReceived(mine, b"answer"), SocketEnded(mine, Reason.CLOSED)]


def test_data_behind_its_end_ends_the_socket() -> None:
    net = Net(2)
    theirs, mine = net.opened()
    (a, _), (_, at) = net.pairs
    ends = SocketControl(socket_id=mine, flags=END).encode()
    at.receive(ends + ends + SocketData(socket_id=mine, data=b"more").encode(), NOW)
    assert net.run()[0] == [SocketHalfEnded(theirs), SocketEnded(theirs, Reason.BAD_DATA)]
    assert net.table.sockets == 0
    assert not a.is_closed


def test_half_a_socket_does_not_end_towards_a_legacy_peer() -> None:
    net = Net(2)
    net.pairs[0] = (ClientSession(features=Feature(0)), net.table.connect(NOW))
    net.run()
    _, mine = net.opened()
    assert not net.pairs[1][0].can_half_close(mine)
    with pytest.raises(StateError, match="half-closed"):
        net.pairs[1][0].half_close(mine)


def test_ping_list_watch_and_unpublish() -> None:
    net = Net(2)
    (a, _), (b, _) = net.pairs
    nonce = a.ping(NOW)
    assert net.run()[0] == [PongReceived(nonce)]
    b.watch(app_id("echo"))
    a.publish("echo", NOW)
    (published,), (there,) = net.run()
    assert there == InstanceChanged(app_id("echo"), published.instance_id, True)
    nonce = b.list_apps(0, NOW)
    assert net.run()[1] == [AppsListed(nonce, 1, (("echo", 1),))]
    instance = published.instance_id
    nonce = b.unpublish(instance, NOW)
    assert net.run()[1] == [Unpublished(nonce, False)]
    nonce = a.unpublish(instance, NOW)
    assert net.run() == [
        [Unpublished(nonce, True)],
        [InstanceChanged(app_id("echo"), instance, False)],
    ]
    net.table.drain()
    assert net.run() == [[GoingAway()], [GoingAway()]]


def test_a_long_list_comes_in_pages() -> None:
    net = Net(1, quotas=Quotas(instances=100))
    ((a, _),) = net.pairs
    names = [f"{index:03d}" + "x" * 997 for index in range(100)]
    for name in names:
        a.publish(name, NOW)
    net.run()
    found: list[str] = []
    while len(found) < 100:
        a.list_apps(len(found), NOW)
        ((page,),) = net.run()
        assert page.total == 100
        assert page.apps
        found += [name for name, _ in page.apps]
    assert found == names


def test_what_was_not_negotiated_is_refused_here() -> None:
    net = Net(1, rules="legacy")
    ((a, _),) = net.pairs
    for ask in (a.ping, lambda now: a.list_apps(0, now), lambda now: a.watch(b"x" * 10)):
        with pytest.raises(StateError, match="does not know"):
            ask(NOW)
