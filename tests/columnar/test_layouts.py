"""Messages whose layout repeats: read by it, with the same rows as without; damage is noticed."""

from __future__ import annotations

from decimal import Decimal
from importlib import import_module
from random import Random

import pytest
from oracles.tabled import WIDE_TYPES, check_messages, plain_rows, tabled
from oracles.twins import check_scan

from wireloom import kernel as kernels
from wireloom.columnar import decode_bytes
from wireloom.columnar.wide import choose
from wireloom.formats import tibmsg, tibrv
from wireloom.formats._tib.values import Date, Time
from wireloom.kernel.rows import layoutrows
from wireloom.wire import Limits

MESSAGES = {"compiled": 3000, "interpreted": 200}
CHOICE = choose(["BID:decimal(18,4)", "SYMBOL:text"], {})
BYTES = (0, 1, 2, 6, 15, 16, 31, 32, 127, 128, 255)
"""Hints, sizes and types among them."""


@pytest.fixture
def count(kernel):
    return MESSAGES["interpreted" if kernel is kernels.interpreted() else "compiled"]


def _quote(random):
    price = random.randrange(-5_000_000, 5_000_000)
    return {
        "MSG_TYPE": random.randrange(100),
        "SYMBOL": "".join(random.choices("ABCDEFGH", k=4)),
        "BID": Decimal(price).scaleb(-4),
        "ASK": Decimal(price + 1).scaleb(-4),
        "SIZE": random.randrange(-5000, 5000),
        "A_NAME_QUITE_LONG": random.random() * 10.0 ** random.randrange(-20, 20),
        "NETCHNG": Decimal(random.randrange(-99, 99)).scaleb(-random.randrange(10)),
        "DAY": Date(2024, random.randrange(1, 13), random.randrange(1, 29)),
        "AT": Time(random.randrange(24), random.randrange(60), random.randrange(60)),
    }


def _named(random):
    text = "".join(random.choices("ABCDEFGH", k=random.randrange(1, 40)))
    values = _quote(random)
    return {
        **{name: values[name] for name in ("MSG_TYPE", "BID", "DAY", "AT")},
        "SYMBOL": text,
        "NAME": text[: random.randrange(1, 9)],
        "LAST": 1,
    }


def _status(random):
    return {"STATE": random.choice(["up", "ok"]), "CODE": random.randrange(9), "LOAD": 0.5}


def _message(name, values):
    if name == "tibmsg":
        return tibmsg.build(values).encode()
    plain = {
        key: float(value)
        if isinstance(value, Decimal)
        else str(value)
        if isinstance(value, Date | Time)
        else value
        for key, value in values.items()
    }
    return tibrv.build(plain).encode()


def _messages(name, random, count, kinds=(_quote,)):
    return [_message(name, random.choice(kinds)(random)) for _ in range(count)]


def _damaged(messages, random):
    """The same, most of them with some bytes changed, but none with another length."""
    found = []
    for message in messages:
        raw = bytearray(message)
        for _ in range(random.choice((0, 0, 1, 1, 2, 5))):
            at = random.randrange(9, len(raw))
            raw[at] = random.choice((*BYTES, random.randrange(256)))
        found.append(bytes(raw))
    return found


def _wide(name, data, kernel, tables, columns):
    found = decode_bytes(data, name, tables=tables, columns=columns, kernel=kernel, batch_rows=50)
    return [row for table, batch in found if table == "wide" for row in plain_rows(batch)]


@pytest.fixture
def used(monkeypatch):
    """How many messages the interpreted kernel has read by their layout."""
    found = []
    read = layoutrows.repeated_rows

    def counted(*arguments):
        fields = read(*arguments)
        found.append(fields > 0)
        return fields

    monkeypatch.setattr(layoutrows, "repeated_rows", counted)
    return found


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_most_messages_of_a_feed_are_read_by_their_layout(name, used):
    random = Random(1)
    frames = _messages(name, random, 100, (_quote, _status))
    check_messages(name, frames, kernel=kernels.interpreted())
    assert len(used) == 100
    assert used.count(True) > 90


