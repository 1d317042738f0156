"""The golden vectors of NAIS, and that their verifier sees every difference."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wireloom.formats import nais
from wireloom.formats.nais import StreamDecoder
from wireloom.testing.vectors import load
from wireloom.testing.vectors.nais import Verifier, _same

VECTORS = Path(nais.__file__).parent / "vectors" / "nais.jsonl"
CASES = {case["id"]: case for _, case in load(VECTORS)}


@pytest.mark.parametrize("name", CASES)
def test_vector(name: str) -> None:
    verifier = Verifier()
    assert verifier.accepts(CASES[name])
    assert verifier.check(CASES[name]) is None


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, content in items:
        if isinstance(content, (dict, list)) and content:
            yield from leaves(content, (*path, key))
        else:
            yield (*path, key)


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value[:-2] + ("00" if value[-2:] == "01" else "01") if value else "01"
    return "something"


IGNORED = {"id", "kind", "note"}
FREE = {"chunks", "hex", "opts", "eof"}


@pytest.mark.parametrize("name", CASES)
def test_a_case_that_says_something_else_fails(name: str) -> None:
    verifier = Verifier()
    for path in leaves(CASES[name]):
        if path[0] in IGNORED | FREE or str(path[0]).startswith("reference"):
            continue
        case = copy.deepcopy(CASES[name])
        *parents, last = path
        place = case
        for key in parents:
            place = place[key]
        place[last] = changed(place[last])
        assert verifier.check(case) is not None, (path, place[last])
        if isinstance(place, dict):
            place["no_such_key"] = place.pop(last)
            assert verifier.check(case) is not None, path


@pytest.mark.parametrize(
    ("name", "change", "finding"),
    [
        ("g01", {"hex": "1e010000000a", "frame_len": 6}, "TruncatedError"),
        ("g01", {"hex": "xyz"}, "cannot be read: ValueError"),
        ("g01", {"hex": None}, "cannot be read: TypeError"),
        ("g01", {"frame_len": 18}, "frame_len"),
        ("g01", {"reencode_identical": False}, "encoding is the same"),
        ("g01", {"surprise": 1}, "not understood: surprise"),
        ("g37", {"reencode_identical": True}, "encoding is the same"),
        ("len300", {"hex": "ac82"}, "TruncatedError"),
        ("len300", {"hex": "ac8200"}, "encoded is the same"),
        ("len300", {"hex": "ac8200", "reencode_identical": True}, "encoded is the same"),
        ("len300", {"hex": "ffffffffff01"}, "longer than 4 bytes"),
        ("s02", {"opts": {"max_colour": 1}}, "not understood: max_colour"),
        ("s02", {"opts": {"max_len_bytes": 99}}, "OptionError"),
        ("s02", {"opts": {"max_text": 3}}, "record 0"),
        ("s02", {"chunks": ["74656d703d3231"]}, "records: expected ['text', 'frame']"),
        ("s02", {"expect": [{"kind": "text", "offset": 0}]}, "eol, hex missing"),
        ("s02", {"expect": [{"kind": "odd"}]}, "cannot be read: KeyError"),
        ("s02", {"expect": []}, "records"),
        ("m06", {"chunks": ["1e010000000a0a1e0300000002080117"]}, "records"),
        ("m06", {"eof": True, "chunks": ["1e010000000a0a1e0300000002080117"]}, "truncated"),
    ],
)
def test_what_is_found(name: str, change: dict[str, Any], finding: str) -> None:
    found = Verifier().check(CASES[name] | change)
    assert found is not None
    assert finding in found


def test_other_forms_of_a_case_pass() -> None:
    verifier = Verifier()
    long = {"id": "x", "kind": "len", "value": 300, "hex": "ac8200", "reencode_identical": False}
    assert verifier.check(long) is None
    odd = copy.deepcopy(CASES["g18"])
    packed = "080a2202010222017f1d0000ac411d000080be120468616c6c"
    odd["hex"] = f"1e0600000019{packed}17"
    del odd["frame_len"]
    odd["decoded"] |= {"len": 25, "len_hex": "19", "payload_hex": packed}
    del odd["decoded"]["payload_sha256"]
    assert verifier.check(odd) is None
    hashed = copy.deepcopy(CASES["g01"])
    del hashed["decoded"]["payload_hex"]
    assert verifier.check(hashed) is None
    del hashed["decoded"]["payload_sha256"]
    assert verifier.check(hashed) == "no payload to compare"
    large = {"max_text": 4096, "max_len_bytes": 5, "strict_rsv": False, "max_payload": 1 << 20}
    assert verifier.check(CASES["s04"] | {"opts": large}) is None
    five = {
        "id": "five",
        "kind": "stream",
        "opts": {"max_len_bytes": 5},
        "chunks": ["1e0300000082808080000801", "17" + "41" * 70_000],
        "eof": False,
        "expect": [
            {"kind": "frame", "offset": 0, "type": 3, "sline": 0, "dline": 0, "rsv": 0, "len": 2},
            *({"kind": "text", "offset": 13 + 4096 * i, "hex": "41" * 4096, "eol": False}
              for i in range(17)),
        ],
    }  # fmt: skip
    assert verifier.check(five) is None


def test_only_cases_of_this_family_are_accepted() -> None:
    verifier = Verifier()
    for case in (
        {"id": "r01", "routes": [], "steps": []},
        {"kind": "frame", "packet": "CONNECT", "hex": ""},
        {"kind": "stream", "frame_lens": []},
        {"kind": "malformed"},
    ):
        assert not verifier.accepts(case)


def test_json_values_are_compared_with_care() -> None:
    assert _same({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not _same(True, 1)
    assert not _same([1], [1, 2])
    assert not _same({"a": 1}, {"b": 1})
    assert _same([math.nan, math.inf, -math.inf], ["NaN", "Infinity", "-Infinity"])


def test_a_decoder_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier()
    right = StreamDecoder.feed
    monkeypatch.setattr(StreamDecoder, "feed", lambda self, data: right(self, data[:9]))
    assert verifier.check(CASES["s04"]) is not None
    records = StreamDecoder.close
    monkeypatch.setattr(StreamDecoder, "feed", right)
    monkeypatch.setattr(StreamDecoder, "close", lambda self: records(self) * 2)
    assert "offset" in str(verifier.check(CASES["m19"] | {"expect": CASES["m19"]["expect"] * 2}))
    calls: list[int] = []

    def once(self: StreamDecoder) -> Any:
        calls.append(1)
        return records(self) if len(calls) == 1 else []

    monkeypatch.setattr(StreamDecoder, "close", once)
    assert verifier.check(CASES["m19"]) == "differs when cut nowhere"
    monkeypatch.setattr(StreamDecoder, "close", lambda self: [])
    short = CASES["m02"] | {"chunks": [CASES["m02"]["chunks"][0] + "41"]}
    assert verifier.check(short) == "the records end at 20 of 21"
