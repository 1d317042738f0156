from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from wireloom.errors import DecodeError
from wireloom.formats import get
from wireloom.testing.vectors import load, tib
from wireloom.wire import DEFAULT_LIMITS

Case = dict[str, Any]


def golden() -> list[Case]:
    cases = []
    for name in ("tibmsg", "tibrv"):
        for entry in files(f"wireloom.formats.{name}").joinpath("vectors").iterdir():
            cases += [case for _, case in load(Path(str(entry)))]
    return cases


GOLDEN = golden()
IDS = [f"{case['format']}: {case['name']}" for case in GOLDEN]


@pytest.mark.parametrize("case", GOLDEN, ids=IDS)
def test_golden(case: Case) -> None:
    verifier = tib.Verifier()
    assert verifier.accepts(case)
    assert verifier.check(case) is None


def test_all_cases_are_here() -> None:
    assert len(GOLDEN) == 377
    assert len(set(IDS)) == len(IDS)


def named(format: str, name: str) -> Case:
    (case,) = [c for c in GOLDEN if (c["format"], c["name"]) == (format, name)]
    return copy.deepcopy(case)


@pytest.mark.parametrize("case", GOLDEN, ids=IDS)
def test_strict_takes_what_is_canonical_and_nothing_lenient(case: Case) -> None:
    codec = get("tibmsg" if case["format"] == "tibmsg" else "tibrv")
    data = bytes.fromhex(case["hex"])
    if case.get("canonical"):
        codec.decode(data, limits=DEFAULT_LIMITS, strict=True)
    elif case.get("lenient") or case.get("malformed"):
        quirk = case.get("quirk") and case["name"] != "message with hint bit"
        if quirk and case["name"] != "empty opaque with four byte size as last field":
            codec.decode(data, limits=DEFAULT_LIMITS, strict=True)
        else:
            with pytest.raises(DecodeError):
                codec.decode(data, limits=DEFAULT_LIMITS, strict=True)


# --- the verifier itself: every kind of difference is found ---------------------------------------


def difference(case: Case) -> str:
    found = tib.Verifier().check(case)
    assert found is not None, json.dumps(case)[:500]
    return found


def first(case: Case) -> dict[str, Any]:
    field: dict[str, Any] = case["fields"][0]
    return field


CHANGES: list[tuple[str, str, Callable[[Case], Any], str]] = [
    ("tibmsg", "int 8", lambda c: c.update(colour="red"), "unknown keys ['colour']"),
    ("tibmsg", "int 8", lambda c: first(c).update(colour="red"), "no ['colour']"),
    ("tibmsg", "int 8", lambda c: first(c).update(value=99), "fields[0].value: 0 for 99"),
    ("tibmsg", "int 8", lambda c: first(c).update(value=False), "fields[0].value: 0 for False"),
    ("tibmsg", "int 8", lambda c: first(c).update(value=0.0), "value"),
    ("tibmsg", "int 8", lambda c: first(c).update(raw="ff"), "fields[0].raw"),
    ("tibmsg", "int 8", lambda c: first(c).update(name="X"), "fields[0].name"),
    ("tibmsg", "int 8", lambda c: first(c).update(type="uint"), "fields[0].type"),
    ("tibmsg", "int 8", lambda c: first(c).pop("size"), "['size'] is not in the case"),
    ("tibmsg", "int 8", lambda c: c["fields"].pop(), "fields: 7 instead of 6"),
    ("tibmsg", "int 8", lambda c: c.update(unwrapped={}), "does not carry others"),
    ("tibmsg", "int 8", lambda c: c.pop("fields"), "cannot be understood: KeyError"),
    ("tibmsg", "int 8", lambda c: c.update(hex="00"), "DecodeError: no TibMsg magic"),
    ("tibmsg", "real 32", lambda c: first(c).update(value=-0.0), "value: 0.0 for -0.0"),
    ("tibmsg", "real 32", lambda c: first(c).update(value="0.0"), "value"),
    ("tibmsg", "array of int8", lambda c: first(c)["values"].pop(), "values"),
    (
        "tibmsg",
        "decimal rounding, two places",
        lambda c: first(c)["md"].update(ival=28),
        "fields[0].md",
    ),
    ("tibmsg", "decimal rounding, two places", lambda c: first(c).pop("md"), "['md']"),
    (
        "tibrvmsg",
        "nested message (seed example, corrected)",
        lambda c: first(c)["fields"].pop(),
        "fields[0].fields: 1 instead of 0",
    ),
    (
        "tibmsg",
        "four byte size for short data",
        lambda c: c.update(canonical=True),
        "built from the fields",
    ),
    ("tibmsg", "wrong magic", lambda c: c.update(hex="ce13aa1f0100000000"), "accepted"),
    (
        "tibmsg",
        "second field bad",
        lambda c: c.update(reject_stage="header"),
        "refused in fields[1], not in the header",
    ),
    ("tibmsg", "second field bad", lambda c: c.update(fields_ok=0), "refused in fields[1]"),
    ("tibmsg", "wrong magic", lambda c: c.update(reject_stage="iterate"), "in the header"),
    ("tibmsg", "second field bad", lambda c: c.update(reject_stage="nested"), "not in a nested"),
    ("tibmsg", "second field bad", lambda c: c.update(reject_stage="soon"), "unknown stage"),
    ("tibrvmsg", "array of messages (type 49)", lambda c: first(c)["messages"].pop(), "messages"),
    (
        "tibrvmsg",
        "array of messages (type 49)",
        lambda c: first(c)["messages"][1].pop(),
        "messages[1].fields: 2 instead of 1",
    ),
    (
        "tibrvmsg",
        "_data_ holding a TibMsg (seed example, corrected)",
        lambda c: c.pop("unwrapped"),
        "a tibmsg is carried",
    ),
    (
        "tibrvmsg",
        "_data_ holding a TibMsg (seed example, corrected)",
        lambda c: c["unwrapped"].update(format="qform"),
        "a tibmsg is carried",
    ),
    (
        "tibrvmsg",
        "_data_ holding a TibMsg (seed example, corrected)",
        lambda c: first(c["unwrapped"]).update(name="X"),
        "fields[0].name",
    ),
    ("tibrvmsg", "int 8", lambda c: c.update(unwrapped={}), "nothing is carried"),
]


@pytest.mark.parametrize(("format", "name", "change", "expected"), CHANGES)
def test_a_wrong_case_is_found_out(
    format: str, name: str, change: Callable[[Case], Any], expected: str
) -> None:
    case = named(format, name)
    change(case)
    assert expected in difference(case)


def test_other_cases_are_not_accepted() -> None:
    verifier = tib.Verifier()
    assert not verifier.accepts({"format": "blaze", "hex": ""})
    assert not verifier.accepts({"format": "tibmsg"})


def test_a_format_without_checks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tib.Mismatch, match="no format 'x'"):
        tib.family_of("x")
    monkeypatch.setitem(tib._FAMILIES, "tibmsg", "wireloom.testing.vectors.nothing")
    assert "no checks for tibmsg cases" in difference(named("tibmsg", "int 8"))
