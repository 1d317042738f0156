from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    ConnectionRequest,
    ConnectionResponse,
    Disconnected,
    DisconnectReason,
    DownloadType,
    Encoding,
    EventType,
    FlowType,
    Heartbeat,
    RefusalCode,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionMode,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStop,
    SubscriptionStopResponse,
    SubscriptionType,
    TestRequest,
    TransactionRequest,
    TransactionResponse,
    from_blz,
    new_value,
)
from wireloom.formats.blaze import format as blaze_format
from wireloom.formats.blaze.session import (
    TABLES,
    Change,
    ClientSession,
    ClientSettings,
    Connected,
    ConnectionRequested,
    DownloadEnded,
    ObjectReceived,
    RequestRejected,
    ServerSession,
    ServerSettings,
    ServerSubscription,
    SessionClosed,
    Stamp,
    SubscriptionEnded,
    SubscriptionRefused,
    SubscriptionRequested,
    SubscriptionStarted,
    TransactionAborted,
    TransactionFinished,
    TransactionRequested,
)
from wireloom.formats.blaze.session.subscriptions import LiveQueue
from wireloom.testing.playbook import EOF, Playbook, Wait

MODEL = from_blz("""
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    int_32 x
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}
""")
NOW = 1000


def truck(number: int, x: int = 0) -> Any:
    return new_value(MODEL, "TRUCK", {"truck_id": number, "x": x})


def change(number: int, x: int, stamp: int, action: Action = Action.UPD) -> Change:
    return Change.of(action, truck(number, x), (stamp, 0))


def server(**options: Any) -> Playbook[ServerSession]:
    settings = ServerSettings(model=MODEL, **options)
    return Playbook(lambda: ServerSession(settings, float(NOW)))


def connected(hbtsec: int = 0, **options: Any) -> Playbook[ServerSession]:
    return (
        server(**options)
        >> ConnectionRequest(hbtsec=hbtsec).encode()
        << ConnectionRequested(hbtsec)
        >> (lambda session, now: session.accept(7, now))
        << ConnectionResponse(conres=1, agrhbt=hbtsec, connid=7).encode()
        << Connected(7, hbtsec)
    )


def request(prid: int = 1, cnid: int = 7, connid: int = 7, **options: Any) -> TransactionRequest:
    given: dict[str, Any] = {"txtype": 4, "txactn": Action.INS, "enctyp": 2, "nclsid": 302}
    given |= {"body": bytes.fromhex("06000000010009000000"), "txplid": 0, "txsvid": 0}
    return TransactionRequest(txcnid=cnid, txprid=prid, connid=connid, **(given | options))


def response(code: int, prid: int = 1, cnid: int = 7, result: int = 2) -> bytes:
    return TransactionResponse(
        txresl=result, blzcod=code, txplid=0, txsvid=0, txcnid=cnid, txprid=prid
    ).encode()


def dscond(reason: int) -> bytes:
    return Disconnected(disres=reason).encode()


def test_a_heartbeat_outside_the_limits_is_accepted_with_reserve() -> None:
    assert (
        server(heartbeat_limits=(5, 60), is_heartbeat_required=True)
        >> ConnectionRequest(hbtsec=0).encode()
        << ConnectionRequested(0)
        >> (lambda session, now: session.accept(7, now))
        << ConnectionResponse(conres=2, errcod=8, agrhbt=60, connid=7).encode()
        << Connected(7, 60, True)
    )


@pytest.mark.parametrize("code", [code for code in RefusalCode if code])
def test_a_connection_is_refused_with_every_code(code: RefusalCode) -> None:
    assert (
        server()
        >> ConnectionRequest(hbtsec=1).encode()
        << ConnectionRequested(1)
        >> (lambda session, now: session.refuse(code, now))
        << ConnectionResponse(conres=3, errcod=code).encode()
        << SessionClosed
    )


def test_a_version_that_is_not_served_is_refused() -> None:
    refused = ConnectionResponse(conres=3, errcod=6).encode()
    assert server() >> ConnectionRequest(prover=2).encode() << refused << SessionClosed


