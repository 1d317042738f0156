from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any

import pytest

import wireloom
from wireloom.errors import (
    DecodeError,
    FrameTooLargeError,
    InvalidFieldError,
    LimitError,
    OptionError,
    SourceError,
    TruncatedError,
)
from wireloom.formats.blaze import (
    FORMAT,
    SAMPLE_MODEL,
    BlazePacket,
    Encoding,
    Heartbeat,
    ModelBuilder,
    SubscriptionEvent,
    TransactionRequest,
    decode_body,
    decode_nclass,
    from_blz,
    new_value,
)
from wireloom.formats.blaze.dialects import Encoding2017
from wireloom.formats.blaze.format import _MAX_MODELS, _models
from wireloom.outline import Node
from wireloom.testing.conformance import examine
from wireloom.testing.mutations import Mutator
from wireloom.wire import Limits

SAMPLES = FORMAT.samples()
MODEL = from_blz(SAMPLE_MODEL)
REQUEST = SAMPLES["TXRQST/9"]
EVENT = SAMPLES["SBSEVT/7"]
POINT = {"x": 5, "y": -2, "label": "dock"}


def with_body(name: str, body: bytes) -> bytes:
    data = SAMPLES[name]
    header = {"TXRQST/9": 36, "TXRESP/8": 32, "SBSEVT/7": 28}[name]
    return data[:24] + (header + len(body)).to_bytes(4, "big") + data[28:header] + body


def errors_in(root: Node) -> list[tuple[str, str]]:
    return [(node.name, node.error) for _, node in root.walk() if node.error]


# --- decode ---------------------------------------------------------------------------------------


def test_a_body_is_decoded_with_a_model() -> None:
    packet = wireloom.decode(REQUEST, "blaze", model=MODEL)
    assert isinstance(packet, TransactionRequest)
    assert packet.nclass == POINT
    assert packet == wireloom.decode(REQUEST, "blaze")
    assert packet.encode() == REQUEST
    made = json.loads(json.dumps(packet.to_dict()))
    assert made["nclass"] == {"class": "POINT", "encoding": "INDEXNOTZERO", "values": POINT}
    assert FORMAT.from_dict(made) == packet
    assert FORMAT.from_dict(made).nclass is None
    assert pickle.loads(pickle.dumps(packet)).nclass == POINT
    assert (
        wireloom.decode(SAMPLES["TXRQST/7"], "blaze", model=MODEL).to_dict().get("nclass") is None
    )


def test_an_event_is_decoded_with_its_subscription() -> None:
    for subscriptions in (
        {3: ("POINT", Encoding.INDEXNOTZERO)},
        {3: (301, "INDEXDELTA")},
        {3: (MODEL.nclasses[0], 3)},
        {3: ["POINT", 1]},
        {3: "POINT"},
        {3: 301},
        "3=POINT",
        "2=NOPE, 3=301/INDEXDELTA,",
    ):
        packet = FORMAT.decode(EVENT, model=MODEL, subscriptions=subscriptions)
        assert packet.nclass == POINT
    for nothing in (None, {}, {4: "POINT"}, "", "4=POINT"):
        assert FORMAT.decode(EVENT, model=MODEL, subscriptions=nothing).nclass is None
    assert FORMAT.decode(EVENT, subscriptions={3: "POINT"}).nclass is None
    stop = bytes.fromhex("05ca000000000003400000030000002f59d4b489000000000000001c")
    assert FORMAT.decode(stop, model=MODEL, subscriptions={3: "POINT"}).nclass is None


def test_the_encoding_of_a_subscription_is_that_of_the_dialect() -> None:
    options: Any = {"model": MODEL.with_first_index(1), "dialect": "2017"}
    for encoding in (1, Encoding2017.INDEXNOTZERO, Encoding.INDEXNOTZERO, "INDEXNOTZERO"):
        value = FORMAT.decode(EVENT, subscriptions={3: ("POINT", encoding)}, **options).nclass
        assert value is not None
        assert value.encoding is Encoding.INDEXNOTZERO
    with pytest.raises(OptionError, match="dialect 2017 has no encoding 3"):
        FORMAT.decode(EVENT, subscriptions={3: ("POINT", 3)}, **options)


