"""Hostile and mutated texts: only `SourceError` may come out, and in linear time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

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
from wireloom.formats.qform.dictionary.source import Source, to_source

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


HOSTILE: dict[str, Callable[[int], str]] = {
    "white": lambda size: " " * size,
    "lines": lambda size: "\n" * size,
    "comments": lambda size: "#\n" * (size // 2),
    "one comment": lambda size: "#" * size,
    "bang comments": lambda size: "!\n" * (size // 2),
    "one bang comment": lambda size: "!" * size,
    "semicolons": lambda size: ";" * size,
    "open braces": lambda size: "{" * size,
    "open items": lambda size: "a{" * (size // 2),
    "digits": lambda size: "1" * size,
    "number as an id": lambda size: "a{class_id " + "1" * size,
    "number as a type": lambda size: "a{class_id 1;data_type " + "1" * size + ";}",
    "one word": lambda size: "a" * size,
    "words": lambda size: "a " * (size // 2),
    "one quote": lambda size: '"' + "a" * size,
    "quotes": lambda size: '"a' * (size // 2),
    "empty quotes": lambda size: '""' * (size // 2),
    "minus": lambda size: "-" * size,
    "parentheses": lambda size: 'A "B" 1 NULL DATE 1 ' + "(" * size,
    "blanks in a field": lambda size: 'A "B" 1 NULL DATE 1' + " " * size + "x",
    "blanks everywhere": lambda size: ("A" + " " * (size // 10)) * 10,
    "repeated statements": lambda size: "a{" + "is_fixed true;" * (size // 14),
    "plain items": lambda size: "a{class_id 1;}" * (size // 14),
    "items of one id": lambda size: "".join(f"a{n}{{class_id 1;}}" for n in range(size // 18)),
    "unknown types": lambda size: "".join(
        f"a{n}{{class_id {n};data_type z}}" for n in range(size // 32)
    ),
    "a form of strangers": lambda size: (
        "f" * (size // 2) + "{class_id 1;fields{" + "b{field_class_name c;}" * (size // 44)
    ),
    "includes": lambda size: "cfile_includes{" + "a;" * (size // 2),
    "same fields": lambda size: 'A "x" 1 NULL INTEGER 1 INT64 1\n' * (size // 31),
    "odd fields": lambda size: "".join(
        f'A{n} "x" {n % 9} NULL X 1 Y 1\n' for n in range(size // 30)
    ),
    "enum tables": lambda size: 'A 1\n0 "x" y\n' * (size // 12),
    "enum values": lambda size: "A 1\n" + "".join(f"{n} x\n" for n in range(size // 8)),
    "field lists": lambda size: "1 A\n" * (size // 4),
}


def seconds(scan: Callable[[Source], object], source: Source) -> float:
    """Processor time, so that other programs beside do not count."""
    started = time.process_time()
    scan(source)
    return time.process_time() - started


def scans() -> list[Callable[[Source], object]]:
    return [
        partial(scan, dialect=dialect)
        for scan in (scan_cfile, scan_rdm, scan_enumtype)
        for dialect in DIALECTS
    ] + [scan_flist, detect]


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text_and_not_with_its_square(name: str) -> None:
    small, large = (to_source(HOSTILE[name](size), "t") for size in (1 << 12, 1 << 15))
    for scan in scans():
        # Eight times the text; sixty-four times the time would be the square.
        limit = 24 * min(seconds(scan, small) for _ in range(3)) + 0.05
        assert min(seconds(scan, large) for _ in range(2)) < limit, scan


@pytest.mark.slow
@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer makes everything slower")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_hostility_takes_less_than_two_seconds(name: str) -> None:
    source = to_source(HOSTILE[name](1 << 20), "t")
    for scan in (scan_cfile, scan_rdm, scan_enumtype, scan_flist, detect):
        assert seconds(scan, source) < 2 or seconds(scan, source) < 2, scan
