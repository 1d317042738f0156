from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireloom.errors import SourceError
from wireloom.formats.blaze import (
    SAMPLE_MODEL,
    Define,
    EnumDecl,
    EnumMember,
    FieldDecl,
    Key,
    Model,
    ModelBuilder,
    NClass,
    encode_nclass,
    from_blz,
    load_blz,
    new_value,
    to_blz,
)
from wireloom.formats.blaze import blz as blz_module
from wireloom.formats.blaze.blz import MAX_INCLUDE_DEPTH
from wireloom.formats.blaze.declarations import MAX_CLASS_DEPTH, MAX_FIELDS, PRIMITIVES

FLEET = """\
# A comment
@model_name "fleet"   # another
@namespace "fleet"
@model_version "1.0.0"
@define NAMELEN 12
@define TRUCK_ID 302
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low "low # is no comment here"
    GAUGE_High = 9
    GAUGE_Next
    GAUGE_Neg = -3
}
@namespace "inner"
nclass POINT
{
    @id 301  # comments are allowed here too
    int_32 x

    int_32 y
    ascii[6] label "short label"
}
@namespace_end
nclass TRUCK
{
    @id TRUCK_ID
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
    uint_32 truck_id
    ascii[NAMELEN+4] name
    GAUGE gauge
    int_32[4] temps
    POINT home
    POINT[3] stops
    @key
    @fldset { name , gauge } @id 2 @key_end
}
nclass EMPTY { @id 5
}
"""


def fleet() -> Model:
    gauge = EnumDecl(
        "GAUGE",
        (
            EnumMember("GAUGE_Off", 0),
            EnumMember("GAUGE_Low", 1, "low # is no comment here"),
            EnumMember("GAUGE_High", 9),
            EnumMember("GAUGE_Next", 10),
            EnumMember("GAUGE_Neg", -3),
        ),
        ("fleet",),
    )
    point = NClass(
        "POINT",
        301,
        (
            FieldDecl("x", "int_32"),
            FieldDecl("y", "int_32"),
            FieldDecl("label", "ascii", 6, "short label"),
        ),
        namespace=("fleet", "inner"),
    )
    truck = NClass(
        "TRUCK",
        302,
        (
            FieldDecl("truck_id", "uint_32"),
            FieldDecl("name", "ascii", 16),
            FieldDecl("gauge", "GAUGE"),
            FieldDecl("temps", "int_32", 4),
            FieldDecl("home", "POINT"),
            FieldDecl("stops", "POINT", 3),
        ),
        (Key(1, ("truck_id",), primary=True), Key(2, ("name", "gauge"))),
        namespace=("fleet",),
    )
    empty = NClass("EMPTY", 5, namespace=("fleet",))
    defines = (Define("NAMELEN", 12), Define("TRUCK_ID", 302))
    return Model("fleet", "1.0.0", (gauge, point, truck, empty), defines)


def test_a_text_gives_the_model_that_it_declares() -> None:
    assert from_blz(FLEET) == fleet()
    assert from_blz(FLEET.replace("\n", "\r\n")) == fleet()
    assert from_blz("") == Model()
    assert [nclass.name for nclass in from_blz(SAMPLE_MODEL).nclasses] == ["POINT"]


def test_a_model_is_written_and_read_back() -> None:
    model = fleet()
    text = to_blz(model)
    assert from_blz(text) == model
    assert to_blz(from_blz(text)) == text
    assert '@namespace "inner"\nnclass POINT' in text
    assert to_blz(Model()) == ""
    other = model.with_first_index(2)
    assert from_blz(to_blz(other), first_index=2) == other


def test_a_model_survives_pickling() -> None:
    model = fleet().with_first_index(2)
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(pickle.loads(pickle.dumps(model))) == hash(model)


def test_classes_and_enums_are_found() -> None:
    model = fleet()
    truck = model.nclass("TRUCK")
    assert truck is not None
    assert model.nclass(302) is truck
    assert model.nclass(truck) is truck
    assert model.nclass("GAUGE") is None
    assert model.nclass(1) is None
    assert model.nclass("NOPE") is None
    assert [enum.name for enum in model.enums] == ["GAUGE"]
    assert model.entity("GAUGE") is model.enums[0]
    assert truck.primary_key == Key(1, ("truck_id",), primary=True)
    assert model.nclasses[0].primary_key is None
    assert (truck.position("gauge"), truck.position("nope")) == (2, None)
    gauge = model.enums[0]
    assert (gauge.name_of(9), gauge.name_of(77)) == ("GAUGE_High", None)
    assert (gauge.value_of("GAUGE_Neg"), gauge.value_of("nope")) == (-3, None)


