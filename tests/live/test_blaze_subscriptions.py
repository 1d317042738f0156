"""Subscriptions of the Blaze client over real TCP: order, pressure, lost connections."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from oracles.blaze_broker import MODEL, Broker, Store

from wireloom.errors import ConnectionClosed, DecodeError, EncodeError, OptionError, StateError
from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    Encoding,
    EventType,
    FlowType,
    SubscriptionMode,
    SubscriptionType,
    new_value,
)
from wireloom.formats.blaze.classes import classes_of
from wireloom.formats.blaze.session import Change
from wireloom.services.blaze import (
    Backoff,
    Client,
    Event,
    Subscription,
    SubscriptionRefused,
    SubscriptionStopped,
)

FLEET = classes_of(MODEL)
TRUCK: Any = FLEET.TRUCK
PING: Any = FLEET.PING
QUICK = Backoff(first=0.005, most=0.02)
DIALECTS = ["document", "2017", "2019"]


def on_broker(
    test: Callable[[Broker, Client], Awaitable[None]], options: Any = (), **settings: Any
) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), Broker(**settings) as broker:
            given = {"reconnect": QUICK, "dialect": settings.get("dialect", "document")}
            given |= dict(options)
            async with Client.connect("127.0.0.1", broker.port, model=MODEL, **given) as client:
                await test(broker, client)

    asyncio.run(run())


def to(broker: Broker, **options: Any) -> Client:
    return Client.connect("127.0.0.1", broker.port, reconnect=QUICK, **options)


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is waited for is in another object's state
        await asyncio.sleep(0.005)


async def take(events: Subscription[Any], count: int) -> list[Event[Any]]:
    return [await anext(events) for _ in range(count)]


def truck(number: int, name: str = "") -> Any:
    return new_value(MODEL, "TRUCK", {"truck_id": number, "name": name})


def shown(event: Event[Any]) -> Any:
    if event.kind is None or event.is_download_end:
        return "gap" if event.is_gap else "end"
    return event.action.name, event.object.truck_id, event.object.name  # type: ignore[union-attr]


def test_what_is_stored_comes_first_then_the_end_of_the_download_then_changes() -> None:
    async def test(broker: Broker, client: Client) -> None:
        for i in range(3):
            broker.change(Action.INS, truck(i + 1, "old"))
        events = client.subscribe(TRUCK)
        assert [shown(event) for event in await take(events, 4)] == [
            ("INS", 1, "old"),
            ("INS", 2, "old"),
            ("INS", 3, "old"),
            "end",
        ]
        await client.update(TRUCK(truck_id=2, name="new"))
        await client.delete(TRUCK(truck_id=1))
        assert [shown(event) for event in await take(events, 2)] == [
            ("UPD", 2, "new"),
            ("DEL", 1, ""),
        ]
        event = await anext_after(client.insert(TRUCK(truck_id=9, name="x")), events)
        assert event.kind is EventType.DATALIVE
        assert repr(event).startswith("<Event DATALIVE INS ")
        assert event.stamp == events.position

    on_broker(test)


async def anext_after(work: Awaitable[Any], events: Subscription[Any]) -> Event[Any]:
    await work
    return await anext(events)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("window", [1, 64])
def test_every_dialect_and_window(dialect: str, window: int) -> None:
    async def test(broker: Broker, client: Client) -> None:
        for i in range(100):
            broker.change(Action.INS, truck(i + 1))
        async with client.subscribe("TRUCK") as events:
            got = [(await anext(events)).object.truck_id for _ in range(100)]  # type: ignore[attr-defined]
            assert got == list(range(1, 101))
            if dialect != "2019":
                assert (await anext(events)).is_download_end
            await client.insert_many(TRUCK(truck_id=i + 101) for i in range(100))
            got = [(await anext(events)).object.truck_id for _ in range(100)]  # type: ignore[attr-defined]
            assert got == list(range(101, 201))
        await until(lambda: not broker.connections[0].session.subscriptions)
        assert broker.connections[0].session.counts == {}

    on_broker(test, dialect=dialect, window=window)


@pytest.mark.parametrize("dialect", ["document", "2017"])
def test_past_ends_by_itself(dialect: str) -> None:
    async def test(broker: Broker, client: Client) -> None:
        for i in range(5):
            broker.change(Action.INS, truck(i + 1))
        events = client.subscribe(TRUCK, mode=SubscriptionMode.PAST)
        assert [shown(e)[1] async for e in events if not e.is_download_end] == [1, 2, 3, 4, 5]
        assert await events.batch() == []
        await until(lambda: not broker.connections[0].session.subscriptions)
        # And then the class may be subscribed to again.
        assert len(await take(client.subscribe(TRUCK), 6)) == 6

    on_broker(test, dialect=dialect)


def test_only_what_changes() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.change(Action.INS, truck(1))
        async with client.subscribe(TRUCK, mode=SubscriptionMode.LIVE) as events:
            broker.change(Action.INS, truck(2))
            assert shown(await anext(events)) == ("INS", 2, "")

    on_broker(test)


def test_resume_in_another_client_goes_on_behind_what_was_taken() -> None:
    async def test(broker: Broker, client: Client) -> None:
        for i in range(6):
            broker.change(Action.INS, truck(i + 1))
        events = client.subscribe(TRUCK)
        await take(events, 4)
        position = events.position
        events.close()
        broker.change(Action.UPD, truck(1, "new"))
        async with Client.connect("127.0.0.1", broker.port) as other:
            rest = other.subscribe(TRUCK, resume=position)
            assert rest.position == position
            assert [shown(e) for e in await take(rest, 4)] == [
                ("INS", 5, ""),
                ("INS", 6, ""),
                ("INS", 1, "new"),
                "end",
            ]
            live = other.subscribe(PING, mode=SubscriptionMode.LIVE, resume=(1, 1))
            broker.change(Action.INS, new_value(MODEL, "PING", {"number": 3}))
            await live.start()
            assert live.is_partial

    on_broker(test)


def test_the_last_of_each_object_when_the_reader_is_slow() -> None:
    async def test(broker: Broker, client: Client) -> None:
        async with client.subscribe(TRUCK, flow=FlowType.LAST) as events:
            assert (await anext(events)).is_download_end
            for i in range(1000):
                broker.change(Action.UPD, truck(i % 3 + 1, str(i)))
            got = []
            while len(got) < 3 or got[-1][2] != "999":
                got.append(shown(await anext(events)))
            assert len(got) < 10
            assert {name for _, _, name in got[-3:]} == {"997", "998", "999"}

    on_broker(test)


def test_deltas_are_put_into_the_objects_they_change() -> None:
    async def test(broker: Broker, client: Client) -> None:
        await client.insert(TRUCK(truck_id=1, name="one", speed=2.0, temps=[1, 2]))
        events = client.subscribe(TRUCK, kind=SubscriptionType.INCREMENTAL)
        await take(events, 2)
        await client.merge(TRUCK(truck_id=1, speed=3.0), fields=["speed"])
        await client.merge(TRUCK(truck_id=1, name="uno"), fields=["name"])
        first, second = await take(events, 2)
        assert first.action is Action.DLT
        assert first.delta is not None
        assert first.delta.to_values() == {"truck_id": 1, "speed": 3.0}
        assert second.object == TRUCK(truck_id=1, name="uno", speed=3.0, temps=[1, 2])
        broker.cut()  # the images are kept
        await until(lambda: client.counts["connections"] == 2)
        await client.merge(TRUCK(truck_id=1, speed=4.0), fields=["speed"])
        # As a delta, or as a whole object when it was stored before the download began anew.
        while (last := await anext(events)).object.speed != 4.0:
            pass
        assert last.object == TRUCK(truck_id=1, name="uno", speed=4.0, temps=[1, 2])
        await client.delete(TRUCK(truck_id=1))
        assert (await anext(events)).action is Action.DEL
        events.close()

        # Who resumes without the objects sees what has changed, but not into what.
        await client.insert(TRUCK(truck_id=1, name="again"))
        position = broker.store.rows[302][1,].stamp
        rest = client.subscribe(TRUCK, kind=SubscriptionType.INCREMENTAL, resume=position)
        assert (await anext(rest)).is_download_end
        await client.merge(TRUCK(truck_id=1, speed=5.0), fields=["speed"])
        event = await anext(rest)
        assert event.delta is not None
        with pytest.raises(StateError, match="never received"):
            _ = event.object

    on_broker(test, window=8)


def test_nothing_is_acknowledged_before_it_is_taken() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        for i in range(50):
            broker.change(Action.INS, truck(i + 1))
        (subscription,) = broker.connections[0].session.subscriptions.values()
        await asyncio.sleep(0.05)
        assert len(subscription.outstanding) == 4
        await take(events, 2)
        await asyncio.sleep(0.05)
        assert len(subscription.outstanding) == 4
        assert len(subscription.live) == 50 - 6
        await take(events, 48)
        await until(lambda: not subscription.outstanding)

    on_broker(test, window=4)


def test_one_acknowledgement_for_all_that_were_taken() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        peer = broker.connections[0]
        before = len(peer.received)
        for i in range(500):
            broker.change(Action.INS, truck(i + 1))
        got = [(await anext(events)).object.truck_id for _ in range(500)]
        assert got == list(range(1, 501))
        (subscription,) = peer.session.subscriptions.values()
        await until(lambda: not subscription.outstanding)
        assert (len(peer.received) - before) // 12 < 100  # SBSACKs of 12 bytes
        assert peer.session.counts == {}

    on_broker(test, options={"cumulative_acks": True}, window=32, has_cumulative_acks=True)


def test_without_acknowledgements_a_full_queue_stops_reading_and_heartbeats_go_on() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE, queue=8).start()
        connection = client._connection
        assert connection is not None
        transport: Any = connection._transport
        for i in range(20_000):
            broker.change(Action.INS, truck(i + 1, "x" * 16))
            if not i % 50:
                await asyncio.sleep(0)
            if not transport.is_reading():
                break
        assert not transport.is_reading()
        connid = client.connid
        await asyncio.sleep(0.3)  # silence is none while nothing is read
        assert client.connid == connid
        count = i + 1
        got = [(await anext(events)).object.truck_id for _ in range(count)]
        assert got == list(range(1, count + 1))
        assert transport.is_reading()

    on_broker(test, dialect="2019", options={"test_after": 0.05, "connect_timeout": 0.1})


def test_a_slow_reader_does_not_hold_up_another() -> None:
    async def test(broker: Broker, client: Client) -> None:
        slow = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        quick = await client.subscribe(PING, mode=SubscriptionMode.LIVE).start()
        for i in range(200):
            broker.change(Action.INS, truck(i + 1))
            broker.change(Action.INS, new_value(MODEL, "PING", {"number": i + 1}))
        assert [(await anext(quick)).object.number for _ in range(200)] == list(range(1, 201))
        assert len(await take(slow, 200)) == 200

    on_broker(test, window=16)


def test_leaving_the_loop_stops_the_subscription() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.change(Action.INS, truck(1))
        async for event in client.subscribe(TRUCK):
            assert shown(event) == ("INS", 1, "")
            break
        async for event in client.subscribe(TRUCK):  # the class is free again at once
            assert shown(event) == ("INS", 1, "")
            break
        gc.collect()
        await until(lambda: not broker.connections[0].session.subscriptions)
        assert not client._feeds

    on_broker(test)


def test_a_cancelled_reader_loses_nothing() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(events)
        broker.change(Action.INS, truck(1))
        assert shown(await anext(events)) == ("INS", 1, "")

    on_broker(test)


def test_refusals_and_stops_say_why() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.refused_subscriptions[303] = BlazeCode.UNAUTHORIZED
        with pytest.raises(SubscriptionRefused, match="UNAUTHORIZED") as caught:
            await client.subscribe(PING).start()
        assert caught.value.code is BlazeCode.UNAUTHORIZED
        with pytest.raises(SubscriptionRefused, match="UNAUTHORIZED"):
            await anext(client.subscribe(PING))
        first = await client.subscribe(TRUCK).start()
        with pytest.raises(SubscriptionRefused, match=r"SBS_ALREADY_STARTED.*closed first"):
            await client.subscribe(TRUCK).start()
        client.model = None
        with pytest.raises(SubscriptionRefused, match="REQUEST_UNSUPPORTED"):
            await client.subscribe(999).start()
        peer = broker.connections[0]
        broker.change(Action.INS, truck(1))
        await asyncio.sleep(0.02)
        now = asyncio.get_running_loop().time()
        (sbsrid,) = peer.session.subscriptions
        peer.session.stop_subscription(sbsrid, BlazeCode.UNAUTHORIZED, now)
        peer.flush()
        assert (await anext(first)).is_download_end  # what has come is still there
        with pytest.raises(SubscriptionStopped, match="UNAUTHORIZED"):
            await take(first, 2)
        with pytest.raises(StopAsyncIteration):
            await anext(first)

    on_broker(test)


def test_a_request_that_is_not_answered() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.is_silent = True
        with pytest.raises(SubscriptionRefused, match="no answer has come in time"):
            await client.subscribe(TRUCK).start()

    on_broker(test, options={"timeout": 0.05, "test_after": 0})


def test_what_the_dialect_lacks_is_said_to_who_reads() -> None:
    async def test(broker: Broker, client: Client) -> None:
        with pytest.raises(EncodeError, match="has no ALL"):
            await client.subscribe(TRUCK, encoding=Encoding.ALL).start()
        await broker.stop()
        await until(lambda: client.counts["lost"] == 1)
        waiting = client.subscribe(TRUCK, encoding=Encoding.ALL)
        reading = asyncio.get_running_loop().create_task(anext(waiting))
        await asyncio.sleep(0)
        await broker.start()
        with pytest.raises(EncodeError, match="has no ALL"):
            await reading
        await client.insert(TRUCK(truck_id=1))  # and the client goes on

    on_broker(test, dialect="2017")


def test_a_full_queue_that_nobody_reads_does_not_hold_the_connection_for_ever() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE, queue=2).start()
        for i in range(10):
            broker.change(Action.INS, truck(i + 1))
        transport: Any = client._connection._transport  # type: ignore[union-attr]
        await until(lambda: not transport.is_reading())
        peer = broker.connections[0]
        (sbsrid,) = peer.session.subscriptions
        events.close()
        await client.insert(TRUCK(truck_id=99))
        # The same when the server has ended it, and the reader does not care.
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE, queue=2).start()
        for i in range(10):
            broker.change(Action.UPD, truck(i + 1))
        (sbsrid,) = peer.session.subscriptions
        now = asyncio.get_running_loop().time()
        peer.session.stop_subscription(sbsrid, BlazeCode.SERVER_ERROR, now)
        peer.flush()
        await until(lambda: not transport.is_reading())
        events.close()
        await client.insert(TRUCK(truck_id=100))

    on_broker(test, window=16)


def test_past_is_over_when_only_its_stop_was_lost() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.change(Action.INS, truck(1))
        events = client.subscribe(TRUCK, mode=SubscriptionMode.PAST)
        await take(events, 1)
        feed = events._feed
        assert feed is not None
        await until(lambda: feed._has_download_end)
        broker.cut()  # window 1: STOP waits until the end of the download is acknowledged
        await until(lambda: client.counts["lost"] == 1)
        broker.change(Action.INS, truck(2))
        assert [event.is_download_end async for event in events] == [True]

    on_broker(test)


def test_options_have_names_and_wrong_ones_are_refused_at_once() -> None:
    async def test(broker: Broker, client: Client) -> None:
        wrong: dict[str, Any]
        for wrong in (
            {"mode": "PST"},
            {"mode": 7},
            {"mode": 0},
            {"flow": "NONE"},
            {"kind": ""},
        ):
            with pytest.raises(OptionError, match="is not one of"):
                client.subscribe(TRUCK, **wrong)
        for resume in (5, (1,), (1, -1), (1 << 32, 0), "1,0"):
            with pytest.raises(OptionError, match="is not the position"):
                client.subscribe(TRUCK, resume=resume)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="no class"):
            client.subscribe(TRUCK(truck_id=1))
        with pytest.raises(TypeError, match="no class"):
            client.subscribe(int)  # type: ignore[type-var]
        past = client.subscribe(TRUCK, mode="past", flow="LAST", kind="snapshot")
        assert [event.is_download_end for event in await take(past, 1)] == [True]
        with pytest.raises(StopAsyncIteration):
            await anext(past)

    on_broker(test)


def test_classes_that_nobody_knows() -> None:
    async def test(broker: Broker, client: Client) -> None:
        with pytest.raises(OptionError, match="no class 'CAR'"):
            client.subscribe("CAR")
        with pytest.raises(OptionError, match="queue"):
            client.subscribe(TRUCK, queue=0)
        client.model = None
        with pytest.raises(OptionError, match="without a model"):
            client.subscribe("TRUCK")
        broker.change(Action.INS, truck(1))
        event = await anext(client.subscribe(302))
        with pytest.raises(StateError, match="without a model"):
            _ = event.object
        assert event.body == event.body

    on_broker(test)


def test_a_body_that_is_no_object_is_found_by_who_looks_at_it() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        bodies = dict.fromkeys(Encoding, b"\1\0\0\0\0")
        broker.publish(Change(302, Action.INS, (5, 5), (1,), bodies))
        broker.change(Action.INS, truck(2))
        bad, good = await take(events, 2)
        with pytest.raises(DecodeError):
            _ = bad.object
        assert shown(good) == ("INS", 2, "")

    on_broker(test)


def test_the_end_of_the_client_is_the_end_of_the_loop() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), Broker() as broker:
            async with Client.connect("127.0.0.1", broker.port) as client:
                events = client.subscribe(TRUCK)
                assert (await anext(events)).is_download_end
                reading = asyncio.get_running_loop().create_task(collect(events))
                await asyncio.sleep(0.01)
            assert await reading == []
            with pytest.raises(ConnectionClosed):
                await client.subscribe(TRUCK).start()

    async def collect(events: Subscription[Any]) -> list[Any]:
        return [event async for event in events]

    asyncio.run(run())


def test_what_cannot_be_resumed_shows_as_a_gap() -> None:
    async def test(broker: Broker, client: Client) -> None:
        pings = client.subscribe(PING)
        assert (await anext(pings)).is_download_end
        live = await client.subscribe(TRUCK, mode=SubscriptionMode.LIVE).start()
        broker.cut()
        assert (await anext(pings)).is_gap
        assert (await anext(live)).is_gap
        broker.change(Action.INS, truck(1))
        assert shown(await anext(live)) == ("INS", 1, "")
        broker.cut()  # from here on it is known what was seen
        await until(lambda: client.counts["lost"] == 2)
        broker.change(Action.INS, truck(2))
        assert shown(await anext(live)) == ("INS", 2, "")
        broker.change(Action.INS, truck(3))
        assert shown(await anext(live)) == ("INS", 3, "")

    on_broker(test)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(i, marks=pytest.mark.nightly) for i in range(3, 60))]
)
def test_connections_cut_at_random_lose_and_double_nothing(dialect: str, seed: int) -> None:
    """Every object is changed once, so that each must come exactly once, whatever happens."""
    chance = Random(seed)
    total = 400
    # Where downloads are not sorted, each begins anew: a connection must last for one, sometimes.
    most = 6000 if dialect == "document" else 60_000

    async def test(broker: Broker, client: Client) -> None:
        broker.after_bytes = lambda: chance.randrange(60, most)
        for i in range(total // 2):
            broker.change(Action.INS, truck(i + 1, f"n{i}"))
        events = client.subscribe(TRUCK, queue=chance.choice([1, 16, 4096]))

        async def publish() -> None:
            for i in range(total // 2, total):
                broker.change(Action.INS, truck(i + 1, f"n{i}"))
                if chance.random() < 0.3:
                    await asyncio.sleep(0)
                if chance.random() < 0.04:
                    broker.cut()
                    await asyncio.sleep(chance.random() * 0.02)

        got: list[int] = []
        ends = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(publish())
            while len(got) < total:
                event = await anext(events)
                if event.is_download_end:
                    ends += 1
                    continue
                assert event.object.name == f"n{event.object.truck_id - 1}"
                got.append(event.object.truck_id)
                if chance.random() < 0.02:
                    await asyncio.sleep(0.002)
            broker.after_bytes = lambda: None
        assert sorted(got) == list(range(1, total + 1))
        if dialect == "document":
            assert got == sorted(got)
        assert ends <= 1
        assert client.counts["lost"]

    async def run() -> None:
        store = Store()
        ticks = iter(range(1, 1 << 30))
        store.seconds = lambda: next(ticks) // 7  # several changes in one second
        broker = Broker(dialect=dialect, store=store, window=chance.choice([1, 8]))
        async with asyncio.timeout(60), broker, to(broker, dialect=dialect) as client:
            await test(broker, client)

    asyncio.run(run())
