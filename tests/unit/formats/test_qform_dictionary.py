"""The model of dictionaries, loading, checking, the carried form."""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from wireloom.errors import EncodeError, OptionError, SourceError
from wireloom.formats.qform import dictionary as package
from wireloom.formats.qform.dictionary import (
    Dictionary,
    Entry,
    FileKind,
    Kind,
    MdType,
    Member,
    Problem,
    Source,
    TssType,
    check,
    detect,
    from_triples,
    load,
    load_rdm,
    loading,
    parse_cfile,
    scan_cfile,
    to_triples,
)
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES, MD_TYPES
from wireloom.formats.qform.dictionary.source import (
    decode_text,
    find_in_directories,
    read_source,
    to_source,
)

RDM = """\
!tag Filename  RWF.DAT
BID "BID" 22 NULL PRICE 17 REAL64 7
EXCH "EXCHANGE" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1
"""
ENUMS = '!tag V 1\nEXCH 4\n0 "     " none\n1 "LONG " long\n'
FIELDS = "BID { CLASS_ID 22; DATA_TYPE grocery; }\n"
RECORDS = 'QUOTE { CLASS_ID 900; FIELDS { "bid" { FIELD_CLASS_NAME BID; } } }\n'


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRELOOM_CACHE", "off")


def entry(fid: int, name: str, tss_type: TssType | None = TssType.INTEGER, size: int = 4) -> Entry:
    return Entry(fid, name, tss_type, size)


# --- model ---


def test_types_have_the_numbers_of_the_format() -> None:
    assert [tss_type.value for tss_type in TssType] == list(range(22))
    assert TssType(15) is TssType.GROCERY
    assert set(MD_TYPES) == set(TssType)
    assert set(DEFAULT_SIZES) <= set(TssType)


@pytest.mark.parametrize(
    ("made", "kind", "md_type"),
    [
        (Entry(1, "A", TssType.GROCERY, 9), Kind.FIXED, MdType.DECIMAL),
        (Entry(1, "A", TssType.STRING, 80, is_partial=True), Kind.PARTIAL, MdType.PARTIAL),
        (Entry(1, "A", TssType.STRING, 80, is_fixed=False), Kind.VARIABLE, MdType.STRING),
        (Entry(1, "A", None, 0, is_fixed=False), Kind.FORM, MdType.MESSAGE),
    ],
)
def test_an_entry_knows_its_kind_and_what_its_value_is(
    made: Entry, kind: Kind, md_type: MdType
) -> None:
    assert (made.kind, made.md_type) == (kind, md_type)
    assert made.is_form == (kind is Kind.FORM)


def test_a_dictionary_is_found_by_id_and_by_name_in_the_order_of_definition() -> None:
    form = Entry(900, "FORM", None, 0, members=(Member("a", 2), Member("b", 1)))
    made = Dictionary((entry(2, "B"), entry(1, "A"), form))
    assert list(made) == [entry(2, "B"), entry(1, "A"), form]
    assert len(made) == 3
    assert made.get(1) == made.by_name["A"] == made.by_fid[1] == entry(1, "A")
    assert made.get(3) is None
    assert 900 in made
    assert "A" not in made
    assert made.forms == (form,)
    assert form.form_fids == (2, 1)
    assert repr(made) == "<Dictionary: 2 fields, 1 forms>"
    assert made.error is None


def test_the_first_entry_wins_and_the_others_stay() -> None:
    made = parse_cfile(
        "A { CLASS_ID 1; DATA_TYPE 1; }\n"
        "B { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 3; }\n"
        "A { CLASS_ID 2; DATA_TYPE 1; }\n"
        "A { CLASS_ID 1; DATA_TYPE 18; }\n"
        "A { CLASS_ID 1; DATA_TYPE 1; }\n"
    )
    assert [(e.name, e.fid) for e in made] == [("A", 1), ("B", 1), ("A", 2)]
    assert made.by_fid[1].name == "A"
    assert made.by_name["A"].fid == 1
    assert made.by_name["B"].size == 3
    assert [str(problem) for problem in made.problems] == [
        "<text>:2: fid 1 is B and also A, which is used",
        "<text>:3: A has fid 2 and also 1, which is used",
        "<text>:4: A (fid 1) is defined twice, differently; the first is used",
    ]


