from __future__ import annotations

import inspect
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import StateError
from wireloom.formats import nrep
from wireloom.formats.nrep import (
    DiscoverInstances,
    Hello,
    InstanceReply,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
    app_id,
)
from wireloom.formats.nrep.events import (
    OpenRejected,
    PacketIgnored,
    PeerFailed,
    PublishRejected,
    SocketEnded,
)
from wireloom.formats.nrep.extensions import (
    ALL_FEATURES,
    Extension,
    Feature,
    Reason,
    Tag,
    features_in,
    number,
    packet,
    read_tags,
    reason_in,
    write_tags,
)
from wireloom.formats.nrep.quotas import Quotas
from wireloom.formats.nrep.table import Peer, Table
from wireloom.framing import Splitter
from wireloom.testing.playbook import EOF, Playbook, Wait
from wireloom.testing.vectors import Case, load
from wireloom.testing.vectors._nrep_transcript import play
from wireloom.testing.vectors.nrep import Verifier

FILE = Path(inspect.getfile(nrep)).parent / "vectors" / "nrep_transcripts.jsonl"
CASES = [case for _, case in load(FILE)]
NOW = 100.0
F = SocketFlags


def packets(peer: Peer) -> list[Any]:
    """What a client is sent, decoded."""
    splitter = Splitter(nrep.Rules(1 << 21, True))
    splitter.feed(peer.data_to_send())
    found = [nrep.FORMAT.decode(frame, extensions=True) for frame in splitter]
    assert not splitter.pending
    return found


def connected(table: Table, *, extended: bool = False) -> Peer:
    peer = table.connect(NOW)
    assert isinstance(packets(peer)[0], Hello)
    if extended:
        tags = write_tags({Tag.FEATURES: number(ALL_FEATURES)})
        assert peer.receive(packet(Extension.CLIENT_HELLO, tags), NOW) == []
    return peer


def published(peer: Peer, name: str = "echo") -> bytes:
    peer.receive(Publish(nonce=1, description=name).encode(), NOW)
    (reply,) = packets(peer)
    assert reply.is_success
    found: bytes = reply.instance_id
    return found


def control(socket: bytes, flags: int, **more: Any) -> bytes:
    return SocketControl(socket_id=socket, flags=F(flags), **more).encode()


def opened(requester: Peer, receiver: Peer, instance: bytes) -> tuple[bytes, bytes]:
    """The ids of the two legs of an open socket."""
    requester.receive(OpenSocket(nonce=9, instance_id=instance).encode(), NOW)
    if requester is receiver:
        ack, request = packets(requester)
    else:
        (ack,), (request,) = packets(requester), packets(receiver)
    receiver.receive(control(request.socket_id, F.ACCEPT), NOW)
    (ready,) = packets(requester)
    assert (ready.flags, ready.socket_id) == (F.READY, ack.socket_id)
    return ack.socket_id, request.socket_id


# --- transcripts --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_the_table_does_what_the_transcript_says(case: Case) -> None:
    assert Verifier().accepts(case)
    assert Verifier().check(case) is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_legacy_rules_are_those_of_the_first_implementation(case: Case) -> None:
    assert play(case, "legacy") is None


def test_a_transcript_that_differs_is_told() -> None:
    (case,) = (case for case in CASES if case["id"] == "T09")
    wrong = {**case, "steps": [{"recommended": case["steps"][0]["recommended"]}] * 2}
    assert (Verifier().check(wrong) or "").startswith("step 2: P is sent 0005110000001500000001")
    assert Verifier().check({**case, "colour": 1}) == "not understood: colour"
    lost = {"input": {"peer": "P", "event": "fire"}, "output": []}
    assert "fire" in (Verifier().check({**case, "steps": [{"recommended": lost}]}) or "")


def test_several_packets_in_one_piece_are_a_stream() -> None:
    hello = {"reserved": 0, "type": 3, "type_name": "HELLO", "nonce": 0, "content_size": 0}
    case: Case = {
        "id": "S1",
        "kind": "stream",
        "transport": "tcp",
        "hex": "00030000000000000000" * 2,
    }
    case["packets"] = [{**hello, "payload": {}}] * 2
    assert Verifier().check(case) is None
    assert "number of packets" in (Verifier().check({**case, "packets": []}) or "")


