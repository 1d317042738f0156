"""Limits hold before anything is reserved; hostile nesting and counts end in a `LimitError`."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

import wireloom
from wireloom.errors import LimitError
from wireloom.framing import MAX_PROBLEM
from wireloom.wire import DEFAULT_LIMITS

Maker = Callable[[int], bytes]


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def tibmsg(body: bytes) -> bytes:
    return b"\xce\x13\xaa\x1f\x01" + u32(len(body)) + body


def tibrv(body: bytes) -> bytes:
    return u32(len(body) + 8) + b"\x99\x55\xee\xaa" + body


def qform(body: bytes) -> bytes:
    return b"\x11\x11\x11\x12" + u32(len(body)) + body


def tibmsg_nested(depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        body = b"\x02A\0\x81" + u32(len(body)) + body
    return tibmsg(body)


def tibrv_nested(depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        body = b"\x02A\0\x01\x7a" + tibrv(body)
    return tibrv(body)


def tibrv_nested_arrays(depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        inner = u32(1) + tibrv(body)
        body = b"\x02A\0\x31\x7a" + u32(len(inner) + 4) + inner
    return tibrv(body)


NESTED = [
    pytest.param("tibmsg", tibmsg_nested, id="tibmsg"),
    pytest.param("tibrv", tibrv_nested, id="tibrv"),
    pytest.param("tibrv", tibrv_nested_arrays, id="tibrv arrays"),
]

MANY = [
    pytest.param("tibmsg", lambda count: tibmsg(b"\0\x03\0" * count), id="tibmsg"),
    pytest.param("tibrv", lambda count: tibrv(b"\0\x07\0" * count), id="tibrv"),
    pytest.param("qform", lambda count: qform(b"\xcf\xa1\0\x01" * count), id="qform"),
]


@pytest.mark.parametrize(("name", "nested"), NESTED)
def test_nesting_up_to_the_limit_is_read(name: str, nested: Maker) -> None:
    for depth, most in ((1, 1), (5, 5), (DEFAULT_LIMITS.max_depth, DEFAULT_LIMITS.max_depth)):
        data = nested(depth)
        assert wireloom.decode(data, name, max_depth=most).encode() == data


@pytest.mark.parametrize(("name", "nested"), NESTED)
@pytest.mark.parametrize(("depth", "most"), [(2, 1), (33, 32), (2000, 32), (2000, 1 << 20)])
def test_deeper_nesting_is_a_limit_error(name: str, nested: Maker, depth: int, most: int) -> None:
    data = nested(depth)
    with pytest.raises(LimitError) as caught:
        wireloom.decode(data, name, max_depth=most)
    assert caught.value.limit <= most
    tree = wireloom.outline(data, name, max_depth=most)
    assert any(node.error for _, node in tree.walk())
    assert sum(record.length for record in wireloom.scan(data, name)) == len(data)


@pytest.mark.parametrize(("name", "many"), MANY)
def test_as_many_fields_as_the_limit_are_read_and_no_more(name: str, many: Maker) -> None:
    assert wireloom.decode(many(10), name, max_fields=10).encode() == many(10)
    with pytest.raises(LimitError) as caught:
        wireloom.decode(many(11), name, max_fields=10)
    assert caught.value.limit == 10
    tree = wireloom.outline(many(11), name, max_fields=10)
    assert any(node.error for _, node in tree.walk())


@pytest.mark.parametrize(("name", "many"), MANY)
def test_too_many_fields_cost_nothing_after_the_limit(name: str, many: Maker) -> None:
    data = many(200_000)
    with pytest.raises(LimitError):
        wireloom.decode(data, name, max_fields=100)  # what is imported on first use is not counted
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            wireloom.decode(data, name, max_fields=100)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


ANNOUNCED = [
    pytest.param("tibmsg", b"\xce\x13\xaa\x1f\x01" + u32(0xFFFF_FFFF), id="tibmsg"),
    pytest.param("tibrv", u32(0xFFFF_FFFF) + b"\x99\x55\xee\xaa", id="tibrv"),
    pytest.param("qform", b"\x11\x11\x11\x12" + u32(0xFFFF_FFFF), id="qform"),
    pytest.param("nrep", b"\0\x0a\0\0\0\0\xff\xff\xff\xff", id="nrep"),
    pytest.param("nais", b"\x1e\x05\0\0\0\xff\xff\xff\x7f", id="nais"),
    pytest.param(
        "blaze",
        u32(1 << 26 | 7 << 22 | 10 << 16)
        + u32(1)
        + u32(1 << 28)
        + u32(1)
        + u32(0)
        + u32(0)
        + u32(0xFFFF_FFFF),
        id="blaze",
    ),
]


@pytest.mark.parametrize(("name", "header"), ANNOUNCED)
def test_a_huge_announcement_is_refused_by_its_header(name: str, header: bytes) -> None:
    with pytest.raises(LimitError) as caught:
        wireloom.decode(header, name)
    assert caught.value.value > caught.value.limit
    first = next(iter(wireloom.scan(header + bytes(100), name)))
    assert isinstance(first, wireloom.Problem)
    assert first.code in (caught.value.code, "too_large", "too_long")


@pytest.mark.parametrize("name", wireloom.formats())
def test_noise_does_not_pile_up_in_a_framer(name: str) -> None:
    random = Random(5)
    size = 5 * MAX_PROBLEM // 2
    chunk = random.randbytes(1 << 16)
    seen = 0
    tracemalloc.start()
    try:
        for record in wireloom.scan((chunk for _ in range(size // len(chunk))), name):
            seen += record.length
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == size // len(chunk) * len(chunk)
    # One problem being collected, one being given out, a buffer that grows, and some room.
    assert peak < 6 * MAX_PROBLEM