def test_a_second_connection_request_is_refused() -> None:
    refused = ConnectionResponse(conres=3, errcod=7).encode()
    assert connected() >> ConnectionRequest().encode() << refused << SessionClosed


def test_a_veto_has_its_own_code_in_2017() -> None:
    for dialect, code in (("document", 1), ("2017", 10)):
        assert (
            server(dialect=dialect)
            >> ConnectionRequest().encode()
            << ConnectionRequested(0)
            >> (lambda session, now: session.veto(now))
            << ConnectionResponse(conres=3, errcod=code).encode()
            << SessionClosed
        )


def test_only_a_connection_request_comes_first() -> None:
    assert server() >> request().encode() << dscond(8) << SessionClosed
    assert server() >> b"\xff" * 8 << dscond(8) << SessionClosed
    assert server() >> Wait(10) << SessionClosed


def test_another_connid_ends_the_connection() -> None:
    assert connected() >> request(connid=8).encode() << dscond(8) << SessionClosed
    assert connected() >> Heartbeat(tmstmp=1).encode() << dscond(8) << SessionClosed


def test_garbage_ends_the_connection() -> None:
    assert connected() >> bytes.fromhex("0480000000000000") << dscond(1) << SessionClosed


def test_silence_is_tested_and_then_ends_the_connection() -> None:
    assert (
        connected(hbtsec=10)
        >> Wait(9)
        >> Wait(1)
        << TestRequest(tmstmp=NOW + 10).encode()
        >> Wait(4)
        >> Heartbeat(tmstmp=1, connid=7).encode()
        >> Wait(10)
        << TestRequest(tmstmp=NOW + 24).encode()
        >> Wait(5)
        << dscond(6)
        << SessionClosed
    )
    assert connected(hbtsec=10, dialect="2017") >> Wait(1000)


def test_a_test_request_is_answered() -> None:
    beat = Heartbeat(tmstmp=NOW).encode()
    assert connected() >> TestRequest(tmstmp=5, connid=7).encode() << beat


def test_ids_of_transactions_are_checked() -> None:
    ok = response(0, result=1)
    assert (
        connected()
        >> request(cnid=8).encode()
        << response(200, cnid=8)
        << RequestRejected("TXRQST", (0, 0, 8, 1), BlazeCode.INVALID_TRANSACTION_ID)
        >> request().encode()
        << TransactionRequested
        >> request().encode()
        << response(202)
        << RequestRejected
        >> (lambda session, now: session.respond((0, 0, 7, 1), now))
        << ok
        >> request().encode()
        << response(201)
        << RequestRejected
    )
    zero = bytearray(request().encode())
    zero[20:24] = bytes(4)
    answer = bytearray(response(200))
    answer[20:24] = bytes(4)
    assert connected() >> bytes(zero) << bytes(answer) << RequestRejected


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ({"txactn": 6}, 5, "TXACTN 6"),
        ({"nclsid": 4242}, 5, "body: the model has no class 4242 (at byte 0)"),
        (
            {"body": b"\x63\0\0\0\1\0"},
            5,
            "body: LEN 99 runs past the end, 2 bytes are left (at byte 0)",
        ),
        ({"enctyp": 9}, 6, ""),
        ({"txtype": 2, "enctyp": None, "nclsid": None, "body": None}, 6, ""),
    ],
)
def test_a_request_that_is_not_good_is_refused(
    options: dict[str, Any], code: int, reason: str
) -> None:
    assert (
        connected()
        >> request(**options).encode()
        << response(code)
        << RequestRejected("TXRQST", (0, 0, 7, 1), BlazeCode(code), reason)
    )


def test_what_flies_when_a_rule_is_broken_has_no_answer() -> None:
    # The owner may be carrying it out, so nothing that could be said is known to be true.
    assert (
        connected()
        >> request().encode()
        << TransactionRequested
        >> bytes.fromhex("0480000000000000")
        << dscond(1)
        << TransactionAborted
        << SessionClosed
    )


