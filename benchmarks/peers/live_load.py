"""One side of a measured conversation, as a process: publishes or subscribes, on Blaze or NATS.

``python live_load.py ROLE ADDRESS JSON``; it says ``ready`` on stdout, then what it has measured.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import uvloop

MODEL = """
nclass TICK
{
    @id 401
    uint_32 n
    ascii[400] text
    @key primary
    @id 1
    @fldset {n}
    @key_end
}

nclass ROW
{
    @id 402
    uint_32 n
    ascii[400] text
    @persistent
    @key primary
    @id 1
    @fldset {n}
    @key_end
}
"""
_OVERHEAD = 4 + 6 + 6
"""Bytes of an object besides its text: LEN, the number's field, and the text's INDEX and LEN."""
_WARM_UP_MS = 1000


def say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def ready() -> None:
    """Print ``ready``, and wait to be told to begin; what was prepared is not looked at again."""
    gc.collect()
    gc.freeze()
    say(event="ready")
    sys.stdin.readline()


def objects(name: str, first: int, count: int, size: int) -> Any:
    from wireloom.formats.blaze import from_blz, new_value

    model = from_blz(MODEL)
    text = "x" * (size - _OVERHEAD)
    return [new_value(model, name, {"n": n, "text": text}) for n in range(first, first + count)]


async def blaze_pub(address: str, count: int, size: int, nclass: str, first: int = 1) -> None:
    from wireloom.services.blaze import Client

    host, _, port = address.rpartition(":")
    given = objects(nclass, first, count, size)
    async with Client.connect(host, int(port), model=given[0].model, timeout=120) as client:
        ready()
        started = time.monotonic()
        answered = sum(result.is_ok for result in await client.insert_many(given))
        say(started=started, ended=time.monotonic(), answered=answered)


async def blaze_sub(address: str, count: int, readers: int) -> None:
    from wireloom.formats.blaze import SubscriptionMode, from_blz
    from wireloom.services.blaze import Client

    host, _, port = address.rpartition(":")
    model = from_blz(MODEL)

    async def read(subscription: Any) -> float:
        seen = 0
        while seen < count:
            seen += len(await subscription.batch(4096))
        return time.monotonic()

    clients = [
        Client.connect(host, int(port), model=model, cumulative_acks=True) for _ in range(readers)
    ]
    subscriptions = []
    for client in clients:
        await client.__aenter__()
        subscription = client.subscribe("TICK", mode=SubscriptionMode.LIVE, queue=65_536)
        await subscription.start()
        subscriptions.append(subscription)
    ready()
    say(ended=max(await asyncio.gather(*map(read, subscriptions))))
    for client in clients:
        await client.close(at_once=True)


async def nats_pub(address: str, count: int, size: int) -> None:
    import nats

    client = await nats.connect(f"nats://{address}")
    payload = b"x" * size
    ready()
    started = time.monotonic()
    for n in range(count):
        await client.publish("tick", payload)
        if n % 512 == 511:
            await client.flush()
    await client.flush()
    say(started=started, ended=time.monotonic())
    await client.close()


async def nats_sub(address: str, count: int, readers: int) -> None:
    import nats

    left = readers
    done = asyncio.get_running_loop().create_future()

    async def subscribe() -> Any:
        client = await nats.connect(f"nats://{address}")
        seen = 0

        async def take(message: Any) -> None:
            nonlocal seen, left
            seen += 1
            if seen == count:
                left -= 1
                if not left:
                    done.set_result(time.monotonic())

        await client.subscribe(
            "tick", cb=take, pending_msgs_limit=10**9, pending_bytes_limit=10**12
        )
        await client.flush()
        return client

    clients = [await subscribe() for _ in range(readers)]
    ready()
    say(ended=await done)
    for client in clients:
        await client.close()


async def latency(address: str, rate: float, seconds: float, size: int, first: int) -> None:
    """Transactions at a steady rate: each millisecond those that are due, sent as the publisher
    sends them. How long each took, from when it was due until the last of its millisecond was
    answered; those of the first second are left out, in which a new broker gets going."""
    from wireloom.services.blaze import Client

    host, _, port = address.rpartition(":")
    ticks = int(seconds * 1000) + _WARM_UP_MS
    given = objects("ROW", first, int(rate * ticks / 1000), size)
    took: list[float] = []
    async with Client.connect(host, int(port), model=given[0].model) as client:
        ready()
        started = time.monotonic()

        async def send(some: list[Any], due: float, is_counted: bool) -> None:
            await client.insert_many(some)
            if is_counted:
                took.extend([time.monotonic() - due] * len(some))

        async with asyncio.TaskGroup() as group:
            for tick in range(ticks):
                due = started + tick / 1000
                if (ahead := due - time.monotonic()) > 0:
                    await asyncio.sleep(ahead)
                some = given[int(tick * rate / 1000) : int((tick + 1) * rate / 1000)]
                group.create_task(send(some, due, tick >= _WARM_UP_MS))
        took.sort()
        say(p50=took[len(took) // 2], p99=took[int(len(took) * 0.99)], count=len(took))


ROLES = {each.__name__: each for each in (blaze_pub, blaze_sub, nats_pub, nats_sub, latency)}


def main() -> None:
    role, address, given = sys.argv[1:]
    uvloop.run(ROLES[role](address, **json.loads(given)))


if __name__ == "__main__":
    main()
