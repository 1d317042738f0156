from __future__ import annotations

import dataclasses
import json
import pickle
from enum import IntEnum, IntFlag
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom import layout
from wireloom.errors import DecodeError, EncodeError, TruncatedError
from wireloom.layout import (
    Bits,
    Blob,
    Items,
    Optional,
    Packet,
    Rest,
    Varint,
    When,
    Word,
    attributes,
    describe,
    optional,
    packet,
)
from wireloom.layout.parts import flatten, member, words_in
from wireloom.outline import Node


class Colour(IntEnum):
    NONE = 0
    RED = 1
    BLUE = 5


class Marks(IntFlag):
    HIGH = 0x80
    LOW = 0x01


class Toy(Packet):
    __slots__ = ()

    format: ClassVar[str] = "toy"


HEAD = Word(
    "head",
    Bits("kind", 24, 31, derived="code"),
    Bits("words", 20, 23, derived="words", doc="header length in words"),
    Bits("colour", 12, 15, enum=Colour, doc="what it looks like"),
    Bits("level", 4, 7, least=1, strict_least=3),
    Bits("flag", 0, 0),
)
LENGTH = Word("length", derived="frame")
STAMP = Word("stamp", size=8, doc="when")
EXTRA = Word("extra", doc="only in the long form")


@packet(code=7, name="FULL", parts=(HEAD, LENGTH, optional(EXTRA, STAMP), Rest("body")))
class Full(Toy):
    """A packet with two forms.

    More is not shown.
    """

    colour: int = Colour.NONE
    level: int
    flag: int = 0
    extra: int | None = None
    stamp: int | None = None
    body: bytes = b""
    unused: tuple[int, ...] = ()
    note_to_self: str = dataclasses.field(default="", compare=False)

    def flaw(self) -> tuple[str, str] | None:
        return ("body", "a red packet has no body") if self.colour == 1 and self.body else None


@packet(
    code=1,
    name="MIXED",
    sender="client",
    note="never long",
    parts=(
        Word("magic", size=2, const=0xCAFE),
        Word("marks", size=1, enum=Marks),
        Word("count", size=1, derived="count ids"),
        Word("size", size=2, order="little", derived="len label"),
        Word("port", size=2, order="little").named("door"),
        Items("ids", 3, "count", doc="who"),
        Blob("label", "size", text=True, doc="UTF-8"),
        Blob("key", 2, when=When("marks", Marks.HIGH), doc="secret"),
        Blob("tag", 3, text=True),
        Rest("trailing", strict_empty=True),
    ),
)
class Mixed(Toy):
    """One of everything."""

    marks: Marks
    door: int
    ids: tuple[bytes, ...] = ()
    label: str = ""
    key: bytes | None = None
    tag: str = "tag"
    trailing: bytes = b""