# --- rules --------------------------------------------------------------------------------------


def test_a_legacy_client_sees_nothing_of_the_extensions() -> None:
    """All it is sent, apart from the content of Hello, is what a table without them sends."""
    sent = []
    for features in (ALL_FEATURES, Feature(0)):
        ids = iter(bytes([n]) * 10 for n in range(1, 99))
        table = Table(features=features, new_instance_id=ids.__next__, new_socket_id=ids.__next__)
        a, b = connected(table), connected(table)
        out = []
        for peer, data in [
            (a, Publish(nonce=5, description="x").encode()),
            (b, OpenSocket(nonce=6, instance_id=b"\1" * 10).encode()),
            (a, control(b"\2" * 10, F.REFUSE)),
            (b, OpenSocket(nonce=7, instance_id=b"\7" * 10).encode()),
            (b, OpenSocket(nonce=8, instance_id=b"\1" * 10).encode()),
        ]:
            peer.receive(data, NOW)
            out += [a.data_to_send(), b.data_to_send()]
        table.drain()
        a.close()
        out += [a.data_to_send(), b.data_to_send()]
        sent.append(out)
    assert sent[0] == sent[1]


def test_an_accept_that_does_not_come_closes_both_legs_once() -> None:
    table = Table()
    a, b = connected(table), connected(table)
    instance = published(a)
    b.receive(OpenSocket(nonce=9, instance_id=instance).encode(), NOW)
    (ack,), (request,) = packets(b), packets(a)
    assert table.next_timeout(NOW + 1) == pytest.approx(14)
    assert table.handle_timeout(NOW + 14.9) == []
    (closed,) = table.handle_timeout(NOW + 15)
    assert closed == SocketEnded(ack.socket_id, Reason.TIMEOUT, 0, 0)
    assert [p.flags for p in packets(a) + packets(b)] == [F.CLOSE, F.CLOSE]
    assert table.next_timeout(NOW) is None
    (ignored,) = a.receive(control(request.socket_id, F.ACCEPT), NOW + 16)
    assert isinstance(ignored, PacketIgnored)
    assert packets(a) + packets(b) == []


def test_an_accepted_socket_waits_for_nothing() -> None:
    table = Table()
    a, b = connected(table), connected(table)
    opened(b, a, published(a))
    assert table.next_timeout(NOW) is None
    assert table.handle_timeout(NOW + 99) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\1", "reserved"),
        (b"\0\x0b", "type"),
        (b"\0\x0a\0\0\0\0\xff\xff\xff\xff", "too_large"),
        (packet(Extension.PING), "type"),
    ],
)
def test_only_the_guilty_connection_suffers(data: bytes, why: str) -> None:
    table = Table()
    a, b, c = connected(table), connected(table), connected(table)
    instance = published(a)
    mine, _ = opened(b, a, instance)
    happened = c.receive(data + Hello().encode(), NOW)
    assert happened == [PeerFailed(c.number, why)]
    assert c.is_closed
    assert c.receive(Publish(nonce=1, description="x").encode(), NOW) == []
    assert (a.is_closed, b.is_closed, table.connections, table.sockets) == (False, False, 2, 1)
    b.receive(SocketData(socket_id=mine, data=b"on").encode(), NOW)
    assert packets(a)[0].data == b"on"


def test_data_that_ends_too_early_closes_its_socket_on_both_legs() -> None:
    table = Table()
    a, b = connected(table), connected(table)
    mine, _ = opened(b, a, published(a))
    bad = bytearray(SocketData(socket_id=mine, data=b"abcd").encode())
    bad[20] = 5
    (closed,) = b.receive(bytes(bad), NOW)
    assert isinstance(closed, SocketEnded)
    assert closed.reason is Reason.BAD_DATA
    assert [p.flags for p in packets(a) + packets(b)] == [F.CLOSE, F.CLOSE]
    assert not b.is_closed


def test_nonce_and_trailing_of_data_are_not_relayed() -> None:
    table = Table()
    a, b = connected(table), connected(table)
    mine, _ = opened(b, a, published(a))
    b.receive(SocketData(nonce=3, socket_id=mine, data=b"x", trailing=b"y").encode(), NOW)
    assert packets(a) == [SocketData(socket_id=mine, data=b"x")]
    assert b.destinations == {a}


