"""Blaze bodies as rows against the object path, row for row."""

from __future__ import annotations

import json
import math
from random import Random

import pyarrow as pa
import pytest
from oracles.twins import batch_of

from wireloom import kernel as kernels
from wireloom.arrow.frames import Keys
from wireloom.columnar.packettables import PacketDecoder
from wireloom.errors import DecodeError, OptionError
from wireloom.formats import get, tibmsg
from wireloom.formats.blaze import (
    SubscriptionAck,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    TransactionRequest,
    TransactionResponse,
    encode_nclass,
    from_blz,
    get_dialect,
    new_value,
)
from wireloom.formats.blaze.bodies.decoder import BodyDecoder
from wireloom.formats.blaze.bodies.objects import object_rows
from wireloom.formats.blaze.codes import Encoding
from wireloom.tables import table
from wireloom.testing.mutations import Mutator
from wireloom.wire import DEFAULT_LIMITS, Limits

MODEL = from_blz("""
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low = 3
    GAUGE_High
    GAUGE_Max = 4
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
}
nclass STOP
{
    @id 302
    POINT at
    uint_16 minutes
    bool[3] doors
}
nclass TRUCK
{
    @id 303
    bool on
    int_16 small
    uint_16 usmall
    int_64 big
    uint_64 ubig
    float_32 single
    float_64 double
    ascii letter
    byte raw
    byte[16] blob
    GAUGE gauge
    GAUGE[4] gauges
    uint_32 count
    ascii[20] text
    STOP[5] stops
    STOP last
    float_64[3] reals
}
nclass EMPTY
{
    @id 304
}
""")
DOCUMENT = get_dialect("document")
TXID = {"txplid": 1, "txsvid": 2, "txcnid": 7, "txprid": 9}
STOP = {"at": {"x": -5, "label": "dock"}, "minutes": 9, "doors": [True, False, True]}
TRUCK = {
    "on": True,
    "small": -3,
    "usmall": 65535,
    "big": -(1 << 63),
    "ubig": (1 << 64) - 1,
    "single": 1.5,
    "double": -0.1,
    "letter": "q",
    "raw": 200,
    "blob": bytes(range(16)),
    "gauge": "GAUGE_High",
    "gauges": [0, 3, 4, 77],
    "count": 4_000_000_000,
    "text": "h\u00e9llo",
    "stops": {1: STOP, 4: STOP},
    "last": STOP,
    "reals": [1.0, math.inf, -0.0],
}


def _body(name, values, encoding=Encoding.INDEXNOTZERO, model=MODEL, **more):
    return encode_nclass(new_value(model, name, values, encoding), encoding, **more)


def _request(name, body, enctyp=2):
    nclsid = MODEL.nclass(name).id if isinstance(name, str) else name
    return TransactionRequest(
        txtype=4, txactn=1, enctyp=enctyp, nclsid=nclsid, connid=7, body=body, **TXID
    ).encode()


def _event(sbsrid, body, number=1):
    return SubscriptionEvent(sbsrid=sbsrid, sevttp=1, sbeact=1, sevtid=number, body=body).encode()


def _subscribe(rqstid, name, enctyp=2, **more):
    nclsid = MODEL.nclass(name).id if isinstance(name, str) else name
    return SubscriptionRequest(
        sbstyp=1,
        sbsmod=1,
        flotyp=1,
        dwltyp=1,
        enctyp=enctyp,
        nclsid=nclsid,
        connid=7,
        rqstid=rqstid,
        **more,
    ).encode()


def _answer(rqstid, sbsrid):
    return SubscriptionResponse(sbresl=1, rqstid=rqstid, sbsrid=sbsrid).encode()


