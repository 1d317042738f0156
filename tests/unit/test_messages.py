from __future__ import annotations

import pytest

from wireloom import messages
from wireloom.messages import Json, Message
from wireloom.outline import Node


class Note(Message):
    """The least that a message must have."""

    __slots__ = ("text",)
    format = "note"
    type_name = "NOTE"

    def __init__(self, text: str) -> None:
        self.text = text

    def encode(self) -> bytes:
        return self.text.encode()

    def to_dict(self) -> Json:
        return {"format": self.format, "text": self.text}

    def outline(self) -> Node:
        data = self.encode()
        return Node("NOTE", 0, len(data), self.text)


def test_a_message_must_say_how_to_write_and_show_itself() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Message()  # type: ignore[abstract]


def test_a_message_has_no_room_for_stray_attributes() -> None:
    with pytest.raises(AttributeError):
        Note("x").other = 1  # type: ignore[attr-defined]


def test_a_message_carries_nothing_unless_it_says_so() -> None:
    assert list(Note("x").payloads()) == []


def test_a_notebook_shows_hex_beside_the_tree_with_wire_text_escaped() -> None:
    page = Note("<b>\x1b[31m")._repr_html_()
    assert b"<b>".hex(" ") in page
    assert "&lt;b&gt;\\x1b[31m" in page
    assert "<b>" not in page
    assert "\x1b" not in page


def test_exported_names() -> None:
    assert messages.__all__ == ["Json", "Message"]
