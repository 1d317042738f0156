from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from wireloom import codec
from wireloom.errors import InvalidFieldError, LimitError, OptionError, TruncatedError
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats.nrep import SocketData
from wireloom.framing import Framer, Scanner
from wireloom.messages import Json, Message
from wireloom.nesting import Nested, Unreadable, nested
from wireloom.outline import Node
from wireloom.wire import Limits


@dataclass(frozen=True)
class Box(Message):
    """Named byte strings behind a magic and a length."""

    format: ClassVar[str] = "box"
    magic: ClassVar[bytes] = b"BOX!"

    items: tuple[tuple[str, bytes], ...]

    @property
    def type_name(self) -> str:
        return "BOX"

    def encode(self) -> bytes:
        content = b""
        for name, data in self.items:
            content += bytes([len(name)]) + name.encode() + len(data).to_bytes(4, "big") + data
        return self.magic + (8 + len(content)).to_bytes(4, "big") + content

    def to_dict(self) -> Json:
        raise NotImplementedError

    def outline(self) -> Node:
        raise NotImplementedError

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        return iter(self.items)


class Crate(Box):
    format: ClassVar[str] = "crate"
    magic: ClassVar[bytes] = b"CRAT"


class Rules:
    has_magic = True

    def __init__(self, magic: bytes) -> None:
        self.magic = magic

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        if end - pos < 8:
            raise TruncatedError(needed=8, available=end - pos, offset=pos)
        if data[pos : pos + 4] != self.magic:
            raise InvalidFieldError("no magic", offset=pos, code="magic")
        return int.from_bytes(data[pos + 4 : pos + 8], "big")

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        return True

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        found = data.find(self.magic, pos, end)
        return end if found < 0 else found


class BoxFormat(Format):
    name = "box"
    title = "Box"
    kind: ClassVar[Literal["transport", "message"]] = "message"
    summary = "Byte strings."
    options = (Option("wrap", "how", ("paper", "foil"), "paper"),)
    made: type[Box] = Box
    certainty = 95
    given: ClassVar[list[dict[str, Any]]] = []

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        self.given.append({"max_frame": limits.max_frame, "strict": strict, **options})
        items = []
        pos = 8
        while pos < len(data):
            start = pos + 1 + data[pos]
            stop = start + 4 + int.from_bytes(data[start : start + 4], "big")
            if stop > len(data):
                raise TruncatedError(needed=stop, available=len(data), offset=pos, path="items")
            items.append((data[pos + 1 : start].decode(), data[start + 4 : stop]))
            pos = stop
        return self.made(tuple(items))

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        return Scanner(self.name, Rules(self.made.magic), limits, offset)

    def detect(self, data: bytes) -> int:
        return self.certainty if data.startswith(self.made.magic) else 0

    def from_dict(self, d: Json) -> Message:
        raise NotImplementedError

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        raise NotImplementedError

    def types(self) -> Sequence[TypeInfo]:
        return ()

    def samples(self) -> Mapping[str, bytes]:
        return {}


class CrateFormat(BoxFormat):
    name = "crate"
    options = (Option("nails", "how many", default=4),)
    made: type[Box] = Crate


class TruckFormat(BoxFormat):
    """A transport: would take any box, and is never asked."""

    name = "truck"
    kind: ClassVar[Literal["transport", "message"]] = "transport"
    options = (Option("wheels", "how many"),)
    certainty = 100


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Format] = {"box": BoxFormat(), "crate": CrateFormat(), "truck": TruckFormat()}
    monkeypatch.setattr(codec, "names", lambda: tuple(known))
    monkeypatch.setattr(codec, "get", known.__getitem__)
    monkeypatch.setattr(BoxFormat, "given", [])


def box(**items: bytes | Message) -> Box:
    return Box(tuple((n, d if isinstance(d, bytes) else d.encode()) for n, d in items.items()))


def crate(**items: bytes | Message) -> Crate:
    return Crate(box(**items).items)


def socket(data: bytes | Message) -> SocketData:
    return SocketData(socket_id=bytes(10), data=data if isinstance(data, bytes) else data.encode())


def search(message: Message, **options: Any) -> tuple[list[Nested], list[Unreadable]]:
    unreadable: list[Unreadable] = []
    return list(nested(message, on_unreadable=unreadable.append, **options)), unreadable


def paths(message: Message, **options: Any) -> list[str]:
    return [f"{found.path}:{found.format}" for found in nested(message, **options)]


def test_a_message_in_a_message_is_found_with_its_path() -> None:
    inner = crate(text=b"hello")
    outer = box(note=b"no message", gift=inner)
    found, unreadable = search(socket(outer))
    assert found == [Nested("data", "box", outer), Nested("data.gift", "crate", inner)]
    assert unreadable == []