def test_the_builder_makes_the_same_model() -> None:
    builder = ModelBuilder("fleet", "1.0.0")
    builder.define("NAMELEN", 12).define("TRUCK_ID", 302)
    assert (builder.defined("NAMELEN"), builder.defined("nope")) == (12, None)
    gauge = builder.enum("GAUGE", ("fleet",)).member("GAUGE_Off")
    gauge.member("GAUGE_Low", text="low # is no comment here").member("GAUGE_High", 9)
    gauge.member("GAUGE_Next").member("GAUGE_Neg", -3)
    point = builder.nclass("POINT", 301, ("fleet", "inner"))
    point.field("x", "int_32").field("y", "int_32").field("label", "ascii", 6, "short label")
    truck = builder.nclass("TRUCK", None, ("fleet",)).id(302)
    truck.field("truck_id", "uint_32").field("name", "ascii", 16).field("gauge", "GAUGE")
    truck.field("temps", "int_32", 4).field("home", "POINT").field("stops", "POINT", 3)
    truck.key(1, "truck_id", primary=True).key(2, "name", "gauge")
    builder.nclass("EMPTY", 5, ("fleet",))
    assert builder.build() == fleet()


# --- errors with their lines ----------------------------------------------------------------------


def in_class(*lines: str) -> str:
    return "\n".join(["enum E { A }", "nclass C", "{", "@id 7", "int_32 a", *lines, "}"])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("\n\nbogus", 3, "expected a declaration, not 'bogus'"),
        ("}", 1, "expected a declaration, not '}'"),
        ("@nope", 1, "expected a declaration, not '@nope'"),
        ('@model_name "a"\n@model_name "b"', 2, "@model_name is given already"),
        ('@model_version "a"\n\n@model_version "b"', 3, "@model_version is given already"),
        ("@model_name fleet", 1, "expected a text in quotes, not 'fleet'"),
        ('@model_name "a" "b"', 1, "expected the end of the line, not 'b'"),
        ('@model_name "a', 1, "unexpected 'a text without an end'"),
        ('@model_name "a\tb"', 1, "a text must be printable"),
        ("\n@namespace_end", 2, "no namespace is open"),
        ('@namespace "a"\n' * 17, 17, "namespaces are nested deeper than 16"),
        ("@define", 1, "expected a name, not the end of the line"),
        ("@define X", 1, "expected a number, not the end of the line"),
        ("@define X y", 1, "'y' is not defined"),
        ("@define X 1234567890123", 1, "the number is too long"),
        ("@define X 5000000000", 1, "the value of X must be a number"),
        ("@define X 1\n@define X 2", 2, "'X' is declared already"),
        ("@define enum 1", 1, "'enum' is a word of the language"),
        ("@define byte 1", 1, "'byte' is a word of the language"),
        ("\x00", 1, "unexpected '\\x00'"),
        ("@define X 1 ;", 1, "unexpected ';'"),
        ('@include "nope.blz"', 1, "there is no 'nope.blz' to include"),
        ("@include nope", 1, "expected a text in quotes"),
        # enums
        ("enum", 1, "expected the name of the enum, not the end of the line"),
        ("enum E\n\nx", 3, "expected '{', not 'x'"),
        ("enum E\n{\n}", 1, "enum E has no members"),
        ("enum E\n{\nA", 3, "E is not closed"),
        ("enum E\n{\nA\nA\n}", 4, "E has 'A' already"),
        ("enum E\n{\nE\n}", 3, "'E' is declared already"),
        ("enum E\n{\nA = x\n}", 3, "'x' is not defined"),
        ("enum E\n{\nA = 3000000000\n}", 3, "the value of A must be a number"),
        ("enum E\n{\nA = 2147483647\nB\n}", 4, "the value of B must be a number"),
        ("enum E\n{\n= 3\n}", 3, "expected a member's name, not '='"),
        ("enum E\n{\nA B\n}", 3, "expected the end of the line, not 'B'"),
        ("enum E { A }\nenum E { B }", 2, "'E' is declared already"),
        ("@define A 1\nenum E\n{\nA\n}", 4, "'A' is declared already"),
        ("enum E { A }\n@define A 1", 2, "'A' is a member of E already"),
        ("enum E { A }\nenum F { A }\nnclass A { @id 1\n}", 3, "'A' is a member of E already"),
        # classes
        ("nclass C\n{\n}", 1, "class C has no id"),
        ("nclass C\n{\n@id 0\n}", 3, "a class id must be a number from 1 to 1048575, not 0"),
        ("nclass C\n{\n@id 1048576\n}", 3, "a class id must be a number"),
        ("nclass C\n{\n@id x\n}", 3, "'x' is not defined"),
        (in_class("@id 8"), 6, "class C has an id already"),
        (in_class() + "\nnclass D\n{\n@id 7\n}", 9, "class C has the id 7 already"),
        (in_class("int_32 a"), 6, "C has 'a' already"),
        (in_class("int_32 E"), 6, "'E' is declared already"),
        (in_class("int_33 b"), 6, "type 'int_33' is not declared before this"),
        (in_class("C b"), 6, "type 'C' is not declared before this"),
        (in_class("int_32[0] b"), 6, "the size of b must be a number from 1 to 65536, not 0"),
        (in_class("int_32[65536+1] b"), 6, "the size of b must be a number"),
        (in_class("ascii[4294967295+1] b"), 6, "the size of b must be a number"),
        (in_class("int_32[x] b"), 6, "'x' is not defined"),
        (in_class("int_32[2 b"), 6, "expected ']', not 'b'"),
        (in_class("int_32[] b"), 6, "expected a number, not ']'"),
        (in_class("int_32"), 6, "expected the field's name, not the end of the line"),
        (in_class("int_32 b c"), 6, "expected the end of the line, not 'c'"),
        (in_class("@nope"), 6, "expected a field, not '@nope'"),
        (in_class("+"), 6, "expected a field, not '+'"),
        (in_class("@persistent", "@persistent"), 7, "class C is persistent already"),
        (
            in_class("@key", "@id 1", "@fldset {a}", "@key_end", "@persistent"),
            10,
            "@persistent must come before any @key",
        ),
        (in_class("@key", "@id 1", "@key_end"), 6, "a key needs an @id and a @fldset"),
        (in_class("@key", "@fldset {a}", "@key_end"), 6, "a key needs an @id and a @fldset"),
        (in_class("@key", "@id 1", "@id 2"), 8, "expected @id, @fldset or @key_end, not '@id'"),
        (in_class("@key", "@id 1", "@fldset {b}", "@key_end"), 6, "class C has no field 'b'"),
        (in_class("@key", "@id 1", "@fldset {a,a}", "@key_end"), 6, "key 1 names 'a' twice"),
        (in_class("@key", "@id 1", "@fldset {}", "@key_end"), 8, "expected a field's name"),
        (in_class("@key", "@id 1", "@fldset {a", "@key_end"), 8, "expected '}', not the end"),
        (in_class("@key", "@id 1", "@fldset a", "@key_end"), 8, "expected '{', not 'a'"),
        (
            in_class(*("@key", "@id 1", "@fldset {a}", "@key_end") * 2),
            10,
            "class C has a key 1 already",
        ),
        (
            in_class(
                *("@key primary", "@id 1", "@fldset {a}", "@key_end"),
                *("@key primary", "@id 2", "@fldset {a}", "@key_end"),
            ),
            10,
            "class C has a primary key already",
        ),
        ("nclass C\n{\n@id 1\n@key\n", 5, "expected @id, @fldset or @key_end, not the end of"),
        ("nclass C\n{\n@id 1\n", 4, "C is not closed"),
    ],
)
def test_an_error_has_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        from_blz(text, file="x.blz")
    assert (caught.value.file, caught.value.line) == ("x.blz", line)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: Model(first_index=3), "the first index must be 0, 1 or 2"),
        (lambda: Model('a"b'), "the model's name must be printable"),
        (lambda: Model(version="a\nb"), "the model's version must be printable"),
        (lambda: Model(entities=(EnumDecl("E", ()),)), "enum E has no members"),
        (lambda: Model(entities=(EnumDecl("E", (EnumMember("A", 0, '"'),)),)), "a description"),
        (lambda: Model(entities=(NClass("C", 1, namespace=('"',)),)), "the namespace"),
        (lambda: Model(entities=(NClass("C", 1, namespace=("a",) * 17),)), "nested deeper than 16"),
        (lambda: Model(entities=(NClass("C C", 1),)), "'C C' is not a name"),
        (lambda: Model(entities=(NClass("", 1),)), "'' is not a name"),
        (lambda: Model(entities=(NClass("int_16", 1),)), "a word of the language"),
        (lambda: Model(entities=(NClass("C", True),)), "a class id"),
        (lambda: Model(entities=(NClass("C", 1, (FieldDecl("1", "bool"),)),)), "not a name"),
        (lambda: Model(entities=(NClass("C", 1, (FieldDecl("C", "bool"),)),)), "'C' is declared"),
        (lambda: Model(entities=(NClass("C", 1, keys=(Key(1, ()),)),)), "key 1 has no fields"),
        (lambda: Model(entities=(NClass("C", 1, keys=(Key(-1, ()),)),)), "a key id"),
        (lambda: Model(defines=(Define("X", 1), Define("X", 1))), "'X' is declared already"),
        (lambda: ModelBuilder().nclass("C").finish(), "class C has no id"),
    ],
)
def test_models_made_in_python_are_checked_too(model: object, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        model()  # type: ignore[operator]


def test_classes_are_not_nested_without_end() -> None:
    builder = ModelBuilder()
    builder.nclass("C0", 1).field("a", "bool")
    for i in range(1, MAX_CLASS_DEPTH):
        builder.nclass(f"C{i}", i + 1).field("c", f"C{i - 1}").field("d", f"C{i - 1}", 2)
    builder.build()
    with pytest.raises(SourceError, match="nested deeper than 64"):
        builder.nclass("TOO", 1000).field("c", f"C{MAX_CLASS_DEPTH - 1}")


def test_a_class_has_no_more_fields_than_an_index_can_tell() -> None:
    nclass = ModelBuilder().nclass("C", 1)
    for i in range(MAX_FIELDS):
        nclass.field(f"f{i}", "bool")
    with pytest.raises(SourceError, match="more than 65534 fields"):
        nclass.field("g", "bool")


@pytest.mark.slow
def test_large_models_are_read_in_linear_time() -> None:
    fields = "\n".join(f'int_32 f{i} "text"' for i in range(20_000))
    keys = "\n".join(f"@key @id {i} @fldset {{f{i}}} @key_end" for i in range(10_000))
    model = from_blz(f"nclass C\n{{\n@id 1\n{fields}\n{keys}\n}}\n")
    assert len(model.nclasses[0].fields) == 20_000
    assert encode_nclass(new_value(model, "C", {"f19999": 1})).hex() == "06000000204e01000000"


# --- files ----------------------------------------------------------------------------------------


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.blz").write_text(text, "utf-8")
    return folder


def test_files_are_included_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='@include "a.blz"\n@include "b.blz"\nnclass M\n{\n@id 3\nA a\nB b\nE e\n}\n',
        a='@include "common.blz"\nnclass A\n{\n@id 1\nint_32[N] x\n}\n',
        b='@include "common.blz"\nnclass B\n{\n@id 2\nE x\n}\n',
        common="@define N 4\nenum E { E1 }\n",
    )
    model = load_blz(tmp_path / "main.blz")
    assert [entity.name for entity in model.entities] == ["E", "A", "B", "M"]
    assert model.nclasses[0].fields[0].count == 4


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, main='\n@include "a.blz"\nbogus', a="\n\n\n@define X\n")
    with pytest.raises(SourceError) as caught:
        load_blz(str(tmp_path / "main.blz"))
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "a.blz"), 4)
    write(tmp_path, a="")
    with pytest.raises(SourceError) as caught:
        load_blz(tmp_path / "main.blz")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "main.blz"), 3)