@pytest.mark.parametrize(
    "data",
    [Hello().encode(), control(b"x" * 10, F.CLOSE)[:6] + bytes(4), b"\0\x0a" + bytes(8)],
)
def test_what_has_no_meaning_is_counted(data: bytes) -> None:
    peer = connected(Table())
    (ignored,) = peer.receive(data, NOW)
    assert isinstance(ignored, PacketIgnored)
    assert not peer.is_closed
    assert packets(peer) == []


@pytest.mark.parametrize("description", ["x" * 1025, None])
def test_a_bad_publication_is_answered_with_failure(description: str | None) -> None:
    peer = connected(Table())
    if description is None:
        data = bytes.fromhex("000401000000050000000100000000"[:-2] + "ff")  # not UTF-8
    else:
        data = Publish(nonce=1, description=description).encode()
    (rejected,) = peer.receive(data, NOW)
    assert rejected == PublishRejected(peer.number, Reason.BAD_DATA)
    assert packets(peer) == [
        PublishReply(nonce=1, success=0, app_id=bytes(10), instance_id=bytes(10))
    ]


def test_quotas_hold() -> None:
    quotas = Quotas(connections=2, instances=1, sockets=1, socket_bytes=10)
    table = Table(quotas=quotas)
    a, b = connected(table), connected(table)
    with pytest.raises(StateError, match="2 connections"):
        table.connect(NOW)
    instance = published(a)
    a.receive(Publish(nonce=2, description="other").encode(), NOW)
    assert not packets(a)[0].is_success
    mine, theirs = opened(b, a, instance)
    (rejected,) = b.receive(OpenSocket(nonce=3, instance_id=instance).encode(), NOW)
    assert rejected == OpenRejected(b.number, Reason.QUOTA)
    assert packets(b)[0].flags == F.OPEN_ACK | F.CLOSE
    b.receive(SocketData(socket_id=mine, data=bytes(6)).encode(), NOW)
    (closed,) = a.receive(SocketData(socket_id=theirs, data=bytes(5)).encode(), NOW)
    assert isinstance(closed, SocketEnded)
    assert closed.reason is Reason.QUOTA


def test_an_app_with_many_instances_is_listed_in_turns() -> None:
    table = Table(quotas=Quotas(instances=1000))
    a = connected(table)
    made = [published(a) for _ in range(300)]
    listed = []
    for _ in range(2):
        a.receive(DiscoverInstances(nonce=1, app_id=app_id("echo")).encode(), NOW)
        (reply,) = packets(a)
        assert isinstance(reply, InstanceReply)
        assert len(set(reply.instance_ids)) == 255
        listed += reply.instance_ids
    assert listed[:255] == made[:255]
    assert set(listed) == set(made)


def test_an_open_that_fails_may_carry_an_id_of_its_own() -> None:
    table = Table(reject_with_zero_id=False)
    a = connected(table)
    a.receive(OpenSocket(nonce=1, instance_id=b"?" * 10).encode() * 2, NOW)
    first, second = packets(a)
    assert len({first.socket_id, second.socket_id, bytes(10)}) == 3


def test_ids_are_never_zero_and_not_used_again_for_a_while() -> None:
    ids = iter([bytes(10), b"a" * 10, b"a" * 10, b"b" * 10, b"a" * 10])
    table = Table(new_socket_id=ids.__next__)
    a, b = connected(table), connected(table)
    instance = published(a)
    mine, _ = opened(b, a, instance)
    assert mine == b"a" * 10
    b.receive(control(mine, F.CLOSE), NOW)
    packets(a)
    assert opened(b, a, instance)[0] == b"b" * 10
    b.receive(OpenSocket(nonce=9, instance_id=instance).encode(), NOW + 61)
    assert packets(b)[0].socket_id == b"a" * 10


