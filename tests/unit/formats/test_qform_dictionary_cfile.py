"""The cfile language in the clean dialect, and its writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import EncodeError, OptionError, SourceError
from wireloom.formats.qform.dictionary import (
    Dictionary,
    Entry,
    MdType,
    Member,
    TssType,
    parse_cfile,
    scan_cfile,
    to_cfile,
)
from wireloom.formats.qform.dictionary import cfile as module
from wireloom.formats.qform.dictionary import source as source_module
from wireloom.formats.qform.dictionary.cfile import included_names
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES, MD_TYPES
from wireloom.formats.qform.dictionary.source import MAX_INCLUDE_DEPTH, MAX_INCLUDES, to_source

A = "A { CLASS_ID 1; DATA_TYPE 1; }\n"


def rows(text: str) -> list[tuple[int, str, str, int]]:
    return [(e.fid, e.name, e.md_type.value, e.size) for e in parse_cfile(text)]


def problems(text: str) -> list[str]:
    return [str(problem) for problem in parse_cfile(text).problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X{CLASS_ID 100;DATA_TYPE 15;}", [(100, "X", "decimal", 9)]),
        ('"X"{CLASS_ID 100;DATA_TYPE"real"}', [(100, "X", "real", 8)]),
        ("TRUE_PRC { CLASS_ID 101; DATA_TYPE 15 }", [(101, "TRUE_PRC", "decimal", 9)]),
        ("CLASS_ID2 { CLASS_ID 1; DATA_TYPE 1; }", [(1, "CLASS_ID2", "int", 4)]),
        ("{ X { CLASS_ID 1; DATA_TYPE u_long; } }", [(1, "X", "uint", 8)]),
        ("X { CLASS_ID 1; DATA_TYPE 1; }; ;", [(1, "X", "int", 4)]),
        ("X { CLASS_ID 1; DATA_TYPE 007 }", [(1, "X", "uint", 1)]),
        ("X { CLASS_ID 1# c\n; DATA_TYPE 1 }", [(1, "X", "int", 4)]),
        ("X#1 { CLASS_ID 1; DATA_TYPE 1; } # end", [(1, "X#1", "int", 4)]),
        ("52WK_HIGH { CLASS_ID 1; DATA_TYPE 1; }", [(1, "52WK_HIGH", "int", 4)]),
        ("\ufeff_x {\r\nCLASS_ID\t1;\r\n\fDATA_TYPE\v1;}", [(1, "_x", "int", 4)]),
        ("\u00e9t\u00e9 { CLASS_ID 1; DATA_TYPE 1; }", [(1, "été", "int", 4)]),
        ("", []),
        ("{ }", []),
        ("{\n", None),
    ],
)
def test_the_language_is_read_as_it_is_meant(
    text: str, expected: list[tuple[int, str, str, int]] | None
) -> None:
    if expected is None:
        with pytest.raises(SourceError):
            parse_cfile(text)
    else:
        assert rows(text) == expected
        assert parse_cfile(text).problems == ()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (A + "B {\nCLASS_ID 1;\nCLASS_ID 2; }", 4, "B: CLASS_ID is repeated"),
        (A + "B { DATA_TYPE 1; DATA_TYPE 1; }", 2, "B: DATA_TYPE is repeated"),
        (A + "B { IS_FIXED true; Is_Fixed true; }", 2, "B: IS_FIXED is repeated"),
        (A + "B { CLASS_ID 7; FIELDS { } FIELDS { } }", 2, "B: FIELDS is repeated"),
        (A + "B\n{ CLASS_ID x; }", 3, "a number expected, not 'x'"),
        (A + "B { CLASS_ID -1; }", 2, "a number expected, not '-1'"),
        (A + 'B { CLASS_ID "1"; }', 2, "a number expected, not '1'"),
        (A + "B { CLASS_ID 1234567890; }", 2, "the number 1234567890 is too large"),
        (A + "B { CLASS_ID 1 DATA_TYPE 1 }", 2, "';' expected, not 'DATA_TYPE'"),
        (A + "B { IS_FIXED 1; }", 2, "true or false expected, not '1'"),
        (A + 'B { IS_FIXED "true"; }', 2, "true or false expected, not 'true'"),
        (A + "B { DATA_TYPE true; }", 2, "a type expected, not 'true'"),
        (A + "B { DATA_TYPE ; }", 2, "a type expected, not ';'"),
        (A + "B { NONSENSE 1; }", 2, "B: 'NONSENSE' is no statement"),
        (A + 'B { "CLASS_ID" 1; }', 2, "B: 'CLASS_ID' is no statement"),
        (A + "B { { }", 2, "B: '{' is no statement"),
        (A + "fields { CLASS_ID 3; }", 2, "an item's name expected, not 'fields'"),
        (A + "12 { CLASS_ID 3; }", 2, "an item's name expected, not '12'"),
        (A + "}", 2, "an item's name expected, not '}'"),
        (A + "{ }", 2, "an item's name expected, not '{'"),
        (A + "B ; { }", 2, "'{' expected, not ';'"),
        (A + "B", 2, "'{' expected, not the end of the file"),
        (A + "\nB { CLASS_ID 1;\n", 4, "'}' expected, not the end of the file"),
        (A + "B { CLASS_ID", 2, "a number expected, not the end of the file"),
        (A + '"B { }\n', 2, "the quote is not closed on this line"),
        (A + 'B { DATA_TYPE "x\n; }', 2, "the quote is not closed on this line"),
        ("{" + A + "} C", 2, "text after the closing brace of the file"),
        ("\n{" + A, 3, "the brace opened in line 2 is not closed"),
        (A + "F { FIELDS x }", 2, "'{' expected, not 'x'"),
        (A + "F { FIELDS { a { A } } }", 2, "FIELD_CLASS_NAME expected, not 'A'"),
        (A + 'F { FIELDS { a { "FIELD_CLASS_NAME" A } } }', 2, "FIELD_CLASS_NAME expected"),
        (A + "F { FIELDS { a { FIELD_CLASS_NAME ; } } }", 2, "a class name expected, not ';'"),
        (A + "F { FIELDS { a { FIELD_CLASS_NAME A; x } } }", 2, "'}' expected, not 'x'"),
        (A + "F { FIELDS { 1 { FIELD_CLASS_NAME A; } } }", 2, "a member's name expected"),
        (A + "F { FIELDS { a { FIELD_CLASS_NAME A; }", 2, "'}' expected, not the end"),
        (A + "CFILE_INCLUDES { x.cf; }", 2, "included file 'x.cf' not found"),
        (A + "CFILE_INCLUDES { true; }", 2, "a file name expected, not 'true'"),
        (A + "CFILE_INCLUDES x", 2, "'{' expected, not 'x'"),
    ],
)
def test_an_error_names_its_line_and_what_came_before_it_stays(
    text: str, line: int, reason: str
) -> None:
    with pytest.raises(SourceError) as caught:
        parse_cfile(text, file="t.cf")
    assert reason in caught.value.reason
    assert (caught.value.file, caught.value.line) == ("t.cf", line)
    kept = scan_cfile(to_source(text, "t.cf"))
    assert [entry.name for entry in kept] == ["A"]
    assert str(kept.error) == str(caught.value)
    assert kept.problems[-1].is_error


@pytest.mark.parametrize(
    ("text", "reason", "names"),
    [
        ("B { DATA_TYPE 1; }", "B: no CLASS_ID; left out", []),
        ("B { CLASS_ID 1; DATA_SIZE 3; }", "B: no DATA_TYPE; taken as OPAQUE", ["B"]),
        (
            "B { CLASS_ID 1; DATA_TYPE 22; DATA_SIZE 3; }",
            "B: no such DATA_TYPE, '22'; taken as OPAQUE",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE zip; DATA_SIZE 3; }",
            "B: no such DATA_TYPE, 'zip'; taken as OPAQUE",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE nodata; DATA_SIZE 3; }",
            "B: no such DATA_TYPE, 'nodata'; taken as OPAQUE",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 15; IS_FIXED false; }",
            "B: IS_FIXED false does not count for a decimal field",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 15; IS_PRIMITIVE false; }",
            "B: IS_PRIMITIVE false does not count for a decimal field",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 3; IS_PARTIAL true; }",
            "B: IS_PARTIAL counts only for STRING and OPAQUE",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; IS_PARTIAL true; FIELDS { } }",
            "B: IS_PARTIAL counts only for STRING and OPAQUE",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 1; DATA_SIZE 3; }",
            "B: INTEGER of 3 bytes has no value",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 15; DATA_SIZE 8; }",
            "B: GROCERY of 8 bytes has no value",
            ["B"],
        ),
        ("B { CLASS_ID 1; DATA_TYPE 2; }", "B: no DATA_SIZE, so the field holds nothing", ["B"]),
        (
            "B { CLASS_ID 16384; DATA_TYPE 1; }",
            "B: fid 16384 can never be met in a message",
            ["B"],
        ),
        (
            "B { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 1048576; }",
            "B: size 1048576 is over 1048575; left out",
            [],
        ),
        ('"" { CLASS_ID 1; DATA_TYPE 1; }', "the name of fid 1 is empty; left out", []),
        (
            f"{'N' * 255} {{ CLASS_ID 1; DATA_TYPE 1; }}",
            "the name of fid 1 is longer than 254 characters; left out",
            [],
        ),
        (
            "B { CLASS_ID 1; FIELDS { x { FIELD_CLASS_NAME X; } } }",
            "B: member x left out, its class X is unknown",
            ["B"],
        ),
    ],
)
def test_an_odd_item_is_mended_or_left_out(text: str, reason: str, names: list[str]) -> None:
    made = parse_cfile("\n" + text)
    assert [str(problem) for problem in made.problems] == [f"<text>:2: {reason}"]
    assert [entry.name for entry in made] == names


def test_limits_are_reached_without_complaint() -> None:
    name = "N" * 254
    text = f"{name} {{ CLASS_ID 16383; DATA_TYPE 2; DATA_SIZE 1048575; }}"
    assert rows(text) == [(16383, name, "string", 1048575)]
    assert problems(text) == []


def test_partial_and_variable_fields() -> None:
    made = parse_cfile(
        """
        R { CLASS_ID 100; IS_PARTIAL true; DATA_SIZE 80; DATA_TYPE 2; }
        O { CLASS_ID 101; IS_PARTIAL true; DATA_SIZE 80; DATA_TYPE 11; }
        V { CLASS_ID 102; IS_FIXED false; DATA_TYPE 2; }
        Y { CLASS_ID 105; IS_FIXED false; IS_PARTIAL true; DATA_TYPE 2; }
        D { CLASS_ID 106; IS_FIXED false; IS_PRIMITIVE false; DATA_SIZE 7; DATA_TYPE date; }
        P { CLASS_ID 107; IS_PARTIAL false; DATA_SIZE 7; DATA_TYPE 2; }
        """
    )
    assert [(e.name, e.kind.value, e.md_type.value) for e in made] == [
        ("R", "partial", "partial"),
        ("O", "partial", "partial"),
        ("V", "variable", "string"),
        ("Y", "partial", "partial"),
        ("D", "variable", "opaque"),
        ("P", "fixed", "string"),
    ]
    assert made.by_name["Y"].is_fixed
    assert not made.by_name["D"].is_primitive
    # A variable field may have any length, so no size is no problem; on the partial it is noise.
    assert [p.reason for p in made.problems] == [
        "Y: IS_FIXED false does not count for a partial field"
    ]


def test_a_form_lists_members_that_were_defined_before() -> None:
    text = """
    FORM { CLASS_ID 900; IS_PRIMITIVE false; FIELDS {
        first { FIELD_CLASS_NAME A; }; "second" { FIELD_CLASS_NAME "A" }
        gone { FIELD_CLASS_NAME B; } } DATA_SIZE 5 }
    """
    made = parse_cfile(text, base=parse_cfile(A))
    form = made.by_name["FORM"]
    assert form.members == (Member("first", 1), Member("second", 1))
    assert (form.tss_type, form.size, form.is_primitive) == (None, 5, False)
    assert [(p.line, p.is_error) for p in made.problems] == [(4, False)]
    assert parse_cfile("E { CLASS_ID 1; FIELDS { } }").by_name["E"].md_type is MdType.MESSAGE


def test_included_files_are_read_where_they_are_named() -> None:
    files: dict[str, str | bytes] = {
        "one.cf": "A1 { CLASS_ID 1; DATA_TYPE 1; }",
        "two.cf": b"{ A2 { CLASS_ID 2; DATA_TYPE 1; } }",
    }
    text = 'CFILE_INCLUDES { "one.cf"; two.cf } AFTER { CLASS_ID 3; DATA_TYPE 1; }'
    assert [entry.name for entry in parse_cfile(text, files=files)] == ["A1", "A2", "AFTER"]


def test_an_error_in_an_included_file_ends_the_parse_and_names_that_file() -> None:
    files = {"one.cf": "X { CLASS_ID 9; DATA_TYPE 1; }\n\nY {"}
    with pytest.raises(SourceError) as caught:
        parse_cfile(A + "CFILE_INCLUDES { one.cf; }" + A, files=files)
    assert (caught.value.file, caught.value.line) == ("one.cf", 3)


def test_files_that_include_themselves_are_refused() -> None:
    files = {"a": "CFILE_INCLUDES { b; }", "b": "\nCFILE_INCLUDES { a; }"}
    with pytest.raises(SourceError, match="'a' includes itself") as caught:
        parse_cfile(files["a"], file="a", files=files)
    assert (caught.value.file, caught.value.line) == ("b", 2)


def test_includes_are_limited_in_depth_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = {f"f{i}": f"CFILE_INCLUDES {{ f{i + 1}; }}" for i in range(MAX_INCLUDE_DEPTH + 1)}
    with pytest.raises(SourceError, match="nested deeper than 16"):
        parse_cfile("CFILE_INCLUDES { f0; }", files=deep)
    deep[f"f{MAX_INCLUDE_DEPTH - 1}"] = A
    assert len(parse_cfile("CFILE_INCLUDES { f0; }", files=deep)) == 1
    many = "CFILE_INCLUDES { " + "x; " * MAX_INCLUDES + "}"
    assert len(parse_cfile(many, files={"x": A})) == 1
    with pytest.raises(SourceError, match="more than 256 files"):
        parse_cfile(many + many, files={"x": A})
    monkeypatch.setattr(source_module, "MAX_INCLUDED_BYTES", 2 * len(A))
    with pytest.raises(SourceError, match="bytes are included"):
        parse_cfile("CFILE_INCLUDES { x; x; x; }", files={"x": A})


def test_names_of_include_lists_are_found_in_any_text() -> None:
    text = """# CFILE_INCLUDES { no; }
    cfile_includes # comment }
    { "a b"; c.cf # d }
      e } f { CLASS_ID 1; } broken { CFILE_INCLUDES ; g } h"""
    assert list(included_names(to_source(text, "t"))) == ["a b", "c.cf", "e", "g"]
    assert list(included_names(to_source(A, "t"))) == []


def test_a_text_of_bytes_may_be_latin_1() -> None:
    assert parse_cfile(b"\xc9 { CLASS_ID 1; DATA_TYPE 1; }").by_fid[1].name == "É"


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(OptionError, match="clean, reference"):
        parse_cfile(A, dialect="other")  # type: ignore[arg-type]


# --- the quick reader of plain items ---

_pieces = st.sampled_from(
    [
        *"ABx{};#\n ",
        "CLASS_ID 1;",
        "class_id 2 ;",
        "DATA_TYPE 15;",
        "data_type real;",
        "DATA_SIZE 3;",
        "IS_FIXED false;",
        "Is_Partial True;",
        "FIELDS { a { FIELD_CLASS_NAME A; } }",
        "CLASS_ID 9999999999;",
        "IS_FIXED 3;",
        '"q" ',
        "TRUE ",
        "12 ",
        "# c ; }\n",
        "\n\n",
    ]
)


@given(
    st.lists(st.one_of(_pieces, _pieces.map(lambda p: f"N {{ CLASS_ID 3; {p} }}\n")), max_size=12)
)
def test_the_quick_reader_never_disagrees_with_the_thorough_one(pieces: list[str]) -> None:
    source = to_source("".join(pieces), "t")
    quick = scan_cfile(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Reader, "_read_plain_item", lambda self: False)
        thorough = scan_cfile(source)
    assert quick == thorough
    assert quick.problems == thorough.problems


# --- writing ---


def _sizes(tss_type: TssType) -> st.SearchStrategy[int]:
    sizes = st.integers(0, 1_048_575)
    # A size of 0 would read back as the default.
    return sizes.filter(bool) if DEFAULT_SIZES.get(tss_type) else sizes


_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters='"\n'), min_size=1, max_size=254
)
_types = st.sampled_from([tss_type for tss_type in TssType if tss_type])


@st.composite
def _dictionaries(draw: st.DrawFn) -> Dictionary:
    entries: list[Entry] = []
    known: dict[str, int] = {}
    owners: dict[int, str] = {}
    for _ in range(draw(st.integers(0, 8))):
        name = draw(st.one_of(_names, st.sampled_from(["A", "fields", "TRUE_X", "CLASS_ID"])))
        fid = draw(st.integers(0, 20_000))
        if any((e.name, e.fid) == (name, fid) for e in entries):
            continue
        is_form = draw(st.booleans())
        if is_form:
            # A class can be named only if its name leads to it.
            usable = [f for n, f in known.items() if owners[f] == n]
            members = (
                draw(st.lists(st.builds(Member, _names, st.sampled_from(usable)))) if usable else []
            )
            flags = draw(st.tuples(st.booleans(), st.booleans()))
            made = Entry(fid, name, None, draw(st.integers(0, 99)), *flags, members=tuple(members))
        else:
            tss_type = draw(_types)
            is_partial = tss_type in (TssType.STRING, TssType.OPAQUE) and draw(st.booleans())
            may_vary = MD_TYPES[tss_type] in (MdType.STRING, MdType.OPAQUE) and not is_partial
            flags = draw(st.tuples(st.booleans(), st.booleans())) if may_vary else (True, True)
            made = Entry(fid, name, tss_type, draw(_sizes(tss_type)), *flags, is_partial=is_partial)
        entries.append(made)
        known.setdefault(name, fid)
        owners.setdefault(fid, name)
    return Dictionary(tuple(entries))


@given(_dictionaries())
def test_what_is_written_reads_back_the_same(dictionary: Dictionary) -> None:
    text = to_cfile(dictionary)
    assert parse_cfile(text) == dictionary
    assert parse_cfile(text.encode()) == dictionary


def test_the_written_text_is_what_people_write() -> None:
    made = parse_cfile(
        "TRUE_PRC { CLASS_ID 1; DATA_TYPE 15; }"
        "R { CLASS_ID 2; DATA_TYPE 2; DATA_SIZE 80; IS_PARTIAL true; }"
        "F { CLASS_ID 3; IS_PRIMITIVE false; FIELDS { r { FIELD_CLASS_NAME R; } } }"
    )
    assert to_cfile(made) == (
        '"TRUE_PRC"\n{\n\tCLASS_ID\t1;\n\tIS_PRIMITIVE\ttrue;\n\tIS_FIXED\ttrue;\n'
        "\tDATA_SIZE\t9;\n\tDATA_TYPE\t15; # GROCERY\n}\n\n"
        "R\n{\n\tCLASS_ID\t2;\n\tIS_PRIMITIVE\ttrue;\n\tIS_FIXED\ttrue;\n\tIS_PARTIAL\ttrue;\n"
        "\tDATA_SIZE\t80;\n\tDATA_TYPE\t2; # STRING\n}\n\n"
        "F\n{\n\tCLASS_ID\t3;\n\tIS_PRIMITIVE\tfalse;\n\tIS_FIXED\ttrue;\n"
        '\tFIELDS\n\t{\n\t\t"r" { FIELD_CLASS_NAME "R"; }\n\t}\n}\n'
    )
    assert parse_cfile(to_cfile(made), dialect="reference") == made
    assert to_cfile(Dictionary()) == ""


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(1, 'a"b', TssType.INTEGER, 4)],
        [Entry(1, "a\nb", TssType.INTEGER, 4)],
        [Entry(1, "\ud800", TssType.INTEGER, 4)],
        [Entry(1, "", TssType.INTEGER, 4)],
        [Entry(1, "n" * 255, TssType.INTEGER, 4)],
        [Entry(-1, "A", TssType.INTEGER, 4)],
        [Entry(1, "A", TssType.INTEGER, 0)],
        [Entry(1, "A", TssType.INTEGER, 4, is_fixed=False)],
        [Entry(1, "A", TssType.BOOLEAN, 1, is_partial=True)],
        [Entry(1, "A", TssType.NODATA, 1)],
        [Entry(1, "A", TssType.INTEGER, 4, members=(Member("x", 1),))],
        [Entry(1, "A", TssType.INTEGER, 4), Entry(1, "A", TssType.LONG, 8)],
        [Entry(2, "F", None, 0, members=(Member("x", 1),))],
        [Entry(2, "F", None, 0, members=(Member("x", 1),)), Entry(1, "A", TssType.LONG, 8)],
        [
            Entry(1, "A", TssType.LONG, 8),
            Entry(5, "A", TssType.LONG, 8),
            Entry(2, "F", None, 0, members=(Member("x", 5),)),
        ],
    ],
)
def test_what_the_language_cannot_say_is_refused(entries: list[Entry]) -> None:
    with pytest.raises(EncodeError) as caught:
        to_cfile(Dictionary(tuple(entries)))
    assert caught.value.path in {entry.name for entry in entries}