def test_files_are_looked_for_in_the_given_directories(tmp_path: Path) -> None:
    lib = write(tmp_path / "lib", types='@include "more.blz"', more="enum E { A }")
    write(tmp_path, main='@include "types.blz"')
    with pytest.raises(SourceError, match=r"there is no 'types\.blz' to include"):
        load_blz(tmp_path / "main.blz")
    assert load_blz(tmp_path / "main.blz", paths=[lib]).enums[0].name == "E"
    assert from_blz('@include "types.blz"', paths=[str(lib)]).enums[0].name == "E"
    write(tmp_path, sub='@include "lib/types.blz"')
    assert load_blz(tmp_path / "sub.blz").enums[0].name == "E"


@pytest.mark.parametrize("name", ["../secret.blz", "/etc/hostname", "a\0b", "", "."])
def test_nothing_outside_of_the_directories_is_included(tmp_path: Path, name: str) -> None:
    write(tmp_path, secret="enum E { A }")
    inner = write(tmp_path / "inner")
    (inner / "main.blz").write_bytes(b'@include "' + name.encode() + b'"')
    with pytest.raises(SourceError, match=r"to include|must be printable"):
        load_blz(inner / "main.blz")


def test_a_name_that_the_system_cannot_take_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, main=f'@include "{"x" * 5000}"')
    with pytest.raises(SourceError, match="to include"):
        load_blz(tmp_path / "main.blz")


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a='@include "b.blz"', b='\n@include "a.blz"')
    with pytest.raises(SourceError, match=r"'a.blz' includes itself") as caught:
        load_blz(tmp_path / "a.blz")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "b.blz"), 2)


