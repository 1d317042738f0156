"""Every behaviour of a broker that the protocol's facts name, over real sockets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from oracles.blaze_peers import MODEL, Raw, live, ping, serving, settings, truck, until
from oracles.memory_store import MemoryStore

from wireloom.errors import OptionError
from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    BlazePacket,
    ConnectionRequest,
    ConnectionResponse,
    Disconnected,
    Encoding,
    EventType,
    Heartbeat,
    SubscriptionEvent,
    SubscriptionResponse,
    SubscriptionStop,
    SubscriptionStopResponse,
    TestRequest,
    TransactionResponse,
    decode_nclass,
    encode_nclass,
    header_fields,
)
from wireloom.formats.blaze.dialects import Action2017
from wireloom.services.blaze.store.api import StoreSettings

DOWNLOAD, LIVE, END, STOP = (
    EventType.DATADWNL,
    EventType.DATALIVE,
    EventType.DWNLEND,
    EventType.STOP,
)


def object_in(event: Any, encoding: Encoding = Encoding.INDEXNOTZERO) -> Any:
    return decode_nclass(MODEL, "TRUCK", event.body, encoding, first_index=1)


# -- connection


@dataclass
class Greeting:
    """What is sent first, and what comes back before the broker closes."""

    name: str
    sent: list[BlazePacket | bytes]
    answers: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)


CONREQ = ConnectionRequest(hbtsec=0)
GREETINGS = [
    Greeting("an older version", [ConnectionRequest(prover=63)], [{"conres": 3, "errcod": 6}]),
    Greeting("a newer version", [ConnectionRequest(prover=2)], [{"conres": 3, "errcod": 6}]),
    Greeting("a heartbeat first", [Heartbeat(tmstmp=1, connid=1)], [{"disres": 8}]),
    Greeting("a subscription stop first", [SubscriptionStop(sbsrid=1)], [{"disres": 8}]),
    Greeting("a packet of a server", [ConnectionResponse(conres=3, errcod=1)], [{"disres": 8}]),
    Greeting("bytes that are none", [b"GET / HTTP/1.1\r\n\r\n"], [{"disres": 8}]),
    Greeting("a goodbye", [Disconnected(disres=7, connid=1)], []),
    Greeting("nothing", [], [], {"protocol": {"handshake_s": 0.1}, "program": {"drain_s": 1.0}}),
    Greeting("half a header", [b"\x04"], [], {"protocol": {"handshake_s": 0.1}}),
    Greeting(
        "too many",
        [CONREQ],
        [{"conres": 3, "errcod": 5}],
        {"limits": {"max_connections": 0}},
    ),
]


@pytest.mark.parametrize("case", GREETINGS, ids=lambda case: case.name)
@live
async def test_who_is_not_let_in_is_told_why_and_gone(case: Greeting) -> None:
    async with serving(settings(**case.settings)) as broker:
        async with await Raw.open(broker) as raw:
            raw.send(*case.sent)
            for answer in case.answers:
                found = await raw.packet()
                for name, value in answer.items():
                    assert getattr(found, name) == value
            await raw.ended()
        assert not broker.members


@live
async def test_a_client_is_let_in_with_its_heartbeat_or_the_nearest_one() -> None:
    limits = {"heartbeat_min": 5, "heartbeat_max": 60, "heartbeat_required": True}
    async with serving(settings(protocol=limits)) as broker:
        for wanted, result, code, agreed in ((30, 1, 0, 30), (1, 2, 8, 5), (0, 2, 8, 60)):
            async with await Raw.open(broker) as raw:
                raw.send(ConnectionRequest(hbtsec=wanted))
                await raw.expect(ConnectionResponse, conres=result, errcod=code, agrhbt=agreed)


@live
async def test_the_end_of_a_subscription_that_is_told_late_leaves_the_next_one_alone() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        (peer,) = broker.sessions
        first, second = (raw.subscription(303, sbsmod=3) for _ in range(2))
        # In one turn of the event loop: timers, which tell of the end, have not run.
        peer.received(first.encode() + SubscriptionStop(sbsrid=1).encode())
        peer.received(second.encode())
        await raw.expect(SubscriptionResponse, sbresl=1, sbsrid=1)
        await raw.expect(SubscriptionStopResponse, sbresl=1, sbsrid=1)
        await raw.expect(SubscriptionResponse, sbresl=1, sbsrid=2)
        await raw.ask(value=ping(1))
        await raw.event(sbsrid=2)


@live
async def test_a_second_connection_request_is_refused_and_ends_the_session() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        raw.send(CONREQ)
        await raw.expect(ConnectionResponse, conres=3, errcod=7)
        await raw.ended()


WRONG = [
    ("another CONNID", lambda raw: Heartbeat(tmstmp=1, connid=raw.connid + 1), 8),
    ("a heartbeat without CONNID", lambda raw: Heartbeat(tmstmp=1), 8),
    ("another version", lambda raw: Heartbeat(tmstmp=1, connid=raw.connid, prover=2), 8),
    ("a packet for clients", lambda raw: SubscriptionEvent(sbsrid=1, sevttp=3, sevtid=1), 8),
    ("bytes that are no packet", lambda raw: b"\xff" * 64, 1),
    ("a length of 4 GiB", lambda raw: bytes.fromhex("02910000") + b"\xff" * 32, 1),
    ("RQSTID 0", lambda raw: _with_zero(raw.subscription().encode(), 16), 1),
]


def _with_zero(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(4) + data[at + 4 :]


@pytest.mark.parametrize(("name", "make", "reason"), WRONG, ids=[name for name, _, _ in WRONG])
@live
async def test_a_rule_that_is_broken_ends_the_connection(name: str, make: Any, reason: int) -> None:
    async with serving() as broker, await Raw.connect(broker) as other:
        async with await Raw.connect(broker) as raw:
            raw.send(make(raw))
            await raw.expect(Disconnected, disres=reason)
            await raw.ended()
        assert (await other.ask()).txresl == 1


@live
async def test_a_limit_of_connections_lets_in_the_next_when_one_leaves() -> None:
    async with serving(settings(limits={"max_connections": 1})) as broker:
        async with await Raw.connect(broker) as first:
            async with await Raw.open(broker) as second:
                second.send(CONREQ)
                await second.expect(ConnectionResponse, conres=3, errcod=5)
            first.send(Disconnected(disres=7, connid=first.connid))
            await first.ended()
        async with await Raw.connect(broker) as third:
            assert third.connid > first.connid


@pytest.mark.slow
@live
async def test_silence_costs_the_connection_and_a_test_request_is_answered() -> None:
    async with serving() as broker, await Raw.connect(broker, hbtsec=1) as raw:
        raw.send(TestRequest(tmstmp=1, connid=raw.connid))
        await raw.expect(Heartbeat, connid=None)
        await raw.expect(TestRequest)
        raw.send(Heartbeat(tmstmp=2, connid=raw.connid))
        await raw.expect(TestRequest)
        await raw.expect(Disconnected, disres=6)
        await raw.ended()


@live
async def test_a_silent_client_without_a_heartbeat_is_asked_for_one() -> None:
    async with (
        serving(settings(protocol={"idle_s": 0.1})) as broker,
        await Raw.connect(broker) as raw,
    ):
        await raw.expect(TestRequest)
        raw.send(Heartbeat(tmstmp=1, connid=raw.connid))
        await raw.expect(TestRequest)


# -- transactions


@live
async def test_actions_do_what_they_say_and_the_result_is_the_image() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        for action, fields, code in (
            (Action.UPD, {"x": 1}, 4),
            (Action.INS, {"x": 2, "name": "a"}, 0),
            (Action.INS, {"x": 2}, 4),
            (Action.UPD, {"x": 3}, 0),
            (Action.DLT, {"x": 4, "name": "b"}, 0),
            (Action.DEL, {}, 0),
            (Action.DEL, {}, 4),
            (Action.INS, {"x": 5}, 0),
            (Action.RST, {}, 0),
            (Action.DEL, {}, 4),
        ):
            encoding = Encoding.INDEXDELTA if action is Action.DLT else Encoding.INDEXNOTZERO
            body = encode_nclass(truck(1, **fields), encoding, first_index=1)
            answer = await raw.ask(action, truck(1), enctyp=encoding, body=body, rsclrq=1)
            assert (answer.txresl, answer.blzcod) == ((2, code) if code else (1, 0)), action
            assert (answer.body is not None) == (not code and action < Action.DEL), action
            if action is Action.DLT:
                assert object_in(answer) == truck(1, x=4, name="b")


REFUSED = [
    ("TXCNID of another", {"txcnid": 99}, 200),
    ("zero TXPRID", "zero", 200),
    ("an action that is none", {"txactn": 6}, 5),
    ("a type without a handler", {"txtype": 2, "enctyp": None, "nclsid": None, "body": None}, 6),
    ("a class that is none", {"nclsid": 4242}, 5),
    ("a body that is none", {"body": b"\x63\0\0\0\1\0"}, 5),
    ("an encoding that is none", {"enctyp": 9}, 6),
    ("a string that is too long", {"body": bytes.fromhex("1700000002001100000078") + b"x" * 16}, 5),
    (
        "an element behind the last",
        {"body": bytes.fromhex("0c00000004000600000004000100000000")},
        5,
    ),
]


@pytest.mark.parametrize(("name", "fields", "code"), REFUSED, ids=[each[0] for each in REFUSED])
@live
async def test_what_cannot_be_done_is_refused_and_the_connection_goes_on(
    name: str, fields: Any, code: int
) -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        if fields == "zero":
            raw.send(_with_zero(raw.request(prid=1).encode(), 20))
            answer = await raw.frame()  # it repeats the id, which the codec does not take
            assert answer is not None
            assert header_fields(answer)["blzcod"] == code
        else:
            raw.send(raw.request(prid=1, **fields))
            await raw.expect(TransactionResponse, txresl=2, blzcod=code)
        assert (await raw.ask(prid=2)).txresl == 1


@live
async def test_whether_the_store_is_up_is_known_within_seconds() -> None:
    store = MemoryStore(MODEL)
    async with serving(store=store) as broker:
        assert broker.is_ready
        store.is_up = False
        async with asyncio.timeout(8):
            await until(lambda: not broker.is_ready)
        store.is_up = True
        async with asyncio.timeout(8):
            await until(lambda: broker.is_ready)


@live
async def test_a_program_ends_subscriptions_with_the_reason() -> None:
    async with (
        serving() as broker,
        await Raw.connect(broker) as first,
        await Raw.connect(broker) as second,
    ):
        for raw in (first, second):
            await raw.subscribe(303, sbsmod=3)
        stop = broker.stop_subscriptions
        assert stop("PING", BlazeCode.UNAUTHORIZED, connid=first.connid) == 1
        await first.event(sevttp=STOP, blzcod=10)
        assert (await first.subscribe(303, sbsmod=3)).sbresl == 1
        assert stop(303) == 2
        for raw in (first, second):
            await raw.event(sevttp=STOP, blzcod=0)
        assert stop("PING") == stop("TRUCK") == 0
        with pytest.raises(OptionError, match="no class 'CAR'"):
            stop("CAR")


@live
async def test_ids_that_fly_or_were_answered_are_refused_and_the_first_is_untouched() -> None:
    store = MemoryStore(MODEL)
    async with serving(store=store) as broker, await Raw.connect(broker) as raw:
        store.is_held = True
        raw.send(raw.request(prid=5), raw.request(prid=5, value=truck(2)))
        await raw.expect(TransactionResponse, txprid=5, blzcod=202)
        store.release()
        await raw.expect(TransactionResponse, txprid=5, txresl=1)
        assert (await raw.ask(prid=5)).blzcod == 201
        assert [*store.images[302]] == [(1,)]


@live
async def test_an_id_with_zeros_is_taken_unless_ids_are_strict() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        assert (await raw.ask(txplid=0, txsvid=0)).txresl == 1
    async with (
        serving(settings(transactions={"strict_ids": True})) as broker,
        await Raw.connect(broker) as raw,
    ):
        assert (await raw.ask(txplid=0)).blzcod == 200


@live
async def test_a_transaction_that_takes_too_long_fails_and_its_late_answer_is_dropped() -> None:
    store = MemoryStore(MODEL)
    given = settings(transactions={"timeout_s": 0.1})
    async with serving(given, store=store) as broker, await Raw.connect(broker) as raw:
        store.is_held = True
        assert (await raw.ask()).blzcod == 203
        store.release()
        await raw.silent()
        assert broker.metrics.all_oddities()["late_answers"] == 1


@live
async def test_a_flood_of_transactions_is_held_back_and_all_are_answered() -> None:
    store = MemoryStore(MODEL, settings=StoreSettings(max_pending=256))
    given = settings(transactions={"held_flying": 32})
    async with serving(given, store=store) as broker, await Raw.connect(broker) as raw:
        for number in range(1, 3001):
            raw.send(raw.request(value=truck(number)))
            if number % 100 == 0:
                await raw.writer.drain()
                await asyncio.sleep(0)
        codes = [(await raw.expect(TransactionResponse)).blzcod for _ in range(3000)]
        assert set(codes) <= {0, 3}
        assert codes.count(0) == len(store.images[302]) > 0
        assert sum(broker.metrics.held_reads.values())


# -- subscriptions


@live
async def test_all_is_stored_objects_the_end_of_the_download_then_changes() -> None:
    async with serving() as broker, await Raw.connect(broker) as writer:
        for number in (3, 1, 2):
            await writer.ask(value=truck(number))
        async with await Raw.connect(broker) as reader:
            assert (await reader.subscribe()).sbresl == 1
            stored = [await reader.event(sevttp=DOWNLOAD, sbeact=Action.INS) for _ in range(3)]
            assert [object_in(event)["truck_id"] for event in stored] == [3, 1, 2]
            stamps = [(event.tmstmp0, event.tmstmp1) for event in stored]
            assert stamps == sorted(set(stamps))
            await reader.event(sevttp=END, sbeact=0, tmstmp0=0)
            await writer.ask(Action.UPD, truck(1, x=9))
            event = await reader.event(sevttp=LIVE, sbeact=Action.UPD)
            assert object_in(event) == truck(1, x=9)
            await writer.ask(Action.DEL, truck(1))
            await reader.event(sevttp=LIVE, sbeact=Action.DEL)


@live
async def test_past_ends_after_the_download_and_live_has_none() -> None:
    async with serving() as broker, await Raw.connect(broker) as writer:
        await writer.ask()
        async with await Raw.connect(broker) as past, await Raw.connect(broker) as now:
            await past.subscribe(sbsmod=2)
            await now.subscribe(sbsmod=3)
            await past.event(sevttp=DOWNLOAD)
            await past.event(sevttp=END)
            await past.event(sevttp=STOP, blzcod=0)
            await now.silent(0.05)
            await writer.ask(Action.UPD)
            await now.event(sevttp=LIVE)
            await past.silent(0.05)
            assert (await past.subscribe()).sbresl == 1  # it is free again


@live
async def test_a_partial_download_is_what_is_newer_deletes_too() -> None:
    async with serving() as broker, await Raw.connect(broker) as writer:
        for number in (1, 2, 3):
            await writer.ask(value=truck(number))
        async with await Raw.connect(broker) as reader:
            await reader.subscribe(sbsmod=2)
            first = await reader.event(sevttp=DOWNLOAD)
        await writer.ask(Action.DEL, truck(2))
        async with await Raw.connect(broker) as reader:
            await reader.subscribe(dwltyp=2, tmstmp0=first.tmstmp0, tmstmp1=first.tmstmp1)
            found = [await reader.event() for _ in range(3)]
            assert [(event.sevttp, event.sbeact) for event in found] == [
                (DOWNLOAD, Action.INS),
                (DOWNLOAD, Action.DEL),
                (END, 0),
            ]


@live
async def test_a_class_that_is_not_stored_is_partial_and_its_download_ends_at_once() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        assert (await raw.subscribe(303)).sbresl == 2
        await raw.event(sevttp=END)
        raw.send(raw.request(value=ping(7)))
        found = {type(await raw.packet()).__name__ for _ in range(2)}
        assert found == {"SubscriptionEvent", "TransactionResponse"}


NOT_SUBSCRIBED = [
    ("a class that is none", {"nclsid": 999}, 6),
    ("a delta of a snapshot", {"enctyp": Encoding.INDEXDELTA}, 6),
    ("an encoding that is none", {"enctyp": 9}, 6),
    ("a mode that is none", {"sbsmod": 7}, 5),
    ("twice", {}, 400),
]


@pytest.mark.parametrize(
    ("name", "fields", "code"), NOT_SUBSCRIBED, ids=[each[0] for each in NOT_SUBSCRIBED]
)
@live
async def test_what_cannot_be_subscribed_is_refused_and_uses_an_id_up(
    name: str, fields: Any, code: int
) -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        if name == "twice":
            await raw.subscribe(sbsmod=3)
        answer = await raw.subscribe(**fields)
        assert (answer.sbresl, answer.blzcod, answer.sbsrid) == (3, code, None)
        assert (await raw.subscribe(303)).sbsrid == (3 if name == "twice" else 2)


@live
async def test_a_stop_is_answered_and_an_unknown_one_refused() -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        answer = await raw.subscribe(sbsmod=3)
        raw.send(SubscriptionStop(sbsrid=answer.sbsrid or 0), SubscriptionStop(sbsrid=77))
        await raw.expect(SubscriptionStopResponse, sbresl=1, sbsrid=answer.sbsrid)
        await raw.expect(SubscriptionStopResponse, sbresl=3, blzcod=401, sbsrid=77)
        assert (await raw.ask()).txresl == 1
        await raw.silent(0.05)
        assert not broker.fanout.counts()


@live
async def test_as_many_events_as_the_window_allows_are_without_acknowledgement() -> None:
    given = settings(subscriptions={"window": 3, "cumulative_acks": True})
    async with (
        serving(given) as broker,
        await Raw.connect(broker) as writer,
        await Raw.connect(broker) as reader,
    ):
        await reader.subscribe(sbsmod=3)
        for number in range(1, 8):
            await writer.ask(value=truck(number))
        events = [await reader.expect(SubscriptionEvent) for _ in range(3)]
        await reader.silent(0.05)
        reader.ack(events[2])
        events = [await reader.expect(SubscriptionEvent) for _ in range(3)]
        await reader.silent(0.05)
        reader.ack(events[0])
        await reader.expect(SubscriptionEvent)
        reader.ack(events[0])  # again: ignored and counted
        await reader.silent(0.05)
        assert broker.metrics.all_oddities()["unknown_acks"] == 1


@live
async def test_by_default_one_event_waits_for_its_acknowledgement() -> None:
    async with (
        serving() as broker,
        await Raw.connect(broker) as writer,
        await Raw.connect(broker) as reader,
    ):
        await reader.subscribe(sbsmod=3)
        for number in (1, 2):
            await writer.ask(value=truck(number))
        event = await reader.expect(SubscriptionEvent)
        await reader.silent(0.05)
        reader.ack(event)
        await reader.event()


@live
async def test_under_last_a_newer_change_replaces_the_one_that_waits() -> None:
    async with (
        serving() as broker,
        await Raw.connect(broker) as writer,
        await Raw.connect(broker) as reader,
    ):
        await reader.subscribe(sbsmod=3, flotyp=2)
        await writer.ask(value=truck(1))
        first = await reader.expect(SubscriptionEvent)
        for x in range(1, 6):
            await writer.ask(Action.UPD, truck(1, x=x))
        reader.ack(first)
        assert object_in(await reader.event()).get("x") == 5  # only the last is left (SPEC §8.4)
        await reader.silent(0.05)


@live
async def test_a_delta_goes_to_who_holds_the_object_and_wants_deltas() -> None:
    async with serving() as broker, await Raw.connect(broker) as writer:
        await writer.ask(value=truck(1, x=1, name="a"))
        async with await Raw.connect(broker) as deltas, await Raw.connect(broker) as images:
            await deltas.subscribe(sbstyp=2, enctyp=Encoding.INDEXDELTA)
            await images.subscribe(enctyp=Encoding.ALL)
            for reader in (deltas, images):
                await reader.event(sevttp=DOWNLOAD)
                await reader.event(sevttp=END)
            body = encode_nclass(truck(1, x=2), Encoding.INDEXDELTA, first_index=1)
            await writer.ask(Action.DLT, enctyp=Encoding.INDEXDELTA, body=body)
            delta = await deltas.event(sevttp=LIVE, sbeact=Action.DLT)
            assert object_in(delta, Encoding.INDEXDELTA).get("x") == 2
            image = await images.event(sevttp=LIVE, sbeact=Action.UPD)
            whole = object_in(image, Encoding.ALL)
            assert (whole["x"], whole["name"]) == (2, "a")


@live
async def test_all_subscribers_get_the_same_event_with_the_same_id() -> None:
    given = settings(subscriptions={"window": 100})
    async with serving(given) as broker, await Raw.connect(broker) as writer:
        readers = [await Raw.connect(broker) for _ in range(5)]
        for reader in readers:
            await reader.subscribe(sbsmod=3)
        for number in range(1, 11):
            await writer.ask(value=truck(number))
        seen = [[(await reader.event()).encode() for _ in range(10)] for reader in readers]
        assert all(events == seen[0] for events in seen)
        for reader in readers:
            reader.close()


@live
async def test_a_subscriber_that_is_too_slow_is_stopped_or_conflated_and_no_other_notices() -> None:
    for overflow in ("stop", "conflate"):
        given = settings(subscriptions={"max_queue": 10, "overflow": overflow})
        async with (
            serving(given) as broker,
            await Raw.connect(broker) as writer,
            await Raw.connect(broker) as slow,
            await Raw.connect(broker) as quick,
        ):
            await slow.subscribe(sbsmod=3)
            await quick.subscribe(sbsmod=3)
            await writer.ask(value=truck(1))
            first = await slow.expect(SubscriptionEvent)
            await quick.event()
            for x in range(1, 21):
                await writer.ask(Action.UPD, truck(1, x=x))
                assert object_in(await quick.event()).get("x") == x
            if overflow == "stop":
                await slow.event(sevttp=STOP, blzcod=3)
                assert broker.fanout.counts() == {302: 1}
            else:
                slow.ack(first)
                last = 0
                while last != 20:
                    last = object_in(await slow.event()).get("x")
            assert broker.metrics.slow_consumers[overflow] >= 1


@live
async def test_lost_changes_stop_the_subscriptions_of_their_class() -> None:
    store = MemoryStore(MODEL)
    async with serving(store=store) as broker, await Raw.connect(broker) as raw:
        await raw.subscribe(sbsmod=3)
        await raw.subscribe(303, sbsmod=3)
        store.on_gap(302)
        await raw.event(sevttp=STOP, blzcod=3)
        assert broker.fanout.counts() == {303: 1}


@live
async def test_who_leaves_takes_its_subscriptions_along() -> None:
    async with serving() as broker, await Raw.connect(broker) as writer:
        for goodbye in (True, False):
            async with await Raw.connect(broker) as reader:
                await reader.subscribe(sbsmod=3)
                assert broker.fanout.counts() == {302: 1}
                if goodbye:
                    reader.send(Disconnected(disres=7, connid=reader.connid))
                    await reader.ended()
            await until(lambda: not (broker.fanout.counts()))
            assert (await writer.ask(value=truck(1 + goodbye))).txresl == 1


# -- dialects


@pytest.mark.slow
@live
async def test_2017_has_its_own_numbers_and_habits() -> None:
    async with (
        serving(settings(dialect="2017"), store=MemoryStore(MODEL, 2)) as broker,
        await Raw.connect(broker, hbtsec=1, dialect="2017") as raw,
    ):
        assert (await raw.ask(Action2017.INS)).txresl == 1
        assert (await raw.ask(Action2017.REMOVE)).txresl == 1
        await raw.subscribe(sbsmod=2)
        await raw.event(sevttp=END)
        await raw.silent(1.3)  # neither STOP nor TSTREQ


@live
async def test_2019_knows_no_acknowledgements_and_no_end_of_the_download() -> None:
    async with (
        serving(settings(dialect="2019")) as broker,
        await Raw.connect(broker, dialect="2019") as raw,
    ):
        for number in (1, 2, 3):
            await raw.ask(Action2017.INS, truck(number))
        await raw.subscribe()
        for _ in range(3):
            await raw.event(sevttp=DOWNLOAD)
        raw.send(raw.request(Action2017.UPD, truck(1)))
        found = {type(await raw.packet()).__name__ for _ in range(2)}
        assert found == {"SubscriptionEvent", "TransactionResponse"}
        assert (await raw.subscribe()).blzcod == 300


# -- going down


@live
async def test_going_down_transactions_end_and_everybody_is_told() -> None:
    store = MemoryStore(MODEL)
    async with (
        serving(store=store) as broker,
        await Raw.connect(broker) as idle,
        await Raw.connect(broker) as busy,
    ):
        store.is_held = True
        busy.send(busy.request(prid=1))
        await until(lambda: store.pending)
        async with asyncio.TaskGroup() as group:
            group.create_task(broker.drain())
            await idle.expect(Disconnected, disres=4)
            await idle.ended()
            busy.send(busy.request(prid=2))
            await busy.expect(TransactionResponse, txprid=2, blzcod=206)
            async with await Raw.open(broker) as late:
                late.send(CONREQ)
                await late.expect(ConnectionResponse, conres=3, errcod=4)
            store.release()
            await busy.expect(TransactionResponse, txprid=1, txresl=1)
            await busy.expect(Disconnected, disres=4)
            await busy.ended()
            idle.close()
            busy.close()
            late.close()