def test_a_transaction_times_out_and_its_late_answer_is_dropped() -> None:
    book = (
        connected(transaction_timeout=5)
        >> request().encode()
        << TransactionRequested
        >> Wait(5)
        << response(203)
        << TransactionAborted((0, 0, 7, 1), BlazeCode.TRANSACTION_TIMEOUT)
        >> (lambda session, now: session.respond((0, 0, 7, 1), now))
    )
    assert book
    assert book.session.counts["late_answers"] == 1


def test_a_broker_that_goes_down_lets_transactions_end() -> None:
    assert (
        connected()
        >> request().encode()
        << TransactionRequested
        >> (lambda session, now: session.drain(now))
        >> request(2).encode()
        << response(206, 2)
        << RequestRejected
        >> (lambda session, now: session.respond((0, 0, 7, 1), now))
        << response(0, result=1)
        << dscond(4)
        << SessionClosed(DisconnectReason.SERVER_IS_GOING_DOWN, "us", "the server goes down")
    )
    assert (
        connected(drain_timeout=3)
        >> request().encode()
        << TransactionRequested
        >> (lambda session, now: session.drain(now))
        >> Wait(3)
        << response(206)
        << dscond(4)
        << TransactionAborted
        << SessionClosed
    )


def test_a_lost_connection_aborts_what_flies() -> None:
    assert (
        connected()
        >> request().encode()
        << TransactionRequested
        >> EOF
        << TransactionAborted((0, 0, 7, 1), BlazeCode.CLIENT_ABORTED)
        << SessionClosed
    )


def sbsreq(**options: Any) -> bytes:
    given: dict[str, Any] = {"sbstyp": 1, "sbsmod": 1, "flotyp": 1, "dwltyp": 1, "enctyp": 2}
    return SubscriptionRequest(nclsid=302, connid=7, rqstid=3, **(given | options)).encode()


def started(rows: list[Change], *, options: dict[str, Any], **asked: Any) -> Any:
    def start(session: ServerSession, now: float) -> None:
        session.start_subscription(3, now)
        for wanted in session.downloads_wanted():
            session.download(wanted.sbsrid, rows, True)

    ok = SubscriptionResponse(sbresl=1, rqstid=3, sbsrid=1).encode()
    book = connected(**options) >> sbsreq(**asked)
    return book << SubscriptionRequested >> start << ok


def downloading(since: Stamp = (0, 0), batch: int = 256) -> ServerSubscription:
    request = SubscriptionRequested(
        3,
        302,
        Encoding.INDEXNOTZERO,
        SubscriptionType.SNAPSHOT,
        SubscriptionMode.ALL,
        FlowType.ALL,
        DownloadType.PARTIAL if any(since) else DownloadType.ALL,
        since,
    )
    made = ServerSubscription(1, request, is_stored=True, batch=batch)
    made.start()
    if any(since):
        assert made.wants == (since, batch, since)
    return made


def event(sevtid: int, kind: int, item: Change | None = None, action: int = 2) -> bytes:
    if item is None:
        return SubscriptionEvent(sbsrid=1, sevttp=kind, sevtid=sevtid).encode()
    return SubscriptionEvent(
        sbsrid=1,
        sevttp=kind,
        sbeact=action,
        sevtid=sevtid,
        tmstmp0=item.stamp[0],
        tmstmp1=item.stamp[1],
        body=item.full(Encoding.INDEXNOTZERO),
    ).encode()


def ack(sevtid: int) -> bytes:
    return SubscriptionAck(sbsrid=1, sevtid=sevtid).encode()


def publish(*items: Change) -> Any:
    return lambda session, now: [e for item in items for e in session.publish(item, now)]


def test_changes_during_a_download_follow_it_once() -> None:
    first, second, third = change(1, 1, 10), change(2, 2, 11), change(1, 5, 12)
    assert (
        started([first, second], options={})
        << event(1, 2, first)
        >> publish(second, third)
        >> ack(1)
        << event(2, 2, second)
        >> ack(2)
        << event(3, 3)
        >> ack(3)
        << event(4, 1, third)
        >> ack(99)
        >> SubscriptionStop(sbsrid=1).encode()
        << SubscriptionStopResponse(sbresl=1, sbsrid=1).encode()
        << SubscriptionEnded(1, "client")
        >> SubscriptionStop(sbsrid=1).encode()
        << SubscriptionStopResponse(sbresl=3, blzcod=401, sbsrid=1).encode()
    )