def test_includes_are_not_nested_without_end(tmp_path: Path) -> None:
    for i in range(MAX_INCLUDE_DEPTH + 1):
        write(tmp_path, **{f"f{i}": f'@include "f{i + 1}.blz"'})
    write(tmp_path, **{f"f{MAX_INCLUDE_DEPTH}": ""})
    load_blz(tmp_path / "f1.blz")
    with pytest.raises(SourceError, match="included deeper than 16"):
        load_blz(tmp_path / "f0.blz")


def test_a_model_has_a_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blz_module, "MAX_SOURCE", 100)
    with pytest.raises(SourceError, match="a model may have 100 bytes"):
        from_blz("#" * 101)
    write(tmp_path, main='@include "a.blz"', a="#" * 90)
    with pytest.raises(SourceError, match="a model may have 100 bytes") as caught:
        load_blz(tmp_path / "main.blz")
    assert caught.value.file.endswith("a.blz")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read the file"):
        load_blz(tmp_path / "nope.blz")
    with pytest.raises(SourceError, match="cannot read the file"):
        load_blz("a\0b")
    (tmp_path / "bad.blz").write_bytes(b"\n\n# \xff")
    with pytest.raises(SourceError, match="not UTF-8") as caught:
        load_blz(tmp_path / "bad.blz")
    assert caught.value.line == 3
    (tmp_path / "bom.blz").write_bytes(b"\xef\xbb\xbfenum E { A }")
    assert load_blz(tmp_path / "bom.blz").enums[0].name == "E"


