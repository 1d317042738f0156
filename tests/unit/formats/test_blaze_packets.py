from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom.errors import DecodeError, EncodeError, OptionError
from wireloom.formats.blaze import (
    DIALECTS,
    FORMAT,
    FORMS,
    PACKETS,
    Action,
    BlazeCode,
    BlazePacket,
    ConnectionRequest,
    ConnectionResponse,
    ConnectionResult,
    Disconnected,
    DisconnectReason,
    Encoding,
    EventType,
    Heartbeat,
    RefusalCode,
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    SubscriptionStopResponse,
    TestRequest,
    TransactionRequest,
    TransactionResponse,
    get_dialect,
)
from wireloom.formats.blaze.dialects import (
    Action2017,
    BlazeCode2019,
    Encoding2017,
    RefusalCode2017,
    TransactionResult2017,
)
from wireloom.formats.blaze.frames import Form
from wireloom.layout import Bits, describe
from wireloom.testing.strategies import messages

SAMPLES = FORMAT.samples()

# Byte offset of the word and bits of every field of every form, written down by hand from the
# document: the declaration must never move one.
LAYOUT = {
    "TSTREQ": {2: "tmstmp@4", 3: "tmstmp@4 connid@8"},
    "HRTBET": {2: "tmstmp@4", 3: "tmstmp@4 connid@8"},
    "CONREQ": {2: "hbtsec@4:24-31"},
    "CONRES": {
        2: "conres@4:29-31 errcod@4:25-28 agrhbt@4:16-23",
        3: "conres@4:29-31 errcod@4:25-28 agrhbt@4:16-23 connid@8",
    },
    "DSCOND": {2: "disres@4:28-31", 3: "disres@4:28-31 connid@8"},
    "TXRQST": {
        7: "txtype@4:28-31 txactn@4:25-27 rsclrq@4:24-24 txplid@8 txsvid@12 txcnid@16 txprid@20 "
        "connid@24",
        9: "txtype@4:28-31 txactn@4:25-27 rsclrq@4:24-24 txplid@8 txsvid@12 txcnid@16 txprid@20 "
        "pktlen@24 enctyp@28:28-31 nclsid@28:0-19 connid@32",
    },
    "TXRESP": {
        6: "txresl@4:29-31 rescls@4:28-28 blzcod@4:0-15 txplid@8 txsvid@12 txcnid@16 txprid@20",
        8: "txresl@4:29-31 rescls@4:28-28 blzcod@4:0-15 txplid@8 txsvid@12 txcnid@16 txprid@20 "
        "pktlen@24 enctyp@28:28-31 nclsid@28:0-19",
    },
    "SBSREQ": {
        5: "sbstyp@4:28-29 sbsmod@4:24-27 flotyp@4:20-22 dwltyp@4:16-18 enctyp@8:28-31 "
        "nclsid@8:0-19 connid@12 rqstid@16",
        7: "sbstyp@4:28-29 sbsmod@4:24-27 flotyp@4:20-22 dwltyp@4:16-18 enctyp@8:28-31 "
        "nclsid@8:0-19 connid@12 rqstid@16 tmstmp0@20 tmstmp1@24",
    },
    "SBSRES": {
        3: "sbresl@4:29-31 blzcod@4:0-15 rqstid@8",
        4: "sbresl@4:29-31 blzcod@4:0-15 rqstid@8 sbsrid@12",
    },
    "SBSEVT": {
        6: "sbsrid@4 sevttp@8:28-31 sbeact@8:25-27 blzcod@8:0-15 sevtid@12 tmstmp0@16 tmstmp1@20",
        7: "sbsrid@4 sevttp@8:28-31 sbeact@8:25-27 blzcod@8:0-15 sevtid@12 tmstmp0@16 tmstmp1@20 "
        "pktlen@24",
    },
    "SBSACK": {3: "sbsrid@4 sevtid@8"},
    "SBSTOP": {2: "sbsrid@4"},
    "SBSSPR": {
        2: "sbresl@4:29-31 blzcod@4:0-15",
        3: "sbresl@4:29-31 blzcod@4:0-15 sbsrid@8",
    },
}