def test_a_past_subscription_ends_with_stop() -> None:
    first = change(1, 1, 10)
    assert (
        started([first], options={"window": 2}, sbsmod=2)
        << event(1, 2, first)
        << event(2, 3)
        >> publish(change(1, 2, 20))
        >> ack(1)
        << SubscriptionEvent(sbsrid=1, sevttp=4, sevtid=3, tmstmp0=1000).encode()
        >> Wait(0)
        << SubscriptionEnded(1, "server")
    )


def test_last_replaces_what_waits_and_stamps_go_up() -> None:
    items = [change(1, 1, 1), change(2, 1, 2), change(3, 1, 3), change(2, 2, 4)]
    assert (
        started([], options={}, sbsmod=3, flotyp=2)
        >> publish(*items)
        << event(1, 1, items[0])
        >> ack(1)
        << event(2, 1, items[2])
        >> ack(2)
        << event(3, 1, items[3])
    )


def test_last_replaces_what_is_next_too() -> None:
    items = [change(1, 1, 1), *(change(2, x, x + 1) for x in range(1, 5))]
    assert (
        started([], options={}, sbsmod=3, flotyp=2)
        >> publish(items[0])
        << event(1, 1, items[0])
        >> publish(*items[1:])
        >> ack(1)
        << event(2, 1, items[-1])
        >> ack(2)
    )


def test_under_last_what_changes_all_the_time_is_sent_in_the_end() -> None:
    queue = LiveQueue(is_conflated=True)
    queue.put(change(1, 1, 1))
    sent = []
    for seconds in range(2, 2000, 2):
        queue.put(change(seconds, 1, seconds))
        queue.put(change(1, seconds, seconds + 1))
        sent.append(queue.take().stamp[0])
    assert sent == sorted(sent)
    assert any(seconds % 2 for seconds in sent)  # those of the object 1
    assert len(queue) < 1000


def test_a_position_ahead_of_the_class_hides_no_change() -> None:
    subscription = downloading(since=(500, 0))
    early, later = change(1, 1, 100), change(2, 1, 101)
    assert subscription.add_change(early)  # it may have been committed meanwhile
    assert subscription.add_rows([], True, last=(99, 0))
    assert subscription.add_change(later)
    kinds = [subscription.next() for _ in range(3)]
    assert [(e.kind, e.stamp) for e in kinds if e is not None] == [
        (EventType.DWNLEND, (0, 0)),
        (EventType.DATALIVE, early.stamp),
        (EventType.DATALIVE, later.stamp),
    ]


def test_what_a_position_covers_is_not_told_again() -> None:
    subscription = downloading(since=(500, 0))
    assert subscription.add_change(change(1, 1, 500))  # another broker has told of it
    assert subscription.add_rows([], True, last=(500, 0))
    assert not subscription.add_change(change(1, 1, 500))
    assert subscription.add_change(change(1, 2, 501))
    kinds = [subscription.next() for _ in range(2)]
    assert [e and e.stamp for e in kinds] == [(0, 0), (501, 0)]
    assert subscription.next() is None


def test_a_download_from_the_start_tells_of_what_is_deleted_from_then_on() -> None:
    subscription = downloading(batch=2)
    assert subscription.wants == ((0, 0), 2, None)
    assert subscription.add_rows([change(1, 1, 1), change(2, 1, 2)], False, last=(7, 3))
    subscription.next()
    assert subscription.wants == ((2, 0), 2, (7, 3))