# --- any model ------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters='"'), max_size=8)
PRINTABLE = TEXTS.filter(str.isprintable)


@st.composite
def models(draw: st.DrawFn) -> Model:
    builder = ModelBuilder(draw(PRINTABLE), draw(PRINTABLE))
    for i in range(draw(st.integers(0, 2))):
        builder.define(f"D{i}", draw(st.integers(-(2**31), 2**32 - 1)))
    types = list(PRIMITIVES)
    for i in range(draw(st.integers(0, 2))):
        enum = builder.enum(f"E{i}", tuple(draw(st.lists(PRINTABLE, max_size=2))))
        for j in range(draw(st.integers(1, 3))):
            enum.member(f"m{j}", draw(st.integers(-(2**31), 2**31 - 1)), draw(PRINTABLE))
        types.append(enum.name)
    for i in range(draw(st.integers(0, 4))):
        nclass = builder.nclass(f"C{i}", i + 1, tuple(draw(st.lists(PRINTABLE, max_size=2))))
        names = [f"f{j}" for j in range(draw(st.integers(0, 6)))]
        for name in names:
            count = draw(st.sampled_from([1, 1, 1, 2, 5, 300]))
            nclass.field(name, draw(st.sampled_from(types)), count, draw(PRINTABLE))
        if draw(st.booleans()):
            nclass.persistent()
        if names:
            nclass.key(1, *draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
        types.append(nclass.name)
    return builder.build()


@settings(max_examples=100, deadline=None)
@given(models())
def test_any_model_comes_back_from_its_text(model: Model) -> None:
    assert from_blz(to_blz(model)) == model


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_texts_give_a_model_or_an_error_with_a_line(data: st.DataObject) -> None:
    text = FLEET
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", "{", "}", "@", '"', "\n", "x", "9"]))
            + (text[at + cut :])
        )
    lines = [1]
    try:
        from_blz(text)
    except SourceError as error:
        lines.append(error.line)
    assert min(lines) > 0