def raised(data: bytes, cls: type[Packet], strict: bool = False, **options: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        cls.codec.decode(data, 0, len(data), strict, **options)
    return caught.value


# --- declarations -------------------------------------------------------------------------------


def test_bits_know_their_width_and_range() -> None:
    bits = Bits("level", 4, 7)
    assert (bits.width, bits.mask, bits.is_attribute) == (4, 15, True)
    assert not Bits("kind", 0, 7, derived="code").is_attribute
    assert not Bits("magic", 0, 7, const=0).is_attribute


def test_a_word_without_fields_is_one_field() -> None:
    word = Word("stamp", size=8, doc="when", least=1)
    assert word.bits == (Bits("stamp", 0, 63, doc="when", least=1),)
    assert word.unused == 0
    assert word.named("other") == Word(
        "other", Bits("other", 0, 63, doc="when", least=1), size=8, doc="when"
    )


def test_a_word_knows_its_unused_bits() -> None:
    assert HEAD.unused == 0x000F_0F0E


def test_parts_are_flattened_with_and_without_the_optional_ones() -> None:
    parts = (HEAD, optional(EXTRA, optional(STAMP)), Rest("body"))
    assert flatten(parts, long=False) == (HEAD, Rest("body"))
    assert flatten(parts, long=True) == (HEAD, EXTRA, STAMP, Rest("body"))
    assert words_in(flatten(parts, long=True)) == 4
    assert [name for name, _ in attributes(parts)] == [
        *("colour", "level", "flag", "extra", "stamp", "body")
    ]
    assert [name for name, _ in attributes((Varint("n", "len x", 4), Blob("x", "n")))] == ["x"]


def test_a_code_without_a_name_stays_a_number() -> None:
    assert member(Colour, 5) is Colour.BLUE
    assert member(Colour, 9) == 9
    assert not isinstance(member(Colour, 9), Colour)
    assert member(Marks, 0x81) is Marks.HIGH | Marks.LOW
    assert member(Marks, 0x03) == 3


def test_a_packet_knows_its_declaration() -> None:
    assert (Mixed.code, Mixed.name, Mixed.sender, Mixed.note) == (
        1,
        "MIXED",
        "client",
        "never long",
    )
    assert Mixed(marks=Marks(0), door=1).type_name == "MIXED"
    assert Mixed.codec.cls is Mixed
    assert sorted(Full.codec.forms) == [2, 5]


@pytest.mark.parametrize("names", [("colour",), ("colour", "level", "flag", "size")])
def test_attributes_that_are_not_those_of_the_parts_are_refused(names: tuple[str, ...]) -> None:
    made = type("Odd", (Toy,), {"__annotations__": dict.fromkeys(names, "int")})
    with pytest.raises(TypeError, match="Odd: attributes and parts differ in"):
        packet(code=1, name="ODD", parts=(HEAD,))(made)


@pytest.mark.parametrize("name", ["name", "code", "format", "encode", "note"])
def test_an_attribute_that_every_packet_has_is_refused(name: str) -> None:
    made = type("Odd", (Toy,), {"__annotations__": {name: "int"}})
    with pytest.raises(TypeError, match=rf"Odd: every packet has \['{name}'\]; name the part else"):
        packet(code=1, name="ODD", parts=(Word(name),))(made)


def test_an_unknown_rule_is_refused_when_the_class_is_made() -> None:
    made = type("Odd", (Toy,), {"__annotations__": {}})
    with pytest.raises(TypeError, match="unknown rule 'guess'"):
        packet(code=1, name="ODD", parts=(Word("size", derived="guess"),))(made)


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(layout, name) for name in layout.__all__)
    assert optional(EXTRA) == Optional((EXTRA,))


# --- both directions ----------------------------------------------------------------------------

BOTH_WAYS: list[tuple[str, Packet]] = [
    ("07200010 00000008", Full(level=1)),
    ("07205011 00000008", Full(level=1, flag=1, colour=Colour.BLUE)),
    ("07209020 0000000a 6162", Full(level=2, colour=9, body=b"ab")),
    ("07500010 00000014 00000001 0000000000000002", Full(level=1, extra=1, stamp=2)),
    (
        "07500010 00000015 00000000 ffffffffffffffff 78",
        Full(level=1, extra=0, stamp=2**64 - 1, body=b"x"),
    ),
    ("072f0f1e 00000008", Full(level=1, unused=(0x000F0F0E,))),
    ("cafe 00 00 0000 0100 746167", Mixed(marks=Marks(0), door=1)),
    (
        "cafe 81 02 0300 0201 616263 646566 c3a978 4b4b 746167 ffff",
        Mixed(
            marks=Marks.HIGH | Marks.LOW,
            door=0x102,
            ids=(b"abc", b"def"),
            label="éx",
            key=b"KK",
            trailing=b"\xff\xff",
        ),
    ),
]


def codec_decode(data: bytes, cls: type[Packet], strict: bool = False) -> Packet:
    words = data[1] >> 4 if cls is Full else None
    return cls.codec.decode(data, 0, len(data), strict, words)