@pytest.mark.parametrize(("forgotten", "is_lost"), [(4, False), (5, False), (6, True)])
def test_who_was_away_for_too_long_gets_everything_behind_a_reset(
    forgotten: int, is_lost: bool
) -> None:
    kept = change(3, 1, 9)
    stamps = {"last": (9, 0), "forgotten": (forgotten, 0)}

    def start(session: ServerSession, now: float) -> None:
        session.start_subscription(3, now)
        for wanted in session.downloads_wanted():
            assert (wanted.after, wanted.deleted_after) == ((5, 0), (5, 0))
            session.download(wanted.sbsrid, [kept], True, **stamps)
        for wanted in session.downloads_wanted():
            assert is_lost
            assert (wanted.after, wanted.deleted_after) == ((0, 0), None)
            session.download(wanted.sbsrid, [kept], True, **stamps)

    ok = SubscriptionResponse(sbresl=1, rqstid=3, sbsrid=1).encode()
    asked = sbsreq(dwltyp=2, tmstmp0=5, tmstmp1=0)
    book = connected(window=9) >> asked << SubscriptionRequested >> start << ok
    if is_lost:
        reset = SubscriptionEvent(sbsrid=1, sevttp=2, sbeact=5, sevtid=1, body=bytes(4)).encode()
        assert book << reset << event(2, 2, kept) << event(3, 3)
    else:
        assert book << event(1, 2, kept) << event(2, 3)


def test_a_change_that_is_told_twice_is_sent_once() -> None:
    first = change(1, 1, 10)
    live = started([], options={"window": 5}, sbsmod=3)
    assert live >> publish(first, first) << event(1, 1, first) >> publish(first)


def test_without_acks_2019_gets_everything_at_once() -> None:
    first, second = change(1, 1, 10), change(1, 2, 11)
    assert (
        started([first], options={"dialect": "2019"}, enctyp=1)
        << event(1, 2, first)
        >> publish(second)
        << event(2, 1, second)
    )


def test_a_full_queue_stops_the_subscription() -> None:
    items = [change(n, 1, n) for n in range(1, 5)]
    stop = SubscriptionEvent(sbsrid=1, sevttp=4, blzcod=3, sevtid=1, tmstmp0=NOW).encode()
    assert (
        started([], options={"max_queue": 3}, sbsmod=3)
        >> publish(*items)
        << stop
        << SubscriptionEnded(1, "server", BlazeCode.SERVER_ERROR)
    )


def test_requests_for_subscriptions_are_checked() -> None:
    def refused(code: int) -> bytes:
        return SubscriptionResponse(sbresl=3, blzcod=code, rqstid=3).encode()

    assert connected() >> sbsreq(enctyp=3) << refused(6) << RequestRejected
    other = sbsreq().replace(b"\0\1\x2e", b"\0\1\x2f")
    assert connected() >> other << refused(6) << RequestRejected
    live = started([], options={}, sbsmod=3) >> sbsreq() << refused(400) << RequestRejected
    assert live


def test_ids_of_zero_belong_to_no_subscription() -> None:
    live = started([], options={}, sbsmod=3)
    for ids in (b"\0\0\0\0\0\0\0\1", b"\0\0\0\1\0\0\0\0", bytes(8)):
        live = live >> b"\x04\xcb\0\0" + ids
    live = live >> b"\x04\x8c\0\0" + bytes(4) << b"\x04\xcd\0\0\x60\0\x01\x91" + bytes(4)
    assert live
    assert live.session.counts["unknown_acks"] == 3


def client(**options: Any) -> Playbook[ClientSession]:
    settings = ClientSettings(model=MODEL, heartbeat=10, **options)
    return (
        Playbook(lambda: ClientSession(settings))
        >> (lambda session, now: session.connect(now))
        << ConnectionRequest(hbtsec=10).encode()
        >> ConnectionResponse(conres=1, agrhbt=10, connid=7).encode()
        << Connected(7, 10)
    )


def test_a_client_fills_silence_and_answers_tests() -> None:
    beat = Heartbeat(tmstmp=NOW + 6, connid=7).encode()
    assert client() >> Wait(6) << beat >> TestRequest(tmstmp=1).encode() << beat


