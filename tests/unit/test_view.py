from __future__ import annotations

import re

import pytest

from wireloom.outline import Node
from wireloom.view import (
    COLOURS,
    ERROR,
    MAX_ROWS,
    MAX_TEXT,
    byte_colours,
    clip,
    escape,
    hex_rows,
    to_html,
    to_page,
    tree_rows,
)

HOSTILE = "\x1b[31m\u202e<script>\x00\ud800\x85\x7f"


def tree(*leaves: tuple[str, int, int]) -> Node:
    root = Node("root", 0, sum(length for _, _, length in leaves))
    for name, offset, length in leaves:
        root.add(name, offset, length)
    return root


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Grüße", "plain Grüße"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202eabc", "\\u202eabc"),
        ("\x85\x7f", "\\x85\\x7f"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(text).isprintable()


def test_clip_cuts_and_says_so() -> None:
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "ab…"
    assert clip("\x00\x00", 5) == "\\x00…"
    assert len(clip("x" * 10_000)) == MAX_TEXT


def test_hex_rows_have_offset_hex_and_characters() -> None:
    assert list(hex_rows(bytes(range(60, 78)))) == [
        (0, "3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b", "<=>?@ABCDEFGHIJK"),
        (16, "4c 4d", "LM"),
    ]
    assert list(hex_rows(b"\x00~\x7f", 2)) == [(0, "00 7e", "·~"), (2, "7f", "·")]
    assert list(hex_rows(b"")) == []


def test_leaves_take_the_colours_in_turn() -> None:
    root = tree(*[(str(i), i, 1) for i in range(COLOURS + 1)])
    colours = [colour for _, _, colour in tree_rows(root)]
    assert colours == [None, *range(COLOURS), 0]


def test_bit_fields_of_one_word_share_its_colour() -> None:
    root = tree(("version", 0, 4), ("type", 0, 4), ("next", 4, 4))
    assert [colour for _, _, colour in tree_rows(root)] == [None, 0, 0, 1]


def test_containers_and_leaves_without_bytes_have_no_colour() -> None:
    root = tree(("empty", 0, 0), ("body", 0, 2))
    root.children[1].add("x", 0, 1)
    root.children[1].add("y", 1, 1)
    assert [(d, n.name, c) for d, n, c in tree_rows(root)] == [
        (0, "root", None),
        (1, "empty", None),
        (1, "body", None),
        (2, "x", 0),
        (2, "y", 1),
    ]


def test_bytes_have_the_colour_of_their_leaf() -> None:
    root = tree(("a", 0, 2), ("b", 3, 1))
    assert byte_colours(b"12345", root) == [0, 0, None, 1, None]


def test_a_leaf_outside_the_data_paints_nothing() -> None:
    assert byte_colours(b"12", tree(("a", -1, 2), ("b", 1, 99), ("c", 7, 1))) == [0, 1]


def test_bytes_of_a_failed_leaf_are_marked() -> None:
    root = tree(("a", 0, 1), ("b", 1, 2))
    root.children[1].error = "bad"
    assert byte_colours(b"1234", root) == [0, ERROR, ERROR, None]


def test_an_error_without_bytes_marks_where_it_is() -> None:
    root = tree(("a", 0, 3), ("b", 1, 0))
    root.children[1].error = "something is missing"
    assert byte_colours(b"123", root) == [0, ERROR, 0]


def test_a_failed_container_marks_only_what_its_leaves_do_not_explain() -> None:
    root = tree(("a", 0, 2), ("b", 3, 1))
    root.length, root.error = 5, "cut off"
    assert byte_colours(b"12345", root) == [0, 0, ERROR, 1, ERROR]


def test_html_has_dump_and_tree_in_the_same_colours() -> None:
    root = tree(("first", 0, 2), ("second", 2, 1))
    root.children[0].value, root.children[0].meaning = "7", "seven"
    page = to_html(b"\x01\x02A<", root)
    assert "<span class=c0>01 02</span> <span class=c1>41</span> <span>3c</span>" in page
    assert "<td class=c0>  first</td><td>7 <span class=m>seven</span></td>" in page
    assert "··A&lt;" in page
    assert "<td class=m>2</td><td class=m>1</td><td class=c1>  second</td>" in page


def test_html_shows_where_reading_failed() -> None:
    root = tree(("a", 0, 1))
    root.children[0].error = "not a <number>"
    page = to_html(b"\x01", root)
    assert "<span class=e>01</span>" in page
    assert "<span class=e>not a &lt;number&gt;</span>" in page


def test_html_escapes_everything_from_the_wire() -> None:
    root = Node(HOSTILE, 0, 1, HOSTILE, HOSTILE, HOSTILE)
    page = "".join(to_page(HOSTILE, [(HOSTILE, b"<", root)]))
    assert "<script" not in page
    assert all(c == "\n" or c.isprintable() for c in page)
    assert "\\x1b[31m\\u202e&lt;script&gt;\\x00\\ud800\\x85\\x7f" in page


def test_html_of_a_huge_message_stays_small() -> None:
    data = bytes(16 * (MAX_ROWS + 1))
    root = tree(*[("x" * 10_000, 0, 0) for _ in range(MAX_ROWS)])
    page = to_html(data, root)
    assert "… 16 more bytes" in page
    assert "… more fields" in page
    assert page.count("<tr>") == 2 * (MAX_ROWS + 1)
    assert len(page) < 8_000_000


def test_html_of_deep_nesting_has_bounded_indentation() -> None:
    root = node = Node("n", 0, 1)
    for _ in range(1000):
        node = node.add("n", 0, 1)
    assert max(len(spaces) for spaces in re.findall(" +n<", to_html(b"1", root))) < 80


def test_a_page_has_a_heading_for_each_section() -> None:
    page = "".join(to_page("title", [("one", b"1", tree()), ("two", b"", tree())]))
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<h3>") == 2
    assert "<title>title</title>" in page