def test_draining_refuses_what_is_new_and_keeps_what_is_open() -> None:
    table = Table()
    a, b = connected(table, extended=True), connected(table)
    instance = published(a)
    mine, _ = opened(b, a, instance)
    table.drain()
    (goaway,) = packets(a)
    assert (goaway.code, reason_in(goaway.content)) == (Extension.GOAWAY, Reason.DRAINING)
    assert packets(b) == []
    with pytest.raises(StateError, match="draining"):
        table.connect(NOW)
    a.receive(Publish(nonce=1, description="x").encode(), NOW)
    assert reason_in(packets(a)[0].trailing) is Reason.DRAINING
    b.receive(OpenSocket(nonce=1, instance_id=instance).encode(), NOW)
    assert packets(b)[0].flags == F.OPEN_ACK | F.CLOSE
    b.receive(SocketData(socket_id=mine, data=b"x").encode(), NOW)
    assert packets(a)[0].data == b"x"
    assert not table.is_drained
    b.receive(control(mine, F.CLOSE), NOW)
    assert table.is_drained


# --- extensions ---------------------------------------------------------------------------------


def test_tags_survive_and_those_of_others_are_ignored() -> None:
    tags = {Tag.NAME: b"me", Tag.REASON: number(Reason.QUOTA)}
    data = write_tags(tags)
    assert read_tags(data) == tags
    assert read_tags(data[:-1]) == {Tag.NAME: b"me"}
    assert read_tags(b"XX" + data[2:]) == {}
    assert reason_in(write_tags({Tag.REASON: number(999)})) is None
    assert features_in({Tag.FEATURES: number(0xFFFF_FFFF)}) == ALL_FEATURES


def test_a_negotiated_client_is_told_why_and_may_ping_unpublish_and_watch() -> None:
    table = Table()
    a, b = connected(table, extended=True), connected(table, extended=True)
    a.receive(packet(Extension.PING, b"tick", 7), NOW)
    assert a.data_to_send() == packet(Extension.PONG, b"tick", 7)
    b.receive(packet(Extension.WATCH, app_id("echo"), 8), NOW)
    instance = published(a)
    assert b.data_to_send() == packet(Extension.EVENT, app_id("echo") + b"\1" + instance, 8)
    b.receive(packet(Extension.UNPUBLISH, instance, 1), NOW)
    assert packets(b)[0].content[0] == 0  # not its own
    a.receive(packet(Extension.UNPUBLISH, instance, 2), NOW)
    assert a.data_to_send() == packet(Extension.UNPUBLISH, b"\1" + instance, 2)
    assert b.data_to_send() == packet(Extension.EVENT, app_id("echo") + b"\0" + instance, 8)
    b.receive(OpenSocket(nonce=1, instance_id=instance).encode(), NOW)
    assert reason_in(packets(b)[0].trailing) is Reason.NO_INSTANCE
    b.close()
    published(a)
    assert table.instances == 1


def test_windows_are_told_to_negotiated_ends_only() -> None:
    table = Table()
    a, b, old = connected(table, extended=True), connected(table, extended=True), connected(table)
    instance = published(a)
    b.receive(OpenSocket(nonce=1, instance_id=instance).encode(), NOW)
    (ack,), (request,) = packets(b), packets(a)
    assert Tag.WINDOW in read_tags(ack.trailing)
    assert Tag.WINDOW in read_tags(request.trailing)
    a.receive(packet(Extension.WINDOW, ack.socket_id + number(5)), NOW)
    assert b.data_to_send() == packet(Extension.WINDOW, ack.socket_id + number(5))
    old.receive(OpenSocket(nonce=1, instance_id=instance).encode(), NOW)
    (ack,), (request,) = packets(old), packets(a)
    assert ack.trailing == b""
    assert Tag.WINDOW in read_tags(request.trailing)
    assert Tag.HALF_CLOSE not in read_tags(request.trailing)
    a.receive(packet(Extension.WINDOW, ack.socket_id + number(5)), NOW)
    assert old.data_to_send() == b""


# --- playbook and random interleavings ----------------------------------------------------------


def test_a_client_alone_with_the_table_however_its_bytes_are_cut() -> None:
    ids = [b"i" * 10, b"s" * 10, b"t" * 10]

    def make() -> Peer:
        left = iter(ids)
        table = Table(
            features=Feature(0), new_instance_id=left.__next__, new_socket_id=left.__next__
        )
        return table.connect(1000.0)

    i, s, t = ids
    book = (
        Playbook(make)
        << Hello().encode()
        >> Publish(nonce=1, description="echo").encode()
        << PublishReply(nonce=1, success=1, app_id=app_id("echo"), instance_id=i).encode()
        << nrep_happening("InstancePublished")
        >> OpenSocket(nonce=2, instance_id=i).encode()
        << control(s, F.OPEN_ACK, nonce=2)
        << control(t, F.OPEN_REQUEST, instance_id=i)
        << nrep_happening("SocketRequested")
        >> Wait(15)
        << control(s, F.CLOSE)
        << control(t, F.CLOSE)
        << SocketEnded(s, Reason.TIMEOUT, 0, 0)
        >> EOF
        << nrep_happening("InstanceRemoved")
    )
    assert book
    assert book.session.is_closed