def test_a_client_ends_transactions_by_itself() -> None:
    def insert(session: ClientSession, now: float) -> None:
        session.transact(Action.INS, truck(9), now)

    sent = request(txplid=1, txsvid=1).encode()
    txid = (1, 1, 7, 1)
    lost = TransactionFinished(txid, False, BlazeCode.TRANSACTION_LOST, True)
    assert client() >> insert << sent >> EOF << lost << SessionClosed
    late = TransactionFinished(txid, False, BlazeCode.TRANSACTION_TIMEOUT, True)
    assert client(request_timeout=2) >> insert << sent >> Wait(2) << late
    assert (
        client()
        >> insert
        << sent
        >> (lambda session, now: session.cancel(txid, now))
        << TransactionFinished(txid, False, BlazeCode.CLIENT_ABORTED, True)
    )


def subscribed(**options: Any) -> Any:
    return (
        client(**options)
        >> (lambda session, now: void(session.subscribe(302, now)))
        << sbsreq().replace(b"\0\0\0\3", b"\0\0\0\1")
        >> SubscriptionResponse(sbresl=1, rqstid=1, sbsrid=1).encode()
        << SubscriptionStarted(1, 1)
    )


def void(_: object) -> None:
    return None


def test_a_client_acknowledges_events_and_knows_where_to_resume() -> None:
    first = change(1, 1, 10)
    book = subscribed() >> event(5, 2, first) << ack(5) << ObjectReceived
    assert book
    assert book.session.position(1) == (10, 0)
    assert book >> event(6, 3) << ack(6) << DownloadEnded(1, 6)


def test_a_client_drops_events_after_its_stop() -> None:
    book = (
        subscribed()
        >> (lambda session, now: session.unsubscribe(1, now))
        << SubscriptionStop(sbsrid=1).encode()
        >> event(5, 1, change(1, 1, 10))
        >> SubscriptionStopResponse(sbresl=1).encode()
        << SubscriptionEnded(1, "client")
    )
    assert book
    assert book.session.counts["dropped_events"] == 1


def test_a_subscription_given_up_early_is_stopped_when_it_starts() -> None:
    assert (
        client()
        >> (lambda session, now: void(session.subscribe(302, now)))
        << sbsreq().replace(b"\0\0\0\3", b"\0\0\0\1")
        >> (lambda session, now: session.unsubscribe(1, now))
        >> SubscriptionResponse(sbresl=1, rqstid=1, sbsrid=1).encode()
        << SubscriptionStop(sbsrid=1).encode()
        >> SubscriptionStopResponse(sbresl=1, sbsrid=1).encode()
        << SubscriptionEnded(1, "client")
    )


def test_an_incremental_subscriber_gets_deltas_of_what_it_holds() -> None:
    delta = new_value(MODEL, "TRUCK", {"truck_id": 1, "x": 0}, Encoding.INDEXDELTA)
    first = change(1, 1, 10)
    second = Change.of(Action.DLT, truck(1, 0), (11, 0), delta=delta)
    sent = SubscriptionEvent(
        sbsrid=1, sevttp=1, sbeact=3, sevtid=2, tmstmp0=11, body=second.bodies[Encoding.INDEXDELTA]
    ).encode()
    live: dict[str, Any] = {"sbsmod": 3, "sbstyp": 2, "enctyp": 3}
    assert (
        started([], options={}, **live)
        >> publish(first)
        << event(1, 1, first)
        >> publish(second)
        >> ack(1)
        << sent
    )
    assert started([], options={}, **live) >> publish(second) << event(1, 1, second)


def test_the_diagrams_in_the_specification_are_those_of_the_tables() -> None:
    text = Path(blaze_format.__file__).with_name("SPEC.md").read_text("utf-8")
    pattern = r"<!-- diagram: (\w+) -->\n\n```text\n(.*?)\n```\n"
    drawn = dict(re.findall(pattern, text, re.DOTALL))
    assert drawn == {name: table.diagram() for name, table in TABLES.items()}