def test_outer_messages_come_first_and_the_order_is_that_of_the_bytes() -> None:
    message = box(a=box(b=crate(), c=crate(d=box())), e=b"?", f=box(g=crate()))
    assert paths(message) == [
        *("a:box", "a.b:crate", "a.c:crate", "a.c.d:box", "f:box", "f.g:crate")
    ]


def test_a_position_is_joined_without_a_dot() -> None:
    message = socket(Box((("[3]", Box((("[0].x", crate().encode()),)).encode()),)))
    assert paths(message) == ["data:box", "data[3]:box", "data[3][0].x:crate"]


def test_several_messages_may_fill_a_payload() -> None:
    one, two = box(a=crate()), box(b=b"?")
    found, unreadable = search(socket(one.encode() + two.encode()))
    assert found == [
        Nested("data[0]", "box", one),
        Nested("data[0].a", "crate", crate()),
        Nested("data[1]", "box", two),
    ]
    assert unreadable == []


def test_data_without_a_magic_is_no_message() -> None:
    for data in (b"", b"\0", b"BOX", b"just data", b"?" + box().encode()):
        assert search(socket(data)) == ([], [])


def test_what_has_a_magic_but_does_not_fill_the_payload_is_reported() -> None:
    good = box(a=b"1").encode()
    for data, code in (
        (good[:-1], "truncated"),
        (good + b"?", "truncated"),
        (good + good[:9], "truncated"),
        (good + bytes(20) + b"?", "magic"),
        (b"BOX!", "truncated"),
    ):
        found, (problem,) = search(socket(data))
        assert found == []
        assert (problem.path, problem.format, problem.data) == ("data", "box", data)
        assert problem.error.code == code
        assert list(nested(socket(data))) == []


def test_the_error_of_a_later_message_counts_from_the_start_of_the_payload() -> None:
    good, broken = box(a=b"1").encode(), bytearray(box(b=b"22").encode())
    broken[13] = 9
    found, (problem,) = search(socket(good + broken))
    assert found == []
    assert (problem.error.offset, problem.error.path) == (len(good) + 8, "items")


def test_a_problem_inside_does_not_hide_its_neighbours() -> None:
    message = box(a=crate(x=b"BOX!"), b=crate(y=box()))
    found, (problem,) = search(message)
    assert [each.path for each in found] == ["a", "b", "b.y"]
    assert problem.path == "a.x"


def test_depth_is_limited_and_what_lies_deeper_is_reported() -> None:
    message = box()
    for _ in range(5):
        message = box(a=message)
    for depth in range(6):
        found, unreadable = search(message, max_depth=depth)
        assert [each.path for each in found] == [
            ".".join("a" * (i + 1)) for i in range(min(depth, 5))
        ]
        assert [(u.path, u.error.code) for u in unreadable] == (
            [(".".join("a" * (depth + 1)), "depth")] if depth < 5 else []
        )


def test_work_is_limited_and_what_goes_beyond_is_reported() -> None:
    piece = crate(x=bytes(100))
    message = box(a=piece, b=piece, c=piece)
    size = len(piece.encode())
    found, (problem,) = search(message, max_bytes=2 * size)
    assert [each.path for each in found] == ["a", "b"]
    assert problem.path == "c"
    assert isinstance(problem.error, LimitError)
    assert (problem.error.value, problem.error.limit) == (3 * size, 2 * size)


def test_hostile_nesting_does_not_reach_the_stack_limit() -> None:
    message = box()
    for _ in range(1500):
        message = box(a=message)
    found, unreadable = search(message, max_depth=10_000)
    assert len(found) == 1500
    assert unreadable == []


def test_messages_are_found_one_by_one() -> None:
    found = nested(box(a=crate(), b=crate()))
    assert next(found).path == "a"
    assert next(found).path == "b"
    with pytest.raises(StopIteration):
        next(found)


def test_the_surest_format_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrateFormat, "made", Box)
    monkeypatch.setattr(CrateFormat, "certainty", 96)
    assert paths(socket(box())) == ["data:crate"]
    monkeypatch.setattr(CrateFormat, "certainty", 89)
    monkeypatch.setattr(BoxFormat, "certainty", 89)
    assert paths(socket(box())) == []


def test_without_formats_of_messages_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "names", lambda: ("truck",))
    assert paths(socket(box())) == []


def test_options_go_to_the_formats_that_have_them() -> None:
    message = box(a=box(), b=crate())
    assert len(paths(message, wrap="foil", nails=9, strict=True, max_frame=99)) == 2
    common = {"max_frame": 99, "strict": True}
    assert BoxFormat.given == [{**common, "wrap": "foil"}, {**common, "nails": 9}]


@pytest.mark.parametrize(
    "options", [{"ribbon": 1}, {"wheels": 4}, {"wrap": "lead"}, {"max_frame": 0}]
)
def test_bad_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        nested(box(), **options)


def test_zeros_behind_a_message_are_padding() -> None:
    good = box(a=b"1")
    found = [Nested("data", "box", good)]
    assert search(socket(good.encode() + bytes(20))) == (found, [])
