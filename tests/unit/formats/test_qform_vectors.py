"""The golden vectors of QForm, and that their verifier notices what is wrong."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from wireloom.formats import qform
from wireloom.testing.vectors import Case, load
from wireloom.testing.vectors.tib import Verifier

FILE = Path(inspect.getfile(qform)).parent / "vectors" / "qform.jsonl.gz"
CASES = [case for _, case in load(FILE)]
BY_NAME = {case["name"]: case for case in CASES}


def check(case: Case) -> str | None:
    assert Verifier().accepts(case)
    return Verifier().check(case)


def changed(case: str, field: int | None = None, /, **changes: Any) -> Case:
    """A copy of a case with some keys of it, or of one of its fields, changed; None deletes."""
    copy: Case = json.loads(json.dumps(BY_NAME[case]))
    target = copy if field is None else copy["fields"][field]
    for key, value in changes.items():
        if value is None:
            del target[key]
        else:
            target[key] = value
    return copy


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_codec_agrees_with_the_vector(case: Case) -> None:
    assert check(case) is None


RECORD = "record of each usual type (seed example)"


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        (0, {"fid": 2706}),
        (0, {"name": "OTHER"}),
        (0, {"type": "opaque"}),
        (0, {"size": 19}),
        (0, {"wire_fid": 2705}),
        (0, {"wire_len": 21}),
        (0, {"value": "ABC"}),
        (0, {"raw": "00"}),
        (0, {"wire_len": None}),
        (0, {"colour": "red"}),
        (0, {"variable": True}),
        (0, {"partial_offset": 0}),
        (1, {"value": 64.0}),
        (3, {"md": {"type": "time"}}),
        (3, {"md": None}),
        (5, {"value": 1000.5}),
        (6, {"hint": 18}),
        (6, {"hint": None}),
        (None, {"fields": []}),
        (None, {"colour": "red"}),
        (None, {"hex": "1111111200000000"}),
        (None, {"dict": None}),
        (None, {"dict": "BID {"}),
        (None, {"unwrapped": {}}),
    ],
)
def test_a_difference_in_a_good_case_is_noticed(field: int | None, changes: Case) -> None:
    assert check(changed(RECORD, field, **changes)) is not None


def test_what_the_reference_got_wrong_does_not_count() -> None:
    case = changed("grocery rounding")
    case["fields"][0]["md"]["raimd_ival"] = 5
    assert check(case) is None
    case["fields"][0]["md"]["ival"] = 28
    assert check(case) is not None


def test_a_case_that_is_not_canonical_is_not_built() -> None:
    case = changed("fid flag bits cleared", canonical=True)
    assert "built from the fields" in (check(case) or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"fields_ok": 0},
        {"fields_ok": 2},
        {"reject_stage": "header"},
        {"reject_stage": "nested"},
        {"error": "NULL_FID"},
        {"colour": "red"},
        {"hex": "1111111200000004cfa30005"},
    ],
)
def test_a_difference_in_a_malformed_case_is_noticed(changes: Case) -> None:
    assert check(changed("unknown fid", **changes)) is not None


def test_a_case_without_a_dictionary_must_say_that_nothing_is_read() -> None:
    assert check(changed("no dictionary", fields_ok=1)) is not None
    assert check(changed("no dictionary", error="SOMETHING_ELSE")) is None


def test_a_form_in_the_fields_is_noticed() -> None:
    case = changed("sass header (seed example)")
    case["dict"] = (
        'A { CLASS_ID 5; DATA_TYPE 1; } F { CLASS_ID 4001; FIELDS { "a" { FIELD_CLASS_NAME A; } } }'
    )
    assert "form" in (check(case) or "")


def test_a_quirk_may_be_accepted() -> None:
    case = changed("unknown fid", hex="1111111200000004cfa30005", quirk=True)
    assert check(case) is None