@pytest.mark.parametrize(
    "subscriptions",
    [
        5,
        {3: "NOPE"},
        {3: 9},
        {3: (None, 2)},
        {3: ("POINT", "NOPE")},
        {3: ("POINT", 9)},
        {3: ("POINT", 2, 3)},
        "x",
        "3",
        "3=",
        "-1=POINT",
        "3=POINT/NOPE",
    ],
)
def test_subscriptions_that_make_no_sense(subscriptions: Any) -> None:
    with pytest.raises(OptionError):
        wireloom.decode(EVENT, "blaze", model=MODEL, subscriptions=subscriptions)


def test_a_body_can_be_decoded_later() -> None:
    request = FORMAT.decode(REQUEST)
    assert decode_body(request, MODEL) == POINT
    event = FORMAT.decode(EVENT)
    assert decode_body(event, MODEL) is None
    assert decode_body(event, MODEL, subscriptions="3=POINT") == POINT
    assert decode_body(Heartbeat(tmstmp=1), MODEL) is None
    assert decode_body(FORMAT.decode(SAMPLES["TXRESP/6"]), MODEL) is None
    old = FORMAT.decode(with_index_2(), dialect="2017")
    assert decode_body(old, MODEL) == {"x": 5}


def with_index_2() -> bytes:
    """The request as a peer of 2017 writes it: x = 5."""
    data = bytearray(with_body("TXRQST/9", bytes.fromhex("06000000 0200 05000000")))
    data[28] = 0x10
    return bytes(data)


def test_a_peer_of_2017_numbers_fields_from_2() -> None:
    packet = FORMAT.decode(with_index_2(), model=MODEL, dialect="2017")
    assert packet.nclass == {"x": 5}
    assert FORMAT.decode(with_index_2(), model=MODEL, dialect="2019").nclass == {"y": 5}
    own = MODEL.with_first_index(1)
    assert FORMAT.decode(with_index_2(), model=own, dialect="2017").nclass == {"y": 5}
    tree = packet.outline()
    assert [node.meaning for _, node in tree.walk() if node.name == "enctyp"] == ["INDEXNOTZERO"]
    assert [node.value for _, node in tree.walk() if node.name == "x"] == ["5"]


@pytest.mark.parametrize(
    ("data", "path", "code", "offset"),
    [
        (REQUEST[:28] + bytes.fromhex("20001092") + REQUEST[32:], "nclsid", "nclsid", 28),
        (REQUEST[:28] + bytes.fromhex("f000012d") + REQUEST[32:], "enctyp", "enctyp", 28),
        (with_body("TXRQST/9", b""), "body", "nclass", 36),
        (with_body("TXRQST/9", b"\x63\0\0\0\1\0"), "body", "nclass", 36),
        (with_body("TXRQST/9", bytes.fromhex("06000000 0100 05000000 00")), "body", "nclass", 46),
        (with_body("TXRQST/9", bytes.fromhex("05000000 0100 050000")), "body.x", "nclass", 42),
        (with_body("TXRESP/8", bytes.fromhex("02000000 0900")), "body", "nclass", 36),
        (with_body("SBSEVT/7", bytes.fromhex("05000000 0100 050000")), "body.x", "nclass", 34),
    ],
)
def test_a_body_that_does_not_fit_the_model(data: bytes, path: str, code: str, offset: int) -> None:
    assert FORMAT.decode(data).encode() == data
    options: Any = {"model": MODEL, "subscriptions": {3: "POINT"}}
    with pytest.raises(DecodeError) as caught:
        FORMAT.decode(data, **options)
    error = caught.value
    assert (error.path, error.code, error.offset) == (path, code, offset)
    root = FORMAT.outline(data, **options)
    assert [reason for _, reason in errors_in(root)] == [error.reason]


def test_limits_reach_the_body() -> None:
    with pytest.raises(LimitError, match="number of fields 3") as caught:
        wireloom.decode(REQUEST, "blaze", model=MODEL, max_fields=2)
    assert (caught.value.path, caught.value.offset) == ("body", 52)
    value = decode_body(FORMAT.decode(REQUEST), MODEL, limits=Limits(max_fields=3), strict=True)
    assert value == POINT