def written(form: Form) -> str:
    out = []
    for name, (at, low, mask) in form.fields.items():
        if at:
            high = low + mask.bit_length() - 1
            out.append(f"{name}@{at}" if (low, high) == (0, 31) else f"{name}@{at}:{low}-{high}")
    return " ".join(out)


def test_every_field_is_where_the_document_puts_it() -> None:
    found: dict[str, dict[int, str]] = {}
    for form in FORMS.values():
        found.setdefault(form.codec.cls.name, {})[form.words] = written(form)
        assert form.header_len == 4 * form.words
        header = [form.fields[name] for name in ("prover", "hdrlen", "pkttyp")]
        assert header == [(0, 26, 63), (0, 22, 15), (0, 16, 63)]
    assert found == LAYOUT
    assert len(FORMS) == 23
    assert [cls.code for cls in PACKETS.values()] == list(range(1, 14))


def test_pktlen_is_word_6_in_the_three_forms_that_have_it() -> None:
    found = {(f.codec.cls.name, f.words): f.pktlen_at for f in FORMS.values() if f.pktlen_at}
    assert found == {("TXRQST", 9): 24, ("TXRESP", 8): 24, ("SBSEVT", 7): 24}


def test_the_byte_table_gives_both_offsets_where_the_forms_differ() -> None:
    rows = {field: offset for offset, _, field, _ in describe(TransactionRequest)}
    assert rows["connid"] == "24, 32"
    assert rows["enctyp"] == "28"


@pytest.mark.parametrize("name", SAMPLES)
def test_each_form_is_read_and_written(name: str) -> None:
    data = SAMPLES[name]
    packet = FORMAT.decode(data, strict=True)
    assert packet.type_name == name.partition("/")[0]
    assert packet.encode() == data
    assert FORMAT.from_dict(json.loads(json.dumps(packet.to_dict()))) == packet
    assert pickle.loads(pickle.dumps(packet)) == packet


@settings(max_examples=200, deadline=None)
@given(messages("blaze"))
def test_every_legal_packet_comes_back(message: BlazePacket) -> None:
    again = FORMAT.decode(message.encode())
    assert again == message
    assert FORMAT.from_dict(again.to_dict()) == message


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_whatever_is_accepted_is_written_back_as_it_was(name: str, data: st.DataObject) -> None:
    # Any bits at all in the words behind the first, and any unused bits and version in that.
    sample = bytearray(SAMPLES[name])
    form = FORMS[(sample[0] << 8 | sample[1]) & 0x3FF]
    for at in range(4, form.header_len):
        if not form.pktlen_at <= at < form.pktlen_at + 4 or not form.pktlen_at:
            sample[at] = data.draw(st.one_of(st.just(sample[at]), st.integers(0, 255)))
    sample[0] = sample[0] & 3 | data.draw(st.integers(1, 63)) << 2
    sample[2:4] = data.draw(st.integers(0, 0xFFFF)).to_bytes(2, "big")
    raw = bytes(sample)
    try:
        packet = FORMAT.decode(raw)
    except DecodeError:
        return
    assert packet.encode() == raw
    assert FORMAT.from_dict(json.loads(json.dumps(packet.to_dict()))).encode() == raw


def test_unused_bits_are_kept_and_strict_mode_rejects_them() -> None:
    data = bytes.fromhex("0483abcd1e0000ff")
    packet = FORMAT.decode(data)
    assert packet.unused == (0xABCD, 0xFF)
    assert packet.encode() == data
    assert packet != FORMAT.decode(bytes.fromhex("048300001e000000"))
    with pytest.raises(DecodeError, match="unused bits"):
        FORMAT.decode(data, strict=True)


@pytest.mark.parametrize("unused", ["x", [[]], ["1"], 5])
def test_unused_bits_in_json_must_be_numbers(unused: object) -> None:
    with pytest.raises(EncodeError, match="unused"):
        FORMAT.from_dict({"format": "blaze", "packet": "CONREQ", "hbtsec": 1, "unused": unused})


