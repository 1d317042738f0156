"""The Blaze client over real TCP on loopback: transactions and connections."""

from __future__ import annotations

import asyncio
import pickle
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from oracles.blaze_broker import MODEL, Broker

from wireloom.errors import ConnectionClosed, EncodeError, OptionError, StateError
from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    DisconnectReason,
    RefusalCode,
    SubscriptionMode,
    TransactionType,
    new_value,
)
from wireloom.formats.blaze.classes import classes_of
from wireloom.services.blaze import (
    Backoff,
    Client,
    ConnectionRefused,
    OutcomeUnknown,
    TransactionFailed,
    TransactionRefused,
)

FLEET = classes_of(MODEL)
TRUCK: Any = FLEET.TRUCK
QUICK = Backoff(first=0.01, most=0.05)


def on_broker(
    test: Callable[[Broker, Client], Awaitable[None]], options: Any = (), **settings: Any
) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), Broker(**settings) as broker:
            given = {"reconnect": QUICK, "dialect": settings.get("dialect", "document")}
            given |= dict(options)
            async with Client.connect("127.0.0.1", broker.port, model=MODEL, **given) as client:
                await test(broker, client)

    asyncio.run(run())


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is waited for is in another object's state
        await asyncio.sleep(0.005)


def names(broker: Broker) -> dict[Any, str]:
    rows = broker.store.rows.get(302, {}).values()
    return {row.key[0]: row.image["name"] for row in rows if row.action is not Action.DEL}


@pytest.mark.parametrize("dialect", ["document", "2017", "2019"])
def test_objects_are_inserted_updated_and_deleted(dialect: str) -> None:
    async def test(broker: Broker, client: Client) -> None:
        truck = TRUCK(truck_id=1, name="one", temps=[1, 0, -3], home={"x": 5})
        result = await client.insert(truck, wants_result=True)
        assert result.is_ok
        assert result.object == truck
        assert (await client.insert(TRUCK(truck_id=2, name="two"))).object is None
        await client.update(truck.replace(name="uno"))
        await client.delete(TRUCK(truck_id=2))
        assert names(broker) == {1: "uno"}
        assert broker.connections[0].session.counts == {}

    on_broker(test, dialect=dialect)


def test_some_fields_are_changed_by_name_or_by_what_differs() -> None:
    async def test(broker: Broker, client: Client) -> None:
        truck = TRUCK(truck_id=1, name="one", speed=5.0, home={"x": 1, "y": 2})
        await client.insert(truck)
        await client.merge(TRUCK(truck_id=1, name="uno", speed=9.0), fields=["name"])
        image = (await client.merge(TRUCK(truck_id=1), fields=["on"], wants_result=True)).object
        assert image == truck.replace(name="uno")
        changed = image.replace(speed=0.0, home={"x": 7, "y": 2})
        done = await client.merge(changed, base=image, wants_result=True)
        assert done.object == changed
        delta = broker.store.done[-1].nclass
        assert delta is not None
        assert delta.to_values() == {"truck_id": 1, "speed": 0.0, "home": {"x": 7}}
        with pytest.raises(OptionError, match="name the fields"):
            await client.merge(truck)
        with pytest.raises(EncodeError, match="no field 'nam'"):
            await client.merge(truck, fields=["nam"])

    on_broker(test)


def test_a_refusal_is_an_exception_with_the_code_by_name() -> None:
    async def test(broker: Broker, client: Client) -> None:
        for code in BlazeCode:
            broker.code = lambda request, code=code: code  # type: ignore[misc]
            if code is BlazeCode.NO_ERROR:
                continue
            with pytest.raises(TransactionRefused, match=code.name) as caught:
                await client.insert(TRUCK(truck_id=1, name="why"))
            assert caught.value.code is code
            has_object = code is BlazeCode.REASON_IN_RESULT_NCLASS
            assert caught.value.result.object == (
                TRUCK(truck_id=1, name="why") if has_object else None
            )
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.code, str(again)) == (caught.value.code, str(caught.value))

    on_broker(test)


