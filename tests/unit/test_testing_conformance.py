"""The checks notice what they are there to notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from wireloom.errors import DecodeError, LimitError, TruncatedError
from wireloom.formats import get
from wireloom.framing import Frame, Problem, Record
from wireloom.messages import Message
from wireloom.outline import Node
from wireloom.testing import conformance
from wireloom.testing.conformance import hostile, samples, streams


class Bent:
    """A good format with one method replaced by a bad one."""

    def __init__(self, **changes: Callable[..., Any]) -> None:
        self._good = get("nrep")
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return self._changes.get(name) or getattr(self._good, name)


SAMPLE = bytes.fromhex("00044433221108000000040000006563686f")  # PUBLISH "echo"


def raises(error: Exception) -> Callable[..., Any]:
    def bad(*args: Any, **kwargs: Any) -> Any:
        raise error

    return bad


class BentFramer:
    """A framer whose records are changed on the way out."""

    def __init__(self, change: Callable[[list[Record]], list[Record]]) -> None:
        self._good = get("nrep").framer(limits=get("nrep").check_options({})[0], strict=False)
        self._change = change

    def feed(self, data: bytes) -> list[Record]:
        return self._change(self._good.feed(data))

    def close(self) -> list[Record]:
        return self._change(self._good.close())


@pytest.mark.parametrize("check", conformance.SAMPLE_CHECKS, ids=lambda check: check.__name__)
def test_a_good_format_passes(check: conformance.SampleCheck) -> None:
    check(get("nrep"), "publish", SAMPLE)


def test_a_whole_format_can_be_checked_at_once() -> None:
    with pytest.raises(AssertionError, match="detect") as raised:
        conformance.check(Bent(detect=lambda data: 3))  # type: ignore[arg-type]
    [note] = raised.value.__notes__
    assert note.startswith("nrep: check is_recognised, sample 'discover'")


def test_objects_that_break_a_format_are_told() -> None:
    with pytest.raises(AssertionError, match=r"KeyError\('name'\), not EncodeError, for "):
        hostile.foreign_objects_are_refused(
            Bent(from_dict=raises(KeyError("name")))  # type: ignore[arg-type]
        )


class LineFramer:
    """Frames that nothing but a line feed ends; a line with a digit is wrong."""

    def __init__(self, is_greedy: bool = False) -> None:
        self._is_greedy = is_greedy
        self._data = b""

    def feed(self, data: bytes) -> list[Record]:
        self._data += data
        return []

    def close(self) -> list[Record]:
        records: list[Record] = []
        at = 0
        for line in self._data.splitlines(keepends=True) if b"\n" in self._data else ():
            is_good = line.endswith(b"\n") and line[:-1].isalpha() and line.isascii()
            greedy = self._is_greedy and records and isinstance(records[-1], Problem)
            if is_good and not greedy:
                records.append(Frame("line", at, line))
            else:
                records.append(Problem("line", at, line, "line", "no line", at=at))
            at += len(line)
        return records


def lines(is_greedy: bool) -> Any:
    def decode(data: bytes, **_: Any) -> Message:
        raise DecodeError("not asked for")

    return Bent(
        name="line",
        samples=lambda: {text: f"{text}\n".encode() for text in ("one", "two", "three", "four")},
        framer=lambda **_: LineFramer(is_greedy),
        decode=decode,
    )


def test_a_delimiter_takes_only_the_next_frame_with_it() -> None:
    streams.damage_does_not_spread(lines(is_greedy=False))
    with pytest.raises(AssertionError, match="is lost"):
        streams.damage_does_not_spread(lines(is_greedy=True))


@pytest.mark.parametrize("name", ["blaze", "nais", "nrep", "qform", "tibmsg", "tibrv"])
def test_no_format_here_is_taken_for_one_of_delimiters(name: str) -> None:
    assert streams._delimiter(get(name)) == b""


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (samples.decodes_and_encodes_to_itself, {"decode": lambda d, **o: Other()}),
        (samples.is_one_frame, {"framer": lambda **o: BentFramer(lambda records: [])}),
        (samples.is_recognised, {"detect": lambda data: 49}),
        (samples.is_a_value, {"decode": lambda d, **o: Other()}),
        (samples.survives_json, {"from_dict": lambda d: Other()}),
        (samples.has_a_complete_tree, {"outline": lambda d, **o: Node("x", 0, len(d) - 1)}),
        (samples.has_a_complete_tree, {"outline": lambda d, **o: Node("x", 0, 0, error="why")}),
        (samples.names_its_payloads, {"decode": lambda d, **o: Other()}),
        (samples.shows_in_a_notebook, {"decode": lambda d, **o: Other()}),
        (samples.every_truncation_is_noticed, {"decode": lambda d, **o: Other()}),
        (
            samples.every_truncation_is_noticed,
            {"decode": raises(DecodeError("far away", offset=10_000))},
        ),
        (
            samples.every_truncation_is_noticed,
            {"decode": raises(TruncatedError(needed=1, available=1))},
        ),
        (samples.trailing_bytes_are_ignored_unless_strict, {"decode": lambda d, **o: Other()}),
        (samples.the_frame_limit_holds, {"decode": lambda d, **o: get("nrep").decode(d)}),
        (samples.the_frame_limit_holds, {"decode": raises(LimitError("x", 1, 2))}),
    ],
)
def test_a_bad_format_is_noticed(
    check: conformance.SampleCheck, changes: dict[str, Callable[..., Any]]
) -> None:
    with pytest.raises((AssertionError, LimitError)):
        check(Bent(**changes), "publish", SAMPLE)  # type: ignore[arg-type]


class Other(Message):
    """A message that does everything wrong."""

    format = "other"
    type_name = ""

    def encode(self) -> bytes:
        return b"other"

    def to_dict(self) -> dict[str, Any]:
        return {"value": float("nan")}

    def outline(self) -> Node:
        return Node("other", 3, 50)

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        yield "", b"not there"

    def _repr_html_(self) -> str:
        return "<script>\x1b</script>"


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (streams.is_described, {"types": lambda: []}),
        (streams.is_described, {"samples": dict}),
        (
            streams.any_chunking_gives_the_same_records,
            {"framer": lambda **o: BentFramer(lambda records: records[:1])},
        ),
        (
            streams.offsets_count_from_the_start_of_the_stream,
            {"framer": lambda **o: BentFramer(lambda records: records)},
        ),
        (
            streams.an_empty_stream_has_no_records,
            {"framer": lambda **o: BentFramer(lambda records: [Frame("x", 0, b"")])},
        ),
        (
            streams.buffers_are_not_kept,
            {"framer": lambda **o: BentFramer(lambda records: [*records[1:], *records[:1]])},
        ),
        (
            streams.damage_does_not_spread,
            {"framer": lambda **o: BentFramer(as_problems)},
        ),
        (hostile.nothing_is_not_a_message, {"detect": lambda data: 100}),
        (hostile.nothing_is_not_a_message, {"outline": lambda d, **o: Node("x", 0, 0)}),
        (hostile.only_decode_errors_come_out_of_mutants, {"decode": raises(KeyError("x"))}),
        (hostile.only_decode_errors_come_out_of_noise, {"outline": raises(IndexError("x"))}),
        (hostile.only_decode_errors_come_out_of_noise, {"detect": lambda data: 101}),
        (hostile.no_number_makes_it_allocate, {"detect": None, "outline": lambda d, **o: big(d)}),
        (hostile.unknown_options_are_refused, {"check_options": lambda given: given}),
        (hostile.foreign_objects_are_refused, {"from_dict": raises(KeyError("x"))}),
    ],
)
def test_a_bad_stream_is_noticed(
    check: conformance.FormatCheck, changes: dict[str, Callable[..., Any]]
) -> None:
    with pytest.raises((AssertionError, KeyError, IndexError)):
        check(Bent(**changes))  # type: ignore[arg-type]


def as_problems(records: list[Record]) -> list[Record]:
    """A framer that gives up for good at the first damage."""
    seen = False
    out: list[Record] = []
    for record in records:
        seen = seen or isinstance(record, Problem)
        out.append(Problem("nrep", record.offset, record.data, "x", "y") if seen else record)
    return out


def big(data: bytes) -> Node:
    reserved = bytearray(max(1, int.from_bytes(data[6:10], "little") >> 8))
    return Node("x", 0, 0, error=str(len(reserved)))


def test_examine_tells_messages_from_other_bytes() -> None:
    assert conformance.examine(get("nrep"), SAMPLE, Random(1))
    assert not conformance.examine(get("nrep"), SAMPLE[:-1], Random(1))
    assert not conformance.examine(get("nrep"), b"", Random(1), thorough=False)


def test_examine_takes_options() -> None:
    extension = bytes.fromhex("0050000000000200000061 62")
    assert not conformance.examine(get("nrep"), extension, Random(1))
    assert conformance.examine(get("nrep"), extension, Random(1), extensions=True)


@pytest.mark.parametrize(
    "records",
    [
        [Frame("x", 1, b"abc")],
        [Frame("x", 0, b"ab")],
        [Frame("x", 0, b"ab"), Frame("x", 3, b"c")],
        [Frame("x", 0, b""), Frame("x", 0, b"abc")],
    ],
)
def test_records_must_add_up(records: list[Record]) -> None:
    with pytest.raises(AssertionError):
        streams.check_sum(records, 3)


def test_long_messages_are_cut_at_their_ends_and_between() -> None:
    assert samples.cuts(5) == [0, 1, 2, 3, 4]
    made = samples.cuts(10_000)
    assert made[:3] == [0, 1, 2]
    assert made[-1] == 9_999
    assert len(made) <= samples.MAX_CUTS + 10
