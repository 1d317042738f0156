"""The API as typed programs use it: `./run check` sees that each expression has the type it says.

These are tests too, so that nothing here is only true on paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, assert_type

import wireloom
from wireloom.conversion import Conversion, Loss, LossKind
from wireloom.formats import blaze, nrep, qform, tibmsg, tibrv
from wireloom.messages import Json, Message
from wireloom.nesting import Nested, Unreadable
from wireloom.outline import Node

PUBLISH = bytes.fromhex("00044433221108000000040000006563686f")
CFILE = "BID { CLASS_ID 10720; DATA_TYPE grocery; }"


def test_messages_of_any_format() -> None:
    assert_type(wireloom.formats(), tuple[str, ...])
    assert_type(wireloom.detect(PUBLISH), str | None)
    message = assert_type(wireloom.decode(PUBLISH, "nrep", strict=True), Message)
    assert assert_type(wireloom.encode(message), bytes) == PUBLISH
    for data in (bytearray(PUBLISH), memoryview(PUBLISH)):
        assert wireloom.decode(data) == message
    assert_type(message.format, str)
    assert_type(message.type_name, str)
    described = assert_type(message.to_dict(), Json)
    assert assert_type(wireloom.from_dict(described), Message) == message
    assert_type(wireloom.outline(PUBLISH), Node)
    assert_type(message.payloads(), Iterator[tuple[str, bytes]])


def test_streams() -> None:
    whole = wireloom.scan(PUBLISH + b"?", "nrep")
    assert_type(whole, Iterator[wireloom.Frame | wireloom.Text | wireloom.Problem])
    for record in wireloom.scan([PUBLISH[:5], bytearray(PUBLISH[5:]), b"?"], "nrep"):
        assert record == next(whole)
        assert_type(record.length, int)
        match record:
            case wireloom.Frame():
                assert_type(record.data, bytes)
            case wireloom.Problem():
                assert_type((record.code, record.at), tuple[str, int])
            case _:
                assert_type(record, wireloom.Text)


def test_messages_in_messages() -> None:
    outer = tibrv.build({"_data_": tibmsg.build({"A": 1}).encode()})
    bad: list[Unreadable] = []
    inside = assert_type(
        wireloom.nested(outer, on_unreadable=bad.append, strict=True), Iterator[Nested]
    )
    for found in inside:
        assert_type(found.path, str)
        assert_type(found.message, Message)
    assert not bad


def test_conversion() -> None:
    quote = tibmsg.build({"BID": Decimal("1.25")})
    made = assert_type(wireloom.convert(quote, to="tibrv"), Conversion[Message])
    assert_type(made.losses, tuple[Loss, ...])
    assert_type(made.losses[0].kind, LossKind)
    described = assert_type(wireloom.convert(quote, to="json"), Conversion[Json])
    again, _ = wireloom.convert(described.message, to="qform", dictionary=CFILE)
    assert assert_type(again, Message).format == "qform"


def test_tibmsg() -> None:
    # A plain dictionary of any values is a mapping that `build` takes.
    numbers: dict[str, int] = {"A": 1}
    texts: dict[str, str] = {"A": "x"}
    fields: dict[str, tibmsg.Field] = {"A": tibmsg.Field.of(None, 1)}
    mixed: dict[str, int | str | Decimal] = {"A": 1, "B": "x"}
    for message in (
        tibmsg.build(numbers),
        tibmsg.build(texts),
        tibmsg.build(fields),
        tibmsg.build(mixed),
        tibmsg.build({"A": 1, "B": {"C": b"x"}}),
        tibmsg.build([tibmsg.Field.of("A", 1, type=tibmsg.FieldType.UINT, size=2, hint=3)]),
        tibmsg.build(tibmsg.Field.of(name, 1) for name in ("A", "B")),
    ):
        assert_type(message, tibmsg.Message)
        field = assert_type(message["A"], tibmsg.Field)
        assert_type(message[0].type, tibmsg.FieldType)
        assert_type(message.get("none"), tibmsg.Field | None)
        assert_type(message.get("none", 0), tibmsg.Field | int)
        assert_type(message.to_values(), dict[str, Any])
        assert_type([each.name for each in message], list[str | None])
        assert_type(field.hint, tibmsg.Hint | None)
        assert assert_type(tibmsg.decode(message.encode()), tibmsg.Message) == message


def test_tibrv() -> None:
    numbers: dict[str, int] = {"A": 1}
    fields: dict[str, tibrv.Field] = {"A": tibrv.Field.of(None, 1)}
    for message in (
        tibrv.build(numbers),
        tibrv.build(fields),
        tibrv.build({"A": 1, "B": {"C": [1, 2]}}),
        tibrv.build([tibrv.Field.of("A", "X.Y", type=tibrv.FieldType.SUBJECT, fid=7)]),
    ):
        assert_type(message, tibrv.Message)
        assert_type(message["A"], tibrv.Field)
        assert_type(message["A"].fid, int | None)
        assert_type(message.carried(), tibrv.Carried | None)
        assert assert_type(tibrv.decode(message.encode()), tibrv.Message) == message


def test_qform() -> None:
    dictionary = assert_type(qform.load(CFILE), qform.Dictionary)
    by_name: dict[str, Decimal] = {"BID": Decimal("1.25")}
    by_id: dict[int, float] = {10720: 1.25}
    pairs: list[tuple[str | int, float]] = [("BID", 1.25)]
    for message in (
        qform.build(dictionary, by_name),
        qform.build(dictionary, by_id),
        qform.build(dictionary, pairs),
    ):
        assert_type(message, qform.Message)
        field = assert_type(message["BID"], qform.Field)
        assert_type(field.entry, qform.Entry)
        assert_type(field.name, str)
        assert assert_type(qform.Field.of(field.entry, "1.25"), qform.Field) == field
        data = message.encode()
        assert assert_type(qform.decode(data, dictionary), qform.Message) == message


def test_packets() -> None:
    publish = assert_type(nrep.Publish(nonce=0x11223344, description="echo"), nrep.Publish)
    assert_type(publish.description, str)
    assert_type(publish.app_id, bytes)
    assert publish.encode() == PUBLISH
    heard = wireloom.decode(PUBLISH)
    assert isinstance(heard, nrep.Publish)
    assert_type(heard.nonce, int)
    response = blaze.ConnectionResponse(conres=blaze.ConnectionResult.ACCEPTED, connid=3)
    assert_type(response.conres, blaze.ConnectionResult | int)
    assert_type(response.connid, int | None)
    assert_type(response.type_name, str)