def nrep_happening(name: str) -> Any:
    from wireloom.formats.nrep import events

    return getattr(events, name)


# Numbers only: Hypothesis compares what it drew, and `-bb` forbids that for bytes and numbers.
STEP = st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 7), st.integers(0, 5))


@given(st.lists(STEP, max_size=60), st.sampled_from(["recommended", "legacy"]))
def test_no_interleaving_breaks_what_legacy_clients_rely_on(steps: list[Any], rules: Any) -> None:
    """READY once and never after CLOSE, CLOSE once a leg, no data before READY or ACCEPT."""
    table = Table(rules, Quotas(sockets=5, instances=3, accept_seconds=3))
    peers = [connected(table) for _ in range(4)]
    instances: list[bytes] = [b"?" * 10]
    legs: list[bytes] = [bytes(10)]
    seen: dict[tuple[int, bytes], list[int]] = {}
    now = NOW
    for what, who, which, size in steps:
        now += 0.5
        peer = peers[who]
        instance, leg = instances[which % len(instances)], legs[which % len(legs)]
        match what:
            case 0:
                peer.receive(Publish(nonce=1, description="a" * (which % 3)).encode(), now)
            case 1 | 2:
                peer.receive(OpenSocket(nonce=1, instance_id=instance).encode(), now)
            case 3 | 4:
                peer.receive(control(leg, F.ACCEPT), now)
            case 5:
                flags = [F.CLOSE, F.REFUSE, F.ACCEPT | F.REFUSE, F.READY, 0][which % 5]
                peer.receive(control(leg, flags), now)
            case 6 | 7:
                sent = SocketData(socket_id=leg, data=bytes(size)).encode()
                peer.receive(sent, now)
            case 8 if which == 0:
                peer.receive(b"" if size else b"\xff", now)
                assert peer.is_closed
                peers[who] = connected(table)
            case _:
                table.handle_timeout(now)
        for each in peers:
            for found in packets(each):
                if isinstance(found, PublishReply) and found.is_success:
                    instances.append(found.instance_id)
                elif isinstance(found, SocketControl):
                    if found.socket_id != bytes(10):
                        legs.append(found.socket_id)
                        key = each.number, found.socket_id
                        seen.setdefault(key, []).append(int(found.flags))
                elif isinstance(found, SocketData) and rules == "recommended":
                    flags_seen = seen[each.number, found.socket_id]
                    assert F.CLOSE not in flags_seen
                    assert F.READY in flags_seen or flags_seen[0] == F.OPEN_REQUEST
        assert table.sockets >= 0
    if rules == "recommended":
        for flags_seen in seen.values():
            assert flags_seen in (
                [0x80], [0x80, 8], [0x80, 4], [0x80, 8, 4], [0x40], [0x40, 4],
            )  # fmt: skip
    for peer in peers:
        peer.close()
    assert (table.sockets, table.instances, table.connections) == (0, 0, 0)
    assert not table._apps
    assert not table._instances
    assert not table._watchers
    assert all(value is None for value in table._used_ids.values())


@given(st.lists(st.integers(0, 2000), max_size=30), st.integers(), st.data())
def test_relayed_bytes_are_those_that_were_sent(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    """Whatever the chunks in which they arrive; also on a connection that calls itself."""
    noise = random.Random(seed)
    pieces = [noise.randbytes(size) for size in sizes]
    table = Table()
    a = connected(table)
    b = data.draw(st.sampled_from([a, connected(table)]))
    mine, theirs = opened(b, a, published(a))
    stream = b"".join(SocketData(socket_id=mine, data=piece).encode() for piece in pieces)
    cuts = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream))))})
    for start, stop in pairwise(cuts):
        b.receive(stream[start:stop], NOW)
    found = packets(a)
    assert [each.data for each in found] == pieces
    assert all(each.socket_id == theirs for each in found)
