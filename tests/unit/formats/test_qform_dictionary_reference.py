"""The golden cases, and the quirks of the reference dialect one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary import (
    Dictionary,
    EnumTable,
    parse_cfile,
    parse_enumtype,
    parse_rdm,
    scan_cfile,
    scan_enumtype,
    scan_rdm,
    verify_case,
)
from wireloom.formats.qform.dictionary import cfile as cfile_module
from wireloom.formats.qform.dictionary.reference.enumtype import found_displays, is_dense
from wireloom.formats.qform.dictionary.reference.scanner import to_int
from wireloom.formats.qform.dictionary.source import find_in, to_source

VECTORS = Path(cfile_module.__file__).parents[1] / "vectors" / "tib_dictionaries.jsonl"
CASES = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


def reference(text: str, **files: str) -> Dictionary:
    return scan_cfile(to_source(text, "main"), find=find_in(files), dialect="reference")


def names(text: str, **files: str) -> list[str]:
    return [entry.name for entry in reference(text, **files)]


# --- golden ---


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_golden_case_is_met(case: dict[str, Any]) -> None:
    assert verify_case(case) is None


def test_there_are_golden_cases_of_both_formats() -> None:
    assert {case["format"] for case in CASES} == {"cfile", "rdm"}
    assert len(CASES) == 16


def altered(name: str, **changes: Any) -> dict[str, Any]:
    case = next(case for case in CASES if case["name"] == name)
    return {**json.loads(json.dumps(case)), **changes}


RDM_CASE = "field dictionary, enum tables and SASS mapping"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_value_of_a_golden_case_is_looked_at(case: dict[str, Any]) -> None:
    for key in ("entries", "sass_entries"):
        for index, row in list(enumerate(case.get(key, [])))[::3]:
            for column, value in row.items():
                other = {**row, column: "other" if value != "other" else None}
                rows = [*case[key][:index], other, *case[key][index + 1 :]]
                assert verify_case({**case, key: rows}) is not None, column
        if case.get(key):
            assert verify_case({**case, key: case[key][:-1]}) is not None
            assert verify_case({**case, key: [*case[key], case[key][0]]}) is not None


def test_a_case_that_is_not_met_says_where() -> None:
    case = altered("plain")
    case["entries"][1]["size"] = 21
    assert verify_case(case) == "entries[1] 'F2' size: 20, expected 21"
    case["entries"].pop()
    case["entries"][1]["size"] = 20
    assert verify_case(case) == "entries: 7, expected 6"
    assert verify_case(altered("plain", status=42)) == "status 0, expected 42: no error"
    failing = altered("error: repeated statement", status=0)
    assert verify_case(failing) == ("status 42, expected 0: tss_fields.cf:2: DATA_TYPE is repeated")
    case = altered(RDM_CASE)
    case["entries"][3]["enum"]["1"] = "ASX"
    assert "entries[3] 'RDN_EXCHID' enum" in str(verify_case(case))


def test_memory_behind_a_short_text_of_a_sparse_table_does_not_count() -> None:
    case = altered(RDM_CASE)
    row = next(row for row in case["entries"] if row["name"] == "CTS_QUAL")
    row["enum"]["90"] = "LATE?"
    row["enum"]["10"] = "é"
    assert verify_case(case) is None
    row["enum"]["91"] = "more"
    assert verify_case(case) is not None


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"format": "cfile"},
        {"format": "cfile", "files": 1, "main": "x"},
        {"format": "cfile", "files": {}, "main": "x"},
        {"format": "cfile", "files": {"x": 3}, "main": "x"},
        {"format": "rdm", "field_dict": ""},
        {"format": "rdm", "field_dict": "", "entries": [], "sass_entries": [], "status": 0},
        {"format": "other"},
    ],
)
def test_a_malformed_case_is_not_met(case: dict[str, Any]) -> None:
    assert verify_case(case)


# --- cfile ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X{ CLASS_ID 1; }", ["X{"]),
        ('"X" { CLASS_ID1;DATA_TYPE15;IS_FIXEDtrue; }', ["X"]),
        ("A { CLASS_ID 1 DATA_TYPE 9 } B }", ["A", "B"]),
        ("CLASS_ID 5; A { }", ["A"]),
        ("A { CLASS_ID 0; CLASS_ID 5; }", ["A"]),
        ("A { CLASS_ID 1; ", []),
        ("A { CLASS_ID 1; }}}}", ["A"]),
        ('"" { CLASS_ID 1; }', [""]),
        ('"a\nb" { CLASS_ID 1; }', ["a\nb"]),
        ("A { DATA_TYPE zip; }", ["A"]),
        (f"{'N' * 255} {{ }} {'M' * 254} {{ }}", ["M" * 254]),
        ("A { CLASS_ID 1; } # no line end", ["A"]),
        ("A { CLASS_ID 1; } #", ["A"]),
        ("A { CLASS_ID 1; } # ends in white ", ["A"]),
    ],
)
def test_most_texts_mean_something_to_the_reference(text: str, expected: list[str]) -> None:
    assert names(text) == expected
    assert reference(text).error is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A { CLASS_ID 1; }\nTRUE_PRC { }", 2),
        ("A { CLASS_ID 1; } B C", 1),
        ("A { CLASS_ID 1; } 12 { }", 1),
        ("A { CLASS_ID 1; } _x { }", 1),
        ("A { CLASS_ID 1; } \u00e9 { }", 1),
        ('A { CLASS_ID 1; } "open', 1),
        ("A { CLASS_ID 1; } B { IS_FIXED true; IS_FIXED true; }", 1),
        ("A { CLASS_ID 1; } B { IS_FIXED 1; }", 1),
        ("A { CLASS_ID 1; } FIELDS { }", 1),
        ("A { CLASS_ID 1; } B { FIELD_CLASS_NAME A; }", 1),
        ("A { CLASS_ID 1; } B { DATA_TYPE 1; DATA_TYPE real; }", 1),
        ("A { CLASS_ID 1; }\n# a comment that ends the text (", 2),
        ("A { CLASS_ID 1; }\nCFILE_INCLUDES { absent; }", 2),
    ],
)
def test_an_error_of_the_reference_keeps_what_came_before(text: str, line: int) -> None:
    made = reference(text)
    assert [entry.name for entry in made] == ["A"]
    assert made.error is not None
    assert (made.error.file, made.error.line) == ("main", line)
    with pytest.raises(SourceError):
        parse_cfile(text, dialect="reference")


def test_types_and_partials_of_the_reference() -> None:
    made = reference(
        """
        P2 { CLASS_ID 1; IS_PARTIAL true; DATA_TYPE 2; DATA_SIZE 8; }
        P3 { CLASS_ID 2; IS_PARTIAL true; DATA_TYPE 3; }
        P11 { CLASS_ID 3; IS_PARTIAL true; DATA_TYPE 11; DATA_SIZE 8; }
        NONE { CLASS_ID 4; DATA_TYPE 99; IS_FIXED false; }
        MIXED { CLASS_ID 5; DATA_TYPE 9abc; }
        """
    )
    assert [(e.md_type.value, e.size, e.is_fixed) for e in made] == [
        ("partial", 8, True),
        ("partial", 1, True),
        ("opaque", 8, True),
        ("nodata", 0, True),
        ("int", 2, True),
    ]
    assert made.problems


def test_redefinitions_of_the_reference() -> None:
    made = reference(
        """
        A { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 4; IS_FIXED false; }
        A { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 4; IS_PRIMITIVE false; }
        A { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 5; }
        A { CLASS_ID 2; DATA_TYPE 2; DATA_SIZE 4; }
        """
    )
    assert [(e.fid, e.size, e.is_fixed, e.is_primitive) for e in made] == [
        (1, 4, True, True),
        (1, 5, True, True),
        (2, 4, True, True),
    ]


def test_forms_of_the_reference_skip_what_they_do_not_know() -> None:
    text = """
    A { CLASS_ID 1; DATA_TYPE 1; }
    F { CLASS_ID 2; FIELDS {
        "a" { FIELD_CLASS_NAME "B"; FIELD_CLASS_NAME_IS_NOT }
    """
    assert reference(text).error is not None
    made = reference(
        """
        A { CLASS_ID 1; DATA_TYPE 1; } B { CLASS_ID 3; DATA_TYPE 1; }
        F { CLASS_ID 2; FIELDS {
            "a" { FIELD_CLASS_NAME "A" "B"; } ; "gone" { FIELD_CLASS_NAME "X"; } "none" } }
        F { CLASS_ID 2; FIELDS { "x" { FIELD_CLASS_NAME "X"; } } }
        E { CLASS_ID 9; FIELDS { } }
        """
    )
    assert made.by_name["F"].form_fids == (3,)
    assert made.by_name["E"].md_type == "nodata"


def test_a_base_is_extended_by_the_reference() -> None:
    base = parse_cfile("A { CLASS_ID 1; DATA_TYPE 1; } A { CLASS_ID 5; DATA_TYPE 1; }")
    text = "F { CLASS_ID 2; FIELDS { a { FIELD_CLASS_NAME A; } } }"
    made = parse_cfile(text, base=base, dialect="reference")
    assert made.by_name["F"].form_fids == (1,)
    assert made.problems == base.problems


def test_an_error_in_an_included_file_ends_that_file_only() -> None:
    made = reference(
        "CFILE_INCLUDES { inner; } B { CLASS_ID 2; }", inner="A { CLASS_ID 1; }\n\n( C { }"
    )
    assert [entry.name for entry in made] == ["A", "B"]
    assert made.error is not None
    assert (made.error.file, made.error.line) == ("inner", 3)


def test_an_included_file_goes_on_where_the_including_one_is() -> None:
    made = reference(
        "A { CLASS_ID 1; DATA_TYPE 1; } F { CLASS_ID 2; FIELDS { CFILE_INCLUDES { inner; } } } }",
        inner='"a" { FIELD_CLASS_NAME "A"; } }',
    )
    assert made.error is None
    assert made.by_name["F"].form_fids == (1,)
    assert reference("CFILE_INCLUDES { fields.cf; }").error is not None


def test_recursive_includes_are_refused_in_the_reference_dialect_too() -> None:
    made = reference("CFILE_INCLUDES { main; }", main="CFILE_INCLUDES { main; }")
    assert made.error is not None
    assert "includes itself" in made.error.reason


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        (b"12", 12),
        (b"-12", -12),
        (b"12x", 12),
        (b"-", 0),
        (b"x", 0),
        (b"2147483648", -(1 << 31)),
        (b"4294967297", 1),
        (b"9" * 5000, -1),
        (b"-" + b"9" * 5000, 0),
    ],
)
def test_numbers_wrap_as_in_c(digits: bytes, value: int) -> None:
    assert to_int(digits) == value


# --- RDM ---

BID = 'BID "BID" 22 NULL PRICE 17 REAL64 7\n'


def rdm_names(text: str) -> list[str]:
    return [e.name for e in scan_rdm(to_source(text, "dict"), dialect="reference")]


@pytest.mark.parametrize(
    "rest",
    [
        'X "X" 26 NULL ALPHANUMERIC 17 UTF8_STRING 7\n',
        'X "X" 26 NULL ALPHANUMERIC 17 DATETIME 7\n',
        'X "X" 26 NULL LONG 17 REAL64 7\n',
        'X "X" 26 NULL PRICE 17 REAL64 7 8\n',
        'X "X" 26 NULL PRICE 17 17 7\n',
        'X "X" 26 NULL PRICE PRICE REAL64 7\n',
        'X "X" NULL NULL PRICE 17 REAL64 7\n',
        'X "X" 26 NULL ENUMERATED 3 ( 3 ENUM 1\n',
        'X "X" ( 26 NULL\n',
        "( X\n",
        'X "X\n',
        "X _Y\n",
        'X "X" 26 NULL PRICE 17 REAL64 2x\n',
        'X "X" 26 NULL ENUMERATED 3 ( 3\nY "Y" 27 NULL DATE 1 DATE 1\n',
    ],
)
def test_an_error_stops_the_reference(rest: str) -> None:
    text = BID + rest + 'ASK "ASK" 25 NULL PRICE 17 REAL64 7\n'
    made = scan_rdm(to_source(text, "dict"), enums=to_source("E 1", "e"), dialect="reference")
    assert "BID" in [e.name for e in made]
    assert "ASK" not in [e.name for e in made]
    assert made.error is not None
    assert made.error.line >= 2
    with pytest.raises(SourceError):
        parse_rdm(text, dialect="reference")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BID.strip(), []),
        (BID + "ASK", ["BID"]),
        (BID + "ASK\n", ["BID", "ASK"]),
        (BID + "! comment", ["BID"]),
        (BID + "!", ["BID"]),
        ("", []),
        ("! only\n", []),
        (BID + BID, ["BID"]),
        (BID + BID.replace("22", "23"), ["BID", "BID"]),
        (BID + "N" * 255 + BID[3:], ["BID"]),
        ('"A\nB" "X" 1 NULL DATE 1 DATE 1\n', ["A\nB"]),
        ("1 2 3 4 DATE 1 DATE 1\n", ["1"]),
        ("A B1 3 NULL MAP 1 INTEGER 1\n", ["A"]),
        ("52A 2B 3 4C DATE 1 DATE 1\n", ["52A"]),
        ("A B 3 NULL ENUMERATED 1 ) 5 DATE\n", None),
    ],
)
def test_lines_of_the_reference(text: str, expected: list[str] | None) -> None:
    if expected is None:
        assert scan_rdm(to_source(text, "d"), dialect="reference").error is not None
    else:
        assert rdm_names(text) == expected


def test_keywords_count_by_column_and_by_their_first_letters() -> None:
    (entry,) = parse_rdm('DATE "TIME" 3 INTEGER time_seconds8 TIME5\n', dialect="reference")
    assert (entry.name, entry.dde, entry.ripples_to) == ("DATE", "TIME", "INTEGER")
    assert (entry.field_type, entry.length, entry.rwf_type) == ("TIME_SECONDS", 8, "TIME")
    (entry,) = parse_rdm('A "A" 3 NULL REAL64 8 PRICE 5\n', dialect="reference")
    assert (entry.field_type, entry.rwf_type, entry.md_type) == ("NONE", "NONE", "opaque")


def test_lengths_over_255_stop_there_but_the_size_does_not() -> None:
    text = 'A "A" 3 NULL ALPHANUMERIC 300 RMTES_STRING 400\n'
    (entry,) = parse_rdm(text, dialect="reference")
    assert (entry.length, entry.rwf_length, entry.size) == (255, 255, 300)
    (entry,) = parse_rdm(text)
    assert (entry.length, entry.rwf_length, entry.size) == (300, 400, 300)


def test_a_repeated_field_updates_what_it_says_anew() -> None:
    text = BID + 'BID "OTHER" 22 X PRICE 0 REAL32 3\n'
    (entry,) = parse_rdm(text, dialect="reference")
    assert (entry.dde, entry.ripples_to) == ("BID", None)
    assert (entry.length, entry.rwf_type, entry.rwf_length) == (17, "REAL32", 3)


# --- enumtype.def ---


def tables(text: str) -> list[EnumTable]:
    return list(scan_enumtype(to_source(text, "e"), dialect="reference").tables)


def test_tables_of_the_reference() -> None:
    made = tables('!c\nA 1\nB 2\n0 "x" rest\n1 yy\n2 #4142# \nC 3\n5 "#ABC#"\n6 "#"\n7 "#G1#"\n')
    assert made == [
        EnumTable((("A", 1), ("B", 2)), ((0, b"x"), (1, b"yy"), (2, b"AB"))),
        EnumTable((("C", 3),), ((5, b"\xab\xc0"), (6, b"#"), (7, b"\x01"))),
    ]


@pytest.mark.parametrize(
    "line",
    ['1 2\n"x" y', "X Y", "#zz# 1", "( 1", '"open', '0 "x" (rest', "5 6 7"],
)
def test_an_error_keeps_the_finished_tables_of_the_reference(line: str) -> None:
    text = f'A 1\n0 "x"\nB 2\n0 "y"\n{line}'
    made = scan_enumtype(to_source(text, "e"), dialect="reference")
    if made.error is None:
        assert len(made.tables) == 2
    else:
        assert [table.acronyms for table in made.tables][:1] == [(("A", 1),)]
        with pytest.raises(SourceError):
            parse_enumtype(text, dialect="reference")


def test_a_value_before_any_acronym_is_an_error_of_the_reference() -> None:
    made = scan_enumtype(to_source('0 "x"\n', "e"), dialect="reference")
    assert made.tables == ()
    assert made.error is not None
    assert tables("A 1\n") == []


def test_the_later_table_of_a_field_wins_in_the_reference() -> None:
    made = parse_enumtype('A 1\nB 2\n0 "x"\nA 1\n0 "y"\n', dialect="reference")
    assert made.by_fid[1].displays == {0: b"y"}
    assert made.by_fid[2].displays == {0: b"x"}


def test_dense_tables_are_padded_and_have_no_holes() -> None:
    table = EnumTable((), ((0, b"abc"), (1, b"x"), (3, b""), (1, b"y")))
    assert is_dense(table)
    assert found_displays(table) == {0: b"abc", 1: b"y  ", 2: b"   ", 3: b"   "}


def test_sparse_tables_are_searched_as_if_they_were_sorted() -> None:
    ascending = EnumTable((), ((0, b"a"), (5, b"b"), (90, b"c")))
    assert not is_dense(ascending)
    assert found_displays(ascending) == {0: b"a", 5: b"b", 90: b"c"}
    mixed = EnumTable((), ((90, b"c"), (0, b"a"), (5, b"b"), (5, b"d")))
    assert found_displays(mixed) == {5: b"b"}
    huge = tables("A 1\n-1 x\n")[0]
    assert found_displays(huge) == {4294967295: b"x"}