def _wanted(frames, subscriptions, dialect="document", limits=DEFAULT_LIMITS, strict=False):
    """Rows and errors by the object path alone."""
    rows, errors, offset = [], [], 0
    for raw in frames:
        settings = {"dialect": dialect, "model": MODEL, "subscriptions": subscriptions}
        try:
            packet = get("blaze").decode(raw, limits=limits, strict=strict, **settings)
        except DecodeError as error:
            errors.append((offset, error.code, error.reason, error.path, error.offset))
        else:
            if packet.nclass is not None:
                key = {"frame_offset": offset, "frame_length": len(raw)}
                found = object_rows(packet.nclass, packet.body, get_dialect(dialect))
                rows += [row | key for row in found]
        offset += len(raw)
    return rows, errors


def _found(decoder, frames, subscriptions, base=0, **keys):
    made = list(decoder.decode(batch_of("blaze", frames, base), subscriptions, **keys))
    for each in made:
        each.rows.validate(full=True)
    rows = pa.Table.from_batches([each.rows for each in made], decoder.schema).to_pylist()
    errors = [
        (each.offset, each.error.code, each.error.reason, each.error.path, each.error.offset)
        for every in made
        for each in every.refused
    ]
    return rows, errors


def _same(row, wanted):
    """Whether a row has the wanted values, and nothing else but its key."""
    for name, value in row.items():
        want = wanted.get(name)
        if name in ("source", "stream", "ts_ns", "ts", "is_blank"):
            continue
        if isinstance(want, float) and isinstance(value, float):
            if math.copysign(1, want) != math.copysign(1, value):
                return False
            if math.isnan(want) and math.isnan(value):
                continue
        if value != want:
            return False
    return True


def reader(model, columns=None, **settings):
    return BodyDecoder(model, table("fields").select(columns), **settings)


def check(frames, kernel, subscriptions=None, **settings):
    decoder = reader(MODEL, kernel=kernel, subscriptions=subscriptions, **settings)
    dialect = settings.get("dialect", "document")
    more = {key: settings[key] for key in ("limits", "strict") if key in settings}
    wanted, errors = _wanted(frames, subscriptions or {}, dialect, **more)
    rows, found_errors = _found(decoder, frames, decoder.state())
    assert found_errors == errors
    assert len(rows) == len(wanted)
    for row, want in zip(rows, wanted, strict=True):
        assert _same(row, want), (row, want)
    return rows


@pytest.mark.parametrize("encoding", list(Encoding))
def test_every_type_of_field(encoding, kernel):
    body = _body("TRUCK", TRUCK, encoding)
    response = TransactionResponse(
        txresl=1, rescls=1, enctyp=encoding, nclsid=303, body=body, **TXID
    ).encode()
    rows = check([_request("TRUCK", body, encoding), response], kernel)
    found = {(row["path"], row["position"], row["name"]): row for row in rows}
    assert found["body", 11, "gauge"]["value_int"] == 4
    assert found["body", 11, "gauge"]["value_text"] == "GAUGE_High"
    assert found["body", 5, "ubig"]["value_decimal"] == (1 << 64) - 1
    assert found["body.stops[1].at", 3, "label"]["value_text"] == "dock"
    assert found["body.stops[4]", 3, "doors"]["type"] == "array_bool"
    assert found["body.stops[4].doors", 2, None]["value_int"] == 1


def test_empty_objects(kernel):
    assert check([_request("EMPTY", _body("EMPTY", {}))], kernel) == []
    assert check([_request("TRUCK", _body("TRUCK", {}))], kernel) == []


def test_text_that_is_not_utf8_is_binary(kernel):
    frames = [_request("POINT", _body("POINT", {"label": b"\xff\xfea"}))]
    (row,) = check(frames, kernel)
    assert (row["value_text"], row["value_binary"]) == (None, b"\xff\xfea")
    values = {"letter": b"\xe9", "text": b"\x80"}
    check([_request("TRUCK", _body("TRUCK", values, Encoding.ALL), 1)], kernel)