class Pair:
    """A client and a broker with a store of one class; the line between them may break."""

    def __init__(self, window: int, flow: FlowType) -> None:
        self.now = 0.0
        self.store: dict[int, Change] = {}
        self.seen: dict[int, int] = {}
        self.stamps: list[tuple[int, int]] = []
        self.stamp = 0
        self.position: tuple[int, int] | None = None
        self.settings = ServerSettings(model=MODEL, window=window, download_batch=2)
        self.flow = flow
        self.finished: list[Any] = []
        self.sent: list[Any] = []
        self.connect()

    def connect(self) -> None:
        self.client = ClientSession(ClientSettings(model=MODEL))
        self.server = ServerSession(self.settings, self.now)
        self.to_client = self.to_server = b""
        self.rqstid = 0
        self.client.connect(self.now)

    def change(self, number: int) -> None:
        self.stamp += 1
        item = change(number, self.stamp, self.stamp)
        self.store[number] = item
        self.of_server(self.server.publish(item, self.now))

    def insert(self, number: int) -> None:
        if self.client.state.name == "CONNECTED":
            self.sent.append((self.client.connid, self.client.transact(2, truck(number), self.now)))

    def lose(self) -> None:
        self.of_client(self.client.receive(b"", self.now))
        self.server.receive(b"", self.now)
        self.connect()

    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.of_client(self.client.handle_timeout(self.now))
        self.server.handle_timeout(self.now)
        if self.client.is_closed or self.server.is_closed:
            self.lose()

    def move(self, size: int) -> bool:
        self.to_server += self.client.data_to_send()
        self.to_client += self.server.data_to_send()
        data, self.to_server = self.to_server[:size], self.to_server[size:]
        back, self.to_client = self.to_client[:size], self.to_client[size:]
        if data:
            self.of_server(self.server.receive(data, self.now))
        for wanted in self.server.downloads_wanted():
            rows = sorted(self.store.values(), key=lambda row: row.stamp)
            rows = [row for row in rows if row.stamp > wanted.after]
            is_last = len(rows) <= wanted.count
            self.server.download(wanted.sbsrid, rows[: wanted.count], is_last)
        if back:
            self.of_client(self.client.receive(back, self.now))
        return bool(data or back)

    def of_server(self, events: list[Any]) -> None:
        for event in events:
            assert not isinstance(event, SessionClosed), event
            if isinstance(event, ConnectionRequested):
                self.server.accept(7, self.now)
            elif isinstance(event, SubscriptionRequested):
                self.server.start_subscription(event.rqstid, self.now)
            elif isinstance(event, TransactionRequested):
                self.of_server(self.server.respond(event.txid, self.now))

    def of_client(self, events: list[Any]) -> None:
        for event in events:
            is_refused = isinstance(event, SubscriptionRefused) and not self.client.is_closed
            if isinstance(event, Connected) or is_refused:
                self.rqstid = self.client.subscribe(
                    302, self.now, flow=self.flow, since=self.position
                )
            elif isinstance(event, ObjectReceived):
                assert event.nclass is not None
                self.seen[int(event.nclass["truck_id"])] = int(event.nclass["x"])
                self.stamps.append(event.stamp)
                self.position = self.client.position(event.rqstid)
            elif isinstance(event, TransactionFinished):
                self.finished.append(event.txid)

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.move(1 << 16) and not self.move(1 << 16):
                return
        raise AssertionError("they never come to rest")


STEPS = st.one_of(
    st.tuples(st.just("change"), st.integers(1, 4)),
    st.tuples(st.just("insert"), st.integers(1, 4)),
    st.tuples(st.just("move"), st.integers(1, 200)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("lose"), st.just(0)),
)


@given(st.lists(STEPS, max_size=60), st.sampled_from([1, 2, 5]), st.sampled_from(list(FlowType)))
def test_nothing_is_lost_or_doubled_on_a_line_that_breaks(
    steps: list[tuple[str, int]], window: int, flow: FlowType
) -> None:
    pair = Pair(window, flow)
    for name, number in steps:
        if name == "lose":
            pair.lose()
        else:
            getattr(pair, name)(number)
    pair.settle()
    assert pair.seen == {number: item.stamp[0] for number, item in pair.store.items()}
    assert pair.stamps == sorted(set(pair.stamps))  # each change once, in order
    assert len(pair.finished) == len(pair.sent)  # every transaction has an end, and one only