def test_merging_keeps_what_was_there() -> None:
    first = parse_cfile("A { CLASS_ID 1; DATA_TYPE 1; } X { CLASS_ID 20000; DATA_TYPE 1; }")
    second = parse_cfile("A { CLASS_ID 1; DATA_TYPE 9; } B { CLASS_ID 2; DATA_TYPE 4; }")
    merged = first.merge(second)
    assert [e.name for e in merged] == ["A", "X", "B"]
    assert merged.by_fid[1].tss_type is TssType.INTEGER
    assert [problem.file for problem in merged.problems] == ["<text>", "<merged>", "<text>"]
    assert first.merge(Dictionary()) == first


def test_dictionaries_and_problems_pickle() -> None:
    made = scan_cfile(to_source(FIELDS + RECORDS + "X {", "f"))
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.problems == made.problems
    assert again.by_name["BID"] is again.get(22)
    error = pickle.loads(pickle.dumps(made.error))
    assert (error.file, error.line) == ("f", 3)


def test_equality_is_about_the_entries() -> None:
    problem = Problem("odd", "f", 1)
    assert Dictionary((entry(1, "A"),), (problem,)) == Dictionary((entry(1, "A"),))
    assert Dictionary((entry(1, "A"),)) != Dictionary()
    assert str(Problem("odd", "f", 0)) == "f: odd"


# --- texts ---


def test_any_bytes_are_text() -> None:
    assert decode_text(b"\xef\xbb\xbfa\xc3\xa9") == "aé"
    assert decode_text(b"a\xe9") == "aé"
    assert Source("f", b"\xff").charset == "latin-1"
    assert Source("f", "é".encode()).charset == "utf-8"
    assert to_source("\ud800", "f").data == b"\xed\xa0\x80"
    assert to_source(memoryview(b"x"), "f").data == b"x"
    assert load(b"A\xe9 { CLASS_ID 1; DATA_TYPE 1; }").by_name["Aé"].fid == 1


@pytest.mark.parametrize(
    "name", ["../x.cf", "a/../../x.cf", "/etc/passwd", "..\\x.cf", "C:\\x.cf", "C:x.cf", "a\0b"]
)
def test_an_include_stays_in_its_directories(tmp_path: Path, name: str) -> None:
    find = find_in_directories([tmp_path])
    with pytest.raises(SourceError, match="outside"):
        find(name)


def test_directories_are_searched_in_order(tmp_path: Path) -> None:
    for place, text in (("one", "1"), ("two", "2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "x.cf").write_text(text)
    (tmp_path / "two" / "y.cf").write_text("3")
    find = find_in_directories([str(tmp_path / "one"), tmp_path / "two"])
    x, y = find("x.cf"), find("y.cf")
    assert x is not None
    assert y is not None
    assert (x.data, y.data) == (b"1", b"3")
    assert x.name == str(tmp_path / "one" / "x.cf")
    assert find("z.cf") is None
    assert find("z" * 100_000) is None


def test_only_regular_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(SourceError, match="not a regular file"):
        read_source(tmp_path / "pipe")
    with pytest.raises(SourceError, match="larger than 4 bytes"):
        read_source(tmp_path / "large", limit=4)
    assert read_source(tmp_path / "large", limit=5).data == b"12345"
    with pytest.raises(SourceError, match="cannot be read: No such file") as caught:
        read_source(tmp_path / "absent")
    assert caught.value.file == str(tmp_path / "absent")
    with pytest.raises(SourceError, match="cannot be read: embedded null"):
        read_source("a\0b")


# --- loading ---


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", FileKind.CFILE),
        ("# only\n", FileKind.CFILE),
        (FIELDS, FileKind.CFILE),
        ("{\nA { } }", FileKind.CFILE),
        ("# x\n\n52WK {", FileKind.CFILE),
        (RDM, FileKind.RDM),
        (RDM.split("\n", 1)[1], FileKind.RDM),
        ("!\n!\n", FileKind.RDM),
        ("!tag x y\nBID is bad", FileKind.RDM),
        (ENUMS, FileKind.ENUMTYPE),
        ("EXCH 4\n", FileKind.ENUMTYPE),
        ("# forms\n64 EQUITY\n", FileKind.FLIST),
    ],
)
def test_the_kind_of_a_text_is_seen_from_its_first_lines(text: str, kind: FileKind) -> None:
    assert detect(to_source(text, "f")) is kind


