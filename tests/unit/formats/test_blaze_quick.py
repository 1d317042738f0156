"""The short cuts of sessions lead where the codec leads."""

from __future__ import annotations

import contextlib
import itertools
import struct
from array import array
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import DecodeError
from wireloom.formats.blaze import (
    DIALECTS,
    Action,
    BlazeCode,
    Encoding,
    EventType,
    SubscriptionEvent,
    TransactionRequest,
    TransactionResponse,
    from_blz,
    get_dialect,
    new_value,
)
from wireloom.formats.blaze.body import _write_fields, decode_nclass, encode_nclass
from wireloom.formats.blaze.frames import LENGTHS, measure
from wireloom.formats.blaze.nclass import _flat_kind, layout_of
from wireloom.formats.blaze.samples import samples
from wireloom.formats.blaze.session import (
    Batch,
    Change,
    ClientSession,
    ClientSettings,
    EventIds,
    ServerSession,
    SessionEvent,
    TransactionRequested,
    TxId,
)
from wireloom.formats.blaze.session.quick import Numbers
from wireloom.formats.blaze.session.runs import COUNTERS, frame_of
from wireloom.formats.blaze.session.server import ServerSettings
from wireloom.kernel import either, interpreted
from wireloom.outline import Node

MODEL = from_blz("""
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    int_32 x
    @persistent
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
}
""")
TXID = (1, 2, 3, 4)


@pytest.mark.parametrize("name", DIALECTS)
def test_answers_and_events_are_those_of_the_codec(name: str) -> None:
    numbers = Numbers(get_dialect(name))
    for code, is_ok in itertools.product(BlazeCode, (True, False)):
        plain = TransactionResponse(
            txresl=1 if is_ok else 2, blzcod=code, txplid=1, txsvid=2, txcnid=3, txprid=4
        )
        columns = numbers.responses(TXID[:3], TXID[3:], is_ok, code)
        assert either().join_packets(columns, 1) == plain.in_dialect(name).encode()
    for kind, action in itertools.product(EventType, Action):
        is_data = kind in (EventType.DATALIVE, EventType.DATADWNL)
        if is_data == (action is Action.NONE):
            continue
        body = b"\4\0\0\0abcd" if is_data else None
        event = SubscriptionEvent(
            sbsrid=7, sevttp=kind, sbeact=action, sevtid=9, tmstmp0=5, tmstmp1=6, body=body
        )
        columns = numbers.event(7, kind, action, 9, (5, 6), body)
        assert either().join_packets(columns, 1) == event.in_dialect(name).encode()


KERNELS = pytest.mark.parametrize("kernel", [either(), interpreted()], ids=["default", "python"])


@KERNELS
@given(st.data())
def test_packets_are_cut_where_the_framer_says(kernel: Any, data: st.DataObject) -> None:
    packets = data.draw(st.lists(st.sampled_from(list(samples())), max_size=4))
    raw = bytearray(b"".join(packet.encode() for packet in packets))
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] + data.draw(st.binary(max_size=8))
    largest = data.draw(st.sampled_from([1 << 16, 40]))
    found, end = kernel.cut_runs(bytes(raw), 0, largest, LENGTHS, COUNTERS)
    pos = 0
    for run in found:
        for place in range(run[3]):
            size = measure(raw, pos, len(raw))
            assert size <= largest
            assert frame_of(run, place) == raw[pos : pos + size]
            pos += size
    assert pos == end
    with contextlib.suppress(DecodeError):  # the next one is not legal, or not all there
        assert measure(raw, end, len(raw)) > min(len(raw) - end, largest)


WORD = st.integers(0, 0xFFFFFFFF)
PART = st.one_of(WORD, st.tuples(WORD, WORD), st.binary(max_size=9), st.none())


def written(packet: list[Any]) -> bytes:
    """The bytes of a packet, part by part."""
    parts = []
    for part in packet:
        words = part if isinstance(part, tuple) else (part,)
        is_length = isinstance(part, bytes) or part is None
        parts.append(part if is_length else b"".join(struct.pack(">I", word) for word in words))
    size = sum(4 if part is None else len(part) for part in parts)
    return b"".join(struct.pack(">I", size) if part is None else part for part in parts)


@st.composite
def columns(draw: Any) -> tuple[tuple[Any, ...], int]:
    count = draw(st.integers(0, 4))
    each = st.one_of(PART, st.lists(PART.filter(lambda part: part is not None),
                                    min_size=count, max_size=count))  # fmt: skip
    found = draw(st.lists(each, max_size=6))
    lengths = [place for place, column in enumerate(found) if column is None]
    for place in lengths[1:]:  # a packet has one length
        found[place] = 0
    return tuple(found), count


@KERNELS
@given(columns())
def test_packets_are_joined_part_by_part(kernel: Any, given: tuple[tuple[Any, ...], int]) -> None:
    parts, count = given
    packets = [
        [part[place] if isinstance(part, list) else part for part in parts]
        for place in range(count)
    ]
    assert kernel.join_packets(parts, count) == b"".join(map(written, packets))


