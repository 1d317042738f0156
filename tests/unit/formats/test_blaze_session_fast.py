"""What a client's session reads and writes by a short cut is what the codec reads and writes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import StateError
from wireloom.formats.blaze import (
    DIALECTS,
    Action,
    ConnectionResponse,
    Encoding,
    SubscriptionAck,
    SubscriptionResponse,
    TransactionRequest,
    TransactionType,
    from_blz,
    get_dialect,
)
from wireloom.formats.blaze.dialects import translate
from wireloom.formats.blaze.session import ClientSession, ClientSettings, TransactionsFinished

MODEL = from_blz("""
nclass TRUCK
{
    @id 302
    uint_32 truck_id
}
""")


class Slow(ClientSession):
    """Reads everything in the general way."""

    def _take_run(self, run: Any, now: float, events: list[Any]) -> int:
        return 0


def connected(
    kind: type[ClientSession], dialect: str, is_auto_ack: bool, gathers: bool = False
) -> ClientSession:
    session = kind(
        ClientSettings(
            dialect=dialect, is_auto_ack=is_auto_ack, test_after=5, gathers_answers=gathers
        )
    )
    session.connect(0.0)
    agreed = ConnectionResponse(conres=1, agrhbt=30, connid=5)
    session.receive(translate(agreed, get_dialect(dialect)).encode(), 0.0)
    rqstid = session.subscribe(302, 0.0)
    session.receive(SubscriptionResponse(sbresl=1, rqstid=rqstid, sbsrid=3).encode(), 0.0)
    for _ in range(3):
        session.transact_body(Action.INS, 302, b"\0\0\0\0", 0.0)
    session.data_to_send()
    return session


def one_by_one(events: list[Any]) -> list[Any]:
    """The events, with those that stand for several taken apart."""
    found: list[Any] = []
    for event in events:
        found += event if isinstance(event, TransactionsFinished) else [event]
    return found


few = st.integers(0, 4)
bits = st.one_of(
    st.just(0), st.integers(0, 31).map(lambda bit: 1 << bit), st.integers(0, 0xFFFFFFFF)
)
kinds = st.sampled_from([1, 2, 3, 4, 0, 5]).map(lambda kind: kind << 28)
actions = st.integers(0, 7).map(lambda action: action << 25)
codes = st.sampled_from([0, 4, 200, 300, 400, 999])


@st.composite
def events(draw: Any) -> bytes:
    body = draw(st.binary(max_size=8))
    word = draw(kinds) | draw(actions) | draw(codes) | draw(st.sampled_from([0, 0, 1 << 20]))
    head = 1 << 26 | 7 << 22 | 10 << 16 | draw(st.sampled_from([0, 0, 0, 1]))
    numbers = [draw(few), word, draw(few), draw(few), draw(few), 28 + len(body)]
    return struct.pack(">7I", head, *numbers) + body


@st.composite
def answers(draw: Any) -> bytes:
    word = (
        draw(st.integers(0, 4)) << 29
        | draw(codes)
        | draw(st.sampled_from([0, 0, 1 << 28, 9 << 16]))
    )
    head = 1 << 26 | 6 << 22 | 7 << 16
    return struct.pack(">6I", head, word, 1, 1, draw(st.sampled_from([5, 5, 5, 0])), draw(few))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(
    frames=st.lists(st.one_of(events(), answers()), max_size=12),
    is_auto_ack=st.booleans(),
    gathers=st.booleans(),
    cut=st.integers(1, 64),
)
def test_both_ways_lead_to_the_same(
    dialect: str, frames: list[bytes], is_auto_ack: bool, gathers: bool, cut: int
) -> None:
    fast = connected(ClientSession, dialect, is_auto_ack, gathers)
    slow = connected(Slow, dialect, is_auto_ack)
    data = b"".join(frames)
    told: list[list[Any]] = [[], []]
    for at in range(0, len(data), cut):
        told[0] += fast.receive(data[at : at + cut], 1.0)
        told[1] += slow.receive(data[at : at + cut], 1.0)
    told[0] = one_by_one(told[0])
    assert told[0] == told[1]
    assert [type(event) for event in told[0]] == [type(event) for event in told[1]]
    assert fast.state is slow.state
    assert fast.counts == slow.counts
    assert fast.next_timeout(1.0) == slow.next_timeout(1.0)
    assert fast._feeds == slow._feeds
    assert fast.data_to_send() == slow.data_to_send()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("action", [Action.INS, Action.UPD, Action.DEL, Action.RST])
@pytest.mark.parametrize("wants_result", [False, True])
def test_requests_are_those_of_the_codec(dialect: str, action: Action, wants_result: bool) -> None:
    session = connected(ClientSession, dialect, False)
    names = get_dialect(dialect)
    for number in (4, 5):
        txid = session.transact_body(action, 302, b"\0\0\0\0", 1.0, wants_result=wants_result)
        assert txid == (1, 1, 5, number)
        packet = TransactionRequest(
            txtype=TransactionType.NCLASS,
            txactn=action,
            rsclrq=int(wants_result),
            txplid=1,
            txsvid=1,
            txcnid=5,
            txprid=number,
            enctyp=Encoding.INDEXNOTZERO,
            nclsid=302,
            connid=5,
            body=b"\0\0\0\0",
        )
        assert session.data_to_send() == translate(packet, names).encode()


def test_a_short_request_and_an_acknowledgement_are_those_of_the_codec() -> None:
    session = connected(ClientSession, "document", False)
    session.transact_body(Action.RST, None, None, 1.0, type=TransactionType.SYSTEM)
    packet = TransactionRequest(
        txtype=2, txactn=Action.RST, txplid=1, txsvid=1, txcnid=5, txprid=4, connid=5
    )
    assert session.data_to_send() == packet.encode()
    event = struct.pack(">7I", 1 << 26 | 7 << 22 | 10 << 16, 3, 3 << 27, 9, 1, 1, 32) + bytes(4)
    session.receive(event, 1.0)
    session.acknowledge(1, 9, 1.0)
    assert session.data_to_send() == SubscriptionAck(sbsrid=3, sevtid=9).encode()
    with pytest.raises(StateError, match="waits for nothing"):
        session.acknowledge(1, 9, 1.0)


def test_transaction_numbers_start_again_behind_the_last_one() -> None:
    session = connected(ClientSession, "document", False)
    session._txprid = 0xFFFFFFFE
    assert session.transact_body(Action.INS, 302, b"", 1.0)[3] == 0xFFFFFFFF
    assert session.transact_body(Action.INS, 302, b"", 1.0)[3] == 4  # 1, 2 and 3 still fly


def test_numbers_of_many_transactions_start_again_behind_the_last_one() -> None:
    session = connected(ClientSession, "document", False)
    session._txprid = 0xFFFFFFFD
    numbers = session.transact_bodies(Action.INS, 302, [b""] * 5, 1.0)
    assert list(numbers) == [0xFFFFFFFE, 0xFFFFFFFF, 4, 5, 6]  # 1, 2 and 3 still fly
    sent = session.data_to_send()
    found = [int.from_bytes(sent[at + 20 : at + 24], "big") for at in range(0, len(sent), 36)]
    assert found == list(numbers)


@pytest.mark.parametrize("is_auto_ack", [False, True])
def test_what_came_before_an_object_that_cannot_be_read_has_come(is_auto_ack: bool) -> None:
    head = 1 << 26 | 7 << 22 | 10 << 16
    bodies = [bytes(4), bytes(4), b"\1\0\0\0", bytes(4)]
    data = b"".join(
        struct.pack(">7I", head, 3, 3 << 27, i, 1, i, 28 + len(body)) + body
        for i, body in enumerate(bodies, 1)
    )
    ends = []
    for kind in (ClientSession, Slow):
        session = connected(kind, "document", is_auto_ack)
        session.model = MODEL
        events = session.receive(data, 1.0)
        ends.append((events, session.counts, session.data_to_send()))
    assert ends[0] == ends[1]
    assert [type(event).__name__ for event in ends[0][0]][:3] == ["ObjectReceived"] * 2 + [
        "TransactionFinished"
    ]
    assert ends[0][2].count(SubscriptionAck(sbsrid=3, sevtid=2).encode()) == is_auto_ack


def test_silence_says_nothing_while_the_owner_does_not_read() -> None:
    session = connected(ClientSession, "document", False)
    session.is_held = True
    assert session.handle_timeout(6.0) == []
    assert session.handle_timeout(12.0) == []
    session.is_held = False
    session.data_to_send()
    assert session.handle_timeout(18.0) == []  # TSTREQ
    assert session.data_to_send()[:4].hex() == "04c10000"
    assert session.handle_timeout(24.0) != []


def test_acknowledgements_that_were_put_together_precede_the_goodbye() -> None:
    settings = ClientSettings(has_cumulative_acks=True)
    session = ClientSession(settings)
    session.connect(0.0)
    session.receive(ConnectionResponse(conres=1, agrhbt=30, connid=5).encode(), 0.0)
    session.subscribe(302, 0.0)
    session.receive(SubscriptionResponse(sbresl=1, rqstid=1, sbsrid=3).encode(), 0.0)
    session.data_to_send()
    head = 1 << 26 | 7 << 22 | 10 << 16
    events = [struct.pack(">7I", head, 3, 3 << 27, i, 1, i, 32) + bytes(4) for i in range(1, 6)]
    assert len(session.receive(b"".join(events), 1.0)) == 5
    session.close()
    sent = session.data_to_send()
    assert sent[:12] == SubscriptionAck(sbsrid=3, sevtid=5).encode()
    assert sent[12:16].hex() == "04c50000"
    assert len(sent) == 24
