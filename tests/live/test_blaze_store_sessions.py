"""A store behind real sessions: what a client is told is what is stored, in every dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from oracles.stores import FLEET, TRUCK, image, on_store, truck, write

from wireloom.formats.blaze import NClassValue, new_value
from wireloom.formats.blaze.body import apply_delta, trimmed
from wireloom.formats.blaze.codes import Action, Encoding, SubscriptionType
from wireloom.formats.blaze.dialects import get_dialect
from wireloom.formats.blaze.session import (
    ClientSession,
    ClientSettings,
    ConnectionRequested,
    DownloadEnded,
    ObjectReceived,
    ServerSession,
    ServerSettings,
    SessionEvent,
    SubscriptionRequested,
    TransactionFinished,
    TransactionRequested,
)
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store import Outcome, SqlStore, Write


class Pair:
    """A client and a server in one process; the server asks the store, as a broker does."""

    def __init__(self, store: SqlStore, server: ServerSession, client: ClientSession) -> None:
        self.store = store
        self.server = server
        self.client = client
        self.events: list[SessionEvent] = []

    @classmethod
    async def connect(cls, store: SqlStore, dialect: str) -> Pair:
        settings = ServerSettings(dialect=dialect, model=FLEET, window=4)
        server = ServerSession(settings, event_ids=await store.event_ids())
        client = ClientSession(ClientSettings(dialect=dialect, model=FLEET, heartbeat=0))
        pair = cls(store, server, client)
        client.connect(0)
        await pair.exchange()
        return pair

    def publish(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.server.publish(change, 0)

    async def exchange(self) -> None:
        """Until nothing moves any more."""
        while True:
            sent, answered = self.client.data_to_send(), self.server.data_to_send()
            for event in self.server.receive(sent, 0) if sent else []:
                await self.serve(event)
            self.events += self.client.receive(answered, 0) if answered else []
            for wanted in self.server.downloads_wanted():
                found = await self.store.portion(
                    wanted.nclsid, wanted.after, wanted.count, wanted.deleted_after
                )
                self.server.download(
                    wanted.sbsrid,
                    found.rows,
                    len(found.rows) < wanted.count,
                    last=found.last,
                    forgotten=found.forgotten,
                )
            is_quiet = not (sent or answered or self.client.unsent or self.server.unsent)
            if is_quiet and not self.store.pending:
                return
            await asyncio.sleep(0)

    async def serve(self, event: SessionEvent) -> None:
        if isinstance(event, ConnectionRequested):
            self.server.accept(await self.store.next_connid(), 0)
        elif isinstance(event, SubscriptionRequested):
            is_stored = self.store.is_stored(event.nclsid)
            self.server.start_subscription(event.rqstid, 0, is_stored=is_stored)
        elif isinstance(event, TransactionRequested):
            txid = event.txid

            def done(outcome: Outcome) -> None:
                code, result = outcome.code, outcome.result
                self.server.respond(txid, 0, code=code, result=result, is_ok=outcome.is_ok)

            self.store.submit(Write.of(event), done)


def held(events: Sequence[SessionEvent]) -> dict[object, NClassValue]:
    """The images that a client has after these events."""
    images: dict[object, NClassValue] = {}
    for event in events:
        if isinstance(event, ObjectReceived):
            assert event.nclass is not None
            key = event.nclass.key()
            if event.action.name == "DEL":  # type: ignore[union-attr]
                images.pop(key, None)
            elif event.action.name == "DLT":  # type: ignore[union-attr]
                images[key] = trimmed(apply_delta(images[key], event.nclass))
            else:
                images[key] = trimmed(event.nclass)
    return images


@pytest.mark.parametrize("dialect", ["document", "2017", "2019"])
def test_clients_hold_what_is_stored(store_url: str, dialect: str) -> None:
    async def test(store: SqlStore) -> None:
        pairs: list[Pair] = []

        def on_changes(changes: Sequence[Change]) -> None:
            for pair in pairs:
                pair.publish(changes)

        await store.start(on_changes, lambda nclsid: None)
        for number in range(10):
            await store.apply(write(Action.INS, number + 1, name=f"old {number}"))
        writer, reader = [await Pair.connect(store, dialect) for _ in range(2)]
        pairs += [writer, reader]
        has_deltas = dialect == "document"
        rqstid = reader.client.subscribe(
            TRUCK,
            0,
            kind=SubscriptionType.INCREMENTAL,
            encoding=Encoding.INDEXDELTA if has_deltas else Encoding.INDEXNOTZERO,
        )
        await reader.exchange()
        actions = [
            (Action.INS, truck(50, name="new"), Encoding.INDEXNOTZERO),
            (Action.UPD, truck(3, temps={1: 4}), Encoding.INDEXNOTZERO),
            (Action.DEL, truck(4), Encoding.INDEXNOTZERO),
            (Action.INS, truck(5), Encoding.INDEXNOTZERO),
        ]
        if has_deltas:
            delta = {"truck_id": 3, "temps": {0: 1}, "home": {"x": 2}}
            value = new_value(FLEET, "TRUCK", delta, Encoding.INDEXDELTA)
            actions.append((Action.DLT, value, Encoding.INDEXDELTA))
            actions.append((Action.UPD, truck(6, u64=1), Encoding.ALL))
        for action, given, encoding in actions:
            writer.client.transact(action, given, 0, encoding=encoding, wants_result=True)
        await writer.exchange()
        await reader.exchange()
        finished = [e for e in writer.events if isinstance(e, TransactionFinished)]
        assert [int(e.code) for e in finished] == [0, 0, 0, 4, 0, 0][: len(actions)]
        assert finished[0].nclass == truck(50, name="new")
        stored = {image(r).key(): trimmed(image(r)) for r in await store.rows(TRUCK, (0, 0), 99)}
        assert held(reader.events) == stored
        kinds = [e.action.name for e in reader.events if isinstance(e, ObjectReceived)]  # type: ignore[union-attr]
        assert kinds[10:] == ["INS", "UPD", "DEL", *(["DLT", "UPD"] if has_deltas else [])]
        if dialect != "2019":
            assert sum(isinstance(e, DownloadEnded) for e in reader.events) == 1
        # It goes away, and comes back for the rest.
        position = reader.client.position(rqstid)
        pairs.remove(reader)
        await store.apply(write(Action.DEL, 50))
        await store.apply(write(Action.INS, 51))
        again = await Pair.connect(store, dialect)
        again.client.subscribe(TRUCK, 0, since=position)
        await again.exchange()
        received = [e for e in again.events if isinstance(e, ObjectReceived)]
        assert [(e.action.name, e.nclass["truck_id"]) for e in received if e.nclass] == [  # type: ignore[union-attr]
            ("DEL", 50),
            ("INS", 51),
        ]
        assert again.server.connid > reader.server.connid > writer.server.connid

    on_store(test, store_url, first_index=get_dialect(dialect).first_index_of(FLEET))
