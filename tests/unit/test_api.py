from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import wireloom
from wireloom import Message
from wireloom.errors import DecodeError, EncodeError, OptionError, UnknownProtocolError
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats import REGISTRY, _load
from wireloom.framing import Frame, Framer, Scanner
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import Limits


@dataclass(frozen=True)
class Letter(Message):
    """A marker byte, a length byte, and as many bytes."""

    format = "letters"
    type_name = "LETTER"
    text: bytes

    def encode(self) -> bytes:
        return bytes([0xA5, len(self.text)]) + self.text

    def to_dict(self) -> Json:
        return {"format": self.format, "text": self.text.hex()}

    def outline(self) -> Node:
        return Node("LETTER", 0, len(self.text) + 2)


class Rules:
    has_magic = False

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        if data[pos] != 0xA5:
            raise DecodeError("no marker", offset=pos)
        return 2 + data[pos + 1]

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        return True

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        found = data.find(0xA5, pos, end)
        return end if found < 0 else found


class Letters(Format):
    title = "Letters"
    kind = "message"
    summary = "For this test."
    options = (Option("case", "how to read it", choices=("upper", "lower"), default="lower"),)

    def __init__(self, name: str, marker: int, confidence: int) -> None:
        self.name = name  # type: ignore[misc]
        self.marker = marker
        self.confidence = confidence

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        if data[:1] != b"\xa5":
            raise DecodeError("no marker")
        text = data[2 : 2 + data[1]]
        return Letter(text.upper() if options.get("case") == "upper" else text)

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        return Scanner(self.name, Rules(), limits, offset)

    def detect(self, data: bytes) -> int:
        return self.confidence if data[:1] == bytes([self.marker]) else 0

    def from_dict(self, d: Json) -> Message:
        return Letter(bytes.fromhex(d["text"]))

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        return Node("LETTER", 0, len(data), options.get("case", "lower"))

    def types(self) -> Sequence[TypeInfo]:
        return ()

    def samples(self) -> Mapping[str, bytes]:
        return {}


@pytest.fixture(autouse=True)
def only_these_formats(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry of three small formats, so that these tests are about the API alone."""
    for name in list(REGISTRY):
        monkeypatch.delitem(REGISTRY, name)
    for name, marker, confidence in (("letters", 0xA5, 90), ("likely", 0x01, 60), ("odd", 2, 49)):
        module = ModuleType(f"api_test_{name}")
        module.FORMAT = Letters(name, marker, confidence)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(REGISTRY, name, module.__name__)
    _load.cache_clear()
    yield
    _load.cache_clear()


ONE = b"\xa5\x03abc"


def test_formats_lists_the_registry() -> None:
    assert wireloom.formats() == ("letters", "likely", "odd")


@pytest.mark.parametrize(
    ("data", "found"),
    [(ONE, "letters"), (b"\x01", "likely"), (b"\x02", None), (b"\x03", None), (b"", None)],
)
def test_detect_needs_to_be_sure(data: bytes, found: str | None) -> None:
    assert wireloom.detect(data) == found
    assert wireloom.detect(bytearray(data)) == found


def test_detect_gives_none_when_two_formats_are_equally_sure() -> None:
    twin = Letters("twin", 0xA5, 90)
    sys.modules["api_test_odd"].FORMAT = twin  # type: ignore[attr-defined]
    _load.cache_clear()
    assert wireloom.detect(ONE) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decode_takes_any_bytes_and_finds_the_format(kind: type) -> None:
    assert wireloom.decode(kind(ONE)) == Letter(b"abc")
    assert wireloom.decode(kind(ONE), "letters") == Letter(b"abc")


def test_decode_hands_options_to_the_format() -> None:
    assert wireloom.decode(ONE, case="upper") == Letter(b"ABC")
    with pytest.raises(OptionError):
        wireloom.decode(ONE, case="odd")
    with pytest.raises(OptionError):
        wireloom.decode(ONE, colour="red")


def test_decode_says_when_it_cannot_tell_the_format() -> None:
    with pytest.raises(UnknownProtocolError, match="pass format"):
        wireloom.decode(b"\x03")
    with pytest.raises(UnknownProtocolError, match="no format 'http'"):
        wireloom.decode(ONE, "http")
    with pytest.raises(TypeError):
        wireloom.decode("text")  # type: ignore[arg-type]


def test_encode_is_the_way_back() -> None:
    assert wireloom.encode(wireloom.decode(ONE)) == ONE


def test_scan_takes_one_piece_or_chunks() -> None:
    frames = [Frame("letters", 0, ONE), Frame("letters", 5, ONE)]
    assert list(wireloom.scan(ONE + ONE, "letters")) == frames
    assert list(wireloom.scan([ONE, memoryview(ONE)], "letters", max_frame=10)) == frames


def test_scan_checks_its_arguments_at_once() -> None:
    with pytest.raises(UnknownProtocolError):
        wireloom.scan(ONE, "http")
    with pytest.raises(OptionError):
        wireloom.scan(ONE, "letters", colour="red")


def test_outline_finds_the_format_and_takes_options() -> None:
    assert wireloom.outline(bytearray(ONE)).length == 5
    assert wireloom.outline(ONE, "letters", case="upper").value == "upper"
    with pytest.raises(UnknownProtocolError):
        wireloom.outline(b"\x03")
    with pytest.raises(OptionError):
        wireloom.outline(ONE, colour="red")


def test_from_dict_is_the_way_back_from_to_dict() -> None:
    message = wireloom.decode(ONE)
    assert wireloom.from_dict(message.to_dict()) == message


@pytest.mark.parametrize("given", [{}, {"format": 3}, [], None, "text"])
def test_from_dict_needs_an_object_with_a_format(given: Any) -> None:
    with pytest.raises(EncodeError, match="needs a 'format'"):
        wireloom.from_dict(given)


def test_from_dict_refuses_an_unknown_format() -> None:
    with pytest.raises(UnknownProtocolError):
        wireloom.from_dict({"format": "http"})


def test_lazy_names_are_imported_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module_name in wireloom._LAZY.items():
        module = ModuleType(module_name)
        marker = object()
        setattr(module, name, marker)
        monkeypatch.setitem(sys.modules, module_name, module)
        assert getattr(wireloom, name) is marker
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = wireloom.other  # type: ignore[attr-defined]


def test_decode_all_leaves_nothing_out() -> None:
    two = b"\xa5\x01z"
    assert [each.encode() for each in wireloom.decode_all(ONE + two + ONE)] == [ONE, two, ONE]
    assert wireloom.decode_all(b"") == wireloom.decode_all(b"", "letters") == []
    for rest in (b"\xff", ONE[:-1]):
        with pytest.raises(DecodeError) as caught:
            wireloom.decode_all(ONE + two + rest, "letters")
        assert caught.value.offset >= len(ONE + two)
