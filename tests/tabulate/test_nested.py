"""Messages inside of packets and of each other, and bodies with a model: rows with a path."""

from __future__ import annotations

import io
from collections import Counter
from random import Random

import pytest
from oracles.captured import (
    captured_rows,
    check_accounts,
    collect,
    differences,
    made_capture,
)

from wireloom.captures import Capture
from wireloom.formats import get, nais, tibmsg
from wireloom.formats.blaze import (
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    TransactionRequest,
    encode_nclass,
    from_blz,
    new_value,
)
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.nrep import SocketData
from wireloom.generate import generate
from wireloom.generate.schemas import DICTIONARY
from wireloom.generate.schemas import MODEL as MODEL_TEXT
from wireloom.generate.traffic import Conversation, Faults, pcap
from wireloom.tabulate import Settings, Tabulator, tabulate

QUOTE = tibmsg.build({"SYM": "ABC", "BID": 10}).encode()
WRAPPED = get("tibrv").samples()
MODEL = from_blz("""
nclass POINT
{
    @id 301
    int_32 x
    ascii[6] label
    byte[64] blob
}
nclass NOTE
{
    @id 302
    int_32 y
}
""")
TXID = {"txplid": 1, "txsvid": 2, "txcnid": 7, "txprid": 9}


def _check(name, frames):
    for seed in range(4):
        faults = Faults(reorder=0.1, loss=0.05) if seed % 2 else None
        data = made_capture(frames, Random(seed), faults=faults)
        settings = Settings(formats=(name,))
        expected = captured_rows(Capture(io.BytesIO(data)), name)
        for more in ({}, {"workers": 2}, {"batch_rows": 3}):
            found = collect(tabulate(io.BytesIO(data), settings, **more), settings)
            assert differences(expected, found) == []
    return found


def _socket(data):
    return SocketData(socket_id=bytes(10), data=data).encode()


@pytest.mark.slow
def test_messages_in_nrep_sockets():
    carried = [QUOTE, QUOTE * 3, *WRAPPED.values(), b"plain", QUOTE[:-1], QUOTE + b"\0\0"]
    frames = [_socket(data) for data in carried] + list(get("nrep").samples().values())
    found = _check("nrep", frames)
    assert {"data", "data[0]", "data[2]"} <= {row["path"] for row in found["messages"]}
    assert {row["path"] for row in found["errors"] if row["layer"] == "message"} == {"data"}
    lengths = {(row["stream"], row["frame_offset"]): row["frame_length"] for row in found["frames"]}
    for row in found["fields"]:
        assert row["frame_length"] == lengths[row["stream"], row["frame_offset"]]


def test_messages_in_nais_frames():
    event = nais.NaisPacket(type=60, payload=QUOTE).encode()
    frames = [event, *get("nais").samples().values()]
    found = _check("nais", frames)
    assert any(row["path"] for row in found["messages"])


def _body(values):
    return encode_nclass(new_value(MODEL, "POINT", values), Encoding.INDEXNOTZERO)


def _connection():
    """Both directions of a connection: a request, its answer, and events of that subscription."""
    asks = SubscriptionRequest(
        sbstyp=1, sbsmod=1, flotyp=1, dwltyp=1, enctyp=2, nclsid=301, connid=7, rqstid=5
    ).encode()
    answers = SubscriptionResponse(sbresl=1, rqstid=5, sbsrid=3).encode()
    blob = (QUOTE + bytes(64))[:64]
    bodies = [_body({"x": 7, "label": "dock", "blob": blob}), _body({"x": 9})[:-1], _body({"x": 8})]
    events = [
        SubscriptionEvent(sbsrid=3, sevttp=1, sbeact=1, sevtid=i + 1, body=body).encode()
        for i, body in enumerate(bodies)
    ]
    order = {"txtype": 4, "txactn": 1, "enctyp": 2, "nclsid": 301, "connid": 7}
    trades = TransactionRequest(**order, body=_body({"x": 1}), **TXID).encode()
    beat = get("blaze").samples()["HRTBET/2"]
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2")
    return pcap(
        [
            *talk.open(),
            *talk.answer(beat),
            *talk.send(asks + trades),
            *talk.answer(answers + b"".join(events)),
            *talk.close(),
        ]
    )


def test_bodies_with_a_model():
    data = _connection()
    rows = []
    for packets, workers in ((1, 1), (3, 2), (1 << 14, 1)):
        settings = Settings(formats=("blaze",), options={"model": MODEL})
        tabulator = Tabulator(settings, workers=workers)

        def run(tabulator=tabulator, packets=packets):
            for event in Capture(io.BytesIO(data), batch_packets=packets):
                yield from tabulator.feed(event)
            yield from tabulator.close()

        rows.append(collect(run(), settings))
    found = rows[0]
    for other in rows[1:]:
        assert differences(found, other, is_ordered=False) == []
    check_accounts(found)
    bodies = [row for row in found["fields"] if row["path"].startswith("body")]
    assert [row["value_int"] for row in bodies if row["name"] == "x"] == [1, 7, 8]
    assert "body.blob" in {row["path"] for row in found["messages"]}
    assert [row["nclass"] is not None for row in found["blaze"]].count(True) == 3
    errors = [(row["layer"], row["path"]) for row in found["errors"]]
    assert errors == [("message", "body")]
    without = Settings(formats=("blaze",))
    plain = collect(tabulate(io.BytesIO(data), without), without)
    assert {row["nclass"] for row in plain["blaze"]} == {None}