def test_strict_reaches_the_body() -> None:
    data = with_body("TXRQST/9", bytes.fromhex("06000000 0100 00000000"))
    assert FORMAT.decode(data, model=MODEL).nclass == {"x": 0}
    with pytest.raises(DecodeError, match="a zero is sent") as caught:
        FORMAT.decode(data, model=MODEL, strict=True)
    assert caught.value.path == "body.x"
    assert FORMAT.decode(data, strict=True).encode() == data


def test_every_truncation_tells_what_is_needed() -> None:
    for data in SAMPLES.values():
        for size in range(len(data)):
            with pytest.raises(TruncatedError) as caught:
                FORMAT.decode(data[:size])
            assert caught.value.available == size
            needed = caught.value.needed
            assert size < needed <= len(data)


def test_bytes_behind_the_packet_are_ignored_unless_strict() -> None:
    for data in SAMPLES.values():
        assert FORMAT.decode(data + b"rest").encode() == data
        with pytest.raises(DecodeError, match="4 bytes behind") as caught:
            FORMAT.decode(data + b"rest", strict=True)
        assert (caught.value.code, caught.value.offset) == ("trailing", len(data))


def test_a_packet_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameTooLargeError) as caught:
        wireloom.decode(REQUEST[:24] + b"\xff\xff\xff\xff" + REQUEST[28:], "blaze")
    assert (caught.value.value, caught.value.path) == (0xFFFFFFFF, "pktlen")
    with pytest.raises(FrameTooLargeError):
        wireloom.decode(SAMPLES["CONREQ/2"], "blaze", max_frame=7)


def test_bytes_like_objects_are_taken() -> None:
    for kind in (bytearray, memoryview):
        assert wireloom.decode(kind(REQUEST), "blaze") == FORMAT.decode(REQUEST)


def test_the_flaw_of_a_strict_reader_has_its_field() -> None:
    data = bytes.fromhex("04c4000060000000 00000007")
    with pytest.raises(InvalidFieldError) as caught:
        FORMAT.decode(data, strict=True)
    assert caught.value.path == "connid"


# --- models from files ----------------------------------------------------------------------------


def test_a_model_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    main, types = tmp_path / "main.blz", tmp_path / "types.blz"
    main.write_text('@include "types.blz"\nnclass POINT\n{\n@id 301\nNUM x\n}\n')
    types.write_text("enum NUM { A = 5 }\n")
    data = with_body("TXRQST/9", bytes.fromhex("06000000 0100 05000000"))

    def shown(path: object) -> Any:
        value = wireloom.decode(data, "blaze", model=path).to_dict()["nclass"]["values"]
        return value["x"]

    assert shown(str(main)) == "A"
    first = _models[str(main)][0]
    assert shown(main) == "A"
    assert _models[str(main)][0] is first
    types.write_text("enum NUM { FIVE = 5 }\n")
    os.utime(types, ns=(1, 1))
    assert shown(main) == "FIVE"
    types.unlink()
    with pytest.raises(SourceError, match="to include"):
        shown(main)
    assert decode_body(FORMAT.decode(SAMPLES["CONREQ/2"]), MODEL) is None


def test_only_some_model_files_are_kept(tmp_path: Path) -> None:
    for i in range(_MAX_MODELS + 3):
        path = tmp_path / f"{i}.blz"
        path.write_text(SAMPLE_MODEL)
        assert FORMAT.decode(REQUEST, model=path).nclass == POINT
    assert len(_models) == _MAX_MODELS


def test_models_that_are_none() -> None:
    with pytest.raises(OptionError, match="model must be a Model or the path"):
        wireloom.decode(REQUEST, "blaze", model=5)
    with pytest.raises(SourceError, match="cannot read"):
        wireloom.decode(REQUEST, "blaze", model="no such file.blz")
    assert wireloom.decode(REQUEST, "blaze", model=None).encode() == REQUEST
    with pytest.raises(OptionError):
        FORMAT.check_options({"nope": 1})
    assert FORMAT.check_options({"dialect": "2017"})[2] == {"dialect": "2017"}


# --- views ----------------------------------------------------------------------------------------


