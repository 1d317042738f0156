from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from wireloom.formats.blaze import FORMAT, encode_nclass, from_blz, new_value, to_blz
from wireloom.testing.vectors import Case, load, verify
from wireloom.testing.vectors.blaze import Verifier

FILE = Path(inspect.getfile(type(FORMAT))).parent / "vectors" / "blaze.jsonl"
CASES = [case for _, case in load(FILE)]
SCHEMA = CASES[0]
BY_ID = {case["id"]: case for case in CASES[1:]}


def check(case: Case, schema: Case | None = SCHEMA) -> str | None:
    verifier = Verifier()
    if schema is not None:
        assert verifier.check(schema) is None
    assert verifier.accepts(case)
    return verifier.check(case)


def changed(name: str, **changes: Any) -> Case:
    """A copy of a case; a key like ``body__values__x`` reaches inside, None deletes."""
    copy: Case = json.loads(json.dumps(BY_ID[name]))
    for path, value in changes.items():
        *outer, last = path.split("__")
        target = copy
        for key in outer:
            target = target[key]
        if value is None:
            del target[last]
        else:
            target[last] = value
    return copy


@pytest.mark.parametrize("name", BY_ID)
def test_the_codec_agrees_with_every_case(name: str) -> None:
    assert check(BY_ID[name]) is None


def test_the_whole_file_passes() -> None:
    outcomes = list(verify(FILE))
    assert len(outcomes) == len(CASES) == 42
    assert [outcome for outcome in outcomes if outcome.failure] == []


# --- the verifier sees what is wrong --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("conreq_30", {"total_len": 9}),
        ("conreq_30", {"packet": "CONRES"}),
        ("conreq_30", {"pkthdr__PROVER": 2}),
        ("conreq_30", {"pkthdr__HDRLEN": 3}),
        ("conreq_30", {"pkthdr__NOPE": 3}),
        ("conreq_30", {"fields__HBTSEC": 31}),
        ("conreq_30", {"fields__HBTSEC": None}),
        ("conreq_30", {"fields__NOPE": 31}),
        ("conreq_30", {"sender": "server"}),
        ("conreq_30", {"body": {"nclass": "POINT", "hex": "", "enctyp_from_sbsreq": [2, None]}}),
        ("conreq_30", {"hex": "048300001e00000"}),
        ("conreq_30", {"hex": "048300001e"}),
        ("tstreq_cli", {"sender": "server"}),
        ("tstreq_srv", {"sender": "client"}),
        ("conres_ok", {"fields__CONRES": [2, "ACCEPTED"]}),
        ("conres_ok", {"fields__CONRES": [1, "REFUSED"]}),
        ("conres_ok", {"fields__CONRES": [1, "SOMETHING"]}),
        ("conres_ok", {"fields__CONNID": None}),
        ("txrqst_ins_point", {"fields__PKTLEN": 63}),
        ("txrqst_ins_point", {"body": None}),
        ("txrqst_ins_point", {"body__nclass": "TRUCK"}),
        ("txrqst_ins_point", {"body__nclass": "NOPE"}),
        ("txrqst_ins_point", {"body__hex": "00000000"}),
        ("txrqst_ins_point", {"body__nope": 1}),
        ("txrqst_ins_point", {"body__values__x": 6}),
        ("txrqst_ins_point", {"body__values__x": 5.0}),
        ("txrqst_ins_point", {"body__values__x": None}),
        ("txrqst_ins_point", {"body__values__label": "duck"}),
        ("txrqst_ins_point", {"body__values__nope": 1}),
        ("txrqst_ins_nested", {"body__values__home__x": 6}),
        ("txrqst_ins_nested", {"body__values__stops__2__y": 6}),
        ("txrqst_ins_nested", {"body__values__stops__1": {"x": 1}}),
        ("txrqst_delta", {"body__values__active": None}),
        ("txrqst_delta", {"body__values__name": ""}),
        ("sbsevt_live_upd", {"body__enctyp_from_sbsreq": [2, "ALL"]}),
        ("sbsevt_live_upd", {"body__enctyp_from_sbsreq": None}),
        ("sbsevt_live_dlt", {"body__enctyp_from_sbsreq": [2, "INDEXNOTZERO"]}),
        ("nclsid_unknown", {"hex": BY_ID["txrqst_ins_point"]["hex"]}),
        ("type_zero", {"hex": BY_ID["nclsid_unknown"]["hex"]}),
        ("server_burst", {"packets": ["CONRES"] * 4}),
        ("server_burst", {"frame_lens": [12, 16, 47]}),
        ("server_burst", {"frame_lens": [12, 16, 71], "packets": ["CONRES", "SBSRES", "SBSEVT"]}),
    ],
)
def test_a_case_that_differs_fails(name: str, changes: dict[str, Any]) -> None:
    assert check(changed(name, **changes)) is not None


