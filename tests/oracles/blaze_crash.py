"""Brokers that are killed under load, and what must hold afterwards.

Writers insert objects, each once, and note which were acknowledged. A subscriber follows all along
and resumes where it was. The broker is killed with no chance to clean up and started again. Then:

* every acknowledged object is there;
* an object without an answer may be there or not; its insert is retried until it is known to be;
* the subscriber has seen each insert exactly once, in the order of the stamps.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from oracles.blaze_peers import MODEL, Raw, truck
from oracles.blaze_program import Program
from wireloom.errors import DecodeError
from wireloom.formats.blaze import (
    Action,
    ConnectionRequest,
    ConnectionResponse,
    EventType,
    SubscriptionEvent,
    SubscriptionResponse,
    TransactionResponse,
    decode_nclass,
)

__all__ = ["Trial", "kill_under_load", "settle"]

WRITERS = 3
BURST = 24
PATIENCE_S = 20.0
"""Seconds to wait for the first acknowledgement of a round, on a busy machine."""


@dataclass(slots=True)
class Trial:
    """What writers and the subscriber know."""

    next_key: int = 1
    acknowledged: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    seen: Counter[int] = field(default_factory=Counter)
    """Inserts that the subscriber was told of."""
    position: tuple[int, int] = (0, 0)
    kills: int = 0

    def take(self, count: int) -> list[int]:
        """Keys to insert: those whose outcome is unknown, then new ones."""
        again = sorted(self.unknown)[:count]
        self.unknown -= set(again)
        new = range(self.next_key, self.next_key + count - len(again))
        self.next_key += len(new)
        return [*again, *new]


async def _connect(address: str) -> Raw:
    raw = await Raw.open(address)
    raw.send(ConnectionRequest())
    answer = await raw.packet(30)
    if not isinstance(answer, ConnectionResponse):
        raw.close()
        raise ConnectionResetError("killed before it answered")
    raw.connid = answer.connid or 0
    return raw


async def _write(trial: Trial, address: str) -> None:
    async with await _connect(address) as raw:
        while True:
            keys = trial.take(BURST)
            waiting: dict[int, int] = {}
            trial.unknown.update(keys)
            for key in keys:
                request = raw.request(Action.INS, truck(key, x=key))
                waiting[request.txprid] = key
                raw.send(request)
            while waiting:
                found = await raw.packet(30)
                if found is None:
                    return
                assert isinstance(found, TransactionResponse), found
                key = waiting.pop(found.txprid)
                # 4: the previous attempt was carried out, and its answer lost.
                assert found.blzcod in (0, 4), found
                trial.unknown.discard(key)
                trial.acknowledged.add(key)


async def _follow(trial: Trial, address: str, until: Callable[[], bool] | None = None) -> None:
    async with await _connect(address) as raw:
        seconds, counter = trial.position
        raw.send(raw.subscription(dwltyp=2, tmstmp0=seconds, tmstmp1=counter))
        while until is None or not until():
            found = await raw.packet(30)
            if found is None:
                return
            if isinstance(found, SubscriptionResponse):
                continue
            assert isinstance(found, SubscriptionEvent), found
            raw.ack(found)
            if found.sevttp != EventType.DWNLEND:
                stamp = found.tmstmp0, found.tmstmp1
                assert stamp > trial.position, f"{stamp} after {trial.position}"
                assert found.sbeact == Action.INS, found
                value = decode_nclass(MODEL, "TRUCK", found.body or b"", first_index=1)
                trial.position = stamp
                trial.seen[int(value["truck_id"])] += 1  # type: ignore[arg-type]


async def _loaded(trial: Trial, address: str) -> None:
    async def quietly(work: object) -> None:
        # The peer is killed: whatever the connections do then is expected.
        with contextlib.suppress(ConnectionError, DecodeError, TimeoutError):
            await work  # type: ignore[misc]

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(quietly(_write(trial, address)))
        group.create_task(quietly(_follow(trial, address)))


async def kill_under_load(trial: Trial, program: Program, rng: Random) -> None:
    """Load a broker, and kill it at a random moment."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_loaded(trial, program.address))
        before, deadline = len(trial.acknowledged), time.monotonic() + PATIENCE_S
        while len(trial.acknowledged) == before and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.sleep(rng.uniform(0.0, 0.35))
        await asyncio.to_thread(program.kill)
    trial.kills += 1


async def settle(trial: Trial, program: Program) -> None:
    """Insert what is not known to be there, let the subscriber catch up, and compare.

    Raises:
        AssertionError: something is lost or doubled.
    """
    async with await Raw.connect(program.address) as raw:
        for key in sorted(trial.unknown):
            answer = await raw.ask(Action.INS, truck(key, x=key))
            assert answer.blzcod in (0, 4), answer
            trial.acknowledged.add(key)
        trial.unknown.clear()
    await _follow(trial, program.address, lambda: len(trial.seen) >= len(trial.acknowledged))
    stored: Counter[int] = Counter()
    async with await Raw.connect(program.address) as raw:
        await raw.subscribe(sbsmod=2)
        while (event := await raw.event(30)).sevttp != EventType.DWNLEND:
            value = decode_nclass(MODEL, "TRUCK", event.body or b"", first_index=1)
            stored[int(value["truck_id"])] += 1  # type: ignore[arg-type]
    wanted = Counter(trial.acknowledged)
    assert stored == wanted, _difference("store", stored, wanted)
    assert trial.seen == wanted, _difference("subscriber", trial.seen, wanted)


def _difference(where: str, found: Counter[int], wanted: Counter[int]) -> str:
    lost, more = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    return f"{where}: lost {lost[:9]}, too many {more[:9]}"