def test_a_version_other_than_1_is_kept() -> None:
    data = bytes.fromhex("fc8300001e000000")
    packet = FORMAT.decode(data)
    assert packet.prover == 63
    assert packet.encode() == data


# --- legal and illegal numbers --------------------------------------------------------------------

ZERO_IS_ILLEGAL = {
    ("CONRES/3", "conres"),
    ("CONRES/3", "connid"),
    ("TSTREQ/3", "connid"),
    ("HRTBET/3", "connid"),
    ("DSCOND/2", "disres"),
    ("DSCOND/3", "connid"),
    ("TXRQST/9", "txtype"),
    ("TXRQST/9", "txactn"),
    ("TXRQST/9", "txcnid"),
    ("TXRQST/9", "txprid"),
    ("TXRQST/9", "enctyp"),
    ("TXRQST/9", "nclsid"),
    ("TXRQST/9", "connid"),
    ("TXRQST/7", "connid"),
    ("TXRESP/8", "txresl"),
    ("TXRESP/8", "txcnid"),
    ("TXRESP/8", "txprid"),
    ("TXRESP/8", "enctyp"),
    ("TXRESP/8", "nclsid"),
    ("SBSREQ/7", "sbstyp"),
    ("SBSREQ/7", "sbsmod"),
    ("SBSREQ/7", "flotyp"),
    ("SBSREQ/7", "dwltyp"),
    ("SBSREQ/7", "enctyp"),
    ("SBSREQ/7", "nclsid"),
    ("SBSREQ/7", "connid"),
    ("SBSREQ/7", "rqstid"),
    ("SBSRES/4", "sbresl"),
    ("SBSRES/4", "rqstid"),
    ("SBSRES/4", "sbsrid"),
    ("SBSEVT/7", "sbsrid"),
    ("SBSEVT/7", "sevttp"),
    ("SBSEVT/7", "sevtid"),
    ("SBSACK/3", "sbsrid"),
    ("SBSACK/3", "sevtid"),
    ("SBSTOP/2", "sbsrid"),
    ("SBSSPR/3", "sbresl"),
    ("SBSSPR/3", "sbsrid"),
}


def with_field(name: str, field: str, value: int) -> bytes:
    data = bytearray(SAMPLES[name])
    form = FORMS[(data[0] << 8 | data[1]) & 0x3FF]
    at, low, mask = form.fields[field]
    word = int.from_bytes(data[at : at + 4], "big")
    data[at : at + 4] = (word & ~(mask << low) | value << low).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(("name", "field"), sorted(ZERO_IS_ILLEGAL))
def test_an_illegal_zero_is_named_with_its_offset(name: str, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        FORMAT.decode(with_field(name, field, 0))
    form = FORMS[(SAMPLES[name][0] << 8 | SAMPLES[name][1]) & 0x3FF]
    assert (caught.value.path, caught.value.code) == (field, "illegal_value")
    assert caught.value.offset == form.fields[field][0]
    with pytest.raises(EncodeError):
        FORMAT.from_dict({**FORMAT.decode(SAMPLES[name]).to_dict(), field: 0}).encode()


@pytest.mark.parametrize("field", ["txplid", "txsvid"])
@pytest.mark.parametrize("name", ["TXRQST/9", "TXRESP/6"])
def test_platform_and_service_may_be_zero_unless_strict(name: str, field: str) -> None:
    data = with_field(name, field, 0)
    assert FORMAT.decode(data).encode() == data
    with pytest.raises(DecodeError, match="0 is not legal"):
        FORMAT.decode(data, strict=True)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("CONRES/3", "conres", 7),
        ("CONRES/2", "conres", 4),
        ("CONRES/2", "errcod", 15),
        ("DSCOND/2", "disres", 15),
        ("TXRQST/9", "txtype", 15),
        ("TXRQST/7", "txtype", 15),
        ("TXRQST/9", "txactn", 7),
        ("TXRQST/9", "enctyp", 15),
        ("TXRESP/6", "txresl", 7),
        ("TXRESP/6", "blzcod", 65535),
        ("SBSREQ/5", "sbstyp", 3),
        ("SBSREQ/5", "sbsmod", 15),
        ("SBSREQ/5", "flotyp", 7),
        ("SBSREQ/5", "dwltyp", 7),
        ("SBSREQ/7", "dwltyp", 7),
        ("SBSRES/3", "sbresl", 7),
        ("SBSRES/4", "sbresl", 7),
        ("SBSEVT/6", "sevttp", 15),
        ("SBSEVT/7", "sevttp", 15),
        ("SBSEVT/6", "sbeact", 7),
    ],
)
def test_an_unknown_number_stays_a_number(name: str, field: str, value: int) -> None:
    data = with_field(name, field, value)
    packet = FORMAT.decode(data)
    assert type(getattr(packet, field)) is int
    assert getattr(packet, field) == value
    assert packet.to_dict()[field] == value
    assert FORMAT.from_dict(packet.to_dict()).encode() == data