def test_a_case_needs_the_schema_before_it() -> None:
    for name in ("txrqst_ins_point", "nclsid_unknown"):
        failure = check(BY_ID[name], None)
        assert failure is not None
        assert "no schema line" in failure
    for name in ("conreq_30", "type_zero", "server_burst"):
        assert check(BY_ID[name], None) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"nclasses": {"C": {"id": 1, "fields": [[2, "x", "int32"]]}}},
        {"nclasses": {"C": {"id": 1, "fields": [[1, "x", "int33"]]}}},
        {"nclasses": {"C": {"id": 0, "fields": []}}},
        {"nclasses": {"C": {"fields": []}}},
    ],
)
def test_a_schema_that_is_wrong_fails(changes: dict[str, Any]) -> None:
    assert Verifier().check({**SCHEMA, **changes}) is not None


def test_names_that_the_document_words_otherwise_are_taken() -> None:
    data = "04c40000501e000000000007"
    case = {
        "kind": "frame",
        "id": "conres_reserve",
        "packet": "CONRES",
        "hex": data,
        "total_len": 12,
        "pkthdr": {"PROVER": 1, "HDRLEN": 3, "PKTTYP": 4},
        "fields": {
            "CONRES": [2, "ACCEPTED_RESERVE"],
            "ERRCOD": [8, "HEARTBEAT_CHANGED"],
            "AGRHBT": 30,
            "CONNID": 7,
        },
    }
    assert check(case) is None
    assert check({**case, "fields": {**case["fields"], "ERRCOD": [8, None]}}) is None
    assert check({**case, "fields": {**case["fields"], "CONRES": [2, "ACCEPTED"]}}) is not None


def test_other_cases_are_left_to_others() -> None:
    for case in (
        {},
        {"kind": "frame", "decoded": {}},
        {"kind": "schema"},
        {"kind": "stream", "chunks": []},
        {"kind": "malformed", "transport": "tcp", "why": ""},
        {"kind": "malformed", "format": "tibmsg", "why": ""},
        {"kind": "valid"},
    ):
        assert not Verifier().accepts(case)


# --- cases of kinds that the file does not have ---------------------------------------------------

EVERYTHING = {
    "truck_id": 1,
    "name_hex": "ff",
    "active": True,
    "i16": -1,
    "u16": 1,
    "i32": -1,
    "i64": -1,
    "u64": 1,
    "f32": 0.1,
    "f64": "NaN",
    "grade": "A",
    "flags": 1,
    "gauge": [9, "GAUGE_High"],
    "temps": {"3": 1},
    "gauges": {"1": "GAUGE_Low"},
    "doors": {"0": True},
    "load": [0.5],
    "raw": "0001",
    "home": {"x": 1, "label_hex": "fe"},
    "stops": [{"x": 1}],
}


def body_case(values: dict[str, Any], kind: int, name: str) -> Case:
    """A transaction with those values, made with the codec: the verifier's own paths are tested."""
    verifier = Verifier()
    verifier.check(SCHEMA)
    model = verifier._model
    assert model is not None
    assert from_blz(to_blz(model), first_index=1) == model
    plain = {**values, "raw": b"\0\1", "gauge": 9} if "raw" in values else values
    body = encode_nclass(new_value(model, "TRUCK", plain), list(_ENCODINGS)[kind - 1])
    header = bytes.fromhex("06460000430000000000000100000002000000070a0b0c0d")
    header += (36 + len(body)).to_bytes(4, "big") + bytes([kind << 4, 0, 1, 0x2E]) + b"\0\0\0\7"
    case = changed("txrqst_ins_nested", hex=(header + body).hex(), total_len=36 + len(body))
    case["fields"].update(PKTLEN=36 + len(body), ENCTYP=[kind, name])
    case["body"] = {"nclass": "TRUCK", "hex": body.hex(), "values": values}
    return case