@pytest.mark.parametrize(("text", "made"), BOTH_WAYS)
def test_bytes_and_packets_belong_together(text: str, made: Packet) -> None:
    data = bytes.fromhex(text)
    assert codec_decode(data, type(made)) == made
    assert made.encode() == data
    assert pickle.loads(pickle.dumps(made)) == made
    again = type(made).from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    assert {type(value) for value in dataclasses.astuple(again)} == {  # type: ignore[call-overload]
        type(value)
        for value in dataclasses.astuple(made)  # type: ignore[call-overload]
    }
    assert made.outline().length == len(data)


def test_a_packet_is_read_anywhere_in_the_data() -> None:
    data = b"??" + Full(level=1, body=b"ab").encode() + b"??"
    assert Full.codec.decode(data, 2, len(data) - 2, False, 2) == Full(level=1, body=b"ab")
    with pytest.raises(DecodeError) as caught:
        Full.codec.decode(data, 2, len(data) - 1, False, 2)
    assert (caught.value.code, caught.value.offset) == ("inner_length", 6)


@given(st.binary(min_size=8, max_size=40), st.booleans(), st.sampled_from([2, 5]))
def test_what_is_accepted_is_written_back_to_the_same_bytes(
    noise: bytes, strict: bool, words: int
) -> None:
    head = bytes([7, words << 4 | noise[1] & 15]) + noise[2:4] + len(noise).to_bytes(4, "big")
    for cls, data in ((Full, head + noise[8:]), (Mixed, b"\xca\xfe" + noise)):
        try:
            made = codec_decode(data, cls, strict)
        except DecodeError:
            continue
        assert made.encode() == data


# --- what cannot be read ------------------------------------------------------------------------

FULL = Full(level=3).encode()
MIXED = Mixed(marks=Marks.HIGH, door=1, ids=(b"abc",), label="xy", key=b"KK").encode()


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        (b"", "payload_short", "head", 0),
        (FULL[:4], "payload_short", "length", 4),
        (FULL[:7], "payload_short", "length", 4),
        (FULL + b"x", "inner_length", "length", 4),
        (bytes.fromhex("0720000000000008"), "illegal_value", "level", 0),
    ],
)
def test_an_error_in_words_names_the_word(data: bytes, code: str, path: str, offset: int) -> None:
    error = raised(data, Full)
    assert (error.code, error.path, error.offset) == (code, path, offset)


@pytest.mark.parametrize(
    ("data", "code", "path", "offset"),
    [
        (b"\xca\xfd" + MIXED[2:], "magic", "magic", 0),
        (MIXED[:1], "payload_short", "magic", 0),
        (MIXED[:3], "payload_short", "count", 3),
        (MIXED[:7], "payload_short", "door", 6),
        (MIXED[:10], "inner_length", "ids", 8),
        (MIXED[:12], "inner_length", "label", 11),
        (MIXED[:14], "payload_short", "key", 13),
        (MIXED[:17], "payload_short", "tag", 15),
        (MIXED[:11] + b"x\xff" + MIXED[13:], "utf8", "label", 12),
    ],
)
def test_an_error_in_parts_names_the_part(data: bytes, code: str, path: str, offset: int) -> None:
    error = raised(data, Mixed)
    assert (error.code, error.path, error.offset) == (code, path, offset)
    if isinstance(error, TruncatedError):
        assert error.offset + error.available == len(data)
        assert error.needed > error.available


def test_strict_rejects_unused_bits_low_values_and_trailing_bytes() -> None:
    low, unused = Full(level=2), Full(level=3, unused=(2,))
    trailing = Mixed(marks=Marks(0), door=1, trailing=b"x")
    for made, code, path in (
        (low, "illegal_value", "level"),
        (unused, "unused", ""),
        (trailing, "trailing", "trailing"),
    ):
        data = made.encode()
        assert codec_decode(data, type(made)) == made
        error = raised(data, type(made), strict=True)
        assert (error.code, error.path) == (code, path)
    assert codec_decode(FULL, Full, strict=True) == Full(level=3)


@packet(code=2, name="PLAIN", parts=(Word("plain", Bits("low", 0, 3), size=1),))
class Plain(Toy):
    """Unused bits, which it does not keep, and no rest."""

    low: int