@pytest.mark.parametrize("dialect", ["document", "2017", "2019"])
def test_dialects_number_fields_and_encodings(dialect, kernel):
    first = get_dialect(dialect).first_index
    frames = [
        _request("TRUCK", _body("TRUCK", TRUCK, first_index=first), enctyp)
        for enctyp in range(1, 5)
    ]
    check(frames, kernel, dialect=dialect)


def test_mutants(kernel):
    count = 3000 if kernel is not kernels.interpreted() else 150
    bodies = [
        _body("TRUCK", TRUCK),
        _body("TRUCK", {"stops": {0: STOP}}),
        _body("TRUCK", TRUCK, Encoding.ALL),
        _body("POINT", {"x": 1, "label": "a"}),
    ]
    mutator = Mutator(bodies, seed=31)
    frames = []
    for _, body in mutator.mutants(0, count):
        # A wrong LEN in front would end nearly all of them at once.
        inner = body[4:]
        framed = len(inner).to_bytes(4, "little") + inner
        frames.append(_request("TRUCK", framed if len(frames) % 4 else body))
    rows = check(frames, kernel)
    assert len(rows) > count


def test_fields_that_do_not_ascend_are_read_by_the_object_path(kernel):
    fields = [b"\x01\0\5\0\0\0", b"\x02\0\6\0\0\0", b"\x03\0\1\0\0\0x"]
    good = _request("POINT", _body("POINT", {"x": 1}))
    frames = [good]
    for order in ((1, 0, 2), (2, 1, 0), (0, 0), (0, 2, 1)):
        inner = b"".join(fields[place] for place in order)
        frames += [_request("POINT", len(inner).to_bytes(4, "little") + inner), good]
    rows = check(frames, kernel)
    assert [row["value_int"] for row in rows if row["name"] == "x"] == [1, 5, 1, 5, 1, 1, 5, 1]


def test_strict_mode_is_the_object_paths(kernel):
    zero = b"\x06\0\0\0\x01\0\0\0\0\0"
    frames = [_request("POINT", zero), _request("POINT", _body("POINT", {"x": 1}))]
    assert len(check(frames, kernel)) == 2
    assert len(check(frames, kernel, strict=True)) == 1


def test_limits_hold(kernel):
    frames = [_request("TRUCK", _body("TRUCK", TRUCK)), _request("TRUCK", _body("TRUCK", {}))]
    for limits in (Limits(max_depth=1), Limits(max_depth=2), Limits(max_fields=5)):
        check(frames, kernel, limits=limits)


def test_classes_that_the_model_does_not_have_are_errors(kernel):
    frames = [_request(999, b"\0\0\0\0"), _request("POINT", b"\0\0\0\0", 9)]
    assert check(frames, kernel) == []
    decoder = reader(MODEL, kernel=kernel)
    known = decoder.state()
    frames = [_subscribe(1, 999), _answer(1, 5), _event(5, b"\0\0\0\0")]
    frames += [_subscribe(2, "POINT", 9), _answer(2, 6), _event(6, b"\0\0\0\0")]
    rows, errors = _found(decoder, frames, known)
    assert rows == []
    assert [error[1] for error in errors] == ["nclsid", "enctyp"]


def test_events_have_the_class_of_their_subscription(kernel):
    decoder = reader(MODEL, kernel=kernel)
    known = decoder.state()
    point, stop = _body("POINT", {"x": 1}), _body("STOP", {"minutes": 2})
    # One direction first, then the other: the driver gives both the same `known`.
    asked = [
        _subscribe(1, "POINT"),
        _subscribe(2, "STOP"),
        SubscriptionAck(sbsrid=8, sevtid=1).encode(),
    ]
    assert _found(decoder, asked, known) == ([], [])
    answers = [_answer(2, 8), _answer(1, 9), _event(8, stop), _event(9, point), _event(7, point)]
    answers += [_answer(1, 8), _event(8, point)]  # the id is used again
    rows, errors = _found(decoder, answers, known)
    assert errors == []
    assert [row["name"] for row in rows] == ["minutes", "x", "x"]
    later, _ = _found(decoder, [_event(9, point)], known, base=5000)
    assert [row["frame_offset"] for row in later] == [5000]
    other, _ = _found(decoder, [_event(9, point)], decoder.state())
    assert other == []