# --- conditions -----------------------------------------------------------------------------------

TX: dict[str, Any] = {"txplid": 1, "txsvid": 2, "txcnid": 3, "txprid": 4}
SBS: dict[str, Any] = {"sbstyp": 1, "sbsmod": 1, "flotyp": 1, "enctyp": 2, "nclsid": 9}
SBS |= {"connid": 1, "rqstid": 1}


@pytest.mark.parametrize(
    ("name", "field", "value", "path"),
    [
        ("CONRES/2", "conres", 1, "connid"),
        ("CONRES/2", "conres", 2, "connid"),
        ("TXRQST/7", "txtype", 4, "txtype"),
        ("TXRQST/9", "txtype", 1, "txtype"),
        ("TXRQST/9", "txtype", 2, "txtype"),
        ("TXRQST/9", "txtype", 3, "txtype"),
        ("TXRESP/6", "rescls", 1, "rescls"),
        ("TXRESP/8", "rescls", 0, "rescls"),
        ("SBSREQ/5", "dwltyp", 2, "dwltyp"),
        ("SBSREQ/7", "dwltyp", 1, "dwltyp"),
        ("SBSRES/3", "sbresl", 1, "sbresl"),
        ("SBSRES/3", "sbresl", 2, "sbresl"),
        ("SBSRES/4", "sbresl", 3, "sbresl"),
        ("SBSEVT/6", "sevttp", 1, "sevttp"),
        ("SBSEVT/6", "sevttp", 2, "sevttp"),
        ("SBSEVT/7", "sevttp", 3, "sevttp"),
        ("SBSEVT/7", "sevttp", 4, "sevttp"),
        ("SBSEVT/7", "sbeact", 0, "sbeact"),
    ],
)
def test_a_form_that_its_field_does_not_announce(
    name: str, field: str, value: int, path: str
) -> None:
    data = with_field(name, field, value)
    with pytest.raises(DecodeError) as caught:
        FORMAT.decode(data)
    assert (caught.value.path, caught.value.code) == (path, "invalid_field")
    good = FORMAT.decode(SAMPLES[name]).to_dict()
    with pytest.raises(EncodeError) as refused:
        FORMAT.from_dict({**good, field: value}).encode()
    assert refused.value.path == path


@pytest.mark.parametrize("conres", [1, 2])
def test_an_accepted_connection_has_an_id(conres: int) -> None:
    packet = ConnectionResponse(conres=conres, agrhbt=9, connid=5)
    assert FORMAT.decode(packet.encode(), strict=True) == packet


def test_a_refusal_with_an_id_is_tolerated() -> None:
    data = ConnectionResponse(conres=ConnectionResult.REFUSED, connid=5).encode()
    assert len(data) == 12
    assert FORMAT.decode(data).encode() == data
    with pytest.raises(DecodeError, match="refused connection has no CONNID"):
        FORMAT.decode(data, strict=True)


