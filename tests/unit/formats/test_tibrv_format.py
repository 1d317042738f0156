from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest

import wireloom
from wireloom.errors import (
    DecodeError,
    TruncatedError,
)
from wireloom.formats import tibmsg
from wireloom.formats.tibrv import FORMAT, Field, FieldType, Message, build, decode, unwrapped
from wireloom.formats.tibrv.format import TibrvRules
from wireloom.formats.tibrv.walk import ELEMENT, walk
from wireloom.framing import Frame

MAGIC = "9955eeaa"


def message_of(body: str) -> bytes:
    raw = bytes.fromhex(body)
    return (8 + len(raw)).to_bytes(4, "big") + bytes.fromhex(MAGIC) + raw


def refusal(data: bytes, **options: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(data, "tibrv", **{"dialect": "standard", **options})
    return caught.value


# --- envelopes ----------------------------------------------------------------------------------

INNER = tibmsg.build({"BID": Decimal("1.25")})


@pytest.mark.parametrize("name", ["_data_", "_TIBMSG", "_RAIMSG"])
def test_a_carried_tibmsg(name: str) -> None:
    envelope = build({name: INNER.encode(), "MORE": 1})
    assert envelope.carried() == ("tibmsg", INNER.encode())
    data = envelope.encode()
    assert wireloom.decode(data, "tibrv", unwrap=True) == INNER
    assert wireloom.decode(data, "tibrv", unwrap=False) == envelope
    assert wireloom.decode(data, "tibrv") == envelope
    assert unwrapped(envelope, lambda _, inner: tibmsg.decode(inner)) == INNER


@pytest.mark.parametrize(
    "envelope",
    [
        build({}),
        build({"A": 1}),
        build({"_data_": 1}),
        build({"_data_": b"junk" * 8}),
        build({"_QFORM": INNER.encode()}),
        build({"other": INNER.encode()}),
        build({"A": 1, "_data_": INNER.encode()}),
        build([Field.of(None, INNER.encode())]),
        build({"_data_": b"\x11\x11\x11\x12\x00\x00\x00"}),
    ],
)
def test_messages_that_carry_none(envelope: Message) -> None:
    assert envelope.carried() is None
    assert unwrapped(envelope, lambda name, data: pytest.fail(name)) is envelope


def test_a_carried_message_that_cannot_be_read() -> None:
    envelope = build({"_data_": INNER.encode()[:-1]})
    error = refusal(envelope.encode(), unwrap=True)
    assert (error.code, error.path) == ("truncated", "fields[0]")


def test_payloads_in_arrays_are_found() -> None:
    message = build({"ROWS": [{"A": b"1"}, {"A": b"2", "M": {"B": b"3"}}], "C": b"4"})
    assert list(message.payloads()) == [
        ("ROWS.messages[0].A", b"1"),
        ("ROWS.messages[1].A", b"2"),
        ("ROWS.messages[1].M.B", b"3"),
        ("C", b"4"),
    ]


# --- outline, framing, detection ----------------------------------------------------------------


def test_a_broken_message_shows_everything_up_to_the_failing_field() -> None:
    data = message_of(
        "024100 0b 01 07 024d00 01 7a 00000015 9955eeaa 024200 0b 01 08 024300 ff 01 00 00"
    )
    root = wireloom.outline(data, "tibrv")
    assert [node.name for node in root.children] == ["length", "magic", "A", "M"]
    inner = root.children[-1].children
    assert [n.name for n in inner] == ["name", "type", "size", "length", "magic", "B", "error"]
    assert inner[-1].error == "undefined field type 255"
    assert inner[-1].value == "fields[1].fields[1]"


def test_outlines_show_arrays_of_messages_and_field_ids() -> None:
    message = build([Field.of("R", [{"i": 5}]), Field.of(None, 1), Field.of("F", 2, fid=7)])
    rows, unnamed, with_id = message.outline().children[2:]
    assert [n.name for n in rows.children] == ["name", "type", "size", "count", "message"]
    assert [n.name for n in rows.children[-1].children] == ["length", "magic", "i"]
    assert unnamed.name == "field 5"
    assert with_id.meaning == "int, field id 7"


@pytest.mark.parametrize("data", [b"", bytes(4), b"junkjunk", message_of("")[:7], message_of("00")])
def test_an_outline_never_fails(data: bytes) -> None:
    root = wireloom.outline(data, "tibrv")
    assert sum(bool(node.error) for _, node in root.walk()) == 1


def test_a_strict_outline_shows_what_is_not_canonical() -> None:
    data = message_of("00 07 79 0002")
    assert not any(node.error for _, node in wireloom.outline(data, "tibrv").walk())
    root = wireloom.outline(data, "tibrv", strict=True)
    assert root.children[-1].error.startswith("not canonical")


def test_a_frame_with_a_broken_nested_message_is_kept_if_the_next_one_follows() -> None:
    broken = message_of("00 01 7a 0000000b 9955eeaa 00 ff 00")
    good = message_of("00 0b 01 07")
    records = list(wireloom.scan(broken + good, "tibrv"))
    assert [type(r) for r in records] == [Frame, Frame]
    assert refusal(records[0].data).path == "fields[0].fields[0]"


def test_the_rules_of_framing() -> None:
    rules = TibrvRules("standard")
    data = message_of("00 0b 01 07" * 3)
    assert rules.check(data, 0, len(data), None)
    assert rules.check(data, 0, len(data), 3)
    assert not rules.check(data, 0, len(data), 2)
    assert not rules.check(message_of(""), 0, 8, None)
    assert rules.measure(data, 0, len(data)) == len(data)
    with pytest.raises(TruncatedError):
        rules.measure(data, 0, 3)
    magic = bytes.fromhex(MAGIC)
    assert rules.find(b"xx1234" + magic + b"xx", 0, 12) == 2
    assert rules.find(b"xx1234" + magic, 3, 10) == 6
    assert rules.find(b"xxxx1234" + magic[:2], 0, 10) == 4
    assert rules.find(b"xxxxxxxx", 0, 8) == 4
    assert rules.find(b"xxxxxxxx", 8, 8) == 8
    assert rules.find(b"", 0, 0) == 0


def test_the_walker_can_step_over_content() -> None:
    data = message_of("00 31 14 00000001 00000010 9955eeaa 00 0b 01 07 00 07 01 00 00 0b 01 07")
    slots = list(walk(data, 8, len(data)))
    assert [None if slot is None else slot[2] for slot in slots] == [
        *(49, ELEMENT, 11, 7, None, None, 11)
    ]
    assert len(list(walk(data, 8, len(data), deep=False))) == 2


@pytest.mark.parametrize(
    ("data", "sure"),
    [
        (message_of("00 0b 01 07"), 99),
        (message_of("00 0b 01 07") + b"x", 97),
        (message_of("00 0b 01 07")[:-1], 90),
        (bytes.fromhex("00000007 9955eeaa"), 40),
        (message_of("")[:7], 0),
        (b"", 0),
    ],
)
def test_detection(data: bytes, sure: int) -> None:
    assert FORMAT.detect(data) == sure


def test_every_type_is_described_and_sampled() -> None:
    assert {info.code for info in FORMAT.types()} == set(FieldType)
    assert all(info.summary for info in FORMAT.types())
    seen = {field.type for data in FORMAT.samples().values() for field in decode(data)}
    assert seen == set(FieldType)


def test_a_message_is_what_it_says() -> None:
    message = build({"A": b"\1"})
    assert (message.format, message.type_name, message.dialect) == ("tibrv", "TIBRVMSG", "standard")
    assert pickle.loads(pickle.dumps(message)) == message
    assert "A" in message._repr_html_()