def test_a_text_a_file_or_a_directory_can_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "tss_fields.cf").write_text(FIELDS)
    expected = parse_cfile(FIELDS)
    for source in (FIELDS, FIELDS.encode(), bytearray(FIELDS, "ascii"), tmp_path / "tss_fields.cf"):
        assert load(source) == expected
    assert load(str(tmp_path / "tss_fields.cf")) == expected
    assert load(tmp_path) == expected
    (tmp_path / "tss_records.cf").write_text(RECORDS)
    assert load(tmp_path).by_name["QUOTE"].form_fids == (22,)
    # The cfile is what messages are decoded with, so it comes first.
    (tmp_path / "RDMFieldDictionary").write_text(RDM)
    assert load(tmp_path).by_name["BID"].fid == 22


def test_an_error_in_the_first_file_ends_the_loading(tmp_path: Path) -> None:
    (tmp_path / "tss_fields.cf").write_text("A { CLASS_ID 1; CLASS_ID 2; }")
    (tmp_path / "tss_records.cf").write_text(RECORDS)
    with pytest.raises(SourceError, match="CLASS_ID is repeated") as caught:
        load(tmp_path)
    assert caught.value.file.endswith("tss_fields.cf")
    assert [problem.line for problem in check(tmp_path)] == [1]


def test_rdm_files_are_loaded_with_the_enums_beside_them(tmp_path: Path) -> None:
    (tmp_path / "RDMFieldDictionary").write_text(RDM)
    assert load(tmp_path).by_name["EXCH"].size == 4
    assert load(tmp_path, enums=ENUMS).by_name["EXCH"].size == 6
    (tmp_path / "enumtype.def").write_text(ENUMS)
    for source in (tmp_path, tmp_path / "RDMFieldDictionary"):
        made = load(source)
        assert made.by_name["EXCH"].size == 6
        assert made.by_name["BID"].fid == 10721
        assert load_rdm(source).display(4, 1) == "LONG "
    assert load(RDM, enums=tmp_path / "enumtype.def").by_name["EXCH"].size == 6
    assert load(RDM, enums=str(tmp_path / "enumtype.def")).by_name["EXCH"].size == 6
    assert load(RDM).by_name["EXCH"].size == 4


def test_rdm_can_be_had_beside_a_cfile(tmp_path: Path) -> None:
    (tmp_path / "tss_fields.cf").write_text(FIELDS)
    with pytest.raises(SourceError, match="neither"):
        load_rdm(tmp_path)
    (tmp_path / "RDMFieldDictionary").write_text(RDM)
    assert load_rdm(tmp_path).by_fid[22].dde == "BID"
    with pytest.raises(SourceError, match="this is a cfile"):
        load_rdm(tmp_path / "tss_fields.cf")
    with pytest.raises(SourceError, match="not a field definition"):
        load_rdm("!tag a b\nbad line here\n")


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"neither tss_fields\.cf nor RDMFieldDictionary"):
        load(tmp_path)
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        load(tmp_path / "absent.cf")
    with pytest.raises(SourceError, match=r"enumtype\.def files define no fields"):
        load(ENUMS)
    with pytest.raises(SourceError, match="flistmapping files define no fields"):
        load("64 EQUITY\n")
    with pytest.raises(OptionError, match="no dialect 'dirty'"):
        load(FIELDS, dialect="dirty")  # type: ignore[arg-type]


def test_included_files_are_searched_beside_the_file_or_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    (tmp_path / "other").mkdir()
    main = 'CFILE_INCLUDES { "inner.cf"; }\n'
    (tmp_path / "main" / "main.cf").write_text(main)
    (tmp_path / "other" / "inner.cf").write_text(FIELDS)
    with pytest.raises(SourceError, match=r"'inner\.cf' not found") as caught:
        load(tmp_path / "main" / "main.cf")
    assert caught.value.line == 1
    expected = parse_cfile(FIELDS)
    other = tmp_path / "other"
    assert load(tmp_path / "main" / "main.cf", path=[other]) == expected
    assert load(main, path=[other]) == expected
    assert load(main, path=f"{tmp_path}{os.pathsep}{os.pathsep}{other}") == expected
    (tmp_path / "main" / "inner.cf").write_text("Z { CLASS_ID 5; DATA_TYPE 1; }")
    assert load(tmp_path / "main" / "main.cf").by_name["Z"].fid == 5
    with pytest.raises(SourceError, match="not found"):
        load(main)