_ENCODINGS = type(new_value(from_blz("nclass A { @id 1\n}"), "A", {}).encoding)


@pytest.mark.parametrize(("kind", "name"), [(1, "ALL"), (2, "INDEXNOTZERO"), (3, "INDEXDELTA")])
def test_bodies_of_every_type_and_encoding(kind: int, name: str) -> None:
    values = EVERYTHING if kind != 3 else {**EVERYTHING, "raw": {"1": 1}}
    if kind == 3:
        case = body_case(
            {k: v for k, v in EVERYTHING.items() if k not in ("raw", "gauge")}, 3, name
        )
        assert check(case) is None
        return
    case = body_case(values, kind, name)
    assert check(case) is None
    for key, wrong in {
        "f32": 0.2,
        "f64": 1.0,
        "load": [-0.5],
        "grade": "B",
        "gauge": [9, "GAUGE_Low"],
        "gauges": {"1": "GAUGE_Off"},
        "doors": {"0": False},
        "raw": "0002",
        "name_hex": "fe",
    }.items():
        other = {**case, "body": {**case["body"], "values": {**values, key: wrong}}}
        assert check(other) is not None, key
    zero = {**case, "body": {**case["body"], "values": {**values, "f64": 0.0}}}
    assert check(zero) is not None


def test_a_negative_zero_is_told_from_zero() -> None:
    case = body_case({"f64": -0.0, "grade": "A"}, 2, "INDEXNOTZERO")
    assert check(case) is None
    case["body"]["values"]["f64"] = 0.0
    assert check(case) is not None


def test_a_zero_character_may_be_written_as_one() -> None:
    case = body_case({"truck_id": 1, "grade": ""}, 3, "INDEXDELTA")
    assert check(case) is None
    case["body"]["values"]["grade"] = "\0"
    assert check(case) is None


def test_a_stop_of_the_long_form() -> None:
    case = changed(
        "sbsevt_stop",
        hex="05ca000000000003400000030000002f59d4b489000000000000001c",
        total_len=28,
        pkthdr__HDRLEN=7,
        fields__PKTLEN=28,
        sender=None,
    )
    assert check(case) is None


def test_malformed_events_and_reactions_of_a_session() -> None:
    event = "05ca000000000003140000000000002b59d4b48500000001"
    bad = event + "0000002200000063" + "0100"
    assert check({"kind": "malformed", "hex": bad, "why": "LEN", "expect": "error"}) is None
    good = event + "0000002000000000"
    assert check({"kind": "malformed", "hex": good, "why": "?", "expect": "error"}) is not None
    request = BY_ID["txrqst_ins_point"]["hex"]
    session = {"kind": "malformed", "hex": request, "why": "duplicate", "expect": "TXKO 201"}
    assert check(session) is None
    zero = request[:40] + "00000000" + request[48:]
    assert check({**session, "hex": zero}) is None
    assert check({**session, "hex": request + "00"}) is not None


def test_a_case_may_be_in_another_dialect() -> None:
    case = changed("txrqst_ins_point", dialect="vulgaris 2017")
    data = case["hex"].replace("2000012d", "1000012d")
    case["hex"] = data
    case["fields"]["ENCTYP"] = [1, "INDEXNOTZERO"]
    assert check(case) is None
    assert check(case, {**SCHEMA, "dialect": "2019"}) is None
    assert check({**case, "dialect": "seed"}) is not None
    del case["dialect"]
    assert check(case, {**SCHEMA, "dialect": "2019"}) is None
    assert check(case) is not None
    unknown = {**case, "hex": data.replace("1000012d", "9000012d")}
    unknown["fields"]["ENCTYP"] = [9, None]
    assert "9 is not an encoding" in (check(unknown) or "")
