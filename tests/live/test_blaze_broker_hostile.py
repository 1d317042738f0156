"""Peers that are broken or mean hurt themselves: the malformed vectors, floods, silence, sloth."""

from __future__ import annotations

import asyncio
import json
import random
import re
import struct
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from oracles.blaze_peers import Raw, live, ping, serving, settings, truck, until
from oracles.memory_store import MemoryStore

from wireloom.formats.blaze import (
    ConnectionResponse,
    Disconnected,
    Heartbeat,
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionResponse,
    TransactionResponse,
)
from wireloom.testing.vectors.blaze import model_of

LINES = [
    json.loads(line)
    for line in (files("wireloom.formats.blaze") / "vectors" / "blaze.jsonl")
    .read_text("utf-8")
    .splitlines()
]
MALFORMED = [line for line in LINES if line["kind"] == "malformed"]


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case["id"])
@live
async def test_malformed_packets_get_the_stated_reaction(case: dict[str, Any]) -> None:
    model = model_of(LINES[0])
    store = MemoryStore(model)
    store._connid = 6  # the vectors are of connection 7
    data, expected = bytes.fromhex(case["hex"]), case["expect"]
    dialect = {"seed": "document"}.get(case.get("dialect", "seed"), case.get("dialect", "document"))
    async with serving(settings(dialect=dialect), model=model, store=store) as broker:
        if "CONRES 3" in expected or data[1] == 0x83:  # CONREQ
            raw = await Raw.open(broker)
        else:
            raw = await Raw.connect(broker, dialect=dialect)
            assert raw.connid == 7
        async with raw:
            raw.send(data)
            if found := re.search(r"TXKO (\d+)", expected):
                await raw.expect(TransactionResponse, txresl=2, blzcod=int(found[1]))
            elif found := re.search(r"SBSKO (\d+)", expected):
                await raw.expect(SubscriptionResponse, sbresl=3, blzcod=int(found[1]))
            elif found := re.search(r"CONRES 3/(\d+)", expected):
                await raw.expect(ConnectionResponse, conres=3, errcod=int(found[1]))
                await raw.ended()
            elif case["id"] == "version_zero":
                await raw.expect(ConnectionResponse, conres=3, errcod=6)
                await raw.ended()
            else:
                # Whatever else is wrong with a packet ends the connection with a reason.
                await raw.expect(Disconnected)
                await raw.ended()


@live
async def test_garbage_hurts_only_who_sends_it() -> None:
    rng = random.Random(5)
    async with serving(settings(protocol={"handshake_s": 0.5})) as broker:
        async with await Raw.connect(broker) as good:
            for number in range(1, 41):
                bad = await (Raw.connect if number % 2 else Raw.open)(broker)
                bad.send(rng.randbytes(rng.choice((1, 3, 40, 4000))))
                if number % 3 == 0:
                    bad.close()
                answer = await good.ask(value=truck(number))
                assert answer.txresl == 1
                bad.close()
        await until(lambda: not (broker.sessions))
        assert not broker.members
        assert not broker.fanout.counts()


@live
async def test_half_a_header_stalls_nobody() -> None:
    async with serving() as broker, await Raw.connect(broker) as good:
        halves = [await Raw.connect(broker) for _ in range(20)]
        for at, half in enumerate(halves):
            half.send(half.request().encode()[: 1 + at * 2])
        for number in range(1, 51):
            assert (await good.ask(value=truck(number))).txresl == 1
        for half in halves:
            half.close()


@pytest.mark.slow
@live
async def test_who_drips_bytes_without_a_packet_is_silent_all_the_same() -> None:
    async with serving() as broker, await Raw.connect(broker, hbtsec=1) as slow:
        data = slow.request().encode()

        async def drip() -> None:
            for byte in data[:-1]:
                slow.send(bytes([byte]))
                await asyncio.sleep(0.08)

        async with asyncio.TaskGroup() as group:
            dripping = group.create_task(drip())
            await slow.packet()  # TSTREQ
            await slow.expect(Disconnected, disres=6)
            dripping.cancel()


@pytest.mark.parametrize("size", [0, 4, 35, (1 << 20) + 1, 0xFFFFFFFF])
@live
async def test_a_length_that_cannot_be_allocates_nothing_and_ends_the_connection(size: int) -> None:
    async with serving() as broker, await Raw.connect(broker) as raw:
        data = bytearray(raw.request().encode())
        struct.pack_into(">I", data, 24, size)
        raw.send(bytes(data))
        await raw.expect(Disconnected, disres=1)
        await raw.ended()


@live
async def test_the_largest_packet_is_taken_and_one_byte_more_is_not() -> None:
    async with serving(settings(protocol={"max_frame": 59})) as broker:
        for name, is_taken in (("x" * 7, True), ("x" * 8, False)):
            async with await Raw.connect(broker) as raw:
                request = raw.request(value=truck(1, name=name))
                assert (len(request.encode()) <= 59) == is_taken
                raw.send(request)
                found = await raw.packet()
                assert isinstance(found, TransactionResponse if is_taken else Disconnected)