def test_bytes_left_over_and_lost_bits() -> None:
    assert raised(b"\x01?", Plain).code == "trailing"
    assert codec_decode(b"\xf1", Plain) == Plain(low=1)
    assert raised(b"\xf1", Plain, strict=True).code == "unused"
    assert Plain(low=1).encode() == b"\x01"


def test_fields_that_do_not_agree_are_refused_in_both_directions() -> None:
    data = Full(level=3, colour=Colour.BLUE, body=b"x").encode()
    error = raised(data[:2] + b"\x10" + data[3:], Full)
    assert (error.reason, error.path) == ("a red packet has no body", "body")
    with pytest.raises(EncodeError, match="a red packet has no body"):
        Full(level=3, colour=Colour.RED, body=b"x").encode()


# --- variable numbers ---------------------------------------------------------------------------


@packet(
    code=3,
    name="STRING",
    parts=(Varint("size", "len content", 2, doc="base 128"), Blob("content", "size")),
)
class String(Toy):
    """A string with a length of one or two bytes."""

    content: bytes


@packet(
    code=4,
    name="FRAMED",
    parts=(
        Word("before", size=1, derived="frame"),
        Word("after", size=1, derived="content"),
        Varint("size", "len content", 2),
        Blob("content", "size"),
    ),
)
class Framed(Toy):
    """Lengths of what includes a number of variable length."""

    content: bytes


def test_a_variable_number_counts_in_the_lengths_around_it() -> None:
    for size, head in ((0, "0301 00"), (3, "0604 03"), (200, "ccca c801")):
        data = Framed(content=bytes(size)).encode()
        assert data == bytes.fromhex(head) + bytes(size)
        assert codec_decode(data, Framed) == Framed(content=bytes(size))


@packet(
    code=5,
    name="LED",
    parts=(Blob("head", 4), Word("size", size=1, derived="content"), Rest("tail")),
)
class Led(Toy):
    """Bytes before the word that counts those after it."""

    head: bytes
    tail: bytes


def test_content_is_only_what_follows() -> None:
    assert Led(head=b"head", tail=b"tail!").encode() == b"head\x05tail!"


@packet(code=6, name="SUMMED", parts=(Word("number", size=1), Word("sum", size=1)))
class Summed(Toy):
    """A checksum over the bytes of the packet."""

    number: int
    sum: int = 0

    def flaw(self) -> tuple[str, str] | None:
        right = sum(self.codec.encode(self, with_flaw=True)[:-1])
        return None if right == self.sum else ("sum", "is wrong")


def test_a_checksum_is_computed_from_the_bytes() -> None:
    assert Summed(number=7, sum=7).encode() == b"\7\7"
    with pytest.raises(EncodeError, match="is wrong"):
        Summed(number=7).encode()
    assert (raised(b"\7\6", Summed).path, codec_decode(b"\7\7", Summed).sum) == ("sum", 7)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383])
def test_a_length_in_base_128(size: int) -> None:
    made = String(content=bytes(size))
    data = made.encode()
    assert len(data) == size + (1 if size < 128 else 2)
    assert codec_decode(data, String) == made
    assert made.outline().children[0].value == str(size)


def test_a_length_in_base_128_has_so_many_bytes_at_most() -> None:
    with pytest.raises(EncodeError, match=r"16384 is not a number .* 16383 \(in size"):
        String(content=bytes(16_384)).encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "payload_short"),
        (b"\x80", "payload_short"),
        (b"\x80\x80", "len_overflow"),
        (b"\2x", "inner_length"),
    ],
)
def test_a_bad_length_in_base_128(data: bytes, code: str) -> None:
    assert raised(data, String).code == code


# --- conditional parts --------------------------------------------------------------------------


@packet(
    code=4,
    name="MAYBE",
    parts=(
        Word("marks", size=1, enum=Marks),
        Word("size", size=1, derived="len text"),
        Blob("text", "size", text=True, when=When("marks", 0x01)),
    ),
)
class Maybe(Toy):
    """Text that is there when a mark says so."""

    marks: Marks
    text: str | None = None