def test_a_layout_takes_the_place_of_one_that_no_longer_comes(used):
    # All start with the same two fields, and none keeps another from being remembered.
    def message(kind, number):
        return _message("tibmsg", {"A": number, "B": 1.5, f"FIELD_{kind}": number})

    first = [message(kind, number) for kind in range(100, 356) for number in range(2)]
    other = [message(99, number) for number in range(30)]
    tabled("tibmsg", first + other, kernel=kernels.interpreted(), tables=["fields"])
    assert used[:-30].count(True) == 256
    assert used[-30:] == [False] * 8 + [True] * 22


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_texts_of_other_lengths_do_not_make_another_layout(name, used):
    random = Random(8)
    frames = _messages(name, random, 100, (_named,))
    assert len({len(frame) for frame in frames}) > 20
    check_messages(name, frames, kernel=kernels.interpreted())
    # The first message is kept as it is; the second shows that the texts vary.
    assert used == [False] * 2 + [True] * 98


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_texts_of_other_lengths_and_damage(name, kernel, count):
    random = Random(9)
    frames = _messages(name, random, count, (_named, _quote))
    check_messages(name, frames, kernel=kernel, batch_rows=50)
    frames = _damaged(frames, random)
    check_messages(name, frames, kernel=kernel)
    check_scan(name, b"".join(frames[: count // 4]), kernel=kernel, chunked=False)


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_more_texts_than_segments_and_texts_too_long(name, kernel):
    random = Random(10)
    frames = []
    for _ in range(60):
        values = {f"T{number}": "x" * random.choice((1, 2, 40)) for number in range(20)}
        frames.append(_message(name, values | {"LAST": random.random()}))
        text = "x" * random.choice((1, 62, 63, 64, 65, 119, 120, 121, 300))
        frames.append(_message(name, {"NOTE": text, "N": 1, "MORE": "abc"}))
        frames.append(_message(name, {"N": 1, "NOTE": text}))
    check_messages(name, frames, kernel=kernel)
    check_scan(name, b"".join(frames), kernel=kernel, chunked=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_fields_in_another_order_are_known_again(name, kernel, count, monkeypatch):
    part, parsed = import_module(f"wireloom.kernel.walk.{name}"), []
    parse = getattr(part, f"{name}_header")
    monkeypatch.setattr(part, f"{name}_header", lambda *given: parsed.append(1) or parse(*given))
    random = Random(11)
    frames = []
    for _ in range(count):
        values = list(_quote(random).items())
        random.shuffle(values)
        frames.append(_message(name, dict(values)))
    check_messages(name, frames, kernel=kernel)
    if kernel is kernels.interpreted():
        # Each field has one header; two of them may share a place among those seen lately.
        assert len(parsed) < 2 * count
    check_messages(name, _damaged(frames, random), kernel=kernel)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_rows_are_those_of_the_object_path(name, kernel, count):
    random = Random(2)
    check_messages(name, _messages(name, random, count), kernel=kernel)
    check_messages(name, _messages(name, random, count, (_quote, _status)), kernel=kernel)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_damage_is_noticed(name, kernel, count):
    random = Random(3)
    for batch_rows in (1 << 16, 50, 7):
        frames = _damaged(_messages(name, random, count, (_quote, _status)), random)
        check_messages(name, frames, kernel=kernel, batch_rows=batch_rows)


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_scanners_notice_it_too(name, kernel, count):
    random = Random(4)
    for _ in range(8):
        frames = _damaged(_messages(name, random, count // 8, (_quote, _status)), random)
        check_scan(name, b"".join(frames), kernel=kernel, chunked=False)


def test_long_sizes_and_hints_are_part_of_a_layout(kernel):
    random = Random(5)
    fields = (
        b"\2A\0\x83\0\0\0\3abc"  # opaque, with a long size
        b"\2B\0\xc2\0\0\0\3hi\0\x86\0\0\0\2\1\0"  # a text, and a hint with a long size
        b"\2C\0\x08\4abcd\5\2"  # an array of numbers
        b"\2D\0\x09\2xy\6\1"  # part of a text
    )
    good = b"\xce\x13\xaa\x1f\1" + len(fields).to_bytes(4, "big") + fields
    frames = [good] * 20 + _damaged([good] * 300, random)
    check_messages("tibmsg", frames, kernel=kernel)
    check_scan("tibmsg", b"".join(frames), kernel=kernel, chunked=False)
    fields = b"\2A\0\x07\x7a\0\0\0\7abc\2B\0\x08\x79\0\5ab\0\2C\0\x0b\2\1\2\2D\0\x09\1\1"
    good = (len(fields) + 8).to_bytes(4, "big") + b"\x99\x55\xee\xaa" + fields
    frames = [good] * 20 + _damaged([good] * 300, random)
    check_messages("tibrv", frames, kernel=kernel)
    check_scan("tibrv", b"".join(frames), kernel=kernel, chunked=False)


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_wide_rows_alone_are_those_beside_fields(name, kernel, count, monkeypatch):
    good, read = [], layoutrows.repeated_cells
    monkeypatch.setattr(
        layoutrows, "repeated_cells", lambda *given: good.append(read(*given)) or good[-1]
    )
    random = Random(7)
    fields = list(_quote(random)) + list(_status(random))
    for _ in range(6):
        columns = [f"{field}:{random.choice(WIDE_TYPES)}" for field in fields]
        columns = random.sample(columns, random.randint(1, len(columns)))
        frames = _messages(name, random, count // 6, (_quote, _status))
        data = b"".join(frames + _damaged(frames, random))
        alone = _wide(name, data, kernel, ["wide"], columns)
        assert alone == _wide(name, data, kernel, ["wide", "fields"], columns)
        assert len(alone) > len(frames)
    if kernel is kernels.interpreted():
        assert good.count(0) > len(good) // 2


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_columns_wide_rows_and_limits(name, kernel, count):
    random = Random(6)
    frames = _damaged(_messages(name, random, count // 10, (_quote, _status)), random)
    check_messages(name, frames, kernel=kernel, choice=CHOICE)
    for left in ("value_date", "value_decimal", "hint", "value_text"):
        columns = ["frame_offset", "position", "name", "type", "size", "value_int", "value_real"]
        columns += {"value_date", "value_decimal", "hint", "value_text"} - {left}
        check_messages(name, frames, kernel=kernel, select={"fields": columns})
    check_messages(name, frames, kernel=kernel, limits=Limits(max_fields=8))
    check_messages(None, frames, kernel=kernel)


def _share_by_layout(monkeypatch, name, frames, **options):
    """Which share of the messages is read by a layout."""
    counts, read = [], layoutrows.repeated_rows
    monkeypatch.setattr(
        layoutrows, "repeated_rows", lambda *given: counts.append(read(*given)) or counts[-1]
    )
    tabled(name, frames, kernel=kernels.interpreted(), tables=["fields"], **options)
    return sum(map(bool, counts)) / len(frames)


@pytest.mark.parametrize("name", ["tibmsg", "tibrv"])
def test_fewer_columns_are_read_by_layouts_too(name, monkeypatch):
    # They were read field by field, half as long again: the quick path wants seven columns.
    frames = _messages(name, Random(3), 100)
    everything = _share_by_layout(monkeypatch, name, frames)
    assert everything > 0.8
    select = {"fields": ("name", "value_real")}
    assert _share_by_layout(monkeypatch, name, frames, select=select) == everything


def test_many_templates_are_remembered(monkeypatch):
    # Of 40 with 16 slots by their sizes, most drove each other out: 2.4 times as long.
    random = Random(4)
    names = [f"FIELD_{number}" for number in range(20)]
    templates = [sorted(random.sample(names, random.randrange(8, 20))) for _ in range(40)]
    frames = [
        tibmsg.build({each: random.random() for each in random.choice(templates)}).encode()
        for _ in range(1200)
    ]
    assert _share_by_layout(monkeypatch, "tibmsg", frames) > 0.96
