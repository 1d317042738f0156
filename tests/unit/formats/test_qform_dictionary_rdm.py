"""RDM field dictionaries, enum tables, field list mappings, and the SASS fields made of them."""

from __future__ import annotations

import pickle

import pytest

from wireloom.errors import OptionError, SourceError
from wireloom.formats.qform.dictionary import (
    EnumTable,
    EnumTables,
    MdType,
    RdmDictionary,
    RdmEntry,
    TssType,
    load_rdm,
    parse_cfile,
    parse_enumtype,
    parse_flist,
    parse_rdm,
    scan_enumtype,
    scan_flist,
    scan_rdm,
    to_cfile,
    to_sass,
)
from wireloom.formats.qform.dictionary.lines import MAX_BAD_LINES
from wireloom.formats.qform.dictionary.rdm_model import FIELD_TYPES, RWF_BASES, typed_view
from wireloom.formats.qform.dictionary.source import to_source

BID = 'BID "BID" 22 BID_1 PRICE 17 REAL64 7'


def rdm_field(fid: int, name: str = "", columns: str = "ALPHANUMERIC 8 RMTES_STRING 8") -> str:
    return f'{name or f"F{fid}"} "x" {fid} NULL {columns}\n'


# --- RDMFieldDictionary ---


def test_a_field_is_read_with_all_its_columns() -> None:
    made = parse_rdm(f"!tag Version  4.20 01 \n!tag Empty\n!tagged x y\n! note\n\n  {BID}\n")
    assert made.entries == (
        RdmEntry(22, "BID", "BID", "BID_1", "PRICE", 17, 0, "REAL64", 7, MdType.DECIMAL, 9),
    )
    assert made.by_fid[22] is made.by_name["BID"] is made.entries[0]
    assert made.entries[0].rwf_base == "REAL"
    assert made.tags == {"Version": "4.20 01"}
    assert list(made) == list(made.entries)
    assert len(made) == 1
    assert repr(made) == "<RdmDictionary: 1 fields, 0 enums>"
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    "line",
    [
        'E "D D" 4 NULL ENUMERATED 3 ( 5 ) ENUM 1',
        'E "D D" 4 NULL enumerated 3(5) Enum 1',
        '"E"\t"D D"\t4\tNULL\tENUMERATED\t3 (5)\tENUM\t1 \r',
        'E "D D" 4 NULL ENUMERATED 3 ( 5 ) ENUM 1 ! comment "',
    ],
)
def test_columns_may_be_laid_out_in_many_ways(line: str) -> None:
    (entry,) = parse_rdm(line)
    assert (entry.name, entry.dde, entry.length, entry.enum_length) == ("E", "D D", 3, 5)
    assert (entry.field_type, entry.rwf_type, entry.md_type) == ("ENUMERATED", "ENUM", MdType.ENUM)
    assert entry.ripples_to is None


def test_the_last_line_is_read_without_a_line_end_too() -> None:
    assert len(parse_rdm(f"{BID}\n{rdm_field(-25).strip()}")) == 2
    assert parse_rdm(rdm_field(-25)).by_fid[-25].name == "F-25"