def test_a_partial_download_is_a_request_too(kernel):
    decoder = reader(MODEL, kernel=kernel)
    frames = [
        SubscriptionRequest(
            sbstyp=1,
            sbsmod=1,
            flotyp=1,
            dwltyp=2,
            enctyp=2,
            nclsid=301,
            connid=7,
            rqstid=1,
            tmstmp0=1,
            tmstmp1=2,
        ).encode(),
        _answer(1, 5),
        _event(5, _body("POINT", {"x": 1})),
    ]
    rows, errors = _found(decoder, frames, decoder.state())
    assert len(rows) == 1
    assert errors == []


def test_many_subscriptions(kernel):
    count = 3000 if kernel is not kernels.interpreted() else 200
    decoder = reader(MODEL, kernel=kernel)
    random = Random(1)
    ids = random.sample(range(1, 1 << 32), count)
    body = _body("POINT", {"x": 1})
    frames = [_subscribe(number, "POINT") for number in ids]
    frames += [_answer(number, number) for number in ids]
    frames += [_event(number, body) for number in ids]
    rows, errors = _found(decoder, frames, decoder.state())
    assert len(rows) == count
    assert errors == []


def test_given_subscriptions(kernel):
    point = _body("POINT", {"x": 1})
    frames = [_event(3, point), _event(4, point), _event(5, point)]
    given = {3: ("POINT", Encoding.INDEXNOTZERO), 4: (301, "INDEXDELTA")}
    assert len(check(frames, kernel, given)) == 2
    for wrong in ({3: "LORRY"}, {3: ("POINT", "MORSE")}):
        with pytest.raises(OptionError):
            reader(MODEL, kernel=kernel, subscriptions=wrong)
    decoder = reader(MODEL, kernel=kernel, subscriptions={5: "POINT"})
    assert len(_found(decoder, frames, decoder.state())[0]) == 1


def test_frames_that_are_no_packets_are_passed_over(kernel):
    decoder = reader(MODEL, kernel=kernel)
    frame = _request("POINT", _body("POINT", {"x": 1}))
    rows, _ = _found(decoder, [frame] * 3, decoder.state(), passed_over=[1])
    assert [row["frame_offset"] for row in rows] == [0, 2 * len(frame)]


def test_small_batches_and_large_bodies(kernel):
    decoder = reader(MODEL, kernel=kernel, batch=4)
    frames = [_request("TRUCK", _body("TRUCK", TRUCK))] * 3 + [
        _request("POINT", _body("POINT", {"x": 1}))
    ] * 9
    wanted, _ = _wanted(frames, {})
    rows, errors = _found(decoder, frames, decoder.state())
    assert not errors
    assert all(map(_same, rows, wanted))
    assert len(rows) == len(wanted)


def test_each_column_alone_is_the_same(kernel):
    frames = [_request("TRUCK", _body("TRUCK", TRUCK)), _request("POINT", _body("POINT", {"y": 1}))]
    fields = [b"\x02\0\6\0\0\0", b"\x01\0\5\0\0\0"]
    frames.append(_request("POINT", b"\x0c\0\0\0" + b"".join(fields)))
    times = memoryview(bytearray(24)).cast("q")
    times[0], times[1], times[2] = 1999, -1, 5000
    keys = {"ts_ns": times, "source": "f", "stream": "s"}
    whole = reader(MODEL, kernel=kernel)
    rows, _ = _found(whole, frames, whole.state(), **keys)
    assert {row["ts_ns"] for row in rows} == {1999, -1, 5000}
    assert {row["ts"].microsecond for row in rows} == {1, 999_999, 5}
    for column in table("fields").names:
        alone = reader(MODEL, kernel=kernel, columns=[column])
        found, _ = _found(alone, frames, alone.state(), **keys)
        assert found == [{column: row[column]} for row in rows]