def test_a_conditional_part_may_have_a_length_and_be_text() -> None:
    for made, text in (
        (Maybe(marks=Marks.LOW, text="é"), "0102c3a9"),
        (Maybe(marks=Marks.LOW, text=""), "0100"),
        (Maybe(marks=Marks.HIGH), "8000"),
    ):
        data = bytes.fromhex(text)
        assert made.encode() == data
        assert codec_decode(data, Maybe) == made
    for wrong in (Maybe(marks=Marks.LOW), Maybe(marks=Marks.HIGH, text="x")):
        with pytest.raises(EncodeError, match="exactly when marks has 0x1"):
            wrong.encode()


@packet(
    code=5,
    name="SIZED",
    parts=(
        Word("kind", size=1, derived="code"),
        Word("size", size=1, derived="content"),
        Word("more", size=2),
        Rest("body"),
    ),
)
class Sized(Toy):
    """A packet whose length counts what comes behind it."""

    more: int = 0
    body: bytes = b""


def test_a_length_may_count_what_comes_behind_it() -> None:
    assert Sized(body=b"abc").encode() == b"\x05\x05\0\0abc"


@packet(code=6, name="BODY", parts=(Word("words", size=4, derived="words"), optional(Rest("body"))))
class Body(Toy):
    """A long form that is told by its body alone."""

    body: bytes = b""


@packet(code=6, name="LONG", parts=(Word("words", derived="words"), optional(EXTRA, Rest("body"))))
class Long(Toy):
    """A long form whose body may be absent, empty or not."""

    extra: int | None = None
    body: bytes | None = None


def test_the_form_follows_from_what_is_given() -> None:
    assert Long().encode() == b"\0\0\0\1"
    assert Long(extra=0, body=b"").encode() == b"\0\0\0\2\0\0\0\0"
    assert Body(body=b"x").encode() == b"\0\0\0\1x"
    assert Body().encode() == b"\0\0\0\1"
    for wrong in (Long(body=b""), Long(body=b"x"), Full(level=1, stamp=3), Full(level=1, extra=3)):
        with pytest.raises(EncodeError, match="is needed in the long form"):
            wrong.encode()


# --- what cannot be written ---------------------------------------------------------------------