@KERNELS
@pytest.mark.parametrize("word", [-1, 1 << 32])
def test_words_of_more_than_32_bits_are_refused(kernel: Any, word: int) -> None:
    for columns in ((1, word), ([word],), ((1, word),), ([(1, word)],)):
        with pytest.raises(OverflowError):
            kernel.join_packets(columns, 1)


@KERNELS
def test_a_column_has_a_part_of_each_packet(kernel: Any) -> None:
    with pytest.raises(ValueError, match="1 parts of 2 packets"):
        kernel.join_packets((1, [2]), 2)


OBJECTS = from_blz("""
enum COLOUR
{
    RED = 1
    BLUE = 7
}
nclass INNER
{
    @id 400
    int_32 x
}
nclass MANY
{
    @id 401
    uint_32 a
    int_16 b
    ascii[5] c
    float_64 d
    bool e
    COLOUR f
    uint_64 g
    ascii h
    byte i
    float_32 j
    INNER k
    int_32[3] l
}
""")


@given(st.data())
def test_plain_objects_are_read_and_written_as_all_others(data: st.DataObject) -> None:
    given_values = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "a": st.integers(0, 2**32 - 1),
                "b": st.integers(-(2**15), 2**15 - 1),
                "c": st.text(max_size=5).filter(lambda text: len(text.encode()) <= 5),
                "d": st.floats(),
                "e": st.booleans(),
                "f": st.sampled_from([0, 1, 7, 9]),
                "g": st.integers(0, 2**64 - 1),
                "h": st.sampled_from(["", "x"]),
                "i": st.integers(0, 255),
                "j": st.floats(width=32),
                "k": st.fixed_dictionaries({"x": st.integers(0, 3)}),
                "l": st.lists(st.integers(0, 2), max_size=3),
            },
        )
    )
    value = new_value(OBJECTS, "MANY", given_values)
    first = data.draw(st.sampled_from([1, 2]))
    body = encode_nclass(value, Encoding.INDEXNOTZERO, first_index=first)
    written = _write_fields(value, Encoding.INDEXNOTZERO, first)
    assert body == len(written).to_bytes(4, "little") + written
    encoding = data.draw(st.sampled_from(list(Encoding)))
    raw = bytearray(encode_nclass(value, encoding, first_index=first))
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    is_strict = data.draw(st.booleans())

    def read(node: Node | None) -> Any:
        try:
            found = decode_nclass(
                OBJECTS, 401, raw, encoding, first_index=first, strict=is_strict, node=node
            )
        except DecodeError as error:
            return str(error)
        return repr(found), [*found], found.encoding

    # With a tree to draw, the walker reads it.
    assert read(None) == read(Node("body", 0, len(raw)))


def connected(**options: object) -> ServerSession:
    session = ServerSession(ServerSettings(model=MODEL, **options), 0.0)  # type: ignore[arg-type]
    session.receive(bytes.fromhex("0483000000000000"), 0.0)
    session.accept(3, 0.0)
    session.data_to_send()
    return session


def request(body: str, enctyp: int = 2, connid: int = 3) -> bytes:
    return TransactionRequest(
        txtype=4, txactn=1, txplid=1, txsvid=2, txcnid=3, txprid=4, enctyp=enctyp, nclsid=302,
        connid=connid, body=bytes.fromhex(body),
    ).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("body", "is_canonical"),
    [
        ("0c000000010007000000020005000000", True),
        ("0c000000020005000000010007000000", False),  # not in order
        ("0c000000010007000000020000000000", False),  # a zero
    ],
)
def test_a_body_is_taken_as_it_is_only_when_a_writer_would_write_it(
    body: str, is_canonical: bool
) -> None:
    [event] = connected().receive(request(body), 1.0)
    assert event.is_canonical is is_canonical  # type: ignore[attr-defined]
    assert event.nclass.read("truck_id") == 7  # type: ignore[attr-defined]


@given(st.binary(max_size=24), st.integers(0, 15), st.integers(2, 4), st.integers(0, 50))
def test_however_a_request_is_cut_the_outcome_is_the_same(
    body: bytes, enctyp: int, connid: int, cut: int
) -> None:
    data = bytearray(request("0c000000010007000000020005000000", connid=connid))
    data[36 : 36 + len(body)] = body
    data[24:28] = len(data).to_bytes(4, "big")
    data[28] = enctyp << 4
    outcomes = []
    for chunks in ([bytes(data)], [bytes(data[:cut]), bytes(data[cut:])]):
        session = connected()
        events = [event for chunk in chunks if chunk for event in session.receive(chunk, 1.0)]
        outcomes.append((events, session.data_to_send()))
    assert outcomes[0] == outcomes[1]