@pytest.mark.slow
def test_many_paths_are_forgotten_in_time(kernel):
    if kernel is kernels.interpreted():
        pytest.skip("slow")
    model = from_blz("nclass P\n{\n@id 1\nbyte b\n}\nnclass Q\n{\n@id 2\nP[65536] many\n}\n")
    decoder = reader(model, kernel=kernel)
    count = 30_000
    inner = b"".join(
        place.to_bytes(2, "little") + b"\3\0\0\0" + b"\1\0\7" for place in range(count)
    )
    body = b"\1\0" + len(inner).to_bytes(4, "little") + inner
    frame = _request(2, len(body).to_bytes(4, "little") + body)
    for _ in range(2):
        rows, errors = _found(decoder, [frame], decoder.state())
        assert not errors
        assert len(rows) == 1 + 2 * count
        assert rows[-1]["path"] == f"body.many[{count - 1}]"


def _texts(decoder, batch, known, over=()):
    words = decoder.classes(batch, known, passed_over=over)
    made = list(decoder.read(batch, words, Keys("", "", 0, None), passed_over=over, texts=True))
    return made, pa.concat_arrays([each.texts for each in made])


def test_bodies_as_json_beside_their_packets(kernel):
    decoder = reader(MODEL, kernel=kernel)
    packets = PacketDecoder("blaze", columns=["frame_offset", "nclass"], kernel=kernel)
    point = _body("POINT", {"x": 1, "label": "a"})
    known = decoder.state()
    frames = [_subscribe(1, "POINT"), _answer(1, 5), _event(5, point), _event(6, point)]
    frames += [b"\0" * 12, _request("POINT", point), _request("POINT", b"\1"), frames[2] + b"more"]
    batch = batch_of("blaze", frames)
    bodies = []

    def read(first, last, refused):
        assert (first, last, refused) == (0, 8, [4])
        made, texts = _texts(decoder, batch, known, refused)
        bodies.extend(made)
        return texts

    (made,) = packets.decode(batch, bodies=read)
    value = '{"x": 1, "label": "a"}'
    assert made.rows["nclass"].to_pylist() == [None, None, value, None, value, None, value]
    assert [each.index for made in bodies for each in made.refused] == [6]
    assert sum(made.rows.num_rows for made in bodies) == 3 * 2
    assert known.class_of(5) == 2 << 28 | 301


def test_texts_of_many_subscriptions(kernel):
    decoder = reader(MODEL, kernel=kernel)
    body = _body("POINT", {"x": 1})
    frames = [_subscribe(number, "POINT") for number in range(1, 101)]
    frames += [_answer(number, number) for number in range(1, 101)]
    frames += [_event(number, body) for number in range(1, 101)]
    _, texts = _texts(decoder, batch_of("blaze", frames), decoder.state())
    assert texts.to_pylist() == [None] * 200 + ['{"x": 1}'] * 100


def test_requests_of_the_other_direction_are_known_from_a_frame_on(kernel):
    decoder = reader(MODEL, kernel=kernel)
    point, stop = _body("POINT", {"x": 1}), _body("STOP", {"minutes": 2})
    frames = [_answer(1, 5), _event(5, point), _answer(1, 5), _event(5, stop), _event(6, stop)]
    batch = batch_of("blaze", frames)
    first, second = (2 << 28 | MODEL.nclass(name).id for name in ("POINT", "STOP"))
    told = [(0, 1, first), (2, 1, second)]
    words = decoder.classes(batch, decoder.state(), told=told)
    assert list(words) == [0, first, 0, second, 0]
    assert [each[:3] for each in decoder.lessons(batch)] == [(0, False, 1), (2, False, 1)]