@live
async def test_who_does_not_read_is_not_read_from_and_then_cut_off() -> None:
    given = settings(protocol={"stall_s": 0.3}, limits={"max_queue_bytes": 4096})
    async with serving(given) as broker, await Raw.connect(broker) as good:
        greedy = await Raw.connect(broker)
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer = next(peer for peer in broker.sessions if peer.session.connid == greedy.connid)
        for number in range(1, 20_001):
            greedy.send(greedy.request(value=ping(number, "x" * 2000), rsclrq=1))
            if number % 200 == 0:
                assert (await good.ask(value=truck(number))).txresl == 1
                await asyncio.sleep(0.02)
            if peer not in broker.sessions:
                break
        assert peer not in broker.sessions
        assert broker.metrics.slow_consumers["cut off"] == 1
        greedy.close()


@live
async def test_a_subscriber_that_does_not_read_is_bounded_and_slows_nobody() -> None:
    given = settings(
        subscriptions={"window": 100_000, "max_queue": 500},
        limits={"max_queue_bytes": 1 << 16},
        protocol={"stall_s": 1000.0},
        program={"drain_s": 1.0},
    )
    async with serving(given) as broker, await Raw.connect(broker) as writer:
        deaf, good = await Raw.connect(broker), await Raw.connect(broker)
        deaf.writer.get_extra_info("socket").setsockopt(1, 8, 4096)  # SO_RCVBUF
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for each in (deaf, good):
            each.send(each.subscription(303, sbsmod=3))
        await good.expect(SubscriptionResponse)
        for number in range(1, 20_001):
            writer.send(writer.request(value=ping(number, "x" * 2000)))
            if number % 200 == 0:
                for _ in range(200):
                    await writer.expect(TransactionResponse)
                for _ in range(200):
                    await good.expect(SubscriptionEvent)
            if broker.metrics.slow_consumers["stop"]:
                break
        else:
            raise AssertionError("the deaf subscriber was never stopped")
        assert broker.fanout.counts() == {303: 1}
        deaf.close()
        good.close()


@live
async def test_a_flood_of_small_packets_takes_turns_with_others() -> None:
    async with serving() as broker, await Raw.connect(broker) as good:
        floods = [await Raw.connect(broker) for _ in range(4)]
        for flood in floods:
            beat = Heartbeat(tmstmp=1, connid=flood.connid)
            ack = SubscriptionAck(sbsrid=9, sevtid=9)
            flood.send(b"".join([beat.encode(), ack.encode()]) * 20_000)
        for number in range(1, 21):
            assert (await good.ask(value=truck(number))).txresl == 1
        for flood in floods:
            flood.close()


@live
async def test_who_sends_more_than_its_quota_is_slowed_down() -> None:
    async with (
        serving(settings(limits={"max_bytes_per_s": 50_000})) as broker,
        await Raw.connect(broker, hbtsec=1) as raw,
    ):
        for number in range(1, 2001):
            raw.send(raw.request(value=truck(number)))
        answers = [await raw.expect(TransactionResponse) for _ in range(2000)]
        assert all(answer.txresl == 1 for answer in answers)
        assert broker.hub.metrics.slowed._value.get() >= 1


@live
async def test_who_sends_more_transactions_than_it_may_is_slowed_down() -> None:
    given = settings(transactions={"max_per_s": 100})
    async with serving(given) as broker, await Raw.connect(broker) as raw:
        started = time.monotonic()
        for number in range(1, 171):
            raw.send(raw.request(value=truck(number)))
            await asyncio.sleep(0)
        for _ in range(170):
            await raw.expect(TransactionResponse, txresl=1)
        raw.send(raw.request(value=truck(999)))
        await raw.expect(TransactionResponse, txresl=1)
        assert time.monotonic() - started > 0.5
        assert broker.metrics.held_reads["rate"]


@pytest.mark.slow
@live
async def test_a_thousand_connections_that_say_nothing_are_gone_in_time() -> None:
    async with serving(settings(protocol={"handshake_s": 0.5})) as broker:
        idle = [await Raw.open(broker) for _ in range(300)]
        async with await Raw.connect(broker) as good:
            assert (await good.ask()).txresl == 1
            for each in idle:
                await each.ended()
                each.close()


@live
async def test_a_reset_in_the_middle_of_everything_leaves_nothing_behind() -> None:
    given = settings(subscriptions={"window": 50})
    async with serving(given) as broker, await Raw.connect(broker) as writer:
        for number in range(1, 31):
            reader = await Raw.connect(broker)
            reader.send(reader.subscription(), reader.request(value=truck(number)))
            sock = reader.writer.get_extra_info("socket")
            sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: close resets
            if number % 2:
                await reader.packet()
            reader.close()
            assert (await writer.ask(value=truck(1000 + number))).txresl == 1
        await until(lambda: not (len(broker.sessions) > 1))
        assert not broker.fanout.counts()


def test_the_safety_lessons_have_their_tests() -> None:
    """Facts 5.4: each weakness of the reference, and the test that shows ours to be without."""
    lessons = {
        "array index off by one": "an element behind the last",
        "string length off by one": "a string that is too long",
        "PKTLEN below the header": "test_a_length_that_cannot_be",
        "a half-sent header stalls everybody": "test_half_a_header_stalls_nobody",
        "use after free when a subscriber leaves": "test_a_reset_in_the_middle",
        "no size limit": "test_the_largest_packet_is_taken",
        "no rate limit": "test_who_sends_more_than_its_quota",
        "no queue limit": "test_a_subscriber_that_does_not_read_is_bounded",
    }
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_blaze_broker*.py"))
    assert all(text.count(name) >= 1 for name in lessons.values())