def _by_lots(data, **given):
    """The rows of a capture for many sizes of batches and groups, which must all be the same."""
    rows = []
    for packets, batch_rows, workers in (
        (1 << 14, 1 << 16, 1),
        (1 << 14, 7, 1),
        (1 << 14, 1, 2),
        (60, 50, 1),
        (7, 1 << 16, 2),
        (1, 1 << 16, 1),
        (1, 1, 1),
    ):
        settings = Settings(batch_rows=batch_rows).changed(**given)
        tabulator = Tabulator(settings, workers=workers)

        def run(tabulator=tabulator, packets=packets):
            for event in Capture(io.BytesIO(data), batch_packets=packets):
                yield from tabulator.feed(event)
            yield from tabulator.close()

        rows.append(collect(run(), settings))
    for other in rows[1:]:
        assert differences(rows[0], other, is_ordered=False) == []
    return rows[0]


@pytest.mark.slow
def test_bodies_do_not_depend_on_the_size_of_lots(tmp_path):
    path = tmp_path / "capture.pcapng"
    for faults in ("", "reorder"):
        given = Faults(reorder=0.05, duplicates=0.05) if faults else Faults()
        generate(path, ["blaze", "qform-in-blaze"], size=90_000, seed=3, faults=given)
        settings = {"model": from_blz(MODEL_TEXT), "dictionary": DICTIONARY}
        found = _by_lots(path.read_bytes(), **settings)
        bodies = [row for row in found["fields"] if row["path"] == "body"]
        types = Counter(row["type_name"] for row in found["blaze"] if row["nclass"] is not None)
        assert types["SBSEVT"] > 100
        assert len(bodies) > 1000
        assert {row["path"] for row in found["messages"]} == {"body.image"}


def test_a_subscription_is_for_the_latest_request_before_its_answer():
    """Ids are used again, and the second request is in the same group as the first one's events."""
    asks = [
        SubscriptionRequest(
            sbstyp=1, sbsmod=1, flotyp=1, dwltyp=1, enctyp=2, nclsid=number, connid=7, rqstid=5
        ).encode()
        for number in (301, 302)
    ]
    answer = SubscriptionResponse(sbresl=1, rqstid=5, sbsrid=3).encode()
    bodies = [_body({"x": 7}), encode_nclass(new_value(MODEL, "NOTE", {"y": 8}), 2)]
    events = [
        SubscriptionEvent(sbsrid=3, sevttp=1, sbeact=1, sevtid=i + 1, body=body).encode()
        for i, body in enumerate(bodies)
    ]
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2")
    data = pcap(
        [
            *talk.open(),
            *talk.answer(events[0]),  # of a subscription that nobody has seen
            *talk.send(asks[0]),
            *talk.answer(answer + events[0]),
            *talk.send(asks[1]),
            *talk.answer(events[0] + answer + events[1]),
            *talk.send(asks[0]),
            *talk.close(),
        ]
    )
    found = _by_lots(data, formats=("blaze",), options={"model": MODEL})
    texts = [row["nclass"] for row in found["blaze"] if row["type_name"] == "SBSEVT"]
    assert texts == [None, '{"x": 7}', '{"x": 7}', '{"y": 8}']
    assert "errors" not in found


def test_messages_in_blaze_bodies():
    body = len(QUOTE).to_bytes(4, "little") + QUOTE
    head = bytes.fromhex("06460000430000000000000100000002000000070a0b0c0d")
    frame = head + (36 + len(body)).to_bytes(4, "big") + bytes.fromhex("2000012d00000007") + body
    _check("blaze", [frame, *get("blaze").samples().values()])


def test_no_rows_of_nested_messages_when_they_are_not_wanted():
    data = _socket(QUOTE) * 3
    settings = Settings(formats=("nrep",), nested=False)
    found = collect(tabulate(io.BytesIO(data), settings), settings)
    assert "messages" not in found
    assert len(found["nrep"]) == 3


def test_subscriptions_that_are_known_from_elsewhere(tmp_path):
    event = SubscriptionEvent(sbsrid=3, sevttp=1, sbeact=1, sevtid=1, body=_body({"x": 7}))
    path = tmp_path / "events.bin"
    path.write_bytes(event.encode() * 2)
    tables = ("fields",)
    assert not list(tabulate(path, formats=("blaze",), tables=tables, model=MODEL))
    [(_, fields)] = tabulate(
        path, formats=("blaze",), tables=tables, model=MODEL, subscriptions="3=301/INDEXNOTZERO"
    )
    assert [(row["name"], row["value_int"]) for row in fields.to_pylist()] == [("x", 7)] * 2