@pytest.mark.parametrize(
    ("field_type", "length", "rwf_type", "rwf_length", "expected"),
    [
        ("ALPHANUMERIC", 16, "RMTES_STRING", 20, ("string", 16)),
        ("ALPHANUMERIC", 0, "RMTES_STRING", 20, ("string", 20)),
        ("TIME", 5, "TIME", 5, ("time", 6)),
        ("DATE", 11, "DATE", 4, ("date", 12)),
        ("ENUMERATED", 3, "ENUM", 1, ("enum", 2)),
        ("TIME_SECONDS", 8, "TIME", 5, ("time", 10)),
        ("PRICE", 17, "REAL64", 7, ("decimal", 9)),
        ("INTEGER", 3, "REAL32", 7, ("decimal", 9)),
        ("INTEGER", 5, "UINT32", 2, ("uint", 2)),
        ("INTEGER", 6, "INT32", 2, ("int", 4)),
        ("INTEGER", 10, "UINT64", 4, ("uint", 4)),
        ("INTEGER", 11, "INT64", 8, ("int", 8)),
        ("INTEGER", 15, "NONE", 8, ("int", 8)),
        ("INTEGER", 16, "UINT64", 8, ("decimal", 9)),
        ("INTEGER", 0, "UINT64", 8, ("uint", 4)),
        ("BINARY", 3, "REAL64", 2, ("decimal", 9)),
        ("BINARY", 3, "INT64", 2, ("int", 8)),
        ("BINARY", 3, "UINT64", 2, ("uint", 8)),
        ("NONE", 0, "ASCII_STRING", 255, ("string", 255)),
        ("NONE", 0, "TIME", 5, ("time", 6)),
        ("NONE", 0, "DATE", 4, ("date", 12)),
        ("NONE", 9, "MAP", 0, ("message", 9)),
        ("NONE", 0, "SERIES", 7, ("message", 7)),
        ("BINARY", 21, "BUFFER", 21, ("opaque", 21)),
        ("BINARY", 21, "ARRAY", 21, ("opaque", 21)),
        ("NONE", 0, "ENUM", 2, ("opaque", 2)),
        ("NONE", 0, "QOS", 5, ("opaque", 5)),
    ],
)
def test_the_typed_view_of_a_field(
    field_type: str, length: int, rwf_type: str, rwf_length: int, expected: tuple[str, int]
) -> None:
    assert typed_view(field_type, length, rwf_type, rwf_length) == expected
    assert field_type in FIELD_TYPES
    assert rwf_type in RWF_BASES or rwf_type == "QOS"


@pytest.mark.parametrize("rwf_type", ["UTF8_STRING", "QOS", "DATETIME"])
def test_an_unknown_rwf_type_is_kept_and_reported(rwf_type: str) -> None:
    text = (
        f'{BID}\nB "B" 26 NULL BINARY 17 {rwf_type} 7\nS "S" 27 NULL ALPHANUMERIC 17 {rwf_type} 7\n'
    )
    made = parse_rdm(text, file="dict")
    assert [entry.md_type.value for entry in made] == ["decimal", "opaque", "string"]
    assert made.by_fid[26].rwf_type == made.by_fid[26].rwf_base == rwf_type
    assert [(problem.line, problem.is_error) for problem in made.problems] == [
        (2, False),
        (3, False),
    ]
    assert f"unknown RWF type {rwf_type}" in str(made.problems[0])


def test_an_unknown_field_type_leaves_it_to_the_rwf_type() -> None:
    (entry,) = made = parse_rdm('L "L" 1 NULL LONG_ALPHANUMERIC 17 RMTES_STRING 7')
    assert (entry.md_type, entry.size) == (MdType.STRING, 17)
    assert "unknown field type LONG_ALPHANUMERIC" in made.problems[0].reason


@pytest.mark.parametrize(
    "line",
    [
        "BID",
        'BID "BID" x BID_1 PRICE 17 REAL64 7',
        'BID "BID" 22 BID_1 PRICE x REAL64 7',
        'BID "BID" 22 BID_1 PRICE 17 REAL64 7 8',
        'BID "BID 22 BID_1 PRICE 17 REAL64 7',
        'BID "BID" 22 BID_1 PRICE 17 REAL64',
        'BID "BID" 22 BID_1 ENUMERATED 3 ( 3 ENUM 1',
        'BID "BID" 22 BID_1 ENUMERATED ( 3 ) ENUM 1',
        'BID "BID" 9999999999 BID_1 PRICE 17 REAL64 7',
    ],
)
def test_a_bad_line_is_an_error_and_the_other_lines_stay(line: str) -> None:
    text = f"{rdm_field(1)}{line}\n{rdm_field(2)}"
    with pytest.raises(SourceError, match="not a field definition") as caught:
        parse_rdm(text, file="dict")
    assert (caught.value.file, caught.value.line) == ("dict", 2)
    assert [entry.fid for entry in scan_rdm(to_source(text, "dict"))] == [1, 2]


def test_a_file_of_bad_lines_only_is_given_up_early() -> None:
    made = scan_rdm(to_source("bad\n" * 10_000, "dict"))
    assert len(made.problems) == MAX_BAD_LINES + 2
    assert "the rest was not read" in made.problems[-1].reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (rdm_field(32768), "F32768: fid 32768 does not fit in 16 bits; left out"),
        (rdm_field(-32769), "F-32769: fid -32769 does not fit in 16 bits; left out"),
        (rdm_field(3, '""'), "the name of fid 3 is empty or over 254 long; left out"),
        (rdm_field(3, "N" * 255), "the name of fid 3 is empty or over 254 long; left out"),
    ],
)
def test_a_field_that_cannot_be_used_is_left_out(line: str, reason: str) -> None:
    made = parse_rdm(line)
    assert len(made) == 0
    assert [problem.reason for problem in made.problems] == [reason]