def test_what_need_not_wait_is_the_same_as_what_waits() -> None:
    changes = [
        Change.of(Action.UPD, new_value(MODEL, "TRUCK", {"truck_id": n, "x": n}), (n, 0))
        for n in range(1, 9)
    ]
    sent = []
    for is_batch in (False, True):
        session = connected(window=5)
        session.receive(bytes.fromhex("05480000131100002000012e0000000300000001"), 1.0)
        session.start_subscription(1, 1.0)
        if is_batch:
            session.publish_all(Batch(changes, EventIds()), 1.0)
        else:
            for change in changes:
                session.publish(change, 1.0)
        sent.append(session.data_to_send())
        assert session.events_sent == 5
    assert sent[0] == sent[1]


def test_a_client_acknowledges_many_events_at_once_if_the_server_knows() -> None:
    server = connected(window=8, has_cumulative_acks=True)
    client = ClientSession(ClientSettings(has_cumulative_acks=True))
    client.connect(0.0)
    client.data_to_send()
    client.receive(bytes.fromhex("04c400002000000000000003"), 0.0)
    client.subscribe(302, 0.0, mode=3)  # type: ignore[arg-type]
    server.receive(client.data_to_send(), 0.0)
    server.start_subscription(1, 0.0)
    for n in range(1, 6):
        image = new_value(MODEL, "TRUCK", {"truck_id": n})
        server.publish(Change.of(Action.INS, image, (n, 0)), 1.0)
    client.receive(server.data_to_send(), 1.0)
    acks = client.data_to_send()
    assert len(acks) == 12
    [subscription] = server.subscriptions.values()
    assert len(subscription.outstanding) == 5
    server.receive(acks, 1.0)
    assert not subscription.outstanding


@dataclass
class Answer:
    """What became of a transaction."""

    is_ok: bool = True
    code: BlazeCode = BlazeCode.NO_ERROR
    result: Any = None


def numbered(prid: int) -> bytes:
    raw = bytearray(request("0c000000010007000000020005000000"))
    raw[20:24] = prid.to_bytes(4, "big")
    return bytes(raw)


def accepted(events: list[SessionEvent]) -> list[TxId]:
    return [event.txid for event in events if isinstance(event, TransactionRequested)]


def test_the_ids_that_were_answered_last_are_remembered() -> None:
    session = connected(max_completed=3)
    data = b"".join(map(numbered, range(1, 6)))
    ids = accepted(session.receive(data, 1.0))
    session.respond_all(ids[:4], [Answer()] * 4, 1.0, print)
    session.respond(ids[4], 1.0)
    assert session.flying == 0
    assert len(session.data_to_send()) == 5 * 24
    again = session.receive(data, 2.0)
    assert [txid[3] for txid in accepted(again)] == [1, 2]
    refused = session.data_to_send()
    assert len(refused) == 3 * 24
    assert refused[:8].hex() == "05870000400000c9"  # TXKO 201


def test_an_id_that_flies_is_refused_in_one_chunk_with_the_first() -> None:
    session = connected()
    data = b"".join(map(numbered, (1, 2, 1, 3)))
    events = session.receive(data, 1.0)
    assert [txid[3] for txid in accepted(events)] == [1, 2, 3]
    assert session.data_to_send()[:8].hex() == "05870000400000ca"  # TXKO 202


def test_as_many_transactions_fly_as_are_allowed() -> None:
    session = connected(max_flying=2)
    events = session.receive(b"".join(map(numbered, range(1, 5))), 1.0)
    assert [txid[3] for txid in accepted(events)] == [1, 2]
    assert session.data_to_send()[:8].hex() == "0587000040000003"  # TXKO 3


@KERNELS
@pytest.mark.parametrize(
    ("name", "value"),
    [("a", -1), ("a", 1 << 32), ("a", 1 << 64), ("g", -1), ("g", 1 << 64), ("i", 256), ("a", "1")],
)
def test_a_number_that_does_not_fit_is_not_written(kernel: Any, name: str, value: Any) -> None:
    flat = flat_of(kernel)
    with contextlib.suppress(Exception):
        assert flat.write({name: value}) is None


@KERNELS
def test_a_plain_object_is_written_by_each_kernel(kernel: Any) -> None:
    values = {"a": True, "b": -2, "c": "\xe9", "f": 7, "g": (1 << 64) - 1, "i": 255, "d": 0.0}
    written = _write_fields(new_value(OBJECTS, "MANY", values), Encoding.INDEXNOTZERO, 1)
    assert flat_of(kernel).write(values) == len(written).to_bytes(4, "little") + written


def flat_of(kernel: Any) -> Any:
    """The kernel's writer of the class MANY, without its objects, arrays and truth values."""
    slots = layout_of(OBJECTS, "MANY").slots
    return kernel.FlatClass(
        tuple(slot.decl.name for slot in slots),
        memoryview(array("i", map(_flat_kind, slots))),
        memoryview(
            array("i", [slot.decl.count if slot.is_string else slot.width for slot in slots])
        ),
        tuple(slot.read for slot in slots),
        tuple(slot.pack for slot in slots),
        1,
    )