def test_values_and_requests_without_an_object_can_be_sent_too() -> None:
    async def test(broker: Broker, client: Client) -> None:
        await client.insert(new_value(MODEL, "TRUCK", {"truck_id": 1, "name": "raw"}))
        assert names(broker) == {1: "raw"}
        with pytest.raises(TransactionRefused, match="REQUEST_UNSUPPORTED"):
            await client.transact(Action.RST, type=TransactionType.SYSTEM)
        with pytest.raises(EncodeError, match="is needed, not None"):
            await client.transact(Action.RST)  # NCLASS needs an object

    on_broker(test)


def test_a_dialect_without_such_a_request_says_so() -> None:
    async def test(broker: Broker, client: Client) -> None:
        with pytest.raises(StateError, match="does not work in INDEXDELTA"):
            await client.merge(TRUCK(truck_id=1), fields=["name"])
        with pytest.raises(StateError, match="no request without an object"):
            await client.transact(Action.RST, type=TransactionType.SYSTEM)

    on_broker(test, dialect="2017")


def test_many_are_sent_together_and_their_results_stay_in_order() -> None:
    async def test(broker: Broker, client: Client) -> None:
        results = await client.insert_many(TRUCK(truck_id=i % 900 + 1) for i in range(1000))
        assert [result.is_ok for result in results] == [True] * 900 + [False] * 100
        assert {result.code for result in results[900:]} == {BlazeCode.APPLICATION_ERROR}
        with pytest.raises(TransactionRefused):
            results[-1].check()

        async def more() -> Any:
            for i in range(3):
                yield TRUCK(truck_id=2000 + i)

        assert all(result.is_ok for result in await client.insert_many(more()))
        assert len(broker.store.rows[302]) == 903

    on_broker(test, options={"max_flying": 64})


def test_no_more_than_the_limit_fly_and_those_who_wait_get_their_turn() -> None:
    most = 0

    async def test(broker: Broker, client: Client) -> None:
        broker.delay = 0.01

        def watch(request: Any) -> None:
            nonlocal most
            most = max(most, broker.connections[0].session._flying.__len__())

        broker.code = watch  # type: ignore[assignment]
        async with asyncio.TaskGroup() as group:
            for i in range(40):
                group.create_task(client.insert(TRUCK(truck_id=i + 1)))
        assert len(broker.store.done) == 40

    on_broker(test, options={"max_flying": 4})
    assert most <= 4


def test_a_late_answer_is_dropped_and_the_outcome_is_unknown() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.delay = 0.2
        with pytest.raises(OutcomeUnknown, match="TRANSACTION_TIMEOUT") as caught:
            await client.insert(TRUCK(truck_id=1), timeout=0.05)
        assert not caught.value.result.is_known
        broker.delay = 0
        await client.insert(TRUCK(truck_id=2))
        await until(lambda: len(broker.store.done) == 2)  # it was done all the same
        await asyncio.sleep(0.02)
        assert client._connection is not None
        assert client._connection.session.counts == {"unknown_answers": 1}

    on_broker(test)


def test_a_cancelled_transaction_leaves_nothing_behind() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.delay = 0.1
        task = asyncio.get_running_loop().create_task(client.insert(TRUCK(truck_id=1)))
        many = asyncio.get_running_loop().create_task(
            client.insert_many([TRUCK(truck_id=i) for i in range(2, 12)])
        )
        await until(lambda: client._connection.session.flying == 11)  # type: ignore[union-attr]
        task.cancel()
        many.cancel()
        assert (await asyncio.gather(task, many, return_exceptions=True)).__len__() == 2
        assert task.cancelled()
        assert many.cancelled()
        assert client._connection is not None
        assert client._connection.session.flying == 0
        assert not client._connection.flights
        await client.insert(TRUCK(truck_id=99))
        await until(lambda: client._connection.session.counts["unknown_answers"] == 11)  # type: ignore[union-attr]

    on_broker(test)


