"""Hostile and mutated texts: only `SourceError` may come out, and in linear time.

How long hostile texts take is measured by ``./run bench dictionaries``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary import (
    Dialect,
    check,
    detect,
    load,
    parse_cfile,
    parse_enumtype,
    parse_flist,
    parse_rdm,
    scan_cfile,
    scan_enumtype,
    scan_flist,
    scan_rdm,
    to_sass,
)
from wireloom.formats.qform.dictionary import cfile as cfile_module
from wireloom.formats.qform.dictionary.source import to_source

VECTORS = Path(cfile_module.__file__).parents[1] / "vectors" / "tib_dictionaries.jsonl"


def _texts() -> list[str]:
    found = []
    for line in VECTORS.read_text("utf-8").splitlines():
        case = json.loads(line)
        found += case.get("files", {}).values()
        found += [case[key] for key in ("field_dict", "enum_def") if key in case]
    return [*found, '# forms\n64 EQUITY # x\n80 "BOND"\n']


TEXTS = _texts()
DIALECTS: list[Dialect] = ["clean", "reference"]
SNIPPETS = [
    *'{};"#!()\n\r\t\0 -9',
    "CLASS_ID",
    "FIELDS {",
    "FIELD_CLASS_NAME A;",
    "CFILE_INCLUDES { a; }",
    "99999999999999999999",
    "TRUE",
    "#41#",
    "!tag a b",
    "\xe9",
    "\ud800",
    "NULL",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["insert", "delete", "copy", "cut"]))
        size = draw(st.integers(1, 40))
        if kind == "insert":
            text = text[:at] + draw(st.sampled_from(SNIPPETS)) + text[at:]
        elif kind == "delete":
            text = text[:at] + text[at + size :]
        elif kind == "copy":
            to = draw(st.integers(0, len(text)))
            text = text[:to] + text[at : at + size] + text[to:]
        else:
            text = text[:at]
    return text


def parse_everything(text: str | bytes) -> None:
    source = to_source(text, "t")
    detect(source)
    for dialect in DIALECTS:
        scan_cfile(source, dialect=dialect)
        to_sass(scan_rdm(source, enums=source, dialect=dialect))
        scan_enumtype(source, dialect=dialect)
        for parse in (parse_cfile, parse_rdm, parse_enumtype):
            with suppress(SourceError):
                parse(text, dialect=dialect)
    for problem in (*scan_flist(source).problems, *check(source.data)):
        assert str(problem)
    for function in (load, parse_flist):
        with suppress(SourceError):
            function(source.data)


@given(mutated())
def test_a_mutated_text_gives_a_dictionary_or_a_source_error(text: str) -> None:
    parse_everything(text)


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(SNIPPETS)).map(" ".join)))
def test_noise_gives_a_dictionary_or_a_source_error(text: str | bytes) -> None:
    parse_everything(text)


@given(mutated(), st.integers(0, 300))
def test_an_error_never_takes_back_what_came_before_it(text: str, cut: int) -> None:
    whole = scan_cfile(to_source(text, "t"))
    part = scan_cfile(to_source(text[:-cut] if cut else text, "t"))
    shorter = min(len(whole), len(part))
    # Only the last item read of a cut text may differ: it may have been cut in a number.
    assert whole.entries[: max(0, shorter - 1)] == part.entries[: max(0, shorter - 1)]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark that has the hostile texts and measures the time they take."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    return import_module("benchmarks.dictionaries")


def test_steps_grow_with_a_hostile_text_and_not_with_its_square(
    hostile: ModuleType, steps: Callable[..., int]
) -> None:
    for name, make in hostile.HOSTILE.items():
        small, large = (to_source(make(size), "t") for size in (1 << 10, 1 << 12))
        for title, scan in hostile.scanners().items():
            # Four times the text; sixteen times the steps would be the square.
            most = 5 * steps(partial(scan, small)) + 200
            assert steps(partial(scan, large)) <= most, (name, title)