def test_fields_defined_twice_are_reported_unless_they_are_the_same() -> None:
    made = parse_rdm(
        rdm_field(1, "A") + rdm_field(1, "A") + rdm_field(1, "B") + rdm_field(2, "A"), file="d"
    )
    assert [(entry.name, entry.fid) for entry in made] == [("A", 1), ("B", 1), ("A", 2)]
    assert [str(problem) for problem in made.problems] == [
        "d:3: fid 1 is B and also A, which is used",
        "d:4: A is defined twice; the first is used",
    ]
    assert (made.by_fid[1].name, made.by_name["A"].fid) == ("A", 1)


# --- enumtype.def ---

ENUMS = """\
!tag Filename  ENUMTYPE.001
!
RDN_EXCHID      4
RDN_EXCHD2   1709
!
      0        "   "   undefined
      1        "ASE"   NYSE AMEX
     10      #C3A9#    hex
     11      #FF#
      5         ASE2   "plain
52WK -7
      1        "(A)"
"""


def test_tables_are_read_with_all_fields_that_use_them() -> None:
    made = parse_enumtype(ENUMS)
    first, second = made.tables
    assert first.acronyms == (("RDN_EXCHID", 4), ("RDN_EXCHD2", 1709))
    assert first.rows == ((0, b"   "), (1, b"ASE"), (10, b"\xc3\xa9"), (11, b"\xff"), (5, b"ASE2"))
    assert second == EnumTable((("52WK", -7),), ((1, b"(A)"),))
    assert (first.width, EnumTable((), ()).width) == (4, 0)
    assert [first.display(value) for value in (1, 10, 11, 2)] == ["ASE", "é", "0xff", None]
    assert made.by_fid == {4: first, 1709: first, -7: second}
    assert made.tags == {"Filename": "ENUMTYPE.001"}
    assert made.problems == ()
    assert pickle.loads(pickle.dumps(made)) == made