def test_what_flies_when_the_connection_is_lost_has_an_unknown_outcome() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.delay = 0.1
        loop = asyncio.get_running_loop()
        one = loop.create_task(client.insert(TRUCK(truck_id=1)))
        many = loop.create_task(client.insert_many([TRUCK(truck_id=i) for i in range(2, 9)]))
        await until(lambda: client._connection.session.flying == 8)  # type: ignore[union-attr]
        broker.cut()
        with pytest.raises(OutcomeUnknown, match="TRANSACTION_LOST"):
            await one
        assert {(r.is_known, r.code.name) for r in await many} == {(False, "TRANSACTION_LOST")}  # type: ignore[attr-defined]
        broker.delay = 0
        await client.insert(TRUCK(truck_id=50))  # waits for the next connection
        assert client.counts["connections"] == 2

    on_broker(test)


def test_without_a_connection_a_transaction_is_not_sent_and_says_so() -> None:
    async def test(broker: Broker, client: Client) -> None:
        await broker.stop()
        await until(lambda: not client.is_connected)
        with pytest.raises(ConnectionClosed, match="was not sent"):
            await client.insert(TRUCK(truck_id=1), timeout=0.05)
        results = await client.insert_many([TRUCK(truck_id=1)], timeout=0.05)
        assert [(r.is_sent, r.is_ok) for r in results] == [(False, False)]
        async with asyncio.timeout(20):  # they wait together, not one after the other
            results = await client.insert_many(
                [TRUCK(truck_id=i) for i in range(1, 501)], timeout=0.1
            )
        assert not any(r.is_sent for r in results)
        assert len(results) == 500
        await broker.start()
        await client.insert(TRUCK(truck_id=1))
        assert client.counts["failed_attempts"] >= 1

    on_broker(test)


def test_without_reconnect_a_lost_connection_is_the_end() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.cut()
        await until(lambda: not client.is_connected)
        with pytest.raises(ConnectionClosed, match="connection is lost"):
            await client.insert(TRUCK(truck_id=1))
        with pytest.raises(ConnectionClosed, match="connection is lost"):
            await anext(client.subscribe(TRUCK))

    on_broker(test, options={"reconnect": None})


def test_attempts_to_connect_again_may_be_limited() -> None:
    async def test(broker: Broker, client: Client) -> None:
        events = client.subscribe(TRUCK, mode=SubscriptionMode.LIVE)
        waiting = asyncio.get_running_loop().create_task(anext(events))
        await asyncio.sleep(0.02)
        await broker.stop()
        with pytest.raises(ConnectionClosed, match="after 2 attempts"):
            await waiting
        with pytest.raises(ConnectionClosed, match="after 2 attempts"):
            await client.insert(TRUCK(truck_id=1))

    on_broker(test, options={"reconnect": Backoff(first=0.01, most=0.01, attempts=2)})


def test_another_broker_takes_over() -> None:
    async def run() -> None:
        async with asyncio.timeout(30), Broker() as first, Broker(store=first.store) as second:
            others = [("127.0.0.1", second.port)]
            client = Client.connect("127.0.0.1", first.port, others=others, reconnect=QUICK)
            await client.__aenter__()
            await client.insert(TRUCK(truck_id=1))
            await first.stop()
            await until(lambda: client.counts["lost"] == 1)
            await client.insert(TRUCK(truck_id=2))
            assert len(second.connections) == 1
            assert len(second.store.done) == 2
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("code", [code for code in RefusalCode if code not in (0, 8)])
def test_a_refused_connection_says_why(code: RefusalCode) -> None:
    async def run() -> None:
        async with asyncio.timeout(10), Broker(refusal=code) as broker:
            with pytest.raises(ConnectionRefused, match=code.name) as caught:
                await Client.connect("127.0.0.1", broker.port).__aenter__()
            assert caught.value.code is code
            await until(lambda: not broker.connections)

    asyncio.run(run())


