"""The Blaze client without await, against a broker in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oracles.blaze_broker import MODEL, Broker, broker_in_a_thread

from wireloom.errors import StateError
from wireloom.formats.blaze import Action, SubscriptionMode
from wireloom.formats.blaze.classes import classes_of
from wireloom.services.blaze import (
    Backoff,
    SubscriptionRefused,
    SyncClient,
    TransactionRefused,
)

FLEET = classes_of(MODEL)
TRUCK: Any = FLEET.TRUCK


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker whose loop runs in a thread of its own."""
    with broker_in_a_thread(window=8) as broker:
        yield broker


def connect(broker: Broker, **options: Any) -> SyncClient:
    return SyncClient.connect(
        "127.0.0.1", broker.port, model=MODEL, reconnect=Backoff(first=0.01), **options
    )


def test_transactions(broker: Broker) -> None:
    with connect(broker) as client:
        assert client.is_connected
        assert client.insert(TRUCK(truck_id=1, name="one")).is_ok
        client.update(TRUCK(truck_id=1, name="uno"))
        client.merge(TRUCK(truck_id=1, speed=3.0), fields=["speed"])
        with pytest.raises(TransactionRefused, match="APPLICATION_ERROR"):
            client.insert(TRUCK(truck_id=1))
        results = client.insert_many(TRUCK(truck_id=i + 2) for i in range(50))
        assert all(result.is_ok for result in results)
        client.reset(TRUCK(truck_id=3))
        client.delete(TRUCK(truck_id=2))
        result = client.transact(Action.UPD, TRUCK(truck_id=9), wants_result=True)
        assert result.object == TRUCK(truck_id=9)
        assert len(broker.store.done) == 56
    assert not client.is_connected


def test_a_loop_over_events_and_resume(broker: Broker) -> None:
    with connect(broker) as client:
        client.insert_many(TRUCK(truck_id=i + 1) for i in range(600))
        past = client.subscribe(TRUCK, mode=SubscriptionMode.PAST)
        got = []
        for event in past:
            got.append(event.object.truck_id)
            if len(got) == 100:
                break
        assert got == list(range(1, 101))
        past.close()
        rest = client.subscribe(TRUCK, mode=SubscriptionMode.PAST, resume=past.position)
        more = [event.object.truck_id for event in rest if not event.is_download_end]
        assert more == list(range(101, 601))
        with client.subscribe(TRUCK, mode=SubscriptionMode.LIVE) as live:
            client.delete(TRUCK(truck_id=5))
            assert next(live).action is Action.DEL
        with client.subscribe(TRUCK), pytest.raises(SubscriptionRefused, match="ALREADY_STARTED"):
            client.subscribe(TRUCK).start()


def test_in_the_cells_of_a_notebook_where_a_loop_runs_already(broker: Broker) -> None:
    async def cell() -> None:
        client = connect(broker).open()
        client.insert(TRUCK(truck_id=1))
        client.close()
        client.close()
        with pytest.raises(StateError, match="not open"):
            client.insert(TRUCK(truck_id=2))
        with pytest.raises(StateError, match="once"):
            client.open()

    asyncio.run(cell())


def test_nobody_there(broker: Broker) -> None:
    with pytest.raises(OSError, match=r"\d"), SyncClient.connect("127.0.0.1", 1):
        pass
    threads = {thread.name for thread in threading.enumerate()}
    assert "blaze" not in threads