def test_the_tree_shows_header_and_body() -> None:
    for root in (
        FORMAT.outline(REQUEST, model=MODEL),
        wireloom.decode(REQUEST, "blaze", model=MODEL).outline(),
    ):
        rows = {node.name: (node.offset, node.length, node.value) for _, node in root.walk()}
        assert rows["TXREQW"] == (4, 4, "0x43000000")
        assert rows["nclsid"] == (28, 4, "301")
        assert rows["LEN"] == (36, 4, "22")
        assert rows["x"] == (40, 6, "5")
        assert rows["label"] == (52, 10, "dock")
        assert not errors_in(root)
        assert root.name == "TXRQST"


def test_a_tree_in_a_dialect_has_its_names() -> None:
    data = with_index_2()
    names = {node.name: node.meaning for _, node in FORMAT.outline(data, dialect="2017").walk()}
    assert (names["enctyp"], names["txactn"]) == ("INDEXNOTZERO", "INS")
    unknown = SAMPLES["DSCOND/2"]
    names = {node.name: node.meaning for _, node in FORMAT.outline(unknown, dialect="2019").walk()}
    assert names["disres"] == "unknown"


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"", "blaze", "4 bytes needed, 0 available"),
        (b"\x04\x83", "blaze", "4 bytes needed, 2 available"),
        (b"\xff" * 8, "blaze", "there is no packet type 63"),
        (SAMPLES["CONREQ/2"][:5], "clihbt", "4 bytes needed, 1 available"),
        (REQUEST[:20], "txprid", "4 bytes needed, 0 available"),
        (REQUEST[:-1], "TXRQST", "62 bytes needed, 61 available"),
        (REQUEST[:24] + bytes(4) + REQUEST[28:], "pktlen", "PKTLEN 0 is less than"),
        (REQUEST[:24] + b"\xff" * 4 + REQUEST[28:], "pktlen", "frame size 4294967295 is over"),
        (bytes.fromhex("0484000000000000"), "conres", "must be at least 1"),
        (bytes.fromhex("0484000020000000"), "CONRES", "an accepted connection needs a CONNID"),
        (bytes.fromhex("048400003fff0000"), "CONRES", "an accepted connection needs a CONNID"),
    ],
)
def test_the_tree_shows_what_is_wrong(data: bytes, name: str, reason: str) -> None:
    root = FORMAT.outline(data)
    assert len(errors_in(root)) == 1
    found, error = errors_in(root)[0]
    assert found == name
    assert error.startswith(reason)


def test_the_tree_shows_what_only_strict_mode_rejects() -> None:
    refused = bytes.fromhex("04c4000060000000 00000007")
    assert not errors_in(FORMAT.outline(refused))
    assert errors_in(FORMAT.outline(refused, strict=True)) == [
        ("connid", "a refused connection has no CONNID")
    ]
    assert errors_in(FORMAT.outline(SAMPLES["CONREQ/2"] + b"x", strict=True)) == [
        ("CONREQ", "1 bytes behind the packet")
    ]
    root = FORMAT.outline(SAMPLES["CONREQ/2"] + b"x")
    assert (root.length, errors_in(root)) == (8, [])


def test_an_object_that_is_not_in_the_body_is_drawn_as_far_as_it_goes() -> None:
    empty = with_body("TXRQST/9", b"")
    root = FORMAT.outline(empty, model=MODEL)
    assert errors_in(root) == [("body", "LEN needs 4 bytes, 0 are left")]
    value = new_value(MODEL, "POINT", {})
    tree = Heartbeat(tmstmp=1, nclass=value).outline()
    assert errors_in(tree) == [("body", "LEN needs 4 bytes, 0 are left")]


def test_payloads_are_found_in_bodies() -> None:
    assert list(FORMAT.decode(REQUEST).payloads()) == [("body", REQUEST[36:])]
    assert list(FORMAT.decode(REQUEST, model=MODEL).payloads()) == [("body.label", b"dock")]
    assert list(FORMAT.decode(SAMPLES["CONREQ/2"]).payloads()) == []
    assert list(FORMAT.decode(SAMPLES["TXRESP/6"]).payloads()) == []


def test_a_notebook_shows_the_packet() -> None:
    assert "dock" in wireloom.decode(REQUEST, "blaze", model=MODEL)._repr_html_()