def mixed(**changes: Any) -> Mixed:
    return dataclasses.replace(Mixed(marks=Marks(0), door=1), **changes)


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (Full(level=0), "level"),
        (Full(level=16), "level"),
        (Full(level=1, flag=2), "flag"),
        (Full(level=1, flag=-1), "flag"),
        (Full(level=1, body="x"), "body"),  # type: ignore[arg-type]
        (mixed(ids=(b"ab",)), "ids"),
        (mixed(ids=("abc",)), "ids"),
        (mixed(ids=(b"abc",) * 256), "count"),
        (mixed(label="x" * 65_536), "size"),
        (mixed(label=b"x"), "label"),
        (mixed(label="\ud800"), "label"),
        (mixed(tag="long text"), "tag"),
        (mixed(key=b"KK"), "key"),
        (mixed(marks=Marks.HIGH), "key"),
        (mixed(marks=Marks.HIGH, key=b"K"), "key"),
        (mixed(marks=256), "marks"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(made: Packet, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        made.encode()
    assert caught.value.path == path


@pytest.mark.parametrize(
    "made",
    [
        Full(level="high"),  # type: ignore[arg-type]
        Full(level=None),  # type: ignore[arg-type]
        Full(level=1.5),  # type: ignore[arg-type]
        mixed(door=1.5),
        mixed(ids=5),
        mixed(marks="HIGH"),
    ],
)
def test_a_value_of_the_wrong_kind_is_an_encode_error(made: Packet) -> None:
    with pytest.raises(EncodeError):
        made.encode()


def test_kept_unused_bits_are_kept_inside_their_mask() -> None:
    assert Full(level=1, unused=(0xFFFFFFFF,)).encode()[:4] == bytes.fromhex("072f0f1e")


# --- JSON ---------------------------------------------------------------------------------------


def test_json_names_enums_and_leaves_out_what_is_absent() -> None:
    assert Full(level=1, colour=Colour.BLUE, unused=(2,)).to_dict() == {
        "format": "toy",
        "packet": "FULL",
        "colour": "BLUE",
        "level": 1,
        "flag": 0,
        "unused": [2],
        "note_to_self": "",
    }
    assert mixed(marks=Marks(0x83), key=b"KK", ids=(b"abc",)).to_dict() == {
        "format": "toy",
        "packet": "MIXED",
        "marks": 0x83,
        "door": 1,
        "ids": ["616263"],
        "label": "",
        "key": "4b4b",
        "tag": "tag",
    }
    assert String(content=b"").to_dict()["content"] == ""
    assert "body" not in Long().to_dict()
    assert Long(body=b"").to_dict()["body"] == ""


@pytest.mark.parametrize(
    ("cls", "changes"),
    [
        (Full, {"level": "1"}),
        (Full, {"level": 1.0}),
        (Full, {"level": None}),
        (Full, {"colour": "GREEN"}),
        (Full, {"body": 5}),
        (Full, {"body": "zz"}),
        (Full, {"size": 5}),
        (Full, {"level": ...}),
        (Mixed, {"ids": 5}),
        (Mixed, {"ids": ["x"]}),
        (Mixed, {"label": 5}),
        (Mixed, {"marks": "NONE"}),
    ],
)
def test_a_foreign_object_is_refused(cls: type[Packet], changes: dict[str, Any]) -> None:
    d = {**(Full(level=1) if cls is Full else mixed()).to_dict(), **changes}
    with pytest.raises(EncodeError):
        cls.from_dict({key: value for key, value in d.items() if value is not ...})


def test_json_may_name_a_flag_and_hold_a_code_without_a_name() -> None:
    assert Mixed.from_dict({"marks": "HIGH", "door": 0, "key": "4b4b"}).marks is Marks.HIGH
    made = Full.from_dict({"level": 1, "colour": 9})
    assert made.colour == 9
    assert Full.from_dict({"level": 1, "colour": 5}).colour is Colour.BLUE


# --- for people ---------------------------------------------------------------------------------


def shown(node: Node) -> list[tuple[str, int, int, str, str, str]]:
    return [(n.name, n.offset, n.length, n.value, n.meaning, n.error) for _, n in node.walk()]


def test_the_tree_of_words_and_bits() -> None:
    made = Full(level=1, colour=Colour.BLUE, extra=3, stamp=4, body=b"xy")
    assert shown(made.outline()) == [
        ("FULL", 0, 22, "", "A packet with two forms.", ""),
        ("HEAD", 0, 4, "0x07505010", "", ""),
        ("kind", 0, 4, "7", "", ""),
        ("words", 0, 4, "5", "header length in words", ""),
        ("colour", 0, 4, "5", "BLUE", ""),
        ("level", 0, 4, "1", "", ""),
        ("flag", 0, 4, "0", "", ""),
        ("length", 4, 4, "22", "", ""),
        ("extra", 8, 4, "3", "only in the long form", ""),
        ("stamp", 12, 8, "4", "when", ""),
        ("body", 20, 2, "7879", "", ""),
    ]


def test_the_tree_of_every_kind_of_part() -> None:
    made = mixed(marks=Marks(0x82), ids=(b"abc", b"def"), label="é", key=b"KK", trailing=bytes(33))
    rows = {name: rest for name, *rest in shown(made.outline())}
    assert rows["magic"] == [0, 2, "51966", "", ""]
    assert rows["marks"] == [2, 1, "130", "HIGH|0x2", ""]
    assert rows["ids"] == [8, 6, "2 items", "who", ""]
    assert rows["[1]"] == [11, 3, "646566", "", ""]
    assert rows["label"] == [14, 2, "é", "UTF-8", ""]
    assert rows["key"] == [16, 2, "4b4b", "secret", ""]
    assert rows["trailing"] == [21, 33, "33 bytes", "", ""]
    assert "key" not in {node.name for _, node in mixed().outline().walk()}
    assert "none" in {node.meaning for _, node in mixed().outline().walk()}


def test_the_tree_marks_what_is_illegal() -> None:
    data = bytes.fromhex("07209000 00000008")
    rows = {name: rest for name, *rest in shown(Full.codec.outline(data, 0, 8))}
    assert rows["level"][-1] == "must be at least 1"
    assert rows["colour"][-2:] == ["unknown", ""]
    rows = {
        name: rest for name, *rest in shown(Mixed.codec.outline(b"??" + MIXED[2:], 0, len(MIXED)))
    }
    assert rows["magic"][-1] == "must be 0xcafe"


def test_the_tree_ends_where_the_data_does() -> None:
    for made in (
        Full(level=1, extra=1, stamp=2),
        mixed(ids=(b"abc",), label="x"),
        String(content=bytes(200)),
    ):
        data = made.encode()
        for size in range(len(data)):
            root = made.codec.outline(data[:size], 0, size)
            last = root.children[-1]
            is_whole = made.codec.cls is Full and size >= 8 and data[1] >> 4 == 2
            assert last.end == size
            assert (last.error != "") != is_whole
            assert root.length == size


def test_the_tree_of_a_form_that_is_asked_for() -> None:
    data = Full(level=1, extra=1, stamp=2).encode()
    assert [n.name for n in Full.codec.outline(data, 0, 20, 2).children] == [
        "HEAD",
        "length",
        "body",
    ]
    assert Mixed.codec.outline(MIXED, 0, len(MIXED)).children[0].name == "magic"
    unknown_form = b"\x07\xf0" + data[2:]
    assert Full.codec.outline(unknown_form, 0, 20).children[-1].name == "body"
    assert String.codec.outline(b"\1x", 0, 2).children[-1].value == "78"


def test_a_class_without_a_docstring_has_no_meaning() -> None:
    made = type("Bare", (Toy,), {"__annotations__": {"plain": "int"}})
    bare = packet(code=1, name="BARE", parts=(Word("plain"),))(made)
    bare.__doc__ = None
    assert bare.codec.outline(bytes(4), 0, 4).meaning == ""


def test_the_byte_table_of_words() -> None:
    assert describe(Full) == [
        ("0", "bits 24..31", "kind", ""),
        ("0", "bits 20..23", "words", "header length in words"),
        ("0", "bits 12..15", "colour", "what it looks like; 0 NONE, 1 RED, 5 BLUE"),
        ("0", "bits 4..7", "level", "0 is illegal"),
        ("0", "bit 0", "flag", ""),
        ("4", "4", "length", ""),
        ("8", "4", "extra", "long form; only in the long form"),
        ("12", "8", "stamp", "long form; when"),
        ("8, 20", "rest", "body", ""),
    ]


def test_the_byte_table_of_every_kind_of_part() -> None:
    assert describe(Mixed) == [
        ("0", "2", "magic", "always 0xcafe"),
        ("2", "1", "marks", "128 HIGH, 1 LOW"),
        ("3", "1", "count", ""),
        ("4", "2", "size", ""),
        ("6", "2", "door", ""),
        ("8", "3 × count", "ids", "who"),
        ("…", "size", "label", "UTF-8"),
        ("…", "2", "key", "if marks & 0x80; secret"),
        ("…", "3", "tag", ""),
        ("…", "rest", "trailing", ""),
    ]
    assert describe(String) == [("0", "1..2", "size", "base 128"), ("…", "size", "content", "")]
    assert describe(Sized)[-1] == ("4", "rest", "body", "")


def test_the_byte_table_of_nested_and_variable_optional_parts() -> None:
    @packet(
        code=1,
        name="DEEP",
        parts=(
            Word("first", derived="words"),
            optional(Word("a"), optional(Blob("b", 2))),
            Items("c", 2, "first"),
            optional(Rest("d")),
        ),
    )
    class Deep(Toy):
        a: int | None = None
        b: bytes | None = None
        c: tuple[bytes, ...] = ()
        d: bytes = b""

    assert [row[:3] for row in describe(Deep)] == [
        ("0", "4", "first"),
        ("4", "4", "a"),
        ("8", "2", "b"),
        ("4, 10", "2 × first", "c"),
        ("…", "rest", "d"),
    ]