def test_a_stop_event_with_an_empty_body_is_tolerated() -> None:
    data = bytes.fromhex("05ca000000000003400000030000002f59d4b489000000000000001c")
    packet = FORMAT.decode(data)
    assert isinstance(packet, SubscriptionEvent)
    assert packet.body == b""
    assert packet.encode() == data
    assert FORMAT.from_dict(packet.to_dict()).encode() == data
    assert list(packet.payloads()) == []
    with pytest.raises(DecodeError, match="STOP has no PKTLEN"):
        FORMAT.decode(data, strict=True)
    short = SubscriptionEvent(sbsrid=3, sevttp=EventType.STOP, sevtid=47)
    assert len(short.encode()) == 24


def test_an_empty_body_is_no_object_but_a_legal_frame() -> None:
    packet = TransactionRequest(txtype=4, txactn=1, enctyp=2, nclsid=301, connid=1, body=b"", **TX)
    assert FORMAT.decode(packet.encode()) == packet
    assert packet.body == b""


def test_a_stop_response_may_lack_the_subscription() -> None:
    packet = SubscriptionStopResponse(sbresl=1)
    assert FORMAT.decode(packet.encode(), strict=True) == packet


@pytest.mark.parametrize(
    ("packet", "path"),
    [
        (TransactionRequest(txtype=4, txactn=1, connid=1, body=b"x", **TX), "enctyp"),
        (TransactionRequest(txtype=4, txactn=1, connid=1, enctyp=2, body=b"", **TX), "nclsid"),
        (TransactionRequest(txtype=2, txactn=1, connid=1, enctyp=2, nclsid=3, **TX), "body"),
        (TransactionResponse(txresl=1, rescls=1, body=b"x", **TX), "enctyp"),
        (SubscriptionRequest(dwltyp=2, tmstmp0=1, **SBS), "tmstmp1"),
        (SubscriptionRequest(dwltyp=3, tmstmp1=1, **SBS), "tmstmp0"),
        (ConnectionRequest(hbtsec=256), "hbtsec"),
        (ConnectionRequest(hbtsec=-1), "hbtsec"),
        (ConnectionRequest(prover=0), "prover"),
        (ConnectionRequest(prover=64), "prover"),
        (TestRequest(tmstmp=1 << 32), "tmstmp"),
        (SubscriptionRequest(dwltyp=1, **{**SBS, "nclsid": 1 << 20}), "nclsid"),
        (TransactionRequest(txtype="x", txactn=1, connid=1, body=b"", **TX), "enctyp"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_is_named(packet: BlazePacket, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        packet.encode()
    assert caught.value.path == path


def test_a_transaction_has_one_id() -> None:
    request = FORMAT.decode(SAMPLES["TXRQST/9"])
    response = FORMAT.decode(SAMPLES["TXRESP/8"])
    assert isinstance(request, TransactionRequest)
    assert isinstance(response, TransactionResponse)
    assert request.txid == response.txid == (1, 2, 7, 3)


def test_all_enums_of_the_document_are_complete() -> None:
    sizes = {
        (bits.name, cls.name): len(bits.enum)
        for cls in PACKETS.values()
        for bits in cls.codec.attributes.values()
        if isinstance(bits, Bits) and bits.enum is not None
    }
    assert sizes == {
        ("conres", "CONRES"): 3,
        ("errcod", "CONRES"): 10,
        ("disres", "DSCOND"): 8,
        ("txtype", "TXRQST"): 4,
        ("txactn", "TXRQST"): 6,
        ("enctyp", "TXRQST"): 3,
        ("txresl", "TXRESP"): 2,
        ("blzcod", "TXRESP"): 20,
        ("enctyp", "TXRESP"): 3,
        ("sbstyp", "SBSREQ"): 2,
        ("sbsmod", "SBSREQ"): 3,
        ("flotyp", "SBSREQ"): 2,
        ("dwltyp", "SBSREQ"): 2,
        ("enctyp", "SBSREQ"): 3,
        ("sbresl", "SBSRES"): 3,
        ("blzcod", "SBSRES"): 20,
        ("sevttp", "SBSEVT"): 4,
        ("sbeact", "SBSEVT"): 6,
        ("blzcod", "SBSEVT"): 20,
        ("sbresl", "SBSSPR"): 3,
        ("blzcod", "SBSSPR"): 20,
    }


# --- JSON -----------------------------------------------------------------------------------------


def test_json_has_names_and_leaves_out_what_is_absent() -> None:
    packet = ConnectionResponse(
        conres=ConnectionResult.REFUSED, errcod=RefusalCode.ALREADY_CONNECTED
    )
    assert packet.to_dict() == {
        "format": "blaze",
        "packet": "CONRES",
        "prover": 1,
        "conres": "REFUSED",
        "errcod": "ALREADY_CONNECTED",
        "agrhbt": 0,
    }


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"packet": "NOPE"}, "packet"),
        ({"packet": 3}, "packet"),
        ({}, "packet"),
        ({"packet": "CONREQ", "nope": 1}, "nope"),
        ({"packet": "TSTREQ"}, ""),
        ({"packet": "DSCOND", "disres": "NOPE"}, "disres"),
        ({"packet": "CONREQ", "dialect": "2018"}, "dialect"),
        ({"packet": "CONREQ", "dialect": 2017}, "dialect"),
        ({"packet": "DSCOND", "dialect": "2019", "disres": "SERVER_ERROR"}, "disres"),
        ({"packet": "SBSACK", "dialect": "2017", "sbsrid": [], "sevtid": 1}, "sbsrid"),
        ({"packet": "TXRESP", "dialect": "2017", "txresl": "NOPE", **TX}, "txresl"),
    ],
)
def test_objects_that_are_no_packets(given: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        FORMAT.from_dict(given)
    assert caught.value.path == path


# --- dialects -------------------------------------------------------------------------------------


def test_a_dialect_names_the_same_numbers_otherwise() -> None:
    data = with_field("TXRQST/9", "enctyp", 1)
    document = FORMAT.decode(data)
    assert isinstance(document, TransactionRequest)
    assert document.enctyp is Encoding.ALL
    for name in ("2017", "2019"):
        packet = FORMAT.decode(data, dialect=name)
        assert isinstance(packet, TransactionRequest)
        assert packet.dialect == name
        assert packet.enctyp is Encoding2017.INDEXNOTZERO
        assert packet.encode() == data
        made = packet.to_dict()
        assert (made["dialect"], made["enctyp"]) == (name, "INDEXNOTZERO")
        again = FORMAT.from_dict(json.loads(json.dumps(made)))
        assert isinstance(again, TransactionRequest)
        assert again == packet
        assert (again.dialect, again.enctyp) == (name, Encoding2017.INDEXNOTZERO)
        assert pickle.loads(pickle.dumps(packet)) == packet


@pytest.mark.parametrize(
    ("name", "field", "value", "in_2017", "in_2019"),
    [
        ("TXRQST/9", "txactn", 5, "REMOVE", "REMOVE"),
        ("TXRQST/9", "txactn", 6, "RESET", "RESET"),
        ("SBSEVT/7", "sbeact", 5, "REMOVE", "REMOVE"),
        ("TXRESP/6", "txresl", 3, "ABORTED", "ABORTED"),
        ("SBSRES/3", "blzcod", 400, "SBS_ALREADY_STARTED", 400),
        ("SBSRES/3", "blzcod", 300, 300, "SBS_ALREADY_STARTED"),
        ("SBSRES/3", "blzcod", 301, 301, "SBS_NOT_FOUND"),
        ("TXRESP/6", "blzcod", 203, "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT"),
        ("CONRES/2", "errcod", 10, "APPLICATION_REFUSED", 10),
        ("CONRES/2", "errcod", 7, "ALREADY_CONNECTED", 7),
        ("DSCOND/2", "disres", 4, "SERVER_IS_GOING_DOWN", 4),
        ("SBSREQ/5", "enctyp", 2, "INDEXDELTA", "INDEXDELTA"),
        ("SBSREQ/5", "enctyp", 3, 3, 3),
    ],
)
def test_every_difference_of_the_dialects(
    name: str, field: str, value: int, in_2017: object, in_2019: object
) -> None:
    data = with_field(name, field, value)
    for dialect, expected in (("2017", in_2017), ("2019", in_2019)):
        packet = FORMAT.decode(data, dialect=dialect)
        assert packet.to_dict()[field] == expected
        assert packet.encode() == data
        assert FORMAT.from_dict(packet.to_dict()).encode() == data


def test_a_packet_is_translated_by_meaning() -> None:
    request = FORMAT.decode(SAMPLES["TXRQST/9"])
    assert isinstance(request, TransactionRequest)
    other = request.in_dialect("2017")
    assert (other.enctyp, int(other.enctyp or 0)) == (Encoding2017.INDEXNOTZERO, 1)
    assert other.txactn is Action2017.INS
    assert other.encode() == with_field("TXRQST/9", "enctyp", 1)
    assert other.in_dialect("document") == request

    reset = TransactionRequest(txtype=2, txactn=Action.RST, connid=1, **TX).in_dialect("2019")
    assert reset.txactn is Action2017.RESET
    assert reset.in_dialect("document").txactn is Action.RST

    refused = SubscriptionResponse(sbresl=3, blzcod=BlazeCode.SBS_NOT_FOUND, rqstid=1)
    assert refused.in_dialect("2019").blzcod == BlazeCode2019["SBS_NOT_FOUND"] == 301
    assert refused.in_dialect("2017").blzcod == 401

    gone = Disconnected(disres=DisconnectReason.SERVER_ERROR)
    assert type(gone.in_dialect("2019").disres) is int
    assert Heartbeat(tmstmp=1).in_dialect("2017").dialect == "2017"
    assert SubscriptionResponse(sbresl=3, blzcod=999, rqstid=1).in_dialect("2019").blzcod == 999


@pytest.mark.parametrize(
    ("packet", "dialect", "path"),
    [
        (SubscriptionRequest(dwltyp=1, **{**SBS, "enctyp": Encoding.ALL}), "2017", "enctyp"),
        (
            TransactionRequest(txtype=2, txactn=Action2017.REMOVE, connid=1, dialect="2017", **TX),
            "document",
            "txactn",
        ),
        (
            TransactionResponse(txresl=TransactionResult2017.ABORTED, dialect="2017", **TX),
            "document",
            "txresl",
        ),
        (
            ConnectionResponse(
                conres=3, errcod=RefusalCode2017["APPLICATION_REFUSED"], dialect="2017"
            ),
            "document",
            "errcod",
        ),
    ],
)
def test_what_a_dialect_cannot_say(packet: BlazePacket, dialect: str, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        packet.in_dialect(dialect)
    assert caught.value.path == path


def test_names_of_another_dialect_are_not_written() -> None:
    packet = SubscriptionRequest(
        dwltyp=1, dialect="2017", **{**SBS, "enctyp": Encoding.INDEXNOTZERO}
    )
    with pytest.raises(EncodeError, match="another dialect than 2017") as caught:
        packet.encode()
    assert caught.value.path == "enctyp"
    with pytest.raises(EncodeError, match="no dialect"):
        ConnectionRequest(dialect="1999").encode()


def test_dialects_by_name() -> None:
    assert list(DIALECTS) == ["document", "2017", "2019"]
    with pytest.raises(OptionError, match="no dialect 'x'"):
        get_dialect("x")
    with pytest.raises(OptionError):
        ConnectionRequest().in_dialect("x")
    with pytest.raises(OptionError):
        wireloom.decode(SAMPLES["CONREQ/2"], "blaze", dialect="2018")


def test_encodings_by_number_and_back() -> None:
    for dialect in DIALECTS.values():
        for encoding in Encoding:
            if encoding is Encoding.ALL and dialect.name != "document":
                with pytest.raises(EncodeError, match="no encoding ALL"):
                    dialect.enctyp(encoding)
            else:
                assert dialect.encoding(dialect.enctyp(encoding)) is encoding
        assert dialect.encoding(9) is None


def test_defaults_make_the_plain_cases_short() -> None:
    assert ConnectionRequest().encode().hex() == "0483000000000000"
    event = SubscriptionEvent(sbsrid=1, sevttp=EventType.DWNLEND, sevtid=2)
    assert event.encode().hex() == "058a000000000001300000000000000200000000" + "00000000"