def test_a_veto_is_a_refusal_in_the_dialects_own_words() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), Broker(is_veto=True, dialect="2017") as broker:
            with pytest.raises(ConnectionRefused, match="APPLICATION_REFUSED"):
                await Client.connect("127.0.0.1", broker.port, dialect="2017").__aenter__()

    asyncio.run(run())


def test_a_refusal_that_passes_is_waited_out_and_one_that_lasts_is_not() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.refusal = RefusalCode.SERVER_IS_GOING_DOWN
        broker.cut()
        await until(lambda: client.counts["failed_attempts"] >= 2)
        broker.refusal = None
        await client.insert(TRUCK(truck_id=1))
        broker.refusal = RefusalCode.PROTOCOL_VERSION_TOO_OLD
        broker.cut()
        await until(lambda: client.counts["lost"] == 2)
        with pytest.raises(ConnectionClosed, match="PROTOCOL_VERSION_TOO_OLD"):
            await client.insert(TRUCK(truck_id=1))

    on_broker(test)


def test_nobody_there_and_nobody_who_answers() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), Broker() as broker:
            broker.is_silent = True
            options: Any = {"connect_timeout": 0.1}
            with pytest.raises(ConnectionClosed, match="no answer to the connection request"):
                await Client.connect("127.0.0.1", broker.port, **options).__aenter__()
        with pytest.raises(OSError, match=r"\d"):
            await Client.connect("127.0.0.1", broker.port).__aenter__()

    asyncio.run(run())


def test_a_server_that_does_not_speak_blaze_ends_the_client() -> None:
    async def run() -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example ESMTP\r\n")
            await writer.drain()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with asyncio.timeout(10), server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionClosed, match="packet type"):
                await Client.connect("127.0.0.1", port).__aenter__()

    asyncio.run(run())


@pytest.mark.slow
def test_heartbeats_keep_an_idle_connection_and_the_broker_may_impose_them() -> None:
    async def test(broker: Broker, client: Client) -> None:
        assert client.heartbeat == 1
        connid = client.connid
        await asyncio.sleep(3.4)  # past the broker's patience: 1 s, and 2 s after TSTREQ
        assert client.connid == connid
        assert client.counts["lost"] == 0

    on_broker(test, options={"heartbeat": 0}, heartbeat_limits=(1, 1), is_heartbeat_required=True)


def test_a_broker_that_falls_silent_is_tested_and_left() -> None:
    async def test(broker: Broker, client: Client) -> None:
        peer = broker.connections[0]
        broker.is_silent = True
        await until(lambda: not client.is_connected)
        broker.is_silent = False
        await client.insert(TRUCK(truck_id=1))
        assert client.counts["connections"] == 2
        assert peer is not broker.connections[0]

    options = {"test_after": 0.05, "connect_timeout": 0.2}
    on_broker(test, options=options)


def test_a_broker_that_goes_down_in_order_is_waited_for() -> None:
    async def test(broker: Broker, client: Client) -> None:
        peer = broker.connections[0]
        peer.session.disconnect(
            DisconnectReason.SERVER_IS_GOING_DOWN, asyncio.get_running_loop().time()
        )
        peer.flush()
        await until(lambda: client.counts["connections"] == 2)
        await client.insert(TRUCK(truck_id=1))

    on_broker(test)