def test_display_texts_keep_their_bytes_in_any_charset() -> None:
    assert parse_enumtype(b'A 1\n0 "\xe9"').tables[0].displays == {0: b"\xe9"}
    assert parse_enumtype('A 1\n0 "é"').tables[0].displays == {0: b"\xc3\xa9"}
    assert parse_enumtype('"A" 1\n0 ""').tables[0].displays == {0: b""}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("A 4\nsingle\n", 2, "two columns expected: 'single'"),
        ("A 4\n1 #ABC#", 2, "not a display text: '#ABC#'"),
        ("A 4\n1 #XY#", 2, "not a display text: '#XY#'"),
        ('A 4\n1 "open', 2, "not a display text: '\"open'"),
        ('A 4\n1 "', 2, "not a display text: '\"'"),
        ('0 "x"', 1, "a value before any acronym"),
        ("A B", 1, "a field id expected after 'A', not 'B'"),
    ],
)
def test_a_bad_line_of_an_enumtype_is_an_error(text: str, line: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_enumtype(text, file="e")
    assert (caught.value.line, caught.value.reason) == (line, reason)


def test_odd_values_are_left_out_and_reported() -> None:
    made = parse_enumtype('A 1\n65536 "x"\n-1 "x"\n5 "first"\n5 "second"\nB 2\n')
    assert [table.rows for table in made.tables] == [((5, b"first"),)]
    assert [(problem.line, problem.reason) for problem in made.problems] == [
        (2, "value 65536 does not fit in 16 bits; left out"),
        (3, "value -1 does not fit in 16 bits; left out"),
        (5, "value 5 is repeated; the first text is used"),
        (7, "B has no values"),
    ]
    assert parse_enumtype("") == EnumTables()


def test_the_first_table_of_a_field_is_used() -> None:
    made = parse_enumtype('A 1\n0 "x"\nA 1\n0 "y"\n')
    assert made.by_fid[1].displays == {0: b"x"}


def test_enum_tables_set_the_width_of_the_fields() -> None:
    fields = rdm_field(4, "E", "ENUMERATED 3 ( 3 ) ENUM 1") + rdm_field(5, "P")
    made = parse_rdm(fields, enums='E 4\nP 5\nE 6\n0 "LONGER"')
    assert [entry.enum_length for entry in made] == [6, 0]
    assert made.display(4, 0) == "LONGER"
    assert made.display(4, 1) is None
    assert made.display(3, 0) is None
    assert parse_rdm(fields, enums='E 4\n0 ""').by_fid[4].enum_length == 3
    assert scan_enumtype(to_source("bad", "e")).error is not None
    with pytest.raises(SourceError, match="two columns"):
        parse_rdm(fields, enums="bad")


def test_dialects_are_checked_everywhere() -> None:
    with pytest.raises(OptionError):
        parse_rdm("", dialect="x")  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        parse_enumtype("", dialect="x")  # type: ignore[arg-type]


# --- flistmapping ---


def test_a_field_list_mapping_is_read() -> None:
    made = parse_flist('# forms\n 64 EQUITY # comment\n80\t"BOND"\n64 EQUITY\n64 OTHER\n7 ""\n')
    assert made.forms == {64: "EQUITY", 80: "BOND"}
    assert [(problem.line, problem.reason) for problem in made.problems] == [
        (5, "64 is OTHER and also EQUITY, which is used"),
        (6, "the form of 7 has an empty or too long name; left out"),
    ]


@pytest.mark.parametrize("line", ["EQUITY", "64", "x EQUITY", "64 EQUITY 1", '64 "EQUITY', "-1 A"])
def test_a_bad_line_of_a_field_list_mapping_is_an_error(line: str) -> None:
    text = f"1 A\n{line}\n2 B\n"
    with pytest.raises(SourceError) as caught:
        parse_flist(text, file="m")
    assert (caught.value.file, caught.value.line) == ("m", 2)
    assert scan_flist(to_source(text, "m")).forms == {1: "A", 2: "B"}


# --- SASS ---


def sass_rows(text: str) -> list[tuple[int, str, str, int]]:
    made = to_sass(parse_rdm(text))
    return [(e.fid, e.name, (e.tss_type or TssType.NODATA).name, e.size) for e in made.entries[4:]]


def test_system_fields_come_first_and_their_names_are_theirs() -> None:
    made = to_sass(parse_rdm(rdm_field(9, "MSG_TYPE") + rdm_field(10, "SEQ_NO")))
    assert [(e.fid, e.name) for e in made] == [
        (4001, "MSG_TYPE"),
        (4002, "REC_TYPE"),
        (4003, "SEQ_NO"),
        (4005, "REC_STATUS"),
    ]
    assert to_sass(RdmDictionary()) == made


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("ALPHANUMERIC 16 RMTES_STRING 16", ("STRING", 16)),
        ("ALPHANUMERIC 0 RMTES_STRING 0", None),
        ("TIME 5 TIME 5", ("STIME", 6)),
        ("TIME_SECONDS 8 TIME 5", ("STIME", 10)),
        ("DATE 11 DATE 4", ("SDATE", 12)),
        ("ENUMERATED 3 ( 3 ) ENUM 1", ("STRING", 4)),
        ("ENUMERATED 4 ( 3 ) ENUM 1", ("STRING", 6)),
        ("ENUMERATED 0 ENUM 1", ("STRING", 2)),
        ("INTEGER 3 INT64 1", ("INTEGER", 2)),
        ("INTEGER 15 UINT64 1", ("INTEGER", 8)),
        ("INTEGER 15 REAL64 1", ("DOUBLE_INT", 8)),
        ("PRICE 15 REAL64 1", ("GROCERY", 9)),
        ("BINARY 3 REAL64 1", ("GROCERY", 9)),
        ("BINARY 21 BUFFER 21", ("STRING", 21)),
        ("NONE 0 MAP 21", None),
    ],
)
def test_each_rdm_type_has_its_sass_type(columns: str, expected: tuple[str, int] | None) -> None:
    rows = sass_rows(rdm_field(30, "X", columns))
    assert rows == ([] if expected is None else [(10729, "X", *expected)])