def test_names_that_look_like_the_hex_of_others(kernel):
    model = from_blz(
        "nclass P\n{\n@id 1\nascii[4] a\n}\nnclass Q\n{\n@id 2\nascii[4] a\nbyte a_hex\n}\n"
    )
    decoder = reader(model, kernel=kernel)
    body = b"\x08\0\0\0" + b"\1\0\2\0\0\0\xff\xfe"
    _, texts = _texts(
        decoder, batch_of("blaze", [_request(1, body), _request(2, body)]), decoder.state()
    )
    assert texts.to_pylist() == ['{"a_hex": "fffe"}', '{"a_hex_": "fffe"}']


def test_text_of_every_kind_as_json(kernel):
    words = ['"\\/', "\x00\x01\x08\t\n\x0b\x0c\r\x1f\x7f", "é", "漢", "𝄞", "", "a\ud800"]
    model = from_blz("nclass P\n{\n@id 1\nascii[16] a\nascii b\nbool c\nuint_64 d\nfloat_32 e\n}\n")
    values = [{"a": word} for word in words] + [{"b": "x"}, {"b": "é"[:1]}, {"c": True}]
    values += [{"d": 1 << 63, "e": 0.1}, {"d": (1 << 64) - 1, "e": -0.0}, {"e": 1e-30}]
    values += [{"e": float("nan")}, {"e": float("inf"), "a": "x"}, {}]
    frames = []
    for value in values:
        given = {k: v.encode("utf-8", "surrogatepass") if k == "a" else v for k, v in value.items()}
        given = {k: v for k, v in given.items() if not (k == "b" and ord(v) > 127)}
        made = encode_nclass(new_value(model, "P", given), Encoding.INDEXNOTZERO)
        frames.append(_request(1, made))
    decoder = reader(model, kernel=kernel)
    _, texts = _texts(decoder, batch_of("blaze", frames), decoder.state())
    wanted = [get("blaze").decode(raw, model=model).nclass.to_values() for raw in frames]
    assert texts.to_pylist() == [json.dumps(value) for value in wanted]


def test_payloads_that_may_be_messages(kernel):
    model = from_blz(
        "nclass IN\n{\n@id 1\nascii[99] a\n}\n"
        "nclass OUT\n{\n@id 2\nascii[99] a\nIN in\nIN[3] many\n}\n"
        "nclass BYTES\n{\n@id 3\nascii[99] a\nbyte[99] b\n}\n"
    )
    quote = tibmsg.build({"SYM": "ABC"}).encode()
    values = [
        ("OUT", {"a": quote, "in": {"a": quote}, "many": {"1": {"a": quote}}}),
        ("OUT", {"a": b"plain text", "in": {"a": quote[:7]}}),
        ("IN", {"a": quote}),
        ("BYTES", {"a": quote, "b": list(quote)}),
    ]
    ids = {"IN": 1, "OUT": 2, "BYTES": 3}
    frames = [
        _request(ids[name], encode_nclass(new_value(model, name, value), Encoding.INDEXNOTZERO))
        for name, value in values
    ]
    frames += [_request(9, quote), _event(4, quote), _request("POINT", quote)]
    decoder = reader(model, kernel=kernel)
    batch = batch_of("blaze", frames)
    words = decoder.classes(batch, decoder.state())
    found = [
        (frame, run.path, bytes(run.data[start : start + size]))
        for made in decoder.read(batch, words, Keys("", "", 0, None), payloads=True)
        for run in made.payloads
        for frame, start, size in zip(run.frames, run.starts, run.sizes, strict=True)
    ]
    assert found == [
        (0, "body.a", quote),
        (0, "body.in.a", quote),
        (0, "body.many[1].a", quote),
        (2, "body.a", quote),
        (3, "body.a", quote),
        (3, "body.b", quote + bytes(99 - len(quote))),
        (4, "body", quote),
        (5, "body", quote),
        (6, "body", quote),
    ]