# --- detection ------------------------------------------------------------------------------------


def test_whole_packets_are_recognised() -> None:
    for data in SAMPLES.values():
        assert FORMAT.detect(data) == 95
        assert FORMAT.detect(data * 100) == 95
    stream = b"".join(SAMPLES.values())
    assert FORMAT.detect(stream) == 95
    assert wireloom.detect(stream) == "blaze"


def test_parts_of_packets_are_plausible() -> None:
    stream = b"".join(SAMPLES.values())
    assert FORMAT.detect(stream[:-1]) == 90
    assert FORMAT.detect(stream[:-22]) == 90
    # PKTLEN and the body's LEN agree, which half a header cannot show.
    assert FORMAT.detect(REQUEST[:40]) == 90
    assert FORMAT.detect(REQUEST[:30]) == 60
    assert FORMAT.detect(REQUEST[:4]) == 60
    assert FORMAT.detect(SAMPLES["CONREQ/2"] + b"\x04") == 60
    assert FORMAT.detect(SAMPLES["CONREQ/2"] + b"junk") == 60
    # The body's LEN contradicts PKTLEN.
    assert FORMAT.detect(with_body("TXRQST/9", b"\5\0\0\0")) == 60
    assert FORMAT.detect(with_body("TXRQST/9", b"\5\0\0\0") * 2 + b"\x04") == 60


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x04\x83\x00",
        b"junk and more junk",
        bytes(16),
        bytes.fromhex("088300001e000000"),  # version 2
        bytes.fromhex("048300011e000000"),  # unused bits of the first word
        bytes.fromhex("048300001e000001"),  # and of another one
        bytes.fromhex("0484000000000000"),  # CONRES 0
        bytes.fromhex("0484000020000000"),  # accepted without CONNID
        REQUEST[:24] + b"\x7f\xff\xff\xff" + REQUEST[28:],
        REQUEST[:24] + bytes(4) + REQUEST[28:],
    ],
)
def test_other_bytes_are_not_recognised(data: bytes) -> None:
    assert FORMAT.detect(data) == 0


# --- the format as such ---------------------------------------------------------------------------


def test_there_is_a_sample_of_every_form() -> None:
    assert len(SAMPLES) == 23
    assert FORMAT.samples() is SAMPLES


def test_types_come_from_the_declarations() -> None:
    types = FORMAT.types()
    assert [info.code for info in types] == list(range(1, 14))
    assert types[5].name == "TXRQST"
    assert all(info.summary and info.rows for info in types)


def test_damaged_packets_give_a_packet_or_a_decode_error() -> None:
    builder = ModelBuilder()
    builder.nclass("POINT", 301).field("x", "int_32").field("y", "int_32").field(
        "label", "ascii", 6
    )
    options: Any = {"model": builder.build(), "subscriptions": {3: ("POINT", "INDEXDELTA")}}
    mutator = Mutator(list(SAMPLES.values()), seed=9)
    accepted = 0
    for index, data in mutator.mutants(0, 900):
        dialect = ("document", "2017", "2019")[index % 3]
        accepted += examine(FORMAT, data, Random(1), dialect=dialect, **options)
    assert accepted > 200


def test_what_is_accepted_with_a_model_is_written_as_it_was() -> None:
    mutator = Mutator([REQUEST, EVENT, SAMPLES["TXRESP/8"]], seed=4)
    for _, data in mutator.mutants(0, 1500):
        try:
            packet = FORMAT.decode(data, model=MODEL, subscriptions={3: "POINT"})
        except DecodeError:
            continue
        assert packet.encode() == data[: len(packet.encode())]
        assert isinstance(packet, BlazePacket)
        if packet.nclass is not None:
            body = getattr(packet, "body", b"")
            assert decode_nclass(MODEL, "POINT", body) == packet.nclass


def test_events_keep_their_body_when_the_subscription_is_unknown() -> None:
    packet = FORMAT.decode(EVENT, model=MODEL)
    assert isinstance(packet, SubscriptionEvent)
    assert packet.nclass is None
    assert packet.body == EVENT[28:]
    assert FORMAT.outline(EVENT, model=MODEL).children[-1].children == []