def test_ids_follow_the_rule_and_field_1_is_the_permission() -> None:
    text = rdm_field(1, "PROD_PERM", "INTEGER 5 UINT64 2") + rdm_field(-7) + rdm_field(6000)
    assert sass_rows(text) == [
        (10700, "PROD_CATG", "INTEGER", 4),
        (7, "F-7", "STRING", 8),
        ((10699 + 6000) % 16384, "F6000", "STRING", 8),
    ]


MIXED = {9686: 80801332, -4081: 186073360, 5685: 3821092041}
"""What the reference's mixing makes of a FID, worked out by a program in C."""


def free_ids(*taken: int) -> list[int]:
    """The ids that the second pass may give: never 16383, and none of the first pass."""
    used = {0, 4001, 4002, 4003, 4005, 4081, *taken}
    return [fid for fid in range(16383) if fid not in used]


def test_taken_ids_are_placed_in_a_second_pass() -> None:
    # 9686 would be 4001, -4081 is kept for the form CONTROL, 5685 would be 0.
    text = "".join(rdm_field(fid) for fid in (9686, -4081, 5685, -10)) + rdm_field(9695, "SAME10")
    free = free_ids(10, 4010)
    assert sass_rows(text + rdm_field(9686, "MAP", "NONE 0 MAP 1")) == [
        (10, "F-10", "STRING", 8),
        (4010, "SAME10", "STRING", 8),
        *((free[mixed % len(free)], f"F{fid}", "STRING", 8) for fid, mixed in MIXED.items()),
    ]


@pytest.mark.slow
def test_the_second_pass_takes_the_next_free_id_and_starts_again_at_the_bottom() -> None:
    def waiting(*kept: int) -> list[tuple[int, str]]:
        """Where fields land that wait, when the first pass takes all ids but these."""
        text = "".join(rdm_field(-fid) for fid in range(1, 16384) if fid not in kept)
        return [row[:2] for row in sass_rows(text)[-len(kept) :]]

    # -4001, -4002 and -4003 mix to 319207299, 3324161521 and 709463407: of three ids they start
    # at 0, 1 and 1, of two all at 1.
    assert waiting(100, 200, 300) == [(100, "F-4001"), (200, "F-4002"), (300, "F-4003")]
    assert waiting(100, 200) == [(200, "F-4001"), (100, "F-4002")]


@pytest.mark.slow
def test_the_last_id_is_given_by_the_rule_only_and_never_in_the_second_pass() -> None:
    assert sass_rows(rdm_field(-16383))[0][0] == 16383
    everything_else = "".join(rdm_field(-fid) for fid in range(1, 16383))
    assert 16383 not in {row[0] for row in sass_rows(everything_else)}


def test_more_fields_than_ids_are_left_out_and_reported() -> None:
    text = "".join(rdm_field(-fid) for fid in range(1, 16384)) + rdm_field(
        1, "ONE MORE".replace(" ", "_")
    )
    made = to_sass(parse_rdm(text), file="dict")
    assert len({entry.fid for entry in made}) == len(made) == 16384 - 2
    left_out = [problem.reason for problem in made.problems]
    assert len(left_out) == 6
    assert all("all 16384 ids are taken" in reason for reason in left_out)


def test_sass_fields_survive_being_written_and_read() -> None:
    made = to_sass(parse_rdm(rdm_field(1) + rdm_field(30, "52WK_HI")))
    assert parse_cfile(to_cfile(made)) == made
    assert parse_cfile(to_cfile(made), dialect="reference") == made


def test_problems_of_the_rdm_dictionary_are_carried_over() -> None:
    made = to_sass(scan_rdm(to_source(BID + "\nbad\n", "dict")))
    assert [problem.line for problem in made.problems] == [2]
    assert made.by_name["BID"].fid == 10721


@pytest.mark.parametrize("dialect", ["clean", "reference"])
def test_displays_in_hex_are_bytes(tmp_path, dialect):
    fields, enums = tmp_path / "RDMFieldDictionary", tmp_path / "enumtype.def"
    fields.write_text('TICK "TICK" 14 NULL ENUMERATED 1 ( 3 ) ENUM 1\n')
    enums.write_bytes(b'TICK 14\n0 "   "\n1 #DE2020#\n2 #C3A9#\n3 "\xe9"\n')
    table = load_rdm(fields, enums=enums, dialect=dialect).enums.by_fid[14]
    assert [table.display(value) for value in range(4)] == ["   ", "0xde2020", "é", "é"]
    assert table.displays[1] == b"\xde  "