def test_an_unreadable_include_is_reported_where_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "main.cf").write_text("\nCFILE_INCLUDES { inner; }\n")
    (tmp_path / "inner").mkdir()
    with pytest.raises(SourceError, match="not a regular file") as caught:
        load(tmp_path / "main.cf")
    assert (Path(caught.value.file).name, caught.value.line) == ("main.cf", 2)


def test_check_lists_everything_with_file_and_line(tmp_path: Path) -> None:
    assert check(FIELDS) == ()
    (tmp_path / "RDMFieldDictionary").write_text(
        'BID "BID" 22 NULL PRICE 17 REAL64 7\nbad\nU "U" 3 NULL NONE 1 QOS 1\nbad too\n'
    )
    (tmp_path / "enumtype.def").write_text("X 4\nbad\n")
    listed = [
        (Path(problem.file).name, problem.line, problem.is_error) for problem in check(tmp_path)
    ]
    assert listed == [
        ("RDMFieldDictionary", 2, True),
        ("RDMFieldDictionary", 3, False),
        ("RDMFieldDictionary", 4, True),
        ("enumtype.def", 2, True),
        ("enumtype.def", 3, False),
    ]
    assert [p.line for p in check(tmp_path / "enumtype.def")] == [2, 3]
    assert [p.line for p in check("64 EQUITY\nbad\n")] == [2]
    (absent,) = check(tmp_path / "absent")
    assert absent.is_error
    with pytest.raises(OptionError):
        check(FIELDS, dialect="dirty")  # type: ignore[arg-type]


def test_the_reference_dialect_can_be_loaded_and_checked() -> None:
    text = "X{ CLASS_ID 100; DATA_TYPE 15; }\n"
    assert load(text, dialect="reference").by_fid[100].name == "X{"
    assert load(text).by_fid[100].name == "X"
    assert check("A B {", dialect="reference") != ()
    assert check(text) == ()
    assert [p.is_error for p in check("{ A B", dialect="reference")] == [True]


# --- carried in a message ---


def test_a_dictionary_carried_in_a_message_is_read() -> None:
    made = from_triples(
        [
            ("BID", 22, 15 << 16 | 9),
            ("ROW", 215, 1 << 24 | 2 << 16 | 80),
            ("SHORT", 4001, 9 << 16),
            ("ODD", 7, 99 << 16 | 3),
            (None, 8, 1 << 16),
            ("HIGH", 30000, 0xFE << 24 | 2 << 16 | 5),
        ]
    )
    assert [(e.name, e.tss_type, e.size, e.is_partial) for e in made] == [
        ("BID", TssType.GROCERY, 9, False),
        ("ROW", TssType.STRING, 80, True),
        ("SHORT", TssType.SHORT_INT, 2, False),
        ("ODD", TssType.OPAQUE, 3, False),
        ("HIGH", TssType.STRING, 5, False),
    ]
    assert [(p.line, p.is_error) for p in made.problems] == [(4, False), (5, False), (6, False)]


def test_a_dictionary_can_be_carried_without_its_forms() -> None:
    made = parse_cfile(
        FIELDS + RECORDS + "R { CLASS_ID 3; DATA_TYPE 2; DATA_SIZE 80; IS_PARTIAL true; }"
    )
    triples = list(to_triples(made))
    assert triples == [("BID", 22, 0x0F0009), ("R", 3, 0x1020050)]
    assert list(from_triples(triples)) == [made.by_fid[22], made.by_fid[3]]


@pytest.mark.parametrize(
    "statement",
    ["IS_FIXED false; DATA_SIZE 8;", "IS_PRIMITIVE false; DATA_SIZE 8;", "DATA_SIZE 65536;"],
)
def test_what_a_hint_cannot_say_is_refused(statement: str) -> None:
    made = parse_cfile(f"V {{ CLASS_ID 3; DATA_TYPE 2; {statement} }}")
    with pytest.raises(EncodeError, match="cannot carry") as caught:
        list(to_triples(made))
    assert caught.value.path == "V"


# --- the package ---


def test_every_module_lists_what_it_offers() -> None:
    assert package.__all__ == sorted(
        package.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n)
    )
    for name in package.__all__:
        assert hasattr(package, name)
    prefix = f"{package.__name__}."
    for module in iter_modules(package.__path__, prefix):
        loaded = import_module(module.name)
        assert loaded.__doc__
        for name in loaded.__all__:
            assert hasattr(loaded, name), f"{module.name}.{name}"
    assert loading.MIN_CACHED_BYTES < 1 << 20