def test_leaving_waits_for_what_flies_and_says_goodbye() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), Broker() as broker:
            async with Client.connect("127.0.0.1", broker.port) as client:
                broker.delay = 0.05
                peer = broker.connections[0]
                task = asyncio.get_running_loop().create_task(client.insert(TRUCK(truck_id=1)))
                await asyncio.sleep(0)
            assert (await task).is_ok
            assert peer.received[-12:-8].hex() == "04c50000"  # DSCOND of 3 words
            assert peer.received[-8] >> 4 == DisconnectReason.APPLICATION_REQUEST
            with pytest.raises(ConnectionClosed, match="was closed"):
                await client.insert(TRUCK(truck_id=2))
            with pytest.raises(StateError, match="once"):
                await client.__aenter__()

    asyncio.run(run())


def test_an_error_inside_leaves_at_once() -> None:
    async def test(broker: Broker, client: Client) -> None:
        broker.delay = 5
        task = asyncio.get_running_loop().create_task(client.insert(TRUCK(truck_id=1)))
        await until(lambda: client._connection.session.flying == 1)  # type: ignore[union-attr]
        try:
            raise ZeroDivisionError
        finally:
            await client.close(at_once=True)
            with pytest.raises(OutcomeUnknown):
                await task

    with pytest.raises(ZeroDivisionError):
        on_broker(test)


def test_what_is_no_object_cannot_be_sent() -> None:
    async def test(broker: Broker, client: Client) -> None:
        for wrong, name in (
            ({"truck_id": 1}, "dict"),
            ("x", "str"),
            (TRUCK, "the class TRUCK"),
        ):
            with pytest.raises(TypeError, match=f"is needed, not {name}"):
                await client.insert(wrong)
        with pytest.raises(TypeError, match="is needed, not dict"):
            await client.insert_many([TRUCK(truck_id=1), {"truck_id": 2}])  # type: ignore[list-item]

    on_broker(test)


def test_a_client_that_was_not_entered_says_so_at_once() -> None:
    async def run() -> None:
        client = Client.connect("127.0.0.1", 1, model=MODEL)
        with pytest.raises(StateError, match="async with"):
            await client.insert(TRUCK(truck_id=1))
        with pytest.raises(StateError, match="async with"):
            await client.subscribe(TRUCK).start()

    asyncio.run(run())


def test_options_that_make_no_sense() -> None:
    with pytest.raises(OptionError, match="heartbeat"):
        Client.connect("x", 1, heartbeat=256)
    with pytest.raises(OptionError, match="dialect"):
        Client.connect("x", 1, dialect="2018")
    with pytest.raises(OptionError, match="max_flying"):
        Client.connect("x", 1, max_flying=0)
    for wrong in ({"first": 0}, {"factor": 0.5}, {"jitter": 2}, {"attempts": 0}):
        with pytest.raises(OptionError):
            Backoff(**wrong)  # type: ignore[arg-type]
    pauses = list(Backoff(first=1, most=4, jitter=0.5).pauses(50))
    assert all(0.5 * p <= q <= p for p, q in zip([1, 2, *[4] * 48], pauses, strict=True))


def test_every_failure_of_a_transaction_is_caught_by_one_name() -> None:
    assert issubclass(TransactionRefused, TransactionFailed)
    assert issubclass(OutcomeUnknown, TransactionFailed)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost and its key, in PEM files."""
    from oracles.certificates import write_certificate

    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_tls(certificate: tuple[str, str]) -> None:
    async def run() -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*certificate)
        trusting = ssl.create_default_context(cafile=certificate[0])
        async with asyncio.timeout(20), Broker(tls=server) as broker:
            options: Any = {"tls": trusting, "server_name": "localhost", "reconnect": QUICK}
            async with Client.connect("127.0.0.1", broker.port, **options) as client:
                await client.insert(TRUCK(truck_id=1))
                broker.cut()
                await until(lambda: client.counts["lost"] == 1)
                await client.insert(TRUCK(truck_id=2))
            stranger = ssl.create_default_context()
            with pytest.raises(ssl.SSLCertVerificationError):
                await Client.connect("127.0.0.1", broker.port, tls=stranger).__aenter__()

    asyncio.run(run())
